// Pieces of memory, run by run.

#include "initiator/tcp/stream.h"

struct iovec pdu_cursor_take(struct pdu_cursor *cursor, uint32_t len)
{
    while (cursor->at == cursor->piece->iov_len) {
        cursor->piece++;
        cursor->at = 0;
    }
    size_t run = cursor->piece->iov_len - cursor->at;
    run = run < len ? run : len;
    uint8_t *at = (uint8_t *)cursor->piece->iov_base + cursor->at;
    cursor->at += run;
    return (struct iovec){at, run};
}
