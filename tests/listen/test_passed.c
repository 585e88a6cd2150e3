// Sockets that a service manager passes: whose they are, which one a name means, and what is no
// listener. Each case is a process of its own, whose descriptors from 3 on are the test's.

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/why.h"
#include "listen/passed.h"

enum kind { LISTENER, STREAM, DATAGRAM, PIPE };

static void put_at(int place, enum kind kind)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (kind != PIPE) {
        close(fd);
        fd = socket(AF_INET, kind == DATAGRAM ? SOCK_DGRAM : SOCK_STREAM, 0);
    }
    if (kind == LISTENER && listen(fd, 1) != 0) {
        _exit(EXIT_FAILURE);
    }
    if (fd != place) {
        dup2(fd, place);
        close(fd);
    }
    fcntl(place, F_SETFD, 0);
}

struct passing {
    const char *count, *names; // NULL: not set
    int pid_more;              // than ours
    const char *wanted;
    enum kind kind; // of the first; the other two are listeners
    int result;     // 0: a descriptor
};

// In a process of its own: whether it comes to that.
static int opened(const struct passing *p)
{
    char pid[16];
    struct why why = {""};
    closefrom(3);
    for (int i = 0; i < 3; i++) {
        put_at(3 + i, i == 0 ? p->kind : LISTENER);
    }
    snprintf(pid, sizeof pid, "%d", (int)getpid() + p->pid_more);
    setenv("LISTEN_PID", pid, 1);
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    if (p->count != NULL) {
        setenv("LISTEN_FDS", p->count, 1);
    }
    if (p->names != NULL) {
        setenv("LISTEN_FDNAMES", p->names, 1);
    }
    int fd = passed_open(p->wanted, &why);
    if (p->result < 0) {
        return fd == p->result && strstr(why.text, p->wanted) == why.text;
    }
    bool is_own =
        fd > 5 && (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0 && (fcntl(fd, F_GETFL) & O_NONBLOCK) != 0;
    bool is_left = fcntl(3, F_GETFD) == 0 && fcntl(4, F_GETFD) == 0;
    passed_keep();
    int second = strcmp(p->count, "1") == 0 ? 0 : FD_CLOEXEC; // it was not passed, or it was
    bool is_kept = fcntl(3, F_GETFD) == FD_CLOEXEC && fcntl(4, F_GETFD) == second;
    return is_own && is_left && is_kept;
}

static void expect(const struct passing *p)
{
    int status = -1;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(opened(p) ? EXIT_SUCCESS : EXIT_FAILURE);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (status != 0) {
        fail_msg("%s of %s", p->wanted, p->names != NULL ? p->names : "nothing");
    }
}

static void a_name_means_the_one_socket_that_has_it(void **state)
{
    static const struct passing cases[] = {
        {"3", "a:b:c", 0, "fd:a", LISTENER, 0},
        {"3", "a:b:c", 0, "fd:c", LISTENER, 0},
        {"2", "a:b", 0, "fd:b", PIPE, 0},
        {"3", "a:b:c", 0, "fd:d", LISTENER, -ENOENT},
        {"3", "a:b:c", 0, "fd:", LISTENER, -ENOENT},
        {"3", "ab:b:c", 0, "fd:a", LISTENER, -ENOENT},
        {"3", "a:b:c", 0, "fd:ab", LISTENER, -ENOENT},
        {"3", "a:b:a", 0, "fd:a", LISTENER, -EINVAL}, // which of them?
        {"2", "a:b:c", 0, "fd:c", LISTENER, -ENOENT}, // no more than there are
        {"3", "a", 0, "fd:b", LISTENER, -ENOENT},
        {"3", NULL, 0, "fd:a", LISTENER, -ENOENT},
        {"0", "a:b:c", 0, "fd:a", LISTENER, -ENOENT},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        expect(&cases[i]);
    }
}

// As of sd_listen_fds_with_names(3): clients that start a server themselves name nothing.
static void where_nothing_is_named_all_is_unknown(void **state)
{
    static const struct passing cases[] = {
        {"1", NULL, 0, "fd:unknown", LISTENER, 0},
        {"2", NULL, 0, "fd:unknown", LISTENER, -EINVAL},
        {"0", NULL, 0, "fd:unknown", LISTENER, -ENOENT},
        {"1", NULL, 0, "fd:", LISTENER, -ENOENT},
        {"1", "", 0, "fd:unknown", LISTENER, -ENOENT},
        {"2", "unknown", 0, "fd:unknown", LISTENER, 0},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        expect(&cases[i]);
    }
}

static void what_is_another_processes_or_no_number_is_nothing(void **state)
{
    static const struct passing cases[] = {
        {"3", "a:b:c", 1, "fd:a", LISTENER, -ENOENT},
        {"3", "a:b:c", -1, "fd:a", LISTENER, -ENOENT},
        {NULL, "a:b:c", 0, "fd:a", LISTENER, -ENOENT},
        {"x", "a:b:c", 0, "fd:a", LISTENER, -ENOENT},
        {"1025", "a:b:c", 0, "fd:a", LISTENER, -ENOENT},
        {"-1", "a:b:c", 0, "fd:a", LISTENER, -ENOENT},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        expect(&cases[i]);
    }
}

static void what_is_passed_is_a_stream_that_listens(void **state)
{
    static const struct passing cases[] = {{"3", "a:b:c", 0, "fd:a", STREAM, -ENOTSOCK},
                                           {"3", "a:b:c", 0, "fd:a", DATAGRAM, -ENOTSOCK},
                                           {"3", "a:b:c", 0, "fd:a", PIPE, -ENOTSOCK}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        expect(&cases[i]);
    }
}

static void an_address_that_names_one_begins_so(void **state)
{
    assert_true(passed_is("fd:a"));
    assert_true(passed_is("fd:"));
    assert_false(passed_is("fd"));
    assert_false(passed_is("unix:/fd:a"));
    assert_false(passed_is("127.0.0.1:1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_means_the_one_socket_that_has_it),
        cmocka_unit_test(where_nothing_is_named_all_is_unknown),
        cmocka_unit_test(what_is_another_processes_or_no_number_is_nothing),
        cmocka_unit_test(what_is_passed_is_a_stream_that_listens),
        cmocka_unit_test(an_address_that_names_one_begins_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
