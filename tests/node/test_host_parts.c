// Small parts of the host: what the service manager hears, the advice for a system that has not
// enough, how many descriptors volumes need, whose identity a volume has, what may be read beside
// an RTA, and an announcement that nobody reads.

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/why.h"
#include "node/host/agent.h"
#include "node/host/announcement.h"
#include "node/host/config.h"
#include "node/host/notify.h"
#include "node/host/privileges.h"
#include "node/host/wish.h"
#include "node/loop/loop.h"

enum { TEXT_LEN = 1 << 20 };

/* ---- the service manager --------------------------------------------------------------------- */

static int manager_open(const char *name)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    size_t len = strlen(name);
    memcpy(addr.sun_path, name, len);
    addr.sun_path[0] = name[0] == '@' ? '\0' : name[0];
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    unlink(name); // of one with the same number that was killed
    assert_int_equal(bind(fd, (struct sockaddr *)&addr,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)),
                     0);
    return fd;
}

static void the_manager_hears_where_it_listens(void **state)
{
    char path[64], abstract[64], heard[64];
    snprintf(path, sizeof path, "/tmp/weft-notify.%d", (int)getpid());
    snprintf(abstract, sizeof abstract, "@weft-notify.%d", (int)getpid());
    const char *const names[] = {path, abstract};
    for (unsigned i = 0; i < 2; i++) {
        int fd = manager_open(names[i]);
        setenv("NOTIFY_SOCKET", names[i], 1);
        notify_send("READY=1\nSTATUS=serving");
        ssize_t len = recv(fd, heard, sizeof heard, MSG_DONTWAIT);
        assert_int_equal(len, strlen("READY=1\nSTATUS=serving"));
        assert_memory_equal(heard, "READY=1\nSTATUS=serving", (size_t)len);
        for (unsigned n = 0; n < 1000; n++) { // nor does it wait for who does not listen
            notify_send("WATCHDOG=1");
        }
        close(fd);
    }
    unlink(path);
    static const char *const strange[] = {"", "relative", "/nowhere/at/all", "vsock:2:1"};
    for (unsigned i = 0; i < sizeof strange / sizeof strange[0]; i++) {
        setenv("NOTIFY_SOCKET", strange[i], 1);
        notify_send("READY=1");
    }
    char longest[200];
    memset(longest, 'x', sizeof longest - 1);
    longest[0] = '/';
    longest[sizeof longest - 1] = '\0';
    setenv("NOTIFY_SOCKET", longest, 1);
    notify_send("READY=1");
    unsetenv("NOTIFY_SOCKET");
    notify_send("READY=1");
}

/* ---- advice, privileges ---------------------------------------------------------------------- */

static void each_lack_has_its_remedy(void **state)
{
    static const struct {
        int error;
        const char *names;
    } cases[] = {{-EFBIG, "ulimit -f"},
                 {-EMFILE, "ulimit -n"},
                 {-ENFILE, "ulimit -n"},
                 {-EAGAIN, "ulimit -u"},
                 {-ENOMEM, "free some memory"}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_non_null(strstr(host_remedy(cases[i].error), cases[i].names));
    }
}

static void what_a_process_has_given_up_is_one_word(void **state)
{
    static const struct {
        struct privileges privileges;
        const char *word;
    } cases[] = {{{false, 0, 0}, "none"},  {{false, 0, 2}, "none"},  {{true, 0, 0}, "none"},
                 {{true, 0, 1}, "common"}, {{true, 0, 2}, "device"}, {{true, 0, 3}, "device"}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_string_equal(privileges_word(&cases[i].privileges), cases[i].word);
    }
    struct privileges own = privileges_of(getpid());
    assert_int_equal(own.filters, 0); // no more than the node's own
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    struct privileges like = privileges_of(child);
    assert_int_equal(like.capabilities, own.capabilities);
    assert_int_equal(like.has_no_new_privs, own.has_no_new_privs);
    assert_int_equal(like.filters, 0);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    struct privileges gone = privileges_of(child);
    assert_int_equal(gone.capabilities, 0);
    assert_false(gone.has_no_new_privs);
}

/* ---- descriptors ----------------------------------------------------------------------------- */

static void volumes_need_descriptors_as_their_rtas_do(void **state)
{
    static const struct {
        enum host_rta rta;
        const char *units[3];
        rlim_t needed;
    } cases[] = {
        {HOST_RTA_EACH, {"", "", ""}, 64 + 3 * (2 + 7)},
        {HOST_RTA_EACH, {"a", "b", "a"}, 64 + 3 * 2 + 2 * 7},
        {HOST_RTA_EACH, {"a", "", "a"}, 64 + 3 * 2 + 2 * 7},
        {HOST_RTA_ONE, {"", "", ""}, 64 + 3 * 2 + 7},
        {HOST_RTA_ONE, {"", "a", ""}, 64 + 3 * 2 + 2 * 7},
        {HOST_RTA_HOST, {"", "", ""}, 64 + 3 * (2 + 4) + 7},
        {HOST_RTA_EACH, {CONFIG_HOST_UNIT, "", "host"}, 64 + 3 * 2 + 4 + 3 * 7},
    };
    struct rlimit before, limit;
    struct why why = {""};
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct volume_wish volumes[3] = {0};
        struct host_config config = {.volumes = volumes, .volume_count = 3, .rta = cases[i].rta};
        for (unsigned v = 0; v < 3; v++) {
            snprintf(volumes[v].unit, sizeof volumes[v].unit, "%s", cases[i].units[v]);
        }
        limit = (struct rlimit){cases[i].needed, before.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        assert_int_equal(host_descriptors_check(&config, &why), 0);
        limit.rlim_cur--;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        assert_int_equal(host_descriptors_check(&config, &why), -EMFILE);
        assert_non_null(strstr(why.text, "3 volumes need about"));
    }
    host_descriptors_raise();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_true(limit.rlim_cur == before.rlim_max);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

/* ---- identities, windows --------------------------------------------------------------------- */

static void an_identity_is_that_of_the_origin(void **state)
{
    struct volume_profile a = {.origin = "file:/a"}, b = {.origin = "file:/b"};
    struct volume_identity first = {0}, again = {0}, other = {0};
    host_identify(NULL, &a, &first);
    host_identify(NULL, &a, &again);
    host_identify(NULL, &b, &other);
    assert_memory_equal(first.uuid, again.uuid, VOLUME_UUID_LEN);
    assert_memory_equal(first.alias, again.alias, VOLUME_UUID_LEN);
    assert_memory_not_equal(first.uuid, other.uuid, VOLUME_UUID_LEN);
    assert_memory_not_equal(first.alias, other.alias, VOLUME_UUID_LEN);
    assert_memory_not_equal(first.uuid, first.alias, VOLUME_UUID_LEN);
    assert_int_equal(first.uuid[6] >> 4, 5); // of a name (RFC 4122 section 4.3)
    assert_int_equal(first.uuid[8] >> 6, 2);
}

static void a_window_is_a_file_that_is_opened_anew(void **state)
{
    char path[] = "/tmp/weft-window.XXXXXX", data[8];
    int fd = mkstemp(path), pair[2];
    assert_int_equal(write(fd, "01234567", 8), 8);
    struct iovec iov = {data, 1};
    if (preadv2(fd, &iov, 1, 0, RWF_NOWAIT) < 0 && errno == EOPNOTSUPP) {
        close(fd);
        unlink(path);
        puts("SKIP: no RWF_NOWAIT in this file system");
        skip();
    }
    int own = host_window_open(dup(fd));
    assert_true(own >= 0);
    assert_int_equal(fcntl(own, F_GETFL) & O_ACCMODE, O_RDONLY);
    assert_int_equal(fcntl(own, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    assert_true(host_window_read(NULL, own, 2, data, 4));
    assert_memory_equal(data, "2345", 4);
    assert_false(host_window_read(NULL, own, 6, data, 4)); // beyond the end
    assert_false(host_window_read(NULL, own, 100, data, 4));
    close(own);
    assert_int_equal(pipe(pair), 0);
    assert_int_equal(host_window_open(pair[0]), -1); // no file; it is closed all the same
    assert_int_equal(fcntl(pair[0], F_GETFD), -1);
    assert_int_equal(host_window_open(open("/tmp", O_RDONLY | O_CLOEXEC)), -1);
    close(pair[1]);
    close(fd);
    unlink(path);
}

/* ---- an announcement ------------------------------------------------------------------------- */

static struct loop *loop;
static int pipe_fds[2];

// Takes the rest of what is announced by the pipe, and ends the loop when all has come.
static void on_text(void *ctx, uint32_t events)
{
    static char taken[4096];
    size_t *left = ctx;
    ssize_t len = read(pipe_fds[0], taken, sizeof taken);
    assert_true(len > 0);
    for (ssize_t i = 0; i < len; i++) {
        assert_int_equal(taken[i], 'a' + (TEXT_LEN - *left) % 26);
        (*left)--;
    }
    if (*left == 0) {
        loop_stop(loop);
    }
}

static char *text_make(void)
{
    char *text = malloc(TEXT_LEN);
    for (size_t i = 0; i < TEXT_LEN; i++) {
        text[i] = (char)('a' + i % 26);
    }
    return text;
}

static void an_announcement_is_said_as_fast_as_it_is_read(void **state)
{
    struct announcement a = {0};
    size_t left = TEXT_LEN;
    int before = dup(STDOUT_FILENO);
    loop = loop_create();
    assert_int_equal(pipe(pipe_fds), 0);
    fflush(stdout);
    assert_true(dup2(pipe_fds[1], STDOUT_FILENO) >= 0);
    announcement_begin(&a, loop, text_make(), TEXT_LEN);
    bool has_waited = a.watch != NULL;
    int flags = fcntl(pipe_fds[1], F_GETFL);
    struct loop_watch *watch = loop_watch(loop, pipe_fds[0], EPOLLIN, on_text, &left);
    assert_int_equal(loop_run(loop), 0);
    announcement_end(&a);                                // nothing is left, or it has ended already
    announcement_begin(&a, loop, text_make(), TEXT_LEN); // that nobody reads
    bool waits_again = a.watch != NULL;
    announcement_end(&a);
    assert_true(dup2(before, STDOUT_FILENO) >= 0);
    close(before);
    loop_unwatch(watch);
    close(pipe_fds[0]);
    close(pipe_fds[1]);
    loop_destroy(loop);
    assert_true(has_waited);
    assert_true(waits_again);
    assert_int_equal(left, 0);
    assert_int_equal(flags & O_NONBLOCK, 0); // whoever started the node has it as it was
    assert_null(a.watch);
    assert_null(a.text);
    announcement_end(&(struct announcement){0});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_manager_hears_where_it_listens),
        cmocka_unit_test(each_lack_has_its_remedy),
        cmocka_unit_test(what_a_process_has_given_up_is_one_word),
        cmocka_unit_test(volumes_need_descriptors_as_their_rtas_do),
        cmocka_unit_test(an_identity_is_that_of_the_origin),
        cmocka_unit_test(a_window_is_a_file_that_is_opened_anew),
        cmocka_unit_test(an_announcement_is_said_as_fast_as_it_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
