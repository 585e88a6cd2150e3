#include "node/host/host.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/time.h"
#include "listen/passed.h"
#include "node/cta/cta.h"
#include "node/discovery/announcer.h"
#include "node/discovery/sources.h"
#include "node/host/agent.h"
#include "node/host/announcement.h"
#include "node/host/config.h"
#include "node/host/control.h"
#include "node/host/pool.h"
#include "node/host/reservations.h"
#include "node/host/secrets.h"
#include "node/host/web.h"
#include "node/interface/volume.h"
#include "node/loop/loop.h"
#include "node/nvme/controller.h"
#include "node/reservation/store.h"
#include "node/unit/segment.h"

static instant_ns clock_within_turns(void *ctx)
{
    return loop_clock();
}

static void close_keepsake(void *ctx, int keepsake)
{
    close(keepsake);
}

static struct reservation *reservation_join(void *ctx, const struct volume_identity *identity)
{
    struct host *host = ctx;
    return reservation_store_join(host_reservations_store(host->reservations), identity->uuid);
}

static void reservation_leave(void *ctx, struct reservation *reservation)
{
    struct host *host = ctx;
    reservation_store_leave(host_reservations_store(host->reservations), reservation);
}

static void on_stopped(void *ctx)
{
    loop_stop(((struct host *)ctx)->loop);
}

/* ---- members of the loop --------------------------------------------------------------------- */

static void before_batch_end(void *ctx, instant_ns now)
{
    struct host *host = ctx;
    host_units_receive(host, now);
    nvme_target_on_batch_end(host->nvme, now);
}

static bool before_may_sleep(void *ctx)
{
    const struct host *host = ctx;
    return nvme_target_is_settled(host->nvme) && !host_units_linger(ctx) && host_units_sleep(ctx);
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

// For the operator, and for who waits for a rescan.
static void note_change(void *ctx, const char *volume, const char *what)
{
    struct host *host = ctx;
    host_note_said(host, volume, what);
    control_note(host->control, volume, what);
}

static void sources_follow(struct host *host)
{
    struct why why;
    if (host->has_news) {
        host->has_news = false;
        if (host_look(host, note_change, host, &why) != 0) {
            host_say(host, why.text);
        }
    }
}

static void after_batch_end(void *ctx, instant_ns now)
{
    struct host *host = ctx;
    sources_follow(host);
    host_volumes_come(host);
    cta_flush(host->cta, now);
    host_check_started(host);
}

static void rescan_by_signal(struct host *host)
{
    struct why why;
    if (host_rescan(host, host_note_said, host, &why) != 0) {
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
    struct uma_parts parts = {.ctx = host,
                              .spawn = host_unit_spawn,
                              .kill = host_unit_kill,
                              .send = host_unit_send,
                              .bus = host_unit_bus,
                              .close_keepsake = close_keepsake,
                              .identify = host_identify,
                              .reservation_join = reservation_join,
                              .reservation_leave = reservation_leave,
                              .say = host_say,
                              .on_stopped = on_stopped};
    host->uma = uma_create(&parts);
    struct cta_parts cta_parts = {.pool = pool_view(&host->pool),
                                  .uma = &uma_for_cta,
                                  .uma_ctx = host->uma,
                                  .ctx = &host->pool,
                                  .part_make = pool_part_make,
                                  .part_drop = pool_part_drop,
                                  .part_trim = pool_part_trim,
                                  .window_read = host_window_read,
                                  .clock = clock_within_turns,
                                  .reservations_store = host_reservations_write,
                                  .reservations_ctx = host->reservations};
    host->cta = cta_create(&cta_parts);
    if (host->uma == NULL || host->cta == NULL) {
        return -ENOMEM;
    }
    host_reservations_tell(host->reservations, host->cta);
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

static int reservations_setup(struct host *host)
{
    struct why why;
    const char *path = host->config->reservations;
    host->reservations = host_reservations_create(host->loop, path, &why);
    if (host->reservations == NULL) {
        host_say_failure("cannot serve", path[0] != '\0' ? path : "this process", why.text,
                         "mend or remove the file of reservations, or name another one");
    }
    return host->reservations != NULL ? 0 : -EINVAL;
}

static int secrets_setup(struct host *host)
{
    struct why why;
    const char *path = host->config->iscsi_secrets;
    int error = secrets_read(path, &host->accounts, &why);
    if (error != 0) {
        host_say_failure("cannot serve", path, why.text, "see weft-serve(1) for what stands in it");
    }
    return error;
}

static int web_setup(struct host *host, const char *listen, bool has_page, struct host_web **ret)
{
    struct why why;
    if (*listen == '\0') {
        return 0;
    }
    *ret = web_create(host, listen, has_page, &why);
    if (*ret == NULL) {
        host_say_failure(has_page ? "no page" : "no metrics", listen, why.text,
                         "choose another address, HOST:PORT");
    }
    return *ret != NULL ? 0 : -EADDRNOTAVAIL;
}

static int host_setup(struct host *host)
{
    host->loop = loop_create();
    if (host->loop == NULL) {
        return -ENOMEM;
    }
    host_pool_look(host);
    struct why why;
    int error = host_descriptors_check(host->config, &why);
    if (error != 0) {
        host_say_failure("cannot serve", "this process", why.text, host_remedy(error));
        return error;
    }
    error = reservations_setup(host);
    if (error == 0) {
        error = secrets_setup(host);
    }
    if (error != 0) {
        return error;
    }
    error = pool_create(&host->pool, host->config->pool_len);
    if (error == 0) {
        error = agents_create(host);
    }
    if (error == 0) {
        error = signals_take(host);
    }
    if (error != 0) {
        host_say_failure("cannot serve", "this process", strerror(-error), host_remedy(error));
        return error;
    }
    error = web_setup(host, host->config->metrics_listen, false, &host->metrics);
    if (error == 0) {
        error = web_setup(host, host->config->http_listen, true, &host->page);
    }
    if (error != 0) {
        return error;
    }
    host->control = control_create(host);
    return host_volumes_add(host);
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
    announcer_destroy(host->announcer);
    sources_destroy(host->sources);
    announcement_end(&host->announcement);
    control_destroy(host->control);
    web_destroy(host->page);
    web_destroy(host->metrics);
    host_units_close(host);
    host_ttss_destroy(host);
    uma_destroy(host->uma);
    cta_destroy(host->cta);
    host_reservations_destroy(host->reservations);
    loop_unwatch(host->signal_watch);
    if (host->signal_fd >= 0) {
        close(host->signal_fd);
    }
    pool_destroy(&host->pool);
    loop_destroy(host->loop);
    config_free(&host->in_file);
    config_free(&host->wanted);
    config_free(&host->coming);
    explicit_bzero(&host->accounts, sizeof host->accounts);
}

int host_run(const struct host_config *config)
{
    struct host *host = calloc(1, sizeof *host);
    if (host == NULL) {
        host_say_failure("cannot serve", "this process", strerror(ENOMEM), "free some memory");
        return EXIT_FAILURE;
    }
    host->config = config;
    host->signal_fd = host->captive_fd = -1;
    host->exit_status = EXIT_FAILURE;
    host->stop_by_ns = INSTANT_NEVER;
    host_descriptors_raise();
    signals_ignore();
    passed_keep();
    if (host_setup(host) == 0) {
        uma_start(host->uma, loop_now(host->loop));
        loop_run(host->loop);
    }
    host_teardown(host);
    int status = host->exit_status;
    free(host);
    return status;
}
