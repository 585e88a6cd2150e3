// SCSI over TCP (iSCSI, RFC 7143), by libiscsi and without blocking: the carrier of sessions
// (scsi_session.h) that are iSCSI's own.

#include "format/scsi.h"

#include <errno.h>
#include <iscsi/iscsi.h>
#include <iscsi/scsi-lowlevel.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/list.h"
#include "base/why.h"
#include "node/ddm/scsi_session.h"
#include "node/ddm/scsi_transport.h"

enum {
    SLOT_COUNT = SCSI_SESSION_DEPTH + 8, // the driver's own questions come on top
    LOGOUT_SECONDS = 2,
};

struct iscsi;

// A command at the target.
struct slot {
    struct iscsi *iscsi;
    struct scsi_job *job;
    struct scsi_task *task;
    struct scsi_iovec data;
    struct list_link link; // free
};

struct iscsi {
    struct scsi_session session;
    struct iscsi_url url;          // as parsed, with nothing behind it
    struct iscsi_context *context; // NULL: none
    int watched_fd, watched_events;
    struct list_link free;
    struct slot slots[SLOT_COUNT];
};

static struct iscsi *of(struct scsi_session *session)
{
    return (struct iscsi *)session;
}

/* ---- commands at the target ------------------------------------------------------------------ */

static void slot_free(struct slot *slot)
{
    if (slot->task != NULL) {
        scsi_free_scsi_task(slot->task);
    }
    slot->task = NULL;
    slot->job = NULL;
    list_push_head(&slot->iscsi->free, &slot->link);
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
        scsi_session_fail(&iscsi->session, "the connection has ended");
        return;
    }
    answer_take(job, status, slot->task);
    slot_free(slot);
    scsi_session_answered(&iscsi->session, job);
}

static int direction_of(const struct scsi_job *job)
{
    return job->direction == SCSI_FROM_DEVICE ? SCSI_XFER_READ
           : job->direction == SCSI_TO_DEVICE ? SCSI_XFER_WRITE
                                              : SCSI_XFER_NONE;
}

static int iscsi_send(struct scsi_session *session, struct scsi_job *job)
{
    struct iscsi *iscsi = of(session);
    struct list_link *link = list_pop_head(&iscsi->free);
    if (link == NULL) {
        return -EAGAIN;
    }
    struct slot *slot = LIST_ENTRY(link, struct slot, link);
    slot->job = job;
    slot->data = (struct scsi_iovec){.iov_base = job->data, .iov_len = job->data_len};
    slot->task = scsi_create_task((int)scsi_cdb_len(job->cdb[0]), job->cdb, direction_of(job),
                                  (int)job->data_len);
    if (slot->task == NULL) {
        slot_free(slot);
        return -ENOMEM;
    }
    if (job->direction == SCSI_FROM_DEVICE) {
        memset(job->data, 0, job->data_len); // the library does not say which octets have come
        scsi_task_set_iov_in(slot->task, &slot->data, 1);
    } else if (job->direction == SCSI_TO_DEVICE) {
        scsi_task_set_iov_out(slot->task, &slot->data, 1);
    }
    if (iscsi_scsi_command_async(iscsi->context, iscsi->url.lun, slot->task, on_task, NULL, slot) !=
        0) {
        slot_free(slot);
        return -ENOTCONN;
    }
    return 0;
}

/* ---- the session ----------------------------------------------------------------------------- */

static void on_reset(struct iscsi_context *context, int status, void *data, void *ctx)
{
    enum { FUNCTION_COMPLETE = 0, FUNCTION_UNSUPPORTED = 5 }; // RFC 7143 section 11.6.1
    uint32_t response = status == SCSI_STATUS_GOOD && data != NULL ? *(uint32_t *)data : 1;
    scsi_session_reset(ctx, response == FUNCTION_COMPLETE      ? SCSI_RESET_DONE
                            : response == FUNCTION_UNSUPPORTED ? SCSI_RESET_UNSUPPORTED
                                                               : SCSI_RESET_FAILED);
}

static bool iscsi_reset(struct scsi_session *session)
{
    struct iscsi *iscsi = of(session);
    return iscsi_task_mgmt_lun_reset_async(iscsi->context, (uint32_t)iscsi->url.lun, on_reset,
                                           session) == 0;
}

static void on_login(struct iscsi_context *context, int status, void *data, void *ctx)
{
    if (status != SCSI_STATUS_GOOD) {
        scsi_session_fail(ctx, iscsi_get_error(context));
    } else {
        scsi_session_logged_in(ctx);
    }
}

// 0, or -ENOMEM. Whatever else fails is seen when the session is looked at next.
static int iscsi_begin(struct scsi_session *session)
{
    struct iscsi *iscsi = of(session);
    struct iscsi_context *context = iscsi_create_context(session->initiator);
    const struct iscsi_url *url = &iscsi->url;
    if (context == NULL) {
        return -ENOMEM;
    }
    iscsi->context = context;
    iscsi_set_noautoreconnect(context, 1); // it would take another ISID
    iscsi_set_isid_random(context, (uint32_t)(session->unit & 0xffffff),
                          (uint32_t)(session->unit >> 24 & 0xffff));
    iscsi_set_targetname(context, url->target);
    iscsi_set_session_type(context, ISCSI_SESSION_NORMAL);
    iscsi_set_header_digest(context, ISCSI_HEADER_DIGEST_NONE_CRC32C);
    if (url->user[0] != '\0') {
        iscsi_set_initiator_username_pwd(context, url->user, url->passwd);
    }
    if (session->target_user[0] != '\0') {
        iscsi_set_target_username_pwd(context, session->target_user, session->target_secret);
    } else if (url->target_user[0] != '\0') { // of the environment
        iscsi_set_target_username_pwd(context, url->target_user, url->target_passwd);
    }
    if (iscsi_full_connect_async(context, url->portal, url->lun, on_login, session) != 0) {
        scsi_session_fail(session, iscsi_get_error(context));
    }
    return 0;
}

static void iscsi_end(struct scsi_session *session)
{
    struct iscsi *iscsi = of(session);
    if (iscsi->context != NULL) {
        iscsi_destroy_context(iscsi->context);
    }
    iscsi->context = NULL;
    iscsi->watched_fd = -1;
    for (unsigned i = 0; i < SLOT_COUNT; i++) {
        if (iscsi->slots[i].task != NULL) {
            slot_free(&iscsi->slots[i]);
        }
    }
}

static void iscsi_log_out(struct scsi_session *session)
{
    iscsi_set_timeout(of(session)->context, LOGOUT_SECONDS);
    iscsi_logout_sync(of(session)->context);
}

/* ---- events ---------------------------------------------------------------------------------- */

// The library's descriptor changes with each connection, ours stays.
static void iscsi_watch(struct scsi_session *session)
{
    struct iscsi *iscsi = of(session);
    if (iscsi->context == NULL) {
        return;
    }
    int fd = iscsi_get_fd(iscsi->context);
    int events = fd >= 0 ? iscsi_which_events(iscsi->context) : 0;
    bool is_known = fd == iscsi->watched_fd && events == iscsi->watched_events;
    if (fd < 0 || (is_known && session->state != SCSI_SESSION_LOGGING_IN)) {
        return;
    }
    struct epoll_event event = {.events = (uint32_t)events};
    if (epoll_ctl(session->epoll_fd, EPOLL_CTL_MOD, fd, &event) != 0) {
        epoll_ctl(session->epoll_fd, EPOLL_CTL_ADD, fd, &event);
    }
    iscsi->watched_fd = fd;
    iscsi->watched_events = events;
}

static void iscsi_take(struct scsi_session *session, int events)
{
    struct iscsi_context *context = of(session)->context;
    if (context != NULL && iscsi_service(context, events) != 0) {
        scsi_session_fail(session, session->state == SCSI_SESSION_UP ? "the connection has ended"
                                                                     : iscsi_get_error(context));
    }
}

/* ---- opening --------------------------------------------------------------------------------- */

// A password goes on to the last @ before the host, as in the URIs of all that is ours; the library
// takes the first for its end, and what follows for a part of the host. False: it is too long, or
// there is none.
static bool password_complete(struct iscsi_url *url)
{
    char *at = strrchr(url->portal, '@');
    size_t len = strlen(url->passwd), room = sizeof url->passwd - len;
    if (at == NULL) {
        return true;
    }
    *at = '\0';
    size_t rest = strlen(url->portal);
    if (len == 0 || rest + 1 >= room) {
        return false;
    }
    url->passwd[len] = '@';
    memcpy(url->passwd + len + 1, url->portal, rest + 1);
    memmove(url->portal, at + 1, strlen(at + 1) + 1);
    return true;
}

static int iscsi_parse(struct scsi_session *session, const char *object, struct why *ret_why)
{
    struct iscsi *iscsi = of(session);
    char text[1024];
    struct iscsi_context *context = iscsi_create_context(session->initiator);
    if (context == NULL) {
        return -ENOMEM;
    }
    snprintf(text, sizeof text, "iscsi:%s", object);
    struct iscsi_url *url = iscsi_parse_full_url(context, text);
    bool is_good = url != NULL && password_complete(url);
    if (!is_good) {
        why_say(ret_why, "not //HOST[:PORT]/TARGET/LUN"); // a secret may stand in it
    } else {
        iscsi->url = *url;
        snprintf(session->address, sizeof session->address, "%s/%s/%d", url->portal, url->target,
                 url->lun);
        snprintf(session->user, sizeof session->user, "%s", url->user);
        snprintf(session->secret, sizeof session->secret, "%s", url->passwd);
    }
    if (url != NULL) {
        iscsi_destroy_url(url);
    }
    iscsi_destroy_context(context);
    return is_good ? 0 : -EINVAL;
}

static void iscsi_init(struct scsi_session *session)
{
    struct iscsi *iscsi = of(session);
    iscsi->watched_fd = -1;
    list_init(&iscsi->free);
    for (unsigned i = 0; i < SLOT_COUNT; i++) {
        iscsi->slots[i].iscsi = iscsi;
        list_push_tail(&iscsi->free, &iscsi->slots[i].link);
    }
}

const struct scsi_carrier scsi_carrier_libiscsi = {
    .size = sizeof(struct iscsi),
    .init = iscsi_init,
    .parse = iscsi_parse,
    .begin = iscsi_begin,
    .end = iscsi_end,
    .reset = iscsi_reset,
    .send = iscsi_send,
    .service = iscsi_take,
    .watch = iscsi_watch,
    .log_out = iscsi_log_out,
};
