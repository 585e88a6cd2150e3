// Folders that are watched: somebody is told, soon after something in one of them has come, gone or
// been written to its end.
#pragma once

#include "base/why.h"
#include "node/loop/loop.h"

struct folders;

// NULL without memory or descriptors.
struct folders *folders_create(struct loop *loop, void (*on_change)(void *ctx), void *ctx);
// NULL is allowed.
void folders_destroy(struct folders *folders);

// As often as one likes of the same one. 0 or a negative errno.
int folders_watch(struct folders *folders, const char *path);
