// Pushes into another process' memory, and taking them back: whatever becomes of the pusher, no
// octet comes behind a revocation.
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/prng.h"
#include "base/time.h"
#include "link/local/slot.h"
#include "link/local/thread.h"

enum {
    STAG = 0x12345678,
    PD = 3,
    LONG_LEN = 64 << 10, // a call that takes a while
    TARGET_LEN = 2 * LONG_LEN,
    PAGE = 4096
};

// What the pusher, a child of ours, and we have in common.
struct common {
    struct key_mirror mirror;
    struct local_slot slot;
    struct local_gate gate;
    _Atomic uint64_t pushed, refused; // times
    _Atomic uint64_t step;
};

static struct common *c;
static uint8_t *target; // ours alone
static uint8_t *sill;
static uint8_t source[LONG_LEN];
static uint64_t generation;
static unsigned looks; // that found somebody in
static struct prng prng;

static instant_ns now_of_test(void *ctx)
{
    struct timespec t;
    (void)ctx;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (instant_ns)t.tv_sec * NS_PER_S + (instant_ns)t.tv_nsec;
}

static void spin(duration_ns time_ns)
{
    instant_ns until = instant_after(now_of_test(NULL), time_ns);
    while (now_of_test(NULL) < until) {
    }
}

static void show(void)
{
    const struct key key = {.generation = ++generation,
                            .stag = STAG,
                            .pd = PD,
                            .length = TARGET_LEN,
                            .addr = (uint64_t)(uintptr_t)target};
    assert_true(key_mirror_show(&c->mirror, &key));
}

static void *memory(size_t len, int flags)
{
    void *at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | flags, -1, 0);
    assert_true(at != MAP_FAILED);
    return at;
}

static int begin(void **state)
{
    c = memory(sizeof *c, MAP_SHARED);
    target = memory(TARGET_LEN, MAP_PRIVATE);
    sill = memory(PAGE, MAP_PRIVATE);
    memset(source, 0xaa, sizeof source);
    looks = 0;
    c->gate.opening = 1;
    c->gate.sill = (uint64_t)(uintptr_t)sill;
    show();
    return 0;
}

static int end(void **state)
{
    munmap(c, sizeof *c);
    munmap(target, TARGET_LEN);
    munmap(sill, PAGE);
    return 0;
}

static struct local_pusher pusher(void)
{
    return (struct local_pusher){.slot = &c->slot,
                                 .gate = &c->gate.opening,
                                 .opening = 1,
                                 .sill = (uint64_t)(uintptr_t)sill,
                                 .process = getppid()};
}

static void take_away(uint64_t withdrawn, pid_t child)
{
    while (!local_slot_revoke(&c->slot, withdrawn, child)) {
        looks++;
        sched_yield();
    }
}

static void take_back(pid_t child)
{
    take_away(key_mirror_withdraw(&c->mirror, STAG), child);
}

static bool enter(const struct local_pusher *p, uint64_t to, size_t len)
{
    struct key key;
    uint64_t addr;
    return key_mirror_find(&c->mirror, STAG, &key) && key_resolve(&key, PD, to, len, &addr) &&
           local_slot_enter(p, &key, addr, len);
}

static int push(const struct local_pusher *p, uint64_t to, size_t len)
{
    int error = -ENOENT;
    if (enter(p, to, len)) {
        error = local_slot_call(p, source, len);
        local_slot_leave(p);
    }
    return error;
}

// A child that pushes as `body` says; it ends with 0 unless something fails.
static pid_t child_of(void (*body)(const struct local_pusher *p))
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); // a case that fails leaves nobody who pushes
        struct local_pusher p = pusher();
        body(&p);
        _exit(0);
    }
    return child;
}

static void await_child(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void await_stop(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(WIFSTOPPED(status));
}

static void await_step(uint64_t step)
{
    while (atomic_load(&c->step) < step) {
        sched_yield(); // there may be one processor for both
    }
}

static size_t octets_that_are(uint8_t octet)
{
    size_t count = 0;
    for (size_t i = 0; i < TARGET_LEN; i++) {
        count += target[i] == octet;
    }
    return count;
}

static void must(bool holds)
{
    if (!holds) {
        _exit(1);
    }
}

/* ---- pushing --------------------------------------------------------------------------------- */

static void push_some(const struct local_pusher *p)
{
    must(push(p, 10, 1) == 0);
    must(push(p, 100, 1000) == 0);
    must(push(p, 5000, LONG_LEN) == 0);
}

static void octets_come_where_the_key_says_and_nowhere_else(void **state)
{
    await_child(child_of(push_some));
    assert_int_equal(octets_that_are(0xaa), 1 + 1000 + LONG_LEN);
    assert_int_equal(target[10], 0xaa);
    assert_int_equal(target[100], 0xaa);
    assert_int_equal(target[1099], 0xaa);
    assert_int_equal(target[5000 + LONG_LEN - 1], 0xaa);
    assert_int_equal(atomic_load(&c->slot.generation), 0);
}

static void push_in_vain(const struct local_pusher *p)
{
    must(push(p, 0, 64) == -ENOENT);
    must(atomic_load(&p->slot->generation) == 0);
}

static void nobody_comes_in_by_a_key_that_is_withdrawn(void **state)
{
    take_back(getpid());
    await_child(child_of(push_in_vain));
    assert_int_equal(octets_that_are(0xaa), 0);
}

static void push_by_an_old_key(const struct local_pusher *p)
{
    struct key key;
    must(key_mirror_find(&c->mirror, STAG, &key));
    atomic_store(&c->step, 1);
    await_step(2);
    must(!local_slot_enter(p, &key, key.addr, 64));
}

// It was read before; the same STag stands for something else now.
static void nobody_comes_in_by_a_key_of_the_same_name(void **state)
{
    pid_t child = child_of(push_by_an_old_key);
    await_step(1);
    take_back(child);
    show();
    atomic_store(&c->step, 2);
    await_child(child);
}

static void nobody_comes_in_by_a_gate_that_was_closed(void **state)
{
    atomic_store(&c->gate.opening, 0);
    await_child(child_of(push_in_vain));
    atomic_store(&c->gate.opening, 2); // and opened for somebody else
    await_child(child_of(push_in_vain));
    assert_int_equal(octets_that_are(0xaa), 0);
}

static void push_into_another_image(const struct local_pusher *p)
{
    must(push(p, 0, 64) == -EFAULT);
}

// As behind exec, or in a process that has inherited the number.
static void nothing_is_written_where_the_sill_is_missing(void **state)
{
    assert_int_equal(mprotect(sill, PAGE, PROT_NONE), 0);
    await_child(child_of(push_into_another_image));
    assert_int_equal(octets_that_are(0xaa), 0);
}

static void push_of_every_length(const struct local_pusher *p)
{
    for (uint64_t len = 1; len <= 600; len++) {
        memset(source, (int)(len % 255) + 1, len);
        await_step(len);
        must(push(p, len % 9, (size_t)len) == 0);
    }
}

static void who_sees_the_last_octet_sees_all(void **state)
{
    pid_t child = child_of(push_of_every_length);
    for (uint64_t len = 1; len <= 600; len++) {
        const uint8_t octet = (uint8_t)(len % 255 + 1);
        const uint8_t *at = target + len % 9;
        memset(target, 0, 640);
        atomic_store(&c->step, len);
        while (__atomic_load_n(&at[len - 1], __ATOMIC_ACQUIRE) != octet) {
            sched_yield();
        }
        for (uint64_t i = 0; i < len; i++) {
            assert_int_equal(__atomic_load_n(&at[i], __ATOMIC_RELAXED), octet);
        }
    }
    await_child(child);
}

/* ---- taking back ----------------------------------------------------------------------------- */

static void stop_before_the_call(const struct local_pusher *p)
{
    must(enter(p, 0, LONG_LEN));
    raise(SIGSTOP);
    must(local_slot_call(p, source, LONG_LEN) == -EFAULT);
    local_slot_leave(p);
    must(push(p, 0, 64) == -ENOENT);
}

static void a_pusher_stopped_before_the_call_is_not_waited_for_and_writes_nothing(void **state)
{
    pid_t child = child_of(stop_before_the_call);
    await_stop(child);
    take_back(child);
    assert_int_equal(looks, 0);
    assert_int_equal(kill(child, SIGCONT), 0);
    await_child(child);
    assert_int_equal(octets_that_are(0xaa), 0);
}

static void linger_inside(const struct local_pusher *p)
{
    must(enter(p, 0, 64));
    atomic_store(&c->step, 1);
    while (atomic_load(&c->step) < 2) { // a call would show that it is outside
    }
    spin(NS_PER_MS);
    atomic_store(&c->step, 3);
    local_slot_leave(p);
}

// However long it takes.
static void a_pusher_that_runs_is_waited_for(void **state)
{
    pid_t child = child_of(linger_inside);
    await_step(1);
    uint64_t withdrawn = key_mirror_withdraw(&c->mirror, STAG);
    assert_false(local_slot_revoke(&c->slot, withdrawn, child));
    atomic_store(&c->step, 2);
    take_away(withdrawn, child);
    assert_int_equal(atomic_load(&c->step), 3);
    await_child(child);
}

static void die_inside(const struct local_pusher *p)
{
    must(enter(p, 0, 64));
    raise(SIGKILL);
}

static void a_pusher_that_died_is_not_waited_for(void **state)
{
    int status;
    pid_t child = child_of(die_inside);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    assert_true(local_thread_is_out(child, child)); // it has left nothing but its number
    take_back(child);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(local_thread_is_out(child, child));
    assert_true(local_slot_revoke(&c->slot, LOCAL_SLOT_ANY, child));
    assert_int_equal(looks, 0);
}

// What a push says of its thread, it says of the one that makes the call.
static void the_child_of_a_fork_has_a_number_of_its_own(void **state)
{
    assert_int_equal(local_thread_self(), gettid());
    pid_t child = fork();
    if (child == 0) {
        _exit(local_thread_self() == gettid() ? 0 : 1);
    }
    await_child(child);
    assert_int_equal(local_thread_self(), gettid());
}

static void lie_about_the_thread(const struct local_pusher *p)
{
    must(enter(p, 0, 64));
    atomic_store(&p->slot->thread, UINT64_MAX);
    atomic_store(&c->step, 1);
    pause();
}

static void who_names_no_thread_is_not_waited_for(void **state)
{
    int status;
    pid_t child = child_of(lie_about_the_thread);
    await_step(1);
    take_back(child);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
}

static void push_for_ever(const struct local_pusher *p)
{
    struct prng own;
    prng_init(&own, (uint64_t)getpid());
    for (;;) {
        size_t len = 1 + (size_t)prng_below(&own, LONG_LEN);
        if (!enter(p, prng_below(&own, LONG_LEN), len)) {
            atomic_fetch_add(&c->refused, 1);
            continue;
        }
        if (prng_below(&own, 2) == 0) {
            spin(prng_below(&own, 20 * NS_PER_US)); // the instant that matters, made wide
        }
        local_slot_call(p, source, len);
        local_slot_leave(p);
        atomic_fetch_add(&c->pushed, 1);
    }
}

static void await_more(const _Atomic uint64_t *count, uint64_t more)
{
    uint64_t wanted = atomic_load(count) + more;
    while (atomic_load(count) < wanted) {
        sched_yield();
    }
}

static pid_t replace(pid_t child)
{
    int status;
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    return child_of(push_for_ever);
}

// One revocation, under a signal or none; when it returns the memory is ours alone.
static void revoke_under(int number, pid_t *child)
{
    await_more(&c->pushed, 1);
    spin(prng_below(&prng, 40 * NS_PER_US));
    if (number != 0) {
        assert_int_equal(kill(*child, number), 0);
    }
    take_back(*child);
    memset(target, 0x55, TARGET_LEN);
    if (number == SIGKILL) {
        *child = replace(*child);
    } else {
        assert_int_equal(kill(*child, SIGCONT), 0);
    }
    await_more(&c->refused, 2);
    assert_int_equal(octets_that_are(0x55), TARGET_LEN);
}

static void no_octet_comes_behind_a_revocation(void **state)
{
    const unsigned count = getenv("WEFT_SOAK") != NULL ? 10000 : 300;
    prng_init(&prng, 12);
    pid_t child = child_of(push_for_ever);
    for (unsigned i = 0; i < count; i++) {
        static const int numbers[] = {SIGSTOP, SIGSTOP, SIGSTOP, SIGSTOP, 0, 0, SIGKILL, SIGSTOP};
        revoke_under(numbers[i % 8], &child);
        show();
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

// What a call may see half of would be octets in another's place. Nothing but the first place can
// be written to here.
static void taking_back_is_done_by_the_first_place_alone(void **state)
{
    const size_t edge = offsetof(struct local_slot, places[LOCAL_SLOT_BODY]);
    uint8_t *pages = memory((size_t)2 * PAGE, MAP_PRIVATE);
    struct local_pusher p = pusher();
    struct key key;
    p.slot = (struct local_slot *)(void *)(pages + PAGE - edge);
    p.process = getpid();
    assert_true(key_mirror_find(&c->mirror, STAG, &key));
    assert_true(local_slot_enter(&p, &key, key.addr, 1000));
    assert_int_equal(mprotect(pages + PAGE, PAGE, PROT_READ), 0);
    local_slot_revoke(p.slot, LOCAL_SLOT_ANY, getpid());
    assert_int_equal(local_slot_call(&p, source, 1000), -EFAULT);
    assert_int_equal(octets_that_are(0), TARGET_LEN);
    munmap(pages, (size_t)2 * PAGE);
}

#define SLOT_TEST(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SLOT_TEST(octets_come_where_the_key_says_and_nowhere_else),
        SLOT_TEST(nobody_comes_in_by_a_key_that_is_withdrawn),
        SLOT_TEST(nobody_comes_in_by_a_key_of_the_same_name),
        SLOT_TEST(nobody_comes_in_by_a_gate_that_was_closed),
        SLOT_TEST(nothing_is_written_where_the_sill_is_missing),
        SLOT_TEST(who_sees_the_last_octet_sees_all),
        SLOT_TEST(a_pusher_stopped_before_the_call_is_not_waited_for_and_writes_nothing),
        SLOT_TEST(a_pusher_that_runs_is_waited_for),
        SLOT_TEST(a_pusher_that_died_is_not_waited_for),
        SLOT_TEST(the_child_of_a_fork_has_a_number_of_its_own),
        SLOT_TEST(who_names_no_thread_is_not_waited_for),
        SLOT_TEST(taking_back_is_done_by_the_first_place_alone),
        SLOT_TEST(no_octet_comes_behind_a_revocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
