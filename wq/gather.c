// The payload of a message, by handle and offset. A cursor stands where the octets asked for last
// ended: who goes on from there is not made to look for the place.
#include "base/check.h"
#include "base/span.h"
#include "mem/table.h"
#include "mem/verdict.h"
#include "wq/wq.h"
#include "wq/wqe.h"

static unsigned octets_inline(const struct send_wqe *wqe, uint64_t offset, size_t len,
                              struct span *pieces)
{
    pieces[0] = span_of(wqe->inline_data + offset, len);
    return 1;
}

// To an octet behind it, or to any of another message.
static void seek(struct message_cursor *cursor, const struct send_wqe *wqe, uint32_t handle,
                 uint64_t offset)
{
    *cursor = (struct message_cursor){.handle = handle, .offset = offset, .within = offset};
    while (cursor->within >= wqe->sge[cursor->index].length) {
        cursor->within -= wqe->sge[cursor->index].length;
        cursor->index++;
        CHECK(cursor->index < wqe->sge_count);
    }
}

unsigned wq_message_octets(struct wq *wq, uint32_t handle, uint64_t offset, size_t len,
                           struct span *pieces)
{
    const struct send_wqe *wqe = wq_send_at(wq, handle);
    if ((wqe->flags & WQE_INLINE) != 0) {
        return octets_inline(wqe, offset, len, pieces);
    }
    struct message_cursor cursor = wq->cursor;
    if (offset == 0 || cursor.handle != handle || cursor.offset != offset) {
        seek(&cursor, wqe, handle, offset);
    }
    cursor.offset += len;
    unsigned count = 0;
    while (len > 0) {
        CHECK(cursor.index < wqe->sge_count);
        struct mspan place;
        const struct sge *sge = &wqe->sge[cursor.index];
        if (mem_resolve_sge(wq->config->mem, wq->config->pd, sge, false, &place) != MEM_OK) {
            return 0;
        }
        uint64_t left = sge->length - cursor.within;
        size_t piece_len = len < left ? len : (size_t)left;
        if (piece_len > 0) {
            pieces[count++] = span_of(place.ptr + cursor.within, piece_len);
        }
        len -= piece_len;
        cursor.within += piece_len;
        if (cursor.within == sge->length) {
            cursor.within = 0;
            cursor.index++;
        }
    }
    wq->cursor = cursor;
    return count;
}
