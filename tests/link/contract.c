// What every link does, whatever carries it.
#include "tests/link/contract.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct loop l;
struct link *the_link;
void (*contract_begin_pair)(void);

static void open_pair(int family)
{
    loop_open(&l, the_link, family);
    if (contract_begin_pair != NULL) {
        contract_begin_pair();
    }
}

// Nobody asks whether there is one.
void every_operation_is_there(void **state)
{
    void *operations[sizeof(struct link_ops) / sizeof(void *)];
    memcpy(operations, the_link->ops, sizeof operations);
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++) {
        assert_non_null(operations[i]);
    }
}

/* ---- octets ---------------------------------------------------------------------------------- */

static void octets_cross(int family)
{
    char got[16] = "";
    open_pair(family);
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
    octets_cross(AF_INET);
}

void octets_cross_over_ipv6(void **state)
{
    octets_cross(AF_INET6);
}

void stream_of_many_elements_is_taken_whole(void **state)
{
    static uint8_t octets[3000], got[3000];
    struct iovec iov[1500];
    for (int i = 0; i < 1500; i++) {
        octets[2 * i] = (uint8_t)i;
        iov[i] = (struct iovec){octets + 2 * i, 2};
    }
    struct link_tx tx = {.iov = iov, .iov_count = 1500};
    open_pair(AF_INET);
    assert_int_equal(the_link->ops->send(l.active, &tx), 3000);
    for (size_t in = 0; in < sizeof got;) {
        ssize_t taken = recv_some(l.passive, got + in, sizeof got - in);
        assert_true(taken > 0);
        in += (size_t)taken;
    }
    assert_memory_equal(octets, got, sizeof got);
}

static ssize_t send_octets(struct link_stream *stream, uint8_t *octets, size_t len)
{
    struct iovec iov = {octets, len};
    struct link_tx tx = {.iov = &iov, .iov_count = 1};
    return the_link->ops->send(stream, &tx);
}

void stream_that_is_full_goes_on_when_it_is_read(void **state)
{
    enum { LEN = 32 << 20 };
    uint8_t *octets = malloc(LEN), got[65536];
    size_t out = 0, in = 0;
    ssize_t taken;
    for (size_t i = 0; i < LEN; i++) {
        octets[i] = (uint8_t)(i * 2654435761U >> 21);
    }
    open_pair(AF_INET);
    the_link->ops->want_in(l.passive, false);
    while ((taken = send_octets(l.active, octets + out, LEN - out)) > 0) {
        out += (size_t)taken;
    }
    assert_int_equal(taken, -EAGAIN);
    assert_true(out < LEN);
    the_link->ops->want_in(l.passive, true);
    the_link->ops->want_out(l.active, true);
    while (in < out) {
        ready_of(the_link, l.passive);
        the_link->ops->recv(l.active, mspan_of(got, 1)); // what is read there tells of room
        taken = the_link->ops->recv(l.passive, mspan_of(got, sizeof got));
        assert_true(taken == -EAGAIN || (taken > 0 && (size_t)taken <= out - in));
        assert_true(taken < 0 || memcmp(got, octets + in, (size_t)taken) == 0);
        in += taken > 0 ? (size_t)taken : 0;
    }
    while ((ready_of(the_link, l.active) & LINK_READY_OUT) == 0) {
        the_link->ops->recv(l.active, mspan_of(got, 1));
    }
    assert_int_equal(send_octets(l.active, octets, 4), 4);
    free(octets);
}

/* ---- readiness ------------------------------------------------------------------------------- */

void idle_streams_are_never_ready(void **state)
{
    struct link_stream *bound;
    struct sockaddr_storage addr = loopback(AF_INET);
    assert_int_equal(the_link->ops->bind(the_link, addr_of(&addr), 0, NULL, &bound), 0);
    open_pair(AF_INET);
    assert_quiet(the_link);
}

void withdrawn_interest_is_silent_until_renewed(void **state)
{
    open_pair(AF_INET);
    the_link->ops->want_in(l.passive, false);
    send_text(l.active, "x");
    assert_quiet(the_link);
    the_link->ops->want_in(l.passive, true);
    assert_true(ready_of(the_link, l.passive) & LINK_READY_IN);
}

void room_is_reported_only_when_wanted(void **state)
{
    open_pair(AF_INET);
    the_link->ops->want_out(l.active, true);
    assert_int_equal(ready_of(the_link, l.active), LINK_READY_OUT);
    the_link->ops->want_out(l.active, false);
    assert_quiet(the_link);
}

void no_more_is_reported_than_asked_for(void **state)
{
    struct link_ready ready[2] = {{0}};
    open_pair(AF_INET);
    the_link->ops->want_out(l.active, true);
    the_link->ops->want_out(l.passive, true);
    assert_true(ready_of(the_link, l.active) & LINK_READY_OUT);
    assert_int_equal(the_link->ops->poll(the_link, ready, 1), 1);
    assert_null(ready[1].stream);
    assert_int_equal(the_link->ops->poll(the_link, ready, 2), 2);
    assert_true(ready[0].stream != ready[1].stream);
}

void fin_is_reported_once(void **state)
{
    char got[4];
    open_pair(AF_INET);
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
    char got[4];
    open_pair(AF_INET);
    the_link->ops->shutdown(l.active);
    assert_int_equal(recv_some(l.passive, got, sizeof got), 0);
    the_link->ops->shutdown(l.passive);
    assert_int_equal(recv_some(l.active, got, sizeof got), 0);
    assert_quiet(the_link);
}

/* ---- ends ------------------------------------------------------------------------------------ */

void reset_is_named_and_then_silent(void **state)
{
    char got[4];
    open_pair(AF_INET);
    the_link->ops->close(l.active, true);
    // What is ready is the stream's end, or the octets that tell of it.
    assert_true(ready_of(the_link, l.passive) != 0);
    assert_int_equal(the_link->ops->recv(l.passive, mspan_of(got, 4)), -ECONNRESET);
    assert_quiet(the_link);
}

void broken_stream_takes_nothing_more(void **state)
{
    char got[4];
    open_pair(AF_INET);
    the_link->ops->close(l.active, true);
    assert_true(ready_of(the_link, l.passive) != 0);
    assert_int_equal(the_link->ops->recv(l.passive, mspan_of(got, 4)), -ECONNRESET);
    assert_true(send_text(l.passive, "lost") < 0);
    assert_true(the_link->ops->shutdown(l.passive) < 0);
}

void reset_behind_a_fin_is_named_too(void **state)
{
    char got[4];
    open_pair(AF_INET);
    the_link->ops->shutdown(l.active);
    assert_int_equal(recv_some(l.passive, got, sizeof got), 0);
    the_link->ops->close(l.active, true);
    assert_true(ready_of(the_link, l.passive) != 0);
    assert_true(the_link->ops->recv(l.passive, mspan_of(got, 4)) < 0);
    assert_quiet(the_link);
}

void orderly_close_ends_with_fin(void **state)
{
    char got[8];
    open_pair(AF_INET);
    send_text(l.active, "bye");
    the_link->ops->close(l.active, false);
    assert_int_equal(recv_some(l.passive, got, sizeof got), 3);
    assert_int_equal(recv_some(l.passive, got, sizeof got), 0);
}

/* ---- waiting --------------------------------------------------------------------------------- */

void wake_ends_a_wait(void **state)
{
    struct link_ready ready[1];
    the_link->ops->wake(the_link);
    // A look does not use it up: whoever sleeps beside it must still wake.
    assert_int_equal(the_link->ops->poll(the_link, ready, 1), 0);
    the_link->ops->wait(the_link, INSTANT_NEVER);
    assert_quiet(the_link);
    // The sleep did: the next one is one.
    struct timespec before, after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    the_link->ops->wait(the_link, 50 * NS_PER_MS);
    clock_gettime(CLOCK_MONOTONIC, &after);
    assert_true(
        (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000 >= 40);
}

void octets_end_a_wait(void **state)
{
    char got[4];
    ssize_t taken = -EAGAIN;
    open_pair(AF_INET);
    assert_quiet(the_link);
    send_text(l.active, "up");
    for (unsigned turn = 0; turn < 100 && taken == -EAGAIN; turn++) {
        loop_wait(the_link, INSTANT_NEVER);
        taken = recv_some(l.passive, got, sizeof got);
    }
    assert_int_equal(taken, 2);
}

void abandoned_link_holds_no_descriptor(void **state)
{
    int status = -1;
    open_pair(AF_INET);
    pid_t child = fork();
    if (child == 0) {
        the_link->ops->abandon(the_link);
        _exit((int)descriptors_more());
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

void closed_stream_has_no_owner_where_a_report_may_still_name_it(void **state)
{
    open_pair(AF_INET);
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

// In a program that was started without standard input.
// A shell that the program starts would keep connections open that have ended here.
void programs_that_are_started_inherit_no_descriptor(void **state)
{
    open_pair(AF_INET);
    unsigned count = descriptors_inherited();
    the_link->ops->close(l.active, true);
    the_link->ops->close(l.passive, true);
    the_link->ops->close(l.listener, true);
    l = (struct loop){0};
    assert_int_equal(descriptors_inherited(), count);
}

void program_without_input_has_its_descriptor_0_left_alone(void **state)
{
    struct sockaddr_storage addr = loopback(AF_INET), from;
    int input = dup(0);
    close(0);
    int routed = the_link->ops->route(the_link, addr_of(&addr), &from);
    int bound = the_link->ops->bind(the_link, addr_of(&addr), 0, NULL, &l.listener);
    int closed = fcntl(0, F_GETFD);
    int listening = bound == 0 ? the_link->ops->listen(l.listener, 1) : bound;
    int named = bound == 0 ? the_link->ops->local_addr(l.listener, &from) : bound;
    int marked = bound == 0 ? the_link->ops->set_tos(l.listener, 0x48) : bound;
    if (bound == 0) {
        the_link->ops->close(l.listener, false);
    }
    dup2(input, 0);
    close(input);
    assert_int_equal(routed, 0);
    assert_int_equal(bound, 0);
    assert_int_equal(closed, -1);
    assert_int_equal(listening, 0);
    assert_int_equal(named, 0);
    assert_int_equal(marked, 0);
}

// It is the one that was bound which connects.
void without_input_a_stream_connects_from_where_it_is_bound(void **state)
{
    struct sockaddr_storage addr = loopback(AF_INET), bound_at = {0}, connected_at = {0}, peer;
    loop_listen(&l, the_link, AF_INET);
    assert_int_equal(the_link->ops->local_addr(l.listener, &peer), 0);
    int input = dup(0);
    close(0);
    int bound = the_link->ops->bind(the_link, addr_of(&addr), 0, NULL, &l.active);
    int named = bound == 0 ? the_link->ops->local_addr(l.active, &bound_at) : bound;
    int connected = bound == 0 ? the_link->ops->connect(l.active, addr_of(&peer)) : bound;
    int named_again = bound == 0 ? the_link->ops->local_addr(l.active, &connected_at) : bound;
    if (bound == 0) {
        the_link->ops->close(l.active, true);
        l.active = NULL;
    }
    dup2(input, 0);
    close(input);
    assert_int_equal(named, 0);
    assert_int_equal(connected, -EINPROGRESS);
    assert_int_equal(named_again, 0);
    assert_memory_equal(&bound_at, &connected_at, sizeof(struct sockaddr_in));
}

void refused_connection_is_named(void **state)
{
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
    open_pair(AF_INET);
    the_link->ops->want_in(l.passive, false);
    assert_int_equal(the_link->ops->connect_result(l.passive), 0);
    the_link->ops->close(l.active, true);
    assert_true(ready_of(the_link, l.passive) & LINK_READY_ERR);
    assert_int_equal(the_link->ops->connect_result(l.passive), -ECONNRESET);
    assert_quiet(the_link);
}

static void ends_know_their_addresses(int family, socklen_t len)
{
    struct sockaddr_storage listening, near, far;
    open_pair(family);
    the_link->ops->local_addr(l.listener, &listening);
    assert_int_equal(the_link->ops->local_addr(l.active, &near), 0);
    assert_int_equal(the_link->ops->peer_addr(l.passive, &far), 0);
    assert_int_equal(near.ss_family, family);
    assert_memory_equal(&near, &far, len);
    assert_int_equal(the_link->ops->peer_addr(l.active, &far), 0);
    assert_memory_equal(&far, &listening, len);
    assert_int_equal(the_link->ops->local_addr(l.passive, &near), 0);
    assert_memory_equal(&near, &listening, len);
    assert_true(the_link->ops->emss(l.active) >= 536);
}

void connected_stream_knows_its_addresses_and_segment_size(void **state)
{
    ends_know_their_addresses(AF_INET, sizeof(struct sockaddr_in));
    ends_know_their_addresses(AF_INET6, sizeof(struct sockaddr_in6));
}

void bound_stream_knows_its_address_and_no_peer(void **state)
{
    struct sockaddr_storage addr = loopback(AF_INET), got = {0};
    assert_int_equal(the_link->ops->bind(the_link, addr_of(&addr), 0, NULL, &l.active), 0);
    assert_int_equal(the_link->ops->local_addr(l.active, &got), 0);
    assert_int_equal(got.ss_family, AF_INET);
    assert_int_equal(((struct sockaddr_in *)&got)->sin_addr.s_addr, htonl(INADDR_LOOPBACK));
    assert_true(((struct sockaddr_in *)&got)->sin_port != 0);
    assert_int_equal(the_link->ops->peer_addr(l.active, &got), -ENOTCONN);
}

void calls_out_of_turn_are_refused(void **state)
{
    struct link_stream *nowhere;
    struct sockaddr_storage addr;
    open_pair(AF_INET);
    the_link->ops->local_addr(l.listener, &addr);
    assert_int_equal(the_link->ops->connect(l.active, addr_of(&addr)), -EISCONN);
    assert_int_equal(the_link->ops->connect(l.listener, addr_of(&addr)), -EISCONN);
    assert_int_equal(the_link->ops->bind(the_link, NULL, 0, NULL, &nowhere), 0);
    assert_int_equal(the_link->ops->listen(nowhere, 1), -EINVAL);
    assert_int_equal(the_link->ops->local_addr(nowhere, &addr), -ENOTCONN);
    assert_int_equal(the_link->ops->peer_addr(nowhere, &addr), -ENOTCONN);
    assert_true(the_link->ops->emss(nowhere) <= 536); // that of any path
    assert_true(the_link->ops->shutdown(nowhere) < 0);
    assert_true(send_text(nowhere, "x") < 0);
}

void address_of_an_unknown_family_is_refused(void **state)
{
    struct sockaddr_storage addr = {.ss_family = AF_UNIX}, at = loopback(AF_INET);
    struct link_stream *s = NULL;
    assert_int_equal(the_link->ops->bind(the_link, addr_of(&addr), 0, NULL, &s), -EAFNOSUPPORT);
    assert_null(s);
    assert_int_equal(the_link->ops->bind(the_link, NULL, 0, NULL, &s), 0);
    assert_int_equal(the_link->ops->connect(s, addr_of(&addr)), -EAFNOSUPPORT);
    assert_int_equal(the_link->ops->bind(the_link, addr_of(&at), 0, NULL, &s), 0);
    assert_int_equal(the_link->ops->connect(s, addr_of(&addr)), -EAFNOSUPPORT);
}

void route_names_the_address_to_leave_from(void **state)
{
    struct sockaddr_storage to = loopback(AF_INET), from = {0};
    assert_int_equal(the_link->ops->route(the_link, addr_of(&to), &from), 0);
    assert_int_equal(((struct sockaddr_in *)&from)->sin_addr.s_addr, htonl(INADDR_LOOPBACK));
    assert_int_equal(((struct sockaddr_in *)&from)->sin_port, 0);
    to.ss_family = AF_UNIX;
    assert_int_equal(the_link->ops->route(the_link, addr_of(&to), &from), -EAFNOSUPPORT);
}

/* ---- listening ------------------------------------------------------------------------------- */

void listener_of_no_given_length_holds_several(void **state)
{
    enum { COUNT = 5 };
    struct link_stream *active[COUNT], *passive;
    struct sockaddr_storage addr = loopback(AF_INET);
    assert_int_equal(the_link->ops->bind(the_link, addr_of(&addr), 0, NULL, &l.listener), 0);
    assert_int_equal(the_link->ops->listen(l.listener, 0), 0);
    the_link->ops->local_addr(l.listener, &addr);
    for (unsigned i = 0; i < COUNT; i++) {
        the_link->ops->bind(the_link, NULL, 0, NULL, &active[i]);
        assert_int_equal(the_link->ops->connect(active[i], addr_of(&addr)), -EINPROGRESS);
        assert_true(ready_of(the_link, active[i]) & LINK_READY_OUT);
        assert_int_equal(the_link->ops->connect_result(active[i]), 0);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        assert_true(ready_of(the_link, l.listener) & LINK_READY_IN);
        assert_int_equal(the_link->ops->accept(l.listener, &passive), 0);
    }
}

void nobody_waits_to_be_accepted_any_more(void **state)
{
    struct link_stream *other = NULL;
    open_pair(AF_INET);
    assert_null(l.passive->owner);
    assert_int_equal(the_link->ops->accept(l.listener, &other), -EAGAIN);
    assert_null(other);
}

void bound_port_is_not_shared(void **state)
{
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
    char got[4];
    struct sockaddr_storage addr;
    struct link_stream *next;
    open_pair(AF_INET);
    the_link->ops->local_addr(l.listener, &addr);
    // Who closes first keeps the connection in TIME-WAIT.
    the_link->ops->close(l.passive, false);
    assert_int_equal(recv_some(l.active, got, sizeof got), 0);
    the_link->ops->close(l.active, false);
    the_link->ops->close(l.listener, false);
    assert_int_equal(the_link->ops->bind(the_link, addr_of(&addr), 0, NULL, &next), 0);
    assert_int_equal(the_link->ops->bind(the_link, addr_of(&addr), 0, NULL, &l.listener),
                     -EADDRINUSE);
    assert_int_equal(the_link->ops->listen(next, 1), 0);
}

static void connect_and_accept(const struct sockaddr_storage *to)
{
    assert_int_equal(the_link->ops->connect(l.active, addr_of(to)), -EINPROGRESS);
    assert_true(ready_of(the_link, l.listener) & LINK_READY_IN);
    assert_int_equal(the_link->ops->accept(l.listener, &l.passive), 0);
    assert_true(ready_of(the_link, l.active) & LINK_READY_OUT);
    assert_int_equal(the_link->ops->connect_result(l.active), 0);
}

// Who closed last may begin anew from the same port, though the last connection is in TIME-WAIT at
// the other end (RFC 9293 section 3.6.1). At an address of its own, where nobody takes the port.
void both_ports_make_another_connection_at_once(void **state)
{
    char got[4];
    struct sockaddr_storage from = loopback(AF_INET), to;
    ((struct sockaddr_in *)&from)->sin_addr.s_addr = htonl(INADDR_LOOPBACK + 0x5ca1e);
    loop_listen(&l, the_link, AF_INET);
    the_link->ops->local_addr(l.listener, &to);
    assert_int_equal(the_link->ops->bind(the_link, addr_of(&from), 0, NULL, &l.active), 0);
    the_link->ops->local_addr(l.active, &from);
    connect_and_accept(&to);
    the_link->ops->close(l.passive, false);
    assert_int_equal(recv_some(l.active, got, sizeof got), 0);
    the_link->ops->close(l.active, false);
    for (int turn = 0; the_link->ops->bind(the_link, addr_of(&from), 0, NULL, &l.active) != 0;
         turn++) {
        assert_true(turn < 100);
        assert_quiet(the_link); // its FIN is acknowledged
    }
    connect_and_accept(&to);
    assert_int_equal(send_text(l.active, "anew"), 4);
    assert_int_equal(recv_some(l.passive, got, sizeof got), 4);
    assert_memory_equal(got, "anew", 4);
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
    assert_int_equal(connect_v4_to_v6_wildcard(0), 0);
    assert_int_equal(connect_v4_to_v6_wildcard(LINK_BIND_V6_ONLY), -ECONNREFUSED);
}
