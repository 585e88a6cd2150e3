// The driver of SCSI disks on a transport of the test: a disk in memory that answers as it is told,
// with much, with little, or strangely. What the driver asks for is seen command by command.

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "node/ddm/drivers.h"
#include "node/ddm/scsi.h"
#include "node/rta/formats.h"

enum { BLOCK_COUNT = 256, TRACE_MAX = 512, FAULT_COUNT = 4 };

// Answers the next commands with this operation code so, so often.
struct fault {
    uint8_t opcode;
    unsigned count;
    uint8_t status;
    uint8_t key, asc;
    bool is_deferred;
    uint32_t residual;
};

struct disk {
    struct scsi_transport transport;
    uint32_t block_size;
    bool has_pages, has_fua, has_cache, can_same, can_unmap, reads_zeroes, is_protected;
    uint8_t peripheral;
    struct fault faults[FAULT_COUNT];
    uint8_t *data;
    bool is_open, is_silent;
    unsigned wait_count; // how often it was waited for
    instant_ns now;
    struct list_link jobs;
    char trace[TRACE_MAX]; // commands that are no questions
};

static instant_ns disk_clock(void *ctx)
{
    struct disk *disk = ctx;
    return disk->now += NS_PER_MS;
}

/* ---- the disk -------------------------------------------------------------------------------- */

static uint32_t vital_page(const struct disk *disk, uint8_t page, uint8_t *ret)
{
    static const uint8_t pages[] = {0x00, 0x80, 0x83, 0xb0, 0xb2};
    static const uint8_t name[] = {1, 3, 0, 8, 0x60, 1, 2, 3, 4, 5, 6, 7};
    memset(ret, 0, 64);
    ret[1] = page;
    switch (page) {
    case 0x00:
        memcpy(ret + 4, pages, sizeof pages);
        ret[3] = sizeof pages;
        break;
    case 0x83:
        memcpy(ret + 4, name, sizeof name);
        ret[3] = sizeof name;
        break;
    case 0xb0:
        ret[3] = 60;
        put_be32(ret + 8, 64);  // blocks of a transfer
        put_be32(ret + 20, 32); // of an unmap
        put_be64(ret + 36, 100);
        break;
    case 0xb2:
        ret[3] = 4;
        ret[5] = (uint8_t)((disk->can_unmap ? 0xc0 : 0) | (disk->reads_zeroes ? 0x04 : 0));
        break;
    default:
        break;
    }
    return 4U + ret[3];
}

static uint32_t question(const struct disk *disk, const uint8_t *cdb, uint8_t *ret)
{
    memset(ret, 0, 64);
    switch (cdb[0]) {
    case SCSI_INQUIRY:
        if ((cdb[1] & 1) != 0) {
            return vital_page(disk, cdb[2], ret);
        }
        memcpy(ret + 8, "WEFT    DISK IN MEMORY  ", 24);
        ret[0] = disk->peripheral;
        return 36;
    case SCSI_SERVICE_ACTION_IN_16:
        put_be64(ret, BLOCK_COUNT - 1);
        put_be32(ret + 8, disk->block_size);
        return 32;
    case SCSI_MODE_SENSE_6:
        ret[2] = (uint8_t)((disk->is_protected ? 0x80 : 0) | (disk->has_fua ? 0x10 : 0));
        ret[4] = 0x08;
        ret[5] = 0x12;
        ret[6] = disk->has_cache ? 0x04 : 0;
        return 24;
    default:
        ret[1] = disk->can_same ? 3 : 1;
        return 4;
    }
}

static void transfer(struct disk *disk, struct scsi_job *job, uint32_t len)
{
    uint64_t at = get_be64(job->cdb + SCSI_CDB_LBA) * disk->block_size;
    uint32_t blocks = get_be32(job->cdb + SCSI_CDB_BLOCKS);
    switch (job->cdb[0]) {
    case SCSI_READ_16:
        memcpy(job->data, disk->data + at, len);
        break;
    case SCSI_WRITE_16:
        memcpy(disk->data + at, job->data, len);
        break;
    case SCSI_WRITE_SAME_16:
        for (uint32_t i = 0; i < blocks; i++) {
            memcpy(disk->data + at + i * disk->block_size, job->data, disk->block_size);
        }
        break;
    default:
        break;
    }
}

static bool is_question(const uint8_t *cdb)
{
    return cdb[0] == SCSI_INQUIRY || cdb[0] == SCSI_SERVICE_ACTION_IN_16 ||
           cdb[0] == SCSI_MODE_SENSE_6 || cdb[0] == SCSI_MAINTENANCE_IN;
}

static struct fault *fault_for(struct disk *disk, uint8_t opcode)
{
    for (unsigned i = 0; i < FAULT_COUNT; i++) {
        if (disk->faults[i].count > 0 && disk->faults[i].opcode == opcode) {
            disk->faults[i].count--;
            return &disk->faults[i];
        }
    }
    return NULL;
}

static void answer(struct disk *disk, struct scsi_job *job)
{
    const struct fault *fault = fault_for(disk, job->cdb[0]);
    size_t len = strlen(disk->trace);
    job->error = 0;
    job->status = fault != NULL ? fault->status : SCSI_GOOD;
    job->residual = fault != NULL ? fault->residual : 0;
    job->sense_len = 0;
    bool is_recovered = fault != NULL && fault->key == SCSI_RECOVERED_ERROR && !fault->is_deferred;
    if (is_question(job->cdb) && (job->status == SCSI_GOOD || is_recovered)) {
        uint8_t octets[64];
        uint32_t said = question(disk, job->cdb, octets);
        said = said < job->data_len ? said : job->data_len;
        memcpy(job->data, octets, said);
        job->residual = job->data_len - said;
        bool has_no_page = !disk->has_pages && job->cdb[0] == SCSI_INQUIRY && job->cdb[1] == 1;
        job->status = has_no_page || is_recovered ? SCSI_CHECK_CONDITION : SCSI_GOOD;
    } else if (!is_question(job->cdb)) {
        snprintf(disk->trace + len, sizeof disk->trace - len, "%02x/%02x %u+%u\n", job->cdb[0],
                 job->cdb[1], (unsigned)get_be64(job->cdb + SCSI_CDB_LBA),
                 get_be32(job->cdb + SCSI_CDB_BLOCKS));
        transfer(disk, job, job->status == SCSI_GOOD ? job->data_len - job->residual : 0);
    }
    if (job->status == SCSI_CHECK_CONDITION) {
        uint8_t key = fault != NULL ? fault->key : SCSI_ILLEGAL_REQUEST;
        uint8_t sense[18] = {0x70, 0, key, [7] = 10, [12] = fault != NULL ? fault->asc : 0x24};
        sense[0] |= fault != NULL && fault->is_deferred ? 1 : 0;
        memcpy(job->sense, sense, sizeof sense);
        job->sense_len = sizeof sense;
    }
    scsi_job_end(job);
}

/* ---- the transport --------------------------------------------------------------------------- */

static void disk_submit(struct scsi_transport *transport, struct scsi_job *job)
{
    list_push_tail(&((struct disk *)transport)->jobs, &job->link);
}

static void disk_flush(struct scsi_transport *transport)
{
    struct disk *disk = (struct disk *)transport;
    for (struct list_link *l; !disk->is_silent && (l = list_pop_head(&disk->jobs)) != NULL;) {
        answer(disk, LIST_ENTRY(l, struct scsi_job, link));
    }
}

static void disk_poll(struct scsi_transport *transport, instant_ns now)
{
    ((struct disk *)transport)->wait_count++;
}

static int disk_poll_fd(struct scsi_transport *transport)
{
    return -1;
}

static instant_ns disk_next_deadline(struct scsi_transport *transport)
{
    return 0; // waits are not waited for
}

static uint32_t disk_transfer_max(struct scsi_transport *transport)
{
    return 1 << 20;
}

static const char *disk_address(struct scsi_transport *transport)
{
    return "memory";
}

static void disk_close(struct scsi_transport *transport)
{
    struct disk *disk = (struct disk *)transport;
    disk->is_open = false;
    for (struct list_link *l; (l = list_pop_head(&disk->jobs)) != NULL;) {
        struct scsi_job *job = LIST_ENTRY(l, struct scsi_job, link);
        assert_null(job->ended); // nothing is under way but what nobody waits for
        scsi_job_end(job);
    }
}

static const struct scsi_transport_kind disk_kind = {
    .name = "disk",
    .depth = 8,
    .transfer_max = disk_transfer_max,
    .address = disk_address,
    .submit = disk_submit,
    .flush = disk_flush,
    .poll_fd = disk_poll_fd,
    .next_deadline = disk_next_deadline,
    .poll = disk_poll,
    .close = disk_close,
};

/* ---- tests ----------------------------------------------------------------------------------- */

// A disk that has everything.
static int disk_setup(void **state)
{
    struct disk *disk = calloc(1, sizeof *disk);
    disk->transport.kind = &disk_kind;
    disk->transport.host.clock = disk_clock;
    disk->transport.host.ctx = disk;
    disk->data = calloc(BLOCK_COUNT, 4096);
    disk->block_size = 512;
    disk->has_pages = disk->has_fua = disk->has_cache = true;
    disk->can_same = disk->can_unmap = disk->reads_zeroes = true;
    disk->is_open = true;
    list_init(&disk->jobs);
    *state = disk;
    return 0;
}

static int disk_teardown(void **state)
{
    struct disk *disk = *state;
    assert_false(disk->is_open);
    free(disk->data);
    free(disk);
    return 0;
}

static struct ddm *open_disk(struct disk *disk, struct volume_profile *profile)
{
    struct ddm *ddm = NULL;
    struct why why;
    assert_int_equal(scsi_open(&ddm_iscsi, &disk->transport, &ddm, &why), 0);
    assert_int_equal(scsi_probe(ddm, profile), 0);
    assert_true(volume_profile_is_sane(profile));
    disk->trace[0] = '\0';
    return ddm;
}

static void on_end(void *ctx, struct ddm_command *command)
{
    *(bool *)ctx = true;
}

static struct ddm_command carry_out(struct ddm *ddm, const struct volume_profile *profile,
                                    unsigned operation, uint64_t offset, uint64_t len,
                                    uint16_t flags, void *data)
{
    struct ddm_command command = {.operation = (uint8_t)operation,
                                  .flags = flags,
                                  .offset = offset,
                                  .len = len,
                                  .data = data,
                                  .data_len = data != NULL ? (uint32_t)len : 0};
    bool has_ended = false;
    assert_int_equal(io_format_scsi.encode(profile, &command), NODE_OK);
    ddm_command_expect(&command, on_end, &has_ended);
    assert_int_equal(scsi_submit(ddm, &command), 0);
    scsi_flush_queue(ddm);
    scsi_poll(ddm, 0);
    assert_true(has_ended);
    io_format_scsi.decode(&command);
    return command;
}

static void a_disk_that_can_everything_is_used_so(void **state)
{
    struct disk *disk = *state;
    struct volume_profile profile;
    struct ddm *ddm = open_disk(disk, &profile);
    uint8_t data[1024] = {7};
    assert_int_equal(profile.size, BLOCK_COUNT * 512);
    assert_int_equal(profile.transfer_max, 64 * 512);
    assert_int_equal(profile.range_max, 32 * 512);
    assert_int_equal(profile.abilities, VOLUME_CAN_WRITE | VOLUME_CAN_FLUSH | VOLUME_CAN_FUA |
                                            VOLUME_CAN_TRIM | VOLUME_CAN_WRITE_ZEROES |
                                            VOLUME_CAN_ZERO_FAST);
    assert_string_equal(profile.origin, "scsi:WEFT/DISK IN MEMORY/0x6001020304050607");
    carry_out(ddm, &profile, NODE_WRITE, 512, 1024, NODE_FUA, data);
    carry_out(ddm, &profile, NODE_WRITE_ZEROES, 1024, 512, 0, NULL);
    carry_out(ddm, &profile, NODE_FLUSH, 0, 0, 0, NULL);
    assert_string_equal(disk->trace, "8a/08 1+2\n93/08 2+1\n91/00 0+0\n");
    scsi_close(ddm);
}

static void without_fua_a_write_is_synchronized_behind_it(void **state)
{
    struct disk *disk = *state;
    struct volume_profile profile;
    uint8_t data[1024] = {7};
    disk->has_fua = false;
    struct ddm *ddm = open_disk(disk, &profile);
    assert_true((profile.abilities & VOLUME_CAN_FUA) != 0);
    carry_out(ddm, &profile, NODE_WRITE, 512, 1024, NODE_FUA, data);
    carry_out(ddm, &profile, NODE_WRITE_ZEROES, 1024, 512, NODE_FUA, NULL);
    carry_out(ddm, &profile, NODE_WRITE, 512, 1024, 0, data);
    assert_string_equal(disk->trace, "8a/00 1+2\n91/00 1+2\n93/08 2+1\n91/00 2+1\n8a/00 1+2\n");
    scsi_close(ddm);
}

static void without_a_cache_there_is_nothing_to_synchronize(void **state)
{
    struct disk *disk = *state;
    struct volume_profile profile;
    uint8_t data[512];
    disk->has_fua = disk->has_cache = false;
    struct ddm *ddm = open_disk(disk, &profile);
    assert_false((profile.abilities & VOLUME_CAN_FLUSH) != 0);
    carry_out(ddm, &profile, NODE_WRITE, 512, 512, NODE_FUA, data);
    assert_string_equal(disk->trace, "8a/00 1+1\n");
    scsi_close(ddm);
}

static void a_failed_synchronize_fails_the_write(void **state)
{
    struct disk *disk = *state;
    struct volume_profile profile;
    uint8_t data[512];
    disk->has_fua = false;
    struct ddm *ddm = open_disk(disk, &profile);
    disk->faults[0] = (struct fault){.opcode = SCSI_SYNCHRONIZE_CACHE_16,
                                     .count = 1,
                                     .status = SCSI_CHECK_CONDITION,
                                     .key = SCSI_MEDIUM_ERROR};
    assert_int_equal(carry_out(ddm, &profile, NODE_WRITE, 0, 512, NODE_FUA, data).completion,
                     NODE_MEDIA);
    scsi_close(ddm);
}

// Sense data do not mean that a command has failed: what was written has to be stable all the same.
static void what_was_written_with_an_error_recovered_is_synchronized(void **state)
{
    static const struct {
        uint8_t key;
        bool is_deferred, has_fua;
        enum node_completion completion;
        const char *trace;
    } cases[] = {
        {SCSI_RECOVERED_ERROR, false, false, NODE_OK, "8a/00 0+1\n91/00 0+1\n"},
        {SCSI_NO_SENSE, false, false, NODE_OK, "8a/00 0+1\n91/00 0+1\n"},
        {SCSI_COMPLETED, false, false, NODE_OK, "8a/00 0+1\n91/00 0+1\n"},
        {SCSI_RECOVERED_ERROR, false, true, NODE_OK, "8a/08 0+1\n"},
        {SCSI_MEDIUM_ERROR, false, false, NODE_MEDIA, "8a/00 0+1\n"},
        {SCSI_RECOVERED_ERROR, true, false, NODE_RETRY, "8a/00 0+1\n"}, // it was not written
    };
    struct disk *disk = *state;
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct volume_profile profile;
        uint8_t data[512] = {0};
        disk->has_fua = cases[i].has_fua;
        disk->is_open = true;
        struct ddm *ddm = open_disk(disk, &profile);
        disk->faults[0] = (struct fault){.opcode = SCSI_WRITE_16,
                                         .count = 1,
                                         .status = SCSI_CHECK_CONDITION,
                                         .key = cases[i].key,
                                         .is_deferred = cases[i].is_deferred};
        assert_int_equal(carry_out(ddm, &profile, NODE_WRITE, 0, 512, NODE_FUA, data).completion,
                         cases[i].completion);
        assert_string_equal(disk->trace, cases[i].trace);
        scsi_close(ddm);
    }
}

static void zeroes_stay_allocated_where_unmapped_blocks_read_as_anything(void **state)
{
    struct disk *disk = *state;
    struct volume_profile profile;
    disk->reads_zeroes = false;
    struct ddm *ddm = open_disk(disk, &profile);
    carry_out(ddm, &profile, NODE_WRITE_ZEROES, 0, 512, 0, NULL);
    assert_string_equal(disk->trace, "93/00 0+1\n");
    scsi_close(ddm);
}

static void an_old_disk_is_used_as_far_as_it_goes(void **state)
{
    struct disk *disk = *state;
    struct volume_profile profile;
    disk->has_pages = disk->can_same = false;
    disk->block_size = 4096;
    struct ddm *ddm = open_disk(disk, &profile);
    uint8_t *data = malloc(8192);
    memset(data, 0x5a, 8192);
    assert_int_equal(profile.block_size, 4096);
    assert_int_equal(profile.alignment, 4096);
    assert_int_equal(profile.transfer_max, 1 << 20);
    assert_false((profile.abilities & (VOLUME_CAN_TRIM | VOLUME_CAN_ZERO_FAST)) != 0);
    assert_string_equal(profile.origin, "iscsi:memory");
    carry_out(ddm, &profile, NODE_WRITE, 4096, 8192, 0, data);
    carry_out(ddm, &profile, NODE_WRITE_ZEROES, 8192, 4096, 0, NULL);
    carry_out(ddm, &profile, NODE_READ, 4096, 8192, 0, data);
    assert_string_equal(disk->trace, "8a/00 1+2\n8a/00 2+1\n88/00 1+2\n");
    assert_int_equal(data[0], 0x5a);
    assert_int_equal(data[4096], 0);
    free(data);
    scsi_close(ddm);
}

static void a_short_write_that_must_be_stable_is_stable_as_far_as_it_went(void **state)
{
    struct disk *disk = *state;
    struct volume_profile profile;
    uint8_t data[1024] = {0};
    disk->has_fua = false;
    struct ddm *ddm = open_disk(disk, &profile);
    disk->faults[0] = (struct fault){.opcode = SCSI_WRITE_16, .count = 1, .residual = 512};
    struct ddm_command command = carry_out(ddm, &profile, NODE_WRITE, 0, 1024, NODE_FUA, data);
    assert_int_equal(command.completion, NODE_OK);
    assert_int_equal(command.len, 512);
    assert_string_equal(disk->trace, "8a/00 0+2\n91/00 0+2\n");
    scsi_close(ddm);
}

static void unit_attention_and_busy_are_asked_again_when_opening(void **state)
{
    struct disk *disk = *state;
    struct volume_profile profile;
    disk->faults[0] = (struct fault){.opcode = SCSI_INQUIRY, .count = 2, .status = SCSI_BUSY};
    disk->faults[1] = (struct fault){.opcode = SCSI_SERVICE_ACTION_IN_16,
                                     .count = 3,
                                     .status = SCSI_CHECK_CONDITION,
                                     .key = SCSI_UNIT_ATTENTION,
                                     .asc = 0x29};
    scsi_close(open_disk(disk, &profile));
    assert_int_equal(disk->faults[0].count + disk->faults[1].count, 0);
}

// ... and what is told with an error recovered is told.
static void errors_that_are_over_keep_no_disk_from_being_opened(void **state)
{
    static const struct fault faults[] = {{.key = SCSI_RECOVERED_ERROR},
                                          {.key = SCSI_RECOVERED_ERROR, .is_deferred = true},
                                          {.key = SCSI_MEDIUM_ERROR, .is_deferred = true}};
    struct disk *disk = *state;
    for (unsigned i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        struct volume_profile profile;
        disk->is_open = true;
        disk->faults[0] = faults[i];
        disk->faults[0].opcode = SCSI_SERVICE_ACTION_IN_16;
        disk->faults[0].status = SCSI_CHECK_CONDITION;
        disk->faults[0].count = 1;
        struct ddm *ddm = open_disk(disk, &profile);
        assert_int_equal(disk->faults[0].count, 0);
        assert_int_equal(profile.size, BLOCK_COUNT * 512);
        scsi_close(ddm);
    }
}

static void expect_refused(struct disk *disk, int error, const char *words)
{
    struct ddm *ddm = NULL;
    struct why why = {""};
    assert_int_equal(scsi_open(&ddm_iscsi, &disk->transport, &ddm, &why), error);
    assert_non_null(strstr(why.text, words));
    assert_false(disk->is_open);
}

static void what_is_no_disk_is_refused(void **state)
{
    struct disk *disk = *state;
    disk->peripheral = 0x05; // a CD
    expect_refused(disk, -ENODEV, "there is no disk (peripheral 05h)");
    disk->peripheral = 0x7f; // no logical unit
    expect_refused(disk, -ENODEV, "7fh");
    disk->peripheral = 0;
    disk->block_size = 520;
    expect_refused(disk, -EPROTO, "blocks of 520 octets");
}

static void a_disk_that_fails_says_how(void **state)
{
    struct disk *disk = *state;
    disk->faults[0] = (struct fault){.opcode = SCSI_SERVICE_ACTION_IN_16,
                                     .count = 1,
                                     .status = SCSI_CHECK_CONDITION,
                                     .key = SCSI_HARDWARE_ERROR,
                                     .asc = 0x44};
    expect_refused(disk, -EIO, "sense key 4h, code 44h");
}

static void a_disk_that_stays_busy_is_given_up(void **state)
{
    struct disk *disk = *state;
    disk->faults[0] = (struct fault){.opcode = SCSI_INQUIRY, .count = 1000, .status = SCSI_BUSY};
    expect_refused(disk, -EAGAIN, "status 08h");
    assert_true(disk->faults[0].count > 900);
}

static void a_protected_disk_is_read_only(void **state)
{
    struct disk *disk = *state;
    struct volume_profile profile;
    disk->is_protected = true;
    struct ddm *ddm = open_disk(disk, &profile);
    assert_int_equal(profile.abilities, VOLUME_CAN_FLUSH);
    scsi_close(ddm);
}

static void a_disk_that_takes_no_more_is_full(void **state)
{
    struct disk *disk = *state;
    struct volume_profile profile;
    struct ddm *ddm = open_disk(disk, &profile);
    struct ddm_command commands[9] = {0};
    bool has_ended = false;
    for (unsigned i = 0; i < 9; i++) {
        commands[i] = (struct ddm_command){.operation = NODE_FLUSH};
        io_format_scsi.encode(&profile, &commands[i]);
        ddm_command_expect(&commands[i], on_end, &has_ended);
        assert_int_equal(scsi_submit(ddm, &commands[i]), i < 8 ? 0 : -EAGAIN);
    }
    scsi_drain(ddm);
    assert_true(has_ended);
    scsi_close(ddm);
}

static void a_disk_that_does_not_answer_is_given_up(void **state)
{
    struct disk *disk = *state;
    struct ddm *ddm = NULL;
    struct why why;
    disk->is_silent = true;
    assert_int_equal(scsi_open(&ddm_iscsi, &disk->transport, &ddm, &why), -ETIMEDOUT);
    assert_non_null(strstr(why.text, "the device does not answer"));
    assert_in_range(disk->now, 10 * NS_PER_S, 11 * NS_PER_S);
}

// What the flush took leaves nothing behind by which a wait would end.
static void an_answer_that_comes_with_the_flush_is_not_waited_for(void **state)
{
    struct disk *disk = *state;
    struct volume_profile profile;
    struct ddm *ddm = open_disk(disk, &profile);
    struct ddm_command command = {.operation = NODE_FLUSH};
    bool has_ended = false;
    assert_int_equal(io_format_scsi.encode(&profile, &command), NODE_OK);
    ddm_command_expect(&command, on_end, &has_ended);
    assert_int_equal(scsi_submit(ddm, &command), 0);
    scsi_drain(ddm);
    assert_true(has_ended);
    assert_int_equal(disk->wait_count, 0);
    scsi_close(ddm);
}

static void what_comes_to_its_end_while_the_disk_is_asked_is_not_forgotten(void **state)
{
    struct disk *disk = *state;
    struct volume_profile profile;
    disk->has_fua = false;
    struct ddm *ddm = open_disk(disk, &profile);
    uint8_t data[512] = {7};
    struct ddm_command command = {.operation = NODE_WRITE,
                                  .flags = NODE_FUA,
                                  .len = sizeof data,
                                  .data = data,
                                  .data_len = sizeof data};
    bool has_ended = false;
    assert_int_equal(io_format_scsi.encode(&profile, &command), NODE_OK);
    ddm_command_expect(&command, on_end, &has_ended);
    assert_int_equal(scsi_submit(ddm, &command), 0);
    assert_int_equal(scsi_probe(ddm, &profile), 0);
    assert_true(has_ended);
    assert_string_equal(disk->trace, "8a/00 0+1\n91/00 0+1\n");
    scsi_close(ddm);
}

#define DISK_TEST(name) cmocka_unit_test_setup_teardown(name, disk_setup, disk_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        DISK_TEST(a_disk_that_can_everything_is_used_so),
        DISK_TEST(without_fua_a_write_is_synchronized_behind_it),
        DISK_TEST(without_a_cache_there_is_nothing_to_synchronize),
        DISK_TEST(a_failed_synchronize_fails_the_write),
        DISK_TEST(what_was_written_with_an_error_recovered_is_synchronized),
        DISK_TEST(zeroes_stay_allocated_where_unmapped_blocks_read_as_anything),
        DISK_TEST(an_old_disk_is_used_as_far_as_it_goes),
        DISK_TEST(a_short_write_that_must_be_stable_is_stable_as_far_as_it_went),
        DISK_TEST(unit_attention_and_busy_are_asked_again_when_opening),
        DISK_TEST(errors_that_are_over_keep_no_disk_from_being_opened),
        DISK_TEST(what_is_no_disk_is_refused),
        DISK_TEST(a_disk_that_fails_says_how),
        DISK_TEST(a_disk_that_stays_busy_is_given_up),
        DISK_TEST(a_protected_disk_is_read_only),
        DISK_TEST(a_disk_that_takes_no_more_is_full),
        DISK_TEST(a_disk_that_does_not_answer_is_given_up),
        DISK_TEST(an_answer_that_comes_with_the_flush_is_not_waited_for),
        DISK_TEST(what_comes_to_its_end_while_the_disk_is_asked_is_not_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
