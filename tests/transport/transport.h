// Work queues over transports that the product does not have. A port that one lossless stream alone
// has seen proves nothing: each of these needs what the stream does not.
//
//     world.c      ends: memory, completion queues, work requests; and what runs them
//     peer.c       what a message of the peer does at an end: receives, memory, atomics
//     net.c        packets on their way, for the next two: lost, repeated, late, from a seed
//     direct.c     executes in the poster's call: put, released and settled at once
//     datagram.c   many peers, an address per work request, done when sent
//     lossy.c      packets get lost, repeated and out of order: goes back and sends again
//     stream.c     the product's own on a stream, iwarp/, by the same tests
//     packets.c    the product's own on packets, of roce/, likewise
//     rc.c         ... reliable connections, over a net that loses
//
//     test_programs.c   what programs do, each over every transport that can carry it
//     test_seeds.c      what they do at random, with an oracle of memory and of order
//
// A transport is a row in a table: what it can carry, and its doors. Time is virtual.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/prng.h"
#include "cq/cq.h"
#include "mem/table.h"
#include "wq/wq.h"

enum {
    END_COUNT = 3,
    END_MEMORY_LEN = 1 << 16,
    END_QUEUE_LEN = 64,
    END_HEAD = 60000, // where in its memory the heads of receives go
};

struct world;
struct inbound;

// One queue pair with its device.
struct end {
    struct world *world;
    struct end *peer; // whom it is connected with, or sends to
    struct mem_table *mem;
    uint32_t pd;
    uint32_t key; // of all its memory, numbered by address, all rights
    uint8_t *memory;
    struct cq *send_cq, *recv_cq;
    struct srq *srq;
    struct wq_config config;
    struct wq *wq;   // the transport's
    void *transport; // its half
};

// What it can carry, beside one bit per opcode.
enum transport_trait {
    TRAIT_CONNECTED = 1 << 0, // in order, nothing is lost, and failures end the connection
    TRAIT_DATAGRAM = 1 << 1,  // to whom each work request says
    TRAIT_GUARDS = 1 << 2,    // memory is read after it was put
    TRAIT_LOSSY = 1 << 4,     // its net does what struct trouble counts
    TRAIT_ANSWERED = 1 << 3,  // success says that the peer has placed it
};

struct test_transport {
    const char *name;
    uint32_t carries; // one bit per opcode
    uint32_t traits;
    uint32_t address_len; // octets of a work request that say to whom it goes
    // ... filled in for the end with this index; NULL: the index is all
    void (*fill_address)(const struct end *end, uint32_t index, void *ret);
    uint32_t receive_head_len;     // octets of a receive that stand before the payload
    void (*open)(struct end *end); // makes end->wq of end->config
    void (*on_send_posted)(struct end *end);
    void (*on_receive_posted)(struct end *end);
    bool (*step)(struct world *world); // something moves, perhaps time; false: nothing will
    void (*give_up)(struct end *end);  // the program gives the connection up
    void (*go_on)(struct end *end);    // datagrams: after an error of the send queue
    void (*reset)(struct end *end);    // whatever is under way: empty again
    void (*connect)(struct world *world);
    void (*close)(struct end *end);
};

extern const struct test_transport transport_direct, transport_datagram, transport_lossy,
    transport_stream, transport_rc, transport_uc, transport_ud;

struct world_options {
    bool has_srq;
    bool sq_sig_all;
    bool write_flush;
    uint32_t allotment_len; // octets of a Read's request at most; 0: undivided
    uint64_t seed;
};

struct world {
    const struct test_transport *transport;
    struct world_options options;
    struct prng prng;
    instant_ns now;
    struct end ends[END_COUNT];
    struct packet *packets; // on their way
    struct trouble {
        uint64_t lost, repeated;
        uint64_t gaps, not_ready;
        uint64_t sent_again, apart; // ... at an offset that begins no packet of those before
        uint64_t read_again, answered_again;
    } trouble;
};

struct world *world_open(const struct test_transport *transport,
                         const struct world_options *options);
void world_reconnect(struct world *world); // what was posted is forgotten, polled or not
void world_run(struct world *world);       // until nothing moves any more
void world_close(struct world *world);     // invariants, and everything has been given back

static inline bool transport_can(const struct test_transport *t, uint32_t opcodes, uint32_t traits)
{
    return (t->carries & opcodes) == opcodes && (t->traits & traits) == traits;
}

/* ---- what a program does --------------------------------------------------------------------- */

// A work request to be filled in further, then posted; all old contents of its slot are spoilt.
struct send_wqe *end_send_slot(struct end *end, uint64_t wr_id, enum wqe_opcode opcode,
                               uint32_t flags);
void end_add_sge(struct end *end, struct send_wqe *wqe, size_t offset, uint32_t len);
void end_set_inline(struct send_wqe *wqe, const void *octets, size_t len);
void end_set_remote(struct end *end, struct send_wqe *wqe, size_t remote); // in the peer's memory
void end_post(struct end *end);
// All of it: one element, at `offset` of the own memory.
void end_post_op(struct end *end, uint64_t wr_id, enum wqe_opcode opcode, uint32_t flags,
                 size_t offset, uint32_t len, size_t remote);
// Of a datagram, to the end with this index; otherwise to the peer.
void end_set_address(struct end *end, struct send_wqe *wqe, uint32_t index);
void end_post_receive(struct end *end, uint64_t wr_id, size_t offset, uint32_t len);

void end_expect(struct cq *cq, uint64_t wr_id, uint32_t status); // the oldest completion
void end_expect_none(struct cq *cq);
// The test fails if there is none. The length is that of the payload, whatever stood before it.
struct cqe end_poll(struct cq *cq);

// Octets that depend on their place and a seed, and the check for them.
void end_fill(struct end *end, size_t offset, size_t len, uint8_t seed);
void end_expect_filled(const struct end *end, size_t offset, size_t len, uint8_t seed);

/* ---- for transports -------------------------------------------------------------------------- */

// Its half of the end, zeroed, whose queues are made.
void end_init(struct end *end, void *transport, struct wq *wq, struct wq_counters *counters);
void end_fini(struct end *end);

// From whatever is under way to empty queues.
void end_reset(struct end *end, struct inbound *in);

/* ---- net.c ----------------------------------------------------------------------------------- */

// Beside them each transport has its own meaning for what a packet says.
enum { PACKET_LEN_MAX = 2048 };

// What the header of a message says.
struct message {
    enum wqe_opcode opcode;
    uint32_t imm_or_inv;
    uint32_t rkey;
    uint64_t remote_addr;
    uint64_t compare_add, swap;
    uint64_t length;
    uint64_t from; // datagrams: who sent it
    bool is_solicited;
};

struct packet {
    struct packet *next;
    instant_ns at;
    struct end *to;
    unsigned kind;         // the transport's
    uint64_t psn;          // ... the number of its first cell
    uint32_t cell_count;   // ... and how many it has
    enum wc_status status; // what went wrong
    struct message message;
    uint64_t offset; // of its octets in the message
    size_t len;
    uint8_t octets[PACKET_LEN_MAX];
};

// Takes a copy, or several, or none: `loss` and `repeat` of 1024.
void net_put(struct world *world, const struct packet *packet, unsigned loss, unsigned repeat);
instant_ns net_next(const struct world *world); // when something arrives; INSTANT_NEVER: nothing
struct packet net_take(struct world *world);    // what arrives then, which is now
void net_clear(struct world *world);

/* ---- peer.c ---------------------------------------------------------------------------------- */

struct message message_of(const struct send_wqe *wqe);
struct message message_of_request(const struct read_context *context);

// A message that is arriving at an end.
struct inbound {
    struct end *end;
    struct recv_wqe *receive; // claimed; NULL: none
    struct scatter scatter;
};

// Takes a receive for it, if it needs one. False: none is posted.
bool peer_begin(struct inbound *in, const struct message *m);
// WC_SUCCESS, or what the sender's work request ends with.
enum wc_status peer_place(struct inbound *in, const struct message *m, uint64_t offset,
                          struct span payload);
enum wc_status peer_end(struct inbound *in, const struct message *m);
// What a Read reads, in at most SGE_COUNT_MAX pieces.
enum wc_status peer_read(const struct inbound *in, const struct message *m, uint64_t offset,
                         size_t len, struct mspan *pieces, unsigned *ret_count);
enum wc_status peer_atomic(const struct inbound *in, const struct message *m,
                           uint64_t *ret_original);
// The connection ends: a receive that is claimed, and all others.
void peer_flush(struct inbound *in);
