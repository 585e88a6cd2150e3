#include "wire/meeting.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"

static const uint8_t magic[4] = {'w', 'q', 'p', 0x01};

enum meeting_verdict meeting_request_parse(struct span private_data, struct meeting_request *ret)
{
    if (private_data.len != MEETING_REQUEST_LEN) {
        return MEETING_BAD_LEN;
    }
    if (memcmp(private_data.ptr + MEETING_OFF_MAGIC, magic, sizeof magic) != 0) {
        return MEETING_BAD_MAGIC;
    }
    *ret = (struct meeting_request){
        .to_qp_num = get_be32(private_data.ptr + MEETING_OFF_TO),
        .from_qp_num = get_be32(private_data.ptr + MEETING_OFF_FROM),
    };
    return MEETING_OK;
}

size_t meeting_request_emit(const struct meeting_request *request, uint8_t *buf)
{
    memcpy(buf + MEETING_OFF_MAGIC, magic, sizeof magic);
    put_be32(buf + MEETING_OFF_TO, request->to_qp_num);
    put_be32(buf + MEETING_OFF_FROM, request->from_qp_num);
    return MEETING_REQUEST_LEN;
}

const char *meeting_request_format(const struct meeting_request *request, char *buf, size_t len)
{
    snprintf(buf, len, "queue pair %u asks for queue pair %u", request->from_qp_num,
             request->to_qp_num);
    return buf;
}
