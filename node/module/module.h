// Device driver modules: drivers in shared objects, by <weft/ddm.h>. They are loaded into the
// process of an RTA and into no other. This turns interface 320 into theirs.
#pragma once

#include "base/time.h"
#include "base/why.h"
#include "node/interface/rta_ddm.h"
#include "node/module/load.h"

// The row of a driver that is an object of the operator's: module:PATH.
extern const struct ddm_driver ddm_module;

// Opens a device with a driver that has been loaded. `row` is that of the registry which it stands
// for. 0, or a negative errno with the reason.
int module_open(const struct weft_ddm_driver *driver, const struct ddm_driver *row,
                const struct ddm_target *target, const struct ddm_host *host, struct ddm **ret,
                struct why *ret_why);

// The operations on what was opened, for such rows.
int module_probe(struct ddm *ddm, struct volume_profile *ret);
int module_submit(struct ddm *ddm, struct ddm_command *command);
void module_flush_queue(struct ddm *ddm);
int module_poll_fd(struct ddm *ddm);
instant_ns module_next_deadline(struct ddm *ddm);
void module_poll(struct ddm *ddm, instant_ns now);
void module_drain(struct ddm *ddm);
void module_close(struct ddm *ddm);
