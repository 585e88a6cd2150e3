// A CHECK stops the process and says where, in builds that leave assert() out too.
#ifndef NDEBUG
#define NDEBUG
#endif
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/check.h"

static void condition_that_holds_goes_on(void **state)
{
    int two = 2;
    CHECK(two == 2);
}

static void condition_that_does_not_hold_stops_the_process(void **state)
{
    int fds[2], status;
    char said[256] = "", expected[256];
    int three = 3;
    assert_int_equal(pipe(fds), 0);
    int line = __LINE__ + 6;
    pid_t pid = fork();
    if (pid == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0});
        signal(SIGABRT, SIG_DFL); // a test program has a handler of its own
        dup2(fds[1], STDERR_FILENO);
        CHECK(three == 2);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    assert_true(read(fds[0], said, sizeof said - 1) > 0);
    snprintf(expected, sizeof expected, "test_check.c:%d: this does not hold: three == 2\n", line);
    assert_non_null(strstr(said, expected));
    close(fds[0]);
    close(fds[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(condition_that_holds_goes_on),
        cmocka_unit_test(condition_that_does_not_hold_stops_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
