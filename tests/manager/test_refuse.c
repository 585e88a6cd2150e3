// Every refusal that a request can earn by itself, and that nothing less earns it.
#include <stdlib.h>

#include "manager/refuse.h"
#include "tests/manager/chain.h"

// In place of the C library's: the memory of ranges out of order.
static bool has_memory = true;

void *reallocarray(void *memory, size_t count, size_t size)
{
    return has_memory ? realloc(memory, count * size) : NULL;
}

struct trial {
    struct chain chain; // three elements of two buffers, 10 octets each
    struct weft_rdma_request request;
    struct ranges scratch;
    struct refusal_check check;
};

static int setup(void **state)
{
    static struct trial trial;
    memset(&trial, 0, sizeof trial);
    for (uint64_t i = 0; i < 3; i++) {
        chain_element(&trial.chain, 0x9000 + 20 * i);
        chain_buffer(&trial.chain, 0x1000 * (2 * i + 1), 10);
        chain_buffer(&trial.chain, 0x1000 * (2 * i + 2), 10);
    }
    trial.request =
        (struct weft_rdma_request){.opcode = IBV_WR_RDMA_WRITE, .elements = trial.chain.elements};
    ranges_init(&trial.scratch);
    *state = &trial;
    return 0;
}

static int teardown(void **state)
{
    struct trial *trial = *state;
    ranges_fini(&trial->scratch);
    return 0;
}

static enum weft_rdma_refusal check(struct trial *trial)
{
    return request_check(&trial->request, &trial->scratch, &trial->check);
}

static void expect_refusal(struct trial *trial, enum weft_rdma_refusal refusal, uint32_t index)
{
    assert_int_equal(check(trial), refusal);
    assert_ptr_equal(trial->check.where, &trial->chain.elements[index]);
    assert_int_equal(trial->check.where_index, index);
}

static void a_good_request_is_accepted(void **state)
{
    struct trial *trial = *state;
    assert_int_equal(check(trial), WEFT_RDMA_ACCEPTED);
    assert_int_equal(trial->check.total_len, 60);
    assert_null(trial->check.where);
    trial->request.opcode = IBV_WR_RDMA_READ;
    assert_int_equal(check(trial), WEFT_RDMA_ACCEPTED);
}

static void other_operations_are_refused(void **state)
{
    struct trial *trial = *state;
    trial->request.opcode = IBV_WR_SEND;
    assert_int_equal(check(trial), WEFT_RDMA_BAD_OPCODE);
}

static void unknown_flags_are_refused(void **state)
{
    struct trial *trial = *state;
    trial->request.flags = WEFT_RDMA_MAY_COALESCE | 0x80;
    assert_int_equal(check(trial), WEFT_RDMA_BAD_FLAGS);
}

static void an_empty_chain_is_refused(void **state)
{
    struct trial *trial = *state;
    trial->request.elements = NULL;
    assert_int_equal(check(trial), WEFT_RDMA_NO_ELEMENTS);
}

static void an_element_without_buffers_is_refused(void **state)
{
    struct trial *trial = *state;
    trial->chain.elements[1].buffer_count = 0;
    expect_refusal(trial, WEFT_RDMA_NO_BUFFERS, 1);
}

static void an_empty_buffer_is_refused(void **state)
{
    struct trial *trial = *state;
    trial->chain.buffers[5].len = 0;
    expect_refusal(trial, WEFT_RDMA_ZERO_LENGTH, 2);
}

static void a_buffer_that_wraps_is_refused(void **state)
{
    struct trial *trial = *state;
    trial->chain.buffers[2].addr = UINT64_MAX - 10;
    assert_int_equal(check(trial), WEFT_RDMA_ACCEPTED);
    trial->chain.buffers[2].addr++;
    expect_refusal(trial, WEFT_RDMA_LOCAL_WRAPS, 1);
}

static void a_remote_range_that_wraps_is_refused(void **state)
{
    struct trial *trial = *state;
    trial->chain.elements[2].remote_addr = UINT64_MAX - 20;
    assert_int_equal(check(trial), WEFT_RDMA_ACCEPTED);
    trial->chain.elements[2].remote_addr++;
    expect_refusal(trial, WEFT_RDMA_REMOTE_WRAPS, 2);
}

static void a_total_beyond_64_bits_is_refused(void **state)
{
    struct trial *trial = *state;
    for (unsigned i = 0; i < 2; i++) {
        struct weft_rdma_buffer *buffer = &trial->chain.buffers[2 * i];
        *buffer = (struct weft_rdma_buffer){.addr = 0, .len = 1ULL << 63, .lkey = 100 + i};
        trial->chain.elements[i].remote_addr = 0;
        trial->chain.elements[i].rkey = 100 + i;
    }
    expect_refusal(trial, WEFT_RDMA_TOTAL_TOO_LONG, 1);
}

static void remote_ranges_of_a_write_that_overlap_are_refused(void **state)
{
    struct trial *trial = *state;
    trial->chain.elements[1].remote_addr = 0x9000 + 60; // out of order
    assert_int_equal(check(trial), WEFT_RDMA_ACCEPTED);
    trial->chain.elements[1].remote_addr--;
    expect_refusal(trial, WEFT_RDMA_OVERLAP, 1);
    trial->request.opcode = IBV_WR_RDMA_READ; // which may read an octet twice
    assert_int_equal(check(trial), WEFT_RDMA_ACCEPTED);
}

static void buffers_of_a_read_that_overlap_are_refused(void **state)
{
    struct trial *trial = *state;
    trial->chain.buffers[3].addr = 0x1000 + 9; // of element 1, into the first buffer of element 0
    assert_int_equal(check(trial), WEFT_RDMA_ACCEPTED);
    trial->request.opcode = IBV_WR_RDMA_READ;
    expect_refusal(trial, WEFT_RDMA_OVERLAP, 1);
    trial->chain.buffers[3].lkey++;
    assert_int_equal(check(trial), WEFT_RDMA_ACCEPTED);
}

static void ranges_out_of_order_take_memory(void **state)
{
    struct trial *trial = *state;
    has_memory = false;
    assert_int_equal(check(trial), WEFT_RDMA_ACCEPTED);
    trial->chain.elements[0].remote_addr = 0x9000 + 60;
    assert_int_equal(check(trial), WEFT_RDMA_NO_MEMORY);
    has_memory = true;
    assert_int_equal(check(trial), WEFT_RDMA_ACCEPTED);
}

static void every_refusal_has_words(void **state)
{
    for (unsigned i = 0; i < WEFT_RDMA_REFUSAL_COUNT; i++) {
        assert_non_null(weft_rdma_refusal_str((enum weft_rdma_refusal)i));
    }
    assert_string_equal(weft_rdma_refusal_str(WEFT_RDMA_REFUSAL_COUNT), "unknown");
}

#define TRIAL(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TRIAL(a_good_request_is_accepted),
        TRIAL(other_operations_are_refused),
        TRIAL(unknown_flags_are_refused),
        TRIAL(an_empty_chain_is_refused),
        TRIAL(an_element_without_buffers_is_refused),
        TRIAL(an_empty_buffer_is_refused),
        TRIAL(a_buffer_that_wraps_is_refused),
        TRIAL(a_remote_range_that_wraps_is_refused),
        TRIAL(a_total_beyond_64_bits_is_refused),
        TRIAL(remote_ranges_of_a_write_that_overlap_are_refused),
        TRIAL(buffers_of_a_read_that_overlap_are_refused),
        TRIAL(ranges_out_of_order_take_memory),
        TRIAL(every_refusal_has_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
