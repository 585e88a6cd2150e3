// The Terminate header (RFC 5040 section 4.8): why a stream ends, and the header that was at fault.
//
//   OFFSET SIZE FIELD
//    0      1   Layer(4) EType(4)
//    1      1   Error Code
//    2      2   M(1) D(1) R(1) Reserved(13)
//    4      2   DDP Segment Length            present when M, D or R is set
//    6   14|18  Terminated DDP Header         present when D is set
//    .     28   Terminated RDMA Header        present when R is set: a Read Request header
//
// The kernel's siw writes the first octets as the bit fields of a little-endian machine fall:
// EType before Layer, and M, D, R in the lowest bits. Both readings are offered.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/span.h"
#include "wire/ddp.h"
#include "wire/rdmap.h"

enum {
    TERMINATE_OFF_LAYER_ETYPE = 0,
    TERMINATE_OFF_CODE = 1,
    TERMINATE_OFF_HDRCT = 2,
    TERMINATE_OFF_DDP_SEGMENT_LEN = 4,
    TERMINATE_OFF_DDP_HEADER = 6,
    TERMINATE_MIN_LEN = 4,
    TERMINATE_MAX_LEN = TERMINATE_OFF_DDP_HEADER + DDP_HEADER_MAX_LEN + RDMAP_READ_REQUEST_LEN,
};
STATIC_CHECK(TERMINATE_MAX_LEN == 52);

enum terminate_layer {
    TERMINATE_LAYER_RDMAP = 0,
    TERMINATE_LAYER_DDP = 1,
    TERMINATE_LAYER_LLP = 2
};

// Every cause that a Terminate can name: name, Layer, EType, Code, the RFCs' words. The rooms speak
// of causes, the numbers stand only here. RFC 5040 figure 9, RFC 5041 section 7.2, RFC 5044
// section 8, RFC 6581 section 8.
#define TERMINATE_CAUSES(X)                                                                     \
    X(RDMAP_LOCAL, 0, 0, 0x00, "local catastrophic error")                                      \
    X(RDMAP_INVALID_STAG, 0, 1, 0x00, "remote protection: invalid STag")                        \
    X(RDMAP_BOUNDS, 0, 1, 0x01, "remote protection: base or bounds violation")                  \
    X(RDMAP_ACCESS, 0, 1, 0x02, "remote protection: access rights violation")                   \
    X(RDMAP_STREAM, 0, 1, 0x03, "remote protection: STag not associated with stream")           \
    X(RDMAP_TO_WRAP, 0, 1, 0x04, "remote protection: TO wrap")                                  \
    X(RDMAP_PROTECTION_INVALIDATE, 0, 1, 0x09, "remote protection: STag cannot be invalidated") \
    X(RDMAP_PROTECTION_UNSPECIFIED, 0, 1, 0xff, "remote protection: unspecified error")         \
    X(RDMAP_VERSION, 0, 2, 0x05, "remote operation: invalid RDMAP version")                     \
    X(RDMAP_OPCODE, 0, 2, 0x06, "remote operation: unexpected opcode")                          \
    X(RDMAP_CATASTROPHIC_STREAM, 0, 2, 0x07, "remote operation: catastrophic, stream")          \
    X(RDMAP_CATASTROPHIC_GLOBAL, 0, 2, 0x08, "remote operation: catastrophic, global")          \
    X(RDMAP_INVALIDATE, 0, 2, 0x09, "remote operation: STag cannot be invalidated")             \
    X(RDMAP_OPERATION_UNSPECIFIED, 0, 2, 0xff, "remote operation: unspecified error")           \
    X(DDP_LOCAL, 1, 0, 0x00, "local catastrophic error")                                        \
    X(DDP_INVALID_STAG, 1, 1, 0x00, "tagged buffer: invalid STag")                              \
    X(DDP_BOUNDS, 1, 1, 0x01, "tagged buffer: base or bounds violation")                        \
    X(DDP_STREAM, 1, 1, 0x02, "tagged buffer: STag not associated with stream")                 \
    X(DDP_TO_WRAP, 1, 1, 0x03, "tagged buffer: TO wrap")                                        \
    X(DDP_TAGGED_VERSION, 1, 1, 0x04, "tagged buffer: invalid DDP version")                     \
    X(DDP_QN, 1, 2, 0x01, "untagged buffer: invalid QN")                                        \
    X(DDP_NO_BUFFER, 1, 2, 0x02, "untagged buffer: invalid MSN, no buffer available")           \
    X(DDP_MSN_RANGE, 1, 2, 0x03, "untagged buffer: invalid MSN, range is not valid")            \
    X(DDP_MO, 1, 2, 0x04, "untagged buffer: invalid MO")                                        \
    X(DDP_TOO_LONG, 1, 2, 0x05, "untagged buffer: message too long for the buffer")             \
    X(DDP_UNTAGGED_VERSION, 1, 2, 0x06, "untagged buffer: invalid DDP version")                 \
    X(MPA_TCP_CLOSED, 2, 0, 0x01, "TCP connection closed, terminated or lost")                  \
    X(MPA_CRC, 2, 0, 0x02, "CRC does not match")                                                \
    X(MPA_MARKER, 2, 0, 0x03, "marker and ULPDU length do not agree")                           \
    X(MPA_STARTUP, 2, 0, 0x04, "invalid MPA Request or Reply frame")                            \
    X(MPA_LOCAL, 2, 0, 0x05, "local catastrophic error")                                        \
    X(MPA_INSUFFICIENT_IRD, 2, 0, 0x06, "insufficient IRD resources")                           \
    X(MPA_NO_RTR, 2, 0, 0x07, "no matching RTR option")

enum terminate_cause {
    TERM_NONE, // nothing is wrong; also: numbers that no RFC gives
#define X(name, layer, etype, code, text) TERM_##name,
    TERMINATE_CAUSES(X)
#undef X
        TERM_CAUSE_COUNT,
};

struct terminate_cause_facts {
    const char *text; // the RFCs' words, the layer's name first
    uint8_t layer;
    uint8_t etype;
    uint8_t code;
    bool takes_ddp;   // RFC 5040 figure 10: the DDP header and segment length belong into it
    bool takes_rdmap; // ... and the Read Request header, when that was at fault
};

// The numbers and words of a cause. TERM_NONE: all zero, "no error".
const struct terminate_cause_facts *terminate_cause_facts(enum terminate_cause cause);

// The cause that has these numbers; TERM_NONE when no RFC gives them. With EType 0 of RDMAP or DDP
// every code means the local catastrophic error.
enum terminate_cause terminate_cause_find(uint8_t layer, uint8_t etype, uint8_t code);

struct terminate {
    uint8_t layer;
    uint8_t etype;
    uint8_t code;
    bool has_len;   // M: ddp_segment_len is valid
    bool has_ddp;   // D: ddp_header is there
    bool has_rdmap; // R: read_request is there
    uint16_t ddp_segment_len;
    uint8_t ddp_header[DDP_HEADER_MAX_LEN];
    size_t ddp_header_len; // 14 or 18 when has_ddp, by the header's own T bit
    uint8_t read_request[RDMAP_READ_REQUEST_LEN];
};

enum terminate_order {
    TERMINATE_ORDER_RFC,
    TERMINATE_ORDER_SIW, // the bit fields of a little-endian machine
};

enum terminate_verdict {
    TERMINATE_OK,
    TERMINATE_TOO_SHORT, // not even the first four octets; nothing is known
    TERMINATE_CUT,       // layer, etype and code are known; what D and R announce is not all there
};

// Reads a Terminate message. On TERMINATE_CUT the parts that are missing are reported as absent.
// Octets behind the announced parts are ignored.
enum terminate_verdict terminate_parse(struct span message, enum terminate_order order,
                                       struct terminate *ret);

// A Terminate that names `cause` and carries no header; add the headers that the facts allow.
struct terminate terminate_of(enum terminate_cause cause);

// Writes the message in the RFC's order into `buf` (room for TERMINATE_MAX_LEN octets) and returns
// its length.
size_t terminate_emit(const struct terminate *t, uint8_t *buf);

// One trace line; unknown numbers are printed as numbers. Returns `buf`.
const char *terminate_format(const struct terminate *t, char *buf, size_t len);

const char *terminate_verdict_name(enum terminate_verdict verdict);
