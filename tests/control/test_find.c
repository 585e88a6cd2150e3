// Devices are found by the names of their sockets, whoever else has sockets.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "control/find.h"

// Beyond the largest process id that a kernel gives; others may run this test at the same time.
enum { PID_MAX = 1000000000, PID_COUNT = 1000 };

static pid_t first(void)
{
    return PID_MAX + getpid() % 1000000 * PID_COUNT;
}

static int listen_as(const struct process *process, bool listens)
{
    struct sockaddr_un addr;
    socklen_t len = process_address(process, &addr);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&addr, len), 0);
    assert_true(!listens || listen(fd, 1) == 0);
    return fd;
}

// Those of this test, among all there are.
static size_t found_here(struct process *ret, size_t max)
{
    struct process *processes;
    size_t count, own = 0;
    assert_int_equal(processes_find(PROCESS_DEVICE, &processes, &count), 0);
    for (size_t i = 0; i < count; i++) {
        assert_true(i == 0 || processes[i - 1].pid < processes[i].pid); // by pid, each once
        if (processes[i].pid >= first() && processes[i].pid < first() + PID_COUNT && own < max) {
            ret[own++] = processes[i];
        }
    }
    free(processes);
    return own;
}

static void who_listens_is_found_by_pid(void **state)
{
    const struct process processes[] = {
        {.uid = 7, .pid = first() + 30},
        {.uid = 8, .pid = first() + 10},
        {.uid = 7, .pid = first() + 20}, // bound, but nobody answers there
    };
    struct process found[4];
    int fd[3];
    assert_int_equal(found_here(found, 4), 0);
    for (unsigned i = 0; i < 3; i++) {
        fd[i] = listen_as(&processes[i], i < 2);
    }
    assert_int_equal(found_here(found, 4), 2);
    assert_int_equal(found[0].pid, first() + 10);
    assert_int_equal(found[0].uid, 8);
    assert_int_equal(found[0].path[0], '\0');
    assert_int_equal(found[1].pid, first() + 30);
    assert_int_equal(found[1].uid, 7);
    close(fd[0]);
    assert_int_equal(found_here(found, 4), 1);
    close(fd[1]);
    close(fd[2]);
    assert_int_equal(found_here(found, 4), 0);
}

static void looking_leaves_nothing_open(void **state)
{
    struct process found[1];
    int next = dup(0); // the lowest that is free
    close(next);
    found_here(found, 1);
    assert_int_equal(dup(0), next);
    close(next);
}

// More than an array begins with.
static void many_are_found(void **state)
{
    enum { MANY = 100 };
    static struct process found[MANY + 1];
    int fd[MANY];
    for (int i = 0; i < MANY; i++) {
        fd[i] = listen_as(&(struct process){.uid = 1, .pid = first() + i}, true);
    }
    assert_int_equal(found_here(found, MANY + 1), MANY);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(found[i].pid, first() + i);
        close(fd[i]);
    }
}

static void own_processes_come_first(void **state)
{
    uid_t other = geteuid() + 1;
    struct process processes[] = {{.uid = other, .pid = 1},
                                  {.uid = geteuid(), .pid = 2},
                                  {.uid = other, .pid = 3},
                                  {.uid = geteuid(), .pid = 4}};
    size_t kept = processes_keep_own(processes, 4);
    if (geteuid() == 0) { // whose all are
        assert_int_equal(kept, 4);
        assert_int_equal(processes[0].pid, 1);
    } else {
        assert_int_equal(kept, 2);
        assert_int_equal(processes[0].pid, 2);
        assert_int_equal(processes[1].pid, 4);
    }
}

static void a_process_is_looked_up_by_its_pid(void **state)
{
    static const struct process processes[] = {{.pid = 5}, {.pid = 9}};
    assert_ptr_equal(processes_at(processes, 2, 9), &processes[1]);
    assert_ptr_equal(processes_at(processes, 2, 5), &processes[0]);
    assert_null(processes_at(processes, 2, 6));
    assert_null(processes_at(processes, 1, 9));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_listens_is_found_by_pid),
        cmocka_unit_test(looking_leaves_nothing_open),
        cmocka_unit_test(many_are_found),
        cmocka_unit_test(own_processes_come_first),
        cmocka_unit_test(a_process_is_looked_up_by_its_pid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
