// What a kernel before 5.11, or a filter of its time, says of epoll_pwait2: RDMA goes on without
// it, and the process does not ask at every wait.
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/verbs/pair.h"

enum {
    WRITE_COUNT = 50, // the background thread sleeps between them
    ASKED_MAX = 2,    // the thread that sleeps and the one that looks may both ask at first
    CANNOT_RUN = 77,
};

struct refuser {
    int fd;
    int error;
    atomic_uint asked_count;
};

static int filter_install(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_epoll_pwait2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                        &program);
}

static void *refuse(void *ctx)
{
    struct refuser *r = ctx;
    for (;;) {
        struct seccomp_notif request = {0};
        if (ioctl(r->fd, SECCOMP_IOCTL_NOTIF_RECV, &request) != 0) {
            continue;
        }
        atomic_fetch_add(&r->asked_count, 1);
        struct seccomp_notif_resp answer = {.id = request.id, .error = -r->error};
        ioctl(r->fd, SECCOMP_IOCTL_NOTIF_SEND, &answer);
    }
    return NULL;
}

static void write_with_pauses(void)
{
    static struct pair pair;
    struct timespec pause = {.tv_nsec = 1000000};
    pair_init(&pair);
    pair_connect(&pair);
    struct ibv_send_wr wr = {
        .opcode = IBV_WR_RDMA_WRITE,
        .wr.rdma = {.remote_addr = (uintptr_t)pair.b.buf, .rkey = pair.b.mr->rkey}};
    for (unsigned i = 0; i < WRITE_COUNT; i++) {
        pair_post_send(&pair.a, wr, bench_sge(&pair.a, 0, BENCH_BUF_LEN));
        nanosleep(&pause, NULL);
    }
    pair_fini(&pair);
}

// A process of its own, since a filter stays. Its exit status: how often the call was tried.
static int run_refused(int error)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        static struct refuser refuser;
        pthread_t thread;
        refuser.error = error;
        refuser.fd = filter_install();
        if (refuser.fd < 0 || pthread_create(&thread, NULL, refuse, &refuser) != 0) {
            _exit(CANNOT_RUN);
        }
        write_with_pauses();
        unsigned count = atomic_load(&refuser.asked_count);
        _exit(count < CANNOT_RUN ? (int)count : CANNOT_RUN - 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void expect_asked_once(int error)
{
    int asked_count = run_refused(error);
    if (asked_count == CANNOT_RUN) {
        print_message("SKIP: no seccomp notifications here\n");
        skip();
    }
    assert_in_range(asked_count, 1, ASKED_MAX);
}

static void call_that_the_kernel_does_not_know_is_tried_once(void **state)
{
    expect_asked_once(ENOSYS);
}

static void call_that_a_filter_forbids_is_tried_once(void **state)
{
    expect_asked_once(EPERM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(call_that_the_kernel_does_not_know_is_tried_once),
        cmocka_unit_test(call_that_a_filter_forbids_is_tried_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
