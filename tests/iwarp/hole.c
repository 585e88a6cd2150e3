#include "tests/iwarp/hole.h"

#include <stdlib.h>

#include "base/bytes.h"

enum { QP_NUM = 0x21, BASE = 7777, CQ_COUNT = 256 };

/* ---- the two sides --------------------------------------------------------------------------- */

static void log_append(struct hole_log *log, const void *octets, size_t len)
{
    assert_true(len <= sizeof log->octets - log->len);
    if (len > 0) {
        memcpy(log->octets + log->len, octets, len);
    }
    log->len += len;
}

static void on_event(void *ctx, enum qp_event event)
{
    ((struct hole_side *)ctx)->events[event]++;
}

static enum ulpdu_answer on_ulpdu(void *ctx, struct span ulpdu)
{
    struct hole_side *side = ctx;
    enum ulpdu_answer answer = qp_on_ulpdu(side->qp, ulpdu, 1000);
    assert_true(qp_check(side->qp));
    return answer;
}

static enum place_verdict on_early_ulpdu(void *ctx, struct span ulpdu, uint64_t end,
                                         struct place_counts *counts)
{
    struct hole_side *side = ctx;
    enum place_verdict verdict = qp_on_early_ulpdu(side->qp, ulpdu, end, counts, 1000);
    assert_true(qp_check(side->qp));
    return verdict;
}

static bool on_advance(void *ctx, uint64_t end, const struct place_counts *counts)
{
    struct hole_side *side = ctx;
    bool is_done = qp_on_advance(side->qp, end, counts, 1000);
    assert_true(qp_check(side->qp));
    return is_done;
}

static void memory_init(struct hole_side *side)
{
    static const uint8_t key[STAG_KEY_LEN] = {9};
    side->mem = mem_table_create(key, 8192, (struct mem_probe){0});
    assert_int_equal(mem_pd_alloc(side->mem, &side->pd), 0);
    side->memory = aligned_alloc(4096, HOLE_MEMORY_LEN);
    for (size_t i = 0; i < HOLE_MEMORY_LEN; i++) {
        side->memory[i] = (uint8_t)(i * 31 + (i >> 8));
    }
    uint32_t access = MEM_ACCESS_ALL & ~MEM_ACCESS_ZERO_BASED;
    assert_int_equal(mem_region_register(side->mem, side->pd, side->memory, HOLE_MEMORY_LEN,
                                         HOLE_IOVA, access, &side->stag),
                     0);
}

static void queues_init(struct hole_side *side, const struct hole_options *o, bool places_early)
{
    side->send_cq = cq_create(CQ_COUNT, (struct cq_port){0});
    side->recv_cq = cq_create(o->cq_count > 0 ? o->cq_count : CQ_COUNT, (struct cq_port){0});
    if (o->srq_wr > 0) {
        struct srq_config config = {.pd = side->pd, .max_wr = o->srq_wr, .max_sge = 4};
        assert_int_equal(srq_create(&config, &side->srq), 0);
    }
    struct qp_config config = {
        .wq = {.qp_num = QP_NUM,
               .pd = side->pd,
               .caps = {.max_send_wr = 64,
                        .max_recv_wr = o->recv_wr > 0 ? o->recv_wr : 64,
                        .max_send_sge = 4,
                        .max_recv_sge = 4},
               .send_cq = side->send_cq,
               .recv_cq = side->recv_cq,
               .srq = side->srq,
               .mem = side->mem,
               .ord_max = 16},
        .port = {.on_event = on_event, .ctx = side},
        .rnr_store_len = 65536,
        .ird_max = 16,
        .allotment_len = o->allotment,
        .places_early = places_early,
    };
    assert_int_equal(qp_create(&config, &side->qp), 0);
}

static void establish(struct hole_side *side, const struct hole_options *o)
{
    struct qp_stream stream = {
        .mulpdu = 4096,
        .ird = o->ird > 0 ? o->ird : 8,
        .ord = 8,
        .is_initiator = true,
        .may_send = true,
        .peer_is_weft = !o->is_foreign,
        .choices = {.kind = EXTENSION_CHOICES, .encoding = o->oneshot},
        .told_allotment_len = o->allotment,
        .peer_allotment_len = o->allotment,
    };
    qp_on_established(side->qp, &stream, 1000);
    for (unsigned qn = 0; o->first_msn != 0 && qn < DDP_QN_COUNT; qn++) {
        side->qp->rdmap.rx[qn].msn = o->first_msn;
    }
}

static void side_init(struct hole_side *side, const struct hole_options *o, bool places_early)
{
    struct ulpdu_port port = {on_ulpdu, on_early_ulpdu, on_advance, side};
    memory_init(side);
    queues_init(side, o, places_early);
    establish(side, o);
    mpa_rx_init(&side->rx, true, o->markers ? MPA_RX_MARKERS : MPA_RX_MARKERS_NONE,
                mspan_of(side->carry, sizeof side->carry), port);
}

static void side_fini(struct hole_side *side)
{
    cq_purge(side->recv_cq, QP_NUM);
    qp_destroy(side->qp);
    if (side->srq != NULL) {
        assert_true(srq_check(side->srq));
    }
    srq_destroy(side->srq);
    assert_int_equal(mem_table_live(side->mem).sinks, 0);
    assert_true(mem_table_check(side->mem));
    mem_table_destroy(side->mem);
    cq_destroy(side->send_cq);
    cq_destroy(side->recv_cq);
    free(side->memory);
}

struct hole *hole_open(const struct hole_options *options)
{
    struct hole *h = calloc(1, sizeof *h);
    if (options != NULL) {
        h->options = *options;
    }
    struct hole_options *o = &h->options;
    o->mulpdu = o->mulpdu > 0 ? o->mulpdu : 120;
    side_init(&h->early, o, true);
    side_init(&h->naive, o, false);
    assert_int_equal(h->early.stag, h->naive.stag);
    rdmap_stream_init(&h->sender, NULL, (struct mem_asker){0}, o->mulpdu);
    h->sender.extensions_agreed = !o->is_foreign;
    h->sender.oneshot = o->oneshot;
    for (unsigned qn = 0; o->first_msn != 0 && qn < DDP_QN_COUNT; qn++) {
        h->sender.tx_msn[qn] = o->first_msn;
    }
    mpa_tx_init(&h->tx, true, o->markers, mpa_tx_mulpdu_max(o->markers));
    hole_write(h, h->early.stag, hole_write_to(0), 0);
    hole_compare(h);
    return h;
}

/* ---- the stream ------------------------------------------------------------------------------ */

static void put_fpdu(struct hole *h, struct span header, struct span payload)
{
    static struct mpa_batch batch;
    static uint8_t arena[1 << 18];
    unsigned count;
    mpa_batch_init(&batch, mspan_of(arena, sizeof arena), false);
    assert_true(h->count < HOLE_FPDU_MAX);
    h->start[h->count++] = h->wire_len;
    mpa_tx_put(&h->tx, &batch, header, &payload, payload.len > 0, MPA_PAYLOAD_COPY);
    const struct iovec *iov = mpa_batch_iov(&batch, &count);
    assert_int_equal(count, 1);
    assert_true(iov->iov_len <= sizeof h->wire - h->wire_len);
    memcpy(h->wire + h->wire_len, iov->iov_base, iov->iov_len);
    h->wire_len += iov->iov_len;
    h->start[h->count] = h->wire_len;
}

static unsigned put_body(struct hole *h, struct rdmap_tx *tx, const uint8_t *body)
{
    unsigned first = h->count;
    uint8_t payload[8192], header[RDMAP_TX_HEADER_MAX_LEN];
    h->seed++;
    while (!rdmap_tx_is_done(tx)) {
        size_t len = rdmap_tx_next_len(tx, h->options.mulpdu);
        for (size_t i = 0; i < len; i++) {
            uint64_t at = tx->ddp.offset + i;
            payload[i] = body != NULL ? body[at] : (uint8_t)(h->seed * 17 + at);
        }
        size_t header_len = rdmap_tx_emit(tx, len, header);
        put_fpdu(h, span_of(header, header_len), span_of(payload, len));
    }
    return first;
}

static unsigned put_message(struct hole *h, struct rdmap_tx *tx)
{
    return put_body(h, tx, NULL);
}

unsigned hole_send(struct hole *h, const struct hole_send *s)
{
    struct rdmap_tx tx;
    struct rdmap_send send = {
        .length = s->len,
        .solicited = s->solicited,
        .invalidates = s->invalidates,
        .has_immediate = s->has_immediate,
        .mark = s->mark,
        .stag_or_immediate = s->has_immediate ? s->immediate : s->stag,
    };
    rdmap_tx_send(&tx, &h->sender, &send);
    return put_body(h, &tx, s->body);
}

unsigned hole_write(struct hole *h, uint32_t stag, uint64_t to, uint32_t len)
{
    struct rdmap_tx tx;
    rdmap_tx_write(&tx, stag, to, len);
    return put_message(h, &tx);
}

unsigned hole_immediate(struct hole *h, uint32_t written_len, bool solicited)
{
    struct rdmap_tx tx;
    rdmap_tx_immediate(&tx, &h->sender, 0x10000U + h->seed, written_len, solicited);
    return put_message(h, &tx);
}

unsigned hole_read_request(struct hole *h, uint64_t source, uint32_t len)
{
    struct rdmap_tx tx;
    struct rdmap_read_request request = {
        .sink_stag = 0x5151,
        .rdmardsz = len,
        .src_stag = h->early.stag,
        .src_to = HOLE_IOVA + HOLE_SOURCE_AT + source,
    };
    rdmap_tx_read_request(&tx, &h->sender, &request);
    return put_message(h, &tx);
}

unsigned hole_fetch_add(struct hole *h, uint64_t word)
{
    return hole_fetch_add_by(h, h->early.stag, HOLE_IOVA + HOLE_WORD_AT + 8 * word);
}

unsigned hole_fetch_add_by(struct hole *h, uint32_t stag, uint64_t to)
{
    struct rdmap_tx tx;
    struct rdmap_atomic_request request = {
        .opcode = RDMAP_ATOMIC_FETCH_ADD,
        .request_id = h->sender.tx_msn[DDP_QN_READ_REQUEST],
        .stag = stag,
        .to = to,
        .add_swap = 1 + h->seed,
    };
    rdmap_tx_atomic_request(&tx, &h->sender, &request);
    return put_message(h, &tx);
}

unsigned hole_read_response(struct hole *h, uint32_t sink_stag, uint32_t len)
{
    struct rdmap_tx tx;
    rdmap_tx_read_response(&tx, sink_stag, 0, len);
    return put_message(h, &tx);
}

unsigned hole_atomic_response(struct hole *h, uint32_t request_id, uint64_t original)
{
    struct rdmap_tx tx;
    struct rdmap_atomic_response response = {.request_id = request_id, .original = original};
    rdmap_tx_atomic_response(&tx, &h->sender, &response);
    return put_message(h, &tx);
}

unsigned hole_terminate(struct hole *h)
{
    struct rdmap_tx tx;
    struct terminate terminate = rdmap_terminate_make(TERM_RDMAP_LOCAL, NULL);
    rdmap_tx_terminate(&tx, &h->sender, &terminate);
    return put_message(h, &tx);
}

unsigned hole_segment(struct hole *h, const struct ddp_header *header, const void *payload,
                      uint32_t len)
{
    uint8_t octets[DDP_HEADER_MAX_LEN];
    size_t header_len = ddp_header_emit(header, octets);
    put_fpdu(h, span_of(octets, header_len), span_of(payload, len));
    return h->count - 1;
}

/* ---- what is delivered, and sent ------------------------------------------------------------- */

static void poll_all(struct cq *cq, struct hole_log *log)
{
    struct cqe cqe;
    while (cq_poll(cq, &cqe, 1) == 1) {
        cqe.timestamp_ns = 0;
        log_append(log, &cqe, sizeof cqe);
    }
}

static bool has_room(void *ctx, size_t ulpdu_len, unsigned piece_count)
{
    (void)ctx, (void)ulpdu_len, (void)piece_count;
    return true;
}

static uint64_t put(void *ctx, struct span header, const struct span *pieces, unsigned piece_count,
                    bool is_lent)
{
    struct hole_side *side = ctx;
    struct ddp_header h;
    size_t header_len;
    (void)is_lent;
    assert_int_equal(ddp_header_parse(header, &h, &header_len), DDP_PARSE_OK);
    if (rdmap_control_opcode(h.rsvdulp) == RDMAP_READ_REQUEST) {
        side->last_sink = get_be32(header.ptr + header_len);
    }
    log_append(&side->sent, header.ptr, header.len);
    for (unsigned i = 0; i < piece_count; i++) {
        log_append(&side->sent, pieces[i].ptr, pieces[i].len);
    }
    side->sent_count++;
    return ++side->put_position;
}

static void run_side(struct hole_side *side)
{
    struct ulpdu_sink sink = {has_room, put, side};
    qp_output(side->qp, &sink, 1000);
    qp_on_handed(side->qp, side->put_position, 1000);
    if (!side->is_polling_paused) {
        poll_all(side->recv_cq, &side->recv);
    }
    poll_all(side->send_cq, &side->send);
}

static void expect_same(const struct hole_log *a, const struct hole_log *b)
{
    assert_int_equal(a->len, b->len);
    assert_memory_equal(a->octets, b->octets, a->len);
}

// The naive side gets what has no hole before it any more.
static void feed_naive(struct hole *h)
{
    size_t consumed;
    struct mpa_rx *rx = &h->naive.rx;
    size_t handed = hole_handed(h);
    while (rx->position < handed || rx->is_held) {
        size_t left = handed - (size_t)rx->position;
        struct span octets = span_of(h->wire + rx->position, left);
        if (mpa_rx_on_input(rx, octets, &consumed) != MPA_RX_OK) {
            break;
        }
    }
}

void hole_compare(struct hole *h)
{
    run_side(&h->early);
    run_side(&h->naive);
    if (h->is_twin_free) {
        return;
    }
    expect_same(&h->early.recv, &h->naive.recv);
    expect_same(&h->early.send, &h->naive.send);
    expect_same(&h->early.sent, &h->naive.sent);
    assert_memory_equal(h->early.events, h->naive.events, sizeof h->early.events);
}

/* ---- arriving -------------------------------------------------------------------------------- */

static enum place_verdict place(void *ctx, const struct place_offer *offer,
                                struct place_answer *answer)
{
    struct hole *h = ctx;
    struct place_port port = mpa_placer_port(&h->placer);
    return port.place(port.ctx, offer, answer);
}

static bool advance(void *ctx, uint64_t position, uint64_t end, const struct place_counts *counts)
{
    struct hole *h = ctx;
    struct place_port port = mpa_placer_port(&h->placer);
    bool is_done = port.on_advance(port.ctx, position, end, counts);
    if (is_done) {
        place_counts_add(&h->released, counts);
    }
    return is_done;
}

static void tcp_begin(struct hole *h, struct place_port port)
{
    struct tcp_config config = tcp_config_default;
    config.place = port;
    struct carve memory = {.block = NULL};
    tcp_receive_init(&h->tcp, &config, &h->tcp_counters, &memory);
    h->tcp_memory = malloc(memory.len);
    assert_non_null(h->tcp_memory);
    tcp_receive_init(&h->tcp, &config, &h->tcp_counters, &(struct carve){.block = h->tcp_memory});
    tcp_receive_begin(&h->tcp, UINT32_MAX - 1000);
    tcp_receive_on_window_sent(&h->tcp, tcp_receive_window(&h->tcp, 1));
}

void hole_begin(struct hole *h)
{
    struct place_port port = {.place = place, .on_advance = advance, .ctx = h};
    mpa_placer_init(&h->placer, &h->early.rx, h->options.placement, h->options.tcp ? 0 : BASE,
                    mspan_of(h->scratch, sizeof h->scratch));
    if (h->options.tcp) {
        tcp_begin(h, port);
    } else {
        ledger_init(&h->ledger, port, BASE, h->wire, h->wire_len);
    }
    hole_arrive(h, 0, 1);
}

size_t hole_handed(const struct hole *h)
{
    return h->options.tcp ? (size_t)(h->tcp.handed - h->tcp.first) : h->ledger.handed;
}

static void after_arrival(struct hole *h)
{
    mpa_placer_check(&h->placer);
    if (h->options.tcp) {
        tcp_receive_check(&h->tcp);
    }
    if (!h->is_twin_free) {
        feed_naive(h);
    }
    hole_compare(h);
}

void hole_arrive_octets(struct hole *h, size_t at, size_t len)
{
    if (h->options.tcp) {
        uint8_t *exact = malloc(len);
        memcpy(exact, h->wire + at, len);
        tcp_receive_octets(&h->tcp, h->tcp.first + at, span_of(exact, len));
        free(exact);
    } else {
        ledger_arrive(&h->ledger, at, len);
    }
    after_arrival(h);
}

void hole_arrive_forged(struct hole *h, size_t at, const uint8_t *octets, size_t len)
{
    ledger_arrive_octets(&h->ledger, at, octets, len);
    after_arrival(h);
}

void hole_arrive(struct hole *h, unsigned first, unsigned last)
{
    hole_arrive_octets(h, h->start[first], h->start[last] - h->start[first]);
}

void hole_resume(struct hole *h)
{
    size_t consumed;
    qp_on_receive_posted(h->early.qp, 1000);
    qp_on_receive_posted(h->naive.qp, 1000);
    mpa_rx_on_input(&h->early.rx, span_of(NULL, 0), &consumed);
    if (h->options.tcp) {
        tcp_receive_resume(&h->tcp);
    } else {
        ledger_resume(&h->ledger);
    }
    after_arrival(h);
}

void hole_drop(struct hole *h)
{
    qp_on_llp_closed(h->early.qp, QP_CLOSE_LOCAL, 1000);
    qp_on_llp_closed(h->naive.qp, QP_CLOSE_LOCAL, 1000);
    if (h->options.tcp) {
        free(h->tcp_memory);
    } else {
        ledger_fini(&h->ledger);
    }
    side_fini(&h->early);
    side_fini(&h->naive);
    free(h);
}

static void expect_counters_to_add_up(const struct hole *h)
{
    const struct qp_counters *early = qp_counters(h->early.qp), *naive = qp_counters(h->naive.qp);
    const uint32_t *n = h->released.n;
    assert_memory_equal(early->in, naive->in, sizeof early->in);
    assert_int_equal(early->wq.recv_completions, naive->wq.recv_completions);
    assert_int_equal(early->released_sends, n[RDMAP_HELD_SENDS]);
    assert_int_equal(early->released_requests,
                     n[RDMAP_HELD_READ_REQUESTS] + n[RDMAP_HELD_ATOMIC_REQUESTS]);
    assert_int_equal(early->released_responses,
                     n[RDMAP_HELD_READ_RESPONSES] + n[RDMAP_HELD_ATOMIC_RESPONSES]);
    assert_int_equal(h->placer.counters.early_fpdus, early->early_writes + early->early_sends +
                                                         early->early_requests +
                                                         early->early_responses);
    if (h->options.tcp) {
        assert_int_equal(h->tcp_counters.octets_placed_early, h->placer.counters.early_octets);
        assert_int_equal(h->tcp.ranges.count, 0);
    }
}

void hole_close(struct hole *h)
{
    hole_arrive_octets(h, 0, h->wire_len);
    assert_int_equal(hole_handed(h), h->wire_len);
    if (qp_stream_state(h->early.qp) == QP_STREAM_OPEN) {
        assert_memory_equal(h->early.memory, h->naive.memory, HOLE_MEMORY_LEN);
        expect_counters_to_add_up(h);
        assert_int_equal(h->early.qp->early->coverage.count, 0);
    }
    hole_drop(h);
}

/* ---- both sides ------------------------------------------------------------------------------ */

static void post_receive(struct hole_side *side, uint64_t wr_id, uint32_t len)
{
    struct recv_wqe *wqe =
        side->srq != NULL ? srq_slot(side->srq, 0) : wq_receive_slot(qp_wq(side->qp), 0);
    assert_non_null(wqe);
    uint64_t addr = HOLE_IOVA + HOLE_RECEIVE_AT + (wr_id % HOLE_RECEIVE_COUNT) * HOLE_BUFFER_LEN;
    wqe->wr_id = wr_id;
    wqe->sge_count = 2; // an odd cut, so that segments straddle elements
    wqe->sge[0] = (struct sge){addr, len / 3, side->stag};
    wqe->sge[1] = (struct sge){addr + len / 3, len - len / 3, side->stag};
    if (side->srq != NULL) {
        srq_commit(side->srq, 1);
    } else {
        wq_receive_commit(qp_wq(side->qp), 1);
    }
}

void hole_post_receives(struct hole *h, unsigned count, uint32_t len)
{
    static uint64_t wr_id;
    assert_true(len <= HOLE_BUFFER_LEN);
    for (unsigned i = 0; i < count; i++) {
        wr_id++;
        post_receive(&h->early, wr_id, len);
        post_receive(&h->naive, wr_id, len);
    }
}

static void post_request(struct hole_side *side, uint64_t wr_id, enum wqe_opcode opcode,
                         uint32_t len)
{
    struct send_wqe *wqe = wq_send_slot(qp_wq(side->qp), 0);
    assert_non_null(wqe);
    *wqe = (struct send_wqe){.wr_id = wr_id, .opcode = opcode, .flags = WQE_SIGNALED};
    wqe->sge_count = 1;
    wqe->sge[0] = (struct sge){HOLE_IOVA + HOLE_RECEIVE_AT +
                                   (HOLE_RECEIVE_COUNT + wr_id % HOLE_READ_COUNT) * HOLE_BUFFER_LEN,
                               len, side->stag};
    wqe->length = len;
    wqe->rkey = 0x7777;
    wq_send_commit(qp_wq(side->qp), 1);
    qp_on_send_posted(side->qp, 1000);
}

uint32_t hole_post_read(struct hole *h, uint64_t wr_id, uint32_t len)
{
    assert_true(len <= HOLE_BUFFER_LEN);
    post_request(&h->early, wr_id, WQE_RDMA_READ, len);
    post_request(&h->naive, wr_id, WQE_RDMA_READ, len);
    hole_compare(h);
    return h->early.last_sink;
}

void hole_post_atomic(struct hole *h, uint64_t wr_id)
{
    post_request(&h->early, wr_id, WQE_ATOMIC_FETCH_AND_ADD, 8);
    post_request(&h->naive, wr_id, WQE_ATOMIC_FETCH_AND_ADD, 8);
    hole_compare(h);
}

static uint32_t bind_window(struct hole_side *side)
{
    struct mem_asker asker = {side->pd, QP_NUM};
    uint32_t window;
    assert_int_equal(mem_window_alloc(side->mem, MEM_WINDOW_TYPE_2, side->pd, &window), 0);
    struct mem_binding binding = {
        .stag = (window & ~STAG_KEY_MASK) | ((window + 1) & STAG_KEY_MASK),
        .lkey = side->stag,
        .addr = HOLE_IOVA + HOLE_WRITE_AT,
        .length = HOLE_PART_LEN,
        .access = MEM_ACCESS_REMOTE_WRITE | MEM_ACCESS_REMOTE_READ | MEM_ACCESS_REMOTE_ATOMIC,
    };
    assert_int_equal(mem_window_bind(side->mem, asker, &binding), MEM_OK);
    return binding.stag;
}

uint32_t hole_bind_window(struct hole *h)
{
    h->early.window = bind_window(&h->early);
    h->naive.window = bind_window(&h->naive);
    assert_int_equal(h->early.window, h->naive.window);
    return h->early.window;
}

void hole_make_commands(struct hole *h, const struct oneshot_config *config)
{
    assert_int_equal(wq_oneshot_create(qp_wq(h->early.qp), config), 0);
    assert_int_equal(wq_oneshot_create(qp_wq(h->naive.qp), config), 0);
}

static uint32_t post_command(struct hole_side *side, uint64_t reference)
{
    struct oneshot_command *command = wq_oneshot_slot(qp_wq(side->qp));
    assert_non_null(command);
    command->list.elements[0].octets = mspan_of(side->memory + HOLE_WRITE_AT, HOLE_PART_LEN);
    mem_list_init(&command->list, command->list.elements, 1);
    command->reference = reference;
    command->access = MEM_ACCESS_REMOTE_WRITE;
    command->offset = 0;
    command->length = HOLE_PART_LEN;
    struct send_wqe *wqe = wq_send_slot(qp_wq(side->qp), 0);
    *wqe = (struct send_wqe){.opcode = WQE_SEND};
    uint32_t stag = command->stag;
    wq_oneshot_commit(qp_wq(side->qp), wqe);
    wq_send_commit(qp_wq(side->qp), 1);
    qp_on_send_posted(side->qp, 1000);
    return stag;
}

uint32_t hole_post_command(struct hole *h, uint64_t reference)
{
    uint32_t stag = post_command(&h->early, reference);
    assert_int_equal(post_command(&h->naive, reference), stag);
    hole_compare(h);
    return stag;
}
