// One question to a process, waited for: the answer whole, and why there is none.
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "control/ask.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_answer_comes_whole, setup, teardown),
        cmocka_unit_test(who_has_ended_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
