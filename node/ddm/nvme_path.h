// One way to a namespace: a controller of its subsystem. It is met, which blocks, by a thread of
// its own, so that commands go on by other ways meanwhile; it is lost; it is met again.
//
//     path->state      due        met       refused    lost
//     DOWN             MEETING    UP (1)    DOWN (1)   -
//     MEETING          -          UP        DOWN       -
//     UP               -          -         -          DOWN
//
// (1) by nvme_path_meet, which blocks itself.
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/nvme.h>

#include "base/list.h"
#include "base/time.h"
#include "base/why.h"
#include "node/ddm/nvme_way.h"
#include "node/interface/volume.h"

enum nvme_path_state { NVME_PATH_DOWN, NVME_PATH_MEETING, NVME_PATH_UP, NVME_PATH_STATE_COUNT };

// What its controller said of itself and of the namespace when it was met.
struct nvme_path_facts {
    struct weft_nvme_info info;
    struct weft_nvme_namespace ns;
    struct volume_lineage lineage; // empty: it tells none
    uint64_t range_max;            // octets that trim and write zeroes can both name
};

struct nvme_path {
    struct weft_nvme_address address; // with the namespace, if it is named
    char name[WEFT_NVME_NAME_MAX + WEFT_NVME_PORT_MAX];
    unsigned depth, keep_alive_ms;
    int wake_fd; // an eventfd: something has come of meeting

    enum nvme_path_state state;
    struct weft_nvme *controller; // UP
    struct nvme_path_facts facts;
    int error; // of the last meeting
    struct why why;
    instant_ns meet_at;      // DOWN: to be met
    bool has_complained;     // of not meeting, since it was lost
    struct list_link unsure; // changes that were out when it was lost, until it is quiet

    pthread_t thread; // MEETING
    atomic_bool has_met;
};

// `address` and `depth` are set; nothing else is.
void nvme_path_init(struct nvme_path *path, int wake_fd);
// Meets it, here and now, which blocks for a few seconds. 0, or a negative errno with `path->why`.
int nvme_path_meet(struct nvme_path *path);
// Has it met by a thread. False: there is none, so it is DOWN still.
bool nvme_path_meet_begin(struct nvme_path *path);
// Whether the thread has come to an end: then it is UP, or DOWN with `path->error`.
bool nvme_path_meet_ended(struct nvme_path *path);
// UP no more.
void nvme_path_lose(struct nvme_path *path);
// Waits for its thread.
void nvme_path_end(struct nvme_path *path);
