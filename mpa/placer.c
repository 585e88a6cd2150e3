#include "mpa/placer.h"

#include "base/check.h"
#include "mpa/fpdu.h"
#include "wire/mpa.h"

// A piece of the stream beyond a hole.
struct piece {
    uint64_t position; // in the full operation phase
    struct span octets;
    bool is_segment_start, is_segment_end;
};

/* ---- where does an FPDU begin? --------------------------------------------------------------- */

// Shorter ones have no room for a DDP header. Zeros in payload would look like an endless chain.
enum { LIKELY_FPDU_MIN_LEN = 20 };

// Do the lengths, one FPDU behind the other from the start of the piece, lead exactly to `end`?
static bool do_lengths_lead_to(struct mpa_framing framing, const struct piece *p, size_t end)
{
    size_t at = 0;
    while (at < end) {
        size_t len = mpa_fpdu_measure(framing, p->position + at, span_skip(p->octets, at));
        if (len < LIKELY_FPDU_MIN_LEN || len > end - at) {
            return false;
        }
        at += len;
    }
    return true;
}

// Without a marker that tells: is the start of this segment the start of an FPDU?
static bool is_likely_start(const struct mpa_placer *placer, const struct piece *p, size_t end)
{
    return placer->placement == PLACEMENT_EARLY && placer->rx->framing.crc && p->is_segment_start &&
           (end < p->octets.len || p->is_segment_end) &&
           do_lengths_lead_to(placer->rx->framing, p, end);
}

// The offset of the first FPDU that can be told; all octets: none.
static size_t find_start(const struct mpa_placer *placer, const struct piece *p)
{
    struct mpa_framing framing = placer->rx->framing;
    size_t start = p->octets.len;
    bool is_told = framing.markers && mpa_fpdu_find(p->position, p->octets, &start);
    if (p->position == placer->boundary && (!is_told || do_lengths_lead_to(framing, p, start))) {
        return 0;
    }
    return is_likely_start(placer, p, start) ? 0 : start;
}

/* ---- beyond a hole --------------------------------------------------------------------------- */

static enum place_verdict buffer(struct mpa_placer *placer)
{
    placer->counters.early_buffered++;
    return PLACE_BUFFER;
}

static enum place_verdict offer_up(struct mpa_placer *placer, struct span ulpdu, size_t fpdu_len,
                                   struct place_counts *counts)
{
    const struct ulpdu_port *port = &placer->rx->port;
    enum place_verdict verdict = port->on_early_ulpdu(port->ctx, ulpdu, placer->boundary, counts);
    placer->counters.early_unwanted += verdict == PLACE_BUFFER;
    placer->counters.early_dropped += verdict == PLACE_DROP;
    if (verdict == PLACE_PLACED) {
        placer->counters.early_fpdus++;
        placer->counters.early_octets += fpdu_len;
        mpa_rx_note_early(placer->rx, placer->boundary - fpdu_len, fpdu_len);
    }
    return verdict;
}

// An FPDU begins at the start of the piece. What is wrong with its markers is met again in order.
static enum place_verdict take_fpdu(struct mpa_placer *placer, const struct piece *p,
                                    struct place_answer *answer)
{
    struct mpa_framing framing = placer->rx->framing;
    size_t len = mpa_fpdu_measure(framing, p->position, p->octets);
    struct span ulpdu;
    if (len == 0 || len > p->octets.len) {
        return buffer(placer); // it goes on in another segment
    }
    answer->len = len;
    placer->boundary = p->position + len;
    struct span fpdu = span_first(p->octets, len);
    switch (mpa_fpdu_unwrap(framing, p->position, fpdu, placer->scratch, &ulpdu)) {
    case MPA_FPDU_CRC:
        placer->counters.early_crc_errors++;
        return PLACE_DROP;
    case MPA_FPDU_MARKER:
        return buffer(placer);
    case MPA_FPDU_OK:
        break;
    }
    return offer_up(placer, ulpdu, len, &answer->counts);
}

static enum place_verdict place_beyond_hole(struct mpa_placer *placer,
                                            const struct place_offer *offer,
                                            struct place_answer *answer)
{
    struct piece p = {
        .position = offer->position - placer->base,
        .octets = offer->octets,
        .is_segment_start = offer->is_segment_start,
        .is_segment_end = offer->is_segment_end,
    };
    if (placer->placement == PLACEMENT_OFF || placer->rx->is_framing_open ||
        (!placer->rx->framing.markers && !placer->rx->framing.crc)) {
        return buffer(placer);
    }
    size_t start = find_start(placer, &p);
    if (start > 0) {
        answer->len = start; // the end of an FPDU that began elsewhere
        return buffer(placer);
    }
    return take_fpdu(placer, &p, answer);
}

/* ---- in order -------------------------------------------------------------------------------- */

static enum place_verdict place_in_order(struct mpa_placer *placer, struct span octets,
                                         struct place_answer *answer)
{
    size_t consumed;
    enum mpa_rx_verdict verdict = mpa_rx_on_input(placer->rx, octets, &consumed);
    if (verdict == MPA_RX_STALLED) {
        answer->len = consumed > 0 ? consumed : octets.len;
        return consumed > 0 ? PLACE_PLACED : PLACE_BUFFER;
    }
    return PLACE_PLACED; // after the end of the stream all is thrown away
}

static enum place_verdict place(void *ctx, const struct place_offer *offer,
                                struct place_answer *answer)
{
    struct mpa_placer *placer = ctx;
    if (offer->order != PLACE_BEYOND_HOLE) {
        return place_in_order(placer, offer->octets, answer);
    }
    if (placer->rx->verdict != MPA_RX_OK) {
        return PLACE_PLACED;
    }
    return place_beyond_hole(placer, offer, answer);
}

// Octets in order must have come to the end of an FPDU just where the placed ones begin.
static bool advance(void *ctx, uint64_t position, uint64_t end, const struct place_counts *counts)
{
    struct mpa_placer *placer = ctx;
    struct mpa_rx *rx = placer->rx;
    size_t consumed;
    if (rx->is_held) {
        mpa_rx_on_input(rx, span_of(NULL, 0), &consumed);
    }
    if (rx->verdict != MPA_RX_OK) {
        return true;
    }
    if (rx->is_held) {
        return false;
    }
    CHECK(rx->position == position - placer->base);
    if (!mpa_rx_is_between_fpdus(rx)) {
        placer->counters.misplaced++;
        mpa_rx_end(rx, MPA_RX_MARKER);
        return true;
    }
    if (!rx->port.on_advance(rx->port.ctx, end - placer->base, counts)) {
        return false;
    }
    rx->position = end - placer->base;
    placer->counters.advances++;
    return true;
}

/* ---- the door -------------------------------------------------------------------------------- */

void mpa_placer_init(struct mpa_placer *placer, struct mpa_rx *rx, enum placement placement,
                     uint64_t position, struct mspan scratch)
{
    CHECK(scratch.len >= MPA_ULPDU_MAX_LEN);
    CHECK(position >= rx->position);
    CHECK(rx->port.on_early_ulpdu != NULL);
    CHECK(rx->port.on_advance != NULL);
    *placer = (struct mpa_placer){
        .rx = rx,
        .placement = placement,
        .base = position - rx->position,
        .boundary = UINT64_MAX,
        .scratch = scratch.ptr,
    };
}

struct place_port mpa_placer_port(struct mpa_placer *placer)
{
    return (struct place_port){.place = place, .on_advance = advance, .ctx = placer};
}

void mpa_placer_check(const struct mpa_placer *placer)
{
    const struct mpa_placer_counters *c = &placer->counters;
    mpa_rx_check(placer->rx);
    CHECK(placer->placement < PLACEMENT_COUNT);
    CHECK(c->early_octets >= c->early_fpdus * mpa_fpdu_len(0));
    CHECK(placer->placement != PLACEMENT_OFF || c->early_fpdus == 0);
    CHECK(c->misplaced <= 1);
}

const char *mpa_placement_name(enum placement placement)
{
    static const char *const names[PLACEMENT_COUNT] = {
        [PLACEMENT_EARLY] = "early",
        [PLACEMENT_STRICT] = "strict",
        [PLACEMENT_OFF] = "off",
    };
    return names[placement];
}
