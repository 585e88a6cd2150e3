#include "conn/retry.h"

void conn_retry_init(struct conn_retry *r)
{
    *r = (struct conn_retry){.again_at_ns = INSTANT_NEVER, .give_up_at_ns = INSTANT_NEVER};
}

bool conn_retry_on_refused(struct conn_retry *r, instant_ns now)
{
    if (r->give_up_at_ns == INSTANT_NEVER) {
        r->give_up_at_ns = instant_after(now, CONN_RETRY_PATIENCE_NS);
    }
    if (now >= r->give_up_at_ns) {
        return false;
    }
    r->again_at_ns = instant_after(now, CONN_RETRY_PAUSE_NS);
    return true;
}

bool conn_retry_take_due(struct conn_retry *r, instant_ns now)
{
    if (now < r->again_at_ns) {
        return false;
    }
    r->again_at_ns = INSTANT_NEVER;
    return true;
}
