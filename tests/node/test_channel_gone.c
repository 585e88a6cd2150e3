// The socket between the UMA and an RTA, when its other side goes.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "node/unit/channel.h"

static const struct unit_message message = {.kind = UNIT_OPEN, .uri = "file:///disk"};

static int begin(void **state)
{
    static int pair[2];
    assert_int_equal(channel_pair(pair), 0);
    *state = pair;
    return 0;
}

static int end(void **state)
{
    const int *pair = *state;
    close(pair[0]);
    close(pair[1]);
    return 0;
}

static void go(int *fd)
{
    close(*fd);
    *fd = -1;
}

static void what_is_sent_comes(void **state)
{
    const int *pair = *state;
    struct unit_message got;
    int keepsake;
    assert_int_equal(channel_receive(pair[1], &got, &keepsake), -EAGAIN);
    assert_int_equal(channel_send(pair[0], &message, -1), 0);
    assert_int_equal(channel_receive(pair[1], &got, &keepsake), 1);
    assert_string_equal(got.uri, message.uri);
    assert_int_equal(keepsake, -1);
}

static void who_is_gone_takes_nothing_and_says_nothing(void **state)
{
    int *pair = *state;
    struct unit_message got;
    int keepsake;
    go(&pair[1]);
    assert_int_equal(channel_send(pair[0], &message, -1), -EPIPE);
    assert_int_equal(channel_receive(pair[0], &got, &keepsake), 0);
}

// The kernel tells that as a reset, once, to whoever calls first.
static void who_went_without_reading_all_is_gone_likewise(void **state)
{
    int *pair = *state;
    assert_int_equal(channel_send(pair[0], &message, -1), 0);
    go(&pair[1]);
    assert_int_equal(channel_send(pair[0], &message, -1), -EPIPE);
    assert_int_equal(channel_send(pair[0], &message, -1), -EPIPE);
}

static void who_does_not_read_is_asked_again_later(void **state)
{
    const int *pair = *state;
    struct unit_message got;
    int keepsake, error;
    while ((error = channel_send(pair[0], &message, -1)) == 0) {
    }
    assert_int_equal(error, -EAGAIN);
    while (channel_receive(pair[1], &got, &keepsake) == 1) {
    }
    assert_int_equal(channel_send(pair[0], &message, -1), 0);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(what_is_sent_comes),
        CASE(who_is_gone_takes_nothing_and_says_nothing),
        CASE(who_went_without_reading_all_is_gone_likewise),
        CASE(who_does_not_read_is_asked_again_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
