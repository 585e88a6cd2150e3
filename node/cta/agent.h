// The inside of the CTA, for its files.
#pragma once

#include "base/list.h"
#include "node/bus/residual.h"
#include "node/cta/buffers.h"
#include "node/cta/cta.h"

enum {
    CTA_UNIT_DEPTH = 512, // transactions at one unit, and the window of its residual message store
};

// A row of the routing table.
struct cta_route {
    struct route route; // connection 0: the slot is free
    struct cta_volume_counters *counters;
    bool is_pending;         // waits for a former connection of its client to end
    bool is_leaving;         // removed; goes with its last transaction
    bool has_failed;         // the volume is gone for good
    uint32_t in_flight;      // transactions
    uint64_t held_len;       // octets of the pool that its transactions hold
    struct list_link hungry; // service requests that wait for a buffer or a slot, in order
    struct list_link link;   // in cta.hungry
};

enum transaction_state {
    TRANSACTION_FREE,
    TRANSACTION_FETCHING,     // the TTS fills the buffer
    TRANSACTION_READY,        // waits to be sent
    TRANSACTION_AT_UNIT,      // sent
    TRANSACTION_TRANSFERRING, // the TTS sends the buffer
    TRANSACTION_COMPLETING,   // the RTA is to release the buffer
    TRANSACTION_QUARANTINED,  // a device may still use the buffer, and nothing tells until when
};

struct transaction {
    uint64_t number;
    enum transaction_state state;
    bool is_replay;                  // sent to an earlier process of the unit before
    struct service_request *request; // NULL: answered
    struct cta_route *route;         // NULL: settled
    struct cta_unit *unit;
    uint8_t operation;
    uint16_t flags;
    uint32_t connection;
    uint64_t offset, len;
    instant_ns deadline;
    struct node_buffer buffer;
    struct list_link link; // free, or in one of the unit's lists
};

struct cta_unit {
    struct cta *cta;
    uint32_t unit;
    bool is_ready;
    bool is_broken; // the UMA has been told
    bool has_hurried;
    uint32_t depth;              // transactions at the unit, COMPLETING ones included
    uint32_t replay_count;       // transactions with is_replay that have no result yet
    struct list_link ready;      // READY, the new ones
    struct list_link replay;     // READY, to be sent again: older than all in `ready`
    struct list_link at_unit;    // AT_UNIT, in the order they were sent
    struct list_link elsewhere;  // FETCHING, TRANSFERRING
    struct list_link completing; // COMPLETING
    struct residual_store *residual;
    struct cta_unit_counters counters;
};

struct cta {
    struct cta_parts parts;
    struct buffers *buffers;
    bool is_starved;             // a request waits for a buffer or slot that others hold
    instant_ns tick_at_ns;       // when deadlines are looked at next
    uint32_t deadline_count;     // service requests with one
    uint64_t serial;             // of transactions
    struct list_link hungry;     // routes, taken in turn
    struct list_link free;       // transactions
    struct list_link quarantine; // transactions
    unsigned unit_end;           // no unit from here on has ever been added
    struct cta_unit *units[NODE_UNIT_COUNT_MAX];
    struct cta_volume_counters volumes[NODE_VOLUME_COUNT_MAX];
    struct cta_route routes[NODE_CONNECTION_COUNT_MAX];
    struct transaction transactions[NODE_TRANSACTION_COUNT_MAX];
};

// ---- cta.c

// Without a residual message store; NULL without memory.
struct cta_unit *cta_unit_create(struct cta *cta, uint32_t number);
void cta_unit_destroy(struct cta_unit *unit);

// ---- routes.c

void routes_add(void *cta, const struct route *route);
void routes_remove(void *cta, uint32_t connection);
// NULL: none, or it is leaving.
struct cta_route *routes_find(struct cta *cta, uint32_t connection);
// A transaction of the route has been settled: a route that leaves may go now.
void routes_settled(struct cta *cta, struct cta_route *route);

// ---- service.c

void service_submit(void *cta, struct service_request *request, instant_ns now);
void service_transferred(void *cta, struct service_request *request, enum node_completion outcome,
                         instant_ns now);
// Ends the service request of the transaction; the transaction goes on.
void service_answer(struct cta *cta, struct transaction *transaction,
                    enum node_completion completion, uint32_t detail, instant_ns now);
// The data are in the buffer: has the TTS send them.
void service_transfer(struct cta *cta, struct transaction *transaction, uint32_t answer_len,
                      uint32_t detail, instant_ns now);
// The device and the client are done with the transaction: its route no longer waits for it.
void service_settle(struct cta *cta, struct transaction *transaction);
// The transaction is over: its buffer and slot are free.
void service_end(struct cta *cta, struct transaction *transaction);
// Gives those who wait what has become free.
void service_feed(struct cta *cta, instant_ns now);
void service_fail_route(void *cta, uint32_t connection, instant_ns now);
// The same for what has come back from a unit that is lost.
void service_fail_returned(struct cta *cta, const struct cta_unit *unit, instant_ns now);
// Answers those whose deadline has passed.
void service_expire(struct cta *cta, instant_ns now);

// ---- rta_interface.c

bool units_add(void *cta, uint32_t unit, struct frame_port port);
void units_remove(void *cta, uint32_t unit);
void units_lost(void *cta, uint32_t unit, instant_ns now);
void units_ready(void *cta, uint32_t unit, instant_ns now);
// The transaction waits for its turn.
void units_submit(struct transaction *transaction);
// The client has its answer: tells the RTA.
void units_complete(struct transaction *transaction, enum node_completion outcome, instant_ns now);
// Sends what may be sent.
void units_pump(struct cta_unit *unit, instant_ns now);
