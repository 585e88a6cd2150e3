#include "sim/traffic.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/prng.h"
#include "rnic/rnic.h"
#include "sim/command.h"
#include "sim/node.h"
#include "sim/oracle_memory.h"
#include "sim/params.h"
#include "sim/sim.h"
#include "wq/filling.h"

enum { ATOMIC_LEN = 8, WINDOW_KEY_MASK = 0xff, WINDOW_RIGHTS = 2 | 4 | 8 };

/* ---- what each opcode needs ------------------------------------------------------------------ */

enum remote_use { REMOTE_NONE, REMOTE_TARGET, REMOTE_SOURCE, REMOTE_ATOMIC };

static const struct {
    enum remote_use remote;
    bool may_inline;
    bool has_immediate;
    uint32_t weight; // how often it is drawn
} facts[WQE_OPCODE_COUNT] = {
    [WQE_RDMA_WRITE] = {REMOTE_TARGET, .may_inline = true, .weight = 6},
    [WQE_RDMA_WRITE_WITH_IMM] = {REMOTE_TARGET, true, true, 3},
    [WQE_SEND] = {.may_inline = true, .weight = 6},
    [WQE_SEND_WITH_IMM] = {REMOTE_NONE, true, true, 2},
    [WQE_RDMA_READ] = {REMOTE_SOURCE, .weight = 6},
    [WQE_ATOMIC_CMP_AND_SWP] = {REMOTE_ATOMIC, .weight = 2},
    [WQE_ATOMIC_FETCH_AND_ADD] = {REMOTE_ATOMIC, .weight = 2},
    [WQE_LOCAL_INV] = {.weight = 1},
    [WQE_BIND_MW] = {.weight = 3},
    [WQE_SEND_WITH_INV] = {.may_inline = true, .weight = 2},
};

static enum wqe_opcode draw_opcode(struct sim *sim)
{
    uint32_t total = 0;
    for (unsigned i = 0; i < WQE_OPCODE_COUNT; i++) {
        total += facts[i].weight;
    }
    uint32_t drawn = prng_below(&sim->rng, total);
    unsigned opcode = 0;
    while (drawn >= facts[opcode].weight) {
        drawn -= facts[opcode++].weight;
    }
    return (enum wqe_opcode)opcode;
}

static uint32_t draw_len(struct sim *sim)
{
    uint32_t max = sim->params.message_max_len;
    switch (prng_below(&sim->rng, 8)) {
    case 0:
        return 0;
    case 1:
        return prng_below(&sim->rng, 16);
    case 2:
    case 3:
    case 4:
        return prng_below(&sim->rng, max < 512 ? max + 1 : 512);
    default:
        return prng_below(&sim->rng, max + 1);
    }
}

static struct sim_block *draw_block(struct sim_node *node)
{
    return &node->block[prng_below(&node->sim->rng, SIM_BLOCK_OPEN_COUNT)];
}

// Local memory needs no remote rights.
static struct sim_block *draw_local_block(struct sim_node *node, enum sim_claim_kind kind)
{
    return kind == SIM_CLAIM_SOURCE && sim_draw(node->sim, 8) ? &node->block[SIM_BLOCK_PRIVATE]
                                                              : draw_block(node);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void claims_release(struct sim_claim *claims, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        sim_claim_release(&claims[i]);
    }
}

// Cuts `len` octets into at most `pieces_max` claimed pieces. 0 with *ret_ok false: no place.
// `block` NULL: a drawn one for each.
static unsigned claim_pieces(struct sim_node *node, struct sim_claim *claims, uint32_t len,
                             struct sim_block *block, unsigned pieces_max, enum sim_claim_kind kind,
                             bool *ret_ok)
{
    struct sim *sim = node->sim;
    unsigned count = 1 + prng_below(&sim->rng, pieces_max);
    for (unsigned i = 0; i < count; i++) {
        uint32_t piece = i + 1 == count ? len : prng_below(&sim->rng, len + 1);
        struct sim_block *from = block != NULL ? block : draw_local_block(node, kind);
        if (!sim_claim_take(&claims[i], from, kind, piece, 1, &sim->rng)) {
            claims_release(claims, i);
            *ret_ok = false;
            return 0;
        }
        len -= piece;
    }
    *ret_ok = true;
    return count;
}

static void fill_sges(struct sge *sge, const struct sim_claim *claims, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        sge[i] = (struct sge){.addr = sim_claim_addr(&claims[i]),
                              .length = claims[i].len,
                              .lkey = claims[i].block->stag};
    }
}

static void op_free(struct sim_op *op)
{
    claims_release(op->local, op->local_count);
    sim_claim_release(&op->remote);
    free(op->content);
    free(op);
}

/* ---- shaping a work request ------------------------------------------------------------------ */

static bool is_inline(struct sim *sim, const struct sim_op *op)
{
    return facts[op->opcode].may_inline && op->len <= sim->params.inline_max_len &&
           sim_draw(sim, 2);
}

// Octets that leave from here: drawn, in claimed memory or inline.
static bool shape_outgoing(struct sim_side *side, struct sim_op *op, struct send_wqe *wqe)
{
    struct sim *sim = side->pair->sim;
    bool ok = true;
    if (is_inline(sim, op)) {
        wqe->flags |= WQE_INLINE;
        for (uint32_t i = 0; i < op->len; i++) {
            op->content[i] = (uint8_t)prng_next(&sim->rng);
        }
        return true;
    }
    if (op->len > 0 || sim_draw(sim, 2)) {
        op->local_count = claim_pieces(side->node, op->local, op->len, NULL, sim->params.sge_max,
                                       SIM_CLAIM_SOURCE, &ok);
    }
    for (unsigned i = 0; ok && i < op->local_count; i++) {
        sim_claim_scribble(&op->local[i], &sim->rng);
    }
    sim_claims_read(op->local, op->local_count, op->content);
    return ok;
}

static bool shape_remote(struct sim_side *side, struct sim_op *op, enum sim_claim_kind kind,
                         uint32_t align)
{
    struct sim *sim = side->pair->sim;
    struct sim_side *peer = sim_side_peer(side);
    struct sim_block *block = draw_block(peer->node);
    if (peer->window.state == SIM_WINDOW_BOUND && sim_draw(sim, 2)) {
        block = peer->window.block;
    }
    return sim_claim_take(&op->remote, block, kind, op->len, align, &sim->rng);
}

static bool shape_read(struct sim_side *side, struct sim_op *op)
{
    struct sim *sim = side->pair->sim;
    bool ok;
    if (!shape_remote(side, op, SIM_CLAIM_SOURCE, 1)) {
        return false;
    }
    sim_claim_scribble(&op->remote, &sim->rng);
    sim_claims_read(&op->remote, 1, op->content);
    op->local_count = claim_pieces(side->node, op->local, op->len, NULL, sim->params.sge_max,
                                   SIM_CLAIM_TARGET, &ok);
    return ok;
}

static bool shape_atomic(struct sim_side *side, struct sim_op *op, struct send_wqe *wqe)
{
    struct sim *sim = side->pair->sim;
    uint64_t original, written, operand = prng_next(&sim->rng);
    bool ok;
    if (!shape_remote(side, op, SIM_CLAIM_TARGET, ATOMIC_LEN)) {
        return false;
    }
    sim_claims_read(&op->remote, 1, op->content);
    memcpy(&original, op->content, sizeof original);
    if (op->opcode == WQE_ATOMIC_FETCH_AND_ADD) {
        wqe->compare_add = operand;
        written = original + operand;
    } else {
        wqe->compare_add = sim_draw(sim, 4) ? ~original : original;
        wqe->swap = operand;
        written = wqe->compare_add == original ? operand : original;
    }
    memcpy(op->written, &written, sizeof written);
    op->local_count = claim_pieces(side->node, op->local, op->len, NULL, 1, SIM_CLAIM_TARGET, &ok);
    return ok;
}

static bool shape_bind(struct sim_side *side, struct sim_op *op, struct send_wqe *wqe)
{
    struct sim_window *w = &side->window;
    if (w->state != SIM_WINDOW_FREE) {
        return false;
    }
    uint32_t key = (w->rkey + 1) & WINDOW_KEY_MASK;
    w->block = draw_block(side->node);
    w->rkey = (w->rkey & ~(uint32_t)WINDOW_KEY_MASK) | key;
    w->state = SIM_WINDOW_CHANGING;
    op->window = w;
    wqe->bind = (struct wqe_bind){
        .mw_rkey = w->rkey,
        .lkey = w->block->stag,
        .addr = w->block->iova,
        .length = w->block->len,
        .access = WINDOW_RIGHTS,
    };
    return true;
}

// The window ends for its users: none may be under way.
static bool shape_invalidate(struct sim_op *op, struct sim_window *w, struct send_wqe *wqe)
{
    if (w->state != SIM_WINDOW_BOUND || w->users > 0) {
        return false;
    }
    w->state = SIM_WINDOW_CHANGING;
    op->window = w;
    wqe->imm_or_inv = w->rkey;
    return true;
}

static bool shape(struct sim_side *side, struct sim_op *op, struct send_wqe *wqe)
{
    switch (op->opcode) {
    case WQE_RDMA_WRITE:
    case WQE_RDMA_WRITE_WITH_IMM:
        return shape_outgoing(side, op, wqe) && shape_remote(side, op, SIM_CLAIM_TARGET, 1);
    case WQE_SEND_WITH_INV:
        return shape_outgoing(side, op, wqe) &&
               shape_invalidate(op, &sim_side_peer(side)->window, wqe);
    case WQE_RDMA_READ:
        return shape_read(side, op);
    case WQE_ATOMIC_CMP_AND_SWP:
    case WQE_ATOMIC_FETCH_AND_ADD:
        return shape_atomic(side, op, wqe);
    case WQE_BIND_MW:
        return shape_bind(side, op, wqe);
    case WQE_LOCAL_INV:
        return shape_invalidate(op, &side->window, wqe);
    case WQE_SEND:
        if (!shape_outgoing(side, op, wqe)) {
            return false;
        }
        sim_command_draw(side, op, wqe);
        return true;
    default:
        return shape_outgoing(side, op, wqe);
    }
}

/* ---- names for the peer's memory ------------------------------------------------------------- */

static void name_remote(struct sim_side *side, struct sim_op *op, struct send_wqe *wqe)
{
    struct sim_window *w = &sim_side_peer(side)->window;
    wqe->remote_addr = sim_claim_addr(&op->remote);
    wqe->rkey = op->remote.block->stag;
    if (w->state == SIM_WINDOW_BOUND && w->block == op->remote.block &&
        sim_draw(side->pair->sim, 2)) {
        wqe->rkey = w->rkey;
        w->users++;
        op->window = w;
    }
    sim_command_name(side, op, wqe);
}

// The names are wrong in the way that `op->mistake` says: nothing at the peer may change, but for
// what lies in bounds of a message that leaves them later.
static void name_wrongly(struct sim_side *side, struct sim_op *op, struct send_wqe *wqe)
{
    struct sim_node *peer = sim_side_peer(side)->node;
    struct sim_block *block = op->remote.block;
    wqe->rkey = block->stag;
    wqe->remote_addr = sim_claim_addr(&op->remote);
    switch (op->mistake) {
    case SIM_MISTAKE_RKEY:
        wqe->rkey ^= 1U << prng_below(&side->pair->sim->rng, 32);
        if (sim_side_peer(side)->command.closed_stag != 0 && sim_draw(side->pair->sim, 2)) {
            wqe->rkey = sim_side_peer(side)->command.closed_stag;
        }
        break;
    case SIM_MISTAKE_BOUNDS:
        wqe->remote_addr = block->iova + block->len - op->len + 1;
        break;
    case SIM_MISTAKE_WRAP:
        wqe->remote_addr = UINT64_MAX - op->len + 2;
        break;
    case SIM_MISTAKE_ACCESS:
        block = &peer->block[SIM_BLOCK_PRIVATE];
        wqe->rkey = block->stag;
        wqe->remote_addr = block->iova;
        break;
    default:
        block = &peer->block[SIM_BLOCK_FOREIGN];
        wqe->rkey = block->stag;
        wqe->remote_addr = block->iova;
        break;
    }
    sim_claim_release(&op->remote);
    if (op->mistake == SIM_MISTAKE_BOUNDS && facts[op->opcode].remote == REMOTE_TARGET) {
        // All but the last octet lie inside, and may be placed before the end of the block is met.
        uint32_t at = block->len - op->len + 1;
        op->remote = (struct sim_claim){
            .block = block, .at = at, .len = op->len - 1, .kind = SIM_CLAIM_TARGET};
        list_push_tail(&block->claims, &op->remote.link);
    }
}

static bool is_end_free(const struct sim_block *block, uint32_t len)
{
    for (const struct list_link *l = block->claims.next; l != &block->claims; l = l->next) {
        const struct sim_claim *c = LIST_ENTRY(l, const struct sim_claim, link);
        if (c->at + c->len > block->len - len) {
            return false;
        }
    }
    return true;
}

// Can this work request be wrong in that way?
static bool may_mistake(const struct sim_op *op, enum sim_mistake mistake)
{
    bool is_atomic = facts[op->opcode].remote == REMOTE_ATOMIC;
    switch (mistake) {
    case SIM_MISTAKE_LKEY:
        return op->local_count > 0;
    case SIM_MISTAKE_BOUNDS:
        return !is_atomic && is_end_free(op->remote.block, op->len);
    default:
        return true;
    }
}

static void draw_mistake(struct sim_side *side, struct sim_op *op)
{
    struct sim *sim = side->pair->sim;
    enum sim_mistake mistake = (enum sim_mistake)(1 + prng_below(&sim->rng, SIM_MISTAKE_COUNT - 1));
    if (op->len >= 2 && may_mistake(op, mistake)) {
        op->mistake = mistake;
        side->pair->is_disturbed = true;
    }
}

/* ---- posting --------------------------------------------------------------------------------- */

static bool has_room(struct sim_side *side, struct send_wqe **ret)
{
    *ret = wq_send_slot(side->qp->wq, 0);
    if (*ret == NULL && side->sq_used < rnic_qp_caps(side->qp).max_send_wr) {
        sim_fail(side->pair->sim, "pair %u.%u: the send queue says full with %u of %u posted",
                 side->pair->index, side->index, side->sq_used, rnic_qp_caps(side->qp).max_send_wr);
    }
    return *ret != NULL;
}

// The last one is signalled, so that the end of all is seen; and one in each half of the queue.
static bool draw_signaled(struct sim_side *side, const struct sim_op *op)
{
    struct sim *sim = side->pair->sim;
    return op->opcode == WQE_BIND_MW || op->opcode == WQE_LOCAL_INV || side->ops_left == 1 ||
           side->unsignaled + 1 >= (sim->params.sq_len + 1) / 2 || sim_draw(sim, 2);
}

static struct sim_op *op_new(struct sim_side *side, enum wqe_opcode opcode)
{
    struct sim *sim = side->pair->sim;
    struct sim_op *op = calloc(1, sizeof *op);
    if (op == NULL) {
        return NULL;
    }
    op->opcode = opcode;
    if (opcode != WQE_BIND_MW && opcode != WQE_LOCAL_INV) {
        op->len = facts[opcode].remote == REMOTE_ATOMIC ? ATOMIC_LEN : draw_len(sim);
    }
    op->content = malloc(op->len + 1);
    if (op->content == NULL) {
        free(op);
        return NULL;
    }
    return op;
}

// The first element that names memory names what is not registered: nothing of it may be read or
// written.
static void spoil_lkey(struct sim *sim, const struct sim_op *op, struct send_wqe *wqe)
{
    for (unsigned i = 0; op->mistake == SIM_MISTAKE_LKEY && i < op->local_count; i++) {
        if (wqe->sge[i].length > 0) {
            wqe->sge[i].lkey ^= 1U << prng_below(&sim->rng, 32);
            return;
        }
    }
}

static void wqe_fill(struct sim_side *side, struct sim_op *op, struct send_wqe *wqe)
{
    struct sim *sim = side->pair->sim;
    op->wr_id = sim->wr_id_next++;
    op->is_signaled = draw_signaled(side, op);
    wqe->wr_id = op->wr_id;
    wqe->flags |= (op->is_signaled ? WQE_SIGNALED : 0) | (sim_draw(sim, 4) ? WQE_FENCE : 0) |
                  (sim_draw(sim, 4) ? WQE_SOLICITED : 0);
    op->is_fenced = (wqe->flags & WQE_FENCE) != 0;
    op->is_signaled |= sim->params.sq_sig_all;
    if (facts[op->opcode].has_immediate) {
        op->immediate = (uint32_t)prng_next(&sim->rng);
        wqe->imm_or_inv = op->immediate;
    }
    wqe->length = op->len;
    if ((wqe->flags & WQE_INLINE) != 0) {
        memcpy(wqe->inline_data, op->content, op->len);
        wqe->sge_count = 0;
    } else {
        fill_sges(wqe->sge, op->local, op->local_count);
        wqe->sge_count = op->local_count;
        spoil_lkey(sim, op, wqe);
    }
}

static bool may_post(struct sim_side *side, enum wqe_opcode opcode)
{
    int answer = rnic_qp_may_post(side->qp, opcode);
    const struct sim_params *p = &side->pair->sim->params;
    const bool *extensions = p->extensions;
    bool is_foreign = p->wire == SIM_WIRE_IWARP && (!extensions[side->node->index] ||
                                                    !extensions[sim_side_peer(side)->node->index]);
    if (answer == 0 && is_foreign && opcode == WQE_SEND_WITH_IMM) {
        sim_fail(side->pair->sim, "pair %u.%u: Send with Immediate is allowed towards an RFC peer",
                 side->pair->index, side->index);
    }
    return answer == 0 && !sim_command_may_forbid(side, opcode);
}

static void post(struct sim_side *side, struct sim_op *op, struct send_wqe *wqe)
{
    list_push_tail(&side->ops, &op->link);
    side->ops_left--;
    side->sq_used++;
    side->unsignaled = op->is_signaled ? 0 : side->unsignaled + 1;
    sim_trace(side->pair->sim, "pair %u.%u posts wr %llu: opcode %d, %u octets%s",
              side->pair->index, side->index, (unsigned long long)op->wr_id, op->opcode, op->len,
              op->mistake != SIM_MISTAKE_NONE ? ", a mistake" : "");
    wq_send_commit(side->qp->wq, 1);
    rnic_qp_ring_sq(side->qp);
}

void sim_traffic_send(struct sim_side *side, bool may_err)
{
    enum wqe_opcode opcode = draw_opcode(side->pair->sim);
    struct send_wqe *wqe;
    if (side->ops_left == 0 || !has_room(side, &wqe) || !may_post(side, opcode) ||
        (side->ord == 0 && facts[opcode].remote >= REMOTE_SOURCE)) {
        return;
    }
    struct sim_op *op = op_new(side, opcode);
    if (op == NULL) {
        return;
    }
    wqe->opcode = opcode;
    wqe->flags = 0;
    if (!shape(side, op, wqe)) {
        op_free(op);
        return;
    }
    if (facts[opcode].remote != REMOTE_NONE) {
        if (may_err) {
            draw_mistake(side, op);
        }
        if (op->mistake == SIM_MISTAKE_NONE || op->mistake == SIM_MISTAKE_LKEY) {
            name_remote(side, op, wqe);
        } else {
            name_wrongly(side, op, wqe);
        }
    }
    wqe_fill(side, op, wqe);
    post(side, op, wqe);
}

/* ---- receives -------------------------------------------------------------------------------- */

static struct recv_wqe *recv_slot(struct sim_side *side)
{
    if (side->has_srq ? side->node->srq_posted >= SIM_SRQ_POSTED_MAX
                      : side->recv_posted >= side->pair->sim->params.recvs) {
        return NULL; // or receives would take the memory of everybody else
    }
    return side->has_srq ? srq_slot(side->node->srq->srq, 0) : wq_receive_slot(side->qp->wq, 0);
}

void sim_traffic_recv(struct sim_side *side, bool may_err)
{
    struct sim *sim = side->pair->sim;
    struct recv_wqe *wqe = recv_slot(side);
    struct sim_recv *recv = wqe != NULL ? calloc(1, sizeof *recv) : NULL;
    bool ok;
    if (recv == NULL) {
        return;
    }
    bool is_wrong = may_err && !side->has_srq; // on an SRQ it would strike another connection
    uint32_t len = sim->params.message_max_len;
    if (is_wrong && sim_draw(sim, 2)) {
        len = prng_below(&sim->rng, len);
    }
    recv->count = claim_pieces(side->node, recv->claim, len, &side->node->block[SIM_BLOCK_RECEIVES],
                               sim->params.sge_max, SIM_CLAIM_TARGET, &ok);
    if (!ok) {
        free(recv);
        return;
    }
    recv->wr_id = sim->wr_id_next++ | SIM_RECV_WR_ID;
    wqe->wr_id = recv->wr_id;
    wqe->sge_count = recv->count;
    fill_sges(wqe->sge, recv->claim, recv->count);
    if (is_wrong) {
        side->pair->is_disturbed = true;
        if (len == sim->params.message_max_len) {
            wqe->sge[0].lkey ^= 1U << prng_below(&sim->rng, 32);
        }
    }
    sim_trace(sim, "pair %u.%u posts receive %llu%s", side->pair->index, side->index,
              (unsigned long long)(recv->wr_id & ~SIM_RECV_WR_ID),
              side->has_srq ? " to the SRQ" : "");
    list_push_tail(side->has_srq ? &side->node->srq_recvs : &side->recvs, &recv->link);
    if (side->has_srq) {
        side->node->srq_posted++;
        srq_commit(side->node->srq->srq, 1);
        rnic_srq_ring(side->node->srq);
    } else {
        side->recv_posted++;
        wq_receive_commit(side->qp->wq, 1);
        rnic_qp_ring_rq(side->qp);
    }
}
