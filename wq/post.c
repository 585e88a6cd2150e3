// The program's side of the queues: it fills slots, and commits them.

#include "base/port_journal.h"
#include "wq/journal.h"
#include "wq/ring.h"
#include "wq/wq.h"

struct send_wqe *wq_send_slot(struct wq *wq, unsigned ahead)
{
    return wqe_ring_slot(&wq->sq, ahead);
}

void wq_send_commit(struct wq *wq, unsigned count)
{
    if (JOURNAL_IS_KEPT(wq->config->journal)) {
        wq_journal_sends(wq, count); // before the engine may have them
    }
    wqe_ring_commit(&wq->sq, count);
}

struct recv_wqe *wq_receive_slot(struct wq *wq, unsigned ahead)
{
    return wqe_ring_slot(&wq->rq, ahead);
}

void wq_receive_commit(struct wq *wq, unsigned count)
{
    if (JOURNAL_IS_KEPT(wq->config->journal)) {
        wq_journal_receives(wq, count);
    }
    wqe_ring_commit(&wq->rq, count);
}
