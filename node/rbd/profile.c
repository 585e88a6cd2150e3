#include "node/rbd/profile.h"

#include <stdio.h>

enum {
    BLOCK_LEN = 512,
    TRANSFER_MAX = 32 << 20,
    RANGE_MAX = 1 << 30, // librbd counts a range in an int
};

void profile_put(const struct image_facts *facts, const struct ceph_spec *spec, bool is_read_only,
                 struct weft_ddm_profile *ret)
{
    ret->volume_len = facts->len;
    ret->abilities = is_read_only ? 0
                                  : WEFT_DDM_CAN_WRITE | WEFT_DDM_CAN_FUA | WEFT_DDM_CAN_TRIM |
                                        WEFT_DDM_CAN_WRITE_ZEROES | WEFT_DDM_CAN_ZERO_FAST;
    ret->block_len = BLOCK_LEN;
    ret->alignment = 1;
    ret->preferred_len = 4096;
    ret->transfer_max = TRANSFER_MAX;
    ret->range_max = RANGE_MAX;
    ret->depth = spec->depth;
    snprintf(ret->model, sizeof ret->model, "ceph");
    snprintf(ret->origin, sizeof ret->origin, "%s", facts->place);
    snprintf(ret->instance, sizeof ret->instance, "%s", facts->instance);
}
