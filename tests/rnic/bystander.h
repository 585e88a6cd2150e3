// A connection of the device under attack that has nothing to do with the attack: it writes and
// reads back verified data all the while. Whatever hostile peers do elsewhere, it goes on.
#pragma once

#include "tests/rnic/device.h"

enum { BYSTANDER_LEN = 8 * 1024 }; // the first octets of the device's buffer are its own

struct bystander {
    struct device own; // where it connects from
    struct end listener, active, passive;
    pthread_t thread;
    atomic_uint rounds;
    atomic_bool is_over;
};

void bystander_start(struct bystander *b, struct device *under_attack);
// Fails unless it gets some rounds further from here on.
void bystander_expect_progress(struct bystander *b);
void bystander_stop(struct bystander *b);
