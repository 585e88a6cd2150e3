// One connection with a cluster and one image opened by it, with its lock where it is written to.
// A client that has been blocklisted stays so: for another try all of it is made anew.
//
// Threads: one at a time, and all of these block. What weft calls of the driver does not
// (driver.c).
#pragma once

#include <rados/librados.h>
#include <rbd/librbd.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/ddm.h>

#include "base/why.h"
#include "node/rbd/fence.h"
#include "node/rbd/profile.h"
#include "node/rbd/spec.h"

struct session {
    rados_t cluster;
    rados_ioctx_t pool;
    rbd_image_t image; // NULL: none
    bool has_lock;     // or none is needed: it is only read
    bool is_unbroken;  // as of fence_take
    struct image_facts facts;
};

struct session_wish {
    const struct ceph_spec *spec;
    struct fence *fence; // NULL: to be read only
    bool may_create;
    struct fence_patience patience; // with somebody else who has it
};

// 0, also without the lock: `ret_why` then says whose it is, or a negative errno with the reason
// and nothing left open. The facts are there before somebody else is waited for.
int session_open(const struct session_wish *wish, struct session *ret, struct why *ret_why);

// Gives the lock up. Nothing is under way.
void session_close(struct session *session);
