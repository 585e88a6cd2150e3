// How much is sent while losses are repaired, or marks answered: nothing changes on an open path;
// in fast recovery, and behind a mark, the window shrinks in proportion to what arrives (RFC 6937,
// which RFC 8985 recommends in place of RFC 6675's rule); after a time-out it grows from one
// segment by slow start. Each ends when all that was outstanding at its beginning is acknowledged
// (RFC 6582: recover), or is taken back before, as nothing was lost. For one round trip the window
// shrinks once, whatever for (RFC 3168 section 6.1.2). Numbers only.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "tcp/cc.h"
#include "tcp/seq.h"

enum tcp_recovery_phase {
    TCP_PHASE_OPEN,
    TCP_PHASE_MARKED,  // nothing is lost: the network has marked what it carried
    TCP_PHASE_FAST,    // fast recovery
    TCP_PHASE_TIMEOUT, // after the retransmission timer ran out
};

// Whether a time-out was spurious is told by the first acknowledgement that moves SND.UNA behind
// what it sent again (RFC 3522).
enum tcp_eifel {
    TCP_EIFEL_DONE,
    TCP_EIFEL_RESENDS,    // nothing was sent again yet
    TCP_EIFEL_AWAITS_ACK, // the first was
};

struct tcp_recovery {
    enum tcp_recovery_phase phase;
    tcp_seq point;          // the end of what was outstanding
    tcp_seq timeout_una;    // what the last time-out sent again
    uint32_t load_len;      // of it not known to have arrived before (RecoverFS)
    uint32_t delivered_len; // arrived since (prr_delivered)
    uint32_t out_len;       // sent since (prr_out)

    // To take it back if every segment sent again turns out to have arrived twice (D-SACK).
    tcp_seq undo_una; // SND.UNA at the beginning
    uint32_t undo_cwnd, undo_ssthresh;
    uint32_t undo_segments; // sent again, and not known to be unneeded

    // To take a time-out back if what it sent again was late, not lost.
    enum tcp_eifel eifel;
    uint32_t resent_ts;     // the timestamp of the first that was sent again (RetransmitTS)
    uint32_t pipe_prev;     // what the window may grow back to (RFC 4015)
    tcp_seq spurious_point; // what is sent behind it tells how long the path has become; 0: it has
};

// A loss was found: whether the window becomes smaller for it, which it did already for a mark of
// this round trip. / The retransmission timer ran out. [una, nxt) is outstanding; `load_len`
// octets had not arrived before the acknowledgement that showed the loss, not 0.
bool tcp_recovery_enter(struct tcp_recovery *rec, struct tcp_cc *cc, tcp_seq una, tcp_seq nxt,
                        uint32_t load_len);
void tcp_recovery_on_timeout(struct tcp_recovery *rec, struct tcp_cc *cc, tcp_seq una, tcp_seq nxt);
// The peer echoes a mark; else as tcp_recovery_enter. False: the window shrinks already, or grows
// from one segment.
bool tcp_recovery_on_mark(struct tcp_recovery *rec, struct tcp_cc *cc, tcp_seq una, tcp_seq nxt,
                          uint32_t load_len);

// Losses are being repaired.
static inline bool tcp_recovery_repairs(const struct tcp_recovery *rec)
{
    return rec->phase == TCP_PHASE_FAST || rec->phase == TCP_PHASE_TIMEOUT;
}

// The window shrinks in proportion: tcp_recovery_on_ack follows each acknowledgement.
static inline bool tcp_recovery_shrinks(const struct tcp_recovery *rec)
{
    return rec->phase == TCP_PHASE_FAST || rec->phase == TCP_PHASE_MARKED;
}

// An acknowledgement while the window shrinks: `delivered_len` octets have newly arrived, `pipe`
// are in the network. `is_progress`: it advances SND.UNA and shows no further loss. Sets the
// window.
void tcp_recovery_on_ack(struct tcp_recovery *rec, struct tcp_cc *cc, uint32_t delivered_len,
                         uint32_t pipe, bool is_progress);
// Octets were sent, new or again. / A segment was sent again, with this timestamp, if any.
void tcp_recovery_on_sent(struct tcp_recovery *rec, uint32_t len);
void tcp_recovery_on_resent(struct tcp_recovery *rec, uint32_t ts_value);
// The peer has had [left, right) twice. Returns whether the whole recovery was for nothing; it is
// then over, as if it had not been.
bool tcp_recovery_on_dsack(struct tcp_recovery *rec, struct tcp_cc *cc, tcp_seq left,
                           tcp_seq right);

// SND.UNA has moved, by an acknowledgement that echoes this timestamp, if any. Returns whether that
// is of a segment before the time-out sent it again: it was late, and the time-out for nothing (RFC
// 3522 section 3.2). The first such acknowledgement behind a time-out tells.
bool tcp_recovery_on_echo(struct tcp_recovery *rec, bool has_ts_echo, uint32_t ts_echo);
// ... then it is over, and the window grows back fast, but not at once: `acked_len` octets were
// acknowledged, `pipe` are in the network (RFC 4015 section 3.2, step 9).
void tcp_recovery_take_back_timeout(struct tcp_recovery *rec, struct tcp_cc *cc, uint32_t acked_len,
                                    uint32_t pipe);
// ... or the window stays as small as it is, even if what was sent again arrives twice.
void tcp_recovery_keep_window(struct tcp_recovery *rec);
// A round trip was measured that ends with SND.UNA here. Returns whether it is the first of what
// was sent since a time-out was taken back (step 11).
bool tcp_recovery_on_round_trip(struct tcp_recovery *rec, tcp_seq una);

// SND.UNA has moved. Returns whether the recovery is over with it.
bool tcp_recovery_on_una(struct tcp_recovery *rec, struct tcp_cc *cc, tcp_seq una);
