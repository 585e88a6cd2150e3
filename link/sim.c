#include "link/sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/prng.h"
#include "link/link_none.h"
#include "link/sim_stream.h"

enum { SHORT_SEND_ONE_IN = 8 }; // sends that are taken in part though there is room

static const struct link_ops sim_ops;

/* ---- the link -------------------------------------------------------------------------------- */

struct link *sim_net_attach(struct sim_net *net, const struct in_addr *addrs, unsigned count)
{
    struct sim_link *l = calloc(1, sizeof *l);
    if (l == NULL) {
        return NULL;
    }
    l->base.ops = &sim_ops;
    l->net = net;
    l->addr_count = count;
    memcpy(l->addrs, addrs, count * sizeof *addrs);
    list_init(&l->streams);
    list_init(&l->closed);
    list_push_tail(&net->links, &l->link);
    return &l->base;
}

static void closed_free(struct sim_link *l)
{
    struct list_link *i;
    while ((i = list_pop_head(&l->closed)) != NULL) {
        free(LIST_ENTRY(i, struct sim_stream, link));
    }
}

static void sim_close(struct link_stream *stream, bool abort)
{
    struct sim_stream *s = sim_stream_of(stream);
    struct list_link *i;
    while ((i = list_pop_head(&s->waiting)) != NULL) {
        sim_close(&LIST_ENTRY(i, struct sim_stream, waiting_link)->base, true);
    }
    if (s->connection != NULL) {
        sim_connection_leave(s->connection, s->side, abort);
    }
    s->connection = NULL;
    s->base.owner = NULL;
    list_remove(&s->waiting_link);
    list_remove(&s->link);
    list_push_tail(&sim_link_of(stream->link)->closed, &s->link);
}

static void sim_destroy(struct link *link)
{
    struct sim_link *l = sim_link_of(link);
    while (!list_is_empty(&l->streams)) {
        sim_close(&LIST_ENTRY(l->streams.next, struct sim_stream, link)->base, true);
    }
    closed_free(l);
    list_remove(&l->link);
    free(l);
}

/* ---- addresses ------------------------------------------------------------------------------- */

static bool is_port_taken(const struct sim_link *l, uint16_t port)
{
    for (const struct list_link *i = l->streams.next; i != &l->streams; i = i->next) {
        const struct sim_stream *s = LIST_ENTRY(i, const struct sim_stream, link);
        // Connections keep their listener's port, and do not stand in the way of another listener.
        if (s->local.sin_port == port && (s->connection == NULL || s->side == 0)) {
            return true;
        }
    }
    return false;
}

static uint16_t port_take(struct sim_link *l)
{
    uint16_t port;
    do {
        port = htons(l->net->port_next);
        l->net->port_next =
            (uint16_t)(l->net->port_next == UINT16_MAX ? 1024 : l->net->port_next + 1);
    } while (is_port_taken(l, port));
    return port;
}

static int sim_bind(struct link *link, const struct sockaddr *addr, unsigned flags, void *owner,
                    struct link_stream **ret)
{
    struct sim_link *l = sim_link_of(link);
    struct sockaddr_in local = {.sin_family = AF_INET};
    if (addr != NULL) {
        if (addr->sa_family != AF_INET) {
            return -EAFNOSUPPORT;
        }
        memcpy(&local, addr, sizeof local);
    }
    if (local.sin_addr.s_addr != INADDR_ANY && !sim_link_has(l, local.sin_addr)) {
        return -EADDRNOTAVAIL;
    }
    if (addr != NULL && local.sin_port == 0) {
        local.sin_port = port_take(l);
    } else if (local.sin_port != 0 && is_port_taken(l, local.sin_port)) {
        return -EADDRINUSE;
    }
    struct sim_stream *s = sim_stream_new(l, owner);
    if (s == NULL) {
        return -ENOMEM;
    }
    s->local = local;
    *ret = &s->base;
    return 0;
}

static int sim_local_addr(const struct link_stream *stream, struct sockaddr_storage *ret)
{
    memset(ret, 0, sizeof *ret);
    memcpy(ret, &sim_stream_of(stream)->local, sizeof(struct sockaddr_in));
    return 0;
}

static int sim_peer_addr(const struct link_stream *stream, struct sockaddr_storage *ret)
{
    const struct sim_stream *s = sim_stream_of(stream);
    if (s->connection == NULL) {
        return -ENOTCONN;
    }
    memset(ret, 0, sizeof *ret);
    memcpy(ret, &s->peer, sizeof s->peer);
    return 0;
}

// Hosts of 10.0.0.0/8 are taken as there; whether they answer is another question.
static int sim_route(struct link *link, const struct sockaddr *peer,
                     struct sockaddr_storage *ret_src)
{
    struct sim_link *l = sim_link_of(link);
    struct sockaddr_in dst;
    if (peer->sa_family != AF_INET) {
        return -EAFNOSUPPORT;
    }
    memcpy(&dst, peer, sizeof dst);
    if (sim_link_find(l->net, dst.sin_addr) == NULL && ntohl(dst.sin_addr.s_addr) >> 24 != 10) {
        return -ENETUNREACH;
    }
    struct sockaddr_in src = {
        .sin_family = AF_INET,
        .sin_addr = sim_link_has(l, dst.sin_addr) ? dst.sin_addr : l->addrs[0],
    };
    memset(ret_src, 0, sizeof *ret_src);
    memcpy(ret_src, &src, sizeof src);
    return 0;
}

/* ---- connecting ------------------------------------------------------------------------------ */

static int sim_listen(struct link_stream *stream, int backlog)
{
    struct sim_stream *s = sim_stream_of(stream);
    if (s->state != SIM_STREAM_BOUND) {
        return -EINVAL;
    }
    if (s->local.sin_port == 0) {
        s->local.sin_port = port_take(sim_link_of(stream->link));
    }
    s->backlog = backlog > 0 ? (unsigned)backlog : 1;
    s->state = SIM_STREAM_LISTENING;
    return 0;
}

static int sim_accept(struct link_stream *listener, struct link_stream **ret)
{
    struct sim_stream *s = sim_stream_of(listener);
    struct list_link *i = list_pop_head(&s->waiting);
    if (i == NULL) {
        return -EAGAIN;
    }
    s->waiting_count--;
    struct sim_stream *accepted = LIST_ENTRY(i, struct sim_stream, waiting_link);
    accepted->wants_in = true;
    *ret = &accepted->base;
    return 0;
}

static int sim_connect(struct link_stream *stream, const struct sockaddr *peer)
{
    struct sim_stream *s = sim_stream_of(stream);
    struct sockaddr_storage src;
    int error = sim_route(stream->link, peer, &src);
    if (error != 0) {
        return error;
    }
    if (s->state != SIM_STREAM_BOUND) {
        return -EISCONN;
    }
    if (s->local.sin_addr.s_addr == INADDR_ANY) {
        s->local.sin_addr = ((struct sockaddr_in *)&src)->sin_addr;
    }
    if (s->local.sin_port == 0) {
        s->local.sin_port = port_take(sim_link_of(stream->link));
    }
    memcpy(&s->peer, peer, sizeof s->peer);
    error = sim_connection_open(s);
    if (error != 0) {
        return error;
    }
    s->state = SIM_STREAM_CONNECTING;
    return -EINPROGRESS;
}

static int error_name(struct sim_stream *s)
{
    s->is_error_named = true;
    return s->error;
}

static int sim_connect_result(struct link_stream *stream)
{
    struct sim_stream *s = sim_stream_of(stream);
    if (s->error != 0) {
        return error_name(s);
    }
    return s->state == SIM_STREAM_CONNECTED ? 0 : -EINPROGRESS;
}

/* ---- octets ---------------------------------------------------------------------------------- */

static void ring_copy_out(const struct sim_pipe *p, size_t size, uint8_t *into, size_t len)
{
    size_t at = p->taken % size;
    size_t first = len < size - at ? len : size - at;
    memcpy(into, p->ring + at, first);
    memcpy(into + first, p->ring, len - first);
}

static void ring_copy_in(struct sim_pipe *p, size_t size, const uint8_t *from, size_t len)
{
    size_t at = p->sent % size;
    size_t first = len < size - at ? len : size - at;
    memcpy(p->ring + at, from, first);
    memcpy(p->ring, from + first, len - first);
    p->sent += len;
}

static ssize_t sim_recv(struct link_stream *stream, struct mspan into)
{
    struct sim_stream *s = sim_stream_of(stream);
    if (s->connection == NULL) {
        return -ENOTCONN;
    }
    struct sim_pipe *in = &s->connection->pipe[1 - s->side];
    uint64_t unread = in->arrived - in->taken;
    if (unread > 0) {
        size_t len = unread < into.len ? (size_t)unread : into.len;
        ring_copy_out(in, s->connection->net->config.window_len, into.ptr, len);
        in->taken += len;
        return (ssize_t)len;
    }
    if (s->error != 0) {
        return error_name(s);
    }
    if (in->has_fin_arrived) {
        s->has_read_fin = true;
        return 0;
    }
    return -EAGAIN;
}

static ssize_t sim_send(struct link_stream *stream, const struct link_tx *tx)
{
    struct sim_stream *s = sim_stream_of(stream);
    if (s->error != 0) {
        return s->error;
    }
    if (s->state != SIM_STREAM_CONNECTED) {
        return s->state == SIM_STREAM_CONNECTING ? -EAGAIN : -ENOTCONN;
    }
    struct sim_net *net = s->connection->net;
    struct sim_pipe *out = &s->connection->pipe[s->side];
    size_t room = sim_pipe_room(s->connection, s->side);
    if (room > 1 && prng_below(&net->rng, SHORT_SEND_ONE_IN) == 0) {
        room = 1 + prng_below(&net->rng, (uint32_t)room);
    }
    size_t taken = 0;
    for (unsigned i = 0; i < tx->iov_count && taken < room; i++) {
        size_t len = tx->iov[i].iov_len < room - taken ? tx->iov[i].iov_len : room - taken;
        ring_copy_in(out, net->config.window_len, tx->iov[i].iov_base, len);
        taken += len;
    }
    if (taken == 0) {
        return -EAGAIN;
    }
    if (out->arrive_at_ns == INSTANT_NEVER && !s->connection->is_silent) {
        out->arrive_at_ns = sim_arrival(net);
    }
    return (ssize_t)taken;
}

static void sim_want_out(struct link_stream *stream, bool wanted)
{
    sim_stream_of(stream)->wants_out = wanted;
}

static void sim_want_in(struct link_stream *stream, bool wanted)
{
    sim_stream_of(stream)->wants_in = wanted;
}

static int sim_shutdown(struct link_stream *stream)
{
    struct sim_stream *s = sim_stream_of(stream);
    if (s->state != SIM_STREAM_CONNECTED || s->error != 0) {
        return -ENOTCONN;
    }
    struct sim_pipe *out = &s->connection->pipe[s->side];
    if (!out->is_shut && out->arrive_at_ns == INSTANT_NEVER && !s->connection->is_silent) {
        out->arrive_at_ns = sim_arrival(s->connection->net);
    }
    out->is_shut = true;
    return 0;
}

static uint32_t sim_emss(const struct link_stream *stream)
{
    return sim_link_of(stream->link)->net->config.emss;
}

static int sim_set_tos(struct link_stream *stream, uint8_t tos)
{
    return 0;
}

/* ---- waiting --------------------------------------------------------------------------------- */

static unsigned ready_what(const struct sim_stream *s)
{
    unsigned what = 0;
    if (s->state == SIM_STREAM_LISTENING) {
        return list_is_empty(&s->waiting) ? 0 : LINK_READY_IN;
    }
    if (s->connection == NULL || !list_is_empty(&s->waiting_link)) {
        return 0;
    }
    if (s->error != 0) {
        what |= s->is_error_named ? 0 : LINK_READY_ERR;
    } else if (s->wants_out && s->state == SIM_STREAM_CONNECTED &&
               sim_pipe_room(s->connection, s->side) > 0) {
        what |= LINK_READY_OUT;
    }
    const struct sim_pipe *in = &s->connection->pipe[1 - s->side];
    if (s->wants_in && !s->has_read_fin && (in->arrived > in->taken || in->has_fin_arrived)) {
        what |= LINK_READY_IN;
    }
    return what;
}

static int sim_poll(struct link *link, struct link_ready *ret, unsigned max)
{
    struct sim_link *l = sim_link_of(link);
    unsigned count = 0;
    closed_free(l);
    for (struct list_link *i = l->streams.next; i != &l->streams && count < max; i = i->next) {
        struct sim_stream *s = LIST_ENTRY(i, struct sim_stream, link);
        unsigned what = ready_what(s);
        if (what != 0) {
            ret[count++] = (struct link_ready){.stream = &s->base, .what = what};
        }
    }
    // Whoever was first has its turn last the next time.
    if (!list_is_empty(&l->streams)) {
        list_push_tail(&l->streams, list_pop_head(&l->streams));
    }
    return (int)count;
}

static void sim_wait(struct link *link, duration_ns timeout_ns)
{
}

static void sim_wake(struct link *link)
{
}

static void sim_abandon(struct link *link)
{
}

static const struct link_ops sim_ops = {
    .name = "sim",
    .bind = sim_bind,
    .listen = sim_listen,
    .accept = sim_accept,
    .connect = sim_connect,
    .connect_result = sim_connect_result,
    .recv = sim_recv,
    .borrow = link_none_borrow,
    .give_back = link_none_give_back,
    .set_place = link_none_set_place,
    .resume = link_none_resume,
    .send = sim_send,
    .unsettled = link_none_unsettled,
    .want_out = sim_want_out,
    .want_in = sim_want_in,
    .shutdown = sim_shutdown,
    .close = sim_close,
    .local_addr = sim_local_addr,
    .peer_addr = sim_peer_addr,
    .emss = sim_emss,
    .set_tos = sim_set_tos,
    .route = sim_route,
    .poll = sim_poll,
    .next_deadline = link_none_next_deadline,
    .may_wait = link_none_may_wait,
    .wait = sim_wait,
    .rise = link_rise_by_wait,
    .wake = sim_wake,
    .descriptor = link_none_descriptor,
    .stream_counters = link_none_stream_counters,
    .packet_counters = link_none_packet_counters,
    .is_busy = link_none_is_busy,
    .abandon = sim_abandon,
    .destroy = sim_destroy,
};
