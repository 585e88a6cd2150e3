#include "wq/scatter.h"

#include "base/place.h"
#include "mem/verdict.h"

void scatter_init(struct scatter *scatter, const struct sge *list, uint32_t count)
{
    *scatter = (struct scatter){
        .list = list,
        .count = count,
        .length = sge_total_len(list, count),
    };
}

// Moves the cursor to offset `offset`, which is inside the list or at its end.
static void seek(struct scatter *scatter, uint64_t offset)
{
    if (offset < scatter->offset) {
        scatter->index = 0;
        scatter->element_len = 0;
        scatter->offset = 0;
        scatter->rest.len = 0;
    }
    while (scatter->offset < offset) {
        uint64_t left = scatter->list[scatter->index].length - scatter->element_len;
        uint64_t step = offset - scatter->offset < left ? offset - scatter->offset : left;
        scatter->offset += step;
        scatter->element_len += step;
        const size_t known_len = scatter->rest.len > step ? scatter->rest.len - (size_t)step : 0;
        scatter->rest = mspan_of(known_len > 0 ? scatter->rest.ptr + step : NULL, known_len);
        if (step == left) {
            scatter->index++;
            scatter->element_len = 0;
        }
    }
}

// The next `len` octets, which are in the element at the cursor.
static bool look_up(struct mem_table *mem, uint32_t pd, const struct scatter *scatter, uint64_t len,
                    struct mspan *ret)
{
    const struct sge *element = &scatter->list[scatter->index];
    const struct sge piece = {
        .addr = element->addr + scatter->element_len,
        .length = (uint32_t)len,
        .lkey = element->lkey,
    };
    return mem_resolve_sge(mem, pd, &piece, true, ret) == MEM_OK;
}

// Their place. The rest of the element is looked up with them, for those that follow, if it is
// usable: what of an element nothing is placed into may go beyond its region, as with cards.
static bool resolve(struct mem_table *mem, uint32_t pd, struct scatter *scatter, size_t len,
                    struct mspan *ret)
{
    const uint64_t version = mem_table_version(mem);
    const uint64_t left = scatter->list[scatter->index].length - scatter->element_len;
    if (scatter->rest.len < len || scatter->version != version || version == 0) {
        scatter->version = version;
        scatter->rest.len = 0;
        if (version == 0 || left == len || !look_up(mem, pd, scatter, left, &scatter->rest)) {
            scatter->rest.len = 0;
            return look_up(mem, pd, scatter, len, ret);
        }
    }
    *ret = mspan_of(scatter->rest.ptr, len);
    return true;
}

enum scatter_verdict scatter_place(struct mem_table *mem, uint32_t pd, struct scatter *scatter,
                                   uint64_t offset, struct span payload)
{
    if (offset > scatter->length || payload.len > scatter->length - offset) {
        return SCATTER_TOO_LONG;
    }
    seek(scatter, offset);
    while (payload.len > 0) {
        const struct sge *element = &scatter->list[scatter->index];
        uint64_t left = element->length - scatter->element_len;
        if (left == 0) { // an element of no octets
            scatter->index++;
            scatter->element_len = 0;
            continue;
        }
        size_t len = payload.len < left ? payload.len : (size_t)left;
        struct mspan place;
        if (!resolve(mem, pd, scatter, len, &place)) {
            return SCATTER_LOCAL;
        }
        place_octets(place.ptr, span_first(payload, len));
        payload = span_skip(payload, len);
        seek(scatter, scatter->offset + len);
    }
    return SCATTER_OK;
}

unsigned scatter_places(struct mem_table *mem, uint32_t pd, struct scatter *scatter,
                        uint64_t offset, uint64_t len, struct mspan *ret, unsigned max)
{
    unsigned count = 0;
    if (offset > scatter->length || len > scatter->length - offset) {
        return 0;
    }
    seek(scatter, offset);
    while (len > 0) {
        const struct sge *element = &scatter->list[scatter->index];
        uint64_t left = element->length - scatter->element_len;
        if (left == 0) { // an element of no octets
            scatter->index++;
            scatter->element_len = 0;
            continue;
        }
        size_t piece_len = (size_t)(len < left ? len : left);
        if (count == max || !resolve(mem, pd, scatter, piece_len, &ret[count])) {
            return 0;
        }
        count++;
        len -= piece_len;
        seek(scatter, scatter->offset + piece_len);
    }
    return count;
}
