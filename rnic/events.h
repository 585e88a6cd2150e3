// Completion events on their way to the fronts. While a batch of octets is taken in they are kept,
// and told behind it: the program that is woken finds all that it brought, and is woken once. Else
// it runs beside the rest, arms, and sleeps again, many times for one batch.
#pragma once

#include "cq/cq.h"

struct rnic_cq;
struct shard;

// For the engine's half of a completion queue, which has its device and the front's port. The guard
// is the caller's to set.
struct cq_port events_port(struct rnic_cq *cq);

// Lock held. From here on events are kept ...
void events_keep(struct shard *shard);
// ... and no longer; those that were are told.
void events_tell(struct shard *shard);
