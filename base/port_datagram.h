// The datagram port: how packets reach a peer where there is no stream between (RoCEv2's, each in a
// UDP datagram). A back end (link/) implements `datagram_link_ops`; rnic/ drives it; roce/ makes
// packets and takes them, and sees of all this a path, a sink and what arrived.
//
//     roce/ --datagram_sink--> staging of the back end --flush--> datagrams
//     roce/ <--struct datagram_rx-- receive <-------------------- datagrams
//
// What crosses is what stands between the UDP header and the ICRC: BTH up to and with the pad. The
// ICRC covers the IP header, identification included, so the back end alone can make it; it checks
// what arrives where it can know that header, and says so where it cannot.
//
// A queue pair's number leads a packet to the process that has it: the back end says which numbers
// are this process's (`qp_num_first`, `qp_num_count`), and no others may be given away.
//
// Threads: all calls on one link are serialised by the shard that owns it; `wait` and `wake` alone
// may run beside the others. Failures are negative errno values.
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/counter.h"
#include "base/port_journal.h"
#include "base/port_push.h"
#include "base/span.h"
#include "base/time.h"

// One way of packets, as the sender has it. An IPv4 address is mapped (::ffff:a.b.c.d).
struct datagram_path {
    struct in6_addr local, remote;
    uint32_t scope_id;     // of link-local addresses; 0: none
    uint32_t flow_label;   // IPv6
    uint16_t source_port;  // 0xc000 to 0xffff: the same for all of a queue pair
    uint8_t traffic_class; // TOS: DSCP, and ECN in the lowest two bits
    uint8_t hop_limit;     // TTL; 0: the link's own (struct datagram_hops)
};

static inline bool datagram_addr_is_group(const struct in6_addr *a)
{
    return a->s6_addr[0] == 0xff || (IN6_IS_ADDR_V4MAPPED(a) && a->s6_addr[12] >> 4 == 0xe);
}

enum { DATAGRAM_LEN_MAX = 4096 + 128 }; // BTH to pad: the largest path MTU, and headers

// A packet that is to leave: the head, then the payload, then `pad_len` octets of zero. All is
// copied before `put` returns, and the ICRC is that of the copy.
struct datagram_tx {
    const struct datagram_path *path;
    struct span head; // BTH and what extends it
    const struct span *pieces;
    unsigned piece_count; // 0: no payload
    unsigned pad_len;     // 0..3
    bool is_sent_once;    // nobody sends it again if it is lost
    bool may_wait;        // for a moment, and behind others: it has no payload
};

struct packet_push;

// Where packets go. False: no room now; nothing was taken, and what comes behind has to wait too.
struct datagram_sink {
    bool (*put)(void *ctx, const struct datagram_tx *tx);
    void *ctx;
    // A Write may go past packets (base/port_packet_push.h). PAST_BEGUN: it does, and the transport
    // is told when it is over. NULL: none does.
    enum past_answer (*push)(void *ctx, const struct packet_push *push);
};

// A packet that arrived. The octets stay until the next `receive` or `may_wait`. They may lie in
// memory that their sender has too, and change: what decides about anything is copied out first.
struct datagram_rx {
    struct in6_addr local, remote; // where it was sent to, and from
    uint32_t scope_id;
    uint32_t flow_label;
    uint16_t source_port;
    uint8_t traffic_class;
    uint8_t hop_limit;
    bool is_checked;    // its ICRC was right; false: the IP header could not be known
    bool is_shared;     // for queue pair 1 of all processes of the address: see `hand_on`
    bool is_copy;       // another process of this host has read it, and handed it on
    struct span octets; // BTH to pad, at least a BTH long
};

enum { DATAGRAM_SLOT_ALL = 256 }; // more than any slot

struct datagram_link_ops;
struct packet_push_ops;

// The hop limits that a link gives to packets whose paths name none.
struct datagram_hops {
    uint8_t ipv4, ipv6, group;
};

// A back end embeds this first in a struct of its own.
struct datagram_link {
    const struct datagram_link_ops *ops;
    uint32_t qp_num_first, qp_num_count; // numbers for this process's queue pairs
    struct datagram_hops hops;
    // Of queue pairs whose peer's memory can be written past their packets
    // (base/port_packet_push.h); NULL: none can.
    const struct packet_push_ops *pushes;
    struct journal *journal; // for records beside its packets; NULL: nobody has asked for them
};

struct datagram_link_ops {
    const char *name;

    // Packets to this address of the host are received from now on; opened as often as it is
    // closed. -EADDRINUSE: somebody who does not share has the port; -EADDRNOTAVAIL.
    int (*open)(struct datagram_link *link, const struct in6_addr *local, uint32_t scope_id);
    void (*close)(struct datagram_link *link, const struct in6_addr *local, uint32_t scope_id);
    // Which local address a packet to `remote` would leave from. -ENETUNREACH and the like.
    int (*route)(struct datagram_link *link, const struct in6_addr *remote, uint32_t scope_id,
                 struct in6_addr *ret_local);
    // The longest packet, BTH to ICRC, that leaves on this path in one datagram.
    uint32_t (*len_max)(struct datagram_link *link, const struct datagram_path *path);
    // Copies and datagrams of a multicast group at an address that is open.
    int (*join)(struct datagram_link *link, const struct in6_addr *group,
                const struct in6_addr *local, uint32_t scope_id);
    void (*leave)(struct datagram_link *link, const struct in6_addr *group,
                  const struct in6_addr *local, uint32_t scope_id);

    // Would it fit into its receiver's buffer, as far as this host knows? To be asked before `put`;
    // who sends again what is lost is held back only where that is known without a system call.
    // True also if nobody knows, or if the receiver has taken nothing for long.
    bool (*has_room)(struct datagram_link *link, const struct datagram_tx *tx);
    // This process has somebody for a service of connection managers at a local address, or at
    // those of a wildcard (base/wildcard.h), and others that share the address can find out.
    // -EADDRINUSE: one has too.
    int (*serve)(struct datagram_link *link, uint64_t service, const struct in6_addr *local);
    void (*unserve)(struct datagram_link *link, uint64_t service, const struct in6_addr *local);
    // Has any process, at this address or at a wildcard's? True also where it cannot be found out.
    bool (*is_served)(struct datagram_link *link, uint64_t service, const struct in6_addr *local);

    // When this process has ended without a word, killed or by _exit, another one of its host that
    // has the port too sends this packet for it. One for each `place`, small numbers, until it is
    // revoked, or replaced. It is lost where there is no other process.
    void (*bequeath)(struct datagram_link *link, uint32_t place, const struct datagram_tx *tx);
    void (*revoke)(struct datagram_link *link, uint32_t place);

    // As datagram_sink has it. Packets leave in the order in which they were put; those of one path
    // that follow each other share system calls.
    bool (*put)(struct datagram_link *link, const struct datagram_tx *tx);
    // Sends what was put. False: not all of it could leave; `poll` says DATAGRAM_READY_ROOM.
    bool (*flush)(struct datagram_link *link);

    // The next `poll` looks everywhere: who spins is spared the places where nothing came lately.
    void (*look_around)(struct datagram_link *link);
    // What of enum datagram_ready there is; what is due in the link happens first.
    unsigned (*poll)(struct datagram_link *link, instant_ns now);
    // Takes up to `max` packets that have arrived; returns how many.
    unsigned (*receive)(struct datagram_link *link, struct datagram_rx *ret, unsigned max,
                        instant_ns now);
    // Gives a packet of the last `receive` that is shared to the process whose numbers of queue
    // pairs begin with this octet, or with DATAGRAM_SLOT_ALL to each that there is. False: there is
    // no such process.
    bool (*hand_on)(struct datagram_link *link, const struct datagram_rx *rx, unsigned slot);
    // Octets that may be on their way to this process at a time without being dropped: the
    // receive buffer that all of its queue pairs share.
    uint64_t (*receive_buffer_len)(const struct datagram_link *link);

    instant_ns (*next_deadline)(struct datagram_link *link);
    // To be asked before `wait`: from now on whatever comes ends it. False: something has come, or
    // is likely to come so soon that to wait takes longer.
    bool (*may_wait)(struct datagram_link *link);
    // Sleeps until `poll` may find something, or for `timeout_ns` (INSTANT_NEVER: no limit).
    void (*wait)(struct datagram_link *link, duration_ns timeout_ns);
    // Makes a `wait` under way, or the next one, return at once. From any thread or signal handler.
    void (*wake)(struct datagram_link *link);
    void (*counters)(const struct datagram_link *link, counter_each each, void *ctx);
    // Closes descriptors, tells nobody: the child of a fork.
    void (*abandon)(struct datagram_link *link);
    void (*destroy)(struct datagram_link *link);
};

// What a packet of this path has in its header.
static inline uint8_t datagram_hop_limit(const struct datagram_link *link,
                                         const struct datagram_path *path)
{
    return path->hop_limit != 0                    ? path->hop_limit
           : datagram_addr_is_group(&path->remote) ? link->hops.group
           : IN6_IS_ADDR_V4MAPPED(&path->remote)   ? link->hops.ipv4
                                                   : link->hops.ipv6;
}

enum datagram_ready {
    DATAGRAM_READY_IN = 1,   // packets have arrived
    DATAGRAM_READY_ROOM = 2, // there is room again for what did not leave
    DATAGRAM_READY_HOST = 4, // addresses of this host may have come or gone; told once
};

/* ---- calls, as above ------------------------------------------------------------------------- */

static inline int datagram_open(struct datagram_link *link, const struct in6_addr *local,
                                uint32_t scope_id)
{
    return link->ops->open(link, local, scope_id);
}

static inline void datagram_close(struct datagram_link *link, const struct in6_addr *local,
                                  uint32_t scope_id)
{
    link->ops->close(link, local, scope_id);
}

static inline int datagram_route(struct datagram_link *link, const struct in6_addr *remote,
                                 uint32_t scope_id, struct in6_addr *ret_local)
{
    return link->ops->route(link, remote, scope_id, ret_local);
}

static inline uint32_t datagram_len_max(struct datagram_link *link,
                                        const struct datagram_path *path)
{
    return link->ops->len_max(link, path);
}

static inline int datagram_join(struct datagram_link *link, const struct in6_addr *group,
                                const struct in6_addr *local, uint32_t scope_id)
{
    return link->ops->join(link, group, local, scope_id);
}

static inline int datagram_serve(struct datagram_link *link, uint64_t service,
                                 const struct in6_addr *local)
{
    return link->ops->serve(link, service, local);
}

static inline void datagram_unserve(struct datagram_link *link, uint64_t service,
                                    const struct in6_addr *local)
{
    link->ops->unserve(link, service, local);
}

static inline bool datagram_is_served(struct datagram_link *link, uint64_t service,
                                      const struct in6_addr *local)
{
    return link->ops->is_served(link, service, local);
}

static inline void datagram_leave(struct datagram_link *link, const struct in6_addr *group,
                                  const struct in6_addr *local, uint32_t scope_id)
{
    link->ops->leave(link, group, local, scope_id);
}

static inline bool datagram_has_room(struct datagram_link *link, const struct datagram_tx *tx)
{
    return link->ops->has_room(link, tx);
}

static inline void datagram_bequeath(struct datagram_link *link, uint32_t place,
                                     const struct datagram_tx *tx)
{
    link->ops->bequeath(link, place, tx);
}

static inline void datagram_revoke(struct datagram_link *link, uint32_t place)
{
    link->ops->revoke(link, place);
}

static inline bool datagram_put(struct datagram_link *link, const struct datagram_tx *tx)
{
    return link->ops->put(link, tx);
}

static inline bool datagram_flush(struct datagram_link *link)
{
    return link->ops->flush(link);
}

static inline void datagram_look_around(struct datagram_link *link)
{
    link->ops->look_around(link);
}

static inline unsigned datagram_poll(struct datagram_link *link, instant_ns now)
{
    return link->ops->poll(link, now);
}

static inline unsigned datagram_receive(struct datagram_link *link, struct datagram_rx *ret,
                                        unsigned max, instant_ns now)
{
    return link->ops->receive(link, ret, max, now);
}

static inline bool datagram_hand_on(struct datagram_link *link, const struct datagram_rx *rx,
                                    unsigned slot)
{
    return link->ops->hand_on(link, rx, slot);
}

static inline uint64_t datagram_receive_buffer_len(const struct datagram_link *link)
{
    return link->ops->receive_buffer_len(link);
}

static inline instant_ns datagram_next_deadline(struct datagram_link *link)
{
    return link->ops->next_deadline(link);
}

static inline bool datagram_may_wait(struct datagram_link *link)
{
    return link->ops->may_wait(link);
}

static inline void datagram_wait(struct datagram_link *link, duration_ns timeout_ns)
{
    link->ops->wait(link, timeout_ns);
}

static inline void datagram_wake(struct datagram_link *link)
{
    link->ops->wake(link);
}

static inline void datagram_counters(const struct datagram_link *link, counter_each each, void *ctx)
{
    link->ops->counters(link, each, ctx);
}

static inline void datagram_abandon(struct datagram_link *link)
{
    link->ops->abandon(link);
}

static inline void datagram_destroy(struct datagram_link *link)
{
    link->ops->destroy(link);
}
