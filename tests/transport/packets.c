#include "tests/transport/packets.h"

#include <stdlib.h>

#include "roce/address.h"
#include "roce/uc.h"
#include "roce/ud.h"

enum { QKEY = 0x11111111, SQ_PSN = 0xfffffe };

struct packets *packets_of(const struct end *end)
{
    return end->transport;
}

struct in6_addr packets_address(unsigned index)
{
    return (struct in6_addr){
        .s6_addr = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = (uint8_t)(index + 1)}};
}

struct in6_addr packets_address6(unsigned index)
{
    return (struct in6_addr){.s6_addr = {[0] = 0xfd, [15] = (uint8_t)(index + 1)}};
}

struct in6_addr packets_group(void)
{
    return (struct in6_addr){.s6_addr = {[10] = 0xff, [11] = 0xff, [12] = 239, [15] = 7}};
}

/* ---- packets on their way -------------------------------------------------------------------- */

static bool put(void *ctx, const struct datagram_tx *tx)
{
    struct packets *p = ctx;
    if (p->count >= p->room) {
        return false;
    }
    struct carried *c = &p->queue[p->count++];
    c->path = *tx->path;
    memcpy(c->octets, tx->head.ptr, tx->head.len);
    c->len = tx->head.len;
    for (unsigned i = 0; i < tx->piece_count; i++) {
        assert_true(c->len + tx->pieces[i].len <= sizeof c->octets);
        memcpy(c->octets + c->len, tx->pieces[i].ptr, tx->pieces[i].len);
        c->len += tx->pieces[i].len;
    }
    memset(c->octets + c->len, 0, tx->pad_len);
    c->len += tx->pad_len;
    return true;
}

struct carried packets_take(struct end *end)
{
    struct packets *p = packets_of(end);
    assert_true(p->count > 0);
    struct carried first = p->queue[0];
    memmove(p->queue, p->queue + 1, --p->count * sizeof p->queue[0]);
    return first;
}

void packets_arrive(struct end *end, const struct carried *c)
{
    struct datagram_rx rx = {
        .local = c->path.remote,
        .remote = c->path.local,
        .flow_label = c->path.flow_label,
        .source_port = c->path.source_port,
        .traffic_class = c->path.traffic_class,
        .hop_limit = c->path.hop_limit,
        .is_checked = true,
        .octets = span_of(c->octets, c->len),
    };
    struct transport *t = packets_of(end)->t;
    transport_take_packet(t, &rx, end->world->now);
    assert_true(t->ops->check(t));
}

// To all whose address it is, or to everybody who may be of the group.
static void carry(struct world *world, const struct carried *c)
{
    const struct in6_addr group = packets_group();
    const bool is_group = IN6_ARE_ADDR_EQUAL(&c->path.remote, &group);
    for (unsigned i = 0; i < END_COUNT && world->ends[i].world != NULL; i++) {
        const struct in6_addr address = packets_address(i), address6 = packets_address6(i);
        if (is_group || IN6_ARE_ADDR_EQUAL(&c->path.remote, &address) ||
            IN6_ARE_ADDR_EQUAL(&c->path.remote, &address6)) {
            packets_arrive(&world->ends[i], c);
        }
    }
}

/* ---- doors ----------------------------------------------------------------------------------- */

static void pump(struct end *end)
{
    struct packets *p = packets_of(end);
    unsigned before = p->count;
    bool has_output = p->t->ops->has_output(p->t);
    p->t->ops->output(p->t, &p->sink, end->world->now);
    assert_true(has_output || p->count == before);
    assert_true(p->t->ops->check(p->t));
}

static void on_send_posted(struct end *end)
{
    struct transport *t = packets_of(end)->t;
    t->ops->on_send_posted(t, end->world->now);
    pump(end);
}

static void on_receive_posted(struct end *end)
{
    struct transport *t = packets_of(end)->t;
    t->ops->on_receive_posted(t, end->world->now);
}

static bool step(struct world *world)
{
    bool has_moved = false;
    world->now += 10;
    for (unsigned i = 0; i < END_COUNT && world->ends[i].world != NULL; i++) {
        struct end *end = &world->ends[i];
        if (packets_of(end)->count > 0) {
            struct carried c = packets_take(end);
            carry(world, &c);
            has_moved = true;
        }
        pump(end);
    }
    return has_moved;
}

void packets_change(struct end *end, const struct qp_change *change)
{
    struct transport *t = packets_of(end)->t;
    assert_int_equal(t->ops->modify(t, change, end->world->now), 0);
    assert_true(t->ops->check(t));
}

void packets_modify(struct end *end, enum qp_state to)
{
    packets_change(end, &(struct qp_change){.mask = QP_CHANGE_STATE, .state = to});
    assert_int_equal(packets_of(end)->t->ops->state(packets_of(end)->t), to);
}

static void give_up(struct end *end)
{
    packets_modify(end, QP_ERR);
}

static void go_on(struct end *end)
{
    packets_modify(end, QP_RTS);
}

static void reset(struct end *end)
{
    packets_of(end)->count = 0;
    packets_modify(end, QP_RESET);
}

static void on_event(void *ctx, enum qp_event event)
{
    struct packets *p = ctx;
    p->events[event]++;
}

static struct packets *open_end(struct end *end)
{
    struct packets *p = end->transport = calloc(1, sizeof *p);
    p->end = end;
    p->room = PACKETS_ROOM;
    p->sink = (struct datagram_sink){put, p};
    return p;
}

static void close_end(struct end *end)
{
    struct packets *p = packets_of(end);
    assert_true(p->t->ops->check(p->t));
    p->t->ops->destroy(p->t);
    free(p);
}

struct sought {
    const char *name;
    uint64_t found;
    bool is_found;
};

static void look_at_counter(void *ctx, const char *name, uint64_t value)
{
    struct sought *sought = ctx;
    if (strcmp(name, sought->name) == 0) {
        sought->found = value;
        sought->is_found = true;
    }
}

uint64_t packets_counter(const struct end *end, const char *name)
{
    struct transport *t = packets_of(end)->t;
    struct sought sought = {.name = name};
    t->ops->counters_each(t->ops->counters(t), look_at_counter, &sought);
    assert_true(sought.is_found);
    return sought.found;
}

/* ---- datagrams ------------------------------------------------------------------------------- */

static void fill_address(const struct end *end, uint32_t index, void *ret)
{
    *(struct roce_address *)ret = (struct roce_address){
        .path = {.local = packets_address((unsigned)(end - end->world->ends)),
                 .remote = packets_address(index),
                 .hop_limit = 64},
        .qpn = end->world->ends[index].config.qp_num,
        .qkey = QKEY,
    };
}

static void open_ud(struct end *end)
{
    struct packets *p = open_end(end);
    struct ud_config config = {.wq = end->config, .port_mtu = PACKETS_MTU, .events = {on_event, p}};
    struct ud *ud;
    assert_int_equal(ud_create(&config, &ud), 0);
    p->t = ud_transport(ud);
    end->wq = ud_wq(ud);
}

static void connect_ud(struct world *world)
{
    for (unsigned i = 0; i < END_COUNT; i++) {
        struct qp_change to_init = {
            .mask = QP_CHANGE_STATE | QP_CHANGE_QKEY, .state = QP_INIT, .qkey = QKEY};
        packets_change(&world->ends[i], &to_init);
        packets_modify(&world->ends[i], QP_RTR);
        struct qp_change to_rts = {
            .mask = QP_CHANGE_STATE | QP_CHANGE_SQ_PSN, .state = QP_RTS, .sq_psn = SQ_PSN};
        packets_change(&world->ends[i], &to_rts);
    }
}

const struct test_transport transport_ud = {
    .name = "ud",
    .carries = 1U << WQE_SEND | 1U << WQE_SEND_WITH_IMM,
    .traits = TRAIT_DATAGRAM,
    .address_len = sizeof(struct roce_address),
    .fill_address = fill_address,
    .receive_head_len = 40,
    .open = open_ud,
    .on_send_posted = on_send_posted,
    .on_receive_posted = on_receive_posted,
    .step = step,
    .give_up = give_up,
    .go_on = go_on,
    .reset = reset,
    .connect = connect_ud,
    .close = close_end,
};

/* ---- unreliable connections ------------------------------------------------------------------ */

static void open_uc(struct end *end)
{
    struct packets *p = open_end(end);
    struct uc_config config = {.wq = end->config, .events = {on_event, p}};
    struct uc *uc;
    assert_int_equal(uc_create(&config, &uc), 0);
    p->t = uc_transport(uc);
    end->wq = uc_wq(uc);
}

static void connect_uc_end(struct end *end)
{
    struct world *w = end->world;
    struct qp_change to_init = {
        .mask = QP_CHANGE_STATE | QP_CHANGE_RIGHTS, .state = QP_INIT, .rights = MEM_ACCESS_ALL};
    struct qp_change to_rtr = {
        .mask = QP_CHANGE_STATE | QP_CHANGE_PATH | QP_CHANGE_PATH_MTU | QP_CHANGE_DEST_QP_NUM |
                QP_CHANGE_RQ_PSN,
        .state = QP_RTR,
        .path = {.local = packets_address((unsigned)(end - w->ends)),
                 .remote = packets_address((unsigned)(end->peer - w->ends)),
                 .hop_limit = 64},
        .path_mtu = PACKETS_UC_MTU,
        .dest_qp_num = end->peer->config.qp_num,
        .rq_psn = SQ_PSN,
    };
    struct qp_change to_rts = {
        .mask = QP_CHANGE_STATE | QP_CHANGE_SQ_PSN, .state = QP_RTS, .sq_psn = SQ_PSN};
    packets_change(end, &to_init);
    packets_change(end, &to_rtr);
    packets_change(end, &to_rts);
}

static void connect_uc(struct world *world)
{
    connect_uc_end(&world->ends[0]);
    connect_uc_end(&world->ends[1]);
}

const struct test_transport transport_uc = {
    .name = "uc",
    .carries = 1U << WQE_SEND | 1U << WQE_SEND_WITH_IMM | 1U << WQE_RDMA_WRITE |
               1U << WQE_RDMA_WRITE_WITH_IMM | 1U << WQE_LOCAL_INV | 1U << WQE_BIND_MW,
    .open = open_uc,
    .on_send_posted = on_send_posted,
    .on_receive_posted = on_receive_posted,
    .step = step,
    .give_up = give_up,
    .go_on = go_on,
    .reset = reset,
    .connect = connect_uc,
    .close = close_end,
};
