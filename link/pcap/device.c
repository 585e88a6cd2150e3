// The capture of a device: segments as they cross it.

#include "link/device/device.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/list.h"
#include "base/siphash.h"
#include "base/time.h"
#include "link/device/forward.h"
#include "link/pcap/file.h"
#include "link/pcap/packet.h"
#include "link/pcap/pcap.h"
#include "net/addr.h"
#include "net/flows.h"
#include "wire/tcp.h"

struct pcap_device {
    struct device_forward forward;
    struct net_flows flows; // of `ends`
    struct list_link ends;
    uint16_t id; // of the next IPv4 packet
    struct pcap_file file;
};

// A connection of this process.
struct pcap_end {
    struct net_flow_entry entry;
    struct list_link link;
    struct channel *channel;
    bool is_looped; // the peer is of this process too
};

static struct pcap_device *pcap_of(const struct device *d)
{
    return (struct pcap_device *)d;
}

/* ---- ends ------------------------------------------------------------------------------------ */

static struct pcap_end *end_find(struct pcap_device *p, const struct net_flow *flow)
{
    struct net_flow_entry *entry = net_flows_find(&p->flows, flow);
    return entry == NULL ? NULL : LIST_ENTRY(&entry->link, struct pcap_end, entry.link);
}

// Without memory, what both ends of one process say to each other is recorded twice.
static void end_add(struct pcap_device *p, struct channel *channel, const struct net_flow *flow)
{
    struct pcap_end *end = end_find(p, flow) == NULL ? calloc(1, sizeof *end) : NULL;
    if (end != NULL) {
        end->entry.flow = *flow;
        end->channel = channel;
        net_flows_resize(&p->flows, p->flows.count + 1);
        net_flows_add(&p->flows, &end->entry);
        list_push_tail(&p->ends, &end->link);
    }
}

static void end_free(struct pcap_device *p, struct pcap_end *end)
{
    net_flows_remove(&p->flows, &end->entry);
    list_remove(&end->link);
    free(end);
}

// Was it recorded when this process sent it? What comes from an end of ours says so of that end,
// whose peer may not be known yet: a listener's SYN,ACK belongs to no connection.
static bool is_recorded(struct pcap_device *p, const struct net_flow *flow)
{
    struct net_flow turned = net_flow_turned(flow);
    struct pcap_end *from = end_find(p, &turned);
    struct pcap_end *to = end_find(p, flow);
    if (from != NULL) {
        from->is_looped = true;
        return true;
    }
    return to != NULL && to->is_looped;
}

/* ---- recording ------------------------------------------------------------------------------- */

static unsigned pcap_send(struct device *d, struct channel *channel, const struct net_flow *flow,
                          const struct net_segments *segments, instant_ns now)
{
    struct pcap_device *p = pcap_of(d);
    unsigned taken = device_send(p->forward.inner, channel, flow, segments, now);
    for (unsigned i = 0; i < taken; i++) {
        pcap_packet_put(&p->file, flow, segments->ecn, p->id++, &segments->at[i]);
    }
    pcap_file_flush(&p->file);
    return taken;
}

// Where in the packet the payload begins; 0: it is no segment, and not recorded.
static size_t header_len_of(struct span octets)
{
    size_t len =
        octets.len < TCP_HEADER_LEN ? 0 : (size_t)(octets.ptr[TCP_OFF_DATA_OFFSET] >> 4) * 4;
    return len < TCP_HEADER_LEN || len > octets.len ? 0 : len;
}

static void record_arrival(struct pcap_device *p, const struct device_event *e)
{
    struct span octets = e->octets;
    struct net_flow flow = e->flow, turned;
    size_t len = header_len_of(octets);
    if (len == 0 || octets.len - len > PCAP_SEGMENT_MAX) {
        return;
    }
    flow.local_port = get_be16(octets.ptr + TCP_OFF_DST_PORT);
    flow.remote_port = get_be16(octets.ptr + TCP_OFF_SRC_PORT);
    if (is_recorded(p, &flow)) {
        return;
    }
    turned = net_flow_turned(&flow);
    struct iovec iov[] = {{(void *)octets.ptr, len},
                          {(void *)(octets.ptr + len), octets.len - len}};
    struct net_segment segment = {.iov = iov, .iov_count = 2, .len = (uint32_t)octets.len};
    pcap_packet_put(&p->file, &turned, e->ecn, p->id++, &segment);
}

static bool pcap_next(struct device *d, instant_ns now, struct device_event *ret)
{
    struct pcap_device *p = pcap_of(d);
    bool is_event = device_next(p->forward.inner, now, ret);
    if (!is_event) {
        pcap_file_flush(&p->file);
    } else if (ret->kind == DEVICE_EVENT_SEGMENT) {
        record_arrival(p, ret);
    }
    return is_event;
}

/* ---- operations that make and end what is recorded ------------------------------------------- */

static int pcap_connect(struct device *d, struct channel *channel, struct net_flow *flow)
{
    struct pcap_device *p = pcap_of(d);
    int error = device_connect(p->forward.inner, channel, flow);
    if (error == 0) {
        end_add(p, channel, flow);
    }
    return error;
}

static int pcap_accept(struct device *d, struct channel *listener, const struct net_flow *flow,
                       struct channel **ret)
{
    struct pcap_device *p = pcap_of(d);
    int error = device_accept(p->forward.inner, listener, flow, ret);
    if (error == 0) {
        end_add(p, *ret, flow);
    }
    return error;
}

static void pcap_close(struct device *d, struct channel *channel)
{
    struct pcap_device *p = pcap_of(d);
    for (struct list_link *at = p->ends.next; at != &p->ends; at = at->next) {
        struct pcap_end *end = LIST_ENTRY(at, struct pcap_end, link);
        if (end->channel == channel) {
            end_free(p, end);
            break;
        }
    }
    device_close(p->forward.inner, channel);
}

static void pcap_abandon(struct device *d)
{
    struct pcap_device *p = pcap_of(d);
    pcap_file_abandon(&p->file);
    device_abandon(p->forward.inner);
}

static void pcap_destroy(struct device *d)
{
    struct pcap_device *p = pcap_of(d);
    while (!list_is_empty(&p->ends)) {
        end_free(p, LIST_ENTRY(p->ends.next, struct pcap_end, link));
    }
    net_flows_fini(&p->flows);
    pcap_file_close(&p->file);
    device_destroy(p->forward.inner);
    free(p);
}

/* ---- making it ------------------------------------------------------------------------------- */

static const struct device_ops pcap_ops = {
    .name = "pcap",
    .open = device_forward_open,
    .connect = pcap_connect,
    .accept = pcap_accept,
    .close = pcap_close,
    .set_tos = device_forward_set_tos,
    .segment_len_max = device_forward_segment_len_max,
    .route = device_forward_route,
    .send = pcap_send,
    .poll = device_forward_poll,
    .receive = device_forward_receive,
    .next = pcap_next,
    .corrupt = device_forward_corrupt,
    .counters = device_forward_counters,
    .next_deadline = device_forward_next_deadline,
    .wait = device_forward_wait,
    .wake = device_forward_wake,
    .descriptor = device_forward_descriptor,
    .abandon = pcap_abandon,
    .destroy = pcap_destroy,
};

int device_pcap_wrap(struct device *inner, const char *path, struct device **ret)
{
    static const uint8_t key[SIPHASH_KEY_LEN] = {0}; // who chooses flows slows the capture down
    struct pcap_device *p = malloc(sizeof *p);
    if (p == NULL || net_flows_init(&p->flows, key) != 0) {
        free(p);
        return -ENOMEM;
    }
    int error = pcap_file_open(&p->file, path);
    if (error != 0) {
        pcap_file_close(&p->file);
        net_flows_fini(&p->flows);
        free(p);
        return error;
    }
    // Whole segments only, not runs of them, are what is recorded.
    p->forward = (struct device_forward){.base.ops = &pcap_ops, .inner = inner};
    p->forward.base.journal = pcap_file_journal(&p->file);
    p->id = 0;
    list_init(&p->ends);
    *ret = &p->forward.base;
    return 0;
}
