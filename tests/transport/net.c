// Packets on their way. What becomes of one is drawn when it is put: it may be lost, come more than
// once, and come behind what was put later.
#include <stdlib.h>

#include "tests/transport/transport.h"

static const duration_ns delay_max_ns = 1000;

static void put_one(struct world *world, const struct packet *packet)
{
    struct packet *copy = malloc(sizeof *copy);
    *copy = *packet;
    copy->at = world->now + 1 + prng_below(&world->prng, (uint32_t)delay_max_ns);
    struct packet **place = &world->packets;
    while (*place != NULL && (*place)->at <= copy->at) {
        place = &(*place)->next;
    }
    copy->next = *place;
    *place = copy;
}

void net_put(struct world *world, const struct packet *packet, unsigned loss, unsigned repeat)
{
    if (prng_below(&world->prng, 1024) < loss) {
        world->trouble.lost++;
        return;
    }
    put_one(world, packet);
    while (prng_below(&world->prng, 1024) < repeat) {
        world->trouble.repeated++;
        put_one(world, packet);
    }
}

instant_ns net_next(const struct world *world)
{
    return world->packets != NULL ? world->packets->at : INSTANT_NEVER;
}

struct packet net_take(struct world *world)
{
    struct packet *first = world->packets, packet = *first;
    world->packets = first->next;
    world->now = packet.at;
    free(first);
    return packet;
}

void net_clear(struct world *world)
{
    while (world->packets != NULL) {
        net_take(world);
    }
}
