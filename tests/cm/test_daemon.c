// A process that has closed its standard input, output and error, as daemons do: what the libraries
// open has none of these numbers, which the program uses again as it likes.

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/cm/loopback.h"
#include "tests/verbs/roce.h"

enum { DAEMON_LIMIT_S = 60, STANDARD_COUNT = 3, GAVE_NUMBER = 10 };

static int standard_in_use(void)
{
    for (int fd = 0; fd < STANDARD_COUNT; fd++) {
        if (fcntl(fd, F_GETFD) != -1 || errno != EBADF) {
            return GAVE_NUMBER + fd;
        }
    }
    return 0;
}

// In a process of its own: connects, listens and ends.
static int daemon_run(void)
{
    struct loopback l;
    alarm(DAEMON_LIMIT_S);
    for (int fd = 0; fd < STANDARD_COUNT; fd++) {
        close(fd);
    }
    loopback_open(&l);
    const int during = standard_in_use();
    loopback_close(&l);
    return during != 0 ? during : standard_in_use();
}

static int daemon_status(const char *wire, const char *link)
{
    int status = -1;
    const pid_t pid = fork();
    if (pid == 0) {
        setenv("WEFT_WIRE", wire, 1);
        setenv("WEFT_LINK", link, 1);
        execl("/proc/self/exe", "test_daemon", "run", (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void test_no_descriptor_of_iwarp_has_a_standard_number(void **state)
{
    assert_int_equal(daemon_status("iwarp", "socket"), 0);
    assert_int_equal(daemon_status("iwarp", "udp"), 0);
}

static void test_no_descriptor_of_roce_has_a_standard_number(void **state)
{
    assert_int_equal(daemon_status("roce", "socket"), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_descriptor_of_iwarp_has_a_standard_number),
        cmocka_unit_test(test_no_descriptor_of_roce_has_a_standard_number),
    };
    if (argc == 2) {
        return daemon_run();
    }
    roce_port_of_own();
    return cmocka_run_group_tests_name("cm/daemon", tests, NULL, NULL);
}
