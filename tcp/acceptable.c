#include "tcp/acceptable.h"

bool tcp_segment_is_acceptable(tcp_seq seq, uint64_t len, tcp_seq nxt, tcp_seq edge)
{
    if (edge <= nxt) { // a shut window
        return len == 0 && seq == nxt;
    }
    bool begins_in_it = nxt <= seq && seq < edge;
    if (len == 0) {
        return begins_in_it;
    }
    tcp_seq last = seq + len - 1;
    return begins_in_it || (nxt <= last && last < edge);
}

enum tcp_rst_verdict tcp_rst_judge(tcp_seq seq, tcp_seq nxt, tcp_seq edge)
{
    if (seq == nxt) {
        return TCP_RST_EXACT;
    }
    return nxt < seq && seq < edge ? TCP_RST_CHALLENGE : TCP_RST_OUTSIDE;
}

enum tcp_ack_verdict tcp_ack_judge(tcp_seq ack, tcp_seq una, tcp_seq nxt, uint32_t max_wnd)
{
    if (ack > nxt) {
        return TCP_ACK_NEW;
    }
    return ack + max_wnd < una ? TCP_ACK_OLD : TCP_ACK_OK;
}

bool tcp_challenges_take(struct tcp_challenges *c, uint32_t max, instant_ns now)
{
    if (now - c->since >= NS_PER_S) {
        *c = (struct tcp_challenges){.since = now};
    }
    if (c->count >= max) {
        return false;
    }
    c->count++;
    return true;
}
