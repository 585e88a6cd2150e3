// Somebody else has the image, and lives: how he is waited for when it is opened, and what the host
// hears of it. A node that may stand by waits for as long as it takes, and the volume stands by.
//
// Threads: one at a time.
#pragma once

#include <stdbool.h>

#include <weft/ddm.h>

#include "node/rbd/fence.h"
#include "node/rbd/profile.h"
#include "node/rbd/spec.h"

struct waiting {
    const struct weft_ddm_host *host;
    const struct ceph_spec *spec;
    const struct image_facts *facts; // true by the time that somebody is waited for
};

// `is_first`: in the driver's open; else nobody is waited for. It is the caller's, and has
// `waiting` in its hand.
struct fence_patience waiting_patience(struct waiting *waiting, bool is_first);
