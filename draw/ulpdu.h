// What a DDP segment says, as an event: Sends, Writes, Reads, atomics, Terminates, and weft's own
// extension message. What lasts longer than a segment is kept in lives.h; which segments are one
// message, here.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"
#include "draw/lives.h"
#include "draw/story.h"

// Messages under way: by direction, for each queue and for tagged messages of either opcode, the
// one that is next to end and one that began beyond a hole before that.
enum { ULPDU_MESSAGES = 8 };

struct ulpdu_message {
    uint32_t number; // 0: none is under way
    uint32_t first_event;
    uint32_t msn; // of an untagged one
    uint32_t fpdus;
    uint64_t len;
    bool is_last_early; // its last segment is here, beyond a hole
};

struct ulpdu_teller {
    struct story *story;
    struct lives lives;
    uint8_t oneshot; // EXTENSION_ONESHOT_ bits agreed
    struct ulpdu_message message[2][ULPDU_MESSAGES][2];
};

// Adds the event of a ULPDU that `side` sent. `flags`: enum story_flags.
void ulpdu_tell(struct ulpdu_teller *t, unsigned side, struct span ulpdu, unsigned flags);

// No hole is left in what `side` sends: messages whose last segment came early are whole.
void ulpdu_settle(struct ulpdu_teller *t, unsigned side);

// Whether the octets begin with a DDP header, and an RDMAP opcode, that is in use: of a segment
// that was not captured whole, the only sign.
bool ulpdu_is_likely(struct span ulpdu);
