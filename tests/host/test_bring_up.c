// A process whose environment refuses what the device is made of: the program hears why, nothing is
// left over, and what is not needed is done without. Each environment is that of a child, made by a
// filter of system calls before the device is opened.
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "host/process.h"
#include "rnic/create.h"
#include "tests/link/descriptors.h"

enum { CANNOT_RUN = 77 };

// From now on the process gets `error` from the system calls `first` and `second`.
static bool refuse(int first, int second, int error)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)first, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)second, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

struct environment {
    const char *link;
    int first, second; // what is refused
    int error;
};

static const struct environment *environment;

// What a child finds, as its exit status: 0, or the number of what did not hold.
static int in_child(int (*check)(void))
{
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        setenv("WEFT_LINK", environment->link, 1);
        descriptors_note();
        _exit(refuse(environment->first, environment->second, environment->error) ? check()
                                                                                  : CANNOT_RUN);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == CANNOT_RUN) {
        print_message("SKIP: no filter of system calls to be had\n");
        skip();
    }
    return WEXITSTATUS(status);
}

static int device_is_refused(void)
{
    for (int i = 0; i < 2; i++) { // the second time is like the first: nothing is half made
        int error = 0;
        if (host_rnic(DEVICE_WIRE_IWARP, NULL, &error) != NULL) {
            return 1;
        }
        if (error != -environment->error) {
            return 2;
        }
        if (descriptors_more() != 0) {
            return 3;
        }
    }
    return 0;
}

static void program_is_told_why_there_is_no_device(void **state)
{
    static const struct environment environments[] = {
        {"socket", SYS_getrandom, SYS_getrandom, ENOSYS},
        {"socket", SYS_epoll_create1, SYS_epoll_create1, EMFILE},
        {"socket", SYS_eventfd2, SYS_eventfd2, ENFILE},
        {"socket", SYS_clone, SYS_clone3, EAGAIN}, // the thread
        {"udp", SYS_getrandom, SYS_getrandom, ENOSYS},
        {"udp", SYS_epoll_create1, SYS_epoll_create1, EMFILE},
        {"udp", SYS_clone, SYS_clone3, EAGAIN},
    };
    for (unsigned i = 0; i < sizeof environments / sizeof environments[0]; i++) {
        environment = &environments[i];
        int found = in_child(device_is_refused);
        if (found != 0) {
            fail_msg("environment %u: %d", i, found);
        }
    }
}

static int device_works_alone(void)
{
    int error;
    setenv("WEFT_READ_PRESSURE", "off", 1);
    struct rnic *rnic = host_rnic(DEVICE_WIRE_IWARP, NULL, &error);
    if (rnic == NULL) {
        return 1;
    }
    unsigned more = descriptors_more();
    if (host_rnic(DEVICE_WIRE_IWARP, NULL, &error) != rnic || error != 0 ||
        descriptors_more() != more) {
        return 2;
    }
    return rnic_live(rnic).qps == 0 ? 0 : 3;
}

// Nobody can ask such a process for its counters, no more.
static void device_does_without_a_control_socket(void **state)
{
    static const struct environment environments[] = {
        {"socket", SYS_listen, SYS_listen, EADDRINUSE},
        {"socket", SYS_bind, SYS_bind, EACCES},
    };
    for (unsigned i = 0; i < sizeof environments / sizeof environments[0]; i++) {
        environment = &environments[i];
        assert_int_equal(in_child(device_works_alone), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(program_is_told_why_there_is_no_device),
        cmocka_unit_test(device_does_without_a_control_socket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
