// The scheduler alone: tasks, flows and contexts, with a test in the place of peers.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "wq/read_sched.h"

enum { ALLOTMENT = 64 * 1024, FLOW_MAX = 1000, OUT_MAX = 256 };

struct reader {
    struct read_flow flow;
    struct read_task task[8];
    unsigned grant_count;
    uint64_t octets; // that were asked for
};

// Requests on their way, oldest first.
struct fixture {
    struct read_sched *sched;
    struct reader reader[FLOW_MAX];
    unsigned reader_count;
    struct read_context *out[OUT_MAX];
    struct reader *whose[OUT_MAX];
    unsigned out_count;
    instant_ns now;
};

static void on_granted(void *ctx)
{
    ((struct reader *)ctx)->grant_count++;
}

static struct fixture *open_with(uint32_t contexts, uint32_t depth, unsigned readers)
{
    struct fixture *f = calloc(1, sizeof *f);
    f->sched = read_sched_create(contexts, depth);
    read_sched_set_quantum(f->sched, ALLOTMENT);
    f->reader_count = readers;
    for (unsigned i = 0; i < readers; i++) {
        struct read_flow *flow = &f->reader[i].flow;
        read_flow_init(flow, f->sched, on_granted, &f->reader[i]);
        flow->context_max = 16;
        flow->allotment_len = ALLOTMENT;
    }
    return f;
}

static void close_all(struct fixture *f)
{
    while (f->out_count > 0) {
        f->out_count--;
        read_sched_abandon(&f->whose[f->out_count]->flow, f->out[f->out_count], f->now);
    }
    for (unsigned i = 0; i < f->reader_count; i++) {
        read_flow_forget(&f->reader[i].flow, f->now);
    }
    assert_true(read_sched_check(f->sched));
    assert_int_equal(read_sched_in_use(f->sched), 0);
    read_sched_destroy(f->sched);
    free(f);
}

static void post(struct fixture *f, unsigned reader, unsigned task, enum read_kind kind,
                 uint64_t len)
{
    struct reader *r = &f->reader[reader];
    r->task[task] = (struct read_task){.kind = kind, .initial_len = len, .remote_addr = 1000};
    read_flow_post(&r->flow, &r->task[task]);
}

// Issues every request that the reader may issue now; their number.
static unsigned issue(struct fixture *f, unsigned reader)
{
    struct reader *r = &f->reader[reader];
    struct read_context *context;
    unsigned count = 0;
    while (read_sched_take(&r->flow, f->now, &context) == READ_TAKE_CONTEXT) {
        read_sched_issued(&r->flow, context, f->now);
        r->octets += context->length;
        f->whose[f->out_count] = r;
        f->out[f->out_count++] = context;
        count++;
    }
    return count;
}

static void issue_all(struct fixture *f)
{
    for (unsigned i = 0; i < f->reader_count; i++) {
        issue(f, i);
    }
}

// The oldest request is answered with `len` octets of its window.
static struct reader *answer(struct fixture *f, uint32_t len)
{
    assert_true(f->out_count > 0);
    struct read_context *context = f->out[0];
    struct reader *r = f->whose[0];
    f->out_count--;
    memmove(&f->out[0], &f->out[1], f->out_count * sizeof f->out[0]);
    memmove(&f->whose[0], &f->whose[1], f->out_count * sizeof f->whose[0]);
    f->now += NS_PER_US;
    context->arrived_len = len < context->length ? len : context->length;
    read_sched_answer(&r->flow, context, f->now);
    assert_true(read_flow_check(&r->flow));
    assert_true(read_sched_check(f->sched));
    return r;
}

static struct reader *answer_whole(struct fixture *f)
{
    return answer(f, UINT32_MAX);
}

static uint64_t count_of(const struct fixture *f, size_t offset)
{
    return *(const uint64_t *)(const void *)((const char *)read_sched_counters(f->sched) + offset);
}
#define COUNT(f, name) count_of(f, offsetof(struct read_sched_counters, name))

static void a_read_alone_keeps_two_requests_out(void **state)
{
    struct fixture *f = open_with(8, 0, 1);
    post(f, 0, 0, READ_KIND_READ, 5 * ALLOTMENT + 1);
    assert_int_equal(issue(f, 0), 2);
    for (unsigned left = 6; left > 0; left--) {
        answer_whole(f);
        issue(f, 0);
        assert_int_equal(f->out_count, left > 2 ? 2 : left - 1);
    }
    assert_false(f->reader[0].task[0].is_pending);
    assert_int_equal(COUNT(f, first_requests), 1);
    assert_int_equal(COUNT(f, subsidiary_requests), 5);
    assert_int_equal(COUNT(f, preemptions), 0);
    close_all(f);
}

// Its round trip is that of the way, and its patience begins: with others out neither is so.
static void a_request_knows_whether_it_was_alone(void **state)
{
    struct fixture *f = open_with(8, 0, 1);
    struct read_flow *flow = &f->reader[0].flow;
    f->now = 5 * NS_PER_MS;
    post(f, 0, 0, READ_KIND_READ, 2 * ALLOTMENT);
    assert_int_equal(issue(f, 0), 2);
    assert_true(f->out[0]->is_alone);
    assert_false(f->out[1]->is_alone);
    assert_true(flow->patience.since_ns == 5 * NS_PER_MS);
    answer_whole(f);
    answer_whole(f);
    f->now = 9 * NS_PER_MS;
    post(f, 0, 1, READ_KIND_READ, 1);
    assert_int_equal(issue(f, 0), 1);
    assert_true(f->out[0]->is_alone);
    assert_true(flow->patience.since_ns == 9 * NS_PER_MS);
    f->now += NS_PER_MS;
    post(f, 0, 2, READ_KIND_READ, 1);
    assert_int_equal(issue(f, 0), 1);
    assert_true(flow->patience.since_ns == 9 * NS_PER_MS);
    answer_whole(f);
    answer_whole(f);
    close_all(f);
}

static void who_finds_no_context_waits_for_one(void **state)
{
    struct fixture *f = open_with(1, 0, 2);
    struct read_context *context;
    post(f, 0, 0, READ_KIND_READ, 1);
    post(f, 1, 0, READ_KIND_READ, 1);
    assert_int_equal(issue(f, 0), 1);
    assert_int_equal(read_sched_take(&f->reader[1].flow, f->now, &context), READ_TAKE_WAIT);
    assert_int_equal(f->reader[1].grant_count, 0);
    assert_int_equal(COUNT(f, waits), 1);
    answer_whole(f);
    assert_int_equal(f->reader[1].grant_count, 1);
    assert_int_equal(issue(f, 1), 1);
    answer_whole(f);
    close_all(f);
}

static void with_depth_1_a_request_is_made_when_the_one_before_is_answered(void **state)
{
    struct fixture *f = open_with(8, 1, 1);
    post(f, 0, 0, READ_KIND_READ, 3 * ALLOTMENT);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(issue(f, 0), 1);
        assert_int_equal(f->out[0]->offset, i * ALLOTMENT);
        assert_int_equal(f->out[0]->remote_addr, 1000 + i * ALLOTMENT);
        answer_whole(f);
    }
    assert_false(f->reader[0].task[0].is_pending);
    close_all(f);
}

static void a_filled_pipe_allows_more_requests(void **state)
{
    struct fixture *f = open_with(8, 0, 1);
    f->reader[0].flow.pace.pipe_len = 5 * ALLOTMENT;
    post(f, 0, 0, READ_KIND_READ, 100 * ALLOTMENT);
    assert_int_equal(issue(f, 0), 5);
    close_all(f);
}

// What was delivered since a request was issued is what the pipe held, not all that ever came.
static void the_pipe_is_measured_from_the_issue_of_each_request(void **state)
{
    struct fixture *f = open_with(8, 1, 1);
    struct read_flow *flow = &f->reader[0].flow;
    flow->pace.rtt_ns = NS_PER_US; // as long as an answer takes here
    flow->pace.delivered_len = 1000ULL * ALLOTMENT;
    post(f, 0, 0, READ_KIND_READ, ALLOTMENT);
    assert_int_equal(issue(f, 0), 1);
    answer_whole(f);
    assert_int_equal(flow->pace.pipe_len, 2 * ALLOTMENT);
    close_all(f);
}

static void small_reads_pipeline_up_to_ord(void **state)
{
    struct fixture *f = open_with(8, 1, 1);
    f->reader[0].flow.context_max = 3;
    for (unsigned i = 0; i < 5; i++) {
        post(f, 0, i, READ_KIND_READ, 100);
    }
    struct read_context *context;
    assert_int_equal(issue(f, 0), 3);
    assert_int_equal(read_sched_take(&f->reader[0].flow, f->now, &context), READ_TAKE_ORD);
    answer_whole(f);
    assert_int_equal(issue(f, 0), 1);
    close_all(f);
}

static void a_task_begins_when_all_of_the_one_before_was_asked_for(void **state)
{
    struct fixture *f = open_with(8, 0, 1);
    post(f, 0, 0, READ_KIND_READ, 3 * ALLOTMENT);
    post(f, 0, 1, READ_KIND_ATOMIC, 8);
    assert_int_equal(issue(f, 0), 2);
    answer_whole(f);
    assert_int_equal(issue(f, 0), 2);
    assert_ptr_equal(f->out[1]->task, &f->reader[0].task[0]);
    assert_ptr_equal(f->out[2]->task, &f->reader[0].task[1]);
    assert_int_equal(COUNT(f, passes), 0);
    close_all(f);
}

// However much is left of Reads of its own queue pair: it waits for what is out already, no more.
static void an_atomic_passes_a_gigabyte_of_its_own_queue_pair(void **state)
{
    struct fixture *f = open_with(8, 0, 1);
    post(f, 0, 0, READ_KIND_READ, UINT64_C(1) << 30);
    post(f, 0, 1, READ_KIND_READ, 100);
    assert_int_equal(issue(f, 0), 2);
    post(f, 0, 2, READ_KIND_ATOMIC, 8);
    assert_int_equal(issue(f, 0), 1);
    assert_ptr_equal(f->out[2]->task, &f->reader[0].task[2]);
    assert_int_equal(COUNT(f, passes), 1);
    for (unsigned i = 0; i < 3; i++) {
        answer_whole(f);
        issue(f, 0);
    }
    assert_false(f->reader[0].task[2].is_pending);
    assert_ptr_equal(f->out[0]->task, &f->reader[0].task[0]);
    close_all(f);
}

// Many Reads that are short count as one that is long.
static void an_atomic_passes_many_reads_of_its_own_queue_pair(void **state)
{
    struct fixture *f = open_with(2, 1, 1);
    for (unsigned i = 0; i < 6; i++) {
        post(f, 0, i, READ_KIND_READ, READ_STAYS_BEHIND_LEN / 4);
    }
    post(f, 0, 6, READ_KIND_ATOMIC, 8);
    issue(f, 0);
    assert_ptr_equal(f->out[0]->task, &f->reader[0].task[6]);
    close_all(f);
}

// Only one whose program said so, and those in their order.
static void a_read_passes_another_of_its_queue_pair_if_its_program_says_so(void **state)
{
    struct fixture *f = open_with(8, 1, 1);
    f->reader[0].flow.context_max = 2;
    post(f, 0, 0, READ_KIND_READ, 100 * ALLOTMENT);
    assert_int_equal(issue(f, 0), 1);
    post(f, 0, 1, READ_KIND_READ, 1);
    for (unsigned i = 2; i < 4; i++) {
        f->reader[0].task[i] = (struct read_task){.may_pass = true, .initial_len = 2 * ALLOTMENT};
        read_flow_post(&f->reader[0].flow, &f->reader[0].task[i]);
    }
    for (unsigned i = 0; i < 4; i++) {
        issue(f, 0);
        assert_ptr_equal(f->out[1]->task, &f->reader[0].task[2 + i / 2]);
        f->out[1]->arrived_len = f->out[1]->length;
        read_sched_answer(&f->reader[0].flow, f->out[1], f->now);
        assert_true(read_flow_check(&f->reader[0].flow));
        f->out_count--;
    }
    answer_whole(f);
    issue(f, 0);
    assert_ptr_equal(f->out[0]->task, &f->reader[0].task[0]);
    assert_int_equal(COUNT(f, passes), 2);
    close_all(f);
}

// A boundary of a Read that goes on: the context of its part is the atomic's next.
static void what_passes_takes_the_context_of_a_read_of_its_own_queue_pair(void **state)
{
    for (unsigned limit = 0; limit < 2; limit++) { // the device's, the peer's
        struct fixture *f = open_with(limit == 0 ? 1 : 8, 1, 1);
        f->reader[0].flow.context_max = limit == 0 ? 8 : 1;
        post(f, 0, 0, READ_KIND_READ, 2 * READ_STAYS_BEHIND_LEN);
        issue(f, 0);
        post(f, 0, 1, READ_KIND_ATOMIC, 8);
        assert_int_equal(issue(f, 0), 0);
        answer_whole(f);
        issue(f, 0);
        assert_ptr_equal(f->out[0]->task, &f->reader[0].task[1]);
        assert_int_equal(COUNT(f, preemptions), 1);
        assert_int_equal(COUNT(f, reactivations), 1);
        answer_whole(f);
        issue(f, 0);
        assert_ptr_equal(f->out[0]->task, &f->reader[0].task[0]);
        assert_int_equal(COUNT(f, continuations), 1);
        close_all(f);
    }
}

// One that has no allotment and has begun is not passed: it keeps what it has.
static void an_undivided_read_that_has_begun_is_not_passed(void **state)
{
    struct fixture *f = open_with(1, 1, 1);
    f->reader[0].flow.keeps_contexts = true;
    post(f, 0, 0, READ_KIND_READ, 2 * READ_STAYS_BEHIND_LEN);
    issue(f, 0);
    post(f, 0, 1, READ_KIND_ATOMIC, 8);
    answer_whole(f);
    issue(f, 0);
    assert_ptr_equal(f->out[0]->task, &f->reader[0].task[0]);
    close_all(f);
}

// The source's claim 4: taken at a boundary, used for a request of another type from another
// queue, and the read goes on later.
static void preemption_reactivation_continuation(void **state)
{
    struct fixture *f = open_with(1, 1, 2);
    post(f, 0, 0, READ_KIND_READ, 2 * ALLOTMENT);
    issue(f, 0);
    struct read_context *only = f->out[0];
    post(f, 1, 0, READ_KIND_ATOMIC, 8);
    assert_int_equal(issue(f, 1), 0);
    answer_whole(f); // the boundary: the read is not finished
    assert_int_equal(f->reader[1].grant_count, 1);
    assert_int_equal(issue(f, 0), 0);
    assert_int_equal(issue(f, 1), 1);
    assert_ptr_equal(f->out[0], only);
    assert_int_equal(COUNT(f, preemptions), 1);
    assert_int_equal(COUNT(f, reactivations), 1);
    assert_int_equal(COUNT(f, continuations), 0);
    answer_whole(f);
    assert_int_equal(issue(f, 0), 1);
    assert_ptr_equal(f->out[0], only);
    assert_int_equal(f->out[0]->offset, ALLOTMENT);
    assert_int_equal(COUNT(f, continuations), 1);
    answer_whole(f);
    assert_false(f->reader[0].task[0].is_pending);
    assert_false(f->reader[1].task[0].is_pending);
    assert_int_equal(COUNT(f, preemptions), 1);
    close_all(f);
}

static void while_others_wait_a_read_has_one_request_out(void **state)
{
    struct fixture *f = open_with(2, 0, 2);
    post(f, 0, 0, READ_KIND_READ, 100 * ALLOTMENT);
    assert_int_equal(issue(f, 0), 2);
    post(f, 1, 0, READ_KIND_READ, 100 * ALLOTMENT);
    assert_int_equal(issue(f, 1), 0);
    answer_whole(f);
    issue_all(f);
    assert_int_equal(f->reader[0].flow.context_count, 1);
    assert_int_equal(f->reader[1].flow.context_count, 1);
    assert_int_equal(COUNT(f, depth_reductions), 1);
    close_all(f);
}

// Of the flows before it each spends one quantum; who comes later waits behind it.
static void a_flow_waits_for_one_quantum_of_each_flow_before_it(void **state)
{
    enum { READERS = 1000, CONTEXTS = 4 };
    struct fixture *f = open_with(CONTEXTS, 0, READERS);
    for (unsigned i = 0; i < READERS; i++) {
        bool is_small = i % 3 == 0;
        for (unsigned k = 0; k < (is_small ? 8U : 1U); k++) {
            post(f, i, k, READ_KIND_READ, is_small ? ALLOTMENT / 16 : 100 * ALLOTMENT);
        }
    }
    issue_all(f);
    uint64_t octets[READERS], spent = 0;
    for (unsigned i = 0; i < READERS; i++) {
        octets[i] = f->reader[i].octets;
    }
    // All have joined: every one of them has its first context after a quantum of the others each.
    for (unsigned waiting = READERS - CONTEXTS; waiting > 0;) {
        struct reader *r = answer_whole(f);
        issue_all(f);
        waiting = 0;
        spent = 0;
        for (unsigned i = 0; i < READERS; i++) {
            waiting += f->reader[i].octets == 0;
            spent += f->reader[i].octets - octets[i];
            assert_true(f->reader[i].octets - octets[i] <= 3 * ALLOTMENT);
        }
        assert_non_null(r);
        assert_true(spent <= (uint64_t)(READERS + CONTEXTS) * ALLOTMENT);
    }
    close_all(f);
}

static void octets_are_shared_evenly_whatever_the_sizes(void **state)
{
    enum { READERS = 8, ROUNDS = 4000 };
    struct fixture *f = open_with(2, 0, READERS);
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < READERS; i++) {
            for (unsigned k = 0; k < 8; k++) {
                if (!f->reader[i].task[k].is_pending) {
                    post(f, i, k, READ_KIND_READ, (uint64_t)ALLOTMENT << i >> 4);
                }
            }
        }
        issue_all(f);
        answer_whole(f);
        issue_all(f);
    }
    uint64_t least = UINT64_MAX, most = 0;
    for (unsigned i = 0; i < READERS; i++) {
        least = f->reader[i].octets < least ? f->reader[i].octets : least;
        most = f->reader[i].octets > most ? f->reader[i].octets : most;
    }
    assert_true(most < least + least / 20);
    close_all(f);
}

// Who wanted little each time it waited has no more than a quantum when it wants much.
static void what_is_left_of_a_quantum_is_not_saved_up(void **state)
{
    struct fixture *f = open_with(1, 0, 3);
    for (unsigned i = 0; i < 20; i++) {
        post(f, 2, 0, READ_KIND_READ, 1);
        assert_int_equal(issue(f, 2), 1); // the only context
        post(f, 0, 0, READ_KIND_READ, 1);
        assert_int_equal(issue(f, 0), 0);
        answer_whole(f);
        assert_int_equal(issue(f, 0), 1);
        answer_whole(f);
    }
    post(f, 2, 0, READ_KIND_READ, 1);
    issue(f, 2);
    for (unsigned k = 0; k < 4; k++) {
        post(f, 0, k, READ_KIND_READ, ALLOTMENT);
        post(f, 1, k, READ_KIND_READ, ALLOTMENT);
    }
    issue(f, 0);
    issue(f, 1);
    for (unsigned i = 0; i < 8; i++) {
        answer_whole(f);
        issue_all(f);
        assert_ptr_equal(f->whose[0], &f->reader[i % 2]);
    }
    close_all(f);
}

static void requests_of_no_octets_are_not_free(void **state)
{
    struct fixture *f = open_with(1, 0, 3);
    read_sched_set_quantum(f->sched, 2 * READ_COST_MIN_LEN);
    post(f, 0, 0, READ_KIND_READ, 1);
    issue(f, 0);
    for (unsigned k = 0; k < 8; k++) {
        post(f, 1, k, READ_KIND_FLUSH, 0);
    }
    issue(f, 1);
    post(f, 2, 0, READ_KIND_READ, 1);
    issue(f, 2);
    for (unsigned i = 0; i < 3; i++) { // two flushes, then it is the other's turn
        answer_whole(f);
        issue_all(f);
    }
    assert_ptr_equal(f->whose[0], &f->reader[2]);
    close_all(f);
}

static void a_short_answer_is_carried_on_with_the_same_context(void **state)
{
    struct fixture *f = open_with(4, 0, 1);
    post(f, 0, 0, READ_KIND_READ, 3 * ALLOTMENT);
    f->reader[0].flow.may_name_rest = true;
    assert_int_equal(issue(f, 0), 2);
    struct read_context *first = f->out[0];
    assert_int_equal(first->named_len, 3 * ALLOTMENT);
    assert_int_equal(f->out[1]->named_len, 2 * ALLOTMENT);
    answer(f, 1000);
    assert_int_equal(issue(f, 0), 1);
    assert_ptr_equal(f->out[1], first);
    assert_int_equal(first->offset, 1000);
    assert_int_equal(first->length, ALLOTMENT - 1000);
    assert_int_equal(first->named_len, ALLOTMENT - 1000); // what follows is asked for already
    assert_int_equal(COUNT(f, partial_answers), 1);
    while (f->out_count > 0) {
        answer_whole(f);
        issue(f, 0);
    }
    assert_false(f->reader[0].task[0].is_pending);
    assert_int_equal(f->reader[0].octets, 3 * ALLOTMENT + ALLOTMENT - 1000);
    close_all(f);
}

static void a_granted_window_is_named_by_the_allotment_of_its_issue(void **state)
{
    static const struct {
        bool may_name_rest;
        uint32_t allotment_len, named_len;
    } cases[] = {
        {true, ALLOTMENT, 3 * ALLOTMENT},
        {true, ALLOTMENT / 2, 3 * ALLOTMENT}, // the answer is shorter than the window
        {true, ALLOTMENT * 2, ALLOTMENT},     // ... would be longer
        {false, 0, ALLOTMENT},                // ... would be whole
    };
    for (unsigned i = 0; i < 4; i++) {
        struct fixture *f = open_with(1, 0, 2);
        f->reader[1].flow.may_name_rest = true;
        post(f, 0, 0, READ_KIND_READ, 100);
        post(f, 1, 0, READ_KIND_READ, 3 * ALLOTMENT);
        issue_all(f);
        answer_whole(f); // grants it to the other
        f->reader[1].flow.may_name_rest = cases[i].may_name_rest;
        f->reader[1].flow.allotment_len = cases[i].allotment_len;
        issue(f, 1);
        assert_int_equal(f->out[0]->length, ALLOTMENT);
        assert_int_equal(f->out[0]->named_len, cases[i].named_len);
        close_all(f);
    }
}

static void who_stops_gives_back_what_it_was_granted(void **state)
{
    struct fixture *f = open_with(1, 0, 3);
    for (unsigned i = 0; i < 3; i++) {
        post(f, i, 0, READ_KIND_READ, 100);
        issue(f, i);
    }
    answer_whole(f);
    assert_int_equal(f->reader[1].grant_count, 1);
    read_flow_stop(&f->reader[1].flow, f->now);
    assert_int_equal(f->reader[2].grant_count, 1);
    assert_int_equal(issue(f, 2), 1);
    close_all(f);
}

static void start_ups_own_request_does_not_count_against_ord(void **state)
{
    struct fixture *f = open_with(1, 0, 1);
    f->reader[0].flow.context_max = 0;
    post(f, 0, 0, READ_KIND_READY, 0);
    assert_int_equal(issue(f, 0), 1);
    answer_whole(f);
    close_all(f);
}

// Requests that fetch so much would fill the pipe with as many as may be out; asked for once.
static void what_fills_a_pipe_is_told_to_who_asks(void **state)
{
    struct fixture *f = open_with(4, 1, 1);
    struct read_flow *flow = &f->reader[0].flow;
    flow->context_max = 2;
    flow->pace.rtt_ns = NS_PER_US; // as long as an answer takes here
    post(f, 0, 0, READ_KIND_READ, ALLOTMENT);
    assert_int_equal(issue(f, 0), 1);
    assert_int_equal(read_sched_take_seen(f->sched).pipe_len, 0);
    answer_whole(f);
    assert_int_equal(flow->pace.pipe_len, 2 * ALLOTMENT);
    assert_int_equal(read_sched_take_seen(f->sched).pipe_len, ALLOTMENT);
    assert_int_equal(read_sched_take_seen(f->sched).pipe_len, 0);
    close_all(f);
}

// A request that takes a microsecond wants to be 200 times as long, and no longer than its Read.
static void how_long_a_request_lasts_is_told_of_who_reads_alone(void **state)
{
    struct fixture *f = open_with(4, 1, 2);
    post(f, 0, 0, READ_KIND_READ, 1000 * ALLOTMENT);
    assert_int_equal(issue(f, 0), 1);
    answer_whole(f);
    struct read_sched_seen seen = read_sched_take_seen(f->sched);
    assert_int_equal(seen.lasting_len, 200 * ALLOTMENT);
    assert_int_equal(seen.reader_count, 1);
    post(f, 1, 0, READ_KIND_READ, 2 * ALLOTMENT);
    assert_int_equal(read_sched_reader_count(f->sched), 2);
    issue_all(f);
    answer_whole(f);
    assert_int_equal(read_sched_take_seen(f->sched).lasting_len, 0); // the other has begun
    read_flow_forget(&f->reader[0].flow, f->now);
    assert_int_equal(read_sched_take_seen(f->sched).reader_count, 2); // at one time
    answer_whole(f);
    seen = read_sched_take_seen(f->sched);
    assert_int_equal(seen.lasting_len, 2 * ALLOTMENT);
    assert_int_equal(seen.reader_count, 1);
    assert_int_equal(issue(f, 1), 1);
    answer_whole(f);
    assert_int_equal(read_sched_reader_count(f->sched), 0); // it was its last request
    close_all(f);
}

static void the_checks_see_damage(void **state)
{
    struct fixture *f = open_with(8, 1, 1);
    struct reader *r = &f->reader[0];
    post(f, 0, 0, READ_KIND_READ, 10 * ALLOTMENT);
    post(f, 0, 1, READ_KIND_READ, 10 * ALLOTMENT);
    assert_true(read_flow_check(&r->flow));
    r->task[1].request_count = 1; // before the first has all it wants
    assert_false(read_flow_check(&r->flow));
    r->task[1].request_count = 0;
    r->task[1].is_pending = false;
    assert_false(read_flow_check(&r->flow));
    r->task[1].is_pending = true;
    r->task[0].completed_len = 11 * ALLOTMENT; // more than there is
    assert_false(read_flow_check(&r->flow));
    r->task[0].completed_len = 0;
    assert_true(read_flow_check(&r->flow));
    struct list_link granted;
    list_push_tail(&r->flow.granted, &granted); // by nobody
    assert_false(read_flow_check(&r->flow));
    list_remove(&granted);
    assert_true(read_sched_check(f->sched));
    close_all(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_read_alone_keeps_two_requests_out),
        cmocka_unit_test(a_request_knows_whether_it_was_alone),
        cmocka_unit_test(who_finds_no_context_waits_for_one),
        cmocka_unit_test(with_depth_1_a_request_is_made_when_the_one_before_is_answered),
        cmocka_unit_test(a_filled_pipe_allows_more_requests),
        cmocka_unit_test(the_pipe_is_measured_from_the_issue_of_each_request),
        cmocka_unit_test(small_reads_pipeline_up_to_ord),
        cmocka_unit_test(a_task_begins_when_all_of_the_one_before_was_asked_for),
        cmocka_unit_test(an_atomic_passes_a_gigabyte_of_its_own_queue_pair),
        cmocka_unit_test(an_atomic_passes_many_reads_of_its_own_queue_pair),
        cmocka_unit_test(a_read_passes_another_of_its_queue_pair_if_its_program_says_so),
        cmocka_unit_test(what_passes_takes_the_context_of_a_read_of_its_own_queue_pair),
        cmocka_unit_test(an_undivided_read_that_has_begun_is_not_passed),
        cmocka_unit_test(preemption_reactivation_continuation),
        cmocka_unit_test(while_others_wait_a_read_has_one_request_out),
        cmocka_unit_test(a_flow_waits_for_one_quantum_of_each_flow_before_it),
        cmocka_unit_test(octets_are_shared_evenly_whatever_the_sizes),
        cmocka_unit_test(what_is_left_of_a_quantum_is_not_saved_up),
        cmocka_unit_test(requests_of_no_octets_are_not_free),
        cmocka_unit_test(a_short_answer_is_carried_on_with_the_same_context),
        cmocka_unit_test(a_granted_window_is_named_by_the_allotment_of_its_issue),
        cmocka_unit_test(who_stops_gives_back_what_it_was_granted),
        cmocka_unit_test(start_ups_own_request_does_not_count_against_ord),
        cmocka_unit_test(what_fills_a_pipe_is_told_to_who_asks),
        cmocka_unit_test(how_long_a_request_lasts_is_told_of_who_reads_alone),
        cmocka_unit_test(the_checks_see_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
