// A stream of FPDUs from a peer, whole and cut in two, with and without CRC and markers. The first
// two octets of the input draw the mode and the cut. Both ways must give the same ULPDUs.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/check.h"
#include "mpa/rx.h"
#include "wire/crc32c.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct digest {
    unsigned count;
    uint32_t crc; // over lengths and octets of all ULPDUs
    unsigned stall_every;
    unsigned offers;
};

static uint8_t carry[MPA_RX_CARRY_LEN];

static enum ulpdu_answer on_ulpdu(void *ctx, struct span ulpdu)
{
    struct digest *d = ctx;
    uint8_t len[2] = {(uint8_t)(ulpdu.len >> 8), (uint8_t)ulpdu.len};
    if (d->stall_every != 0 && ++d->offers % d->stall_every == 0) {
        return ULPDU_STALL;
    }
    d->crc = crc32c_update(crc32c_update(d->crc, len, 2), ulpdu.ptr, ulpdu.len);
    d->count++;
    return ULPDU_TAKEN;
}

static struct digest receive(bool crc, enum mpa_rx_markers markers, struct span in, size_t cut,
                             unsigned stall_every, enum mpa_rx_verdict *ret)
{
    struct digest d = {.stall_every = stall_every};
    struct mpa_rx rx;
    size_t at = 0;
    mpa_rx_init(&rx, crc, markers, mspan_of(carry, sizeof carry),
                (struct ulpdu_port){.on_ulpdu = on_ulpdu, .ctx = &d});
    do {
        size_t end = at < cut && cut < in.len ? cut : in.len, consumed;
        *ret = mpa_rx_on_input(&rx, span_of(in.ptr + at, end - at), &consumed);
        CHECK(consumed <= end - at);
        CHECK(*ret != MPA_RX_OK || consumed == end - at);
        mpa_rx_check(&rx);
        at += consumed;
    } while (*ret == MPA_RX_STALLED || (*ret == MPA_RX_OK && at < in.len));
    return d;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) {
        return 0;
    }
    bool crc = data[0] & 1;
    enum mpa_rx_markers markers = (data[0] >> 1) % 3;
    struct span in = span_of(data + 2, size - 2);
    enum mpa_rx_verdict whole_verdict, cut_verdict;
    struct digest whole = receive(crc, markers, in, 0, 0, &whole_verdict);
    size_t cut = in.len * data[1] / 255;
    struct digest parts = receive(crc, markers, in, cut, data[0] & 8 ? 2 : 0, &cut_verdict);
    CHECK(whole.count == parts.count);
    CHECK(whole.crc == parts.crc);
    CHECK(whole_verdict == cut_verdict);
    return 0;
}
