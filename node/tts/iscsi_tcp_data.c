// iSCSI over TCP: data of commands. What comes unasked is kept, or goes into place; the rest is
// asked for by R2T when the device wants it; what the device has goes as Data-In.

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/list.h"
#include "base/time.h"
#include "format/iscsi_pdu.h"
#include "node/iscsi/connection.h"
#include "node/scsi/device.h"
#include "node/scsi/sense.h"
#include "node/tts/iscsi_tcp_connection.h"
#include "wire/crc32c.h"

static struct iscsi_task *task_of(struct scsi_task *scsi)
{
    return LIST_ENTRY(scsi, struct iscsi_task, scsi);
}

/* ---- data of the PDU under way --------------------------------------------------------------- */

void iscsi_incoming_begin(struct iscsi_connection *c, const struct iscsi_header *h,
                          struct iscsi_task *task)
{
    bool is_data = h->opcode == ISCSI_DATA_OUT;
    struct iscsi_stream *cs = iscsi_stream_of(c);
    cs->incoming = (struct iscsi_incoming){
        .task = task,
        .left = h->data_len,
        .pad_left = h->pad_len,
        .is_on = true,
        .has_digest = c->parameters.has_data_digest && h->data_len > 0,
        .is_asked = is_data && get_be32(h->at + ISCSI_OFF_TTT) != ISCSI_NO_TAG,
        .is_final = (h->flags & ISCSI_FINAL) != 0,
        .crc = crc32c_init()};
    if (cs->incoming.has_digest) {
        memcpy(cs->incoming.head, h->at, ISCSI_HEADER_LEN);
    }
    if (task != NULL) {
        task->stream.is_receiving = true;
        if (cs->incoming.is_asked) {
            c->door->counters.octets_asked += h->data_len;
        } else {
            c->door->counters.octets_immediate += h->data_len;
        }
    }
}

void iscsi_stream_on_command(struct iscsi_connection *c, const struct iscsi_header *h,
                             struct iscsi_task *task)
{
    bool may_go_on = !c->parameters.has_initial_r2t;
    if (task != NULL) {
        task->stream.is_open = task->is_write && may_go_on && (h->flags & ISCSI_FINAL) == 0;
    }
    if (task == NULL || h->data_len > 0) {
        iscsi_incoming_begin(c, h, task);
        iscsi_stream_of(c)->incoming.is_final = false; // F tells of Data-Out
    }
}

void iscsi_stream_on_task_free(struct iscsi_task *task)
{
    struct iscsi_stream *cs = iscsi_stream_of(task->connection);
    if (cs->incoming.task == task) {
        cs->incoming.task = NULL;
    }
    free(task->stream.staged);
    task->stream.staged = NULL;
}

/* ---- data of the initiator ------------------------------------------------------------------- */

uint8_t *iscsi_task_place(struct iscsi_task *task, uint32_t *ret_len)
{
    uint32_t first_burst = task->connection->parameters.first_burst;
    *ret_len = 0;
    if (task->stream.is_over || task->scsi.fault != FAULT_NONE) {
        return NULL;
    }
    if (task->stream.is_wanted) {
        *ret_len = task->scsi.data_len - task->stream.filled;
        return *ret_len > 0 ? task->scsi.data + task->stream.filled : NULL;
    }
    if (task->stream.staged == NULL) { // the node has no buffer yet: rare
        task->stream.staged = malloc(first_burst);
    }
    *ret_len = task->stream.staged != NULL ? first_burst - task->stream.filled : 0;
    return *ret_len > 0 ? task->stream.staged + task->stream.filled : NULL;
}

static void forget(struct iscsi_task *task)
{
    iscsi_stream_of(task->connection)->asked_count -= task->stream.is_wanted;
    task->stream.is_wanted = false;
    task->stream.is_over = true;
    if (task->next == ISCSI_ASKS && task->out.sent == 0) { // an R2T that needs not go
        list_remove(&task->out.link);
        task->next = ISCSI_NOTHING;
    }
}

static bool on_forget(struct scsi_task *scsi)
{
    forget(task_of(scsi));
    return true;
}

static void data_end(struct iscsi_task *task, bool is_there, instant_ns now)
{
    forget(task);
    task_fetched(&task->scsi, is_there, now);
}

static bool is_silent(const struct iscsi_task *task)
{
    return !task->stream.is_receiving && !task->stream.is_open;
}

// What is next of the data that the device wants: nothing, or an R2T.
static void data_go_on(struct iscsi_task *task, instant_ns now)
{
    if (task->scsi.fault != FAULT_NONE) {
        data_end(task, false, now);
    } else if (task->stream.filled == task->scsi.data_len) {
        data_end(task, true, now);
    } else if (is_silent(task) && task->stream.filled >= task->stream.asked &&
               task->next == ISCSI_NOTHING) {
        iscsi_task_queue(task, ISCSI_ASKS);
    }
}

static void on_fetch(struct scsi_task *scsi, instant_ns now)
{
    struct iscsi_task *task = task_of(scsi);
    task->stream.is_wanted = true;
    iscsi_stream_of(task->connection)->asked_count++;
    if (task->stream.staged != NULL) {
        task->stream.filled =
            task->stream.filled < scsi->data_len ? task->stream.filled : scsi->data_len;
        memcpy(scsi->data, task->stream.staged, task->stream.filled);
        free(task->stream.staged);
        task->stream.staged = NULL;
    }
    data_go_on(task, now);
}

static void answer(struct iscsi_task *task)
{
    task->stream.has_answer = false;
    iscsi_task_queue(task, ISCSI_RESPONDS);
}

// Its last PDU has come, and less than an R2T asked for (RFC 7143 section 11.4.7.2).
static bool is_short(const struct iscsi_task *task, const struct iscsi_incoming *incoming)
{
    return incoming->is_asked && incoming->is_final && task->stream.is_wanted &&
           task->scsi.fault == FAULT_NONE && task->stream.filled < task->stream.asked;
}

void iscsi_task_received(struct iscsi_task *task, const struct iscsi_incoming *incoming,
                         bool is_bad, instant_ns now)
{
    if (incoming->is_final && !incoming->is_asked) {
        task->stream.is_open = false;
    }
    if (is_bad) {
        struct iscsi_header h = iscsi_header_parse(incoming->head);
        iscsi_reject(task->connection, &h, ISCSI_REJECT_DATA_DIGEST);
        task->scsi.fault = FAULT_DATA_DIGEST;
    } else if (is_short(task, incoming)) {
        task->scsi.fault = FAULT_AMOUNT;
    }
    if (task->stream.has_answer) {
        if (is_silent(task)) {
            answer(task);
        }
    } else if (task->stream.is_wanted) {
        data_go_on(task, now);
    }
}

// Data-Out: for the task that it names, in the order of its data.
static enum scsi_fault data_fault(const struct iscsi_task *task, const struct iscsi_header *h,
                                  bool is_asked)
{
    uint32_t offset = get_be32(h->at + ISCSI_DATA_OFF_BUFFER);
    uint32_t datasn = get_be32(h->at + ISCSI_DATA_OFF_DATASN);
    uint32_t end = is_asked ? task->stream.asked : task->connection->parameters.first_burst;
    if (!is_asked && !task->stream.is_open) {
        return FAULT_UNSOLICITED;
    }
    if ((is_asked && !task->stream.is_wanted) || datasn != task->stream.datasn ||
        offset != task->stream.filled) {
        return FAULT_TRANSFER;
    }
    return offset > end || h->data_len > end - offset ? FAULT_AMOUNT : FAULT_NONE;
}

void iscsi_take_data(struct iscsi_connection *c, const struct iscsi_header *h)
{
    uint32_t tag = get_be32(h->at + ISCSI_OFF_TTT);
    bool is_asked = tag != ISCSI_NO_TAG;
    struct iscsi_task *task = is_asked && tag < ISCSI_TASK_COUNT ? &c->tasks[tag] : NULL;
    task = is_asked ? task : iscsi_task_find(c, h->itt);
    if (task == NULL || !task->is_used || task->itt != h->itt) { // it may have been aborted
        iscsi_incoming_begin(c, h, NULL);
        return;
    }
    enum scsi_fault fault = task->stream.is_over ? FAULT_NONE : data_fault(task, h, is_asked);
    if (fault != FAULT_NONE) {
        iscsi_reject(c, h, ISCSI_REJECT_PROTOCOL_ERROR);
        task->scsi.fault = fault;
    }
    task->stream.datasn++;
    iscsi_incoming_begin(c, h, task);
}

/* ---- to the initiator ------------------------------------------------------------------------ */

static void on_deliver(struct scsi_task *scsi, instant_ns now)
{
    struct iscsi_task *task = task_of(scsi);
    task->stream.is_over = true;
    iscsi_task_queue(task, ISCSI_DELIVERS);
}

static void on_respond(struct scsi_task *scsi, instant_ns now)
{
    struct iscsi_task *task = task_of(scsi);
    task->stream.is_over = true;
    if (scsi->is_aborted) {
        iscsi_task_free(task);
    } else if (is_silent(task) && task->next == ISCSI_NOTHING) {
        answer(task);
    } else {
        task->stream.has_answer = true;
    }
}

const struct scsi_transport iscsi_tcp_transport = {
    .fetch = on_fetch,
    .forget = on_forget,
    .deliver = on_deliver,
    .respond = on_respond,
    .turn = iscsi_task_on_turn,
};

void iscsi_task_sent(struct iscsi_task *task, instant_ns now)
{
    enum iscsi_next next = task->next;
    task->next = ISCSI_NOTHING;
    if (next == ISCSI_DELIVERS) {
        task_delivered(&task->scsi, true, now);
    }
    if (next != ISCSI_ASKS || task->is_doomed) {
        iscsi_task_free(task);
    } else if (task->stream.has_answer && is_silent(task)) {
        answer(task);
    }
}
