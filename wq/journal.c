#include "wq/journal.h"

#include <string.h>

#include "base/list.h"
#include "base/port_journal.h"
#include "wq/read_task.h"
#include "wq/ring.h"
#include "wq/wq.h"
#include "wq/wqe.h"

static void put(struct wq *wq, const struct journal_record *record)
{
    struct journal *journal = wq->config->journal;
    journal->put(journal, record);
}

static uint32_t address_key(struct wq *wq, struct send_wqe *wqe)
{
    const uint8_t *address = wq_send_address(wq, wqe);
    uint32_t key;
    memcpy(&key, address + wq->config->address_key_at, sizeof key);
    return key;
}

static uint32_t key_of(struct wq *wq, struct send_wqe *wqe)
{
    if (wq->config->address_len > 0) {
        return address_key(wq, wqe);
    }
    switch (wqe->opcode) {
    case WQE_RDMA_WRITE:
    case WQE_RDMA_WRITE_WITH_IMM:
    case WQE_RDMA_READ:
    case WQE_ATOMIC_CMP_AND_SWP:
    case WQE_ATOMIC_FETCH_AND_ADD:
        return wqe->rkey;
    case WQE_LOCAL_INV:
    case WQE_SEND_WITH_INV:
        return wqe->imm_or_inv;
    default:
        return 0;
    }
}

void wq_journal_sends(struct wq *wq, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct send_wqe *wqe = wqe_ring_slot(&wq->sq, i);
        put(wq, &(struct journal_record){.kind = JOURNAL_SEND_POSTED,
                                         .qp_num = wq->config->qp_num,
                                         .opcode = (uint8_t)wqe->opcode,
                                         .key = key_of(wq, wqe),
                                         .wr_id = wqe->wr_id,
                                         .len = wqe->length});
    }
}

static uint64_t room_of(const struct recv_wqe *wqe)
{
    uint64_t len = 0;
    for (uint32_t i = 0; i < wqe->sge_count; i++) {
        len += wqe->sge[i].length;
    }
    return len;
}

void wq_journal_receives(struct wq *wq, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        const struct recv_wqe *wqe = wqe_ring_slot(&wq->rq, i);
        put(wq, &(struct journal_record){.kind = JOURNAL_RECEIVE_POSTED,
                                         .qp_num = wq->config->qp_num,
                                         .wr_id = wqe->wr_id,
                                         .len = room_of(wqe)});
    }
}

void wq_journal_taken(struct wq *wq, const struct recv_wqe *wqe)
{
    put(wq, &(struct journal_record){.kind = JOURNAL_RECEIVE_TAKEN,
                                     .qp_num = wq->config->qp_num,
                                     .wr_id = wqe->wr_id,
                                     .len = room_of(wqe)});
}

void wq_journal_context(const struct read_flow *flow, const struct read_context *context,
                        uint32_t number, bool is_granted)
{
    struct wq *wq = LIST_ENTRY(flow, struct wq, reads);
    const struct read_task *task = context->task;
    if (task->kind == READ_KIND_READY) {
        return; // the transport's own: no work request
    }
    const struct send_wqe *wqe = task->cookie;
    put(wq, &(struct journal_record){
                .kind = is_granted ? JOURNAL_CONTEXT_GRANTED : JOURNAL_CONTEXT_GONE,
                .qp_num = wq->config->qp_num,
                .opcode = (uint8_t)wqe->opcode,
                .key = number,
                .wr_id = wqe->wr_id,
                .len = is_granted ? context->length
                                  : read_task_remaining_len(task) - task->outstanding_len});
}
