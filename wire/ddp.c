#include "wire/ddp.h"

#include <stdio.h>

#include "base/bytes.h"

enum ddp_parse_verdict ddp_header_parse(struct span ulpdu, struct ddp_header *ret, size_t *ret_len)
{
    const uint8_t *p = ulpdu.ptr;
    if (ulpdu.len < 1) {
        return DDP_PARSE_TOO_SHORT;
    }
    uint8_t control = p[DDP_OFF_CONTROL];
    bool tagged = (control & DDP_TAGGED) != 0;
    if ((control & DDP_VERSION_MASK) != DDP_VERSION) {
        ret->tagged = tagged;
        ret->last = (control & DDP_LAST) != 0;
        return tagged ? DDP_PARSE_VERSION_TAGGED : DDP_PARSE_VERSION_UNTAGGED;
    }
    size_t header_len = tagged ? DDP_TAGGED_HEADER_LEN : DDP_UNTAGGED_HEADER_LEN;
    if (ulpdu.len < header_len) {
        return DDP_PARSE_TOO_SHORT;
    }
    *ret = (struct ddp_header){
        .tagged = tagged,
        .last = (control & DDP_LAST) != 0,
        .rsvd = (control & DDP_RSVD_MASK) >> DDP_RSVD_SHIFT,
        .rsvdulp = p[DDP_OFF_RSVDULP],
    };
    if (tagged) {
        ret->stag = get_be32(p + DDP_TAGGED_OFF_STAG);
        ret->to = get_be64(p + DDP_TAGGED_OFF_TO);
    } else {
        ret->rsvdulp_stag = get_be32(p + DDP_UNTAGGED_OFF_RSVDULP_STAG);
        ret->qn = get_be32(p + DDP_UNTAGGED_OFF_QN);
        ret->msn = get_be32(p + DDP_UNTAGGED_OFF_MSN);
        ret->mo = get_be32(p + DDP_UNTAGGED_OFF_MO);
    }
    *ret_len = header_len;
    return DDP_PARSE_OK;
}

size_t ddp_header_emit(const struct ddp_header *h, uint8_t *buf)
{
    buf[DDP_OFF_CONTROL] = (uint8_t)((h->tagged ? DDP_TAGGED : 0) | (h->last ? DDP_LAST : 0) |
                                     ((h->rsvd << DDP_RSVD_SHIFT) & DDP_RSVD_MASK) | DDP_VERSION);
    buf[DDP_OFF_RSVDULP] = h->rsvdulp;
    if (h->tagged) {
        put_be32(buf + DDP_TAGGED_OFF_STAG, h->stag);
        put_be64(buf + DDP_TAGGED_OFF_TO, h->to);
        return DDP_TAGGED_HEADER_LEN;
    }
    put_be32(buf + DDP_UNTAGGED_OFF_RSVDULP_STAG, h->rsvdulp_stag);
    put_be32(buf + DDP_UNTAGGED_OFF_QN, h->qn);
    put_be32(buf + DDP_UNTAGGED_OFF_MSN, h->msn);
    put_be32(buf + DDP_UNTAGGED_OFF_MO, h->mo);
    return DDP_UNTAGGED_HEADER_LEN;
}

const char *ddp_header_format(const struct ddp_header *h, char *buf, size_t len)
{
    char rsvd[16] = "";
    if (h->rsvd != 0) {
        snprintf(rsvd, sizeof rsvd, " rsvd=0x%x", h->rsvd);
    }
    if (h->tagged) {
        snprintf(buf, len, "tagged%s rsvdulp=0x%02x stag=0x%08x to=0x%llx%s",
                 h->last ? " last" : "", h->rsvdulp, h->stag, (unsigned long long)h->to, rsvd);
    } else {
        snprintf(buf, len, "untagged%s rsvdulp=0x%02x,0x%08x qn=%u msn=%u mo=%u%s",
                 h->last ? " last" : "", h->rsvdulp, h->rsvdulp_stag, h->qn, h->msn, h->mo, rsvd);
    }
    return buf;
}

const char *ddp_parse_verdict_name(enum ddp_parse_verdict verdict)
{
    static const char *const names[] = {
        [DDP_PARSE_OK] = "ok",
        [DDP_PARSE_TOO_SHORT] = "ULPDU ends inside the DDP header",
        [DDP_PARSE_VERSION_TAGGED] = "invalid DDP version, tagged",
        [DDP_PARSE_VERSION_UNTAGGED] = "invalid DDP version, untagged",
    };
    return names[verdict];
}
