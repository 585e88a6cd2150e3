// What a run says: its first failure, and what happens when it is traced.
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/time.h"
#include "sim/sim.h"

void sim_fail(struct sim *sim, const char *format, ...)
{
    if (sim->has_failed) {
        return;
    }
    sim->has_failed = true;
    int len = snprintf(sim->report, sizeof sim->report,
                       "SEED=%" PRIu64 " step %" PRIu64 " at %" PRIu64 ".%09" PRIu64 " s: ",
                       sim->params.seed, sim->step, sim->now_ns / NS_PER_S, sim->now_ns % NS_PER_S);
    va_list args;
    va_start(args, format);
    vsnprintf(sim->report + len, sizeof sim->report - (size_t)len, format, args);
    va_end(args);
    sim_trace(sim, "FAILED: %s", sim->report);
}

void sim_trace(const struct sim *sim, const char *format, ...)
{
    if (!sim->is_traced) {
        return;
    }
    va_list args;
    va_start(args, format);
    fprintf(stderr, "%" PRIu64 ".%06" PRIu64 " ", sim->now_ns / NS_PER_S,
            sim->now_ns % NS_PER_S / NS_PER_US);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}
