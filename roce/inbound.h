// A message of a connected peer as its packets arrive, from the first to the last: Sends go to
// receives, Writes to the memory that they name. What becomes of a packet that cannot be done is
// its service's to say: a reliable connection refuses it, an unreliable one drops the message.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"
#include "mem/table.h"
#include "mem/verdict.h"
#include "wire/roce.h"
#include "wq/scatter.h"
#include "wq/status.h"
#include "wq/wq.h"

struct inbound {
    bool is_open;        // begun, and its last packet is not here yet
    enum roce_kind kind; // ROCE_KIND_SEND or ROCE_KIND_WRITE
    uint64_t arrived_len;
    uint64_t length;          // a Write's
    uint64_t va;              // a Write's
    uint32_t rkey;            // a Write's
    struct mspan place;       // a Write's, all of it, if it is in one piece
    uint64_t place_version;   // ... and as long as mem_table_version is this; 0: it is not
    uint32_t place_denied;    // ... and the queue pair denies as much
    struct recv_wqe *receive; // claimed; NULL: none
    // What its receiver has found out before inbound_end: the number in it, and that it closed a
    // one-shot region.
    bool has_reference, is_close;
    uint64_t reference;
    struct scatter scatter;
};

// How octets of a Write get to their place; NULL: they are copied there (base/place.h).
struct inbound_placer {
    void (*place)(void *ctx, uint8_t *to, struct span octets);
    void *ctx;
};

enum inbound_verdict {
    INBOUND_OK,
    INBOUND_MEMORY,   // not for the peer to write: *ret_memory says why
    INBOUND_TOO_LONG, // longer than its receive
    INBOUND_LOCAL,    // its receive names memory that is not usable
};

// Does it go on with what came before, or begin when nothing is open?
bool inbound_is_in_order(const struct inbound *in, const struct roce_packet *p);
// Is its payload as long as its opcode, the path MTU and its message say?
bool inbound_fits(const struct inbound *in, const struct roce_packet *p, uint32_t path_mtu);

// May the peer have all the memory that this packet names? For Reads as for Writes, whose place is
// remembered for the packets that follow.
enum mem_verdict inbound_check_memory(struct inbound *in, const struct wq *wq,
                                      struct mem_asker asker, const struct roce_packet *p);

// Takes a receive, or the one that it still holds of a message that was dropped. False: none is
// posted.
bool inbound_claim(struct inbound *in, struct wq *wq);
// Places the payload, of the first packet of a message too.
enum inbound_verdict inbound_place(struct inbound *in, struct wq *wq, struct mem_asker asker,
                                   const struct roce_packet *p, const struct inbound_placer *placer,
                                   enum mem_verdict *ret_memory);
// The last packet has been placed: a receive that it needs completes.
void inbound_end(struct inbound *in, struct wq *wq, const struct roce_packet *p);

// The receive completes with an error. The message is the caller's to drop.
void inbound_fail(struct inbound *in, struct wq *wq, enum wc_status status);
// Everything ends: the receive is flushed ...
void inbound_flush(struct inbound *in, struct wq *wq);
// ... or goes back unused (that of an SRQ; a queue of its own is about to be reset).
void inbound_forget(struct inbound *in, struct wq *wq);
