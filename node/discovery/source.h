// A source of volumes: something that is asked, again and again, which volumes there are. It is
// named by a URI that stands for several of them:
//
//     folder.c    [FILTER+]glob:FOLDER/PATTERN        files and disks; told of by inotify
//     remote.c    [FILTER+]iscsi://HOST/PATTERN       targets of an iSCSI portal and their units
//                 [FILTER+]nvme+tcp://HOST/PATTERN    what an NVMe discovery service knows, over
//                 [FILTER+]nvme+rdma://HOST/PATTERN   TCP and RDMA; told of by its events
//
// Whoever has sources looks at what each has, and looks again when he is told to. None of them
// blocks: what is asked over a network is asked by a process of its own (envoy.h).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/why.h"
#include "node/interface/uma_rta.h"
#include "node/interface/volume.h"
#include "node/loop/loop.h"

struct folders;

// Who has them, as they see him.
struct source_host {
    struct loop *loop;
    void *ctx;
    // What a source has is otherwise than when it was looked at last; it is looked at later.
    void (*on_change)(void *ctx);
    void (*say)(void *ctx, const char *line);
    // Is the target of this name (an IQN or NQN) one that he serves himself?
    bool (*is_own)(void *ctx, const char *target);
    // Is a volume of this lineage made of one that he serves?
    bool (*is_of_own)(void *ctx, const struct volume_lineage *lineage);
    struct folders *folders; // what sources that are folders share; NULL: none is watched yet
};

// A volume that a source has.
struct source_found {
    const char *name; // as a volume may be called; not always that of no other
    const char *uri;  // of one device
};

typedef void source_seen(void *ctx, const struct source_found *found);

// How a source is doing.
struct source_status {
    const char *state; // "read", "asking", "waiting"
    const char *why;   // why it could not be read last; empty: it could
    size_t volumes, left_out;
    size_t unasked; // targets that could not be asked
    size_t own;     // units and targets of whoever asks: they are not among its volumes
    uint64_t readings, failures;
};

// A source begins with this.
struct source {
    const struct source_kind *kind;
};

struct source_kind {
    // Is this what the URI names?
    bool (*is)(const char *uri);
    // Takes it apart. 0, and the URI of one volume that it could stand for; or -EINVAL with the
    // reason.
    int (*check)(const char *uri, char ret_one[UNIT_URI_MAX], struct why *ret_why);
    // Begins to ask, and to listen to what it tells. NULL without memory.
    struct source *(*open)(struct source_host *host, const char *uri);
    // Has it asked anew. NULL: it is asked whenever it is looked at.
    void (*ask)(struct source *source);
    // Has it answered, or failed, since it was to be asked? NULL: it does so at once.
    bool (*is_settled)(const struct source *source);
    // What it has, in an order that is always the same. How many it leaves out.
    size_t (*each)(struct source *source, source_seen *seen, void *ctx);
    void (*status)(const struct source *source, struct source_status *ret);
    void (*close)(struct source *source);
};

extern const struct source_kind source_folder, source_remote;
