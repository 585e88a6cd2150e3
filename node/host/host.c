#include "node/host/host.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include <uuid/uuid.h>

#include "node/host/agent.h"
#include "node/host/config.h"
#include "node/host/control.h"
#include "node/host/memory_limit.h"
#include "node/host/metrics.h"
#include "node/host/wish.h"

enum { ADVICE_MAX = 128 };

static const duration_ns stop_within_ns = 10 * NS_PER_S;

void host_say(void *ctx, const char *line)
{
    fprintf(stderr, "weft: %s\n", line);
}

static void say_failure(const char *what, const char *object, const char *why, const char *remedy)
{
    fprintf(stderr, "weft: %s: %s\n  why: %s\n  do:  %s\n", what, object, why, remedy);
}

// Of a system that has not enough of something.
static const char *remedy_of_want(int error)
{
    switch (-error) {
    case EFBIG:
        return "raise the limit on the size of files (ulimit -f), or give a smaller --pool";
    case EMFILE:
    case ENFILE:
        return "raise the limit on open files (ulimit -n)";
    case EAGAIN:
        return "raise the limit on processes and threads (ulimit -u)";
    default:
        return "free some memory, or give a smaller --pool";
    }
}

void host_end(struct host *host, int exit_status)
{
    host->exit_status = exit_status;
    host->stop_by_ns =
        instant_min(host->stop_by_ns, instant_after(loop_now(host->loop), stop_within_ns));
    uma_stop(host->uma, loop_now(host->loop));
}

static void close_keepsake(void *ctx, int keepsake)
{
    close(keepsake);
}

static void on_stopped(void *ctx)
{
    loop_stop(((struct host *)ctx)->loop);
}

/* ---- starting -------------------------------------------------------------------------------- */

// Clients with blocks do not see what fills none.
static void tell_of_tail(const struct host *host, const struct resource *row)
{
    const struct host_config *config = host->config;
    bool has_blocks = config->nvme_tcp_listen[0] != '\0' || config->nvme_rdma_listen[0] != '\0';
    uint64_t tail_len = row->profile.size % row->profile.block_size;
    if (has_blocks && tail_len != 0) {
        fprintf(stderr,
                "weft: volume %s: NVMe hosts see whole blocks of %" PRIu32 " octets, not its last "
                "%" PRIu64 "\n",
                row->name, row->profile.block_size, tail_len);
    }
}

// What a user needs to reach the volumes, on standard output.
static void announce(struct host *host)
{
    const struct resource_table *table = uma_resources(host->uma);
    for (size_t i = 0; i < table->count; i++) {
        const struct resource *row = &table->rows[i];
        char uri[HOST_URI_MAX], hint[HOST_URI_MAX], size[WISH_SIZE_TEXT_MAX], uuid[UUID_STR_LEN];
        uuid_unparse_lower(row->identity.uuid, uuid);
        printf("volume %s: %s octets, %s%s, uuid %s\n", row->name,
               wish_size_format(row->profile.size, size), row->profile.driver,
               (row->abilities & VOLUME_CAN_WRITE) != 0 ? "" : ", read-only", uuid);
        tell_of_tail(host, row);
        for (unsigned j = 0; j < host->tts_count; j++) {
            host_uri(host, j, row, uri);
            host->ttss[j].tts->hint(host->ttss[j].ctx, row, hint, sizeof hint);
            printf("  %s\n  %s\n", uri, hint);
        }
    }
    fflush(stdout);
}

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
    case EBUSY:
        return "end the other process, or be a client of it: see `weft status`";
    case EMFILE:
    case ENFILE:
    case EAGAIN:
    case ENOMEM:
        return remedy_of_want(error);
    default:
        return "see `weft help serve` for what a URI may be";
    }
}

// Of an address that was refused, or a system that has not enough of something.
static void remedy_of_listener(int error, const char *option, char ret[ADVICE_MAX])
{
    if (error == -EAGAIN || error == -EMFILE || error == -ENFILE || error == -ENOMEM) {
        snprintf(ret, ADVICE_MAX, "%s", remedy_of_want(error));
    } else {
        snprintf(ret, ADVICE_MAX,
                 "choose another address with --%s=HOST:PORT, or port 0 for a free one", option);
    }
}

// At the start a volume that cannot be opened, or an address that cannot be had, is the end; later
// it is tried again.
static bool has_failed(struct host *host)
{
    const struct resource_table *table = uma_resources(host->uma);
    for (size_t i = 0; i < table->count; i++) {
        if (table->rows[i].state == RESOURCE_FAILED) {
            uint32_t volume = table->rows[i].volume;
            say_failure("cannot serve", table->rows[i].name, uma_volume_why(host->uma, volume),
                        remedy_of_volume(uma_volume_error(host->uma, volume)));
            return true;
        }
    }
    for (unsigned i = 0; i < host->tts_count; i++) {
        const char *why = uma_tts_why(host->uma, i);
        if (why != NULL) {
            char advice[ADVICE_MAX];
            remedy_of_listener(uma_tts_error(host->uma, i), host->ttss[i].option, advice);
            say_failure("cannot listen", host->ttss[i].listen, why, advice);
            return true;
        }
    }
    return false;
}

static void check_started(struct host *host)
{
    if (host->has_announced) {
        return;
    }
    if (has_failed(host)) {
        host->has_announced = true;
        host_end(host, EXIT_FAILURE);
    } else if (uma_has_started(host->uma)) {
        host->has_announced = true;
        if (!host->config->is_quiet) {
            announce(host);
        }
        int error = host->config->captive != NULL ? host_captive_start(host) : 0;
        if (error != 0) {
            say_failure("cannot run", host->config->captive[0], strerror(-error),
                        "give a command that can be run");
            host_end(host, EXIT_FAILURE);
        }
    }
}

/* ---- members of the loop --------------------------------------------------------------------- */

static void before_batch_end(void *ctx, instant_ns now)
{
    host_units_receive(ctx, now);
}

static bool before_may_sleep(void *ctx)
{
    return host_units_sleep(ctx);
}

static void before_wake(void *ctx)
{
    host_units_wake(ctx);
}

static instant_ns before_next_deadline(void *ctx)
{
    const struct host *host = ctx;
    instant_ns at = instant_min(uma_next_deadline(host->uma), cta_next_deadline(host->cta));
    at = instant_min(at, nvme_target_next_deadline(host->nvme));
    return instant_min(at, host->stop_by_ns);
}

static void before_on_deadline(void *ctx, instant_ns now)
{
    struct host *host = ctx;
    if (host->stop_by_ns <= now) {
        host_say(host, "some requests do not end: stopping without them");
        loop_stop(host->loop);
        return;
    }
    if (uma_next_deadline(host->uma) <= now) {
        uma_on_deadline(host->uma, now);
    }
    if (cta_next_deadline(host->cta) <= now) {
        cta_on_deadline(host->cta, now);
    }
    if (nvme_target_next_deadline(host->nvme) <= now) {
        nvme_target_on_deadline(host->nvme, now);
    }
}

static void after_batch_end(void *ctx, instant_ns now)
{
    struct host *host = ctx;
    cta_flush(host->cta, now);
    check_started(host);
}

static void rescan_by_signal(struct host *host)
{
    struct why why;
    if (host_rescan(host, &why) != 0) {
        host_say(host, why.text);
    }
}

static void on_signal(void *ctx, uint32_t events)
{
    struct host *host = ctx;
    struct signalfd_siginfo info;
    while (read(host->signal_fd, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGHUP) {
            rescan_by_signal(host);
        } else if (host->stop_by_ns != INSTANT_NEVER) {
            loop_stop(host->loop); // asked twice
        } else {
            host_end(host, EXIT_SUCCESS);
        }
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

static int signals_take(struct host *host)
{
    sigset_t taken;
    sigemptyset(&taken);
    sigaddset(&taken, SIGINT);
    sigaddset(&taken, SIGTERM);
    sigaddset(&taken, SIGHUP);
    if (sigprocmask(SIG_BLOCK, &taken, NULL) != 0) {
        return -errno;
    }
    host->signal_fd = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
    if (host->signal_fd < 0) {
        return -errno;
    }
    host->signal_watch = loop_watch(host->loop, host->signal_fd, EPOLLIN, on_signal, host);
    return host->signal_watch != NULL ? 0 : -ENOMEM;
}

static int agents_create(struct host *host)
{
    struct node_pool pool = {.ptr = host->pool.ptr, .len = host->pool.len, .fd = host->pool.fd};
    struct uma_parts parts = {.ctx = host,
                              .spawn = host_unit_spawn,
                              .kill = host_unit_kill,
                              .send = host_unit_send,
                              .bus = host_unit_bus,
                              .close_keepsake = close_keepsake,
                              .identify = host_identify,
                              .say = host_say,
                              .on_stopped = on_stopped};
    host->uma = uma_create(&parts);
    struct cta_parts cta_parts = {.pool = pool, .uma = &uma_for_cta, .uma_ctx = host->uma};
    host->cta = cta_create(&cta_parts);
    if (host->uma == NULL || host->cta == NULL) {
        return -ENOMEM;
    }
    uma_join_cta(host->uma, &cta_for_uma, host->cta);
    host->before = (struct loop_member){.ctx = host,
                                        .on_batch_end = before_batch_end,
                                        .may_sleep = before_may_sleep,
                                        .on_wake = before_wake,
                                        .next_deadline = before_next_deadline,
                                        .on_deadline = before_on_deadline};
    host->after = (struct loop_member){.ctx = host, .on_batch_end = after_batch_end};
    loop_join(host->loop, &host->before);
    int error = host_ttss_create(host);
    loop_join(host->loop, &host->after);
    return error;
}

int host_volume_add(struct host *host, const struct volume_wish *wish)
{
    struct volume_wish placed = *wish;
    if (placed.unit[0] == '\0') {
        snprintf(placed.unit, sizeof placed.unit, "%s",
                 host->config->rta == HOST_RTA_EACH ? placed.name : "all");
    }
    return uma_volume_add(host->uma, &placed, loop_now(host->loop));
}

static int volumes_add(struct host *host)
{
    for (size_t i = 0; i < host->config->volume_count; i++) {
        const struct volume_wish *wish = &host->config->volumes[i];
        int error = host_volume_add(host, wish);
        if (error == 0 && i < host->config->file_volume_count) {
            error = config_volume_add(&host->in_file, wish);
        }
        if (error != 0) {
            say_failure("cannot serve", wish->name, strerror(-error),
                        "give each volume a name of its own, and fewer of them");
            return error;
        }
    }
    return 0;
}

static const struct volume_wish *wish_find(const struct host_config *config, const char *name)
{
    for (size_t i = 0; i < config->volume_count; i++) {
        if (strcmp(config->volumes[i].name, name) == 0) {
            return &config->volumes[i];
        }
    }
    return NULL;
}

// What the file no longer has goes; what it has now comes.
int host_rescan(struct host *host, struct why *ret_why)
{
    instant_ns now = loop_now(host->loop);
    if (host->config->path != NULL) {
        struct host_config fresh = {0};
        int error = config_read(host->config->path, &fresh, ret_why);
        if (error != 0) {
            config_free(&fresh);
            return error;
        }
        for (size_t i = 0; i < host->in_file.volume_count; i++) {
            const char *name = host->in_file.volumes[i].name;
            if (wish_find(&fresh, name) == NULL) {
                uma_volume_remove(host->uma, name, now);
            }
        }
        for (size_t i = 0; i < fresh.volume_count; i++) {
            if (wish_find(&host->in_file, fresh.volumes[i].name) == NULL) {
                host_volume_add(host, &fresh.volumes[i]);
            }
        }
        config_free(&host->in_file);
        host->in_file = fresh;
    }
    uma_rescan(host->uma, now);
    return 0;
}

static int metrics_setup(struct host *host)
{
    struct why why;
    if (host->config->metrics_listen[0] == '\0') {
        return 0;
    }
    host->metrics = metrics_create(host, host->config->metrics_listen, &why);
    if (host->metrics == NULL) {
        say_failure("no metrics", host->config->metrics_listen, why.text,
                    "choose another address, HOST:PORT");
    }
    return host->metrics != NULL ? 0 : -EADDRNOTAVAIL;
}

// Under load the whole pool is touched, and the kernel kills whoever has more than it may have.
static void pool_look(const struct host *host)
{
    uint64_t limit = memory_limit(), len = host->config->pool_len;
    if (len > limit / 2) {
        char pool[WISH_SIZE_TEXT_MAX], most[WISH_SIZE_TEXT_MAX];
        fprintf(stderr,
                "weft: the pool of %s is large beside the memory limit of %s here: under load the "
                "kernel may end this process; raise the limit, or give a smaller --pool\n",
                wish_size_format(len, pool), wish_size_format(limit, most));
    }
}

static int host_setup(struct host *host)
{
    host->loop = loop_create();
    if (host->loop == NULL) {
        return -ENOMEM;
    }
    pool_look(host);
    struct why why;
    int error = host_descriptors_check(host->config, &why);
    if (error != 0) {
        say_failure("cannot serve", "this process", why.text, remedy_of_want(error));
        return error;
    }
    error = segment_create("weft-pool", host->config->pool_len, &host->pool);
    if (error == 0) {
        error = agents_create(host);
    }
    if (error == 0) {
        error = signals_take(host);
    }
    if (error != 0) {
        say_failure("cannot serve", "this process", strerror(-error), remedy_of_want(error));
        return error;
    }
    error = metrics_setup(host);
    if (error != 0) {
        return error;
    }
    host->control = control_create(host);
    return volumes_add(host);
}

// A client that has gone, and a limit on the size of files, are errors of a write and not the end.
static void signals_ignore(void)
{
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
}

static void host_teardown(struct host *host)
{
    host_captive_close(host);
    control_destroy(host->control);
    metrics_destroy(host->metrics);
    host_units_close(host);
    host_ttss_destroy(host);
    uma_destroy(host->uma);
    cta_destroy(host->cta);
    loop_unwatch(host->signal_watch);
    if (host->signal_fd >= 0) {
        close(host->signal_fd);
    }
    segment_close(&host->pool);
    loop_destroy(host->loop);
    config_free(&host->in_file);
}

int host_run(const struct host_config *config)
{
    struct host *host = calloc(1, sizeof *host);
    if (host == NULL) {
        say_failure("cannot serve", "this process", strerror(ENOMEM), "free some memory");
        return EXIT_FAILURE;
    }
    host->config = config;
    host->signal_fd = host->captive_fd = -1;
    host->exit_status = EXIT_FAILURE;
    host->stop_by_ns = INSTANT_NEVER;
    host_descriptors_raise();
    signals_ignore();
    if (host_setup(host) == 0) {
        uma_start(host->uma, loop_now(host->loop));
        loop_run(host->loop);
    }
    host_teardown(host);
    int status = host->exit_status;
    free(host);
    return status;
}
