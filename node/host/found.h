// Volumes that the operator names by a pattern: which of them there are now.
#pragma once

#include "node/host/host.h"

// Appends the volumes that `wish` finds, in the order of their names, or itself if it is no
// pattern.
// A folder that cannot be read, and files that are too many or have too long a path, are said with
// `say`; the rest is served. 0, or -EEXIST or -ENOMEM of what is no pattern.
int found_add(struct host_config *to, const struct volume_wish *wish,
              void (*say)(void *ctx, const char *line), void *ctx);
