// iSCSI over TCP: PDUs to the initiator.

#include <string.h>

#include "base/bytes.h"
#include "base/list.h"
#include "base/time.h"
#include "format/iscsi_pdu.h"
#include "format/scsi.h"
#include "node/iscsi/connection.h"
#include "node/scsi/device.h"
#include "node/stream/stream.h"
#include "node/tts/iscsi_tcp_connection.h"
#include "wire/crc32c.h"

enum { BATCH_MAX = 48, PIECES = 3 };

/* ---- forming --------------------------------------------------------------------------------- */

// Padding and digests of a PDU whose header and data are set.
static void finish(const struct iscsi_connection *c, struct iscsi_out *out)
{
    bool is_login = (out->head[ISCSI_OFF_OPCODE] & ISCSI_OPCODE_MASK) == ISCSI_LOGIN_RESPONSE;
    uint32_t pad_len = iscsi_pad_of(out->data_len);
    put_be24(out->head + ISCSI_OFF_DATA_LEN, out->data_len);
    out->head_len = ISCSI_HEADER_LEN;
    out->sent = 0;
    out->is_formed = true;
    memset(out->tail, 0, sizeof out->tail);
    out->tail_len = pad_len;
    if (c->parameters.has_header_digest && !is_login) {
        crc32c_put(out->head + ISCSI_HEADER_LEN, crc32c(out->head, ISCSI_HEADER_LEN));
        out->head_len += ISCSI_DIGEST_LEN;
    }
    if (c->parameters.has_data_digest && !is_login && out->data_len > 0) {
        uint32_t crc = crc32c_update(crc32c_init(), out->data, out->data_len);
        crc = crc32c_update(crc, out->tail, pad_len);
        crc32c_put(out->tail + pad_len, crc32c_final(crc));
        out->tail_len += ISCSI_DIGEST_LEN;
    }
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static void form_r2t(struct iscsi_connection *c, struct iscsi_task *task)
{
    uint8_t *head = task->out.head;
    uint32_t len = least(c->parameters.max_burst, task->scsi.data_len - task->stream.filled);
    task->stream.asked = task->stream.filled + len;
    task->stream.datasn = 0;
    iscsi_header_emit(head, ISCSI_R2T, ISCSI_FINAL, task->itt);
    put_be64(head + ISCSI_OFF_LUN, task->lun); // which goes with the tag
    put_be32(head + ISCSI_OFF_TTT, (uint32_t)(task - c->tasks));
    iscsi_put_numbers(c, head, false);
    put_be32(head + ISCSI_R2T_OFF_R2TSN, task->stream.r2tsn++);
    put_be32(head + ISCSI_DATA_OFF_BUFFER, task->stream.filled);
    put_be32(head + ISCSI_R2T_OFF_LEN, len);
    task->out.data_len = 0;
}

static void form_data(struct iscsi_connection *c, struct iscsi_task *task)
{
    uint8_t *head = task->out.head;
    uint32_t left = task->scsi.data_len - task->stream.delivered;
    uint32_t to_burst = c->parameters.max_burst - task->stream.delivered % c->parameters.max_burst;
    uint32_t len = least(least(left, c->parameters.peer_receive_max), to_burst);
    bool is_last = len == left, is_final = is_last || len == to_burst;
    iscsi_header_emit(head, ISCSI_DATA_IN, is_final ? ISCSI_FINAL : 0, task->itt);
    if (is_last) {
        iscsi_task_leave_place(task);
    }
    iscsi_put_numbers(c, head, is_last);
    put_be32(head + ISCSI_DATA_OFF_DATASN, task->stream.deliver_datasn++);
    put_be32(head + ISCSI_DATA_OFF_BUFFER, task->stream.delivered);
    if (is_last) {
        head[ISCSI_OFF_FLAGS] |= ISCSI_DATA_STATUS;
        head[ISCSI_DATA_OFF_STATUS] = SCSI_GOOD;
        iscsi_put_residual(task, head, ISCSI_DATA_OFF_RESIDUAL);
    }
    task->out.data = task->scsi.data + task->stream.delivered;
    task->out.data_len = len;
    task->stream.delivered += len;
    c->door->counters.octets_sent += len;
}

static void form_response(struct iscsi_connection *c, struct iscsi_task *task)
{
    iscsi_form_response(task);
}

static void form(struct iscsi_connection *c, struct iscsi_out *out)
{
    static void (*const forms[])(struct iscsi_connection * c, struct iscsi_task * task) = {
        [ISCSI_ASKS] = form_r2t,
        [ISCSI_DELIVERS] = form_data,
        [ISCSI_RESPONDS] = form_response,
    };
    if (out->task != NULL) {
        forms[out->task->next](c, out->task);
    } else {
        iscsi_form_control(c, out);
    }
    finish(c, out);
}

/* ---- sending --------------------------------------------------------------------------------- */

static void piece_put(struct iovec *iov, unsigned *count, const void *ptr, uint32_t len,
                      uint64_t *skip)
{
    uint64_t skipped = *skip < len ? *skip : len;
    *skip -= skipped;
    if (skipped < len) {
        iov[(*count)++] =
            (struct iovec){.iov_base = (uint8_t *)ptr + skipped, .iov_len = len - skipped};
    }
}

// More of the same task's data come behind this PDU, before those of others.
static bool has_more(const struct iscsi_out *out)
{
    return out->task != NULL && out->task->next == ISCSI_DELIVERS &&
           out->task->stream.delivered < out->task->scsi.data_len;
}

static unsigned outs_gather(struct iscsi_connection *c, struct iovec *iov)
{
    unsigned count = 0;
    for (struct list_link *l = c->outs.next; l != &c->outs && count + PIECES <= BATCH_MAX;
         l = l->next) {
        struct iscsi_out *out = LIST_ENTRY(l, struct iscsi_out, link);
        if (!out->is_formed) {
            form(c, out);
        }
        uint64_t skip = out->sent;
        piece_put(iov, &count, out->head, out->head_len, &skip);
        piece_put(iov, &count, out->data, out->data_len, &skip);
        piece_put(iov, &count, out->tail, out->tail_len, &skip);
        if (has_more(out)) {
            break;
        }
    }
    return count;
}

static void out_over(struct iscsi_connection *c, struct iscsi_out *out, instant_ns now)
{
    if (has_more(out)) {
        out->is_formed = false;
        out->sent = 0;
        return;
    }
    list_remove(&out->link);
    if (out->task != NULL) {
        iscsi_task_sent(out->task, now);
    } else {
        iscsi_control_free(c, LIST_ENTRY(out, struct iscsi_control, out));
    }
}

static void outs_advance(struct iscsi_connection *c, size_t sent, instant_ns now)
{
    while (sent > 0) {
        struct iscsi_out *out = LIST_ENTRY(c->outs.next, struct iscsi_out, link);
        uint64_t left = (uint64_t)out->head_len + out->data_len + out->tail_len - out->sent;
        if (sent < left) {
            out->sent += sent;
            return;
        }
        sent -= left;
        out_over(c, out, now);
    }
}

int iscsi_flush(struct iscsi_stream *cs, instant_ns now)
{
    struct iscsi_connection *c = &cs->c;
    struct iovec iov[BATCH_MAX];
    while (!list_is_empty(&c->outs)) {
        ssize_t sent = stream_send(&cs->stream, iov, outs_gather(c, iov), now);
        if (sent < 0) {
            return (int)sent;
        }
        outs_advance(c, (size_t)sent, now);
    }
    return 0;
}
