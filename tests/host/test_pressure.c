// Memory pressure: when it begins, how long the kernel's word holds, and a kernel that takes its
// word back. Time is an argument; the kernel's part is in tests/cli/test_pressure.py.
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>
#include <cmocka.h>

#include "host/pressure.h"

static const instant_ns start = 1000 * NS_PER_S;
static const duration_ns calm_after_ns = 5 * NS_PER_S;

static void shortage_lasts_until_nothing_was_told_for_a_while(void **state)
{
    struct pressure p = {.fd = -1};
    assert_int_equal(pressure_timeout_ms(&p, start), -1); // only the kernel's word is awaited
    assert_false(pressure_look(&p, 0, start));
    assert_false(p.is_short);
    assert_true(pressure_look(&p, POLLPRI, start));
    assert_true(p.is_short);
    assert_false(pressure_look(&p, 0, start + calm_after_ns - 1));
    assert_true(p.is_short);
    assert_true(pressure_look(&p, 0, start + calm_after_ns));
    assert_false(p.is_short);
    assert_int_equal(pressure_timeout_ms(&p, start + calm_after_ns), -1);
}

static void each_word_of_the_kernel_prolongs_the_shortage(void **state)
{
    struct pressure p = {.fd = -1};
    const instant_ns again = start + 2 * NS_PER_S;
    assert_true(pressure_look(&p, POLLPRI, start));
    assert_false(pressure_look(&p, POLLPRI, again)); // it was short already
    assert_false(pressure_look(&p, 0, start + calm_after_ns));
    assert_true(p.is_short);
    assert_true(pressure_look(&p, 0, again + calm_after_ns));
}

// poll(2) counts whole milliseconds: rounded down, it would be asked again and again at the end.
static void who_waits_is_woken_when_the_shortage_may_be_over(void **state)
{
    static const duration_ns passed_ns[] = {0, 1, NS_PER_MS, 2 * NS_PER_S + 7, 5 * NS_PER_S - 1};
    struct pressure p = {.fd = -1};
    pressure_look(&p, POLLPRI, start);
    for (unsigned i = 0; i < sizeof passed_ns / sizeof passed_ns[0]; i++) {
        int ms = pressure_timeout_ms(&p, start + passed_ns[i]);
        duration_ns left_ns = calm_after_ns - passed_ns[i];
        assert_true(ms > 0);
        assert_true((duration_ns)ms * NS_PER_MS >= left_ns);
        assert_true((duration_ns)ms * NS_PER_MS <= left_ns + NS_PER_MS);
    }
    assert_int_equal(pressure_timeout_ms(&p, start + calm_after_ns), 0);
    assert_int_equal(pressure_timeout_ms(&p, start + 2 * calm_after_ns), 0);
}

// A kernel that has nothing more to tell reports an error at each poll: the descriptor is given up,
// and a shortage ends all the same.
static void kernel_that_falls_silent_is_asked_no_more(void **state)
{
    static const short errors[] = {POLLERR, POLLNVAL};
    for (unsigned i = 0; i < 2; i++) {
        int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        struct pressure p = {.fd = fd};
        assert_true(pressure_look(&p, POLLPRI | POLLERR, start)); // PSI's own sign: both together
        assert_int_equal(p.fd, fd);
        assert_false(pressure_look(&p, errors[i], start + 1));
        assert_int_equal(p.fd, -1);
        assert_int_equal(fcntl(fd, F_GETFD), -1); // closed
        assert_true(p.is_short);
        assert_true(pressure_look(&p, 0, start + calm_after_ns));
    }
}

static void kernel_is_asked_on_a_descriptor_of_its_own(void **state)
{
    struct pressure p;
    pressure_open(&p);
    assert_false(p.is_short);
    if (p.fd < 0) {
        print_message("SKIP: this kernel tells no memory pressure\n");
        skip();
    }
    struct pollfd look = {.fd = p.fd, .events = POLLPRI};
    assert_true(poll(&look, 1, 0) >= 0);
    assert_int_equal(look.revents & (POLLNVAL | (look.revents & POLLPRI ? 0 : POLLERR)), 0);
    assert_true((fcntl(p.fd, F_GETFD) & FD_CLOEXEC) != 0);
    int fd = p.fd;
    pressure_close(&p);
    assert_int_equal(p.fd, -1);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    pressure_close(&p); // nothing is left to close
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shortage_lasts_until_nothing_was_told_for_a_while),
        cmocka_unit_test(each_word_of_the_kernel_prolongs_the_shortage),
        cmocka_unit_test(who_waits_is_woken_when_the_shortage_may_be_over),
        cmocka_unit_test(kernel_that_falls_silent_is_asked_no_more),
        cmocka_unit_test(kernel_is_asked_on_a_descriptor_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
