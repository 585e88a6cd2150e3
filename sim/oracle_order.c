#include "sim/oracle_order.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/port_place.h"
#include "sim/command.h"
#include "sim/oracle_memory.h"
#include "sim/params.h"
#include "sim/sim.h"

// Values of enum ibv_wc_status, ibv_wc_opcode.
enum { STATUS_SUCCESS = 0, STATUS_FLUSHED = 5, STATUS_COUNT = 24 };
enum { OPCODE_RECV = 128, OPCODE_RECV_WITH_IMM = 129 };

#define FAIL(side, format, ...)                                             \
    sim_fail((side)->pair->sim, "pair %u.%u: " format, (side)->pair->index, \
             (side)->index __VA_OPT__(, ) __VA_ARGS__)

static struct sim_op *op_of(struct list_link *l)
{
    return LIST_ENTRY(l, struct sim_op, link);
}

/* ---- what an opcode does --------------------------------------------------------------------- */

static bool is_message(const struct sim_op *op)
{
    return op->opcode == WQE_SEND || op->opcode == WQE_SEND_WITH_IMM ||
           op->opcode == WQE_SEND_WITH_INV || op->opcode == WQE_RDMA_WRITE_WITH_IMM;
}

static bool is_write(const struct sim_op *op)
{
    return op->opcode == WQE_RDMA_WRITE || op->opcode == WQE_RDMA_WRITE_WITH_IMM;
}

static bool is_atomic(const struct sim_op *op)
{
    return op->opcode == WQE_ATOMIC_CMP_AND_SWP || op->opcode == WQE_ATOMIC_FETCH_AND_ADD;
}

// Its answer proves that the peer has done all before it.
static bool is_answered(const struct sim_op *op)
{
    return op->opcode == WQE_RDMA_READ || is_atomic(op);
}

// A Read waits for its turn by itself: what was posted behind it may leave before its requests.
// But the local list is looked at first.
static bool may_be_passed(const struct sim_op *op)
{
    return op->opcode == WQE_RDMA_READ && op->mistake != SIM_MISTAKE_LKEY;
}

static bool changes_window(const struct sim_op *op)
{
    return op->opcode == WQE_BIND_MW || op->opcode == WQE_LOCAL_INV ||
           op->opcode == WQE_SEND_WITH_INV;
}

// Are octets placed beyond holes of the stream?
static bool has_holes(const struct sim_side *side)
{
    const struct sim_params *p = &side->pair->sim->params;
    return p->wire == SIM_WIRE_IWARP && p->has_packets && p->placement != PLACEMENT_OFF;
}

// Does the peer place the op's octets as they come?
static bool is_placed_apart(const struct sim_side *side, const struct sim_op *op)
{
    const bool is_relaxed = op->remote.block != NULL && op->window == NULL && op->command == NULL &&
                            (op->remote.block->access & SIM_ACCESS_RELAXED) != 0;
    return is_write(op) && (has_holes(side) || is_relaxed);
}

// What is successful has been acknowledged by the peer, which has done it and all before it.
static bool is_acknowledged(const struct sim_side *side)
{
    return side->pair->sim->params.wire == SIM_WIRE_ROCE;
}

/* ---- the peer's memory ----------------------------------------------------------------------- */

// How much of the op the peer's memory holds. False: something else is there.
static bool remote_placed(struct sim_side *side, const struct sim_op *op, size_t *ret_placed)
{
    const uint8_t *content = is_atomic(op) ? op->written : op->content;
    *ret_placed = op->len;
    if (op->is_placed || op->remote.block == NULL || !(is_write(op) || is_atomic(op))) {
        return true;
    }
    if (!sim_claims_placed(&op->remote, 1, content, op->len, is_placed_apart(side, op),
                           ret_placed)) {
        FAIL(side, "wr %" PRIu64 ": the peer's memory holds other octets than were sent",
             op->wr_id);
        return false;
    }
    return true;
}

// Nothing of the op is on its way any more: what the peer's memory holds stays.
static void op_settle(struct sim_op *op)
{
    if (op->is_placed) {
        return;
    }
    op->is_placed = true;
    if (op->remote.block != NULL && op->remote.kind == SIM_CLAIM_TARGET) {
        sim_claims_settle(&op->remote, 1);
    }
    sim_claim_release(&op->remote);
    if (op->window != NULL && !changes_window(op)) {
        op->window->users--;
        op->window = NULL;
    }
    if (op->command != NULL && op->command_use == SIM_COMMAND_NOT_USED) {
        op->command->users--;
        op->command = NULL;
    }
}

static void op_free_if_over(struct sim_op *op)
{
    if (op->is_complete && op->is_placed && (op->is_delivered || !is_message(op))) {
        list_remove(&op->link);
        free(op->content);
        free(op);
    }
}

// The peer has delivered something that was sent behind this op: it must have been placed whole.
static void expect_placed(struct sim_side *side, struct sim_op *op, const char *why)
{
    size_t placed;
    if (op->mistake != SIM_MISTAKE_NONE) {
        FAIL(side, "wr %" PRIu64 " was wrong, and %s all the same", op->wr_id, why);
    } else if (remote_placed(side, op, &placed) && placed < op->len) {
        FAIL(side, "wr %" PRIu64 ": %zu of %u octets are placed when %s", op->wr_id, placed,
             op->len, why);
    }
    op_settle(op);
}

// All ops posted before `end` have been placed.
static void expect_placed_before(struct sim_side *side, struct sim_op *end, const char *why)
{
    struct list_link *l = side->ops.next;
    while (l != &side->ops && l != &end->link) {
        struct sim_op *op = op_of(l);
        l = l->next;
        if (!is_answered(op)) {
            expect_placed(side, op, why);
            op_free_if_over(op);
        } else if (op->mistake != SIM_MISTAKE_NONE && !may_be_passed(op)) {
            FAIL(side, "wr %" PRIu64 " was wrong, and %s all the same", op->wr_id, why);
        }
    }
}

// Is something of its answer not here yet?
static bool awaits_answer(const struct sim_op *op)
{
    size_t placed = op->len;
    if (is_answered(op) && !op->is_complete && op->mistake == SIM_MISTAKE_NONE) {
        sim_claims_placed(op->local, op->local_count, op->content, op->len, true, &placed);
    }
    return placed < op->len;
}

void sim_order_check_placement(struct sim_side *side)
{
    bool has_gap = false, has_request_gap = false, has_open_answer = false;
    for (struct list_link *l = side->ops.next; l != &side->ops; l = l->next) {
        struct sim_op *op = op_of(l);
        size_t placed;
        if (!remote_placed(side, op, &placed)) {
            return;
        }
        bool may_not = is_atomic(op) || (is_write(op) && !is_placed_apart(side, op));
        bool is_behind_gap = has_gap || (has_request_gap && is_atomic(op));
        if (is_behind_gap && !op->is_placed && may_not &&
            !sim_claims_are_untouched(&op->remote, 1)) {
            FAIL(side, "wr %" PRIu64 " is being placed before one that was posted earlier",
                 op->wr_id);
        }
        if (op->is_fenced && has_open_answer && !op->is_placed && (is_write(op) || is_atomic(op)) &&
            !sim_claims_are_untouched(&op->remote, 1)) {
            FAIL(side, "wr %" PRIu64 " has a fence, and is being placed before an answer is here",
                 op->wr_id);
        }
        has_open_answer |= awaits_answer(op);
        bool is_gap = placed < op->len || (op->mistake != SIM_MISTAKE_NONE && !may_be_passed(op));
        // A request may wait with the Send before it, and Writes behind it do not.
        bool is_request = is_atomic(op) || op->opcode == WQE_RDMA_READ;
        has_request_gap |= is_gap && is_request;
        has_gap |= is_gap && !is_request;
    }
}

/* ---- the send queue -------------------------------------------------------------------------- */

// One that failed may have been carried out or not: the window stays SIM_WINDOW_CHANGING.
static void window_on_completion(struct sim_op *op, bool is_success)
{
    if (is_success && op->opcode == WQE_BIND_MW) {
        op->window->state = SIM_WINDOW_BOUND;
    } else if (is_success && op->opcode == WQE_LOCAL_INV) {
        op->window->state = SIM_WINDOW_FREE;
    }
}

static void answer_check(struct sim_side *side, struct sim_op *op, bool is_success)
{
    size_t placed = 0;
    // A Read that is divided here brings what lies before the end of the peer's memory.
    bool is_unsure = op->opcode == WQE_RDMA_READ && op->mistake == SIM_MISTAKE_BOUNDS;
    if (!is_answered(op) || is_unsure) {
        return;
    }
    // Behind an answer that a lower allotment cut short others may have come already; over packets
    // also behind one that was lost, and has not come again before the end.
    bool has_gaps = has_holes(side) || side->pair->sim->params.retunes > 0 ||
                    (side->pair->sim->params.wire == SIM_WIRE_ROCE && !is_success);
    if (!sim_claims_placed(op->local, op->local_count, op->content, op->len, has_gaps, &placed)) {
        FAIL(side, "wr %" PRIu64 ": the answer brought other octets than were there", op->wr_id);
    } else if (is_success && placed < op->len) {
        FAIL(side, "wr %" PRIu64 ": %zu of %u octets of the answer are there", op->wr_id, placed,
             op->len);
    }
}

static void op_complete(struct sim_side *side, struct sim_op *op, uint32_t status)
{
    bool is_success = status == STATUS_SUCCESS;
    bool is_flushed_write = op->opcode == WQE_RDMA_WRITE && is_success && op->is_signaled &&
                            side->pair->sim->params.write_flush && side->ord > 0;
    answer_check(side, op, is_success);
    sim_claims_settle(op->local, op->local_count);
    window_on_completion(op, is_success);
    if (is_success && op->mistake != SIM_MISTAKE_NONE && is_answered(op)) {
        FAIL(side, "wr %" PRIu64 " was wrong and completes with success", op->wr_id);
    }
    if (is_success && (is_answered(op) || is_flushed_write || is_acknowledged(side))) {
        expect_placed_before(side, op, "a later answer is back");
        if (op->mistake == SIM_MISTAKE_NONE || !is_answered(op)) {
            expect_placed(side, op, "its answer is back");
        }
    }
    if (changes_window(op) && op->opcode != WQE_SEND_WITH_INV) {
        op->is_placed = true;
    }
    op->is_complete = true;
    op->is_acknowledged = is_success && is_acknowledged(side);
    side->sq_used--;
    op_free_if_over(op);
}

// With packets a refused connection has its queue pair flushed before the program has heard of it.
static bool may_fail(const struct sim_side *side)
{
    const struct sim_pair *pair = side->pair;
    return pair->is_disturbed || pair->phase == SIM_PHASE_CLOSING ||
           (pair->phase == SIM_PHASE_CONNECTING && pair->fate != SIM_FATE_ACCEPTED);
}

static void check_status(struct sim_side *side, const struct sim_op *op, uint32_t status)
{
    if (status >= STATUS_COUNT) {
        FAIL(side, "wr %" PRIu64 " completes with the unknown status %u", op->wr_id, status);
    } else if (status != STATUS_SUCCESS && !may_fail(side)) {
        FAIL(side,
             "wr %" PRIu64 " (opcode %d) completes with status %u, and nothing was done to it",
             op->wr_id, op->opcode, status);
    } else if (status == STATUS_SUCCESS && side->has_failed_send) {
        FAIL(side, "wr %" PRIu64 " completes with success behind one that failed", op->wr_id);
    }
    side->has_failed_send |= status != STATUS_SUCCESS;
    side->has_seen_failure |= status != STATUS_SUCCESS;
}

static struct sim_side *side_of(struct sim_node *node, uint32_t qp_num)
{
    for (unsigned i = 0; i < 2 * node->sim->params.pairs; i++) {
        struct sim_side *side = &node->sim->pair[i / 2].side[i % 2];
        if (side->node == node && side->qp != NULL && side->qp_num == qp_num) {
            return side;
        }
    }
    return NULL;
}

static struct sim_op *first_open(struct sim_side *side)
{
    for (struct list_link *l = side->ops.next; l != &side->ops; l = l->next) {
        if (!op_of(l)->is_complete) {
            return op_of(l);
        }
    }
    return NULL;
}

static bool is_posted(struct sim_side *side, uint64_t wr_id)
{
    for (struct list_link *l = side->ops.next; l != &side->ops; l = l->next) {
        if (op_of(l)->wr_id == wr_id) {
            return !op_of(l)->is_complete;
        }
    }
    return false;
}

// What is not signalled and was posted before it is complete now.
static bool complete_silent_before(struct sim_side *side, uint64_t wr_id)
{
    struct sim_op *op;
    while ((op = first_open(side))->wr_id != wr_id) {
        if (op->is_signaled) {
            FAIL(side, "wr %" PRIu64 " completes before wr %" PRIu64 " that was posted earlier",
                 wr_id, op->wr_id);
            return false;
        }
        op_complete(side, op, STATUS_SUCCESS);
    }
    return true;
}

void sim_order_on_send(struct sim_node *node, const struct cqe *cqe)
{
    struct sim_side *side = side_of(node, cqe->qp_num);
    if (side == NULL) {
        sim_fail(node->sim, "node %u: wr %" PRIu64 " completes on a queue pair that is gone",
                 node->index, cqe->wr_id);
        return;
    }
    sim_trace(node->sim, "pair %u.%u wr %" PRIu64 " completes: status %u", side->pair->index,
              side->index, cqe->wr_id, cqe->status);
    if (!is_posted(side, cqe->wr_id)) {
        FAIL(side, "wr %" PRIu64 " completes and is not posted, or not any more", cqe->wr_id);
        return;
    }
    if (!complete_silent_before(side, cqe->wr_id)) {
        return;
    }
    struct sim_op *op = first_open(side);
    if (!op->is_signaled && cqe->status == STATUS_SUCCESS) {
        FAIL(side, "wr %" PRIu64 " completes aloud and was not signalled", cqe->wr_id);
        return;
    }
    check_status(side, op, cqe->status);
    op_complete(side, op, cqe->status);
}

/* ---- receives -------------------------------------------------------------------------------- */

// The oldest message of the peer that has not been delivered, or NULL.
static struct sim_op *next_message(struct sim_side *side)
{
    struct sim_side *peer = sim_side_peer(side);
    for (struct list_link *l = peer->ops.next; l != &peer->ops; l = l->next) {
        if (is_message(op_of(l)) && !op_of(l)->is_delivered) {
            return op_of(l);
        }
    }
    return NULL;
}

static void check_shape(struct sim_side *side, const struct sim_op *op, const struct cqe *cqe)
{
    bool has_immediate = op->opcode == WQE_SEND_WITH_IMM || op->opcode == WQE_RDMA_WRITE_WITH_IMM;
    bool invalidates = op->opcode == WQE_SEND_WITH_INV;
    uint32_t opcode = op->opcode == WQE_RDMA_WRITE_WITH_IMM ? OPCODE_RECV_WITH_IMM : OPCODE_RECV;
    uint32_t flags = (has_immediate ? WC_WITH_IMM : 0) | (invalidates ? WC_WITH_INV : 0) |
                     sim_command_flags(side, op);
    if (cqe->opcode != opcode || cqe->wc_flags != flags || cqe->byte_len != op->len) {
        FAIL(side,
             "wr %" PRIu64 " is received with opcode %u flags %u length %u, was sent with opcode "
             "%u flags %u length %u",
             op->wr_id, cqe->opcode, cqe->wc_flags, cqe->byte_len, opcode, flags, op->len);
    } else if (has_immediate && cqe->imm_data != op->immediate) {
        FAIL(side, "wr %" PRIu64 " is received with immediate %08x, was sent with %08x", op->wr_id,
             cqe->imm_data, op->immediate);
    } else if (invalidates && cqe->inv_rkey != op->window->rkey) {
        FAIL(side, "wr %" PRIu64 " invalidates %08x, was sent for %08x", op->wr_id, cqe->inv_rkey,
             op->window->rkey);
    } else if (!sim_command_is_told(op, cqe)) {
        FAIL(side,
             "wr %" PRIu64 " is received with STag %08x reference %" PRIu64 ", was sent with %08x "
             "and %" PRIu64,
             op->wr_id, cqe->inv_rkey, cqe->reference, op->command->stag, op->command->reference);
    }
}

// How much of the message the receive holds. False: something else is there.
static bool recv_placed(const struct sim_side *side, const struct sim_recv *recv,
                        const struct sim_op *op, size_t *ret_placed)
{
    uint32_t len = op == NULL || op->opcode == WQE_RDMA_WRITE_WITH_IMM ? 0 : op->len;
    const uint8_t *content = op == NULL ? NULL : op->content;
    return sim_claims_placed(recv->claim, recv->count, content, len, has_holes(side), ret_placed);
}

// Beyond holes a receive may hold something of any message that has not been delivered.
static bool holds_a_later_message(struct sim_side *side, const struct sim_recv *recv)
{
    struct list_link *ops = &sim_side_peer(side)->ops;
    size_t placed;
    for (struct list_link *l = ops->next; has_holes(side) && l != ops; l = l->next) {
        struct sim_op *op = op_of(l);
        if (is_message(op) && !op->is_delivered && recv_placed(side, recv, op, &placed)) {
            return true;
        }
    }
    return false;
}

static void check_content(struct sim_side *side, const struct sim_recv *recv,
                          const struct sim_op *op, bool is_whole)
{
    size_t placed = 0;
    uint32_t len = op == NULL || op->opcode == WQE_RDMA_WRITE_WITH_IMM ? 0 : op->len;
    if (!recv_placed(side, recv, op, &placed)) {
        if (!is_whole && holds_a_later_message(side, recv)) {
            return;
        }
        FAIL(side, "receive %" PRIu64 " holds other octets than were sent",
             recv->wr_id & ~SIM_RECV_WR_ID);
    } else if (is_whole && placed < len) {
        FAIL(side, "receive %" PRIu64 ": %zu of %u octets are there", recv->wr_id & ~SIM_RECV_WR_ID,
             placed, len);
    }
}

static void deliver(struct sim_side *side, struct sim_recv *recv, const struct cqe *cqe)
{
    struct sim_side *peer = sim_side_peer(side);
    struct sim_op *op = next_message(side);
    if (op == NULL) {
        FAIL(side, "a message of %u octets is received that nobody sent", cqe->byte_len);
        return;
    }
    check_shape(side, op, cqe);
    check_content(side, recv, op, true);
    expect_placed_before(peer, op, "a later message is delivered");
    expect_placed(peer, op, "it is delivered");
    if (op->opcode == WQE_SEND_WITH_INV) {
        side->window.state = SIM_WINDOW_FREE;
    }
    sim_command_on_delivered(side->pair->sim, op);
    op->is_delivered = true;
    side->pair->sim->deliveries++;
    op_free_if_over(op);
}

static struct sim_recv *recv_find(struct sim_side *side, uint64_t wr_id)
{
    struct list_link *list = side->has_srq ? &side->node->srq_recvs : &side->recvs;
    for (struct list_link *l = list->next; l != list; l = l->next) {
        struct sim_recv *recv = LIST_ENTRY(l, struct sim_recv, link);
        if (recv->wr_id == wr_id) {
            return recv;
        }
        if (!side->has_srq) {
            break; // only the oldest may complete
        }
    }
    return NULL;
}

static void recv_end(struct sim_side *side, struct sim_recv *recv)
{
    sim_claims_settle(recv->claim, recv->count);
    list_remove(&recv->link);
    if (side->has_srq) {
        side->node->srq_posted--;
    } else {
        side->recv_posted--;
    }
    free(recv);
}

void sim_order_on_recv(struct sim_node *node, const struct cqe *cqe)
{
    struct sim_side *side = side_of(node, cqe->qp_num);
    uint64_t number = cqe->wr_id & ~SIM_RECV_WR_ID;
    if (side == NULL) {
        sim_fail(node->sim, "node %u: receive %" PRIu64 " completes on a queue pair that is gone",
                 node->index, number);
        return;
    }
    sim_trace(node->sim, "pair %u.%u receive %" PRIu64 " completes: status %u, %u octets",
              side->pair->index, side->index, number, cqe->status, cqe->byte_len);
    struct sim_recv *recv = recv_find(side, cqe->wr_id);
    if (recv == NULL) {
        FAIL(side, "receive %" PRIu64 " completes and is not the oldest posted", number);
        return;
    }
    if (cqe->status == STATUS_SUCCESS) {
        deliver(side, recv, cqe);
    } else if (!may_fail(side)) {
        FAIL(side, "receive %" PRIu64 " completes with status %u, and nothing was done to it",
             number, cqe->status);
    } else {
        check_content(side, recv, next_message(side), false);
    }
    side->has_seen_failure |= cqe->status != STATUS_SUCCESS;
    recv_end(side, recv);
}

/* ---- ends ------------------------------------------------------------------------------------ */

bool sim_order_is_quiet(const struct sim_side *side)
{
    for (const struct list_link *l = side->ops.next; l != &side->ops; l = l->next) {
        const struct sim_op *op = LIST_ENTRY(l, const struct sim_op, link);
        if (!op->is_complete || (is_message(op) && !op->is_delivered)) {
            return false;
        }
    }
    return side->ops_left == 0;
}

// Is what it has received known to the last?
static bool keeps_books(const struct sim_side *side)
{
    return side->qp != NULL && !side->has_lost_receives;
}

void sim_order_check_end(struct sim_side *side)
{
    const struct sim_side *peer = sim_side_peer(side);
    for (struct list_link *l = side->ops.next; l != &side->ops; l = l->next) {
        struct sim_op *op = op_of(l);
        if (!op->is_complete && op->is_signaled) {
            FAIL(side, "wr %" PRIu64 " (opcode %d) has never completed", op->wr_id, op->opcode);
            return;
        }
        if (op->is_acknowledged && is_message(op) && !op->is_delivered && keeps_books(peer)) {
            FAIL(side, "wr %" PRIu64 " was successful, and its message never received", op->wr_id);
            return;
        }
    }
    if (!list_is_empty(&side->recvs)) {
        FAIL(side, "receive %" PRIu64 " has never completed",
             LIST_ENTRY(side->recvs.next, struct sim_recv, link)->wr_id & ~SIM_RECV_WR_ID);
    }
}

void sim_order_forget(struct sim_side *side)
{
    struct list_link *l;
    sim_order_check_placement(side);
    while ((l = list_pop_head(&side->ops)) != NULL) {
        struct sim_op *op = op_of(l);
        op_settle(op);
        sim_claims_settle(op->local, op->local_count);
        free(op->content);
        free(op);
    }
    while (!list_is_empty(&side->recvs)) {
        recv_end(side, LIST_ENTRY(side->recvs.next, struct sim_recv, link));
    }
}

/* ---- memory that goes away ------------------------------------------------------------------- */

static void claims_on_deregistered(struct sim_pair *pair, struct sim_claim *claims, unsigned count,
                                   const struct sim_block *block)
{
    for (unsigned i = 0; i < count; i++) {
        if (claims[i].block == block) {
            pair->is_disturbed = true;
            sim_claims_settle(&claims[i], 1);
        }
    }
}

void sim_order_on_deregistered(struct sim_pair *pair, const struct sim_block *block)
{
    for (unsigned i = 0; i < 2; i++) {
        struct sim_side *side = &pair->side[i];
        if (side->node == NULL) {
            continue;
        }
        sim_order_check_placement(side);
        for (struct list_link *l = side->ops.next; l != &side->ops; l = l->next) {
            struct sim_op *op = op_of(l);
            claims_on_deregistered(pair, op->local, op->local_count, block);
            claims_on_deregistered(pair, &op->remote, 1, block);
        }
    }
}
