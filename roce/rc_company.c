// What waits for company: packets within one host are few and full, rather than many.
#include "roce/rc_internal.h"
#include "wq/wqe.h"

enum {
    TRAIN_LEN = 60 << 10, // octets of payload that leave together, whatever the path MTU
    TRAIN_PACKETS_MAX = 60,
    TRAINS_ENOUGH = 4, // behind so many nothing waits
};

// Packets that leave in one system call, and are read in one (link/datagram/).
static uint64_t train_count(const struct rc *rc)
{
    const uint64_t count = TRAIN_LEN / rc_pmtu(rc);
    return count < TRAIN_PACKETS_MAX ? count : TRAIN_PACKETS_MAX;
}

// Packets of what is posted and has not begun, of a Read those of its answer. RC_MARK_NONE: there
// is something that is not to wait, or more than `enough`, of which what fills no train is little.
static uint64_t ready_count(const struct rc *rc, uint64_t enough)
{
    struct wq_transfers walk = wq_transfers_begin(&rc->wq);
    uint64_t count = 0;
    for (uint32_t left = wq_unbegun_count(&rc->wq); left > 0; left--) {
        const struct send_wqe *wqe = wq_transfers_next(&walk);
        if (wqe == NULL || count > enough) {
            return RC_MARK_NONE;
        }
        count += rc_packet_count(rc, wqe->length);
    }
    return count;
}

// A packet costs its receiver as much as a train, and within one host he is busy with those that
// are out: what does not fill a train waits until there is more of it, or until he says that he is
// done with some, which he has been asked for. Where that is; RC_MARK_NONE: nothing waits.
uint64_t rc_company_from(const struct rc *rc)
{
    const struct rc_requester *q = &rc->req;
    const uint64_t train = train_count(rc);
    const bool goes_again = q->send_mark < q->sent_mark || rc_has_hole(q);
    if (!q->congestion.config.has_no_line || goes_again || q->asked_mark <= q->acked_mark ||
        rc_in_flight(q) < train) {
        return RC_MARK_NONE;
    }
    // Without an entry what leaves next are requests of a Read that has begun.
    const uint64_t ready =
        wq_has_entry(&rc->wq) ? ready_count(rc, TRAINS_ENOUGH * train) : RC_MARK_NONE;
    const uint64_t count = q->next_mark - q->send_mark + ready;
    return ready == RC_MARK_NONE ? ready : q->send_mark + count - count % train;
}
