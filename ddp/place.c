#include "ddp/place.h"

#include <string.h>

// The longest aligned word that ends where the placement ends: 1, 2, 4 or 8 octets.
static size_t tail_len_of(uintptr_t end, size_t len)
{
    for (size_t word_len = 8; word_len > 1; word_len /= 2) {
        if (end % word_len == 0 && len >= word_len) {
            return word_len;
        }
    }
    return 1;
}

static void place_tail(uint8_t *place, const uint8_t *from, size_t len)
{
    if (len == 8) {
        uint64_t word;
        memcpy(&word, from, sizeof word);
        __atomic_store_n((uint64_t *)(void *)place, word, __ATOMIC_RELEASE);
    } else if (len == 4) {
        uint32_t word;
        memcpy(&word, from, sizeof word);
        __atomic_store_n((uint32_t *)(void *)place, word, __ATOMIC_RELEASE);
    } else if (len == 2) {
        uint16_t word;
        memcpy(&word, from, sizeof word);
        __atomic_store_n((uint16_t *)(void *)place, word, __ATOMIC_RELEASE);
    } else {
        __atomic_store_n(place, *from, __ATOMIC_RELEASE);
    }
}

void ddp_place_octets(uint8_t *place, struct span payload)
{
    if (payload.len == 0) {
        return;
    }
    size_t tail_len = tail_len_of((uintptr_t)place + payload.len, payload.len);
    size_t body_len = payload.len - tail_len;
    memcpy(place, payload.ptr, body_len);
    place_tail(place + body_len, payload.ptr + body_len, tail_len);
}

// As far as the pieces go; what is left of the payload.
static struct span place_pieces(const struct mspan *pieces, unsigned count, struct span payload)
{
    for (unsigned i = 0; i < count; i++) {
        ddp_place_octets(pieces[i].ptr, span_first(payload, pieces[i].len));
        payload = span_skip(payload, pieces[i].len);
    }
    return payload;
}

enum ddp_verdict ddp_place_tagged(struct mem_table *mem, struct mem_asker asker, uint32_t stag,
                                  uint64_t to, struct span payload, uint32_t access_needed)
{
    enum mem_verdict verdict = MEM_OK;
    while (payload.len > 0 && verdict == MEM_OK) { // the first answer is about all of it
        struct mspan pieces[SGE_COUNT_MAX];
        unsigned count;
        verdict = mem_resolve(mem, asker, stag, to, payload.len, access_needed, pieces,
                              SGE_COUNT_MAX, &count);
        if (verdict == MEM_OK) {
            size_t before_len = payload.len;
            payload = place_pieces(pieces, count, payload);
            to += before_len - payload.len;
        }
    }
    return ddp_verdict_of_mem(verdict);
}

enum ddp_verdict ddp_place_sink(struct mem_table *mem, struct mem_asker asker, uint32_t stag,
                                uint64_t to, struct span payload)
{
    if (payload.len == 0) {
        return DDP_OK;
    }
    struct mspan pieces[SGE_COUNT_MAX];
    unsigned count;
    enum mem_verdict verdict =
        mem_resolve_sink(mem, asker, stag, to, payload.len, pieces, SGE_COUNT_MAX, &count);
    if (verdict == MEM_OK) {
        place_pieces(pieces, count, payload);
    }
    return ddp_verdict_of_mem(verdict);
}

void ddp_buffer_init(struct ddp_buffer *buffer, const struct sge *list, uint32_t count)
{
    *buffer = (struct ddp_buffer){
        .list = list,
        .count = count,
        .length = sge_total_len(list, count),
    };
}

// Moves the cursor to offset `mo`, which is inside the list or at its end.
static void seek(struct ddp_buffer *buffer, uint64_t mo)
{
    if (mo < buffer->mo) {
        buffer->index = 0;
        buffer->element_len = 0;
        buffer->mo = 0;
    }
    while (buffer->mo < mo) {
        uint64_t left = buffer->list[buffer->index].length - buffer->element_len;
        uint64_t step = mo - buffer->mo < left ? mo - buffer->mo : left;
        buffer->mo += step;
        buffer->element_len += step;
        if (step == left) {
            buffer->index++;
            buffer->element_len = 0;
        }
    }
}

enum ddp_verdict ddp_place_untagged(struct mem_table *mem, uint32_t pd, struct ddp_buffer *buffer,
                                    uint64_t mo, struct span payload)
{
    if (mo > buffer->length || payload.len > buffer->length - mo) {
        return DDP_REFUSED_TOO_LONG;
    }
    seek(buffer, mo);
    while (payload.len > 0) {
        const struct sge *element = &buffer->list[buffer->index];
        uint64_t left = element->length - buffer->element_len;
        if (left == 0) { // an element of no octets
            buffer->index++;
            buffer->element_len = 0;
            continue;
        }
        struct mspan place;
        if (mem_resolve_sge(mem, pd, element, true, &place) != MEM_OK) {
            return DDP_REFUSED_LOCAL;
        }
        size_t len = payload.len < left ? payload.len : (size_t)left;
        ddp_place_octets(place.ptr + buffer->element_len, span_first(payload, len));
        payload = span_skip(payload, len);
        seek(buffer, buffer->mo + len);
    }
    return DDP_OK;
}
