#include "base/gate_mirror.h"

#include <string.h>

#include "base/shared_word.h"

static unsigned bucket_of(uint32_t qp_num)
{
    return (uint32_t)(qp_num * 2654435761U) >> (32 - GATE_MIRROR_BUCKET_BITS);
}

bool gate_is_alike(const struct gate *a, const struct gate *b)
{
    return a->qp_num == b->qp_num && a->peer_qp_num == b->peer_qp_num && a->pd == b->pd &&
           IN6_ARE_ADDR_EQUAL(&a->local, &b->local) && IN6_ARE_ADDR_EQUAL(&a->remote, &b->remote);
}

/* ---- whose queue pairs they are -------------------------------------------------------------- */

static void addrs_store(struct gate_entry *entry, const struct gate *gate)
{
    uint64_t words[4];
    memcpy(words, &gate->local, sizeof gate->local);
    memcpy(words + 2, &gate->remote, sizeof gate->remote);
    for (unsigned i = 0; i < 4; i++) {
        word_store(&entry->addrs[i], words[i]);
    }
}

struct gate_entry *gate_mirror_open(struct gate_mirror *mirror, const struct gate *gate,
                                    uint64_t opening)
{
    struct gate_entry *bucket = mirror->entries[bucket_of(gate->qp_num)];
    CHECK(opening != 0);
    for (unsigned way = 0; way < GATE_MIRROR_WAYS; way++) {
        struct gate_entry *entry = &bucket[way];
        if (word_load(&entry->opening) != 0) {
            continue;
        }
        // Behind the 0 that closed the last one: who read that one sees it gone.
        atomic_thread_fence(memory_order_release);
        word_store(&entry->qp_nums, gate->qp_num | (uint64_t)gate->peer_qp_num << 32);
        gate_mirror_follow(entry, gate);
        addrs_store(entry, gate);
        atomic_store_explicit(&entry->opening, opening, memory_order_release);
        return entry;
    }
    return NULL;
}

void gate_mirror_follow(struct gate_entry *entry, const struct gate *gate)
{
    word_store(&entry->due, gate->psn | (uint64_t)gate->pd << 32);
}

void gate_mirror_close(struct gate_entry *entry)
{
    atomic_store_explicit(&entry->opening, 0, memory_order_seq_cst);
}

/* ---- who reads them -------------------------------------------------------------------------- */

static bool entry_read(const struct gate_entry *entry, struct gate *ret, uint64_t *ret_opening)
{
    const uint64_t opening = atomic_load_explicit(&entry->opening, memory_order_acquire);
    const uint64_t qp_nums = word_load(&entry->qp_nums), due = word_load(&entry->due);
    uint64_t words[4];
    for (unsigned i = 0; i < 4; i++) {
        words[i] = word_load(&entry->addrs[i]);
    }
    *ret = (struct gate){.qp_num = (uint32_t)qp_nums,
                         .peer_qp_num = (uint32_t)(qp_nums >> 32),
                         .pd = (uint32_t)(due >> 32),
                         .psn = (uint32_t)due};
    memcpy(&ret->local, words, sizeof ret->local);
    memcpy(&ret->remote, words + 2, sizeof ret->remote);
    *ret_opening = opening;
    atomic_thread_fence(memory_order_acquire);
    return opening != 0 && word_load(&entry->opening) == opening;
}

const struct gate_entry *gate_mirror_find(const struct gate_mirror *mirror, uint32_t qp_num,
                                          struct gate *ret, uint64_t *ret_opening)
{
    const struct gate_entry *bucket = mirror->entries[bucket_of(qp_num)];
    for (unsigned way = 0; way < GATE_MIRROR_WAYS; way++) {
        if ((uint32_t)word_load(&bucket[way].qp_nums) == qp_num &&
            entry_read(&bucket[way], ret, ret_opening) && ret->qp_num == qp_num) {
            return &bucket[way];
        }
    }
    return NULL;
}
