// Where this process's tree lies, and how long: a folder of its own in the user's runtime folder
// (control/runtime.h), or in /tmp/weft-UID where there is none. It is made on first use and locked
// for as long as this process or a child of its forks lives; who ends last removes it. What
// processes that were killed have left behind goes when the next one makes its own.
#pragma once

#include <stdbool.h>

#include "view/identity.h"

enum { PLACE_PATH_MAX = 160 }; // leaves room for what stands within (view/tree.h)

// The root of the tree, there or not; the same in every call. "" if it would be too long. From any
// thread; opens nothing.
const char *place_root(void);

// Makes it, with the devices of these wires, one bit each. False: it cannot be, or is not wanted
// (wires.h), and nothing is there. The first call counts. From any thread.
bool place_make(unsigned wires);
