// A template for the tests of what happens beyond holes: one stream of FPDUs, and two queue pairs
// alike in everything (keys, addresses, work requests) that receive it. One gets its segments in
// any order, through the placer of MPA and the plain ledger of tests/hole_ledger.h, or the receive
// side of tcp/. The other is naive: it gets the octets in order, as soon as they are there without
// a hole.
//
// After every segment both must have delivered the same: completions of receives and of sends, and
// what they have sent. So nothing is delivered before its hole closes, and nothing late. At the end
// their memory must be the same.
//
//     hole_open(&options)
//     hole_send, hole_write, ...       the stream: each call is one message, cut to segments
//     hole_begin(h)                    nothing has arrived yet
//     hole_arrive(h, first, last)      the FPDUs [first, last), in one TCP segment
//     hole_close(h)                    all that is still missing arrives; everything is compared
#pragma once

#include "base/prng.h"
#include "mpa/placer.h"
#include "mpa/tx.h"
#include "tcp/receive.h"
#include "tests/hole_ledger.h"
#include "tests/iwarp/pair.h"

enum {
    HOLE_MEMORY_LEN = 1 << 16,
    HOLE_PART_LEN = 1 << 14,
    HOLE_WRITE_AT = 0,                  // where Writes of the stream go
    HOLE_RECEIVE_AT = HOLE_PART_LEN,    // receives, Reads of ours
    HOLE_SOURCE_AT = 2 * HOLE_PART_LEN, // what the peer's Reads read
    HOLE_WORD_AT = 3 * HOLE_PART_LEN,   // what its atomics count in
    HOLE_BUFFER_LEN = 512,              // of a receive or a Read
    HOLE_RECEIVE_COUNT = 24,            // receives with a buffer of their own
    HOLE_READ_COUNT = 8,                // likewise Reads
    HOLE_WIRE_MAX = 1 << 17,
    HOLE_FPDU_MAX = 1024,
    HOLE_LOG_MAX = 1 << 17,
};
#define HOLE_IOVA 0x100000ULL // the address of the memory's first octet, for both

struct hole_log {
    size_t len;
    uint8_t octets[HOLE_LOG_MAX];
};

struct hole_side {
    struct mem_table *mem;
    uint32_t pd, stag;
    uint8_t *memory;
    struct cq *send_cq, *recv_cq;
    struct srq *srq;
    struct qp *qp;
    struct mpa_rx rx;
    uint8_t carry[MPA_RX_CARRY_LEN];
    uint32_t window; // its STag
    uint64_t put_position;
    struct hole_log recv, send, sent; // what was delivered, what it has sent
    unsigned events[QP_EVENT_COUNT];
    unsigned sent_count;
    uint32_t last_sink; // the sink STag of the last Read Request that it sent
    bool is_polling_paused;
};

struct hole_options {
    bool is_foreign; // the peer knows no extensions
    bool markers;
    uint32_t mulpdu;    // 0: 120
    uint32_t srq_wr;    // 0: no SRQ
    uint32_t recv_wr;   // 0: 64
    uint32_t cq_count;  // entries of the receive CQ; 0: 1024
    uint16_t ird;       // 0: 8
    uint32_t allotment; // of both ends; 0: Reads are undivided
    uint8_t oneshot;    // EXTENSION_ONESHOT_ bits that are agreed
    uint32_t first_msn; // of all queues; 0: 1
    enum placement placement;
    bool tcp; // the receive side of tcp/ in place of the plain ledger; its sequence numbers wrap
};

struct hole {
    struct hole_options options;
    struct hole_side early, naive;
    struct rdmap_stream sender;
    struct mpa_tx tx;
    uint8_t wire[HOLE_WIRE_MAX];
    size_t wire_len;
    size_t start[HOLE_FPDU_MAX + 1];
    unsigned count; // FPDUs
    uint8_t seed;   // of the next message's octets
    struct mpa_placer placer;
    uint8_t scratch[MPA_ULPDU_MAX_LEN];
    struct ledger ledger; // not with options.tcp
    struct tcp_receive tcp;
    void *tcp_memory; // its arrays // only then
    struct tcp_counters tcp_counters;
    struct place_counts released; // all that on_advance was told
    bool is_twin_free;            // they are not compared: a test looks for itself
};

struct hole *hole_open(const struct hole_options *options); // NULL: the defaults
// The first FPDU, an empty Write, has been delivered by then.
void hole_begin(struct hole *h);
void hole_arrive(struct hole *h, unsigned first, unsigned last);
// Octets of the stream up to which nothing is missing, and everything was handed up.
size_t hole_handed(const struct hole *h);
// Octets of the stream, whatever FPDUs they are of.
void hole_arrive_octets(struct hole *h, size_t at, size_t len);
// The same with other octets than the stream's.
void hole_arrive_forged(struct hole *h, size_t at, const uint8_t *octets, size_t len);
// After receives were posted: the store is drained, and what stalled goes on.
void hole_resume(struct hole *h);
void hole_compare(struct hole *h);
void hole_close(struct hole *h);
// Without the rest of the stream: what the early side has is dropped.
void hole_drop(struct hole *h);

/* ---- the stream. Each returns the index of its first FPDU. ----------------------------------- */

struct hole_send {
    uint32_t len;
    bool solicited, invalidates;
    enum oneshot_mark mark;
    uint32_t stag;      // to be invalidated or closed
    bool has_immediate; // a weft peer's Send with Immediate
    uint32_t immediate;
    const void *body; // NULL: some octets
};
unsigned hole_send(struct hole *h, const struct hole_send *send);
unsigned hole_write(struct hole *h, uint32_t stag, uint64_t to, uint32_t len);
unsigned hole_immediate(struct hole *h, uint32_t written_len, bool solicited);
unsigned hole_read_request(struct hole *h, uint64_t source, uint32_t len);
unsigned hole_fetch_add(struct hole *h, uint64_t word);
unsigned hole_fetch_add_by(struct hole *h, uint32_t stag, uint64_t to);
unsigned hole_read_response(struct hole *h, uint32_t sink_stag, uint32_t len);
unsigned hole_atomic_response(struct hole *h, uint32_t request_id, uint64_t original);
unsigned hole_terminate(struct hole *h);
// Any segment at all.
unsigned hole_segment(struct hole *h, const struct ddp_header *header, const void *payload,
                      uint32_t len);

/* ---- both sides ------------------------------------------------------------------------------ */

void hole_post_receives(struct hole *h, unsigned count, uint32_t len); // wr_id counts from 1
// A Read or atomic of ours, whose request has left. Returns the Read's sink STag.
uint32_t hole_post_read(struct hole *h, uint64_t wr_id, uint32_t len);
void hole_post_atomic(struct hole *h, uint64_t wr_id);
// A type 2 window over the octets that Writes go to.
uint32_t hole_bind_window(struct hole *h);
// A command table, and a command that opens the octets that Writes go to; its advertisement has
// left. Returns its STag.
void hole_make_commands(struct hole *h, const struct oneshot_config *config);
uint32_t hole_post_command(struct hole *h, uint64_t reference);

/* ---- what the early side has delivered so far ------------------------------------------------ */

static inline const struct qp_counters *hole_counters(const struct hole *h)
{
    return qp_counters(h->early.qp);
}

// The receive CQ's entry `i` of what the early side has delivered.
static inline struct cqe hole_received(const struct hole *h, unsigned i)
{
    struct cqe cqe;
    assert_true((i + 1) * sizeof cqe <= h->early.recv.len);
    memcpy(&cqe, h->early.recv.octets + i * sizeof cqe, sizeof cqe);
    return cqe;
}

static inline unsigned hole_received_count(const struct hole *h)
{
    return (unsigned)(h->early.recv.len / sizeof(struct cqe));
}

static inline unsigned hole_completed_count(const struct hole *h)
{
    return (unsigned)(h->early.send.len / sizeof(struct cqe));
}

static inline bool hole_is_over(const struct hole *h)
{
    return qp_stream_state(h->early.qp) != QP_STREAM_OPEN;
}

static inline uint64_t hole_write_to(size_t offset)
{
    return HOLE_IOVA + HOLE_WRITE_AT + offset;
}
