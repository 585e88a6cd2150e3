// What a URI says of an image: POOL[/NAMESPACE]/IMAGE[@SNAPSHOT], and its parameters.
#pragma once

#include <stdint.h>

#include <weft/ddm.h>

#include "base/time.h"
#include "base/why.h"

enum { CEPH_NAME_MAX = 112, CEPH_PATH_MAX = 512, CEPH_DEPTH_MAX = 1024 };

struct ceph_spec {
    char pool[CEPH_NAME_MAX];
    char space[CEPH_NAME_MAX]; // the namespace; empty: the pool's own
    char image[CEPH_NAME_MAX];
    char snapshot[CEPH_NAME_MAX]; // empty: the image itself
    char conf[CEPH_PATH_MAX];     // empty: where Ceph looks for it
    char keyring[CEPH_PATH_MAX];  // empty: as the configuration says
    char id[CEPH_NAME_MAX];       // client.ID
    uint64_t create_len;          // octets of an image to be made where there is none; 0: none
    duration_ns patience;         // a command that the cluster has not answered fails then
    duration_ns wait;             // how long the lock of somebody else is waited for
    uint32_t depth;
};

// The keys, ended by NULL.
extern const char *const ceph_spec_keys[];

// 0, or -EINVAL with the reason.
int ceph_spec_parse(const struct weft_ddm_target *target, struct ceph_spec *ret,
                    struct why *ret_why);
