#include "link/local/memory.h"

#include <errno.h>

#include "link/local/sealed.h"

static size_t memory_len(uint32_t ring_len)
{
    return LOCAL_MEMORY_OCTETS + 2 * (size_t)ring_len;
}

int local_memory_create(uint32_t ring_len, struct local_memory *ret, int *ret_fd)
{
    ret->ring_len = ring_len;
    return local_sealed_create("weft-stream", memory_len(ring_len), &ret->base, ret_fd);
}

int local_memory_adopt(int fd, uint32_t ring_len, struct local_memory *ret)
{
    ret->ring_len = ring_len;
    return octet_ring_len_is_good(ring_len)
               ? local_sealed_adopt(fd, memory_len(ring_len), &ret->base)
               : -EINVAL;
}

void local_memory_release(struct local_memory *m)
{
    local_sealed_release(m->base, memory_len(m->ring_len));
    m->base = NULL;
}

struct octet_ring local_memory_ring(const struct local_memory *m, enum local_side side)
{
    bool is_active = side == LOCAL_ACTIVE;
    return (struct octet_ring){
        .control = m->base + (is_active ? LOCAL_MEMORY_ACTIVE_RING : LOCAL_MEMORY_PASSIVE_RING),
        .octets = m->base + LOCAL_MEMORY_OCTETS + (is_active ? 0 : m->ring_len),
        .len = m->ring_len,
    };
}
