// Unreliable connections: Sends and Writes to one peer, which are not acknowledged (InfiniBand
// Architecture volume 1, section 9.8.2).
//
//   program side   wq/filling.h on uc_wq
//   engine side    the table of base/transport.h, by uc_transport; serialised by the device
//
// A message is as many packets as the path MTU makes of it; roce/unreliable.h says when it is over.
//
// What arrives must have the PSN that is expected. If it has not, something was lost: the message
// that was arriving is dropped, and so is what comes until the next begins, whose PSN is taken as
// the new expectation. A receive that a dropped message had taken is kept for the next one. What
// may not be done is dropped too, and counted by the reason (enum unreliable_refusal): a Write by
// a wrong key, what finds no receive, what does not fit it (a receive of an SRQ completes with an
// error then).
//
//     uc.c          creation, the table, attributes, packets out
//     uc_input.c    packets in
#pragma once

#include "base/transport.h"
#include "wq/wq.h"

struct uc;

struct uc_config {
    struct wq_config wq;
    struct qp_event_port events;
};

// -EINVAL: a capability out of range; -ENOMEM. The PD is the caller's to hold. The new queue pair
// is in QP_RESET, and grants the peer nothing (QP_CHANGE_RIGHTS).
int uc_create(const struct uc_config *config, struct uc **ret);

struct transport *uc_transport(struct uc *uc);
struct wq *uc_wq(struct uc *uc);
