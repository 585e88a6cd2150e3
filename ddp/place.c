#include "ddp/place.h"

#include "base/place.h"
#include "base/sge.h"
#include "mem/verdict.h"

// As far as the pieces go; what is left of the payload.
static struct span place_pieces(const struct mspan *pieces, unsigned count, struct span payload)
{
    for (unsigned i = 0; i < count; i++) {
        place_octets(pieces[i].ptr, span_first(payload, pieces[i].len));
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
