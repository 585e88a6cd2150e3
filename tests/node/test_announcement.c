// An announcement on a standard output that is anything: what the system is asked for each kind,
// and what is said again, later or never.

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "node/host/announcement.h"
#include "node/loop/loop.h"
#include "text/append.h"

enum { FD = 77, COPY = 78, SAID_MAX = 256 };

// What the system answers, where it is asked about the announcement.
static struct {
    bool is_on, has_status;
    mode_t mode;
    int opened, copied;
    const char *answers; // to each send and write: 1 to 9 octets, or a letter of `errors`
    char said[SAID_MAX];
    void (*on_room)(void *ctx, uint32_t events);
    void *ctx;
} system_now;

static void say(const char *word, int number)
{
    text_append(system_now.said, sizeof system_now.said, "%s%d ", word, number);
}

static ssize_t answer(const char *word, const char *text, size_t len)
{
    static const struct {
        char letter;
        int error;
    } errors[] = {{'a', EAGAIN}, {'i', EINTR}, {'s', ENOTSOCK}, {'p', EPIPE}};
    say(word, (int)len);
    assert_memory_equal(text, &"announced"[9 - len], len);
    char letter = *system_now.answers++;
    for (unsigned i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        if (letter == errors[i].letter) {
            errno = errors[i].error;
            return -1;
        }
    }
    errno = ENOTSOCK; // of another call
    return letter - '0';
}

int __real_fstat64(int fd, struct stat *ret);
int __wrap_fstat64(int fd, struct stat *ret);
int __wrap_fstat64(int fd, struct stat *ret)
{
    if (!system_now.is_on) {
        return __real_fstat64(fd, ret);
    }
    assert_int_equal(fd, STDOUT_FILENO);
    ret->st_mode = system_now.mode;
    return system_now.has_status ? 0 : -1;
}

int __wrap_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...)
{
    assert_string_equal(path, "/proc/self/fd/1");
    assert_int_equal(flags, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    say("open ", system_now.opened);
    return system_now.opened;
}

int __wrap_fcntl64(int fd, int what, int from);
int __wrap_fcntl64(int fd, int what, int from)
{
    assert_int_equal(fd, STDOUT_FILENO);
    assert_int_equal(what, F_DUPFD_CLOEXEC);
    assert_int_equal(from, 0);
    say("copy ", system_now.copied);
    return system_now.copied;
}

ssize_t __wrap_send(int fd, const void *data, size_t len, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t len, int flags)
{
    assert_int_equal(flags, MSG_DONTWAIT | MSG_NOSIGNAL);
    assert_true(fd == system_now.opened || fd == system_now.copied);
    return answer("send ", data, len);
}

ssize_t __real_write(int fd, const void *data, size_t len);
ssize_t __wrap_write(int fd, const void *data, size_t len);
ssize_t __wrap_write(int fd, const void *data, size_t len)
{
    return system_now.is_on ? answer("write ", data, len) : __real_write(fd, data, len);
}

int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
    if (!system_now.is_on) {
        return __real_close(fd);
    }
    say("close ", fd);
    return 0;
}

struct loop_watch *__wrap_loop_watch(struct loop *loop, int fd, uint32_t events,
                                     void (*on_events)(void *ctx, uint32_t events), void *ctx);
struct loop_watch *__wrap_loop_watch(struct loop *loop, int fd, uint32_t events,
                                     void (*on_events)(void *ctx, uint32_t events), void *ctx)
{
    assert_int_equal(events, EPOLLOUT);
    say("wait ", fd);
    system_now.on_room = on_events;
    system_now.ctx = ctx;
    return (struct loop_watch *)&system_now;
}

void __wrap_loop_unwatch(struct loop_watch *watch);
void __wrap_loop_unwatch(struct loop_watch *watch)
{
    if (watch != NULL) {
        say("awake ", 1);
    }
}

static void each_output_is_asked_as_it_can_be(void **state)
{
    static const struct {
        bool has_status;
        mode_t mode;
        int opened, copied;
        const char *answers, *said;
    } cases[] = {
        // A pipe and a terminal are opened anew; what is neither is not, nor what nobody knows.
        {true, S_IFIFO, FD, COPY, "s9", "open 77 send 9 write 9 close 77 "},
        {true, S_IFCHR, FD, COPY, "s9", "open 77 send 9 write 9 close 77 "},
        {true, S_IFIFO, 0, COPY, "s9", "open 0 send 9 write 9 "},
        {true, S_IFIFO, 1, COPY, "9", "open 1 send 9 close 1 "},
        {true, S_IFIFO, -1, COPY, "s9", "open -1 copy 78 send 9 write 9 close 78 "},
        {true, S_IFREG, FD, COPY, "s9", "copy 78 send 9 write 9 close 78 "},
        {true, S_IFSOCK, FD, COPY, "9", "copy 78 send 9 close 78 "},
        {false, S_IFIFO, FD, COPY, "s9", "copy 78 send 9 write 9 close 78 "},
        {true, S_IFREG, FD, -1, "", "copy -1 "},
        // It goes on where it was, whatever is taken at a time; one that is gone hears no more.
        {true, S_IFSOCK, FD, COPY, "4i5", "copy 78 send 9 send 5 send 5 close 78 "},
        {true, S_IFSOCK, FD, COPY, "40s5", "copy 78 send 9 send 5 send 5 write 5 close 78 "},
        {true, S_IFSOCK, FD, COPY, "4p", "copy 78 send 9 send 5 close 78 "},
        {true, S_IFIFO, FD, COPY, "sp", "open 77 send 9 write 9 close 77 "},
        // Where there is no room, the loop waits for it.
        {true, S_IFSOCK, FD, COPY, "4aa5",
         "copy 78 send 9 send 5 wait 78 | send 5 | send 5 awake 1 close 78 "},
        {true, S_IFIFO, FD, COPY, "sas2sp",
         "open 77 send 9 write 9 wait 77 | send 9 write 9 send 7 write 7 awake 1 close 77 "},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct announcement a = {0};
        char *text = strdup("announced");
        memset(&system_now, 0, sizeof system_now);
        system_now.has_status = cases[i].has_status;
        system_now.mode = cases[i].mode;
        system_now.opened = cases[i].opened;
        system_now.copied = cases[i].copied;
        system_now.answers = cases[i].answers;
        system_now.is_on = true;
        announcement_begin(&a, NULL, text, strlen(text));
        while (*system_now.answers != '\0') {
            text_append(system_now.said, sizeof system_now.said, "| ");
            system_now.on_room(system_now.ctx, EPOLLOUT);
        }
        system_now.is_on = false;
        assert_string_equal(system_now.said, cases[i].said);
        assert_int_equal(a.fd, -1);
        assert_null(a.text);
        assert_null(a.watch);
    }
}

static void what_is_not_said_at_the_end_stays_unsaid(void **state)
{
    struct announcement a = {0};
    memset(&system_now, 0, sizeof system_now);
    system_now.copied = COPY;
    system_now.answers = "4a";
    system_now.is_on = true;
    announcement_begin(&a, NULL, strdup("announced"), 9);
    assert_non_null(a.watch);
    announcement_end(&a);
    announcement_end(&a);
    announcement_end(&(struct announcement){0});
    system_now.is_on = false;
    assert_string_equal(system_now.said, "copy 78 send 9 send 5 wait 78 awake 1 close 78 ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_output_is_asked_as_it_can_be),
        cmocka_unit_test(what_is_not_said_at_the_end_stays_unsaid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
