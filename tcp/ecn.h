// Explicit congestion notification (RFC 3168 section 6.1): a router marks what it would have
// dropped, the receiver echoes that with every ACK (ECE) until the sender says that its window has
// become smaller (CWR). Flags and positions only; by how much it becomes smaller is said by
// tcp/recovery.h.
//
//   tcp_ecn_syn_flags, tcp_ecn_syn_ack_flags, tcp_ecn_is_syn_ack    what the two SYNs say
//   tcp_ecn_on_octets                                               as receiver of octets
//   tcp_ecn_is_echo, tcp_ecn_is_new_echo, tcp_ecn_on_reduced, tcp_ecn_on_sent   as sender
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "tcp/seq.h"
#include "tcp/tcp.h"
#include "wire/tcp.h"

struct tcp_ecn {
    bool is_agreed;
    bool is_echoing; // a mark has come, and no CWR since
    bool is_cwr_due; // the window became smaller, which the next new octets say
    tcp_seq reduced; // what had been sent when it did: its marks are answered
};

// Of a SYN: asks for it (an ECN-setup SYN, section 6.1.1), or does not. One that somebody on the
// way may have dropped for these flags comes again without them (section 6.1.1.1).
static inline uint8_t tcp_ecn_syn_flags(const struct tcp_config *config, bool is_again)
{
    return config->ecn == TCP_ECN_REQUEST && !is_again ? TCP_ECE | TCP_CWR : 0;
}

// Of the SYN,ACK that answers a SYN with these flags.
static inline uint8_t tcp_ecn_syn_ack_flags(const struct tcp_config *config, uint8_t syn_flags)
{
    bool is_asked = (syn_flags & (TCP_ECE | TCP_CWR)) == (TCP_ECE | TCP_CWR);
    return is_asked && config->ecn != TCP_ECN_OFF ? TCP_ECE : 0;
}

// An ECN-setup SYN,ACK. Both flags at once are what an old peer copies from the SYN.
static inline bool tcp_ecn_is_syn_ack(uint8_t flags)
{
    return (flags & (TCP_ECE | TCP_CWR)) == TCP_ECE;
}

// Octets have come, in a segment with these flags, and maybe marked. Returns whether the sender
// should hear of it at once.
static inline bool tcp_ecn_on_octets(struct tcp_ecn *ecn, uint8_t flags, bool is_marked)
{
    bool is_answered = ecn->is_agreed && (flags & TCP_CWR) != 0;
    bool is_new = ecn->is_agreed && is_marked && (!ecn->is_echoing || is_answered);
    ecn->is_echoing = (ecn->is_echoing && !is_answered) || is_new;
    return is_new || is_answered;
}

// Whether an ACK echoes a mark.
static inline bool tcp_ecn_is_echo(const struct tcp_ecn *ecn, uint8_t flags)
{
    return ecn->is_agreed && (flags & TCP_ECE) != 0;
}

// ... one that nothing has been done about. What was sent before the window became smaller, and CWR
// behind it, has its marks echoed for a round trip still (section 6.1.2).
static inline bool tcp_ecn_is_new_echo(const struct tcp_ecn *ecn, uint8_t flags, tcp_seq ack)
{
    return tcp_ecn_is_echo(ecn, flags) && ack > ecn->reduced;
}

// The window has become smaller, whatever for. `nxt`: SND.NXT.
static inline void tcp_ecn_on_reduced(struct tcp_ecn *ecn, tcp_seq nxt)
{
    ecn->is_cwr_due = ecn->is_agreed;
    ecn->reduced = nxt;
}

// New octets have left in a segment with these flags.
static inline void tcp_ecn_on_sent(struct tcp_ecn *ecn, uint8_t flags)
{
    ecn->is_cwr_due = ecn->is_cwr_due && (flags & TCP_CWR) == 0;
}
