// Memory that two processes share: a memfd whose size is sealed, so that nobody can take pages away
// under the other. Its pages come into being when they are first written; the child of a fork has
// none of it.
#pragma once

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010 // Linux 5.1
#endif

enum {
    LOCAL_SEALED_LEN = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
    LOCAL_SEALED_TO_READ = LOCAL_SEALED_LEN | F_SEAL_FUTURE_WRITE, // whoever maps it from now on
};

// New, zeroed and then sealed so. The descriptor is the caller's to hand over and to close, the
// memory to unmap. 0 or a negative errno.
int local_sealed_create(const char *name, size_t len, int seals, uint8_t **ret, int *ret_fd);
// Has it that length, and all of these seals?
bool local_sealed_is(int fd, size_t len, int seals);
// What somebody hands over, to be written by both; the descriptor stays the caller's. -EINVAL: it
// has another length, or its seals leave somebody free to change that.
int local_sealed_adopt(int fd, size_t len, uint8_t **ret);
void local_sealed_release(uint8_t *memory, size_t len);
