#include "wire/greeting.h"

enum {
    VALUES = BTH_GREETING_MASK,
    // Of what the ends that greet each other understand; ends of different versions are strangers.
    //   1: wire/sack.h   2: ballast too (roce/rc_ballast.c)
    VERSION = 2,
};

static const uint64_t magic = UINT64_C(0x77656674) << 32 | VERSION; // "weft"

uint8_t greeting_of(const struct bth *bth, uint32_t source_qp)
{
    uint64_t x = (uint64_t)bth->dest_qp << 40 | (uint64_t)source_qp << 16 | bth->opcode;
    x = (x ^ magic) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 29 ^ bth->psn) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 32) * UINT64_C(0x94d049bb133111eb);
    return (uint8_t)(1 + (x >> 40) % VALUES);
}
