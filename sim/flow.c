#include "sim/flow.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "base/transport.h"
#include "rnic/post.h"
#include "sim/node.h"
#include "sim/params.h"
#include "sim/path.h"
#include "sim/sim.h"
#include "sim/stranger.h"
#include "sim/tamper.h"
#include "wire/grh.h"

enum {
    QKEY = 0x22222222,
    PSN_MASK = 0xffffff,
    HEADER_LEN = 8, // of a message: its flow and its number
    PACKETS_MAX = 5,
    TURMOIL_ONE_IN = 8,
    ACCESS_LOCAL = 1,
    ACCESS_TARGET = 1 | 2,
    STATUS_SUCCESS = 0,         // values of enum ibv_wc_status,
    OPCODE_RECV_WITH_IMM = 129, // ibv_wc_opcode
    GRH_OFF_IPV4_SRC = 32,
    GRH_OFF_IPV6_SRC = 8,
};

#define FAIL(flow, format, ...) \
    sim_fail((flow)->sim, "flow %u: " format, (flow)->index __VA_OPT__(, ) __VA_ARGS__)

static uint32_t message_max(const struct sim_flow *f)
{
    uint32_t mtu = f->sim->params.roce.path_mtu;
    return f->type == RNIC_QP_UD ? mtu : PACKETS_MAX * mtu;
}

static uint32_t front_len(const struct sim_flow *f)
{
    return f->type == RNIC_QP_UD ? GRH_LEN : 0;
}

/* ---- making ---------------------------------------------------------------------------------- */

static bool block_make(struct sim_flow *f, struct sim_node *node, struct sim_block *block,
                       uint32_t len, uint32_t access)
{
    if (!sim_block_init(block, len, &f->sim->rng)) {
        return false;
    }
    block->pd = node->pd;
    block->access = access;
    return sim_node_register(node, block);
}

static struct rnic_qp *qp_make(struct sim_flow *f, struct sim_node *node, struct rnic_cq *cq)
{
    const struct rnic_qp_init init = {
        .type = f->type,
        .pd = node->pd,
        .send_cq = cq,
        .recv_cq = cq,
        .max_send_wr = SIM_FLOW_RECEIVES,
        .max_recv_wr = SIM_FLOW_RECEIVES,
        .max_send_sge = 1,
        .max_recv_sge = 1,
        .sq_sig_all = true,
    };
    const struct qp_change to_init = {
        .mask = QP_CHANGE_STATE | QP_CHANGE_QKEY | QP_CHANGE_RIGHTS,
        .state = QP_INIT,
        .qkey = QKEY,
        .rights = MEM_ACCESS_REMOTE_WRITE,
    };
    struct rnic_qp *qp = NULL;
    return rnic_qp_create(node->rnic, &init, &qp) == 0 && rnic_qp_change(qp, &to_init) == 0 ? qp
                                                                                            : NULL;
}

static struct datagram_path path_between(const struct sim_node *local,
                                         const struct sim_node *remote)
{
    const struct sim_path *path = &local->sim->path;
    return (struct datagram_path){.local = sim_path_addr(path, &local->addr),
                                  .remote = sim_path_addr(path, &remote->addr)};
}

static bool make_ready(struct sim_flow *f, struct rnic_qp *qp, const struct rnic_qp *peer,
                       const struct datagram_path *path, uint32_t psn)
{
    const struct qp_change to_rtr = {
        .mask = QP_CHANGE_STATE | QP_CHANGE_PATH | QP_CHANGE_PATH_MTU | QP_CHANGE_DEST_QP_NUM |
                QP_CHANGE_RQ_PSN,
        .state = QP_RTR,
        .path = *path,
        .path_mtu = f->sim->params.roce.path_mtu,
        .dest_qp_num = peer->qp_num,
        .rq_psn = psn,
    };
    const struct qp_change ud_to_rtr = {.mask = QP_CHANGE_STATE, .state = QP_RTR};
    const struct qp_change to_rts = {
        .mask = QP_CHANGE_STATE | QP_CHANGE_SQ_PSN, .state = QP_RTS, .sq_psn = psn};
    return rnic_qp_change(qp, f->type == RNIC_QP_UD ? &ud_to_rtr : &to_rtr) == 0 &&
           rnic_qp_change(qp, &to_rts) == 0;
}

static bool flow_make(struct sim_flow *f)
{
    uint32_t psn = UINT32_C(0) - prng_below(&f->sim->rng, 64); // it wraps soon
    const struct cq_port silent = {0};
    const struct datagram_path there = path_between(f->from, f->to);
    const struct datagram_path back = path_between(f->to, f->from);
    uint32_t len = message_max(f), room_len = 2 * SIM_FLOW_MESSAGES * (len + GRH_LEN);
    if (!block_make(f, f->from, &f->source, 4 * SIM_FLOW_RECEIVES * len, ACCESS_LOCAL) ||
        !block_make(f, f->to, &f->target, room_len, ACCESS_TARGET) ||
        !block_make(f, f->to, &f->receives, 4 * SIM_FLOW_RECEIVES * (len + GRH_LEN),
                    ACCESS_LOCAL) ||
        rnic_cq_create(f->from->rnic, 4 * SIM_FLOW_RECEIVES, &silent, &f->send_cq) != 0 ||
        rnic_cq_create(f->to->rnic, 4 * SIM_FLOW_RECEIVES, &silent, &f->recv_cq) != 0) {
        return false;
    }
    f->sender = qp_make(f, f->from, f->send_cq);
    f->receiver = qp_make(f, f->to, f->recv_cq);
    return f->sender != NULL && f->receiver != NULL &&
           make_ready(f, f->receiver, f->sender, &back, psn & PSN_MASK) &&
           make_ready(f, f->sender, f->receiver, &there, psn & PSN_MASK);
}

bool sim_flows_init(struct sim *sim)
{
    for (unsigned i = 0; i < sim->params.roce.flows; i++) {
        struct sim_flow *f = &sim->flow[i];
        *f = (struct sim_flow){
            .sim = sim,
            .index = i,
            .type = sim_draw(sim, 2) ? RNIC_QP_UD : RNIC_QP_UC,
            .from = &sim->node[prng_below(&sim->rng, sim->params.nodes)],
            .to = &sim->node[prng_below(&sim->rng, sim->params.nodes)],
        };
        if (!flow_make(f)) {
            FAIL(f, "cannot be made");
            return false;
        }
    }
    return true;
}

/* ---- sending --------------------------------------------------------------------------------- */

static bool message_draw(struct sim_flow *f, struct sim_flow_message *m)
{
    struct prng *rng = &f->sim->rng;
    const uint32_t header[] = {f->index, f->posted};
    *m = (struct sim_flow_message){
        .is_write = f->type == RNIC_QP_UC && sim_draw(f->sim, 2),
        .has_immediate = sim_draw(f->sim, 2),
        .len = HEADER_LEN + prng_below(rng, message_max(f) - HEADER_LEN + 1),
    };
    if (!sim_claim_take(&m->source, &f->source, SIM_CLAIM_SOURCE, m->len, 1, rng)) {
        return false;
    }
    if (m->is_write && !sim_claim_take(&m->target, &f->target, SIM_CLAIM_TARGET, m->len, 1, rng)) {
        sim_claim_release(&m->source);
        return false;
    }
    m->content = malloc(m->len);
    if (m->content == NULL) {
        return false;
    }
    sim_claim_scribble(&m->source, rng);
    sim_claims_read(&m->source, 1, m->content);
    memcpy(m->content, header, sizeof header);
    sim_claims_write(&m->source, 1, m->content);
    return true;
}

static void fill(struct sim_flow *f, const struct sim_flow_message *m, struct send_wqe *wqe)
{
    static const enum wqe_opcode opcodes[2][2] = {{WQE_SEND, WQE_SEND_WITH_IMM},
                                                  {WQE_RDMA_WRITE, WQE_RDMA_WRITE_WITH_IMM}};
    wqe->wr_id = f->posted;
    wqe->opcode = opcodes[m->is_write][m->has_immediate];
    wqe->flags = 0;
    wqe->imm_or_inv = f->posted;
    wqe->length = m->len;
    wqe->sge_count = 1;
    wqe->sge[0] =
        (struct sge){.addr = sim_claim_addr(&m->source), .length = m->len, .lkey = f->source.stag};
    if (m->is_write) {
        wqe->remote_addr = sim_claim_addr(&m->target);
        wqe->rkey = f->target.stag;
    }
    if (f->type == RNIC_QP_UD) {
        *rnic_sq_address(f->sender, wqe) =
            (struct roce_address){.path = path_between(f->from, f->to),
                                  .qpn = f->receiver != NULL ? f->receiver->qp_num : PSN_MASK - 1,
                                  .qkey = QKEY};
    }
}

static void post_send(struct sim_flow *f)
{
    struct rnic_sq_cursor cursor;
    struct sim_flow_message *m = &f->message[f->posted];
    if (f->posted == SIM_FLOW_MESSAGES || f->posted - f->completed == SIM_FLOW_RECEIVES ||
        !message_draw(f, m)) {
        return;
    }
    rnic_sq_begin(&cursor, f->sender);
    struct send_wqe *wqe = rnic_sq_slot(&cursor);
    if (wqe == NULL) {
        FAIL(f, "the send queue says full with %u posted", f->posted - f->completed);
    } else {
        fill(f, m, wqe);
        f->posted++;
        rnic_sq_commit(&cursor);
    }
    rnic_sq_end(&cursor);
}

static void post_receive(struct sim_flow *f)
{
    struct rnic_rq_cursor cursor;
    uint32_t len = message_max(f) + front_len(f);
    struct sim_claim *claim =
        &f->receive[(f->receive_first + f->receive_count) % SIM_FLOW_RECEIVES];
    if (f->receiver == NULL || f->receive_count == SIM_FLOW_RECEIVES ||
        !sim_claim_take(claim, &f->receives, SIM_CLAIM_TARGET, len, 1, &f->sim->rng)) {
        return;
    }
    // The claim is linked: it stays where it is.
    rnic_rq_begin(&cursor, f->receiver);
    struct recv_wqe *wqe = rnic_rq_slot(&cursor);
    if (wqe == NULL) {
        FAIL(f, "the receive queue says full with %u posted", f->receive_count);
    } else {
        wqe->wr_id = f->receive_first + f->receive_count++;
        wqe->sge_count = 1;
        wqe->sge[0] =
            (struct sge){.addr = sim_claim_addr(claim), .length = len, .lkey = f->receives.stag};
        rnic_rq_commit(&cursor);
    }
    rnic_rq_end(&cursor);
}

// Nothing is placed for it any more.
static void destroy_receiver(struct sim_flow *f)
{
    sim_trace(f->sim, "flow %u: its receiver is destroyed", f->index);
    rnic_qp_destroy(f->receiver);
    f->receiver = NULL;
    while (f->receive_count > 0) {
        sim_claims_settle(&f->receive[f->receive_first++ % SIM_FLOW_RECEIVES], 1);
        f->receive_count--;
    }
}

static void flow_act(struct sim_flow *f)
{
    struct sim *sim = f->sim;
    for (unsigned i = prng_below(&sim->rng, 4); i > 0; i--) {
        post_send(f);
    }
    for (unsigned i = prng_below(&sim->rng, 4); i > 0; i--) {
        post_receive(f);
    }
    if (f->receiver != NULL && sim->params.turmoil > 0 &&
        prng_below(&sim->rng, 1024) < sim->params.turmoil && sim_draw(sim, TURMOIL_ONE_IN)) {
        destroy_receiver(f);
    }
}

void sim_flows_act(struct sim *sim)
{
    for (unsigned i = 0; i < sim->params.roce.flows && !sim->has_failed; i++) {
        flow_act(&sim->flow[i]);
    }
}

/* ---- what comes of it ------------------------------------------------------------------------ */

static void on_sent(struct sim_flow *f, const struct cqe *cqe)
{
    struct sim_flow_message *m = &f->message[f->completed];
    if (cqe->wr_id != f->completed || f->completed == f->posted) {
        FAIL(f, "message %u completes, and %u is due", (unsigned)cqe->wr_id, f->completed);
    } else if (cqe->status != STATUS_SUCCESS) {
        FAIL(f, "message %u completes with status %u", f->completed, cqe->status);
    } else {
        sim_claim_scribble(&m->source, &f->sim->rng); // the program's again
        sim_claim_release(&m->source);
        f->completed++;
    }
}

static bool keeps_order(const struct sim_params *p)
{
    return p->packet_reorder == 0 && p->packet_duplicate == 0;
}

// Its number is in the message, or in its immediate data.
static struct sim_flow_message *message_of(struct sim_flow *f, const struct cqe *cqe,
                                           const uint8_t *octets, uint32_t *ret_number)
{
    uint32_t header[2] = {f->index, cqe->imm_data};
    bool is_write = cqe->opcode == OPCODE_RECV_WITH_IMM;
    if (!is_write && cqe->byte_len >= front_len(f) + HEADER_LEN) {
        memcpy(header, octets + front_len(f), sizeof header);
    }
    *ret_number = header[1];
    bool is_known = header[0] == f->index && header[1] < f->posted &&
                    f->message[header[1]].is_write == is_write;
    return is_known ? &f->message[header[1]] : NULL;
}

// What it says of where a datagram is from.
static bool is_from(const struct sim_flow *f, const uint8_t *grh, const struct in_addr *addr)
{
    const struct in6_addr whole = sim_path_addr(&f->sim->path, addr);
    return f->sim->params.roce.has_ipv6 ? memcmp(grh + GRH_OFF_IPV6_SRC, &whole, sizeof whole) == 0
                                        : memcmp(grh + GRH_OFF_IPV4_SRC, addr, sizeof *addr) == 0;
}

// Whoever knows the Q_Key may send datagrams, and says who it is.
static bool is_strange(const struct sim_flow *f, const uint8_t *octets)
{
    const struct in_addr addr = sim_stranger_addr();
    return f->type == RNIC_QP_UD && is_from(f, octets, &addr);
}

static void check_message(struct sim_flow *f, const struct cqe *cqe, const uint8_t *octets)
{
    uint32_t number;
    struct sim_flow_message *m = message_of(f, cqe, octets, &number);
    const struct sim_params *p = &f->sim->params;
    unsigned copies = p->packet_duplicate > 0 ? 2 : 1;
    if (m == NULL) {
        FAIL(f, "a message is received that nobody sent");
        return;
    }
    const uint8_t *content =
        m->is_write ? m->target.block->octets + m->target.at : octets + front_len(f);
    if (cqe->byte_len != m->len + (m->is_write ? 0 : front_len(f)) ||
        ((cqe->wc_flags & WC_WITH_IMM) != 0) != m->has_immediate ||
        (m->has_immediate && cqe->imm_data != number)) {
        FAIL(f, "message %u is received with length %u flags %u", number, cqe->byte_len,
             cqe->wc_flags);
    } else if (memcmp(content, m->content, m->len) != 0) {
        FAIL(f, "message %u is received with other octets than were sent", number);
    } else if (++m->received > copies) {
        FAIL(f, "message %u is received %u times", number, m->received);
    } else if (number < f->next_order && keeps_order(p)) {
        FAIL(f, "message %u is received behind message %u", number, f->next_order - 1);
    } else if (f->type == RNIC_QP_UD &&
               (!is_from(f, octets, &f->from->addr) || cqe->src_qp != f->sender->qp_num)) {
        FAIL(f, "message %u is received as somebody else's", number);
    }
    f->next_order = number + 1;
    f->sim->deliveries++;
}

static void on_received(struct sim_flow *f, const struct cqe *cqe)
{
    struct sim_claim *claim = &f->receive[f->receive_first % SIM_FLOW_RECEIVES];
    if (f->receive_count == 0 || cqe->wr_id != f->receive_first) {
        FAIL(f, "receive %u completes, and %u is due", (unsigned)cqe->wr_id, f->receive_first);
        return;
    }
    if (cqe->status != STATUS_SUCCESS) {
        FAIL(f, "receive %u completes with status %u", f->receive_first, cqe->status);
    } else if (!is_strange(f, claim->block->octets + claim->at)) {
        check_message(f, cqe, claim->block->octets + claim->at);
    }
    sim_claims_settle(claim, 1);
    f->receive_first++;
    f->receive_count--;
}

static void poll(struct sim_flow *f, struct rnic_cq *cq,
                 void (*on_completion)(struct sim_flow *f, const struct cqe *cqe))
{
    struct cqe cqe;
    while (!f->sim->has_failed && rnic_cq_poll(cq, &cqe, 1) == 1) {
        unsigned times = sim_tamper_flow(f->sim, &cqe) ? 2 : 1;
        f->sim->activity++;
        f->sim->completions++;
        for (unsigned i = 0; i < times && !f->sim->has_failed; i++) {
            on_completion(f, &cqe);
        }
    }
}

void sim_flows_notice(struct sim *sim)
{
    for (unsigned i = 0; i < sim->params.roce.flows; i++) {
        struct sim_flow *f = &sim->flow[i];
        poll(f, f->send_cq, on_sent);
        poll(f, f->recv_cq, on_received);
        if (f->completed == SIM_FLOW_MESSAGES && f->over_at_ns == 0) {
            f->over_at_ns = instant_after(sim->now_ns, NS_PER_S);
        }
    }
}

/* ---- the end --------------------------------------------------------------------------------- */

bool sim_flows_are_over(const struct sim *sim)
{
    for (unsigned i = 0; i < sim->params.roce.flows; i++) {
        const struct sim_flow *f = &sim->flow[i];
        if (f->over_at_ns == 0 || sim->now_ns < f->over_at_ns) {
            return false;
        }
    }
    return true;
}

static void check_block(struct sim_flow *f, const struct sim_block *block, const char *name)
{
    char text[SIM_BLOCK_FAULT_TEXT_LEN];
    if (!sim_block_check(block, text)) {
        FAIL(f, "%s: %s", name, text);
    }
}

static void flow_check(struct sim_flow *f)
{
    check_block(f, &f->source, "memory that is sent from");
    check_block(f, &f->target, "memory that is written to");
    check_block(f, &f->receives, "memory of receives");
    for (unsigned i = 0; i < f->posted; i++) {
        const struct sim_flow_message *m = &f->message[i];
        size_t placed;
        if (m->is_write && !sim_claims_placed(&m->target, 1, m->content, m->len, true, &placed)) {
            FAIL(f, "what message %u writes to holds other octets than were sent", i);
        }
    }
}

void sim_flows_check_memory(struct sim *sim)
{
    for (unsigned i = 0; i < sim->params.roce.flows; i++) {
        flow_check(&sim->flow[i]);
    }
}

static void block_end(struct sim_node *node, struct sim_block *block)
{
    if (block->stag != 0) {
        rnic_region_deregister(node->rnic, block->stag);
    }
    sim_block_fini(block);
}

static void flow_fini(struct sim_flow *f)
{
    if (f->sender != NULL) {
        rnic_qp_destroy(f->sender);
    }
    if (f->receiver != NULL) {
        rnic_qp_destroy(f->receiver);
    }
    if (f->send_cq != NULL) {
        rnic_cq_destroy(f->send_cq);
    }
    if (f->recv_cq != NULL) {
        rnic_cq_destroy(f->recv_cq);
    }
    for (unsigned i = 0; i < SIM_FLOW_MESSAGES; i++) {
        free(f->message[i].content);
    }
    if (f->from != NULL) {
        block_end(f->from, &f->source);
        block_end(f->to, &f->target);
        block_end(f->to, &f->receives);
    }
}

void sim_flows_fini(struct sim *sim)
{
    for (unsigned i = 0; i < SIM_FLOW_MAX; i++) {
        flow_fini(&sim->flow[i]);
    }
}
