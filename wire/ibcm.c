#include "wire/ibcm.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "wire/mad.h"

static const uint16_t attributes[IBCM_KIND_COUNT] = {
#define X(name, attribute) [IBCM_##name] = attribute,
    IBCM_KINDS(X)
#undef X
};

enum { ATTRIBUTE_LAP = 0x19, ATTRIBUTE_APR = 0x1a }; // alternate paths

static enum ibcm_parse_verdict header_check(const struct mad_header *h, enum ibcm_kind *ret)
{
    if (h->management_class != MAD_CLASS_CM) {
        return IBCM_PARSE_CLASS;
    }
    if (h->class_version != MAD_CLASS_VERSION_CM) {
        return IBCM_PARSE_CLASS_VERSION;
    }
    if (h->method != MAD_METHOD_SEND) {
        return IBCM_PARSE_METHOD;
    }
    if (h->attribute == ATTRIBUTE_LAP || h->attribute == ATTRIBUTE_APR) {
        return IBCM_PARSE_ALTERNATE_PATH;
    }
    for (unsigned kind = 0; kind < IBCM_KIND_COUNT; kind++) {
        if (attributes[kind] == h->attribute) {
            *ret = (enum ibcm_kind)kind;
            return IBCM_PARSE_OK;
        }
    }
    return IBCM_PARSE_ATTRIBUTE;
}

static enum ibcm_parse_verdict data_parse(const uint8_t *data, struct ibcm_message *m)
{
    switch (m->kind) {
    case IBCM_REQ:
        ibcm_req_parse(data, &m->req);
        break;
    case IBCM_MRA:
        ibcm_mra_parse(data, &m->mra);
        break;
    case IBCM_REJ:
        return ibcm_rej_parse(data, &m->rej);
    case IBCM_REP:
        ibcm_rep_parse(data, &m->rep);
        break;
    case IBCM_RTU:
    case IBCM_DREP:
        ibcm_ids_parse(data, &m->ids);
        break;
    case IBCM_DREQ:
        ibcm_dreq_parse(data, &m->dreq);
        break;
    case IBCM_SIDR_REQ:
        ibcm_sidr_req_parse(data, &m->sidr_req);
        break;
    case IBCM_SIDR_REP:
        return ibcm_sidr_rep_parse(data, &m->sidr_rep);
    case IBCM_KIND_COUNT:
        break;
    }
    return IBCM_PARSE_OK;
}

enum ibcm_parse_verdict ibcm_message_parse(struct span mad, struct ibcm_message *ret)
{
    static const enum ibcm_parse_verdict of_mad[MAD_VERDICT_COUNT] = {
        [MAD_OK] = IBCM_PARSE_OK,
        [MAD_BAD_LEN] = IBCM_PARSE_BAD_LEN,
        [MAD_BAD_VERSION] = IBCM_PARSE_BASE_VERSION,
    };
    struct mad_header h;
    enum ibcm_parse_verdict verdict = of_mad[mad_parse(mad, &h)];
    if (verdict != IBCM_PARSE_OK) {
        return verdict;
    }
    struct ibcm_message m = {.transaction_id = h.transaction_id};
    verdict = header_check(&h, &m.kind);
    if (verdict == IBCM_PARSE_OK) {
        verdict = data_parse(mad.ptr + MAD_HEADER_LEN, &m);
    }
    if (verdict == IBCM_PARSE_OK) {
        *ret = m;
    }
    return verdict;
}

size_t ibcm_message_emit(const struct ibcm_message *m, uint8_t *buf)
{
    CHECK(m->kind < IBCM_KIND_COUNT);
    const struct mad_header h = {
        .management_class = MAD_CLASS_CM,
        .class_version = MAD_CLASS_VERSION_CM,
        .method = MAD_METHOD_SEND,
        .transaction_id = m->transaction_id,
        .attribute = attributes[m->kind],
    };
    uint8_t *data = buf + mad_emit(&h, buf);
    switch (m->kind) {
    case IBCM_REQ:
        ibcm_req_emit(&m->req, data);
        break;
    case IBCM_MRA:
        ibcm_mra_emit(&m->mra, data);
        break;
    case IBCM_REJ:
        ibcm_rej_emit(&m->rej, data);
        break;
    case IBCM_REP:
        ibcm_rep_emit(&m->rep, data);
        break;
    case IBCM_RTU:
    case IBCM_DREP:
        ibcm_ids_emit(&m->ids, data);
        break;
    case IBCM_DREQ:
        ibcm_dreq_emit(&m->dreq, data);
        break;
    case IBCM_SIDR_REQ:
        ibcm_sidr_req_emit(&m->sidr_req, data);
        break;
    case IBCM_SIDR_REP:
        ibcm_sidr_rep_emit(&m->sidr_rep, data);
        break;
    case IBCM_KIND_COUNT:
        break;
    }
    return MAD_LEN;
}

const char *ibcm_message_format(const struct ibcm_message *m, char *buf, size_t len)
{
    char ids[64];
    switch (m->kind) {
    case IBCM_REQ:
        return ibcm_req_format(&m->req, buf, len);
    case IBCM_MRA:
        return ibcm_mra_format(&m->mra, buf, len);
    case IBCM_REJ:
        return ibcm_rej_format(&m->rej, buf, len);
    case IBCM_REP:
        return ibcm_rep_format(&m->rep, buf, len);
    case IBCM_DREQ:
        return ibcm_dreq_format(&m->dreq, buf, len);
    case IBCM_SIDR_REQ:
        return ibcm_sidr_req_format(&m->sidr_req, buf, len);
    case IBCM_SIDR_REP:
        return ibcm_sidr_rep_format(&m->sidr_rep, buf, len);
    default:
        snprintf(buf, len, "%s %s", ibcm_kind_name(m->kind),
                 ibcm_ids_format(&m->ids, ids, sizeof ids));
        return buf;
    }
}

const char *ibcm_kind_name(enum ibcm_kind kind)
{
    static const char *const names[IBCM_KIND_COUNT] = {
#define X(name, attribute) [IBCM_##name] = #name,
        IBCM_KINDS(X)
#undef X
    };
    return names[kind];
}

const char *ibcm_parse_verdict_name(enum ibcm_parse_verdict verdict)
{
    static const char *const names[IBCM_PARSE_VERDICT_COUNT] = {[IBCM_PARSE_OK] = "ok",
#define X(name, text) [IBCM_PARSE_##name] = text,
                                                                IBCM_PARSE_VERDICTS(X)
#undef X
    };
    return names[verdict];
}
