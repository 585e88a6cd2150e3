// Capsules with their data, and data that the controller asks for, in the order in which they came.
// Data are sent from where they lie.

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/bytes.h"
#include "base/list.h"
#include "format/nvme_tcp_wire.h"
#include "format/nvme_wire.h"
#include "initiator/tcp/stream.h"
#include "wire/crc32c.h"

enum { RUN_MAX = 64 }; // pieces of memory that one call sends

/* ---- making PDUs ----------------------------------------------------------------------------- */

static uint32_t round_up(uint32_t number, uint32_t unit)
{
    return (number + unit - 1) / unit * unit;
}

static uint32_t data_crc(struct pdu_cursor cursor, uint32_t len)
{
    uint32_t crc = crc32c_init();
    while (len > 0) {
        struct iovec run = pdu_cursor_take(&cursor, len);
        crc = crc32c_update(crc, run.iov_base, run.iov_len);
        len -= (uint32_t)run.iov_len;
    }
    return crc32c_final(crc);
}

// The common header of a PDU with so many octets of the command's data, digests and padding; the
// rest of the header is there.
static void seal(const struct pdu_stream *s, struct pdu_command *c, uint8_t type, uint8_t flags,
                 uint8_t header_len, uint32_t data_len)
{
    uint32_t len = header_len;
    bool has_data_digest = s->has_data_digest && data_len > 0;
    flags |= has_data_digest ? NVME_TCP_DDGST : 0;
    if (s->has_header_digest) {
        flags |= NVME_TCP_HDGST;
        len += NVME_TCP_DIGEST_LEN;
    }
    if (data_len > 0) {
        uint32_t padded = round_up(len, s->align);
        memset(c->head + len, 0, padded - len);
        len = padded;
    }
    c->tail_len = has_data_digest ? NVME_TCP_DIGEST_LEN : 0;
    c->head[NVME_TCP_OFF_TYPE] = type;
    c->head[NVME_TCP_OFF_FLAGS] = flags;
    c->head[NVME_TCP_OFF_HLEN] = header_len;
    c->head[NVME_TCP_OFF_PDO] = data_len > 0 ? (uint8_t)len : 0;
    put_le32(c->head + NVME_TCP_OFF_PLEN, len + data_len + c->tail_len);
    if (s->has_header_digest) {
        crc32c_put(c->head + header_len, crc32c(c->head, header_len));
    }
    if (has_data_digest) {
        crc32c_put(c->tail, data_crc(c->cursor, data_len));
    }
    c->head_len = len;
    c->data_left = data_len;
    c->head_sent = c->tail_sent = 0;
}

static void data_pdu_make(struct pdu_stream *s, struct pdu_command *c)
{
    uint32_t len = c->left < s->data_max ? c->left : s->data_max;
    memset(c->head, 0, NVME_TCP_DATA_HLEN);
    put_le16(c->head + NVME_TCP_DATA_OFF_CCCID, c->cid);
    put_le16(c->head + NVME_TCP_DATA_OFF_TTAG, c->tag);
    put_le32(c->head + NVME_TCP_DATA_OFF_DATAO, c->done - c->left);
    put_le32(c->head + NVME_TCP_DATA_OFF_DATAL, len);
    c->left -= len;
    seal(s, c, NVME_TCP_H2C_DATA, c->left == 0 ? NVME_TCP_LAST_PDU : 0, NVME_TCP_DATA_HLEN, len);
}

uint8_t *pdu_stream_sqe(struct pdu_stream *s, unsigned index)
{
    return s->commands[index].head + NVME_TCP_OFF_CAPSULE;
}

static void data_pointer_fill(uint8_t *sqe, enum pdu_way way, uint32_t len)
{
    uint8_t *sgl = sqe + NVME_SQE_OFF_SGL1;
    memset(sgl, 0, NVME_SGL_LEN);
    put_le32(sgl + NVME_SGL_OFF_LENGTH, len);
    sgl[NVME_SGL_OFF_ID] = way == PDU_IN_CAPSULE ? NVME_SGL_IN_CAPSULE : NVME_SGL_TRANSPORT;
}

int pdu_stream_send(struct pdu_stream *s, unsigned index, enum pdu_way way,
                    const struct iovec *memory, uint32_t len)
{
    struct pdu_command *c = &s->commands[index];
    uint8_t *sqe = pdu_stream_sqe(s, index);
    if (s->fd < 0) {
        return -ENOTCONN;
    }
    data_pointer_fill(sqe, way, len);
    c->is_out = true;
    c->way = way;
    c->cid = get_le16(sqe + NVME_SQE_OFF_CID);
    c->len = len;
    c->is_bad = false;
    c->done = c->left = 0;
    c->cursor = (struct pdu_cursor){.piece = memory};
    seal(s, c, NVME_TCP_CAPSULE_CMD, 0, NVME_TCP_CMD_HLEN, way == PDU_IN_CAPSULE ? len : 0);
    list_push_tail(&s->outs, &c->link);
    int error = pdu_stream_flush(s);
    if (error != 0) { // it is the last one, so not all of it is out
        list_remove(&c->link);
        c->is_out = false;
    }
    return error;
}

void pdu_stream_ask(struct pdu_stream *s, struct pdu_command *c, uint32_t len, uint16_t tag)
{
    c->done += len;
    c->left = len;
    c->tag = tag;
    data_pdu_make(s, c);
    list_push_tail(&s->outs, &c->link);
}

/* ---- sending them ---------------------------------------------------------------------------- */

// What is left of the PDU, as far as one call takes.
static unsigned runs_of(const struct pdu_command *c, struct iovec runs[RUN_MAX + 2])
{
    unsigned count = 0;
    uint32_t left = c->data_left;
    struct pdu_cursor cursor = c->cursor;
    if (c->head_sent < c->head_len) {
        runs[count++] =
            (struct iovec){(uint8_t *)c->head + c->head_sent, c->head_len - c->head_sent};
    }
    while (left > 0 && count < RUN_MAX) {
        runs[count] = pdu_cursor_take(&cursor, left);
        left -= (uint32_t)runs[count++].iov_len;
    }
    if (left == 0 && c->tail_sent < c->tail_len) {
        runs[count++] =
            (struct iovec){(uint8_t *)c->tail + c->tail_sent, c->tail_len - c->tail_sent};
    }
    return count;
}

static uint32_t part_of(size_t *len, uint32_t most)
{
    uint32_t part = *len < most ? (uint32_t)*len : most;
    *len -= part;
    return part;
}

// So many octets are out. Is all of the PDU?
static bool sent(struct pdu_command *c, size_t len)
{
    c->head_sent += part_of(&len, c->head_len - c->head_sent);
    uint32_t data = part_of(&len, c->data_left);
    c->data_left -= data;
    while (data > 0) {
        data -= (uint32_t)pdu_cursor_take(&c->cursor, data).iov_len;
    }
    c->tail_sent += part_of(&len, c->tail_len - c->tail_sent);
    return c->head_sent == c->head_len && c->data_left == 0 && c->tail_sent == c->tail_len;
}

int pdu_stream_flush(struct pdu_stream *s)
{
    while (!list_is_empty(&s->outs)) {
        struct pdu_command *c = LIST_ENTRY(s->outs.next, struct pdu_command, link);
        struct iovec runs[RUN_MAX + 2];
        struct msghdr message = {.msg_iov = runs, .msg_iovlen = runs_of(c, runs)};
        ssize_t put = sendmsg(s->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (put < 0 && errno != EINTR) {
            return errno == EAGAIN ? 0 : -errno;
        }
        if (put > 0 && sent(c, (size_t)put)) {
            if (c->left > 0) {
                data_pdu_make(s, c);
            } else {
                list_remove(&c->link);
            }
        }
    }
    return 0;
}
