// The devices as files, in the order in which the kernel has them in /sys and /dev:
//
//     ROOT/devices/virtual/weft/NAME/numa_node
//                                    infiniband/NAME/node_type, ports/1/gids/0, ...
//                                    infiniband_verbs/NAME/ibdev
//                                    net/INTERFACE -> that of the system
//     ROOT/class/infiniband/NAME -> ../../devices/virtual/weft/NAME/infiniband/NAME
//     ROOT/class/infiniband_verbs/NAME, ROOT/dev/infiniband/NAME -> /dev/null
//
// Where the root lies, and how long, is view/place.h's business.
#pragma once

#include <stdbool.h>

#include "view/identity.h"

enum { TREE_PATH_MAX = 256 }; // with the terminator: what struct ibv_device has room for

// Of the device, in a tree at `root`. Nothing is looked at. False: it is longer than there is room
// for.
bool tree_device_path(const char *root, const struct identity *identity, char ret[TREE_PATH_MAX]);
bool tree_verbs_path(const char *root, const struct identity *identity, char ret[TREE_PATH_MAX]);

// Makes the device's part of the tree, whatever of it is there already. 0 or a negative errno; what
// was made stays.
int tree_make(const char *root, const struct identity *identity);
// Removes the root and all in it. Links are not followed.
void tree_remove(const char *root);
