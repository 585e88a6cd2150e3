// A bus for tests: two queues of frames that may lose some and repeat others, by a seed.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/prng.h"
#include "node/interface/cta_rta.h"

enum { FAKE_QUEUE_MAX = 4096 };

struct fake_bus;

struct fake_end {
    struct fake_bus *bus;
    unsigned to;    // the queue it sends to
    unsigned rings; // it has rung so often
};

struct fake_bus {
    struct prng prng;
    uint32_t lose;   // of a hundred
    uint32_t repeat; // of a hundred
    unsigned count[2];
    struct frame queue[2][FAKE_QUEUE_MAX];
    struct fake_end cta, rta;
    uint64_t lost, repeated;
};

static inline void fake_bus_init(struct fake_bus *bus, uint64_t seed, uint32_t lose,
                                 uint32_t repeat)
{
    memset(bus, 0, sizeof *bus);
    prng_init(&bus->prng, seed);
    bus->lose = lose;
    bus->repeat = repeat;
    bus->cta = (struct fake_end){.bus = bus, .to = 1};
    bus->rta = (struct fake_end){.bus = bus, .to = 0};
}

static inline void fake_bus_put(struct fake_bus *bus, unsigned queue, const struct frame *frame)
{
    if (bus->count[queue] < FAKE_QUEUE_MAX) {
        bus->queue[queue][bus->count[queue]++] = *frame;
    }
}

static inline bool fake_bus_send(void *ctx, const struct frame *frame)
{
    struct fake_end *end = ctx;
    struct fake_bus *bus = end->bus;
    if (prng_below(&bus->prng, 100) < bus->lose) {
        bus->lost++;
        return true;
    }
    fake_bus_put(bus, end->to, frame);
    if (prng_below(&bus->prng, 100) < bus->repeat) {
        bus->repeated++;
        fake_bus_put(bus, end->to, frame);
    }
    return true;
}

static inline void fake_bus_ring(void *ctx)
{
    ((struct fake_end *)ctx)->rings++;
}

static inline bool fake_bus_receive(void *ctx, struct frame *ret)
{
    struct fake_end *end = ctx;
    struct fake_bus *bus = end->bus;
    unsigned from = 1 - end->to;
    if (bus->count[from] == 0) {
        return false;
    }
    *ret = bus->queue[from][0];
    bus->count[from]--;
    memmove(bus->queue[from], bus->queue[from] + 1, bus->count[from] * sizeof *ret);
    return true;
}

static inline struct frame_port fake_bus_port(struct fake_end *end)
{
    return (struct frame_port){
        .ctx = end, .send = fake_bus_send, .ring = fake_bus_ring, .receive = fake_bus_receive};
}
