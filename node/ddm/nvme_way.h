// Policy: by which of several ways a command goes to a namespace, and when one that was out on a
// way that was lost may go by another. Facts and instants in, a choice out: it has no connection
// and no clock.
//
// **What may be done twice.** A command that was out on a way that was lost may still be carried
// out at its other end. A read or a flush may go by another way at once. A change may not: carried
// out late, it would undo what was written in between by that other way. It waits until something
// tells that its old end is quiet (enum nvme_quiet).
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <weft/nvme.h>

#include "base/time.h"
#include "node/interface/request.h"

// What is known of one way.
struct nvme_way {
    bool is_up;
    enum weft_nvme_access access; // of the namespace, as its controller says
    instant_ns rests_until;       // it has failed by itself; others go first
    instant_ns heard_at;          // it carried out a command
    instant_ns turned_at;         // it was told to reach the namespace, which it did not; 0: never
    instant_ns quiet_at;          // lost: its other end has given up by then
};

// What tells that the other end of a lost way does nothing more.
enum nvme_quiet {
    NVME_NOT_QUIET,
    NVME_MET_AGAIN,   // the same controller's target took this host in again
    NVME_HANDED_OVER, // another way reaches the namespace since the lost one was last heard of:
                      // whoever has it now has it alone
    NVME_LET_GO,      // so much time has passed that it must have noticed that this host is gone
    NVME_QUIET_COUNT,
};

// May commands go by it?
bool nvme_access_is_good(enum weft_nvme_access access);

// The way that the next command goes: the best access; of equal ones the one that is in use, else
// the first. -1: none.
int nvme_way_choose(const struct nvme_way *ways, unsigned count, int in_use, instant_ns now);

// What tells that a way that was lost is quiet.
enum nvme_quiet nvme_way_quiet(const struct nvme_way *ways, unsigned count, unsigned lost,
                               instant_ns now);

// "inaccessible", "lost" ...: why a way is not taken, or how it is.
const char *nvme_way_str(const struct nvme_way *way, instant_ns now);
const char *nvme_quiet_str(enum nvme_quiet quiet);

// Must one of these wait until its way is quiet?
bool nvme_way_is_change(uint8_t operation);
