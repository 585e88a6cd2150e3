// Coalescing and dividing, case by case; test_oracle.c looks at all cases at once.
#include "tests/manager/chain.h"

static const struct transfer_limits roomy = {.max_transfer_len = 1000, .max_segment_count = 8};

// Figure 7 of the source: buffer 70 and the first part of 72 in one descriptor, the rest of 72 and
// 74 in the next.
static void figure_7(void **state)
{
    struct chain chain = {0};
    chain_add(&chain, 0, 0x1000, 600);
    chain_add(&chain, 600, 0x2000, 600);
    chain_add(&chain, 1200, 0x3000, 300);
    struct weft_rdma_position at = position_at_start(chain.elements);
    struct sheet sheet;

    const struct descriptor *descriptor = sheet_format(&sheet, &at, roomy);
    expect_remote(descriptor, 0, 1000);
    assert_int_equal(descriptor->wr.num_sge, 2);
    expect_segment(descriptor, 0, 0x1000, 600);
    expect_segment(descriptor, 1, 0x2000, 400);
    assert_ptr_equal(at.element, &chain.elements[1]);
    assert_int_equal(at.element_index, 1);
    assert_int_equal(at.offset, 400);

    expect_remote(sheet_format(&sheet, &at, roomy), 1000, 500);
    assert_int_equal(descriptor->wr.num_sge, 2);
    expect_segment(descriptor, 0, 0x2000 + 400, 200);
    expect_segment(descriptor, 1, 0x3000, 300);
    assert_null(at.element);
}

// Figure 8: the first of two buffers exceeds the longest transfer.
static void figure_8(void **state)
{
    struct chain chain = {0};
    chain_element(&chain, 0);
    chain_buffer(&chain, 0x1000, 1200);
    chain_buffer(&chain, 0x2000, 300);
    struct weft_rdma_position at = position_at_start(chain.elements);
    struct sheet sheet;

    const struct descriptor *descriptor = sheet_format(&sheet, &at, roomy);
    expect_remote(descriptor, 0, 1000);
    assert_int_equal(descriptor->wr.num_sge, 1);
    assert_int_equal(at.buffer_index, 0);
    assert_int_equal(at.offset, 1000);

    expect_remote(sheet_format(&sheet, &at, roomy), 1000, 500);
    expect_segment(descriptor, 0, 0x1000 + 1000, 200);
    expect_segment(descriptor, 1, 0x2000, 300);
    assert_null(at.element);
}

static void remote_ranges_that_do_not_touch_are_apart(void **state)
{
    struct chain chain = {0};
    chain_add(&chain, 0, 0x1000, 100);
    chain_add(&chain, 101, 0x2000, 100);
    struct weft_rdma_position at = position_at_start(chain.elements);
    struct sheet sheet;
    expect_remote(sheet_format(&sheet, &at, roomy), 0, 100);
    expect_remote(sheet_format(&sheet, &at, roomy), 101, 100);
    assert_null(at.element);
}

static void what_follows_in_the_same_element_continues(void **state)
{
    struct chain chain = {0};
    chain_add(&chain, 5000, 0x1000, 1500);
    struct weft_rdma_position at = position_at_start(chain.elements);
    struct sheet sheet;
    const struct descriptor *descriptor = sheet_format(&sheet, &at, roomy);
    expect_remote(descriptor, 5000, 1000);
    assert_int_equal(at.element_offset, 1000);
    assert_true(descriptor_continues_at(descriptor, &at));
    struct weft_rdma_position start = position_at_start(chain.elements);
    assert_false(descriptor_continues_at(descriptor, &start));
}

static void another_rkey_is_another_range(void **state)
{
    struct chain chain = {0};
    chain_add(&chain, 0, 0x1000, 100);
    chain_add(&chain, 100, 0x2000, 100)->rkey = RKEY + 1;
    struct weft_rdma_position at = position_at_start(chain.elements);
    struct sheet sheet;
    expect_remote(sheet_format(&sheet, &at, roomy), 0, 100);
    assert_ptr_equal(at.element, &chain.elements[1]);
    assert_int_equal(at.element_offset, 0);
}

static void buffers_that_touch_share_a_segment(void **state)
{
    struct chain chain = {0};
    chain_element(&chain, 0);
    chain_buffer(&chain, 0x1000, 100);
    chain_buffer(&chain, 0x1000 + 100, 100);
    chain_add(&chain, 200, 0x1000 + 200, 100);
    struct weft_rdma_position at = position_at_start(chain.elements);
    struct sheet sheet;
    const struct descriptor *descriptor = sheet_format(&sheet, &at, roomy);
    assert_int_equal(descriptor->wr.num_sge, 1);
    expect_segment(descriptor, 0, 0x1000, 300);
    assert_int_equal(descriptor->shared_segment_count, 2);
    assert_int_equal(descriptor->element_count, 2);
}

static void buffers_of_different_regions_share_no_segment(void **state)
{
    struct chain chain = {0};
    chain_element(&chain, 0);
    chain_buffer(&chain, 0x1000, 100);
    chain_buffer(&chain, 0x1000 + 100, 100)->lkey = LKEY + 1;
    struct weft_rdma_position at = position_at_start(chain.elements);
    struct sheet sheet;
    assert_int_equal(sheet_format(&sheet, &at, roomy)->wr.num_sge, 2);
}

static void what_exceeds_the_segments_is_divided(void **state)
{
    const struct transfer_limits limits = {.max_transfer_len = 1000, .max_segment_count = 2};
    struct chain chain = {0};
    for (uint64_t i = 0; i < 5; i++) {
        chain_add(&chain, 10 * i, 0x1000 * (i + 1), 10);
    }
    struct weft_rdma_position at = position_at_start(chain.elements);
    struct sheet sheet;
    expect_remote(sheet_format(&sheet, &at, limits), 0, 20);
    expect_remote(sheet_format(&sheet, &at, limits), 20, 20);
    expect_remote(sheet_format(&sheet, &at, limits), 40, 10);
    assert_null(at.element);
}

// The segments are used up, yet a buffer that touches the last one needs none.
static void a_buffer_that_touches_needs_no_free_segment(void **state)
{
    const struct transfer_limits limits = {.max_transfer_len = 1000, .max_segment_count = 1};
    struct chain chain = {0};
    chain_add(&chain, 0, 0x1000, 10);
    chain_add(&chain, 10, 0x1000 + 10, 10);
    struct weft_rdma_position at = position_at_start(chain.elements);
    struct sheet sheet;
    expect_remote(sheet_format(&sheet, &at, limits), 0, 20);
    assert_null(at.element);
}

// The source's pseudo-code would add a segment of no octets here.
static void an_exactly_full_descriptor_has_no_empty_segment(void **state)
{
    struct chain chain = {0};
    chain_add(&chain, 0, 0x1000, 1000);
    chain_add(&chain, 1000, 0x2000, 1000);
    struct weft_rdma_position at = position_at_start(chain.elements);
    struct sheet sheet;
    for (uint64_t i = 0; i < 2; i++) {
        const struct descriptor *descriptor = sheet_format(&sheet, &at, roomy);
        assert_int_equal(descriptor->wr.num_sge, 1);
        expect_remote(descriptor, 1000 * i, 1000);
    }
    assert_null(at.element);
}

static void format_rdma_request_says_whether_the_element_is_complete(void **state)
{
    struct chain chain = {0};
    chain_element(&chain, 0);
    chain_buffer(&chain, 0x1000, 700);
    chain_buffer(&chain, 0x2000, 700);
    struct weft_rdma_position at = position_at_start(chain.elements);
    struct sheet sheet = {.descriptor.wr.sg_list = sheet.segments};
    descriptor_begin(&sheet.descriptor, IBV_WR_RDMA_READ, roomy, &at);
    assert_false(format_rdma_request(&at, &sheet.descriptor));
    assert_int_equal(at.buffer_index, 1);
    assert_int_equal(at.offset, 300);
    assert_int_equal(at.element_offset, 1000);
    descriptor_begin(&sheet.descriptor, IBV_WR_RDMA_READ, roomy, &at);
    assert_int_equal(sheet.descriptor.wr.opcode, IBV_WR_RDMA_READ);
    assert_true(format_rdma_request(&at, &sheet.descriptor));
    assert_int_equal(at.element_offset, 1400);
}

static void six_gibibytes_in_one_buffer(void **state)
{
    const struct transfer_limits limits = {.max_transfer_len = 1ULL << 31, .max_segment_count = 1};
    struct chain chain = {0};
    chain_add(&chain, 0x7000000000, 0x100000000, 6ULL << 30);
    struct weft_rdma_position at = position_at_start(chain.elements);
    struct sheet sheet = {.descriptor.wr.sg_list = sheet.segments};
    assert_int_equal(transfers_count(at, limits, &sheet.descriptor), 3);
    for (uint64_t i = 0; i < 3; i++) {
        const struct descriptor *descriptor = sheet_format(&sheet, &at, limits);
        expect_remote(descriptor, 0x7000000000 + (i << 31), 1ULL << 31);
        expect_segment(descriptor, 0, 0x100000000 + (i << 31), 1U << 31);
    }
    assert_null(at.element);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figure_7),
        cmocka_unit_test(figure_8),
        cmocka_unit_test(remote_ranges_that_do_not_touch_are_apart),
        cmocka_unit_test(what_follows_in_the_same_element_continues),
        cmocka_unit_test(another_rkey_is_another_range),
        cmocka_unit_test(buffers_that_touch_share_a_segment),
        cmocka_unit_test(buffers_of_different_regions_share_no_segment),
        cmocka_unit_test(what_exceeds_the_segments_is_divided),
        cmocka_unit_test(a_buffer_that_touches_needs_no_free_segment),
        cmocka_unit_test(an_exactly_full_descriptor_has_no_empty_segment),
        cmocka_unit_test(format_rdma_request_says_whether_the_element_is_complete),
        cmocka_unit_test(six_gibibytes_in_one_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
