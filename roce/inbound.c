#include "roce/inbound.h"

#include <stddef.h>

#include "base/place.h"
#include "base/sge.h"
#include "base/span.h"
#include "cq/cqe.h"

/* ---- checks ---------------------------------------------------------------------------------- */

bool inbound_is_in_order(const struct inbound *in, const struct roce_packet *p)
{
    return p->facts->begins ? !in->is_open : in->is_open && in->kind == p->facts->kind;
}

bool inbound_fits(const struct inbound *in, const struct roce_packet *p, uint32_t path_mtu)
{
    if (!roce_payload_fits(p->facts, p->payload.len, path_mtu)) {
        return false;
    }
    bool has_reth = (p->facts->headers & ROCE_HAS_RETH) != 0;
    uint64_t arrived_len = (p->facts->begins ? 0 : in->arrived_len) + p->payload.len;
    uint64_t length = has_reth ? p->reth.dma_len : in->length;
    bool fits = length <= WQ_MESSAGE_MAX_LEN;
    if (p->facts->kind == ROCE_KIND_WRITE) {
        fits = fits && (p->facts->ends ? arrived_len == length : arrived_len < length);
    } else if (p->facts->kind == ROCE_KIND_SEND) {
        fits = arrived_len <= WQ_MESSAGE_MAX_LEN;
    }
    return fits;
}

enum mem_verdict inbound_check_memory(struct inbound *in, const struct wq *wq,
                                      struct mem_asker asker, const struct roce_packet *p)
{
    struct mspan pieces[SGE_COUNT_MAX];
    unsigned count;
    if ((p->facts->headers & ROCE_HAS_RETH) == 0 || p->reth.dma_len == 0) {
        return MEM_OK;
    }
    bool is_read = p->facts->kind == ROCE_KIND_READ;
    enum mem_verdict verdict = mem_resolve(
        wq->config->mem, asker, p->reth.rkey, p->reth.va, p->reth.dma_len,
        is_read ? MEM_ACCESS_REMOTE_READ : MEM_ACCESS_REMOTE_WRITE, pieces, SGE_COUNT_MAX, &count);
    if (!is_read && verdict == MEM_OK) {
        bool is_whole = pieces[0].len == p->reth.dma_len;
        in->place = pieces[0];
        in->place_version = is_whole ? mem_table_version(wq->config->mem) : 0;
        in->place_denied = asker.denied;
    }
    return verdict;
}

/* ---- placement ------------------------------------------------------------------------------- */

bool inbound_claim(struct inbound *in, struct wq *wq)
{
    if (in->receive == NULL) {
        in->receive = wq_receive_claim(wq);
    }
    if (in->receive != NULL) {
        scatter_init(&in->scatter, in->receive->sge, in->receive->sge_count);
    }
    return in->receive != NULL;
}

static void begin(struct inbound *in, const struct roce_packet *p)
{
    in->is_open = true;
    in->kind = p->facts->kind;
    in->arrived_len = 0;
    in->has_reference = in->is_close = false;
    if (p->facts->headers & ROCE_HAS_RETH) {
        in->length = p->reth.dma_len;
        in->va = p->reth.va;
        in->rkey = p->reth.rkey;
    }
}

// Nothing has been taken back since the message began.
static bool has_place(const struct inbound *in, const struct wq *wq, struct mem_asker asker,
                      size_t len)
{
    return in->place_version != 0 && in->place_version == mem_table_version(wq->config->mem) &&
           in->place_denied == asker.denied && in->arrived_len <= in->place.len &&
           len <= in->place.len - in->arrived_len;
}

static void place(const struct inbound_placer *placer, uint8_t *to, struct span octets)
{
    if (placer == NULL) {
        place_octets(to, octets);
    } else {
        placer->place(placer->ctx, to, octets);
    }
}

// Otherwise the key is looked up again. A list may have more pieces than are told at a time.
static enum mem_verdict place_write(const struct inbound *in, struct wq *wq, struct mem_asker asker,
                                    struct span payload, const struct inbound_placer *placer)
{
    struct mspan pieces[SGE_COUNT_MAX];
    unsigned count;
    uint64_t va = in->va + in->arrived_len;
    enum mem_verdict verdict = MEM_OK;
    if (has_place(in, wq, asker, payload.len)) {
        place(placer, in->place.ptr + in->arrived_len, payload);
        return MEM_OK;
    }
    while (payload.len > 0 && verdict == MEM_OK) {
        verdict = mem_resolve(wq->config->mem, asker, in->rkey, va, payload.len,
                              MEM_ACCESS_REMOTE_WRITE, pieces, SGE_COUNT_MAX, &count);
        for (unsigned i = 0; i < count && verdict == MEM_OK; i++) {
            place(placer, pieces[i].ptr, span_first(payload, pieces[i].len));
            payload = span_skip(payload, pieces[i].len);
            va += pieces[i].len;
        }
    }
    return verdict;
}

enum inbound_verdict inbound_place(struct inbound *in, struct wq *wq, struct mem_asker asker,
                                   const struct roce_packet *p, const struct inbound_placer *placer,
                                   enum mem_verdict *ret_memory)
{
    static const enum inbound_verdict of_scatter[] = {
        [SCATTER_OK] = INBOUND_OK,
        [SCATTER_TOO_LONG] = INBOUND_TOO_LONG,
        [SCATTER_LOCAL] = INBOUND_LOCAL,
    };
    enum inbound_verdict verdict = INBOUND_OK;
    if (p->facts->begins) {
        begin(in, p);
    }
    if (p->payload.len > 0 && in->kind == ROCE_KIND_SEND) {
        verdict = of_scatter[wq_receive_place(wq, &in->scatter, in->arrived_len, p->payload)];
    } else if (p->payload.len > 0) {
        *ret_memory = place_write(in, wq, asker, p->payload, placer);
        verdict = *ret_memory == MEM_OK ? INBOUND_OK : INBOUND_MEMORY;
    }
    in->arrived_len += p->payload.len;
    return verdict;
}

/* ---- the end --------------------------------------------------------------------------------- */

static void complete(struct inbound *in, struct wq *wq, const struct roce_packet *p)
{
    bool has_imm = (p->facts->headers & ROCE_HAS_IMMDT) != 0;
    bool has_inv = (p->facts->headers & ROCE_HAS_IETH) != 0;
    in->receive->message = (struct recv_message){
        .opcode = in->kind == ROCE_KIND_WRITE ? WC_RECV_RDMA_WITH_IMM : WC_RECV,
        .byte_len = (uint32_t)in->arrived_len,
        .wc_flags = (has_imm ? WC_WITH_IMM : 0) | (has_inv ? WC_WITH_INV : 0) |
                    (in->is_close ? WC_CLOSED : 0) | (in->has_reference ? WC_REFERENCE : 0),
        .imm_or_inv = has_imm   ? p->immdt.imm_data
                      : has_inv ? p->ieth.rkey
                                : 0,
        .reference = in->reference,
    };
    wq->counters->recv_completions++;
    wq_complete_receive(wq, in->receive, WC_SUCCESS, p->bth.solicited);
    in->receive = NULL;
}

void inbound_end(struct inbound *in, struct wq *wq, const struct roce_packet *p)
{
    if (in->kind == ROCE_KIND_SEND || (p->facts->headers & ROCE_HAS_IMMDT) != 0) {
        complete(in, wq, p);
    }
    in->is_open = false;
}

void inbound_fail(struct inbound *in, struct wq *wq, enum wc_status status)
{
    wq->counters->recv_errors++;
    wq_complete_receive_without(wq, in->receive, status);
    in->receive = NULL;
}

void inbound_flush(struct inbound *in, struct wq *wq)
{
    if (in->receive != NULL) {
        wq_flush_receive(wq, in->receive);
    }
    *in = (struct inbound){.is_open = false};
}

void inbound_forget(struct inbound *in, struct wq *wq)
{
    if (in->receive != NULL && wq->config->srq != NULL) {
        wq_receive_free(wq, in->receive);
    }
    *in = (struct inbound){.is_open = false};
}
