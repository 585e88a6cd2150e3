// What the end of the peer's stream comes to: its FIN, or an error. FIN may come before this side
// is done with what stands before it, or with what it still has to say.
#pragma once

#include <stdbool.h>

// Of the stream as it is when its end is found.
struct conn_ending {
    bool is_error;           // no FIN: reset, timed out
    bool is_cut;             // in the middle of an FPDU
    bool waits_for_receives; // Sends before the FIN have no receive yet
    bool owes_output;        // the peer is still to get something
    bool is_meeting;         // connected as on InfiniBand, without a connection manager
    bool is_closing;         // our own FIN has left
    bool asks_for_nothing;   // nothing of ours is under way
};

enum conn_end {
    CONN_END_NOT_SEEN,     // the end is not looked at before something changes
    CONN_END_AFTER_OUTPUT, // likewise, until all has gone out (RFC 5040 section 5.2.1)
    CONN_END_ORDERLY,      // closed, both ways
    CONN_END_BROKEN,       // reset
};
enum conn_end conn_end_of(const struct conn_ending *e);
