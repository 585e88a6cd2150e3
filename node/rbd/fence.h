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
// have written what is newer. So a keepsake says whose the lock was last here, and whose record was
// with the image. Who takes the lock adds itself before it does anything, and may be killed at any
// point, as often as one likes:
//
//     who has the lock   whose record   what has happened since
//     last               record         nothing
//     nobody             record         its lock was broken, if there is a next
//     next               record         next has taken it
//     next               next           and has left its record
//
// All else is somebody else's doing. The past is broken then, and remains so for successors, until
// nothing is left to be submitted again. It is broken too where a client that is none of ours
// watches the image, before the lock is taken or behind: between our breaking a lock and our
// taking it everybody may have it, and who gives it back at our request leaves no trace but that.
//
// Threads: one at a time.
#pragma once

#include <rados/librados.h>
#include <rbd/librbd.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/ddm.h>

#include "base/time.h"
#include "base/why.h"

enum {
    FENCE_ADDRESS_MAX = 128,
    FENCE_HERE_MAX = 96,
    FENCE_PROCESS_COUNT_MAX = 64, // more than are killed in the 30 s that their watches last
};

struct fence_past {
    char record[FENCE_ADDRESS_MAX]; // whose was with the image; empty: the past is broken
    char last[FENCE_ADDRESS_MAX];   // had the lock; empty: nobody of ours
    char next[FENCE_ADDRESS_MAX];   // is taking it; empty: nobody is
};

// The keepsake.
struct fence_kept {
    struct fence_past past;
    uint64_t count; // of processes of this volume that have opened the image
    char processes[FENCE_PROCESS_COUNT_MAX][FENCE_ADDRESS_MAX]; // the last of them, a ring
};

struct fence {
    int socket_fd;             // -1: not yet held
    int past_fd;               // a struct fence_kept
    char here[FENCE_HERE_MAX]; // where the socket's name is the only one: this boot, this network
    char self[FENCE_ADDRESS_MAX]; // from fence_begin on
};

// With the keepsake of a predecessor, which becomes the fence's, or -1. 0 or a negative errno.
int fence_init(struct fence *fence, int keepsake);
void fence_fini(struct fence *fence);

// This process is one of the volume's, by its address at the cluster. Before it opens the image,
// which it watches from then on, and for 30 s after it was killed. 0 or a negative errno.
int fence_begin(struct fence *fence, rados_t cluster);

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

// Takes the lock, with an image that was opened after fence_begin. `ret_is_unbroken`: nobody else
// has had it since this volume had. 0, -EBUSY, or another negative errno, with the reason.
int fence_take(struct fence *fence, rados_t cluster, rbd_image_t image,
               const struct fence_patience *patience, bool *ret_is_unbroken, struct why *ret_why);

// Nothing is left that a predecessor had no answer for, so a past that was broken is whole again
// from here on. The lock is ours. 0 or a negative errno.
int fence_settle(struct fence *fence);
