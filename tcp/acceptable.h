// Whether a segment lies where one may: the tests of RFC 9293 section 3.10.7.4, first step, and of
// RFC 5961. Pure functions of numbers.
#pragma once

#include <stdbool.h>
#include <stdint.h>

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
