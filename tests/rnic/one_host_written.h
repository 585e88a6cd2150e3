// What the peer has written, as whose memory it is can see it at any instant: each octet is of the
// last work request that is known to be over, or of a later one.
#pragma once

#include "tests/rnic/one_host_drawn.h"

struct written {
    const uint8_t *target;
    const struct drawn_program *program; // the peer's
    uint8_t settled[DRAWN_TARGET_LEN];   // numbers that are there for certain
    unsigned settled_end;                // of the program: over before
};

// Memory as it is before the program begins.
void written_init(struct written *w, uint8_t *target, const struct drawn_program *program);
// All of the program before that number is over, and what it has changed is there. `when` says
// since when.
void written_settle(struct written *w, unsigned end, const char *when);
// As a program that spins on the last octet of a Write: if that is there, all before it is.
void written_probe(const struct written *w);
// The connection is over: nothing but that, and what may have been on its way.
void written_expect_all(const struct written *w);
// The whole program is over, its atomics too.
void written_expect_done(struct written *w);
