#include <errno.h>
#include <stdlib.h>

#include "base/list.h"
#include "base/prng.h"
#include "base/time.h"
#include "link/sim.h"
#include "link/sim_stream.h"

enum { PORT_FIRST = 32768, SMALL_PIECE_MAX = 48 };

struct sim_net *sim_net_create(const struct sim_net_config *config)
{
    struct sim_net *net = calloc(1, sizeof *net);
    if (net == NULL) {
        return NULL;
    }
    net->config = *config;
    net->port_next = PORT_FIRST;
    prng_init(&net->rng, config->seed);
    list_init(&net->links);
    list_init(&net->connections);
    return net;
}

static void connection_free(struct sim_connection *c)
{
    list_remove(&c->link);
    free(c->pipe[0].ring);
    free(c->pipe[1].ring);
    free(c);
}

void sim_net_destroy(struct sim_net *net)
{
    if (net == NULL) {
        return;
    }
    struct list_link *l;
    while ((l = list_pop_head(&net->connections)) != NULL) {
        connection_free(LIST_ENTRY(l, struct sim_connection, link));
    }
    free(net);
}

instant_ns sim_arrival(struct sim_net *net)
{
    uint32_t delay = 1 + prng_below(&net->rng, (uint32_t)net->config.delay_max_ns);
    return instant_after(sim_net_now(net), delay);
}

/* ---- connections ----------------------------------------------------------------------------- */

int sim_connection_open(struct sim_stream *from)
{
    struct sim_net *net = sim_link_of(from->base.link)->net;
    struct sim_connection *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return -ENOMEM;
    }
    list_init(&c->link);
    for (unsigned i = 0; i < 2; i++) {
        c->pipe[i].ring = malloc(net->config.window_len);
        c->pipe[i].arrive_at_ns = INSTANT_NEVER;
    }
    if (c->pipe[0].ring == NULL || c->pipe[1].ring == NULL) {
        connection_free(c);
        return -ENOMEM;
    }
    c->net = net;
    c->end[0] = from;
    c->break_at_ns = INSTANT_NEVER;
    c->establish_at_ns = sim_arrival(net);
    if (sim_link_find(net, from->peer.sin_addr) == NULL) {
        c->establish_at_ns = INSTANT_NEVER;
        c->break_at_ns = instant_after(sim_net_now(net), net->config.peer_timeout_ns);
        c->break_error = -ETIMEDOUT;
    }
    list_push_tail(&net->connections, &c->link);
    from->connection = c;
    from->side = 0;
    return 0;
}

// Both ends see `error` from now on; nothing travels any more.
static void connection_break(struct sim_connection *c, int error)
{
    for (unsigned i = 0; i < 2; i++) {
        if (c->end[i] != NULL && c->end[i]->error == 0) {
            c->end[i]->error = error;
        }
        c->pipe[i].arrive_at_ns = INSTANT_NEVER;
    }
    c->establish_at_ns = INSTANT_NEVER;
    c->break_at_ns = INSTANT_NEVER;
}

static struct sim_stream *listener_find(struct sim_link *l, const struct sockaddr_in *addr)
{
    for (struct list_link *i = l->streams.next; i != &l->streams; i = i->next) {
        struct sim_stream *s = LIST_ENTRY(i, struct sim_stream, link);
        if (s->state == SIM_STREAM_LISTENING && s->local.sin_port == addr->sin_port &&
            (s->local.sin_addr.s_addr == INADDR_ANY ||
             s->local.sin_addr.s_addr == addr->sin_addr.s_addr)) {
            return s;
        }
    }
    return NULL;
}

static void connection_establish(struct sim_connection *c)
{
    struct sim_stream *from = c->end[0];
    struct sim_link *to = sim_link_find(c->net, from->peer.sin_addr);
    struct sim_stream *listener = to != NULL ? listener_find(to, &from->peer) : NULL;
    c->establish_at_ns = INSTANT_NEVER;
    if (listener == NULL || listener->waiting_count >= listener->backlog) {
        connection_break(c, -ECONNREFUSED);
        return;
    }
    struct sim_stream *s = sim_stream_new(to, NULL);
    if (s == NULL) {
        connection_break(c, -ECONNREFUSED);
        return;
    }
    s->state = SIM_STREAM_CONNECTED;
    s->local = from->peer;
    s->peer = from->local;
    s->connection = c;
    s->side = 1;
    s->wants_in = false; // nobody listens before it is accepted
    c->end[1] = s;
    list_push_tail(&listener->waiting, &s->waiting_link);
    listener->waiting_count++;
    from->state = SIM_STREAM_CONNECTED;
}

void sim_connection_leave(struct sim_connection *c, unsigned side, bool abort)
{
    struct sim_pipe *in = &c->pipe[1 - side];
    struct sim_pipe *out = &c->pipe[side];
    c->end[side] = NULL;
    bool unread = in->arrived > in->taken || in->is_cut;
    if (abort || unread) {
        out->arrive_at_ns = INSTANT_NEVER;
        if (c->end[1 - side] != NULL && c->end[1 - side]->error == 0 && !c->is_silent) {
            c->break_at_ns = sim_arrival(c->net);
            c->break_error = -ECONNRESET;
        }
    } else if (!out->is_shut) {
        out->is_shut = true;
        if (out->arrive_at_ns == INSTANT_NEVER && !c->is_silent) {
            out->arrive_at_ns = sim_arrival(c->net);
        }
    }
    if (c->end[0] == NULL && c->end[1] == NULL) {
        connection_free(c);
    }
}

size_t sim_pipe_room(const struct sim_connection *c, unsigned side)
{
    const struct sim_pipe *out = &c->pipe[side];
    return out->is_shut ? 0 : c->net->config.window_len - (size_t)(out->sent - out->taken);
}

/* ---- what happens by itself ------------------------------------------------------------------ */

// Some of what is under way: all, a little, or anything up to the bound.
static uint64_t piece_draw(struct sim_net *net, uint64_t under_way)
{
    uint32_t kind = prng_below(&net->rng, 3);
    uint64_t max = kind == 0 ? SMALL_PIECE_MAX : net->config.piece_max_len;
    if (kind == 2 || under_way == 1) {
        return under_way;
    }
    return 1 + prng_below(&net->rng, (uint32_t)(max < under_way ? max : under_way));
}

static void pipe_arrive(struct sim_connection *c, unsigned side)
{
    struct sim_pipe *p = &c->pipe[side];
    uint64_t under_way = p->sent - p->arrived;
    p->arrive_at_ns = INSTANT_NEVER;
    if (under_way > 0 && c->end[1 - side] == NULL) {
        connection_break(c, -ECONNRESET); // octets for nobody
        return;
    }
    if (under_way > 0) {
        p->arrived += piece_draw(c->net, under_way);
    } else {
        p->has_fin_arrived = true;
    }
    if (p->sent > p->arrived || (p->is_shut && !p->has_fin_arrived)) {
        p->arrive_at_ns = sim_arrival(c->net);
    }
}

static instant_ns connection_next_event(const struct sim_connection *c)
{
    return instant_min(instant_min(c->establish_at_ns, c->break_at_ns),
                       instant_min(c->pipe[0].arrive_at_ns, c->pipe[1].arrive_at_ns));
}

static void connection_advance(struct sim_connection *c, instant_ns now)
{
    if (now >= c->establish_at_ns) {
        connection_establish(c);
    }
    if (now >= c->break_at_ns) {
        connection_break(c, c->break_error);
    }
    for (unsigned i = 0; i < 2; i++) {
        if (now >= c->pipe[i].arrive_at_ns) {
            pipe_arrive(c, i);
        }
    }
}

instant_ns sim_net_next_event(const struct sim_net *net)
{
    instant_ns at_ns = INSTANT_NEVER;
    for (struct list_link *l = net->connections.next; l != &net->connections; l = l->next) {
        at_ns =
            instant_min(at_ns, connection_next_event(LIST_ENTRY(l, struct sim_connection, link)));
    }
    return at_ns;
}

bool sim_net_advance(struct sim_net *net)
{
    instant_ns now = sim_net_now(net);
    bool moved = false;
    for (struct list_link *l = net->connections.next; l != &net->connections; l = l->next) {
        struct sim_connection *c = LIST_ENTRY(l, struct sim_connection, link);
        if (now >= connection_next_event(c)) {
            connection_advance(c, now);
            moved = true;
        }
    }
    return moved;
}

/* ---- faults ---------------------------------------------------------------------------------- */

static const char *const fault_names[SIM_FAULT_COUNT] = {
    [SIM_FAULT_RESET] = "reset", [SIM_FAULT_FIN] = "fin",         [SIM_FAULT_SILENCE] = "silence",
    [SIM_FAULT_STALL] = "stall", [SIM_FAULT_CORRUPT] = "corrupt",
};

const char *sim_fault_name(enum sim_fault fault)
{
    return fault_names[fault];
}

static bool has_end_at(const struct sim_stream *s, const struct sockaddr_in *end)
{
    return s != NULL && s->local.sin_port == end->sin_port &&
           s->local.sin_addr.s_addr == end->sin_addr.s_addr;
}

static struct sim_connection *connection_find(struct sim_net *net, const struct sockaddr_in *end)
{
    for (struct list_link *l = net->connections.next; l != &net->connections; l = l->next) {
        struct sim_connection *c = LIST_ENTRY(l, struct sim_connection, link);
        if (has_end_at(c->end[0], end) || has_end_at(c->end[1], end)) {
            return c;
        }
    }
    return NULL;
}

static bool corrupt(struct sim_connection *c)
{
    struct sim_net *net = c->net;
    unsigned side = prng_below(&net->rng, 2);
    struct sim_pipe *p = &c->pipe[side];
    uint64_t first = p->arrived > SIM_CORRUPT_FIRST ? p->arrived : SIM_CORRUPT_FIRST;
    if (first >= p->sent) {
        return false;
    }
    uint64_t at = first + prng_below(&net->rng, (uint32_t)(p->sent - first));
    p->ring[at % net->config.window_len] ^= (uint8_t)(1 + prng_below(&net->rng, 255));
    return true;
}

static void stall(struct sim_connection *c)
{
    struct sim_net *net = c->net;
    uint64_t ms = net->config.peer_timeout_ns / NS_PER_MS;
    duration_ns gap_ns = prng_below(&net->rng, (uint32_t)(ms * 3 / 4)) * NS_PER_MS;
    for (unsigned i = 0; i < 2; i++) {
        c->pipe[i].arrive_at_ns = instant_after(c->pipe[i].arrive_at_ns, gap_ns);
    }
    c->establish_at_ns = instant_after(c->establish_at_ns, gap_ns);
}

// Octets that follow a forced FIN go nowhere, as behind a box that has forgotten the connection.
static void force_fin(struct sim_connection *c)
{
    struct sim_pipe *p = &c->pipe[prng_below(&c->net->rng, 2)];
    p->sent = p->arrived + prng_below(&c->net->rng, (uint32_t)(p->sent - p->arrived) + 1);
    p->is_shut = p->is_cut = true;
    if (!p->has_fin_arrived && p->arrive_at_ns == INSTANT_NEVER) {
        p->arrive_at_ns = sim_arrival(c->net);
    }
}

static void silence(struct sim_connection *c)
{
    c->is_silent = true;
    c->establish_at_ns = INSTANT_NEVER;
    c->pipe[0].arrive_at_ns = INSTANT_NEVER;
    c->pipe[1].arrive_at_ns = INSTANT_NEVER;
    c->break_at_ns = instant_after(sim_net_now(c->net), c->net->config.peer_timeout_ns);
    c->break_error = -ETIMEDOUT;
}

bool sim_net_strike(struct sim_net *net, enum sim_fault fault, const struct sockaddr_in *end)
{
    struct sim_connection *c = connection_find(net, end);
    bool is_connecting;
    if (c == NULL || c->is_silent || (fault == SIM_FAULT_FIN && c->end[1] == NULL)) {
        return false;
    }
    switch (fault) {
    case SIM_FAULT_RESET:
        is_connecting = c->end[0] != NULL && c->end[0]->state == SIM_STREAM_CONNECTING;
        connection_break(c, is_connecting ? -ECONNREFUSED : -ECONNRESET);
        return true;
    case SIM_FAULT_FIN:
        force_fin(c);
        return true;
    case SIM_FAULT_SILENCE:
        silence(c);
        return true;
    case SIM_FAULT_STALL:
        stall(c);
        return true;
    case SIM_FAULT_CORRUPT:
        return corrupt(c);
    default:
        return false;
    }
}
