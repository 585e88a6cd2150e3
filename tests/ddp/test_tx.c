// A message cut into segments: offsets, Last, empty messages.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "ddp/tx.h"

static struct ddp_header parsed(const uint8_t *buf, size_t len)
{
    struct ddp_header h;
    size_t header_len;
    assert_int_equal(ddp_header_parse(span_of(buf, len), &h, &header_len), DDP_PARSE_OK);
    assert_int_equal(header_len, len);
    return h;
}

static void cut(bool tagged, uint64_t length, size_t mulpdu)
{
    uint8_t buf[DDP_HEADER_MAX_LEN];
    struct ddp_header header = {.tagged = tagged, .to = tagged ? UINT64_MAX - length : 0};
    struct ddp_tx tx;
    ddp_tx_init(&tx, &header, length);
    uint64_t offset = 0;
    while (!tx.is_done) {
        size_t len = ddp_tx_next_len(&tx, mulpdu);
        size_t header_len = ddp_tx_emit(&tx, len, buf);
        assert_true(header_len + len <= mulpdu);
        struct ddp_header h = parsed(buf, header_len);
        assert_int_equal(h.tagged, tagged);
        assert_int_equal(tagged ? h.to : h.mo, header.to + offset);
        offset += len;
        assert_int_equal(h.last, offset == length);
        assert_true(h.last || header_len + len == mulpdu);
    }
    assert_int_equal(offset, length);
}

static void every_octet_is_in_one_segment(void **state)
{
    for (uint64_t length = 0; length < 700; length++) {
        cut(true, length, 128);
        cut(false, length, 128);
        cut(true, length, 333);
    }
    cut(false, UINT32_MAX, 65535);
}

static void a_mulpdu_below_the_header_is_never_asked_for(void **state)
{
    struct ddp_tx tx;
    struct ddp_header header = {.qn = 0};
    ddp_tx_init(&tx, &header, 1000);
    assert_int_equal(ddp_tx_next_len(&tx, 128), 128 - DDP_UNTAGGED_HEADER_LEN);
    assert_int_equal(ddp_tx_next_len(&tx, 65535), 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_octet_is_in_one_segment),
        cmocka_unit_test(a_mulpdu_below_the_header_is_never_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
