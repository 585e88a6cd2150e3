// What a process shows its peers on the same host of its queue pairs on packets: a table in memory
// that it alone writes and they may only read, as that of its keys (base/key_mirror.h). A *gate* is
// a queue pair that takes Writes of one peer just now. Who wants to write past its packets finds
// the gate here, and looks again, behind a full fence, when he has said that he is about to.
//
// A gate says whatever a packet would be held against: between which queue pairs and addresses, in
// which protection domain, and the PSN that is due. So who finds the gate with his own next PSN
// knows that the packet would be taken, and that all before it was.
//
// **Openings.** 64 bits, one for each time that a gate is opened, never the same twice. Closing
// sets an entry's opening to 0. The PSN alone changes while it is open.
#pragma once

#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"

enum {
    GATE_MIRROR_WAYS = 8, // entries of a bucket
    GATE_MIRROR_BUCKET_BITS = 9,
    GATE_MIRROR_BUCKETS = 1 << GATE_MIRROR_BUCKET_BITS,
};

struct gate_entry {
    _Atomic uint64_t opening; // 0: empty
    _Atomic uint64_t qp_nums; // the queue pair's, and from bit 32 on its peer's
    _Atomic uint64_t due;     // the PSN, and from bit 32 on the protection domain
    _Atomic uint64_t addrs[4];
    uint64_t rest;
};

STATIC_CHECK(sizeof(struct gate_entry) == 64);

// Zeroed memory is an empty one.
struct gate_mirror {
    struct gate_entry entries[GATE_MIRROR_BUCKETS][GATE_MIRROR_WAYS];
};

// As whose it is sees it; IPv4 addresses are mapped.
struct gate {
    uint32_t qp_num, peer_qp_num;
    struct in6_addr local, remote;
    uint32_t pd;
    uint32_t psn; // of the next packet that it takes
};

// Between the same two queue pairs, in the same domain.
bool gate_is_alike(const struct gate *a, const struct gate *b);

/* ---- whose queue pairs they are -------------------------------------------------------------- */

// Opens a gate that is not open, by an opening that was never used. NULL: its bucket is full.
struct gate_entry *gate_mirror_open(struct gate_mirror *mirror, const struct gate *gate,
                                    uint64_t opening);
void gate_mirror_follow(struct gate_entry *entry, const struct gate *gate); // its PSN
// The caller then waits for those who have seen it open.
void gate_mirror_close(struct gate_entry *entry);

/* ---- who reads them -------------------------------------------------------------------------- */

// The entry of the gate of `qp_num`, with its opening; NULL: there is none, or it goes just now.
const struct gate_entry *gate_mirror_find(const struct gate_mirror *mirror, uint32_t qp_num,
                                          struct gate *ret, uint64_t *ret_opening);
