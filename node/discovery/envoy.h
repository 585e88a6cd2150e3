// A process of this program that does for the host what may block, or what strangers may spoil:
// asking over a network, announcing by mDNS. It is confined, and started again when it has ended,
// after pauses that grow.
//
//     state      started   ended     pause over   refused
//     WAITING    -         -         RUNNING      WAITING
//     RUNNING    -         WAITING   -            -
#pragma once

#include <stdbool.h>

#include "base/time.h"
#include "node/discovery/report.h"
#include "node/loop/loop.h"

#define ENVOY_PROCESS_COMMAND "discovery-process"

enum { ENVOY_FD_CHANNEL = 3 };

struct envoy;

// A message of the process, whose texts have ends.
typedef void envoy_on_report(void *ctx, const struct report *report);
// The process has ended, or could not be started; another one will be started.
typedef void envoy_on_end(void *ctx, const char *how);

// Each process hears the task first. Nothing is started before the loop's next turn. NULL without
// memory.
struct envoy *envoy_create(struct loop *loop, const struct order *task, envoy_on_report *on_report,
                           envoy_on_end *on_end, void *ctx);
void envoy_destroy(struct envoy *envoy);

// Another word to the process that runs. False: there is none, or it does not listen.
bool envoy_tell(struct envoy *envoy, enum order_kind kind);
// It does what it is for: pauses begin anew.
void envoy_is_well(struct envoy *envoy);
// It does not, or has said what no process of ours would: another one is started in its place.
void envoy_kill(struct envoy *envoy);
