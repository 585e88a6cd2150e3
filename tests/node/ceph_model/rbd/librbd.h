// What the fence and commands ask of librbd, for tests that stand in for a cluster themselves.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

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

typedef void *rbd_completion_t;
typedef void (*rbd_callback_t)(rbd_completion_t completion, void *arg);

enum { EVENT_TYPE_EVENTFD = 1, RBD_WRITE_ZEROES_FLAG_THICK_PROVISION = 1 };

int rbd_set_image_notification(rbd_image_t image, int fd, int type);
int rbd_poll_io_events(rbd_image_t image, rbd_completion_t *completions, int max_count);
int rbd_aio_create_completion(void *arg, rbd_callback_t callback, rbd_completion_t *ret);
void *rbd_aio_get_arg(rbd_completion_t completion);
ssize_t rbd_aio_get_return_value(rbd_completion_t completion);
void rbd_aio_release(rbd_completion_t completion);
int rbd_aio_read(rbd_image_t image, uint64_t offset, size_t len, char *buf, rbd_completion_t c);
int rbd_aio_write(rbd_image_t image, uint64_t offset, size_t len, const char *buf,
                  rbd_completion_t c);
int rbd_get_size(rbd_image_t image, uint64_t *ret);
int rbd_aio_flush(rbd_image_t image, rbd_completion_t c);
int rbd_aio_discard(rbd_image_t image, uint64_t offset, uint64_t len, rbd_completion_t c);
int rbd_aio_write_zeroes(rbd_image_t image, uint64_t offset, size_t len, rbd_completion_t c,
                         int zero_flags, int op_flags);
