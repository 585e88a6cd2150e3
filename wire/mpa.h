// MPA on the wire: the start-up frames (RFC 5044 section 7.1.1, RFC 6581 sections 6 and 9) and the
// sizes of FPDUs and markers (RFC 5044 sections 4.1 to 4.5).
//
//   OFFSET SIZE FIELD                      Request and Reply frame
//    0     16   key: "MPA ID Req Frame" or "MPA ID Rep Frame"
//   16      1   M C R S Res(4)             S: revision 2 only
//   17      1   Rev
//   18      2   PD_Length                  at most 512
//   20      4   A B IRD(14) C D ORD(14)    with S only; counts in PD_Length
//    .      .   private data
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/span.h"

enum {
    MPA_KEY_LEN = 16,
    MPA_OFF_FLAGS = 16, // 16 bits: the flags and, in the low octet, the revision
    MPA_OFF_PD_LEN = 18,
    MPA_STARTUP_HEADER_LEN = 20,
    MPA_ENHANCED_LEN = 4,
    MPA_PRIVATE_DATA_MAX_LEN = 512, // the 4 enhanced octets included
    MPA_STARTUP_MAX_LEN = MPA_STARTUP_HEADER_LEN + MPA_PRIVATE_DATA_MAX_LEN,
};
STATIC_CHECK(MPA_OFF_PD_LEN + 2 == MPA_STARTUP_HEADER_LEN);

// The 16 bits at MPA_OFF_FLAGS.
enum {
    MPA_FLAG_MARKERS = 0x8000,  // M: the sender wants markers in what it receives
    MPA_FLAG_CRC = 0x4000,      // C: the sender wants CRCs, then both sides use them
    MPA_FLAG_REJECT = 0x2000,   // R: Reply only
    MPA_FLAG_ENHANCED = 0x1000, // S: revision 2; a reserved bit in revision 1
    MPA_FLAGS_RESERVED = 0x0f00,
    MPA_REVISION_MASK = 0x00ff,
};

// Ours, in reserved bits of a Request, which every RFC peer ignores.
enum {
    MPA_FLAG_EXTENSIONS = 0x0400,  // the initiator offers the extensions of wire/extension.h
    MPA_FLAG_MARKER_WISH = 0x0200, // it would like markers from a peer that agrees to them
};

enum { MPA_IRD_ORD_MAX = 0x3ffe, MPA_IRD_ORD_UNNEGOTIATED = 0x3fff }; // RFC 6581 section 9.1

enum mpa_frame_kind { MPA_REQUEST, MPA_REPLY };

struct mpa_startup_frame {
    enum mpa_frame_kind kind;
    bool markers;      // M
    bool crc;          // C
    bool reject;       // R; not looked at in a Request
    bool enhanced;     // S: the fields from peer_to_peer to ord hold
    uint8_t revision;  // 1 or 2
    uint16_t reserved; // the reserved bits as they stand, MPA_FLAGS_RESERVED (and S in revision 1)

    bool peer_to_peer; // A
    bool rtr_send;     // B: zero-length Send as ready-to-receive indication
    bool rtr_write;    // C
    bool rtr_read;     // D
    uint16_t ird;      // 0..0x3fff
    uint16_t ord;      // 0..0x3fff

    struct span private_data; // without the enhanced octets; after a parse it lies in the input
};

enum mpa_frame_verdict {
    MPA_FRAME_OK,
    MPA_FRAME_INCOMPLETE,       // good as far as it goes
    MPA_FRAME_BAD_KEY,          // not an MPA start-up frame
    MPA_FRAME_WRONG_KIND,       // a Request where a Reply is due, or the other way round
    MPA_FRAME_REVISION,         // a revision other than 1 and 2
    MPA_FRAME_PD_TOO_LONG,      // PD_Length over 512
    MPA_FRAME_ENHANCED_MISSING, // S is set, but PD_Length has no room for the enhanced octets
    MPA_FRAME_VERDICT_COUNT,
};

// Reads a start-up frame of the kind `expected` from the octets that have arrived so far; octets
// behind the frame are left alone. `*ret_len` is the frame's length with MPA_FRAME_OK; with
// MPA_FRAME_INCOMPLETE it is the number of octets to have before the next try. A wrong key is
// refused at its first wrong octet. `*ret` holds with MPA_FRAME_OK only.
enum mpa_frame_verdict mpa_startup_frame_parse(struct span octets, enum mpa_frame_kind expected,
                                               struct mpa_startup_frame *ret, size_t *ret_len);

// Octets that mpa_startup_frame_emit writes.
static inline size_t mpa_startup_frame_len(const struct mpa_startup_frame *f)
{
    return MPA_STARTUP_HEADER_LEN + (f->enhanced ? MPA_ENHANCED_LEN : 0) + f->private_data.len;
}

// Writes the frame into `buf` (room for MPA_STARTUP_MAX_LEN octets) and returns its length. The
// private data must fit: at most 512 octets, 508 with `enhanced`.
size_t mpa_startup_frame_emit(const struct mpa_startup_frame *f, uint8_t *buf);

// One trace line. Returns `buf`.
const char *mpa_startup_frame_format(const struct mpa_startup_frame *f, char *buf, size_t len);

const char *mpa_frame_verdict_name(enum mpa_frame_verdict verdict);

/* ---- FPDU: ULPDU_Length(2), ULPDU, PAD(0-3), CRC(4); a multiple of 4 without its markers ----- */

enum {
    MPA_LENGTH_LEN = 2,
    MPA_CRC_LEN = 4,
    MPA_PAD_MAX_LEN = 3,
    MPA_ULPDU_MAX_LEN = 65535,
    MPA_FPDU_MAX_LEN = MPA_LENGTH_LEN + MPA_ULPDU_MAX_LEN + MPA_PAD_MAX_LEN + MPA_CRC_LEN,
    MPA_MARKER_INTERVAL = 512, // octets of the stream from one marker's start to the next one's
    MPA_MARKER_LEN = 4,
    MPA_MARKER_OFF_FPDUPTR = 2, // behind 16 reserved bits
    MPA_FPDUPTR_MASK = 0xfffc,  // receivers take the two lowest bits as zero (section 4.2)
};

static inline size_t mpa_pad_len(size_t ulpdu_len)
{
    return (4 - (MPA_LENGTH_LEN + ulpdu_len) % 4) % 4;
}

// The FPDU's octets without markers.
static inline size_t mpa_fpdu_len(size_t ulpdu_len)
{
    return MPA_LENGTH_LEN + ulpdu_len + mpa_pad_len(ulpdu_len) + MPA_CRC_LEN;
}

// The longest ULPDU whose FPDU fits into one TCP segment of `emss` octets (RFC 5044 section 4.5);
// never below 128, never above 65535.
size_t mpa_mulpdu(size_t emss, bool markers);
