// Whether the peer is a weft end too. Every packet is greeted (wire/greeting.h), until it shows
// that the peer greets nobody; who has been greeted by so many in a row, each newer than those
// before, knows, and may then say what InfiniBand has no words for. A stranger that sends the same
// packet again, or the same bits in each, is not taken for a weft end: but once in 127^8.
#include "base/trace.h"
#include "roce/rc_internal.h"
#include "wire/greeting.h"

// Between weft ends as many packets may be out as fill four bursts, of 4 KiB eight: who sends goes
// on while the peer takes two. More of them do not fit a cache on their way through two processors.
// Behind a hole the peer keeps RC_HELD_MAX.
enum { WEFT_WINDOW_PACKETS = 240, WEFT_WINDOW_LEN = 480 << 10 };
STATIC_CHECK((int)WEFT_WINDOW_PACKETS < (int)RC_HELD_MAX);

enum {
    GREETINGS_NEEDED = 8,
    GREETINGS_TRIED = 64, // packets towards a peer that does not greet; then they are InfiniBand's
};

void rc_greeting_begin(struct rc *rc)
{
    rc->greeting = (struct rc_greeting){.newest = {0, 0}};
}

uint8_t rc_greeting_of(struct rc *rc, const struct bth *bth)
{
    struct rc_greeting *g = &rc->greeting;
    bool is_tried = g->put_count >= GREETINGS_TRIED && g->heard == 0 && !g->is_known;
    if (rc->config.is_plain || is_tried || bth->opcode == ROCE_CNP) {
        return 0;
    }
    g->put_count++;
    return greeting_of(bth, rc->config.wq.qp_num);
}

// Of requests and answers apart: each have PSNs of their own.
static uint64_t mark_of(const struct rc *rc, const struct roce_packet *p)
{
    uint64_t near = p->facts->is_response ? rc->req.acked_mark : rc->resp.expected_mark;
    return psn_extend(near, p->bth.psn);
}

bool rc_greeting_is_right(const struct rc *rc, const struct roce_packet *p)
{
    return !rc->config.is_plain &&
           p->bth.greeting == greeting_of(&p->bth, rc->attributes.dest_qp_num);
}

static uint32_t window_of(uint32_t path_mtu)
{
    return path_mtu * WEFT_WINDOW_PACKETS < WEFT_WINDOW_LEN ? WEFT_WINDOW_PACKETS
                                                            : WEFT_WINDOW_LEN / path_mtu;
}

void rc_greeting_widen(struct rc *rc)
{
    if (rc->greeting.is_known) {
        congestion_widen(&rc->req.congestion, window_of(rc_pmtu(rc)));
    }
}

void rc_greeting_take(struct rc *rc, const struct roce_packet *p)
{
    struct rc_greeting *g = &rc->greeting;
    if (g->is_known || rc->config.is_plain) {
        return;
    }
    if (!rc_greeting_is_right(rc, p)) {
        g->heard = 0;
        return;
    }
    uint64_t *newest = &g->newest[p->facts->is_response ? 1 : 0];
    uint64_t mark = mark_of(rc, p);
    if (mark <= *newest) {
        return;
    }
    *newest = mark;
    if (++g->heard == GREETINGS_NEEDED) {
        g->is_known = true;
        rc_greeting_widen(rc);
        rc->counters.peers_known++;
        TRACE(rc->config.wq.trace, TRACE_QP, "qp %u: the peer is a weft end too",
              rc->config.wq.qp_num);
    }
}
