// RoCE packets from BTH to pad (InfiniBand Architecture volume 1, chapter 9, and annex A17): what
// each opcode is, and all headers of a packet at once.
//
//     BTH | DETH | RETH, AtomicETH or AETH | AtomicAckETH | ImmDt or IETH | payload | pad
//
// The opcode says which of them there are. What stands around (IP, UDP, ICRC) is not seen here.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "wire/aeth.h"
#include "wire/atomiceth.h"
#include "wire/bth.h"
#include "wire/cnp.h"
#include "wire/deth.h"
#include "wire/immdt.h"
#include "wire/reth.h"
#include "wire/roce_verdict.h"

enum { ROCE_UDP_PORT = 4791 };

// An opcode is a transport and an operation: ROCE_RC | ROCE_SEND_ONLY.
enum roce_transport {
    ROCE_RC = 0x00,
    ROCE_UC = 0x20,
    ROCE_UD = 0x60,
    ROCE_TRANSPORT_MASK = 0xe0,
};

enum roce_operation {
    ROCE_SEND_FIRST = 0x00,
    ROCE_SEND_MIDDLE,
    ROCE_SEND_LAST,
    ROCE_SEND_LAST_IMM,
    ROCE_SEND_ONLY,
    ROCE_SEND_ONLY_IMM,
    ROCE_WRITE_FIRST,
    ROCE_WRITE_MIDDLE,
    ROCE_WRITE_LAST,
    ROCE_WRITE_LAST_IMM,
    ROCE_WRITE_ONLY,
    ROCE_WRITE_ONLY_IMM,
    ROCE_READ_REQUEST,
    ROCE_READ_RESPONSE_FIRST,
    ROCE_READ_RESPONSE_MIDDLE,
    ROCE_READ_RESPONSE_LAST,
    ROCE_READ_RESPONSE_ONLY,
    ROCE_ACKNOWLEDGE,
    ROCE_ATOMIC_ACKNOWLEDGE,
    ROCE_CMP_SWAP,
    ROCE_FETCH_ADD,
    ROCE_SEND_LAST_INV = 0x16,
    ROCE_SEND_ONLY_INV,
    ROCE_OPERATION_MASK = 0x1f,
};

enum { ROCE_CNP = 0x81 }; // an opcode of its own

// The headers behind the BTH, in their order on the wire.
enum roce_headers {
    ROCE_HAS_DETH = 1 << 0,
    ROCE_HAS_RETH = 1 << 1,
    ROCE_HAS_ATOMICETH = 1 << 2,
    ROCE_HAS_AETH = 1 << 3,
    ROCE_HAS_ATOMICACKETH = 1 << 4,
    ROCE_HAS_IMMDT = 1 << 5,
    ROCE_HAS_IETH = 1 << 6,
    ROCE_HAS_CNP = 1 << 7, // the reserved octets of a CNP
};
enum { ROCE_HEAD_MAX_LEN = BTH_LEN + ATOMICETH_LEN };

// How much payload a packet may carry.
enum roce_payload {
    ROCE_PAYLOAD_NONE,
    ROCE_PAYLOAD_PMTU,       // first and middle: the path MTU, to the octet
    ROCE_PAYLOAD_1_TO_PMTU,  // last
    ROCE_PAYLOAD_UP_TO_PMTU, // only
};

// What a message is, whatever packet of it this is.
enum roce_kind {
    ROCE_KIND_SEND,
    ROCE_KIND_WRITE,
    ROCE_KIND_READ,
    ROCE_KIND_ATOMIC,
    ROCE_KIND_ACK,
    ROCE_KIND_CNP,
};

struct roce_opcode_facts {
    const char *name;   // "RC SEND ONLY"; "reserved" where there is none
    bool is_known;      // there is such an opcode here
    uint8_t headers;    // of enum roce_headers
    uint8_t header_len; // octets of BTH and these headers
    enum roce_kind kind;
    enum roce_payload payload;
    bool begins, ends;   // a message
    bool claims_receive; // takes the next receive, if its message has not taken one
    bool is_response;    // goes to the requester; all else goes to the responder
};

// The facts of an opcode. Never NULL.
const struct roce_opcode_facts *roce_opcode_facts(uint8_t opcode);

// Whether a packet of this opcode may carry `len` octets of payload on this path MTU (octets).
bool roce_payload_fits(const struct roce_opcode_facts *facts, size_t len, uint32_t pmtu);

// A packet, in host order. Only the headers that `facts->headers` names have a meaning.
struct roce_packet {
    const struct roce_opcode_facts *facts;
    struct bth bth;
    struct deth deth;
    struct reth reth;
    struct atomiceth atomiceth;
    struct aeth aeth;
    struct atomicacketh atomicacketh;
    struct immdt immdt;
    struct ieth ieth;
    struct span payload; // without pad
};

// Reads a packet, from BTH up to and with its pad. On ROCE_PARSE_OK `*ret` is complete but for
// headers that the opcode has not, which are not touched; `payload` points into `octets`. On
// ROCE_PARSE_OPCODE `ret->bth` holds, so that a responder can refuse, and the payload is empty.
// Whether the payload fits the opcode is the receiver's to ask (roce_payload_fits), who knows the
// path MTU and how to answer.
enum roce_parse_verdict roce_packet_parse(struct span octets, struct roce_packet *ret);

// Writes BTH and the headers that the opcode in `p->bth` has (a known one) into `buf`, which has
// room for ROCE_HEAD_MAX_LEN octets, and returns their length. Of `p` nothing else is read.
size_t roce_head_emit(const struct roce_packet *p, uint8_t *buf);

// Octets of zero that follow `len` octets of payload: PadCnt.
static inline uint8_t roce_pad_len(size_t len)
{
    return (uint8_t)(-len & 3);
}

// One trace line: the opcode's name, BTH, the other headers, payload. Returns `buf`.
const char *roce_packet_format(const struct roce_packet *p, char *buf, size_t len);
