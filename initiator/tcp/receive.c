// PDUs from the controller. A header is looked at when all of it is there; data go where they
// belong as they come. Whatever is against the protocol ends the connection: what follows could be
// anything.

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/bytes.h"
#include "base/list.h"
#include "format/nvme_tcp_wire.h"
#include "format/nvme_wire.h"
#include "initiator/tcp/stream.h"
#include "wire/crc32c.h"

// What a step of the parser found; other values are negative errno.
enum { TAKE_MORE = 0, TAKE_ANSWER = 1, TAKE_GOES_ON = 2 };

// A header that has come, and what it says of the rest.
struct pdu {
    const uint8_t *at;
    uint8_t type, flags, len;
    uint32_t digest_len; // of the header
    uint32_t data_at;    // from the header's begin
    uint32_t data_len;
};

__attribute__((format(printf, 2, 3))) static int broken(struct why *ret_why, const char *format,
                                                        ...)
{
    va_list args;
    va_start(args, format);
    why_say_args(ret_why, format, args);
    va_end(args);
    return -EPROTO;
}

/* ---- data ------------------------------------------------------------------------------------ */

// `len` octets have come, and are at `from`, or in place already (NULL).
static void data_advance(struct pdu_stream *s, const uint8_t *from, uint32_t len)
{
    s->incoming_left -= len;
    s->incoming->done += len;
    while (len > 0) {
        struct iovec run = pdu_cursor_take(&s->incoming->cursor, len);
        if (from != NULL) {
            memcpy(run.iov_base, from, run.iov_len);
            from += run.iov_len;
        }
        if (s->has_data_digest) {
            s->incoming_crc = crc32c_update(s->incoming_crc, run.iov_base, run.iov_len);
        }
        len -= (uint32_t)run.iov_len;
    }
}

// The answer is that all went well, and it is not sent.
static int success_make(struct pdu_stream *s, uint8_t ret_cqe[NVME_CQE_LEN])
{
    struct pdu_command *c = s->incoming;
    uint16_t status = c->is_bad ? NVME_TRANSIENT_TRANSPORT_ERROR : NVME_OK;
    memset(ret_cqe, 0, NVME_CQE_LEN);
    put_le16(ret_cqe + NVME_CQE_OFF_CID, c->cid);
    put_le16(ret_cqe + NVME_CQE_OFF_STATUS, (uint16_t)(status << NVME_CQE_STATUS_SHIFT));
    c->is_out = false;
    return TAKE_ANSWER;
}

static int data_take(struct pdu_stream *s, uint8_t ret_cqe[NVME_CQE_LEN])
{
    uint32_t there = s->in_len - s->in_at;
    uint32_t part = there < s->incoming_left ? there : s->incoming_left;
    data_advance(s, s->in + s->in_at, part);
    s->in_at += part;
    if (s->incoming_left > 0 ||
        (s->has_data_digest && s->in_len - s->in_at < NVME_TCP_DIGEST_LEN)) {
        return TAKE_MORE;
    }
    if (s->has_data_digest) {
        s->incoming->is_bad |= crc32c_get(s->in + s->in_at) != crc32c_final(s->incoming_crc);
        s->in_at += NVME_TCP_DIGEST_LEN;
    }
    int result = s->incoming_is_success ? success_make(s, ret_cqe) : TAKE_GOES_ON;
    s->incoming = NULL;
    return result;
}

/* ---- headers --------------------------------------------------------------------------------- */

static struct pdu_command *command_find(const struct pdu_stream *s, uint16_t cid)
{
    unsigned index = cid & ((1u << s->index_bits) - 1);
    struct pdu_command *c = index < s->depth ? &s->commands[index] : NULL;
    return c != NULL && c->is_out && c->cid == cid ? c : NULL;
}

static bool is_on_its_way(const struct pdu_command *c)
{
    return !list_is_empty(&c->link);
}

static int take_response(struct pdu_stream *s, const struct pdu *pdu, uint8_t ret_cqe[NVME_CQE_LEN],
                         struct why *ret_why)
{
    memcpy(ret_cqe, pdu->at + NVME_TCP_OFF_CAPSULE, NVME_CQE_LEN);
    uint16_t cid = get_le16(ret_cqe + NVME_CQE_OFF_CID);
    uint16_t status = get_le16(ret_cqe + NVME_CQE_OFF_STATUS) >> NVME_CQE_STATUS_SHIFT;
    bool is_good = (status & ~(NVME_STATUS_DNR | NVME_STATUS_MORE)) == NVME_OK;
    struct pdu_command *c = command_find(s, cid);
    if (c == NULL) {
        return TAKE_ANSWER; // to nothing that was asked: whoever asks counts it
    }
    if (is_on_its_way(c)) {
        return broken(ret_why, "it answers a command of which it has not all data");
    }
    bool is_short = c->way == PDU_READ && c->done < c->len;
    if (is_good && (is_short || (c->way == PDU_ASKED && c->done < c->len))) {
        return broken(ret_why, "it is done with %u octets after %u", c->len, c->done);
    }
    if (is_good && c->is_bad) {
        put_le16(ret_cqe + NVME_CQE_OFF_STATUS,
                 NVME_TRANSIENT_TRANSPORT_ERROR << NVME_CQE_STATUS_SHIFT);
    }
    c->is_out = false;
    return TAKE_ANSWER;
}

static int take_data(struct pdu_stream *s, const struct pdu *pdu, struct why *ret_why)
{
    struct pdu_command *c = command_find(s, get_le16(pdu->at + NVME_TCP_DATA_OFF_CCCID));
    uint32_t at = get_le32(pdu->at + NVME_TCP_DATA_OFF_DATAO);
    uint32_t len = get_le32(pdu->at + NVME_TCP_DATA_OFF_DATAL);
    bool is_success = (pdu->flags & NVME_TCP_SUCCESS) != 0;
    if (c == NULL || c->way != PDU_READ) {
        return broken(ret_why, "it sends data that nobody asked for");
    }
    if (len == 0 || len != pdu->data_len || at != c->done || len > c->len - c->done) {
        return broken(ret_why, "it sends octets %u and %u more where %u of %u have come", at, len,
                      c->done, c->len);
    }
    if (is_success && ((pdu->flags & NVME_TCP_LAST_PDU) == 0 || len != c->len - c->done)) {
        return broken(ret_why, "it is done with %u octets after %u", c->len, c->done + len);
    }
    s->incoming = c;
    s->incoming_left = len;
    s->incoming_crc = crc32c_init();
    s->incoming_is_success = is_success;
    return TAKE_GOES_ON;
}

static int take_r2t(struct pdu_stream *s, const struct pdu *pdu, struct why *ret_why)
{
    struct pdu_command *c = command_find(s, get_le16(pdu->at + NVME_TCP_DATA_OFF_CCCID));
    uint32_t at = get_le32(pdu->at + NVME_TCP_DATA_OFF_DATAO);
    uint32_t len = get_le32(pdu->at + NVME_TCP_DATA_OFF_DATAL);
    if (c == NULL || c->way != PDU_ASKED || is_on_its_way(c)) {
        return broken(ret_why, "it asks for data of no command that has any");
    }
    if (len == 0 || at != c->done || len > c->len - c->done) {
        return broken(ret_why, "it asks for octets %u and %u more of %u, after %u", at, len, c->len,
                      c->done);
    }
    pdu_stream_ask(s, c, len, get_le16(pdu->at + NVME_TCP_DATA_OFF_TTAG));
    return TAKE_GOES_ON;
}

static int take_term(const struct pdu *pdu, struct why *ret_why)
{
    static const char *const faults[] = {[NVME_TCP_INVALID_FIELD] = "a field is wrong",
                                         [NVME_TCP_SEQUENCE_ERROR] = "a PDU came out of turn",
                                         [NVME_TCP_HEADER_DIGEST_ERROR] = "a header's digest",
                                         [NVME_TCP_OUT_OF_RANGE] = "data out of range",
                                         [NVME_TCP_LIMIT_EXCEEDED] = "too much data",
                                         [NVME_TCP_UNSUPPORTED] = "something it does not know"};
    uint16_t fault = get_le16(pdu->at + NVME_TCP_TERM_OFF_FES);
    bool is_known = fault > 0 && fault < sizeof faults / sizeof faults[0];
    return broken(ret_why, "the target ends the connection: %s (fault %u, %u)",
                  is_known ? faults[fault] : "it does not say why", fault,
                  get_le32(pdu->at + NVME_TCP_TERM_OFF_FEI));
}

// What each type of PDU that may come has.
static const struct {
    uint8_t len; // 0: it may not
    bool has_data;
} kinds[] = {
    [NVME_TCP_C2H_TERM] = {NVME_TCP_TERM_HLEN, true},
    [NVME_TCP_CAPSULE_RESP] = {NVME_TCP_RESP_HLEN, false},
    [NVME_TCP_C2H_DATA] = {NVME_TCP_DATA_HLEN, true},
    [NVME_TCP_R2T] = {NVME_TCP_DATA_HLEN, false},
};

// Lengths and digest of a header that has come.
static int pdu_check(const struct pdu_stream *s, struct pdu *pdu, struct why *ret_why)
{
    bool is_term = pdu->type == NVME_TCP_C2H_TERM;
    uint32_t len = get_le32(pdu->at + NVME_TCP_OFF_PLEN);
    uint32_t least = pdu->len + pdu->digest_len;
    uint32_t data_digest = (pdu->flags & NVME_TCP_DDGST) != 0 ? NVME_TCP_DIGEST_LEN : 0;
    bool has_data = kinds[pdu->type].has_data && !is_term;
    pdu->data_at = has_data ? pdu->at[NVME_TCP_OFF_PDO] : least;
    if (!is_term && ((pdu->flags & NVME_TCP_HDGST) != 0) != s->has_header_digest) {
        return broken(ret_why, "a PDU has a header digest, or none, against what was agreed");
    }
    if (has_data && (data_digest != 0) != s->has_data_digest) {
        return broken(ret_why, "a PDU has a data digest, or none, against what was agreed");
    }
    if (pdu->data_at < least || len < pdu->data_at + (has_data ? data_digest : 0) ||
        (is_term && len > NVME_TCP_TERM_MAX_LEN) || (!has_data && !is_term && len != least)) {
        return broken(ret_why, "a PDU of type %u has %u octets, its data at %u", pdu->type, len,
                      pdu->data_at);
    }
    pdu->data_len = len - pdu->data_at - (has_data ? data_digest : 0);
    if (pdu->digest_len > 0 && crc32c_get(pdu->at + pdu->len) != crc32c(pdu->at, pdu->len)) {
        return broken(ret_why, "the digest of a header is wrong");
    }
    return 0;
}

// The next PDU, if its header is there as far as its data.
static int pdu_take(struct pdu_stream *s, uint8_t ret_cqe[NVME_CQE_LEN], struct why *ret_why)
{
    struct pdu pdu = {.at = s->in + s->in_at};
    uint32_t there = s->in_len - s->in_at;
    if (there < NVME_TCP_COMMON_LEN) {
        return TAKE_MORE;
    }
    pdu.type = pdu.at[NVME_TCP_OFF_TYPE];
    pdu.flags = pdu.at[NVME_TCP_OFF_FLAGS];
    pdu.len = pdu.at[NVME_TCP_OFF_HLEN];
    if (pdu.type >= sizeof kinds / sizeof kinds[0] || kinds[pdu.type].len == 0 ||
        pdu.len != kinds[pdu.type].len) {
        return broken(ret_why, "a PDU of type 0x%x with a header of %u octets", pdu.type, pdu.len);
    }
    bool is_term = pdu.type == NVME_TCP_C2H_TERM;
    pdu.digest_len = s->has_header_digest && !is_term ? NVME_TCP_DIGEST_LEN : 0;
    if (there < pdu.len + pdu.digest_len) {
        return TAKE_MORE;
    }
    int error = pdu_check(s, &pdu, ret_why);
    if (error != 0 || there < pdu.data_at) {
        return error;
    }
    s->in_at += pdu.data_at;
    switch (pdu.type) {
    case NVME_TCP_CAPSULE_RESP:
        return take_response(s, &pdu, ret_cqe, ret_why);
    case NVME_TCP_C2H_DATA:
        return take_data(s, &pdu, ret_why);
    case NVME_TCP_R2T:
        return take_r2t(s, &pdu, ret_why);
    default:
        return take_term(&pdu, ret_why);
    }
}

int pdu_stream_parse(struct pdu_stream *s, uint8_t ret_cqe[NVME_CQE_LEN], struct why *ret_why)
{
    int result = TAKE_GOES_ON;
    while (result == TAKE_GOES_ON) {
        result = s->incoming != NULL ? data_take(s, ret_cqe) : pdu_take(s, ret_cqe, ret_why);
    }
    return result;
}

/* ---- octets ---------------------------------------------------------------------------------- */

// Long data are received into place, with what follows them into the buffer.
static ssize_t fill(struct pdu_stream *s)
{
    struct iovec parts[2];
    unsigned count = 0;
    uint32_t direct = 0;
    memmove(s->in, s->in + s->in_at, s->in_len - s->in_at);
    s->in_len -= s->in_at;
    s->in_at = 0;
    if (s->incoming != NULL && s->incoming_left >= PDU_DIRECT_MIN) {
        struct pdu_cursor cursor = s->incoming->cursor;
        parts[count++] = pdu_cursor_take(&cursor, s->incoming_left);
        direct = (uint32_t)parts[0].iov_len;
    }
    // What follows a part of the data only would not belong into the buffer.
    if (direct == 0 || direct == s->incoming_left) {
        parts[count++] = (struct iovec){s->in + s->in_len, PDU_IN_LEN - s->in_len};
    }
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
    ssize_t got = recvmsg(s->fd, &message, MSG_DONTWAIT);
    if (got > 0) {
        uint32_t placed = (size_t)got < direct ? (uint32_t)got : direct;
        if (placed > 0) {
            data_advance(s, NULL, placed);
        }
        s->in_len += (uint32_t)got - placed;
    }
    return got;
}

int pdu_stream_take(struct pdu_stream *s, uint8_t ret_cqe[NVME_CQE_LEN], struct why *ret_why)
{
    for (;;) {
        int result = pdu_stream_parse(s, ret_cqe, ret_why);
        if (result != TAKE_MORE) {
            return result;
        }
        ssize_t got = s->fd >= 0 ? fill(s) : 0;
        if (got == 0) {
            why_say(ret_why, "the target ended the connection");
            return -ECONNRESET;
        }
        if (got < 0 && errno != EINTR) {
            int error = errno;
            why_say(ret_why, "the connection is lost: %s", strerror(error));
            return error == EAGAIN ? 0 : -ECONNRESET;
        }
    }
}
