// Posting: whoever fills a queue's entries does it with a cursor, in place, and nobody else fills
// any of that queue meanwhile.
//
//     begin    takes the queue; waits for another poster, for nothing else
//     slot     the next entry, to be filled; NULL: the queue is full
//     commit   what was filled up to here is to be posted; what is not committed stays free
//     end      posts what was committed, gives the queue back and rings for it
//
// The ring drives the RNIC in the caller's thread when nobody else is doing so; if somebody is,
// that thread sees the doorbell before it lets go. None is to be called behind a fork that has left
// the RNIC in the parent: the queue may have been taken there.
#pragma once

#include "roce/address.h"
#include "wq/wqe.h"

struct mem_known;
struct oneshot_command;
struct rnic_qp;
struct rnic_srq;

struct rnic_sq_cursor {
    struct rnic_qp *qp; // NULL: it has no queue
    unsigned filled_count, committed_count;
};

void rnic_sq_begin(struct rnic_sq_cursor *cursor, struct rnic_qp *qp);
struct send_wqe *rnic_sq_slot(struct rnic_sq_cursor *cursor);
// One of those that were filled since it began, the first of them 0.
struct send_wqe *rnic_sq_filled(const struct rnic_sq_cursor *cursor, unsigned index);
// Where an entry says to whom it goes, on a queue pair of datagrams; filled as all of it.
struct roce_address *rnic_sq_address(const struct rnic_qp *qp, struct send_wqe *wqe);
// What the queue's owner knows of memory that commands are to open (rnic_oneshot_probe).
struct mem_known *rnic_sq_known(struct rnic_sq_cursor *cursor);
// A free command of the queue's one-shot table, the same until it is taken; NULL: there is none.
struct oneshot_command *rnic_sq_command(struct rnic_sq_cursor *cursor);
// It goes with this entry, which must be committed then.
void rnic_sq_take_command(struct rnic_sq_cursor *cursor, struct send_wqe *wqe);
void rnic_sq_commit(struct rnic_sq_cursor *cursor);
void rnic_sq_end(struct rnic_sq_cursor *cursor); // harmless without a queue

// Receives, of a queue pair's own queue or of a shared one.
struct rnic_rq_cursor {
    struct rnic_qp *qp;   // one of both, or
    struct rnic_srq *srq; // NULL and NULL: it has no queue
    unsigned filled_count, committed_count;
};

void rnic_rq_begin(struct rnic_rq_cursor *cursor, struct rnic_qp *qp);
void rnic_srq_begin(struct rnic_rq_cursor *cursor, struct rnic_srq *srq);
struct recv_wqe *rnic_rq_slot(struct rnic_rq_cursor *cursor);
void rnic_rq_commit(struct rnic_rq_cursor *cursor);
void rnic_rq_end(struct rnic_rq_cursor *cursor); // harmless without a queue
