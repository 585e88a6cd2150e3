// The link of the simulator: what its ends are told and when, row by row, and what each fault does
// to either direction.

#include "link/link_none.h"
#include "tests/link/sim_world.h"

enum { DELAY_MAX_NS = 1000 }; // of the world

static instant_ns next_ns(const struct world *w)
{
    return sim_net_next_event(w->net);
}

static void settle(struct world *w)
{
    while (world_step(w)) {
    }
}

static unsigned polled(struct link *link, const struct link_stream *stream)
{
    struct link_ready ready[8];
    const int count = link->ops->poll(link, ready, 8);
    for (int i = 0; i < count; i++) {
        if (ready[i].stream == stream) {
            return ready[i].what;
        }
    }
    return 0;
}

static struct link_stream *accepted(struct world *w)
{
    struct link_stream *s = NULL;
    assert_int_equal(w->link[1]->ops->accept(w->listener, &s), 0);
    return s;
}

static struct link_stream *bound_at(struct link *link, struct sockaddr_in addr)
{
    struct link_stream *s = NULL;
    assert_int_equal(link->ops->bind(link, (struct sockaddr *)&addr, 0, NULL, &s), 0);
    return s;
}

static struct sockaddr_in place_of(const struct link_stream *s)
{
    struct sockaddr_storage at;
    assert_int_equal(s->link->ops->local_addr(s, &at), 0);
    return *(struct sockaddr_in *)&at;
}

/* ---- when ------------------------------------------------------------------------------------ */

static void what_travels_takes_from_one_to_the_longest_delay(void **state)
{
    struct world *w = *state;
    char in[4];
    instant_ns least = INSTANT_NEVER, most = 0;
    for (unsigned i = 0; i < 2000; i++) {
        assert_int_equal(next_ns(w), INSTANT_NEVER);
        send_octets(w->end[0], "x", 1);
        const duration_ns took_ns = next_ns(w) - w->now_ns;
        least = took_ns < least ? took_ns : least;
        most = took_ns > most ? took_ns : most;
        assert_false(sim_net_advance(w->net)); // not yet
        assert_true(world_step(w));
        assert_int_equal(recv_octets(w->end[1], in, sizeof in), 1);
    }
    assert_in_range(least, 1, 20);
    assert_in_range(most, DELAY_MAX_NS - 20, DELAY_MAX_NS);
}

static void the_shortest_delay_is_one(void **state)
{
    struct world w = {.now_ns = 5};
    struct sim_net_config config = {
        .clock = world_clock, .clock_ctx = &w, .delay_max_ns = 1, .window_len = 10};
    struct in_addr host = addr_of(0, 0).sin_addr;
    w.net = sim_net_create(&config);
    w.link[0] = sim_net_attach(w.net, &host, 1);
    connect_to(&w, addr_of(0, PORT));
    assert_int_equal(next_ns(&w), 6);
    w.link[0]->ops->destroy(w.link[0]);
    sim_net_destroy(w.net);
    sim_net_destroy(NULL);
}

static void pieces_are_no_longer_than_was_asked_for_unless_all_comes(void **state)
{
    struct world *w = *state;
    static uint8_t octets[WINDOW_LEN];
    unsigned wholes = 0, pieces = 0, small = 0;
    for (unsigned i = 0; i < 200; i++) {
        size_t sent = 0, got = 0;
        for (ssize_t n; (n = send_octets(w->end[0], octets, sizeof octets)) > 0;) {
            sent += (size_t)n;
        }
        while (got < sent) {
            world_step(w);
            const ssize_t n = recv_octets(w->end[1], octets, sizeof octets);
            assert_true(n > 0);
            assert_true(n <= 700 || (size_t)n == sent - got);
            wholes += n > 700;
            pieces++;
            small += n <= 48;
            got += (size_t)n;
        }
    }
    assert_true(wholes > 100);
    assert_true(small > pieces / 5);
    assert_true(small < pieces / 2);
}

/* ---- what is reported ------------------------------------------------------------------------ */

static void a_listener_is_ready_while_somebody_waits(void **state)
{
    struct world *w = *state;
    assert_int_equal(polled(w->link[1], w->listener), 0);
    connect_to(w, addr_of(1, PORT));
    assert_int_equal(polled(w->link[1], w->listener), 0);
    settle(w);
    send_octets(w->end[0], "x", 1);
    settle(w);
    struct link_ready ready[4];
    assert_int_equal(w->link[1]->ops->poll(w->link[1], ready, 4), 1); // nobody else
    assert_int_equal(polled(w->link[1], w->listener), LINK_READY_IN);
    struct link_stream *s = accepted(w);
    assert_null(s->owner);
    assert_int_equal(polled(w->link[1], w->listener), 0);
    assert_int_equal(polled(w->link[1], s), LINK_READY_IN);
}

static void room_is_reported_to_who_asks_for_it(void **state)
{
    struct world *w = *state;
    static uint8_t octets[WINDOW_LEN];
    assert_int_equal(polled(w->link[0], w->end[0]), 0);
    w->link[0]->ops->want_out(w->end[0], true);
    assert_int_equal(polled(w->link[0], w->end[0]), LINK_READY_OUT);
    while (send_octets(w->end[0], octets, sizeof octets) > 0) {
    }
    assert_int_equal(polled(w->link[0], w->end[0]), 0);
    settle(w);
    assert_int_equal(recv_octets(w->end[1], octets, 1), 1);
    assert_int_equal(polled(w->link[0], w->end[0]), LINK_READY_OUT);
    w->link[0]->ops->want_out(w->end[0], false);
    assert_int_equal(polled(w->link[0], w->end[0]), 0);
}

static void who_connects_is_told_of_it_by_room(void **state)
{
    struct world *w = *state;
    connect_to(w, addr_of(1, PORT));
    w->link[0]->ops->want_out(w->end[0], true);
    assert_int_equal(polled(w->link[0], w->end[0]), 0);
    settle(w);
    assert_int_equal(polled(w->link[0], w->end[0]), LINK_READY_OUT);
    assert_int_equal(w->link[0]->ops->connect_result(w->end[0]), 0);
}

static void octets_are_reported_to_who_wants_them(void **state)
{
    struct world *w = *state;
    send_octets(w->end[0], "x", 1);
    settle(w);
    w->link[1]->ops->want_in(w->end[1], false);
    assert_int_equal(polled(w->link[1], w->end[1]), 0);
    w->link[1]->ops->want_in(w->end[1], true);
    assert_int_equal(polled(w->link[1], w->end[1]), LINK_READY_IN);
}

static void an_end_is_reported_until_it_is_read(void **state)
{
    struct world *w = *state;
    char in[4];
    w->link[0]->ops->shutdown(w->end[0]);
    settle(w);
    assert_int_equal(polled(w->link[1], w->end[1]), LINK_READY_IN);
    assert_int_equal(recv_octets(w->end[1], in, sizeof in), 0);
    assert_int_equal(polled(w->link[1], w->end[1]), 0);
    assert_int_equal(recv_octets(w->end[1], in, sizeof in), 0);
}

static void an_error_is_reported_until_it_is_named(void **state)
{
    struct world *w = *state;
    char in[4];
    strike(w, SIM_FAULT_RESET);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(polled(w->link[0], w->end[0]), LINK_READY_ERR);
        assert_int_equal(polled(w->link[1], w->end[1]), LINK_READY_ERR);
    }
    assert_int_equal(w->link[0]->ops->connect_result(w->end[0]), -ECONNRESET);
    assert_int_equal(recv_octets(w->end[1], in, sizeof in), -ECONNRESET);
    assert_int_equal(polled(w->link[0], w->end[0]), 0);
    assert_int_equal(polled(w->link[1], w->end[1]), 0);
    assert_int_equal(w->link[0]->ops->shutdown(w->end[0]), -ENOTCONN);
}

static void who_was_first_is_last_the_next_time(void **state)
{
    struct world *w = *state;
    struct link_ready ready[1];
    unsigned seen[2] = {0};
    connect_to(w, addr_of(1, PORT));
    settle(w);
    struct link_stream *other = accepted(w);
    w->link[1]->ops->want_out(w->end[1], true);
    w->link[1]->ops->want_out(other, true);
    for (unsigned i = 0; i < 30; i++) {
        assert_int_equal(w->link[1]->ops->poll(w->link[1], ready, 1), 1);
        seen[0] += ready[0].stream == w->end[1];
        seen[1] += ready[0].stream == other;
    }
    assert_in_range(seen[0], 10, 20);
    assert_int_equal(seen[0] + seen[1], 30);
}

/* ---- octets ---------------------------------------------------------------------------------- */

static void a_send_of_several_pieces_takes_what_there_is_room_for(void **state)
{
    struct world *w = *state;
    static uint8_t out[3][2000], in[WINDOW_LEN];
    for (unsigned i = 0; i < 3; i++) {
        memset(out[i], (int)i + 1, sizeof out[i]);
    }
    for (unsigned round = 0; round < 50; round++) {
        struct iovec iov[] = {{out[0], 2000}, {out[1], 2000}, {out[2], 2000}};
        const struct link_tx tx = {.iov = iov, .iov_count = 3};
        const ssize_t taken = w->link[0]->ops->send(w->end[0], &tx);
        assert_in_range(taken, 1, WINDOW_LEN);
        settle(w);
        ssize_t got = 0;
        for (ssize_t n; (n = recv_octets(w->end[1], in + got, sizeof in - (size_t)got)) > 0;) {
            got += n;
        }
        assert_int_equal(got, taken);
        for (ssize_t i = 0; i < got; i++) {
            assert_int_equal(in[i], i / 2000 + 1);
        }
    }
}

static void a_send_takes_something_while_there_is_room(void **state)
{
    struct world *w = *state;
    static uint8_t octets[WINDOW_LEN];
    unsigned short_sends = 0;
    for (unsigned i = 0; i < 2000; i++) {
        const ssize_t taken = send_octets(w->end[0], octets, 2);
        assert_in_range(taken, 1, 2);
        short_sends += taken == 1;
        settle(w);
        while (recv_octets(w->end[1], octets, sizeof octets) > 0) {
        }
    }
    assert_true(short_sends < 20); // of those that are cut few are cut so near
    short_sends = 0;
    for (unsigned i = 0; i < 2000; i++) {
        short_sends += send_octets(w->end[0], octets, sizeof octets) < WINDOW_LEN;
        settle(w);
        while (recv_octets(w->end[1], octets, sizeof octets) > 0) {
        }
    }
    assert_in_range(short_sends, 210, 290); // one in 8
}

/* ---- places ---------------------------------------------------------------------------------- */

static void a_stream_listens_or_connects_once(void **state)
{
    struct world *w = *state;
    struct link_stream *s;
    struct sockaddr_in to = addr_of(1, PORT);
    struct sockaddr_in far = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0b000001)};
    const struct link_ops *ops = w->link[0]->ops;
    assert_int_equal(ops->listen(w->listener, 4), -EINVAL);
    assert_int_equal(ops->connect(w->end[0], (struct sockaddr *)&to), -EISCONN);
    assert_int_equal(ops->bind(w->link[0], NULL, 0, w, &s), 0);
    assert_ptr_equal(s->owner, w);
    assert_int_equal(ops->connect(s, (struct sockaddr *)&far), -ENETUNREACH);
    assert_int_equal(place_of(s).sin_family, AF_INET);
    assert_int_equal(place_of(s).sin_port, 0);
    assert_int_equal(ops->listen(s, 0), 0);
    assert_true(ntohs(place_of(s).sin_port) >= 32768);
}

static void a_listener_of_no_backlog_holds_one(void **state)
{
    struct world *w = *state;
    struct link_stream *s = bound_at(w->link[1], addr_of(1, PORT + 1));
    assert_int_equal(w->link[1]->ops->listen(s, 0), 0);
    for (unsigned i = 0; i < 2; i++) {
        connect_to(w, addr_of(1, PORT + 1));
        settle(w);
        assert_int_equal(w->link[0]->ops->connect_result(w->end[0]), i == 0 ? 0 : -ECONNREFUSED);
    }
    struct link_stream *first;
    assert_int_equal(w->link[1]->ops->accept(s, &first), 0);
    connect_to(w, addr_of(1, PORT + 1)); // and has room for another
    settle(w);
    assert_int_equal(w->link[0]->ops->connect_result(w->end[0]), 0);
}

static void who_waits_when_a_listener_goes_is_reset(void **state)
{
    struct world *w = *state;
    char in[4];
    connect_to(w, addr_of(1, PORT));
    settle(w);
    w->link[1]->ops->close(w->listener, false);
    settle(w);
    assert_int_equal(recv_octets(w->end[0], in, sizeof in), -ECONNRESET);
}

static void a_listener_has_its_address_or_all_of_its_host(void **state)
{
    struct world *w = *state;
    static const struct {
        bool is_any, is_other;
        int result;
    } rows[] = {{false, false, 0}, {false, true, -ECONNREFUSED}, {true, false, 0}, {true, true, 0}};
    struct in_addr hosts[] = {addr_of(4, 0).sin_addr, addr_of(5, 0).sin_addr};
    struct link *both = sim_net_attach(w->net, hosts, 2);
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct sockaddr_in at = addr_of(4, PORT);
        at.sin_addr.s_addr = rows[i].is_any ? INADDR_ANY : at.sin_addr.s_addr;
        struct link_stream *listener = bound_at(both, at);
        assert_int_equal(both->ops->listen(listener, 1), 0);
        connect_to(w, addr_of(rows[i].is_other ? 5 : 4, PORT));
        settle(w);
        assert_int_equal(w->link[0]->ops->connect_result(w->end[0]), rows[i].result);
        both->ops->close(listener, true);
    }
    both->ops->destroy(both);
}

static void who_connects_leaves_from_its_address_or_the_hosts(void **state)
{
    struct world *w = *state;
    struct in_addr hosts[] = {addr_of(4, 0).sin_addr, addr_of(5, 0).sin_addr};
    struct link *both = sim_net_attach(w->net, hosts, 2);
    const struct sockaddr_in to = addr_of(1, PORT), self = addr_of(5, PORT), any = addr_of(4, 0);
    struct sockaddr_storage from;
    struct link_stream *s;
    assert_int_equal(both->ops->bind(both, NULL, 0, NULL, &s), 0);
    assert_int_equal(both->ops->connect(s, (const struct sockaddr *)&to), -EINPROGRESS);
    assert_int_equal(place_of(s).sin_addr.s_addr, any.sin_addr.s_addr);
    s = bound_at(both, addr_of(5, 77));
    assert_int_equal(both->ops->connect(s, (const struct sockaddr *)&to), -EINPROGRESS);
    assert_int_equal(place_of(s).sin_addr.s_addr, hosts[1].s_addr);
    assert_int_equal(place_of(s).sin_port, htons(77));
    memset(&from, 0xff, sizeof from);
    assert_int_equal(both->ops->route(both, (const struct sockaddr *)&self, &from), 0);
    assert_int_equal(((struct sockaddr_in *)&from)->sin_addr.s_addr, hosts[1].s_addr);
    assert_int_equal(((uint8_t *)&from)[sizeof from - 1], 0);
    both->ops->destroy(both);
}

// An accepted connection keeps its listener's port, and stands in nobody's way.
static void a_port_is_taken_by_who_listens_or_connects(void **state)
{
    struct world *w = *state;
    struct link_stream *s;
    struct sockaddr_in at = place_of(w->end[0]);
    assert_int_equal(w->link[0]->ops->bind(w->link[0], (struct sockaddr *)&at, 0, NULL, &s),
                     -EADDRINUSE);
    w->link[1]->ops->close(w->listener, false);
    s = bound_at(w->link[1], addr_of(1, PORT));
    w->link[1]->ops->close(s, false);
    assert_null(s->owner);
}

static void free_ports_begin_anew_behind_the_last(void **state)
{
    struct world *w = *state;
    struct link_ready ready[1];
    unsigned last = 0;
    for (unsigned i = 0; i < 33000; i++) {
        struct link_stream *s = bound_at(w->link[0], addr_of(0, 0));
        const unsigned port = ntohs(place_of(s).sin_port);
        assert_int_equal(port, last == 65535 ? 1024 : last == 0 ? port : last + 1);
        last = port;
        w->link[0]->ops->close(s, false);
        w->link[0]->ops->poll(w->link[0], ready, 1);
    }
    assert_true(last < 32768);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void an_orderly_end_comes_behind_what_was_sent(void **state)
{
    for (unsigned len = 0; len < 4; len += 3) {
        struct world *w = *state;
        char in[8];
        size_t got = 0;
        while (got < len) {
            const ssize_t n = send_octets(w->end[0], "abc", len - got);
            got += n > 0 ? (size_t)n : 0;
        }
        w->link[0]->ops->close(w->end[0], false);
        settle(w);
        for (got = 0; got < len;) {
            const ssize_t n = recv_octets(w->end[1], in, sizeof in);
            assert_true(n > 0);
            got += (size_t)n;
        }
        assert_int_equal(recv_octets(w->end[1], in, sizeof in), 0);
        w->link[1]->ops->close(w->end[1], false);
        assert_int_equal(next_ns(w), INSTANT_NEVER); // nothing is left of it
        connect_to(w, addr_of(1, PORT));
        settle(w);
        w->end[1] = accepted(w);
    }
}

static void who_closes_first_is_not_told_of_the_other(void **state)
{
    struct world *w = *state;
    w->link[0]->ops->close(w->end[0], false);
    assert_true(next_ns(w) != INSTANT_NEVER);
    w->link[1]->ops->close(w->end[1], false); // its FIN is under way, and nobody is there
    assert_int_equal(next_ns(w), INSTANT_NEVER);
}

static void who_resets_takes_back_what_is_under_way(void **state)
{
    struct world *w = *state;
    char in[4];
    send_octets(w->end[0], "abc", 3);
    w->link[0]->ops->close(w->end[0], true);
    assert_true(world_step(w));
    assert_int_equal(recv_octets(w->end[1], in, sizeof in), -ECONNRESET);
    assert_int_equal(next_ns(w), INSTANT_NEVER);
}

static void nothing_travels_behind_a_reset(void **state)
{
    struct world *w = *state;
    send_octets(w->end[0], "abc", 3);
    send_octets(w->end[1], "abc", 3);
    strike(w, SIM_FAULT_RESET);
    assert_int_equal(next_ns(w), INSTANT_NEVER);
    connect_to(w, addr_of(1, PORT));
    strike(w, SIM_FAULT_RESET);
    assert_int_equal(next_ns(w), INSTANT_NEVER);
    assert_int_equal(w->link[0]->ops->connect_result(w->end[0]), -ECONNREFUSED);
    connect_to(w, addr_of(9, PORT));
    settle(w);
    assert_int_equal(next_ns(w), INSTANT_NEVER);
    connect_to(w, addr_of(9, PORT)); // whose time-out is not waited for
    strike(w, SIM_FAULT_RESET);
    assert_int_equal(next_ns(w), INSTANT_NEVER);
}

/* ---- faults ---------------------------------------------------------------------------------- */

static void faults_have_names(void **state)
{
    static const char *const names[SIM_FAULT_COUNT] = {"reset", "fin", "silence", "stall",
                                                       "corrupt"};
    for (unsigned i = 0; i < SIM_FAULT_COUNT; i++) {
        assert_string_equal(sim_fault_name((enum sim_fault)i), names[i]);
    }
}

static void a_strike_needs_a_connection_that_lives(void **state)
{
    struct world *w = *state;
    struct sockaddr_in at = addr_of(0, 9), near = place_of(w->end[0]), far = addr_of(1, PORT);
    assert_false(sim_net_strike(w->net, SIM_FAULT_RESET, &at));
    near.sin_addr.s_addr = htonl(1);
    assert_false(sim_net_strike(w->net, SIM_FAULT_RESET, &near));
    near = place_of(w->end[0]);
    assert_false(sim_net_strike(w->net, SIM_FAULT_COUNT, &near));
    assert_true(sim_net_strike(w->net, SIM_FAULT_SILENCE, &far)); // by its other end
    assert_false(sim_net_strike(w->net, SIM_FAULT_RESET, &near)); // dead already
    connect_to(w, addr_of(1, PORT));
    near = place_of(w->end[0]);
    assert_false(sim_net_strike(w->net, SIM_FAULT_FIN, &near)); // there is no other end yet
}

static void a_silent_connection_is_silent_in_both_directions(void **state)
{
    struct world *w = *state;
    strike(w, SIM_FAULT_SILENCE);
    const instant_ns found_ns = w->now_ns + 10 * NS_PER_S;
    for (unsigned i = 0; i < 2; i++) {
        assert_true(send_octets(w->end[i], "x", 1) > 0);
        assert_int_equal(w->link[i]->ops->shutdown(w->end[i]), 0);
        assert_int_equal(next_ns(w), found_ns);
    }
    w->link[0]->ops->close(w->end[0], false);
    assert_int_equal(next_ns(w), found_ns);
    w->link[1]->ops->close(w->end[1], true);
    assert_int_equal(next_ns(w), INSTANT_NEVER);
    connect_to(w, addr_of(1, PORT));
    strike(w, SIM_FAULT_SILENCE);
    assert_int_equal(next_ns(w), w->now_ns + 10 * NS_PER_S);
    settle(w);
    assert_int_equal(w->link[0]->ops->connect_result(w->end[0]), -ETIMEDOUT);
}

static void a_stall_holds_up_both_directions_and_connecting(void **state)
{
    struct world *w = *state;
    for (unsigned side = 0; side < 2; side++) {
        assert_true(send_octets(w->end[side], "x", 1) > 0);
        strike(w, SIM_FAULT_STALL);
        const duration_ns left_ns = next_ns(w) - w->now_ns;
        assert_true(left_ns > 10 * DELAY_MAX_NS && left_ns < 10 * NS_PER_S);
        settle(w);
    }
    connect_to(w, addr_of(1, PORT));
    strike(w, SIM_FAULT_STALL);
    assert_true(next_ns(w) > w->now_ns + 10 * DELAY_MAX_NS);
    settle(w);
    assert_int_equal(w->link[0]->ops->connect_result(w->end[0]), 0);
}

// Which is drawn. Octets that are sent by it go nowhere, and who does not wait for them resets.
static void a_direction_that_is_struck_takes_no_more(void **state)
{
    struct world *w = *state;
    unsigned struck[2] = {0};
    char in[4];
    for (unsigned i = 0; i < 20; i++) {
        strike(w, SIM_FAULT_FIN);
        const unsigned side = send_octets(w->end[0], "x", 1) == -EAGAIN ? 0 : 1;
        struck[side]++;
        assert_int_equal(side == 0 || send_octets(w->end[1], "x", 1) == -EAGAIN, true);
        settle(w);
        assert_int_equal(recv_octets(w->end[1 - side], in, sizeof in), 0);
        w->link[1 - side]->ops->close(w->end[1 - side], false);
        settle(w);
        while (recv_octets(w->end[side], in, sizeof in) > 0) {
        }
        assert_int_equal(recv_octets(w->end[side], in, sizeof in), -ECONNRESET);
        connect_to(w, addr_of(1, PORT));
        settle(w);
        w->end[1] = accepted(w);
    }
    assert_true(struck[0] > 0);
    assert_true(struck[1] > 0);
}

static void a_corrupted_octet_is_never_what_it_was(void **state)
{
    struct world *w = *state;
    static uint8_t octets[SIM_CORRUPT_FIRST];
    struct sockaddr_in near = place_of(w->end[0]);
    for (size_t passed = 0; passed < sizeof octets;) {
        passed += (size_t)send_octets(w->end[0], octets, sizeof octets - passed);
        settle(w);
    }
    while (recv_octets(w->end[1], octets, sizeof octets) > 0) {
    }
    for (unsigned i = 0; i < 2000; i++) {
        uint8_t octet = 0x55;
        assert_int_equal(send_octets(w->end[0], &octet, 1), 1);
        while (!sim_net_strike(w->net, SIM_FAULT_CORRUPT, &near)) {
        }
        settle(w);
        assert_int_equal(recv_octets(w->end[1], &octet, 1), 1);
        assert_int_not_equal(octet, 0x55);
        assert_false(sim_net_strike(w->net, SIM_FAULT_CORRUPT, &near)); // it has come
    }
}

/* ---- what such a link has not ---------------------------------------------------------------- */

static void it_has_no_time_and_nothing_to_wait_for(void **state)
{
    struct world *w = *state;
    struct link *link = w->link[0];
    const struct link_ops *ops = link->ops;
    assert_string_equal(ops->name, "sim");
    assert_int_equal(ops->next_deadline(link), INSTANT_NEVER);
    assert_true(ops->may_wait(link));
    assert_false(ops->is_busy(link));
    assert_int_equal(ops->descriptor(link), -EOPNOTSUPP);
    assert_int_equal(ops->unsettled(w->end[0]), 0);
    assert_int_equal(ops->set_tos(w->end[0], 8), 0);
    assert_ptr_equal(ops->borrow, link_none_borrow);
    ops->packet_counters(link, NULL, NULL);
    ops->stream_counters(link, w->end[0], NULL, NULL);
    ops->wait(link, 1);
    ops->wake(link);
    ops->abandon(link); // which leaves all as it was
    assert_true(send_octets(w->end[0], "x", 1) > 0);
}

int main(void)
{
#define ON(state, test) cmocka_unit_test_setup_teardown(test, state, teardown)
    const struct CMUnitTest tests[] = {
        ON(setup_connected, what_travels_takes_from_one_to_the_longest_delay),
        cmocka_unit_test(the_shortest_delay_is_one),
        ON(setup_connected, pieces_are_no_longer_than_was_asked_for_unless_all_comes),
        ON(setup, a_listener_is_ready_while_somebody_waits),
        ON(setup_connected, room_is_reported_to_who_asks_for_it),
        ON(setup, who_connects_is_told_of_it_by_room),
        ON(setup_connected, octets_are_reported_to_who_wants_them),
        ON(setup_connected, an_end_is_reported_until_it_is_read),
        ON(setup_connected, an_error_is_reported_until_it_is_named),
        ON(setup_connected, who_was_first_is_last_the_next_time),
        ON(setup_connected, a_send_of_several_pieces_takes_what_there_is_room_for),
        ON(setup_connected, a_send_takes_something_while_there_is_room),
        ON(setup_connected, a_stream_listens_or_connects_once),
        ON(setup, a_listener_of_no_backlog_holds_one),
        ON(setup, who_waits_when_a_listener_goes_is_reset),
        ON(setup, a_listener_has_its_address_or_all_of_its_host),
        ON(setup, who_connects_leaves_from_its_address_or_the_hosts),
        ON(setup_connected, a_port_is_taken_by_who_listens_or_connects),
        ON(setup, free_ports_begin_anew_behind_the_last),
        ON(setup_connected, an_orderly_end_comes_behind_what_was_sent),
        ON(setup_connected, who_closes_first_is_not_told_of_the_other),
        ON(setup_connected, who_resets_takes_back_what_is_under_way),
        ON(setup_connected, nothing_travels_behind_a_reset),
        cmocka_unit_test(faults_have_names),
        ON(setup_connected, a_strike_needs_a_connection_that_lives),
        ON(setup_connected, a_silent_connection_is_silent_in_both_directions),
        ON(setup_connected, a_stall_holds_up_both_directions_and_connecting),
        ON(setup_connected, a_direction_that_is_struck_takes_no_more),
        ON(setup_connected, a_corrupted_octet_is_never_what_it_was),
        ON(setup_connected, it_has_no_time_and_nothing_to_wait_for),
    };
    return cmocka_run_group_tests_name("link/sim_ends", tests, NULL, NULL);
}
