// What the fence asks of librbd, for tests that stand in for a cluster themselves.
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef void *rbd_image_t;
typedef enum { RBD_LOCK_MODE_EXCLUSIVE = 0, RBD_LOCK_MODE_SHARED = 1 } rbd_lock_mode_t;

typedef struct {
    char *addr;
    int64_t id;
    uint64_t cookie;
} rbd_image_watcher_t;

int rbd_metadata_get(rbd_image_t image, const char *key, char *value, size_t *ret_len);
int rbd_metadata_set(rbd_image_t image, const char *key, const char *value);
int rbd_lock_get_owners(rbd_image_t image, rbd_lock_mode_t *ret_mode, char **ret_owners,
                        size_t *max_count);
void rbd_lock_get_owners_cleanup(char **owners, size_t count);
int rbd_lock_break(rbd_image_t image, rbd_lock_mode_t mode, const char *owner);
int rbd_lock_acquire(rbd_image_t image, rbd_lock_mode_t mode);
int rbd_watchers_list(rbd_image_t image, rbd_image_watcher_t *watchers, size_t *max_count);
void rbd_watchers_list_cleanup(rbd_image_watcher_t *watchers, size_t count);
