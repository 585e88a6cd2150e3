// A reading of a source, in an envoy's process, which may block: what is heard is reported at once.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"
#include "node/discovery/remote_uri.h"
#include "node/interface/volume.h"

struct asking {
    const struct remote_uri *uri;
    int channel;
    instant_ns until; // what has not been asked by then is kept
    uint32_t units, left_out;
};

// May more be asked?
bool asking_has_time(const struct asking *asking);
// Are there as many volumes as there may be?
bool asking_is_full(const struct asking *asking);
// Does the pattern match the target's name?
bool asking_wants(const struct asking *asking, const char *target);

void asking_begin(const struct asking *asking);
// A unit of a target, at `where` (empty: where it was asked), with what it tells of what it is made
// of. It is left out if it is one too many.
void asking_unit(struct asking *asking, const char *where, const char *target, uint32_t number,
                 const struct volume_lineage *lineage);
// A target that could not be asked, and why: what it had last stands.
void asking_keep(const struct asking *asking, const char *target, const char *why);
// All has been reported; or it was in vain, with the reason.
void asking_end(const struct asking *asking, int error, const char *why);
