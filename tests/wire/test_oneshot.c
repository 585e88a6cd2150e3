// The STag in the header of a Send, octet by octet in both encodings, and what is refused.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "wire/extension.h"
#include "wire/oneshot.h"

enum {
    FLAGS = EXTENSION_ONESHOT_FLAGS | EXTENSION_ONESHOT_PARTS,
    OPCODE = EXTENSION_ONESHOT_OPCODE | EXTENSION_ONESHOT_PARTS,
    STAG = 0x0a0b0c0d,
};

static const struct golden {
    uint8_t agreed;
    enum oneshot_mark mark;
    enum rdmap_opcode opcode, read_as;
    uint8_t header[DDP_UNTAGGED_HEADER_LEN]; // Last, queue 0, MSN 7, MO 0
} goldens[] = {
    {FLAGS,
     ONESHOT_ADVERTISE,
     RDMAP_SEND,
     RDMAP_SEND,
     {0x51, 0x43, 0x0a, 0x0b, 0x0c, 0x0d, [13] = 7}},
    {FLAGS, ONESHOT_CLOSE, RDMAP_SEND, RDMAP_SEND, {0x61, 0x43, 0x0a, 0x0b, 0x0c, 0x0d, [13] = 7}},
    {FLAGS,
     ONESHOT_ADVERTISE,
     RDMAP_SEND_SE,
     RDMAP_SEND_SE,
     {0x51, 0x45, 0x0a, 0x0b, 0x0c, 0x0d, [13] = 7}},
    {FLAGS,
     ONESHOT_CLOSE,
     RDMAP_SEND_SE,
     RDMAP_SEND_SE,
     {0x61, 0x45, 0x0a, 0x0b, 0x0c, 0x0d, [13] = 7}},
    {OPCODE,
     ONESHOT_ADVERTISE,
     RDMAP_SEND,
     RDMAP_SEND_SE,
     {0x41, 0x48, 0x0a, 0x0b, 0x0c, 0x0d, [13] = 7}},
    {OPCODE,
     ONESHOT_CLOSE,
     RDMAP_SEND_SE,
     RDMAP_SEND_SE,
     {0x41, 0x4c, 0x0a, 0x0b, 0x0c, 0x0d, [13] = 7}},
};
enum { GOLDEN_COUNT = sizeof goldens / sizeof goldens[0] };

static struct ddp_header header_of(uint8_t opcode, uint8_t rsvd)
{
    const struct rdmap_opcode_facts *facts = rdmap_opcode_facts(opcode);
    return (struct ddp_header){
        .last = true,
        .tagged = facts->is_tagged,
        .rsvd = rsvd,
        .rsvdulp = rdmap_control_emit((enum rdmap_opcode)opcode),
        .qn = facts->qn,
        .msn = 7,
    };
}

static enum oneshot_verdict verdict_of(uint8_t agreed, uint8_t opcode, uint8_t rsvd)
{
    struct ddp_header h = header_of(opcode, rsvd);
    struct oneshot_send send;
    return oneshot_read(agreed, &h, &send);
}

static void marks_are_written_as_the_golden_octets(void **state)
{
    for (unsigned i = 0; i < GOLDEN_COUNT; i++) {
        const struct golden *g = &goldens[i];
        struct ddp_header h = header_of((uint8_t)g->opcode, 0);
        uint8_t out[DDP_HEADER_MAX_LEN];
        oneshot_write(g->agreed, g->mark, STAG, &h);
        assert_int_equal(ddp_header_emit(&h, out), sizeof g->header);
        assert_memory_equal(out, g->header, sizeof g->header);
    }
}

static void golden_octets_are_read(void **state)
{
    for (unsigned i = 0; i < GOLDEN_COUNT; i++) {
        const struct golden *g = &goldens[i];
        struct ddp_header h;
        struct oneshot_send send;
        size_t len;
        assert_int_equal(ddp_header_parse(span_of(g->header, sizeof g->header), &h, &len),
                         DDP_PARSE_OK);
        assert_int_equal(oneshot_read(g->agreed, &h, &send), ONESHOT_OK);
        assert_int_equal(send.mark, g->mark);
        assert_int_equal(send.opcode, g->read_as);
        assert_int_equal(h.rsvdulp_stag, STAG);
    }
}

static void without_agreement_nothing_is_read(void **state)
{
    for (uint8_t opcode = 0; opcode < RDMAP_OPCODE_COUNT; opcode++) {
        struct ddp_header h = header_of(opcode, 0xc);
        struct oneshot_send send;
        assert_int_equal(oneshot_read(0, &h, &send), ONESHOT_OK);
        assert_int_equal(send.mark, ONESHOT_NONE);
        assert_int_equal(send.opcode, opcode);
    }
}

static void both_bits_are_refused(void **state)
{
    assert_int_equal(verdict_of(FLAGS, RDMAP_SEND, 0xc), ONESHOT_BOTH);
    assert_int_equal(verdict_of(FLAGS, RDMAP_SEND_SE, 0xc), ONESHOT_BOTH);
    assert_int_equal(verdict_of(FLAGS, RDMAP_SEND_INV, 0xc), ONESHOT_BOTH);
}

static void a_field_that_has_another_meaning_is_not_marked(void **state)
{
    for (uint8_t bit = EXTENSION_RSVD_ADVERTISE; bit <= EXTENSION_RSVD_CLOSE; bit *= 2) {
        assert_int_equal(verdict_of(FLAGS, RDMAP_SEND_INV, bit), ONESHOT_STAG_TAKEN);
        assert_int_equal(verdict_of(FLAGS, RDMAP_SEND_SE_INV, bit), ONESHOT_STAG_TAKEN);
        assert_int_equal(verdict_of(FLAGS, RDMAP_SEND, bit | EXTENSION_RSVD_IMMEDIATE),
                         ONESHOT_STAG_TAKEN);
    }
    assert_int_equal(verdict_of(OPCODE, ONESHOT_OPCODE_CLOSE, EXTENSION_RSVD_IMMEDIATE),
                     ONESHOT_STAG_TAKEN);
}

static void reserved_bits_of_other_messages_are_not_looked_at(void **state)
{
    static const uint8_t others[] = {RDMAP_WRITE,     RDMAP_READ_REQUEST,   RDMAP_READ_RESPONSE,
                                     RDMAP_TERMINATE, RDMAP_IMMEDIATE,      RDMAP_IMMEDIATE_SE,
                                     RDMAP_EXTENSION, RDMAP_ATOMIC_REQUEST, RDMAP_ATOMIC_RESPONSE};
    for (unsigned i = 0; i < sizeof others; i++) {
        assert_int_equal(verdict_of(FLAGS, others[i], 0xc), ONESHOT_OK);
    }
}

static void a_tagged_segment_has_no_such_field(void **state)
{
    const uint8_t agreed[] = {FLAGS, OPCODE};
    for (unsigned i = 0; i < 2; i++) {
        struct ddp_header h = header_of(i == 0 ? RDMAP_SEND : ONESHOT_OPCODE_CLOSE, 0x8);
        struct oneshot_send send;
        h.tagged = true;
        assert_int_equal(oneshot_read(agreed[i], &h, &send), ONESHOT_OK);
        assert_int_equal(send.mark, ONESHOT_NONE);
    }
}

static void a_part_that_was_not_agreed_is_refused(void **state)
{
    const uint8_t advertise = EXTENSION_ONESHOT_FLAGS | EXTENSION_ONESHOT_ADVERTISE;
    const uint8_t close = EXTENSION_ONESHOT_OPCODE | EXTENSION_ONESHOT_CLOSE;
    assert_int_equal(verdict_of(advertise, RDMAP_SEND, EXTENSION_RSVD_ADVERTISE), ONESHOT_OK);
    assert_int_equal(verdict_of(advertise, RDMAP_SEND, EXTENSION_RSVD_CLOSE), ONESHOT_UNAGREED);
    assert_int_equal(verdict_of(close, ONESHOT_OPCODE_CLOSE, 0), ONESHOT_OK);
    assert_int_equal(verdict_of(close, ONESHOT_OPCODE_ADVERTISE, 0), ONESHOT_UNAGREED);
}

static void the_opcodes_leave_no_room_for_rfc_7306(void **state)
{
    for (uint8_t opcode = RDMAP_IMMEDIATE_SE; opcode <= RDMAP_ATOMIC_RESPONSE; opcode++) {
        assert_int_equal(verdict_of(OPCODE, opcode, 0), ONESHOT_RFC7306);
        assert_int_equal(verdict_of(FLAGS, opcode, 0), ONESHOT_OK);
    }
}

static void send_with_invalidate_is_read_in_either_encoding(void **state)
{
    assert_int_equal(verdict_of(FLAGS, RDMAP_SEND_INV, 0), ONESHOT_OK);
    assert_int_equal(verdict_of(OPCODE, RDMAP_SEND_SE_INV, 0), ONESHOT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marks_are_written_as_the_golden_octets),
        cmocka_unit_test(golden_octets_are_read),
        cmocka_unit_test(without_agreement_nothing_is_read),
        cmocka_unit_test(both_bits_are_refused),
        cmocka_unit_test(a_field_that_has_another_meaning_is_not_marked),
        cmocka_unit_test(reserved_bits_of_other_messages_are_not_looked_at),
        cmocka_unit_test(a_tagged_segment_has_no_such_field),
        cmocka_unit_test(a_part_that_was_not_agreed_is_refused),
        cmocka_unit_test(the_opcodes_leave_no_room_for_rfc_7306),
        cmocka_unit_test(send_with_invalidate_is_read_in_either_encoding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
