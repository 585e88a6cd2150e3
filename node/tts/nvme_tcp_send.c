// NVMe/TCP: PDUs to the host, in the order in which they were asked for.

#include <string.h>

#include "base/bytes.h"
#include "base/list.h"
#include "base/time.h"
#include "format/nvme_pages.h"
#include "format/nvme_tcp_wire.h"
#include "format/nvme_wire.h"
#include "node/loop/loop.h"
#include "node/nvme/controller.h"
#include "node/nvme/sgl.h"
#include "node/stream/stream.h"
#include "node/tts/nvme_tcp_connection.h"
#include "wire/crc32c.h"

enum { IOV_MAX_OUT = 96, IOV_OF_ONE = 3 };

/* ---- making PDUs ----------------------------------------------------------------------------- */

static uint32_t round_up(uint32_t number, uint32_t unit)
{
    return (number + unit - 1) / unit * unit;
}

// The common header of a PDU with `data_len` octets of data, and the digest of the whole header, of
// which the rest is there. The octets from its start to where data begin.
static uint32_t seal(const struct nvme_tcp_connection *c, uint8_t *header, uint8_t type,
                     uint8_t flags, uint8_t header_len, uint32_t data_len)
{
    uint32_t len = header_len;
    uint32_t digests = 0;
    if (c->has_header_digest) {
        flags |= NVME_TCP_HDGST;
        len += NVME_TCP_DIGEST_LEN;
    }
    if (data_len > 0) {
        len = round_up(len, c->align);
        digests = c->has_data_digest ? NVME_TCP_DIGEST_LEN : 0;
        flags |= c->has_data_digest ? NVME_TCP_DDGST : 0;
    }
    header[NVME_TCP_OFF_TYPE] = type;
    header[NVME_TCP_OFF_FLAGS] = flags;
    header[NVME_TCP_OFF_HLEN] = header_len;
    header[NVME_TCP_OFF_PDO] = data_len > 0 ? (uint8_t)len : 0;
    put_le32(header + NVME_TCP_OFF_PLEN, len + data_len + digests);
    if (c->has_header_digest) {
        crc32c_put(header + header_len, crc32c(header, header_len));
    }
    return len;
}

static void out_queue(struct nvme_tcp_connection *c, struct nvme_tcp_out *out)
{
    out->sent = 0;
    list_push_tail(&c->outs, &out->link);
    stream_touch(&c->stream);
}

static uint32_t emit_response(struct nvme_tcp_command *t, uint8_t *at)
{
    memset(at, 0, NVME_TCP_RESP_HLEN);
    nvme_command_cqe(t->command, at + NVME_TCP_OFF_CAPSULE);
    return seal(t->connection, at, NVME_TCP_CAPSULE_RESP, 0, NVME_TCP_RESP_HLEN, 0);
}

void nvme_tcp_send_ic_resp(struct nvme_tcp_connection *c)
{
    struct nvme_tcp_out *out = &c->control;
    uint8_t *header = out->head;
    memset(header, 0, NVME_TCP_IC_LEN);
    header[NVME_TCP_OFF_TYPE] = NVME_TCP_IC_RESP;
    header[NVME_TCP_OFF_HLEN] = NVME_TCP_IC_LEN;
    put_le32(header + NVME_TCP_OFF_PLEN, NVME_TCP_IC_LEN);
    header[NVME_TCP_IC_OFF_DIGEST] = (uint8_t)((c->has_header_digest ? NVME_TCP_IC_HDGST : 0) |
                                               (c->has_data_digest ? NVME_TCP_IC_DDGST : 0));
    put_le32(header + NVME_TCP_IC_OFF_MAXDATA, NVME_TCP_DATA_MAX);
    out->head_len = NVME_TCP_IC_LEN;
    out_queue(c, out);
}

void nvme_tcp_send_term(struct nvme_tcp_connection *c, const uint8_t *header, uint32_t header_len,
                        enum nvme_tcp_fatal fes, uint32_t fei)
{
    struct nvme_tcp_out *out = &c->control;
    uint32_t shown = header_len < NVME_TCP_TERM_MAX_LEN - NVME_TCP_TERM_HLEN
                         ? header_len
                         : NVME_TCP_TERM_MAX_LEN - NVME_TCP_TERM_HLEN;
    c->tcp->counters.malformed++;
    c->state = NVME_TCP_TERMINATED;
    c->incoming.is_on = false;
    stream_touch(&c->stream);
    if (out->link.next != &out->link) {
        return; // the ICResp is not out: the host has not listened
    }
    memset(out->head, 0, NVME_TCP_TERM_HLEN);
    out->head[NVME_TCP_OFF_TYPE] = NVME_TCP_C2H_TERM;
    out->head[NVME_TCP_OFF_HLEN] = NVME_TCP_TERM_HLEN;
    put_le32(out->head + NVME_TCP_OFF_PLEN, NVME_TCP_TERM_HLEN + shown);
    put_le16(out->head + NVME_TCP_TERM_OFF_FES, (uint16_t)fes);
    put_le32(out->head + NVME_TCP_TERM_OFF_FEI, fei);
    memcpy(out->head + NVME_TCP_TERM_HLEN, header, shown);
    out->head_len = NVME_TCP_TERM_HLEN + shown;
    out_queue(c, out);
}

/* ---- what the controllers ask for ------------------------------------------------------------ */

static struct nvme_tcp_command *lend(struct nvme_command *command)
{
    struct nvme_tcp_command *t = command->capsule;
    t->command = command;
    return t;
}

static void send_r2t(struct nvme_tcp_command *t)
{
    struct nvme_tcp_connection *c = t->connection;
    struct nvme_tcp_out *out = &t->out;
    uint8_t *header = out->head;
    memset(header, 0, NVME_TCP_DATA_HLEN);
    put_le16(header + NVME_TCP_DATA_OFF_CCCID, t->cid);
    put_le16(header + NVME_TCP_DATA_OFF_TTAG, (uint16_t)(t - c->commands));
    put_le32(header + NVME_TCP_DATA_OFF_DATAL, t->command->data_len);
    out->head_len = seal(c, header, NVME_TCP_R2T, 0, NVME_TCP_DATA_HLEN, 0);
    out->data_len = out->tail_len = 0;
    t->stage = NVME_TCP_ASKING;
    t->filled = 0;
    t->is_bad = false;
    c->tcp->counters.octets_asked += t->command->data_len;
    out_queue(c, out);
}

static void on_fetch(void *connection, struct nvme_command *command)
{
    struct nvme_tcp_command *t = lend(command);
    if (command->sgl.id == NVME_SGL_IN_CAPSULE) {
        t->stage = NVME_TCP_IN_CAPSULE;
        if (t->is_staged) {
            nvme_tcp_fetch_in_capsule(t, loop_now(t->connection->tcp->parts.loop));
        }
    } else {
        send_r2t(t);
    }
}

// Without flow control the last data say that all is well, and no response follows.
static uint8_t data_flags(const struct nvme_command *command, bool has_response)
{
    unsigned last = NVME_TCP_LAST_PDU | (has_response ? 0U : NVME_TCP_SUCCESS);
    return (uint8_t)(command->has_more ? 0 : last);
}

static void on_deliver(void *connection, struct nvme_command *command)
{
    struct nvme_tcp_connection *c = connection;
    struct nvme_tcp_command *t = lend(command);
    struct nvme_tcp_out *out = &t->out;
    bool has_response = nvme_queue_has_flow_control(c->queue) && !command->has_more;
    memset(out->head, 0, sizeof out->head);
    put_le16(out->head + NVME_TCP_DATA_OFF_CCCID, t->cid);
    put_le32(out->head + NVME_TCP_DATA_OFF_DATAO, command->data_at);
    put_le32(out->head + NVME_TCP_DATA_OFF_DATAL, command->data_len);
    out->head_len = seal(c, out->head, NVME_TCP_C2H_DATA, data_flags(command, has_response),
                         NVME_TCP_DATA_HLEN, command->data_len);
    out->data = command->data;
    out->data_len = command->data_len;
    out->tail_len = 0;
    if (c->has_data_digest) {
        crc32c_put(out->tail, crc32c(out->data, out->data_len));
        out->tail_len = NVME_TCP_DIGEST_LEN;
    }
    if (has_response) {
        out->tail_len += emit_response(t, out->tail + out->tail_len);
    }
    t->stage = command->has_more ? NVME_TCP_DELIVERING : NVME_TCP_ANSWERING;
    c->tcp->counters.octets_sent += out->data_len;
    out_queue(c, out);
}

static void on_respond(void *connection, struct nvme_command *command)
{
    struct nvme_tcp_command *t = lend(command);
    t->out.head_len = emit_response(t, t->out.head);
    t->out.data_len = t->out.tail_len = 0;
    t->stage = NVME_TCP_ANSWERING;
    out_queue(connection, &t->out);
}

static void on_close(void *connection, const char *why)
{
    nvme_tcp_leave(connection);
}

static void on_wake(void *connection)
{
    struct nvme_tcp_connection *c = connection;
    c->is_full = false;
    stream_touch(&c->stream);
}

const struct nvme_transport nvme_tcp_transport = {
    .name = "tcp",
    .trtype = NVME_TRTYPE_TCP,
    .sgl_kinds = NVME_SGL_KIND_IN_CAPSULE | NVME_SGL_KIND_TRANSPORT,
    .in_capsule_len_max = NVME_TCP_IN_CAPSULE_MAX,
    .fetch = on_fetch,
    .deliver = on_deliver,
    .respond = on_respond,
    .close = on_close,
    .wake = on_wake,
};

/* ---- sending --------------------------------------------------------------------------------- */

static unsigned part_put(struct iovec *iov, const void *octets, uint32_t len, uint64_t *skip)
{
    if (*skip >= len) {
        *skip -= len;
        return 0;
    }
    *iov = (struct iovec){.iov_base = (uint8_t *)octets + *skip, .iov_len = len - *skip};
    *skip = 0;
    return 1;
}

static unsigned gather(const struct nvme_tcp_connection *c, struct iovec *iov)
{
    unsigned count = 0;
    for (const struct list_link *l = c->outs.next;
         l != &c->outs && count + IOV_OF_ONE <= IOV_MAX_OUT; l = l->next) {
        const struct nvme_tcp_out *out = LIST_ENTRY(l, struct nvme_tcp_out, link);
        uint64_t skip = out->sent;
        count += part_put(iov + count, out->head, out->head_len, &skip);
        count += part_put(iov + count, out->data, out->data_len, &skip);
        count += part_put(iov + count, out->tail, out->tail_len, &skip);
    }
    return count;
}

static void out_sent(struct nvme_tcp_connection *c, struct nvme_tcp_out *out, instant_ns now)
{
    if (out == &c->control) {
        return;
    }
    struct nvme_tcp_command *t = LIST_ENTRY(out, struct nvme_tcp_command, out);
    if (t->stage == NVME_TCP_ASKING) {
        t->stage = NVME_TCP_ASKED;
        c->asked_count++;
    } else {
        nvme_tcp_done(t, NVME_OK, now);
    }
}

static void advance(struct nvme_tcp_connection *c, uint64_t sent, instant_ns now)
{
    while (sent > 0) {
        struct nvme_tcp_out *out = LIST_ENTRY(c->outs.next, struct nvme_tcp_out, link);
        uint64_t left = (uint64_t)out->head_len + out->data_len + out->tail_len - out->sent;
        if (sent < left) {
            out->sent += sent;
            return;
        }
        sent -= left;
        list_remove(&out->link);
        out_sent(c, out, now);
    }
}

int nvme_tcp_flush(struct nvme_tcp_connection *c, instant_ns now)
{
    struct iovec iov[IOV_MAX_OUT];
    while (!list_is_empty(&c->outs)) {
        ssize_t sent = stream_send(&c->stream, iov, gather(c, iov), now);
        if (sent < 0) {
            return (int)sent;
        }
        advance(c, (uint64_t)sent, now);
    }
    return 0;
}
