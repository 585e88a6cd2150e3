// What an image is, and what a volume of it can do.
//
// Threads: any.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <weft/ddm.h>

#include "node/rbd/spec.h"

// As of the last look.
struct image_facts {
    uint64_t len;
    char place[WEFT_DDM_ORIGIN_MAX];      // FSID/POOL/NAMESPACE/IMAGE@SNAPSHOT
    char instance[WEFT_DDM_INSTANCE_MAX]; // the image's own number
};

void profile_put(const struct image_facts *facts, const struct ceph_spec *spec, bool is_read_only,
                 struct weft_ddm_profile *ret);
