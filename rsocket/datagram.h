// Sockets of datagrams: one UDP socket, and a queue pair of datagrams (UD) for each local address
// that is sent from. What stands on the wire is rdma-core's protocol (docs/rsocket there, "Datagram
// Overview").
//
//   datagram_wire.c   the two headers
//   ud.c              a local address's queue pair: its messages, out and in
//   peers.c           who was met: address, queue pair, address handle
//   datagram.c        the socket: what it sends, how, and what it has received
//
// The first datagram to a peer goes over UDP and tells it our queue pair. The peer answers, over
// UDP, with its own; from then on datagrams go from queue pair to queue pair. Which queue pair an
// address has may change, as when a program is started anew: who has heard nothing of a peer for a
// while sends one datagram in a second over UDP again.
//
// There is no thread behind it: what has come over UDP is looked at by the calls of the program,
// and until then its peers go on over UDP.
#pragma once

#include <sys/socket.h>

#include "rsocket/rsocket.h"

/* ---- on the wire (datagram_wire.c) ----------------------------------------------------------- */

enum { RS_UDP_HEADER_MAX = 28, RS_DATAGRAM_HEADER_MAX = 24 };

#define RS_QPN_MASK 0xffffffU

struct rs_udp_header {
    enum rs_op op; // RS_OP_DATA: octets follow; RS_OP_CONTROL: an answer
    uint32_t qpn;  // of the sender
};

// Both of the address's family; the octets written or, of what is not such a header, 0.
size_t rs_udp_header_len(const struct sockaddr *own);
size_t rs_udp_header_emit(const struct rs_udp_header *header, const struct sockaddr *own,
                          uint8_t buf[RS_UDP_HEADER_MAX]);
size_t rs_udp_header_parse(const uint8_t *octets, size_t len, const struct sockaddr *sender,
                           struct rs_udp_header *ret);
size_t rs_datagram_header_emit(const struct sockaddr *own, uint8_t buf[RS_DATAGRAM_HEADER_MAX]);
size_t rs_datagram_header_parse(const uint8_t *octets, size_t len, struct sockaddr_storage *ret);

/* ---- messages -------------------------------------------------------------------------------- */

enum {
    RS_MESSAGE_LEN = 2048,   // with its header: what rdma-core's receives hold
    RS_UDP_MESSAGE_MAX = 64, // that came over UDP and were not read yet
};

struct rs_ud;

// One that has come.
struct rs_message {
    struct list_link link; // in the socket's list, the oldest first; or idle
    struct rs_ud *ud;      // NULL: it came over UDP
    uint8_t *octets;       // of the program, behind the header
    size_t len;
    struct sockaddr_storage sender;
};

/* ---- a local address (ud.c) ------------------------------------------------------------------ */

struct rs_ud {
    struct list_link link;       // of the socket
    struct sockaddr_storage own; // with the port of the UDP socket
    struct rdma_cm_id *id;
    uint8_t sgid_index;
    uint32_t message_max; // octets that the path takes, header included
    uint8_t header[RS_DATAGRAM_HEADER_MAX];
    size_t header_len;
    uint8_t *memory; // places of messages: out, then in, each of those behind room for the GRH
    struct ibv_mr *mr;
    uint32_t inline_len;
    uint16_t send_count, receive_count;
    uint16_t idle_count, *idle;  // places of messages out
    struct rs_message *messages; // in, by place
    bool is_armed;               // the CQ will raise an event
};

// For `own`, an address of a device's: its completion channel joins `epoll_fd`. NULL with errno.
struct rs_ud *rs_ud_create(const struct sockaddr *own, const struct rs_options *options,
                           int epoll_fd);
void rs_ud_destroy(struct rs_ud *ud);

// One look (rs_look): messages that have come go to the tail of `received`. True if anything moved.
bool rs_ud_progress(struct rs_ud *ud, struct list_link *received, bool *ret_has_more);
// Has the CQ raise an event; false if that was so already.
bool rs_ud_arm(struct rs_ud *ud);
void rs_ud_take_event(struct rs_ud *ud);
// The message has been read: its place is free for another.
void rs_ud_give_back(struct rs_ud *ud, struct rs_message *message);

static inline bool rs_ud_may_send(const struct rs_ud *ud)
{
    return ud->idle_count > 0;
}

// `source` whole, as one message; rs_ud_may_send holds, and it is no longer than the path takes. -1
// with errno.
int rs_ud_send(struct rs_ud *ud, struct ibv_ah *ah, uint32_t qpn, struct rs_source *source);
// For the address of a peer, as its device has it. NULL with errno.
struct ibv_ah *rs_ud_ah_create(const struct rs_ud *ud, const struct sockaddr *peer);

/* ---- who was met (peers.c) ------------------------------------------------------------------- */

enum { RS_PEER_MAX = 1024, RS_PEER_BUCKET_COUNT = 256 };

struct rs_peer {
    struct list_link of_bucket, by_age;
    struct sockaddr_storage addr;
    struct rs_ud *ud;  // from which it is sent to
    struct ibv_ah *ah; // NULL: its queue pair is not known
    uint32_t qpn;
    int64_t heard_ns, asked_ns; // when it was last heard of, or sent a datagram over UDP
};

struct rs_peers {
    struct list_link buckets[RS_PEER_BUCKET_COUNT];
    struct list_link by_age; // the one that was asked for last is at the tail
    unsigned count;
};

void rs_peers_init(struct rs_peers *peers);
void rs_peers_fini(struct rs_peers *peers);
struct rs_peer *rs_peers_find(struct rs_peers *peers, const struct sockaddr *addr); // or NULL
// A new one; of too many the one that was asked for longest ago is forgotten. NULL: no memory.
struct rs_peer *rs_peers_add(struct rs_peers *peers, const struct sockaddr *addr, struct rs_ud *ud);
