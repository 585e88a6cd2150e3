// Volumes by a driver of the storage node: logical units of iSCSI targets, over one-shot RDMA or
// TCP, and NVMe volumes with several paths. The driver has session, patience and facts; its
// commands are made and read by the formats of the node's RTAs, so that a command line does what a
// node does.

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/poll_ms.h"
#include "base/time.h"
#include "base/why.h"
#include "cli/volume.h"
#include "clock/clock.h"
#include "node/ddm/registry.h"
#include "node/interface/request.h"
#include "node/interface/rta_ddm.h"
#include "node/interface/volume.h"
#include "node/rta/converter.h"
#include "node/rta/formats.h"
#include "text/quantity.h"

enum { TRIES_MAX = 8, DEPTH = 128 };

static const char *const schemes[] = {"iscsi+rdma://", "iscsi://", NULL};

// What is under way of an I/O, a command at a time: zeroes may take several.
struct command {
    struct session *session;
    struct volume_io *io;
    uint64_t done;
    unsigned tries;
    struct ddm_command ddm;
    struct list_link link; // free
};

struct session {
    struct volume *volume;
    struct ddm *ddm;
    struct volume_profile profile;
    const struct io_format *format; // NULL: none but the request
    uint64_t commands, octets_read, octets_written, errors;
    struct list_link free;
    struct command slots[DEPTH];
};

static struct session *session_of(const struct volume *volume)
{
    return volume->session;
}

/* ---- opening --------------------------------------------------------------------------------- */

static instant_ns clock_read(void *ctx)
{
    return clock_now();
}

static void say_line(void *ctx, const char *line)
{
    fprintf(stderr, "weft: %s\n", line);
}

static void keep_nothing(void *ctx, int fd)
{
}

static bool is_nvme(const char *uri)
{
    return strncmp(uri, "nvme+", strlen("nvme+")) == 0;
}

static int driver_check(const char *uri, bool is_one, struct why *ret_why)
{
    const char *target = strchr(strstr(uri, "://") + 3, '/');
    if (strlen(uri) >= VOLUME_URI_MAX / 2) {
        why_say(ret_why, "it is longer than %d octets", VOLUME_URI_MAX / 2 - 1);
        return -EINVAL;
    }
    if (is_nvme(uri)) {
        return 0; // the driver says what is wrong
    }
    if (target == NULL || strchr(target + 1, '/') == NULL) {
        why_say(ret_why, "it names no unit: //HOST[:PORT]/TARGET/LUN; the node prints it, and "
                         "iscsi-ls -s iscsi://HOST lists those over TCP");
        return -EINVAL;
    }
    return 0;
}

static void facts_fill(const struct session *session, const char *uri, struct volume_facts *ret)
{
    const struct volume_profile *profile = &session->profile;
    const char *target = strchr(strstr(uri, "://") + 3, '/') + 1;
    snprintf(ret->uri, sizeof ret->uri, "%s", uri);
    ret->name_key = is_nvme(uri) ? "nqn" : "target";
    snprintf(ret->name, sizeof ret->name, "%.*s", (int)strcspn(target, "/?"), target);
    ret->len = profile->size;
    ret->block_len = profile->block_size;
    ret->transfer_max_len = profile->transfer_max;
    ret->is_read_only = (profile->abilities & VOLUME_CAN_WRITE) == 0;
    ret->can_write_zeroes = (profile->abilities & VOLUME_CAN_WRITE_ZEROES) != 0;
}

static int driver_open(struct volume *volume, const char *uri, unsigned depth, struct why *ret_why)
{
    struct session *session = calloc(1, sizeof *session);
    const struct ddm_host host = {.keepsake = -1,
                                  .is_alone = true,
                                  .clock = clock_read,
                                  .say = say_line,
                                  .keep = keep_nothing};
    char text[VOLUME_URI_MAX];
    volume->session = session;
    why_say(ret_why, "no memory");
    if (session == NULL) {
        return -ENOMEM;
    }
    session->volume = volume;
    list_init(&session->free);
    for (unsigned i = 0; i < DEPTH; i++) {
        session->slots[i].session = session;
        list_push_tail(&session->free, &session->slots[i].link);
    }
    // Somebody waits at the command line: a target that is gone is an error before long.
    const char *patience = strchr(uri, '?') == NULL ? "?patience=10s" : "&patience=10s";
    bool has_its = strstr(uri, "patience=") != NULL;
    snprintf(text, sizeof text, "%s%s", uri, has_its ? "" : patience);
    int error = ddm_registry_open(text, &host, &session->ddm, ret_why);
    if (error == 0) {
        session->format = session->ddm->driver->format != NULL ? &io_format_scsi : NULL;
        error = session->ddm->driver->probe(session->ddm, &session->profile);
    }
    if (error == 0) {
        facts_fill(session, uri, &volume->facts);
    }
    return error;
}

static void driver_close(struct volume *volume)
{
    struct session *session = session_of(volume);
    if (session != NULL && session->ddm != NULL) {
        ddm_close(session->ddm);
    }
    free(session);
}

/* ---- I/O ------------------------------------------------------------------------------------- */

static void end(struct command *command, int error, const char *answer)
{
    struct session *session = command->session;
    struct volume_io *io = command->io;
    io->error = error;
    snprintf(io->answer, sizeof io->answer, "%s", answer);
    session->errors += error != 0;
    session->octets_read += error == 0 && io->operation == VOLUME_READ ? io->len : 0;
    session->octets_written += error == 0 && io->operation == VOLUME_WRITE ? io->len : 0;
    list_push_head(&session->free, &command->link);
    list_push_tail(&session->volume->ended, &io->link);
}

static int error_of(enum node_completion completion)
{
    switch (completion) {
    case NODE_OK:
        return 0;
    case NODE_NO_SPACE:
        return -ENOSPC;
    case NODE_READ_ONLY:
        return -EROFS;
    case NODE_UNSUPPORTED:
        return -EOPNOTSUPP;
    case NODE_RETRY:
        return -ENOTCONN;
    case NODE_RANGE:
        return -ERANGE;
    case NODE_RESERVED:
        return -EBADE;
    default:
        return -EIO;
    }
}

static int step(struct command *command);

static void on_end(void *ctx, struct ddm_command *ddm)
{
    struct command *command = ctx;
    struct volume_io *io = command->io;
    if (command->session->format != NULL) {
        command->session->format->decode(ddm);
    }
    bool may_retry = ddm->transport_error == 0 && ++command->tries < TRIES_MAX;
    if (ddm->completion == NODE_OK) {
        command->done += ddm->len;
        command->tries = 0;
    } else if (ddm->completion != NODE_RETRY || !may_retry) {
        end(command, error_of(ddm->completion), node_completion_name(ddm->completion));
        return;
    }
    if (io->operation == VOLUME_FLUSH ? ddm->completion == NODE_OK : command->done >= io->len) {
        end(command, 0, "");
        return;
    }
    int error = step(command);
    if (error != 0) {
        end(command, error, "");
    }
}

// The next command of the I/O: all that is left, if the device can do so much.
static int step(struct command *command)
{
    static const enum node_operation operations[VOLUME_OPERATION_COUNT] = {
        [VOLUME_READ] = NODE_READ,
        [VOLUME_WRITE] = NODE_WRITE,
        [VOLUME_FLUSH] = NODE_FLUSH,
        [VOLUME_WRITE_ZEROES] = NODE_WRITE_ZEROES,
    };
    struct session *session = command->session;
    const struct volume_io *io = command->io;
    bool has_data = io->operation == VOLUME_READ || io->operation == VOLUME_WRITE;
    bool is_flush = io->operation == VOLUME_FLUSH;
    uint64_t left = is_flush ? 0 : io->len - command->done;
    if (io->operation == VOLUME_WRITE_ZEROES && left > session->profile.range_max) {
        left = session->profile.range_max;
    }
    command->ddm = (struct ddm_command){.operation = (uint8_t)operations[io->operation],
                                        .offset = is_flush ? 0 : io->offset + command->done,
                                        .len = left,
                                        .data = has_data ? io->data + command->done : NULL,
                                        .data_len = has_data ? (uint32_t)left : 0,
                                        .submitted_at_ns = clock_read(NULL)};
    enum node_completion refused = session->format != NULL
                                       ? session->format->encode(&session->profile, &command->ddm)
                                       : NODE_OK;
    if (refused != NODE_OK) {
        return error_of(refused);
    }
    ddm_command_expect(&command->ddm, on_end, command);
    session->commands++;
    return ddm_submit(session->ddm, &command->ddm);
}

static int driver_submit(struct volume *volume, struct volume_io *io)
{
    struct session *session = session_of(volume);
    struct list_link *link = list_pop_head(&session->free);
    if (link == NULL) {
        return -EAGAIN;
    }
    struct command *command = LIST_ENTRY(link, struct command, link);
    command->io = io;
    command->done = 0;
    command->tries = 0;
    int error = step(command);
    if (error != 0) {
        list_push_head(&session->free, &command->link);
    }
    return error;
}

// Until what the driver waits for, or the time is up.
static int left_ms(const struct session *session, int timeout_ms)
{
    instant_ns at = session->ddm->driver->next_deadline(session->ddm), now = clock_read(NULL);
    int due_ms = poll_ms(now, at);
    return timeout_ms < 0 || (due_ms >= 0 && due_ms < timeout_ms) ? due_ms : timeout_ms;
}

static int driver_wait(struct volume *volume, int timeout_ms)
{
    struct session *session = session_of(volume);
    const struct ddm_driver *driver = session->ddm->driver;
    if (driver->flush_queue != NULL) {
        driver->flush_queue(session->ddm);
    }
    if (list_is_empty(&volume->ended)) {
        struct pollfd ready = {.fd = driver->poll_fd(session->ddm), .events = POLLIN};
        poll(&ready, 1, left_ms(session, timeout_ms));
        driver->poll(session->ddm, clock_read(NULL));
    }
    return 0;
}

// The driver connects again by itself, and I/O ends in any case.
static const char *driver_lost_why(const struct volume *volume)
{
    return NULL;
}

static const char *driver_remedy(int error)
{
    switch (error) {
    case -EBUSY:
        return "end the process that has it open, or name another ?initiator=";
    case -EINVAL:
        return "write it as the node prints it";
    default:
        return "see whether the target is there, with this transport: weft serve, weft status";
    }
}

/* ---- what is shown --------------------------------------------------------------------------- */

static void driver_count(const struct volume *volume, struct json_object *to)
{
    const struct session *session = session_of(volume);
    const struct {
        const char *key;
        uint64_t value;
    } fields[] = {{"commands", session->commands},
                  {"octets_read", session->octets_read},
                  {"octets_written", session->octets_written},
                  {"errors", session->errors}};
    for (unsigned i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        json_object_object_add(to, fields[i].key, json_object_new_uint64(fields[i].value));
    }
}

static void driver_describe(const struct volume *volume, struct json_object *to)
{
    const struct volume_profile *profile = &session_of(volume)->profile;
    struct json_object *unit = json_object_new_object();
    json_object_object_add(unit, "model", json_object_new_string(profile->model));
    json_object_object_add(unit, "driver", json_object_new_string(profile->driver));
    json_object_object_add(unit, "transfer_max", json_object_new_uint64(profile->transfer_max));
    json_object_object_add(unit, "depth", json_object_new_uint64(profile->depth));
    json_object_object_add(to, "unit", unit);
}

static void driver_show(const struct volume *volume)
{
    const struct volume_profile *profile = &session_of(volume)->profile;
    const struct volume_facts *facts = &volume->facts;
    char size[TEXT_SIZE_MAX], transfer[TEXT_SIZE_MAX];
    bool is_oneshot = strcmp(profile->driver, "iscsi+rdma") == 0;
    bool is_rdma = strcmp(profile->driver, "nvme+rdma") == 0;
    printf("%s of %s\n", is_nvme(facts->uri) ? "namespace" : "unit", facts->name);
    printf("  size          %s, %" PRIu64 " octets in blocks of %u%s\n",
           text_size_format(facts->len, size), facts->len, facts->block_len,
           facts->is_read_only ? ", read-only" : "");
    printf("  model         %s\n", profile->model);
    printf("  transfer      at most %s\n", text_size_format(profile->transfer_max, transfer));
    printf("  can           flush%s%s\n",
           (profile->abilities & VOLUME_CAN_TRIM) != 0 ? ", trim" : "",
           facts->can_write_zeroes ? ", write zeroes" : "");
    printf("  data          %s\n", is_oneshot ? "one-shot RDMA" : is_rdma ? "RDMA" : "TCP");
}

const struct volume_protocol volume_driver = {
    .schemes = schemes,
    .check = driver_check,
    .open = driver_open,
    .close = driver_close,
    .submit = driver_submit,
    .wait = driver_wait,
    .lost_why = driver_lost_why,
    .remedy = driver_remedy,
    .count = driver_count,
    .show = driver_show,
    .describe = driver_describe,
};
