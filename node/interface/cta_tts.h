// Interfaces 274, 281 and 284: the common transport agent and the target transport services.
// Requests go one way (284), calls to transfer data and completions the other (274, 281). Method
// calls within one process, on one thread.
//
//     read   TTS submit ─▶ CTA … RTA … data in a buffer ─▶ CTA
//            CTA transfer ─▶ TTS sends it, with the good answer ─▶ transferred ─▶ CTA
//     write  TTS submit ─▶ CTA has a buffer
//            CTA transfer ─▶ TTS fills it ─▶ transferred ─▶ CTA … RTA … ─▶ CTA
//            CTA complete ─▶ TTS answers
//     else   TTS submit ─▶ CTA … RTA … ─▶ CTA complete ─▶ TTS answers
//
// What fails ends with complete, whatever it is: so does what somebody's reservation keeps from the
// volume (NODE_RESERVED), at the door, and again when the data to be written are there. A protocol
// whose clients are asked for their data (a pull) begins that in transfer; one whose clients send
// it behind the request (a push) stops reading its stream at the request and goes on in transfer,
// straight into the buffer.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/time.h"
#include "node/interface/request.h"
#include "node/interface/reservation.h"

// The TTS owns it and leaves it alone from submit until complete, or its own transferred of a read.
struct service_request {
    // Filled by the TTS.
    uint32_t connection;
    uint8_t operation; // enum node_operation
    uint16_t flags;    // enum node_flag
    uint64_t offset;
    uint64_t len;      // octets of the volume
    uint32_t data_len; // octets of the buffer: `len` for reads, writes and compares; twice that for
                       // NODE_COMPARE_AND_WRITE, first what is expected; the most that may be
                       // answered for NODE_EXTENTS and NODE_PROFILE; else 0
    instant_ns deadline; // NODE_TIMED_OUT is the answer afterwards; INSTANT_NEVER: it waits

    // Filled by the CTA, valid in transfer and complete.
    enum node_completion completion;
    uint32_t detail;           // for logs: what the device said, an errno mostly
    uint32_t miscompare_at;    // NODE_MISCOMPARE: octets that are as expected before the first that
                               // is not
    void *data;                // the buffer, in this process
    struct node_buffer buffer; // the same, in the pool; `len` is what was answered

    // The CTA's.
    struct list_link link;
    uint64_t transaction;
    instant_ns submitted_at_ns;
};

// The pool that all buffers come from, for those who must register memory before using it: a part
// for each unit, so that an RTA has the memory of its own requests and no other.
struct node_pool {
    void *ptr;    // the parts, one behind the other, by the numbers of their units
    uint64_t len; // of a part; and the most of all together that is lent at a time
    // By unit: another number says that other memory is in its place; 0: none is.
    const uint32_t *generations;
};

// The unit whose part has this octet; NODE_UNIT_COUNT_MAX: none.
static inline uint32_t node_pool_unit(const struct node_pool *pool, const void *data)
{
    uint64_t unit = ((uintptr_t)data - (uintptr_t)pool->ptr) / pool->len;
    return unit < NODE_UNIT_COUNT_MAX ? (uint32_t)unit : NODE_UNIT_COUNT_MAX;
}

static inline void *node_pool_part(const struct node_pool *pool, uint32_t unit)
{
    return (uint8_t *)pool->ptr + unit * pool->len;
}

// What the CTA offers; `cta` is the context it gave with it.
struct cta_for_tts {
    struct node_pool (*pool)(void *cta);
    // Takes the request. It may be answered, or its transfer begin, before this returns. A request
    // that no buffer is free for waits its turn; so it may be long until transfer.
    void (*submit)(void *cta, struct service_request *request, instant_ns now);
    // The transfer is over: NODE_OK, or NODE_TRANSFER if the client is gone or would not. After a
    // read the request is the TTS's again; after a write it is once complete has been called.
    void (*transferred)(void *cta, struct service_request *request, enum node_completion outcome,
                        instant_ns now);

    // The connection's client is gone: what waits for its turn, and has been nowhere, ends with
    // NODE_TRANSFER before this returns, and so does what is submitted later. Not called from
    // within transfer or complete.
    void (*leave)(void *cta, uint32_t connection, instant_ns now);

    // The reservation of the connection's volume, for reports. NULL: it can have none.
    const struct reservation *(*reservation)(void *cta, uint32_t connection);
    // Acts on it, for a client with a name that registers. Answered by on_reserved, perhaps before
    // this returns: once what is to outlive the node is stored, and what was aborted has ended.
    void (*reserve)(void *cta, struct reservation_request *request, instant_ns now);
    // Reserves the volume for this connection alone, until it ends or unclaim. False: somebody has
    // it. Unclaim: the connection's own claim ends, or whoever's (`of_any`).
    bool (*claim)(void *cta, uint32_t connection);
    void (*unclaim)(void *cta, uint32_t connection, bool of_any);
};

// What a TTS offers, per connection; `tts` is its own context. From within these calls it may
// submit, and say that a transfer is over; it does not disconnect.
struct tts_for_cta {
    void (*transfer)(void *tts, struct service_request *request, instant_ns now);
    void (*complete)(void *tts, struct service_request *request, instant_ns now);
    // Both NULL: the protocol has no reservations, and its clients no names that register.
    void (*on_reserved)(void *tts, struct reservation_request *request, instant_ns now);
    // The connection's client, a registrant, is to be told.
    void (*on_reservation)(void *tts, uint32_t connection, enum reservation_event event,
                           instant_ns now);
};
