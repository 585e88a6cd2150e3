#include "tests/sim/seeds.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sanitized.h"

// Under a sanitizer a sixth of those that run without one.
enum { SEEDS_DEFAULT = IS_SANITIZED ? 50 : 300 };
enum { SEEDS_SOAK = 20000, FAILURES_MAX = 10 };

static struct sim sim;

static uint64_t number_of(const char *text, uint64_t otherwise)
{
    return text != NULL && *text != '\0' ? strtoull(text, NULL, 0) : otherwise;
}

static bool is_set(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && *value != '\0' && strcmp(value, "0") != 0;
}

static void print_params(uint64_t seed, enum sim_wire wire)
{
    char text[1536];
    struct sim_params params;
    sim_params_draw(&params, seed, wire);
    sim_params_print(&params, text, sizeof text);
    fputs(text, stdout);
    fflush(stdout);
}

static bool run_one(uint64_t seed, enum sim_wire wire, const char *program, bool is_alone)
{
    if (is_alone) {
        print_params(seed, wire);
    }
    bool ok = sim_run(&sim, seed, wire, is_set("TRACE"), NULL);
    if (is_alone || !ok) {
        printf("seed %" PRIu64 ": %" PRIu64 " steps, %" PRIu64 ".%03" PRIu64 " s, %" PRIu64
               " connections, %" PRIu64 " completions, %" PRIu64 " deliveries, %" PRIu64
               " faults\n",
               seed, sim.step, sim.now_ns / NS_PER_S, sim.now_ns % NS_PER_S / NS_PER_MS,
               sim.ended_connections, sim.completions, sim.deliveries, sim.faults);
    }
    if (!ok) {
        if (!is_alone) {
            print_params(seed, wire);
        }
        printf("FAILED %s\nreplay: SEED=%" PRIu64 " TRACE=1 %s\n", sim.report, seed, program);
    }
    fflush(stdout);
    return ok;
}

int seeds_main(int argc, char **argv, enum sim_wire wire)
{
    uint64_t otherwise = is_set("WEFT_SOAK") ? SEEDS_SOAK : SEEDS_DEFAULT;
    bool is_chosen = argc > 1 || getenv("SEED") != NULL;
    uint64_t first = number_of(argc > 1 ? argv[1] : getenv("SEED"), 1);
    uint64_t count = is_chosen ? number_of(argc > 2 ? argv[2] : NULL, 1)
                               : number_of(getenv("WEFT_SIM_SEEDS"), otherwise);
    uint64_t steps = 0, completions = 0, deliveries = 0, commands = 0, connections = 0, faults = 0,
             ns = 0;
    unsigned failures = 0;
    printf("seeds %" PRIu64 " to %" PRIu64 "\n", first, first + count - 1);
    fflush(stdout);
    for (uint64_t i = 0; i < count && failures < FAILURES_MAX; i++) {
        failures += !run_one(first + i, wire, argv[0], count == 1);
        steps += sim.step;
        ns += sim.now_ns;
        completions += sim.completions;
        deliveries += sim.deliveries;
        commands += sim.commands;
        connections += sim.ended_connections;
        faults += sim.faults;
    }
    printf("%" PRIu64 " seeds, %u failed: %" PRIu64 " connections, %" PRIu64
           " completions, %" PRIu64 " deliveries, %" PRIu64 " commands, %" PRIu64
           " faults, %" PRIu64 " steps, %" PRIu64 " s of virtual time\n",
           count, failures, connections, completions, deliveries, commands, faults, steps,
           ns / NS_PER_S);
    return failures == 0 ? 0 : 1;
}
