// A capture, packet by packet, told as the story of some of its connections.
//
// It is read twice: a registry (draw/registry.h) sees all packets first; then, with the connections
// chosen, a telling sees them again, and follows those alone. Its memory is that of the story and a
// window for each direction, whatever the capture.
//
// Records beside the packets (wire/journal.h) are seen twice likewise: by the owners
// (draw/owners.h), then here. They may be of two captures, one of each end.
//
//   registry_create, registry_see …   telling_create, telling_see …   telling_finish
//   owners_create, owners_see …                       telling_see_record …
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "draw/frame.h"
#include "draw/owners.h"
#include "draw/picture.h"
#include "draw/registry.h"
#include "draw/story.h"

struct telling_part;
struct works;

enum { TELLING_OWNER_MAX = 64 };

// A queue pair that is an end of a connection that is told of.
struct telling_owner {
    struct owner owner;
    unsigned part, side; // side 0 stands on the left
};

struct telling {
    struct registry again; // numbers packets of connections as the first reading did
    struct story story;
    struct telling_part *part[STORY_CONNECTION_MAX];
    unsigned part_count;
    struct telling_owner owner[TELLING_OWNER_MAX];
    unsigned owner_count;
    struct works *works;
};

// `index` are the connections of the first reading that are told of, at most STORY_CONNECTION_MAX.
// False: no memory.
bool telling_create(struct telling *t, const struct registry *first, const struct owners *owners,
                    const uint32_t *index, unsigned count, const struct story_bounds *bounds);
void telling_destroy(struct telling *t);

// A packet that the first reading saw too, in the same order.
void telling_see(struct telling *t, const struct capture_packet *packet, const struct frame *f);

// A record that the owners saw too, of their capture `origin`, between the packets it came between.
void telling_see_record(struct telling *t, unsigned origin, const struct capture_record *record);

// Nothing more comes: what is drawn, but for its title. It lasts as long as the telling.
void telling_finish(struct telling *t, struct picture *ret);
