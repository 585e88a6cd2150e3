// The inside of the CTA, for its files.
#pragma once

#include "base/list.h"
#include "base/time.h"
#include "node/bus/residual.h"
#include "node/cta/buffers.h"
#include "node/cta/cta.h"
#include "node/interface/request.h"
#include "node/interface/uma_tts.h"

enum {
    CTA_UNIT_DEPTH = 512, // transactions at one unit, and the window of its residual message store
    CTA_SMALL_LEN = 64 << 10,  // of the pool, that a small request takes at most
    CTA_FLOOR_LEN = 256 << 10, // what every connection may hold,
    CTA_FLOOR_COUNT = 4,       // and how many requests
};

// What somebody holds at a time (shares.c).
struct cta_share {
    uint64_t held_len; // octets of the pool, oversized requests not counted
    uint32_t request_count;
    uint32_t oversized_count; // of them
};

// A host from which connections come; `connections` 0: the slot is free.
struct cta_client {
    char host[CLIENT_HOST_MAX];
    uint32_t connections;
    struct cta_share share;
};

// By which a volume may be read without its RTA (window.c).
struct cta_window {
    bool is_open;
    int fd;                 // the UMA's
    uint64_t size;          // octets of it that are the volume's
    unsigned rest, resting; // reads that are to pass by it after a miss, and of them those to come
};

// How fast a volume may be used, and who waits for that (rates.c).
struct cta_rate {
    struct volume_rate most;
    instant_ns requests_at_ns, octets_at_ns; // when what was taken will have been due
    instant_ns until_ns;                     // while routes wait: they are looked at again
    struct list_link waiting;                // routes whose next request is to wait, in order
    struct list_link link;                   // in cta.paced
};

// `counters.volume` 0: the slot is free.
struct cta_volume {
    bool is_gone;   // goes with its last route
    bool stands_by; // its requests end here
    struct cta_window window;
    struct cta_rate rate;
    struct cta_volume_counters counters;
    struct cta_share share;
    struct cta_share awaited; // of what it holds: what clients have yet to send
};

enum cta_size {
    CTA_SMALL,
    CTA_LARGE,
    CTA_OVERSIZED, // beyond a connection's share
    CTA_SIZE_COUNT
};

// Requests of one size, by what their client holds already and whether it is to send data: bits of
// who gets behind one that waits.
enum cta_class {
    CTA_MUCH = 1 << 0,
    CTA_MUCH_AWAITED = 1 << 1,
    CTA_LITTLE = 1 << 2,
    CTA_LITTLE_AWAITED = 1 << 3,
    CTA_ALL = (1 << 4) - 1
};

// A row of the routing table.
struct cta_route {
    struct client_route route; // connection 0: the slot is free
    struct cta_volume *volume;
    struct cta_client *client; // NULL: it has no host
    bool is_pending;           // waits for a former connection of its client to end
    bool is_leaving;           // removed; goes with its last transaction
    bool has_failed;           // the volume is gone for good
    bool has_left;             // the client is
    unsigned news;             // bits of enum reservation_event that its TTS is to be told
    struct cta_share share;    // of its transactions that are not settled
    uint64_t requests, failed; // answered, and of them those that did not go well
    uint64_t octets[NODE_OPERATION_COUNT];
    struct list_link hungry; // service requests that wait for a buffer or a slot, in order
    struct list_link link;   // in cta.hungry, or in its volume's rate.waiting
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
    bool is_by_window;               // TRANSFERRING: the RTA has never heard of it
    bool stands_by;                  // its volume did while its data were on their way
    bool is_fenced;                  // its client is to have nothing under way
    bool has_compared;               // of what reads first: it has been read, the write is left
    bool is_holding;                 // nobody else changes its range (hold.c)
    uint64_t turn;                   // in line for its unit
    struct service_request *request; // NULL: answered
    struct cta_route *route;         // NULL: settled
    struct cta_unit *unit;
    uint8_t operation;
    uint16_t flags;
    uint32_t connection;
    uint64_t offset, len;
    instant_ns deadline;
    instant_ns handed_at_ns; // FETCHING, TRANSFERRING: since when the client has its buffer
    struct node_buffer buffer;
    struct list_link link;      // free, or in one of the unit's lists
    struct list_link hold_link; // in the unit's holds
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
    struct list_link holds;      // READY or AT_UNIT, those that hold a range or are to
    uint64_t turn;               // the last one that was given
    struct residual_store *residual;
    struct buffers *buffers; // of its part of the pool
    bool has_lent;           // since its free memory was given back
    bool keeps_pages;        // which it is not to be
    struct cta_unit_counters counters;
};

struct cta {
    struct cta_parts parts;
    bool is_starved;                   // a request waits for a buffer or slot that others hold
    unsigned waits[CTA_SIZE_COUNT];    // one of this size does: enum cta_class, who gets behind it
    uint64_t lent_len[CTA_SIZE_COUNT]; // octets of the pool, by the size of the request
    uint64_t awaited_len;              // of them, what clients have yet to send
    uint32_t awaited_count;            // requests whose data they have yet to send
    instant_ns tick_at_ns;             // when deadlines are looked at next
    instant_ns feed_at_ns;             // when who waits is looked at, though nothing has come back
    instant_ns trim_at_ns;       // when memory is given back next; INSTANT_NEVER: none is used
    uint32_t deadline_count;     // service requests with one
    uint64_t serial;             // of transactions
    struct list_link hungry;     // routes, taken in turn
    struct list_link paced;      // rates that routes wait for
    struct list_link free;       // transactions
    struct list_link quarantine; // transactions
    struct list_link reserving;  // reservation requests that wait to be answered
    unsigned unit_end;           // no unit from here on has ever been added
    struct cta_unit *units[NODE_UNIT_COUNT_MAX];
    struct cta_volume volumes[NODE_VOLUME_COUNT_MAX];
    struct cta_client clients[NODE_CONNECTION_COUNT_MAX];
    struct cta_route routes[NODE_CONNECTION_COUNT_MAX];
    struct transaction transactions[NODE_TRANSACTION_COUNT_MAX];
};

/* ---- routes.c -------------------------------------------------------------------------------- */

void routes_add(void *cta, const struct client_route *route);
void routes_remove(void *cta, uint32_t connection);
void routes_volume_remove(void *cta, uint32_t volume);
// The volume's counters and window; NULL: it has none yet, or with `may_make` no room for them.
struct cta_volume *routes_volume(struct cta *cta, uint32_t volume, bool may_make);
// NULL: none, or it is leaving.
struct cta_route *routes_find(struct cta *cta, uint32_t connection);
// A transaction of the route has been settled: a route that leaves may go now.
void routes_settled(struct cta *cta, struct cta_route *route);

/* ---- shares.c -------------------------------------------------------------------------------- */

enum cta_size shares_size_of(const struct cta *cta, uint32_t len);
// Do the shares of the connection, its client and its volume allow one more request, with a buffer
// of `len` octets (0: with none)? `is_awaited`: the client is to fill that.
bool shares_allow(const struct cta *cta, const struct cta_route *route, uint32_t len,
                  bool is_awaited);
enum cta_class shares_class_of(const struct cta_route *route, bool is_awaited);
// Who gets behind such a request (bits of enum cta_class), which came at an instant, since others
// hold what it needs; 0: they do not.
unsigned shares_behind(const struct cta *cta, const struct cta_route *route, uint32_t len,
                       bool is_awaited, instant_ns came_at_ns, instant_ns now);
void shares_take(struct cta *cta, struct cta_route *route, uint32_t len, bool is_awaited);
// What was awaited has come, or will not.
void shares_note_come(struct cta *cta, struct cta_route *route, uint32_t len);
void shares_give_back(const struct cta *cta, struct cta_route *route, uint32_t len);
// Octets of the pool that are lent.
uint64_t shares_lent_len(const struct cta *cta);
// A buffer of the unit's, if there is room for requests of this size, and nobody is in the way
// (shares_behind).
bool shares_obtain(struct cta *cta, struct cta_unit *unit, uint32_t len, instant_ns now,
                   struct node_buffer *ret);
// When others may go past an oversized request that waits, for what clients have had too long.
instant_ns shares_feed_at(const struct cta *cta, instant_ns now);
void shares_release(struct cta_unit *unit, struct node_buffer buffer);

/* ---- rates.c --------------------------------------------------------------------------------- */

void rates_set(void *cta, uint32_t volume, const struct volume_rate *most);
// May a request of the route begin now, and need not let others of its volume go first?
bool rates_allow(const struct cta_route *route, instant_ns now);
// It has begun.
void rates_take(struct cta_route *route, const struct service_request *request, instant_ns now);
// The route waits for its volume's rate, behind those that do.
void rates_wait(struct cta *cta, struct cta_route *route, instant_ns now);
// When some of those who wait are to be released, and those whose time has come, to the hungry.
instant_ns rates_next(const struct cta *cta);
void rates_release(struct cta *cta, instant_ns now);

/* ---- memory.c -------------------------------------------------------------------------------- */

// Without a residual message store; NULL without memory.
struct cta_unit *cta_unit_create(struct cta *cta, uint32_t number);
void cta_unit_destroy(struct cta_unit *unit);
// The unit's part of the pool, with its books. False without memory.
bool memory_open(struct cta_unit *unit);
void memory_close(struct cta_unit *unit);
// The buffer, as the CTA and TTSs have it.
void *memory_of(const struct cta_unit *unit, struct node_buffer buffer);
// A buffer of the unit's has been lent.
void memory_note(struct cta_unit *unit, instant_ns now);
// Gives back to the system what is free and has been used.
void memory_trim(struct cta *cta);

/* ---- window.c -------------------------------------------------------------------------------- */

void window_set(void *cta, uint32_t volume, int fd, uint64_t size);
// Fills the transaction's buffer, if its volume can be read here and now. False: it is the RTA's.
bool window_read(struct cta *cta, struct transaction *transaction);

/* ---- hold.c ---------------------------------------------------------------------------------- */

// The transaction is in line for its unit from now on.
void hold_line_up(struct transaction *transaction);
// May it go to its unit, for all that is held or about to be?
bool hold_allows(const struct transaction *transaction);
// It goes, with its hold if it is to have one.
void hold_begin(struct transaction *transaction);
void hold_end(struct transaction *transaction);

/* ---- standby.c ------------------------------------------------------------------------------- */

void standby_set(void *cta, uint32_t volume, bool stands_by, instant_ns now);

/* ---- compare.c ------------------------------------------------------------------------------- */

// What the unit is asked for next.
struct transaction_half {
    uint8_t operation;
    uint16_t flags;
    struct node_buffer buffer;
};

// Octets of the buffer beyond the client's data that such a request needs.
uint32_t compare_room(unsigned operation, uint64_t len);
// What the unit is asked for now: all of it, or half of what reads first.
struct transaction_half compare_half(const struct transaction *transaction);
// How it ends, now that the unit has said this of what it was asked for.
enum node_completion compare_judge(const struct transaction *transaction,
                                   enum node_completion completion);
// Is there another half, if this ended well?
bool compare_goes_on(const struct transaction *transaction);

/* ---- transaction.c --------------------------------------------------------------------------- */

// The request ends like this: what is counted of it, and its TTS is told besides.
void request_account(struct cta *cta, struct cta_route *route,
                     const struct service_request *request, enum node_completion completion);
void request_complete(struct cta *cta, struct cta_route *route, struct service_request *request,
                      enum node_completion completion, uint32_t detail, instant_ns now);
// Ends the service request of the transaction; the transaction goes on.
void transaction_answer(struct cta *cta, struct transaction *transaction,
                        enum node_completion completion, uint32_t detail, instant_ns now);
// Has the TTS fill the buffer with `len` octets / send the data that are in it.
void transaction_fetch(struct transaction *transaction, uint32_t len, instant_ns now);
void transaction_transfer(struct cta *cta, struct transaction *transaction, uint32_t answer_len,
                          uint32_t detail, instant_ns now);
// It has another number from now on: it is a new one to the unit.
void transaction_renumber(struct transaction *transaction);
// The device and the client are done with it: its route no longer waits for it.
void transaction_settle(struct cta *cta, struct transaction *transaction);
// It is over: its buffer and slot are free.
void transaction_end(struct cta *cta, struct transaction *transaction);
// Its volume is gone for good. What a lost process may still do to its buffer is waited for.
void transaction_fail(struct cta *cta, struct transaction *transaction, instant_ns now);

/* ---- service.c ------------------------------------------------------------------------------- */

void service_submit(void *cta, struct service_request *request, instant_ns now);
void service_transferred(void *cta, struct service_request *request, enum node_completion outcome,
                         instant_ns now);
// Gives those who wait what has become free.
void service_feed(struct cta *cta, instant_ns now);
void service_fail_route(void *cta, uint32_t connection, instant_ns now);
void service_leave(void *cta, uint32_t connection, instant_ns now);
// Everything of a volume that stands by ends, but for what its client is being sent. What a lost
// process of its unit had stays lent until the unit is ready: until its I/O is over.
void service_stand_by(struct cta *cta, const struct cta_volume *volume, instant_ns now);
// The route's client is to have nothing under way: what has not gone to the unit ends here, and
// what has is marked.
void service_fence(struct cta *cta, struct cta_route *route, instant_ns now);
// Answers those whose deadline has passed.
void service_expire(struct cta *cta, instant_ns now);

/* ---- bar.c ----------------------------------------------------------------------------------- */

// Does somebody else's reservation keep the operation from the route's volume?
bool reservation_bars(const struct cta_route *route, unsigned operation, unsigned flags);
// The claim of the route's own connection ends.
void reservation_unclaim_of(struct cta_route *route);

/* ---- reservation.c --------------------------------------------------------------------------- */

const struct reservation *reservation_look(void *cta, uint32_t connection);
void reservation_reserve(void *cta, struct reservation_request *request, instant_ns now);
bool reservation_claim(void *cta, uint32_t connection);
void reservation_unclaim(void *cta, uint32_t connection, bool of_any);
// Answers those who wait for nothing any more.
void reservation_feed(struct cta *cta, instant_ns now);

/* ---- rta_interface.c ------------------------------------------------------------------------- */

bool units_add(void *cta, uint32_t unit, struct frame_port port);
void units_remove(void *cta, uint32_t unit);
void units_keep(void *cta, uint32_t unit);
void units_lost(void *cta, uint32_t unit, instant_ns now);
void units_ready(void *cta, uint32_t unit, instant_ns now);
// The transaction waits for its turn.
void units_submit(struct transaction *transaction);
// The client has its answer: tells the RTA.
void units_complete(struct transaction *transaction, enum node_completion outcome, instant_ns now);
// Sends what may be sent.
void units_pump(struct cta_unit *unit, instant_ns now);
