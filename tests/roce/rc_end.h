// One end of a reliable connection, with its memory and queues, whose packets are taken and made by
// hand: what leaves is kept, read back by the parser, until a test takes it. Two ends can be
// joined, and then deliver to each other.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/port_push.h"
#include "base/transport.h"
#include "cq/cq.h"
#include "mem/table.h"
#include "roce/rc.h"
#include "wire/roce.h"
#include "wq/filling.h"
#include "wq/wq.h"

enum {
    RC_END_MEMORY_LEN = 1 << 17,
    RC_END_PSN = 0xfffff0, // the first in both directions
    RC_END_NUMBER = 5,
    RC_END_PEER = 77, // the peer's number
};

struct rc_end_options {
    uint32_t pmtu; // 0: 256
    uint32_t rights;
    uint32_t max_rd_atomic, max_dest_rd_atomic; // 0: 4
    uint8_t timeout, retry_count, rnr_retry_count, min_rnr_timer;
    duration_ns ack_timeout_min_ns; // the device's
    uint32_t allotment_len;
    struct read_sched *read_sched;  // the device's, with others; NULL: one of its own
    struct congestion_share *share; // likewise; NULL: there is room for all
    bool has_no_rights, has_srq;
    bool is_plain;
    bool is_relaxed;     // the order in which its memory is written
    bool is_one_host;    // the peer has its address
    uint32_t blocks;     // for what comes beyond a hole; 0: 64
    unsigned packets;    // that may have left and not been taken; 0: 1024
    enum qp_state state; // to come to; QP_RESET: RTS
};

// A packet that has left.
struct rc_end_packet {
    struct datagram_path path;
    struct roce_packet p;
    size_t len;
    uint8_t octets[DATAGRAM_LEN_MAX];
};

struct rc_end {
    struct mem_table *mem;
    uint32_t pd, key; // all of its memory, all rights
    uint8_t *memory;
    struct cq *send_cq, *recv_cq;
    struct srq *srq;
    struct rc_store *store;
    struct rc *rc;
    struct transport *t;
    instant_ns now;
    uint32_t events[QP_EVENT_COUNT];
    struct rc_end_packet *packets;
    unsigned packet_capacity, first, count;
    bool has_no_room;   // of the sink
    bool has_no_memory; // of regions on demand
    bool is_weft_peer;  // what it takes is greeted
    struct in6_addr remote;
    enum past_answer (*push)(void *ctx, const struct packet_push *push); // NULL: none goes so
};

extern const struct in6_addr rc_end_local, rc_end_remote;

struct rc_end *rc_end_open(const struct rc_end_options *options);
void rc_end_close(struct rc_end *e);
void rc_end_modify(struct rc_end *e, enum qp_state state); // must be possible

/* ---- the peer -------------------------------------------------------------------------------- */

// A packet of the peer's with this opcode of RC, PSN and payload; the test fills in the rest.
struct roce_packet rc_end_make(uint8_t operation, uint32_t psn);
// It arrives, and what follows leaves.
void rc_end_take(struct rc_end *e, const struct roce_packet *p, const void *payload, size_t len);
void rc_end_take_octets(struct rc_end *e, struct span octets);
// It arrives, and others with it, until they are over.
void rc_end_take_one(struct rc_end *e, const struct roce_packet *p, const void *payload,
                     size_t len);
void rc_end_take_over(struct rc_end *e);
// The peer turns out to be a weft end: by so many requests, which are the first.
enum { RC_END_GREETINGS = 8 };
void rc_end_meet(struct rc_end *e);
// An acknowledgement arrives.
void rc_end_take_ack(struct rc_end *e, uint32_t psn, uint8_t syndrome);
// One that says what the peer has beyond the one that it misses: bit by bit, from the lowest.
void rc_end_take_sack(struct rc_end *e, uint32_t psn, uint64_t here);
void rc_end_output(struct rc_end *e);
void rc_end_wait(struct rc_end *e, instant_ns until); // deadlines in between come

// The oldest packet that has left; the test fails if there is none, or it is another operation.
const struct rc_end_packet *rc_end_left(struct rc_end *e, uint8_t operation, uint32_t psn);
const struct rc_end_packet *rc_end_peek(const struct rc_end *e); // it stays
// AETH_SYNDROME_ACK: whatever receives it tells of.
void rc_end_left_ack(struct rc_end *e, uint32_t psn, uint8_t syndrome);
// A refusal for a missing packet that says so.
void rc_end_left_sack(struct rc_end *e, uint32_t psn, uint64_t here);
void rc_end_left_none(const struct rc_end *e);

// Packets of either go to the other until there are none.
void rc_ends_run(struct rc_end *a, struct rc_end *b);

/* ---- the program ----------------------------------------------------------------------------- */

void rc_end_post_receive(struct rc_end *e, uint64_t wr_id, size_t offset, uint32_t len);
struct send_wqe *rc_end_slot(struct rc_end *e, uint64_t wr_id, enum wqe_opcode opcode);
void rc_end_commit(struct rc_end *e);
// One element, at `offset` of its memory; to or from `remote` of the peer's memory `remote_key`.
void rc_end_post(struct rc_end *e, uint64_t wr_id, enum wqe_opcode opcode, size_t offset,
                 uint32_t len, uint64_t remote, uint32_t remote_key);
void rc_end_completed(struct cq *cq, uint64_t wr_id, uint32_t status); // the oldest
void rc_end_completed_none(struct cq *cq);

static inline uint64_t rc_end_addr(const struct rc_end *e, size_t offset)
{
    return (uintptr_t)e->memory + offset;
}

static inline enum qp_state rc_end_state(const struct rc_end *e)
{
    return e->t->ops->state(e->t);
}

static inline const struct rc_counters *rc_end_counters(const struct rc_end *e)
{
    return rc_counters(e->rc);
}
