// ata: a disk of this system by ATA commands, each carried by a SCSI one (ATA PASS-THROUGH(16)).
// Commands come from the I/O converter as registers (format/ata.h). A device without FUA gets
// a FLUSH CACHE EXT behind each write that must be stable.

#include "format/ata.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/time.h"
#include "format/scsi.h"
#include "node/ddm/drivers.h"
#include "node/ddm/scsi_facts.h"
#include "node/ddm/scsi_transport.h"
#include "node/interface/request.h"
#include "node/interface/rta_ddm.h"
#include "node/interface/volume.h"

// The kernel has one such command at a disk at a time; the next ones wait in its queue.
enum { ATA_DEPTH = 8 };

struct ata_work {
    struct scsi_job job;
    struct ddm_command *command;
    bool is_flushing;            // the data are written: the step after
    uint8_t trim[ATA_BLOCK_LEN]; // what DATA SET MANAGEMENT is given
    struct list_link link;       // free
};

struct ata {
    struct ddm ddm;
    struct scsi_transport *transport;
    struct ata_identity identity;
    uint32_t transfer_max;
    unsigned under_way;
    uint8_t *zeroes;        // of transfer_max octets
    struct list_link ended; // jobs
    struct list_link free;
    struct ata_work works[ATA_DEPTH];
};

/* ---- opening --------------------------------------------------------------------------------- */

static int identify(struct ata *ata, struct why *ret_why)
{
    uint8_t cdb[SCSI_CDB_LEN], data[ATA_BLOCK_LEN];
    uint32_t len;
    struct ata_registers registers = {
        .command = ATA_IDENTIFY_DEVICE, .protocol = ATA_PIO_IN, .count = 1};
    ata_pass_through_emit(cdb, &registers, false);
    int error = scsi_ask(ata->transport, cdb, data, sizeof data, &len, ret_why);
    if (error == -EOPNOTSUPP) {
        why_say(ret_why, "the device takes no ATA commands");
    }
    if (error == 0 && (len < sizeof data || !ata_identity_parse(data, &ata->identity))) {
        why_say(ret_why, "no ATA disk with addresses of 48 bits");
        error = -EPROTO;
    }
    return error;
}

static uint32_t transfer_limit(const struct ata *ata)
{
    uint32_t block = ata->identity.block_size;
    uint32_t transport = scsi_transport_transfer_max(ata->transport);
    uint64_t device = (uint64_t)ATA_TRANSFER_BLOCKS * block;
    uint32_t most = transport < device ? transport : (uint32_t)device;
    return most < block ? block : most - most % block;
}

static void ata_close(struct ddm *ddm)
{
    struct ata *ata = (struct ata *)ddm;
    if (ata->transport != NULL) {
        scsi_transport_close(ata->transport);
    }
    free(ata->zeroes);
    free(ata);
}

static int ata_open(const struct ddm_target *target, const struct ddm_host *host, struct ddm *next,
                    struct ddm **ret, struct why *ret_why)
{
    struct ata *ata = calloc(1, sizeof *ata);
    if (ata == NULL) {
        return -ENOMEM;
    }
    ata->ddm = (struct ddm){.driver = &ddm_ata, .host = *host};
    list_init(&ata->ended);
    list_init(&ata->free);
    for (unsigned i = 0; i < ATA_DEPTH; i++) {
        list_push_tail(&ata->free, &ata->works[i].link);
    }
    int error = scsi_transport_open(&scsi_transport_sg, target, host, &ata->transport, ret_why);
    if (error == 0) {
        error = identify(ata, ret_why);
    }
    if (error == 0) {
        ata->transfer_max = transfer_limit(ata);
        ata->zeroes = calloc(1, ata->transfer_max);
        error = ata->zeroes == NULL ? -ENOMEM : 0;
    }
    if (error != 0) {
        ata_close(&ata->ddm);
        return error;
    }
    *ret = &ata->ddm;
    return 0;
}

static int ata_probe(struct ddm *ddm, struct volume_profile *ret)
{
    const struct ata *ata = (const struct ata *)ddm;
    const struct ata_identity *identity = &ata->identity;
    uint32_t block = identity->block_size;
    *ret = (struct volume_profile){
        .size = identity->blocks * block,
        .block_size = block,
        .alignment = block,
        .preferred = identity->physical_size > 4096 ? identity->physical_size : 4096,
        .transfer_max = ata->transfer_max,
        .range_max = (uint64_t)ATA_TRIM_ENTRIES_MAX * ATA_TRIM_ENTRY_BLOCKS * block,
        .depth = ATA_DEPTH,
        .driver = "ata"};
    ret->abilities = (identity->has_write_cache ? VOLUME_CAN_FLUSH : 0) |
                     (identity->is_rotational ? VOLUME_IS_ROTATIONAL : 0);
    if (!ddm->host.read_only) {
        ret->abilities |= VOLUME_CAN_WRITE | VOLUME_CAN_FUA | VOLUME_CAN_WRITE_ZEROES;
        ret->abilities |= identity->can_trim ? VOLUME_CAN_TRIM : 0;
    }
    snprintf(ret->model, sizeof ret->model, "%s", identity->model);
    if (identity->world_wide_name != 0) {
        snprintf(ret->origin, sizeof ret->origin, "ata:%016" PRIx64, identity->world_wide_name);
    } else {
        snprintf(ret->origin, sizeof ret->origin, "ata:%s/%s", identity->model, identity->serial);
    }
    return 0;
}

/* ---- commands -------------------------------------------------------------------------------- */

static bool is_good(const uint8_t registers[ATA_ANSWER_LEN])
{
    const uint8_t failed = ATA_STATUS_BUSY | ATA_STATUS_DEVICE_FAULT | ATA_STATUS_ERROR;
    return (registers[ATA_ANSWER_STATUS] & failed) == 0;
}

// Of a DMA transfer that has moved less nobody knows which part it was.
static bool is_short(const struct scsi_job *job)
{
    return job->residual > 0;
}

// Also where the registers are told although nothing has failed.
static bool has_succeeded(const struct scsi_job *job)
{
    uint8_t told[ATA_ANSWER_LEN];
    return job->error == 0 && !is_short(job) &&
           (job->status == SCSI_GOOD ||
            (ata_return_parse(job->sense, job->sense_len, told) && is_good(told)));
}

static bool must_flush(const struct ata *ata, const struct ata_work *work)
{
    const struct ata_identity *identity = &ata->identity;
    return (work->command->flags & NODE_FUA) != 0 && !identity->has_fua &&
           identity->has_write_cache && !work->is_flushing && has_succeeded(&work->job);
}

static void flush_begin(struct ata *ata, struct ata_work *work)
{
    struct ata_registers registers = {
        .command = ATA_FLUSH_CACHE_EXT, .protocol = ATA_NON_DATA, .device = ATA_DEVICE_LBA};
    struct scsi_job *job = &work->job;
    work->is_flushing = true;
    job->direction = SCSI_NO_DATA;
    job->data_len = 0;
    ata_pass_through_emit(job->cdb, &registers, true);
    scsi_transport_submit(ata->transport, job);
}

// Where the device's registers are not told, what the layer between says counts.
static int error_of_sense(const struct scsi_job *job)
{
    struct scsi_failure sense;
    if (!scsi_sense_parse(job->sense, job->sense_len, &sense)) {
        return job->status == SCSI_CHECK_CONDITION        ? -EIO
               : job->status == SCSI_RESERVATION_CONFLICT ? -EBADE // until it is released
                                                          : -EBUSY;
    }
    switch (sense.key) {
    case SCSI_ILLEGAL_REQUEST:
        return -EOPNOTSUPP;
    case SCSI_NOT_READY:
    case SCSI_UNIT_ATTENTION:
    case SCSI_ABORTED_COMMAND:
        return -EAGAIN;
    default:
        return -EIO;
    }
}

static void answer(struct ddm_command *command, const struct scsi_job *job)
{
    command->transport_error = job->error;
    command->status_len = 0;
    if (job->error != 0) {
        return;
    }
    if (job->status == SCSI_GOOD) {
        command->transport_error = is_short(job) ? -EAGAIN : 0;
        memset(command->status, 0, ATA_ANSWER_LEN);
        command->status_len = ATA_ANSWER_LEN;
    } else if (ata_return_parse(job->sense, job->sense_len, command->status)) {
        command->transport_error = is_good(command->status) && is_short(job) ? -EAGAIN : 0;
        command->status_len = ATA_ANSWER_LEN;
    } else {
        command->transport_error = error_of_sense(job);
    }
}

static void work_end(struct ata *ata, struct ata_work *work)
{
    struct ddm_command *command = work->command;
    answer(command, &work->job);
    list_push_head(&ata->free, &work->link);
    ata->under_way--;
    ddm_command_end(command);
}

static void ended_take(struct ata *ata)
{
    for (struct list_link *l; (l = list_pop_head(&ata->ended)) != NULL;) {
        struct ata_work *work = LIST_ENTRY(l, struct ata_work, job.link);
        if (must_flush(ata, work)) {
            flush_begin(ata, work);
        } else {
            work_end(ata, work);
        }
    }
}

static void data_fit(const struct ata *ata, struct ata_work *work, struct ddm_command *command)
{
    struct scsi_job *job = &work->job;
    uint32_t entries_len = command->native_len - ATA_NATIVE_TRIM;
    switch (command->operation) {
    case NODE_READ:
    case NODE_WRITE:
        job->direction = command->operation == NODE_READ ? SCSI_FROM_DEVICE : SCSI_TO_DEVICE;
        job->data = command->data;
        job->data_len = command->data_len;
        break;
    case NODE_TRIM:
        memset(work->trim, 0, sizeof work->trim);
        memcpy(work->trim, command->native + ATA_NATIVE_TRIM, entries_len);
        job->direction = SCSI_TO_DEVICE;
        job->data = work->trim;
        job->data_len = sizeof work->trim;
        break;
    case NODE_WRITE_ZEROES:
        job->direction = SCSI_TO_DEVICE;
        job->data = ata->zeroes;
        job->data_len = (uint32_t)command->len;
        break;
    default:
        job->direction = SCSI_NO_DATA;
        job->data_len = 0;
    }
}

static int ata_submit(struct ddm *ddm, struct ddm_command *command)
{
    struct ata *ata = (struct ata *)ddm;
    struct list_link *l = list_pop_head(&ata->free);
    if (l == NULL) {
        return -EAGAIN;
    }
    struct ata_work *work = LIST_ENTRY(l, struct ata_work, link);
    struct ata_registers registers = ata_registers_parse(command->native);
    if (registers.command == ATA_WRITE_DMA_FUA_EXT && !ata->identity.has_fua) {
        registers.command = ATA_WRITE_DMA_EXT;
    }
    work->command = command;
    work->is_flushing = false;
    work->job.ended = &ata->ended;
    list_init(&work->job.link);
    data_fit(ata, work, command);
    ata_pass_through_emit(work->job.cdb, &registers, work->job.direction == SCSI_TO_DEVICE);
    ata->under_way++;
    scsi_transport_submit(ata->transport, &work->job);
    return 0;
}

static int ata_poll_fd(struct ddm *ddm)
{
    struct ata *ata = (struct ata *)ddm;
    return scsi_transport_poll_fd(ata->transport);
}

static void ata_poll(struct ddm *ddm, instant_ns now)
{
    struct ata *ata = (struct ata *)ddm;
    scsi_transport_poll(ata->transport, now);
    ended_take(ata);
}

static void ata_drain(struct ddm *ddm)
{
    struct ata *ata = (struct ata *)ddm;
    const struct ddm_host *host = &ddm->host;
    while (ata->under_way > 0) {
        instant_ns now = host->clock(host->ctx);
        scsi_transport_turn(ata->transport, now, instant_after(now, 10 * NS_PER_MS));
        ended_take(ata);
    }
}

static const char *const calls[] = {"ioctl", NULL};

const struct ddm_driver ddm_ata = {
    .version = DDM_VERSION,
    .self_size = sizeof(struct ddm_driver),
    .name = "ata",
    .summary = "an ATA disk of this system, by ATA commands",
    .object = "PATH",
    .fence = "a lock on the file description that the commands go through",
    .format = "ata",
    .calls = calls,
    .capabilities = UINT64_C(1) << CAP_SYS_RAWIO,
    .open = ata_open,
    .probe = ata_probe,
    .submit = ata_submit,
    .poll_fd = ata_poll_fd,
    .poll = ata_poll,
    .drain = ata_drain,
    .close = ata_close,
};
