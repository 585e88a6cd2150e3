// The ring of descriptors by itself: which is free, which is signalled, whose a completion is, and
// what becomes of the requests in it.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "manager/slots.h"

enum { COUNT = 8, SEGMENTS = 3, INTERVAL = 3 };

static struct slots slots;
static struct weft_rdma_counters counters;

/* ---- a queue pair that takes as much as the test says ---------------------------------------- */

static int says;
static struct ibv_send_wr *refuses, *chain; // NULL: none

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    chain = wr;
    *bad = refuses;
    return says;
}

static struct ibv_context context = {.ops = {.post_send = post_send}};
static struct ibv_qp qp = {.context = &context};

static int post(void)
{
    return slots_post(&slots, &qp, &counters);
}

static int setup(void **state)
{
    counters = (struct weft_rdma_counters){0};
    says = 0;
    refuses = chain = NULL;
    return slots_init(&slots, COUNT, SEGMENTS, INTERVAL);
}

static int teardown(void **state)
{
    slots_fini(&slots);
    assert_null(slots.items);
    return 0;
}

static struct slot *add(void)
{
    struct slot *slot = slots_next_free(&slots);
    assert_non_null(slot);
    slots_commit(&slots);
    return slot;
}

static void add_many(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        add();
    }
}

static void retire(unsigned count)
{
    struct list_link ended;
    list_init(&ended);
    for (unsigned i = 0; i < count; i++) {
        slots_retire(&slots, NULL, &ended);
    }
}

// 's' for each that is signalled, '.' for each that is not, in the order of the chain.
static const char *signals(void)
{
    static char text[COUNT + 1];
    unsigned i = 0;
    for (const struct ibv_send_wr *wr = chain; wr != NULL; wr = wr->next) {
        text[i++] = (wr->send_flags & IBV_SEND_SIGNALED) != 0 ? 's' : '.';
    }
    text[i] = '\0';
    return text;
}

/* ---- filling and posting --------------------------------------------------------------------- */

static void a_slot_is_free_until_it_is_committed_and_again_when_it_is_retired(void **state)
{
    const struct slot *first = slots_next_free(&slots);
    assert_ptr_equal(slots_next_free(&slots), first);
    assert_false(slots_has_unposted(&slots));
    for (unsigned i = 0; i < COUNT; i++) {
        const struct slot *slot = add();
        assert_int_equal(slot->descriptor.wr.wr_id, (uintptr_t)slot);
        assert_ptr_equal(slot->descriptor.wr.sg_list, slots.segments + i * SEGMENTS);
    }
    assert_null(slots_next_free(&slots));
    assert_true(slots_has_unposted(&slots) && !slots_has_posted(&slots));
    assert_int_equal(post(), 0);
    assert_true(!slots_has_unposted(&slots) && slots_has_posted(&slots));
    assert_null(slots_next_free(&slots));
    retire(1);
    assert_ptr_equal(slots_next_free(&slots), first);
    retire(COUNT - 1);
    assert_false(slots_has_posted(&slots));
}

static void a_slot_that_is_used_again_has_nothing_of_before(void **state)
{
    struct slot *slot = add();
    struct progress progress;
    slot->descriptor.wr.send_flags = IBV_SEND_INLINE;
    slot->descriptor.wr.num_sge = 2;
    slot->first = &progress;
    slot->post_error = EIO;
    slots_drop_unposted(&slots, &(struct list_link){0});
    assert_ptr_equal(slots_next_free(&slots), slot);
    assert_int_equal(slot->descriptor.wr.send_flags, 0);
    assert_int_equal(slot->descriptor.wr.num_sge, 0);
    assert_null(slot->first);
    assert_null(slot->goes_on);
    assert_int_equal(slot->post_error, 0);
    assert_true(list_is_empty(&slot->ends));
}

static void the_last_and_one_of_an_interval_are_signalled(void **state)
{
    static const struct {
        unsigned count;
        const char *signals;
    } table[] = {{1, "s"}, {2, ".s"}, {3, "..s"}, {4, "..ss"}, {7, "..s..ss"}, {8, "..s..s.s"}};
    uint64_t signalled = 0;
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        add_many(table[i].count);
        assert_int_equal(post(), 0);
        assert_string_equal(signals(), table[i].signals);
        assert_int_equal(counters.post_count, i + 1);
        for (const char *c = table[i].signals; *c != '\0'; c++) {
            signalled += *c == 's';
        }
        assert_int_equal(counters.signalled_count, signalled);
        retire(table[i].count);
    }
}

// Those that were not taken are counted when they are.
static void what_is_refused_within_a_chain_goes_with_the_next(void **state)
{
    add_many(5);
    says = ENOMEM;
    refuses = &slots.items[2].descriptor.wr;
    assert_int_equal(post(), ENOMEM);
    assert_string_equal(signals(), "..s.s");
    assert_int_equal(counters.signalled_count, 0);
    assert_true(slots_has_posted(&slots) && slots_has_unposted(&slots));
    says = -EIO; // as some providers answer
    refuses = NULL;
    assert_int_equal(post(), EIO);
    assert_ptr_equal(chain, &slots.items[2].descriptor.wr);
    says = 0;
    assert_int_equal(post(), 0);
    assert_string_equal(signals(), "s.s"); // two without a signal are out
    assert_int_equal(counters.post_count, 3);
    assert_int_equal(counters.signalled_count, 2);
    assert_false(slots_has_unposted(&slots));
}

static void a_refusal_is_found_around_the_end_of_the_ring(void **state)
{
    add_many(6);
    assert_int_equal(post(), 0);
    retire(6);
    add_many(5); // 6, 7, 0, 1, 2
    says = ENOMEM;
    refuses = &slots.items[1].descriptor.wr;
    post();
    uint32_t index;
    assert_true(slots_find(&slots, (uintptr_t)&slots.items[0], &index));
    assert_int_equal(index, 2);
    assert_true(slots_find(&slots, (uintptr_t)&slots.items[1], &index));
    assert_int_equal(index, SLOTS_NOT_POSTED);
}

/* ---- completions ----------------------------------------------------------------------------- */

static void a_completion_is_that_of_a_posted_slot_or_of_none(void **state)
{
    uint32_t index = 0;
    add_many(3);
    assert_true(slots_find(&slots, (uintptr_t)&slots.items[0], &index));
    assert_int_equal(index, SLOTS_NOT_POSTED);
    assert_int_equal(post(), 0);
    for (unsigned i = 0; i < 3; i++) {
        assert_true(slots_find(&slots, (uintptr_t)&slots.items[i], &index));
        assert_int_equal(index, i);
    }
    assert_true(slots_find(&slots, (uintptr_t)&slots.items[3], &index));
    assert_int_equal(index, SLOTS_NOT_POSTED);
    retire(1);
    assert_true(slots_find(&slots, (uintptr_t)&slots.items[2], &index));
    assert_int_equal(index, 1);
    assert_true(slots_find(&slots, (uintptr_t)&slots.items[0], &index));
    assert_int_equal(index, SLOTS_NOT_POSTED);
    assert_false(slots_find(&slots, (uintptr_t)&slots.items[1] + 1, &index));
    assert_false(slots_find(&slots, (uintptr_t)&slots.items[COUNT], &index));
    assert_false(slots_find(&slots, (uintptr_t)slots.items - sizeof slots.items[0], &index));
    assert_false(slots_find(&slots, 0, &index));
}

/* ---- requests -------------------------------------------------------------------------------- */

static struct weft_rdma_element elements[2];

// A request of so many octets that one or more descriptors are to have.
static struct progress *request_begin(struct weft_rdma_request *request, uint64_t len,
                                      uint64_t transfers)
{
    *request = (struct weft_rdma_request){.elements = &elements[0]};
    struct progress *progress = progress_of(request);
    progress->request = request;
    progress->total_len = len;
    progress_init(progress);
    progress->total_transfer_count = transfers;
    return progress;
}

static void a_request_ends_with_the_slot_that_it_ends_in(void **state)
{
    struct weft_rdma_request requests[2];
    struct progress *one = request_begin(&requests[0], 30, 2);
    struct progress *two = request_begin(&requests[1], 5, 1);
    struct list_link ended;
    list_init(&ended);
    slot_add_part(add(), one, 20);
    struct slot *last = add();
    progress_on_formatted(one);
    slot_add_end(last, one, 10);
    progress_on_formatted(two);
    slot_add_end(last, two, 5);
    assert_int_equal(one->formatted_transfer_count, 2);
    assert_int_equal(two->formatted_transfer_count, 1);
    assert_int_equal(post(), 0);
    slots_retire(&slots, NULL, &ended);
    assert_true(list_is_empty(&ended));
    assert_int_equal(requests[0].result.done_len, 20);
    slots_retire(&slots, NULL, &ended);
    assert_ptr_equal(list_pop_head(&ended), &one->link); // in the order that they joined
    assert_ptr_equal(list_pop_head(&ended), &two->link);
    assert_int_equal(requests[0].result.outcome, WEFT_RDMA_SUCCESS);
    assert_int_equal(requests[0].result.done_len, 30);
    assert_int_equal(requests[1].result.done_len, 5);
}

// Whose octets come first in the slot is told at which element; the others at their first one; of
// what others took along, and of a trailer, nothing is told.
static void a_failure_names_the_element_of_whom_it_hit(void **state)
{
    static const struct failure hit = {.status = IBV_WC_REM_ACCESS_ERR, .vendor_err = 9};
    for (unsigned i = 0; i < 3; i++) {
        struct weft_rdma_request requests[2];
        struct progress *one = request_begin(&requests[0], 30, 1);
        struct progress *two = request_begin(&requests[1], 5, 1);
        struct list_link ended;
        struct slot *slot = add();
        list_init(&ended);
        slot->first = i == 2 ? NULL : one;
        slot->first_element = &elements[1];
        slot->first_element_index = 7;
        progress_on_formatted(one);
        slot_add_end(slot, one, 30);
        progress_on_formatted(two);
        slot_add_end(slot, two, 5);
        assert_int_equal(post(), 0);
        slots_retire(&slots, i == 1 ? &failure_flushed : &hit, &ended);
        for (unsigned r = 0; r < 2; r++) {
            const struct weft_rdma_result *result = &requests[r].result;
            assert_int_equal(result->outcome, WEFT_RDMA_FAILED);
            assert_int_equal(result->status, i == 1 ? IBV_WC_WR_FLUSH_ERR : hit.status);
            assert_int_equal(result->vendor_err, i == 1 ? 0 : 9);
            assert_ptr_equal(result->failed_element, i > 0 ? NULL : &elements[1 - r]);
            assert_int_equal(result->failed_element_index, i == 0 && r == 0 ? 7 : 0);
            assert_int_equal(result->done_len, 0);
        }
    }
}

static void what_is_refused_for_good_fails_in_its_turn(void **state)
{
    struct weft_rdma_request request;
    struct progress *progress = request_begin(&request, 30, 1);
    struct list_link ended;
    struct slot *slot = add();
    list_init(&ended);
    slot->descriptor.wr.num_sge = 2;
    slot->descriptor.wr.opcode = IBV_WR_RDMA_READ;
    progress_on_formatted(progress);
    slot_add_end(slot, progress, 30);
    says = EINVAL;
    assert_int_equal(post(), EINVAL);
    assert_true(slots_replace_refused(&slots, EINVAL));
    assert_int_equal(slot->descriptor.wr.opcode, IBV_WR_RDMA_WRITE);
    assert_int_equal(slot->descriptor.wr.num_sge, 0);
    assert_int_equal(slot->descriptor.wr.wr_id, (uintptr_t)slot);
    assert_false(slots_replace_refused(&slots, EIO)); // it is in that place already
    says = 0;
    assert_int_equal(post(), 0);
    assert_true(list_is_empty(&ended));
    slots_retire(&slots, NULL, &ended); // what took its place is complete
    assert_ptr_equal(list_pop_head(&ended), &progress->link);
    assert_int_equal(request.result.outcome, WEFT_RDMA_FAILED);
    assert_int_equal(request.result.status, IBV_WC_GENERAL_ERR);
    assert_int_equal(request.result.post_error, EINVAL);
    assert_int_equal(request.result.done_len, 0);
}

static void what_will_not_be_posted_ends_as_flushed(void **state)
{
    struct weft_rdma_request requests[2];
    struct progress *posted = request_begin(&requests[0], 1, 1);
    struct progress *left = request_begin(&requests[1], 2, 2);
    struct list_link ended;
    list_init(&ended);
    progress_on_formatted(posted);
    slot_add_end(add(), posted, 1);
    assert_int_equal(post(), 0);
    slot_add_part(add(), left, 1);
    progress_on_formatted(left);
    slot_add_end(add(), left, 1);
    slots_drop_unposted(&slots, &ended);
    assert_false(slots_has_unposted(&slots));
    assert_ptr_equal(list_pop_head(&ended), &left->link);
    assert_true(list_is_empty(&ended));
    assert_int_equal(requests[1].result.status, IBV_WC_WR_FLUSH_ERR);
    assert_true(slots_has_posted(&slots));
    slots_retire(&slots, NULL, &ended);
    assert_int_equal(requests[0].result.outcome, WEFT_RDMA_SUCCESS);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_slot_is_free_until_it_is_committed_and_again_when_it_is_retired),
        TEST(a_slot_that_is_used_again_has_nothing_of_before),
        TEST(the_last_and_one_of_an_interval_are_signalled),
        TEST(what_is_refused_within_a_chain_goes_with_the_next),
        TEST(a_refusal_is_found_around_the_end_of_the_ring),
        TEST(a_completion_is_that_of_a_posted_slot_or_of_none),
        TEST(a_request_ends_with_the_slot_that_it_ends_in),
        TEST(a_failure_names_the_element_of_whom_it_hit),
        TEST(what_is_refused_for_good_fails_in_its_turn),
        TEST(what_will_not_be_posted_ends_as_flushed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
