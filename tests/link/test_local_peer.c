// Streams through memory of two processes: one that is killed, ends or is stopped, and another
// user's.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/link/local_pair.h"

// A process that connects to the_link and does `what` with its stream. Returns its id.
static pid_t start_peer(void (*what)(struct link *link, struct link_stream *stream), uid_t uid)
{
    struct sockaddr_storage at;
    loop_listen(&l, the_link, AF_INET);
    the_link->ops->local_addr(l.listener, &at);
    pid_t child = fork();
    if (child == 0) {
        struct link_socket_config socket_config = {0};
        struct link *inner, *own;
        struct link_stream *stream;
        the_link->ops->abandon(the_link);
        if (setuid(uid) != 0 || link_socket_create(&socket_config, &inner) != 0 ||
            link_local_wrap(inner, &config, &own) != 0 ||
            own->ops->bind(own, NULL, 0, NULL, &stream) != 0 ||
            own->ops->connect(stream, addr_of(&at)) != -EINPROGRESS) {
            _exit(1);
        }
        ready_of(own, stream);
        own->ops->connect_result(stream);
        what(own, stream);
        _exit(0);
    }
    assert_true(ready_of(the_link, l.listener) & LINK_READY_IN);
    assert_int_equal(the_link->ops->accept(l.listener, &l.passive), 0);
    return child;
}

static void send_and_wait(struct link *link, struct link_stream *stream)
{
    char got[4];
    send_text(stream, "?");
    recv_some(stream, got, sizeof got);
    for (;;) {
        static uint8_t octets[4000];
        struct iovec iov = {octets, sizeof octets};
        struct link_tx tx = {.iov = &iov, .iov_count = 1};
        link_send(stream, &tx);
    }
}

static void go_over_with_peer(void)
{
    char got[4];
    assert_int_equal(recv_some(l.passive, got, sizeof got), 1);
    assert_int_equal(path_of(l.passive), LOCAL_PATH_MEMORY);
    assert_int_equal(send_text(l.passive, "!"), 1);
}

static void peer_that_is_killed_ends_its_stream(void **state)
{
    static uint8_t got[RING_LEN];
    pid_t child = start_peer(send_and_wait, getuid());
    go_over_with_peer();
    assert_true(recv_some(l.passive, got, sizeof got) > 0);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    ssize_t len = 1;
    for (int i = 0; i < 1000 && (len > 0 || len == -EAGAIN); i++) {
        len = recv_some(l.passive, got, sizeof got);
    }
    assert_true(len == 0 || len == -ECONNRESET);
}

// To whom something is sent after that hears it as well.
static void peer_that_was_killed_breaks_what_is_sent_to_it(void **state)
{
    char got[4];
    pid_t child = start_peer(send_and_wait, getuid());
    go_over_with_peer();
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    the_link->ops->want_in(l.passive, false);
    ready_now(l.passive);
    local_note_tcp_over(local_stream_of(l.passive), 0);
    send_text(l.passive, "?");
    send_text(l.passive, "?");
    the_link->ops->want_in(l.passive, true);
    ssize_t len = 1;
    static uint8_t all[RING_LEN];
    for (int i = 0; i < 1000 && (len > 0 || len == -EAGAIN); i++) {
        len = recv_some(l.passive, all, sizeof all);
    }
    assert_true(len <= 0);
    (void)got;
}

static void send_and_exit(struct link *link, struct link_stream *stream)
{
    char got[4];
    send_text(stream, "?");
    recv_some(stream, got, sizeof got);
    send_text(stream, "last words");
}

static void what_was_sent_before_an_exit_arrives(void **state)
{
    char got[16] = "";
    int status;
    pid_t child = start_peer(send_and_exit, getuid());
    go_over_with_peer();
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    assert_int_equal(recv_some(l.passive, got, sizeof got), 10);
    assert_string_equal(got, "last words");
    assert_int_equal(recv_some(l.passive, got, sizeof got), 0);
}

static void send_and_pause(struct link *link, struct link_stream *stream)
{
    (void)link;
    send_text(stream, "?");
    pause();
}

// Its process is there, and takes nothing: as a closed window that stays closed.
static void peer_that_is_stopped_is_given_up_after_a_time(void **state)
{
    static uint8_t octets[2 * RING_LEN];
    struct iovec iov = {octets, sizeof octets};
    struct link_tx tx = {.iov = &iov, .iov_count = 1};
    pid_t child = start_peer(send_and_pause, getuid());
    go_over_with_peer();
    kill(child, SIGSTOP);
    assert_true(the_link->ops->send(l.passive, &tx) > 0);
    assert_int_equal(the_link->ops->send(l.passive, &tx), -EAGAIN);
    the_link->ops->want_out(l.passive, true);
    unsigned what = 0;
    while ((what & LINK_READY_ERR) == 0) {
        instant_ns at = the_link->ops->next_deadline(the_link);
        instant_ns now = clock_of_test(NULL);
        assert_true(at != INSTANT_NEVER);
        loop_wait(the_link, at > now ? at - now : 0);
        what = ready_now(l.passive);
    }
    assert_int_equal(the_link->ops->connect_result(l.passive), -ETIMEDOUT);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

static void another_user_gets_tcp(void **state)
{
    char got[16];
    if (getuid() != 0) {
        print_message("SKIP: only root can be another user\n");
        skip();
    }
    pid_t child = start_peer(send_and_exit, 65534);
    assert_int_equal(recv_some(l.passive, got, sizeof got), 1);
    assert_int_equal(path_of(l.passive), LOCAL_PATH_TCP);
    assert_int_equal(counters()->offers_received, 0);
    assert_int_equal(send_text(l.passive, "!"), 1);
    assert_int_equal(recv_some(l.passive, got, sizeof got), 10);
    waitpid(child, NULL, 0);
}

int main(void)
{
#define LINK_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        LINK_TEST(peer_that_is_killed_ends_its_stream),
        LINK_TEST(peer_that_was_killed_breaks_what_is_sent_to_it),
        LINK_TEST(what_was_sent_before_an_exit_arrives),
        LINK_TEST(peer_that_is_stopped_is_given_up_after_a_time),
        LINK_TEST(another_user_gets_tcp),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
