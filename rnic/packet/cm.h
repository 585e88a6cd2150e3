// The connection manager of a device whose queue pairs are carried by packets: queue pair 1, which
// no program has. Its messages come and go as datagrams; what it has to tell goes to the
// connections that the fronts hold. Everything here runs under the shard's lock.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/port_datagram.h"
#include "base/time.h"
#include "ibcm/ibcm.h"
#include "rnic/connect.h"
#include "rnic/rnic.h"

struct shard;

enum { PACKET_MTU_MIN = 256 }; // octets

struct packet_cm {
    struct ibcm *ibcm;
    uint32_t psn;
    instant_ns ending_until; // a process that exits waits so long for its peers' answers
    uint64_t not_management; // packets for queue pair 1 that are no MADs
};

struct rnic_conn {
    struct rnic *rnic;
    struct rnic_conn_port events;
    struct ibcm_listener listener; // is_listening
    struct ibcm_conn *cm;          // otherwise
    struct rnic_qp *qp;            // NULL: none, or the program's own
    bool is_listening;
    bool awaits_rtu;   // accepted: a packet of the peer's stands for it
    bool is_left;      // by the peer, or both have said that it is over
    bool is_end_taken; // ... and the program knows
};

/* ---- conn.c: what the fronts hold ------------------------------------------------------------ */

// Tells what the connection manager has to tell, and notes when it has something to do by itself.
void packet_conns_settle(struct shard *shard, instant_ns now);
// A packet came for the queue pair of a connection that awaits_rtu.
void packet_conn_on_packet(struct rnic_conn *conn, const struct datagram_rx *rx, instant_ns now);
// The queue pair is about to be destroyed.
void packet_conn_forget(struct rnic_qp *qp);
// NULL: no memory.
struct rnic_conn *packet_conn_create(struct rnic *rnic, const struct rnic_conn_port *events);
void packet_conn_free(struct rnic_conn *conn);
// -EINVAL: the queue pair is another device's, has a connection, or is not in INIT.
int packet_conn_attach(struct rnic_conn *conn, struct rnic_qp *qp);
void packet_conn_detach(struct rnic_conn *conn); // harmless when it has none
// The queue pair as was agreed: ready to receive, then to send. What modifying it fails with.
int packet_conn_begin(const struct rnic_conn *conn, instant_ns now);
// ... over.
void packet_conn_end(struct rnic_conn *conn, instant_ns now);
// Its peer has left, and what was sent to it is not done.
bool packet_conn_is_left_waiting(const struct rnic_conn *conn);

/* ---- cm.c: queue pair 1 ---------------------------------------------------------------------- */

// `key`: random. -ENOMEM.
int packet_cm_init(struct shard *shard, const uint8_t *key);
void packet_cm_fini(struct packet_cm *cm); // harmless when it was not made
// A connection that has ended still keeps this number from being given away.
bool packet_cm_has_qp_num(const struct packet_cm *cm, uint32_t qp_num);
// A path MTU as messages have it: 1 for 256 octets, 2 for 512 …
uint8_t packet_mtu_code(uint32_t path_mtu);
void packet_cm_on_packet(struct shard *shard, const struct datagram_rx *rx, instant_ns now);
