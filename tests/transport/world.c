// Ends: memory, completion queues, work requests; and what runs them.
#include <stdlib.h>

#include "tests/transport/transport.h"
#include "wire/grh.h"

enum { STEP_COUNT_MAX = 2000000, INLINE_LEN_MAX = 256, SGE_MAX = 8 };

static void open_memory(struct end *end)
{
    uint8_t key[STAG_KEY_LEN] = {(uint8_t)end->config.qp_num};
    end->mem = mem_table_create(key, 1024, (struct mem_probe){0});
    assert_int_equal(mem_pd_alloc(end->mem, &end->pd), 0);
    end->memory = aligned_alloc(4096, END_MEMORY_LEN);
    memset(end->memory, 0, END_MEMORY_LEN);
    assert_int_equal(mem_region_register(end->mem, end->pd, end->memory, END_MEMORY_LEN,
                                         (uintptr_t)end->memory,
                                         MEM_ACCESS_ALL & ~MEM_ACCESS_ZERO_BASED, &end->key),
                     0);
}

static void open_end(struct world *w, unsigned index)
{
    struct end *end = &w->ends[index];
    end->world = w;
    end->peer = &w->ends[index ^ 1];
    end->config.qp_num = 10 + index;
    open_memory(end);
    end->send_cq = cq_create(256, (struct cq_port){0});
    end->recv_cq = cq_create(256, (struct cq_port){0});
    if (w->options.has_srq) {
        struct srq_config config = {.pd = end->pd, .max_wr = END_QUEUE_LEN, .max_sge = SGE_MAX};
        assert_int_equal(srq_create(&config, &end->srq), 0);
    }
    end->config = (struct wq_config){
        .qp_num = end->config.qp_num,
        .pd = end->pd,
        .caps = {END_QUEUE_LEN, END_QUEUE_LEN, SGE_MAX, SGE_MAX, INLINE_LEN_MAX},
        .send_cq = end->send_cq,
        .recv_cq = end->recv_cq,
        .srq = end->srq,
        .sq_sig_all = w->options.sq_sig_all,
        .write_flush = w->options.write_flush,
        .mem = end->mem,
        .ord_max = 4,
        .address_len = w->transport->address_len,
    };
    w->transport->open(end);
}

struct world *world_open(const struct test_transport *transport,
                         const struct world_options *options)
{
    struct world *w = calloc(1, sizeof *w);
    w->transport = transport;
    w->options = *options;
    w->now = 1000;
    prng_init(&w->prng, options->seed);
    unsigned count = (transport->traits & TRAIT_DATAGRAM) != 0 ? END_COUNT : 2;
    for (unsigned i = 0; i < count; i++) {
        open_end(w, i);
    }
    w->transport->connect(w);
    return w;
}

void world_reconnect(struct world *w)
{
    net_clear(w);
    for (unsigned i = 0; i < 2; i++) {
        struct end *end = &w->ends[i];
        w->transport->reset(end);
        cq_purge(end->send_cq, end->config.qp_num);
        cq_purge(end->recv_cq, end->config.qp_num);
        while (end->srq != NULL && srq_posted_count(end->srq) > 0) {
            srq_free(end->srq, srq_claim(end->srq));
        }
        assert_true(wq_check(end->wq, 0));
    }
    w->transport->connect(w);
}

void world_run(struct world *w)
{
    for (unsigned i = 0; w->transport->step(w); i++) {
        assert_true(i < STEP_COUNT_MAX); // or it moves for ever
    }
}

void world_close(struct world *w)
{
    for (unsigned i = 0; i < END_COUNT && w->ends[i].world != NULL; i++) {
        struct end *end = &w->ends[i];
        w->transport->close(end);
        srq_destroy(end->srq);
        assert_int_equal(mem_table_live(end->mem).sinks, 0);
        assert_true(mem_table_check(end->mem));
        mem_table_destroy(end->mem);
        cq_destroy(end->send_cq);
        cq_destroy(end->recv_cq);
        free(end->memory);
    }
    net_clear(w);
    free(w);
}

/* ---- for transports -------------------------------------------------------------------------- */

void end_init(struct end *end, void *transport, struct wq *wq, struct wq_counters *counters)
{
    end->transport = transport;
    end->wq = wq;
    assert_int_equal(wq_init(wq, &end->config, counters), 0);
    wq->reads.allotment_len = end->world->options.allotment_len;
}

void end_reset(struct end *end, struct inbound *in)
{
    wq_requests_forget(end->wq);
    if (in->receive != NULL && end->srq != NULL) {
        wq_receive_free(end->wq, in->receive);
    }
    in->receive = NULL;
    wq_reset(end->wq);
}

void end_fini(struct end *end)
{
    wq_requests_forget(end->wq);
    wq_fini(end->wq);
    free(end->transport);
}

/* ---- what a program does --------------------------------------------------------------------- */

void end_set_address(struct end *end, struct send_wqe *wqe, uint32_t index)
{
    const struct test_transport *t = end->world->transport;
    if (t->fill_address != NULL) {
        t->fill_address(end, index, wq_send_address(end->wq, wqe));
    } else if (end->config.address_len > 0) {
        memcpy(wq_send_address(end->wq, wqe), &index, sizeof index);
    }
}

struct send_wqe *end_send_slot(struct end *end, uint64_t wr_id, enum wqe_opcode opcode,
                               uint32_t flags)
{
    struct send_wqe *wqe = wq_send_slot(end->wq, 0);
    assert_non_null(wqe);
    memset(wqe, 0xa5, offsetof(struct send_wqe, sge));
    wqe->wr_id = wr_id;
    wqe->opcode = opcode;
    wqe->flags = flags;
    wqe->imm_or_inv = 0;
    wqe->sge_count = 0;
    wqe->length = 0;
    end_set_address(end, wqe, (uint32_t)(end->peer - end->world->ends));
    return wqe;
}

void end_add_sge(struct end *end, struct send_wqe *wqe, size_t offset, uint32_t len)
{
    wqe->sge[wqe->sge_count++] = (struct sge){(uintptr_t)end->memory + offset, len, end->key};
    wqe->length += len;
}

void end_set_inline(struct send_wqe *wqe, const void *octets, size_t len)
{
    assert_true(len <= INLINE_LEN_MAX);
    wqe->flags |= WQE_INLINE;
    wqe->length = len;
    memcpy(wqe->inline_data, octets, len);
}

void end_set_remote(struct end *end, struct send_wqe *wqe, size_t remote)
{
    wqe->remote_addr = (uintptr_t)end->peer->memory + remote;
    wqe->rkey = end->peer->key;
}

void end_post(struct end *end)
{
    wq_send_commit(end->wq, 1);
    end->world->transport->on_send_posted(end);
}

void end_post_op(struct end *end, uint64_t wr_id, enum wqe_opcode opcode, uint32_t flags,
                 size_t offset, uint32_t len, size_t remote)
{
    struct send_wqe *wqe = end_send_slot(end, wr_id, opcode, flags);
    end_add_sge(end, wqe, offset, len);
    end_set_remote(end, wqe, remote);
    end_post(end);
}

void end_post_receive(struct end *end, uint64_t wr_id, size_t offset, uint32_t len)
{
    struct recv_wqe *wqe = end->srq != NULL ? srq_slot(end->srq, 0) : wq_receive_slot(end->wq, 0);
    assert_non_null(wqe);
    const uintptr_t memory = (uintptr_t)end->memory;
    wqe->wr_id = wr_id;
    wqe->sge_count = 3; // what a message begins with lies behind what it ends with
    wqe->sge[0] =
        (struct sge){memory + END_HEAD, end->world->transport->receive_head_len, end->key};
    wqe->sge[1] = (struct sge){memory + offset + len / 3, len - len / 3, end->key};
    wqe->sge[2] = (struct sge){memory + offset, len / 3, end->key};
    if (end->srq != NULL) {
        srq_commit(end->srq, 1);
    } else {
        wq_receive_commit(end->wq, 1);
    }
    end->world->transport->on_receive_posted(end);
}

struct cqe end_poll(struct cq *cq)
{
    struct cqe cqe;
    assert_int_equal(cq_poll(cq, &cqe, 1), 1);
    if ((cqe.wc_flags & WC_GRH) != 0) {
        assert_true(cqe.byte_len >= GRH_LEN);
        cqe.byte_len -= GRH_LEN;
        cqe.wc_flags &= ~(uint32_t)WC_GRH;
    }
    return cqe;
}

void end_expect(struct cq *cq, uint64_t wr_id, uint32_t status)
{
    struct cqe cqe = end_poll(cq);
    assert_int_equal(cqe.wr_id, wr_id);
    assert_int_equal(cqe.status, status);
}

void end_expect_none(struct cq *cq)
{
    struct cqe cqe;
    assert_int_equal(cq_poll(cq, &cqe, 1), 0);
}

static uint8_t octet_at(size_t offset, uint8_t seed)
{
    return (uint8_t)(offset * 7 + (offset >> 8) * 13 + seed);
}

void end_fill(struct end *end, size_t offset, size_t len, uint8_t seed)
{
    for (size_t i = 0; i < len; i++) {
        end->memory[offset + i] = octet_at(i, seed);
    }
}

void end_expect_filled(const struct end *end, size_t offset, size_t len, uint8_t seed)
{
    for (size_t i = 0; i < len; i++) {
        assert_int_equal(end->memory[offset + i], octet_at(i, seed));
    }
}
