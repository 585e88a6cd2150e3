#include "base/faster.h"

static void enter(struct faster *f, enum faster_phase phase, uint32_t len)
{
    f->phase = phase;
    f->phase_len = len;
    f->moved_len = 0;
}

static void settle(struct faster *f)
{
    const uint32_t best_ns = f->best_ns[f->settled_way], others_ns = f->best_ns[!f->settled_way];
    const bool is_beaten = others_ns < best_ns - best_ns / 8;
    f->settled_way ^= is_beaten;
    f->change_count += is_beaten;
    f->settled_len = is_beaten ? FASTER_SETTLED_MIN : 2 * f->settled_len;
    f->settled_len = f->settled_len < FASTER_SETTLED_MIN   ? FASTER_SETTLED_MIN
                     : f->settled_len > FASTER_SETTLED_MAX ? FASTER_SETTLED_MAX
                                                           : f->settled_len;
    f->way = f->settled_way;
    enter(f, FASTER_SETTLED, f->settled_len);
}

static void begin_stretch(struct faster *f)
{
    f->way = f->settled_way ^ (f->stretch % 2);
    enter(f, FASTER_LEADS, FASTER_LEAD_LEN);
}

static void begin_trial(struct faster *f)
{
    f->best_ns[0] = f->best_ns[1] = 0;
    f->stretch = 0;
    begin_stretch(f);
}

// It has taken a nanosecond at least: 0 says that nothing was measured.
static void end_stretch(struct faster *f, instant_ns now)
{
    const duration_ns way_ns = 1 + (now - f->begun_ns) / (f->moved_len >> 12);
    const duration_ns took_ns = way_ns + (f->way == 1 ? way_ns * f->toll / 16 : 0);
    uint32_t *best_ns = &f->best_ns[f->way];
    const duration_ns least_ns = *best_ns == 0 ? took_ns : instant_min(*best_ns, took_ns);
    *best_ns = (uint32_t)instant_min(least_ns, UINT32_MAX);
    if (++f->stretch < FASTER_STRETCHES) {
        begin_stretch(f);
    } else {
        settle(f);
    }
}

void faster_on_phase_end(struct faster *f, instant_ns now)
{
    switch (f->phase) {
    case FASTER_SETTLED:
        begin_trial(f);
        break;
    case FASTER_LEADS:
        f->begun_ns = now;
        enter(f, FASTER_MEASURES, FASTER_MEASURED_LEN);
        break;
    case FASTER_MEASURES:
        end_stretch(f, now);
        break;
    }
}

void faster_on_pause(struct faster *f)
{
    if (f->phase != FASTER_SETTLED) {
        begin_stretch(f);
    }
}
