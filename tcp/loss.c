#include "tcp/loss.h"

#include "base/check.h"
#include "base/list.h"
#include "base/serial.h"

enum { REO_WND_PERSIST = 16, REO_WND_MULT_MAX = 1024 };

void tcp_loss_init(struct tcp_loss *loss, tcp_seq una)
{
    *loss = (struct tcp_loss){
        .rack = {.fack = una, .reo_wnd_mult = 1},
        .tlp = {.has_new_rtt = true},
    };
}

/* ---- RACK ------------------------------------------------------------------------------------ */

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

void tcp_loss_on_delivered(void *ctx, const struct tcp_sent *sent)
{
    struct tcp_ack_facts *facts = ctx;
    struct tcp_loss *loss = facts->loss;
    struct tcp_rack *rack = &loss->rack;
    if (sent->was_retransmitted) { // Karn
        facts->has_resent = true;
    } else if (sent->number < loss->probe_number) {
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

void tcp_loss_adapt(struct tcp_loss *loss, bool has_dsack, bool has_ended_recovery, tcp_seq una,
                    tcp_seq nxt)
{
    struct tcp_rack *rack = &loss->rack;
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

static duration_ns reordering_window(const struct tcp_rack *rack, const struct tcp_scoreboard *sb,
                                     bool is_in_recovery, const struct tcp_rtt *rtt)
{
    if (!rack->reordering_seen && (is_in_recovery || sb->sacked_segments >= TCP_DUP_THRESH)) {
        return 0;
    }
    duration_ns window = rack->reo_wnd_mult * tcp_rtt_least(rtt) / 4;
    return window < rtt->srtt_ns ? window : rtt->srtt_ns;
}

duration_ns tcp_loss_detect(struct tcp_loss *loss, struct tcp_scoreboard *sb, bool is_in_recovery,
                            const struct tcp_rtt *rtt, instant_ns now)
{
    const struct tcp_rack *rack = &loss->rack;
    duration_ns wait = rack->rtt_ns + reordering_window(rack, sb, is_in_recovery, rtt);
    duration_ns longest = 0;
    for (struct list_link *l = sb->sent.next, *next; l != &sb->sent; l = next) {
        struct tcp_sent *sent = LIST_ENTRY(l, struct tcp_sent, link);
        next = l->next;
        if (sent->number >= rack->number) {
            break;
        }
        if (sent->sent_at + wait <= now) {
            tcp_scoreboard_mark_lost(sb, sent);
        } else if (sent->sent_at + wait - now > longest) {
            longest = sent->sent_at + wait - now;
        }
    }
    return longest;
}

void tcp_loss_on_timeout(struct tcp_loss *loss, struct tcp_scoreboard *sb, bool is_in_recovery,
                         const struct tcp_rtt *rtt, instant_ns now)
{
    duration_ns wait = loss->rack.rtt_ns + reordering_window(&loss->rack, sb, is_in_recovery, rtt);
    struct tcp_sent *first = tcp_scoreboard_at(sb, 0);
    if (first != NULL && first->condition == TCP_SENT_IN_NETWORK) {
        tcp_scoreboard_mark_lost(sb, first);
    }
    for (struct list_link *l = sb->sent.next, *next; l != &sb->sent; l = next) {
        struct tcp_sent *sent = LIST_ENTRY(l, struct tcp_sent, link);
        next = l->next;
        if (sent->sent_at + wait <= now) {
            tcp_scoreboard_mark_lost(sb, sent);
        }
    }
}

/* ---- TLP ------------------------------------------------------------------------------------- */

duration_ns tcp_loss_probe_delay(const struct tcp_rtt *rtt, bool is_one_segment)
{
    if (rtt->srtt_ns == 0) {
        return TCP_PTO_INITIAL_NS;
    }
    return 2 * rtt->srtt_ns + (is_one_segment ? TCP_MAX_ACK_DELAY_NS : 0);
}

bool tcp_loss_may_probe(const struct tcp_loss *loss)
{
    return !loss->tlp.is_outstanding && loss->tlp.has_new_rtt;
}

void tcp_loss_on_probe_sent(struct tcp_loss *loss, tcp_seq end_seq, uint64_t number,
                            bool is_retrans)
{
    loss->probe_number = number;
    loss->tlp = (struct tcp_tlp){
        .is_outstanding = true,
        .is_retrans = is_retrans,
        .end_seq = end_seq,
    };
}

bool tcp_loss_on_probe_ack(struct tcp_loss *loss, tcp_seq una, bool has_dsack, bool is_dup_ack)
{
    struct tcp_tlp *tlp = &loss->tlp;
    if (!tlp->is_outstanding || una < tlp->end_seq) {
        return false;
    }
    if (!tlp->is_retrans || has_dsack) {
        tlp->is_outstanding = false;
    } else if (una > tlp->end_seq) {
        tlp->is_outstanding = false;
        return true;
    } else if (is_dup_ack) {
        tlp->is_outstanding = false;
    }
    return false;
}

void tcp_loss_forget_probe(struct tcp_loss *loss)
{
    loss->tlp.is_outstanding = false;
    loss->tlp.is_retrans = false;
}

/* ---- without SACK ---------------------------------------------------------------------------- */

bool tcp_loss_on_dup_ack(struct tcp_loss *loss)
{
    return ++loss->dup_acks == TCP_DUP_THRESH;
}
