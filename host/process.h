// The one RNIC of a process.
#pragma once

#include "rnic/rnic.h"

// Brought up on first use (a thread, an epoll set, the control socket); NULL with *ret_error a
// negative errno when the environment refuses. The child of a fork gets one of its own: objects of
// the parent's answer -EIO there and may still be destroyed. From any thread.
struct rnic *host_rnic(int *ret_error);
