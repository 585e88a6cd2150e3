// Which streams of a packet link are ready, and for what.

#include "base/list.h"
#include "base/port_link.h"
#include "link/packet/internal.h"
#include "tcp/tcp.h"

// A sender that found no room is told of room when this part of it is free again.
enum { ROOM_PART = 3 };

void packet_note_ready(struct packet_stream *s)
{
    if (list_is_empty(&s->ready_link)) {
        list_push_tail(&packet_link_of(s->base.link)->ready, &s->ready_link);
    }
}

static bool has_room(const struct packet_stream *s)
{
    uint32_t enough = packet_link_of(s->base.link)->config.tcp.send_len / ROOM_PART;
    return tcp_send_room(s->connection.tcb, 1, 0) >= enough;
}

// What is stalled waits for recv, or, once a port has it, for resume.
static bool has_input(const struct packet_stream *s)
{
    bool is_for_recv = s->is_stalled && (s->port.place == NULL || !s->is_port_told);
    return s->is_readable || is_for_recv || (s->has_fin && !s->is_fin_told);
}

static bool wants_settled(const struct packet_stream *s)
{
    return s->has_settled && packet_link_of(s->base.link)->config.settles_when_acknowledged;
}

static unsigned ready_what(const struct packet_stream *s)
{
    unsigned what = 0;
    switch (s->state) {
    case PACKET_STREAM_LISTENING:
        return list_is_empty(&s->waiting) ? 0 : LINK_READY_IN;
    case PACKET_STREAM_BROKEN:
        what |= s->wants_in && s->has_fin && !s->is_fin_told ? LINK_READY_IN : 0;
        return what | (s->is_error_named ? 0 : LINK_READY_ERR);
    case PACKET_STREAM_CONNECTED:
        what |= s->wants_in && has_input(s) ? LINK_READY_IN : 0;
        what |= s->wants_out && has_room(s) ? LINK_READY_OUT : 0;
        what |= wants_settled(s) ? LINK_READY_SETTLED : 0;
        return what;
    default:
        return 0;
    }
}

int packet_collect_ready(struct packet_link *l, struct link_ready *ret, unsigned max)
{
    unsigned count = 0;
    struct list_link reported, *at;
    list_init(&reported);
    while (count < max && (at = list_pop_head(&l->ready)) != NULL) {
        struct packet_stream *s = LIST_ENTRY(at, struct packet_stream, ready_link);
        unsigned what = ready_what(s);
        if (what != 0) {
            ret[count++] = (struct link_ready){&s->base, what};
            list_push_tail(&reported, at); // is reported until it has nothing more
        }
    }
    while ((at = list_pop_head(&reported)) != NULL) {
        list_push_tail(&l->ready, at);
    }
    return (int)count;
}
