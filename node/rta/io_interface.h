// The I/O interface of an RTA: gives commands to DDMs and takes their answers. It has the other of
// the two residual message stores: a command is kept until the device has answered it. A device
// takes as many at a time as its profile says (credits); the rest wait, in order. One that says
// "not now" is asked again for a while. A driver that may lose commands gets what it does not
// answer again, under another command, and a late answer to the first is dropped.
//
// Nothing is answered from within a call of a DDM: ended commands are collected, and dealt with in
// io_settle, which the agent calls at the end of each batch. So a device that answers at once does
// not recurse.
//
// Memory: taken in create and when a volume is added. One thread at a time.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/deadlines.h"
#include "base/list.h"
#include "base/time.h"
#include "node/interface/rta_ddm.h"
#include "node/rta/converter.h"
#include "node/rta/store.h"

struct io_counters {
    uint64_t retries;       // the device said: not now
    uint64_t resubmissions; // the device said nothing
    uint64_t duplicates;    // and then said it twice
};

struct io_volume {
    uint32_t volume; // its number; 0: free
    struct ddm *ddm;
    const struct io_format *format;
    struct volume_profile profile;
    bool is_read_only;
    bool has_changed;       // what its probe says; the UMA is to be told
    bool is_full;           // the device took no more
    bool has_queued;        // submitted since the last flush_queue
    uint32_t out_count;     // commands at the device
    struct list_link out;   // they, the oldest first
    struct list_link ready; // transactions that wait for a credit, in order
    struct deadlines retry; // transactions that wait for their time
};

struct io;

struct io_parts {
    void *ctx;
    // The transaction has ended so; its answer_len is set.
    void (*on_done)(void *ctx, struct store_transaction *transaction,
                    enum node_completion completion, uint32_t detail);
};

struct io *io_create(const struct io_parts *parts);
void io_destroy(struct io *io);

// The DDM is the volume's from now on. NULL: no room.
struct io_volume *io_volume_add(struct io *io, uint32_t volume, struct ddm *ddm,
                                const struct io_format *format,
                                const struct volume_profile *profile, bool is_read_only);
struct io_volume *io_volume_find(struct io *io, uint32_t volume);
// The next in use after `volume`, the first after NULL; NULL: no more.
struct io_volume *io_volume_next(struct io *io, const struct io_volume *volume);
// Nothing of it is under way. Closes the DDM.
void io_volume_remove(struct io *io, struct io_volume *volume);

// Takes a transaction that has been checked. Its end comes from io_settle.
void io_submit(struct io *io, struct store_transaction *transaction, instant_ns now);

// Deals with what has ended.
void io_settle_ended(struct io *io, instant_ns now);
// The same, gives devices what they have credits for, and has them begin.
void io_settle(struct io *io, instant_ns now);

// Before a sleep: drivers that answers are awaited of look on for them, if they do such a thing.
// True: commands have ended.
bool io_look_on(struct io *io, instant_ns now);

// For tries again and answers that do not come; the drivers' own deadlines are included.
instant_ns io_next_deadline(struct io *io);
void io_on_deadline(struct io *io, instant_ns now);

const struct io_counters *io_counters(const struct io *io);

// Commands at devices.
uint64_t io_in_flight(const struct io *io);
