// The RTA interface manager of the CTA: units, frames to and from them, and replay.

#include "base/check.h"
#include "base/time.h"
#include "node/cta/agent.h"
#include "node/interface/cta_rta.h"
#include "node/interface/request.h"

static void on_ack(void *ctx, const struct frame *frame);

/* ---- units ----------------------------------------------------------------------------------- */

static struct cta_unit *unit_find(struct cta *cta, uint32_t unit)
{
    return unit < NODE_UNIT_COUNT_MAX ? cta->units[unit] : NULL;
}

bool units_add(void *ctx, uint32_t number, struct frame_port port)
{
    struct cta *cta = ctx;
    if (number >= NODE_UNIT_COUNT_MAX || cta->units[number] != NULL) {
        return false;
    }
    struct cta_unit *unit = cta_unit_create(cta, number);
    if (unit != NULL) {
        unit->residual = residual_create(port, CTA_UNIT_DEPTH, on_ack, unit);
    }
    if (unit == NULL || unit->residual == NULL || !memory_open(unit)) {
        cta_unit_destroy(unit);
        return false;
    }
    cta->units[number] = unit;
    cta->unit_end = cta->unit_end > number ? cta->unit_end : number + 1;
    return true;
}

// The RTA is gone, or has acknowledged, so nobody else holds these buffers any more.
static void end_completing(struct cta_unit *unit)
{
    while (!list_is_empty(&unit->completing)) {
        transaction_end(unit->cta, LIST_ENTRY(unit->completing.next, struct transaction, link));
    }
}

// The memory itself goes: what a device may still do to it is done to nobody.
static void end_quarantined(struct cta_unit *unit)
{
    struct list_link *list = &unit->cta->quarantine, *next;
    for (struct list_link *l = list->next; l != list; l = next) {
        struct transaction *t = LIST_ENTRY(l, struct transaction, link);
        next = l->next;
        if (t->unit == unit) {
            transaction_end(unit->cta, t);
        }
    }
}

void units_remove(void *ctx, uint32_t number)
{
    struct cta *cta = ctx;
    struct cta_unit *unit = unit_find(cta, number);
    if (unit != NULL) {
        end_completing(unit);
        end_quarantined(unit);
        CHECK(list_is_empty(&unit->ready) && list_is_empty(&unit->replay) &&
              list_is_empty(&unit->at_unit) && list_is_empty(&unit->elsewhere));
        cta->units[number] = NULL;
        cta_unit_destroy(unit);
    }
}

void units_keep(void *ctx, uint32_t number)
{
    unit_find(ctx, number)->keeps_pages = true;
}

static void move(struct transaction *t, enum transaction_state state, struct list_link *list)
{
    t->state = state;
    list_remove(&t->link);
    list_push_tail(list, &t->link);
}

// What has come back from a unit whose route has failed meanwhile.
static void fail_returned(struct cta *cta, const struct cta_unit *unit, instant_ns now)
{
    for (unsigned i = 0; i < NODE_TRANSACTION_COUNT_MAX; i++) {
        struct transaction *t = &cta->transactions[i];
        if (t->state == TRANSACTION_READY && t->unit == unit && t->route->has_failed) {
            transaction_fail(cta, t, now);
        }
    }
}

// What was sent, and had no result, is to be sent again. What is COMPLETING stays lent.
void units_lost(void *ctx, uint32_t number, instant_ns now)
{
    struct cta_unit *unit = unit_find(ctx, number);
    unit->is_ready = false;
    // Those of an earlier loss that have not gone out again are younger than these.
    struct list_link unsent;
    list_move_all(&unsent, &unit->replay);
    while (!list_is_empty(&unit->at_unit)) {
        struct transaction *t = LIST_ENTRY(unit->at_unit.next, struct transaction, link);
        unit->replay_count += !t->is_replay;
        t->is_replay = true;
        move(t, TRANSACTION_READY, &unit->replay);
    }
    for (struct list_link *l; (l = list_pop_head(&unsent)) != NULL;) {
        list_push_tail(&unit->replay, l);
    }
    fail_returned(unit->cta, unit, now);
}

void units_ready(void *ctx, uint32_t number, instant_ns now)
{
    struct cta_unit *unit = unit_find(ctx, number);
    residual_reset(unit->residual);
    end_completing(unit);
    unit->depth = 0;
    for (struct list_link *l = unit->elsewhere.next; l != &unit->elsewhere; l = l->next) {
        const struct transaction *t = LIST_ENTRY(l, struct transaction, link);
        unit->depth += t->state == TRANSACTION_TRANSFERRING && !t->is_by_window;
    }
    unit->is_ready = true;
    unit->is_broken = false;
    units_pump(unit, now);
    residual_flush(unit->residual);
}

static void break_unit(struct cta_unit *unit, const char *why)
{
    unit->counters.violations++;
    if (!unit->is_broken) {
        unit->is_broken = true;
        unit->cta->parts.uma->on_unit_broken(unit->cta->parts.uma_ctx, unit->unit, why);
    }
}

/* ---- to the RTA ------------------------------------------------------------------------------ */

void units_submit(struct transaction *t)
{
    hold_line_up(t);
    move(t, TRANSACTION_READY, &t->unit->ready);
}

static bool conflict(const struct transaction *a, const struct transaction *b)
{
    bool changes =
        node_operation_facts(a->operation)->changes || node_operation_facts(b->operation)->changes;
    return changes && node_ranges_overlap(a->offset, a->len, b->offset, b->len) &&
           a->route->route.volume == b->route->route.volume;
}

// Must it wait for a replay that is older, be that at the unit or still to be sent?
static bool must_wait_for_replay(const struct cta_unit *unit, const struct transaction *t)
{
    if (unit->replay_count == 0) {
        return false;
    }
    for (const struct list_link *l = unit->at_unit.next; l != &unit->at_unit; l = l->next) {
        const struct transaction *older = LIST_ENTRY(l, struct transaction, link);
        if (older->is_replay && conflict(older, t)) {
            return true;
        }
    }
    for (const struct list_link *l = unit->replay.next; l != &unit->replay; l = l->next) {
        const struct transaction *older = LIST_ENTRY(l, struct transaction, link);
        if (older == t) {
            return false;
        }
        if (conflict(older, t)) {
            return true;
        }
    }
    return false;
}

static void request_send(struct cta_unit *unit, struct transaction *t, instant_ns now)
{
    struct transaction_half half = compare_half(t);
    struct frame frame = {.kind = FRAME_REQUEST,
                          .operation = half.operation,
                          .flags = half.flags,
                          .connection = t->connection,
                          .transaction = t->number,
                          .offset = t->offset,
                          .len = t->len,
                          .buffer_offset = half.buffer.offset,
                          .buffer_len = half.buffer.len,
                          .deadline = t->deadline};
    hold_begin(t);
    move(t, TRANSACTION_AT_UNIT, &unit->at_unit);
    unit->depth++;
    if (t->is_replay) {
        unit->counters.replays++;
    } else {
        unit->counters.requests++;
    }
    residual_send(unit->residual, frame, false, now);
}

static void send_list(struct cta_unit *unit, struct list_link *list, instant_ns now)
{
    struct list_link *next;
    for (struct list_link *l = list->next; l != list; l = next) {
        struct transaction *t = LIST_ENTRY(l, struct transaction, link);
        next = l->next;
        if (unit->depth >= CTA_UNIT_DEPTH || !residual_can_send(unit->residual)) {
            return;
        }
        if (!must_wait_for_replay(unit, t) && hold_allows(t)) {
            request_send(unit, t, now);
        }
    }
}

void units_pump(struct cta_unit *unit, instant_ns now)
{
    if (unit->is_ready && !unit->is_broken) {
        send_list(unit, &unit->replay, now);
        send_list(unit, &unit->ready, now);
    }
}

static void completion_send(struct transaction *t, enum node_completion outcome, instant_ns now)
{
    struct cta_unit *unit = t->unit;
    struct frame frame = {.kind = FRAME_COMPLETION,
                          .transaction = t->number,
                          .connection = t->connection,
                          .completion = (uint16_t)outcome};
    if (!unit->is_ready) {
        return; // lent to a process that is gone, until its fence has passed
    }
    if (!residual_can_send(unit->residual)) {
        break_unit(unit, "it gives results and acknowledges no requests");
        return;
    }
    residual_send(unit->residual, frame, true, now);
}

void units_complete(struct transaction *t, enum node_completion outcome, instant_ns now)
{
    move(t, TRANSACTION_COMPLETING, &t->unit->completing);
    transaction_settle(t->unit->cta, t);
    completion_send(t, outcome, now);
}

// The RTA is done with the first half; the second is another request to it.
static void go_on(struct transaction *t, instant_ns now)
{
    completion_send(t, NODE_OK, now);
    transaction_renumber(t);
    t->has_compared = true;
    move(t, TRANSACTION_READY, &t->unit->ready);
}

/* ---- from the RTA ---------------------------------------------------------------------------- */

static void on_ack(void *ctx, const struct frame *frame)
{
    struct cta_unit *unit = ctx;
    struct transaction *t = &unit->cta->transactions[frame_transaction_slot(frame->transaction)];
    unit->has_hurried = false;
    if (frame->kind == FRAME_COMPLETION) {
        unit->depth--;
        if (t->number == frame->transaction) { // else of the first of two halves
            CHECK(t->state == TRANSACTION_COMPLETING);
            transaction_end(unit->cta, t);
        }
    }
}

// NULL, or what is wrong with a result.
static const char *result_fault(const struct cta_unit *unit, const struct transaction *t,
                                const struct frame *result)
{
    if (result->kind != FRAME_RESULT) {
        return "it sent a frame that is no result";
    }
    if (t->state != TRANSACTION_AT_UNIT || t->number != result->transaction || t->unit != unit) {
        return "it gave a result that nobody waits for";
    }
    if (result->completion >= NODE_COMPLETION_COUNT) {
        return "it gave a result without sense";
    }
    struct transaction_half half = compare_half(t);
    if (result->buffer_len > half.buffer.len ||
        (half.operation == NODE_READ && result->completion == NODE_OK &&
         result->buffer_len != half.buffer.len)) {
        return "it answered with more or less than was asked for";
    }
    return NULL;
}

static void on_result(struct cta_unit *unit, struct transaction *t, const struct frame *result,
                      instant_ns now)
{
    struct cta *cta = unit->cta;
    unit->counters.results++;
    unit->replay_count -= t->is_replay;
    t->is_replay = false;
    bool has_data = node_operation_facts(t->operation)->moves_to_client;
    if (t->request != NULL && has_data && result->completion == NODE_OK) {
        move(t, TRANSACTION_TRANSFERRING, &unit->elsewhere);
        transaction_transfer(cta, t, result->buffer_len, result->detail, now);
        return;
    }
    enum node_completion completion = compare_judge(t, result->completion);
    if (completion == NODE_OK && compare_goes_on(t)) {
        go_on(t, now);
        return;
    }
    transaction_answer(cta, t, completion, result->detail, now);
    units_complete(t, NODE_OK, now);
}

void cta_on_bus(struct cta *cta, uint32_t number, instant_ns now)
{
    struct cta_unit *unit = unit_find(cta, number);
    struct frame frame;
    while (unit != NULL && unit->is_ready && !unit->is_broken) {
        enum residual_verdict verdict = residual_receive(unit->residual, &frame, now);
        if (verdict == RESIDUAL_NOTHING) {
            return;
        }
        if (verdict == RESIDUAL_BROKEN) {
            break_unit(unit, "it acknowledged what was never sent");
            return;
        }
        struct transaction *t = &cta->transactions[frame_transaction_slot(frame.transaction)];
        const char *fault = result_fault(unit, t, &frame);
        if (fault != NULL) {
            break_unit(unit, fault);
            return;
        }
        on_result(unit, t, &frame, now);
    }
}

bool cta_awaits_unit(const struct cta *cta, uint32_t number)
{
    const struct cta_unit *unit = number < NODE_UNIT_COUNT_MAX ? cta->units[number] : NULL;
    return unit != NULL && !list_is_empty(&unit->at_unit);
}
