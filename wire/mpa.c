#include "wire/mpa.h"

#include <stdio.h>

#include "base/bytes.h"
#include "base/port_ulpdu.h"

static const uint8_t keys[][MPA_KEY_LEN + 1] = {
    [MPA_REQUEST] = "MPA ID Req Frame",
    [MPA_REPLY] = "MPA ID Rep Frame",
};

// The enhanced octets (RFC 6581 section 9): two flags above each 14-bit number.
enum {
    ENHANCED_A = 0x8000,
    ENHANCED_B = 0x4000,
    ENHANCED_C = 0x8000,
    ENHANCED_D = 0x4000,
    ENHANCED_NUMBER = 0x3fff,
};

// The first wrong octet decides, so that the verdict does not depend on how many have arrived.
static enum mpa_frame_verdict check_key(struct span octets, enum mpa_frame_kind expected)
{
    const uint8_t *key = keys[expected];
    const uint8_t *other_key = keys[expected == MPA_REQUEST ? MPA_REPLY : MPA_REQUEST];
    for (size_t i = 0; i < octets.len && i < MPA_KEY_LEN; i++) {
        if (octets.ptr[i] != key[i]) {
            return octets.ptr[i] == other_key[i] ? MPA_FRAME_WRONG_KIND : MPA_FRAME_BAD_KEY;
        }
    }
    return MPA_FRAME_OK;
}

static void parse_flags(uint16_t word, struct mpa_startup_frame *ret)
{
    ret->markers = (word & MPA_FLAG_MARKERS) != 0;
    ret->crc = (word & MPA_FLAG_CRC) != 0;
    ret->reject = (word & MPA_FLAG_REJECT) != 0;
    ret->revision = word & MPA_REVISION_MASK;
    ret->reserved = word & MPA_FLAGS_RESERVED;
    // Revision 1 knows no S: the bit is reserved there and not to be checked (RFC 5044 7.1.1).
    ret->enhanced = ret->revision >= 2 && (word & MPA_FLAG_ENHANCED) != 0;
}

static void parse_enhanced(const uint8_t *p, struct mpa_startup_frame *ret)
{
    uint16_t ird = get_be16(p), ord = get_be16(p + 2);
    ret->peer_to_peer = (ird & ENHANCED_A) != 0;
    ret->rtr_send = (ird & ENHANCED_B) != 0;
    ret->rtr_write = (ord & ENHANCED_C) != 0;
    ret->rtr_read = (ord & ENHANCED_D) != 0;
    ret->ird = ird & ENHANCED_NUMBER;
    ret->ord = ord & ENHANCED_NUMBER;
}

enum mpa_frame_verdict mpa_startup_frame_parse(struct span octets, enum mpa_frame_kind expected,
                                               struct mpa_startup_frame *ret, size_t *ret_len)
{
    *ret_len = MPA_STARTUP_HEADER_LEN;
    if (octets.len == 0) {
        return MPA_FRAME_INCOMPLETE;
    }
    enum mpa_frame_verdict verdict = check_key(octets, expected);
    if (verdict != MPA_FRAME_OK) {
        return verdict;
    }
    if (octets.len < MPA_STARTUP_HEADER_LEN) {
        return MPA_FRAME_INCOMPLETE;
    }
    struct mpa_startup_frame f = {.kind = expected};
    parse_flags(get_be16(octets.ptr + MPA_OFF_FLAGS), &f);
    if (f.revision != 1 && f.revision != 2) {
        return MPA_FRAME_REVISION;
    }
    size_t pd_len = get_be16(octets.ptr + MPA_OFF_PD_LEN);
    if (pd_len > MPA_PRIVATE_DATA_MAX_LEN) {
        return MPA_FRAME_PD_TOO_LONG;
    }
    if (f.enhanced && pd_len < MPA_ENHANCED_LEN) {
        return MPA_FRAME_ENHANCED_MISSING;
    }
    *ret_len = MPA_STARTUP_HEADER_LEN + pd_len;
    if (octets.len < *ret_len) {
        return MPA_FRAME_INCOMPLETE;
    }
    f.private_data = span_of(octets.ptr + MPA_STARTUP_HEADER_LEN, pd_len);
    if (f.enhanced) {
        parse_enhanced(f.private_data.ptr, &f);
        f.private_data = span_skip(f.private_data, MPA_ENHANCED_LEN);
    }
    *ret = f;
    return MPA_FRAME_OK;
}

size_t mpa_startup_frame_emit(const struct mpa_startup_frame *f, uint8_t *buf)
{
    size_t len = mpa_startup_frame_len(f);
    CHECK(len <= MPA_STARTUP_MAX_LEN);
    CHECK(f->revision >= 2 || !f->enhanced);
    memcpy(buf, keys[f->kind], MPA_KEY_LEN);
    unsigned word = (f->markers ? MPA_FLAG_MARKERS : 0) | (f->crc ? MPA_FLAG_CRC : 0) |
                    (f->reject ? MPA_FLAG_REJECT : 0) | (f->enhanced ? MPA_FLAG_ENHANCED : 0) |
                    (f->reserved & MPA_FLAGS_RESERVED) | f->revision;
    put_be16(buf + MPA_OFF_FLAGS, (uint16_t)word);
    put_be16(buf + MPA_OFF_PD_LEN, (uint16_t)(len - MPA_STARTUP_HEADER_LEN));
    uint8_t *p = buf + MPA_STARTUP_HEADER_LEN;
    if (f->enhanced) {
        unsigned ird = (f->peer_to_peer ? ENHANCED_A : 0) | (f->rtr_send ? ENHANCED_B : 0) |
                       (f->ird & ENHANCED_NUMBER);
        unsigned ord = (f->rtr_write ? ENHANCED_C : 0) | (f->rtr_read ? ENHANCED_D : 0) |
                       (f->ord & ENHANCED_NUMBER);
        put_be16(p, (uint16_t)ird);
        put_be16(p + 2, (uint16_t)ord);
        p += MPA_ENHANCED_LEN;
    }
    if (f->private_data.len > 0) {
        memcpy(p, f->private_data.ptr, f->private_data.len);
    }
    return len;
}

const char *mpa_startup_frame_format(const struct mpa_startup_frame *f, char *buf, size_t len)
{
    char enhanced[64] = "";
    if (f->enhanced) {
        snprintf(enhanced, sizeof enhanced, " ird=%u ord=%u%s%s%s%s", f->ird, f->ord,
                 f->peer_to_peer ? " p2p" : "", f->rtr_send ? " rtr-send" : "",
                 f->rtr_write ? " rtr-write" : "", f->rtr_read ? " rtr-read" : "");
    }
    snprintf(buf, len, "MPA %s rev=%u%s%s%s reserved=0x%x%s private_data=%zu",
             f->kind == MPA_REPLY ? "Reply" : "Request", f->revision, f->markers ? " markers" : "",
             f->crc ? " crc" : "", f->reject ? " reject" : "", f->reserved, enhanced,
             f->private_data.len);
    return buf;
}

const char *mpa_frame_verdict_name(enum mpa_frame_verdict verdict)
{
    static const char *const names[MPA_FRAME_VERDICT_COUNT] = {
        [MPA_FRAME_OK] = "ok",
        [MPA_FRAME_INCOMPLETE] = "incomplete",
        [MPA_FRAME_BAD_KEY] = "not an MPA start-up frame",
        [MPA_FRAME_WRONG_KIND] = "both ends started in the same role",
        [MPA_FRAME_REVISION] = "unknown MPA revision",
        [MPA_FRAME_PD_TOO_LONG] = "private data longer than 512 octets",
        [MPA_FRAME_ENHANCED_MISSING] = "S is set without the IRD and ORD octets",
    };
    return names[verdict];
}

size_t mpa_mulpdu(size_t emss, bool markers)
{
    size_t overhead = MPA_LENGTH_LEN + MPA_CRC_LEN + emss % 4;
    if (markers) {
        overhead += MPA_MARKER_LEN * ((emss + MPA_MARKER_INTERVAL - 1) / MPA_MARKER_INTERVAL);
    }
    if (emss < overhead + MULPDU_MIN) {
        return MULPDU_MIN;
    }
    size_t mulpdu = emss - overhead;
    return mulpdu < MPA_ULPDU_MAX_LEN ? mulpdu : MPA_ULPDU_MAX_LEN;
}
