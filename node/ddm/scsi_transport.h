// How the drivers of SCSI devices reach them: a transport carries a command descriptor block and
// data to a logical unit, and brings back a status. There are three: iSCSI by libiscsi, iSCSI
// over one-shot RDMA (both scsi_session.h), and the system's own disks (SG_IO).
//
// A transport loses no job: each ends, by what the device said or by a negative errno, and not
// before the device can no longer act on it. It calls nobody then: the job is put where its owner
// looks, who may submit another one for it.
#pragma once

#include <stdlib.h>

#include "base/list.h"
#include "base/time.h"
#include "format/scsi.h"
#include "node/interface/rta_ddm.h"

enum scsi_direction { SCSI_NO_DATA, SCSI_FROM_DEVICE, SCSI_TO_DEVICE };

// Made by a driver, the transport's from submit until it has ended.
struct scsi_job {
    uint8_t cdb[SCSI_CDB_LEN];
    enum scsi_direction direction;
    void *data;
    uint32_t data_len;

    int error; // 0, or a negative errno: the device said nothing
    uint8_t status;
    uint32_t residual; // octets of the data that did not move
    uint8_t sense[SCSI_SENSE_MAX];
    uint32_t sense_len;

    struct list_link *ended;    // where its owner looks for it; NULL: nobody does, it is freed
    struct list_link link;      // the transport's, then of `ended`
    instant_ns submitted_at_ns; // set by the transport
    instant_ns sent_at_ns;      // the transport's
};

// Begins with this.
struct scsi_transport {
    const struct scsi_transport_kind *kind;
    struct ddm_host host;
};

struct scsi_transport_kind {
    const char *name;
    uint32_t depth; // jobs at a time; the driver counts
    // As ddm_driver.open. `parameters`: those of the URI that are the transport's.
    int (*open)(const struct ddm_target *target, const struct ddm_host *host,
                struct scsi_transport **ret, struct why *ret_why);
    // Octets of data that one job may have.
    uint32_t (*transfer_max)(struct scsi_transport *transport);
    // What the device is called where it has no name of its own; at most VOLUME_ORIGIN_MAX octets.
    const char *(*address)(struct scsi_transport *transport);
    void (*submit)(struct scsi_transport *transport, struct scsi_job *job);
    // As ddm_driver.flush_queue, poll_fd, next_deadline and poll. Jobs end in flush and poll alone.
    void (*flush)(struct scsi_transport *transport);
    int (*poll_fd)(struct scsi_transport *transport);
    instant_ns (*next_deadline)(struct scsi_transport *transport);
    void (*poll)(struct scsi_transport *transport, instant_ns now);
    // Jobs that are under way end with -ECANCELED.
    void (*close)(struct scsi_transport *transport);
};

static inline int scsi_transport_open(const struct scsi_transport_kind *kind,
                                      const struct ddm_target *target, const struct ddm_host *host,
                                      struct scsi_transport **ret, struct why *ret_why)
{
    return kind->open(target, host, ret, ret_why);
}

// A transport's word for a job that has ended, and is in no list.
static inline void scsi_job_end(struct scsi_job *job)
{
    if (job->ended == NULL) {
        free(job);
    } else {
        list_push_tail(job->ended, &job->link);
    }
}

extern const struct scsi_transport_kind scsi_transport_iscsi, scsi_transport_iscsi_rdma,
    scsi_transport_sg;

// What drivers ask of a transport.
static inline uint32_t scsi_transport_transfer_max(struct scsi_transport *transport)
{
    return transport->kind->transfer_max(transport);
}

static inline const char *scsi_transport_address(struct scsi_transport *transport)
{
    return transport->kind->address(transport);
}

static inline void scsi_transport_submit(struct scsi_transport *transport, struct scsi_job *job)
{
    transport->kind->submit(transport, job);
}

static inline void scsi_transport_flush(struct scsi_transport *transport)
{
    transport->kind->flush(transport);
}

static inline int scsi_transport_poll_fd(struct scsi_transport *transport)
{
    return transport->kind->poll_fd(transport);
}

static inline instant_ns scsi_transport_next_deadline(struct scsi_transport *transport)
{
    return transport->kind->next_deadline(transport);
}

static inline void scsi_transport_poll(struct scsi_transport *transport, instant_ns now)
{
    transport->kind->poll(transport, now);
}

static inline void scsi_transport_close(struct scsi_transport *transport)
{
    transport->kind->close(transport);
}

// Waits for the device, not longer than until that instant, polls and flushes. Who has flushed
// before looks first whether anything has ended: the descriptor need not tell of it any more.
void scsi_transport_turn(struct scsi_transport *transport, instant_ns now, instant_ns until_ns);
