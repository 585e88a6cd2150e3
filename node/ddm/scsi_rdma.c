// SCSI over one-shot RDMA (iSCSI, docs/iscsi.md): the carrier of sessions (scsi_session.h) on a
// queue pair. The target reads and writes the pool itself, so data move once; it reaches no more of
// it than the command under way names, and not longer than that is under way.

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/list.h"
#include "base/why.h"
#include "format/iscsi_pdu.h"
#include "format/scsi.h"
#include "initiator/iscsi/iscsi.h"
#include "node/ddm/scsi_session.h"
#include "node/ddm/scsi_transport.h"
#include "text/endpoint.h"
#include "text/quantity.h"

#define PORT_DEFAULT "3260"

// A command at the target.
struct slot {
    struct oneshot *oneshot;
    struct scsi_job *job;
    struct iscsi_request request;
    struct list_link link; // free
};

struct oneshot {
    struct scsi_session session;
    char host[SCSI_SESSION_TEXT_MAX], port[16], target[SCSI_SESSION_TEXT_MAX];
    uint16_t lun;
    struct iscsi_initiator *initiator; // NULL: none
    bool was_ready;
    struct list_link free;
    struct slot slots[SCSI_SESSION_DEPTH];
};

static struct oneshot *of(struct scsi_session *session)
{
    return (struct oneshot *)session;
}

/* ---- commands at the target ------------------------------------------------------------------ */

static void slot_free(struct slot *slot)
{
    slot->job = NULL;
    list_push_head(&slot->oneshot->free, &slot->link);
}

static void on_end(struct iscsi_request *request)
{
    struct slot *slot = request->context;
    struct scsi_job *job = slot->job;
    struct scsi_session *session = &slot->oneshot->session;
    if (request->error != 0) { // the target has failed, or taken it back: sent again
        scsi_session_fail(session, "the target gives a command up");
        return;
    }
    job->error = 0;
    job->status = request->status;
    job->residual = request->residual;
    job->sense_len = request->sense_len;
    memcpy(job->sense, request->sense, request->sense_len);
    slot_free(slot);
    scsi_session_answered(session, job);
}

static int oneshot_send(struct scsi_session *session, struct scsi_job *job)
{
    static const enum iscsi_direction directions[] = {[SCSI_NO_DATA] = ISCSI_NO_DATA,
                                                      [SCSI_FROM_DEVICE] = ISCSI_FROM_TARGET,
                                                      [SCSI_TO_DEVICE] = ISCSI_TO_TARGET};
    struct oneshot *oneshot = of(session);
    struct list_link *link = list_pop_head(&oneshot->free);
    if (link == NULL) {
        return -EAGAIN;
    }
    struct slot *slot = LIST_ENTRY(link, struct slot, link);
    slot->job = job;
    slot->request.direction = directions[job->direction];
    slot->request.data = job->data;
    slot->request.data_len = job->data_len;
    memcpy(slot->request.cdb, job->cdb, sizeof slot->request.cdb);
    int error = iscsi_initiator_submit(oneshot->initiator, &slot->request);
    if (error != 0) {
        slot_free(slot);
    }
    return error;
}

/* ---- the session ----------------------------------------------------------------------------- */

static void on_reset(void *context, uint8_t response)
{
    scsi_session_reset(context, response == ISCSI_TASK_COMPLETE      ? SCSI_RESET_DONE
                                : response == ISCSI_TASK_UNSUPPORTED ? SCSI_RESET_UNSUPPORTED
                                                                     : SCSI_RESET_FAILED);
}

static bool oneshot_reset(struct scsi_session *session)
{
    return iscsi_initiator_reset(of(session)->initiator, on_reset, session) == 0;
}

// The ISID of a random qualifier (RFC 7143 section 11.12.5), which is the same each time.
static void isid_fill(uint64_t unit, uint8_t ret[ISCSI_ISID_LEN])
{
    ret[0] = 2 << 6;
    for (unsigned i = 1; i < ISCSI_ISID_LEN; i++) {
        ret[i] = (uint8_t)(unit >> 8 * (ISCSI_ISID_LEN - 1 - i));
    }
}

static const char *named(const char *text)
{
    return text[0] != '\0' ? text : NULL;
}

static int oneshot_begin(struct scsi_session *session)
{
    struct oneshot *oneshot = of(session);
    struct why why;
    struct iscsi_initiator_attr attr = {.host = oneshot->host,
                                        .port = oneshot->port,
                                        .target = oneshot->target,
                                        .name = session->initiator,
                                        .user = named(session->user),
                                        .secret = session->secret,
                                        .target_user = named(session->target_user),
                                        .target_secret = session->target_secret,
                                        .lun = oneshot->lun,
                                        .depth = SCSI_SESSION_DEPTH};
    isid_fill(session->unit, attr.isid);
    oneshot->was_ready = false;
    oneshot->initiator = iscsi_initiator_begin(&attr, &why);
    if (oneshot->initiator == NULL) {
        scsi_session_fail(session, why.text);
        return 0;
    }
    struct epoll_event event = {.events = EPOLLIN};
    return epoll_ctl(session->epoll_fd, EPOLL_CTL_ADD, iscsi_initiator_fd(oneshot->initiator),
                     &event) == 0
               ? 0
               : -ENOMEM;
}

static void oneshot_end(struct scsi_session *session)
{
    struct oneshot *oneshot = of(session);
    if (oneshot->initiator != NULL) {
        iscsi_initiator_end(oneshot->initiator);
    }
    oneshot->initiator = NULL;
    for (unsigned i = 0; i < SCSI_SESSION_DEPTH; i++) {
        if (oneshot->slots[i].job != NULL) {
            slot_free(&oneshot->slots[i]);
        }
    }
}

static void oneshot_log_out(struct scsi_session *session)
{
    iscsi_initiator_log_out(of(session)->initiator);
}

// Without an event the descriptors are not looked at.
static void oneshot_take(struct scsi_session *session, int events)
{
    struct oneshot *oneshot = of(session);
    if (oneshot->initiator == NULL) {
        return;
    }
    switch (iscsi_initiator_poll(oneshot->initiator, (events & EPOLLIN) != 0)) {
    case ISCSI_INITIATOR_LOST:
        scsi_session_fail(session, iscsi_initiator_why(oneshot->initiator));
        break;
    case ISCSI_INITIATOR_READY:
        if (!oneshot->was_ready) {
            oneshot->was_ready = true;
            scsi_session_logged_in(session);
        }
        break;
    default:
        break;
    }
}

/* ---- opening --------------------------------------------------------------------------------- */

static bool part_set(char *to, size_t capacity, const char *from, size_t len)
{
    int written = snprintf(to, capacity, "%.*s", (int)len, from);
    return len > 0 && (size_t)written < capacity;
}

// USER%SECRET@, before the host. The secret may have any letters, also these.
static bool user_take(struct scsi_session *session, const char **authority, const char *end)
{
    const char *at = memrchr(*authority, '@', (size_t)(end - *authority));
    if (at == NULL) {
        return true;
    }
    const char *user = *authority, *mark = memchr(user, '%', (size_t)(at - user));
    *authority = at + 1;
    return mark != NULL &&
           part_set(session->user, sizeof session->user, user, (size_t)(mark - user)) &&
           part_set(session->secret, sizeof session->secret, mark + 1, (size_t)(at - mark - 1));
}

// //[USER%SECRET@]HOST[:PORT]/TARGET/LUN
static bool address_take(struct oneshot *oneshot, const char *object)
{
    struct text_endpoint endpoint;
    uint64_t lun;
    if (strncmp(object, "//", 2) != 0) {
        return false;
    }
    const char *authority = object + 2, *target = strchr(authority, '/');
    const char *unit = target != NULL ? strrchr(target + 1, '/') : NULL;
    if (unit == NULL || !user_take(&oneshot->session, &authority, target) ||
        !text_number_parse(unit + 1, 0, SCSI_LUN_MAX, &lun) ||
        text_endpoint_split(authority, (size_t)(target - authority), &endpoint) !=
            TEXT_ENDPOINT_OK) {
        return false;
    }
    bool has_port = endpoint.port != NULL;
    oneshot->lun = (uint16_t)lun;
    return part_set(oneshot->host, sizeof oneshot->host, endpoint.host, endpoint.host_len) &&
           part_set(oneshot->port, sizeof oneshot->port, has_port ? endpoint.port : PORT_DEFAULT,
                    has_port ? endpoint.port_len : strlen(PORT_DEFAULT)) &&
           part_set(oneshot->target, sizeof oneshot->target, target + 1,
                    (size_t)(unit - target - 1));
}

static int oneshot_parse(struct scsi_session *session, const char *object, struct why *ret_why)
{
    struct oneshot *oneshot = of(session);
    char portal[2 * SCSI_SESSION_TEXT_MAX];
    if (!address_take(oneshot, object)) {
        why_say(ret_why, "not //[USER%%25SECRET@]HOST[:PORT]/TARGET/LUN");
        return -EINVAL;
    }
    text_endpoint_format(oneshot->host, oneshot->port, portal, sizeof portal);
    snprintf(session->address, sizeof session->address, "%.271s/%.255s/%u", portal, oneshot->target,
             oneshot->lun);
    return 0;
}

static void oneshot_init(struct scsi_session *session)
{
    struct oneshot *oneshot = of(session);
    list_init(&oneshot->free);
    for (unsigned i = 0; i < SCSI_SESSION_DEPTH; i++) {
        struct slot *slot = &oneshot->slots[i];
        slot->oneshot = oneshot;
        slot->request = (struct iscsi_request){.on_end = on_end, .context = slot};
        list_push_tail(&oneshot->free, &slot->link);
    }
}

const struct scsi_carrier scsi_carrier_oneshot = {
    .size = sizeof(struct oneshot),
    .init = oneshot_init,
    .parse = oneshot_parse,
    .begin = oneshot_begin,
    .end = oneshot_end,
    .reset = oneshot_reset,
    .send = oneshot_send,
    .service = oneshot_take,
    .log_out = oneshot_log_out,
};
