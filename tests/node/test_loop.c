// The event loop: work that no descriptor tells of, beside work that one does; and kernels and
// filters that refuse its way to wait.

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/system_calls.h"
#include "base/time.h"
#include "node/loop/loop.h"

enum { FRAMES = 40, TURNS = 5 };

// A member whose work comes over memory: `left` pieces of it, one a turn; and a descriptor.
struct stage {
    struct loop *loop;
    struct loop_member member;
    struct loop_watch *watch;
    int fd;
    unsigned left, done, events;
    bool never_rests;
};

static instant_ns clock_now; // a microsecond goes by with each look at the clock
static unsigned waits;       // how often the kernel was asked
static int refusal;          // what it says of epoll_pwait2, if not 0

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
    clock_now += NS_PER_US;
    *ret = (struct timespec){.tv_sec = (time_t)(clock_now / NS_PER_S),
                             .tv_nsec = (long)(clock_now % NS_PER_S)};
    return 0;
}

long __real_syscall(long number, ...);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);

long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    waits += number == CALL_EPOLL_PWAIT2;
    if (number == CALL_EPOLL_PWAIT2 && refusal != 0) {
        errno = refusal;
        return -1;
    }
    return __real_syscall(number, a, b, c, d, e, f);
}

static void on_batch_end(void *ctx, instant_ns now)
{
    struct stage *stage = ctx;
    if (stage->left > 0) {
        stage->left--;
        stage->done++;
    }
}

static bool may_sleep(void *ctx)
{
    const struct stage *stage = ctx;
    return !stage->never_rests && stage->left == 0;
}

static void on_ready(void *ctx, uint32_t events)
{
    struct stage *stage = ctx;
    stage->events++;
    loop_stop(stage->loop);
}

static void set(struct stage *stage)
{
    stage->loop = loop_create();
    stage->fd = eventfd(1, EFD_CLOEXEC);
    stage->member =
        (struct loop_member){.ctx = stage, .on_batch_end = on_batch_end, .may_sleep = may_sleep};
    assert_non_null(stage->loop);
    loop_join(stage->loop, &stage->member);
    stage->watch = loop_watch(stage->loop, stage->fd, EPOLLIN, on_ready, stage);
    assert_non_null(stage->watch);
    waits = 0;
}

static void clear(struct stage *stage)
{
    loop_unwatch(stage->watch);
    loop_leave(stage->loop, &stage->member);
    loop_destroy(stage->loop);
    close(stage->fd);
}

static void work_that_comes_over_memory_costs_no_system_call(void **state)
{
    struct stage stage = {.left = FRAMES};
    set(&stage);
    assert_int_equal(loop_run(stage.loop), 0);
    assert_int_equal(stage.done, FRAMES);
    assert_int_equal(waits, 1);
    clear(&stage);
}

static unsigned asked;

static bool may_sleep_when_asked(void *ctx)
{
    asked++;
    return true;
}

// Whether they may sleep: to be ready for that costs some of them something.
static void while_one_has_work_the_others_are_not_asked(void **state)
{
    struct stage stage = {.left = FRAMES};
    struct loop_member other = {.may_sleep = may_sleep_when_asked};
    set(&stage);
    loop_join(stage.loop, &other);
    asked = 0;
    assert_int_equal(loop_run(stage.loop), 0);
    assert_int_equal(asked, 1);
    loop_leave(stage.loop, &other);
    clear(&stage);
}

static void who_always_has_work_does_not_keep_descriptors_waiting(void **state)
{
    struct stage stage = {.never_rests = true};
    set(&stage);
    assert_int_equal(loop_run(stage.loop), 0);
    assert_int_equal(stage.events, 1);
    clear(&stage);
}

// The descriptor is never read: each run is one turn that ends by its event.
static void expect_asked_once(int error)
{
    struct stage stage = {0};
    set(&stage);
    refusal = error;
    for (unsigned i = 0; i < TURNS; i++) {
        assert_int_equal(loop_run(stage.loop), 0);
    }
    refusal = 0;
    assert_int_equal(stage.events, TURNS);
    assert_int_equal(waits, 1);
    clear(&stage);
}

static void wait_that_the_kernel_does_not_know_is_tried_once(void **state)
{
    expect_asked_once(ENOSYS);
}

static void wait_that_a_filter_forbids_is_tried_once(void **state)
{
    expect_asked_once(EPERM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_that_comes_over_memory_costs_no_system_call),
        cmocka_unit_test(while_one_has_work_the_others_are_not_asked),
        cmocka_unit_test(who_always_has_work_does_not_keep_descriptors_waiting),
        cmocka_unit_test(wait_that_the_kernel_does_not_know_is_tried_once),
        cmocka_unit_test(wait_that_a_filter_forbids_is_tried_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
