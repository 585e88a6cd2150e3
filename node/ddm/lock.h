// The lock (flock) on the very file description that a driver's I/O goes through. It keeps others
// of weft away, and the kernel gives it up when the last reference to the description goes. Each
// I/O under way holds one; so who gets the lock knows that a process that was killed writes no
// more.
#pragma once

#include "node/interface/rta_ddm.h"

// Takes the lock, shared if the device is opened read-only. After a restart it waits for as long as
// the predecessor's I/O goes on, and says so once; otherwise -EBUSY after a second. `driver` is for
// that line.
int lock_take(int fd, const struct ddm_host *host, const char *driver);

// For a device that several nodes may serve: takes the lock if it is free, or -EBUSY at once; and
// waits until nobody else has it.
int lock_try(int fd, const struct ddm_host *host);
int lock_wait(int fd, const struct ddm_host *host);
