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
           is_terminated(p->instance, sizeof p->instance);
}

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
