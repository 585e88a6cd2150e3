// A push: a process writes into another's memory by process_vm_writev, and the other can take that
// back at any instant. Soundly: when local_slot_revoke returns, no octet of a push by that key
// comes any more, wherever an honest pusher was stopped or killed.
//
// The slot lies in memory of both and *is* the list of places of the system call:
//
//     who pushes                            whose memory it is
//     writes the places, comes in           withdraws the key, or closes the gate
//     ---- full fence ----                  ---- full fence ----
//     looks whether the key is shown and    looks whether somebody is in: if so, takes away the
//     the gate is open; if so, calls        first place and waits until he has left, or the thread
//     leaves                                that the slot names is outside of the call
//
// Either the one sees the key withdrawn or the other sees him in. The kernel reads the places once,
// at the beginning of the call, and writes to them in their order: a thread that was outside of it
// when the first was nowhere any more writes nothing. There is no time-out; but who waits asks
// again and again, and holds nothing meanwhile that others wait for.
//
// In front of every push stand eight octets to the *sill*, memory of the same process at an address
// that was drawn at random. A process that has called exec since, or that has the number of one
// that died, has nothing there: the call fails before it has written anything.
//
// The memory of both is hostile. What the other side writes here can make this one write its octets
// elsewhere in that other process, which could do so itself: whose number comes from the kernel,
// never from here, where it could be a third one's; or whoever takes a key back wait, for
// as long as a thread of it says that it is in.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/check.h"
#include "base/key_mirror.h"
#include "base/span.h"

enum {
    LOCAL_SILL_LEN = 8,
    LOCAL_SLOT_SILL = 0, // places, in the order of the call
    LOCAL_SLOT_BODY = 1,
    LOCAL_SLOT_TAIL = 2, // the last octets, seen behind all others
    LOCAL_SLOT_PLACES = 3,
};

// struct iovec, as the kernel reads it while the other side may write it.
struct local_place {
    _Atomic uint64_t addr, len;
};

STATIC_CHECK(sizeof(struct local_place) == sizeof(struct iovec));
STATIC_CHECK(offsetof(struct local_place, len) == offsetof(struct iovec, iov_len));

// Written by who pushes; zeroed memory: nobody is in. Where the sill is both sides write.
struct local_slot {
    _Atomic uint64_t generation; // of the key that he writes by; 0: nobody is in
    _Atomic uint64_t turn;       // one more each time that somebody comes in
    _Atomic uint64_t thread;     // his number
    _Atomic uint64_t opening;    // of the gate that he came in by
    struct local_place places[LOCAL_SLOT_PLACES];
};

// Written by whose memory it is; zeroed memory: closed.
struct local_gate {
    _Atomic uint64_t opening;   // 0: closed; one more each time that it is opened
    _Atomic uint64_t pd;        // the domain in which the peer may write or read
    _Atomic uint64_t rights;    // ... and which of both: enum key_right, or-ed
    _Atomic uint64_t mirror_fd; // his descriptor of the memory with struct key_mirror
    _Atomic uint64_t sill;      // address: eight octets to be written, and behind them ...
    _Atomic uint64_t nonce;     // ... this, to be read by who tries whether he may
};

/* ---- who pushes ------------------------------------------------------------------------------ */

struct local_pusher {
    struct local_slot *slot;
    const _Atomic uint64_t *gate; // where its opening stands
    uint64_t opening;             // ... as it was looked at
    uint64_t sill;
    pid_t process;
};

// Says that `len` octets, at least one, are about to be written at `addr`, by the key. True:
// he is in, and may; local_slot_call and _leave follow. False: the key is withdrawn, or the gate is
// closed; he is out.
bool local_slot_enter(const struct local_pusher *p, const struct key *key, uint64_t addr,
                      size_t len);
// 0; -EAGAIN: not all octets, since memory ends; -EFAULT: nothing, since it was taken back or the
// sill is missing; or another negative errno of the call. Whoever is in stays in.
int local_slot_call(const struct local_pusher *p, const uint8_t *octets, size_t len);
void local_slot_leave(const struct local_pusher *p);
// All of that: the octets are there. Our own memory, which may have to be fetched too, is read
// before the other process has to wait for us. False: nothing that does no harm to do again.
bool local_slot_push(const struct local_pusher *p, const struct key *key, uint64_t addr,
                     const struct span *pieces, unsigned count, size_t len);

/* ---- whose memory it is ---------------------------------------------------------------------- */

#define LOCAL_SLOT_ANY UINT64_MAX // whatever the key

// Behind the withdrawal of the key, and again until it says true: nobody writes by it any more.
bool local_slot_revoke(struct local_slot *slot, uint64_t generation, pid_t process);
// Behind the closing of a gate, likewise: nobody is in by that opening, which no other gate ever
// has.
bool local_slot_expel(struct local_slot *slot, uint64_t opening, pid_t process);
