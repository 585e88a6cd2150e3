// Memory that processes share: a memfd whose size is sealed, so that no process can take pages away
// from under another.
#pragma once

#include <stdint.h>

struct segment {
    void *ptr;
    uint64_t len;
    int fd;
};

// All zero. 0 or a negative errno.
int segment_create(const char *name, uint64_t len, struct segment *ret);

// The same in place of what is mapped there. NULL: anywhere.
int segment_create_at(const char *name, uint64_t len, void *place, struct segment *ret);

// Maps what another process created; the descriptor becomes the segment's, also on failure.
// -EPERM: its size is not sealed.
int segment_open(int fd, struct segment *ret);

// Zeroes are allowed.
void segment_close(struct segment *segment);
