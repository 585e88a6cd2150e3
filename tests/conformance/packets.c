#include "tests/conformance/packets.h"

#include <string.h>

enum { IPV4_LEN = 20, UDP_LEN = 8, LRH_LEN = 8 };

/* ---- making ---------------------------------------------------------------------------------- */

static uint8_t *append(struct packet *p, size_t len)
{
    uint8_t *at = p->octets + p->len;
    memset(at, 0, len);
    p->len += len;
    return at;
}

void packet_begin(struct packet *p, unsigned opcode, uint32_t psn)
{
    p->len = 0;
    uint8_t *bth = append(p, BTH_LEN);
    bth[BTH_OPCODE] = (uint8_t)opcode;
    bth[BTH_FLAGS] = FLAG_MIG_REQ;
    put_be16(bth + BTH_P_KEY, P_KEY);
    put_be24(bth + BTH_PSN, psn & PSN_BITS);
}

void packet_reth(struct packet *p, uint64_t va, uint32_t rkey, uint32_t len)
{
    uint8_t *at = append(p, RETH_LEN);
    put_be64(at, va);
    put_be32(at + 8, rkey);
    put_be32(at + 12, len);
}

void packet_atomiceth(struct packet *p, uint64_t va, uint32_t rkey, uint64_t swap_add,
                      uint64_t compare)
{
    uint8_t *at = append(p, ATOMICETH_LEN);
    put_be64(at, va);
    put_be32(at + 8, rkey);
    put_be64(at + 12, swap_add);
    put_be64(at + 20, compare);
}

void packet_aeth(struct packet *p, uint8_t syndrome, uint32_t msn)
{
    uint8_t *at = append(p, AETH_LEN);
    at[0] = syndrome;
    put_be24(at + 1, msn & PSN_BITS);
}

void packet_atomicacketh(struct packet *p, uint64_t original)
{
    put_be64(append(p, 8), original);
}

void packet_deth(struct packet *p, uint32_t qkey, uint32_t source_qp)
{
    uint8_t *at = append(p, DETH_LEN);
    put_be32(at, qkey);
    put_be24(at + 5, source_qp);
}

void packet_word(struct packet *p, uint32_t word)
{
    put_be32(append(p, 4), word);
}

void packet_payload(struct packet *p, const void *octets, size_t len)
{
    const size_t pad_len = -len & 3;
    uint8_t *at = append(p, len + pad_len);
    if (len > 0) {
        memcpy(at, octets, len);
    }
    p->octets[BTH_FLAGS] |= (uint8_t)(pad_len << 4);
}

/* ---- reading --------------------------------------------------------------------------------- */

static size_t extension_len_of(unsigned operation)
{
    switch (operation) {
    case WRITE_FIRST:
    case WRITE_ONLY:
    case READ_REQUEST:
        return RETH_LEN;
    case WRITE_ONLY_IMM:
        return RETH_LEN + 4;
    case SEND_LAST_IMM:
    case SEND_ONLY_IMM:
    case WRITE_LAST_IMM:
    case SEND_LAST_INV:
    case SEND_ONLY_INV:
        return 4;
    case READ_RESPONSE_FIRST:
    case READ_RESPONSE_LAST:
    case READ_RESPONSE_ONLY:
    case ACKNOWLEDGE:
        return AETH_LEN;
    case ATOMIC_ACKNOWLEDGE:
        return AETH_LEN + 8;
    case COMPARE_SWAP:
    case FETCH_ADD:
        return ATOMICETH_LEN;
    default:
        return 0;
    }
}

size_t headers_len_of(const struct packet *p)
{
    const unsigned opcode = opcode_of(p);
    const size_t deth_len = (opcode & 0xe0) == UD ? DETH_LEN : 0;
    return BTH_LEN + deth_len + (opcode == CNP ? 0 : extension_len_of(opcode & 0x1f));
}

struct reth_fields reth_of(const struct packet *p)
{
    const uint8_t *at = p->octets + BTH_LEN;
    return (struct reth_fields){get_be64(at), get_be32(at + 8), get_be32(at + 12)};
}

/* ---- ICRC ------------------------------------------------------------------------------------ */

static uint32_t crc_over(uint32_t crc, const uint8_t *octets, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        crc ^= octets[i];
        for (unsigned bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320 : 0); // 0x04c11db7, reflected
        }
    }
    return crc;
}

// An LRH of ones, then IP and UDP; ones in TOS, TTL and both checksums.
static void outer_put(uint8_t *at, size_t len, const struct sockaddr_in *from,
                      const struct sockaddr_in *to, uint16_t identification)
{
    memset(at, 0xff, LRH_LEN);
    uint8_t *ip = at + LRH_LEN, *udp = ip + IPV4_LEN;
    ip[0] = 0x45;
    ip[1] = 0xff;
    put_be16(ip + 2, (uint16_t)(IPV4_LEN + UDP_LEN + len));
    put_be16(ip + 4, identification);
    put_be16(ip + 6, 0x4000); // DF
    ip[8] = 0xff;
    ip[9] = IPPROTO_UDP;
    put_be16(ip + 10, 0xffff);
    memcpy(ip + 12, &from->sin_addr, 4);
    memcpy(ip + 16, &to->sin_addr, 4);
    memcpy(udp, &from->sin_port, 2);
    memcpy(udp + 2, &to->sin_port, 2);
    put_be16(udp + 4, (uint16_t)(UDP_LEN + len));
    put_be16(udp + 6, 0xffff);
}

uint32_t icrc_of(const struct packet *p, const struct sockaddr_in *from,
                 const struct sockaddr_in *to, uint16_t identification)
{
    uint8_t outer[LRH_LEN + IPV4_LEN + UDP_LEN], bth[BTH_LEN];
    outer_put(outer, p->len + ICRC_LEN, from, to, identification);
    memcpy(bth, p->octets, BTH_LEN);
    bth[BTH_CONGESTION] = 0xff;
    uint32_t crc = crc_over(0xffffffff, outer, sizeof outer);
    crc = crc_over(crc, bth, sizeof bth);
    return ~crc_over(crc, p->octets + BTH_LEN, p->len - BTH_LEN);
}

void icrc_put(struct packet *p, uint32_t icrc)
{
    uint8_t *at = append(p, ICRC_LEN);
    for (unsigned i = 0; i < ICRC_LEN; i++) {
        at[i] = (uint8_t)(icrc >> (8 * i));
    }
}
