// Interfaces 261, 263 and 267: the unit management agent and a remote transport agent. Datagrams
// over a socket that the RTA's process is born with; it ends when the process does, which is how
// either side learns of it.
//
//     267  lifecycle       HELLO, STATUS, DRAIN, YIELD
//     263  discovery       OPEN, PROBE, CLOSE, each answered with its own kind; STANDBY
//     261  connections     CONNECTION_ADD, CONNECTION_REMOVE, each answered with its own kind
//
// The UMA asks, the RTA answers with the same kind and number; HELLO it says by itself, first,
// and PROBE when a device has changed. STANDBY, with what is known of the device, comes before the
// answer to an OPEN that allows it: another node has the device, and the process waits for that,
// which is told of by the answer; it hears of nothing else meanwhile. The
// answer to OPEN of a unit that is started again comes when the fence has passed: the I/O of its
// predecessor on that device is over. A device that is another than was first opened, by its pin,
// is not opened (-ESTALE). YIELD: another node is to have the device; the process ends when its
// commands have, and has given the device up, so that nobody need find out that it is dead.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/why.h"
#include "node/interface/volume.h"

enum { UMA_RTA_VERSION = 8, UNIT_URI_MAX = 1024, UNIT_WHY_MAX = 256 };

enum unit_message_kind {
    UNIT_HELLO = 1,
    UNIT_OPEN,
    UNIT_PROBE,
    UNIT_CLOSE,
    UNIT_CONNECTION_ADD,
    UNIT_CONNECTION_REMOVE,
    UNIT_STATUS,
    UNIT_DRAIN,
    UNIT_STANDBY,
    UNIT_YIELD,
    UNIT_MESSAGE_KIND_COUNT
};

// The counters of an RTA, for weft status.
struct unit_counters {
    uint64_t requests;        // taken from the bus
    uint64_t results;         // and answered
    uint64_t in_flight;       // requests now in the device
    uint64_t retransmissions; // frames sent again to the CTA
    uint64_t duplicates;      // frames and requests dropped because they came twice
    uint64_t refusals;        // requests refused at the door: no row, no sense
    uint64_t resubmissions;   // commands given to a device again
    uint64_t buffers_held;    // lent with requests that have not ended,
    uint64_t octets_held;     // and how long they are
    uint64_t turns;           // of its loop
    uint64_t landlock;        // the version that confines its process; 0: none
};

struct unit_message {
    uint32_t kind;         // enum unit_message_kind
    uint32_t version;      // UMA_RTA_VERSION
    uint32_t volume;       // OPEN, PROBE, CLOSE, STANDBY, CONNECTION_ADD
    uint32_t connection;   // CONNECTION_ADD, CONNECTION_REMOVE
    int32_t error;         // answers: 0 or a negative errno
    uint32_t is_restart;   // OPEN: wait for the fence; otherwise a device in use is refused
    uint32_t read_only;    // OPEN
    uint32_t is_only;      // OPEN: the process will be asked to open no other device
    uint32_t may_stand_by; // OPEN: a device that another node has is waited for
    uint32_t keeps_pages; // answers to OPEN: no page of the unit's part of the pool may be replaced
    uint32_t is_window;   // answers to OPEN: the descriptor that comes with it is a read window
    union {
        struct {
            char uri[UNIT_URI_MAX];      // OPEN: which device
            char pin[VOLUME_ORIGIN_MAX]; // of its profile when it was first opened; empty: never
        };
        struct volume_profile profile; // answers to OPEN, PROBE; STANDBY
        struct unit_counters counters; // answer to STATUS
    };
    char why[UNIT_WHY_MAX]; // answers with an error: the reason, for people
};

// A reason into a message, shortened to the room there is, and out of one whose end nobody vouches
// for.
static inline void unit_message_put_why(struct unit_message *message, const struct why *why)
{
    snprintf(message->why, sizeof message->why, "%.*s", UNIT_WHY_MAX - 1, why->text);
}

static inline void unit_message_why(const struct unit_message *message, struct why *ret)
{
    why_say(ret, "%.*s", UNIT_WHY_MAX - 1, message->why);
}

// OPEN and its answer may carry one descriptor beside the message. A keepsake: what a device hands
// over is kept by the UMA and given to its successor, so that a volume of memory outlives the
// process that serves it. Or, in an answer alone, a read window: a file whose octets are those of
// the volume, from which the CTA may read what the page cache has as long as this process serves.
struct unit_port {
    void *ctx;
    // `keepsake`: -1, or a descriptor that stays the caller's. 0 or a negative errno; -EAGAIN, for
    // what nobody has asked for: what was said before has not been read yet.
    int (*send)(void *ctx, const struct unit_message *message, int keepsake);
};
