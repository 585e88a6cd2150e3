// What is drawn: events, each an arrow from one side to the other, in the order of the capture; and
// spans beside the time lines, from one event to another: messages of several segments, holes of
// the stream, Reads under way, STags that live.
//
// A story takes what lies within its bounds (time, packets, a number of events) and counts what it
// leaves out, so that its memory is bounded whatever the capture.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"

enum {
    STORY_CONNECTION_MAX = 4, // in one picture
    STORY_LABEL_MAX = 96,
    STORY_DETAIL_MAX = 320,
    STORY_EVENT_MAX = 20000,
};

enum story_kind {
    STORY_START, // of TCP or MPA, and the connection manager's messages
    STORY_END,   // FIN, RST, DREQ, DREP
    STORY_SEND,  // and Immediate Data
    STORY_WRITE,
    STORY_READ_REQUEST,
    STORY_READ_RESPONSE,
    STORY_ATOMIC,
    STORY_CONTROL, // ACKs, extension messages
    STORY_TROUBLE, // NAKs, Terminates, what cannot be parsed
    STORY_SEGMENT, // octets in which no FPDU ends

    // What no packet shows (draw/works.h): beside the time line of `side`, not across.
    STORY_POST,       // of a send work request
    STORY_RECEIVE,    // ... of a receive
    STORY_COMPLETION, // of either
    STORY_LENDING,    // a one-shot STag lent, closed or taken back
    STORY_KIND_COUNT,
};
const char *story_kind_name(enum story_kind kind); // "start" …, for style sheets

enum story_flags {
    STORY_EARLY = 1 << 0,  // placed beyond a hole
    STORY_AGAIN = 1 << 1,  // its octets, or its PSN, were seen before
    STORY_LATE = 1 << 2,   // it waited beyond a hole, or closed one
    STORY_CUT = 1 << 3,    // not captured whole
    STORY_FAILED = 1 << 4, // STORY_COMPLETION: without success
};

struct story_event {
    uint64_t packet; // its number in the capture; of a record, that of the packet before it
    uint64_t record; // its number among the records; 0: it is a packet
    instant_ns at;
    uint8_t kind; // enum story_kind
    uint8_t side; // that sent it: 0 stands on the left
    uint8_t connection;
    uint8_t flags;
    uint8_t fpdus;    // 1: it is an FPDU or packet of RDMA; 0: what else there is
    uint32_t message; // those of one message have the same number; 0: none
    uint32_t hole;    // STORY_EARLY: the span of the hole that it lies right behind
    uint32_t len;     // octets of payload
    char label[STORY_LABEL_MAX];
    char detail[STORY_DETAIL_MAX];
};

enum story_span_kind {
    STORY_MESSAGE, // of several segments, beside the side that sends
    STORY_WORK,    // a work request, from its post to its completion, beside the side that posted
    STORY_HOLE,    // beside the side that misses something
    STORY_READ,    // a Read Request until it is answered, beside the side that asks
    STORY_CONTEXT, // a read context, as long as one work request holds it
    STORY_STAG,    // from its first use, or advertisement, to its end, beside its owner
    STORY_SPAN_KIND_COUNT,
};
const char *story_span_kind_name(enum story_span_kind kind);

#define STORY_NONE UINT32_MAX // no event: left out, or not yet

struct story_span {
    uint8_t kind; // enum story_span_kind
    uint8_t side;
    uint8_t connection;
    bool is_open;        // its end was not seen
    uint32_t begin, end; // events; `end` STORY_NONE while it lasts
    uint32_t group;      // Reads: the number of the Read of which this is a part
    char label[STORY_LABEL_MAX];
    char detail[STORY_DETAIL_MAX];
};

struct story_bounds {
    uint64_t from_packet, to_packet; // inclusive
    duration_ns from, to;            // since the first packet of the connections; inclusive
    uint64_t first_event;            // of those within what is above, counted from 0
    uint32_t event_max;
};

struct story {
    struct story_bounds bounds;
    instant_ns begin; // that durations count from
    struct story_event *event;
    struct story_span *span;
    uint32_t event_count, span_count, span_max;
    uint64_t left_out_before, left_out_behind; // events, by the bounds
    uint64_t within_count;                     // events between `from` and `to`
    uint32_t message_count;

    uint64_t packet; // the one that is being told of, or
    uint64_t record; // ... the record behind it; 0: none
    instant_ns at;
    uint8_t connection;
};

// False: no memory. `begin` is the instant of the connections' first packet.
bool story_create(struct story *s, const struct story_bounds *bounds, instant_ns begin);
void story_destroy(struct story *s);

// Who tells says first of which packet, and of which connection of the picture.
void story_on_packet(struct story *s, uint64_t number, instant_ns at, unsigned connection);

// ... or of which record, behind that packet.
void story_on_record(struct story *s, uint64_t number, instant_ns at, unsigned connection);

// Adds an event of this packet, or record; NULL: it lies outside the bounds. What is not set is
// zero.
struct story_event *story_add(struct story *s, enum story_kind kind, unsigned side);
// The event that was added last; STORY_NONE: it was left out.
uint32_t story_last(const struct story *s);
// The event that will be added next; STORY_NONE: the bounds leave none.
uint32_t story_next(const struct story *s);

// A span that begins with `event`; STORY_NONE gives STORY_NONE, which other functions pass over.
uint32_t story_span_begin(struct story *s, enum story_span_kind kind, unsigned side,
                          uint32_t event);
void story_span_end(struct story *s, uint32_t span, uint32_t event);
// The events from `first` on, which may be STORY_NONE, lie right behind the span, a hole.
void story_hole_before(struct story *s, uint32_t span, uint32_t first);
// The span, a hole, was none: what came in it was not captured, but did come, as `detail` says. It
// ends with the last event, and nothing right behind it was early.
void story_hole_deny(struct story *s, uint32_t span, const char *detail);
// NULL for STORY_NONE.
struct story_span *story_span_at(struct story *s, uint32_t span);

// Nothing more comes: what has not ended is open to the last event.
void story_finish(struct story *s);
