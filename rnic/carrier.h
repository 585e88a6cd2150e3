// How the queue pairs of a shard reach their peers: by streams (carrier_stream.c, and the endpoints
// on them) or by packets (packet.h). The shard keeps the lists and the lock, a carrier knows what
// stands in the lists. All but `wake` and `descriptor` is called with the lock held, `sleep`
// without it unless it is for no time at all.
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

#include "base/counter.h"
#include "base/deadlines.h"
#include "base/list.h"
#include "base/qp_state.h"
#include "base/time.h"

struct key_mirror;
struct puller;
struct rnic_qp;
struct rnic_qp_init;
struct shard;

// What the link is asked, by anybody: nothing of it leads back up.
struct carrier_link_ops {
    // Frees the link, and what else the carrier has. No queue pair is left.
    void (*close)(struct shard *shard);
    // Leaves the link to the parent: the child of a fork.
    void (*leave)(struct shard *shard);
    instant_ns (*link_deadline)(const struct shard *shard);
    // Who is about to sleep asks first: false if the link has something, or will have it at once.
    bool (*may_sleep)(struct shard *shard);
    void (*sleep)(struct shard *shard, duration_ns timeout_ns); // INSTANT_NEVER: no limit
    // As link_rise, by who would have slept at `descriptor`. NULL: it is a sleep for no time.
    void (*rise)(struct shard *shard);
    void (*wake)(struct shard *shard);
    // What is readable while `sleep` would not sleep. -EOPNOTSUPP: there is none.
    int (*descriptor)(const struct shard *shard);
    bool (*is_ending)(const struct shard *shard); // see carrier_ops
    // Which local address reaches `dst`. Negative errno: no route.
    int (*route)(struct shard *shard, const struct sockaddr *dst, struct sockaddr_storage *ret);
    void (*tell_counters)(const struct shard *shard, counter_each each, void *ctx);
    // Peers of this host that put octets into our memory (base/port_push.h,
    // base/port_packet_push.h): where they see our keys, NULL: there are none; and as `revoke` and
    // `has_left` there.
    struct key_mirror *(*keys_shown)(struct shard *shard);
    bool (*is_key_free)(struct shard *shard, uint64_t generation);
    bool (*is_leaver_out)(struct shard *shard, uint64_t leaver);
};

// What a pass of the shard does.
struct carrier_ops {
    const struct carrier_link_ops *link;

    // The engine's half of a new queue pair, which has its number: `transport` and `wq`.
    // -EOPNOTSUPP: none of its type is carried; -EINVAL: a capability out of range; -ENOMEM.
    int (*create_qp)(struct rnic_qp *qp, const struct rnic_qp_init *init);

    // What the link has to say: all of it, and for who spins, what was busy lately. True: something
    // moved.
    bool (*serve)(struct shard *shard, instant_ns now);
    bool (*serve_busy)(struct shard *shard, instant_ns now);
    // An entry of shard->runnable, taken out.
    void (*run)(struct list_link *entry, instant_ns now);
    // All entries of shard->due, and those that come by it.
    void (*settle)(struct shard *shard, instant_ns now);
    // One of shard->deadlines, taken out.
    void (*expire)(struct deadline *deadline, instant_ns now);
    // What else has its time: once when the noted instant has come.
    void (*on_noted)(struct shard *shard, instant_ns now);
    // Outside of any pass: nobody holds on to anything.
    void (*tidy)(struct shard *shard);

    // A process exits. Is there anything that has not reached the link?
    bool (*has_unsent)(const struct shard *shard);
    // Everything has: the peers are told that it ends. True: it is to be waited for (is_ending).
    bool (*end)(struct shard *shard);

    // The program has just posted to this queue pair. May that wait for its next poll, so that what
    // is posted meanwhile leaves with it? There is a thread. Without the lock. NULL: never.
    bool (*may_gather)(struct rnic_qp *qp);
    // Something was posted to the queue pair.
    void (*serve_doorbell)(struct rnic_qp *qp, instant_ns now);
    // The copies that it began are over (rnic/pull.h): so many, from the first on, are whole. NULL:
    // it begins none.
    void (*on_pulled)(struct rnic_qp *qp, const struct puller *puller, unsigned count,
                      instant_ns now);
    // The program has changed what it was told of it.
    void (*on_changed)(struct rnic_qp *qp);
    // ... and moved it to this state.
    void (*on_moved)(struct rnic_qp *qp, enum qp_state to, instant_ns now);
    // It is about to be destroyed, and silent.
    void (*forget)(struct rnic_qp *qp, instant_ns now);
};

extern const struct carrier_ops stream_carrier;
extern const struct carrier_link_ops stream_carrier_link; // its link
