#include "node/cta/buffers.h"

#include <stdlib.h>

#include "base/check.h"

enum {
    ORDER_MAX = 13, // of a run: BUFFERS_UNIT_LEN << order octets
    ORDER_COUNT = ORDER_MAX + 1,
    NO_ORDER = 0, // so that books that nobody has looked into take no memory
    NONE = UINT32_MAX
};

STATIC_CHECK(BUFFERS_UNIT_LEN << ORDER_MAX == NODE_TRANSFER_MAX);

// Of a run, its first unit speaks; the others say nothing.
struct unit {
    uint32_t next, prev; // in the list of free runs of this order
    uint8_t free_order;  // and one; NO_ORDER: taken, or within a run
    uint8_t taken_order; // and one; NO_ORDER: not the first of a taken run
};

struct buffers {
    uint32_t unit_count;
    uint64_t taken_count; // units
    uint32_t heads[ORDER_COUNT];
    struct unit *units;
};

static void free_push(struct buffers *b, uint32_t at, unsigned order)
{
    struct unit *unit = &b->units[at];
    *unit =
        (struct unit){.next = b->heads[order], .prev = NONE, .free_order = (uint8_t)(order + 1)};
    if (unit->next != NONE) {
        b->units[unit->next].prev = at;
    }
    b->heads[order] = at;
}

static void free_remove(struct buffers *b, uint32_t at)
{
    struct unit *unit = &b->units[at];
    if (unit->prev == NONE) {
        b->heads[unit->free_order - 1] = unit->next;
    } else {
        b->units[unit->prev].next = unit->next;
    }
    if (unit->next != NONE) {
        b->units[unit->next].prev = unit->prev;
    }
    unit->free_order = NO_ORDER;
}

struct buffers *buffers_create(uint64_t pool_len)
{
    CHECK(pool_len > 0 && pool_len % NODE_TRANSFER_MAX == 0);
    uint64_t count = pool_len / BUFFERS_UNIT_LEN;
    CHECK(count < NONE);
    struct buffers *b = calloc(1, sizeof *b);
    struct unit *units = calloc(count, sizeof *units);
    if (b == NULL || units == NULL) {
        free(b);
        free(units);
        return NULL;
    }
    *b = (struct buffers){.unit_count = (uint32_t)count, .units = units};
    for (unsigned order = 0; order < ORDER_COUNT; order++) {
        b->heads[order] = NONE;
    }
    for (uint32_t at = b->unit_count; at > 0; at -= 1U << ORDER_MAX) {
        free_push(b, at - (1U << ORDER_MAX), ORDER_MAX);
    }
    return b;
}

void buffers_destroy(struct buffers *buffers)
{
    if (buffers != NULL) {
        free(buffers->units);
        free(buffers);
    }
}

static unsigned order_of(uint32_t len)
{
    unsigned order = 0;
    while ((uint32_t)BUFFERS_UNIT_LEN << order < len) {
        order++;
    }
    return order;
}

uint64_t buffers_run_len(uint32_t len)
{
    return (uint64_t)BUFFERS_UNIT_LEN << order_of(len);
}

bool buffers_obtain(struct buffers *buffers, uint32_t len, struct node_buffer *ret)
{
    CHECK(len > 0 && len <= NODE_TRANSFER_MAX);
    unsigned wanted = order_of(len), order = wanted;
    while (order < ORDER_COUNT && buffers->heads[order] == NONE) {
        order++;
    }
    if (order == ORDER_COUNT) {
        return false;
    }
    uint32_t at = buffers->heads[order];
    free_remove(buffers, at);
    while (order > wanted) {
        order--;
        free_push(buffers, at + (1U << order), order);
    }
    buffers->units[at].taken_order = (uint8_t)(wanted + 1);
    buffers->taken_count += 1U << wanted;
    *ret = (struct node_buffer){.offset = (uint64_t)at * BUFFERS_UNIT_LEN, .len = len};
    return true;
}

void buffers_release(struct buffers *buffers, struct node_buffer buffer)
{
    uint32_t at = (uint32_t)(buffer.offset / BUFFERS_UNIT_LEN);
    CHECK(buffer.offset % BUFFERS_UNIT_LEN == 0 && at < buffers->unit_count);
    CHECK(buffers->units[at].taken_order != NO_ORDER);
    unsigned order = buffers->units[at].taken_order - 1U;
    buffers->units[at].taken_order = NO_ORDER;
    buffers->taken_count -= 1U << order;
    while (order < ORDER_MAX) {
        uint32_t buddy = at ^ (1U << order);
        if (buffers->units[buddy].free_order != order + 1) {
            break;
        }
        free_remove(buffers, buddy);
        at &= ~(1U << order);
        order++;
    }
    free_push(buffers, at, order);
}

uint64_t buffers_taken_len(const struct buffers *buffers)
{
    return buffers->taken_count * BUFFERS_UNIT_LEN;
}

void buffers_each_free(const struct buffers *buffers, uint32_t least_len,
                       void (*on_free)(void *ctx, uint64_t offset, uint64_t len), void *ctx)
{
    for (unsigned order = order_of(least_len); order < ORDER_COUNT; order++) {
        for (uint32_t at = buffers->heads[order]; at != NONE; at = buffers->units[at].next) {
            on_free(ctx, (uint64_t)at * BUFFERS_UNIT_LEN, (uint64_t)BUFFERS_UNIT_LEN << order);
        }
    }
}

bool buffers_check(const struct buffers *buffers)
{
    uint64_t taken = 0;
    for (uint32_t at = 0; at < buffers->unit_count;) {
        const struct unit *unit = &buffers->units[at];
        bool is_free = unit->free_order != NO_ORDER;
        if (is_free == (unit->taken_order != NO_ORDER)) {
            return false;
        }
        uint32_t count = 1U << ((is_free ? unit->free_order : unit->taken_order) - 1);
        if (at % count != 0) {
            return false;
        }
        taken += is_free ? 0 : count;
        at += count;
    }
    return taken == buffers->taken_count;
}
