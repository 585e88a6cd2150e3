// A template for the tests of queue pairs: two of them on two devices, and a transport between them
// that a test drives by hand. Each end has a batch of ULPDUs by reference (what the sink was given)
// and a stream of octets on their way (what the transport has taken).
//
//     pair_open(&options)       two queue pairs with memory; not connected
//     pair_connect(p)           a is the initiator
//     pair_run(p)               everything moves until nothing moves any more
//     pair_close(p)             the invariants, and everything has been given back
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "cq/cq.h"
#include "iwarp/internal.h"
#include "iwarp/qp.h"
#include "mem/table.h"
#include "wire/ddp.h"
#include "wire/rdmap.h"
#include "wire/terminate.h"

enum {
    PAIR_MEMORY_LEN = 1 << 18,
    PAIR_UNIT_MAX = 4096,
    PAIR_EVENT_MAX = 32,
    PAIR_ULPDU_MAX = 65535,
};

// One ULPDU on its way.
struct unit {
    uint8_t header[RDMAP_TX_HEADER_MAX_LEN];
    size_t header_len;
    struct span pieces[SGE_COUNT_MAX];
    unsigned piece_count;
    uint8_t *octets; // the whole ULPDU, once the transport has taken it, or copied
    size_t len;
    uint64_t end; // stream position behind it
};

struct unit_queue {
    struct unit *units[PAIR_UNIT_MAX];
    unsigned head, count;
};

struct end {
    struct mem_table *mem;
    uint32_t pd;
    uint32_t stag; // the whole memory, all rights, numbered by address
    uint8_t *memory;
    struct cq *send_cq, *recv_cq;
    struct srq *srq;
    struct read_sched *read_sched;
    struct qp *qp;
    struct ulpdu_sink sink;
    struct unit_queue batch, stream;
    uint64_t position;
    unsigned room; // units that the batch holds at most
    unsigned event_count[QP_EVENT_COUNT];
    unsigned extension_count, extension_refused_count, runnable_count, limit_count;
};

struct pair_options {
    uint32_t mulpdu;        // 0: 65535
    uint32_t srq_wr;        // 0: no SRQ
    uint32_t read_contexts; // 0: the queue pair's own
    bool weft;              // the extensions are agreed
    uint32_t allotment[2];  // the wishes of a and b
    uint8_t oneshot;        // ... and these EXTENSION_ONESHOT_ bits
    bool siw;               // a reads Terminates as siw writes them
    bool is_unconnected;    // pair_open does not connect
    uint8_t rtr;
    struct qp_stream stream; // ird and ord for both ends; 0: 4
    struct qp_config config; // for both ends: caps, knobs
};

struct pair {
    struct pair_options options;
    struct end a, b;
    instant_ns now;
};

struct pair *pair_open(const struct pair_options *options); // NULL: the defaults, connected
void pair_connect(struct pair *p);
void pair_run(struct pair *p);
void pair_close(struct pair *p);
struct end *pair_other(struct pair *p, struct end *e);

// Steps of the transport. They return whether anything moved.
bool pair_output(struct pair *p, struct end *e);
bool pair_hand(struct pair *p, struct end *e);    // the oldest unit of the batch
bool pair_deliver(struct pair *p, struct end *e); // the oldest unit of e's stream, to the other
enum ulpdu_answer pair_inject(struct pair *p, struct end *e, const void *ulpdu, size_t len);
void pair_drop_batch(struct end *e);
// The oldest unit of e's batch after qp_output, its octets; a test looks at the wire.
struct span pair_peek(struct pair *p, struct end *e);

// Work requests on e's own memory: `offset` and `len` name the local octets, `remote` those in the
// other end's memory.
struct send_wqe *pair_send_slot(struct end *e, uint64_t wr_id, enum wqe_opcode opcode,
                                uint32_t flags);
void pair_set_sge(struct end *e, struct send_wqe *wqe, size_t offset, uint32_t len);
void pair_set_remote(struct pair *p, struct end *e, struct send_wqe *wqe, size_t remote);
void pair_post(struct pair *p, struct end *e); // commits the slot and rings
void pair_post_op(struct pair *p, struct end *e, uint64_t wr_id, enum wqe_opcode opcode,
                  uint32_t flags, size_t offset, uint32_t len, size_t remote);
void pair_post_receive(struct pair *p, struct end *e, uint64_t wr_id, size_t offset, uint32_t len);

// The oldest completion; the test fails if there is none.
struct cqe pair_poll(struct cq *cq);
unsigned pair_poll_count(struct cq *cq); // takes all
void pair_expect(struct cq *cq, uint64_t wr_id, uint32_t status);
void pair_expect_none(struct cq *cq);

// Puts a Terminate into the other's input? The one that e is about to send, parsed; fails if none.
struct terminate pair_terminate_of(struct pair *p, struct end *e);
void pair_expect_terminate(struct pair *p, struct end *e, enum terminate_cause cause);

// Octets that depend on their place and a seed, and the check for them.
void pair_fill(struct end *e, size_t offset, size_t len, uint8_t seed);
void pair_expect_filled(const struct end *e, size_t offset, size_t len, uint8_t seed);
