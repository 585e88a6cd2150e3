// iSCSI: answers as octets, and the numbers in them.

#include "base/bytes.h"
#include "base/list.h"
#include "format/iscsi_pdu.h"
#include "format/scsi.h"
#include "node/iscsi/connection.h"
#include "node/scsi/device.h"
#include "node/scsi/sense.h"

void iscsi_put_numbers(struct iscsi_connection *c, uint8_t *head, bool takes_status)
{
    put_be32(head + ISCSI_OFF_STATSN, c->statsn);
    c->statsn += takes_status;
    put_be32(head + ISCSI_OFF_EXPCMDSN, c->expcmdsn);
    put_be32(head + ISCSI_OFF_MAXCMDSN, iscsi_maxcmdsn(c));
}

void iscsi_task_leave_place(struct iscsi_task *task)
{
    struct iscsi_connection *c = task->connection;
    unsigned *used = task->is_immediate ? &c->immediate_used : &c->window_used;
    *used -= task->has_place;
    task->has_place = false;
}

void iscsi_put_residual(const struct iscsi_task *task, uint8_t *head, unsigned offset)
{
    bool has_failed = task->scsi.status != SCSI_GOOD;
    // Of what failed it is beside the point what it would have moved.
    uint64_t whole = has_failed ? task->scsi.moved_len : task->scsi.whole_len;
    uint64_t expected = task->expected_len;
    if (whole < expected) {
        head[ISCSI_OFF_FLAGS] |= ISCSI_UNDERFLOW;
        put_be32(head + offset, (uint32_t)(expected - whole));
    } else if (whole > expected) {
        head[ISCSI_OFF_FLAGS] |= ISCSI_OVERFLOW;
        put_be32(head + offset,
                 whole - expected > UINT32_MAX ? UINT32_MAX : (uint32_t)(whole - expected));
    }
}

void iscsi_form_response(struct iscsi_task *task)
{
    uint8_t *head = task->out.head;
    bool has_sense = task->scsi.status == SCSI_CHECK_CONDITION;
    iscsi_header_emit(head, ISCSI_SCSI_RESPONSE, ISCSI_FINAL, task->itt);
    put_be32(head + ISCSI_OFF_TTT, 0); // reserved here
    head[ISCSI_RSP_OFF_STATUS] = (uint8_t)task->scsi.status;
    iscsi_task_leave_place(task);
    iscsi_put_numbers(task->connection, head, true);
    iscsi_put_residual(task, head, ISCSI_RSP_OFF_RESIDUAL);
    task->out.data = task->sense;
    task->out.data_len = 0;
    if (has_sense) {
        uint32_t len = task_sense_emit(&task->scsi, task->sense + ISCSI_SENSE_LEN_LEN);
        put_be16(task->sense, (uint16_t)len);
        task->out.data_len = ISCSI_SENSE_LEN_LEN + len;
    }
}

void iscsi_form_control(struct iscsi_connection *c, struct iscsi_out *out)
{
    const struct iscsi_control *control = LIST_ENTRY(out, struct iscsi_control, out);
    iscsi_put_numbers(c, out->head, control->has_status);
}
