// Finding losses: by time (RACK, RFC 8985 section 6; what deliveries tell is in rack.h), by a probe
// at the tail (TLP, section 7), and, where the peer sends no SACK, by duplicate ACKs (RFC 5681
// section 3.2, RFC 6582). It says what is lost and what to wait for; what is then sent, and how
// much, is decided elsewhere.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"
#include "tcp/rack.h"
#include "tcp/rtt.h"
#include "tcp/scoreboard.h"
#include "tcp/seq.h"

enum { TCP_DUP_THRESH = 3 };

#define TCP_MAX_ACK_DELAY_NS (200 * NS_PER_MS) // TLP.max_ack_delay
#define TCP_PTO_INITIAL_NS   (1 * NS_PER_S)

struct tcp_tlp {
    bool is_outstanding; // TLP.end_seq is not None
    bool is_retrans;
    bool has_new_rtt; // a sample since the last probe
    tcp_seq end_seq;
};

struct tcp_loss {
    struct tcp_rack rack;
    struct tcp_tlp tlp;
    uint64_t probe_number; // of the last probe's transmission
    unsigned dup_acks;     // without SACK: in a row, less what partial ACKs account for
};

void tcp_loss_init(struct tcp_loss *loss, tcp_seq una);

// Step 5: marks what is lost. Returns how long to wait until more of it will be, 0: for nothing.
duration_ns tcp_loss_detect(struct tcp_loss *loss, struct tcp_scoreboard *sb, bool is_in_recovery,
                            const struct tcp_rtt *rtt, instant_ns now);

// The retransmission timer ran out (section 6.3), which begins a recovery: the first segment is
// lost, and what is overdue.
void tcp_loss_on_timeout(struct tcp_loss *loss, struct tcp_scoreboard *sb,
                         const struct tcp_rtt *rtt, instant_ns now);

// How long after sending to probe. `is_one_segment`: no more is outstanding. The caller takes the
// retransmission time-out if that comes first.
duration_ns tcp_loss_probe_delay(const struct tcp_rtt *rtt, bool is_one_segment);
// May a probe be sent (section 7.3)? / One was, as transmission `number`: it ends at `end_seq`.
bool tcp_loss_may_probe(const struct tcp_loss *loss);
void tcp_loss_on_probe_sent(struct tcp_loss *loss, tcp_seq end_seq, uint64_t number,
                            bool is_retrans);
// Section 7.4.2. True: the probe has repaired a loss, which congestion control must hear of.
bool tcp_loss_on_probe_ack(struct tcp_loss *loss, tcp_seq una, bool has_dsack, bool is_dup_ack);
void tcp_loss_forget_probe(struct tcp_loss *loss);

// Without SACK: a duplicate ACK. True: the first segment is lost.
bool tcp_loss_on_dup_ack(struct tcp_loss *loss);
