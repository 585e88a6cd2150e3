#include "tcp/loss.h"

#include "base/check.h"
#include "base/list.h"
#include "base/serial.h"

void tcp_loss_init(struct tcp_loss *loss, tcp_seq una)
{
    *loss = (struct tcp_loss){
        .rack = tcp_rack_start(una),
        .tlp = {.has_new_rtt = true},
    };
}

/* ---- RACK ------------------------------------------------------------------------------------ */

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

void tcp_loss_on_timeout(struct tcp_loss *loss, struct tcp_scoreboard *sb,
                         const struct tcp_rtt *rtt, instant_ns now)
{
    duration_ns wait = loss->rack.rtt_ns + reordering_window(&loss->rack, sb, true, rtt);
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
