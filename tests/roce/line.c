#include "tests/roce/line.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "link/datagram/slot.h"
#include "mem/table.h"
#include "roce/rc_store.h"
#include "wq/filling.h"

enum {
    PMTU = 1024,
    MESSAGE_LEN = 64 * 1024,
    DEPTH = 8, // messages posted at a time
    MEMORY_LEN = 2 * MESSAGE_LEN,
};

static const duration_ns before_ns = 20 * NS_PER_MS, measured_ns = 60 * NS_PER_MS;

struct line line;

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
        .share = line.config.room_len > 0 ? &line.shares[link] : NULL,
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

static void open_net(void)
{
    const struct line_config *c = &line.config;
    struct datagram_net_config config = {
        .clock = clock_of,
        .faults = {.loss = c->loss * (FAULT_ONE / 1000),
                   .burst = 1,
                   .delay_ns = c->rtt_ns / 2,
                   .seed = 1},
        .mtu = PMTU + 100,
        .rate = LINE_RATE,
        .queue_len = c->queue_len,
        .mark_len = c->mark_len,
        .receive_buffer_len = c->receive_buffer_len,
    };
    line.net = datagram_net_create(&config);
    line.near_links = c->is_one_process ? 1 : c->flows;
    line.shared_link = line.near_links;
    for (unsigned i = 0; i <= line.shared_link; i++) {
        struct in6_addr address = address_of(i);
        line.links[i] = datagram_net_attach(line.net, &address, 1);
        assert_int_equal(datagram_open(line.links[i], &address, 0), 0);
        congestion_share_init(&line.shares[i], c->room_len);
    }
}

static void open_memory(void)
{
    uint8_t key[STAG_KEY_LEN] = {3};
    line.mem = mem_table_create(key, 16384, (struct mem_probe){0});
    assert_int_equal(mem_pd_alloc(line.mem, &line.pd), 0);
    line.memory = calloc(1, MEMORY_LEN);
    line.store = rc_store_create(RC_STORE_BLOCKS);
    assert_int_equal(mem_region_register(line.mem, line.pd, line.memory, MEMORY_LEN, 0,
                                         MEM_ACCESS_LOCAL_WRITE | MEM_ACCESS_REMOTE_READ |
                                             MEM_ACCESS_REMOTE_WRITE,
                                         &line.key),
                     0);
}

void open_line(const struct line_config *config)
{
    line = (struct line){.now = NS_PER_S, .config = *config};
    open_net();
    open_memory();
    for (unsigned i = 0; i < config->flows; i++) {
        unsigned near = i % line.near_links;
        create(&line.near[i], near, i, false);
        create(&line.far[i], line.shared_link, i, config->is_plain);
        connect_side(&line.near[i], &line.far[i], near, line.shared_link);
        connect_side(&line.far[i], &line.near[i], line.shared_link, near);
    }
}

static void close_side(struct side *s)
{
    assert_true(s->t->ops->check(s->t));
    s->t->ops->silence(s->t);
    s->t->ops->destroy(s->t);
    cq_destroy(s->cq);
}

void close_line(void)
{
    for (unsigned i = 0; i < line.config.flows; i++) {
        close_side(&line.near[i]);
        close_side(&line.far[i]);
    }
    for (unsigned i = 0; i <= line.shared_link; i++) {
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
    bool is_full = false;
    while (!is_full && s->t->ops->has_output(s->t)) {
        s->t->ops->output(s->t, &sink, line.now);
        is_full = !datagram_flush(s->link);
    }
}

static struct side *side_of(unsigned link, const struct datagram_rx *rx)
{
    uint32_t number = datagram_dest_qp(rx->octets) - line.links[link]->qp_num_first - 16;
    return link == line.shared_link ? &line.far[number] : &line.near[number];
}

// A process that has other things to do looks now and then.
static bool is_awake(void)
{
    return line.config.nap_ns == 0 || line.now >= line.wakes_ns;
}

static void receive(unsigned link)
{
    struct datagram_rx rx[64];
    unsigned count;
    do {
        count = datagram_receive(line.links[link], rx, 64, line.now);
        for (unsigned i = 0; i < count; i++) {
            struct side *s = side_of(link, &rx[i]);
            s->t->ops->on_packet(s->t, &rx[i], line.now);
            if (i + 1 == count || side_of(link, &rx[i + 1]) != s) {
                transport_packets_over(s->t, line.now);
            }
        }
    } while (count == 64);
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
    for (unsigned i = 0; i < line.config.flows; i++) {
        next = instant_min(next, instant_min(deadline(&line.near[i]), deadline(&line.far[i])));
    }
    next = line.config.nap_ns > 0 ? instant_min(next, line.wakes_ns) : next;
    assert_true(next != INSTANT_NEVER);
    line.now = next > line.now ? next : line.now;
    datagram_net_advance(line.net);
    if (is_awake()) {
        for (unsigned i = 0; i <= line.shared_link; i++) {
            receive(i);
        }
        line.wakes_ns = line.now + line.config.nap_ns;
    }
    for (unsigned i = 0; i < line.config.flows; i++) {
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
        for (unsigned i = 0; i < line.config.flows; i++) {
            while (cq_poll(sides[i].cq, &cqe, 1) == 1) {
                if (cqe.status == WC_SUCCESS) {
                    line.completed[i]++;
                    post(&sides[i], opcode);
                } else {
                    line.failed++;
                }
            }
        }
    }
}

static void count_overflows(void *ctx, const char *name, uint64_t value)
{
    *(uint64_t *)ctx += strcmp(name, "buffer_overflows") == 0 ? value : 0;
}

struct outcome measure(struct side *sides, enum wqe_opcode opcode)
{
    for (unsigned i = 0; i < line.config.flows * DEPTH; i++) {
        post(&sides[i % line.config.flows], opcode);
    }
    for (unsigned i = 0; i < line.config.flows; i++) {
        output(&sides[i]);
    }
    run_until(sides, opcode, line.now + before_ns);
    memset(line.completed, 0, sizeof line.completed);
    run_until(sides, opcode, line.now + measured_ns);
    double sum = 0, squares = 0;
    for (unsigned i = 0; i < line.config.flows; i++) {
        double len = (double)line.completed[i] * MESSAGE_LEN;
        sum += len;
        squares += len * len;
    }
    double line_len = (double)LINE_RATE * ((double)measured_ns / NS_PER_S);
    struct outcome o = {sum / line_len, sum * sum / (line.config.flows * squares)};
    o.failed = line.failed;
    for (unsigned i = 0; i <= line.shared_link; i++) {
        datagram_counters(line.links[i], count_overflows, &o.overflows);
    }
    print_message("# of the line %.2f, Jain %.3f, dropped %llu and %llu, marked %llu\n", o.goodput,
                  o.jain, (unsigned long long)datagram_net_overflows(line.net),
                  (unsigned long long)o.overflows,
                  (unsigned long long)datagram_net_marks(line.net));
    return o;
}
