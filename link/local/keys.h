// Keys in memory: this process' own, for its peers to read, and those of a peer; with them, where
// packets carry queue pairs, which of these take Writes. A peer's are had by its descriptor
// (pidfd_getfd), which takes the same leave as writing into its memory does; so who may not write
// cannot read them either, and nobody has to hand them over.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/gate_mirror.h"
#include "base/key_mirror.h"
#include "base/list.h"

struct local_gate;
struct trace;

// What others see. Of pages that nothing is shown in there are none.
struct local_shown {
    struct key_mirror keys;
    struct gate_mirror gates;
};

// Of this process: a sealed memfd that others map for reading alone, and the sill (slot.h).
struct local_own_keys {
    struct local_shown *shown; // NULL: none
    int fd;
    uint8_t *sill; // eight octets for peers to write, and eight for them to read
    uint64_t nonce;
};

// What is shown; it is made when it is first asked for. NULL: it cannot be, as the trace says.
struct local_shown *local_own_keys_show(struct local_own_keys *own, struct trace *trace);
// Writes into the gate where they are had; there are such.
void local_own_keys_name(const struct local_own_keys *own, struct local_gate *gate);
void local_own_keys_destroy(struct local_own_keys *own); // harmless when there is none
// The child of a fork: the memory is not its own (MADV_DONTFORK).
void local_own_keys_abandon(struct local_own_keys *own);

// What is known of another process; one for all streams to it.
struct local_peer_keys {
    struct list_link link;
    pid_t process;
    uint64_t nonce;
    const struct local_shown *shown; // NULL: none
    unsigned out_count;              // streams that read it just now without the lock
};

// Maps the keys that the gate names, and tries whether the kernel lets this process write there: by
// reading the nonce and writing to the sill. 0 or a negative errno, which says that it does not.
int local_peer_keys_open(struct local_peer_keys *peer, const struct local_gate *gate,
                         pid_t process);
void local_peer_keys_close(struct local_peer_keys *peer);
