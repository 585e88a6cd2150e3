// Any octets as PDUs of an NVMe/TCP controller, to commands that read, write and have no data. The
// first octet says which digests were agreed on and how the octets are cut.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/list.h"
#include "format/nvme_wire.h"
#include "initiator/tcp/stream.h"

enum { COMMAND_COUNT = 6, INDEX_BITS = 10, GUARD = 64, LEN = 300, GUARD_OCTET = 0xa5 };

struct memory {
    uint8_t before[GUARD], octets[LEN], after[GUARD];
};

static struct memory memories[COMMAND_COUNT];
static struct iovec pieces[COMMAND_COUNT][3];
static struct pdu_command commands[COMMAND_COUNT];
static uint8_t in[PDU_IN_LEN];

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void commands_begin(void)
{
    static const enum pdu_way ways[COMMAND_COUNT] = {PDU_READ,  PDU_READ,       PDU_ASKED,
                                                     PDU_ASKED, PDU_IN_CAPSULE, PDU_NOTHING};
    for (unsigned i = 0; i < COMMAND_COUNT; i++) {
        memset(&memories[i], GUARD_OCTET, sizeof memories[i]);
        uint8_t *at = memories[i].octets;
        pieces[i][0] = (struct iovec){at, 100};
        pieces[i][1] = (struct iovec){at + 100, 0};
        pieces[i][2] = (struct iovec){at + 100, LEN - 100};
        commands[i] = (struct pdu_command){.is_out = true,
                                           .way = ways[i],
                                           .cid = (uint16_t)(i | 1 << INDEX_BITS),
                                           .len = ways[i] == PDU_NOTHING ? 0 : LEN,
                                           .cursor = {.piece = pieces[i]}};
        list_init(&commands[i].link);
    }
}

// What was asked for is sent at once: sockets are not what this is about.
static void outs_send(struct pdu_stream *s)
{
    for (struct list_link *link; (link = list_pop_head(&s->outs)) != NULL;) {
        struct pdu_command *c = LIST_ENTRY(link, struct pdu_command, link);
        CHECK(c->way == PDU_ASKED && c->data_left > 0 && c->done <= LEN);
        c->left = 0;
    }
}

static void memories_check(void)
{
    uint8_t guard[GUARD];
    memset(guard, GUARD_OCTET, sizeof guard);
    for (unsigned i = 0; i < COMMAND_COUNT; i++) {
        const struct pdu_command *c = &commands[i];
        CHECK(memcmp(memories[i].before, guard, GUARD) == 0);
        CHECK(memcmp(memories[i].after, guard, GUARD) == 0);
        CHECK(c->done <= c->len);
        for (uint32_t at = c->way == PDU_READ ? c->done : 0; at < LEN; at++) {
            CHECK(memories[i].octets[at] == GUARD_OCTET); // what has not come is as it was
        }
    }
}

// An answer to a command of ours comes once.
static void answer_check(const uint8_t *cqe, unsigned *answered)
{
    uint16_t cid = get_le16(cqe + NVME_CQE_OFF_CID);
    unsigned index = cid & ((1u << INDEX_BITS) - 1);
    if (index < COMMAND_COUNT && commands[index].cid == cid && !commands[index].is_out) {
        bool is_good = get_le16(cqe + NVME_CQE_OFF_STATUS) >> NVME_CQE_STATUS_SHIFT == NVME_OK;
        bool was_answered = (*answered & 1u << index) != 0;
        bool is_whole = commands[index].way == PDU_READ ? commands[index].done == LEN : true;
        CHECK(was_answered || !is_good || is_whole);
        *answered |= 1u << index;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pdu_stream s = {.fd = -1,
                           .align = 4,
                           .data_max = 128,
                           .depth = COMMAND_COUNT,
                           .index_bits = INDEX_BITS,
                           .commands = commands,
                           .in = in};
    uint8_t cqe[NVME_CQE_LEN];
    struct why why = {""};
    unsigned answered = 0;
    int result = 0;
    if (size == 0) {
        return 0;
    }
    list_init(&s.outs);
    s.has_header_digest = (data[0] & 1) != 0;
    s.has_data_digest = (data[0] & 2) != 0;
    size_t cut = (data[0] >> 2) + 1u;
    commands_begin();
    for (size_t at = 1; at < size && result >= 0;) {
        size_t part = size - at < cut ? size - at : cut;
        memmove(in, in + s.in_at, s.in_len - s.in_at);
        s.in_len -= s.in_at;
        s.in_at = 0;
        CHECK(s.in_len + part <= PDU_IN_LEN);
        memcpy(in + s.in_len, data + at, part);
        s.in_len += (uint32_t)part;
        at += part;
        while ((result = pdu_stream_parse(&s, cqe, &why)) > 0) {
            answer_check(cqe, &answered);
        }
        outs_send(&s);
        memories_check();
    }
    CHECK(result >= 0 || why_is_said(&why));
    return 0;
}
