// A capture, packet by packet, told as the story of some of its connections.
//
// It is read twice: a registry (draw/registry.h) sees all packets first; then, with the connections
// chosen, a telling sees them again, and follows those alone. Its memory is that of the story and a
// window for each direction, whatever the capture.
//
//   registry_create, registry_see …   telling_create, telling_see …   telling_finish
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "draw/frame.h"
#include "draw/picture.h"
#include "draw/registry.h"
#include "draw/story.h"

struct telling_part;

struct telling {
    struct registry again; // numbers packets of connections as the first reading did
    struct story story;
    struct telling_part *part[STORY_CONNECTION_MAX];
    unsigned part_count;
};

// `index` are the connections of the first reading that are told of, at most STORY_CONNECTION_MAX.
// False: no memory.
bool telling_create(struct telling *t, const struct registry *first, const uint32_t *index,
                    unsigned count, const struct story_bounds *bounds);
void telling_destroy(struct telling *t);

// A packet that the first reading saw too, in the same order.
void telling_see(struct telling *t, const struct capture_packet *packet, const struct frame *f);

// Nothing more comes: what is drawn, but for its title. It lasts as long as the telling.
void telling_finish(struct telling *t, struct picture *ret);
