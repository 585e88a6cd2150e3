// Packets that came before one that is missing, of a weft end: kept whole, and done in their order
// when it has come, as if they came then. So nothing of what they ask for is looked at before its
// time, and memory is written in the order of PSNs, but where the program has said that it may be
// written in any (rc_ahead.c). What is kept stays: the peer is told, and does not send it again.
#include <stdlib.h>
#include <string.h>

#include "base/span.h"
#include "roce/rc_internal.h"
#include "roce/rc_store.h"
#include "wire/sack.h"

STATIC_CHECK((RC_HELD_MAX & (RC_HELD_MAX - 1)) == 0);
STATIC_CHECK(RC_HELD_MAX <= (int)SACK_BITS_MAX);

// Nothing of it is kept: an instruction that is reserved is refused in its turn.
static bool may_be_held(const struct rc *rc, const struct roce_packet *p, uint64_t mark)
{
    return p->facts->is_known && p->payload.len <= RC_STORE_BLOCK_LEN &&
           mark - rc->resp.expected_mark < RC_HELD_MAX;
}

// Its octets are where they belong at once, or wait in the store.
static bool keep(struct rc *rc, struct rc_held_packet *slot, const struct roce_packet *p,
                 uint64_t mark)
{
    slot->block = NULL;
    if (rc_ahead_place(rc, slot, p, mark)) {
        return true;
    }
    if (p->payload.len > 0) {
        slot->block = rc_store_take(rc->config.store);
        if (slot->block == NULL) {
            return false;
        }
        memcpy(slot->block, p->payload.ptr, p->payload.len);
    }
    slot->packet = *p;
    slot->packet.payload = span_of(slot->block, p->payload.len);
    rc->counters.held++;
    return true;
}

// With the first packet that is kept. False: there is no memory.
static bool held_create(struct rc_held *h)
{
    if (h->packets == NULL) {
        h->packets = calloc(RC_HELD_MAX, sizeof *h->packets);
    }
    return h->packets != NULL;
}

bool rc_held_put(struct rc *rc, const struct roce_packet *p, uint64_t mark)
{
    struct rc_held *h = &rc->resp.held;
    if (rc_held_slot(h, mark) != NULL) {
        rc->counters.held_again++;
        return true;
    }
    if (!may_be_held(rc, p, mark) || !held_create(h) ||
        !keep(rc, rc_held_place(h, mark), p, mark)) {
        rc->counters.held_none++;
        return false;
    }
    rc_held_place(h, mark)->mark = mark;
    h->count++;
    h->end = h->end < mark + 1 ? mark + 1 : h->end;
    return true;
}

const struct roce_packet *rc_held_at(const struct rc *rc, uint64_t mark)
{
    const struct rc_held_packet *slot = rc_held_slot(&rc->resp.held, mark);
    return slot != NULL ? &slot->packet : NULL;
}

static void let_go(struct rc *rc, struct rc_held_packet *slot)
{
    if (slot->block != NULL) {
        rc_store_give(rc->config.store, slot->block);
    }
    rc_ahead_forget(&rc->resp.held, slot);
    slot->mark = 0;
    slot->block = NULL;
    rc->resp.held.count--;
}

// A Read has a PSN for each packet of its answer: whoever sent something at one of them errs.
void rc_held_pass(struct rc *rc, uint64_t before)
{
    const struct rc_held *h = &rc->resp.held;
    for (uint64_t mark = before; h->count > 0 && mark < rc->resp.expected_mark; mark++) {
        if (mark - before == RC_HELD_MAX) {
            return;
        }
        struct rc_held_packet *slot = rc_held_slot(h, mark);
        if (slot != NULL) {
            let_go(rc, slot);
        }
    }
}

void rc_held_clear(struct rc *rc)
{
    struct rc_held *h = &rc->resp.held;
    for (unsigned i = 0; i < RC_HELD_MAX && h->count > 0; i++) {
        if (h->packets[i].mark != 0) {
            let_go(rc, &h->packets[i]);
        }
    }
    h->end = 0;
}

void rc_held_tell(const struct rc *rc, struct sack *ret)
{
    uint64_t first = rc->resp.expected_mark + 1;
    ret->bit_count = 0;
    for (uint64_t mark = first; mark < rc->resp.held.end; mark++) {
        if (rc_held_at(rc, mark) != NULL) {
            sack_set(ret, (uint32_t)(mark - first));
        }
    }
}
