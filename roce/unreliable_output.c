// Work requests become packets: asked for one by one, settled together at the end of the turn.
#include "base/check.h"
#include "base/port_transport.h"
#include "base/sge.h"
#include "base/span.h"
#include "base/time.h"
#include "roce/packet.h"
#include "roce/unreliable.h"
#include "wire/bth.h"
#include "wire/psn.h"
#include "wire/roce.h"
#include "wq/status.h"
#include "wq/wq.h"
#include "wq/wqe.h"

enum { TURN_PACKETS = 64 }; // then other queue pairs have theirs

void unreliable_begin_turn(struct unreliable *u, instant_ns now)
{
    u->wq.now = now;
    u->turn_end = u->packet_count + TURN_PACKETS;
    u->last = UNRELIABLE_PUT_LAST;
}

static bool goes_on(const struct unreliable *u)
{
    return (u->last == UNRELIABLE_PUT_LAST || u->last == UNRELIABLE_PUT_PART) &&
           u->packet_count < u->turn_end && unreliable_may_send(u);
}

bool unreliable_next(struct unreliable *u, struct transport_work *ret)
{
    enum transport_next next = goes_on(u) ? wq_next(&u->wq, ret) : TRANSPORT_NOTHING;
    if (next == TRANSPORT_FAILED) {
        u->last = UNRELIABLE_PUT_FAILED;
    }
    return next == TRANSPORT_MESSAGE; // nothing here asks the peer for anything
}

void unreliable_fail(struct unreliable *u, enum wc_status status)
{
    wq_fail(&u->wq, status);
    u->last = UNRELIABLE_PUT_FAILED;
}

static void follow_put(struct unreliable *u, bool ends, uint32_t len)
{
    u->psn = psn_add(u->psn, 1);
    u->packet_count++;
    u->unsettled_len += len;
    u->counters.packets_out++;
    u->counters.octets_out += len;
    u->is_message_open = !ends;
    if (ends) {
        u->last = UNRELIABLE_PUT_LAST;
        wq_message_put(&u->wq, u->packet_count);
        unreliable_follow_drained(u);
    } else {
        u->last = UNRELIABLE_PUT_PART;
        wq_part_put(&u->wq);
    }
}

void unreliable_put_packet(struct unreliable *u, const struct transport_work *work,
                           struct roce_packet *packet, uint64_t offset, uint32_t len,
                           const struct datagram_path *path, const struct datagram_sink *sink)
{
    struct span pieces[SGE_COUNT_MAX];
    unsigned count = 0;
    if (len > 0) {
        count = wq_message_octets(&u->wq, work->handle, offset, len, pieces);
        if (count == 0) {
            unreliable_fail(u, WC_LOC_PROT_ERR);
            return;
        }
    }
    const bool ends = roce_opcode_facts(packet->bth.opcode)->ends;
    packet->bth.psn = u->psn;
    if (roce_packet_put(sink, path, packet, pieces, count, len)) {
        follow_put(u, ends, len);
    } else {
        u->counters.sink_full++;
        u->last = UNRELIABLE_PUT_FULL;
    }
}

// All that was put is the sink's, which has copied it.
void unreliable_end_turn(struct unreliable *u)
{
    wq_on_released(&u->wq, u->packet_count, u->unsettled_len);
    wq_on_settled(&u->wq, u->packet_count);
    u->unsettled_len = 0;
    if (u->last == UNRELIABLE_PUT_FAILED) {
        unreliable_stop_sends(u);
    }
    unreliable_follow_overrun(u);
}
