// Reads and atomics of the peer's: remembered until their place is needed, answered in the order of
// their PSNs, and again when the peer asks again: a Read from memory, an atomic with what it was
// answered before. What is remembered is as much as the peer may have out.
#include <stdlib.h>
#include <string.h>

#include "base/sge.h"
#include "base/span.h"
#include "mem/table.h"
#include "mem/verdict.h"
#include "roce/rc_internal.h"
#include "wire/aeth.h"

/* ---- taking them ----------------------------------------------------------------------------- */

bool rc_answer_resize(struct rc_responder *r, uint32_t limit)
{
    CHECK(r->count == 0);
    const uint32_t capacity = limit > 0 ? limit : 1;
    struct rc_answer *answers = malloc(capacity * sizeof *answers);
    if (answers == NULL) {
        return false;
    }
    free(r->answers);
    r->answers = answers;
    r->capacity = capacity;
    return true;
}

static bool is_pending(const struct rc_answer *a)
{
    return a->send_mark < a->until_mark;
}

// The oldest gives its place away, unless its answer is not out yet.
bool rc_answer_has_room(const struct rc *rc)
{
    const struct rc_responder *r = &rc->resp;
    if (r->count < r->limit) {
        return true;
    }
    const struct rc_answer *oldest = r->count > 0 ? rc_answer_at(r, 0) : NULL;
    return oldest != NULL && (oldest->is_again || !is_pending(oldest));
}

static void forget_oldest(struct rc_responder *r)
{
    r->pending_count -= is_pending(rc_answer_at(r, 0)) ? 1 : 0;
    r->head = (r->head + 1) % r->capacity;
    r->count--;
}

static void remember(struct rc_responder *r, struct rc_answer a)
{
    while (r->count > 0 && r->count >= r->limit) {
        forget_oldest(r);
    }
    a.begin_mark = a.send_mark = a.first;
    a.until_mark = a.end;
    *rc_answer_at(r, r->count++) = a;
    r->pending_count++;
}

enum rc_refusal rc_answer_read(struct rc *rc, const struct roce_packet *p)
{
    struct rc_responder *r = &rc->resp;
    remember(r, (struct rc_answer){
                    .first = r->expected_mark,
                    .end = r->expected_mark + rc_packet_count(rc, p->reth.dma_len),
                    .opcode = p->bth.opcode,
                    .rkey = p->reth.rkey,
                    .va = p->reth.va,
                    .length = p->reth.dma_len,
                });
    return RC_ACCEPTED;
}

// Once, and as one step for whoever else looks at the word.
static uint64_t change_word(uint64_t *word, const struct roce_packet *p)
{
    if ((p->bth.opcode & ROCE_OPERATION_MASK) == ROCE_FETCH_ADD) {
        return __atomic_fetch_add(word, p->atomiceth.swap_add, __ATOMIC_ACQ_REL);
    }
    uint64_t original = p->atomiceth.compare;
    __atomic_compare_exchange_n(word, &original, p->atomiceth.swap_add, false, __ATOMIC_ACQ_REL,
                                __ATOMIC_ACQUIRE);
    return original;
}

enum rc_refusal rc_answer_atomic(struct rc *rc, const struct roce_packet *p)
{
    struct rc_responder *r = &rc->resp;
    struct mspan place;
    unsigned count;
    enum mem_verdict verdict =
        mem_resolve(rc->config.wq.mem, rc_asker(rc), p->atomiceth.rkey, p->atomiceth.va,
                    RC_ATOMIC_LEN, MEM_ACCESS_REMOTE_ATOMIC, &place, 1, &count);
    if (verdict != MEM_OK) {
        return rc_refusal_of_memory(verdict);
    }
    // An address of a region with its own numbering may be aligned where the memory is not.
    if (p->atomiceth.va % RC_ATOMIC_LEN != 0 || (uintptr_t)place.ptr % RC_ATOMIC_LEN != 0) {
        return RC_REFUSED_ALIGNMENT;
    }
    remember(r, (struct rc_answer){
                    .first = r->expected_mark,
                    .end = r->expected_mark + 1,
                    .is_atomic = true,
                    .opcode = p->bth.opcode,
                    .rkey = p->atomiceth.rkey,
                    .va = p->atomiceth.va,
                    .original = change_word((uint64_t *)(void *)place.ptr, p),
                });
    return RC_ACCEPTED;
}

/* ---- once more ------------------------------------------------------------------------------- */

// Is it the rest of that Read, from this packet of its answer on, or whole packets of it?
static bool is_part(const struct rc *rc, const struct rc_answer *a, const struct reth *reth,
                    uint64_t mark)
{
    uint64_t done = (mark - a->first) * rc_pmtu(rc), left = a->length - done;
    bool is_whole = reth->dma_len > 0 && reth->dma_len < left && reth->dma_len % rc_pmtu(rc) == 0;
    return !a->is_atomic && reth->rkey == a->rkey && reth->va == a->va + done &&
           (reth->dma_len == left || is_whole);
}

static bool is_repeated(const struct rc *rc, const struct rc_answer *a, const struct roce_packet *p,
                        uint64_t mark)
{
    if (mark < a->first || mark >= a->end || p->bth.opcode != a->opcode) {
        return false;
    }
    return a->is_atomic ? p->atomiceth.va == a->va && p->atomiceth.rkey == a->rkey
                        : is_part(rc, a, &p->reth, mark);
}

// What of it is still to leave leaves with it.
static void run_again(struct rc_answer *a, uint64_t mark, uint64_t until_mark)
{
    bool is_running = is_pending(a);
    if (!is_running || mark < a->send_mark) {
        a->begin_mark = a->send_mark = mark;
    }
    a->until_mark = is_running && a->until_mark > until_mark ? a->until_mark : until_mark;
    a->is_again |= !is_running;
}

void rc_answer_again(struct rc *rc, const struct roce_packet *p, uint64_t mark)
{
    struct rc_responder *r = &rc->resp;
    for (uint32_t i = r->count; i > 0; i--) {
        struct rc_answer *a = rc_answer_at(r, i - 1);
        if (!is_repeated(rc, a, p, mark)) {
            continue;
        }
        rc->counters.reads_again += !a->is_atomic;
        rc->counters.atomics_again += a->is_atomic;
        r->pending_count += is_pending(a) ? 0 : 1;
        run_again(a, mark, a->is_atomic ? a->end : mark + rc_packet_count(rc, p->reth.dma_len));
        return;
    }
    rc->counters.answers_forgotten++;
}

/* ---- what leaves ----------------------------------------------------------------------------- */

static struct roce_packet packet_of(const struct rc *rc, const struct rc_answer *a, uint8_t what)
{
    struct roce_packet p = {
        .bth = {.opcode = ROCE_RC | what, .psn = (uint32_t)a->send_mark & PSN_MASK},
        .atomicacketh = {.original = a->original},
    };
    if (what != ROCE_READ_RESPONSE_MIDDLE) { // which has no AETH
        p.aeth = (struct aeth){.syndrome = rc_credits_told(rc), .msn = rc->resp.msn};
    }
    return p;
}

static uint8_t read_operation(const struct rc_answer *a)
{
    bool is_first = a->send_mark == a->begin_mark, is_last = a->send_mark + 1 == a->until_mark;
    return is_first ? (is_last ? ROCE_READ_RESPONSE_ONLY : ROCE_READ_RESPONSE_FIRST)
                    : (is_last ? ROCE_READ_RESPONSE_LAST : ROCE_READ_RESPONSE_MIDDLE);
}

// What stands behind a Read that is refused is not answered.
static void forget_behind(struct rc_responder *r, uint64_t mark)
{
    while (r->count > 0 && rc_answer_at(r, r->count - 1)->first > mark) {
        r->pending_count -= is_pending(rc_answer_at(r, --r->count)) ? 1 : 0;
    }
}

// The peer may not read it any more. Who had it all once asks for what it took back, or the net has
// kept an old packet: that is no fault.
static void cannot_read(struct rc *rc, struct rc_answer *a, enum mem_verdict verdict)
{
    struct rc_responder *r = &rc->resp;
    uint64_t mark = a->send_mark;
    a->send_mark = a->until_mark;
    r->pending_count--;
    if (r->refusal != RC_ACCEPTED) {
        r->word.is_due = true;
    } else if (a->is_again) {
        rc->counters.answers_revoked++;
    } else {
        forget_behind(r, mark);
        rc_refuse(rc, rc_refusal_of_memory(verdict), mark);
    }
}

// Packets of an answer, one after the other, whose memory is looked up once. `gathered`: where the
// payload of one is copied to if it has too many pieces.
struct run {
    uint64_t count; // of packets
    struct rc_payload payload;
    uint8_t gathered[RC_PMTU_MAX];
};

static size_t payload_len(const struct rc *rc, const struct rc_answer *a, uint64_t packet_count)
{
    uint64_t offset = (a->send_mark - a->first) * rc_pmtu(rc), most = packet_count * rc_pmtu(rc);
    return (size_t)(a->length - offset < most ? a->length - offset : most);
}

// As much of the next `len` octets, from `done` on, as is told at a time.
static enum mem_verdict look_up(const struct rc *rc, const struct rc_answer *a, size_t done,
                                size_t len, struct rc_payload *ret, size_t *ret_len)
{
    struct mspan places[SGE_COUNT_MAX];
    unsigned count = 0;
    uint64_t va = a->va + (a->send_mark - a->first) * rc_pmtu(rc) + done;
    enum mem_verdict verdict = mem_resolve(rc->config.wq.mem, rc_asker(rc), a->rkey, va, len - done,
                                           MEM_ACCESS_REMOTE_READ, places, SGE_COUNT_MAX, &count);
    ret->at = 0;
    *ret_len = 0;
    for (unsigned i = 0; i < count && verdict == MEM_OK; i++) {
        ret->pieces[i] = mspan_read(places[i]);
        *ret_len += places[i].len;
    }
    return verdict;
}

// A packet is as long as the path MTU says, however many elements of a one-shot list are in it.
static enum mem_verdict gather(const struct rc *rc, const struct rc_answer *a, size_t len,
                               struct run *ret)
{
    enum mem_verdict verdict = MEM_OK;
    size_t at = 0, found_len;
    while (at < len && verdict == MEM_OK) {
        verdict = look_up(rc, a, at, len, &ret->payload, &found_len);
        for (unsigned i = 0; found_len > 0; i++) {
            const struct span piece = ret->payload.pieces[i];
            memcpy(ret->gathered + at, piece.ptr, piece.len);
            at += piece.len;
            found_len -= piece.len;
        }
    }
    ret->payload = (struct rc_payload){.pieces = {span_of(ret->gathered, len)}};
    return verdict;
}

// As many as lie in so many pieces as are told at a time, one at least, `count` at most.
static enum mem_verdict run_begin(const struct rc *rc, const struct rc_answer *a, uint64_t count,
                                  struct run *ret)
{
    const size_t len = payload_len(rc, a, count);
    size_t found_len = 0;
    ret->count = count;
    if (len == 0) {
        return MEM_OK;
    }
    enum mem_verdict verdict = look_up(rc, a, 0, len, &ret->payload, &found_len);
    if (verdict != MEM_OK || found_len == len) {
        return verdict;
    }
    ret->count = found_len < rc_pmtu(rc) ? 1 : found_len / rc_pmtu(rc);
    return found_len < rc_pmtu(rc) ? gather(rc, a, payload_len(rc, a, 1), ret) : MEM_OK;
}

// At most `*turn` packets. False: no room.
static bool put_read(struct rc *rc, const struct datagram_sink *sink, struct rc_answer *a,
                     unsigned *turn)
{
    const uint64_t left = a->until_mark - a->send_mark;
    struct run run;
    enum mem_verdict verdict = run_begin(rc, a, left < *turn ? left : *turn, &run);
    if (verdict != MEM_OK) {
        cannot_read(rc, a, verdict);
        --*turn;
        return true;
    }
    for (; run.count > 0; run.count--, --*turn) {
        struct span pieces[SGE_COUNT_MAX];
        const size_t len = payload_len(rc, a, 1);
        const unsigned piece_count = rc_payload_cut(&run.payload, len, pieces);
        struct roce_packet p = packet_of(rc, a, read_operation(a));
        if (!rc_packet_put(rc, sink, &p, pieces, piece_count, len)) {
            return false;
        }
        a->send_mark++;
    }
    rc->resp.pending_count -= is_pending(a) ? 0 : 1;
    return true;
}

static bool put_atomic(struct rc *rc, const struct datagram_sink *sink, struct rc_answer *a,
                       unsigned *turn)
{
    struct roce_packet p = packet_of(rc, a, ROCE_ATOMIC_ACKNOWLEDGE);
    if (!rc_packet_put(rc, sink, &p, NULL, 0, 0)) {
        return false;
    }
    a->send_mark = a->until_mark;
    rc->resp.pending_count--;
    --*turn;
    return true;
}

bool rc_answers_output(struct rc *rc, const struct datagram_sink *sink, unsigned *turn)
{
    struct rc_responder *r = &rc->resp;
    for (uint32_t i = 0; i < r->count && r->pending_count > 0; i++) {
        struct rc_answer *a = rc_answer_at(r, i);
        while (is_pending(a)) {
            if (*turn == 0 || !(a->is_atomic ? put_atomic : put_read)(rc, sink, a, turn)) {
                return false;
            }
        }
    }
    return true;
}
