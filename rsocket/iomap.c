// Mapped memory: riomap offers memory of the program's to the peer, under an offset of its choice;
// the peer's riowrite writes there directly, past the rings.

#include <stdlib.h>
#include <sys/mman.h>

#include "rsocket/rsocket.h"

enum { NOT_OFFERED = -1 };

struct rs_iomap {
    struct list_link link;
    struct ibv_mr *mr;
    uint64_t offset;
    int index;     // its entry in the peer's table, or NOT_OFFERED: only registered
    bool is_known; // to the peer
};

static bool is_index_taken(const struct rs *rs, int index)
{
    for (struct list_link *l = rs->iomaps.next; l != &rs->iomaps; l = l->next) {
        if (LIST_ENTRY(l, struct rs_iomap, link)->index == index) {
            return true;
        }
    }
    return false;
}

// NOT_OFFERED: the peer's table is full.
static int index_take(const struct rs *rs)
{
    for (uint32_t index = 0; index < rs->tx.iomap.length; index++) {
        if (!is_index_taken(rs, (int)index)) {
            return (int)index;
        }
    }
    return NOT_OFFERED;
}

static off_t map_locked(struct rs *rs, void *buf, size_t len, int prot, off_t offset)
{
    bool is_offered = (prot & PROT_WRITE) != 0;
    if (rs_is_datagram(rs)) {
        return rs_fail(EOPNOTSUPP); // there is no memory of a connection's
    }
    // The peer's entry has 32 bits for the length.
    if (rs->id->pd == NULL || (prot & ~(PROT_WRITE | PROT_NONE)) != 0 ||
        (is_offered && len > UINT32_MAX)) {
        return rs_fail(EINVAL);
    }
    // How many the peer's table holds is known when data may flow.
    if (is_offered && rs_await_connected(rs, false) != 0) {
        return -1;
    }
    int index = is_offered ? index_take(rs) : NOT_OFFERED;
    struct rs_iomap *map = calloc(1, sizeof *map);
    if (map == NULL || (is_offered && index == NOT_OFFERED)) {
        free(map);
        return rs_fail(ENOMEM);
    }
    int access = IBV_ACCESS_LOCAL_WRITE | (is_offered ? IBV_ACCESS_REMOTE_WRITE : 0);
    map->mr = ibv_reg_mr(rs->id->pd, buf, len, access);
    if (map->mr == NULL) {
        free(map);
        return -1;
    }
    map->offset = offset == -1 ? (uintptr_t)buf : (uint64_t)offset;
    map->index = index;
    map->is_known = !is_offered;
    rs->is_iomap_due = rs->is_iomap_due || is_offered;
    list_push_tail(&rs->iomaps, &map->link);
    return (off_t)map->offset;
}

off_t riomap(int socket, void *buf, size_t len, int prot, int flags, off_t offset)
{
    struct rs *rs = rs_enter(socket);
    if (rs == NULL) {
        return -1;
    }
    off_t result = map_locked(rs, buf, len, prot, offset);
    rs_leave(rs);
    return result;
}

static void map_free(struct rs_iomap *map)
{
    list_remove(&map->link);
    ibv_dereg_mr(map->mr);
    free(map);
}

int riounmap(int socket, void *buf, size_t len)
{
    struct rs *rs = rs_enter(socket);
    if (rs == NULL) {
        return -1;
    }
    int result = rs_fail(EINVAL);
    for (struct list_link *l = rs->iomaps.next; l != &rs->iomaps; l = l->next) {
        struct rs_iomap *map = LIST_ENTRY(l, struct rs_iomap, link);
        if (map->mr->addr == buf && map->mr->length == len) {
            map_free(map);
            result = 0;
            break;
        }
    }
    rs_leave(rs);
    return result;
}

void rs_iomap_free_all(struct rs *rs)
{
    while (!list_is_empty(&rs->iomaps)) {
        map_free(LIST_ENTRY(rs->iomaps.next, struct rs_iomap, link));
    }
}

int rs_iomap_flush(struct rs *rs, bool is_nonblocking)
{
    if (!rs->is_iomap_due) {
        return 0;
    }
    struct list_link *l = rs->iomaps.next;
    while (l != &rs->iomaps) {
        struct rs_iomap *map = LIST_ENTRY(l, struct rs_iomap, link);
        l = l->next;
        if (map->is_known) {
            continue;
        }
        if (!rs_stream_may_send(rs)) {
            if (rs_await_sendable(rs, is_nonblocking) != 0) {
                return -1;
            }
            l = rs->iomaps.next; // the lock was let go of: the list may be another
            continue;
        }
        struct rs_iomap_entry entry = {
            .offset = map->offset,
            .sge = {.addr = (uintptr_t)map->mr->addr,
                    .key = map->mr->rkey,
                    .length = (uint32_t)map->mr->length},
        };
        if (rs_stream_send_iomap(rs, (unsigned)map->index, &entry) != 0) {
            return -1;
        }
        map->is_known = true;
    }
    rs->is_iomap_due = false;
    return 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

// The peer's entry that holds `offset`; false: it has mapped nothing there.
static bool entry_find(const struct rs *rs, uint64_t offset, struct rs_iomap_entry *ret)
{
    const struct rs_iomap_entry *entries =
        (const struct rs_iomap_entry *)(rs->targets + RS_SGE_COUNT);
    for (uint16_t i = 0; i < rs->options.iomap_count; i++) {
        ret->sge = rs_sge_load(&entries[i].sge);
        ret->offset = entries[i].offset;
        if (offset >= ret->offset && offset - ret->offset < ret->sge.length) {
            return true;
        }
    }
    return false;
}

static size_t write_locked(struct rs *rs, const struct iovec *part, uint64_t offset,
                           bool is_nonblocking)
{
    struct rs_source source = {.part = part, .left = part->iov_len};
    if (rs_await_connected(rs, is_nonblocking) != 0 || rs_iomap_flush(rs, is_nonblocking) != 0) {
        return (size_t)-1;
    }
    while (source.left > 0) {
        size_t done = part->iov_len - source.left;
        struct rs_iomap_entry entry;
        rs_progress(rs);
        if (!entry_find(rs, offset + done, &entry)) {
            break;
        }
        if (rs_await_sendable(rs, is_nonblocking) != 0 ||
            rs_stream_send_direct(rs, &source, &entry, offset + done) < 0) {
            return done > 0 ? done : (size_t)-1;
        }
    }
    return part->iov_len - source.left;
}

size_t riowrite(int socket, const void *buf, size_t count, off_t offset, int flags)
{
    struct rs *rs = rs_enter(socket);
    if (rs == NULL) {
        return (size_t)-1;
    }
    struct iovec part = {.iov_base = (void *)(uintptr_t)buf, .iov_len = count};
    size_t result = write_locked(rs, &part, (uint64_t)offset, rs_is_nonblocking(rs, flags));
    rs_leave(rs);
    return result;
}
