#include "mpa/rx.h"

#include <string.h>

#include "base/bytes.h"
#include "base/check.h"

void mpa_rx_init(struct mpa_rx *rx, bool crc, enum mpa_rx_markers markers, struct mspan carry,
                 struct ulpdu_port port)
{
    CHECK(carry.len >= MPA_RX_CARRY_LEN);
    *rx = (struct mpa_rx){
        .port = port,
        .framing = {.crc = crc, .markers = markers == MPA_RX_MARKERS},
        .is_framing_open = markers == MPA_RX_MARKERS_IF_SEEN,
        .carry = carry.ptr,
    };
}

void mpa_rx_use_carry(struct mpa_rx *rx, uint8_t *carry)
{
    CHECK(mpa_rx_is_between_fpdus(rx));
    rx->carry = carry;
}

/* ---- where the FPDU ends --------------------------------------------------------------------- */

// The first two octets of the stream: the start of a marker, or of an FPDU, whose length is not
// zero. False: they are not there yet.
static bool see_markers(struct mpa_rx *rx, struct span octets)
{
    if (octets.len < MPA_LENGTH_LEN) {
        return false;
    }
    rx->framing.markers = get_be16(octets.ptr) == 0;
    rx->is_framing_open = false;
    return true;
}

// The length of the FPDU that begins with these octets, the first of them at `position`; 0: not
// enough of it is there to tell.
static size_t measure(struct mpa_rx *rx, uint64_t position, struct span octets)
{
    if (rx->is_framing_open && !see_markers(rx, octets)) {
        return 0;
    }
    return mpa_fpdu_measure(rx->framing, position, octets);
}

/* ---- handing up ------------------------------------------------------------------------------ */

static enum mpa_rx_verdict end_stream(struct mpa_rx *rx, enum mpa_rx_verdict verdict)
{
    rx->counters.crc_errors += verdict == MPA_RX_CRC;
    rx->counters.marker_errors += verdict == MPA_RX_MARKER;
    rx->verdict = verdict;
    return verdict;
}

void mpa_rx_end(struct mpa_rx *rx, enum mpa_rx_verdict verdict)
{
    end_stream(rx, verdict);
}

static void count_taken(struct mpa_rx *rx, size_t fpdu_len)
{
    rx->counters.fpdus++;
    rx->counters.octets += fpdu_len;
}

static void count_markers(struct mpa_rx *rx, uint64_t position, size_t fpdu_len)
{
    if (rx->framing.markers) {
        rx->counters.markers += mpa_fpdu_marker_count(position, fpdu_len);
    }
}

void mpa_rx_note_early(struct mpa_rx *rx, uint64_t position, size_t fpdu_len)
{
    count_taken(rx, fpdu_len);
    count_markers(rx, position, fpdu_len);
}

static enum mpa_rx_verdict hold(struct mpa_rx *rx, struct span ulpdu, size_t fpdu_len)
{
    if (!rx->is_held) {
        memmove(rx->carry, ulpdu.ptr, ulpdu.len);
        rx->held = span_of(rx->carry, ulpdu.len);
        rx->held_fpdu_len = fpdu_len;
        rx->is_held = true;
    }
    rx->counters.stalls++;
    return MPA_RX_STALLED;
}

// Offers a good ULPDU, whose FPDU had `fpdu_len` octets.
static enum mpa_rx_verdict offer(struct mpa_rx *rx, struct span ulpdu, size_t fpdu_len)
{
    enum ulpdu_answer answer = rx->port.on_ulpdu(rx->port.ctx, ulpdu);
    if (answer == ULPDU_STALL) {
        return hold(rx, ulpdu, fpdu_len);
    }
    rx->is_held = false;
    count_taken(rx, fpdu_len);
    return answer == ULPDU_STOP ? end_stream(rx, MPA_RX_STOPPED) : MPA_RX_OK;
}

// A whole FPDU, behind whose last octet the stream stands now.
static enum mpa_rx_verdict take_fpdu(struct mpa_rx *rx, struct span fpdu)
{
    uint64_t position = rx->position - fpdu.len;
    struct span ulpdu;
    switch (mpa_fpdu_unwrap(rx->framing, position, fpdu, rx->carry, &ulpdu)) {
    case MPA_FPDU_CRC:
        return end_stream(rx, MPA_RX_CRC);
    case MPA_FPDU_MARKER:
        return end_stream(rx, MPA_RX_MARKER);
    case MPA_FPDU_OK:
        break;
    }
    count_markers(rx, position, fpdu.len);
    return offer(rx, ulpdu, fpdu.len);
}

static struct span consume(struct mpa_rx *rx, struct span *stream, size_t len)
{
    struct span consumed = span_first(*stream, len);
    *stream = span_skip(*stream, len);
    rx->position += len;
    return consumed;
}

// FPDUs that lie whole in the input, where they are.
static enum mpa_rx_verdict take_whole(struct mpa_rx *rx, struct span *stream)
{
    enum mpa_rx_verdict verdict = MPA_RX_OK;
    while (verdict == MPA_RX_OK) {
        size_t fpdu_len = measure(rx, rx->position, *stream);
        if (fpdu_len == 0 || stream->len < fpdu_len) {
            break;
        }
        verdict = take_fpdu(rx, consume(rx, stream, fpdu_len));
    }
    return verdict;
}

/* ---- carrying -------------------------------------------------------------------------------- */

// Octets that the carried FPDU still needs, as far as is known.
static size_t carry_missing(struct mpa_rx *rx)
{
    uint64_t position = rx->position - rx->carry_len;
    size_t known = measure(rx, position, span_of(rx->carry, rx->carry_len));
    return (known != 0 ? known : mpa_fpdu_head_len(rx->framing, position)) - rx->carry_len;
}

// Completes the carried FPDU, or begins one with what is left of the input.
static enum mpa_rx_verdict carry(struct mpa_rx *rx, struct span *stream)
{
    while (stream->len > 0) {
        size_t missing = carry_missing(rx);
        struct span octets = consume(rx, stream, missing < stream->len ? missing : stream->len);
        memcpy(rx->carry + rx->carry_len, octets.ptr, octets.len);
        rx->carry_len += octets.len;
        if (octets.len == missing && carry_missing(rx) == 0) {
            struct span fpdu = span_of(rx->carry, rx->carry_len);
            rx->carry_len = 0;
            rx->counters.carried++;
            return take_fpdu(rx, fpdu);
        }
    }
    return MPA_RX_OK;
}

/* ---- the door -------------------------------------------------------------------------------- */

enum mpa_rx_verdict mpa_rx_on_input(struct mpa_rx *rx, struct span stream, size_t *ret_consumed)
{
    struct span rest = stream;
    enum mpa_rx_verdict verdict = rx->verdict;
    if (verdict == MPA_RX_OK && rx->is_held) {
        verdict = offer(rx, rx->held, rx->held_fpdu_len);
    }
    if (verdict == MPA_RX_OK && rx->carry_len > 0) {
        verdict = carry(rx, &rest);
    }
    if (verdict == MPA_RX_OK) {
        verdict = take_whole(rx, &rest);
    }
    if (verdict == MPA_RX_OK) {
        verdict = carry(rx, &rest);
    }
    *ret_consumed = stream.len - rest.len;
    return verdict;
}

/* ---- octets that are lent -------------------------------------------------------------------- */

enum {
    LENT_COPY_MAX = 512
}; // ULPDUs up to this are copied out: what of their payload is looked
    // at is shorter

// The first FPDU of what is lent, if it is all there. False: it is not.
static bool take_lent(struct mpa_rx *rx, struct span *stream, enum mpa_rx_verdict *verdict)
{
    uint8_t length[MPA_LENGTH_LEN];
    if (stream->len < sizeof length) {
        return false;
    }
    memcpy(length, stream->ptr, sizeof length);
    __asm__("" : "+m"(length)); // read once
    size_t ulpdu_len = get_be16(length);
    if (stream->len < mpa_fpdu_len(ulpdu_len)) {
        return false;
    }
    struct span fpdu = consume(rx, stream, mpa_fpdu_len(ulpdu_len));
    struct span ulpdu = span_of(fpdu.ptr + MPA_LENGTH_LEN, ulpdu_len);
    if (ulpdu_len <= LENT_COPY_MAX) {
        memcpy(rx->carry, ulpdu.ptr, ulpdu_len);
        ulpdu.ptr = rx->carry;
    }
    *verdict = offer(rx, ulpdu, fpdu.len);
    return *verdict == MPA_RX_OK;
}

enum mpa_rx_verdict mpa_rx_on_lent(struct mpa_rx *rx, struct span stream, bool is_cut,
                                   size_t *ret_consumed)
{
    struct span rest = stream;
    enum mpa_rx_verdict verdict = rx->verdict;
    CHECK(!rx->framing.crc && !rx->framing.markers && !rx->is_framing_open);
    if (verdict == MPA_RX_OK && rx->is_held) {
        verdict = offer(rx, rx->held, rx->held_fpdu_len);
    }
    if (verdict == MPA_RX_OK && rx->carry_len > 0) {
        verdict = carry(rx, &rest);
    }
    while (verdict == MPA_RX_OK && rx->carry_len == 0 && take_lent(rx, &rest, &verdict)) {
    }
    if (verdict == MPA_RX_OK && is_cut) {
        verdict = carry(rx, &rest);
    }
    *ret_consumed = stream.len - rest.len;
    return verdict;
}

bool mpa_rx_is_between_fpdus(const struct mpa_rx *rx)
{
    return rx->carry_len == 0 && !rx->is_held;
}

void mpa_rx_check(const struct mpa_rx *rx)
{
    CHECK(rx->verdict < MPA_RX_VERDICT_COUNT);
    CHECK(rx->verdict != MPA_RX_STALLED);
    CHECK(rx->carry_len < MPA_RX_CARRY_LEN);
    CHECK(rx->carry_len <= rx->position);
    CHECK(!rx->is_held || rx->carry_len == 0);
    CHECK(!rx->is_held || rx->verdict == MPA_RX_OK);
    CHECK(!rx->is_framing_open || rx->position < MPA_LENGTH_LEN);
    CHECK(rx->counters.carried <= rx->counters.fpdus + 1);
}

const char *mpa_rx_verdict_name(enum mpa_rx_verdict verdict)
{
    static const char *const names[MPA_RX_VERDICT_COUNT] = {
        [MPA_RX_OK] = "ok",
        [MPA_RX_STALLED] = "stalled by the layer above",
        [MPA_RX_STOPPED] = "stopped by the layer above",
        [MPA_RX_CRC] = "CRC does not match",
        [MPA_RX_MARKER] = "marker and ULPDU length do not agree",
    };
    return names[verdict];
}

enum terminate_cause mpa_rx_verdict_cause(enum mpa_rx_verdict verdict)
{
    switch (verdict) {
    case MPA_RX_CRC:
        return TERM_MPA_CRC;
    case MPA_RX_MARKER:
        return TERM_MPA_MARKER;
    default:
        return TERM_NONE;
    }
}
