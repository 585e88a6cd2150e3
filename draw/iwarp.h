// An iWARP connection, told from its TCP segments: MPA start-up, FPDUs in order and beyond holes,
// what came again, and where the stream cannot be followed.
//
// An FPDU is an event when the segment came that completed it, or, beyond a hole, when it was found
// whole with a right CRC, as weft's own receiver places it (mpa/placer.h). One that waited for a
// hole to close is an event when it closes. Of segments that were not captured whole the headers
// are told, as far as they are there.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "draw/direction.h"
#include "draw/frame.h"
#include "draw/story.h"
#include "draw/ulpdu.h"
#include "mpa/rx.h"
#include "wire/mpa.h"

enum { IWARP_EARLY_MAX = 1024, IWARP_AGREED_MAX = 160 };

enum iwarp_phase {
    IWARP_START_UP,
    IWARP_FULL, // operation: FPDUs
    IWARP_LOST, // until a segment begins with one
};

struct iwarp_connection;

struct iwarp_side {
    struct iwarp_connection *connection; // that it is a side of
    unsigned number;
    struct direction direction;
    enum iwarp_phase phase;
    struct mpa_rx rx;
    uint8_t *carry;      // MPA_RX_CARRY_LEN octets, then as many of scratch
    uint64_t full_begin; // the octet of the stream that full operation, as rx has it, began with
    uint8_t startup[MPA_STARTUP_MAX_LEN];
    size_t startup_len;
    uint64_t early[IWARP_EARLY_MAX]; // where FPDUs end that were told early, in the stream
    unsigned early_count;
    unsigned flags; // of the events of what is being read
    bool has_fin;
    bool tells_holes; // of what it receives, by records (draw/works.h): packets do not
};

struct iwarp_connection {
    struct iwarp_side side[2];
    struct ulpdu_teller teller;
    struct mpa_startup_frame request, reply; // without private data
    bool has_request, has_reply;
    uint32_t request_crc;
    char agreed[IWARP_AGREED_MAX]; // for people; empty: the start-up was not seen
};

// False: no memory.
bool iwarp_create(struct iwarp_connection *c, struct story *story);
void iwarp_destroy(struct iwarp_connection *c);

// A segment that `side` sent.
void iwarp_on_segment(struct iwarp_connection *c, unsigned side, const struct frame *f);
