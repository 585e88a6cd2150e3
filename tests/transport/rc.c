// The product's reliable connection, roce/, over packets that get lost, come twice and out of
// order. PSNs wrap early on.
#include "roce/rc.h"

#include <stdlib.h>

#include "base/transport.h"
#include "roce/rc_store.h"
#include "tests/transport/transport.h"

enum {
    LOSS = 60, // of 1024
    REPEAT = 60,
    PSN_FIRST = 0xffffe0,
    REMEMBERED = 4, // as many as an end has out
    BLOCKS = 64,
    BLOCKS_FEW = 2,
};

// For what comes beyond a hole.
static struct rc_store *stores[2];

static const struct in6_addr address = {.s6_addr = {[10] = 0xff, 0xff, 127, 0, 0, 1}};

static struct rc *rc_of_end(const struct end *end)
{
    return end->transport;
}

static struct transport *transport_of(const struct end *end)
{
    return rc_transport(rc_of_end(end));
}

/* ---- packets --------------------------------------------------------------------------------- */

static void append(struct packet *p, struct span octets)
{
    assert_true(p->len + octets.len <= PACKET_LEN_MAX);
    memcpy(p->octets + p->len, octets.ptr, octets.len);
    p->len += octets.len;
}

static bool put(void *ctx, const struct datagram_tx *tx)
{
    static const uint8_t pad[4];
    struct end *end = ctx;
    struct packet p = {.to = end->peer};
    append(&p, tx->head);
    for (unsigned i = 0; i < tx->piece_count; i++) {
        append(&p, tx->pieces[i]);
    }
    append(&p, span_of(pad, tx->pad_len));
    net_put(end->world, &p, LOSS, REPEAT);
    return true;
}

static void output(struct end *end)
{
    struct datagram_sink sink = {put, end};
    transport_of(end)->ops->output(transport_of(end), &sink, end->world->now);
}

static void deliver(const struct packet *p)
{
    struct transport *t = transport_of(p->to);
    struct datagram_rx rx = {
        .local = address, .remote = address, .octets = span_of(p->octets, p->len)};
    transport_take_packet(t, &rx, p->to->world->now);
}

/* ---- doors ----------------------------------------------------------------------------------- */

static void note_trouble(struct world *world)
{
    struct trouble *t = &world->trouble;
    *t = (struct trouble){.lost = t->lost, .repeated = t->repeated};
    for (unsigned i = 0; i < 2; i++) {
        const struct rc_counters *c = rc_counters(rc_of_end(&world->ends[i]));
        t->gaps += c->refusals[RC_REFUSED_SEQUENCE];
        t->not_ready += c->refusals[RC_REFUSED_NOT_READY];
        t->sent_again += c->requests_again;
        t->apart += c->resumed_inside;
        t->read_again += c->reads_again;
        t->answered_again += c->atomics_again;
    }
}

static instant_ns deadline(const struct end *end)
{
    return transport_of(end)->ops->next_deadline(transport_of(end));
}

static bool step(struct world *world)
{
    instant_ns first = instant_min(deadline(&world->ends[0]), deadline(&world->ends[1]));
    bool is_packet = net_next(world) < first;
    if (!is_packet && first == INSTANT_NEVER) {
        return false;
    }
    if (is_packet) {
        struct packet p = net_take(world);
        deliver(&p);
    } else {
        world->now = first;
    }
    for (unsigned i = 0; i < 2; i++) {
        struct transport *t = transport_of(&world->ends[i]);
        if (t->ops->next_deadline(t) <= world->now) {
            t->ops->on_deadline(t, world->now);
        }
        output(&world->ends[i]);
        assert_true(t->ops->check(t));
    }
    note_trouble(world);
    return true;
}

static void on_send_posted(struct end *end)
{
    transport_of(end)->ops->on_send_posted(transport_of(end), end->world->now);
    output(end);
}

static void on_receive_posted(struct end *end)
{
    transport_of(end)->ops->on_receive_posted(transport_of(end), end->world->now);
}

static unsigned index_of(const struct end *end)
{
    return end == &end->world->ends[1];
}

// In half of the seeds both are weft ends, otherwise one of them is as a stranger would be. In some
// there is hardly room for what comes beyond a hole.
static void open_end(struct end *end)
{
    uint64_t seed = end->world->options.seed;
    unsigned index = index_of(end);
    stores[index] = rc_store_create(seed % 5 == 0 ? BLOCKS_FEW : BLOCKS);
    assert_non_null(stores[index]);
    struct rc_config config = {
        .wq = end->config,
        .allotment_len = end->world->options.allotment_len,
        .remembered_max = REMEMBERED,
        .store = stores[index],
        .is_plain = seed % 4 == 1 + index,
    };
    struct rc *rc;
    assert_int_equal(rc_create(&config, &rc), 0);
    end->transport = rc;
    end->wq = rc_wq(rc);
}

static void modify(struct end *end, enum qp_state state, struct qp_change change)
{
    struct transport *t = transport_of(end);
    change.mask |= QP_CHANGE_STATE;
    change.state = state;
    assert_int_equal(t->ops->modify(t, &change, end->world->now), 0);
}

static void connect_end(struct end *end)
{
    struct qp_change to_receive = {
        .mask = QP_CHANGE_PATH | QP_CHANGE_DEST_QP_NUM | QP_CHANGE_PATH_MTU | QP_CHANGE_RQ_PSN |
                QP_CHANGE_MAX_DEST_RD_ATOMIC | QP_CHANGE_MIN_RNR_TIMER,
        .path = {.local = address, .remote = address},
        .dest_qp_num = end->peer->config.qp_num,
        .path_mtu = 256U << end->world->options.seed % 3,
        .rq_psn = PSN_FIRST,
        .max_dest_rd_atomic = REMEMBERED,
        .min_rnr_timer = 1,
    };
    struct qp_change to_send = {
        .mask = QP_CHANGE_SQ_PSN | QP_CHANGE_MAX_RD_ATOMIC | QP_CHANGE_TIMEOUT |
                QP_CHANGE_RETRY_COUNT | QP_CHANGE_RNR_RETRY_COUNT,
        .sq_psn = PSN_FIRST,
        .max_rd_atomic = end->config.ord_max,
        .timeout = 1,
        .retry_count = 7,
        .rnr_retry_count = 7,
    };
    modify(end, QP_INIT,
           (struct qp_change){.mask = QP_CHANGE_RIGHTS,
                              .rights = MEM_ACCESS_REMOTE_READ | MEM_ACCESS_REMOTE_WRITE |
                                        MEM_ACCESS_REMOTE_ATOMIC});
    modify(end, QP_RTR, to_receive);
    modify(end, QP_RTS, to_send);
}

static void connect_ends(struct world *world)
{
    connect_end(&world->ends[0]);
    connect_end(&world->ends[1]);
}

static void reset(struct end *end)
{
    modify(end, QP_RESET, (struct qp_change){.mask = 0});
}

static void give_up(struct end *end)
{
    modify(end, QP_ERR, (struct qp_change){.mask = 0});
}

static void close_end(struct end *end)
{
    struct transport *t = transport_of(end);
    assert_true(t->ops->check(t));
    t->ops->destroy(t);
    rc_store_destroy(stores[index_of(end)]);
}

const struct test_transport transport_rc = {
    .name = "rc",
    .carries = (1U << WQE_OPCODE_COUNT) - 1,
    .traits = TRAIT_CONNECTED | TRAIT_ANSWERED | TRAIT_GUARDS | TRAIT_LOSSY,
    .open = open_end,
    .on_send_posted = on_send_posted,
    .on_receive_posted = on_receive_posted,
    .step = step,
    .give_up = give_up,
    .reset = reset,
    .connect = connect_ends,
    .close = close_end,
};
