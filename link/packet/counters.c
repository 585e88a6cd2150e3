// What the packet link has counted of connections.

#include "base/list.h"
#include "base/time.h"
#include "link/packet/internal.h"
#include "tcp/listen.h"
#include "tcp/tcp.h"

void packet_count_ended(struct packet_link *l, const struct packet_stream *s)
{
    struct tcp_info info;
    tcp_get_info(s->connection.tcb, &info);
    tcp_counters_add(&l->ended, info.counters);
}

// How the connection stands, then what it has counted.
static void each_of_connection(const struct tcb *tcb, counter_each each, void *ctx)
{
    struct tcp_info info;
    tcp_get_info(tcb, &info);
    each(ctx, "srtt_us", info.srtt_ns / NS_PER_US);
    each(ctx, "min_rtt_us", info.min_rtt_ns / NS_PER_US);
    each(ctx, "rto_us", info.rto_ns / NS_PER_US);
    each(ctx, "cwnd_octets", info.cwnd);
    each(ctx, "flight_octets", info.flight_len);
    each(ctx, "send_window_octets", info.snd_wnd);
    each(ctx, "receive_window_octets", info.rcv_wnd);
    each(ctx, "buffered_octets", info.buffered_len);
    each(ctx, "ranges", info.range_count);
    tcp_counters_each(info.counters, each, ctx);
}

// Of connections that their users have closed: those that are gone, and those that linger.
static void each_of_closed(const struct packet_link *l, counter_each each, void *ctx)
{
    struct tcp_counters sum = l->ended;
    for (const struct list_link *at = l->lingering.next; at != &l->lingering; at = at->next) {
        struct tcp_info info;
        tcp_get_info(LIST_ENTRY(at, const struct packet_stream, link)->connection.tcb, &info);
        tcp_counters_add(&sum, info.counters);
    }
    tcp_counters_each(&sum, each, ctx);
}

void packet_stream_counters(const struct link *link, const struct link_stream *stream,
                            counter_each each, void *ctx)
{
    const struct packet_stream *s = packet_stream_of(stream);
    if (s == NULL) {
        each_of_closed(packet_link_of(link), each, ctx);
    } else if (packet_has_connection(s)) {
        each_of_connection(s->connection.tcb, each, ctx);
    } else if (s->state == PACKET_STREAM_LISTENING) {
        tcp_listen_counters_each(tcp_listener_counters(s->listener.tcp), each, ctx);
    }
}
