// Unreliable datagrams: a queue pair that sends packets to whom each work request says, and takes
// them from anybody who knows its Q_Key (InfiniBand Architecture volume 1, sections 9.8.3 and
// 10.2.5; in front of a payload, annex A17's rules of the GRH).
//
//   program side   wq/filling.h on ud_wq; each entry has a struct roce_address
//   engine side    the table of base/transport.h, by ud_transport; serialised by the device
//
// One packet is one message, at most as long as the port's MTU; roce/unreliable.h says when it is
// over. What arrives takes a receive: 40 octets that say from where (wire/grh.h), then the payload.
// What cannot be taken is dropped, and counted by the reason (enum unreliable_refusal). A receive
// of an SRQ cannot be put back: one that is too short completes with an error.
//
//     ud.c          creation, the table, packets out
//     ud_input.c    packets in
//     ud_group.c    the multicast groups that it is attached to
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/transport.h"
#include "wq/wq.h"

struct ud;

enum {
    UD_GROUP_MAX = 32, // groups that one queue pair is attached to
};

struct ud_config {
    struct wq_config wq; // address_len is set here
    uint32_t port_mtu;   // octets of payload in a packet at most: 256, 512 … 4096
    struct qp_event_port events;
};

// -EINVAL: a capability or an MTU out of range; -ENOMEM. The PD is the caller's to hold. The new
// queue pair is in QP_RESET.
int ud_create(const struct ud_config *config, struct ud **ret);

struct transport *ud_transport(struct ud *ud);
struct wq *ud_wq(struct ud *ud);

// Packets that went to this address of a group are taken from now on, those of the queue pair's own
// as well; the caller has the link join it, and hands a packet to all queue pairs that may be
// attached. Attached until it is detached, in whatever state. `group` as packets have it: an IPv4
// address mapped. 0; -EINVAL: not a multicast address; -ENOMEM: UD_GROUP_MAX of them already.
int ud_attach(struct ud *ud, const struct in6_addr *group);
// 0; -EINVAL: it was not attached. As often as it was attached.
int ud_detach(struct ud *ud, const struct in6_addr *group);
bool ud_is_attached(const struct ud *ud, const struct in6_addr *group);
