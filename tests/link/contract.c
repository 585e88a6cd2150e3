// What every link does, whatever carries it.
#include "tests/link/contract.h"

struct loop l;
struct link *the_link;

/* ---- octets ---------------------------------------------------------------------------------- */

static void octets_cross(int family)
{
    char got[16] = "";
    loop_open(&l, the_link, family);
    assert_int_equal(send_text(l.active, "there"), 5);
    assert_int_equal(recv_some(l.passive, got, sizeof got), 5);
    assert_memory_equal(got, "there", 5);
    assert_int_equal(send_text(l.passive, "back"), 4);
    assert_int_equal(recv_some(l.active, got, sizeof got), 4);
    assert_memory_equal(got, "back", 4);
    assert_int_equal(the_link->ops->recv(l.active, mspan_of(got, 1)), -EAGAIN);
}

void octets_cross_over_ipv4(void **state)
{
    (void)state;
    octets_cross(AF_INET);
}

void octets_cross_over_ipv6(void **state)
{
    (void)state;
    octets_cross(AF_INET6);
}

void stream_of_many_elements_is_taken_whole(void **state)
{
    (void)state;
    static uint8_t octets[3000], got[3000];
    struct iovec iov[1500];
    for (int i = 0; i < 1500; i++) {
        octets[2 * i] = (uint8_t)i;
        iov[i] = (struct iovec){octets + 2 * i, 2};
    }
    struct link_tx tx = {.iov = iov, .iov_count = 1500};
    loop_open(&l, the_link, AF_INET);
    assert_int_equal(the_link->ops->send(l.active, &tx), 3000);
    for (size_t in = 0; in < sizeof got;) {
        ssize_t taken = recv_some(l.passive, got + in, sizeof got - in);
        assert_true(taken > 0);
        in += (size_t)taken;
    }
    assert_memory_equal(octets, got, sizeof got);
}

/* ---- readiness ------------------------------------------------------------------------------- */

void idle_streams_are_never_ready(void **state)
{
    (void)state;
    struct link_stream *bound;
    struct sockaddr_storage addr = loopback(AF_INET);
    assert_int_equal(the_link->ops->bind(the_link, addr_of(&addr), 0, NULL, &bound), 0);
    loop_open(&l, the_link, AF_INET);
    assert_quiet(the_link);
}

void withdrawn_interest_is_silent_until_renewed(void **state)
{
    (void)state;
    loop_open(&l, the_link, AF_INET);
    the_link->ops->want_in(l.passive, false);
    send_text(l.active, "x");
    assert_quiet(the_link);
    the_link->ops->want_in(l.passive, true);
    assert_true(ready_of(the_link, l.passive) & LINK_READY_IN);
}

void room_is_reported_only_when_wanted(void **state)
{
    (void)state;
    loop_open(&l, the_link, AF_INET);
    the_link->ops->want_out(l.active, true);
    assert_int_equal(ready_of(the_link, l.active), LINK_READY_OUT);
    the_link->ops->want_out(l.active, false);
    assert_quiet(the_link);
}

void fin_is_reported_once(void **state)
{
    (void)state;
    char got[4];
    loop_open(&l, the_link, AF_INET);
    assert_int_equal(the_link->ops->shutdown(l.active), 0);
    assert_int_equal(recv_some(l.passive, got, sizeof got), 0);
    assert_quiet(the_link);
    // The other direction still works.
    assert_int_equal(send_text(l.passive, "late"), 4);
    assert_int_equal(recv_some(l.active, got, sizeof got), 4);
    assert_int_equal(the_link->ops->recv(l.passive, mspan_of(got, 4)), 0);
}

void stream_that_both_have_shut_is_silent(void **state)
{
    (void)state;
    char got[4];
    loop_open(&l, the_link, AF_INET);
    the_link->ops->shutdown(l.active);
    assert_int_equal(recv_some(l.passive, got, sizeof got), 0);
    the_link->ops->shutdown(l.passive);
    assert_int_equal(recv_some(l.active, got, sizeof got), 0);
    assert_quiet(the_link);
}

/* ---- ends ------------------------------------------------------------------------------------ */

void reset_is_named_and_then_silent(void **state)
{
    (void)state;
    char got[4];
    loop_open(&l, the_link, AF_INET);
    the_link->ops->close(l.active, true);
    // What is ready is the stream's end, or the octets that tell of it.
    assert_true(ready_of(the_link, l.passive) != 0);
    assert_int_equal(the_link->ops->recv(l.passive, mspan_of(got, 4)), -ECONNRESET);
    assert_quiet(the_link);
}

void reset_behind_a_fin_is_named_too(void **state)
{
    (void)state;
    char got[4];
    loop_open(&l, the_link, AF_INET);
    the_link->ops->shutdown(l.active);
    assert_int_equal(recv_some(l.passive, got, sizeof got), 0);
    the_link->ops->close(l.active, true);
    assert_true(ready_of(the_link, l.passive) != 0);
    assert_true(the_link->ops->recv(l.passive, mspan_of(got, 4)) < 0);
    assert_quiet(the_link);
}

void orderly_close_ends_with_fin(void **state)
{
    (void)state;
    char got[8];
    loop_open(&l, the_link, AF_INET);
    send_text(l.active, "bye");
    the_link->ops->close(l.active, false);
    assert_int_equal(recv_some(l.passive, got, sizeof got), 3);
    assert_int_equal(recv_some(l.passive, got, sizeof got), 0);
}

/* ---- waiting --------------------------------------------------------------------------------- */

void wake_ends_a_wait(void **state)
{
    (void)state;
    struct link_ready ready[1];
    the_link->ops->wake(the_link);
    // A look does not use it up: whoever sleeps beside it must still wake.
    assert_int_equal(the_link->ops->poll(the_link, ready, 1), 0);
    the_link->ops->wait(the_link, INSTANT_NEVER);
    assert_quiet(the_link);
}

void closed_stream_has_no_owner_where_a_report_may_still_name_it(void **state)
{
    (void)state;
    loop_open(&l, the_link, AF_INET);
    struct link_stream *closed = l.passive;
    closed->owner = &l;
    the_link->ops->close(closed, false);
    assert_null(closed->owner);
    for (int i = 0; i < 100; i++) { // is not soon used again
        struct link_stream *other;
        assert_int_equal(the_link->ops->bind(the_link, NULL, 0, &l, &other), 0);
        the_link->ops->close(other, false);
    }
    assert_null(closed->owner);
}

/* ---- connecting ------------------------------------------------------------------------------ */

void refused_connection_is_named(void **state)
{
    (void)state;
    struct sockaddr_storage addr;
    loop_listen(&l, the_link, AF_INET);
    the_link->ops->local_addr(l.listener, &addr);
    the_link->ops->close(l.listener, false);
    the_link->ops->bind(the_link, NULL, 0, NULL, &l.active);
    int error = the_link->ops->connect(l.active, addr_of(&addr));
    if (error == -EINPROGRESS) {
        assert_true(ready_of(the_link, l.active) != 0);
        error = the_link->ops->connect_result(l.active);
    }
    assert_int_equal(error, -ECONNREFUSED);
    assert_quiet(the_link);
}

void error_of_a_stream_that_is_not_read_can_be_asked_for(void **state)
{
    (void)state;
    loop_open(&l, the_link, AF_INET);
    the_link->ops->want_in(l.passive, false);
    assert_int_equal(the_link->ops->connect_result(l.passive), 0);
    the_link->ops->close(l.active, true);
    assert_true(ready_of(the_link, l.passive) & LINK_READY_ERR);
    assert_int_equal(the_link->ops->connect_result(l.passive), -ECONNRESET);
    assert_quiet(the_link);
}

void connected_stream_knows_its_addresses_and_segment_size(void **state)
{
    (void)state;
    struct sockaddr_storage a, b;
    loop_open(&l, the_link, AF_INET);
    assert_int_equal(the_link->ops->local_addr(l.active, &a), 0);
    assert_int_equal(the_link->ops->peer_addr(l.passive, &b), 0);
    assert_memory_equal(&a, &b, sizeof(struct sockaddr_in));
    assert_true(the_link->ops->emss(l.active) >= 536);
}

void route_names_the_address_to_leave_from(void **state)
{
    (void)state;
    struct sockaddr_storage to = loopback(AF_INET), from = {0};
    assert_int_equal(the_link->ops->route(the_link, addr_of(&to), &from), 0);
    assert_int_equal(((struct sockaddr_in *)&from)->sin_addr.s_addr, htonl(INADDR_LOOPBACK));
    assert_int_equal(((struct sockaddr_in *)&from)->sin_port, 0);
    to.ss_family = AF_UNIX;
    assert_int_equal(the_link->ops->route(the_link, addr_of(&to), &from), -EAFNOSUPPORT);
}

/* ---- listening ------------------------------------------------------------------------------- */

void bound_port_is_not_shared(void **state)
{
    (void)state;
    struct link_stream *first, *second;
    struct sockaddr_storage addr = loopback(AF_INET);
    assert_int_equal(the_link->ops->bind(the_link, addr_of(&addr), 0, NULL, &first), 0);
    the_link->ops->local_addr(first, &addr);
    assert_int_equal(the_link->ops->bind(the_link, addr_of(&addr), 0, NULL, &second), -EADDRINUSE);
    the_link->ops->listen(first, 1);
    assert_int_equal(the_link->ops->bind(the_link, addr_of(&addr), 0, NULL, &second), -EADDRINUSE);
}

void port_with_nothing_but_ended_connections_is_free(void **state)
{
    (void)state;
    char got[4];
    struct sockaddr_storage addr;
    struct link_stream *next;
    loop_open(&l, the_link, AF_INET);
    the_link->ops->local_addr(l.listener, &addr);
    // Who closes first keeps the connection in TIME-WAIT.
    the_link->ops->close(l.passive, false);
    assert_int_equal(recv_some(l.active, got, sizeof got), 0);
    the_link->ops->close(l.active, false);
    the_link->ops->close(l.listener, false);
    assert_int_equal(the_link->ops->bind(the_link, addr_of(&addr), 0, NULL, &next), 0);
    assert_int_equal(the_link->ops->listen(next, 1), 0);
}

static int connect_v4_to_v6_wildcard(unsigned flags)
{
    struct sockaddr_storage any = {.ss_family = AF_INET6}, addr = loopback(AF_INET);
    the_link->ops->bind(the_link, addr_of(&any), flags, NULL, &l.listener);
    the_link->ops->listen(l.listener, 1);
    the_link->ops->local_addr(l.listener, &any);
    ((struct sockaddr_in *)&addr)->sin_port = ((struct sockaddr_in6 *)&any)->sin6_port;
    the_link->ops->bind(the_link, NULL, 0, NULL, &l.active);
    int error = the_link->ops->connect(l.active, addr_of(&addr));
    if (error == -EINPROGRESS) {
        ready_of(the_link, l.active);
        error = the_link->ops->connect_result(l.active);
    }
    return error;
}

void ipv6_wildcard_takes_ipv4_unless_told_not_to(void **state)
{
    (void)state;
    assert_int_equal(connect_v4_to_v6_wildcard(0), 0);
    assert_int_equal(connect_v4_to_v6_wildcard(LINK_BIND_V6_ONLY), -ECONNREFUSED);
}
