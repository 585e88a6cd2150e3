#include "wire/mad.h"

#include <stdio.h>

#include "base/bytes.h"

enum mad_verdict mad_parse(struct span mad, struct mad_header *ret)
{
    if (mad.len != MAD_LEN) {
        return MAD_BAD_LEN;
    }
    if (mad.ptr[MAD_OFF_BASE_VERSION] != MAD_BASE_VERSION) {
        return MAD_BAD_VERSION;
    }
    *ret = (struct mad_header){
        .management_class = mad.ptr[MAD_OFF_CLASS],
        .class_version = mad.ptr[MAD_OFF_CLASS_VERSION],
        .method = mad.ptr[MAD_OFF_METHOD],
        .status = get_be16(mad.ptr + MAD_OFF_STATUS),
        .transaction_id = get_be64(mad.ptr + MAD_OFF_TRANSACTION_ID),
        .attribute = get_be16(mad.ptr + MAD_OFF_ATTRIBUTE),
        .modifier = get_be32(mad.ptr + MAD_OFF_MODIFIER),
    };
    return MAD_OK;
}

size_t mad_emit(const struct mad_header *h, uint8_t *buf)
{
    buf[MAD_OFF_BASE_VERSION] = MAD_BASE_VERSION;
    buf[MAD_OFF_CLASS] = h->management_class;
    buf[MAD_OFF_CLASS_VERSION] = h->class_version;
    buf[MAD_OFF_METHOD] = h->method;
    put_be16(buf + MAD_OFF_STATUS, h->status);
    put_be16(buf + MAD_OFF_CLASS_SPECIFIC, 0);
    put_be64(buf + MAD_OFF_TRANSACTION_ID, h->transaction_id);
    put_be16(buf + MAD_OFF_ATTRIBUTE, h->attribute);
    put_be16(buf + MAD_OFF_RESERVED, 0);
    put_be32(buf + MAD_OFF_MODIFIER, h->modifier);
    return MAD_HEADER_LEN;
}

const char *mad_format(const struct mad_header *h, char *buf, size_t len)
{
    snprintf(buf, len,
             "class=0x%02x version=%u method=0x%02x status=%u tid=0x%llx attribute=0x%04x",
             h->management_class, h->class_version, h->method, h->status,
             (unsigned long long)h->transaction_id, h->attribute);
    return buf;
}

const char *mad_verdict_name(enum mad_verdict verdict)
{
    static const char *const names[MAD_VERDICT_COUNT] = {
        [MAD_OK] = "ok",
        [MAD_BAD_LEN] = "a management datagram has 256 octets",
        [MAD_BAD_VERSION] = "unknown base version",
    };
    return names[verdict];
}
