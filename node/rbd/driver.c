// rbd: images of a Ceph cluster, by librbd.
//
// **States.** An image that is written to is served while its exclusive lock is held (fence.h).
//
//     state       when                                             then
//     UP          a command says that the lock is lost             LOST, for five seconds
//     LOST        the time is over, and no command under way       OPENING, by a thread
//     OPENING     the lock is ours                                 UP
//                 it is not                                        LOST, for two seconds
//
// In LOST and OPENING each command fails at once: none that came before somebody else had the lock
// is ever carried out after it. The five seconds are for those that a killed process left behind,
// which are submitted again as soon as its successor is there.
//
// Where other nodes serve it too (standby=on) open waits until the lock can be had, and the process
// ends when it is lost: there is UP alone.
//
// There is no cache, so what has completed is stable.

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <weft/ddm.h>

#include "base/check.h"
#include "base/time.h"
#include "base/why.h"
#include "node/rbd/commands.h"
#include "node/rbd/fence.h"
#include "node/rbd/profile.h"
#include "node/rbd/session.h"
#include "node/rbd/spec.h"
#include "node/rbd/waiting.h"

static const duration_ns held_off_ns = 5 * NS_PER_S;
static const duration_ns again_in_ns = 2 * NS_PER_S;

static const char no_keepsake[] = "the keepsake cannot be written";

enum device_state { DEVICE_UP, DEVICE_LOST, DEVICE_OPENING };

struct device {
    const struct weft_ddm_host *host;
    struct ceph_spec spec;
    struct fence fence; // used where it is written to
    struct commands commands;
    enum device_state state;
    instant_ns again_at_ns; // LOST

    struct session session; // its image is NULL: none is open
    uint64_t watch;
    struct image_facts facts; // as of the last look

    // The thread's, until it is done.
    pthread_t thread;
    int opening_error;
    struct why opening_why;
    atomic_bool has_opened;
    atomic_bool has_changed; // a thread of librbd's says so
    struct why said;
};

static void say(struct device *device, const char *what)
{
    char line[WHY_MAX];
    snprintf(line, sizeof line, "rbd: image %.128s/%.128s: %.200s", device->spec.pool,
             device->spec.image, what);
    device->host->say(device->host->ctx, line);
}

static bool is_read_only(const struct device *device)
{
    return device->commands.is_read_only;
}

static bool may_stand_by(const struct device *device)
{
    return device->host->stand_by != NULL;
}

/* ---- sessions -------------------------------------------------------------------------------- */

// In a thread of librbd's: the size, or something else of the image has changed.
static void on_update(void *ctx)
{
    struct device *device = ctx;
    atomic_store(&device->has_changed, true);
    eventfd_write(device->commands.event_fd, 1);
}

static int device_connect(struct device *device, bool is_first, struct why *ret_why)
{
    struct waiting waiting = {
        .host = device->host, .spec = &device->spec, .facts = &device->session.facts};
    const struct session_wish wish = {.spec = &device->spec,
                                      .fence = is_read_only(device) ? NULL : &device->fence,
                                      .may_create = is_first && !device->host->is_restart &&
                                                    !is_read_only(device),
                                      .patience = waiting_patience(&waiting, is_first)};
    int error = session_open(&wish, &device->session, ret_why);
    if (error == 0 && (error = commands_attach(&device->commands, device->session.image)) == 0) {
        error = rbd_update_watch(device->session.image, &device->watch, on_update, device);
    }
    return error;
}

static void device_disconnect(struct device *device)
{
    if (device->session.image == NULL) {
        return;
    }
    rbd_update_unwatch(device->session.image, device->watch);
    session_close(&device->session);
}

static void *open_again(void *ctx)
{
    struct device *device = ctx;
    device_disconnect(device);
    device->opening_error = device_connect(device, false, &device->opening_why);
    if (device->opening_error == 0 && !device->session.has_lock) {
        device->opening_error = -EBUSY;
    }
    if (device->opening_error != 0) {
        device_disconnect(device);
    }
    atomic_store(&device->has_opened, true);
    eventfd_write(device->commands.event_fd, 1);
    return NULL;
}

/* ---- states ---------------------------------------------------------------------------------- */

static void enter_lost(struct device *device, instant_ns again_at_ns, const char *why)
{
    device->state = DEVICE_LOST;
    device->again_at_ns = again_at_ns;
    if (strcmp(device->said.text, why) != 0) {
        why_say(&device->said, "%s", why);
        say(device, why);
    }
}

// Signals are for the agent's own thread.
static void enter_opening(struct device *device, instant_ns now)
{
    sigset_t all, before;
    sigfillset(&all);
    atomic_store(&device->has_opened, false);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int error = pthread_create(&device->thread, NULL, open_again, device);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    device->state = error == 0 ? DEVICE_OPENING : DEVICE_LOST;
    device->again_at_ns = instant_after(now, again_in_ns);
}

static void leave_opening(struct device *device, instant_ns now)
{
    pthread_join(device->thread, NULL);
    if (device->opening_error != 0) {
        enter_lost(device, instant_after(now, again_in_ns), device->opening_why.text);
        return;
    }
    int error = fence_settle(&device->fence);
    if (error != 0) {
        enter_lost(device, instant_after(now, again_in_ns), no_keepsake);
        return;
    }
    device->state = DEVICE_UP;
    device->said = (struct why){""};
    say(device, "it is served again");
}

static void look_at_size(struct device *device)
{
    uint64_t len;
    if (rbd_get_size(device->session.image, &len) == 0 && len != device->facts.len) {
        device->facts.len = len;
        device->host->changed(device->host->ctx);
    }
}

// What has to happen now, in any state.
static void turn(struct device *device, instant_ns now)
{
    if (device->state != DEVICE_OPENING) {
        commands_reap(&device->commands, device->session.image);
    }
    if (device->state == DEVICE_UP && atomic_exchange(&device->has_changed, false)) {
        look_at_size(device);
    }
    if (device->state == DEVICE_UP && device->commands.is_shut_out) {
        enter_lost(device, instant_after(now, held_off_ns),
                   "its lock is lost to another client; requests fail until it is free");
    } else if (device->state == DEVICE_LOST && device->again_at_ns <= now &&
               device->commands.out_count == 0) {
        enter_opening(device, now);
    } else if (device->state == DEVICE_OPENING && atomic_load(&device->has_opened)) {
        leave_opening(device, now);
    }
}

/* ---- the driver's operations ----------------------------------------------------------------- */

static int rbd_submit(void *ctx, struct weft_ddm_command *command)
{
    struct device *device = ctx;
    if (device->state != DEVICE_UP || device->commands.is_shut_out) {
        device->host->complete(device->host->ctx, command, -ENODEV);
        return 0;
    }
    commands_submit(&device->commands, device->session.image, command);
    return 0;
}

static int rbd_poll_fd(void *ctx)
{
    return ((struct device *)ctx)->commands.event_fd;
}

// A lock that is lost may be seen in submit, where nobody waits for an end.
static uint64_t rbd_next_deadline_ns(void *ctx)
{
    const struct device *device = ctx;
    if (device->state == DEVICE_UP) {
        return device->commands.is_shut_out ? 0 : INSTANT_NEVER;
    }
    bool is_waiting = device->state == DEVICE_LOST && device->commands.out_count == 0;
    return is_waiting ? device->again_at_ns : INSTANT_NEVER;
}

static void rbd_poll(void *ctx, uint64_t now_ns)
{
    turn(ctx, now_ns);
}

static void rbd_drain(void *ctx)
{
    struct device *device = ctx;
    while (device->commands.out_count > 0) {
        struct pollfd pollfd = {.fd = device->commands.event_fd, .events = POLLIN};
        poll(&pollfd, 1, -1);
        commands_reap(&device->commands, device->session.image);
    }
}

static int rbd_probe(void *ctx, struct weft_ddm_profile *ret)
{
    struct device *device = ctx;
    bool is_up = device->state == DEVICE_UP;
    int error = is_up ? rbd_get_size(device->session.image, &device->facts.len) : 0;
    if (error == 0) {
        profile_put(&device->facts, &device->spec, is_read_only(device), ret);
    }
    return error;
}

static void rbd_shut(void *ctx)
{
    struct device *device = ctx;
    if (device->state == DEVICE_OPENING) {
        pthread_join(device->thread, NULL);
    }
    device_disconnect(device);
    fence_fini(&device->fence);
    commands_fini(&device->commands);
    free(device);
}

// Whether it can be served, and commands that a predecessor left may be carried out. To a node that
// may stand by nothing is submitted again.
static int first_state(struct device *device, struct why *ret_why)
{
    const struct session *session = &device->session;
    bool is_restart = device->host->is_restart;
    bool is_replayed = is_restart && !may_stand_by(device);
    if (!session->has_lock && !is_replayed) {
        return -EBUSY;
    }
    if (is_replayed && !(session->has_lock && session->is_unbroken)) {
        instant_ns now = device->host->clock_ns(device->host->ctx);
        enter_lost(device, instant_after(now, held_off_ns),
                   session->has_lock
                       ? "another client had its lock meanwhile; what was under way fails"
                       : ret_why->text);
    }
    device->facts = session->facts;
    int error = is_replayed || is_read_only(device) ? 0 : fence_settle(&device->fence);
    if (error != 0) {
        why_say(ret_why, "%s", no_keepsake);
    }
    return error;
}

static int rbd_start(const struct weft_ddm_target *target, const struct weft_ddm_host *host,
                     void **ret_device, struct weft_ddm_why *ret_why)
{
    struct why why = {""};
    struct device *device = calloc(1, sizeof *device);
    if (device == NULL) {
        if (host->keepsake >= 0) {
            close(host->keepsake);
        }
        return -ENOMEM;
    }
    device->host = host;
    device->commands.event_fd = -1;
    int error = fence_init(&device->fence, host->keepsake);
    error = error == 0 ? ceph_spec_parse(target, &device->spec, &why) : error;
    if (error == 0) {
        bool is_read = host->is_read_only || device->spec.snapshot[0] != '\0';
        error = commands_init(&device->commands, host, is_read);
    }
    error = error == 0 ? device_connect(device, true, &why) : error;
    error = error == 0 ? first_state(device, &why) : error;
    if (error != 0) {
        snprintf(ret_why->text, sizeof ret_why->text, "%.*s", (int)sizeof ret_why->text - 1,
                 why.text);
        rbd_shut(device);
        return error == -ENOENT ? -EINVAL : error; // whose remedy is one of files
    }
    host->keep(host->ctx, device->fence.past_fd);
    *ret_device = device;
    return 0;
}

WEFT_DDM_EXPORT const struct weft_ddm_driver weft_ddm_module = {
    .version = WEFT_DDM_VERSION,
    .size = sizeof weft_ddm_module,
    .name = "rbd",
    .fence = "the image's exclusive lock: who has had it is blocklisted",
    .parameters = ceph_spec_keys,
    .open = rbd_start,
    .probe = rbd_probe,
    .submit = rbd_submit,
    .poll_fd = rbd_poll_fd,
    .next_deadline_ns = rbd_next_deadline_ns,
    .poll = rbd_poll,
    .drain = rbd_drain,
    .close = rbd_shut,
    .can_stand_by = true,
};
