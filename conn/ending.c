#include "conn/ending.h"

// A queue pair connected as on InfiniBand does not notice its peer's end while it asks nothing of
// it: the peer's program may have all it wanted, and destroy its own before ours has looked.
static bool outlives_peer(const struct conn_ending *e)
{
    return e->is_meeting && !e->is_closing && !e->is_cut && e->asks_for_nothing;
}

enum conn_end conn_end_of(const struct conn_ending *e)
{
    if (e->is_error) {
        return CONN_END_BROKEN;
    }
    if (e->waits_for_receives || outlives_peer(e)) {
        return CONN_END_NOT_SEEN; // FIN stands behind those Sends: it is read again after them
    }
    if (e->is_cut) {
        return CONN_END_BROKEN;
    }
    return e->owes_output ? CONN_END_AFTER_OUTPUT : CONN_END_ORDERLY;
}
