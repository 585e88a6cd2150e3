#include "tcp/rack.h"

#include "base/serial.h"

enum { REO_WND_PERSIST = 16, REO_WND_MULT_MAX = 1024 };

struct tcp_rack tcp_rack_start(tcp_seq una)
{
    return (struct tcp_rack){.fack = una, .reo_wnd_mult = 1};
}

// Step 2. Of a segment that was sent again nothing is learned if the ACK may be the first one's.
static void update_segment(struct tcp_rack *rack, const struct tcp_ack_facts *facts,
                           const struct tcp_sent *sent)
{
    duration_ns rtt = facts->now - sent->sent_at;
    if (sent->was_retransmitted) {
        if (facts->has_ts_echo && serial_before(facts->ts_echo, sent->ts_value)) {
            return;
        }
        if (rtt < facts->least_rtt_ns) {
            return;
        }
    }
    rack->rtt_ns = rtt;
    if (sent->number > rack->number) {
        rack->number = sent->number;
    }
}

static void sample_rtt(struct tcp_ack_facts *facts, const struct tcp_sent *sent)
{
    duration_ns rtt = facts->now - sent->sent_at;
    if (!facts->has_rtt || rtt > facts->longest_rtt_ns) {
        facts->longest_rtt_ns = rtt;
    }
    if (!facts->has_rtt || rtt < facts->shortest_rtt_ns) {
        facts->shortest_rtt_ns = rtt;
    }
    facts->has_rtt = true;
}

void tcp_rack_on_delivered(void *ctx, const struct tcp_sent *sent)
{
    struct tcp_ack_facts *facts = ctx;
    struct tcp_rack *rack = facts->rack;
    if (sent->was_retransmitted) { // Karn
        facts->has_resent = true;
    } else if (sent->number < facts->probe_number) {
        facts->has_waited = true;
    } else {
        sample_rtt(facts, sent);
    }
    update_segment(rack, facts, sent);
    if (sent->end > rack->fack) { // step 3
        rack->fack = sent->end;
    } else if (sent->end < rack->fack && !sent->was_retransmitted) {
        rack->reordering_seen = true;
        facts->has_reordering = true;
    }
}

void tcp_rack_adapt(struct tcp_rack *rack, bool has_dsack, bool has_ended_recovery, tcp_seq una,
                    tcp_seq nxt)
{
    if (rack->has_dsack_round && una >= rack->dsack_round) {
        rack->has_dsack_round = false;
    }
    if (!rack->has_dsack_round && has_dsack) {
        rack->has_dsack_round = true;
        rack->dsack_round = nxt;
        rack->reo_wnd_mult += rack->reo_wnd_mult < REO_WND_MULT_MAX;
        rack->reo_wnd_persist = REO_WND_PERSIST;
    } else if (has_ended_recovery && rack->reo_wnd_persist > 0 && --rack->reo_wnd_persist == 0) {
        rack->reo_wnd_mult = 1;
    }
}
