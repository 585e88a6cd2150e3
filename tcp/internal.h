// What the files of tcp/ call of each other, by owner. From outside come in: tcp.c, with what the
// user asks for, and input.c, with what arrives. invariants.c is tcp_check, counters.c adds up.
#pragma once

#include "tcp/tcb.h"

/* ---- tcp.c: states --------------------------------------------------------------------------- */

// Moves the state and does what goes with it: events, timers.
void tcp_enter(struct tcb *tcb, enum tcp_input input, instant_ns now);
// CLOSED by `input`, with this status; what is due is forgotten, but for a reset.
void tcp_end(struct tcb *tcb, enum tcp_input input, int status);
// The peer is to hear that the connection is over, where it may not know.
void tcp_owe_reset(struct tcb *tcb);
// Another segment says what the peer should know of `segment` (RFC 9293 section 3.10.7.1).
void tcp_owe_reset_for(struct tcb *tcb, const struct tcp_segment *segment);
// An ACK in answer to something doubtful, if there were not too many (RFC 5961 section 7).
void tcp_owe_challenge(struct tcb *tcb, instant_ns now);
// The segment size has become known, smaller, or again what it was.
void tcp_set_mss(struct tcb *tcb, uint16_t mss);
// It becomes no larger than this; segments outstanding that are longer are lost.
void tcp_lessen_mss(struct tcb *tcb, uint16_t mss);

/* ---- ack.c: what the peer acknowledges ------------------------------------------------------- */

// An acceptable ACK, in a synchronized state or SYN-RECEIVED.
void tcp_on_ack(struct tcb *tcb, const struct tcp_segment *segment, instant_ns now);
// The window of a segment (RFC 9293 section 3.10.7.4); `scale` is 0 for a SYN's.
void tcp_update_window(struct tcb *tcb, const struct tcp_header *h, uint8_t scale);
// Octets were sent: there are more in the network.
void tcp_note_pipe(struct tcb *tcb);
// Losses that have come to light by waiting.
void tcp_on_reorder_timer(struct tcb *tcb, instant_ns now);

/* ---- timers.c: what makes them wait; expiry.c: what they do ---------------------------------- */

// Octets (or a SYN or FIN) were sent. `is_new`: not again.
void tcp_timers_on_sent(struct tcb *tcb, bool is_new, instant_ns now);
// An ACK was looked at. `is_una_moved`: it acknowledges something new. `reorder_ns`: as
// tcp_loss_detect says.
void tcp_timers_on_ack(struct tcb *tcb, bool is_una_moved, duration_ns reorder_ns, instant_ns now);
// Nothing is outstanding, and the window keeps what waits.
void tcp_timers_on_window_shut(struct tcb *tcb, instant_ns now);
void tcp_timers_on_time_wait(struct tcb *tcb, instant_ns now);

/* ---- output.c -------------------------------------------------------------------------------- */

// How long the next new segment may be now; 0: none may go.
uint32_t tcp_next_segment_len(const struct tcb *tcb);
