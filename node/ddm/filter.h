// What filters do by default: the same as the DDM that they stand before.
#pragma once

#include "base/time.h"
#include "node/interface/rta_ddm.h"

int filter_probe(struct ddm *ddm, struct volume_profile *ret);
int filter_submit(struct ddm *ddm, struct ddm_command *command);
void filter_flush_queue(struct ddm *ddm);
int filter_poll_fd(struct ddm *ddm);
instant_ns filter_next_deadline(struct ddm *ddm);
void filter_poll(struct ddm *ddm, instant_ns now);
void filter_drain(struct ddm *ddm);
// Closes the next one, and frees the filter.
void filter_close(struct ddm *ddm);

// A new filter of `size` octets, the rest zero, before `next`. NULL without memory.
struct ddm *filter_create(size_t size, const struct ddm_driver *driver, const struct ddm_host *host,
                          struct ddm *next);
