// MPA's start-up frames as events, and what the two sides have agreed on.
#pragma once

#include <stddef.h>

#include "base/span.h"
#include "draw/iwarp.h"

// Takes octets of the start-up phase; how many. Behind the frame `phase` is IWARP_FULL, and full
// operation is to begin; of a stream that does not begin with a frame it is IWARP_LOST.
size_t iwarp_startup_feed(struct iwarp_side *s, struct span octets);
