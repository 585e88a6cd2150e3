// Whether a segment lies where one may: the tests of RFC 9293 section 3.10.7.4, first step, and of
// RFC 5961; and how often one that does not is answered.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"
#include "tcp/seq.h"

// Table 6: a segment of `len` octets (SYN and FIN count one each) at `seq`, the window being
// [nxt, edge).
bool tcp_segment_is_acceptable(tcp_seq seq, uint64_t len, tcp_seq nxt, tcp_seq edge);

enum tcp_rst_verdict {
    TCP_RST_OUTSIDE,   // nothing happens
    TCP_RST_CHALLENGE, // in the window: who sent it is asked
    TCP_RST_EXACT,     // believed
};

// RFC 5961 section 3.2.
enum tcp_rst_verdict tcp_rst_judge(tcp_seq seq, tcp_seq nxt, tcp_seq edge);

enum tcp_ack_verdict {
    TCP_ACK_OK,
    TCP_ACK_OLD, // below SND.UNA by more than the largest window ever
    TCP_ACK_NEW, // beyond SND.NXT
};

// RFC 5961 section 5.2.
enum tcp_ack_verdict tcp_ack_judge(tcp_seq ack, tcp_seq una, tcp_seq nxt, uint32_t max_wnd);

// RFC 5961 section 7: at most so many challenge ACKs in a second.
struct tcp_challenges {
    instant_ns since;
    uint32_t count;
};

// Whether one more may be sent; it is counted then.
bool tcp_challenges_take(struct tcp_challenges *c, uint32_t max, instant_ns now);
