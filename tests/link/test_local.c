// Streams through memory of both ends, over loopback.
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/prng.h"
#include "tests/link/local_pair.h"

/* ---- the contract, before the first octets and in memory ------------------------------------- */

static void exchange(struct link_stream *from, struct link_stream *to)
{
    char got[4];
    assert_int_equal(send_text(from, "?"), 1);
    assert_int_equal(recv_some(to, got, sizeof got), 1);
}

static void go_over_to_memory(void)
{
    exchange(l.active, l.passive);
    exchange(l.passive, l.active);
    exchange(l.active, l.passive);
    assert_int_equal(path_of(l.active), LOCAL_PATH_MEMORY);
    assert_int_equal(path_of(l.passive), LOCAL_PATH_MEMORY);
}

static int begin_in_memory(void **state)
{
    contract_begin_pair = go_over_to_memory;
    return begin(state);
}

/* ---- who goes through memory, and who does not ----------------------------------------------- */

static void first_octets_go_by_tcp_and_the_answer_through_memory(void **state)
{
    loop_open(&l, the_link, AF_INET);
    assert_int_equal(path_of(l.active), LOCAL_PATH_OFFERED);
    assert_int_equal(path_of(l.passive), LOCAL_PATH_ASKED);
    exchange(l.active, l.passive);
    assert_int_equal(path_of(l.passive), LOCAL_PATH_MEMORY);
    assert_int_equal(path_of(l.active), LOCAL_PATH_OFFERED);
    exchange(l.passive, l.active);
    assert_int_equal(path_of(l.active), LOCAL_PATH_MEMORY);
    assert_true(l.active->facts & LINK_IS_OF_HOST);
    assert_int_equal(counters()->streams, 2);
}

// What was on its way by TCP comes before what goes through memory.
static void octets_stay_in_order_where_the_way_changes(void **state)
{
    char got[8] = "";
    loop_open(&l, the_link, AF_INET);
    send_text(l.active, "ab");
    assert_int_equal(recv_some(l.passive, got, 1), 1);
    send_text(l.active, "cd");
    exchange(l.passive, l.active);
    send_text(l.active, "ef");
    for (size_t in = 1; in < 6;) {
        ssize_t len = recv_some(l.passive, got + in, 1 + in % 2);
        assert_true(len > 0);
        in += (size_t)len;
    }
    assert_string_equal(got, "abcdef");
}

static const struct link_ops *inner_ops;
static unsigned inner_pauses;

static void count_want_in(struct link_stream *stream, bool wanted)
{
    inner_pauses += !wanted;
    inner_ops->want_in(stream, wanted);
}

// It would be a system call for each message that waits for a receive.
static void a_pause_is_nothing_to_tcp(void **state)
{
    static struct link_ops counted; // also where the case fails
    struct link *inner = local_link_of(the_link)->forward.inner;
    counted = *inner->ops;
    inner_ops = inner->ops;
    counted.want_in = count_want_in;
    inner->ops = &counted;
    loop_open(&l, the_link, AF_INET);
    go_over_to_memory();
    inner_pauses = 0;
    link_want_in(l.passive, false);
    send_text(l.active, "abc");
    assert_int_equal(ready_now(l.passive) & LINK_READY_IN, 0);
    link_want_in(l.passive, true);
    assert_int_equal(ready_now(l.passive) & LINK_READY_IN, LINK_READY_IN);
    assert_int_equal(inner_pauses, 0);
    inner->ops = inner_ops;
}

static void octets_are_lent_where_they_lie(void **state)
{
    struct span octets;
    bool is_cut;
    loop_open(&l, the_link, AF_INET);
    go_over_to_memory();
    assert_true(l.passive->facts & LINK_LENDS);
    assert_int_equal(link_borrow(l.passive, &octets, &is_cut), -EAGAIN);
    send_text(l.active, "abc");
    assert_int_equal(link_borrow(l.passive, &octets, &is_cut), 3);
    assert_memory_equal(octets.ptr, "abc", 3);
    assert_false(is_cut);
    link_give_back(l.passive, 1);
    send_text(l.active, "d");
    assert_int_equal(link_borrow(l.passive, &octets, &is_cut), 3);
    assert_memory_equal(octets.ptr, "bcd", 3);
    link_give_back(l.passive, 3);
    link_shutdown(l.active);
    assert_int_equal(link_borrow(l.passive, &octets, &is_cut), 0);
}

static void who_speaks_first_after_accepting_stays_with_tcp(void **state)
{
    loop_open(&l, the_link, AF_INET);
    exchange(l.passive, l.active);
    exchange(l.active, l.passive);
    assert_int_equal(path_of(l.active), LOCAL_PATH_TCP);
    assert_int_equal(path_of(l.passive), LOCAL_PATH_TCP);
    assert_false(l.active->facts & LINK_IS_OF_HOST);
}

static int plain_socket(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    return fd;
}

// A server that starts again at once has its port, as over TCP when its client ends first.
static void an_end_of_both_leaves_the_port_free(void **state)
{
    struct sockaddr_storage at;
    char got;
    loop_open(&l, the_link, AF_INET);
    go_over_to_memory();
    assert_int_equal(link_local_addr(l.listener, &at), 0);
    link_shutdown(l.active);
    assert_int_equal(recv_some(l.passive, &got, 1), 0);
    link_close(l.passive, false);
    assert_int_equal(recv_some(l.active, &got, 1), 0);
    assert_int_equal(ready_now(l.active) & LINK_READY_ERR, 0);
    assert_int_equal(link_recv(l.active, mspan_of(&got, 1)), 0); // and no reset behind it
    link_close(l.active, false);
    link_close(l.listener, false);
    int fd = plain_socket();
    assert_int_equal(bind(fd, addr_of(&at), sizeof(struct sockaddr_in)), 0);
    close(fd);
}

static void strangers_connect_as_ever(void **state)
{
    struct sockaddr_storage at;
    char got[8];
    loop_listen(&l, the_link, AF_INET);
    the_link->ops->local_addr(l.listener, &at);
    int fd = plain_socket();
    assert_int_equal(connect(fd, addr_of(&at), sizeof(struct sockaddr_in)), 0);
    assert_int_equal(write(fd, "hello", 5), 5);
    assert_true(ready_of(the_link, l.listener) & LINK_READY_IN);
    assert_int_equal(the_link->ops->accept(l.listener, &l.passive), 0);
    assert_int_equal(recv_some(l.passive, got, sizeof got), 5);
    assert_int_equal(path_of(l.passive), LOCAL_PATH_TCP);
    assert_int_equal(send_text(l.passive, "you"), 3);
    assert_int_equal(read(fd, got, sizeof got), 3);
    close(fd);
}

static void where_nobody_has_a_door_nothing_is_handed_over(void **state)
{
    struct sockaddr_storage at = loopback(AF_INET);
    socklen_t len = sizeof(struct sockaddr_in);
    int fd = plain_socket();
    assert_int_equal(bind(fd, addr_of(&at), len), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    the_link->ops->bind(the_link, NULL, 0, NULL, &l.active);
    assert_int_equal(the_link->ops->connect(l.active, addr_of(&at)), -EINPROGRESS);
    assert_true(ready_of(the_link, l.active) & LINK_READY_OUT);
    assert_int_equal(the_link->ops->connect_result(l.active), 0);
    assert_int_equal(path_of(l.active), LOCAL_PATH_TCP);
    assert_int_equal(counters()->offers_sent + counters()->offers_failed, 0);
    close(fd);
}

static void without_descriptors_a_stream_stays_with_tcp(void **state)
{
    struct rlimit before, none;
    loop_listen(&l, the_link, AF_INET);
    struct sockaddr_storage at;
    the_link->ops->local_addr(l.listener, &at);
    the_link->ops->bind(the_link, NULL, 0, NULL, &l.active);
    assert_int_equal(the_link->ops->connect(l.active, addr_of(&at)), -EINPROGRESS);
    assert_true(ready_of(the_link, l.active) & LINK_READY_OUT);
    getrlimit(RLIMIT_NOFILE, &before);
    none = (struct rlimit){0, before.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
    int error = the_link->ops->connect_result(l.active);
    setrlimit(RLIMIT_NOFILE, &before);
    assert_int_equal(error, 0);
    assert_int_equal(path_of(l.active), LOCAL_PATH_TCP);
    assert_int_equal(counters()->offers_failed, 1);
    assert_int_equal(the_link->ops->accept(l.listener, &l.passive), 0);
    exchange(l.active, l.passive);
    exchange(l.passive, l.active);
}

/* ---- a hostile peer -------------------------------------------------------------------------- */

// Somebody who connects and knows how to hand memory over: what he holds of it, and his socket.
static struct local_memory theirs;
static struct local_channel *their_channel;
static pid_t process; // whose door it is
static int their_fd = -1;

static struct net_flow flow_of_socket(int fd)
{
    struct sockaddr_storage at;
    struct net_flow flow = {0};
    socklen_t len = sizeof at;
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    net_addr_from_sockaddr((struct sockaddr *)&at, &flow.local, &flow.local_port, &flow.scope);
    len = sizeof at;
    assert_int_equal(getpeername(fd, (struct sockaddr *)&at, &len), 0);
    net_addr_from_sockaddr((struct sockaddr *)&at, &flow.remote, &flow.remote_port, NULL);
    return flow;
}

static void stranger_connects(void)
{
    struct sockaddr_storage at;
    loop_listen(&l, the_link, AF_INET);
    the_link->ops->local_addr(l.listener, &at);
    their_fd = plain_socket();
    assert_int_equal(connect(their_fd, addr_of(&at), sizeof(struct sockaddr_in)), 0);
}

static void stranger_is_accepted(void)
{
    char got[4];
    assert_int_equal(write(their_fd, "?", 1), 1);
    assert_true(ready_of(the_link, l.listener) & LINK_READY_IN);
    assert_int_equal(the_link->ops->accept(l.listener, &l.passive), 0);
    assert_int_equal(recv_some(l.passive, got, sizeof got), 1);
}

static void stranger_leaves(void)
{
    close(their_fd);
    local_memory_release(&theirs);
    if (their_channel != NULL) {
        local_channel_destroy(their_channel);
    }
    their_channel = NULL;
}

static void offer_as_stranger(const struct net_flow *flow, uint32_t ring_len)
{
    int door = local_door_knock(flow, &process);
    assert_true(door >= 0);
    if (their_channel == NULL) {
        assert_int_equal(local_channel_create(&their_channel), 0);
    }
    assert_int_equal(local_door_offer(door, flow, ring_len, &their_channel->means, &theirs), 0);
    close(door);
}

static void enter_as_stranger(void)
{
    stranger_connects();
    const struct net_flow flow = flow_of_socket(their_fd);
    offer_as_stranger(&flow, RING_LEN);
    stranger_is_accepted();
    assert_int_equal(path_of(l.passive), LOCAL_PATH_MEMORY);
    atomic_store(local_memory_word(&theirs, LOCAL_MEMORY_SWITCHED), 2);
}

static void write_word(enum local_memory_offset ring, enum octet_ring_offset word, uint64_t value)
{
    atomic_store(local_memory_word(&theirs, (enum local_memory_offset)(ring + word)), value);
    write(their_fd, "b", 1);
}

static void peer_that_shows_what_cannot_be_breaks_its_stream_alone(void **state)
{
    char got[4];
    enter_as_stranger();
    write_word(LOCAL_MEMORY_ACTIVE_RING, OCTET_RING_WRITTEN, RING_LEN + 1);
    assert_int_equal(recv_some(l.passive, got, sizeof got), -EPROTO);
    assert_int_equal(counters()->broken, 1);
    assert_int_equal(send_text(l.passive, "x"), -EPIPE);
    stranger_leaves();
}

static void peer_that_takes_what_was_not_sent_breaks_its_stream_alone(void **state)
{
    static uint8_t octets[RING_LEN];
    struct iovec iov = {octets, sizeof octets};
    struct link_tx tx = {.iov = &iov, .iov_count = 1};
    enter_as_stranger();
    write_word(LOCAL_MEMORY_PASSIVE_RING, OCTET_RING_TAKEN, RING_LEN + 7);
    assert_int_equal(the_link->ops->send(l.passive, &tx), RING_LEN);
    assert_int_equal(the_link->ops->send(l.passive, &tx), -EPROTO);
    assert_int_equal(counters()->broken, 1);
    stranger_leaves();
}

static void peer_that_says_it_sent_less_by_tcp_than_it_did_breaks_its_stream(void **state)
{
    char got[4];
    enter_as_stranger();
    atomic_store(local_memory_word(&theirs, LOCAL_MEMORY_SWITCHED), 1);
    write(their_fd, "b", 1);
    assert_int_equal(recv_some(l.passive, got, sizeof got), -EPROTO);
    stranger_leaves();
}

// Everything that is shared, word by word, and what comes by TCP: the stream may say what it likes,
// and end.
static void random_words_harm_nobody_else(void **state)
{
    static uint8_t got[2 * RING_LEN];
    struct prng prng;
    prng_init(&prng, 7);
    loop_open(&l, the_link, AF_INET);
    exchange(l.active, l.passive);
    exchange(l.passive, l.active);
    struct loop honest = l;
    for (int i = 0; i < 300; i++) {
        l = (struct loop){0};
        enter_as_stranger();
        for (int turn = 0; turn < 20; turn++) {
            uint64_t value = prng_next(&prng) >> (prng_next(&prng) % 64);
            unsigned word = (unsigned)(prng_next(&prng) % (LOCAL_MEMORY_WORDS_LEN / 8));
            word = turn % 2 == 0 ? word % 20 * 8 : word; // those that mean something, often
            atomic_store(local_memory_word(&theirs, (enum local_memory_offset)(8 * word)), value);
            write(their_fd, "bbb", prng_next(&prng) % 4);
            the_link->ops->want_out(l.passive, turn % 3 == 0);
            ready_now(l.passive);
            the_link->ops->recv(l.passive, mspan_of(got, prng_next(&prng) % sizeof got));
            send_text(l.passive, "answer");
        }
        the_link->ops->close(l.passive, i % 2 == 0);
        the_link->ops->close(l.listener, false);
        stranger_leaves();
    }
    l = honest;
    exchange(l.active, l.passive);
}

// With so many of the descriptors.
static void send_offer(const struct sockaddr_un *door, socklen_t len, const void *octets,
                       size_t octets_len, const int *fds, unsigned fd_count)
{
    _Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(4 * sizeof(int))] = {0};
    struct iovec iov = {(void *)(uintptr_t)octets, octets_len};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)door, len), 0);
    if (fd_count > 0) {
        msg.msg_control = control;
        msg.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
        *CMSG_FIRSTHDR(&msg) = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
                                                .cmsg_type = SCM_RIGHTS,
                                                .cmsg_len = CMSG_LEN(fd_count * sizeof(int))};
        memcpy(CMSG_DATA(CMSG_FIRSTHDR(&msg)), fds, fd_count * sizeof(int));
    }
    assert_int_equal(sendmsg(fd, &msg, 0), octets_len);
    close(fd);
}

static int memory_of(size_t len, bool is_sealed)
{
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(fd, (off_t)len), 0);
    if (is_sealed) {
        assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
    }
    return fd;
}

// An offer as it must be, but for its memory, its channel, or one octet.
static void malformed_offers_are_refused(void **state)
{
    uint8_t offer[LOCAL_OFFER_LEN] = "weft-mem";
    struct sockaddr_un door;
    socklen_t len = sizeof door;
    stranger_connects();
    assert_int_equal(
        getsockname(local_stream_of(l.listener)->door.fd, (struct sockaddr *)&door, &len), 0);
    struct net_flow flow = flow_of_socket(their_fd);
    flow = net_flow_turned(&flow);
    offer[LOCAL_OFFER_VERSION + 3] = 3;
    put_be32(offer + LOCAL_OFFER_RING_LEN, RING_LEN);
    memcpy(offer + LOCAL_OFFER_FLOW, &flow, sizeof flow);
    const size_t memory_len = LOCAL_MEMORY_PAGE + 2 * RING_LEN;
    const int unsealed = memory_of(memory_len, false), sealed = memory_of(memory_len, true);
    const int channel = memory_of(LOCAL_CHANNEL_LEN, true);
    const int open_channel = memory_of(LOCAL_CHANNEL_LEN, false);
    const int unix_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int pipes[2];
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    const int good[] = {sealed, channel, unix_fd, 0};

    send_offer(&door, len, offer, sizeof offer, good, 0);     // no memory
    send_offer(&door, len, offer, sizeof offer, good, 1);     // no channel
    send_offer(&door, len, offer, sizeof offer, good, 2);     // that wakes nobody
    send_offer(&door, len, offer, sizeof offer - 1, good, 3); // too short
    const int bad[][3] = {
        {unsealed, channel, unix_fd},    // that can be taken away again
        {0, channel, unix_fd},           // that is none
        {sealed, open_channel, unix_fd}, // a channel that can be
        {sealed, sealed, unix_fd},       // ... of another length
        {sealed, channel, pipes[1]},     // what could block who writes to it
    };
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        send_offer(&door, len, offer, sizeof offer, bad[i], 3);
    }
    put_be32(offer + LOCAL_OFFER_RING_LEN, RING_LEN / 2);
    send_offer(&door, len, offer, sizeof offer, good, 3); // of another length
    put_be32(offer + LOCAL_OFFER_RING_LEN, 0);
    send_offer(&door, len, offer, sizeof offer, good, 3); // of none
    put_be32(offer + LOCAL_OFFER_RING_LEN, RING_LEN);
    offer[LOCAL_OFFER_VERSION + 3] = 2;
    send_offer(&door, len, offer, sizeof offer, good, 3); // of a version before
    stranger_is_accepted();
    assert_int_equal(path_of(l.passive), LOCAL_PATH_TCP);
    assert_int_equal(counters()->offers_received, 12);
    assert_int_equal(counters()->offers_refused, 12);
    const int all[] = {unsealed, sealed, channel, open_channel, unix_fd, pipes[0], pipes[1]};
    for (unsigned i = 0; i < sizeof all / sizeof all[0]; i++) {
        close(all[i]);
    }
    stranger_leaves();
}

// Memory for connections that never say anything is given back.
static void offers_that_nobody_asks_for_are_bounded(void **state)
{
    stranger_connects();
    struct net_flow flow = flow_of_socket(their_fd);
    for (unsigned i = 0; i < LOCAL_OFFERS_MAX + 10; i++) {
        struct net_flow other = flow;
        other.local_port = (uint16_t)(1 + i);
        offer_as_stranger(&other, LOCAL_MEMORY_PAGE);
        local_memory_release(&theirs);
    }
    stranger_is_accepted();
    assert_int_equal(local_link_of(the_link)->offer_count, LOCAL_OFFERS_MAX);
    assert_int_equal(counters()->offers_refused, 10);
    stranger_leaves();
}

/* ---- two threads, each with a link of its own ------------------------------------------------ */

enum { ROUNDS = 3000, BLOCK_LEN = 3 * RING_LEN / 2 };

// Sends a block, of which the ring holds no more than a part, sleeping where there is no room.
static void send_block(struct link_stream *stream, const uint8_t *octets, size_t len)
{
    for (size_t out = 0; out < len;) {
        struct iovec iov = {(void *)(uintptr_t)(octets + out), len - out};
        struct link_tx tx = {.iov = &iov, .iov_count = 1};
        ssize_t taken = link_send(stream, &tx);
        assert_true(taken > 0 || taken == -EAGAIN);
        out += taken > 0 ? (size_t)taken : 0;
        if (taken == -EAGAIN) {
            link_want_out(stream, true);
            ready_of(stream->link, stream);
            link_want_out(stream, false);
        }
    }
}

static void recv_block(struct link_stream *stream, uint8_t *into, size_t len)
{
    for (size_t in = 0; in < len;) {
        ssize_t got = link_recv(stream, mspan_of(into + in, len - in));
        assert_true(got > 0 || got == -EAGAIN);
        in += got > 0 ? (size_t)got : 0;
        if (got == -EAGAIN) {
            ready_of(stream->link, stream);
        }
    }
}

static uint8_t block[BLOCK_LEN], block_back[BLOCK_LEN];

static size_t round_len(int round)
{
    return round % 100 == 0 ? BLOCK_LEN : 1 + (size_t)round % 500;
}

static void *echo(void *arg)
{
    struct link_stream *listener = arg, *stream;
    static uint8_t mine[BLOCK_LEN];
    ready_of(listener->link, listener);
    if (link_accept(listener, &stream) != 0) {
        return arg;
    }
    for (int round = 0; round < ROUNDS; round++) {
        recv_block(stream, mine, round_len(round));
        send_block(stream, mine, round_len(round));
    }
    link_close(stream, false);
    return NULL;
}

static void two_sides_that_sleep_in_turn_lose_nothing(void **state)
{
    struct link_socket_config socket_config = {0};
    struct link *inner, *other;
    struct sockaddr_storage at;
    pthread_t thread;
    void *failed;
    assert_int_equal(link_socket_create(&socket_config, &inner), 0);
    assert_int_equal(link_local_wrap(inner, &config, &other), 0);
    loop_listen(&l, other, AF_INET);
    link_local_addr(l.listener, &at);
    assert_int_equal(pthread_create(&thread, NULL, echo, l.listener), 0);
    link_bind(the_link, NULL, 0, NULL, &l.active);
    assert_int_equal(link_connect(l.active, addr_of(&at)), -EINPROGRESS);
    ready_of(the_link, l.active);
    assert_int_equal(link_connect_result(l.active), 0);
    for (size_t i = 0; i < sizeof block; i++) {
        block[i] = (uint8_t)(i * 2654435761U >> 13);
    }
    for (int round = 0; round < ROUNDS; round++) {
        send_block(l.active, block, round_len(round));
        recv_block(l.active, block_back, round_len(round));
        assert_memory_equal(block, block_back, round_len(round));
    }
    pthread_join(thread, &failed);
    assert_null(failed);
    assert_int_equal(path_of(l.active), LOCAL_PATH_MEMORY);
    link_destroy(other);
}

int main(void)
{
#define LINK_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
#define X(name)         LINK_TEST(name),
#define IN_MEMORY(name) cmocka_unit_test_setup_teardown(name, begin_in_memory, end),
    const struct CMUnitTest tests[] = {
        CONTRACT_TESTS(X) CONTRACT_TESTS(IN_MEMORY)
            LINK_TEST(first_octets_go_by_tcp_and_the_answer_through_memory),
        LINK_TEST(octets_stay_in_order_where_the_way_changes),
        LINK_TEST(a_pause_is_nothing_to_tcp),
        LINK_TEST(octets_are_lent_where_they_lie),
        LINK_TEST(who_speaks_first_after_accepting_stays_with_tcp),
        LINK_TEST(an_end_of_both_leaves_the_port_free),
        LINK_TEST(strangers_connect_as_ever),
        LINK_TEST(where_nobody_has_a_door_nothing_is_handed_over),
        LINK_TEST(without_descriptors_a_stream_stays_with_tcp),
        LINK_TEST(peer_that_shows_what_cannot_be_breaks_its_stream_alone),
        LINK_TEST(peer_that_takes_what_was_not_sent_breaks_its_stream_alone),
        LINK_TEST(peer_that_says_it_sent_less_by_tcp_than_it_did_breaks_its_stream),
        LINK_TEST(random_words_harm_nobody_else),
        LINK_TEST(malformed_offers_are_refused),
        LINK_TEST(offers_that_nobody_asks_for_are_bounded),
        LINK_TEST(two_sides_that_sleep_in_turn_lose_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
