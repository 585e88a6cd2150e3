// Messages of the peer: Sends go to receives, Writes to the memory that they name.
#include "base/place.h"
#include "base/sge.h"
#include "base/span.h"
#include "cq/cqe.h"
#include "mem/table.h"
#include "mem/verdict.h"
#include "roce/rc_internal.h"
#include "wq/status.h"

enum rc_refusal rc_receive_check(struct rc *rc, const struct roce_packet *p)
{
    struct mspan pieces[SGE_COUNT_MAX];
    unsigned count;
    if ((p->facts->headers & ROCE_HAS_RETH) == 0 || p->reth.dma_len == 0) {
        return RC_ACCEPTED;
    }
    uint32_t access =
        p->facts->kind == ROCE_KIND_READ ? MEM_ACCESS_REMOTE_READ : MEM_ACCESS_REMOTE_WRITE;
    return rc_refusal_of_memory(mem_resolve(rc->config.wq.mem, rc_asker(rc), p->reth.rkey,
                                            p->reth.va, p->reth.dma_len, access, pieces,
                                            SGE_COUNT_MAX, &count));
}

bool rc_receive_claim(struct rc *rc)
{
    struct rc_inbound *in = &rc->resp.in;
    in->receive = wq_receive_claim(&rc->wq);
    if (in->receive != NULL) {
        scatter_init(&in->scatter, in->receive->sge, in->receive->sge_count);
    }
    return in->receive != NULL;
}

void rc_receive_forget(struct rc *rc)
{
    struct rc_inbound *in = &rc->resp.in;
    if (in->receive != NULL && rc->config.wq.srq != NULL) {
        wq_receive_free(&rc->wq, in->receive);
    }
    *in = (struct rc_inbound){.is_open = false};
}

static void begin(struct rc_inbound *in, const struct roce_packet *p)
{
    in->is_open = true;
    in->kind = p->facts->kind;
    in->arrived_len = 0;
    if (p->facts->headers & ROCE_HAS_RETH) {
        in->length = p->reth.dma_len;
        in->va = p->reth.va;
        in->rkey = p->reth.rkey;
    }
}

// The key is looked up again: it may have been taken back since the message began.
static enum rc_refusal place_write(struct rc *rc, struct span payload)
{
    const struct rc_inbound *in = &rc->resp.in;
    struct mspan pieces[SGE_COUNT_MAX];
    unsigned count;
    enum mem_verdict verdict =
        mem_resolve(rc->config.wq.mem, rc_asker(rc), in->rkey, in->va + in->arrived_len,
                    payload.len, MEM_ACCESS_REMOTE_WRITE, pieces, SGE_COUNT_MAX, &count);
    for (unsigned i = 0; i < count && verdict == MEM_OK; i++) {
        place_octets(pieces[i].ptr, span_first(payload, pieces[i].len));
        payload = span_skip(payload, pieces[i].len);
    }
    return rc_refusal_of_memory(verdict);
}

// What does not fit ends the receive, and then the connection.
static enum rc_refusal place_send(struct rc *rc, struct span payload)
{
    static const struct {
        enum rc_refusal refusal;
        enum wc_status status;
    } of_verdict[] = {
        [SCATTER_OK] = {RC_ACCEPTED, WC_SUCCESS},
        [SCATTER_TOO_LONG] = {RC_REFUSED_TOO_LONG, WC_LOC_LEN_ERR},
        [SCATTER_LOCAL] = {RC_REFUSED_LOCAL, WC_LOC_PROT_ERR},
    };
    struct rc_inbound *in = &rc->resp.in;
    enum scatter_verdict verdict =
        wq_receive_place(&rc->wq, &in->scatter, in->arrived_len, payload);
    if (verdict != SCATTER_OK) {
        wq_complete_receive_without(&rc->wq, in->receive, of_verdict[verdict].status);
        in->receive = NULL;
    }
    return of_verdict[verdict].refusal;
}

enum rc_refusal rc_receive_place(struct rc *rc, const struct roce_packet *p)
{
    struct rc_inbound *in = &rc->resp.in;
    if (p->facts->begins) {
        begin(in, p);
    }
    enum rc_refusal refusal = p->payload.len == 0          ? RC_ACCEPTED
                              : in->kind == ROCE_KIND_SEND ? place_send(rc, p->payload)
                                                           : place_write(rc, p->payload);
    in->arrived_len += p->payload.len;
    return refusal;
}

static void complete(struct rc *rc, const struct roce_packet *p)
{
    struct rc_inbound *in = &rc->resp.in;
    bool has_imm = (p->facts->headers & ROCE_HAS_IMMDT) != 0;
    bool has_inv = (p->facts->headers & ROCE_HAS_IETH) != 0;
    in->receive->message = (struct recv_message){
        .opcode = in->kind == ROCE_KIND_WRITE ? WC_RECV_RDMA_WITH_IMM : WC_RECV,
        .byte_len = (uint32_t)in->arrived_len,
        .wc_flags = (has_imm ? WC_WITH_IMM : 0) | (has_inv ? WC_WITH_INV : 0),
        .imm_or_inv = has_imm   ? p->immdt.imm_data
                      : has_inv ? p->ieth.rkey
                                : 0,
    };
    wq_complete_receive(&rc->wq, in->receive, WC_SUCCESS, p->bth.solicited);
    in->receive = NULL;
}

enum rc_refusal rc_receive_end(struct rc *rc, const struct roce_packet *p)
{
    if (p->facts->headers & ROCE_HAS_IETH) {
        if (mem_invalidate(rc->config.wq.mem, rc_asker(rc), p->ieth.rkey, true) != MEM_OK) {
            return RC_REFUSED_INVALIDATE;
        }
        rc->counters.invalidations++;
    }
    if (rc->resp.in.receive != NULL) {
        complete(rc, p);
    }
    rc->resp.in.is_open = false;
    return RC_ACCEPTED;
}
