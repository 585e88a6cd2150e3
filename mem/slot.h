// Private to mem/: the table's insides. A slot holds one object; a free slot waits in a queue,
// first in, first out, so that an index rests as long as possible before it is used again.
#pragma once

#include "base/check.h"
#include "base/span.h"
#include "mem/table.h"
#include "mem/verdict.h"

enum {
    SLOT_CHUNK_COUNT = 1024, // slots taken from the heap at a time
    SLOT_CHUNKS_MAX = MEM_CAPACITY_MAX / SLOT_CHUNK_COUNT,
    SLOT_FREE_MIN = SLOT_CHUNK_COUNT / 2, // the table grows before fewer are free
    SLOT_HINT_COUNT = 256,
};

#define SLOT_NONE UINT32_MAX

enum slot_kind {
    SLOT_FREE,
    SLOT_REGION,
    SLOT_WINDOW_1,
    SLOT_WINDOW_2,
    SLOT_SINK,
    SLOT_ONESHOT,
    SLOT_KIND_COUNT,
};

struct slot {
    uint32_t stag; // all 32 bits as given out; 0: free
    uint32_t pd;
    uint32_t qp_num;   // type 2 windows, one-shot regions and sinks: whose it is
    uint32_t link;     // free: the next in the queue; live: its own index
    uint32_t relation; // region: windows bound to it; bound window: the region's index; one-shot
                       // region: the owner's cookie
    uint16_t generation;
    uint8_t kind;   // enum slot_kind
    uint8_t access; // enum mem_access
    bool is_open;   // its STag is admitted: regions and sinks always, windows while bound, one-shot
                    // regions while advertised
    bool is_private; // admitted on qp_num only
    uint8_t list_count;
    uint64_t base_to; // number of its first octet
    uint64_t length;
    union {
        uint64_t list_offset; // sink, one-shot region: where in the list the part starts
        uint64_t early_end;   // bound type 2 window: see mem_note_early
    };
    union {
        uint8_t *addr;            // region, bound window: its first octet
        const struct sge *list;   // sink: the work request's scatter list
        struct mem_list *oneshot; // one-shot region, while open
    };
};

STATIC_CHECK(sizeof(struct slot) == 64);

struct slot_queue {
    uint32_t head;
    uint32_t tail;
    uint32_t count;
};

struct pd {
    bool is_live;
    uint32_t objects; // regions and windows in it
    uint32_t holders; // queue pairs and shared receive queues in it
};

struct mem_table {
    struct stag_cipher cipher;
    struct mem_probe probe;
    uint32_t capacity;
    uint32_t slot_count; // in all chunks
    uint32_t pd_count;   // length of pds, entry 0 unused
    uint32_t pd_search;  // no domain below is free
    struct pd *pds;
    struct slot_queue free;
    struct slot_queue free_sinks;
    uint32_t live[SLOT_KIND_COUNT];
    uint32_t region_max, window_max; // of live ones
    uint64_t verdicts[MEM_VERDICT_COUNT];
    uint64_t version; // see mem_table_version
    bool has_had_on_demand;
    struct key_mirror *mirror;  // NULL: nothing is shown
    uint64_t mirror_generation; // the last one used
    struct mem_revocation revocation;
    // The index last found for a name: saves inverting the permutation for every segment. A wrong
    // entry costs time only, since the slot's own STag is compared.
    uint32_t hints[SLOT_HINT_COUNT];
    struct slot *chunks[SLOT_CHUNKS_MAX];
};

// The slot of an index below slot_count.
static inline struct slot *slot_at(const struct mem_table *table, uint32_t index)
{
    return &table->chunks[index / SLOT_CHUNK_COUNT][index % SLOT_CHUNK_COUNT];
}

static inline enum mem_verdict count_verdict(struct mem_table *table, enum mem_verdict verdict)
{
    table->verdicts[verdict]++;
    return verdict;
}

// What was granted by way of a slot is not any more.
static inline void note_revoked(struct mem_table *table)
{
    table->version++;
}

static inline bool slot_is_window(const struct slot *slot)
{
    return slot->kind == SLOT_WINDOW_1 || slot->kind == SLOT_WINDOW_2;
}

// Adds a chunk of free slots. -ENOSPC at capacity, -ENOMEM.
int slots_grow(struct mem_table *table);

// Takes a free slot out of its queue and gives it an STag; the other fields are zero.
// -ENOSPC, -ENOMEM: also at the most that there may be of the kind.
int slot_take(struct mem_table *table, enum slot_kind kind, struct slot **ret);

// Gives the slot back: its STag is dead.
void slot_release(struct mem_table *table, struct slot *slot);

// A new STag for a live slot: the next generation's.
void slot_rename(struct mem_table *table, struct slot *slot);
// The same for one that only one peer may use: see stag_renew.
void slot_renew(struct mem_table *table, struct slot *slot);

// The live slot with this STag, all 32 bits equal; NULL.
struct slot *slot_find(struct mem_table *table, uint32_t stag);

// The live slot with these upper 24 bits; NULL.
struct slot *slot_find_name(struct mem_table *table, uint32_t stag);

void slot_queue_push(struct mem_table *table, struct slot_queue *queue, uint32_t index);
uint32_t slot_queue_pop(struct mem_table *table, struct slot_queue *queue);

bool pd_is_live(const struct mem_table *table, uint32_t pd);

// Does [to, to + len) lie in `length` octets numbered from `base_to`? MEM_OK, _WRAP or _BOUNDS.
enum mem_verdict range_check(uint64_t base_to, uint64_t length, uint64_t to, uint64_t len);

// Octets of a region or open window, which is known to hold them. Not by pointer arithmetic: the
// region may be the whole address space, from NULL on.
static inline struct mspan slot_memory(const struct slot *slot, uint64_t to, uint64_t len)
{
    uintptr_t first = (uintptr_t)slot->addr + (uintptr_t)(to - slot->base_to);
    return mspan_of((uint8_t *)first, (size_t)len);
}

// What a region or window on demand names: is it mapped, and writable if asked? Others: MEM_OK.
enum mem_verdict demand_check(const struct mem_table *table, const struct slot *slot,
                              struct mspan memory, bool writable);

// Is the slot open to this asker: MEM_OK, _INVALID_STAG, _WRONG_PD, _WRONG_QP. NULL is allowed.
static inline enum mem_verdict slot_admit(const struct slot *slot, struct mem_asker asker)
{
    if (slot == NULL || !slot->is_open) {
        return MEM_INVALID_STAG;
    }
    if (slot->pd != asker.pd) {
        return MEM_WRONG_PD;
    }
    if (slot->is_private && slot->qp_num != asker.qp_num) {
        return MEM_WRONG_QP;
    }
    return MEM_OK;
}

// The pieces of [to, to + len) of an open one-shot region, which is known to hold them: all, or
// `pieces_max`.
void oneshot_cut(const struct slot *slot, uint64_t to, uint64_t len, struct mspan *ret_pieces,
                 unsigned pieces_max, unsigned *ret_count);

// mem_resolve_sge without counting the verdict.
enum mem_verdict local_resolve(struct mem_table *table, uint32_t pd, const struct sge *sge,
                               bool write, struct mspan *ret);
