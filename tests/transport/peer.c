// What a message of the peer does at an end. Work queues give the receive and the place in it; what
// the message names is looked up in mem/.
#include "base/place.h"
#include "tests/transport/transport.h"

enum { ATOMIC_LEN = 8 };

struct message message_of(const struct send_wqe *wqe)
{
    return (struct message){
        .opcode = wqe->opcode,
        .imm_or_inv = wqe->imm_or_inv,
        .rkey = wqe->rkey,
        .remote_addr = wqe->remote_addr,
        .length = wqe->length,
        .is_solicited = (wqe->flags & WQE_SOLICITED) != 0,
    };
}

struct message message_of_request(const struct read_context *context)
{
    const struct send_wqe *wqe = context->task->cookie;
    bool is_atomic = context->task->kind == READ_KIND_ATOMIC;
    return (struct message){
        .opcode = is_atomic ? wqe->opcode : WQE_RDMA_READ,
        .rkey = context->remote_key,
        .remote_addr = context->remote_addr,
        .compare_add = is_atomic ? wqe->compare_add : 0,
        .swap = is_atomic ? wqe->swap : 0,
        .length = context->length,
    };
}

static struct mem_asker asker_of(const struct end *end)
{
    return (struct mem_asker){.pd = end->pd, .qp_num = end->config.qp_num};
}

static bool is_write(const struct message *m)
{
    return m->opcode == WQE_RDMA_WRITE || m->opcode == WQE_RDMA_WRITE_WITH_IMM;
}

bool peer_begin(struct inbound *in, const struct message *m)
{
    if (m->opcode == WQE_RDMA_WRITE) {
        return true;
    }
    in->receive = wq_receive_claim(in->end->wq);
    if (in->receive != NULL) {
        scatter_init(&in->scatter, in->receive->sge, in->receive->sge_count);
    }
    return in->receive != NULL;
}

static enum wc_status write_at(const struct inbound *in, const struct message *m, uint64_t offset,
                               struct span payload)
{
    struct mspan place;
    unsigned count;
    if (payload.len == 0) {
        return WC_SUCCESS;
    }
    if (mem_resolve(in->end->mem, asker_of(in->end), m->rkey, m->remote_addr + offset, payload.len,
                    MEM_ACCESS_REMOTE_WRITE, &place, 1, &count) != MEM_OK) {
        return WC_REM_ACCESS_ERR;
    }
    place_octets(place.ptr, payload);
    return WC_SUCCESS;
}

static enum wc_status scatter_at(struct inbound *in, uint64_t offset, struct span payload)
{
    static const enum wc_status ours[] = {WC_SUCCESS, WC_LOC_LEN_ERR, WC_LOC_PROT_ERR};
    static const enum wc_status theirs[] = {WC_SUCCESS, WC_REM_INV_REQ_ERR, WC_REM_OP_ERR};
    enum scatter_verdict verdict = wq_receive_place(in->end->wq, &in->scatter, offset, payload);
    if (verdict != SCATTER_OK) {
        wq_complete_receive_without(in->end->wq, in->receive, ours[verdict]);
        in->receive = NULL;
    }
    return theirs[verdict];
}

enum wc_status peer_place(struct inbound *in, const struct message *m, uint64_t offset,
                          struct span payload)
{
    return is_write(m) ? write_at(in, m, offset, payload) : scatter_at(in, offset, payload);
}

enum wc_status peer_end(struct inbound *in, const struct message *m)
{
    if (m->opcode == WQE_SEND_WITH_INV &&
        mem_invalidate(in->end->mem, asker_of(in->end), m->imm_or_inv, true) != MEM_OK) {
        return WC_REM_ACCESS_ERR;
    }
    if (in->receive == NULL) {
        return WC_SUCCESS;
    }
    bool has_imm = m->opcode == WQE_SEND_WITH_IMM || m->opcode == WQE_RDMA_WRITE_WITH_IMM;
    bool has_inv = m->opcode == WQE_SEND_WITH_INV;
    in->receive->message = (struct recv_message){
        .opcode = is_write(m) ? WC_RECV_RDMA_WITH_IMM : WC_RECV,
        .byte_len = (uint32_t)m->length,
        .wc_flags = (has_imm ? WC_WITH_IMM : 0) | (has_inv ? WC_WITH_INV : 0),
        .imm_or_inv = m->imm_or_inv,
        .reference = m->from,
    };
    wq_complete_receive(in->end->wq, in->receive, WC_SUCCESS, m->is_solicited);
    in->receive = NULL;
    return WC_SUCCESS;
}

enum wc_status peer_read(const struct inbound *in, const struct message *m, uint64_t offset,
                         size_t len, struct mspan *pieces, unsigned *ret_count)
{
    *ret_count = 0;
    enum mem_verdict verdict =
        len == 0 ? MEM_OK
                 : mem_resolve(in->end->mem, asker_of(in->end), m->rkey, m->remote_addr + offset,
                               len, MEM_ACCESS_REMOTE_READ, pieces, SGE_COUNT_MAX, ret_count);
    return verdict == MEM_OK ? WC_SUCCESS : WC_REM_ACCESS_ERR;
}

enum wc_status peer_atomic(const struct inbound *in, const struct message *m,
                           uint64_t *ret_original)
{
    struct mspan place;
    unsigned count;
    if (mem_resolve(in->end->mem, asker_of(in->end), m->rkey, m->remote_addr, ATOMIC_LEN,
                    MEM_ACCESS_REMOTE_ATOMIC, &place, 1, &count) != MEM_OK) {
        return WC_REM_ACCESS_ERR;
    }
    if ((uintptr_t)place.ptr % ATOMIC_LEN != 0) {
        return WC_REM_INV_REQ_ERR;
    }
    uint64_t value;
    memcpy(&value, place.ptr, sizeof value);
    *ret_original = value;
    if (m->opcode == WQE_ATOMIC_FETCH_AND_ADD) {
        value += m->compare_add;
    } else if (value == m->compare_add) {
        value = m->swap;
    }
    memcpy(place.ptr, &value, sizeof value);
    return WC_SUCCESS;
}

void peer_flush(struct inbound *in)
{
    if (in->receive != NULL) {
        wq_flush_receive(in->end->wq, in->receive);
        in->receive = NULL;
    }
    wq_flush_receives(in->end->wq);
}
