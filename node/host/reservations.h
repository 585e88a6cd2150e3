// What of the volumes' reservations outlives the node, in a file: read once at the start, written
// anew by a thread of its own whenever a client waits for that, so that the node waits for no disk.
//
// The file is replaced as a whole: written beside, made stable, renamed; then the folder is made
// stable.
#pragma once

#include <stdint.h>

#include "base/why.h"
#include "node/cta/cta.h"
#include "node/loop/loop.h"
#include "node/reservation/store.h"

struct host_reservations;

// `path`: empty, and none outlives the node. NULL with the reason: the file cannot be read, or is
// not one of these, or there is no memory.
struct host_reservations *host_reservations_create(struct loop *loop, const char *path,
                                                   struct why *ret_why);
// What was to be written has been. NULL is allowed.
void host_reservations_destroy(struct host_reservations *reservations);

struct reservation_store *host_reservations_store(struct host_reservations *reservations);

// As cta_parts.reservations_store, with the reservations as context; who is told later is `cta`.
uint64_t host_reservations_write(void *ctx);
void host_reservations_tell(struct host_reservations *reservations, struct cta *cta);
