#include "tests/iwarp/pair.h"

#include <stdlib.h>

enum { QP_NUM_A = 0x11, QP_NUM_B = 0x22 };

static bool has_room(void *ctx, size_t ulpdu_len, unsigned piece_count)
{
    struct end *e = ctx;
    assert_true(ulpdu_len <= PAIR_ULPDU_MAX);
    assert_true(piece_count <= SGE_COUNT_MAX);
    return e->batch.count < e->room;
}

static void unit_flatten(struct unit *u)
{
    if (u->octets != NULL) {
        return;
    }
    u->octets = malloc(u->len);
    size_t at = u->header_len;
    memcpy(u->octets, u->header, u->header_len);
    for (unsigned i = 0; i < u->piece_count; i++) {
        memcpy(u->octets + at, u->pieces[i].ptr, u->pieces[i].len);
        at += u->pieces[i].len;
    }
    assert_int_equal(at, u->len);
}

static void unit_free(struct unit *u)
{
    free(u->octets);
    free(u);
}

static void push(struct unit_queue *q, struct unit *u)
{
    assert_true(q->count < PAIR_UNIT_MAX);
    q->units[(q->head + q->count++) % PAIR_UNIT_MAX] = u;
}

static struct unit *pop(struct unit_queue *q)
{
    struct unit *u = q->units[q->head];
    q->head = (q->head + 1) % PAIR_UNIT_MAX;
    q->count--;
    return u;
}

static uint64_t put(void *ctx, struct span header, const struct span *pieces, unsigned piece_count,
                    bool is_lent)
{
    struct end *e = ctx;
    struct unit *u = calloc(1, sizeof *u);
    memcpy(u->header, header.ptr, header.len);
    u->header_len = u->len = header.len;
    u->piece_count = piece_count;
    for (unsigned i = 0; i < piece_count; i++) {
        assert_true(pieces[i].len > 0);
        u->pieces[i] = pieces[i];
        u->len += pieces[i].len;
    }
    assert_true(u->len <= qp_query(e->qp).segment_len);
    if (is_lent) {
        unit_flatten(u);
    }
    e->position += u->len + 6;
    u->end = e->position;
    push(&e->batch, u);
    return u->end;
}

static void on_event(void *ctx, enum qp_event event)
{
    ((struct end *)ctx)->event_count[event]++;
}

static void on_extension(void *ctx, const struct extension_message *message)
{
    struct end *e = ctx;
    if (message != NULL) {
        e->extension_count++;
    } else {
        e->extension_refused_count++;
    }
}

static void on_runnable(void *ctx)
{
    ((struct end *)ctx)->runnable_count++;
}

static void on_limit(void *ctx)
{
    ((struct end *)ctx)->limit_count++;
}

static void init_memory(struct end *e, uint8_t key_octet)
{
    uint8_t key[STAG_KEY_LEN];
    memset(key, key_octet, sizeof key);
    e->mem = mem_table_create(key, 4096, (struct mem_probe){0});
    assert_int_equal(mem_pd_alloc(e->mem, &e->pd), 0);
    e->memory = aligned_alloc(4096, PAIR_MEMORY_LEN);
    memset(e->memory, 0, PAIR_MEMORY_LEN);
    uint32_t access = MEM_ACCESS_ALL & ~MEM_ACCESS_ZERO_BASED;
    assert_int_equal(mem_region_register(e->mem, e->pd, e->memory, PAIR_MEMORY_LEN,
                                         (uintptr_t)e->memory, access, &e->stag),
                     0);
}

static void init_end(struct pair *p, struct end *e, uint32_t qp_number)
{
    const struct pair_options *o = &p->options;
    init_memory(e, (uint8_t)qp_number);
    e->room = PAIR_UNIT_MAX;
    e->send_cq = cq_create(1024, (struct cq_port){0});
    e->recv_cq = cq_create(1024, (struct cq_port){0});
    e->sink = (struct ulpdu_sink){has_room, put, e};
    if (o->srq_wr > 0) {
        struct srq_config config = {
            .pd = e->pd, .max_wr = o->srq_wr, .max_sge = 4, .port = {on_limit, e}};
        assert_int_equal(srq_create(&config, &e->srq), 0);
    }
    if (o->read_contexts > 0) {
        e->read_sched = read_sched_create(o->read_contexts, 0);
        assert_int_equal(mem_sinks_reserve(e->mem, o->read_contexts), 0);
    }
    struct qp_config config = o->config;
    config.wq.qp_num = qp_number;
    config.allotment_len = o->allotment[e == &p->b];
    config.wq.pd = e->pd;
    config.wq.mem = e->mem;
    config.wq.send_cq = e->send_cq;
    config.wq.recv_cq = e->recv_cq;
    config.wq.srq = e->srq;
    config.wq.read_sched = e->read_sched;
    config.port = (struct qp_port){on_event, on_extension, e};
    config.wq.on_runnable = on_runnable;
    config.wq.ctx = e;
    assert_int_equal(qp_create(&config, &e->qp), 0);
}

struct pair *pair_open(const struct pair_options *options)
{
    struct pair *p = calloc(1, sizeof *p);
    p->now = 1000;
    if (options != NULL) {
        p->options = *options;
    }
    struct pair_options *o = &p->options;
    struct wq_caps *caps = &o->config.wq.caps;
    o->mulpdu = o->mulpdu > 0 ? o->mulpdu : PAIR_ULPDU_MAX;
    caps->max_send_wr = caps->max_send_wr > 0 ? caps->max_send_wr : 64;
    caps->max_recv_wr = caps->max_recv_wr > 0 ? caps->max_recv_wr : 64;
    caps->max_send_sge = caps->max_recv_sge = SGE_COUNT_MAX;
    caps->max_inline_len = 512;
    o->config.ird_max = o->config.ird_max > 0 ? o->config.ird_max : 16;
    o->config.wq.ord_max = o->config.ird_max;
    if (o->config.rnr_store_len == 0) {
        o->config.rnr_store_len = 65536;
    }
    init_end(p, &p->a, QP_NUM_A);
    init_end(p, &p->b, QP_NUM_B);
    if (!o->is_unconnected) {
        pair_connect(p);
    }
    return p;
}

void pair_connect(struct pair *p)
{
    struct qp_stream stream = p->options.stream;
    stream.mulpdu = p->options.mulpdu;
    stream.ird = stream.ird > 0 ? stream.ird : 4;
    stream.ord = stream.ord > 0 ? stream.ord : 4;
    stream.peer_is_weft = p->options.weft;
    stream.rtr = p->options.rtr;
    stream.choices = (struct extension_message){
        .kind = EXTENSION_CHOICES,
        .encoding = p->options.oneshot,
        .allotment_len = p->options.allotment[0],
    };
    struct qp_stream b_stream = stream;
    b_stream.told_allotment_len = stream.peer_allotment_len = p->options.allotment[1];
    stream.told_allotment_len = p->options.allotment[0];
    b_stream.oneshot_offered = p->options.oneshot;
    stream.is_initiator = true;
    stream.may_send = true;
    stream.peer_is_siw = p->options.siw;
    qp_on_established(p->b.qp, &b_stream, p->now);
    qp_on_established(p->a.qp, &stream, p->now);
}

struct end *pair_other(struct pair *p, struct end *e)
{
    return e == &p->a ? &p->b : &p->a;
}

bool pair_output(struct pair *p, struct end *e)
{
    uint64_t before = e->position;
    qp_output(e->qp, &e->sink, p->now);
    assert_true(qp_check(e->qp));
    return e->position != before;
}

bool pair_hand(struct pair *p, struct end *e)
{
    if (e->batch.count == 0) {
        return false;
    }
    struct unit *u = pop(&e->batch);
    unit_flatten(u);
    push(&e->stream, u);
    qp_on_handed(e->qp, u->end, p->now);
    assert_true(qp_check(e->qp));
    return true;
}

bool pair_deliver(struct pair *p, struct end *e)
{
    if (e->stream.count == 0) {
        return false;
    }
    struct unit *u = e->stream.units[e->stream.head];
    if (pair_inject(p, pair_other(p, e), u->octets, u->len) == ULPDU_STALL) {
        return false;
    }
    unit_free(pop(&e->stream));
    return true;
}

enum ulpdu_answer pair_inject(struct pair *p, struct end *e, const void *ulpdu, size_t len)
{
    // An allocation of just this length, so that a sanitizer sees the first octet read beyond it.
    uint8_t *exact = malloc(len > 0 ? len : 1);
    memcpy(exact, ulpdu, len);
    enum ulpdu_answer answer = qp_on_ulpdu(e->qp, span_of(exact, len), p->now);
    assert_true(qp_check(e->qp));
    free(exact);
    return answer;
}

static bool step(struct pair *p, struct end *e)
{
    bool has_moved = pair_output(p, e);
    while (pair_hand(p, e)) {
        has_moved = true;
    }
    while (pair_deliver(p, e)) {
        has_moved = true;
    }
    return has_moved;
}

void pair_run(struct pair *p)
{
    bool has_moved = true;
    while (has_moved) {
        p->now++;
        has_moved = step(p, &p->a);
        has_moved = step(p, &p->b) || has_moved;
    }
}

void pair_drop_batch(struct end *e)
{
    while (e->batch.count > 0) {
        unit_free(pop(&e->batch));
    }
}

struct span pair_peek(struct pair *p, struct end *e)
{
    pair_output(p, e);
    assert_true(e->batch.count > 0);
    struct unit *u = e->batch.units[e->batch.head];
    unit_flatten(u);
    return span_of(u->octets, u->len);
}

static void close_end(struct end *e)
{
    assert_true(qp_check(e->qp));
    pair_drop_batch(e);
    while (e->stream.count > 0) {
        unit_free(pop(&e->stream));
    }
    qp_destroy(e->qp);
    if (e->srq != NULL) {
        assert_true(srq_check(e->srq));
    }
    srq_destroy(e->srq);
    read_sched_destroy(e->read_sched); // checks that all contexts are back
    assert_int_equal(mem_table_live(e->mem).sinks, 0);
    assert_true(mem_table_check(e->mem));
    mem_table_destroy(e->mem);
    cq_destroy(e->send_cq);
    cq_destroy(e->recv_cq);
    free(e->memory);
}

void pair_close(struct pair *p)
{
    close_end(&p->a);
    close_end(&p->b);
    free(p);
}

struct send_wqe *pair_send_slot(struct end *e, uint64_t wr_id, enum wqe_opcode opcode,
                                uint32_t flags)
{
    struct send_wqe *wqe = wq_send_slot(qp_wq(e->qp), 0);
    assert_non_null(wqe);
    memset(wqe, 0xa5, offsetof(struct send_wqe, sge)); // the engine must not rely on old contents
    wqe->wr_id = wr_id;
    wqe->opcode = opcode;
    wqe->flags = flags;
    wqe->sge_count = 0;
    wqe->length = 0;
    return wqe;
}

void pair_set_sge(struct end *e, struct send_wqe *wqe, size_t offset, uint32_t len)
{
    wqe->sge[wqe->sge_count++] = (struct sge){(uintptr_t)e->memory + offset, len, e->stag};
    wqe->length += len;
}

void pair_set_remote(struct pair *p, struct end *e, struct send_wqe *wqe, size_t remote)
{
    struct end *other = pair_other(p, e);
    wqe->remote_addr = (uintptr_t)other->memory + remote;
    wqe->rkey = other->stag;
}

void pair_post(struct pair *p, struct end *e)
{
    wq_send_commit(qp_wq(e->qp), 1);
    qp_on_send_posted(e->qp, p->now);
}

void pair_post_op(struct pair *p, struct end *e, uint64_t wr_id, enum wqe_opcode opcode,
                  uint32_t flags, size_t offset, uint32_t len, size_t remote)
{
    struct send_wqe *wqe = pair_send_slot(e, wr_id, opcode, flags);
    pair_set_sge(e, wqe, offset, len);
    pair_set_remote(p, e, wqe, remote);
    pair_post(p, e);
}

void pair_post_receive(struct pair *p, struct end *e, uint64_t wr_id, size_t offset, uint32_t len)
{
    struct recv_wqe *wqe = e->srq != NULL ? srq_slot(e->srq, 0) : wq_receive_slot(qp_wq(e->qp), 0);
    assert_non_null(wqe);
    wqe->wr_id = wr_id;
    wqe->sge_count = 1;
    wqe->sge[0] = (struct sge){(uintptr_t)e->memory + offset, len, e->stag};
    if (e->srq != NULL) {
        srq_commit(e->srq, 1);
    } else {
        wq_receive_commit(qp_wq(e->qp), 1);
    }
    qp_on_receive_posted(e->qp, p->now);
}

struct cqe pair_poll(struct cq *cq)
{
    struct cqe cqe;
    assert_int_equal(cq_poll(cq, &cqe, 1), 1);
    return cqe;
}

unsigned pair_poll_count(struct cq *cq)
{
    struct cqe cqe;
    unsigned count = 0;
    while (cq_poll(cq, &cqe, 1) == 1) {
        count++;
    }
    return count;
}

void pair_expect(struct cq *cq, uint64_t wr_id, uint32_t status)
{
    struct cqe cqe = pair_poll(cq);
    assert_int_equal(cqe.wr_id, wr_id);
    assert_int_equal(cqe.status, status);
}

void pair_expect_none(struct cq *cq)
{
    struct cqe cqe;
    assert_int_equal(cq_poll(cq, &cqe, 1), 0);
}

struct terminate pair_terminate_of(struct pair *p, struct end *e)
{
    pair_drop_batch(e);
    struct span ulpdu = pair_peek(p, e);
    struct ddp_header h;
    size_t header_len;
    assert_int_equal(ddp_header_parse(ulpdu, &h, &header_len), DDP_PARSE_OK);
    assert_int_equal(rdmap_control_opcode(h.rsvdulp), RDMAP_TERMINATE);
    struct terminate t;
    assert_int_equal(terminate_parse(span_skip(ulpdu, header_len), TERMINATE_ORDER_RFC, &t),
                     TERMINATE_OK);
    return t;
}

void pair_expect_terminate(struct pair *p, struct end *e, enum terminate_cause cause)
{
    struct terminate t = pair_terminate_of(p, e);
    assert_int_equal(terminate_cause_find(t.layer, t.etype, t.code), cause);
    assert_int_equal(qp_counters(e->qp)->terminates_out[cause], 1);
}

static uint8_t octet_at(size_t offset, uint8_t seed)
{
    return (uint8_t)(offset * 7 + (offset >> 8) * 13 + seed);
}

void pair_fill(struct end *e, size_t offset, size_t len, uint8_t seed)
{
    for (size_t i = 0; i < len; i++) {
        e->memory[offset + i] = octet_at(i, seed);
    }
}

void pair_expect_filled(const struct end *e, size_t offset, size_t len, uint8_t seed)
{
    for (size_t i = 0; i < len; i++) {
        assert_int_equal(e->memory[offset + i], octet_at(i, seed));
    }
}
