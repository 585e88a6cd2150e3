#include "mpa/fpdu.h"

#include <string.h>

#include "base/bytes.h"
#include "wire/crc32c.h"

// Octets from `position` to the next place of a marker, 0 if it stands there.
static size_t to_marker(uint64_t position)
{
    return (size_t)(-position % MPA_MARKER_INTERVAL);
}

size_t mpa_fpdu_measure(struct mpa_framing framing, uint64_t position, struct span octets)
{
    enum { BETWEEN = MPA_MARKER_INTERVAL - MPA_MARKER_LEN };
    size_t head_len = mpa_fpdu_head_len(framing, position);
    if (octets.len < head_len) {
        return 0;
    }
    size_t len = mpa_fpdu_len(get_be16(octets.ptr + head_len - MPA_LENGTH_LEN));
    size_t before = to_marker(position);
    if (!framing.markers || len <= before) {
        return len;
    }
    return len + (len - before + BETWEEN - 1) / BETWEEN * MPA_MARKER_LEN;
}

unsigned mpa_fpdu_marker_count(uint64_t position, size_t fpdu_len)
{
    size_t before = to_marker(position);
    return fpdu_len <= before ? 0 : (unsigned)((fpdu_len - before - 1) / MPA_MARKER_INTERVAL + 1);
}

static uint16_t pointer_at(const uint8_t *marker)
{
    return get_be16(marker + MPA_MARKER_OFF_FPDUPTR) & MPA_FPDUPTR_MASK;
}

// Each marker points back to the length field, the leading one, which stands before it, nowhere
// (RFC 5044 section 4.3).
static bool are_markers_right(uint64_t position, struct span fpdu)
{
    size_t length_at = to_marker(position) == 0 ? MPA_MARKER_LEN : 0;
    for (size_t at = to_marker(position); at < fpdu.len; at += MPA_MARKER_INTERVAL) {
        uint16_t distance = at < length_at ? 0 : (uint16_t)(at - length_at);
        if (pointer_at(fpdu.ptr + at) != (distance & MPA_FPDUPTR_MASK)) {
            return false;
        }
    }
    return true;
}

// The `len` octets that begin at `at` in the FPDU, without the markers between them.
static void strip_markers(uint64_t position, struct span fpdu, size_t at, size_t len, uint8_t *into)
{
    while (len > 0) {
        size_t run = to_marker(position + at);
        if (run == 0) {
            at += MPA_MARKER_LEN;
            continue;
        }
        run = run < len ? run : len;
        memmove(into, fpdu.ptr + at, run);
        into += run;
        at += run;
        len -= run;
    }
}

enum mpa_fpdu_verdict mpa_fpdu_unwrap(struct mpa_framing framing, uint64_t position,
                                      struct span fpdu, uint8_t *into, struct span *ret_ulpdu)
{
    size_t covered = fpdu.len - MPA_CRC_LEN;
    if (framing.crc && crc32c(fpdu.ptr, covered) != crc32c_get(fpdu.ptr + covered)) {
        return MPA_FPDU_CRC;
    }
    size_t head_len = mpa_fpdu_head_len(framing, position);
    size_t ulpdu_len = get_be16(fpdu.ptr + head_len - MPA_LENGTH_LEN);
    *ret_ulpdu = span_of(fpdu.ptr + head_len, ulpdu_len);
    if (!framing.markers) {
        return MPA_FPDU_OK;
    }
    if (!are_markers_right(position, fpdu)) {
        return MPA_FPDU_MARKER;
    }
    if (ulpdu_len > to_marker(position + head_len)) {
        strip_markers(position, fpdu, head_len, ulpdu_len, into);
        *ret_ulpdu = span_of(into, ulpdu_len);
    }
    return MPA_FPDU_OK;
}

bool mpa_fpdu_find(uint64_t position, struct span octets, size_t *ret_offset)
{
    for (size_t at = to_marker(position); at + MPA_MARKER_LEN <= octets.len;
         at += MPA_MARKER_INTERVAL) {
        size_t distance = pointer_at(octets.ptr + at);
        if (distance > at) {
            continue; // its FPDU begins before these octets
        }
        size_t start = at - distance;
        if (distance > 0 && to_marker(position + start - MPA_MARKER_LEN) == 0) {
            if (start < MPA_MARKER_LEN) {
                continue; // its leading marker stands before them
            }
            start -= MPA_MARKER_LEN;
        }
        *ret_offset = start;
        return true;
    }
    return false;
}
