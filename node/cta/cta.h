// The common transport agent: takes service requests from the target transport services (interface
// 284), brings each to the RTA of its connection's volume (275) by the routing table that the UMA
// fills (280), and has the TTS transfer the data and answer the client.
//
//     routes.c         the connection manager and the routing table
//     service.c        the TTS interface manager: requests, and what they wait for
//     transaction.c    how requests are answered, data moved, buffers given back
//     shares.c         how much a connection, a client and a volume may hold
//     rates.c          how many requests and octets a second a volume's clients may have
//     window.c         reads of what the page cache has, without the RTA
//     bar.c            who may use a volume
//     reservation.c    what is asked about that
//     compare.c        compares, and writes if all is as expected: of reads and writes
//     hold.c           who has a range for himself in between
//     rta_interface.c  the RTA interface manager: units, frames, replay
//     memory.c         the units' parts of the pool
//     buffers.c        the books of a part
//
// A transaction's life:
//
//     submit ─▶ HUNGRY ─▶ FETCHING ─▶ READY ─▶ AT_UNIT ─▶ TRANSFERRING ─▶ COMPLETING ─▶ (ack) end
//               (no      (writes:             │  ▲        (reads)         buffer lent
//                buffer)  TTS fills           │  └ replay                until acknowledged
//                         the buffer)         └──────── complete ───────▶
//
// What a read window shows goes from FETCHING to TRANSFERRING at once, and ends with that. What
// compares and then writes goes back from AT_UNIT to READY once.
//
// A unit that is lost keeps what is AT_UNIT; when it is ready again these are sent once more, in
// their order where ranges overlap, and before newer ones that overlap them.
//
// Sans-I/O. One thread at a time. Memory is taken in create and when units are added.
#pragma once

#include <stdint.h>

#include "base/histogram.h"
#include "base/time.h"
#include "node/interface/cta_tts.h"
#include "node/interface/request.h"
#include "node/interface/uma_cta.h"

struct cta;

struct cta_parts {
    struct node_pool pool; // the length of its parts a multiple of NODE_TRANSFER_MAX
    const struct uma_for_cta *uma;
    void *uma_ctx;
    void *ctx; // of the rest
    // The unit's part of the pool: zeroed memory that no other unit has had, and that no process
    // has but those of its RTA; gone; and those octets of it go back to the system, and are zero
    // again. False: no memory. All three NULL: it is there.
    bool (*part_make)(void *ctx, uint32_t unit);
    void (*part_drop)(void *ctx, uint32_t unit);
    void (*part_trim)(void *ctx, uint32_t unit, uint64_t offset, uint64_t len);
    // Reads that many octets of a read window there, if all of them are to be had without waiting.
    bool (*window_read)(void *ctx, int fd, uint64_t offset, void *data, uint32_t len);
    // The time now, within a turn of the loop too.
    instant_ns (*clock)(void *ctx);
    // Writes down what of all reservations outlives the node, as it is now: its number, from 1 on,
    // which cta_reservations_stored tells of later. NULL: no reservation can persist.
    uint64_t (*reservations_store)(void *ctx);
    void *reservations_ctx;
};

struct cta *cta_create(const struct cta_parts *parts);
void cta_destroy(struct cta *cta);

// What it offers; the context is the struct cta.
extern const struct cta_for_uma cta_for_uma;
extern const struct cta_for_tts cta_for_tts;

// The unit's bus was rung.
void cta_on_bus(struct cta *cta, uint32_t unit, instant_ns now);

// Has the unit requests that it has not answered?
bool cta_awaits_unit(const struct cta *cta, uint32_t unit);

// The end of a batch: what has been submitted goes out.
void cta_flush(struct cta *cta, instant_ns now);

// What was written down up to this number is stored, or could not be: at the end of the batch who
// waited for it is answered.
void cta_reservations_stored(struct cta *cta, uint64_t ticket, bool is_stored);

instant_ns cta_next_deadline(const struct cta *cta);
void cta_on_deadline(struct cta *cta, instant_ns now);

struct cta_unit_counters {
    uint64_t requests;        // frames of them, replays not counted
    uint64_t results;         // taken
    uint64_t replays;         // requests sent to a successor
    uint64_t retransmissions; // frames sent again
    uint64_t duplicates;      // frames dropped because they came twice
    uint64_t violations;      // results that broke the rules
    uint64_t in_flight;       // requests now at the unit
    uint64_t waiting;         // requests that wait for it
    uint64_t lent_len;        // octets of the pool, quarantined ones included
};

struct cta_volume_counters {
    uint32_t volume;
    uint32_t connections;
    uint64_t octets[NODE_OPERATION_COUNT];
    uint64_t completions[NODE_COMPLETION_COUNT];
    uint64_t waits;        // requests that no buffer was free for
    uint64_t throttled;    // requests that waited for the volume's rate
    uint64_t window_reads; // of those answered, by the read window
    // In nanoseconds, from submit to answer, however it ended: of all that were answered.
    struct histogram latency[NODE_OPERATION_COUNT];
};

// A client's connection to a volume.
struct cta_connection_counters {
    const struct client *client; // valid until the caller returns to the loop
    uint32_t connection, volume;
    uint64_t requests, failed;      // answered; and of them those that did not go well
    uint64_t octets_in, octets_out; // written and read, of those that went well
    uint64_t in_flight;             // requests that hold something of the pool, or a slot
};

// False: no such unit.
bool cta_unit_counters(const struct cta *cta, uint32_t unit, struct cta_unit_counters *ret);

// Of a volume that has had a route or a read window, by index below NODE_VOLUME_COUNT_MAX; NULL:
// none is there.
const struct cta_volume_counters *cta_volume_counters(const struct cta *cta, size_t index);

// Of a connection, by index below NODE_CONNECTION_COUNT_MAX; false: none is there.
bool cta_connection_counters(const struct cta *cta, size_t index,
                             struct cta_connection_counters *ret);

uint64_t cta_pool_taken_len(const struct cta *cta);

// Verifies the books; for tests. False when something is broken.
bool cta_check(const struct cta *cta);
