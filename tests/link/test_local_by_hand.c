// A stream through memory, both of whose ends are this process: which way its octets go, what is
// offered, and how each end is told.
#include <sys/resource.h>
#include <sys/socket.h>

#include "tests/link/local_hand.h"

/* ---- which way ------------------------------------------------------------------------------- */

static void both_ends_tell_where_their_octets_go(void **state)
{
    const unsigned before = descriptors_more();
    loop_open(&l, the_link, AF_INET);
    assert_int_equal(near_end()->path, LOCAL_PATH_OFFERED);
    assert_int_equal(counters()->offers_sent, 1);
    assert_int_equal(counters()->offers_failed, 0);
    assert_int_equal(counters()->offers_received, 0);
    assert_true(l.active->facts & LINK_IS_OF_HOST);
    assert_false(l.passive->facts & LINK_IS_OF_HOST);
    exchange(l.active, l.passive);
    assert_int_equal(counters()->offers_received, 1);
    assert_int_equal(counters()->offers_refused, 0);
    assert_int_equal(local_link_of(the_link)->offer_count, 0);
    assert_int_equal(local_link_of(the_link)->in_memory_count, 1);
    assert_true(l.passive->facts & LINK_IS_OF_HOST);
    assert_false(l.passive->facts & LINK_LENDS); // TCP's octets may be under way
    assert_false(l.active->facts & LINK_LENDS);
    exchange(l.passive, l.active);
    assert_true(l.active->facts & LINK_LENDS);
    exchange(l.active, l.passive);
    assert_true(l.passive->facts & LINK_LENDS);
    assert_int_equal(counters()->streams, 2);
    assert_int_equal(local_link_of(the_link)->in_memory_count, 2);
    assert_int_equal(near_end()->peer_number, far_end()->number);
    assert_int_equal(far_end()->peer_number, near_end()->number);
    assert_int_equal(near_end()->process, getpid());
    assert_int_equal(far_end()->process, getpid());
    assert_int_equal(link_connect_result(l.active), 0); // asked again, it hands nothing over
    assert_int_equal(counters()->offers_sent, 1);
    link_close(l.active, true);
    link_close(l.passive, true);
    assert_int_equal(local_link_of(the_link)->in_memory_count, 0);
    link_close(l.listener, true);
    assert_int_equal(descriptors_more(), before); // the channel's are given back
}

static void connect_to_listener(void)
{
    loop_listen(&l, the_link, AF_INET);
    loop_connect(&l);
}

static void who_cannot_be_named_stays_with_tcp(void **state)
{
    struct sockaddr_storage at;
    loop_listen(&l, the_link, AF_INET);
    assert_int_equal(link_local_addr(l.listener, &at), 0);
    assert_int_equal(link_bind(the_link, NULL, 0, NULL, &l.active), 0);
    assert_int_equal(link_connect(l.active, addr_of(&at)), -EINPROGRESS);
    assert_true(ready_of(the_link, l.active) & LINK_READY_OUT);
    addr_error = -ENOTCONN;
    assert_int_equal(link_connect_result(l.active), 0);
    addr_error = 0;
    assert_int_equal(near_end()->path, LOCAL_PATH_TCP);
    assert_int_equal(counters()->offers_sent + counters()->offers_failed, 0);
}

// Of an address that is not this host's no door is looked for, wherever it seems to be.
static void another_hosts_peer_is_handed_nothing(void **state)
{
    static const struct {
        const char *peer;
        enum local_path path;
        unsigned failed;
    } rows[] = {
        {"192.0.2.1", LOCAL_PATH_TCP, 0},
        {"127.0.0.9", LOCAL_PATH_TCP, 0}, // is of this host, and has no door
        {NULL, LOCAL_PATH_OFFERED, 0},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        peer_text = rows[i].peer;
        connect_to_listener();
        peer_text = NULL;
        assert_int_equal(near_end()->path, rows[i].path);
        assert_int_equal(counters()->offers_sent, rows[i].path == LOCAL_PATH_OFFERED);
        assert_int_equal(counters()->offers_failed, 0);
        link_close(l.active, true);
        link_close(l.passive, true);
        link_close(l.listener, true);
    }
}

// From 127.0.0.1 to 127.0.0.2: two addresses of one host.
static void two_addresses_of_the_host_are_one_host(void **state)
{
    struct sockaddr_storage at = loopback(AF_INET), from = loopback(AF_INET);
    ((struct sockaddr_in *)&at)->sin_addr.s_addr = htonl(0x7f000002);
    assert_int_equal(link_bind(the_link, addr_of(&at), 0, NULL, &l.listener), 0);
    assert_int_equal(link_listen(l.listener, 8), 0);
    assert_int_equal(link_local_addr(l.listener, &at), 0);
    assert_int_equal(link_bind(the_link, addr_of(&from), 0, NULL, &l.active), 0);
    assert_int_equal(link_connect(l.active, addr_of(&at)), -EINPROGRESS);
    assert_true(ready_of(the_link, l.listener) & LINK_READY_IN);
    assert_int_equal(link_accept(l.listener, &l.passive), 0);
    assert_true(ready_of(the_link, l.active) & LINK_READY_OUT);
    assert_int_equal(link_connect_result(l.active), 0);
    assert_int_equal(near_end()->path, LOCAL_PATH_OFFERED);
    exchange(l.active, l.passive);
    exchange(l.passive, l.active);
    assert_int_equal(near_end()->path, LOCAL_PATH_MEMORY);
}

static void a_listener_of_ipv6_has_a_door_too(void **state)
{
    loop_open(&l, the_link, AF_INET6);
    exchange(l.active, l.passive);
    exchange(l.passive, l.active);
    assert_int_equal(near_end()->path, LOCAL_PATH_MEMORY);
}

// Whatever cannot be had: the stream is TCP's, and nothing is left over.
static void each_want_of_a_descriptor_leaves_the_stream_to_tcp(void **state)
{
    struct rlimit before, limit;
    unsigned failed = 0;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    for (rlim_t more = 0; more < 20; more++) {
        struct sockaddr_storage at;
        loop_listen(&l, the_link, AF_INET);
        assert_int_equal(link_local_addr(l.listener, &at), 0);
        assert_int_equal(link_bind(the_link, NULL, 0, NULL, &l.active), 0);
        assert_int_equal(link_connect(l.active, addr_of(&at)), -EINPROGRESS);
        assert_true(ready_of(the_link, l.active) & LINK_READY_OUT);
        const int next = dup(0); // the lowest free number
        close(next);
        const unsigned held = descriptors_more();
        limit = (struct rlimit){(rlim_t)next + more, before.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        const int error = link_connect_result(l.active);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        assert_int_equal(error, 0);
        const bool is_offered = near_end()->path == LOCAL_PATH_OFFERED;
        failed += !is_offered && more > 0; // without any it cannot ask whose the address is
        assert_int_equal(counters()->offers_sent, is_offered);
        assert_int_equal((l.active->facts & LINK_IS_OF_HOST) != 0, is_offered);
        if (!is_offered) {
            assert_int_equal(descriptors_more(), held);
            assert_null(near_end()->channel);
            assert_null(near_end()->memory.base);
            assert_true(list_is_empty(&local_link_of(the_link)->channels));
        }
        link_close(l.active, true);
        link_close(l.listener, true);
        if (is_offered) {
            assert_true(more > 2);
            break;
        }
    }
    assert_int_equal(counters()->offers_sent, 1);
    assert_in_range(counters()->offers_failed, failed, failed + 1);
}

// The peer's number is his word: whatever it is, it is one that there can be.
static void a_number_out_of_range_is_taken_as_one_in_range(void **state)
{
    static const uint64_t said[] = {DOORBELL_NUMBERS, DOORBELL_NUMBERS + 5, UINT64_MAX};
    for (unsigned i = 0; i < sizeof said / sizeof said[0]; i++) {
        loop_open(&l, the_link, AF_INET);
        atomic_store(local_memory_word(&near_end()->memory, LOCAL_MEMORY_ACTIVE_NUMBER), said[i]);
        exchange(l.active, l.passive);
        assert_int_equal(far_end()->peer_number, said[i] % DOORBELL_NUMBERS);
        atomic_store(local_memory_word(&near_end()->memory, LOCAL_MEMORY_ACCEPTED), said[i]);
        assert_int_equal(send_len(l.passive, 1), 1); // whose mark goes astray
        assert_int_equal(recv_len(l.active, 1), 1);
        assert_int_equal(near_end()->peer_number, (said[i] - 1) % DOORBELL_NUMBERS);
        link_close(l.active, true);
        link_close(l.passive, true);
        link_close(l.listener, true);
    }
}

// Who has offered memory to a listener that does not take it lets go of it.
static void memory_that_is_not_used_is_given_back(void **state)
{
    loop_open(&l, the_link, AF_INET);
    exchange(l.passive, l.active); // who speaks first was not asked
    assert_int_equal(far_end()->path, LOCAL_PATH_TCP);
    assert_int_equal(near_end()->path, LOCAL_PATH_TCP);
    assert_false(l.active->facts & (LINK_IS_OF_HOST | LINK_LENDS));
    assert_null(near_end()->memory.base);
    assert_null(near_end()->channel);
    exchange(l.active, l.passive);
    exchange(l.passive, l.active);
}

// Of two for one connection the later is the one that its sender knows of.
static void the_door_of_another_port_is_not_looked_behind(void **state)
{
    struct loop other = {0};
    loop_open(&other, the_link, AF_INET);
    loop_open(&l, the_link, AF_INET);
    assert_int_equal(counters()->offers_sent, 2);
    exchange(l.active, l.passive);
    assert_int_equal(counters()->offers_received, 1);
    exchange(other.active, other.passive);
    assert_int_equal(counters()->offers_received, 2);
    exchange(l.passive, l.active);
    exchange(other.passive, other.active);
    assert_int_equal(counters()->streams, 4);
    assert_ptr_not_equal(near_end()->channel, local_stream_of(other.active)->channel);
}

static void a_peer_that_is_not_there_is_handed_nothing(void **state)
{
    struct sockaddr_storage at;
    loop_listen(&l, the_link, AF_INET);
    assert_int_equal(link_local_addr(l.listener, &at), 0);
    link_close(l.listener, true);
    assert_int_equal(link_bind(the_link, NULL, 0, NULL, &l.active), 0);
    int error = link_connect(l.active, addr_of(&at));
    if (error == -EINPROGRESS) {
        assert_true(ready_of(the_link, l.active) != 0);
        error = link_connect_result(l.active);
    }
    assert_int_equal(error, -ECONNREFUSED);
    assert_int_equal(near_end()->path, LOCAL_PATH_TCP);
    assert_int_equal(counters()->offers_sent + counters()->offers_failed, 0);
}

/* ---- where TCP's octets end ------------------------------------------------------------------ */

static void octets_by_both_ways_come_in_order(void **state)
{
    static const char text[] = "abcdefghijkl";
    for (size_t by_tcp = 1; by_tcp < 5; by_tcp++) {
        for (size_t first = 1; first <= by_tcp; first++) {
            for (size_t piece = 1; piece < 6; piece++) {
                char got[sizeof text] = "";
                loop_open(&l, the_link, AF_INET);
                struct iovec iov = {(void *)(uintptr_t)text, by_tcp};
                const struct link_tx tx = {.iov = &iov, .iov_count = 1};
                assert_int_equal(link_send(l.active, &tx), by_tcp);
                assert_int_equal(recv_some(l.passive, got, 1), 1);
                assert_int_equal(far_end()->path, LOCAL_PATH_MEMORY);
                if (first > 1) { // before the peer has said how many come that way
                    const ssize_t more = recv_some(l.passive, got + 1, first - 1);
                    assert_int_equal(more, first - 1);
                }
                exchange(l.passive, l.active);
                assert_int_equal(send_text(l.active, text + by_tcp), sizeof text - 1 - by_tcp);
                assert_int_equal(near_end()->tcp_out, by_tcp);
                if (first < by_tcp) { // which are still under way
                    recv_refusals = 1;
                    assert_int_equal(link_recv(l.passive, mspan_of(got + first, 1)), -EAGAIN);
                    assert_false(far_end()->is_switched);
                }
                for (size_t in = first; in < sizeof text - 1;) {
                    const ssize_t len = recv_some(l.passive, got + in, piece);
                    assert_true(len > 0 && (size_t)len <= piece);
                    in += (size_t)len;
                }
                assert_string_equal(got, text);
                assert_int_equal(link_recv(l.passive, mspan_of(got, 1)), -EAGAIN);
                assert_int_equal(far_end()->tcp_in, by_tcp);
                assert_true(far_end()->is_switched);
                link_close(l.active, true);
                link_close(l.passive, true);
                link_close(l.listener, true);
            }
        }
    }
}

static void who_connected_goes_over_when_it_sends(void **state)
{
    loop_open(&l, the_link, AF_INET);
    exchange(l.active, l.passive);
    assert_int_equal(send_text(l.active, "more"), 4);
    assert_int_equal(near_end()->path, LOCAL_PATH_MEMORY);
    assert_int_equal(near_end()->tcp_out, 1);
    assert_int_equal(recv_len(l.passive, 10), 4);
}

/* ---- a peer that lies ------------------------------------------------------------------------ */

static void say(enum local_memory_offset ring, enum octet_ring_offset word, uint64_t value)
{
    const enum local_memory_offset at = (enum local_memory_offset)(ring + word);
    atomic_store(local_memory_word(&near_end()->memory, at), value);
}

static void what_was_shown_cannot_be(void **state)
{
    go_over();
    say(LOCAL_MEMORY_ACTIVE_RING, OCTET_RING_WRITTEN, 2 * RING_LEN);
    assert_int_equal(look(l.passive), LINK_READY_IN);
    assert_int_equal(recv_len(l.passive, 10), -EPROTO);
    assert_int_equal(counters()->broken, 1);
    assert_true(list_is_empty(&far_end()->awake_link));
    assert_int_equal(look(l.passive), 0);
    assert_int_equal(recv_len(l.passive, 10), -EPIPE);
    assert_int_equal(send_len(l.passive, 10), -EPIPE);
    is_held = false;
}

static void what_was_taken_cannot_be(void **state)
{
    go_over();
    say(LOCAL_MEMORY_PASSIVE_RING, OCTET_RING_TAKEN, 2 * RING_LEN);
    assert_int_equal(send_len(l.passive, RING_LEN / 2), RING_LEN / 2);
    link_want_out(l.passive, true);
    assert_int_equal(look(l.passive), LINK_READY_OUT);
    assert_int_equal(send_len(l.passive, 10), -EPROTO);
    assert_int_equal(counters()->broken, 1);
    is_held = false;
}

static void fewer_went_by_tcp_than_came(void **state)
{
    loop_open(&l, the_link, AF_INET);
    exchange(l.active, l.passive);
    atomic_store(local_memory_word(&near_end()->memory, LOCAL_MEMORY_SWITCHED), 1);
    assert_int_equal(recv_len(l.passive, 10), -EPROTO);
    assert_int_equal(counters()->broken, 1);
}

/* ---- offers by hand -------------------------------------------------------------------------- */

static struct net_flow flow_to_listener(void)
{
    struct net_flow flow = {.local_port = 1};
    struct sockaddr_storage at;
    assert_int_equal(link_local_addr(l.listener, &at), 0);
    assert_true(net_addr_from_sockaddr(addr_of(&at), &flow.remote, &flow.remote_port, NULL));
    flow.local = flow.remote;
    return flow;
}

static void offer_for(const struct net_flow *flow, const struct local_channel *channel,
                      struct local_memory *ret)
{
    pid_t process;
    const int door = local_door_knock(flow, &process);
    assert_true(door >= 0);
    assert_int_equal(local_door_offer(door, flow, LOCAL_MEMORY_PAGE, &channel->means, ret), 0);
    close(door);
}

// Whose connection never says anything goes first, and all go with the link.
static void offers_that_nobody_asks_for_are_bounded(void **state)
{
    struct local_channel *channel;
    struct local_memory memory;
    loop_listen(&l, the_link, AF_INET);
    struct net_flow flow = flow_to_listener();
    assert_int_equal(local_channel_create(&channel), 0);
    for (unsigned i = 0; i < LOCAL_OFFERS_MAX + 3; i++) {
        flow.local_port++;
        offer_for(&flow, channel, &memory);
        local_memory_release(&memory);
    }
    loop_connect(&l);
    exchange(l.active, l.passive);
    const struct local_link *link = local_link_of(the_link);
    assert_int_equal(far_end()->path, LOCAL_PATH_MEMORY);
    assert_int_equal(counters()->offers_received, LOCAL_OFFERS_MAX + 4);
    assert_int_equal(counters()->offers_refused, 4);
    assert_int_equal(link->offer_count, LOCAL_OFFERS_MAX - 1);
    const struct local_waiting_offer *first =
        LIST_ENTRY(link->offers.next, struct local_waiting_offer, link);
    assert_int_equal(first->offer.flow.remote_port, 2 + 4);
    assert_int_equal(first->channel->user_count, LOCAL_OFFERS_MAX - 1);
    local_channel_destroy(channel);
}

// Somebody accepts by it already.
static void an_offer_with_a_strange_channel_is_refused(void **state)
{
    struct local_channel *channel, *other;
    struct local_memory memory;
    loop_open(&l, the_link, AF_INET);
    const struct net_flow flow = flow_to_listener();
    assert_int_equal(local_channel_create(&channel), 0);
    assert_int_equal(local_channel_adopt(&channel->means, &other), 0);
    offer_for(&flow, channel, &memory);
    local_memory_release(&memory);
    exchange(l.active, l.passive);
    assert_int_equal(counters()->offers_received, 2);
    assert_int_equal(counters()->offers_refused, 1);
    assert_int_equal(local_link_of(the_link)->offer_count, 0);
    local_channel_destroy(other);
    local_channel_destroy(channel);
}

static void the_last_offer_for_a_connection_counts(void **state)
{
    struct local_channel *channel;
    struct local_memory memory[2];
    char got;
    loop_listen(&l, the_link, AF_INET);
    struct net_flow flow = flow_to_listener();
    struct sockaddr_storage at;
    socklen_t len = sizeof at;
    assert_int_equal(link_local_addr(l.listener, &at), 0);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, addr_of(&at), sizeof(struct sockaddr_in)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    flow.local_port = ntohs(((struct sockaddr_in *)&at)->sin_port);
    assert_int_equal(local_channel_create(&channel), 0);
    for (unsigned i = 0; i < 2; i++) {
        offer_for(&flow, channel, &memory[i]);
    }
    assert_int_equal(write(fd, "?", 1), 1);
    assert_true(ready_of(the_link, l.listener) & LINK_READY_IN);
    assert_int_equal(link_accept(l.listener, &l.passive), 0);
    assert_int_equal(recv_some(l.passive, &got, 1), 1);
    assert_int_equal(far_end()->path, LOCAL_PATH_MEMORY);
    assert_true(atomic_load(local_memory_word(&memory[0], LOCAL_MEMORY_ACCEPTED)) == 0);
    assert_true(atomic_load(local_memory_word(&memory[1], LOCAL_MEMORY_ACCEPTED)) ==
                1 + far_end()->number);
    assert_int_equal(local_link_of(the_link)->offer_count, 1);
    assert_int_equal(far_end()->channel->user_count, 2);
    for (unsigned i = 0; i < 2; i++) {
        local_memory_release(&memory[i]);
    }
    local_channel_destroy(channel);
    close(fd);
}

static void a_channel_that_is_full_leaves_the_next_to_tcp(void **state)
{
    struct loop first;
    uint32_t number;
    loop_open(&first, the_link, AF_INET);
    struct local_channel *channel = local_stream_of(first.active)->channel;
    while (local_channel_number(channel, local_stream_of(first.active), &number) == 0) {
    }
    l.link = the_link;
    l.listener = first.listener;
    loop_connect(&l);
    assert_int_equal(near_end()->path, LOCAL_PATH_TCP);
    assert_int_equal(counters()->offers_failed, 1);
    assert_int_equal(channel->user_count, 1);
    exchange(l.active, l.passive);
    exchange(l.passive, l.active);
}

/* ---- how a stream ends ----------------------------------------------------------------------- */

// What has happened until TCP ends.
enum before_the_end {
    SHUT = 1,    // the peer sends no more
    ABORTED = 2, // ... or is gone
    TOLD = 4,    // our user has heard of the first
    FULL = 8,    // the peer has not taken all
};
enum { SAYS_NOTHING = 1 }; // TCP does

static void let_it_happen(unsigned happened)
{
    if (happened & FULL) {
        assert_int_equal(send_len(l.passive, 10), 10);
    }
    if (happened & SHUT) {
        assert_int_equal(link_shutdown(l.active), 0);
    }
    if (happened & TOLD) {
        far_end()->has_fin = true;
    }
    if (happened & ABORTED) {
        atomic_store(local_memory_end(&near_end()->memory, LOCAL_ACTIVE), LOCAL_END_ABORTED);
    }
}

static void expect_broken(void)
{
    assert_true(far_end()->is_broken);
    assert_int_equal(look(l.passive), 0);
    assert_int_equal(recv_len(l.passive, 10), -EPIPE);
    assert_int_equal(send_len(l.passive, 10), -EPIPE);
    assert_int_equal(link_shutdown(l.passive), -ENOTCONN);
}

static void ends_are_told_as_tcp_would(void **state)
{
    static const struct {
        unsigned happened; // enum before_the_end
        int tcp_error;
        int wanted;
    } rows[] = {
        {0, SAYS_NOTHING, -EAGAIN},
        {SHUT, SAYS_NOTHING, 0},
        {SHUT | TOLD, SAYS_NOTHING, 0},
        {ABORTED, SAYS_NOTHING, -ECONNRESET},
        {ABORTED, -ETIMEDOUT, -ECONNRESET},
        {SHUT, -ECONNRESET, 0},
        {SHUT | TOLD, -ECONNRESET, -ECONNRESET},
        {SHUT | TOLD, -ETIMEDOUT, -ETIMEDOUT},
        {SHUT | TOLD, 0, 0},
        {0, 0, 0},
        {TOLD, 0, 0},
        {0, -ECONNRESET, 0}, // a process that went without a word
        {0, -EPIPE, 0},
        {FULL, -ECONNRESET, -ECONNRESET},
        {FULL, -EPIPE, -EPIPE},
        {0, -ETIMEDOUT, -ETIMEDOUT},
        {TOLD, -ECONNRESET, -ECONNRESET},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const bool is_over = rows[i].wanted != -EAGAIN, breaks = is_over && rows[i].wanted < 0;
        const bool is_news = is_over && (breaks || (rows[i].happened & TOLD) == 0);
        go_over();
        hold_off_tcp();
        let_it_happen(rows[i].happened);
        if (rows[i].tcp_error != SAYS_NOTHING) {
            local_note_tcp_over(far_end(), rows[i].tcp_error);
        }
        if (is_news) {
            assert_true(look(l.passive) & LINK_READY_IN);
        } else {
            assert_int_equal(look(l.passive), 0);
        }
        assert_int_equal(recv_len(l.passive, 10), rows[i].wanted);
        if (breaks) {
            expect_broken();
        }
        is_held = false;
        link_close(l.active, true);
        link_close(l.passive, true);
        link_close(l.listener, true);
    }
}

static void octets_come_before_the_end_behind_them(void **state)
{
    for (unsigned i = 0; i < 2; i++) { // in order, or not
        go_over();
        assert_int_equal(send_len(l.active, 100), 100);
        if (i == 0) {
            assert_int_equal(link_shutdown(l.active), 0);
        } else {
            link_close(l.active, true);
        }
        assert_true(look(l.passive) & LINK_READY_IN);
        assert_int_equal(recv_len(l.passive, 60), 60);
        assert_int_equal(recv_len(l.passive, 60), 40);
        assert_int_equal(recv_len(l.passive, 60), i == 0 ? 0 : -ECONNRESET);
        is_held = false;
        if (i == 0) {
            assert_int_equal(send_len(l.active, 1), -EPIPE);
            assert_int_equal(look(l.active) & LINK_READY_OUT, 0);
            link_close(l.active, false);
        }
        link_close(l.passive, true);
        link_close(l.listener, true);
    }
}

// Both have said that they send no more: TCP's reset behind it is how the later close ends.
static void a_reset_behind_both_ends_is_none(void **state)
{
    go_over();
    assert_int_equal(link_shutdown(l.active), 0);
    assert_int_equal(recv_len(l.passive, 1), 0);
    assert_int_equal(link_shutdown(l.passive), 0);
    local_note_tcp_over(far_end(), -ECONNRESET);
    assert_int_equal(far_end()->tcp_error, 0);
    assert_int_equal(look(l.passive), 0);
    assert_int_equal(recv_len(l.passive, 1), 0);
    local_note_tcp_over(near_end(), -ECONNRESET);
    assert_int_equal(near_end()->tcp_error, 0);
    is_held = false;
}

static void an_error_of_tcp_is_the_connections(void **state)
{
    go_over();
    assert_int_equal(link_connect_result(l.passive), 0);
    local_note_tcp_over(far_end(), 0);
    assert_int_equal(link_connect_result(l.passive), 0);
    local_note_tcp_over(far_end(), -ETIMEDOUT);
    assert_int_equal(look(l.passive), LINK_READY_IN | LINK_READY_ERR);
    assert_int_equal(link_connect_result(l.passive), -ETIMEDOUT);
    assert_true(far_end()->is_broken);
    assert_int_equal(look(l.passive), 0);
    is_held = false;
}

// Who has closed his end of TCP may be gone: TCP is asked with each message.
static void where_tcp_is_over_the_peer_is_tried(void **state)
{
    go_over();
    send_count = 0;
    sent_len = 0;
    assert_int_equal(send_len(l.passive, 10), 10);
    assert_int_equal(send_count, 0);
    local_note_tcp_over(far_end(), 0);
    assert_int_equal(send_len(l.passive, 10), 10);
    assert_int_equal(send_count, 1);
    assert_int_equal(sent_len, 1); // which is none of the stream's
    is_held = false;
}

static void an_end_before_anything_was_sent_is_tcps(void **state)
{
    char got;
    loop_open(&l, the_link, AF_INET);
    assert_int_equal(link_shutdown(l.passive), 0);
    assert_int_equal(far_end()->path, LOCAL_PATH_TCP);
    assert_int_equal(recv_some(l.active, &got, 1), 0);
    assert_int_equal(near_end()->path, LOCAL_PATH_TCP);
    assert_int_equal(link_shutdown(l.active), 0);
    assert_int_equal(recv_some(l.passive, &got, 1), 0);
}

// Who connected has not heard yet that its memory is used when it ends: it follows for that.
static void an_end_goes_by_the_way_that_the_peer_uses(void **state)
{
    char got;
    loop_open(&l, the_link, AF_INET);
    exchange(l.active, l.passive);
    assert_int_equal(near_end()->path, LOCAL_PATH_OFFERED);
    assert_int_equal(link_shutdown(l.active), 0);
    assert_int_equal(near_end()->path, LOCAL_PATH_MEMORY);
    assert_true(near_end()->is_shut);
    assert_int_equal(recv_some(l.passive, &got, 1), 0);
    assert_int_equal(send_text(l.passive, "back"), 4);
    assert_int_equal(recv_some(l.active, &got, 1), 1);
}

/* ---- octets ---------------------------------------------------------------------------------- */

static void a_ring_takes_what_it_has_room_for(void **state)
{
    struct iovec iov[3] = {{octets, RING_LEN - 10}, {octets, 100}, {octets, 5}};
    const struct link_tx tx = {.iov = iov, .iov_count = 3};
    go_over();
    const uint64_t moved = local_link_at(near_end())->moved_count;
    assert_int_equal(link_send(l.active, &tx), RING_LEN);
    assert_int_equal(local_link_at(near_end())->moved_count, moved + 1);
    assert_int_equal(link_send(l.active, &tx), -EAGAIN);
    assert_int_equal(local_link_at(near_end())->moved_count, moved + 1);
    assert_int_equal(recv_len(l.passive, 7), 7);
    assert_int_equal(local_link_at(near_end())->moved_count, moved + 2);
    assert_int_equal(link_send(l.active, &tx), 7);
    assert_int_equal(recv_len(l.passive, 2 * RING_LEN), RING_LEN);
    assert_int_equal(recv_len(l.passive, 1), -EAGAIN);
    is_held = false;
}

// Long ones are shown in pieces, each where it belongs.
static void long_octets_come_as_they_were(void **state)
{
    static uint8_t sent[RING_LEN], got[RING_LEN];
    struct iovec iov[2] = {{sent, 40001}, {sent + 40001, RING_LEN - 40001}};
    const struct link_tx tx = {.iov = iov, .iov_count = 2};
    for (size_t i = 0; i < RING_LEN; i++) {
        sent[i] = (uint8_t)(i * 2654435761U >> 17);
    }
    go_over();
    for (unsigned turn = 0; turn < 3; turn++) {
        assert_int_equal(link_send(l.active, &tx), RING_LEN);
        assert_int_equal(link_recv(l.passive, mspan_of(got, RING_LEN)), RING_LEN);
        assert_memory_equal(sent, got, RING_LEN);
        memset(got, 0, sizeof got);
    }
    is_held = false;
}

static void an_end_is_lent_as_it_is_received(void **state)
{
    struct span lent;
    bool is_cut = true;
    go_over();
    assert_int_equal(link_shutdown(l.active), 0);
    assert_int_equal(link_borrow(l.passive, &lent, &is_cut), 0);
    assert_false(is_cut);
    is_held = false;
}

static void what_is_lent_says_whether_it_goes_on_elsewhere(void **state)
{
    struct span lent;
    bool is_cut = true;
    go_over();
    const size_t before = near_end()->tx.put;
    const size_t left = RING_LEN - before % RING_LEN;
    assert_int_equal(send_len(l.active, left - 50), left - 50);
    assert_int_equal(link_borrow(l.passive, &lent, &is_cut), left - 50);
    assert_false(is_cut);
    link_give_back(l.passive, left - 50);
    assert_int_equal(link_borrow(l.passive, &lent, &is_cut), -EAGAIN);
    assert_false(is_cut);
    assert_int_equal(send_len(l.active, 80), 80);
    assert_int_equal(link_borrow(l.passive, &lent, &is_cut), 50);
    assert_true(is_cut);
    link_give_back(l.passive, 50);
    assert_int_equal(link_borrow(l.passive, &lent, &is_cut), 30);
    assert_false(is_cut);
    local_note_tcp_over(far_end(), -ETIMEDOUT);
    link_give_back(l.passive, 30);
    assert_int_equal(link_borrow(l.passive, &lent, &is_cut), -ETIMEDOUT);
    assert_int_equal(link_borrow(l.passive, &lent, &is_cut), -EPIPE);
    is_held = false;
}

static void what_is_long_is_counted_by_the_way_it_was_stored(void **state)
{
    go_over();
    assert_int_equal(send_len(l.active, OCTET_RING_FAR_LEN_MIN - 1), OCTET_RING_FAR_LEN_MIN - 1);
    assert_int_equal(counters()->near_octets + counters()->far_octets, 0);
    near_end()->channel->stores.way = LOCAL_STORES_NEAR;
    assert_int_equal(send_len(l.active, OCTET_RING_FAR_LEN_MIN), OCTET_RING_FAR_LEN_MIN);
    assert_int_equal(counters()->near_octets, OCTET_RING_FAR_LEN_MIN);
    near_end()->channel->stores.way = 0;
    assert_int_equal(send_len(l.active, OCTET_RING_FAR_LEN_MIN + 1), OCTET_RING_FAR_LEN_MIN + 1);
    assert_int_equal(counters()->far_octets, OCTET_RING_FAR_LEN_MIN + 1);
    assert_int_equal(counters()->near_octets, OCTET_RING_FAR_LEN_MIN);
    is_held = false;
}

int main(void)
{
#define LINK_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        LINK_TEST(both_ends_tell_where_their_octets_go),
        LINK_TEST(who_cannot_be_named_stays_with_tcp),
        LINK_TEST(another_hosts_peer_is_handed_nothing),
        LINK_TEST(two_addresses_of_the_host_are_one_host),
        LINK_TEST(a_listener_of_ipv6_has_a_door_too),
        LINK_TEST(each_want_of_a_descriptor_leaves_the_stream_to_tcp),
        LINK_TEST(a_number_out_of_range_is_taken_as_one_in_range),
        LINK_TEST(memory_that_is_not_used_is_given_back),
        LINK_TEST(the_door_of_another_port_is_not_looked_behind),
        LINK_TEST(a_peer_that_is_not_there_is_handed_nothing),
        LINK_TEST(octets_by_both_ways_come_in_order),
        LINK_TEST(who_connected_goes_over_when_it_sends),
        LINK_TEST(what_was_shown_cannot_be),
        LINK_TEST(what_was_taken_cannot_be),
        LINK_TEST(fewer_went_by_tcp_than_came),
        LINK_TEST(offers_that_nobody_asks_for_are_bounded),
        LINK_TEST(an_offer_with_a_strange_channel_is_refused),
        LINK_TEST(the_last_offer_for_a_connection_counts),
        LINK_TEST(a_channel_that_is_full_leaves_the_next_to_tcp),
        LINK_TEST(ends_are_told_as_tcp_would),
        LINK_TEST(octets_come_before_the_end_behind_them),
        LINK_TEST(a_reset_behind_both_ends_is_none),
        LINK_TEST(an_error_of_tcp_is_the_connections),
        LINK_TEST(where_tcp_is_over_the_peer_is_tried),
        LINK_TEST(an_end_before_anything_was_sent_is_tcps),
        LINK_TEST(an_end_goes_by_the_way_that_the_peer_uses),
        LINK_TEST(a_ring_takes_what_it_has_room_for),
        LINK_TEST(long_octets_come_as_they_were),
        LINK_TEST(an_end_is_lent_as_it_is_received),
        LINK_TEST(what_is_lent_says_whether_it_goes_on_elsewhere),
        LINK_TEST(what_is_long_is_counted_by_the_way_it_was_stored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
