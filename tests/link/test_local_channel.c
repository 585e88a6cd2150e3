// Many streams between two links of a host: one channel, whose memory and socket they share.
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "link/local/channel.h"
#include "link/local/doorbell.h"
#include "link/local/local.h"
#include "link/local/memory.h"
#include "link/local/stream.h"
#include "link/socket.h"
#include "tests/link/descriptors.h"
#include "tests/link/loop.h"

enum {
    STREAMS = 60, // more than are looked at one by one
    RING_LEN = 16 * 1024,
};

static instant_ns clock_of_test(void *ctx)
{
    struct timespec t;
    (void)ctx;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (instant_ns)t.tv_sec * NS_PER_S + (instant_ns)t.tv_nsec;
}

static const struct link_local_config config = {.ring_len = RING_LEN, .clock = clock_of_test};

static struct link *client, *server;
static struct link_stream *listener, *near[STREAMS], *far[STREAMS];

static struct link *link_of_test(void)
{
    struct link_socket_config socket_config = {0};
    struct link *inner, *outer;
    assert_int_equal(link_socket_create(&socket_config, &inner), 0);
    assert_int_equal(link_local_wrap(inner, &config, &outer), 0);
    return outer;
}

static int begin(void **state)
{
    struct loop l;
    descriptors_note();
    client = link_of_test();
    server = link_of_test();
    loop_listen(&l, server, AF_INET);
    listener = l.listener;
    return 0;
}

static int end(void **state)
{
    link_destroy(client);
    link_destroy(server);
    descriptors_check();
    return 0;
}

static void send_octet(struct link_stream *stream)
{
    struct iovec iov = {"?", 1};
    struct link_tx tx = {.iov = &iov, .iov_count = 1};
    assert_int_equal(link_send(stream, &tx), 1);
}

static void recv_octet(struct link_stream *stream)
{
    uint8_t octet;
    ssize_t len;
    while ((len = link_recv(stream, mspan_of(&octet, 1))) == -EAGAIN) {
        ready_of(stream->link, stream);
    }
    assert_int_equal(len, 1);
}

static void cross(struct link_stream *from, struct link_stream *to)
{
    send_octet(from);
    recv_octet(to);
}

static void connect_one(unsigned i)
{
    struct sockaddr_storage addr;
    assert_int_equal(link_local_addr(listener, &addr), 0);
    assert_int_equal(link_bind(client, NULL, 0, NULL, &near[i]), 0);
    assert_int_equal(link_connect(near[i], addr_of(&addr)), -EINPROGRESS);
    assert_true(ready_of(server, listener) & LINK_READY_IN);
    assert_int_equal(link_accept(listener, &far[i]), 0);
    assert_true(ready_of(client, near[i]) & LINK_READY_OUT);
    assert_int_equal(link_connect_result(near[i]), 0);
    cross(near[i], far[i]);
    cross(far[i], near[i]);
    cross(near[i], far[i]); // TCP's octets have come, and both sides use the memory
    assert_int_equal(local_stream_of(far[i])->path, LOCAL_PATH_MEMORY);
}

static void connect_all(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        connect_one(i);
    }
}

static unsigned length_of(const struct list_link *list)
{
    unsigned len = 0;
    for (const struct list_link *at = list->next; at != list; at = at->next) {
        len++;
    }
    return len;
}

static struct local_channel *channel_of(const struct link_stream *stream)
{
    return local_stream_of(stream)->channel;
}

static struct local_counters *counters_of(struct link *link)
{
    return &local_link_of(link)->counters;
}

// Until nobody is awake, whoever is looked at now.
static void go_to_sleep(struct link *link)
{
    struct link_ready ready[8];
    for (int turn = 0; !link_may_wait(link); turn++) {
        assert_true(turn < 1000000);
        link_poll(link, ready, 8);
    }
}

// No stream is looked at by itself any more.
static void rest_all(struct link *link)
{
    go_to_sleep(link);
    link_wake(link);
    link_wait(link, INSTANT_NEVER);
}

/* ---- one channel ----------------------------------------------------------------------------- */

static void all_streams_to_a_listener_share_a_channel(void **state)
{
    connect_all(20);
    assert_int_equal(length_of(&local_link_of(client)->channels), 1);
    assert_int_equal(length_of(&local_link_of(server)->channels), 1);
    for (unsigned i = 1; i < 20; i++) {
        assert_ptr_equal(channel_of(near[i]), channel_of(near[0]));
        assert_ptr_equal(channel_of(far[i]), channel_of(far[0]));
    }
}

static void a_channel_ends_with_its_last_stream(void **state)
{
    connect_all(3);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(length_of(&local_link_of(client)->channels), 1);
        link_close(near[i], false);
        link_close(far[i], false);
    }
    assert_int_equal(length_of(&local_link_of(client)->channels), 0);
    assert_int_equal(length_of(&local_link_of(server)->channels), 0);
    connect_all(2); // and others may come
    cross(near[1], far[1]);
}

// Who accepted has none left, and who connected still has: the next stream finds both together.
static void a_side_that_has_let_go_takes_the_channel_again(void **state)
{
    connect_one(0);
    link_close(far[0], false);
    assert_int_equal(length_of(&local_link_of(server)->channels), 0);
    connect_one(1);
    assert_int_equal(length_of(&local_link_of(client)->channels), 1);
    cross(near[1], far[1]);
    cross(far[1], near[1]);
}

// Numbers are given again.
static void closed_streams_make_room_for_others(void **state)
{
    connect_all(10);
    for (unsigned i = 0; i < 100; i++) {
        link_close(near[i % 10], false);
        link_close(far[i % 10], false);
        connect_one(i % 10);
    }
    assert_true(channel_of(near[0])->number_count <= 16);
    for (unsigned i = 0; i < 10; i++) {
        cross(near[i], far[i]);
        cross(far[i], near[i]);
    }
}

/* ---- memory of one stream -------------------------------------------------------------------- */

// Pages that hold anything, of both rings and the words.
static unsigned pages_of(const struct link_stream *stream)
{
    unsigned char is_there[1 + 2 * RING_LEN / LOCAL_MEMORY_PAGE];
    const uintptr_t words = (uintptr_t)local_stream_of(stream)->memory.base;
    const uintptr_t begin = words - RING_LEN - words % LOCAL_MEMORY_PAGE;
    unsigned count = 0;
    assert_int_equal(mincore((void *)begin, sizeof is_there * LOCAL_MEMORY_PAGE, is_there), 0);
    for (unsigned i = 0; i < sizeof is_there; i++) {
        count += is_there[i] & 1;
    }
    return count;
}

static void a_stream_that_carried_little_has_one_page(void **state)
{
    connect_one(0);
    for (unsigned i = 0; i < LOCAL_MEMORY_FIRST / 2; i++) {
        cross(near[0], far[0]);
        cross(far[0], near[0]);
    }
    assert_int_equal(pages_of(near[0]), 1);
}

/* ---- news ------------------------------------------------------------------------------------ */

// Of all of them, though few are looked at one by one; and no system call tells.
static void news_of_many_streams_are_found_in_one_look(void **state)
{
    struct link_ready ready[STREAMS];
    connect_all(STREAMS);
    link_poll(server, ready, STREAMS);
    uint64_t bells = counters_of(client)->bells_sent;
    for (unsigned i = 0; i < STREAMS; i++) {
        send_octet(near[i]);
    }
    assert_int_equal(link_poll(server, ready, STREAMS), STREAMS);
    for (unsigned i = 0; i < STREAMS; i++) {
        assert_int_equal(ready[i].what, LINK_READY_IN);
        recv_octet(ready[i].stream);
    }
    assert_int_equal(counters_of(client)->bells_sent, bells);
}

static void what_finds_no_room_in_a_report_comes_in_the_next(void **state)
{
    struct link_ready ready[7];
    unsigned found = 0;
    connect_all(50);
    for (unsigned i = 0; i < 50; i++) {
        send_octet(near[i]);
    }
    for (unsigned turn = 0; turn < 100 && found < 50; turn++) {
        int count = link_poll(server, ready, 7);
        for (int i = 0; i < count; i++) {
            recv_octet(ready[i].stream);
            found++;
        }
    }
    assert_int_equal(found, 50);
}

static void who_sleeps_is_woken_once_for_all_streams(void **state)
{
    connect_all(40);
    go_to_sleep(server);
    uint64_t bells = counters_of(client)->bells_sent;
    uint64_t heard = counters_of(server)->bells_received;
    for (unsigned i = 0; i < 40; i++) {
        send_octet(near[i]);
    }
    assert_int_equal(counters_of(client)->bells_sent, bells + 1);
    link_wait(server, INSTANT_NEVER);
    for (unsigned i = 0; i < 40; i++) {
        recv_octet(far[i]);
    }
    go_to_sleep(server); // which takes the bell away
    assert_int_equal(counters_of(server)->bells_received, heard + 1);
}

static void nobody_waits_over_news(void **state)
{
    connect_all(STREAMS);
    rest_all(server);
    send_octet(near[0]);
    assert_false(link_may_wait(server));
    recv_octet(far[0]);
    go_to_sleep(server);
}

// The one that rings is gone on the other side, which nobody has heard of yet.
static void a_stream_that_is_gone_takes_no_wake_up_with_it(void **state)
{
    connect_all(2);
    link_close(far[0], false);
    go_to_sleep(server);
    send_octet(near[0]);
    send_octet(near[1]);
    link_wait(server, INSTANT_NEVER);
    recv_octet(far[1]);
}

/* ---- a peer that lies ------------------------------------------------------------------------ */

static void news_of_streams_that_are_not_there_are_counted(void **state)
{
    struct link_ready ready[8];
    connect_all(2);
    while (link_poll(server, ready, 8) > 0) {
    }
    doorbell_mark(channel_of(near[0])->other_bell, 4711);
    doorbell_mark(channel_of(near[0])->other_bell, DOORBELL_NUMBERS - 1);
    assert_int_equal(link_poll(server, ready, 8), 0);
    assert_int_equal(counters_of(server)->marks_idle, 2);
    cross(near[1], far[1]);
}

// One that marks everything again and again takes a part of each turn, and no more.
static void who_marks_everything_stops_nobody_else(void **state)
{
    struct link *liar = client, *honest = link_of_test();
    struct link_ready ready[4];
    connect_all(40);
    client = honest;
    connect_one(40);
    rest_all(server);
    send_octet(near[40]);
    bool is_found = false;
    for (unsigned turn = 0; turn < 3 && !is_found; turn++) {
        memset(channel_of(near[0])->other_bell, 0xff, DOORBELL_LEN);
        int count = link_poll(server, ready, 4);
        for (int i = 0; i < count; i++) {
            is_found |= ready[i].stream == far[40];
        }
    }
    assert_true(is_found);
    recv_octet(far[40]);
    link_destroy(honest);
    client = liar;
}

static void a_look_passes_over_so_many_marks_and_no_more(void **state)
{
    struct link_ready ready[8];
    connect_one(0);
    memset(channel_of(near[0])->other_bell, 0xff, DOORBELL_LEN);
    link_poll(server, ready, 8);
    uint64_t first = counters_of(server)->marks_idle;
    assert_in_range(first, 1, 256);
    link_poll(server, ready, 8);
    assert_in_range(counters_of(server)->marks_idle, first + 1, first + 256);
}

// Its own streams are told nothing then, and others are.
static void who_ends_the_socket_is_not_heard_and_not_asked_for_ever(void **state)
{
    struct link *liar = client, *honest = link_of_test();
    struct link_ready ready[8];
    connect_one(0);
    client = honest;
    connect_one(1);
    local_channel_unwatch(channel_of(near[0]));
    shutdown(channel_of(near[0])->means.socket_fd, SHUT_RDWR);
    for (int turn = 0; turn < 1000 && channel_of(far[0])->bell != NULL; turn++) {
        link_poll(server, ready, 8);
    }
    assert_null(channel_of(far[0])->bell);
    assert_int_equal(link_poll(server, ready, 8), 0);
    go_to_sleep(server);
    send_octet(near[1]);
    link_wait(server, INSTANT_NEVER);
    recv_octet(far[1]);
    send_octet(far[0]); // whom nothing wakes
    link_destroy(honest);
    client = liar;
}

// Two that accept by the same channel would take each other's news.
static void a_channel_that_somebody_has_is_not_taken(void **state)
{
    struct local_channel *made, *first, *second;
    assert_int_equal(local_channel_create(&made), 0);
    assert_int_equal(local_channel_adopt(&made->means, &first), 0);
    assert_int_equal(local_channel_adopt(&made->means, &second), -EBUSY);
    local_channel_destroy(first);
    assert_int_equal(local_channel_adopt(&made->means, &second), 0);
    local_channel_destroy(second);
    local_channel_destroy(made);
}

static void a_channel_has_no_more_numbers_than_bits(void **state)
{
    struct local_channel *c;
    uint32_t number;
    assert_int_equal(local_channel_create(&c), 0);
    for (uint32_t i = 0; i < DOORBELL_NUMBERS; i++) {
        assert_int_equal(local_channel_number(c, local_stream_of(listener), &number), 0);
        assert_int_equal(number, i);
    }
    assert_int_equal(local_channel_number(c, local_stream_of(listener), &number), -ENOSPC);
    local_channel_free_number(c, 17);
    assert_null(local_channel_stream(c, 17));
    assert_int_equal(local_channel_number(c, local_stream_of(listener), &number), 0);
    assert_int_equal(number, 17);
    assert_null(local_channel_stream(c, DOORBELL_NUMBERS));
    assert_null(local_channel_stream(c, UINT32_MAX));
    local_channel_destroy(c);
}

#define CHANNEL_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHANNEL_TEST(all_streams_to_a_listener_share_a_channel),
        CHANNEL_TEST(a_channel_ends_with_its_last_stream),
        CHANNEL_TEST(a_side_that_has_let_go_takes_the_channel_again),
        CHANNEL_TEST(closed_streams_make_room_for_others),
        CHANNEL_TEST(a_stream_that_carried_little_has_one_page),
        CHANNEL_TEST(news_of_many_streams_are_found_in_one_look),
        CHANNEL_TEST(what_finds_no_room_in_a_report_comes_in_the_next),
        CHANNEL_TEST(who_sleeps_is_woken_once_for_all_streams),
        CHANNEL_TEST(nobody_waits_over_news),
        CHANNEL_TEST(a_stream_that_is_gone_takes_no_wake_up_with_it),
        CHANNEL_TEST(news_of_streams_that_are_not_there_are_counted),
        CHANNEL_TEST(who_marks_everything_stops_nobody_else),
        CHANNEL_TEST(a_look_passes_over_so_many_marks_and_no_more),
        CHANNEL_TEST(who_ends_the_socket_is_not_heard_and_not_asked_for_ever),
        CHANNEL_TEST(a_channel_that_somebody_has_is_not_taken),
        CHANNEL_TEST(a_channel_has_no_more_numbers_than_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
