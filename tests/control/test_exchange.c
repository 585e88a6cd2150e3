// One question to a process, and its answer, without waiting: this test is the process as well, and
// the clock.
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "control/exchange.h"

enum { ANSWER_MAX_LEN = 1 << 20, DEADLINE_NS = 1000 };

static struct process self;
static int listener;
static struct exchange e;

static int setup(void **state)
{
    struct sockaddr_un addr;
    self = (struct process){.uid = getuid(), .pid = getpid()};
    socklen_t len = process_address(&self, &addr);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    return listener < 0 || bind(listener, (struct sockaddr *)&addr, len) != 0 ||
                   listen(listener, 0) != 0
               ? -1
               : 0;
}

static int teardown(void **state)
{
    exchange_end(&e);
    return close(listener);
}

static void begin(void)
{
    exchange_begin(&e, &self, "stat\n", ANSWER_MAX_LEN, 0, DEADLINE_NS);
}

// The process has the request.
static int take_request(void)
{
    char request[16] = "";
    int fd = accept(listener, NULL, NULL);
    assert_true(fd >= 0);
    assert_int_equal(read(fd, request, sizeof request - 1), 5);
    assert_string_equal(request, "stat\n");
    return fd;
}

static void expect_error(int error)
{
    char *text;
    size_t len;
    assert_true(exchange_is_over(&e));
    assert_int_equal(exchange_take(&e, &text, &len), error);
    assert_int_equal(exchange_wants(&e).fd, -1);
}

static void an_answer_comes_in_pieces(void **state)
{
    char *text;
    size_t len;
    begin();
    int fd = take_request();
    assert_int_equal(exchange_wants(&e).events, POLLIN);
    assert_int_equal(write(fd, "{\"a\"", 4), 4);
    exchange_step(&e, 1);
    assert_false(exchange_is_over(&e));
    assert_int_equal(write(fd, ":1}\n", 4), 4);
    close(fd);
    exchange_step(&e, 2);
    assert_true(exchange_is_over(&e));
    assert_int_equal(exchange_take(&e, &text, &len), 0);
    assert_int_equal(len, 8);
    assert_memory_equal(text, "{\"a\":1}\n", len);
    free(text);
}

static void who_says_nothing_is_given_up_at_the_deadline(void **state)
{
    begin();
    int fd = take_request();
    exchange_step(&e, DEADLINE_NS - 1);
    assert_false(exchange_is_over(&e));
    exchange_step(&e, DEADLINE_NS);
    expect_error(-ETIMEDOUT);
    close(fd);
}

// Octet by octet, it would last for ever.
static void who_answers_slowly_is_given_up_too(void **state)
{
    begin();
    int fd = take_request();
    for (instant_ns now = 1; now < DEADLINE_NS; now += 100) {
        assert_int_equal(write(fd, " ", 1), 1);
        exchange_step(&e, now);
        assert_false(exchange_is_over(&e));
    }
    assert_int_equal(write(fd, " ", 1), 1);
    exchange_step(&e, DEADLINE_NS);
    expect_error(-ETIMEDOUT);
    close(fd);
}

static void who_answers_without_end_is_cut_off(void **state)
{
    static char octets[64 << 10];
    begin();
    int fd = take_request();
    size_t written = 0;
    for (; !exchange_is_over(&e) && written < 4 * ANSWER_MAX_LEN; exchange_step(&e, 1)) {
        ssize_t n = send(fd, octets, sizeof octets, MSG_DONTWAIT | MSG_NOSIGNAL);
        written += n > 0 ? (size_t)n : 0;
    }
    expect_error(-EMSGSIZE);
    assert_true(e.answer_capacity <= ANSWER_MAX_LEN);
    close(fd);
}

// A device hangs up on its own user only when it ends, be its name still there or not.
static void who_hangs_up_on_its_own_user_has_ended(void **state)
{
    begin();
    close(take_request());
    exchange_step(&e, 1);
    expect_error(-ECONNREFUSED);
}

// The request lies unread behind the listener: that is reset, not closed.
static void who_ends_before_it_has_read_has_ended(void **state)
{
    begin();
    close(listener);
    exchange_step(&e, 1);
    expect_error(-ECONNREFUSED);
    assert_int_equal(setup(state), 0);
}

// A process of another user's listens; only root can be asking it without being let in.
static int setup_of_another_user(void **state)
{
    enum { ANOTHER = 65534 };
    struct sockaddr_un addr;
    if (geteuid() != 0) {
        return setup(state);
    }
    self = (struct process){.uid = ANOTHER, .pid = getpid()};
    socklen_t len = process_address(&self, &addr);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (listener < 0 || seteuid(ANOTHER) != 0) {
        return -1;
    }
    const bool is_up =
        bind(listener, (struct sockaddr *)&addr, len) == 0 && listen(listener, 0) == 0;
    return seteuid(0) == 0 && is_up ? 0 : -1;
}

static void skip_unless_root(void)
{
    if (geteuid() != 0) {
        print_message("SKIP: only root can listen as another user\n");
        skip();
    }
}

static void another_users_who_hangs_up_shows_the_door(void **state)
{
    skip_unless_root();
    begin();
    close(take_request());
    exchange_step(&e, 1);
    expect_error(-EACCES);
}

static void another_users_who_hangs_up_and_is_gone_has_ended(void **state)
{
    skip_unless_root();
    begin();
    int fd = take_request();
    close(listener);
    close(fd);
    exchange_step(&e, 1);
    expect_error(-ECONNREFUSED);
    assert_int_equal(setup(state), 0);
}

static void nobody_there_is_said_at_once(void **state)
{
    const struct process nobody = {.uid = getuid(), .pid = INT32_MAX};
    exchange_begin(&e, &nobody, "stat\n", ANSWER_MAX_LEN, 0, DEADLINE_NS);
    expect_error(-ECONNREFUSED);
}

// The process is stopped, and others wait already: connecting is tried again, and given up.
static void a_full_queue_of_connections_is_tried_again(void **state)
{
    struct exchange first;
    exchange_begin(&first, &self, "stat\n", ANSWER_MAX_LEN, 0, DEADLINE_NS);
    begin();
    assert_int_equal(e.state, EXCHANGE_CONNECTING);
    assert_int_equal(exchange_wants(&e).fd, -1);
    exchange_step(&e, 1);
    assert_int_equal(e.state, EXCHANGE_CONNECTING);
    close(take_request());
    exchange_step(&e, 2);
    assert_int_equal(e.state, EXCHANGE_READING);
    close(take_request());
    exchange_step(&e, 3);
    expect_error(-ECONNREFUSED);
    exchange_end(&first);
}

static void what_is_under_way_may_be_given_up(void **state)
{
    begin();
    int fd = take_request();
    assert_int_equal(write(fd, "{", 1), 1);
    exchange_step(&e, 1);
    exchange_end(&e);
    char octet;
    assert_int_equal(read(fd, &octet, 1), 0);
    close(fd);
}

// Longer than what a socket holds: it goes out as fast as it is read, and not an octet is another.
static void a_long_request_goes_out_in_pieces(void **state)
{
    enum { LEN = 3 << 20 };
    static char request[LEN + 1], came[LEN + 1];
    for (unsigned i = 0; i < LEN; i++) {
        request[i] = (char)('a' + i % 23);
    }
    exchange_begin(&e, &self, request, ANSWER_MAX_LEN, 0, DEADLINE_NS);
    int fd = accept(listener, NULL, NULL);
    size_t len = 0;
    assert_int_equal(exchange_wants(&e).events, POLLOUT);
    assert_int_equal(exchange_wants(&e).fd, e.fd);
    exchange_step(&e, 1); // there is no room now
    assert_false(exchange_is_over(&e));
    while (len < LEN && !exchange_is_over(&e)) {
        ssize_t got = recv(fd, came + len, LEN - len, MSG_DONTWAIT);
        len += got > 0 ? (size_t)got : 0;
        exchange_step(&e, 1);
    }
    assert_int_equal(len, LEN);
    assert_memory_equal(came, request, LEN);
    assert_int_equal(exchange_wants(&e).events, POLLIN);
    assert_int_equal(recv(fd, came, 1, MSG_DONTWAIT), -1);
    close(fd);
    exchange_step(&e, 2);
    expect_error(-ECONNREFUSED);
}

static void who_hangs_up_within_a_long_request_has_ended(void **state)
{
    enum { LEN = 3 << 20 };
    static char request[LEN + 1];
    memset(request, 'a', LEN);
    exchange_begin(&e, &self, request, ANSWER_MAX_LEN, 0, DEADLINE_NS);
    int fd = accept(listener, NULL, NULL);
    assert_int_equal(exchange_wants(&e).events, POLLOUT);
    close(fd);
    exchange_step(&e, 1);
    expect_error(-ECONNREFUSED);
}

static void a_long_answer_is_whole(void **state)
{
    enum { LEN = 900 << 10, PIECE = 30 << 10 };
    static char octets[LEN];
    char *text;
    size_t len, written = 0;
    for (unsigned i = 0; i < LEN; i++) {
        octets[i] = (char)('a' + i % 19);
    }
    begin();
    int fd = take_request();
    while (written < LEN) {
        assert_int_equal(write(fd, octets + written, PIECE), PIECE);
        written += PIECE;
        exchange_step(&e, 1);
        assert_int_equal(e.answer_len, written);
    }
    close(fd);
    exchange_step(&e, 2);
    assert_int_equal(exchange_take(&e, &text, &len), 0);
    assert_int_equal(len, LEN);
    assert_memory_equal(text, octets, LEN);
    free(text);
}

// A path may lead to another user's socket; an abstract name has no owner but who listens.
static void who_listens_is_believed_by_its_user(void **state)
{
    char folder[] = "/tmp/weft-exchange-XXXXXX";
    struct sockaddr_un addr;
    assert_non_null(mkdtemp(folder));
    struct process at_path = {.uid = getuid(), .pid = getpid()};
    snprintf(at_path.path, sizeof at_path.path, "%s/s", folder);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    socklen_t len = process_address(&at_path, &addr);
    assert_int_equal(bind(fd, (struct sockaddr *)&addr, len), 0);
    assert_int_equal(listen(fd, 4), 0);
    exchange_begin(&e, &at_path, "stat\n", ANSWER_MAX_LEN, 0, DEADLINE_NS);
    assert_false(exchange_is_over(&e));
    exchange_end(&e);
    at_path.uid = getuid() + 1;
    exchange_begin(&e, &at_path, "stat\n", ANSWER_MAX_LEN, 0, DEADLINE_NS);
    expect_error(-EACCES);
    close(fd);
    unlink(at_path.path);
    rmdir(folder);

    struct process by_name = {.uid = getuid() + 1, .pid = getpid()};
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    len = process_address(&by_name, &addr);
    assert_int_equal(bind(fd, (struct sockaddr *)&addr, len), 0);
    assert_int_equal(listen(fd, 4), 0);
    exchange_begin(&e, &by_name, "stat\n", ANSWER_MAX_LEN, 0, DEADLINE_NS);
    assert_false(exchange_is_over(&e)); // our own, by another number
    close(fd);
}

static void a_descriptor_is_closed_at_the_end(void **state)
{
    begin();
    int fd = take_request(), own = e.fd;
    exchange_end(&e);
    assert_int_equal(e.fd, -1);
    assert_int_equal(fcntl(own, F_GETFD), -1);
    char octet;
    assert_int_equal(read(fd, &octet, 1), 0);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_answer_comes_in_pieces, setup, teardown),
        cmocka_unit_test_setup_teardown(who_says_nothing_is_given_up_at_the_deadline, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(who_answers_slowly_is_given_up_too, setup, teardown),
        cmocka_unit_test_setup_teardown(who_answers_without_end_is_cut_off, setup, teardown),
        cmocka_unit_test_setup_teardown(who_hangs_up_on_its_own_user_has_ended, setup, teardown),
        cmocka_unit_test_setup_teardown(who_ends_before_it_has_read_has_ended, setup, teardown),
        cmocka_unit_test_setup_teardown(another_users_who_hangs_up_shows_the_door,
                                        setup_of_another_user, teardown),
        cmocka_unit_test_setup_teardown(another_users_who_hangs_up_and_is_gone_has_ended,
                                        setup_of_another_user, teardown),
        cmocka_unit_test_setup_teardown(nobody_there_is_said_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(a_full_queue_of_connections_is_tried_again, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(what_is_under_way_may_be_given_up, setup, teardown),
        cmocka_unit_test_setup_teardown(a_long_request_goes_out_in_pieces, setup, teardown),
        cmocka_unit_test_setup_teardown(who_hangs_up_within_a_long_request_has_ended, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_long_answer_is_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(who_listens_is_believed_by_its_user, setup, teardown),
        cmocka_unit_test_setup_teardown(a_descriptor_is_closed_at_the_end, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
