// Writes beyond a hole, into regions whose program has said that octets may be written in another
// order than the peer wrote them (IBV_ACCESS_RELAXED_ORDERING). A packet is placed when it comes if
// it is known where: its Write's first packet, which says so, has come, and all but the last are
// equally long, so the place of each follows from its PSN. That the Write is done, and all that
// stands before it, is told in order, when it is asked again whether it may. What would be refused
// in its turn is not placed.
//
// An octet is written once. A packet that comes again is not placed again, and one of an earlier
// Write leaves alone what a later one has written: in the end memory is as if all came in order.
#include "base/place.h"
#include "base/span.h"
#include "mem/table.h"
#include "mem/verdict.h"
#include "roce/inbound.h"
#include "roce/rc_internal.h"

/* ---- where ----------------------------------------------------------------------------------- */

// A Write, as its first packet says.
struct write {
    uint64_t first; // its mark
    uint64_t va, length;
    uint32_t rkey;
};

static struct write write_of(const struct roce_packet *p, uint64_t mark)
{
    return (struct write){mark, p->reth.va, p->reth.dma_len, p->reth.rkey};
}

// The message that is arriving in order.
static bool find_open(const struct rc *rc, struct write *ret)
{
    const struct rc_responder *r = &rc->resp;
    const struct inbound *in = &r->in;
    *ret = (struct write){
        .first = r->expected_mark - in->arrived_len / rc_pmtu(rc),
        .va = in->va,
        .length = in->length,
        .rkey = in->rkey,
    };
    return in->is_open && in->kind == ROCE_KIND_WRITE;
}

// Where the last Write begins of which anything is placed before this mark; 0: there is none.
static uint64_t find_placed(const struct rc_held *h, uint64_t mark, uint64_t expected_mark)
{
    while (h->ahead_count > 0 && --mark >= expected_mark) {
        const struct rc_held_packet *slot = rc_held_slot(h, mark);
        if (slot != NULL && slot->write_mark != 0) {
            return slot->write_mark;
        }
    }
    return 0;
}

// The Write that a packet with this mark belongs to, if its first one has come.
static bool find_write(const struct rc *rc, const struct roce_packet *p, uint64_t mark,
                       struct write *ret)
{
    const struct rc_held *h = &rc->resp.held;
    if (p->facts->begins) {
        *ret = write_of(p, mark);
        return true;
    }
    const uint64_t first = find_placed(h, mark, rc->resp.expected_mark);
    const struct rc_held_packet *slot = first != 0 ? rc_held_slot(h, first) : NULL;
    if (slot != NULL) {
        *ret = write_of(&slot->packet, first);
        return true;
    }
    return find_open(rc, ret);
}

// Is it, by opcode and length, the packet of this Write with this mark?
static bool is_packet_of(const struct rc *rc, const struct write *w, const struct roce_packet *p,
                         uint64_t mark)
{
    const uint64_t end = w->first + rc_packet_count(rc, w->length);
    const bool is_last = mark + 1 == end;
    const uint64_t offset = (mark - w->first) * rc_pmtu(rc);
    return mark < end && p->facts->begins == (mark == w->first) && p->facts->ends == is_last &&
           p->payload.len == (is_last ? w->length - offset : rc_pmtu(rc));
}

// The memory of this packet, if the peer may write the whole Write now, in any order.
static bool find_place(struct rc *rc, const struct write *w, uint64_t offset, size_t len,
                       uint8_t **ret)
{
    struct mem_table *mem = rc->config.wq.mem;
    struct mspan whole;
    unsigned count;
    if (w->length > WQ_MESSAGE_MAX_LEN || !mem_is_relaxed(mem, w->rkey) ||
        mem_resolve(mem, rc_asker(rc), w->rkey, w->va, w->length, MEM_ACCESS_REMOTE_WRITE, &whole,
                    1, &count) != MEM_OK) {
        return false;
    }
    CHECK(offset <= whole.len && len <= whole.len - offset);
    *ret = whole.ptr + offset;
    return true;
}

/* ---- once ------------------------------------------------------------------------------------ */

static bool overlaps(const uint8_t *a, size_t a_len, const uint8_t *b, size_t b_len)
{
    return a < b + b_len && b < a + a_len;
}

// What a packet behind `mark` has written of these octets, the first piece of it; empty: nothing.
// Of a region that is one no more nothing counts: the memory may be another one's.
static struct span later_piece(const struct rc *rc, uint64_t mark, const uint8_t *at, size_t len)
{
    const struct rc_held *h = &rc->resp.held;
    struct span ret = span_of(at + len, 0);
    for (uint64_t later = mark + 1; later < h->end; later++) {
        const struct rc_held_packet *slot = rc_held_slot(h, later);
        const struct span there = slot != NULL ? slot->packet.payload : span_of(NULL, 0);
        if (slot != NULL && slot->write_mark != 0 && there.ptr < ret.ptr &&
            overlaps(at, len, there.ptr, there.len) &&
            mem_is_relaxed(rc->config.wq.mem, slot->rkey)) {
            ret = there;
        }
    }
    return ret;
}

// Around what later packets have written.
static void place_around(const struct rc *rc, uint64_t mark, uint8_t *to, struct span octets)
{
    while (octets.len > 0) {
        const struct span later = later_piece(rc, mark, to, octets.len);
        const size_t len = later.ptr > to ? (size_t)(later.ptr - to) : 0;
        place_octets(to, span_first(octets, len));
        const size_t over = (size_t)(later.ptr + later.len - to);
        const size_t done = over < octets.len ? over : octets.len;
        to += done;
        octets = span_skip(octets, done);
    }
}

static void place(const struct rc *rc, uint64_t mark, uint8_t *to, struct span octets)
{
    const struct rc_held *h = &rc->resp.held;
    if (h->ahead_count > 0 && mark + 1 < h->end &&
        overlaps(to, octets.len, h->ahead.ptr, h->ahead.len)) {
        place_around(rc, mark, to, octets);
    } else {
        place_octets(to, octets);
    }
}

static void note(struct rc_held *h, struct mspan placed)
{
    uint8_t *begin = placed.ptr, *end = placed.ptr + placed.len;
    if (h->ahead_count++ > 0) {
        begin = begin < h->ahead.ptr ? begin : h->ahead.ptr;
        end = end > h->ahead.ptr + h->ahead.len ? end : h->ahead.ptr + h->ahead.len;
    }
    h->ahead = mspan_of(begin, (size_t)(end - begin));
}

/* ---- doors ----------------------------------------------------------------------------------- */

bool rc_ahead_place(struct rc *rc, struct rc_held_packet *slot, const struct roce_packet *p,
                    uint64_t mark)
{
    struct write w;
    uint8_t *to;
    slot->write_mark = 0;
    if (p->facts->kind != ROCE_KIND_WRITE || p->payload.len == 0 || !find_write(rc, p, mark, &w) ||
        !is_packet_of(rc, &w, p, mark) ||
        !find_place(rc, &w, (mark - w.first) * rc_pmtu(rc), p->payload.len, &to)) {
        return false;
    }
    place(rc, mark, to, p->payload);
    note(&rc->resp.held, mspan_of(to, p->payload.len));
    slot->packet = *p;
    slot->packet.payload = span_of(to, p->payload.len);
    slot->write_mark = w.first;
    slot->rkey = w.rkey;
    rc->counters.early_writes++;
    return true;
}

void rc_ahead_forget(struct rc_held *h, struct rc_held_packet *slot)
{
    h->ahead_count -= slot->write_mark != 0 ? 1 : 0;
    slot->write_mark = 0;
}

static void leave(void *ctx, uint8_t *to, struct span octets)
{
    (void)ctx;
    (void)to;
    (void)octets;
}

static void place_due(void *ctx, uint8_t *to, struct span octets)
{
    const struct rc *rc = ctx;
    place(rc, rc->resp.expected_mark, to, octets);
}

struct inbound_placer rc_ahead_placer(struct rc *rc)
{
    const struct rc_held *h = &rc->resp.held;
    const struct rc_held_packet *slot =
        h->ahead_count > 0 ? rc_held_slot(h, rc->resp.expected_mark) : NULL;
    const bool is_here = slot != NULL && slot->write_mark != 0;
    return (struct inbound_placer){.place = h->ahead_count == 0 ? NULL
                                            : is_here           ? leave
                                                                : place_due,
                                   .ctx = rc};
}
