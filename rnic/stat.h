// Counters of the device, its connections and queue pairs as one JSON object: what `weft stat`
// asks a running process for, and what WEFT_STATS_FILE holds at exit. weft-stat(1) describes the
// fields.
#pragma once

#include <stdio.h>

struct rnic;

// Takes the shard's lock while it copies the counters, and writes behind that.
void stat_write(struct rnic *rnic, FILE *out);
// Of the device's reads alone.
void stat_write_reads(struct rnic *rnic, FILE *out);
// Of so many devices, one object behind the other, to a file of that name ("%p" in it is the
// process id); a failure is named on stderr.
void stat_write_file(struct rnic *const *rnics, unsigned count, const char *path);
