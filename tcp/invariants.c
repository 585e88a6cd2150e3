#include "base/check.h"
#include "tcp/internal.h"
#include "tcp/state.h"

static void check_send(const struct tcb *tcb)
{
    const struct tcp_send *snd = &tcb->snd;
    const struct tcp_scoreboard *sb = &tcb->scoreboard;
    CHECK(snd->iss <= snd->una);
    CHECK(snd->una <= snd->nxt);
    CHECK(tcb->sendq.begin == tcp_seq_min(tcp_seq_max(snd->una, snd->iss + 1), tcb->sendq.end));
    CHECK(snd->nxt <= tcb->sendq.end + snd->is_fin_sent);
    CHECK(!snd->is_fin_sent || snd->is_closing);
    if (sb->count > 0) {
        CHECK(tcp_scoreboard_at(sb, 0)->seq == snd->una);
        CHECK(tcp_scoreboard_last(sb)->end == snd->nxt);
    }
    bool is_shrinking = tcp_recovery_shrinks(&tcb->recovery);
    CHECK(tcb->cc.cwnd >= tcb->cc.mss || is_shrinking);
}

static void check_timers(const struct tcb *tcb)
{
    bool waits = tcb->timers.at[TCP_TIMER_SEND] != INSTANT_NEVER;
    if (tcb->state == TCP_STATE_CLOSED) {
        CHECK(tcp_next_deadline(tcb) == INSTANT_NEVER);
    } else if (tcb->scoreboard.count > 0 && tcb->state != TCP_STATE_TIME_WAIT) {
        CHECK(waits); // what is outstanding is never forgotten
        CHECK(tcb->rto_at != INSTANT_NEVER);
    }
}

void tcp_check(const struct tcb *tcb)
{
    tcp_sendq_check(&tcb->sendq);
    tcp_scoreboard_check(&tcb->scoreboard);
    if (tcb->state == TCP_STATE_CLOSED) {
        return;
    }
    check_timers(tcb);
    if (tcp_is_synchronized(tcb)) {
        tcp_receive_check(&tcb->rcv);
        check_send(tcb);
    }
}
