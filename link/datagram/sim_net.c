// The net between simulated datagram links: who is sent to, faults, queues.

#include <stdlib.h>

#include "base/list.h"
#include "base/port_datagram.h"
#include "base/span.h"
#include "base/time.h"
#include "link/datagram/alone.h"
#include "link/datagram/sim_end.h"
#include "link/datagram/slot.h"
#include "link/fault_model.h"
#include "wire/ip.h"

enum { MTU_DEFAULT = 4200 };

/* ---- making it ------------------------------------------------------------------------------- */

struct datagram_net *datagram_net_create(const struct datagram_net_config *config)
{
    struct datagram_net *net = calloc(1, sizeof *net);
    if (net != NULL) {
        net->config = *config;
        net->config.mtu = config->mtu != 0 ? config->mtu : MTU_DEFAULT;
        fault_model_init(&net->model, &config->faults);
        list_init(&net->ends);
        list_init(&net->under_way);
    }
    return net;
}

void datagram_sim_packets_free(struct list_link *packets)
{
    struct list_link *l;
    while ((l = list_pop_head(packets)) != NULL) {
        free(LIST_ENTRY(l, struct datagram_sim_packet, link));
    }
}

void datagram_net_destroy(struct datagram_net *net)
{
    if (net != NULL) {
        datagram_sim_packets_free(&net->under_way);
        free(net);
    }
}

// In the order of their times; of the same time, in the order of their coming.
static void put_under_way(struct datagram_net *net, struct datagram_sim_packet *p)
{
    struct list_link *at = &net->under_way;
    while (at->prev != &net->under_way &&
           LIST_ENTRY(at->prev, struct datagram_sim_packet, link)->at_ns > p->at_ns) {
        at = at->prev;
    }
    list_push_tail(at, &p->link);
}

// A packet comes to the queue of its receiver. False: it has no room there.
static bool queue_enter(struct datagram_net *net, struct datagram_sim_packet *p)
{
    const struct datagram_net_config *c = &net->config;
    instant_ns begin_ns = p->to->free_at_ns > p->at_ns ? p->to->free_at_ns : p->at_ns;
    uint64_t waiting = c->rate == 0 ? 0 : (begin_ns - p->at_ns) * c->rate / NS_PER_S;
    if (c->queue_len > 0 && waiting + datagram_sim_wire_len(p) > c->queue_len) {
        net->overflows++;
        return false;
    }
    if (c->mark_len > 0 && waiting >= c->mark_len &&
        (p->path.traffic_class & IP_ECN_MASK) != IP_ECN_NOT_ECT) {
        p->path.traffic_class |= IP_ECN_CE;
        net->marks++;
    }
    p->to->free_at_ns = p->at_ns = begin_ns + datagram_sim_time(datagram_sim_wire_len(p), c->rate);
    p->stage = DATAGRAM_SIM_QUEUED;
    return true;
}

static bool end_accept(struct datagram_sim *e, struct datagram_sim_packet *p)
{
    uint32_t limit = e->net->config.receive_buffer_len;
    if (p->is_changed && !e->net->config.is_unchecked) {
        e->counters.icrc_wrong++;
        return false;
    }
    if (!datagram_alone_is_open(&e->alone, &p->path.remote)) {
        return false; // who has closed the address meanwhile gets nothing
    }
    if (limit > 0 && e->arrived_len + p->len > limit) {
        e->counters.buffer_overflows++;
        return false;
    }
    e->arrived_len += p->len;
    list_push_tail(&e->arrived, &p->link);
    return true;
}

instant_ns datagram_net_next_event(const struct datagram_net *net)
{
    return list_is_empty(&net->under_way)
               ? INSTANT_NEVER
               : LIST_ENTRY(net->under_way.next, struct datagram_sim_packet, link)->at_ns;
}

bool datagram_net_advance(struct datagram_net *net)
{
    instant_ns now = datagram_net_now(net);
    bool has_moved = false;
    while (datagram_net_next_event(net) <= now) {
        struct datagram_sim_packet *p =
            LIST_ENTRY(list_pop_head(&net->under_way), struct datagram_sim_packet, link);
        has_moved = true;
        if (p->stage == DATAGRAM_SIM_LEFT && queue_enter(net, p)) {
            put_under_way(net, p);
        } else if (p->stage == DATAGRAM_SIM_LEFT || !end_accept(p->to, p)) {
            free(p);
        }
    }
    return has_moved;
}

size_t datagram_net_overhear(const struct datagram_net *net, uint32_t which, uint8_t *ret_octets,
                             struct datagram_path *ret_path)
{
    const struct list_link *at = net->under_way.next;
    if (list_is_empty(&net->under_way)) {
        return 0;
    }
    for (uint32_t i = 0; i < which; i++) {
        at = at->next == &net->under_way ? net->under_way.next : at->next;
    }
    const struct datagram_sim_packet *p = LIST_ENTRY(at, const struct datagram_sim_packet, link);
    memcpy(ret_octets, p->octets, p->len);
    *ret_path = p->path;
    return p->len;
}

void datagram_net_set_faults(struct datagram_net *net, const struct fault_config *faults)
{
    net->model.config = *faults;
    net->model.is_losing = false;
}

const struct fault_counters *datagram_net_counters(const struct datagram_net *net)
{
    return &net->model.counters;
}

uint64_t datagram_net_overflows(const struct datagram_net *net)
{
    return net->overflows;
}

uint64_t datagram_net_marks(const struct datagram_net *net)
{
    return net->marks;
}

/* ---- sending --------------------------------------------------------------------------------- */

// A copy of its own for each that it comes to.
static void send_copy(struct datagram_net *net, const struct datagram_sim_packet *p,
                      struct datagram_sim *to, duration_ns delay_ns)
{
    struct datagram_sim_packet *copy = malloc(sizeof *copy + p->len);
    uint64_t changed = net->model.counters.corrupted;
    if (copy == NULL) {
        return; // lost
    }
    memcpy(copy, p, sizeof *p + p->len);
    list_init(&copy->link);
    copy->to = to;
    copy->at_ns = instant_after(p->at_ns, delay_ns);
    fault_model_corrupt(&net->model, mspan_of(copy->octets, copy->len));
    copy->is_changed = net->model.counters.corrupted != changed;
    put_under_way(net, copy);
}

static void send_to(struct datagram_net *net, const struct datagram_sim_packet *p,
                    struct datagram_sim *to)
{
    struct fault_fate fate = fault_model_draw(&net->model, datagram_net_now(net));
    for (unsigned i = 0; i < fate.count; i++) {
        send_copy(net, p, to, fate.delay_ns[i]);
    }
}

// Whose it is: all links of a group, or the one with the address and the queue pair's slot.
void datagram_net_send(struct datagram_net *net, const struct datagram_sim_packet *p)
{
    bool is_for_group = datagram_addr_is_group(&p->path.remote);
    uint32_t qp_num = datagram_dest_qp(span_of(p->octets, p->len));
    for (struct list_link *l = net->ends.next; l != &net->ends; l = l->next) {
        struct datagram_sim *e = LIST_ENTRY(l, struct datagram_sim, link);
        if (is_for_group ? datagram_alone_is_open(&e->alone, &p->path.remote)
                         : datagram_alone_has_addr(&e->alone, &p->path.remote) &&
                               datagram_slot_has(&e->alone.base, qp_num)) {
            send_to(net, p, e);
        }
    }
}
