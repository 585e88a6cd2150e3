// Which connection a packet of RoCE is of.
#pragma once

#include <stdbool.h>

#include "draw/registry.h"

// False: of none (a message of the connection manager about none that was seen begin, a
// notification of congestion), it cannot be read, or there is no room.
bool registry_roce_find(struct registry *r, const struct frame *f, struct registry_sighting *ret);
