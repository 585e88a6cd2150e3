// A shared receive queue: slots that any of its queue pairs may consume. The program takes free
// slots and posts them; queue pairs claim posted ones in order; they come back in any order, when
// the completions of their messages are polled.
//
// Sides: "program" functions are called by one poster at a time, lock-free against the engine;
// "engine" functions are serialised by whoever serialises all queue pairs on this queue; srq_free
// is called by anybody.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/guard.h"
#include "wq/wqe.h"

struct srq;

// Port: called on the engine's side (srq_set_limit: on the caller's).
struct srq_port {
    void (*on_limit_reached)(void *ctx); // fewer posted entries than the limit; once per setting
    void *ctx;
};

struct srq_config {
    uint32_t pd;      // the local keys of its entries are looked up in this domain
    uint32_t max_wr;  // at least 1; rounded up to a power of two
    uint32_t max_sge; // 0..SGE_COUNT_MAX
    struct srq_port port;
    struct guard guard; // checked by what is marked Engine
};

// -EINVAL: max_wr 0 or max_sge too large; -ENOMEM.
int srq_create(const struct srq_config *config, struct srq **ret);
// No queue pair may be on it any more. NULL is allowed.
void srq_destroy(struct srq *srq);

uint32_t srq_max_wr(const struct srq *srq);
uint32_t srq_pd(const struct srq *srq);

// Program. The free slot `ahead` places behind the ones already committed, or NULL: none is free.
struct recv_wqe *srq_slot(struct srq *srq, unsigned ahead);
// Program. Posts the first `count` slots that srq_slot gave, in that order.
void srq_commit(struct srq *srq, unsigned count);

// Engine. Posted entries that no queue pair has claimed.
uint32_t srq_posted_count(const struct srq *srq);
// Engine. Takes the oldest posted entry, or NULL. May call the port.
struct recv_wqe *srq_claim(struct srq *srq);
// Anybody. The slot of a claimed entry is free again.
void srq_free(struct srq *srq, struct recv_wqe *wqe);

// Engine. Arms the limit event (0: disarms); raises it at once if fewer entries are posted already.
void srq_set_limit(struct srq *srq, uint32_t limit);
uint32_t srq_limit(const struct srq *srq); // 0: not armed

// Engine, nobody else at it. The invariants; false when one is broken.
bool srq_check(const struct srq *srq);
