// One question to a process, waited for: the answer whole, and why there is none. How long it is
// waited for is seen on a clock that goes on by what poll() is told to wait.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "control/ask.h"
#include "control/exchange.h"

static struct process self;
static int listener;
static size_t answer_len; // octets of it, all of them 'a'
static char request[16];

static int setup(void **state)
{
    struct sockaddr_un addr;
    self = (struct process){.uid = getuid(), .pid = getpid()};
    socklen_t len = process_address(&self, &addr);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return listener < 0 || bind(listener, (struct sockaddr *)&addr, len) != 0 ||
                   listen(listener, 1) != 0
               ? -1
               : 0;
}

static int teardown(void **state)
{
    return close(listener);
}

static void *answer(void *ctx)
{
    int fd = accept(listener, NULL, NULL);
    char *text = malloc(answer_len);
    size_t sent = 0;
    memset(text, 'a', answer_len);
    memset(request, 0, sizeof request);
    if (read(fd, request, sizeof request - 1) > 0) {
        for (ssize_t now = 0; now >= 0 && sent < answer_len; sent += (size_t)now) {
            now = send(fd, text + sent, answer_len - sent, MSG_NOSIGNAL);
            if (now < 0) {
                break;
            }
        }
    }
    free(text);
    close(fd);
    return NULL;
}

static int ask(size_t len, char **ret_text, size_t *ret_len)
{
    pthread_t thread;
    answer_len = len;
    assert_int_equal(pthread_create(&thread, NULL, answer, NULL), 0);
    int error = process_ask(&self, "stat\n", ret_text, ret_len);
    pthread_join(thread, NULL);
    return error;
}

static void the_answer_comes_whole(void **state)
{
    static const size_t lens[] = {1, 1000, 1 << 20};
    int next = dup(listener); // the lowest that is free
    close(next);
    for (unsigned i = 0; i < sizeof lens / sizeof lens[0]; i++) {
        char *text = NULL;
        size_t len = 0;
        assert_int_equal(ask(lens[i], &text, &len), 0);
        assert_string_equal(request, "stat\n");
        assert_int_equal(len, lens[i]);
        for (size_t at = 0; at < len; at++) {
            assert_int_equal(text[at], 'a');
        }
        free(text);
    }
    assert_int_equal(dup(listener), next); // asking leaves none open
    close(next);
}

static void who_has_ended_refuses(void **state)
{
    char *text = NULL;
    size_t len = 0;
    struct process nobody = {.uid = getuid(), .pid = INT32_MAX};
    assert_int_equal(process_ask(&nobody, "stat\n", &text, &len), -ECONNREFUSED);
    assert_null(text);
}

/* ---- how long -------------------------------------------------------------------------------- */

enum { ANSWER_MS = 5000, FULL_MAX = 64, RETRY_MS = EXCHANGE_RETRY_NS / NS_PER_MS };

static instant_ns clock_ns; // 0: the system's
static unsigned waits;
static int longest_ms;
static void (*on_wait)(const struct pollfd *wanted);

int __real_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);
int __real_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
    if (clock_ns == 0) {
        return __real_clock_gettime(clock, ret);
    }
    assert_int_equal(clock, CLOCK_MONOTONIC);
    clock_ns += NS_PER_US; // so what is left is no whole number of milliseconds
    *ret = (struct timespec){.tv_sec = (time_t)(clock_ns / NS_PER_S),
                             .tv_nsec = (long)(clock_ns % NS_PER_S)};
    return 0;
}

// Nothing comes while it is waited for, but what on_wait does.
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    if (clock_ns == 0) {
        return __real_poll(fds, count, timeout_ms);
    }
    assert_int_equal(count, 1);
    assert_true(timeout_ms > 0); // else it would wait for ever, or not at all
    waits++;
    longest_ms = timeout_ms > longest_ms ? timeout_ms : longest_ms;
    clock_ns += (instant_ns)timeout_ms * NS_PER_MS;
    if (on_wait != NULL) {
        on_wait(fds);
    }
    return 0;
}

static int setup_clock(void **state)
{
    clock_ns = 2 * NS_PER_S - 1; // the next millisecond is of another second
    waits = 0;
    longest_ms = 0;
    on_wait = NULL;
    return setup(state);
}

static int teardown_clock(void **state)
{
    clock_ns = 0;
    return teardown(state);
}

static int fill_queue(int fds[FULL_MAX])
{
    struct sockaddr_un addr;
    socklen_t len = process_address(&self, &addr);
    for (int count = 0; count < FULL_MAX; count++) {
        fds[count] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (connect(fds[count], (struct sockaddr *)&addr, len) != 0) {
            assert_int_equal(errno, EAGAIN);
            return count + 1;
        }
    }
    fail();
    return 0;
}

static void empty_queue(const struct pollfd *wanted)
{
    if (waits == 3) {
        for (int fd = 0; fd >= 0;) {
            fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
            if (fd >= 0) {
                close(fd);
            }
        }
    }
}

static void who_never_answers_is_given_up_in_time(void **state)
{
    char *text = NULL;
    size_t len = 0;
    const instant_ns begun = clock_ns;
    assert_int_equal(process_ask(&self, "stat\n", &text, &len), -ETIMEDOUT);
    assert_null(text);
    assert_in_range((clock_ns - begun) / NS_PER_MS, ANSWER_MS, ANSWER_MS + 1);
    assert_int_equal(waits, 1); // it would be woken by an answer
}

static void who_takes_no_connection_is_tried_again_until_then(void **state)
{
    char *text = NULL;
    size_t len = 0;
    int fds[FULL_MAX];
    const int count = fill_queue(fds);
    const instant_ns begun = clock_ns;
    assert_int_equal(process_ask(&self, "stat\n", &text, &len), -ETIMEDOUT);
    assert_in_range((clock_ns - begun) / NS_PER_MS, ANSWER_MS, ANSWER_MS + 1);
    assert_in_range(longest_ms, RETRY_MS, RETRY_MS + 1);
    assert_in_range(waits, ANSWER_MS / (RETRY_MS + 1), ANSWER_MS / RETRY_MS + 1);
    for (int i = 0; i < count; i++) {
        close(fds[i]);
    }
}

static void once_there_is_room_the_answer_alone_is_waited_for(void **state)
{
    char *text = NULL;
    size_t len = 0;
    int fds[FULL_MAX];
    assert_int_equal(fcntl(listener, F_SETFL, O_NONBLOCK), 0);
    const int count = fill_queue(fds);
    on_wait = empty_queue;
    const instant_ns begun = clock_ns;
    assert_int_equal(process_ask(&self, "stat\n", &text, &len), -ETIMEDOUT);
    assert_int_equal(waits, 4);
    assert_true(longest_ms > ANSWER_MS - 4 * (RETRY_MS + 1));
    assert_in_range((clock_ns - begun) / NS_PER_MS, ANSWER_MS, ANSWER_MS + 1);
    for (int i = 0; i < count; i++) {
        close(fds[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_answer_comes_whole, setup, teardown),
        cmocka_unit_test(who_has_ended_refuses),
        cmocka_unit_test_setup_teardown(who_never_answers_is_given_up_in_time, setup_clock,
                                        teardown_clock),
        cmocka_unit_test_setup_teardown(who_takes_no_connection_is_tried_again_until_then,
                                        setup_clock, teardown_clock),
        cmocka_unit_test_setup_teardown(once_there_is_room_the_answer_alone_is_waited_for,
                                        setup_clock, teardown_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
