// Memory pressure: when it begins, how long the kernel's word holds, and a kernel that takes its
// word back. Time is an argument; the kernel's part is in tests/cli/test_pressure.py, and in
// tests/siw/test_memory.py that of control groups.
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>
#include <cmocka.h>

#include "cgroup/memory.h"
#include "host/pressure.h"

static const instant_ns start = 1000 * NS_PER_S;
static const duration_ns calm_after_ns = 5 * NS_PER_S;

// Nothing is open: what the kernel told comes from the test.
static struct pressure silent(void)
{
    return (struct pressure){.fds = {-1, -1}, .events = {.fd = -1, .stall_fd = -1}};
}

static bool look(struct pressure *p, short revents, instant_ns now)
{
    const struct pollfd polled[PRESSURE_SOURCE_COUNT] = {[PRESSURE_MACHINE] = {.revents = revents}};
    return pressure_look(p, polled, now);
}

// A descriptor that can be read, as a trigger of the kernel's can.
static struct pressure told(void)
{
    struct pressure p = silent();
    p.fds[PRESSURE_MACHINE] = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    assert_true(p.fds[PRESSURE_MACHINE] >= 0);
    return p;
}

static void shortage_lasts_until_nothing_was_told_for_a_while(void **state)
{
    struct pressure p = told();
    assert_int_equal(pressure_timeout_ms(&p, start), -1); // only the kernel's word is awaited
    assert_false(look(&p, 0, start));
    assert_false(p.is_short);
    assert_true(look(&p, POLLPRI, start));
    assert_true(p.is_short);
    assert_false(look(&p, 0, start + calm_after_ns - 1));
    assert_true(p.is_short);
    assert_true(look(&p, 0, start + calm_after_ns));
    assert_false(p.is_short);
    assert_int_equal(pressure_timeout_ms(&p, start + calm_after_ns), -1);
    pressure_close(&p);
}

static void each_word_of_the_kernel_prolongs_the_shortage(void **state)
{
    struct pressure p = told();
    const instant_ns again = start + 2 * NS_PER_S;
    assert_true(look(&p, POLLPRI, start));
    assert_false(look(&p, POLLPRI, again)); // it was short already
    assert_false(look(&p, 0, start + calm_after_ns));
    assert_true(p.is_short);
    assert_true(look(&p, 0, again + calm_after_ns));
    pressure_close(&p);
}

// Else a shortage that comes and goes would change the allotment at each coming and going.
static void shortage_that_comes_back_lasts_twice_as_long(void **state)
{
    struct pressure p = told();
    unsigned changes = 0;
    for (instant_ns t = 0; t < 600; t++) { // each ten seconds for one second, ten minutes long
        changes += look(&p, t % 10 == 0 ? POLLPRI : 0, start + t * NS_PER_S);
    }
    assert_true(p.is_short);
    assert_int_equal(changes, 3); // short, over after 5 s, short again and for good
    changes = 0;
    for (instant_ns t = 600; t < 1200; t++) {
        changes += look(&p, 0, start + t * NS_PER_S);
    }
    assert_int_equal(changes, 1);
    look(&p, POLLPRI, start + 1200 * NS_PER_S); // long after, it is as the first time
    assert_true(look(&p, 0, start + 1205 * NS_PER_S));
    pressure_close(&p);
}

// poll(2) counts whole milliseconds: rounded down, it would be asked again and again at the end.
static void who_waits_is_woken_when_the_shortage_may_be_over(void **state)
{
    static const duration_ns passed_ns[] = {0, 1, NS_PER_MS, 2 * NS_PER_S + 7, 5 * NS_PER_S - 1};
    struct pressure p = told();
    look(&p, POLLPRI, start);
    for (unsigned i = 0; i < sizeof passed_ns / sizeof passed_ns[0]; i++) {
        int ms = pressure_timeout_ms(&p, start + passed_ns[i]);
        duration_ns left_ns = calm_after_ns - passed_ns[i];
        assert_true(ms > 0);
        assert_true((duration_ns)ms * NS_PER_MS >= left_ns);
        assert_true((duration_ns)ms * NS_PER_MS <= left_ns + NS_PER_MS);
    }
    assert_int_equal(pressure_timeout_ms(&p, start + calm_after_ns), 0);
    assert_int_equal(pressure_timeout_ms(&p, start + 2 * calm_after_ns), 0);
    pressure_close(&p);
}

// A kernel that has nothing more to tell reports an error at each poll: the descriptor is given up,
// and a shortage ends all the same.
static void kernel_that_falls_silent_is_asked_no_more(void **state)
{
    static const short errors[] = {POLLERR, POLLNVAL};
    for (unsigned i = 0; i < 2; i++) {
        struct pressure p = told();
        const int fd = p.fds[PRESSURE_MACHINE];
        assert_true(look(&p, POLLPRI | POLLERR, start)); // PSI's own sign: both together
        assert_int_equal(p.fds[PRESSURE_MACHINE], fd);
        assert_false(look(&p, errors[i], start + 1));
        assert_int_equal(p.fds[PRESSURE_MACHINE], -1);
        assert_int_equal(fcntl(fd, F_GETFD), -1); // closed
        assert_true(p.is_short);
        assert_true(look(&p, 0, start + calm_after_ns));
    }
}

// ... and a group that is gone reports news at each poll, and cannot be read.
static void group_that_is_gone_is_asked_no_more(void **state)
{
    struct pressure p = silent();
    p.fds[PRESSURE_GROUP] = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(p.fds[PRESSURE_GROUP] >= 0);
    const struct pollfd polled[PRESSURE_SOURCE_COUNT] = {
        [PRESSURE_GROUP] = {.revents = POLLPRI | POLLERR}};
    assert_false(pressure_look(&p, polled, start));
    assert_int_equal(p.fds[PRESSURE_GROUP], -1);
    assert_false(p.is_short);
}

static void kernel_is_asked_on_a_descriptor_of_its_own(void **state)
{
    struct pressure p;
    const struct cgroup_memory no_group = {.folder = ""};
    struct pollfd asked[PRESSURE_SOURCE_COUNT];
    pressure_open(&p, &no_group);
    assert_false(p.is_short);
    if (!pressure_is_told(&p)) {
        print_message("SKIP: this kernel tells no memory pressure\n");
        skip();
    }
    pressure_poll_set(&p, asked);
    assert_true(poll(asked, PRESSURE_SOURCE_COUNT, 0) >= 0);
    const short revents = asked[PRESSURE_MACHINE].revents;
    assert_int_equal(revents & (POLLNVAL | (revents & POLLPRI ? 0 : POLLERR)), 0);
    assert_int_equal(asked[PRESSURE_GROUP].fd, -1);
    int fd = p.fds[PRESSURE_MACHINE];
    assert_true((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    pressure_close(&p);
    assert_false(pressure_is_told(&p));
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    pressure_close(&p); // nothing is left to close
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shortage_lasts_until_nothing_was_told_for_a_while),
        cmocka_unit_test(each_word_of_the_kernel_prolongs_the_shortage),
        cmocka_unit_test(shortage_that_comes_back_lasts_twice_as_long),
        cmocka_unit_test(who_waits_is_woken_when_the_shortage_may_be_over),
        cmocka_unit_test(kernel_that_falls_silent_is_asked_no_more),
        cmocka_unit_test(group_that_is_gone_is_asked_no_more),
        cmocka_unit_test(kernel_is_asked_on_a_descriptor_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
