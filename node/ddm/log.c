// log: writes a line for each command that ends.

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "node/ddm/drivers.h"
#include "node/ddm/filter.h"
#include "node/ddm/parameters.h"
#include "node/interface/request.h"
#include "node/interface/rta_ddm.h"

struct log {
    struct ddm ddm;
    FILE *out;
};

static const char *const keys[] = {"log.file", NULL};

static void log_close(struct ddm *ddm)
{
    struct log *log = (struct log *)ddm;
    if (log->out != stderr) {
        fclose(log->out);
    }
    filter_close(ddm);
}

static int log_open(const struct ddm_target *target, const struct ddm_host *host, struct ddm *next,
                    struct ddm **ret, struct why *ret_why)
{
    const char *path = parameter_find(target, "log.file");
    FILE *out = path != NULL ? fopen(path, "ae") : stderr;
    if (out == NULL) {
        int error = -errno;
        why_say(ret_why, "log.file=%.100s: %s", path, strerror(-error));
        return error;
    }
    setvbuf(out, NULL, _IOLBF, 0);
    struct ddm *ddm = filter_create(sizeof(struct log), &ddm_log, host, next);
    if (ddm == NULL) {
        fclose(out);
        return -ENOMEM;
    }
    ((struct log *)ddm)->out = out;
    *ret = ddm;
    return 0;
}

// A device with a format has not been understood yet: its status stands for itself.
static void outcome(const struct ddm_command *command, char *ret, size_t ret_len)
{
    if (command->transport_error != 0) {
        snprintf(ret, ret_len, "no answer (%s)", strerror(-command->transport_error));
    } else if (command->status_len > 0) {
        snprintf(ret, ret_len, "status %02xh", command->status[0]);
    } else {
        snprintf(ret, ret_len, "%s", node_completion_name(command->completion));
    }
}

static void on_end(void *ctx, struct ddm_command *command)
{
    struct log *log = ctx;
    const struct ddm_host *host = &log->ddm.host;
    char said[64];
    outcome(command, said, sizeof said);
    fprintf(log->out, "%s offset=%" PRIu64 " len=%" PRIu64 " flags=%#x: %s, %" PRIu64 " us\n",
            node_operation_facts(command->operation)->name, command->offset, command->len,
            (unsigned)command->flags, said,
            (host->clock(host->ctx) - command->submitted_at_ns) / NS_PER_US);
    ddm_command_end(command);
}

static int log_submit(struct ddm *ddm, struct ddm_command *command)
{
    ddm_command_expect(command, on_end, ddm);
    int error = filter_submit(ddm, command);
    if (error != 0) {
        command->end_count--;
    }
    return error;
}

static const char *const calls[] = {NULL};

const struct ddm_driver ddm_log = {
    .version = DDM_VERSION,
    .self_size = sizeof(struct ddm_driver),
    .name = "log",
    .summary = "writes a line for each command",
    .fence = "that of the next",
    .parameters = keys,
    .is_filter = true,
    .calls = calls,
    .open = log_open,
    .probe = filter_probe,
    .submit = log_submit,
    .flush_queue = filter_flush_queue,
    .poll_fd = filter_poll_fd,
    .next_deadline = filter_next_deadline,
    .poll = filter_poll,
    .drain = filter_drain,
    .close = log_close,
};
