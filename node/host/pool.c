#include "node/host/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "node/interface/request.h"

enum { NOWHERE = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE };

struct node_pool pool_view(const struct pool *pool)
{
    return (struct node_pool){
        .ptr = pool->range, .len = pool->len, .generations = pool->generations};
}

static void *place_of(const struct pool *pool, uint32_t unit)
{
    return (uint8_t *)pool->range + unit * pool->len;
}

// New memory each time: whoever still has that of a former RTA has nothing of this one.
static int part_make(struct pool *pool, uint32_t unit)
{
    int error = segment_create_at("weft-pool", pool->len, place_of(pool, unit), &pool->parts[unit]);
    if (error == 0) {
        pool->generations[unit] = ++pool->generation;
    }
    return error;
}

bool pool_part_make(void *pool, uint32_t unit)
{
    return part_make(pool, unit) == 0;
}

void pool_part_drop(void *ctx, uint32_t unit)
{
    struct pool *pool = ctx;
    struct segment *part = &pool->parts[unit];
    if (part->fd >= 0) {
        close(part->fd);
        void *place = mmap(part->ptr, part->len, PROT_NONE, NOWHERE | MAP_FIXED, -1, 0);
        (void)place; // if even that is refused, memory stays that nobody uses
    }
    *part = (struct segment){.fd = -1};
    pool->generations[unit] = 0;
}

void pool_part_trim(void *ctx, uint32_t unit, uint64_t offset, uint64_t len)
{
    const struct pool *pool = ctx;
    if (!pool->is_pinned) {
        fallocate(pool->parts[unit].fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
                  (off_t)len);
    }
}

int pool_create(struct pool *pool, uint64_t len)
{
    *pool = (struct pool){.len = len};
    for (unsigned i = 0; i < NODE_UNIT_COUNT_MAX; i++) {
        pool->parts[i].fd = -1;
    }
    void *range = mmap(NULL, len * NODE_UNIT_COUNT_MAX, PROT_NONE, NOWHERE, -1, 0);
    if (range == MAP_FAILED) {
        return -errno;
    }
    pool->range = range;
    // What the system does not let us have is told at the start, not with the first volume.
    int error = part_make(pool, 0);
    if (error == 0) {
        pool_part_drop(pool, 0);
    }
    return error;
}

uint64_t pool_part_memory(const struct pool *pool, uint32_t unit)
{
    struct stat status;
    const struct segment *part = &pool->parts[unit];
    return part->fd >= 0 && fstat(part->fd, &status) == 0 ? (uint64_t)status.st_blocks * 512 : 0;
}

void pool_destroy(struct pool *pool)
{
    if (pool->range == NULL) {
        return;
    }
    for (unsigned i = 0; i < NODE_UNIT_COUNT_MAX; i++) {
        if (pool->parts[i].fd >= 0) {
            close(pool->parts[i].fd);
        }
    }
    munmap(pool->range, pool->len * NODE_UNIT_COUNT_MAX);
    pool->range = NULL;
}
