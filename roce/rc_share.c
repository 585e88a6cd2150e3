// What a queue pair has in the network takes of the room that all of its device share: messages
// that are not acknowledged, and the answers to what was asked for.
#include "roce/rc_internal.h"

enum {
    COUNTED_LEN_MIN = 1024, // a shorter packet takes as much of a buffer
    HEADERS_LEN = 64,
};

static uint32_t packet_len(const struct rc *rc)
{
    return (rc_pmtu(rc) > COUNTED_LEN_MIN ? rc_pmtu(rc) : COUNTED_LEN_MIN) + HEADERS_LEN;
}

// What was sent twice may be there twice.
static uint64_t tail_count(const struct rc_requester *q)
{
    const struct rc_out *o = q->tail.mark != RC_MARK_NONE ? rc_out_at(q, 0) : NULL;
    return o == NULL ? 0 : o->context != NULL ? o->end - q->acked_mark : 1;
}

static uint64_t out_len(const struct rc *rc, uint64_t more)
{
    const struct rc_requester *q = &rc->req;
    uint64_t count = q->count > 0 ? rc_in_flight(q) + tail_count(q) : 0;
    return (count + more) * packet_len(rc);
}

static void on_room(void *ctx)
{
    const struct wq_config *config = &((struct rc *)ctx)->config.wq;
    if (config->on_runnable != NULL) {
        config->on_runnable(config->ctx);
    }
}

void rc_share_init(struct rc *rc)
{
    congestion_member_init(&rc->member, rc->config.share, on_room, rc);
}

void rc_share_fini(struct rc *rc)
{
    congestion_member_leave(&rc->member);
    congestion_member_set(&rc->member, 0, rc->wq.now);
}

bool rc_share_may(const struct rc *rc, uint64_t packets)
{
    return congestion_member_may(&rc->member, out_len(rc, packets), rc->wq.now);
}

uint64_t rc_share_room(const struct rc *rc)
{
    uint64_t most_len = congestion_member_most(&rc->member), len = out_len(rc, 0);
    return most_len > len ? (most_len - len) / packet_len(rc) : 0;
}

void rc_share_wait(struct rc *rc, uint64_t packets)
{
    congestion_member_wait(&rc->member, out_len(rc, packets));
}

void rc_share_leave(struct rc *rc)
{
    congestion_member_leave(&rc->member);
}

void rc_share_limit(struct rc *rc)
{
    congestion_limit(&rc->req.congestion, congestion_member_packets(&rc->member, packet_len(rc)));
}

void rc_share_follow(struct rc *rc)
{
    congestion_member_set(&rc->member, out_len(rc, 0), rc->wq.now);
}
