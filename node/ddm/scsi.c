// iscsi, iscsi+rdma and sg: a logical unit of SCSI, over the network or of this system. Commands
// come from the I/O converter as CDBs (format/scsi.h). What the device turned out not to have
// is taken out of them here, and made up for: no FUA, by a SYNCHRONIZE CACHE behind the write; no
// UNMAP in WRITE SAME, by zeroes that stay allocated.

#include "node/ddm/scsi.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/list.h"
#include "base/time.h"
#include "format/scsi.h"
#include "node/ddm/drivers.h"
#include "node/ddm/network.h"
#include "node/ddm/scsi_facts.h"
#include "node/interface/request.h"
#include "node/interface/rta_ddm.h"
#include "node/interface/volume.h"

enum {
    SCSI_DEPTH_MAX = 128,
    SCSI_TRANSFER_USUAL = 1 << 20, // octets, of devices that name no limit
    SCSI_RANGE_USUAL = 32 << 20,
    SCSI_RANGE_MAX = 1 << 30, // so that one command ends in reasonable time
};

struct scsi_work {
    struct scsi_job job;
    struct ddm_command *command;
    bool is_synchronizing; // the data are written: the step after
    uint32_t residual;     // of the step before
    struct list_link link; // free
};

struct scsi {
    struct ddm ddm;
    struct scsi_transport *transport;
    struct scsi_facts facts;
    uint32_t transfer_max;
    unsigned under_way;
    uint8_t *zeroes;        // of transfer_max octets
    struct list_link ended; // jobs
    struct list_link free;
    struct scsi_work works[SCSI_DEPTH_MAX];
};

/* ---- opening --------------------------------------------------------------------------------- */

// The smallest of the limits that are none of them 0, in whole blocks.
static uint64_t limit(const struct scsi *scsi, uint64_t a, uint64_t b, uint64_t usual)
{
    uint64_t block = scsi->facts.capacity.block_size;
    uint64_t least = a != 0 && (b == 0 || a < b) ? a : b;
    least = least == 0 ? usual : least;
    return least < block ? block : least - least % block;
}

static uint32_t transfer_limit(const struct scsi *scsi)
{
    struct scsi_transport *transport = scsi->transport;
    uint64_t blocks = scsi->facts.limits.transfer_max;
    uint64_t device = blocks != 0 ? blocks * scsi->facts.capacity.block_size : SCSI_TRANSFER_USUAL;
    uint64_t most = limit(scsi, device, scsi_transport_transfer_max(transport), 0);
    return (uint32_t)(most < NODE_TRANSFER_MAX ? most : NODE_TRANSFER_MAX);
}

static uint64_t range_limit(const struct scsi *scsi)
{
    uint64_t block = scsi->facts.capacity.block_size;
    uint64_t unmap_max = scsi->facts.limits.unmap_max * block;
    uint64_t same_blocks = scsi->facts.limits.write_same_max;
    uint64_t same_max = (same_blocks < UINT32_MAX ? same_blocks : UINT32_MAX) * block;
    uint64_t most = limit(scsi, unmap_max, same_max, SCSI_RANGE_USUAL);
    return most < SCSI_RANGE_MAX ? most : SCSI_RANGE_MAX;
}

void scsi_close(struct ddm *ddm)
{
    struct scsi *scsi = (struct scsi *)ddm;
    scsi_transport_close(scsi->transport);
    free(scsi->zeroes);
    free(scsi);
}

int scsi_open(const struct ddm_driver *driver, struct scsi_transport *transport, struct ddm **ret,
              struct why *ret_why)
{
    struct scsi *scsi = calloc(1, sizeof *scsi);
    if (scsi == NULL) {
        scsi_transport_close(transport);
        return -ENOMEM;
    }
    scsi->ddm = (struct ddm){.driver = driver, .host = transport->host};
    scsi->transport = transport;
    CHECK(transport->kind->depth <= SCSI_DEPTH_MAX);
    list_init(&scsi->ended);
    list_init(&scsi->free);
    for (unsigned i = 0; i < transport->kind->depth; i++) {
        list_push_tail(&scsi->free, &scsi->works[i].link);
    }
    int error = scsi_facts_find(transport, &scsi->facts, ret_why);
    if (error == 0) {
        scsi->transfer_max = transfer_limit(scsi);
        scsi->zeroes = calloc(1, scsi->transfer_max);
        error = scsi->zeroes == NULL ? -ENOMEM : 0;
    }
    if (error != 0) {
        scsi_close(&scsi->ddm);
        return error;
    }
    *ret = &scsi->ddm;
    return 0;
}

/* ---- commands -------------------------------------------------------------------------------- */

static bool writes_same(const struct scsi_job *job)
{
    return job->cdb[SCSI_CDB_OPCODE] == SCSI_WRITE_SAME_16;
}

// Takes out of the command what the device has not.
static void cdb_fit(const struct scsi *scsi, struct scsi_job *job)
{
    const struct scsi_provisioning *has = &scsi->facts.provisioning;
    if (writes_same(job) && !(has->can_same_unmap && has->reads_zeroes)) {
        job->cdb[SCSI_CDB_FLAGS] &= (uint8_t)~SCSI_SAME_UNMAP;
    }
    if (job->cdb[SCSI_CDB_OPCODE] == SCSI_WRITE_16 && !scsi->facts.mode.has_fua) {
        job->cdb[SCSI_CDB_FLAGS] &= (uint8_t)~SCSI_FUA;
    }
}

static void data_fit(const struct scsi *scsi, struct scsi_job *job, struct ddm_command *command)
{
    switch (command->operation) {
    case NODE_READ:
    case NODE_WRITE:
        job->direction = command->operation == NODE_READ ? SCSI_FROM_DEVICE : SCSI_TO_DEVICE;
        job->data = command->data;
        job->data_len = command->data_len;
        break;
    case NODE_TRIM:
        job->direction = SCSI_TO_DEVICE;
        job->data = command->native + SCSI_NATIVE_LIST;
        job->data_len = command->native_len - SCSI_NATIVE_LIST;
        break;
    case NODE_WRITE_ZEROES:
        job->direction = SCSI_TO_DEVICE;
        job->data = scsi->zeroes;
        job->data_len = writes_same(job) ? scsi->facts.capacity.block_size : (uint32_t)command->len;
        break;
    default:
        break;
    }
}

static bool has_succeeded(const struct scsi_job *job)
{
    struct scsi_failure sense;
    return job->error == 0 &&
           (job->status == SCSI_GOOD || (job->status == SCSI_CHECK_CONDITION &&
                                         scsi_sense_parse(job->sense, job->sense_len, &sense) &&
                                         scsi_sense_is_success(&sense)));
}

// Completed must mean stable, and the command did not say so to the device.
static bool must_synchronize(const struct scsi *scsi, const struct scsi_work *work)
{
    const struct scsi_job *job = &work->job;
    bool is_told =
        job->cdb[SCSI_CDB_OPCODE] == SCSI_WRITE_16 && (job->cdb[SCSI_CDB_FLAGS] & SCSI_FUA) != 0;
    return (work->command->flags & NODE_FUA) != 0 && !is_told && !work->is_synchronizing &&
           scsi->facts.mode.has_write_cache && has_succeeded(job);
}

static void answer(struct ddm_command *command, const struct scsi_job *job)
{
    _Static_assert(SCSI_ANSWER_SENSE + SCSI_SENSE_MAX <= DDM_STATUS_MAX, "sense data fit");
    command->transport_error = job->error;
    memset(command->status, 0, SCSI_ANSWER_SENSE);
    command->status[SCSI_ANSWER_STATUS] = job->status;
    put_be32(command->status + SCSI_ANSWER_RESIDUAL, job->residual);
    memcpy(command->status + SCSI_ANSWER_SENSE, job->sense, job->sense_len);
    command->status_len = SCSI_ANSWER_SENSE + job->sense_len;
}

static void synchronize(struct scsi *scsi, struct scsi_work *work)
{
    const struct ddm_command *command = work->command;
    struct scsi_job *job = &work->job;
    work->is_synchronizing = true;
    work->residual = job->residual;
    scsi_block_emit(job->cdb, SCSI_SYNCHRONIZE_CACHE_16, 0,
                    command->offset / scsi->facts.capacity.block_size,
                    (uint32_t)(command->len / scsi->facts.capacity.block_size));
    job->direction = SCSI_NO_DATA;
    job->data_len = 0;
    scsi_transport_submit(scsi->transport, job);
}

static void work_end(struct scsi *scsi, struct scsi_work *work)
{
    struct ddm_command *command = work->command;
    struct scsi_job *job = &work->job;
    job->residual = work->is_synchronizing ? work->residual : job->residual;
    answer(command, job);
    list_push_head(&scsi->free, &work->link);
    scsi->under_way--;
    ddm_command_end(command);
}

// Until nothing has ended: a second step, or what a command's end brings, may end in the flush.
static void ended_take(struct scsi *scsi)
{
    while (!list_is_empty(&scsi->ended)) {
        struct list_link ended;
        list_move_all(&ended, &scsi->ended);
        for (struct list_link *l; (l = list_pop_head(&ended)) != NULL;) {
            struct scsi_work *work = LIST_ENTRY(l, struct scsi_work, job.link);
            if (must_synchronize(scsi, work)) {
                synchronize(scsi, work);
            } else {
                work_end(scsi, work);
            }
        }
        scsi_transport_flush(scsi->transport);
    }
}

int scsi_submit(struct ddm *ddm, struct ddm_command *command)
{
    struct scsi *scsi = (struct scsi *)ddm;
    struct list_link *l = list_pop_head(&scsi->free);
    if (l == NULL) {
        return -EAGAIN;
    }
    struct scsi_work *work = LIST_ENTRY(l, struct scsi_work, link);
    work->command = command;
    work->is_synchronizing = false;
    work->job.direction = SCSI_NO_DATA;
    work->job.data_len = 0;
    work->job.ended = &scsi->ended;
    list_init(&work->job.link);
    memcpy(work->job.cdb, command->native + SCSI_NATIVE_CDB, SCSI_CDB_LEN);
    cdb_fit(scsi, &work->job);
    data_fit(scsi, &work->job, command);
    scsi->under_way++;
    scsi_transport_submit(scsi->transport, &work->job);
    return 0;
}

/* ---- events ---------------------------------------------------------------------------------- */

void scsi_flush_queue(struct ddm *ddm)
{
    struct scsi *scsi = (struct scsi *)ddm;
    scsi_transport_flush(scsi->transport);
    ended_take(scsi);
}

int scsi_poll_fd(struct ddm *ddm)
{
    struct scsi_transport *transport = ((struct scsi *)ddm)->transport;
    return scsi_transport_poll_fd(transport);
}

instant_ns scsi_next_deadline(struct ddm *ddm)
{
    struct scsi_transport *transport = ((struct scsi *)ddm)->transport;
    return scsi_transport_next_deadline(transport);
}

void scsi_poll(struct ddm *ddm, instant_ns now)
{
    struct scsi *scsi = (struct scsi *)ddm;
    scsi_transport_poll(scsi->transport, now);
    ended_take(scsi);
}

void scsi_drain(struct ddm *ddm)
{
    struct scsi *scsi = (struct scsi *)ddm;
    const struct ddm_host *host = &ddm->host;
    scsi_flush_queue(ddm);
    while (scsi->under_way > 0) {
        instant_ns now = host->clock(host->ctx);
        scsi_transport_turn(scsi->transport, now, instant_after(now, 10 * NS_PER_MS));
        ended_take(scsi);
    }
}

/* ---- what it is ------------------------------------------------------------------------------ */

static uint32_t abilities_of(const struct scsi *scsi)
{
    const struct scsi_facts *facts = &scsi->facts;
    uint32_t abilities = facts->mode.has_write_cache ? VOLUME_CAN_FLUSH : 0;
    if (facts->mode.is_write_protected || scsi->ddm.host.read_only) {
        return abilities;
    }
    abilities |= VOLUME_CAN_WRITE | VOLUME_CAN_FUA | VOLUME_CAN_WRITE_ZEROES;
    abilities |= facts->can_write_same ? VOLUME_CAN_ZERO_FAST : 0;
    abilities |= facts->provisioning.can_unmap ? VOLUME_CAN_TRIM : 0;
    return abilities;
}

static uint32_t preferred_of(const struct scsi *scsi)
{
    const struct scsi_facts *facts = &scsi->facts;
    uint64_t best = (uint64_t)facts->limits.transfer_best * facts->capacity.block_size;
    uint32_t least = facts->capacity.physical_size > 4096 ? facts->capacity.physical_size : 4096;
    return best >= least && best <= scsi->transfer_max && best % least == 0 ? (uint32_t)best
                                                                            : least;
}

int scsi_probe(struct ddm *ddm, struct volume_profile *ret)
{
    struct scsi *scsi = (struct scsi *)ddm;
    struct scsi_facts *facts = &scsi->facts;
    struct scsi_capacity capacity;
    struct why why;
    int error = scsi_capacity_find(scsi->transport, &capacity, &why);
    ended_take(scsi); // meanwhile
    if (error != 0) {
        return error;
    }
    if (capacity.block_size != facts->capacity.block_size) {
        return -EPROTO; // another device, or formatted anew: what was promised holds no more
    }
    facts->capacity = capacity;
    *ret = (struct volume_profile){.size = capacity.blocks * capacity.block_size,
                                   .abilities = abilities_of(scsi),
                                   .block_size = capacity.block_size,
                                   .alignment = capacity.block_size,
                                   .preferred = preferred_of(scsi),
                                   .transfer_max = scsi->transfer_max,
                                   .range_max = range_limit(scsi),
                                   .depth = scsi->transport->kind->depth,
                                   .lineage = facts->lineage};
    snprintf(ret->driver, sizeof ret->driver, "%s", ddm->driver->name);
    snprintf(ret->model, sizeof ret->model, "%s %s", facts->inquiry.vendor, facts->inquiry.product);
    if (facts->name[0] != '\0') {
        snprintf(ret->origin, sizeof ret->origin, "scsi:%s/%s/%s", facts->inquiry.vendor,
                 facts->inquiry.product, facts->name);
    } else {
        snprintf(ret->origin, sizeof ret->origin, "%s:%s", ddm->driver->name,
                 scsi_transport_address(scsi->transport));
    }
    return 0;
}

/* ---- the drivers ----------------------------------------------------------------------------- */

static int open_through(const struct scsi_transport_kind *kind, const struct ddm_driver *driver,
                        const struct ddm_target *target, const struct ddm_host *host,
                        struct ddm **ret, struct why *ret_why)
{
    struct scsi_transport *transport = NULL;
    int error = scsi_transport_open(kind, target, host, &transport, ret_why);
    return error != 0 ? error : scsi_open(driver, transport, ret, ret_why);
}

static int open_iscsi(const struct ddm_target *target, const struct ddm_host *host,
                      struct ddm *next, struct ddm **ret, struct why *ret_why)
{
    return open_through(&scsi_transport_iscsi, &ddm_iscsi, target, host, ret, ret_why);
}

static int open_iscsi_rdma(const struct ddm_target *target, const struct ddm_host *host,
                           struct ddm *next, struct ddm **ret, struct why *ret_why)
{
    return open_through(&scsi_transport_iscsi_rdma, &ddm_iscsi_rdma, target, host, ret, ret_why);
}

static int open_sg(const struct ddm_target *target, const struct ddm_host *host, struct ddm *next,
                   struct ddm **ret, struct why *ret_why)
{
    return open_through(&scsi_transport_sg, &ddm_sg, target, host, ret, ret_why);
}

static const char *const iscsi_keys[] = {"initiator",   "timeout",       "patience",
                                         "target_user", "target_secret", NULL};

// A session that was lost is made anew, to where the target's name leads by then.
static const char *const iscsi_calls[] = {
    "socket",     "connect",    "bind",        "shutdown", "dup2",     "dup3",
    "getsockopt", "setsockopt", "getsockname", "sendto",   "sendmmsg", "recvfrom",
    "readlink",   "uname",      "getpeername", "ioctl",    NULL,
};

const struct ddm_driver ddm_iscsi = {
    .version = DDM_VERSION,
    .self_size = sizeof(struct ddm_driver),
    .name = "iscsi",
    .summary = "a logical unit of an iSCSI target",
    .object = "//HOST[:PORT]/TARGET/LUN",
    .fence = "the session's reinstatement, then a reset of the logical unit",
    .format = "scsi",
    .parameters = iscsi_keys,
    .calls = iscsi_calls,
    .reads_files = true,
    .open = open_iscsi,
    .probe = scsi_probe,
    .submit = scsi_submit,
    .flush_queue = scsi_flush_queue,
    .poll_fd = scsi_poll_fd,
    .next_deadline = scsi_next_deadline,
    .poll = scsi_poll,
    .drain = scsi_drain,
    .close = scsi_close,
};

const struct ddm_driver ddm_iscsi_rdma = {
    .version = DDM_VERSION,
    .self_size = sizeof(struct ddm_driver),
    .name = "iscsi+rdma",
    .summary = "a logical unit of an iSCSI target, over one-shot RDMA",
    .object = "//HOST[:PORT]/TARGET/LUN",
    .keeps_pages = true,
    .fence = "the session's reinstatement, then a reset of the logical unit",
    .format = "scsi",
    .parameters = iscsi_keys,
    .calls = rnic_calls,
    .has_known_calls = network_rnic_is_known,
    .makes_threads = true,
    .reads_files = true,
    .open = open_iscsi_rdma,
    .probe = scsi_probe,
    .submit = scsi_submit,
    .flush_queue = scsi_flush_queue,
    .poll_fd = scsi_poll_fd,
    .next_deadline = scsi_next_deadline,
    .poll = scsi_poll,
    .drain = scsi_drain,
    .close = scsi_close,
};

static const char *const sg_calls[] = {"ioctl", NULL};

const struct ddm_driver ddm_sg = {
    .version = DDM_VERSION,
    .self_size = sizeof(struct ddm_driver),
    .name = "sg",
    .summary = "a SCSI disk of this system, by SCSI commands",
    .object = "PATH",
    .fence = "a lock on the file description that the commands go through",
    .format = "scsi",
    .calls = sg_calls,
    .capabilities = UINT64_C(1) << CAP_SYS_RAWIO,
    .open = open_sg,
    .probe = scsi_probe,
    .submit = scsi_submit,
    .flush_queue = scsi_flush_queue,
    .poll_fd = scsi_poll_fd,
    .next_deadline = scsi_next_deadline,
    .poll = scsi_poll,
    .drain = scsi_drain,
    .close = scsi_close,
};
