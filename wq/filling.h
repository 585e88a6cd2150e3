// Work queues as the program fills them: lock-free against the engine, one poster at a time.
//
// What is posted is the engine's until it completes; memory that it names may be read, or written,
// until then. A slot is free again once its work request, and all before it, are complete.
#pragma once

#include "wq/wqe.h"

struct wq;

// The slot `ahead` places behind those already committed, to be filled; NULL: the queue is full.
struct send_wqe *wq_send_slot(struct wq *wq, unsigned ahead);
void wq_send_commit(struct wq *wq, unsigned count);
struct recv_wqe *wq_receive_slot(struct wq *wq, unsigned ahead);
void wq_receive_commit(struct wq *wq, unsigned count);
