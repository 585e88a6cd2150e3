#include "wq/read_sched.h"

#include <stdlib.h>

#include "base/check.h"

struct read_sched {
    struct list_link free; // contexts
    struct list_link ring; // flows that wait, the one whose turn it is first
    uint32_t count, free_count, waiting_count;
    uint32_t depth;
    uint32_t quantum_len;
    uint32_t reader_count; // flows that are not idle
    struct read_sched_seen seen;
    struct read_sched_counters counters;
    struct read_context contexts[];
};

struct read_sched *read_sched_create(uint32_t context_count, uint32_t depth)
{
    struct read_sched *sched = calloc(1, sizeof *sched + context_count * sizeof sched->contexts[0]);
    if (sched == NULL) {
        return NULL;
    }
    list_init(&sched->free);
    list_init(&sched->ring);
    sched->count = sched->free_count = context_count;
    sched->depth = depth;
    for (uint32_t i = 0; i < context_count; i++) {
        list_push_tail(&sched->free, &sched->contexts[i].link);
    }
    return sched;
}

void read_sched_destroy(struct read_sched *sched)
{
    CHECK(sched == NULL || sched->free_count == sched->count);
    free(sched);
}

void read_sched_set_quantum(struct read_sched *sched, uint32_t quantum_len)
{
    sched->quantum_len = quantum_len;
}

uint32_t read_sched_context_count(const struct read_sched *sched)
{
    return sched->count;
}

uint32_t read_sched_in_use(const struct read_sched *sched)
{
    return sched->count - sched->free_count;
}

uint32_t read_sched_waiting_count(const struct read_sched *sched)
{
    return sched->waiting_count;
}

uint32_t read_sched_reader_count(const struct read_sched *sched)
{
    return sched->reader_count;
}

struct read_sched_seen read_sched_take_seen(struct read_sched *sched)
{
    struct read_sched_seen seen = sched->seen;
    sched->seen = (struct read_sched_seen){.reader_count = sched->reader_count};
    return seen;
}

const struct read_sched_counters *read_sched_counters(const struct read_sched *sched)
{
    return &sched->counters;
}

/* ---- a flow ---------------------------------------------------------------------------------- */

void read_flow_init(struct read_flow *flow, struct read_sched *sched, void (*on_granted)(void *ctx),
                    void *ctx)
{
    *flow = (struct read_flow){.sched = sched, .on_granted = on_granted, .ctx = ctx};
    list_init(&flow->link);
    list_init(&flow->tasks);
    list_init(&flow->granted);
}

static bool may_pass(const struct read_flow *flow, const struct read_task *task)
{
    bool is_crowded = flow->unasked_len > READ_STAYS_BEHIND_LEN;
    return task->may_pass || (task->kind == READ_KIND_ATOMIC && is_crowded);
}

static void note_reader(struct read_sched *sched)
{
    if (++sched->reader_count > sched->seen.reader_count) {
        sched->seen.reader_count = sched->reader_count;
    }
}

// An undivided Read that has begun keeps its contexts.
static bool is_passed(const struct read_flow *flow, const struct read_task *task)
{
    bool is_kept = flow->keeps_contexts && task->request_count > 0;
    return task->kind == READ_KIND_READ && !task->may_pass && !is_kept;
}

// Before the first that lets it pass.
static void insert(struct read_flow *flow, struct read_task *task)
{
    struct list_link *at = flow->tasks.next;
    while (at != &flow->tasks && !is_passed(flow, LIST_ENTRY(at, struct read_task, link))) {
        at = at->next;
    }
    flow->sched->counters.passes += at != &flow->tasks;
    list_push_tail(at, &task->link); // which is before it
}

void read_flow_post(struct read_flow *flow, struct read_task *task)
{
    CHECK(task->kind == READ_KIND_READ || task->kind == READ_KIND_ATOMIC || task->initial_len == 0);
    task->is_pending = true;
    task->is_preempted = false;
    task->completed_len = task->outstanding_len = 0;
    task->outstanding_count = task->request_count = 0;
    task->may_pass = may_pass(flow, task);
    if (task->may_pass) {
        insert(flow, task);
    } else {
        list_push_tail(&flow->tasks, &task->link);
    }
    flow->unasked_len += task->kind == READ_KIND_READ ? task->initial_len : 0;
    if (flow->pending_count++ == 0) {
        note_reader(flow->sched);
    }
}

static struct read_task *first_task(const struct read_flow *flow)
{
    return list_is_empty(&flow->tasks) ? NULL
                                       : LIST_ENTRY(flow->tasks.next, struct read_task, link);
}

static struct read_context *pop_granted(struct read_flow *flow)
{
    struct list_link *link = list_pop_head(&flow->granted);
    return link == NULL ? NULL : LIST_ENTRY(link, struct read_context, link);
}

static bool is_waiting(const struct read_flow *flow)
{
    return !list_is_empty(&flow->link);
}

static bool do_others_wait(const struct read_flow *flow)
{
    return flow->sched->waiting_count > (is_waiting(flow) ? 1 : 0);
}

// May one more request of this read be out?
static bool is_depth_left(const struct read_flow *flow, const struct read_task *task)
{
    uint32_t depth = flow->sched->depth;
    if (task->outstanding_count == 0) {
        return true;
    }
    if (do_others_wait(flow) || (depth > 0 && task->outstanding_count >= depth)) {
        return false;
    }
    uint64_t window_len = 2 * (uint64_t)flow->allotment_len;
    uint64_t limit_len = window_len > flow->pace.pipe_len ? window_len : flow->pace.pipe_len;
    uint32_t length = read_task_next(task, flow->allotment_len).length;
    return task->outstanding_len + length <= limit_len;
}

// What stands between the flow and its next request, contexts left aside.
static enum read_take due_of(const struct read_flow *flow)
{
    const struct read_task *task = first_task(flow);
    if (task == NULL) {
        return READ_TAKE_NOTHING;
    }
    if (flow->context_count >= flow->context_max && task->kind != READ_KIND_READY) {
        return READ_TAKE_ORD;
    }
    return is_depth_left(flow, task) ? READ_TAKE_CONTEXT : READ_TAKE_DEPTH;
}

bool read_flow_wants_take(const struct read_flow *flow)
{
    return !list_is_empty(&flow->granted) ||
           (!is_waiting(flow) && due_of(flow) == READ_TAKE_CONTEXT);
}

/* ---- contexts -------------------------------------------------------------------------------- */

static uint32_t cost_of(const struct read_flow *flow)
{
    uint32_t length = read_task_next(first_task(flow), flow->allotment_len).length;
    return length > READ_COST_MIN_LEN ? length : READ_COST_MIN_LEN;
}

static void tell_moved(const struct read_flow *flow, const struct read_context *context,
                       bool is_granted)
{
    if (__builtin_expect(flow->on_moved != NULL, 0)) {
        flow->on_moved(flow, context, (uint32_t)(context - flow->sched->contexts), is_granted);
    }
}

// Makes a free context that of the flow's next request.
static struct read_context *context_bind(struct read_flow *flow, instant_ns now)
{
    struct read_sched *sched = flow->sched;
    struct read_task *task = first_task(flow);
    struct read_context *context =
        LIST_ENTRY(list_pop_head(&sched->free), struct read_context, link);
    struct read_part part = read_task_next(task, flow->allotment_len);
    *context = (struct read_context){
        .task = task,
        .offset = part.offset,
        .remote_addr = task->remote_addr + part.offset,
        .remote_key = task->remote_key,
        .length = part.length,
        .named_len =
            flow->may_name_rest ? (uint32_t)(task->initial_len - part.offset) : part.length,
    };
    list_init(&context->link);
    sched->free_count--;
    if (flow->context_count++ == 0) {
        read_patience_restart(&flow->patience, now);
    }
    sched->counters.first_requests += task->request_count == 0;
    sched->counters.subsidiary_requests += task->request_count > 0;
    sched->counters.continuations += task->is_preempted && task->outstanding_count == 0;
    task->is_preempted = false;
    read_task_request(task, part.length);
    flow->unasked_len -= task->kind == READ_KIND_READ ? part.length : 0;
    if (!read_task_has_rest(task)) {
        list_remove(&task->link);
    }
    tell_moved(flow, context, true);
    return context;
}

static void context_unbind(struct read_flow *flow, struct read_context *context)
{
    tell_moved(flow, context, false);
    list_remove(&context->link);
    context->task = NULL;
    list_push_head(&flow->sched->free, &context->link); // who goes on keeps this one
    flow->sched->free_count++;
    flow->context_count--;
}

/* ---- the ring -------------------------------------------------------------------------------- */

static void join(struct read_flow *flow)
{
    if (!is_waiting(flow)) {
        list_push_tail(&flow->sched->ring, &flow->link);
        flow->sched->waiting_count++;
        flow->sched->counters.waits++;
    }
}

static void leave(struct read_flow *flow)
{
    if (is_waiting(flow)) {
        list_remove(&flow->link);
        flow->sched->waiting_count--;
    }
    flow->deficit_len = 0;
    flow->is_served = false;
}

static void end_turn(struct read_flow *flow)
{
    flow->is_served = false;
    list_remove(&flow->link);
    list_push_tail(&flow->sched->ring, &flow->link);
}

// Spends the flow's quantum on a free context. False: it has not enough left, its turn is over.
static bool spend(struct read_flow *flow, instant_ns now)
{
    uint32_t cost = cost_of(flow);
    uint32_t quantum = flow->sched->quantum_len > cost ? flow->sched->quantum_len : cost;
    if (!flow->is_served) {
        flow->is_served = true;
        flow->deficit_len += quantum;
    }
    if (flow->deficit_len < cost) {
        return false;
    }
    flow->deficit_len -= cost;
    list_push_tail(&flow->granted, &context_bind(flow, now)->link);
    return true;
}

// Hands free contexts to the flows that wait. `caller` knows by itself that it got some.
static void serve(struct read_sched *sched, const struct read_flow *caller, instant_ns now)
{
    while (sched->free_count > 0 && !list_is_empty(&sched->ring)) {
        struct read_flow *flow = LIST_ENTRY(sched->ring.next, struct read_flow, link);
        if (due_of(flow) == READ_TAKE_CONTEXT) {
            if (!spend(flow, now)) {
                end_turn(flow);
                continue;
            }
            if (flow != caller && flow->on_granted != NULL) {
                flow->on_granted(flow->ctx);
            }
        }
        if (due_of(flow) != READ_TAKE_CONTEXT) {
            leave(flow);
        }
    }
}

/* ---- requests and answers -------------------------------------------------------------------- */

// The allotment may have changed since the context was granted: where an answer would be cut to
// more than the window, or not at all, the request names the window alone.
static void name_anew(const struct read_flow *flow, struct read_context *context)
{
    if (!flow->may_name_rest || flow->allotment_len > context->length) {
        context->named_len = context->length;
    }
}

enum read_take read_sched_take(struct read_flow *flow, instant_ns now, struct read_context **ret)
{
    *ret = pop_granted(flow);
    if (*ret != NULL) {
        name_anew(flow, *ret);
        return READ_TAKE_CONTEXT;
    }
    enum read_take due = is_waiting(flow) ? READ_TAKE_WAIT : due_of(flow);
    if (due != READ_TAKE_CONTEXT) {
        return due;
    }
    if (flow->sched->free_count == 0) {
        join(flow);
        return READ_TAKE_WAIT;
    }
    *ret = context_bind(flow, now); // a free context: nobody waits
    return READ_TAKE_CONTEXT;
}

// A responder that may cut its answers cuts them to the allotment under which the request was made,
// and no shorter: each further request is work of ours.
static uint32_t least_len(const struct read_flow *flow, const struct read_context *context)
{
    bool is_cut = flow->may_name_rest && flow->allotment_len < context->length;
    return is_cut ? flow->allotment_len : context->length;
}

void read_sched_issued(struct read_flow *flow, struct read_context *context, instant_ns now)
{
    context->issued_ns = now;
    context->least_len = least_len(flow, context);
    context->delivered_len = flow->pace.delivered_len;
    context->is_alone = flow->context_count == 1;
    if (context->is_alone) {
        read_patience_restart(&flow->patience, now);
    }
}

void read_sched_issued_at_last(struct read_flow *flow, struct read_context *context, instant_ns now)
{
    name_anew(flow, context);
    read_sched_issued(flow, context, now);
}

// A boundary: the context goes to whoever's turn it is, or stays when nobody waits.
static void recycle(struct read_flow *flow, struct read_context *context, instant_ns now)
{
    struct read_sched *sched = flow->sched;
    struct read_task *before = context->task;
    bool is_unfinished = read_task_has_rest(before);
    bool is_kept = flow->keeps_contexts && is_unfinished;
    bool is_wanted = !list_is_empty(&sched->ring) && !is_kept;
    context_unbind(flow, context);
    enum read_take due = due_of(flow);
    if (due == READ_TAKE_CONTEXT && is_wanted) {
        join(flow);
    } else if (due == READ_TAKE_CONTEXT) {
        list_push_tail(&flow->granted, &context_bind(flow, now)->link);
    }
    sched->counters.depth_reductions += due == READ_TAKE_DEPTH && is_wanted;
    serve(sched, flow, now);
    if (is_unfinished && context->task != NULL && context->task != before) {
        sched->counters.preemptions++;
        sched->counters.reactivations++;
        before->is_preempted = true;
    }
}

static void note_pipe(struct read_sched *sched, const struct read_flow *flow)
{
    uint32_t requests = flow->context_max < sched->count ? flow->context_max : sched->count;
    uint64_t pipe_len = requests > 0 ? flow->pace.pipe_len / requests : 0;
    if (pipe_len > sched->seen.pipe_len) {
        sched->seen.pipe_len = pipe_len;
    }
}

// No request can be longer than the Read that it is made for.
static void note_lasting(struct read_sched *sched, const struct read_flow *flow,
                         const struct read_context *context, instant_ns now)
{
    uint64_t read_len = context->task->initial_len;
    if (sched->reader_count > 1 || read_len < READ_LONG_LEN) {
        return;
    }
    uint64_t len =
        read_pace_lasting_len(&flow->pace, context->delivered_len, context->issued_ns, now);
    len = len < read_len ? len : read_len;
    if (len > sched->seen.lasting_len) {
        sched->seen.lasting_len = len;
    }
}

bool read_sched_answer(struct read_flow *flow, struct read_context *context, instant_ns now)
{
    struct read_task *task = context->task;
    uint32_t answered_len = context->arrived_len;
    CHECK(answered_len > 0 || context->length == 0);
    read_pace_on_answer(&flow->pace, answered_len, context->delivered_len, context->issued_ns, now);
    note_pipe(flow->sched, flow);
    note_lasting(flow->sched, flow, context, now);
    read_patience_restart(&flow->patience, now);
    read_task_answer(task, context->length, answered_len);
    if (answered_len < context->length) {
        flow->sched->counters.partial_answers++;
        context->offset += answered_len;
        context->remote_addr += answered_len;
        context->length -= answered_len;
        context->named_len = context->length; // what follows may be on its way already
        context->arrived_len = 0;
        list_remove(&context->link);
        list_push_tail(&flow->granted, &context->link);
        return false;
    }
    if (!read_task_has_rest(task) && task->outstanding_count == 0) {
        task->is_pending = false;
        flow->sched->reader_count -= --flow->pending_count == 0;
    }
    recycle(flow, context, now);
    return true;
}

void read_sched_abandon(struct read_flow *flow, struct read_context *context, instant_ns now)
{
    context_unbind(flow, context);
    serve(flow->sched, flow, now);
}

void read_flow_stop(struct read_flow *flow, instant_ns now)
{
    leave(flow);
    flow->unasked_len = 0;
    list_init(&flow->tasks); // they stay pending, and are flushed with their work requests
    struct read_context *context;
    while ((context = pop_granted(flow)) != NULL) {
        read_sched_abandon(flow, context, now);
    }
}

void read_flow_forget(struct read_flow *flow, instant_ns now)
{
    read_flow_stop(flow, now);
    CHECK(flow->context_count == 0);
    flow->sched->reader_count -= flow->pending_count > 0;
    flow->pending_count = 0;
    flow->pace = (struct read_pace){0};
}

/* ---- invariants ------------------------------------------------------------------------------ */

bool read_flow_check(const struct read_flow *flow)
{
    uint32_t granted_count = 0, count_of[2] = {0};
    uint64_t unasked_len = 0;
    for (const struct list_link *l = flow->granted.next; l != &flow->granted; l = l->next) {
        granted_count++;
    }
    for (const struct list_link *l = flow->tasks.next; l != &flow->tasks; l = l->next) {
        const struct read_task *task = LIST_ENTRY(l, struct read_task, link);
        // Tasks are served in order: only the first may have begun, and behind what has passed it
        // the first of the others.
        if (!task->is_pending || !read_task_has_rest(task) || !read_task_check(task) ||
            (task->request_count > 0 && count_of[task->may_pass] > 0)) {
            return false;
        }
        count_of[task->may_pass]++;
        unasked_len += task->kind == READ_KIND_READ
                           ? read_task_remaining_len(task) - task->outstanding_len
                           : 0;
    }
    bool is_idle = read_flow_is_idle(flow);
    return unasked_len == flow->unasked_len && granted_count <= flow->context_count &&
           !(is_idle && granted_count > 0);
}

bool read_sched_check(const struct read_sched *sched)
{
    uint32_t waiting_count = 0, free_count = 0;
    for (const struct list_link *l = sched->ring.next; l != &sched->ring; l = l->next) {
        waiting_count++;
    }
    for (const struct list_link *l = sched->free.next; l != &sched->free; l = l->next) {
        free_count++;
    }
    return waiting_count == sched->waiting_count && free_count == sched->free_count &&
           (waiting_count == 0 || free_count == 0);
}
