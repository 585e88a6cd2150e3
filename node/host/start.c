// The node's start as its user sees it: what it serves and where, or why it does not, with what to
// do about it.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uuid/uuid.h>

#include "cgroup/memory.h"
#include "listen/passed.h"
#include "node/discovery/announcer.h"
#include "node/discovery/sources.h"
#include "node/host/agent.h"
#include "node/host/announcement.h"
#include "node/host/host.h"
#include "node/host/notify.h"
#include "node/host/web.h"
#include "node/interface/volume.h"
#include "node/tts/nvme_tcp.h"
#include "node/uma/uma.h"
#include "text/quantity.h"

enum { ADVICE_MAX = 128 };

/* ---- what is wrong, and what to do ----------------------------------------------------------- */

static const char *remedy_of_volume(int error)
{
    switch (-error) {
    case ENOENT:
    case ENXIO:
        return "see whether the name is right; `truncate -s 1G FILE` makes a new file";
    case EACCES:
    case EPERM:
    case EROFS:
        return "serve it with -r if it may only be read, or have it opened to this user";
    case EISDIR:
        return "end it with / to serve the files in it";
    case EBUSY:
        return "end the other process, or be a client of it: see `weft status`";
    case ECONNREFUSED:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ETIMEDOUT:
        return "see whether the target runs there, on this port, and can be reached from here";
    case EMFILE:
    case ENFILE:
    case EAGAIN:
    case ENOMEM:
        return host_remedy(error);
    default:
        return "see `weft help serve` for what a URI may be";
    }
}

// Of an address that was refused, or a system that has not enough of something.
static void remedy_of_listener(int error, const struct host_tts *tts, char ret[ADVICE_MAX])
{
    if (error == -EAGAIN || error == -EMFILE || error == -ENFILE || error == -ENOMEM) {
        snprintf(ret, ADVICE_MAX, "%s", host_remedy(error));
    } else if (passed_is(tts->listen->of[0])) {
        snprintf(ret, ADVICE_MAX, "give a socket unit one ListenStream= and FileDescriptorName=%s",
                 tts->option);
    } else {
        snprintf(ret, ADVICE_MAX,
                 "choose another address with --%s=HOST:PORT, or port 0 for a free one",
                 tts->option);
    }
}

// Under load the whole pool is touched, and the kernel kills whoever has more than it may have.
void host_pool_look(const struct host *host)
{
    struct cgroup_memory group;
    cgroup_memory_find("/proc/self", &group);
    const uint64_t limit = group.most_len, len = host->config->pool_len;
    if (len > limit / 2) {
        char pool[TEXT_SIZE_MAX], most[TEXT_SIZE_MAX];
        fprintf(stderr,
                "weft: the pool of %s is large beside the memory limit of %s here: under load the "
                "kernel may end this process; raise the limit, or give a smaller --pool\n",
                text_size_format(len, pool), text_size_format(limit, most));
    }
}

/* ---- it serves, or does not ------------------------------------------------------------------ */

// Clients with blocks do not see what fills none.
static void tell_of_tail(const struct host *host, const struct resource *row)
{
    const struct host_config *config = host->config;
    bool has_blocks = config->nvme_tcp_listen.count > 0 || config->nvme_rdma_listen.count > 0 ||
                      config->iscsi_listen.count > 0 || config->iscsi_rdma_listen.count > 0;
    uint64_t tail_len = row->profile.size % row->profile.block_size;
    if (has_blocks && tail_len != 0) {
        fprintf(stderr,
                "weft: volume %s: NVMe and iSCSI see whole blocks of %" PRIu32
                " octets, not its last "
                "%" PRIu64 "\n",
                row->name, row->profile.block_size, tail_len);
    }
}

static void volume_put(struct host *host, const struct resource *row, FILE *out)
{
    char uri[HOST_URI_MAX], hint[HOST_URI_MAX], size[TEXT_SIZE_MAX], uuid[UUID_STR_LEN];
    uuid_unparse_lower(row->identity.uuid, uuid);
    fprintf(out, "volume %s: %s octets, %s%s, uuid %s\n", row->name,
            text_size_format(row->profile.size, size), row->profile.driver,
            (row->abilities & VOLUME_CAN_WRITE) != 0 ? "" : ", read-only", uuid);
    for (unsigned i = 0; i < host->tts_count; i++) {
        unsigned count = 0;
        for (; host_uri(host, i, row, count, uri); count++) {
            fprintf(out, "  %s\n", uri);
        }
        if (count > 0) {
            host->ttss[i].tts->hint(host->ttss[i].ctx, row, hint, sizeof hint);
            fprintf(out, "  %s\n", hint);
        }
    }
}

// What a user needs to reach the volumes.
static char *announcement_text(struct host *host, size_t *ret_len)
{
    const struct resource_table *table = uma_resources(host->uma);
    char *text = NULL;
    FILE *out = open_memstream(&text, ret_len);
    if (out == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < table->count; i++) {
        const struct resource *row = &table->rows[i];
        if (row->state == RESOURCE_FAILED) {
            fprintf(stderr, "weft: volume %s: not opened: %s\n", row->name,
                    uma_volume_why(host->uma, row->volume));
        } else {
            tell_of_tail(host, row);
            volume_put(host, row, out);
        }
    }
    if (host->page != NULL) {
        char address[HOST_LISTEN_MAX];
        web_address(host->page, address, sizeof address);
        fprintf(out, "page %s\n", address);
    }
    fclose(out);
    return text;
}

// In one line: how many volumes, and for which protocols.
static void notify_ready(const struct host *host)
{
    char state[256];
    int len =
        snprintf(state, sizeof state, "READY=1\nSTATUS=serving %zu volume%s by",
                 uma_resources(host->uma)->count, uma_resources(host->uma)->count == 1 ? "" : "s");
    for (unsigned i = 0; i < host->tts_count; i++) {
        len += snprintf(state + len, sizeof state - (size_t)len, " %s", host->ttss[i].option);
    }
    notify_send(state);
}

static void announce(struct host *host)
{
    size_t len;
    char *text = announcement_text(host, &len);
    if (text != NULL) {
        announcement_begin(&host->announcement, host->loop, text, len);
    }
}

// An RTA of which so many processes in a row did not become ready has failed.
enum { RTA_TRIES = 3 };

static const char *remedy_of_rta(int error)
{
    return error != 0 ? host_remedy(error)
                      : "see what it said before it ended, and whether the limits here (ulimit -a) "
                        "let this program run";
}

static bool has_failed_rta(struct host *host)
{
    for (uint32_t i = 0; i < host->unit_end; i++) {
        struct uma_unit_status status;
        if (uma_unit_status(host->uma, i, &status) && status.failures >= RTA_TRIES) {
            host_say_failure("cannot start the RTA", status.name, status.why,
                             remedy_of_rta(status.error));
            return true;
        }
    }
    return false;
}

// By a source: it is left out, and tried again.
static bool is_found(const struct host *host, const struct resource *row)
{
    const struct volume_wish *wish = host_wish_find(&host->wanted, row->name);
    return wish != NULL && wish->source != 0;
}

// At the start an RTA that does not come up, a volume that cannot be opened, or an address that
// cannot be had, is the end; later it is tried again.
static bool has_failed(struct host *host)
{
    const struct resource_table *table = uma_resources(host->uma);
    if (has_failed_rta(host)) {
        return true;
    }
    for (size_t i = 0; i < table->count; i++) {
        if (table->rows[i].state == RESOURCE_FAILED && !is_found(host, &table->rows[i])) {
            uint32_t volume = table->rows[i].volume;
            host_say_failure("cannot serve", table->rows[i].name, uma_volume_why(host->uma, volume),
                             remedy_of_volume(uma_volume_error(host->uma, volume)));
            return true;
        }
    }
    for (unsigned i = 0; i < host->tts_count; i++) {
        const char *why = uma_tts_why(host->uma, i);
        if (why != NULL) {
            char advice[ADVICE_MAX];
            remedy_of_listener(uma_tts_error(host->uma, i), &host->ttss[i], advice);
            host_say_failure("cannot listen", host->ttss[i].option, why, advice);
            return true;
        }
    }
    return false;
}

static void mdns_start(struct host *host)
{
    const uint16_t port = host->nvme_tcp != NULL ? nvme_tcp_port(host->nvme_tcp) : 0;
    struct announcer_parts parts = {.loop = host->loop, .port = port, .ctx = host, .say = host_say};
    if (host->config->is_announced && port != 0) {
        host->announcer = announcer_create(&parts);
    }
}

// What sources have is served too, once they have answered; they are given up in time.
static bool has_what_was_asked(const struct host *host)
{
    struct source_status status;
    return sources_at(host->sources, 0, &status) == 0 || host_volumes_are_settled(host);
}

void host_check_started(struct host *host)
{
    if (host->has_announced) {
        return;
    }
    if (has_failed(host)) {
        host->has_announced = true;
        host_end(host, EXIT_FAILURE);
    } else if (has_what_was_asked(host) && uma_has_started(host->uma)) {
        host->has_announced = true;
        if (!host->config->is_quiet) {
            announce(host);
        }
        int error = host->config->captive != NULL ? host_captive_start(host) : 0;
        if (error != 0) {
            host_say_failure("cannot run", host->config->captive[0], strerror(-error),
                             "give a command that can be run");
            host_end(host, EXIT_FAILURE);
        } else {
            mdns_start(host);
            notify_ready(host);
        }
    }
}
