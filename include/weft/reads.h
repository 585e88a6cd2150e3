// How weft's devices divide RDMA Reads, while they run. A Read is asked for in requests of at most
// one allotment each; what a program sets here reaches the peers of its connections too, and the
// smaller wish of both ends holds. docs/preemptible-reads.md has it at length, `weft reads` does
// the same from outside.
//
// Functions of libweft.so.1, from any thread; none blocks on a peer. They are about all devices of
// the process that are up (that of RoCEv2 is with its first context), and bring that of iWARP up
// if none is. 0 or a negative errno: why there is no device.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Among the send_flags of an RDMA Read: it may go before what is left of Reads that were posted to
// its queue pair before it, which are asked for in parts. Its completion stays behind theirs. With
// any other work request it is an error; other devices do not know it.
enum { WEFT_READ_MAY_PASS = 1 << 15 };

struct weft_reads {
    uint32_t allotment;       // octets that one request fetches at most, now; 0: undivided
    uint32_t allotment_base;  // ... when nothing bends it: WEFT_READ_ALLOTMENT, or what was set
    uint32_t contexts;        // requests that may be out at a time
    uint32_t contexts_in_use; // of them out now
    uint32_t waiting;         // queue pairs that wait for one
};

int weft_reads_query(struct weft_reads *ret); // of the first of them, iWARP before RoCEv2

// -EINVAL: more than 2^30 octets. Until the next call; no path raises it.
int weft_reads_set_allotment(uint32_t octets);
// As if none had been set: WEFT_READ_ALLOTMENT again, and the path's length may raise it.
int weft_reads_release_allotment(void);

// The program knows that memory is short, or that it no longer is: a quarter of the base meanwhile.
int weft_reads_set_memory_short(bool is_short);

#ifdef __cplusplus
}
#endif
