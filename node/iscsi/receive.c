// iSCSI: PDUs from the initiator. A header is looked at when all of it is there; data that are
// looked at as a whole likewise, other data go where they belong as they come.

#include <string.h>

#include "base/bytes.h"
#include "base/list.h"
#include "base/time.h"
#include "node/format/iscsi_pdu.h"
#include "node/iscsi/connection.h"
#include "node/iscsi/keys.h"
#include "node/stream/stream.h"
#include "wire/crc32c.h"

/* ---- data that go into place ----------------------------------------------------------------- */

static void crc_add(struct iscsi_incoming *incoming, const void *octets, uint32_t len)
{
    if (incoming->has_digest) {
        incoming->crc = crc32c_update(incoming->crc, octets, len);
    }
}

// `len` octets of data have come, and are at `from`.
static void data_advance(struct iscsi_incoming *incoming, const uint8_t *from, uint32_t len)
{
    crc_add(incoming, from, len);
    incoming->left -= len;
    while (len > 0 && incoming->task != NULL) {
        uint32_t room;
        uint8_t *to = iscsi_task_place(incoming->task, &room);
        if (to == NULL) {
            return;
        }
        uint32_t part = len < room ? len : room;
        memcpy(to, from, part);
        incoming->task->filled += part;
        from += part;
        len -= part;
    }
}

uint8_t *iscsi_direct(const struct iscsi_connection *c, uint32_t *ret_len)
{
    const struct iscsi_incoming *incoming = &c->incoming;
    if (!incoming->is_on || incoming->left == 0 || incoming->task == NULL) {
        return NULL;
    }
    uint8_t *to = iscsi_task_place(incoming->task, ret_len);
    *ret_len = to != NULL && *ret_len > incoming->left ? incoming->left : *ret_len;
    return to;
}

void iscsi_received(struct iscsi_connection *c, uint32_t len)
{
    struct iscsi_incoming *incoming = &c->incoming;
    uint32_t room;
    crc_add(incoming, iscsi_task_place(incoming->task, &room), len);
    incoming->left -= len;
    incoming->task->filled += len;
}

static void data_over(struct iscsi_connection *c, bool is_bad, instant_ns now)
{
    struct iscsi_incoming incoming = c->incoming;
    c->incoming = (struct iscsi_incoming){0};
    c->iscsi->counters.digest_errors += is_bad;
    if (incoming.task != NULL) {
        incoming.task->is_receiving = false;
        iscsi_task_received(incoming.task, &incoming, is_bad, now);
    }
}

static enum stream_verdict data_take(struct iscsi_connection *c, instant_ns now)
{
    struct iscsi_incoming *incoming = &c->incoming;
    struct stream *s = &c->stream;
    uint32_t there = s->in_len - s->in_at;
    uint32_t part = there < incoming->left ? there : incoming->left;
    if (part > 0) {
        data_advance(incoming, s->in + s->in_at, part);
        s->in_at += part;
        there -= part;
    }
    uint32_t tail_len = incoming->pad_left + (incoming->has_digest ? ISCSI_DIGEST_LEN : 0);
    if (incoming->left > 0 || there < tail_len) {
        return STREAM_NEEDS_MORE;
    }
    bool is_bad = false;
    if (incoming->has_digest) {
        crc_add(incoming, s->in + s->in_at, incoming->pad_left);
        is_bad = crc32c_get(s->in + s->in_at + incoming->pad_left) != crc32c_final(incoming->crc);
    }
    s->in_at += tail_len;
    data_over(c, is_bad, now);
    return STREAM_GOES_ON;
}

/* ---- NOP-Out, Logout, what there is not ------------------------------------------------------ */

static enum stream_verdict take_nop(struct iscsi_connection *c, const struct iscsi_header *h,
                                    const uint8_t *data, instant_ns now)
{
    if (h->itt == ISCSI_NO_TAG) { // it answers one of ours, of which there are none
        return STREAM_GOES_ON;
    }
    uint32_t most = c->parameters.peer_receive_max;
    uint8_t *head = iscsi_control_put(c, ISCSI_NOP_IN, ISCSI_FINAL, h->itt, data,
                                      h->data_len < most ? h->data_len : most);
    if (head == NULL) {
        return STREAM_LEAVES;
    }
    memcpy(head + ISCSI_OFF_LUN, h->at + ISCSI_OFF_LUN, 8);
    return STREAM_GOES_ON;
}

// Closing the session and closing its only connection are the same.
static enum stream_verdict take_logout(struct iscsi_connection *c, const struct iscsi_header *h,
                                       const uint8_t *data, instant_ns now)
{
    unsigned reason = h->flags & ISCSI_LOGOUT_REASON_MASK;
    bool is_other =
        reason == ISCSI_CLOSE_CONNECTION && get_be16(h->at + ISCSI_LOGOUT_OFF_CID) != c->login.cid;
    uint8_t *head = iscsi_control_put(c, ISCSI_LOGOUT_RESPONSE, ISCSI_FINAL, h->itt, NULL, 0);
    if (head == NULL) {
        return STREAM_LEAVES;
    }
    put_be32(head + ISCSI_OFF_TTT, 0); // reserved here
    if (reason > ISCSI_CLOSE_CONNECTION || is_other) {
        head[ISCSI_LOGOUT_OFF_RESPONSE] = is_other ? ISCSI_LOGOUT_NO_CID : ISCSI_LOGOUT_NO_RECOVERY;
        return STREAM_GOES_ON;
    }
    iscsi_leave(c);
    return STREAM_STOPS;
}

static enum stream_verdict take_snack(struct iscsi_connection *c, const struct iscsi_header *h,
                                      const uint8_t *data, instant_ns now)
{
    iscsi_reject(c, h, ISCSI_REJECT_SNACK);
    return STREAM_GOES_ON;
}

/* ---- headers --------------------------------------------------------------------------------- */

enum { DROPPED = 1 << 0, COLLECTED = 1 << 1, IN_DISCOVERY = 1 << 2, NUMBERED = 1 << 3 };

static const struct opcode_facts {
    enum stream_verdict (*on_pdu)(struct iscsi_connection *c, const struct iscsi_header *h,
                                  const uint8_t *data, instant_ns now);
    unsigned how;
} opcodes[] = {
    [ISCSI_NOP_OUT] = {take_nop, COLLECTED | IN_DISCOVERY | NUMBERED},
    [ISCSI_SCSI_COMMAND] = {iscsi_take_command, NUMBERED},
    [ISCSI_TASK_REQUEST] = {iscsi_take_management, COLLECTED | NUMBERED},
    [ISCSI_TEXT_REQUEST] = {iscsi_take_text, COLLECTED | IN_DISCOVERY | NUMBERED},
    [ISCSI_DATA_OUT] = {iscsi_take_data, 0},
    [ISCSI_LOGOUT_REQUEST] = {take_logout, COLLECTED | IN_DISCOVERY | NUMBERED},
    [ISCSI_SNACK_REQUEST] = {take_snack, COLLECTED},
};

static const struct opcode_facts login_facts = {iscsi_take_login, COLLECTED};

// NULL: there is none of it in this phase.
static const struct opcode_facts *facts_of(const struct iscsi_connection *c, uint8_t opcode)
{
    if (c->state == ISCSI_LOGIN) {
        return opcode == ISCSI_LOGIN_REQUEST ? &login_facts : NULL;
    }
    bool is_known = opcode < sizeof opcodes / sizeof opcodes[0] && opcodes[opcode].on_pdu != NULL;
    bool is_possible =
        is_known && (!c->login.is_discovery || (opcodes[opcode].how & IN_DISCOVERY) != 0);
    return is_possible ? &opcodes[opcode] : NULL;
}

// Is this the next command, by its number? Those beyond the window are to be ignored (section
// 4.2.2.1), and with one connection none can be late.
static bool is_next(struct iscsi_connection *c, const struct iscsi_header *h,
                    const struct opcode_facts *facts)
{
    if ((facts->how & NUMBERED) == 0 || h->is_immediate) {
        return true;
    }
    if (h->cmdsn != c->expcmdsn || c->window_used == ISCSI_WINDOW) {
        return false;
    }
    c->expcmdsn++;
    return true;
}

static enum stream_verdict take_collected(struct iscsi_connection *c, const struct iscsi_header *h,
                                          const struct opcode_facts *facts, uint32_t header_len,
                                          instant_ns now)
{
    struct stream *s = &c->stream;
    bool has_digest = c->parameters.has_data_digest && h->data_len > 0 && c->state == ISCSI_OPEN;
    uint32_t len = h->data_len + h->pad_len + (has_digest ? ISCSI_DIGEST_LEN : 0);
    if (s->in_len - s->in_at < header_len + len) {
        return STREAM_NEEDS_MORE;
    }
    const uint8_t *data = h->at + header_len;
    s->in_at += header_len + len;
    if (has_digest &&
        crc32c(data, h->data_len + h->pad_len) != crc32c_get(data + h->data_len + h->pad_len)) {
        c->iscsi->counters.digest_errors++;
        iscsi_reject(c, h, ISCSI_REJECT_DATA_DIGEST);
        return STREAM_GOES_ON;
    }
    return is_next(c, h, facts) ? facts->on_pdu(c, h, data, now) : STREAM_GOES_ON;
}

static enum stream_verdict take_header(struct iscsi_connection *c, instant_ns now)
{
    struct stream *s = &c->stream;
    uint32_t there = s->in_len - s->in_at;
    bool is_open = c->state == ISCSI_OPEN;
    bool has_digest = is_open && c->parameters.has_header_digest;
    if (there < ISCSI_HEADER_LEN) {
        return STREAM_NEEDS_MORE;
    }
    struct iscsi_header h = iscsi_header_parse(s->in + s->in_at);
    uint32_t len = ISCSI_HEADER_LEN + h.ahs_len;
    uint32_t header_len = len + (has_digest ? ISCSI_DIGEST_LEN : 0);
    const struct opcode_facts *facts = facts_of(c, h.opcode);
    bool is_collected = facts != NULL && (facts->how & COLLECTED) != 0;
    uint32_t most = is_collected ? ISCSI_COLLECTED_MAX : ISCSI_RECEIVE_MAX;
    if (h.data_len > most || (facts == NULL && !is_open)) {
        return iscsi_malformed(c);
    }
    if (there < header_len) {
        return STREAM_NEEDS_MORE;
    }
    if (has_digest && crc32c(h.at, len) != crc32c_get(h.at + len)) {
        c->iscsi->counters.digest_errors++;
        return STREAM_LEAVES; // where the next PDU begins is not known
    }
    if (is_collected) {
        return take_collected(c, &h, facts, header_len, now);
    }
    s->in_at += header_len;
    if (facts == NULL) {
        iscsi_reject(c, &h, ISCSI_REJECT_UNSUPPORTED);
        iscsi_incoming_begin(c, &h, NULL);
        return STREAM_GOES_ON;
    }
    if (!is_next(c, &h, facts)) {
        iscsi_incoming_begin(c, &h, NULL);
        return STREAM_GOES_ON;
    }
    return facts->on_pdu(c, &h, NULL, now);
}

enum stream_verdict iscsi_take(struct iscsi_connection *c, instant_ns now)
{
    if (c->state != ISCSI_LOGIN && c->state != ISCSI_OPEN) {
        return STREAM_STOPS;
    }
    if (c->incoming.is_on) {
        return data_take(c, now);
    }
    return c->free_control_count < ISCSI_CONTROL_SPARE ? STREAM_STOPS : take_header(c, now);
}
