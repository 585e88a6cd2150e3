#include "wire/terminate.h"

#include <stdio.h>

#include "base/bytes.h"

enum {
    HDRCT_M = 0x80,
    HDRCT_D = 0x40,
    HDRCT_R = 0x20,
    HDRCT_SIW_M = 0x01,
    HDRCT_SIW_D = 0x02,
    HDRCT_SIW_R = 0x04,
};

// RFC 5040 figure 10: a local catastrophic error and an LLP error carry no header.
#define TAKES_DDP(layer, etype)   ((layer) == 1 ? (etype) != 0 : (layer) == 0 && (etype) != 0)
#define TAKES_RDMAP(layer, etype) ((layer) == 0 && (etype) == 1)
#define LAYER_TEXT(layer)         LAYER_TEXT_##layer
#define LAYER_TEXT_0              "RDMAP "
#define LAYER_TEXT_1              "DDP "
#define LAYER_TEXT_2              "MPA "

static const struct terminate_cause_facts facts_of_cause[TERM_CAUSE_COUNT] = {
    [TERM_NONE] = {.text = "no error"},
#define X(cause, l, e, c, words)          \
    [TERM_##cause] = {                    \
        .text = LAYER_TEXT(l) words,      \
        .layer = l,                       \
        .etype = e,                       \
        .code = c,                        \
        .takes_ddp = TAKES_DDP(l, e),     \
        .takes_rdmap = TAKES_RDMAP(l, e), \
    },
    TERMINATE_CAUSES(X)
#undef X
};

const struct terminate_cause_facts *terminate_cause_facts(enum terminate_cause cause)
{
    CHECK(cause < TERM_CAUSE_COUNT);
    return &facts_of_cause[cause];
}

enum terminate_cause terminate_cause_find(uint8_t layer, uint8_t etype, uint8_t code)
{
    bool any_code = etype == 0 && layer != TERMINATE_LAYER_LLP;
    for (unsigned cause = TERM_NONE + 1; cause < TERM_CAUSE_COUNT; cause++) {
        const struct terminate_cause_facts *f = &facts_of_cause[cause];
        if (f->layer == layer && f->etype == etype && (any_code || f->code == code)) {
            return cause;
        }
    }
    return TERM_NONE;
}

static void parse_control(const uint8_t *p, enum terminate_order order, struct terminate *ret)
{
    bool siw = order == TERMINATE_ORDER_SIW;
    uint8_t high = p[TERMINATE_OFF_LAYER_ETYPE] >> 4;
    uint8_t low = p[TERMINATE_OFF_LAYER_ETYPE] & 0x0f;
    uint8_t hdrct = p[TERMINATE_OFF_HDRCT];
    *ret = (struct terminate){
        .layer = siw ? low : high,
        .etype = siw ? high : low,
        .code = p[TERMINATE_OFF_CODE],
        .has_len = (hdrct & (siw ? HDRCT_SIW_M : HDRCT_M)) != 0,
        .has_ddp = (hdrct & (siw ? HDRCT_SIW_D : HDRCT_D)) != 0,
        .has_rdmap = (hdrct & (siw ? HDRCT_SIW_R : HDRCT_R)) != 0,
    };
}

enum terminate_verdict terminate_parse(struct span message, enum terminate_order order,
                                       struct terminate *ret)
{
    if (message.len < TERMINATE_MIN_LEN) {
        return TERMINATE_TOO_SHORT;
    }
    parse_control(message.ptr, order, ret);
    bool wants_ddp = ret->has_ddp, wants_rdmap = ret->has_rdmap;
    if (!ret->has_len && !wants_ddp && !wants_rdmap) {
        return TERMINATE_OK;
    }
    ret->has_ddp = false;
    ret->has_rdmap = false;
    if (message.len < TERMINATE_OFF_DDP_HEADER) {
        ret->has_len = false;
        return TERMINATE_CUT;
    }
    ret->ddp_segment_len = get_be16(message.ptr + TERMINATE_OFF_DDP_SEGMENT_LEN);
    struct span rest = span_skip(message, TERMINATE_OFF_DDP_HEADER);
    if (wants_ddp) {
        if (rest.len < 1) {
            return TERMINATE_CUT;
        }
        size_t header_len =
            rest.ptr[0] & DDP_TAGGED ? DDP_TAGGED_HEADER_LEN : DDP_UNTAGGED_HEADER_LEN;
        if (rest.len < header_len) {
            return TERMINATE_CUT;
        }
        memcpy(ret->ddp_header, rest.ptr, header_len);
        ret->ddp_header_len = header_len;
        ret->has_ddp = true;
        rest = span_skip(rest, header_len);
    }
    if (wants_rdmap) {
        if (rest.len < RDMAP_READ_REQUEST_LEN) {
            return TERMINATE_CUT;
        }
        memcpy(ret->read_request, rest.ptr, RDMAP_READ_REQUEST_LEN);
        ret->has_rdmap = true;
    }
    return TERMINATE_OK;
}

struct terminate terminate_of(enum terminate_cause cause)
{
    const struct terminate_cause_facts *f = terminate_cause_facts(cause);
    return (struct terminate){.layer = f->layer, .etype = f->etype, .code = f->code};
}

size_t terminate_emit(const struct terminate *t, uint8_t *buf)
{
    CHECK(t->ddp_header_len <= DDP_HEADER_MAX_LEN);
    buf[TERMINATE_OFF_LAYER_ETYPE] = (uint8_t)(t->layer << 4 | (t->etype & 0x0f));
    buf[TERMINATE_OFF_CODE] = t->code;
    buf[TERMINATE_OFF_HDRCT] = (uint8_t)((t->has_len ? HDRCT_M : 0) | (t->has_ddp ? HDRCT_D : 0) |
                                         (t->has_rdmap ? HDRCT_R : 0));
    buf[TERMINATE_OFF_HDRCT + 1] = 0;
    if (!t->has_len && !t->has_ddp && !t->has_rdmap) {
        return TERMINATE_MIN_LEN;
    }
    size_t len = TERMINATE_OFF_DDP_HEADER;
    put_be16(buf + TERMINATE_OFF_DDP_SEGMENT_LEN, t->ddp_segment_len);
    if (t->has_ddp) {
        memcpy(buf + len, t->ddp_header, t->ddp_header_len);
        len += t->ddp_header_len;
    }
    if (t->has_rdmap) {
        memcpy(buf + len, t->read_request, RDMAP_READ_REQUEST_LEN);
        len += RDMAP_READ_REQUEST_LEN;
    }
    return len;
}

const char *terminate_format(const struct terminate *t, char *buf, size_t len)
{
    enum terminate_cause cause = terminate_cause_find(t->layer, t->etype, t->code);
    const char *text = cause == TERM_NONE ? "unknown error" : facts_of_cause[cause].text;
    snprintf(buf, len, "%s (layer %u etype %u code 0x%02x)%s%s", text, t->layer, t->etype, t->code,
             t->has_ddp ? ", DDP header" : "", t->has_rdmap ? ", Read Request header" : "");
    return buf;
}

const char *terminate_verdict_name(enum terminate_verdict verdict)
{
    static const char *const names[] = {
        [TERMINATE_OK] = "ok",
        [TERMINATE_TOO_SHORT] = "message ends inside the Terminate control field",
        [TERMINATE_CUT] = "announced headers are missing",
    };
    return names[verdict];
}
