// What is in flight: one record per segment that was sent and is not acknowledged, in the order of
// the sequence space, and what became of each (RFC 6675 section 3, RFC 8985 section 5.2). The
// payload is the send queue's.
//
//    una ├──────┼──────┼─────────────────┼──────┼──────┤ nxt
//         lost   sent   SACKed (joined)   sent   sent
//
// Every record is in one of three conditions: in the network (in the list `sent`, the earliest
// transmission first), lost (in the list `lost`, by sequence number, until it is sent again), or
// SACKed. SACKed neighbours are joined, so that a block that covers what was known
// before costs nothing again: everything here costs what is new, and a binary search.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/carve.h"
#include "base/list.h"
#include "base/time.h"
#include "tcp/seq.h"

enum tcp_sent_condition { TCP_SENT_IN_NETWORK, TCP_SENT_LOST, TCP_SENT_SACKED };

struct tcp_sent {
    struct list_link link; // `sent` or `lost` by its condition
    tcp_seq seq;
    tcp_seq end;        // behind its last octet, or behind its FIN
    instant_ns sent_at; // the last time
    uint64_t number;    // of that transmission, in the order of all
    uint32_t ts_value;  // of the last time (RFC 7323)
    uint16_t segments;  // 1, or how many SACKed ones were joined
    uint8_t condition;  // enum tcp_sent_condition
    bool was_retransmitted;
    bool has_psh, has_fin; // of its last segment
};

struct tcp_scoreboard {
    struct tcp_sent *pool;
    unsigned used;         // records of the pool that ever were; those behind are free, untouched
    struct list_link free; // of those before
    uint16_t *order;       // a ring of indices into the pool, by sequence number
    unsigned first, count, max;
    struct list_link sent, lost;
    uint64_t transmissions; // so far

    uint32_t flight_len;      // octets (and FIN) of all records
    uint32_t sacked_len;      // of those SACKed
    uint32_t lost_len;        // of those lost
    uint32_t sacked_segments; // as they were sent
};

// One segment newly acknowledged, cumulatively or by SACK, is told to whom it concerns before its
// record goes.
struct tcp_delivery_port {
    void (*on_delivered)(void *ctx, const struct tcp_sent *sent);
    void *ctx;
};

// Its arrays lie in `memory`.
void tcp_scoreboard_init(struct tcp_scoreboard *sb, unsigned max, struct carve *memory);

// Octets in the network by our reckoning (RFC 6675: pipe).
static inline uint32_t tcp_scoreboard_pipe(const struct tcp_scoreboard *sb)
{
    return sb->flight_len - sb->sacked_len - sb->lost_len;
}

// A new segment, behind all others, was sent with these of TCP_PSH and TCP_FIN. There must be room.
void tcp_scoreboard_on_sent(struct tcp_scoreboard *sb, tcp_seq seq, tcp_seq end, uint8_t flags,
                            instant_ns now, uint32_t ts_value);
// A lost or unacknowledged one was sent again.
void tcp_scoreboard_on_resent(struct tcp_scoreboard *sb, struct tcp_sent *sent, instant_ns now,
                              uint32_t ts_value);

// All before `una` is acknowledged. / [left, right) is; records that lie in it in part are not.
// Returns how many octets that were not known to have arrived.
uint32_t tcp_scoreboard_ack(struct tcp_scoreboard *sb, tcp_seq una,
                            const struct tcp_delivery_port *port);
uint32_t tcp_scoreboard_sack(struct tcp_scoreboard *sb, tcp_seq left, tcp_seq right,
                             const struct tcp_delivery_port *port);

void tcp_scoreboard_mark_lost(struct tcp_scoreboard *sb, struct tcp_sent *sent);
// `sent` ends at `seq` from now on; the rest of it, which is not SACKed, gets a record of its own.
// There must be room.
void tcp_scoreboard_split(struct tcp_scoreboard *sb, struct tcp_sent *sent, tcp_seq seq);
// None of the lost is: they are in the network, as before.
void tcp_scoreboard_unmark_lost(struct tcp_scoreboard *sb);
// What the peer once SACKed it no longer has (RFC 2018 section 8): as in the network.
void tcp_scoreboard_forget_sacks(struct tcp_scoreboard *sb);

// The record at this place in sequence order; the first of the lost; the last of all. NULL: none.
struct tcp_sent *tcp_scoreboard_at(const struct tcp_scoreboard *sb, unsigned index);
struct tcp_sent *tcp_scoreboard_first_lost(const struct tcp_scoreboard *sb);
struct tcp_sent *tcp_scoreboard_last(const struct tcp_scoreboard *sb);

void tcp_scoreboard_check(const struct tcp_scoreboard *sb);
