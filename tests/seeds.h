// A test that is run once per seed: all of them, $SEEDS of them, or only $SEED; with both, $SEEDS
// from $SEED on. How many is printed; a failure names the seed that replays.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

struct seeds {
    void (*run)(uint64_t seed);
    uint64_t count;
    uint64_t seed; // the present one
    bool is_done;
};

static inline uint64_t seeds_number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 0) : otherwise;
}

static inline void seeds_each(void **state)
{
    struct seeds *seeds = *state;
    uint64_t first = seeds_number("SEED", 1);
    uint64_t count = seeds_number("SEEDS", getenv("SEED") != NULL ? 1 : seeds->count);
    for (seeds->seed = first; seeds->seed < first + count; seeds->seed++) {
        seeds->run(seeds->seed);
    }
    seeds->is_done = true;
    print_message("# %llu seeds, from %llu on\n", (unsigned long long)count,
                  (unsigned long long)first);
}

static inline int seeds_name_the_failed(void **state)
{
    const struct seeds *seeds = *state;
    if (!seeds->is_done) {
        print_error("replay with SEED=%llu\n", (unsigned long long)seeds->seed);
    }
    return 0;
}

// The whole of main: one test, seeds 1 to `count`.
static inline int seeds_main(const char *name, void (*run)(uint64_t seed), uint64_t count)
{
    struct seeds seeds = {.run = run, .count = count};
    const struct CMUnitTest tests[] = {{.name = name,
                                        .test_func = seeds_each,
                                        .teardown_func = seeds_name_the_failed,
                                        .initial_state = &seeds}};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
