// What RTAs say on their standard error. It is not the host's own: what an RTA does to a file
// description that both had, the host would suffer, and lines could not be told apart. So it is a
// pipe to the host, which says each line with the RTA's name before it, as often as strangers may
// speak.

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "node/host/agent.h"
#include "node/host/strangers.h"
#include "node/interface/volume.h"
#include "node/loop/loop.h"
#include "node/uma/uma.h"
#include "text/show.h"

enum { READ_LEN = 512, READ_BATCH = 16 };

static void line_end(struct host_unit *unit)
{
    static const char own[] = "weft: ";
    struct host *host = unit->host;
    struct host_unit_log *log = &unit->log;
    struct uma_unit_status status;
    char line[sizeof log->line + VOLUME_NAME_MAX + 8], bounded[STRANGERS_LINE_MAX];
    log->line[log->len] = '\0';
    text_tame(log->line, sizeof log->line); // characters of several octets are whole only now
    const char *text = log->line + (strncmp(log->line, own, sizeof own - 1) == 0 ? 6 : 0);
    if (log->len > 0 && uma_unit_status(host->uma, unit->number, &status)) {
        snprintf(line, sizeof line, "RTA %s: %s", status.name, text);
        if (strangers_line(&host->rtas, status.name, line, loop_now(host->loop), bounded)) {
            host_say(host, bounded);
        }
    }
    log->len = 0;
}

// A line that is too long loses its end.
static void take(struct host_unit *unit, char c)
{
    struct host_unit_log *log = &unit->log;
    if (c == '\n') {
        line_end(unit);
    } else if (log->len < sizeof log->line - 1) {
        log->line[log->len++] = c != '\0' ? c : '?'; // which ends no line here
    }
}

static void log_read(struct host_unit *unit)
{
    char octets[READ_LEN];
    ssize_t got = 1;
    for (unsigned i = 0; i < READ_BATCH && got > 0; i++) {
        got = read(unit->log.fd, octets, sizeof octets);
        for (ssize_t at = 0; at < got; at++) {
            take(unit, octets[at]);
        }
    }
    if (got == 0) { // it has closed it
        loop_unwatch(unit->log.watch);
        unit->log.watch = NULL;
    }
}

static void on_log(void *ctx, uint32_t events)
{
    log_read(ctx);
}

int host_unit_log_open(struct host_unit *unit)
{
    int pipe_fds[2];
    if (pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK) != 0) {
        return -1;
    }
    unit->log = (struct host_unit_log){.fd = pipe_fds[0]};
    unit->log.watch = loop_watch(unit->host->loop, pipe_fds[0], EPOLLIN, on_log, unit);
    return pipe_fds[1];
}

void host_unit_log_close(struct host_unit *unit)
{
    if (unit->log.fd > 0) {
        log_read(unit);
        line_end(unit);
        loop_unwatch(unit->log.watch);
        close(unit->log.fd);
    }
    unit->log = (struct host_unit_log){.fd = -1};
}
