// The units and their parts of the pool. An RTA has that of its own requests, in which it may do
// what it likes; nobody else's data pass there. What all parts together may lend is the pool's
// length, so memory that is free again goes back to the system before long.

#include <stdlib.h>

#include "node/cta/agent.h"
#include "node/interface/cta_tts.h"

static const duration_ns trim_after_ns = NS_PER_S;

enum { TRIM_LEN = 64 << 10 }; // runs shorter than this are left

struct cta_unit *cta_unit_create(struct cta *cta, uint32_t number)
{
    struct cta_unit *unit = calloc(1, sizeof *unit);
    if (unit != NULL) {
        *unit = (struct cta_unit){.cta = cta, .unit = number};
        list_init(&unit->ready);
        list_init(&unit->replay);
        list_init(&unit->at_unit);
        list_init(&unit->elsewhere);
        list_init(&unit->completing);
        list_init(&unit->holds);
    }
    return unit;
}

void cta_unit_destroy(struct cta_unit *unit)
{
    if (unit != NULL) {
        memory_close(unit);
        residual_destroy(unit->residual);
        free(unit);
    }
}

bool memory_open(struct cta_unit *unit)
{
    const struct cta_parts *parts = &unit->cta->parts;
    if (parts->part_make != NULL && !parts->part_make(parts->ctx, unit->unit)) {
        return false;
    }
    unit->buffers = buffers_create(parts->pool.len);
    if (unit->buffers == NULL && parts->part_drop != NULL) {
        parts->part_drop(parts->ctx, unit->unit);
    }
    return unit->buffers != NULL;
}

void memory_close(struct cta_unit *unit)
{
    const struct cta_parts *parts = &unit->cta->parts;
    if (unit->buffers != NULL && parts->part_drop != NULL) {
        parts->part_drop(parts->ctx, unit->unit);
    }
    buffers_destroy(unit->buffers);
    unit->buffers = NULL;
}

void *memory_of(const struct cta_unit *unit, struct node_buffer buffer)
{
    return (uint8_t *)node_pool_part(&unit->cta->parts.pool, unit->unit) + buffer.offset;
}

void memory_note(struct cta_unit *unit, instant_ns now)
{
    unit->has_lent = true;
    if (unit->cta->trim_at_ns == INSTANT_NEVER && !unit->keeps_pages) {
        unit->cta->trim_at_ns = instant_after(now, trim_after_ns);
    }
}

static void on_free(void *ctx, uint64_t offset, uint64_t len)
{
    const struct cta_unit *unit = ctx;
    unit->cta->parts.part_trim(unit->cta->parts.ctx, unit->unit, offset, len);
}

void memory_trim(struct cta *cta)
{
    cta->trim_at_ns = INSTANT_NEVER;
    for (unsigned i = 0; i < cta->unit_end; i++) {
        struct cta_unit *unit = cta->units[i];
        if (unit != NULL && unit->has_lent && !unit->keeps_pages && cta->parts.part_trim != NULL) {
            unit->has_lent = false;
            buffers_each_free(unit->buffers, TRIM_LEN, on_free, unit);
        }
    }
}
