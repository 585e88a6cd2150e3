// The link that the settings of this process ask for.
#pragma once

#include <sys/types.h>

#include "base/port_link.h"
#include "base/trace.h"
#include "host/settings.h"

// The link, with what is to stand before it. 0 or a negative errno. A capture that cannot be
// written is named on stderr, and left out.
int host_link_create(const struct host_settings *settings, struct trace *trace, struct link **ret);
// This thread of a peer holds memory that is taken back, for long: on stderr.
void host_say_who_is_waited_for(pid_t process, pid_t thread);
// A tap interface cannot be had (`error`, a negative errno): why, on stderr, and what to do.
void host_tap_say_refused(const char *interface, int error);
