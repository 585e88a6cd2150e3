// Drivers of one kind: a logical unit of SCSI, reached through a transport.
#pragma once

#include "base/time.h"
#include "node/ddm/scsi_transport.h"

// As ddm_driver.open, with the transport open. The transport is the DDM's, and closed if opening
// fails.
int scsi_open(const struct ddm_driver *driver, struct scsi_transport *transport, struct ddm **ret,
              struct why *ret_why);
int scsi_probe(struct ddm *ddm, struct volume_profile *ret);
int scsi_submit(struct ddm *ddm, struct ddm_command *command);
void scsi_flush_queue(struct ddm *ddm);
int scsi_poll_fd(struct ddm *ddm);
instant_ns scsi_next_deadline(struct ddm *ddm);
void scsi_poll(struct ddm *ddm, instant_ns now);
void scsi_drain(struct ddm *ddm);
void scsi_close(struct ddm *ddm);
