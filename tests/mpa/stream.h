// A collector of ULPDUs and frames by hand, for the tests of the receive side.
#pragma once

#include <stdint.h>
#include <string.h>

#include "base/bytes.h"
#include "mpa/rx.h"
#include "wire/crc32c.h"

enum { COLLECTOR_OCTETS = 1 << 20, COLLECTOR_ULPDUS = 1024 };

// Keeps what it is given; answers ULPDU_TAKEN but for the ULPDU `odd_index`, counted from 0, to
// which it answers `odd_answer` (`odd_times` times).
struct collector {
    unsigned count;
    size_t ends[COLLECTOR_ULPDUS];
    size_t len;
    unsigned odd_index;
    unsigned odd_times;
    enum ulpdu_answer odd_answer;
    const uint8_t *last_ptr; // where the last ULPDU lay
    uint8_t octets[COLLECTOR_OCTETS];
};

static inline enum ulpdu_answer collector_on_ulpdu(void *ctx, struct span ulpdu)
{
    struct collector *c = ctx;
    if (c->odd_times > 0 && c->count == c->odd_index) {
        c->odd_times--;
        return c->odd_answer;
    }
    memcpy(c->octets + c->len, ulpdu.ptr, ulpdu.len);
    c->len += ulpdu.len;
    c->ends[c->count++] = c->len;
    c->last_ptr = ulpdu.ptr;
    return ULPDU_TAKEN;
}

static inline void collector_reset(struct collector *c)
{
    c->count = 0;
    c->len = 0;
    c->odd_times = 0;
}

static inline struct ulpdu_port collector_port(struct collector *c)
{
    return (struct ulpdu_port){.on_ulpdu = collector_on_ulpdu, .ctx = c};
}

// Writes the FPDU of a ULPDU of `len` octets, all of them `fill`, without markers.
static inline size_t make_fpdu(uint8_t *p, size_t len, uint8_t fill)
{
    size_t covered = mpa_fpdu_len(len) - MPA_CRC_LEN;
    memset(p, 0, covered);
    put_be16(p, (uint16_t)len);
    memset(p + MPA_LENGTH_LEN, fill, len);
    crc32c_put(p + covered, crc32c(p, covered));
    return covered + MPA_CRC_LEN;
}
