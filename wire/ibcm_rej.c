#include "wire/ibcm_rej.h"

#include <stdbool.h>
#include <stdio.h>

#include "base/bytes.h"

// Bits within their octets.
enum {
    SUBJECT_SHIFT = 6,
    INFO_LEN_SHIFT = 1,
};

enum ibcm_parse_verdict ibcm_rej_parse(const uint8_t *data, struct ibcm_rej *ret)
{
    size_t info_len = data[IBCM_REJ_OFF_INFO_LEN] >> INFO_LEN_SHIFT;
    if (info_len > IBCM_REJ_INFO_LEN) {
        return IBCM_PARSE_INFO_LEN;
    }
    *ret = (struct ibcm_rej){
        .local_id = get_be32(data + IBCM_REJ_OFF_LOCAL_ID),
        .remote_id = get_be32(data + IBCM_REJ_OFF_REMOTE_ID),
        .subject = (enum ibcm_subject)(data[IBCM_REJ_OFF_MESSAGE] >> SUBJECT_SHIFT),
        .reason = get_be16(data + IBCM_REJ_OFF_REASON),
        .info = span_of(data + IBCM_REJ_OFF_INFO, info_len),
        .private_data = span_of(data + IBCM_REJ_OFF_PRIVATE, IBCM_REJ_PRIVATE_LEN),
    };
    return IBCM_PARSE_OK;
}

void ibcm_rej_emit(const struct ibcm_rej *rej, uint8_t *data)
{
    put_be32(data + IBCM_REJ_OFF_LOCAL_ID, rej->local_id);
    put_be32(data + IBCM_REJ_OFF_REMOTE_ID, rej->remote_id);
    data[IBCM_REJ_OFF_MESSAGE] = (uint8_t)(rej->subject << SUBJECT_SHIFT);
    data[IBCM_REJ_OFF_INFO_LEN] = (uint8_t)(rej->info.len << INFO_LEN_SHIFT);
    put_be16(data + IBCM_REJ_OFF_REASON, rej->reason);
    ibcm_field_put(data + IBCM_REJ_OFF_INFO, IBCM_REJ_INFO_LEN, rej->info);
    ibcm_field_put(data + IBCM_REJ_OFF_PRIVATE, IBCM_REJ_PRIVATE_LEN, rej->private_data);
}

const char *ibcm_rej_format(const struct ibcm_rej *rej, char *buf, size_t len)
{
    static const char *const subjects[] = {"REQ", "REP", "other", "?"};
    snprintf(buf, len, "REJ id=0x%08x of 0x%08x %s reason=%u (%s) info=%zu", rej->local_id,
             rej->remote_id, subjects[rej->subject], rej->reason, ibcm_reason_name(rej->reason),
             rej->info.len);
    return buf;
}

const char *ibcm_reason_name(unsigned reason)
{
    static const char *const names[] = {
#define X(name, number, text) [number] = text,
        IBCM_REASONS(X)
#undef X
    };
    bool is_known = reason < sizeof names / sizeof *names && names[reason] != NULL;
    return is_known ? names[reason] : "unknown reason";
}
