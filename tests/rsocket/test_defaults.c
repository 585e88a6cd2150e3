// What sockets begin with, as files of the administrator's say (rsocket(7)).

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "rsocket/rsocket.h"

static char folder[] = "/tmp/weft-test-defaults-XXXXXX";

static void put(const char *in, const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", in, name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static struct rs_defaults read_with(const char *name, const char *text)
{
    struct rs_defaults defaults;
    char path[128];
    put(folder, name, text);
    rs_defaults_read(folder, &defaults);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    unlink(path);
    return defaults;
}

static int begin(void **state)
{
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int end(void **state)
{
    return rmdir(folder);
}

static void each_file_has_its_number(void **state)
{
    assert_int_equal(read_with("mem_default", "1000000\n").options.recv_ring_len, 1000000);
    assert_int_equal(read_with("wmem_default", "300000").options.send_ring_len, 300000);
    assert_int_equal(read_with("sqsize_default", "100").options.sq_size, 100);
    assert_int_equal(read_with("rqsize_default", "200").options.rq_size, 200);
    assert_int_equal(read_with("inline_default", "16").options.inline_len, 16);
    assert_int_equal(read_with("iomap_size", "4").options.iomap_count, 4);
    assert_int_equal(read_with("polling_time", "50").spin_ns, 50 * 1000);
}

static void numbers_are_made_to_fit(void **state)
{
    assert_int_equal(read_with("mem_default", "-1").options.recv_ring_len, RS_RING_MIN);
    assert_int_equal(read_with("mem_default", "99999999999").options.recv_ring_len, RS_RING_MAX);
    assert_int_equal(read_with("wmem_default", "100001").options.send_ring_len, 100000);
    assert_int_equal(read_with("sqsize_default", "70000").options.sq_size, RS_QP_SIZE_MAX);
    assert_int_equal(read_with("inline_default", "100000").options.inline_len, RS_INLINE_MAX);
    assert_int_equal(read_with("polling_time", "-3").spin_ns, 0);
}

static void what_is_no_number_or_not_there_changes_nothing(void **state)
{
    struct rs_defaults without;
    rs_defaults_read(folder, &without);
    const struct rs_defaults with = read_with("mem_default", "much\n");
    assert_memory_equal(&with, &without, sizeof with);
    assert_int_equal(without.options.recv_ring_len, 1 << 17);
}

enum { DONE = 0, FAILED = 1, NOT_ALLOWED = 2 };

static int of_host(void)
{
    int len = 0;
    socklen_t room = sizeof len;
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", "/etc", "tmpfs", 0, NULL) != 0) {
        return NOT_ALLOWED;
    }
    mkdir("/etc/rdma", 0755);
    mkdir("/etc/rdma/rsocket", 0755);
    put("/etc/rdma/rsocket", "mem_default", "1000000\n");
    int fd = rsocket(AF_INET, SOCK_STREAM, 0);
    return rgetsockopt(fd, SOL_SOCKET, SO_RCVBUF, &len, &room) == 0 && len == 1000000 ? DONE
                                                                                      : FAILED;
}

// In a process of its own, which sees another /etc.
static void a_socket_begins_with_the_hosts(void **state)
{
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        _exit(of_host());
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == NOT_ALLOWED) {
        print_message("SKIP: this process may have no /etc of its own\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), DONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_file_has_its_number),
        cmocka_unit_test(numbers_are_made_to_fit),
        cmocka_unit_test(what_is_no_number_or_not_there_changes_nothing),
        cmocka_unit_test(a_socket_begins_with_the_hosts),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
