#include "link/datagram/onward.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/span.h"
#include "base/time.h"

// Who reads is asked again soon, who does not ever more seldom.
static const duration_ns patience_min_ns = 100 * NS_PER_US, patience_max_ns = 100 * NS_PER_MS;

int datagram_onward_init(struct datagram_onward *o)
{
    *o = (struct datagram_onward){.retry_at = INSTANT_NEVER};
    o->packets = calloc(DATAGRAM_ONWARD_MAX, sizeof *o->packets);
    return o->packets != NULL ? 0 : -ENOMEM;
}

void datagram_onward_fini(struct datagram_onward *o)
{
    free(o->packets);
    *o = (struct datagram_onward){.retry_at = INSTANT_NEVER};
}

static bool keep(struct datagram_onward *o, unsigned slot, const struct datagram_rx *rx,
                 instant_ns now)
{
    if (o->count == DATAGRAM_ONWARD_MAX || o->counts[slot] == DATAGRAM_ONWARD_SLOT_MAX ||
        rx->octets.len > DATAGRAM_ONWARD_PACKET_LEN) {
        return false;
    }
    if (o->count == 0) {
        o->patience_ns = patience_min_ns;
        o->retry_at = instant_after(now, o->patience_ns);
    }
    struct datagram_onward_packet *p = &o->packets[o->count++];
    o->counts[slot]++;
    p->slot = slot;
    p->rx = *rx;
    memcpy(p->octets, rx->octets.ptr, rx->octets.len);
    return true;
}

int datagram_onward_put(struct datagram_onward *o, const struct datagram_share *s, unsigned slot,
                        const struct datagram_rx *rx, instant_ns now)
{
    int error = o->counts[slot] > 0 ? -EAGAIN : datagram_share_hand_on(s, slot, rx);
    return error == -EAGAIN && keep(o, slot, rx, now) ? 0 : error;
}

void datagram_onward_retry(struct datagram_onward *o, const struct datagram_share *s,
                           instant_ns now)
{
    uint64_t full = 0; // slots that took no more
    unsigned kept = 0, before = o->count;
    for (unsigned i = 0; i < before; i++) {
        struct datagram_onward_packet *p = &o->packets[i];
        p->rx.octets = span_of(p->octets, p->rx.octets.len); // it may have moved
        bool is_full =
            (full >> p->slot & 1) != 0 || datagram_share_hand_on(s, p->slot, &p->rx) == -EAGAIN;
        if (is_full) {
            full |= UINT64_C(1) << p->slot;
            memmove(&o->packets[kept], p, sizeof *p);
            kept++;
        } else {
            o->counts[p->slot]--;
        }
    }
    o->count = kept;
    duration_ns longer_ns = instant_min(2 * o->patience_ns, patience_max_ns);
    o->patience_ns = kept < before ? patience_min_ns : longer_ns;
    o->retry_at = kept > 0 ? instant_after(now, o->patience_ns) : INSTANT_NEVER;
}
