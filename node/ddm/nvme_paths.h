// All paths to one namespace: read from a volume's address, met, lost and met again, and the one
// that commands go by. The driver (nvme.c) has the commands.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <weft/nvme.h>

#include "base/list.h"
#include "base/time.h"
#include "base/why.h"
#include "node/ddm/nvme_path.h"
#include "node/ddm/nvme_way.h"
#include "node/interface/rta_ddm.h"

enum { NVME_PATH_COUNT_MAX = 8 };

struct nvme_paths {
    const struct ddm_host *host; // of the driver: clock and say
    duration_ns patience;        // of commands that have no path
    struct nvme_path each[NVME_PATH_COUNT_MAX];
    struct nvme_way ways[NVME_PATH_COUNT_MAX]; // what is known of each
    unsigned count;
    int in_use;                   // the path that commands go by; -1: none
    int last_in_use;              // the one that was named last
    struct nvme_path_facts facts; // of the path that was met first; the namespace as it is now
    int epoll_fd;                 // the controllers' descriptors, and wake_fd
    int wake_fd;                  // a path's thread has come to its end
    bool has_more;                // to be polled
    instant_ns now;               // of this poll
    instant_ns give_up_at;        // no path: commands fail from then on
};

// Reads the object, paths=, depth= and so on, and meets the first path that can be met; the others
// by and by. `host` stays the caller's and alive. 0, or a negative errno with the reason; in both
// cases nvme_paths_close follows.
int nvme_paths_open(struct nvme_paths *paths, const char *scheme, const struct ddm_target *target,
                    const struct ddm_host *host, struct why *ret_why);
void nvme_paths_close(struct nvme_paths *paths);

// Takes what has come by all paths; then what that says of them: which are met, lost, in use.
// Changes whose path is quiet now are put before what is in `held`.
void nvme_paths_poll(struct nvme_paths *paths, instant_ns now, struct list_link *held);
instant_ns nvme_paths_next_deadline(const struct nvme_paths *paths);

// Asks for the namespace's size, which may have changed. Blocks.
void nvme_paths_size_look(struct nvme_paths *paths);

// A command that went by this path was carried out; or was not, for the path failed.
void nvme_paths_heard(struct nvme_paths *paths, unsigned path);
void nvme_paths_failed(struct nvme_paths *paths, unsigned path);
