// What a peer of RoCEv2 puts on the wire and finds there, by the figures of the InfiniBand
// Architecture Specification, volume 1, chapter 9, and its annexes A16 and A17: octets at offsets,
// and nothing of weft's own wire formats.
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

enum { // 9.2, base transport header
    BTH_OPCODE = 0,
    BTH_FLAGS = 1, // SE 1, MigReq 1, PadCnt 2, TVer 4
    BTH_P_KEY = 2,
    BTH_CONGESTION = 4, // FECN 1, BECN 1, reserved 6
    BTH_DEST_QP = 5,
    BTH_ACK_REQ = 8, // AckReq 1, reserved 7
    BTH_PSN = 9,
    BTH_LEN = 12,

    FLAG_SE = 0x80,
    FLAG_MIG_REQ = 0x40,
    FLAG_BECN = 0x40,
    FLAG_ACK_REQ = 0x80,
    P_KEY = 0xffff,
};

enum { RETH_LEN = 16, ATOMICETH_LEN = 28, AETH_LEN = 4, DETH_LEN = 8, ICRC_LEN = 4 };

enum service { RC = 0x00, UC = 0x20, UD = 0x60, CNP = 0x81 };

enum operation { // 9.2.1
    SEND_FIRST,
    SEND_MIDDLE,
    SEND_LAST,
    SEND_LAST_IMM,
    SEND_ONLY,
    SEND_ONLY_IMM,
    WRITE_FIRST,
    WRITE_MIDDLE,
    WRITE_LAST,
    WRITE_LAST_IMM,
    WRITE_ONLY,
    WRITE_ONLY_IMM,
    READ_REQUEST,
    READ_RESPONSE_FIRST,
    READ_RESPONSE_MIDDLE,
    READ_RESPONSE_LAST,
    READ_RESPONSE_ONLY,
    ACKNOWLEDGE,
    ATOMIC_ACKNOWLEDGE,
    COMPARE_SWAP,
    FETCH_ADD,
    RESERVED_OPERATION,
    SEND_LAST_INV,
    SEND_ONLY_INV,
};

enum {          // 9.7.5.2, syndromes of the AETH
    ACK = 0x1f, // no credits counted
    RNR_NAK = 0x20,
    NAK_SEQUENCE = 0x60,
    NAK_INVALID_REQUEST = 0x61,
    NAK_REMOTE_ACCESS = 0x62,
    NAK_REMOTE_OPERATIONAL = 0x63,
    SYNDROME_KIND = 0xe0,
    SYNDROME_VALUE = 0x1f,
};

enum { PACKET_MAX_LEN = 4096 + 128, PSN_BITS = 0xffffff };

struct packet { // from the BTH to the pad
    size_t len;
    uint8_t octets[PACKET_MAX_LEN];
    // Of what came: the IP and UDP headers around it.
    uint8_t tos, ttl;
    uint16_t source_port;
};

/* ---- made from its beginning to its end; no destination queue pair yet ----------------------- */
void packet_begin(struct packet *p, unsigned opcode, uint32_t psn);
void packet_reth(struct packet *p, uint64_t va, uint32_t rkey, uint32_t len);
void packet_atomiceth(struct packet *p, uint64_t va, uint32_t rkey, uint64_t swap_add,
                      uint64_t compare);
void packet_aeth(struct packet *p, uint8_t syndrome, uint32_t msn);
void packet_atomicacketh(struct packet *p, uint64_t original);
void packet_deth(struct packet *p, uint32_t qkey, uint32_t source_qp);
void packet_word(struct packet *p, uint32_t word);                     // ImmDt or IETH
void packet_payload(struct packet *p, const void *octets, size_t len); // and its pad
static inline void packet_ask(struct packet *p)                        // AckReq
{
    p->octets[BTH_ACK_REQ] |= FLAG_ACK_REQ;
}

/* ---- read ------------------------------------------------------------------------------------ */
static inline unsigned opcode_of(const struct packet *p)
{
    return p->octets[BTH_OPCODE];
}
static inline uint32_t psn_of(const struct packet *p)
{
    return get_be24(p->octets + BTH_PSN);
}
static inline bool asks(const struct packet *p)
{
    return (p->octets[BTH_ACK_REQ] & FLAG_ACK_REQ) != 0;
}
static inline size_t pad_of(const struct packet *p)
{
    return p->octets[BTH_FLAGS] >> 4 & 3;
}
size_t headers_len_of(const struct packet *p); // by its opcode, BTH included
static inline const uint8_t *payload_of(const struct packet *p)
{
    return p->octets + headers_len_of(p);
}
static inline size_t payload_len_of(const struct packet *p)
{
    return p->len - headers_len_of(p) - pad_of(p);
}
struct reth_fields {
    uint64_t va;
    uint32_t rkey, len;
};
struct reth_fields reth_of(const struct packet *p); // behind the BTH
static inline uint8_t syndrome_of(const struct packet *p)
{
    return p->octets[BTH_LEN];
}
static inline uint32_t msn_of(const struct packet *p)
{
    return get_be24(p->octets + BTH_LEN + 1);
}

// A17.3.3: over what surrounds the packet too, with ones where routers write; over IPv4.
uint32_t icrc_of(const struct packet *p, const struct sockaddr_in *from,
                 const struct sockaddr_in *to, uint16_t identification);
void icrc_put(struct packet *p, uint32_t icrc); // behind the pad; `len` has it
