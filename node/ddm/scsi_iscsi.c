// The transport of SCSI over TCP (iSCSI, RFC 7143), by libiscsi and without blocking.
//
// **A session that is lost** loses no command. Another one is opened with the same initiator name
// and session identifier (ISID), by which the target ends the old one and its tasks (section
// 6.3.5); the logical unit is reset, which ends what is left of them; then the commands are sent
// again, in their order. That is the fence of a process that was killed, too. A command that has
// waited too long for a session fails.
//
// Two processes with the same ISID would end each other's session again and again. So each holds a
// local socket whose name says who the logical unit is.

#include "node/format/scsi.h"

#include <errno.h>
#include <inttypes.h>
#include <iscsi/iscsi.h>
#include <iscsi/scsi-lowlevel.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/list.h"
#include "base/time.h"
#include "base/why.h"
#include "node/ddm/parameters.h"
#include "node/ddm/scsi_transport.h"

enum {
    ISCSI_DEPTH = 128,
    ISCSI_SLOT_COUNT = ISCSI_DEPTH + 8, // the driver's own questions come on top
    ISCSI_TRANSFER_MAX = 4 << 20,
    ISCSI_TEXT_MAX = 256,
    LOGOUT_SECONDS = 2,
    LOCK_TRIES = 100,
    LOCK_TRY_NS = 10000000,
};

static const duration_ns login_for_ns = 10 * NS_PER_S;
static const duration_ns again_first_ns = 20 * NS_PER_MS;
static const duration_ns again_last_ns = 2 * NS_PER_S;

enum session_state {
    SESSION_LOST, // another one is begun at again_at_ns
    SESSION_LOGGING_IN,
    SESSION_RESETTING, // the logical unit
    SESSION_UP,
};

struct iscsi;

// A command at the target.
struct slot {
    struct iscsi *iscsi;
    struct scsi_job *job;
    struct scsi_task *task;
    struct scsi_iovec data;
    instant_ns sent_at_ns;
    struct list_link link; // free
};

struct iscsi {
    struct scsi_transport transport;
    struct iscsi_url url; // as parsed, with nothing behind it
    char initiator[ISCSI_TEXT_MAX];
    char address[2 * ISCSI_TEXT_MAX + 32];
    uint64_t unit; // who the logical unit is, in short
    duration_ns answer_within_ns, patience_ns;
    int epoll_fd, lock_fd;

    enum session_state state;
    struct iscsi_context *context; // NULL: lost
    int watched_fd, watched_events;
    bool has_failed;  // seen in a callback, for the reason `why`; dealt with outside
    bool has_settled; // up, or lost again
    bool must_reset;  // the unit, before anything is sent
    bool has_reset;   // it has been asked for
    instant_ns state_since_ns, again_at_ns;
    duration_ns again_in_ns;
    struct why why;

    struct list_link out;     // jobs at the target, in order
    struct list_link waiting; // jobs for a session, or a slot
    struct list_link free;
    struct slot slots[ISCSI_SLOT_COUNT];
};

static instant_ns clock_read(const struct iscsi *iscsi)
{
    return iscsi->transport.host.clock(iscsi->transport.host.ctx);
}

static void say(const struct iscsi *iscsi, const char *what, const char *why)
{
    char line[512];
    snprintf(line, sizeof line, "iscsi: the session with %.200s %s%.200s", iscsi->address, what,
             why);
    iscsi->transport.host.say(iscsi->transport.host.ctx, line);
}

// The first reason counts.
static void fail(struct iscsi *iscsi, const char *why)
{
    if (!iscsi->has_failed) {
        why_say(&iscsi->why, "%.*s", (int)strcspn(why, "\n"), why);
    }
    iscsi->has_failed = true;
}

/* ---- commands at the target ------------------------------------------------------------------ */

static void slot_free(struct iscsi *iscsi, struct slot *slot)
{
    if (slot->task != NULL) {
        scsi_free_scsi_task(slot->task);
    }
    slot->task = NULL;
    slot->job->slot = NULL;
    slot->job = NULL;
    list_push_head(&iscsi->free, &slot->link);
}

static void answer_take(struct scsi_job *job, int status, const struct scsi_task *task)
{
    job->error = 0;
    job->status = (uint8_t)status;
    job->residual = task->residual_status == SCSI_RESIDUAL_UNDERFLOW ? (uint32_t)task->residual : 0;
    job->sense_len = 0;
    if (status == SCSI_STATUS_CHECK_CONDITION && task->datain.size > 2) { // behind its length
        uint32_t len = (uint32_t)task->datain.size - 2;
        job->sense_len = len < SCSI_SENSE_MAX ? len : SCSI_SENSE_MAX;
        memcpy(job->sense, task->datain.data + 2, job->sense_len);
    }
}

static void on_task(struct iscsi_context *context, int status, void *data, void *ctx)
{
    struct slot *slot = ctx;
    struct iscsi *iscsi = slot->iscsi;
    struct scsi_job *job = slot->job;
    if (status < 0 || status > UINT8_MAX) { // cancelled, or the library's own error: sent again
        fail(iscsi, "the connection has ended");
        return;
    }
    answer_take(job, status, slot->task);
    list_remove(&job->link);
    slot_free(iscsi, slot);
    job->on_end(job->ctx, job);
}

static int direction_of(const struct scsi_job *job)
{
    return job->direction == SCSI_FROM_DEVICE ? SCSI_XFER_READ
           : job->direction == SCSI_TO_DEVICE ? SCSI_XFER_WRITE
                                              : SCSI_XFER_NONE;
}

// False: no memory for it.
static bool send_job(struct iscsi *iscsi, struct scsi_job *job, instant_ns now)
{
    struct slot *slot = LIST_ENTRY(list_pop_head(&iscsi->free), struct slot, link);
    job->slot = slot;
    slot->job = job;
    slot->sent_at_ns = now;
    slot->data = (struct scsi_iovec){.iov_base = job->data, .iov_len = job->data_len};
    slot->task = scsi_create_task((int)scsi_cdb_len(job->cdb[0]), job->cdb, direction_of(job),
                                  (int)job->data_len);
    if (slot->task == NULL) {
        slot_free(iscsi, slot);
        return false;
    }
    if (job->direction == SCSI_FROM_DEVICE) {
        scsi_task_set_iov_in(slot->task, &slot->data, 1);
    } else if (job->direction == SCSI_TO_DEVICE) {
        scsi_task_set_iov_out(slot->task, &slot->data, 1);
    }
    if (iscsi_scsi_command_async(iscsi->context, iscsi->url.lun, slot->task, on_task, NULL, slot) !=
        0) {
        slot_free(iscsi, slot);
        return false;
    }
    list_push_tail(&iscsi->out, &job->link);
    return true;
}

static void send_waiting(struct iscsi *iscsi)
{
    instant_ns now = list_is_empty(&iscsi->waiting) ? 0 : clock_read(iscsi);
    while (iscsi->state == SESSION_UP && !list_is_empty(&iscsi->waiting) &&
           !list_is_empty(&iscsi->free)) {
        struct scsi_job *job = LIST_ENTRY(iscsi->waiting.next, struct scsi_job, link);
        list_remove(&job->link);
        if (!send_job(iscsi, job, now)) {
            list_push_head(&iscsi->waiting, &job->link);
            fail(iscsi, "no memory, or no connection"); // another session is tried
            return;
        }
    }
}

static void fail_all(struct list_link *jobs, int error)
{
    for (struct list_link *l; (l = list_pop_head(jobs)) != NULL;) {
        struct scsi_job *job = LIST_ENTRY(l, struct scsi_job, link);
        job->error = error;
        job->on_end(job->ctx, job);
    }
}

static void fail_old(struct iscsi *iscsi, instant_ns now)
{
    struct list_link old, *next;
    list_init(&old);
    for (struct list_link *l = iscsi->waiting.next; l != &iscsi->waiting; l = next) {
        next = l->next;
        struct scsi_job *job = LIST_ENTRY(l, struct scsi_job, link);
        if (instant_after(job->submitted_at_ns, iscsi->patience_ns) <= now) {
            list_remove(l);
            list_push_tail(&old, l);
        }
    }
    fail_all(&old, -ENOTCONN);
}

/* ---- the session ----------------------------------------------------------------------------- */

static void state_set(struct iscsi *iscsi, enum session_state state)
{
    iscsi->state = state;
    iscsi->state_since_ns = clock_read(iscsi);
    iscsi->has_settled = state == SESSION_UP || state == SESSION_LOST;
}

// What was at the target waits again, before all that came later.
static void jobs_take_back(struct iscsi *iscsi)
{
    while (!list_is_empty(&iscsi->out)) {
        struct scsi_job *job = LIST_ENTRY(iscsi->out.prev, struct scsi_job, link);
        list_remove(&job->link);
        slot_free(iscsi, job->slot);
        list_push_head(&iscsi->waiting, &job->link);
    }
}

static void session_drop(struct iscsi *iscsi)
{
    if (iscsi->state == SESSION_UP) {
        say(iscsi, "is lost, commands wait: ", iscsi->why.text);
    }
    if (iscsi->context != NULL) {
        iscsi_destroy_context(iscsi->context);
    }
    iscsi->context = NULL;
    iscsi->watched_fd = -1;
    iscsi->has_failed = false;
    iscsi->must_reset = true;
    jobs_take_back(iscsi);
    state_set(iscsi, SESSION_LOST);
    iscsi->again_at_ns = instant_after(iscsi->state_since_ns, iscsi->again_in_ns);
    iscsi->again_in_ns =
        iscsi->again_in_ns < again_last_ns / 2 ? 2 * iscsi->again_in_ns : again_last_ns;
}

static void session_up(struct iscsi *iscsi)
{
    if (why_is_said(&iscsi->why)) {
        say(iscsi, "is back", "");
    }
    iscsi->again_in_ns = again_first_ns;
    state_set(iscsi, SESSION_UP);
}

static void on_reset(struct iscsi_context *context, int status, void *data, void *ctx)
{
    enum { FUNCTION_COMPLETE = 0, FUNCTION_UNSUPPORTED = 5 }; // RFC 7143 section 11.6.1
    struct iscsi *iscsi = ctx;
    uint32_t response = status == SCSI_STATUS_GOOD && data != NULL ? *(uint32_t *)data : 1;
    // Where the target has no such reset, the end of the old session stands alone.
    if (response != FUNCTION_COMPLETE && response != FUNCTION_UNSUPPORTED) {
        fail(iscsi, "the logical unit could not be reset");
    } else if (iscsi->state == SESSION_RESETTING) {
        session_up(iscsi);
    }
}

static void on_login(struct iscsi_context *context, int status, void *data, void *ctx)
{
    struct iscsi *iscsi = ctx;
    if (status != SCSI_STATUS_GOOD) {
        fail(iscsi, iscsi_get_error(context));
    } else if (iscsi->must_reset) {
        state_set(iscsi, SESSION_RESETTING);
        iscsi->has_reset = false;
    } else {
        session_up(iscsi);
    }
}

// What callbacks may not do, for the library is still at work: drop the session; reset the unit,
// which makes the library cancel all commands, that of the callback too.
static void session_check(struct iscsi *iscsi)
{
    if (iscsi->state == SESSION_RESETTING && !iscsi->has_reset && !iscsi->has_failed) {
        iscsi->has_reset = true;
        if (iscsi_task_mgmt_lun_reset_async(iscsi->context, (uint32_t)iscsi->url.lun, on_reset,
                                            iscsi) != 0) {
            fail(iscsi, iscsi_get_error(iscsi->context));
        }
    }
    if (iscsi->has_failed && iscsi->context != NULL) {
        session_drop(iscsi);
    }
}

// 0, or -ENOMEM. Whatever else fails is seen when the session is looked at next.
static int session_begin(struct iscsi *iscsi)
{
    struct iscsi_context *context = iscsi_create_context(iscsi->initiator);
    const struct iscsi_url *url = &iscsi->url;
    if (context == NULL) {
        return -ENOMEM;
    }
    iscsi->context = context;
    iscsi_set_noautoreconnect(context, 1); // it would take another ISID
    iscsi_set_isid_random(context, (uint32_t)(iscsi->unit & 0xffffff),
                          (uint32_t)(iscsi->unit >> 24 & 0xffff));
    iscsi_set_targetname(context, url->target);
    iscsi_set_session_type(context, ISCSI_SESSION_NORMAL);
    iscsi_set_header_digest(context, ISCSI_HEADER_DIGEST_NONE_CRC32C);
    if (url->user[0] != '\0') {
        iscsi_set_initiator_username_pwd(context, url->user, url->passwd);
    }
    if (url->target_user[0] != '\0') {
        iscsi_set_target_username_pwd(context, url->target_user, url->target_passwd);
    }
    state_set(iscsi, SESSION_LOGGING_IN);
    if (iscsi_full_connect_async(context, url->portal, url->lun, on_login, iscsi) != 0) {
        fail(iscsi, iscsi_get_error(context));
    }
    return 0;
}

/* ---- events ---------------------------------------------------------------------------------- */

// The library's descriptor changes with each connection, ours stays.
static void watch(struct iscsi *iscsi)
{
    if (iscsi->context == NULL) {
        return;
    }
    int fd = iscsi_get_fd(iscsi->context);
    int events = fd >= 0 ? iscsi_which_events(iscsi->context) : 0;
    bool is_known = fd == iscsi->watched_fd && events == iscsi->watched_events;
    if (fd < 0 || (is_known && iscsi->state != SESSION_LOGGING_IN)) {
        return;
    }
    struct epoll_event event = {.events = (uint32_t)events};
    if (epoll_ctl(iscsi->epoll_fd, EPOLL_CTL_MOD, fd, &event) != 0) {
        epoll_ctl(iscsi->epoll_fd, EPOLL_CTL_ADD, fd, &event);
    }
    iscsi->watched_fd = fd;
    iscsi->watched_events = events;
}

static void service(struct iscsi *iscsi, int events)
{
    if (iscsi->context != NULL && !iscsi->has_failed &&
        iscsi_service(iscsi->context, events) != 0) {
        fail(iscsi, iscsi->state == SESSION_UP ? "the connection has ended"
                                               : iscsi_get_error(iscsi->context));
    }
    session_check(iscsi);
}

static instant_ns first_answer_due(const struct iscsi *iscsi)
{
    if (list_is_empty(&iscsi->out)) {
        return INSTANT_NEVER;
    }
    const struct slot *slot = LIST_ENTRY(iscsi->out.next, struct scsi_job, link)->slot;
    return instant_after(slot->sent_at_ns, iscsi->answer_within_ns);
}

static instant_ns state_due(const struct iscsi *iscsi)
{
    switch (iscsi->state) {
    case SESSION_LOST:
        return iscsi->again_at_ns;
    case SESSION_UP:
        return first_answer_due(iscsi);
    default:
        return instant_after(iscsi->state_since_ns, login_for_ns);
    }
}

static instant_ns transport_next_deadline(struct scsi_transport *transport)
{
    const struct iscsi *iscsi = (struct iscsi *)transport;
    instant_ns at = state_due(iscsi);
    if (iscsi->state != SESSION_UP && !list_is_empty(&iscsi->waiting)) {
        const struct scsi_job *job = LIST_ENTRY(iscsi->waiting.next, struct scsi_job, link);
        at = instant_min(at, instant_after(job->submitted_at_ns, iscsi->patience_ns));
    }
    return at;
}

static void on_due(struct iscsi *iscsi, instant_ns now)
{
    if (state_due(iscsi) > now) {
        return;
    }
    if (iscsi->state != SESSION_LOST) {
        fail(iscsi, "the target does not answer");
        session_drop(iscsi);
    } else if (session_begin(iscsi) != 0) {
        fail(iscsi, "no memory");
        session_drop(iscsi);
    }
}

static void transport_flush(struct scsi_transport *transport)
{
    struct iscsi *iscsi = (struct iscsi *)transport;
    send_waiting(iscsi);
    if (iscsi->state == SESSION_UP) {
        service(iscsi, POLLOUT);
    }
    watch(iscsi);
}

static void transport_poll(struct scsi_transport *transport, instant_ns now)
{
    struct iscsi *iscsi = (struct iscsi *)transport;
    struct epoll_event event;
    if (epoll_wait(iscsi->epoll_fd, &event, 1, 0) == 1) {
        service(iscsi, (int)event.events);
    }
    session_check(iscsi);
    on_due(iscsi, now);
    if (iscsi->state != SESSION_UP) {
        fail_old(iscsi, now);
    }
    transport_flush(transport);
}

static int transport_poll_fd(struct scsi_transport *transport)
{
    return ((struct iscsi *)transport)->epoll_fd;
}

static void transport_submit(struct scsi_transport *transport, struct scsi_job *job)
{
    struct iscsi *iscsi = (struct iscsi *)transport;
    job->submitted_at_ns = clock_read(iscsi);
    list_push_tail(&iscsi->waiting, &job->link);
    send_waiting(iscsi);
}

/* ---- opening --------------------------------------------------------------------------------- */

// FNV-1a, of 64 bits.
static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (; *text != '\0'; text++) {
        hash = (hash ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
    }
    return hash;
}

static const uint64_t hash_start = UINT64_C(0xcbf29ce484222325);

// The same for all processes of this machine, another one on each other machine.
static void initiator_set(struct iscsi *iscsi, const char *wanted)
{
    char id[64] = "";
    FILE *in = fopen("/etc/machine-id", "re");
    if (in == NULL || fgets(id, sizeof id, in) == NULL) {
        gethostname(id, sizeof id - 1);
    }
    if (in != NULL) {
        fclose(in);
    }
    if (wanted != NULL) {
        snprintf(iscsi->initiator, sizeof iscsi->initiator, "%s", wanted);
    } else {
        snprintf(iscsi->initiator, sizeof iscsi->initiator, "iqn.2026-11.invalid.weft:%016" PRIx64,
                 hash_text(hash_start, id));
    }
}

static int lock(struct iscsi *iscsi)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    struct timespec wait = {.tv_nsec = LOCK_TRY_NS};
    int len = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "weft/iscsi/%016" PRIx64,
                       iscsi->unit);
    socklen_t name_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
    iscsi->lock_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    for (unsigned i = 0; iscsi->lock_fd >= 0 && i < LOCK_TRIES; i++) {
        if (bind(iscsi->lock_fd, (struct sockaddr *)&name, name_len) == 0) {
            return 0;
        }
        if (errno != EADDRINUSE) {
            break;
        }
        nanosleep(&wait, NULL);
    }
    return errno == EADDRINUSE ? -EBUSY : -errno;
}

static int url_parse(struct iscsi *iscsi, const char *object, struct why *ret_why)
{
    char text[1024];
    struct iscsi_context *context = iscsi_create_context(iscsi->initiator);
    if (context == NULL) {
        return -ENOMEM;
    }
    snprintf(text, sizeof text, "iscsi:%s", object);
    struct iscsi_url *url = iscsi_parse_full_url(context, text);
    if (url == NULL) {
        why_say(ret_why, "%.100s: not //HOST[:PORT]/TARGET/LUN", object);
    } else {
        iscsi->url = *url;
        snprintf(iscsi->address, sizeof iscsi->address, "%s/%s/%d", url->portal, url->target,
                 url->lun);
        iscsi->unit = hash_text(hash_text(hash_start, iscsi->address), iscsi->initiator);
        iscsi_destroy_url(url);
    }
    iscsi_destroy_context(context);
    return url != NULL ? 0 : -EINVAL;
}

static void transport_close(struct scsi_transport *transport)
{
    struct iscsi *iscsi = (struct iscsi *)transport;
    if (iscsi->state == SESSION_UP && list_is_empty(&iscsi->out)) {
        iscsi_set_timeout(iscsi->context, LOGOUT_SECONDS);
        iscsi_logout_sync(iscsi->context);
    }
    iscsi->state = SESSION_LOST;
    session_drop(iscsi);
    fail_all(&iscsi->waiting, -ECANCELED);
    if (iscsi->epoll_fd >= 0) {
        close(iscsi->epoll_fd);
    }
    if (iscsi->lock_fd >= 0) {
        close(iscsi->lock_fd);
    }
    free(iscsi);
}

static int first_session(struct iscsi *iscsi, struct why *ret_why)
{
    int error = lock(iscsi);
    if (error != 0) {
        why_say(ret_why, "%.150s: %s", iscsi->address,
                error == -EBUSY ? "another process has it open through weft" : strerror(-error));
        return error;
    }
    error = session_begin(iscsi);
    if (error != 0) {
        return error;
    }
    instant_ns until_ns = instant_after(clock_read(iscsi), login_for_ns);
    session_check(iscsi);
    watch(iscsi);
    scsi_transport_wait(&iscsi->transport, &iscsi->has_settled, until_ns);
    if (iscsi->state != SESSION_UP) {
        why_say(ret_why, "%.100s: %.120s", iscsi->address,
                why_is_said(&iscsi->why) ? iscsi->why.text : "the target does not answer");
        return -ENOTCONN;
    }
    return 0;
}

static struct iscsi *create(const struct ddm_host *host)
{
    struct iscsi *iscsi = calloc(1, sizeof *iscsi);
    if (iscsi == NULL) {
        return NULL;
    }
    iscsi->transport = (struct scsi_transport){.kind = &scsi_transport_iscsi, .host = *host};
    iscsi->answer_within_ns = 30 * NS_PER_S;
    iscsi->patience_ns = 60 * NS_PER_S;
    iscsi->again_in_ns = again_first_ns;
    iscsi->must_reset = host->is_restart;
    iscsi->lock_fd = iscsi->watched_fd = -1;
    iscsi->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    list_init(&iscsi->out);
    list_init(&iscsi->waiting);
    list_init(&iscsi->free);
    for (unsigned i = 0; i < ISCSI_SLOT_COUNT; i++) {
        iscsi->slots[i].iscsi = iscsi;
        list_push_tail(&iscsi->free, &iscsi->slots[i].link);
    }
    return iscsi;
}

static int transport_open(const struct ddm_target *target, const struct ddm_host *host,
                          struct scsi_transport **ret, struct why *ret_why)
{
    struct iscsi *iscsi = create(host);
    if (iscsi == NULL) {
        return -ENOMEM;
    }
    initiator_set(iscsi, parameter_find(target, "initiator"));
    int error = iscsi->epoll_fd < 0 ? -EMFILE : 0;
    if (error != 0 ||
        (error = parameter_duration(target, "timeout", &iscsi->answer_within_ns, ret_why)) != 0 ||
        (error = parameter_duration(target, "patience", &iscsi->patience_ns, ret_why)) != 0 ||
        (error = url_parse(iscsi, target->object, ret_why)) != 0 ||
        (error = first_session(iscsi, ret_why)) != 0) {
        transport_close(&iscsi->transport);
        return error;
    }
    *ret = &iscsi->transport;
    return 0;
}

static uint32_t transport_transfer_max(struct scsi_transport *transport)
{
    return ISCSI_TRANSFER_MAX;
}

static const char *transport_address(struct scsi_transport *transport)
{
    return ((struct iscsi *)transport)->address;
}

const struct scsi_transport_kind scsi_transport_iscsi = {
    .name = "iscsi",
    .depth = ISCSI_DEPTH,
    .open = transport_open,
    .transfer_max = transport_transfer_max,
    .address = transport_address,
    .submit = transport_submit,
    .flush = transport_flush,
    .poll_fd = transport_poll_fd,
    .next_deadline = transport_next_deadline,
    .poll = transport_poll,
    .close = transport_close,
};
