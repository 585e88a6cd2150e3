// What the device of a packet link has come by goes to whom it is for.

#include <errno.h>

#include "base/bytes.h"
#include "base/time.h"
#include "link/device/device.h"
#include "link/packet/cut.h"
#include "link/packet/internal.h"
#include "net/host.h"
#include "tcp/state.h"
#include "tcp/tcp.h"
#include "wire/tcp.h"

// Octets for a stream whose user wants them are left where they are until it calls recv: they are
// copied once then. Everything else is TCP's to see now.
static void on_readable(struct packet_link *l, struct channel *channel)
{
    struct packet_stream *s = channel == NULL ? NULL : channel->owner;
    if (s != NULL && s->state == PACKET_STREAM_CONNECTED && s->wants_in) {
        s->is_readable = true;
        packet_note_ready(s);
        return;
    }
    device_receive(l->device, channel, SIZE_MAX);
}

static void on_more(const struct channel *channel)
{
    struct packet_stream *s = channel->owner;
    if (s != NULL) {
        s->is_readable = true;
    }
}

static void on_room(struct packet_link *l, struct channel *channel)
{
    if (channel == NULL) {
        net_unblock_all(l->host);
        return;
    }
    struct packet_stream *s = channel->owner;
    if (packet_has_connection(s)) {
        net_unblock(l->host, &s->connection);
    }
}

// The sequence number of the segment that the network quotes. False: too little of it is there.
static bool quoted_seq(const struct device_event *e, uint32_t *ret)
{
    if (e->quoted.len < TCP_OFF_ACK) {
        return false;
    }
    *ret = get_be32(e->quoted.ptr + TCP_OFF_SEQ);
    return true;
}

static void on_path(struct packet_link *l, const struct device_event *e, instant_ns now)
{
    uint32_t seq;
    if (quoted_seq(e, &seq)) {
        net_on_path_mss(l->host, &e->flow, seq, packet_mss(e->segment_len_max), now);
    }
}

static void on_unreachable(struct packet_link *l, const struct device_event *e, instant_ns now)
{
    bool is_refusal = e->error == -ECONNREFUSED && l->config.refusal_is_reset;
    struct net_connection *c = net_find(l->host, &e->flow);
    int error = e->error;
    uint32_t seq;
    if (!quoted_seq(e, &seq)) {
        return;
    }
    if (is_refusal && c != NULL && tcp_get_state(c->tcb) != TCP_STATE_SYN_SENT) {
        error = -ECONNRESET;
    }
    c = net_on_unreachable(l->host, &e->flow, seq, error);
    if (is_refusal && c != NULL) { // anybody can say so: the peer itself is asked
        tcp_doubt(c->tcb, now);
    }
}

void packet_take_events(struct packet_link *l, instant_ns now)
{
    struct device_event e;
    while (device_next(l->device, now, &e)) {
        switch (e.kind) {
        case DEVICE_EVENT_SEGMENT:
            net_on_segment(l->host, &e.flow, e.channel, e.octets, e.ecn, now);
            break;
        case DEVICE_EVENT_READABLE:
            on_readable(l, e.channel);
            break;
        case DEVICE_EVENT_MORE:
            on_more(e.channel);
            break;
        case DEVICE_EVENT_ROOM:
            on_room(l, e.channel);
            break;
        case DEVICE_EVENT_PATH:
            on_path(l, &e, now);
            break;
        case DEVICE_EVENT_UNREACHABLE:
            on_unreachable(l, &e, now);
            break;
        }
    }
}
