// The receive side between the wire and the place port: which octets are there, which have been
// handed up, what is kept for later, what the peer may send (RFC 9293 sections 3.4 and 3.8.6.2,
// RFC 2018, RFC 2883).
//
//      first …… handed ………… nxt ……………………………………… edge
//        handed up │ kept, the port │ holes and ranges │ not offered
//                  │ being stalled  │                  │
//
// `nxt` is acknowledged. On an open path handed == nxt; they part when the place port stalls.
// Buffered octets lie in a ring, each at its position modulo the ring's length: so every octet less
// than `buffer_len` beyond `handed` has a place of its own, whatever comes when.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/port_place.h"
#include "tcp/ranges.h"
#include "tcp/seq.h"
#include "tcp/tcp.h"
#include "wire/tcp.h"

// Octets [left, right): a range to the peer, to which placed and buffered ones that touch are one.
struct tcp_block {
    tcp_seq left, right;
};

enum { TCP_DSACK_MAX = 4 }; // at one look; further runs go unsaid

struct tcp_receive {
    struct place_port port;
    struct tcp_counters *counters;
    tcp_seq first;  // of the octet at position 0
    tcp_seq handed; // before: handed up
    tcp_seq nxt;    // RCV.NXT; behind the FIN once that is reached
    tcp_seq edge;   // RCV.NXT + RCV.WND as offered; never moves back
    tcp_seq fin;    // where the peer's FIN stands, valid with has_fin
    bool has_fin;
    bool is_stalled;
    uint32_t window_len;

    struct tcp_ranges ranges;
    uint8_t *buffer; // a ring; the octet at `ring_begin` would stand at its beginning
    tcp_seq ring_begin;
    uint32_t buffer_len;
    uint32_t buffered_len;

    struct tcp_block recent[TCP_SACK_BLOCK_MAX]; // those that changed last, the latest first
    unsigned recent_count;
    struct tcp_block dsack[TCP_DSACK_MAX]; // what came twice and was not reported yet, by runs
    unsigned dsack_count;
};

// Its arrays lie in `memory`.
void tcp_receive_init(struct tcp_receive *r, const struct tcp_config *config,
                      struct tcp_counters *counters, struct carve *memory);

// The peer's initial sequence number is known: positions begin behind its SYN.
void tcp_receive_begin(struct tcp_receive *r, uint32_t irs);

// Octets of a segment, the first of them at `seq`. What lies outside the window, beyond the FIN or
// is there already is left out; the rest is offered, and kept or not as the port says. Hands up
// whatever has become deliverable.
enum tcp_refusal tcp_receive_octets(struct tcp_receive *r, tcp_seq seq, struct span octets);

// Octets [left, right) came that are there already, as far as they lie before RCV.NXT: the peer is
// told (RFC 2883).
void tcp_receive_note_duplicate(struct tcp_receive *r, tcp_seq left, tcp_seq right);

// The peer's FIN stands at `seq`. It is held until all before it is there.
enum tcp_refusal tcp_receive_fin(struct tcp_receive *r, tcp_seq seq);

// All before the FIN is there: it is acknowledged. / And handed up.
bool tcp_receive_fin_is_reached(const struct tcp_receive *r);
bool tcp_receive_fin_is_handed(const struct tcp_receive *r);

void tcp_receive_resume(struct tcp_receive *r);

// Octets of the window to offer now; the edge that goes with it only if `is_sent`. It opens in
// steps worth a segment (RFC 9293 section 3.8.6.2.2).
uint32_t tcp_receive_window(const struct tcp_receive *r, uint32_t step);
void tcp_receive_on_window_sent(struct tcp_receive *r, uint32_t window);

static inline bool tcp_receive_has_holes(const struct tcp_receive *r)
{
    return r->ranges.count > 0 && r->ranges.range[r->ranges.count - 1].right > r->nxt;
}

// Up to `max` SACK blocks: first what came twice, then the ranges that changed latest, then others
// (RFC 2018 section 4, RFC 2883 section 4). Returns how many.
unsigned tcp_receive_sack(const struct tcp_receive *r, struct tcp_sack_block *blocks, unsigned max);
// The blocks have left: the run that was the first has been told.
void tcp_receive_on_sack_sent(struct tcp_receive *r);
// Nobody is to be told of what came twice.
void tcp_receive_forget_duplicates(struct tcp_receive *r);

void tcp_receive_check(const struct tcp_receive *r);
