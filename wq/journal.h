// What is recorded of work queues for who asked (base/port_journal.h): work requests as they are
// posted, and read contexts as they come and go. Completions and one-shot STags are recorded where
// they happen.
#pragma once

#include <stdbool.h>

#include "base/port_journal.h"
#include "wq/read_context.h"
#include "wq/read_sched.h"

struct recv_wqe;
struct wq;

// The next `count` slots are filled, and about to be committed.
void wq_journal_sends(struct wq *wq, unsigned count);
void wq_journal_receives(struct wq *wq, unsigned count);

// A receive of the shared queue is this queue pair's from here on.
void wq_journal_taken(struct wq *wq, const struct recv_wqe *wqe);

// read_flow.on_moved of a queue whose journal is kept.
void wq_journal_context(const struct read_flow *flow, const struct read_context *context,
                        uint32_t number, bool is_granted);
