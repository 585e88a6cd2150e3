// What a process shows its peers on the same host of its keys: a table in memory that it alone
// writes and they may only read. Who wants to write into that process' memory finds the key here,
// and looks again, behind a full fence, when it has said that it is about to. Who wants to read
// from it looks again behind that.
//
// mem/ writes it, link/ reads that of others. Only regions open for remote Writes or Reads are
// shown, and of those only what finds room in its bucket: what is not here goes the way that needs
// no mirror.
//
// **Generations.** 64 bits, one for each time that a key is shown, never the same twice.
// Withdrawing sets an entry's generation to 0; so who has read a generation, and finds it there
// again, has read an entry that was as it is.
//
// What is read here is another process': a key that lies leads to a copy that the kernel refuses,
// or to memory of that process.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"

enum {
    KEY_MIRROR_WAYS = 8, // entries of a bucket
    KEY_MIRROR_BUCKET_BITS = 11,
    KEY_MIRROR_BUCKETS = 1 << KEY_MIRROR_BUCKET_BITS,
};

// What a key is good for, and what a queue pair lets its peer do.
enum key_right { KEY_MAY_WRITE = 1, KEY_MAY_READ = 2 };

struct key_entry {
    _Atomic uint64_t generation; // 0: empty
    _Atomic uint64_t name;       // STag, and from bit 32 on the protection domain
    _Atomic uint64_t base_to;    // number of its first octet
    _Atomic uint64_t length;
    _Atomic uint64_t addr;   // its first octet, in the process whose it is
    _Atomic uint64_t rights; // enum key_right, or-ed
    uint64_t rest[2];
};

STATIC_CHECK(sizeof(struct key_entry) == 64);

// Zeroed memory is an empty one.
struct key_mirror {
    struct key_entry entries[KEY_MIRROR_BUCKETS][KEY_MIRROR_WAYS];
};

// A key as it was read.
struct key {
    uint64_t generation;
    uint32_t stag, pd;
    uint64_t base_to, length, addr;
    unsigned rights; // enum key_right, or-ed
    const struct key_entry *entry;
};

/* ---- whose keys they are --------------------------------------------------------------------- */

// Shows a key, by a generation that was never used. False: its bucket is full.
bool key_mirror_show(struct key_mirror *mirror, const struct key *key);
// Takes it back; returns its generation, 0 if it is not shown. The caller then waits for those who
// have read it before.
uint64_t key_mirror_withdraw(struct key_mirror *mirror, uint32_t stag);

/* ---- who reads them -------------------------------------------------------------------------- */

// False: there is no such key, or it goes or comes just now.
bool key_mirror_find(const struct key_mirror *mirror, uint32_t stag, struct key *ret);
// It is still shown. Behind the caller's fence.
bool key_is_shown(const struct key *key);
// Where [to, to + len) lies, for who has this domain. False: not within the key.
bool key_resolve(const struct key *key, uint32_t pd, uint64_t to, uint64_t len, uint64_t *ret_addr);
static inline bool key_allows(const struct key *key, enum key_right right)
{
    return (key->rights & right) != 0;
}
