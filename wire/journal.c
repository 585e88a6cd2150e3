#include "wire/journal.h"

#include <string.h>

#include "base/bytes.h"

enum { VERSION = 1 };
static const uint8_t magic[] = {'w', 'e', 'f', 't'};

const char *journal_parse_verdict_text(enum journal_parse_verdict verdict)
{
    static const char *const texts[JOURNAL_PARSE_VERDICT_COUNT] = {
        [JOURNAL_PARSE_OK] = "a record",
        [JOURNAL_PARSE_FOREIGN] = "it is not weft's",
        [JOURNAL_PARSE_VERSION] = "it is of a version that this weft does not know",
        [JOURNAL_PARSE_KIND] = "it is of a kind that there is not",
        [JOURNAL_PARSE_LEN] = "its length is not that of its kind",
    };
    return texts[verdict];
}

static void carried_parse(const uint8_t *p, struct journal_carried *ret)
{
    memcpy(&ret->local, p + JOURNAL_OFF_LOCAL, sizeof ret->local);
    memcpy(&ret->remote, p + JOURNAL_OFF_REMOTE, sizeof ret->remote);
    ret->local_port = get_be16(p + JOURNAL_OFF_LOCAL_PORT);
    ret->remote_port = get_be16(p + JOURNAL_OFF_REMOTE_PORT);
    ret->remote_qp_num = get_be32(p + JOURNAL_OFF_REMOTE_QP_NUM);
}

static size_t len_of(unsigned kind)
{
    return kind == JOURNAL_CARRIED ? JOURNAL_MAX_LEN : JOURNAL_LEN;
}

enum journal_parse_verdict journal_parse(struct span octets, struct journal_record *ret,
                                         instant_ns *ret_at)
{
    const uint8_t *p = octets.ptr;
    if (octets.len < JOURNAL_OFF_OPCODE || memcmp(p, magic, sizeof magic) != 0) {
        return JOURNAL_PARSE_FOREIGN;
    }
    if (p[JOURNAL_OFF_VERSION] != VERSION) {
        return JOURNAL_PARSE_VERSION;
    }
    if (p[JOURNAL_OFF_KIND] == 0 || p[JOURNAL_OFF_KIND] >= JOURNAL_KIND_COUNT) {
        return JOURNAL_PARSE_KIND;
    }
    if (octets.len != len_of(p[JOURNAL_OFF_KIND])) {
        return JOURNAL_PARSE_LEN;
    }
    *ret = (struct journal_record){
        .kind = (enum journal_kind)p[JOURNAL_OFF_KIND],
        .qp_num = get_be32(p + JOURNAL_OFF_QP_NUM),
        .opcode = p[JOURNAL_OFF_OPCODE],
        .status = p[JOURNAL_OFF_STATUS],
        .key = get_be32(p + JOURNAL_OFF_KEY),
        .wr_id = get_be64(p + JOURNAL_OFF_WR_ID),
        .len = get_be64(p + JOURNAL_OFF_LEN),
    };
    *ret_at = get_be64(p + JOURNAL_OFF_TIME);
    if (ret->kind == JOURNAL_CARRIED) {
        carried_parse(p, &ret->carried);
    }
    return JOURNAL_PARSE_OK;
}

static void carried_emit(const struct journal_carried *c, uint8_t *p)
{
    memcpy(p + JOURNAL_OFF_LOCAL, &c->local, sizeof c->local);
    memcpy(p + JOURNAL_OFF_REMOTE, &c->remote, sizeof c->remote);
    put_be16(p + JOURNAL_OFF_LOCAL_PORT, c->local_port);
    put_be16(p + JOURNAL_OFF_REMOTE_PORT, c->remote_port);
    put_be32(p + JOURNAL_OFF_REMOTE_QP_NUM, c->remote_qp_num);
}

size_t journal_emit(const struct journal_record *r, instant_ns at, uint8_t *buf)
{
    memcpy(buf + JOURNAL_OFF_MAGIC, magic, sizeof magic);
    buf[JOURNAL_OFF_VERSION] = VERSION;
    buf[JOURNAL_OFF_KIND] = (uint8_t)r->kind;
    buf[JOURNAL_OFF_OPCODE] = r->opcode;
    buf[JOURNAL_OFF_STATUS] = r->status;
    put_be32(buf + JOURNAL_OFF_QP_NUM, r->qp_num);
    put_be32(buf + JOURNAL_OFF_KEY, r->key);
    put_be64(buf + JOURNAL_OFF_WR_ID, r->wr_id);
    put_be64(buf + JOURNAL_OFF_LEN, r->len);
    put_be64(buf + JOURNAL_OFF_TIME, at);
    if (r->kind == JOURNAL_CARRIED) {
        carried_emit(&r->carried, buf);
    }
    return len_of((unsigned)r->kind);
}
