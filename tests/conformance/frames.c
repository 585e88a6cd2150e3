#include "tests/conformance/frames.h"

#include <string.h>

struct startup startup_usual(bool is_reply)
{
    return (struct startup){
        .is_reply = is_reply, .flags = FRAME_C | FRAME_S | 2, .ird = 4, .ord = 4};
}

size_t frame_put(uint8_t *buf, const struct startup *s)
{
    size_t enhanced_len = (s->flags & FRAME_S) != 0 ? FRAME_ENHANCED_LEN : 0;
    memcpy(buf, s->is_reply ? "MPA ID Rep Frame" : "MPA ID Req Frame", FRAME_OFF_FLAGS);
    put_be16(buf + FRAME_OFF_FLAGS, s->flags);
    put_be16(buf + FRAME_OFF_PD_LEN, (uint16_t)(enhanced_len + s->private_len));
    if (enhanced_len > 0) {
        put_be16(buf + FRAME_OFF_IRD, s->ird);
        put_be16(buf + FRAME_OFF_ORD, s->ord);
    }
    if (s->private_len > 0) {
        memcpy(buf + FRAME_HEADER_LEN + enhanced_len, s->private_data, s->private_len);
    }
    return FRAME_HEADER_LEN + enhanced_len + s->private_len;
}

uint32_t crc_of(const void *octets, size_t len)
{
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < len; i++) {
        crc ^= ((const uint8_t *)octets)[i];
        for (unsigned bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78 : 0); // 0x1edc6f41, reflected
        }
    }
    return ~crc;
}

size_t fpdu_put(uint8_t *buf, const void *ulpdu, size_t len)
{
    size_t end = fpdu_len_of(len) - 4;
    memset(buf, 0, end);
    put_be16(buf, (uint16_t)len);
    memcpy(buf + 2, ulpdu, len);
    uint32_t crc = crc_of(buf, end);
    for (unsigned i = 0; i < 4; i++) {
        buf[end + i] = (uint8_t)(crc >> (8 * i));
    }
    return end + 4;
}

static void append(struct ulpdu *u, const void *payload, size_t len)
{
    if (payload != NULL && len > 0) {
        memcpy(u->octets + u->len, payload, len);
    } else {
        memset(u->octets + u->len, 0, len);
    }
    u->len += len;
}

void tagged(struct ulpdu *u, enum opcode opcode, uint32_t stag, uint64_t to, bool is_last,
            const void *payload, size_t len)
{
    u->octets[0] = TAGGED | (is_last ? LAST : 0) | DDP_V1;
    u->octets[1] = RDMAP_V1 | (uint8_t)opcode;
    put_be32(u->octets + OFF_TAGGED_STAG, stag);
    put_be64(u->octets + OFF_TAGGED_TO, to);
    u->len = TAGGED_LEN;
    append(u, payload, len);
}

static uint32_t queue_of(enum opcode opcode)
{
    switch (opcode) {
    case OP_READ_REQUEST:
    case OP_ATOMIC_REQUEST:
        return 1;
    case OP_TERMINATE:
        return 2;
    case OP_ATOMIC_RESPONSE:
        return 3;
    default:
        return 0;
    }
}

void untagged(struct ulpdu *u, enum opcode opcode, uint32_t msn, uint32_t mo, bool is_last,
              const void *payload, size_t len)
{
    u->octets[0] = (is_last ? LAST : 0) | DDP_V1;
    u->octets[1] = RDMAP_V1 | (uint8_t)opcode;
    put_be32(u->octets + OFF_STAG, 0);
    put_be32(u->octets + OFF_QN, queue_of(opcode));
    put_be32(u->octets + OFF_MSN, msn);
    put_be32(u->octets + OFF_MO, mo);
    u->len = UNTAGGED_LEN;
    append(u, payload, len);
}

void read_request(struct ulpdu *u, uint32_t msn, const struct read_request *r)
{
    uint8_t octets[READ_REQUEST_LEN];
    put_be32(octets, r->sink_stag);
    put_be64(octets + 4, r->sink_to);
    put_be32(octets + 12, r->size);
    put_be32(octets + 16, r->source_stag);
    put_be64(octets + 20, r->source_to);
    untagged(u, OP_READ_REQUEST, msn, 0, true, octets, sizeof octets);
}

struct read_request read_request_of(const struct ulpdu *u)
{
    const uint8_t *at = u->octets + UNTAGGED_LEN;
    return (struct read_request){
        .sink_stag = get_be32(at),
        .sink_to = get_be64(at + 4),
        .size = get_be32(at + 12),
        .source_stag = get_be32(at + 16),
        .source_to = get_be64(at + 20),
    };
}

void atomic_request(struct ulpdu *u, uint32_t msn, const struct atomic_request *r)
{
    uint8_t octets[ATOMIC_REQUEST_LEN];
    put_be32(octets, r->opcode);
    put_be32(octets + 4, r->id);
    put_be32(octets + 8, r->stag);
    put_be64(octets + 12, r->to);
    put_be64(octets + 20, r->add_swap);
    put_be64(octets + 28, r->add_swap_mask);
    put_be64(octets + 36, r->compare);
    put_be64(octets + 44, r->compare_mask);
    untagged(u, OP_ATOMIC_REQUEST, msn, 0, true, octets, sizeof octets);
}

struct atomic_request atomic_request_of(const struct ulpdu *u)
{
    const uint8_t *at = u->octets + UNTAGGED_LEN;
    return (struct atomic_request){
        .opcode = (enum atomic_opcode)(get_be32(at) & 0x0f),
        .id = get_be32(at + 4),
        .stag = get_be32(at + 8),
        .to = get_be64(at + 12),
        .add_swap = get_be64(at + 20),
        .add_swap_mask = get_be64(at + 28),
        .compare = get_be64(at + 36),
        .compare_mask = get_be64(at + 44),
    };
}
