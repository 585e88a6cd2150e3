// Connections of queue pairs that packets carry, by InfiniBand's connection manager: what
// struct rnic_ep is to those that streams carry. Addresses, what an end offers, and what is told of
// the peer are ibcm/ibcm.h's.
//
//   rnic_conn_listen    CONNECT_REQUEST  -> rnic_conn_accept | rnic_conn_reject
//   rnic_conn_connect   ESTABLISHED; without a queue pair CONNECT_RESPONSE -> rnic_conn_establish
//   rnic_conn_resolve   of datagrams: ESTABLISHED tells number and Q_Key of the peer's queue pair
//
// A queue pair of type RC in INIT becomes ready to send with the connection, as was agreed. It is
// moved to its error state by rnic_conn_disconnect, or with TIMEWAIT_EXIT where nobody has taken
// the connection's end; one that is refused is left to its program, and those of datagrams are.
//
// As rnic/rnic.h: negative errno values, from any thread, and ports are called with the lock held.
#pragma once

#include <netinet/in.h>
#include <stdint.h>

#include "base/span.h"
#include "ibcm/ibcm.h"
#include "ibcm/state.h"
#include "rnic/rnic.h"
#include "wire/ibcm_rej.h"
#include "wire/ibcm_sidr.h"
#include "wire/ip_cm.h"

struct rnic_conn;
struct rnic_conn_port;

enum { RNIC_CONN_MIN_RNR_TIMER = 12 }; // 0.64 ms: 0 would be the longest, 655 ms

struct rnic_conn_event {
    const struct ibcm_event *what;        // type, peer, private data …: valid during the call
    struct rnic_conn *conn;               // a listener's at CONNECT_REQUEST
    int error;                            // REJECTED by us: the own queue pair could not begin
    struct rnic_conn *new_conn;           // CONNECT_REQUEST: the connection that asks
    struct rnic_conn_port *new_conn_port; // ... where its events go; left empty: it is refused
};

struct rnic_conn_port {
    void (*on_event)(void *ctx, const struct rnic_conn_event *event);
    void *ctx;
};

// -EOPNOTSUPP: streams carry the device's queue pairs; -ENOMEM; as ibcm_listen has it.
int rnic_conn_listen(struct rnic *rnic, enum ip_cm_port_space ps, uint16_t port,
                     const struct in6_addr *local, int backlog, const struct rnic_conn_port *events,
                     struct rnic_conn **ret);

// `qp` NULL: the program's own, whose number `params` names. Otherwise the number is the queue
// pair's. params->path_mtu or hop_limit 0: the device's. -EOPNOTSUPP, -ENOMEM; -EINVAL: the queue
// pair is another device's, or has a connection; as ibcm_connect and ibcm_resolve have it.
int rnic_conn_connect(struct rnic *rnic, const struct ibcm_target *target, struct rnic_qp *qp,
                      const struct ibcm_params *params, const struct rnic_conn_port *events,
                      struct rnic_conn **ret);
int rnic_conn_resolve(struct rnic *rnic, const struct ibcm_target *target, struct span private_data,
                      const struct rnic_conn_port *events, struct rnic_conn **ret);

// As ibcm/ibcm.h has them; -EINVAL: the queue pair is another device's, has a connection, or is in
// no state to begin one.
int rnic_conn_accept(struct rnic_conn *conn, struct rnic_qp *qp, const struct ibcm_params *params);
int rnic_conn_reject(struct rnic_conn *conn, unsigned reason, struct span private_data);
// The program has made its queue pair ready itself.
int rnic_conn_establish(struct rnic_conn *conn);
// Something has come to it: ESTABLISHED follows, as if the peer had said that it is ready.
// -EISCONN: it is established; -ENOTCONN: it was not accepted.
int rnic_conn_notify(struct rnic_conn *conn);
// What is posted comes back flushed; DISCONNECTED follows, unless the peer was first.
int rnic_conn_disconnect(struct rnic_conn *conn);
// The program has heard of DISCONNECTED: when its queue pair ends is its own affair from now on.
void rnic_conn_take_end(struct rnic_conn *conn);
// No event of it is told any more once this returns. What the peer has to hear it hears.
void rnic_conn_destroy(struct rnic_conn *conn);

// For a queue pair of the program's own. -EINVAL: the peer's is not known, or not any more.
int rnic_conn_agreement(struct rnic_conn *conn, struct ibcm_agreement *ret,
                        struct ibcm_ends *ret_ends);
