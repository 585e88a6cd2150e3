// Meetings of queue pairs: meet/ decides, this file does what it says. Who connects and who is
// accepted, in which order and how often, stands in meet/meeting.h and meet/request.h.
//
// As on InfiniBand the end of the peer is noticed only by who has something to ask of it: FIN is no
// end of a stream on which nothing is under way (conn/ending.h).
//
// Everything here runs under the shard's lock.
#pragma once

#include "base/deadlines.h"
#include "base/span.h"
#include "meet/meeting.h"
#include "rnic/rnic.h"

struct point;
struct rnic_ep;

// One that a queue pair was told of; it lives until the queue pair leaves the states with a peer.
struct qp_meeting {
    struct meeting meeting;
    struct deadline deadline; // in rnic->meeting_deadlines
    struct rnic_qp *qp;
    uint16_t ird;
};

// To RTR, with this peer. -EOPNOTSUPP: its number names no point; -EINVAL: it has had one since the
// last reset, or it is in no state for that; -ENOMEM.
int qp_meeting_begin(struct rnic_qp *qp, const struct rnic_meeting *with, instant_ns now);
// The queue pair leaves the states in which it has a peer. Harmless without a meeting.
void qp_meeting_end(struct rnic_qp *qp, instant_ns now);
// The queue pair goes: who waits for it waits no longer.
void qp_meeting_forget(struct rnic_qp *qp, instant_ns now);
// Sends may have been posted.
void qp_meeting_on_doorbell(struct rnic_qp *qp, instant_ns now);
void qp_meetings_on_deadline(struct rnic *rnic, instant_ns now);

/* ---- meeting_answer.c: the passive end ------------------------------------------------------- */

// A point was asked: `ep` has a Request with this private data.
void qp_meeting_on_request(struct rnic_ep *ep, struct span private_data, instant_ns now);
// It was kept for the MPA time-out and is let go.
void qp_meeting_drop_kept(struct rnic_ep *ep, instant_ns now);
// Requests for the number that came before its queue pair was told of any. `qp` NULL: it goes.
void qp_meeting_answer_kept(struct point *point, uint32_t qp_num, struct rnic_qp *qp,
                            instant_ns now);

/* ---- meeting_outcome.c: what has come of its connection -------------------------------------- */

struct rnic_ep_port qp_meeting_port(struct rnic_qp *qp);
void qp_meeting_note_deadline(struct qp_meeting *m);
