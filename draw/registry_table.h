// The registry's table of keys: open addressing, of a fixed size; what is not found after a bounded
// way is not there.
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "draw/registry.h"

enum registry_key_kind {
    REGISTRY_KEY_NONE,
    REGISTRY_KEY_TCP, // low, high: ports
    REGISTRY_KEY_QP,  // low: destination queue pair
    REGISTRY_KEY_UD,  // low, high: source and destination queue pair
    REGISTRY_KEY_CM,  // low: the sender's communication id
};

struct registry_key {
    struct in6_addr src, dst; // of the packet
    uint32_t kind;
    uint32_t low, high;
};

struct registry_slot {
    struct registry_key key;
    uint32_t index;
    uint32_t side; // of the connection, that sends packets with this key
};

bool registry_table_find(const struct registry *r, const struct registry_key *key,
                         struct registry_sighting *ret);
// Puts a key, or moves it from an older connection. False: no room.
bool registry_table_put(struct registry *r, const struct registry_key *key, uint32_t index,
                        unsigned side);
// A new connection whose side 0 has sent the packet. False: no room; the packet was counted.
bool registry_table_begin(struct registry *r, const struct frame *f, struct registry_sighting *ret);
