// What the page cache has, or takes, here and now, without an engine: no queue, no worker, nobody
// to wake.
//
// A read never waits (RWF_NOWAIT): what the cache has not is the engine's. Nor does a write where
// the file system can say so. Where it cannot (ext4), a short write into the cache is made all the
// same: it waits only while the kernel holds writers back, and after such a wait the engine has
// them for a time that makes waiting a small part of all. A write that took long because the
// processor was another's is no such wait.
#pragma once

#include <stdbool.h>

#include "base/time.h"
#include "node/ddm/file.h"

struct file_cache {
    int fd;
    bool reads;                    // the file system answers reads without waiting
    bool writes;                   // and writes
    bool may_wait;                 // a write may be made that cannot say whether it will wait
    instant_ns writers_wait_until; // by the engine until then
    instant_ns watched_until; // writes are looked at closely: one took long, for whatever reason
};

// `may_wait`: the caller serves nobody but this file's clients.
void file_cache_init(struct file_cache *cache, int fd, bool may_wait);

// The same file for reading alone, by a file description of its own, so that no lock and no I/O of
// `fd` is shared with who gets it. -1: it cannot be had.
int file_cache_window(int fd);

// Carries out what it can of a read or write; its result is in the job. False: it is the engine's,
// as it was.
bool file_cache_try(struct file_cache *cache, struct file_job *job);
