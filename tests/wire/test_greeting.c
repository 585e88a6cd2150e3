#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "wire/greeting.h"

enum { NEAR = 0x123456, FAR = 0x654321, PACKETS = 100000 };

static struct bth packet(uint8_t opcode, uint32_t dest_qp, uint32_t psn)
{
    return (struct bth){.opcode = opcode, .dest_qp = dest_qp, .psn = psn};
}

// These are on the wire: whoever changes them changes the version.
static void a_greeting_is_a_function_of_packet_and_queue_pairs(void **state)
{
    const struct bth h = packet(0x0a, FAR, 1000), next = packet(0x0a, FAR, 1001);
    assert_int_equal(greeting_of(&h, NEAR), 92);
    assert_int_equal(greeting_of(&next, NEAR), 43);
    assert_int_equal(greeting_of(&h, NEAR + 1), 37);
}

static void a_greeting_is_never_zero_and_fits_its_bits(void **state)
{
    for (uint32_t psn = 0; psn < PACKETS; psn++) {
        const struct bth h = packet((uint8_t)(psn % 24), FAR, psn);
        uint8_t greeting = greeting_of(&h, NEAR);
        assert_true(greeting >= 1 && greeting <= BTH_GREETING_MASK);
    }
}

// However it is guessed at, it is right as often as chance has it: with twice as much the test
// would fail.
static void expect_chance(uint32_t right_count)
{
    assert_in_range(right_count, PACKETS / BTH_GREETING_MASK / 2,
                    PACKETS / BTH_GREETING_MASK * 3 / 2);
}

static void no_constant_is_a_greeting(void **state)
{
    for (uint8_t bits = 1; bits <= BTH_GREETING_MASK; bits++) {
        uint32_t right_count = 0;
        for (uint32_t psn = 0; psn < PACKETS; psn++) {
            const struct bth h = packet(0x0a, FAR, psn);
            right_count += greeting_of(&h, NEAR) == bits;
        }
        expect_chance(right_count);
    }
}

// The bits of a request in its acknowledgement, those of the packet before in the next.
static void what_is_sent_back_or_kept_is_no_greeting(void **state)
{
    uint32_t back_count = 0, kept_count = 0;
    for (uint32_t psn = 0; psn < PACKETS; psn++) {
        const struct bth h = packet(0x0a, FAR, psn), ack = packet(0x11, NEAR, psn);
        const struct bth next = packet(0x0a, FAR, psn + 1);
        back_count += greeting_of(&h, NEAR) == greeting_of(&ack, FAR);
        kept_count += greeting_of(&h, NEAR) == greeting_of(&next, NEAR);
    }
    expect_chance(back_count);
    expect_chance(kept_count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_greeting_is_a_function_of_packet_and_queue_pairs),
        cmocka_unit_test(a_greeting_is_never_zero_and_fits_its_bits),
        cmocka_unit_test(no_constant_is_a_greeting),
        cmocka_unit_test(what_is_sent_back_or_kept_is_no_greeting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
