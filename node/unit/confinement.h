// What the process of an RTA may do of the system, so that a driver which fails, or means harm,
// does it to its own volumes.
//
// Every process, from its start:
//     no new privileges; of capabilities those alone with which devices are opened;
//     a seccomp list of calls that no driver needs, and that reach other processes or the system;
//     Landlock, where there: no program is executed, no process outside is signalled or traced.
//
// One that serves a single device, when that is open:
//     of capabilities those alone that the driver names, mostly none;
//     a seccomp list of all that it may call: what every RTA needs, and what its driver names;
//     Landlock, where there: no file is opened any more, unless the driver has some to read.
//
// What is refused fails with EPERM (Landlock: EACCES), it ends nothing. Builds with sanitizers,
// whose runtimes trace and start processes, are not confined.
#pragma once

#include <stdint.h>

#include "node/interface/rta_ddm.h"

// Before the process hears of any device, and has threads. The version of Landlock that is in
// force; 0: none. Says on standard error what the system does not let it give up.
uint32_t confinement_begin(void);

// When the chain's device is open, and none other will be. Nothing happens with a driver whose
// calls nobody knows. Threads that it has are held by the list; capabilities are this one's.
void confinement_narrow(const struct ddm *chain);

// The same of a process that drives no device, asks over a network by these calls, looks names up
// and has threads.
void confinement_narrow_to(const char *const *calls);

// So many octets of its own, and no more, whatever strangers send it.
void confinement_limit_memory(uint64_t len);
