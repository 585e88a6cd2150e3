#include "base/key_mirror.h"

#include "base/shared_word.h"

// The lowest octet of an STag may be its user's choice: the others spread well enough.
static unsigned bucket_of(uint32_t stag)
{
    return (uint32_t)(stag * 2654435761U) >> (32 - KEY_MIRROR_BUCKET_BITS);
}

bool key_mirror_show(struct key_mirror *mirror, const struct key *key)
{
    struct key_entry *bucket = mirror->entries[bucket_of(key->stag)];
    CHECK(key->generation != 0);
    for (unsigned way = 0; way < KEY_MIRROR_WAYS; way++) {
        struct key_entry *entry = &bucket[way];
        if (word_load(&entry->generation) != 0) {
            continue;
        }
        // Behind the 0 that withdrew the last one: who read that one sees it gone.
        atomic_thread_fence(memory_order_release);
        word_store(&entry->name, key->stag | (uint64_t)key->pd << 32);
        word_store(&entry->base_to, key->base_to);
        word_store(&entry->length, key->length);
        word_store(&entry->addr, key->addr);
        word_store(&entry->rights, key->rights);
        atomic_store_explicit(&entry->generation, key->generation, memory_order_release);
        return true;
    }
    return false;
}

uint64_t key_mirror_withdraw(struct key_mirror *mirror, uint32_t stag)
{
    struct key_entry *bucket = mirror->entries[bucket_of(stag)];
    for (unsigned way = 0; way < KEY_MIRROR_WAYS; way++) {
        uint64_t generation = word_load(&bucket[way].generation);
        if (generation != 0 && (uint32_t)word_load(&bucket[way].name) == stag) {
            atomic_store_explicit(&bucket[way].generation, 0, memory_order_seq_cst);
            return generation;
        }
    }
    return 0;
}

static bool entry_read(const struct key_entry *entry, struct key *ret)
{
    uint64_t generation = atomic_load_explicit(&entry->generation, memory_order_acquire);
    uint64_t name = word_load(&entry->name);
    *ret = (struct key){
        .generation = generation,
        .stag = (uint32_t)name,
        .pd = (uint32_t)(name >> 32),
        .base_to = word_load(&entry->base_to),
        .length = word_load(&entry->length),
        .addr = word_load(&entry->addr),
        .rights = (unsigned)word_load(&entry->rights),
        .entry = entry,
    };
    atomic_thread_fence(memory_order_acquire);
    return generation != 0 && word_load(&entry->generation) == generation;
}

bool key_mirror_find(const struct key_mirror *mirror, uint32_t stag, struct key *ret)
{
    const struct key_entry *bucket = mirror->entries[bucket_of(stag)];
    for (unsigned way = 0; way < KEY_MIRROR_WAYS; way++) {
        if ((uint32_t)word_load(&bucket[way].name) == stag && entry_read(&bucket[way], ret) &&
            ret->stag == stag) {
            return true;
        }
    }
    return false;
}

bool key_is_shown(const struct key *key)
{
    return atomic_load_explicit(&key->entry->generation, memory_order_seq_cst) == key->generation;
}

bool key_resolve(const struct key *key, uint32_t pd, uint64_t to, uint64_t len, uint64_t *ret_addr)
{
    if (key->pd != pd || to < key->base_to) {
        return false;
    }
    uint64_t offset = to - key->base_to;
    if (offset > key->length || len > key->length - offset) {
        return false;
    }
    *ret_addr = key->addr + offset;
    return true;
}
