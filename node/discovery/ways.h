// By which of its addresses each subsystem of a discovery service answered last. Where several do,
// that one is asked first, so that its volumes stay where they are when another one comes back.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/nvme.h>

#include "base/fnv.h"

enum { WAYS_MAX = 1024 }; // subsystems; those beyond are asked in the order of the log

struct ways {
    size_t count;
    struct {
        uint64_t subsystem, address; // their texts, as numbers
    } last[WAYS_MAX];
};

static inline uint64_t way_address(const struct weft_nvme_entry *entry)
{
    return fnv_text(fnv_text(fnv_text(FNV_START, entry->host), " "), entry->port);
}

// Its place, or `count`: it has none.
static inline size_t ways_find(const struct ways *ways, const struct weft_nvme_entry *entry)
{
    uint64_t subsystem = fnv_text(FNV_START, entry->nqn);
    size_t at = 0;
    while (at < ways->count && ways->last[at].subsystem != subsystem) {
        at++;
    }
    return at;
}

// Did the entry's subsystem answer at the entry's address last?
static inline bool ways_is_last(const struct ways *ways, const struct weft_nvme_entry *entry)
{
    size_t at = ways_find(ways, entry);
    return at < ways->count && ways->last[at].address == way_address(entry);
}

// It has answered there now.
static inline void ways_note(struct ways *ways, const struct weft_nvme_entry *entry)
{
    size_t at = ways_find(ways, entry);
    if (at == WAYS_MAX) {
        return;
    }
    ways->last[at].subsystem = fnv_text(FNV_START, entry->nqn);
    ways->last[at].address = way_address(entry);
    ways->count += at == ways->count;
}
