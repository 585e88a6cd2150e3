#include "link/fault_model.h"

#include <stdlib.h>
#include <string.h>

#include "text/quantity.h"

enum { ITEM_MAX = 64 };
static const duration_ns reorder_default_ns = 2 * NS_PER_MS;
// A burst is of packets close together: one that is sent again much later meets another fate.
static const duration_ns burst_max_ns = 10 * NS_PER_MS;

/* ---- reading --------------------------------------------------------------------------------- */

static bool share_parse(const char *text, uint32_t *ret)
{
    char *end;
    double percent = strtod(text, &end);
    if (end == text || strcmp(end, "%") != 0 || !(percent >= 0 && percent <= 100)) {
        return false;
    }
    *ret = (uint32_t)(percent / 100 * FAULT_ONE + 0.5);
    return true;
}

static bool duration_parse(const char *text, duration_ns *ret)
{
    static const struct {
        const char *unit;
        duration_ns ns;
    } units[] = {{"us", NS_PER_US}, {"ms", NS_PER_MS}, {"s", NS_PER_S}};
    char *end;
    double value = strtod(text, &end);
    for (size_t i = 0; end != text && i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(end, units[i].unit) == 0 && value >= 0 && value <= 3600) {
            *ret = (duration_ns)(value * (double)units[i].ns);
            return true;
        }
    }
    return false;
}

static bool side_parse(const char *text, unsigned *ret)
{
    static const char *const names[] = {
        [FAULT_SIDE_OUT] = "out",
        [FAULT_SIDE_IN] = "in",
        [FAULT_SIDE_OUT | FAULT_SIDE_IN] = "both",
    };
    for (unsigned i = 1; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(text, names[i]) == 0) {
            *ret = i;
            return true;
        }
    }
    return false;
}

static bool item_apply(const char *name, const char *value, struct fault_config *c)
{
    struct {
        const char *name;
        uint32_t *share;
        duration_ns *duration;
    } items[] = {
        {"loss", &c->loss, NULL},
        {"reorder", &c->reorder, NULL},
        {"duplicate", &c->duplicate, NULL},
        {"corrupt", &c->corrupt, NULL},
        {"delay", NULL, &c->delay_ns},
        {"jitter", NULL, &c->jitter_ns},
        {"reorder-delay", NULL, &c->reorder_ns},
    };
    for (size_t i = 0; i < sizeof items / sizeof items[0]; i++) {
        if (strcmp(name, items[i].name) == 0) {
            return items[i].share != NULL ? share_parse(value, items[i].share)
                                          : duration_parse(value, items[i].duration);
        }
    }
    if (strcmp(name, "burst") == 0) {
        uint64_t burst;
        bool is_good = text_number_parse(value, 1, 1000, &burst);
        c->burst = is_good ? (uint32_t)burst : 1;
        return is_good;
    }
    if (strcmp(name, "seed") == 0) {
        return text_number_parse(value, 0, UINT64_MAX, &c->seed);
    }
    return strcmp(name, "side") == 0 && side_parse(value, &c->sides);
}

bool fault_config_parse(const char *text, struct fault_config *ret)
{
    *ret = (struct fault_config){
        .burst = 1, .seed = 1, .sides = FAULT_SIDE_OUT, .reorder_ns = reorder_default_ns};
    while (*text != '\0') {
        char item[ITEM_MAX];
        size_t len = strcspn(text, ",");
        if (len >= sizeof item) {
            return false;
        }
        memcpy(item, text, len);
        item[len] = '\0';
        char *value = strchr(item, '=');
        if (value == NULL) {
            return false;
        }
        *value++ = '\0';
        if (!item_apply(item, value, ret)) {
            return false;
        }
        text += len;
        text += *text == ',';
    }
    return true;
}

/* ---- drawing --------------------------------------------------------------------------------- */

void fault_model_init(struct fault_model *m, const struct fault_config *config)
{
    *m = (struct fault_model){.config = *config};
    prng_init(&m->rng, config->seed);
}

static bool draw(struct fault_model *m, uint32_t share)
{
    return share > 0 && prng_below(&m->rng, FAULT_ONE) < share;
}

static duration_ns draw_duration(struct fault_model *m, duration_ns max_ns)
{
    return max_ns == 0 ? 0 : prng_next(&m->rng) % (max_ns + 1);
}

// Two states: bursts begin so often, and last so long, that `loss` of all packets are in one. With
// one packet in a burst, each is lost with this share by itself.
static bool draw_loss(struct fault_model *m, instant_ns now)
{
    const struct fault_config *c = &m->config;
    if (m->is_losing) {
        bool is_over = now > instant_after(m->burst_at_ns, burst_max_ns);
        m->is_losing = !draw(m, FAULT_ONE / c->burst) && !is_over;
    }
    if (!m->is_losing && c->loss > 0) {
        uint64_t good = FAULT_ONE - c->loss;
        m->is_losing =
            draw(m, (uint32_t)((uint64_t)c->loss * FAULT_ONE / (c->loss + good * c->burst)));
        m->burst_at_ns = now;
    }
    return m->is_losing;
}

struct fault_fate fault_model_draw(struct fault_model *m, instant_ns now)
{
    const struct fault_config *c = &m->config;
    struct fault_fate fate = {.count = 1};
    m->counters.packets++;
    if (draw_loss(m, now)) {
        m->counters.lost++;
        fate.count = 0;
        return fate;
    }
    if (draw(m, c->duplicate)) {
        m->counters.duplicated++;
        fate.count = 2;
    }
    for (unsigned i = 0; i < fate.count; i++) {
        fate.delay_ns[i] = c->delay_ns + draw_duration(m, c->jitter_ns);
        if (draw(m, c->reorder)) {
            m->counters.reordered++;
            fate.delay_ns[i] += 1 + draw_duration(m, c->reorder_ns);
        }
    }
    return fate;
}

void fault_model_corrupt(struct fault_model *m, struct mspan packet)
{
    if (packet.len > 0 && draw(m, m->config.corrupt)) {
        m->counters.corrupted++;
        packet.ptr[prng_below(&m->rng, (uint32_t)packet.len)] ^=
            (uint8_t)(1U << prng_below(&m->rng, 8));
    }
}
