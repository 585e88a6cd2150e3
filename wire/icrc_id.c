#include "wire/icrc_id.h"

#include "wire/ip.h"

// Polynomials over GF(2) modulo CRC-32's, as CRC-32 has them: x^0 is the highest bit. A state that
// goes over an octet of zero is multiplied by x^8.
enum { BITS_BEHIND_ID_IN_IPV4 = 8 * (IPV4_HEADER_LEN - IPV4_OFF_ID) };
#define POLYNOMIAL UINT32_C(0xedb88320)
#define ONE        UINT32_C(0x80000000)

static uint32_t times_x(uint32_t a)
{
    return a >> 1 ^ (POLYNOMIAL & -(a & 1));
}

static uint32_t over_x(uint32_t a)
{
    return a & ONE ? (a ^ POLYNOMIAL) << 1 | 1 : a << 1;
}

static uint32_t over_x_to(uint32_t a, unsigned power)
{
    for (; power > 0; power--) {
        a = over_x(a);
    }
    return a;
}

static uint32_t times(uint32_t a, uint32_t b)
{
    uint32_t product = 0;
    for (unsigned i = 0; i < 32; i++) {
        product ^= b & -(a >> 31);
        a <<= 1;
        b = times_x(b);
    }
    return product;
}

// Two states that went over octets differ by what of the octets differs.
static uint32_t part_of(uint16_t id)
{
    enum { LEN = IPV4_HEADER_LEN - IPV4_OFF_ID + UDP_HEADER_LEN };
    static const uint8_t zeros[LEN];
    uint8_t octets[LEN] = {(uint8_t)(id >> 8), (uint8_t)id};
    return icrc_update(0, octets, LEN) ^ icrc_update(0, zeros, LEN);
}

void icrc_ids_init(struct icrc_ids *ids)
{
    enum { BITS_MIN = BITS_BEHIND_ID_IN_IPV4 + 8 * (ICRC_ID_UDP_LEN_MIN - ICRC_LEN) };
    uint32_t factor = over_x_to(ONE, BITS_MIN);
    for (unsigned i = 0; i < ICRC_ID_LEN_COUNT; i++) {
        ids->factors[i] = factor;
        factor = over_x_to(factor, 32);
    }
    for (unsigned digit = 0; digit < ICRC_ID_DIGITS; digit++) {
        for (unsigned value = 0; value < ICRC_ID_DIGIT_COUNT; value++) {
            ids->parts[digit][value] = part_of((uint16_t)(value << 4 * digit));
        }
    }
}

bool icrc_ids_find(const struct icrc_ids *ids, size_t udp_len, uint32_t difference,
                   uint16_t *ret_id)
{
    if (udp_len < ICRC_ID_UDP_LEN_MIN || udp_len > ICRC_ID_UDP_LEN_MAX || udp_len % 4 != 0) {
        return false;
    }
    // Before the identification went into the state, a difference of its 16 bits alone stood in the
    // 16 that go in first, the first octet lowest.
    uint32_t before = times(difference, ids->factors[(udp_len - ICRC_ID_UDP_LEN_MIN) / 4]);
    *ret_id = (uint16_t)(before << 8 | (before & 0xffff) >> 8);
    return before >> 16 == 0;
}
