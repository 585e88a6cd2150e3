#include "link/local/memory.h"

#include <errno.h>

#include "link/local/sealed.h"

static size_t memory_len(uint32_t ring_len)
{
    return LOCAL_MEMORY_PAGE + 2 * (size_t)ring_len;
}

// The page begins behind `ring_len` octets, and the words behind the passive side's first ones.
static size_t words_offset(uint32_t ring_len)
{
    return ring_len + LOCAL_MEMORY_FIRST;
}

static void found(struct local_memory *m, uint8_t *memory, uint32_t ring_len)
{
    *m = (struct local_memory){.base = memory + words_offset(ring_len), .ring_len = ring_len};
}

int local_memory_create(uint32_t ring_len, struct local_memory *ret, int *ret_fd)
{
    uint8_t *memory;
    int error =
        local_sealed_create("weft-stream", memory_len(ring_len), LOCAL_SEALED_LEN, &memory, ret_fd);
    if (error == 0) {
        found(ret, memory, ring_len);
    }
    return error;
}

int local_memory_adopt(int fd, uint32_t ring_len, struct local_memory *ret)
{
    uint8_t *memory;
    if (!octet_ring_len_is_good(ring_len) || ring_len < LOCAL_MEMORY_PAGE) {
        return -EINVAL;
    }
    int error = local_sealed_adopt(fd, memory_len(ring_len), &memory);
    if (error == 0) {
        found(ret, memory, ring_len);
    }
    return error;
}

void local_memory_release(struct local_memory *m)
{
    if (m->base != NULL) {
        local_sealed_release(m->base - words_offset(m->ring_len), memory_len(m->ring_len));
    }
    m->base = NULL;
}

struct octet_ring local_memory_ring(const struct local_memory *m, enum local_side side)
{
    bool is_active = side == LOCAL_ACTIVE;
    return (struct octet_ring){
        .control = m->base + (is_active ? LOCAL_MEMORY_ACTIVE_RING : LOCAL_MEMORY_PASSIVE_RING),
        .octets = is_active ? m->base + LOCAL_MEMORY_WORDS_LEN : m->base - m->ring_len,
        .len = m->ring_len,
        .first = is_active ? 0 : m->ring_len - LOCAL_MEMORY_FIRST,
    };
}
