// ULPDUs made by hand, right or wrong, for a queue pair to judge.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "wire/ddp.h"
#include "wire/rdmap.h"

struct craft {
    uint8_t octets[4096];
    size_t len;
};

static inline struct craft craft_of(const struct ddp_header *h, const void *payload, size_t len)
{
    struct craft c = {0};
    size_t header_len = ddp_header_emit(h, c.octets);
    if (payload != NULL) {
        memcpy(c.octets + header_len, payload, len);
    }
    c.len = header_len + len;
    return c;
}

// `payload` NULL: zeros.
static inline struct craft craft_tagged(enum rdmap_opcode opcode, uint32_t stag, uint64_t to,
                                        bool last, const void *payload, size_t len)
{
    struct ddp_header h = {
        .tagged = true,
        .last = last,
        .rsvdulp = rdmap_control_emit(opcode),
        .stag = stag,
        .to = to,
    };
    return craft_of(&h, payload, len);
}

static inline struct craft craft_untagged(enum rdmap_opcode opcode, uint32_t msn, uint32_t mo,
                                          bool last, const void *payload, size_t len)
{
    struct ddp_header h = {
        .last = last,
        .rsvdulp = rdmap_control_emit(opcode),
        .qn = rdmap_opcode_facts((uint8_t)opcode)->qn,
        .msn = msn,
        .mo = mo,
    };
    return craft_of(&h, payload, len);
}

static inline struct craft craft_read_request(uint32_t msn, uint32_t stag, uint64_t to,
                                              uint32_t len)
{
    struct rdmap_read_request request = {
        .sink_stag = 0x5151, .rdmardsz = len, .src_stag = stag, .src_to = to};
    uint8_t octets[RDMAP_READ_REQUEST_LEN];
    rdmap_read_request_emit(&request, octets);
    return craft_untagged(RDMAP_READ_REQUEST, msn, 0, true, octets, sizeof octets);
}

static inline struct craft craft_atomic_request(uint32_t msn, uint8_t opcode, uint32_t stag,
                                                uint64_t to)
{
    struct rdmap_atomic_request request = {
        .opcode = opcode, .request_id = msn, .stag = stag, .to = to, .add_swap = 1};
    uint8_t octets[RDMAP_ATOMIC_REQUEST_LEN];
    rdmap_atomic_request_emit(&request, octets);
    return craft_untagged(RDMAP_ATOMIC_REQUEST, msn, 0, true, octets, sizeof octets);
}
