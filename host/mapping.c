#include "host/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "descriptor/descriptor.h"

// PROCMAP_QUERY of linux/fs.h since 6.11, spelt out for older headers.
struct procmap_query {
    uint64_t size;
    uint64_t query_flags;
    uint64_t query_addr;
    uint64_t vma_start;
    uint64_t vma_end;
    uint64_t vma_flags;
    uint64_t vma_page_size;
    uint64_t vma_offset;
    uint64_t inode;
    uint32_t dev_major;
    uint32_t dev_minor;
    uint32_t vma_name_size;
    uint32_t build_id_size;
    uint64_t vma_name_addr;
    uint64_t build_id_addr;
};

#define PROCMAP_IOCTL _IOWR('f', 17, struct procmap_query)

enum { VMA_READABLE = 1, VMA_WRITABLE = 2 };

// Addresses from `start` to before `end`.
struct range {
    uint64_t start, end;
};

// The mapping that covers `at`: where it lies and what it allows. -EFAULT: none; -ENOTTY: the
// kernel has no such query.
static int mapping_query(const struct mapping *mapping, uint64_t at, struct range *ret,
                         unsigned *ret_flags)
{
    struct procmap_query q = {.size = sizeof q, .query_addr = at};
    if (ioctl(mapping->maps_fd, PROCMAP_IOCTL, &q) != 0) {
        return errno == ENOENT ? -EFAULT : -ENOTTY;
    }
    *ret = (struct range){q.vma_start, q.vma_end};
    *ret_flags = (unsigned)q.vma_flags;
    return 0;
}

// `range` grows to the mappings that it touches.
static int mapping_check(const struct mapping *mapping, struct range *range, unsigned needed)
{
    uint64_t at = range->start, to = range->end;
    while (at < to) {
        struct range found;
        unsigned flags = 0;
        int error = mapping_query(mapping, at, &found, &flags);
        if (error != 0) {
            return error;
        }
        if ((flags & needed) != needed) {
            return -EFAULT;
        }
        range->start = found.start < range->start ? found.start : range->start;
        range->end = at = found.end;
    }
    return 0;
}

// The same from the text, whose lines are in ascending order; the range stays.
static int mapping_check_text(uint64_t from, uint64_t to, unsigned needed)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512];
    if (maps == NULL) {
        return 0;
    }
    while (from < to && fgets(line, sizeof line, maps) != NULL) {
        uint64_t start, end;
        char rights[5];
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s", &start, &end, rights) != 3 || end <= from) {
            continue;
        }
        unsigned flags =
            (rights[0] == 'r' ? VMA_READABLE : 0) | (rights[1] == 'w' ? VMA_WRITABLE : 0);
        if (start > from || (flags & needed) != needed) {
            break;
        }
        from = end;
    }
    fclose(maps);
    return from < to ? -EFAULT : 0;
}

void mapping_init(struct mapping *mapping)
{
    mapping->maps_fd = descriptor_above_standard(open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
    atomic_init(&mapping->has_no_query, false);
}

void mapping_fini(struct mapping *mapping)
{
    if (mapping->maps_fd >= 0) {
        close(mapping->maps_fd);
        mapping->maps_fd = -1;
    }
}

int mapping_probe(void *ctx, void *addr, size_t len, bool writable, struct mspan *ret_known)
{
    struct mapping *mapping = ctx;
    uint64_t from = (uint64_t)(uintptr_t)addr;
    struct range range = {from, from + len};
    unsigned needed = VMA_READABLE | (writable ? VMA_WRITABLE : 0);
    *ret_known = mspan_of(addr, len);
    if (mapping->maps_fd < 0) {
        return 0;
    }
    if (!atomic_load_explicit(&mapping->has_no_query, memory_order_relaxed)) {
        int error = mapping_check(mapping, &range, needed);
        if (error == 0) {
            *ret_known = mspan_of((void *)(uintptr_t)range.start, range.end - range.start);
        }
        if (error == 0 || error == -EFAULT) {
            return error;
        }
        atomic_store_explicit(&mapping->has_no_query, true, memory_order_relaxed);
    }
    return mapping_check_text(from, from + len, needed);
}
