// Paths of the system's devices, as programs spell them, and where the same lies in the tree of
// this process. Where the system has such devices of its own they are not to be seen: a program on
// weft's libraries cannot use them.
//
//     /sys/class/infiniband, /sys/class/infiniband_verbs, where links from there lead
//     (/sys/devices/virtual/weft), /dev/infiniband, and all within
//
// preload.c stands before the calls of libc that take one.
#pragma once

#include <stdbool.h>

enum { PATHS_MAX = 512 }; // longer ones are not among them

// What to use in place of `path`; NULL, and any other path, is its own answer, which costs a few
// comparisons. The tree is made when it is first needed. From any thread.
const char *paths_look(const char *path, char room[PATHS_MAX]);
