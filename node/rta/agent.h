// The inside of an RTA, for its files.
#pragma once

#include "base/time.h"
#include "node/bus/residual.h"
#include "node/rta/dma.h"
#include "node/rta/io_interface.h"
#include "node/rta/rta.h"
#include "node/rta/store.h"

struct rta {
    struct rta_parts parts;
    struct residual_store *residual; // of frames to the CTA
    struct store *store;
    struct dma dma;
    struct io *io;
    struct unit_counters counters;
    instant_ns now; // of the call under way
    bool is_draining;
    uint32_t opening; // the volume whose device is
    bool stood_by;    // it had to be waited for
    bool has_only;    // it has opened the only device that it was to open
    int kept;         // what the DDM being opened wants to be kept; -1
    int window;       // and by what it may be read besides; -1
};

// Window of the residual message store: results that the CTA has not acknowledged.
enum { RTA_WINDOW = 512 };

struct residual_store *cta_interface_create(struct rta *rta);

// Takes a frame that has come.
enum residual_verdict cta_interface_take(struct rta *rta);

// The request ends like this: calls the CTA back. Also as io_parts.on_done.
void result_give(void *rta, struct store_transaction *transaction, enum node_completion completion,
                 uint32_t detail);
// It never became a transaction.
void result_refuse(struct rta *rta, const struct frame *request, enum node_completion completion);
