// iSCSI: what is to go, put down; who sends is above.

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "format/iscsi_pdu.h"
#include "node/iscsi/connection.h"

/* ---- controls -------------------------------------------------------------------------------- */

uint8_t *iscsi_control_put(struct iscsi_connection *c, enum iscsi_opcode opcode, uint8_t flags,
                           uint32_t itt, const void *data, uint32_t len)
{
    struct list_link *l = list_pop_head(&c->free_controls);
    if (l == NULL) {
        return NULL;
    }
    struct iscsi_control *control =
        LIST_ENTRY(LIST_ENTRY(l, struct iscsi_out, link), struct iscsi_control, out);
    *control = (struct iscsi_control){.has_status = true};
    if (len > 0) {
        control->data = malloc(len);
        if (control->data == NULL) {
            list_push_tail(&c->free_controls, &control->out.link);
            return NULL;
        }
        memcpy(control->data, data, len);
    }
    c->free_control_count--;
    c->control_data_len += len;
    control->out.data = control->data;
    control->out.data_len = len;
    iscsi_header_emit(control->out.head, opcode, flags, itt);
    list_push_tail(&c->outs, &control->out.link);
    iscsi_touch(c);
    return control->out.head;
}

void iscsi_control_free(struct iscsi_connection *c, struct iscsi_control *control)
{
    free(control->data);
    control->data = NULL;
    c->control_data_len -= control->out.data_len;
    list_push_head(&c->free_controls, &control->out.link);
    c->free_control_count++;
    iscsi_touch(c);
}

void iscsi_reject(struct iscsi_connection *c, const struct iscsi_header *h,
                  enum iscsi_reject_reason reason)
{
    uint8_t *head =
        iscsi_control_put(c, ISCSI_REJECT, ISCSI_FINAL, ISCSI_NO_TAG, h->at, ISCSI_HEADER_LEN);
    c->door->counters.rejects++;
    if (head != NULL) {
        head[ISCSI_REJECT_OFF_REASON] = (uint8_t)reason;
    }
}

void iscsi_task_queue(struct iscsi_task *task, enum iscsi_next next)
{
    CHECK(task->next == ISCSI_NOTHING);
    task->next = next;
    task->out.task = task;
    task->out.is_formed = false;
    task->out.sent = 0;
    list_push_tail(&task->connection->outs, &task->out.link);
    iscsi_touch(task->connection);
}

void iscsi_outs_drop(struct iscsi_connection *c)
{
    struct list_link outs;
    list_move_all(&outs, &c->outs);
    for (struct list_link *l; (l = list_pop_head(&outs)) != NULL;) {
        struct iscsi_out *out = LIST_ENTRY(l, struct iscsi_out, link);
        if (out->task == NULL) {
            iscsi_control_free(c, LIST_ENTRY(out, struct iscsi_control, out));
        }
    }
}
