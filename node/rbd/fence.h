// Who may write to an image: the owner of its exclusive lock. Who takes the lock of a dead owner
// has it blocklisted first, so that nothing which that one sent is carried out any more, however
// late it arrives: that is the fence.
//
// **Who is dead.** A watch of the owner's at the cluster lasts for 30 seconds after its end. Of
// owners on this machine it is known at once: each listens at a local socket while it has the
// image, and has left its address with the image before its first write. Others are believed to
// live while they watch.
//
// **What came in between.** Commands that a killed process had no answer for are submitted again
// to its successor. They must not be, if somebody else has had the lock meanwhile: his clients may
// have written what is newer. So a keepsake says whose the lock was last here, and if it was not
// so when the successor came, the past is broken.
//
// Threads: one at a time.
#pragma once

#include <rados/librados.h>
#include <rbd/librbd.h>
#include <stdbool.h>

#include <weft/ddm.h>

#include "base/time.h"
#include "base/why.h"

enum { FENCE_ADDRESS_MAX = 128, FENCE_HERE_MAX = 96, FENCE_PAST_MAX = 2 };

// The keepsake: addresses that this volume has had the lock under; while it changes hands, the one
// before and the next.
struct fence_past {
    char owners[FENCE_PAST_MAX][FENCE_ADDRESS_MAX];
};

struct fence {
    int socket_fd;             // -1: not yet held
    int past_fd;               // a struct fence_past
    char here[FENCE_HERE_MAX]; // where the socket's name is the only one: this boot, this network
};

// With the keepsake of a predecessor, which becomes the fence's, or -1. 0 or a negative errno.
int fence_init(struct fence *fence, int keepsake);
void fence_fini(struct fence *fence);

// How somebody else who has the image, and lives, is waited for.
struct fence_patience {
    duration_ns for_socket; // in fence_enter
    duration_ns for_lock;   // in fence_take
    // Once in each of the two, before it waits: who has it. NULL: nobody wants to know.
    void (*on_wait)(void *ctx, const char *who);
    void *ctx;
};

// No other process of this machine has the image, of this name in all clusters, open for writing.
// -EBUSY: there is one.
int fence_enter(struct fence *fence, const char *image, const struct fence_patience *patience);

// Takes the lock. `ret_is_unbroken`: nobody else has had it since this volume had. 0, -EBUSY, or
// another negative errno, with the reason.
int fence_take(struct fence *fence, rados_t cluster, rbd_image_t image,
               const struct fence_patience *patience, bool *ret_is_unbroken, struct why *ret_why);
