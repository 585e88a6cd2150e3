// What the program sends, part by part.

#include "rsocket/rsocket.h"

void rs_source_copy(struct rs_source *source, uint8_t *to, size_t len)
{
    source->left -= len;
    while (len > 0) {
        size_t rest = source->part->iov_len - source->at;
        if (rest == 0) {
            source->part++;
            source->at = 0;
            continue;
        }
        size_t n = rest < len ? rest : len;
        memcpy(to, (const uint8_t *)source->part->iov_base + source->at, n);
        to += n;
        len -= n;
        source->at += n;
    }
}
