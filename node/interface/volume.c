#include "node/interface/volume.h"

#include <string.h>

#include "node/interface/request.h"

enum { BLOCK_SIZE_MIN = 512, BLOCK_SIZE_MAX = 65536 };

static bool is_power_of_two(uint32_t number)
{
    return number != 0 && (number & (number - 1)) == 0;
}

static bool is_terminated(const char *text, size_t capacity)
{
    return memchr(text, '\0', capacity) != NULL;
}

// A text that people are shown.
static bool is_plain(const char *text, size_t capacity)
{
    for (size_t i = 0; i < capacity && text[i] != '\0'; i++) {
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7f) {
            return false;
        }
    }
    return is_terminated(text, capacity);
}

const char *volume_profile_pin(const struct volume_profile *profile)
{
    return profile->instance[0] != '\0' ? profile->instance : profile->origin;
}

bool volume_profile_is_sane(const struct volume_profile *p)
{
    return p->size <= INT64_MAX && (p->abilities & ~(uint32_t)VOLUME_ABILITY_ALL) == 0 &&
           is_power_of_two(p->block_size) && p->block_size >= BLOCK_SIZE_MIN &&
           p->block_size <= BLOCK_SIZE_MAX && is_power_of_two(p->alignment) &&
           p->alignment <= p->block_size && is_power_of_two(p->preferred) &&
           p->preferred >= p->alignment && p->transfer_max >= p->block_size &&
           p->transfer_max % p->alignment == 0 && p->transfer_max <= NODE_TRANSFER_MAX &&
           p->range_max >= p->block_size && p->range_max % p->alignment == 0 && p->depth > 0 &&
           is_plain(p->driver, sizeof p->driver) && is_terminated(p->model, sizeof p->model) &&
           is_terminated(p->origin, sizeof p->origin) &&
           is_terminated(p->instance, sizeof p->instance) && p->lineage.count <= VOLUME_LINEAGE_MAX;
}

/* ---- lineage --------------------------------------------------------------------------------- */

enum { LINEAGE_OFF_COUNT = 8, LINEAGE_OFF_UUIDS = 16 };

static const uint8_t lineage_mark[LINEAGE_OFF_COUNT] = "lineage";

void volume_lineage_emit(const struct resource *row, uint8_t ret[VOLUME_LINEAGE_LEN])
{
    const struct volume_lineage *behind = &row->profile.lineage;
    uint32_t count = behind->count < VOLUME_LINEAGE_MAX ? behind->count : VOLUME_LINEAGE_MAX - 1;
    uint8_t *uuids = ret + LINEAGE_OFF_UUIDS;
    memset(ret, 0, VOLUME_LINEAGE_LEN);
    memcpy(ret, lineage_mark, sizeof lineage_mark);
    ret[LINEAGE_OFF_COUNT] = (uint8_t)(1 + count);
    memcpy(uuids, row->identity.uuid, VOLUME_UUID_LEN);
    memcpy(uuids + VOLUME_UUID_LEN, behind->uuids, (size_t)count * VOLUME_UUID_LEN);
}

void volume_lineage_parse(const uint8_t *octets, size_t len, struct volume_lineage *ret)
{
    *ret = (struct volume_lineage){0};
    if (len < VOLUME_LINEAGE_LEN || memcmp(octets, lineage_mark, sizeof lineage_mark) != 0 ||
        octets[LINEAGE_OFF_COUNT] > VOLUME_LINEAGE_MAX) {
        return;
    }
    ret->count = octets[LINEAGE_OFF_COUNT];
    memcpy(ret->uuids, octets + LINEAGE_OFF_UUIDS, (size_t)ret->count * VOLUME_UUID_LEN);
}

static bool has_uuid(const struct resource_table *table, const uint8_t uuid[VOLUME_UUID_LEN])
{
    bool has = false;
    for (size_t i = 0; i < table->count && !has; i++) {
        has = memcmp(table->rows[i].identity.uuid, uuid, VOLUME_UUID_LEN) == 0;
    }
    return has;
}

bool volume_lineage_is_of(const struct volume_lineage *told, const struct resource_table *table)
{
    bool is_of = false;
    for (uint32_t i = 1; i < told->count && i < VOLUME_LINEAGE_MAX && !is_of; i++) {
        is_of = has_uuid(table, told->uuids[i]);
    }
    return is_of;
}

/* ---- resources ------------------------------------------------------------------------------- */

bool resource_is_there(const struct resource *row)
{
    return row->state != RESOURCE_FAILED && row->profile.block_size > 0;
}

const struct resource *resource_by_name(const struct resource_table *table, const char *name)
{
    for (size_t i = 0; i < table->count; i++) {
        if (strcmp(table->rows[i].name, name) == 0) {
            return &table->rows[i];
        }
    }
    return NULL;
}

const struct resource *resource_by_volume(const struct resource_table *table, uint32_t volume)
{
    for (size_t i = 0; i < table->count; i++) {
        if (table->rows[i].volume == volume) {
            return &table->rows[i];
        }
    }
    return NULL;
}
