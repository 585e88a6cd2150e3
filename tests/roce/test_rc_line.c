// Reliable connections that share a line: senders with a link each, and one link of 10 Gbit/s that
// they all send to, or read from, whose queue holds a bandwidth-delay product and drops the rest.
// Time is virtual. What they bring over it, and how fair, is measured after a while.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "link/datagram_sim.h"
#include "link/datagram_slot.h"
#include "mem/table.h"
#include "roce/rc.h"
#include "roce/rc_store.h"
#include "wire/roce.h"
#include "wq/post.h"
#include "wq/wq.h"

enum {
    FLOWS = 8,
    PMTU = 1024,
    MESSAGE_LEN = 64 * 1024,
    DEPTH = 8, // messages posted at a time
    MEMORY_LEN = 2 * MESSAGE_LEN,
    RATE = 1250000000, // octets in a second
    RTT_US = 100,
    QUEUE_LEN = RATE / 1000000 * RTT_US,
};

static const duration_ns before_ns = 20 * NS_PER_MS, measured_ns = 60 * NS_PER_MS;

// One queue pair on its link.
struct side {
    struct rc *rc;
    struct transport *t;
    struct datagram_link *link;
    uint32_t qp_num;
    struct cq *cq;
    bool is_full;
};

static struct line {
    instant_ns now;
    struct datagram_net *net;
    struct datagram_link *links[FLOWS + 1]; // the last is the one that all share
    struct mem_table *mem;
    uint32_t pd, key;
    uint8_t *memory;
    struct side near[FLOWS], far[FLOWS];
    struct rc_store *store;
    uint64_t completed[FLOWS]; // messages
} line;

static instant_ns clock_of(void *ctx)
{
    return line.now;
}

static struct in6_addr address_of(unsigned link)
{
    return (struct in6_addr){
        .s6_addr = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = (uint8_t)(link + 1)}};
}

/* ---- queue pairs ----------------------------------------------------------------------------- */

static void create(struct side *s, unsigned link, unsigned number, bool is_plain)
{
    s->link = line.links[link];
    s->qp_num = s->link->qp_num_first + 16 + number;
    s->cq = cq_create(64, (struct cq_port){0});
    struct rc_config config = {
        .wq = {.qp_num = s->qp_num,
               .pd = line.pd,
               .caps = {2 * DEPTH, 2 * DEPTH, 1, 1, 0},
               .send_cq = s->cq,
               .recv_cq = s->cq,
               .sq_sig_all = true,
               .mem = line.mem,
               .ord_max = 16},
        .remembered_max = 16,
        .store = line.store,
        .is_plain = is_plain,
    };
    assert_int_equal(rc_create(&config, &s->rc), 0);
    s->t = rc_transport(s->rc);
}

static void connect_side(struct side *s, const struct side *peer, unsigned from, unsigned to)
{
    struct qp_change change = {
        .mask = UINT32_MAX & ~(uint32_t)QP_CHANGE_CURRENT,
        .rights = MEM_ACCESS_REMOTE_READ | MEM_ACCESS_REMOTE_WRITE,
        .path = {.local = address_of(from), .remote = address_of(to)},
        .path_mtu = PMTU,
        .dest_qp_num = peer->qp_num,
        .max_rd_atomic = 16,
        .max_dest_rd_atomic = 16,
        .timeout = 8, // 1 ms
        .retry_count = 7,
        .rnr_retry_count = 7,
    };
    for (change.state = QP_INIT; change.state <= QP_RTS; change.state++) {
        assert_int_equal(s->t->ops->modify(s->t, &change, line.now), 0);
    }
}

struct line_options {
    uint32_t mark_len;
    unsigned loss; // of 1,000
    bool is_plain; // one end of each connection, as a stranger would be
};

static void open_line(struct line_options o)
{
    uint8_t key[STAG_KEY_LEN] = {3};
    line = (struct line){.now = NS_PER_S};
    struct datagram_net_config config = {
        .clock = clock_of,
        .faults = {.loss = o.loss * (FAULT_ONE / 1000),
                   .burst = 1,
                   .delay_ns = RTT_US / 2 * NS_PER_US,
                   .seed = 1},
        .rate = RATE,
        .queue_len = QUEUE_LEN,
        .mark_len = o.mark_len,
    };
    line.net = datagram_net_create(&config);
    line.mem = mem_table_create(key, 1024, (struct mem_probe){0});
    assert_int_equal(mem_pd_alloc(line.mem, &line.pd), 0);
    line.memory = calloc(1, MEMORY_LEN);
    line.store = rc_store_create(RC_STORE_BLOCKS);
    assert_int_equal(mem_region_register(line.mem, line.pd, line.memory, MEMORY_LEN, 0,
                                         MEM_ACCESS_LOCAL_WRITE | MEM_ACCESS_REMOTE_READ |
                                             MEM_ACCESS_REMOTE_WRITE,
                                         &line.key),
                     0);
    for (unsigned i = 0; i <= FLOWS; i++) {
        struct in6_addr address = address_of(i);
        line.links[i] = datagram_net_attach(line.net, &address, 1);
        assert_int_equal(datagram_open(line.links[i], &address, 0), 0);
    }
    for (unsigned i = 0; i < FLOWS; i++) {
        create(&line.near[i], i, 0, false);
        create(&line.far[i], FLOWS, i, o.is_plain);
        connect_side(&line.near[i], &line.far[i], i, FLOWS);
        connect_side(&line.far[i], &line.near[i], FLOWS, i);
    }
}

static void close_side(struct side *s)
{
    assert_true(s->t->ops->check(s->t));
    s->t->ops->silence(s->t);
    s->t->ops->destroy(s->t);
    cq_destroy(s->cq);
}

static void close_line(void)
{
    for (unsigned i = 0; i < FLOWS; i++) {
        close_side(&line.near[i]);
        close_side(&line.far[i]);
    }
    for (unsigned i = 0; i <= FLOWS; i++) {
        datagram_destroy(line.links[i]);
    }
    datagram_net_destroy(line.net);
    mem_table_destroy(line.mem);
    rc_store_destroy(line.store);
    free(line.memory);
}

/* ---- the net --------------------------------------------------------------------------------- */

static bool put(void *ctx, const struct datagram_tx *tx)
{
    return datagram_put(ctx, tx);
}

static void output(struct side *s)
{
    struct datagram_sink sink = {put, s->link};
    do {
        s->t->ops->output(s->t, &sink, line.now);
        s->is_full = !datagram_flush(s->link);
    } while (!s->is_full && s->t->ops->has_output(s->t) &&
             s->t->ops->query(s->t).reads_due > 0); // another turn
}

static struct side *side_of(unsigned link, const struct datagram_rx *rx)
{
    if (link < FLOWS) {
        return &line.near[link];
    }
    return &line.far[datagram_dest_qp(rx->octets) - line.far[0].qp_num];
}

static void receive(unsigned link)
{
    struct datagram_rx rx[64];
    unsigned count = datagram_receive(line.links[link], rx, 64, line.now);
    for (unsigned i = 0; i < count; i++) {
        struct side *s = side_of(link, &rx[i]);
        s->t->ops->on_packet(s->t, &rx[i], line.now);
    }
}

static instant_ns deadline(const struct side *s)
{
    return s->t->ops->next_deadline(s->t);
}

static void serve_deadline(struct side *s)
{
    if (deadline(s) <= line.now) {
        s->t->ops->on_deadline(s->t, line.now);
    }
}

// To the next thing that happens.
static void step(void)
{
    instant_ns next = datagram_net_next_event(line.net);
    for (unsigned i = 0; i < FLOWS; i++) {
        next = instant_min(next, instant_min(deadline(&line.near[i]), deadline(&line.far[i])));
    }
    assert_true(next != INSTANT_NEVER);
    line.now = next > line.now ? next : line.now;
    datagram_net_advance(line.net);
    for (unsigned i = 0; i <= FLOWS; i++) {
        receive(i);
    }
    for (unsigned i = 0; i < FLOWS; i++) {
        serve_deadline(&line.near[i]);
        serve_deadline(&line.far[i]);
        output(&line.near[i]);
        output(&line.far[i]);
    }
}

/* ---- what they do ---------------------------------------------------------------------------- */

static void post(struct side *s, enum wqe_opcode opcode)
{
    struct send_wqe *wqe = wq_send_slot(rc_wq(s->rc), 0);
    assert_non_null(wqe);
    memset(wqe, 0, offsetof(struct send_wqe, sge));
    wqe->opcode = opcode;
    wqe->rkey = line.key;
    wqe->remote_addr = MESSAGE_LEN;
    wqe->sge_count = 1;
    wqe->sge[0] = (struct sge){0, MESSAGE_LEN, line.key};
    wqe->length = MESSAGE_LEN;
    wq_send_commit(rc_wq(s->rc), 1);
    s->t->ops->on_send_posted(s->t, line.now);
}

static void run_until(struct side *sides, enum wqe_opcode opcode, instant_ns end)
{
    struct cqe cqe;
    while (line.now < end) {
        step();
        for (unsigned i = 0; i < FLOWS; i++) {
            while (cq_poll(sides[i].cq, &cqe, 1) == 1) {
                assert_int_equal(cqe.status, WC_SUCCESS);
                line.completed[i]++;
                post(&sides[i], opcode);
            }
        }
    }
}

struct outcome {
    double goodput; // of the line
    double jain;
};

static struct outcome measure(struct side *sides, enum wqe_opcode opcode)
{
    for (unsigned i = 0; i < FLOWS * DEPTH; i++) {
        post(&sides[i % FLOWS], opcode);
    }
    for (unsigned i = 0; i < FLOWS; i++) {
        output(&sides[i]);
    }
    run_until(sides, opcode, line.now + before_ns);
    memset(line.completed, 0, sizeof line.completed);
    run_until(sides, opcode, line.now + measured_ns);
    double sum = 0, squares = 0;
    for (unsigned i = 0; i < FLOWS; i++) {
        double len = (double)line.completed[i] * MESSAGE_LEN;
        sum += len;
        squares += len * len;
    }
    double line_len = (double)RATE * ((double)measured_ns / NS_PER_S);
    struct outcome o = {sum / line_len, sum * sum / (FLOWS * squares)};
    print_message("# of the line %.2f, Jain %.3f, dropped %llu, marked %llu\n", o.goodput, o.jain,
                  (unsigned long long)datagram_net_overflows(line.net),
                  (unsigned long long)datagram_net_marks(line.net));
    return o;
}

static void writes_share_the_line(void **state)
{
    open_line((struct line_options){0});
    struct outcome o = measure(line.near, WQE_RDMA_WRITE);
    assert_true(o.goodput > 0.8);
    assert_true(o.jain > 0.9);
    close_line();
}

// Their answers are what fills it.
static void reads_share_the_line(void **state)
{
    open_line((struct line_options){0});
    struct outcome o = measure(line.far, WQE_RDMA_READ);
    assert_true(o.goodput > 0.85);
    assert_true(o.jain > 0.9);
    close_line();
}

static void marks_keep_the_queue_from_being_full(void **state)
{
    open_line((struct line_options){.mark_len = QUEUE_LEN / 4});
    struct outcome o = measure(line.near, WQE_RDMA_WRITE);
    assert_true(o.goodput > 0.8);
    assert_true(datagram_net_marks(line.net) > 0);
    assert_int_equal(datagram_net_overflows(line.net), 0);
    close_line();
}

static double goodput_of_writes(unsigned loss, bool is_plain)
{
    open_line((struct line_options){.loss = loss, .is_plain = is_plain});
    struct outcome o = measure(line.near, WQE_RDMA_WRITE);
    close_line();
    return o.goodput;
}

// Between weft ends only what is lost leaves again.
static void losses_cost_strangers_more(void **state)
{
    double to_stranger = goodput_of_writes(10, true), to_weft = goodput_of_writes(10, false);
    assert_true(to_weft > 0.92);
    assert_true(to_weft > 1.1 * to_stranger);
    to_stranger = goodput_of_writes(50, true), to_weft = goodput_of_writes(50, false);
    assert_true(to_weft > 1.5 * to_stranger);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_share_the_line),
        cmocka_unit_test(reads_share_the_line),
        cmocka_unit_test(marks_keep_the_queue_from_being_full),
        cmocka_unit_test(losses_cost_strangers_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
