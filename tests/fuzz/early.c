// A peer that lies about its messages, in segments that come in any order: FPDUs with good CRCs,
// but with message numbers, offsets, lengths and Last flags from the input; then the order in which
// they arrive. MPA, DDP, RDMAP and the queue pair stand on the receive side of tcp/.
//
//     octet 0              how many segments
//     four octets each     what it is | Last and message number | offset / 4 | octets of payload
//     the rest             which of them arrives next; those that never do come at the end
//
// The invariants hold after every step; nothing outside of registered memory is touched; and a
// message that is delivered has no stale octet in it: buffers are full of STALE, payload has none.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "iwarp/internal.h"
#include "mpa/placer.h"
#include "mpa/tx.h"
#include "tcp/receive.h"
#include "wire/ddp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    SEGMENT_MAX = 48,
    WIRE_MAX = SEGMENT_MAX * 512,
    MEMORY_LEN = 16384,
    FENCE_LEN = 64,
    BUFFER_LEN = 512,
    RECEIVES = 8,
    READS = 2,
    STALE = 0xee,
    FRESH = 0x11,
    QP_NUM = 5,
};

static struct {
    uint8_t fenced[FENCE_LEN + MEMORY_LEN + FENCE_LEN];
    uint8_t *memory;
    struct mem_table *mem;
    uint32_t pd, stag, window, sink[READS];
    struct cq *cq;
    struct qp *qp;
    struct mpa_rx rx;
    struct mpa_placer placer;
    struct tcp_receive tcp;
    struct tcp_counters tcp_counters;
    uint8_t wire[WIRE_MAX];
    size_t start[SEGMENT_MAX + 1];
    unsigned count, sink_count;
    uint64_t put;
} s;

static uint8_t carry[MPA_RX_CARRY_LEN], scratch[MPA_ULPDU_MAX_LEN];

/* ---- the queue pair -------------------------------------------------------------------------- */

static enum ulpdu_answer on_ulpdu(void *ctx, struct span ulpdu)
{
    (void)ctx;
    return qp_on_ulpdu(s.qp, ulpdu, 1);
}

static enum place_verdict on_early_ulpdu(void *ctx, struct span ulpdu, uint64_t end,
                                         struct place_counts *counts)
{
    (void)ctx;
    return qp_on_early_ulpdu(s.qp, ulpdu, end, counts, 1);
}

static bool on_advance(void *ctx, uint64_t end, const struct place_counts *counts)
{
    (void)ctx;
    return qp_on_advance(s.qp, end, counts, 1);
}

static bool has_room(void *ctx, size_t ulpdu_len, unsigned piece_count)
{
    (void)ctx, (void)ulpdu_len, (void)piece_count;
    return true;
}

static uint64_t put(void *ctx, struct span header, const struct span *pieces, unsigned piece_count,
                    bool is_lent)
{
    struct ddp_header h;
    size_t len;
    (void)ctx, (void)pieces, (void)piece_count, (void)is_lent;
    CHECK(ddp_header_parse(header, &h, &len) == DDP_PARSE_OK);
    if (rdmap_control_opcode(h.rsvdulp) == RDMAP_READ_REQUEST && s.sink_count < READS) {
        s.sink[s.sink_count++] = get_be32(header.ptr + len);
    }
    return ++s.put;
}

static void output(void)
{
    struct ulpdu_sink sink = {has_room, put, NULL};
    qp_output(s.qp, &sink, 1);
    qp_on_handed(s.qp, s.put, 1);
}

static void memory_make(void)
{
    static const uint8_t key[STAG_KEY_LEN] = {3};
    memset(s.fenced, STALE, sizeof s.fenced);
    s.memory = s.fenced + FENCE_LEN;
    s.mem = mem_table_create(key, 4096, (struct mem_probe){0});
    CHECK(s.mem != NULL);
    CHECK(mem_pd_alloc(s.mem, &s.pd) == 0);
    uint32_t access = MEM_ACCESS_ALL & ~MEM_ACCESS_ZERO_BASED;
    CHECK(mem_region_register(s.mem, s.pd, s.memory, MEMORY_LEN, 0, access, &s.stag) == 0);
    CHECK(mem_window_alloc(s.mem, MEM_WINDOW_TYPE_2, s.pd, &s.window) == 0);
    struct mem_binding binding = {.stag = s.window ^ 1,
                                  .lkey = s.stag,
                                  .length = BUFFER_LEN,
                                  .access = MEM_ACCESS_REMOTE_WRITE};
    CHECK(mem_window_bind(s.mem, (struct mem_asker){s.pd, QP_NUM}, &binding) == MEM_OK);
    s.window = binding.stag;
}

// Buffers lie behind what Writes go to.
static uint64_t buffer_at(unsigned index)
{
    return MEMORY_LEN / 2 + (uint64_t)index * BUFFER_LEN;
}

static void post_all(void)
{
    for (unsigned i = 0; i < RECEIVES; i++) {
        struct recv_wqe *wqe = wq_receive_slot(qp_wq(s.qp), 0);
        wqe->wr_id = i;
        wqe->sge_count = 1;
        wqe->sge[0] = (struct sge){buffer_at(i), BUFFER_LEN, s.stag};
        wq_receive_commit(qp_wq(s.qp), 1);
    }
    for (unsigned i = 0; i < READS; i++) {
        struct send_wqe *wqe = wq_send_slot(qp_wq(s.qp), 0);
        *wqe = (struct send_wqe){.wr_id = RECEIVES + i,
                                 .opcode = WQE_RDMA_READ,
                                 .flags = WQE_SIGNALED,
                                 .sge_count = 1,
                                 .length = 200};
        wqe->sge[0] = (struct sge){buffer_at(RECEIVES + i), 200, s.stag};
        wq_send_commit(qp_wq(s.qp), 1);
        qp_on_send_posted(s.qp, 1);
    }
    output();
}

static void qp_make(void)
{
    s.cq = cq_create(64, (struct cq_port){0});
    CHECK(s.cq != NULL);
    struct qp_config config = {
        .wq = {.qp_num = QP_NUM,
               .pd = s.pd,
               .caps = {.max_send_wr = 8,
                        .max_recv_wr = RECEIVES,
                        .max_send_sge = 1,
                        .max_recv_sge = 1},
               .send_cq = s.cq,
               .recv_cq = s.cq,
               .mem = s.mem,
               .ord_max = 4},
        .rnr_store_len = 4096,
        .ird_max = 4,
        .places_early = true,
    };
    struct qp_stream stream = {.mulpdu = 1024,
                               .ird = 4,
                               .ord = 4,
                               .is_initiator = true,
                               .may_send = true,
                               .peer_is_weft = true,
                               .choices = {.kind = EXTENSION_CHOICES}};
    CHECK(qp_create(&config, &s.qp) == 0);
    qp_on_established(s.qp, &stream, 1);
}

/* ---- the stream ------------------------------------------------------------------------------ */

// What a segment is: opcode, and for tagged ones whose STag.
static struct ddp_header header_of(const uint8_t *draw)
{
    static const uint8_t opcodes[8] = {
        RDMAP_SEND,           RDMAP_WRITE,     RDMAP_READ_REQUEST, RDMAP_READ_RESPONSE,
        RDMAP_ATOMIC_REQUEST, RDMAP_IMMEDIATE, RDMAP_SEND_INV,     RDMAP_WRITE,
    };
    uint8_t what = draw[0] & 7;
    const struct rdmap_opcode_facts *facts = rdmap_opcode_facts(opcodes[what]);
    return (struct ddp_header){
        .tagged = facts->is_tagged,
        .last = (draw[1] & 0x80) != 0,
        .rsvdulp = rdmap_control_emit((enum rdmap_opcode)opcodes[what]),
        .stag = what == 1   ? s.stag
                : what == 7 ? s.window
                            : s.sink[draw[0] >> 3 & 1],
        .to = (uint64_t)draw[2] * 4,
        .rsvdulp_stag = s.window,
        .qn = facts->qn,
        .msn = 1 + (draw[1] & 7),
        .mo = (uint32_t)(facts->fixed_len > 0 ? 0 : draw[2] * 4),
    };
}

static size_t payload_make(const struct ddp_header *h, uint8_t len, uint8_t *payload)
{
    const struct rdmap_opcode_facts *facts = rdmap_opcode_facts(rdmap_control_opcode(h->rsvdulp));
    memset(payload, FRESH, 256);
    if (rdmap_control_opcode(h->rsvdulp) == RDMAP_READ_REQUEST) {
        struct rdmap_read_request request = {.rdmardsz = len, .src_stag = s.stag};
        rdmap_read_request_emit(&request, payload);
    }
    return facts->fixed_len > 0 ? facts->fixed_len : len;
}

static void fpdu_put(struct mpa_tx *tx, const struct ddp_header *h, struct span payload)
{
    static struct mpa_batch batch;
    static uint8_t arena[1 << 18];
    uint8_t header[DDP_HEADER_MAX_LEN];
    unsigned iov_count;
    mpa_batch_init(&batch, mspan_of(arena, sizeof arena), false);
    size_t header_len = ddp_header_emit(h, header);
    s.start[s.count] = tx->position;
    mpa_tx_put(tx, &batch, span_of(header, header_len), &payload, payload.len > 0,
               MPA_PAYLOAD_COPY);
    const struct iovec *iov = mpa_batch_iov(&batch, &iov_count);
    CHECK(tx->position <= WIRE_MAX);
    memcpy(s.wire + s.start[s.count++], iov->iov_base, iov->iov_len);
    s.start[s.count] = tx->position;
}

// The first is an empty Write, so that the stream has begun.
static void stream_make(const uint8_t *draws, unsigned count, bool markers)
{
    struct mpa_tx tx;
    uint8_t payload[256];
    mpa_tx_init(&tx, true, markers, mpa_tx_mulpdu_max(markers));
    s.count = 0;
    static const uint8_t empty[4] = {1, 0x80, 0, 0};
    struct ddp_header first = header_of(empty);
    fpdu_put(&tx, &first, span_of(payload, 0));
    for (unsigned i = 0; i < count; i++) {
        struct ddp_header h = header_of(draws + 4 * i);
        size_t len = payload_make(&h, draws[4 * i + 3], payload);
        fpdu_put(&tx, &h, span_of(payload, len));
    }
}

/* ---- arriving -------------------------------------------------------------------------------- */

static void completions_check(void)
{
    struct cqe cqe;
    while (cq_poll(s.cq, &cqe, 1) == 1) {
        bool has_octets = cqe.status == WC_SUCCESS && cqe.opcode == WC_RECV;
        size_t len = cqe.opcode == WC_RDMA_READ && cqe.status == WC_SUCCESS ? 200
                     : has_octets                                           ? cqe.byte_len
                                                                            : 0;
        const uint8_t *octets = s.memory + buffer_at((unsigned)cqe.wr_id);
        CHECK(memchr(octets, STALE, len) == NULL);
    }
}

static void arrive(size_t at, size_t len)
{
    uint8_t *exact = malloc(len);
    CHECK(exact != NULL);
    memcpy(exact, s.wire + at, len);
    tcp_receive_octets(&s.tcp, s.tcp.first + at, span_of(exact, len));
    free(exact);
    output();
    completions_check();
    CHECK(qp_check(s.qp));
    tcp_receive_check(&s.tcp);
    mpa_placer_check(&s.placer);
}

static _Alignas(CARVE_ALIGN) uint8_t tcp_memory[WIRE_MAX + (1 << 16)];

static void world_make(bool markers)
{
    struct ulpdu_port port = {on_ulpdu, on_early_ulpdu, on_advance, NULL};
    struct tcp_config config = tcp_config_default;
    memory_make();
    qp_make();
    post_all();
    mpa_rx_init(&s.rx, true, markers ? MPA_RX_MARKERS : MPA_RX_MARKERS_NONE,
                mspan_of(carry, sizeof carry), port);
    mpa_placer_init(&s.placer, &s.rx, PLACEMENT_EARLY, 0, mspan_of(scratch, sizeof scratch));
    config.place = mpa_placer_port(&s.placer);
    config.window_len = config.buffer_len = WIRE_MAX;
    tcp_receive_init(&s.tcp, &config, &s.tcp_counters, &(struct carve){.block = tcp_memory});
    tcp_receive_begin(&s.tcp, 77);
    tcp_receive_on_window_sent(&s.tcp, tcp_receive_window(&s.tcp, 1));
}

static void world_end(void)
{
    for (unsigned i = 0; i < FENCE_LEN; i++) {
        CHECK(s.fenced[i] == STALE);
        CHECK(s.fenced[FENCE_LEN + MEMORY_LEN + i] == STALE);
    }
    qp_on_llp_closed(s.qp, QP_CLOSE_LOCAL, 1);
    completions_check();
    qp_destroy(s.qp);
    cq_destroy(s.cq);
    CHECK(mem_table_check(s.mem));
    mem_table_destroy(s.mem);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) {
        return 0;
    }
    unsigned wanted = data[0] & 0x3f, count = wanted < SEGMENT_MAX ? wanted : SEGMENT_MAX - 1;
    bool markers = (data[0] & 0x40) != 0;
    if (size < 1 + 4 * (size_t)count) {
        return 0;
    }
    memset(&s, 0, sizeof s);
    world_make(markers);
    stream_make(data + 1, count, markers);
    arrive(0, s.start[1]);
    for (size_t i = 1 + 4 * (size_t)count; i < size; i++) {
        unsigned first = data[i] % s.count;
        unsigned last = first + 1 < s.count && (data[i] & 0x80) != 0 ? first + 2 : first + 1;
        arrive(s.start[first], s.start[last] - s.start[first]);
    }
    arrive(0, s.start[s.count]);
    world_end();
    return 0;
}
