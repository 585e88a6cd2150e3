// The link of the simulator: octets arrive in order and unchanged however they are cut, and each
// fault shows at the ends as kernel TCP would show it.

#include "tests/link/sim_world.h"

static void octets_arrive_in_order_and_unchanged(void **state)
{
    struct world *w = *state;
    uint8_t out[50000], in[sizeof out];
    size_t sent = 0, got = 0;
    for (size_t i = 0; i < sizeof out; i++) {
        out[i] = (uint8_t)(i * 31 >> 3);
    }
    while (got < sizeof out) {
        ssize_t n = sent < sizeof out ? send_octets(w->end[0], out + sent, sizeof out - sent) : 0;
        sent += n > 0 ? (size_t)n : 0;
        world_step(w);
        n = recv_octets(w->end[1], in + got, sizeof in - got);
        got += n > 0 ? (size_t)n : 0;
    }
    assert_memory_equal(out, in, sizeof out);
}

static void a_full_window_refuses_octets_until_some_are_read(void **state)
{
    struct world *w = *state;
    uint8_t octets[2 * WINDOW_LEN] = {0};
    size_t sent = 0;
    ssize_t n;
    while ((n = send_octets(w->end[0], octets, sizeof octets)) > 0) {
        sent += (size_t)n;
    }
    assert_int_equal(n, -EAGAIN);
    assert_int_equal(sent, WINDOW_LEN);
    world_step(w);
    assert_true(recv_octets(w->end[1], octets, sizeof octets) > 0);
    assert_true(send_octets(w->end[0], octets, 1) > 0);
}

static void a_shut_direction_ends_behind_its_last_octet(void **state)
{
    struct world *w = *state;
    char in[8];
    send_octets(w->end[0], "abc", 3);
    w->link[0]->ops->shutdown(w->end[0]);
    while (world_step(w)) {
    }
    assert_true(recv_octets(w->end[1], in, sizeof in) > 0);
    while (recv_octets(w->end[1], in, sizeof in) > 0) {
    }
    assert_int_equal(recv_octets(w->end[1], in, sizeof in), 0);
    assert_int_equal(send_octets(w->end[1], "d", 1), 1);
}

static void nobody_listening_refuses_the_connection(void **state)
{
    struct world *w = *state;
    assert_int_equal(connect_to(w, addr_of(1, PORT + 1)), -EINPROGRESS);
    assert_int_equal(w->link[0]->ops->connect_result(w->end[0]), -EINPROGRESS);
    world_step(w);
    assert_int_equal(w->link[0]->ops->connect_result(w->end[0]), -ECONNREFUSED);
}

static void an_absent_host_is_found_after_the_peer_timeout(void **state)
{
    struct world *w = *state;
    assert_int_equal(connect_to(w, addr_of(9, PORT)), -EINPROGRESS);
    world_step(w);
    assert_int_equal(w->link[0]->ops->connect_result(w->end[0]), -ETIMEDOUT);
    assert_int_equal(w->now_ns, 10 * NS_PER_S);
}

static void a_reset_shows_behind_what_had_arrived(void **state)
{
    struct world *w = *state;
    char in[8];
    send_octets(w->end[0], "a", 1);
    world_step(w);
    strike(w, SIM_FAULT_RESET);
    assert_int_equal(recv_octets(w->end[1], in, sizeof in), 1);
    assert_int_equal(recv_octets(w->end[1], in, sizeof in), -ECONNRESET);
    assert_int_equal(send_octets(w->end[0], "a", 1), -ECONNRESET);
}

static void silence_is_found_after_the_peer_timeout(void **state)
{
    struct world *w = *state;
    char in[8];
    send_octets(w->end[0], "a", 1); // on their way: they are lost, both
    send_octets(w->end[1], "b", 1);
    strike(w, SIM_FAULT_SILENCE);
    send_octets(w->end[0], "a", 1);
    instant_ns begin_ns = w->now_ns;
    world_step(w); // nothing is due before
    assert_int_equal(w->now_ns, begin_ns + 10 * NS_PER_S);
    assert_int_equal(recv_octets(w->end[1], in, sizeof in), -ETIMEDOUT);
    assert_int_equal(recv_octets(w->end[0], in, sizeof in), -ETIMEDOUT);
}

static void octets_for_a_closed_end_reset_the_connection(void **state)
{
    struct world *w = *state;
    char in[8];
    w->link[1]->ops->close(w->end[1], false);
    send_octets(w->end[0], "a", 1);
    while (world_step(w)) {
    }
    assert_int_equal(recv_octets(w->end[0], in, sizeof in), -ECONNRESET);
}

static void closing_with_unread_octets_resets_the_connection(void **state)
{
    struct world *w = *state;
    char in[8];
    send_octets(w->end[0], "a", 1);
    world_step(w);
    w->link[1]->ops->close(w->end[1], false);
    world_step(w);
    assert_int_equal(recv_octets(w->end[0], in, sizeof in), -ECONNRESET);
}

static void a_corrupted_octet_is_never_one_of_start_up(void **state)
{
    struct world *w = *state;
    struct sockaddr_storage end;
    uint8_t octets[SIM_CORRUPT_FIRST] = {0};
    w->link[0]->ops->local_addr(w->end[0], &end);
    send_octets(w->end[0], octets, sizeof octets);
    assert_false(sim_net_strike(w->net, SIM_FAULT_CORRUPT, (struct sockaddr_in *)&end));
}

static void readiness_lasts_until_it_is_answered(void **state)
{
    struct world *w = *state;
    struct link_ready ready[4];
    char in[8];
    assert_int_equal(w->link[1]->ops->poll(w->link[1], ready, 4), 0);
    send_octets(w->end[0], "a", 1);
    world_step(w);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(w->link[1]->ops->poll(w->link[1], ready, 4), 1);
        assert_ptr_equal(ready[0].stream, w->end[1]);
        assert_int_equal(ready[0].what, LINK_READY_IN);
    }
    recv_octets(w->end[1], in, sizeof in);
    assert_int_equal(w->link[1]->ops->poll(w->link[1], ready, 4), 0);
}

/* ---- places ---------------------------------------------------------------------------------- */

static int bind_at(struct link *link, struct sockaddr_in addr, struct link_stream **ret)
{
    return link->ops->bind(link, (struct sockaddr *)&addr, 0, NULL, ret);
}

static void ports_are_not_shared_and_addresses_are_ours(void **state)
{
    struct world *w = *state;
    struct link_stream *s;
    struct sockaddr_storage v6 = {.ss_family = AF_INET6};
    assert_int_equal(bind_at(w->link[1], addr_of(1, PORT), &s), -EADDRINUSE);
    assert_int_equal(bind_at(w->link[0], addr_of(1, PORT), &s), -EADDRNOTAVAIL);
    assert_int_equal(bind_at(w->link[0], addr_of(0, PORT), &s), 0); // another host's port
    assert_int_equal(w->link[0]->ops->bind(w->link[0], (struct sockaddr *)&v6, 0, NULL, &s),
                     -EAFNOSUPPORT);
}

static void free_ports_are_drawn(void **state)
{
    struct world *w = *state;
    struct link_stream *s[3];
    struct sockaddr_storage at[3];
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(bind_at(w->link[0], addr_of(0, 0), &s[i]), 0);
        assert_int_equal(w->link[0]->ops->local_addr(s[i], &at[i]), 0);
        assert_true(((struct sockaddr_in *)&at[i])->sin_port != 0);
        for (unsigned k = 0; k < i; k++) {
            assert_true(((struct sockaddr_in *)&at[i])->sin_port !=
                        ((struct sockaddr_in *)&at[k])->sin_port);
        }
    }
}

static void ends_know_their_addresses(void **state)
{
    struct world *w = *state;
    struct sockaddr_storage near, far;
    const struct sockaddr_in listening = addr_of(1, PORT);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(w->link[i]->ops->local_addr(w->end[i], &near), 0);
        assert_int_equal(w->link[1 - i]->ops->peer_addr(w->end[1 - i], &far), 0);
        assert_memory_equal(&near, &far, sizeof near);
    }
    assert_memory_equal(&near, &listening, sizeof listening);
    assert_int_equal(w->link[0]->ops->emss(w->end[0]), 1460);
    assert_int_equal(w->link[1]->ops->peer_addr(w->listener, &far), -ENOTCONN);
}

static void route_leaves_from_the_host_itself(void **state)
{
    struct world *w = *state;
    struct sockaddr_in to = addr_of(1, PORT), own = addr_of(0, 0);
    struct sockaddr_in far = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0b000001)};
    struct sockaddr_storage from, v6 = {.ss_family = AF_INET6};
    const struct link_ops *ops = w->link[0]->ops;
    assert_int_equal(ops->route(w->link[0], (struct sockaddr *)&to, &from), 0);
    assert_memory_equal(&from, &own, sizeof own);
    assert_int_equal(ops->route(w->link[0], (struct sockaddr *)&far, &from), -ENETUNREACH);
    assert_int_equal(ops->route(w->link[0], (struct sockaddr *)&v6, &from), -EAFNOSUPPORT);
}

static void listener_holds_as_many_as_it_was_told(void **state)
{
    struct world *w = *state;
    struct link_stream *s;
    unsigned refused = 0;
    for (unsigned i = 0; i < 5; i++) { // one more than its backlog
        connect_to(w, addr_of(1, PORT));
        while (world_step(w)) {
        }
        refused += w->link[0]->ops->connect_result(w->end[0]) == -ECONNREFUSED;
    }
    assert_int_equal(refused, 1);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(w->link[1]->ops->accept(w->listener, &s), 0);
    }
    assert_int_equal(w->link[1]->ops->accept(w->listener, &s), -EAGAIN);
}

/* ---- calls out of turn ----------------------------------------------------------------------- */

static void stream_that_is_not_connected_moves_nothing(void **state)
{
    struct world *w = *state;
    char in[4];
    assert_int_equal(send_octets(w->listener, "x", 1), -ENOTCONN);
    assert_int_equal(recv_octets(w->listener, in, sizeof in), -ENOTCONN);
    assert_int_equal(w->link[1]->ops->shutdown(w->listener), -ENOTCONN);
    connect_to(w, addr_of(1, PORT));
    assert_int_equal(w->link[0]->ops->connect_result(w->end[0]), -EINPROGRESS);
    assert_int_equal(send_octets(w->end[0], "x", 1), -EAGAIN);
}

static void connected_stream_has_nothing_to_read_and_may_be_shut(void **state)
{
    struct world *w = *state;
    char in[4];
    assert_int_equal(recv_octets(w->end[1], in, sizeof in), -EAGAIN);
    assert_int_equal(w->link[0]->ops->shutdown(w->end[0]), 0);
    assert_int_equal(w->link[0]->ops->shutdown(w->end[0]), 0);
    while (world_step(w)) {
    }
    assert_int_equal(recv_octets(w->end[1], in, sizeof in), 0);
}

/* ---- more of what may happen ----------------------------------------------------------------- */

static void a_stall_is_over_before_the_peer_timeout(void **state)
{
    struct world *w = *state;
    char in[4];
    send_octets(w->end[0], "late", 4);
    strike(w, SIM_FAULT_STALL);
    instant_ns before = w->now_ns;
    while (world_step(w)) {
    }
    assert_true(w->now_ns > before + 1000 && w->now_ns < before + 10 * NS_PER_S);
    size_t got = 0;
    for (ssize_t n; (n = recv_octets(w->end[1], in + got, sizeof in - got)) > 0;) {
        got += (size_t)n;
    }
    assert_int_equal(got, 4);
    assert_memory_equal(in, "late", 4);
}

static void a_direction_that_is_struck_ends(void **state)
{
    struct world *w = *state;
    char in[4];
    strike(w, SIM_FAULT_FIN);
    while (world_step(w)) {
    }
    ssize_t first = recv_octets(w->end[0], in, sizeof in);
    ssize_t second = recv_octets(w->end[1], in, sizeof in);
    assert_true((first == 0 && second == -EAGAIN) || (first == -EAGAIN && second == 0));
}

static void a_strike_hits_no_other_connection(void **state)
{
    struct world *w = *state;
    struct link_stream *first = w->end[0], *other;
    char in[4];
    connect_to(w, addr_of(1, PORT));
    while (world_step(w)) {
    }
    assert_int_equal(w->link[1]->ops->accept(w->listener, &other), 0);
    strike(w, SIM_FAULT_RESET); // the second
    while (world_step(w)) {
    }
    assert_int_equal(recv_octets(other, in, sizeof in), -ECONNRESET);
    assert_int_equal(recv_octets(first, in, sizeof in), -EAGAIN);
    assert_int_equal(send_octets(first, "x", 1), 1);
}

static void an_octet_behind_start_up_may_be_corrupted_once(void **state)
{
    struct world *w = *state;
    struct sockaddr_storage end;
    static uint8_t octets[SIM_CORRUPT_FIRST + 500], in[sizeof octets];
    size_t got = 0;
    unsigned changed = 0;
    w->link[0]->ops->local_addr(w->end[0], &end);
    for (size_t sent = 0; sent < sizeof octets;) {
        ssize_t n = send_octets(w->end[0], octets + sent, sizeof octets - sent);
        sent += n > 0 ? (size_t)n : 0;
    }
    assert_true(sim_net_strike(w->net, SIM_FAULT_CORRUPT, (struct sockaddr_in *)&end));
    while (got < sizeof in) {
        world_step(w);
        ssize_t n = recv_octets(w->end[1], in + got, sizeof in - got);
        got += n > 0 ? (size_t)n : 0;
    }
    for (size_t i = 0; i < sizeof in; i++) {
        changed += in[i] != 0;
        assert_true(in[i] == 0 || i >= SIM_CORRUPT_FIRST);
    }
    assert_int_equal(changed, 1);
}

int main(void)
{
#define ON(state, test) cmocka_unit_test_setup_teardown(test, state, teardown)
    const struct CMUnitTest tests[] = {
        ON(setup_connected, octets_arrive_in_order_and_unchanged),
        ON(setup_connected, a_full_window_refuses_octets_until_some_are_read),
        ON(setup_connected, a_shut_direction_ends_behind_its_last_octet),
        ON(setup, nobody_listening_refuses_the_connection),
        ON(setup, an_absent_host_is_found_after_the_peer_timeout),
        ON(setup_connected, a_reset_shows_behind_what_had_arrived),
        ON(setup_connected, silence_is_found_after_the_peer_timeout),
        ON(setup_connected, octets_for_a_closed_end_reset_the_connection),
        ON(setup_connected, closing_with_unread_octets_resets_the_connection),
        ON(setup_connected, a_corrupted_octet_is_never_one_of_start_up),
        ON(setup_connected, readiness_lasts_until_it_is_answered),
        ON(setup, ports_are_not_shared_and_addresses_are_ours),
        ON(setup, free_ports_are_drawn),
        ON(setup_connected, ends_know_their_addresses),
        ON(setup, route_leaves_from_the_host_itself),
        ON(setup, listener_holds_as_many_as_it_was_told),
        ON(setup, stream_that_is_not_connected_moves_nothing),
        ON(setup_connected, connected_stream_has_nothing_to_read_and_may_be_shut),
        ON(setup_connected, a_stall_is_over_before_the_peer_timeout),
        ON(setup_connected, a_direction_that_is_struck_ends),
        ON(setup_connected, a_strike_hits_no_other_connection),
        ON(setup_connected, an_octet_behind_start_up_may_be_corrupted_once),
    };
    return cmocka_run_group_tests_name("link/sim", tests, NULL, NULL);
}
