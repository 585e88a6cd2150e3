// Somebody is in by a slot (slot.h), and is waited for: whether that has taken long.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"
#include "link/local/slot.h"

// So long a peer is waited for under the lock when his connection ends, and it is said when one
// takes longer.
#define LOCAL_REVOKE_LONG_NS (100 * NS_PER_MS)
// Between two looks whether he is out. Nobody could wake us but him: that would cost each of his
// copies a look at who waits, where few ever do, and who lies would not do it.
#define LOCAL_REVOKE_NAP_NS (20 * NS_PER_US)

struct local_inside {
    uint64_t turn;       // of the slot, when he was found in ...
    instant_ns since_ns; // ... for the first time; 0: never
    bool is_said;        // ... that it takes long
};

// He was found in. True: he has been for long, and that is to be said, once.
static inline bool local_inside_note(struct local_inside *inside, struct local_slot *slot,
                                     instant_ns now)
{
    const uint64_t turn = atomic_load(&slot->turn);
    if (inside->since_ns == 0 || inside->turn != turn) {
        *inside = (struct local_inside){.turn = turn, .since_ns = now};
    }
    const bool is_long = now >= instant_after(inside->since_ns, LOCAL_REVOKE_LONG_NS);
    const bool is_to_be_said = is_long && !inside->is_said;
    inside->is_said |= is_long;
    return is_to_be_said;
}
