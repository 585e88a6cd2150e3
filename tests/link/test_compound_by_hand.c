// The compound link before members that the test works by hand: what each is asked, in which order,
// and what becomes of its answers.
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/sockaddr.h"
#include "link/compound.h"
#include "tests/link/descriptors.h"

enum { MEMBERS = 2, STREAMS = 64, FREE_PORT = 4000 };

/* ---- members --------------------------------------------------------------------------------- */

struct inner {
    struct link_stream base;
    bool is_open, is_aborted, wants_in, wants_out;
    int backlog;
    uint8_t tos;
    uint16_t port;
};

static struct member {
    struct link link;
    int fd;
    struct inner streams[STREAMS];
    unsigned stream_count;
    int bind_error, address_error, listen_error, connect_error, tos_error, poll_error;
    unsigned asked;   // how often to bind
    unsigned waiting; // connections to be accepted
    int accept_error; // where there are none
    const struct inner *reported;
    instant_ns deadline;
    bool may_wait, is_busy, is_abandoned, is_destroyed;
    const char *called; // on a stream, the last
    const struct link_stream *whose;
} members[MEMBERS];

static struct link *the_link;
static int owner; // of streams

static struct member *member_of(const struct link *link)
{
    return (struct member *)link;
}

static struct inner *inner_of(const struct link_stream *stream)
{
    return (struct inner *)stream;
}

static int note(const char *called, const struct link_stream *stream)
{
    struct member *m = member_of(stream->link);
    m->called = called;
    m->whose = stream;
    return (int)strlen(called);
}

static struct inner *open_stream(struct member *m)
{
    struct inner *s = &m->streams[m->stream_count++];
    assert_true(m->stream_count <= STREAMS);
    *s = (struct inner){.base = {.link = &m->link, .facts = m->link.facts}, .is_open = true};
    return s;
}

static int on_bind(struct link *link, const struct sockaddr *addr, unsigned flags, void *of,
                   struct link_stream **ret)
{
    struct member *m = member_of(link);
    m->asked++;
    if (m->bind_error != 0) {
        return m->bind_error;
    }
    struct inner *s = open_stream(m);
    s->base.owner = of;
    s->port = addr == NULL ? 0 : sockaddr_port(addr);
    s->port = s->port == 0 ? FREE_PORT + (uint16_t)(m - members) : s->port;
    *ret = &s->base;
    return 0;
}

static int on_listen(struct link_stream *s, int backlog)
{
    note("listen", s);
    inner_of(s)->backlog = backlog;
    return member_of(s->link)->listen_error;
}

static int on_accept(struct link_stream *s, struct link_stream **ret)
{
    struct member *m = member_of(s->link);
    if (m->waiting == 0) {
        return m->accept_error;
    }
    m->waiting--;
    *ret = &open_stream(m)->base;
    return 0;
}

static int on_connect(struct link_stream *s, const struct sockaddr *peer)
{
    note("connect", s);
    return member_of(s->link)->connect_error;
}

static int on_connect_result(struct link_stream *s)
{
    return note("connect_result", s);
}

static ssize_t on_recv(struct link_stream *s, struct mspan into)
{
    return note("recv", s) + (ssize_t)into.len;
}

static ssize_t on_borrow(struct link_stream *s, struct span *ret, bool *ret_is_cut)
{
    *ret_is_cut = true;
    return note("borrow", s);
}

static size_t given_back_len;

static void on_give_back(struct link_stream *s, size_t len)
{
    note("give_back", s);
    given_back_len = len;
}

static void on_set_place(struct link_stream *s, const struct place_port *port)
{
    note(port == NULL ? "set_place" : "?", s);
}

static void on_resume(struct link_stream *s)
{
    note("resume", s);
}

static ssize_t on_send(struct link_stream *s, const struct link_tx *tx)
{
    return note("send", s) + (ssize_t)tx->iov_count;
}

static void on_want_out(struct link_stream *s, bool wanted)
{
    inner_of(s)->wants_out = wanted;
}

static void on_want_in(struct link_stream *s, bool wanted)
{
    inner_of(s)->wants_in = wanted;
}

static int on_shutdown(struct link_stream *s)
{
    return note("shutdown", s);
}

static void on_close(struct link_stream *s, bool abort)
{
    assert_true(inner_of(s)->is_open);
    inner_of(s)->is_open = false;
    inner_of(s)->is_aborted = abort;
}

static int on_local_addr(const struct link_stream *s, struct sockaddr_storage *ret)
{
    *ret = (struct sockaddr_storage){.ss_family = AF_INET};
    sockaddr_set_port((struct sockaddr *)ret, inner_of(s)->port);
    return member_of(s->link)->address_error;
}

static int on_peer_addr(const struct link_stream *s, struct sockaddr_storage *ret)
{
    ret->ss_family = AF_INET6;
    return -ENOTCONN;
}

static uint32_t on_emss(const struct link_stream *s)
{
    return 1000 + inner_of(s)->port;
}

static uint64_t on_unsettled(struct link_stream *s)
{
    return 2000 + inner_of(s)->port;
}

static int on_set_tos(struct link_stream *s, uint8_t tos)
{
    inner_of(s)->tos = tos;
    return member_of(s->link)->tos_error;
}

static int on_route(struct link *link, const struct sockaddr *peer, struct sockaddr_storage *ret)
{
    return 10 + (int)(member_of(link) - members);
}

static int on_poll(struct link *link, struct link_ready *ret, unsigned max)
{
    struct member *m = member_of(link);
    if (m->poll_error != 0 || m->reported == NULL) {
        return m->poll_error;
    }
    unsigned count = max < 2 ? max : 2; // as many as it may
    for (unsigned i = 0; i < count; i++) {
        ret[i] = (struct link_ready){(struct link_stream *)&m->reported->base, LINK_READY_IN};
    }
    return (int)count;
}

static instant_ns on_next_deadline(struct link *link)
{
    return member_of(link)->deadline;
}

static bool on_may_wait(struct link *link)
{
    return member_of(link)->may_wait;
}

static int on_descriptor(const struct link *link)
{
    return member_of(link)->fd;
}

// A member tells 1 of itself, and 10 of each stream.
static void on_stream_counters(const struct link *link, const struct link_stream *s,
                               counter_each each, void *ctx)
{
    each(ctx, "octets", s == NULL ? 1 : 10);
}

static void on_packet_counters(const struct link *link, counter_each each, void *ctx)
{
    each(ctx, "packets", 5 + (uint64_t)(member_of(link) - members));
}

static bool on_is_busy(struct link *link)
{
    return member_of(link)->is_busy;
}

static void on_abandon(struct link *link)
{
    member_of(link)->is_abandoned = true;
}

static void on_destroy(struct link *link)
{
    member_of(link)->is_destroyed = true;
}

static const struct link_ops member_ops = {
    .name = "hand",
    .bind = on_bind,
    .listen = on_listen,
    .accept = on_accept,
    .connect = on_connect,
    .connect_result = on_connect_result,
    .recv = on_recv,
    .borrow = on_borrow,
    .give_back = on_give_back,
    .set_place = on_set_place,
    .resume = on_resume,
    .send = on_send,
    .want_out = on_want_out,
    .want_in = on_want_in,
    .shutdown = on_shutdown,
    .close = on_close,
    .local_addr = on_local_addr,
    .peer_addr = on_peer_addr,
    .emss = on_emss,
    .unsettled = on_unsettled,
    .set_tos = on_set_tos,
    .route = on_route,
    .poll = on_poll,
    .next_deadline = on_next_deadline,
    .may_wait = on_may_wait,
    .descriptor = on_descriptor,
    .stream_counters = on_stream_counters,
    .packet_counters = on_packet_counters,
    .is_busy = on_is_busy,
    .abandon = on_abandon,
    .destroy = on_destroy,
};

static int create(void)
{
    struct link_compound_config config;
    struct link *const links[] = {&members[0].link, &members[1].link};
    assert_true(link_compound_config_parse("10.0.0.0/8=first;11.0.0.0/8=second", &config));
    return link_compound_create(&config, links, &the_link);
}

static int begin(void **state)
{
    static struct journal journals[MEMBERS];
    descriptors_note();
    for (unsigned i = 0; i < MEMBERS; i++) {
        members[i] = (struct member){
            .link = {.ops = &member_ops, .facts = 1U << i, .journal = &journals[i]},
            .fd = eventfd(0, EFD_NONBLOCK),
            .connect_error = -EINPROGRESS,
            .accept_error = -EAGAIN,
            .deadline = INSTANT_NEVER,
            .may_wait = true,
        };
    }
    return create();
}

static int end(void **state)
{
    link_destroy(the_link);
    for (unsigned i = 0; i < MEMBERS; i++) {
        assert_true(members[i].is_destroyed);
        for (unsigned k = 0; k < members[i].stream_count; k++) {
            assert_false(members[i].streams[k].is_open);
        }
        close(members[i].fd);
    }
    descriptors_check();
    return 0;
}

static const struct sockaddr *address(const char *text, uint16_t port)
{
    static struct sockaddr_in addr;
    addr = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
    assert_int_equal(inet_pton(AF_INET, text, &addr.sin_addr), 1);
    return (struct sockaddr *)&addr;
}

static struct link_stream *bound(const struct sockaddr *addr)
{
    struct link_stream *stream;
    assert_int_equal(link_bind(the_link, addr, 0, &owner, &stream), 0);
    return stream;
}

static unsigned open_count(const struct member *m)
{
    unsigned count = 0;
    for (unsigned i = 0; i < m->stream_count; i++) {
        count += m->streams[i].is_open;
    }
    return count;
}

/* ---- places ---------------------------------------------------------------------------------- */

static void who_has_no_address_has_a_place_with_each_member(void **state)
{
    struct link_stream *stream = bound(NULL);
    assert_ptr_equal(stream->owner, &owner);
    for (unsigned i = 0; i < MEMBERS; i++) {
        assert_int_equal(open_count(&members[i]), 1);
        assert_ptr_equal(members[i].streams[0].base.owner, stream);
    }
    struct sockaddr_storage addr; // the first's, until it is known who carries it
    assert_int_equal(link_local_addr(stream, &addr), 0);
    assert_int_equal(sockaddr_port((struct sockaddr *)&addr), FREE_PORT);
    link_close(stream, false);
    assert_null(stream->owner);
    for (unsigned i = 0; i < MEMBERS; i++) {
        assert_int_equal(open_count(&members[i]), 0);
        assert_false(members[i].streams[0].is_aborted);
    }
}

static void what_one_member_refuses_no_other_keeps(void **state)
{
    struct link_stream *stream;
    members[1].bind_error = -EMFILE;
    assert_int_equal(link_bind(the_link, NULL, 0, NULL, &stream), -EMFILE);
    assert_int_equal(open_count(&members[0]), 0);
    assert_true(members[0].streams[0].is_aborted);
    members[1].bind_error = 0;
    members[0].bind_error = -EMFILE;
    assert_int_equal(link_bind(the_link, NULL, 0, NULL, &stream), -EMFILE);
    assert_int_equal(open_count(&members[1]), 0);
}

static void all_members_have_the_port_that_the_first_found(void **state)
{
    struct link_stream *stream = bound(address("10.0.0.1", 0));
    struct sockaddr_storage addr;
    assert_int_equal(members[0].streams[0].port, FREE_PORT);
    assert_int_equal(members[1].streams[0].port, FREE_PORT);
    assert_int_equal(link_local_addr(stream, &addr), 0);
    assert_int_equal(sockaddr_port((struct sockaddr *)&addr), FREE_PORT);
}

static void a_port_is_looked_for_so_often_and_one_that_is_given_once(void **state)
{
    struct link_stream *stream;
    members[1].bind_error = -EADDRINUSE;
    assert_int_equal(link_bind(the_link, address("10.0.0.1", 0), 0, NULL, &stream), -EADDRINUSE);
    assert_int_equal(members[0].asked, 32);
    assert_int_equal(open_count(&members[0]), 0);
    assert_true(members[0].streams[0].is_aborted);
    assert_int_equal(link_bind(the_link, address("10.0.0.1", 7), 0, NULL, &stream), -EADDRINUSE);
    assert_int_equal(members[0].asked, 33);
    members[1].bind_error = -EACCES;
    assert_int_equal(link_bind(the_link, address("10.0.0.1", 0), 0, NULL, &stream), -EACCES);
    assert_int_equal(members[0].asked, 34);
    assert_int_equal(open_count(&members[0]), 0);
}

static void an_address_that_no_member_has_is_refused(void **state)
{
    const struct sockaddr other = {.sa_family = AF_UNIX};
    struct link_stream *stream;
    assert_int_equal(link_bind(the_link, &other, 0, NULL, &stream), -EAFNOSUPPORT);
    members[0].bind_error = members[1].bind_error = -EADDRNOTAVAIL;
    assert_int_equal(link_bind(the_link, address("10.0.0.1", 0), 0, NULL, &stream), -EADDRNOTAVAIL);
    members[1].bind_error = 0;
    members[1].address_error = -EIO;
    assert_int_equal(link_bind(the_link, address("10.0.0.1", 0), 0, NULL, &stream), -EIO);
    members[1].address_error = 0;
    stream = bound(address("10.0.0.1", 0)); // of one alone
    assert_int_equal(link_connect(stream, address("10.0.0.9", 7)), -EADDRNOTAVAIL);
    assert_int_equal(link_connect(stream, address("11.0.0.9", 7)), -EINPROGRESS);
}

/* ---- listeners ------------------------------------------------------------------------------- */

static void each_member_listens(void **state)
{
    struct link_stream *stream = bound(NULL);
    assert_int_equal(link_listen(stream, 9), 0);
    for (unsigned i = 0; i < MEMBERS; i++) {
        assert_int_equal(members[i].streams[0].backlog, 9);
    }
    assert_int_equal(link_connect(stream, address("10.0.0.9", 7)), -EISCONN);
}

static void who_could_not_listen_may_connect(void **state)
{
    struct link_stream *stream = bound(NULL);
    members[0].listen_error = -EADDRINUSE;
    assert_int_equal(link_listen(stream, 9), -EADDRINUSE);
    assert_int_equal(members[1].streams[0].backlog, 0); // it was not asked
    assert_int_equal(link_connect(stream, address("10.0.0.9", 7)), -EINPROGRESS);
}

static void connections_are_accepted_from_each_member_in_turn(void **state)
{
    struct link_stream *got, *stream = bound(NULL);
    assert_int_equal(link_listen(stream, 9), 0);
    members[0].waiting = members[1].waiting = 3;
    unsigned from[MEMBERS] = {0};
    for (unsigned i = 1; i <= 6; i++) {
        assert_int_equal(link_accept(stream, &got), 0);
        assert_null(got->owner);
        assert_ptr_equal(got->link, the_link);
        unsigned member = got->facts == members[1].link.facts ? 1 : 0;
        const struct inner *inner = &members[member].streams[members[member].stream_count - 1];
        assert_ptr_equal(inner->base.owner, got);
        from[member]++;
        assert_in_range(from[0] + 1 - from[1], 0, 2); // none is ahead of the other by two
        assert_int_equal(link_connect(got, address("10.0.0.9", 7)), -EISCONN);
    }
    assert_int_equal(link_accept(stream, &got), -EAGAIN);
}

static void the_trouble_of_one_member_is_told_where_none_has_a_connection(void **state)
{
    struct link_stream *got, *stream = bound(NULL);
    assert_int_equal(link_listen(stream, 9), 0);
    for (unsigned i = 0; i < MEMBERS; i++) {
        members[i].accept_error = -EMFILE;
        members[1 - i].accept_error = -EAGAIN;
        assert_int_equal(link_accept(stream, &got), -EMFILE);
        members[1 - i].waiting = 1;
        assert_int_equal(link_accept(stream, &got), 0);
    }
}

/* ---- carried --------------------------------------------------------------------------------- */

static void who_connects_is_carried_by_the_peers_member_alone(void **state)
{
    struct link_stream *stream = bound(NULL);
    assert_int_equal(link_connect(stream, address("11.0.0.9", 7)), -EINPROGRESS);
    assert_int_equal(open_count(&members[0]), 0);
    assert_true(members[0].streams[0].is_aborted);
    assert_int_equal(open_count(&members[1]), 1);
    assert_int_equal(stream->facts, members[1].link.facts);
    assert_int_equal(link_connect(stream, address("11.0.0.9", 7)), -EISCONN);
    members[1].listen_error = -EINVAL; // to say why not
    assert_int_equal(link_listen(stream, 1), -EINVAL);
}

static void who_could_not_connect_may_try_another_member(void **state)
{
    struct link_stream *stream = bound(NULL);
    members[1].connect_error = -EHOSTUNREACH;
    assert_int_equal(link_connect(stream, address("11.0.0.9", 7)), -EHOSTUNREACH);
    assert_int_equal(link_connect(stream, address("12.0.0.9", 7)), -ENETUNREACH);
    assert_int_equal(link_connect(stream, address("10.0.0.9", 7)), -EINPROGRESS);
    assert_int_equal(stream->facts, members[0].link.facts);
}

static void expect_called(const struct inner *inner, const char *name)
{
    const struct member *m = member_of(inner->base.link);
    assert_string_equal(m->called, name);
    assert_ptr_equal(m->whose, &inner->base);
}

static void what_is_asked_of_a_stream_reaches_who_carries_it(void **state)
{
    struct link_stream *stream = bound(NULL);
    const struct inner *inner = &members[1].streams[0];
    uint8_t octets[5];
    struct span borrowed;
    bool is_cut = false;
    assert_int_equal(link_connect(stream, address("11.0.0.9", 7)), -EINPROGRESS);
    assert_int_equal(link_connect_result(stream), strlen("connect_result"));
    assert_int_equal(link_recv(stream, mspan_of(octets, 5)), strlen("recv") + 5);
    expect_called(inner, "recv");
    assert_int_equal(link_borrow(stream, &borrowed, &is_cut), strlen("borrow"));
    assert_true(is_cut);
    link_give_back(stream, 3);
    expect_called(inner, "give_back");
    assert_int_equal(given_back_len, 3);
    link_set_place(stream, NULL);
    expect_called(inner, "set_place");
    link_resume(stream);
    expect_called(inner, "resume");
    assert_int_equal(link_send(stream, &(struct link_tx){.iov_count = 2}), strlen("send") + 2);
    expect_called(inner, "send");
    assert_int_equal(link_emss(stream), 1000 + inner->port);
    assert_int_equal(link_unsettled(stream), 2000 + inner->port);
    struct sockaddr_storage peer;
    assert_int_equal(link_peer_addr(stream, &peer), -ENOTCONN);
    assert_int_equal(peer.ss_family, AF_INET6);
    assert_int_equal(link_shutdown(stream), strlen("shutdown"));
    expect_called(inner, "shutdown");
}

/* ---- wishes ---------------------------------------------------------------------------------- */

static void wishes_are_told_to_all_that_may_carry_it(void **state)
{
    struct link_stream *stream = bound(NULL);
    for (unsigned wanted = 2; wanted-- > 0;) {
        link_want_out(stream, wanted);
        link_want_in(stream, wanted);
        for (unsigned i = 0; i < MEMBERS; i++) {
            assert_int_equal(members[i].streams[0].wants_out, wanted);
            assert_int_equal(members[i].streams[0].wants_in, wanted);
        }
    }
    assert_int_equal(link_set_tos(stream, 0x48), 0);
    assert_int_equal(members[0].streams[0].tos, 0x48);
    assert_int_equal(members[1].streams[0].tos, 0x48);
    members[0].tos_error = -EINVAL;
    assert_int_equal(link_set_tos(stream, 0x20), -EINVAL);
    assert_int_equal(members[1].streams[0].tos, 0x48); // it was not asked
}

/* ---- looking --------------------------------------------------------------------------------- */

static void each_look_begins_with_another_member(void **state)
{
    struct link_stream *one = bound(NULL), *two = bound(NULL);
    struct link_ready ready[4];
    members[0].reported = &members[0].streams[0];
    members[1].reported = &members[1].streams[1];
    assert_int_equal(link_poll(the_link, ready, 1), 1);
    assert_ptr_equal(ready[0].stream, one);
    assert_int_equal(link_poll(the_link, ready, 1), 1);
    assert_ptr_equal(ready[0].stream, two);
    assert_int_equal(link_poll(the_link, ready, 3), 3); // two of the first, one of the second
    assert_ptr_equal(ready[1].stream, one);
    assert_ptr_equal(ready[2].stream, two);
    assert_int_equal(link_poll(the_link, ready, 4), 4);
    assert_int_equal(ready[3].what, LINK_READY_IN);
}

static void the_trouble_of_one_member_is_told_where_none_has_a_report(void **state)
{
    struct link_ready ready[4];
    bound(NULL);
    assert_int_equal(link_poll(the_link, ready, 4), 0);
    for (unsigned i = 0; i < 4; i++) { // whichever comes first
        members[i / 2].poll_error = -EIO;
        members[1 - i / 2].poll_error = 0;
        members[1 - i / 2].reported = NULL;
        assert_int_equal(link_poll(the_link, ready, 4), -EIO);
        members[1 - i / 2].reported = &members[1 - i / 2].streams[0];
        assert_int_equal(link_poll(the_link, ready, 4), 2);
    }
}

static void one_sleep_is_for_all_members(void **state)
{
    struct pollfd readable = {.fd = link_descriptor(the_link), .events = POLLIN};
    assert_int_equal(link_next_deadline(the_link), INSTANT_NEVER);
    assert_true(link_may_wait(the_link));
    assert_false(link_is_busy(the_link));
    for (unsigned i = 0; i < MEMBERS; i++) {
        struct member *m = &members[i];
        uint64_t times = 1;
        m->deadline = 500 - i;
        assert_int_equal(link_next_deadline(the_link), 500 - i);
        m->may_wait = false;
        assert_false(link_may_wait(the_link));
        m->may_wait = m->is_busy = true;
        assert_true(link_is_busy(the_link));
        m->is_busy = false;
        assert_int_equal(poll(&readable, 1, 0), 0);
        assert_int_equal(write(m->fd, &times, sizeof times), sizeof times);
        link_wait(the_link, INSTANT_NEVER);
        assert_int_equal(poll(&readable, 1, 0), 1); // it is the member's to read
        assert_int_equal(read(m->fd, &times, sizeof times), sizeof times);
    }
    link_wake(the_link);
    assert_int_equal(poll(&readable, 1, 0), 1);
    link_wait(the_link, INSTANT_NEVER);
    assert_int_equal(poll(&readable, 1, 0), 0); // it has been woken
}

static void a_route_is_that_of_the_peers_member(void **state)
{
    struct sockaddr_storage from;
    assert_int_equal(link_route(the_link, address("10.0.0.9", 7), &from), 10);
    assert_int_equal(link_route(the_link, address("11.0.0.9", 7), &from), 11);
    assert_int_equal(link_route(the_link, address("12.0.0.9", 7), &from), -ENETUNREACH);
}

/* ---- counters -------------------------------------------------------------------------------- */

static char told[128];

static void tell(void *ctx, const char *name, uint64_t value)
{
    size_t len = strlen(told);
    snprintf(told + len, sizeof told - len, "%s=%u ", name, (unsigned)value);
}

static void members_counts_are_summed_or_named(void **state)
{
    struct link_stream *stream = bound(NULL);
    told[0] = '\0';
    link_stream_counters(the_link, NULL, tell, NULL);
    link_stream_counters(the_link, stream, tell, NULL);
    assert_int_equal(link_connect(stream, address("11.0.0.9", 7)), -EINPROGRESS);
    link_stream_counters(the_link, stream, tell, NULL);
    assert_string_equal(told, "octets=2 octets=20 octets=10 ");
    told[0] = '\0';
    link_packet_counters(the_link, tell, NULL);
    assert_string_equal(told, "first.packets=5 second.packets=6 ");
}

/* ---- the link -------------------------------------------------------------------------------- */

static void a_link_has_what_any_member_has(void **state)
{
    assert_int_equal(the_link->facts, 3);
    assert_ptr_equal(the_link->journal, members[0].link.journal);
    link_destroy(the_link);
    members[0].link.journal = NULL;
    assert_int_equal(create(), 0);
    assert_ptr_equal(the_link->journal, members[1].link.journal);
}

static void streams_that_are_left_are_reset_with_the_link(void **state)
{
    bound(NULL);
    link_close(bound(NULL), false);
    link_destroy(the_link);
    for (unsigned i = 0; i < MEMBERS; i++) {
        assert_true(members[i].streams[0].is_aborted);
        assert_int_equal(open_count(&members[i]), 0);
    }
    assert_int_equal(create(), 0);
}

static void a_member_without_a_descriptor_is_refused(void **state)
{
    struct link *before = the_link;
    int fd = members[1].fd;
    members[1].fd = -EOPNOTSUPP;
    assert_int_equal(create(), -EOPNOTSUPP);
    assert_ptr_equal(the_link, before);
    assert_false(members[0].is_destroyed); // they stay the caller's
    members[1].fd = fd;
}

static void the_child_of_a_fork_closes_descriptors_alone(void **state)
{
    struct link_stream *stream = bound(NULL);
    int fd = link_descriptor(the_link);
    link_abandon(the_link);
    assert_ptr_equal(stream->owner, &owner);
    for (unsigned i = 0; i < MEMBERS; i++) {
        assert_true(members[i].is_abandoned);
        assert_int_equal(open_count(&members[i]), 1);
    }
    assert_int_equal(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0), 1);
    assert_true(link_descriptor(the_link) < 0);
}

#define TEST_OF(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_OF(who_has_no_address_has_a_place_with_each_member),
        TEST_OF(what_one_member_refuses_no_other_keeps),
        TEST_OF(all_members_have_the_port_that_the_first_found),
        TEST_OF(a_port_is_looked_for_so_often_and_one_that_is_given_once),
        TEST_OF(an_address_that_no_member_has_is_refused),
        TEST_OF(each_member_listens),
        TEST_OF(who_could_not_listen_may_connect),
        TEST_OF(connections_are_accepted_from_each_member_in_turn),
        TEST_OF(the_trouble_of_one_member_is_told_where_none_has_a_connection),
        TEST_OF(who_connects_is_carried_by_the_peers_member_alone),
        TEST_OF(who_could_not_connect_may_try_another_member),
        TEST_OF(what_is_asked_of_a_stream_reaches_who_carries_it),
        TEST_OF(wishes_are_told_to_all_that_may_carry_it),
        TEST_OF(each_look_begins_with_another_member),
        TEST_OF(the_trouble_of_one_member_is_told_where_none_has_a_report),
        TEST_OF(one_sleep_is_for_all_members),
        TEST_OF(a_route_is_that_of_the_peers_member),
        TEST_OF(members_counts_are_summed_or_named),
        TEST_OF(a_link_has_what_any_member_has),
        TEST_OF(streams_that_are_left_are_reset_with_the_link),
        TEST_OF(a_member_without_a_descriptor_is_refused),
        TEST_OF(the_child_of_a_fork_closes_descriptors_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
