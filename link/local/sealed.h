// Memory that two processes share: a memfd whose size is sealed, so that nobody can take pages away
// under the other. Its pages come into being when they are first written; the child of a fork has
// none of it.
#pragma once

#include <stddef.h>
#include <stdint.h>

// New and zeroed. The descriptor is the caller's to hand over and to close, the memory to unmap. 0
// or a negative errno.
int local_sealed_create(const char *name, size_t len, uint8_t **ret, int *ret_fd);
// What somebody hands over; the descriptor stays the caller's. -EINVAL: it has another length, or
// its seals leave somebody free to change that.
int local_sealed_adopt(int fd, size_t len, uint8_t **ret);
void local_sealed_release(uint8_t *memory, size_t len);
