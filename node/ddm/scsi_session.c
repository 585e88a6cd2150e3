#include "node/ddm/scsi_session.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/fnv.h"
#include "base/poll_ms.h"
#include "machine/machine.h"
#include "node/ddm/parameters.h"

enum {
    TRANSFER_MAX = 4 << 20,
    LOCK_TRIES = 100,
    LOCK_TRY_NS = 10000000,
};

static const duration_ns login_for_ns = 10 * NS_PER_S;
static const duration_ns again_first_ns = 20 * NS_PER_MS;
static const duration_ns again_last_ns = 2 * NS_PER_S;

static instant_ns clock_read(const struct scsi_session *session)
{
    return session->transport.host.clock(session->transport.host.ctx);
}

static void say(const struct scsi_session *session, const char *what, const char *why)
{
    char line[512];
    snprintf(line, sizeof line, "%s: the session with %.200s %s%.200s",
             session->transport.kind->name, session->address, what, why);
    session->transport.host.say(session->transport.host.ctx, line);
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static void send_waiting(struct scsi_session *session)
{
    instant_ns now = list_is_empty(&session->waiting) ? 0 : clock_read(session);
    while (session->state == SCSI_SESSION_UP && !session->has_failed &&
           !list_is_empty(&session->waiting)) {
        struct scsi_job *job = LIST_ENTRY(session->waiting.next, struct scsi_job, link);
        int error = session->carrier->send(session, job);
        if (error == -EAGAIN) {
            return;
        }
        if (error != 0) {
            scsi_session_fail(session, "no memory, or no connection"); // another one is tried
            return;
        }
        job->sent_at_ns = now;
        list_remove(&job->link);
        list_push_tail(&session->out, &job->link);
    }
}

static void fail_all(struct list_link *jobs, int error)
{
    for (struct list_link *l; (l = list_pop_head(jobs)) != NULL;) {
        struct scsi_job *job = LIST_ENTRY(l, struct scsi_job, link);
        job->error = error;
        scsi_job_end(job);
    }
}

static void fail_old(struct scsi_session *session, instant_ns now)
{
    struct list_link old, *next;
    list_init(&old);
    for (struct list_link *l = session->waiting.next; l != &session->waiting; l = next) {
        next = l->next;
        struct scsi_job *job = LIST_ENTRY(l, struct scsi_job, link);
        if (instant_after(job->submitted_at_ns, session->patience_ns) <= now) {
            list_remove(l);
            list_push_tail(&old, l);
        }
    }
    fail_all(&old, -ENOTCONN);
}

/* ---- the session ----------------------------------------------------------------------------- */

static void state_set(struct scsi_session *session, enum scsi_session_state state)
{
    session->state = state;
    session->state_since_ns = clock_read(session);
    session->has_settled = state == SCSI_SESSION_UP || state == SCSI_SESSION_LOST;
}

// What was at the target waits again, before all that came later.
static void jobs_take_back(struct scsi_session *session)
{
    while (!list_is_empty(&session->out)) {
        struct scsi_job *job = LIST_ENTRY(session->out.prev, struct scsi_job, link);
        list_remove(&job->link);
        list_push_head(&session->waiting, &job->link);
    }
}

static void drop(struct scsi_session *session)
{
    if (session->state == SCSI_SESSION_UP) {
        say(session, "is lost, commands wait: ", session->why.text);
    }
    session->carrier->end(session);
    session->has_failed = session->has_logged_in = false;
    session->reset = SCSI_RESET_NOT_ASKED;
    session->must_reset = true;
    jobs_take_back(session);
    state_set(session, SCSI_SESSION_LOST);
    session->again_at_ns = instant_after(session->state_since_ns, session->again_in_ns);
    session->again_in_ns =
        session->again_in_ns < again_last_ns / 2 ? 2 * session->again_in_ns : again_last_ns;
}

static void up(struct scsi_session *session)
{
    if (why_is_said(&session->why)) {
        say(session, "is back", "");
    }
    session->again_in_ns = again_first_ns;
    state_set(session, SCSI_SESSION_UP);
}

static void on_login(struct scsi_session *session)
{
    session->has_logged_in = false;
    if (!session->must_reset) {
        up(session);
        return;
    }
    state_set(session, SCSI_SESSION_RESETTING);
    bool is_asked = session->carrier->reset(session);
    session->reset = is_asked ? SCSI_RESET_ASKED : SCSI_RESET_FAILED;
}

// Where the target has no such reset, the end of the old session stands alone.
static void on_reset(struct scsi_session *session)
{
    enum scsi_reset reset = session->reset;
    session->reset = SCSI_RESET_NOT_ASKED;
    if (reset == SCSI_RESET_FAILED) {
        scsi_session_fail(session, "the logical unit could not be reset");
    } else if (session->state == SCSI_SESSION_RESETTING) {
        up(session);
    }
}

// What the carrier has told.
static void check(struct scsi_session *session)
{
    if (session->has_logged_in && !session->has_failed) {
        on_login(session);
    }
    if (session->reset > SCSI_RESET_ASKED) {
        on_reset(session);
    }
    if (session->has_failed && session->state != SCSI_SESSION_LOST) {
        drop(session);
    }
}

static int begin(struct scsi_session *session)
{
    state_set(session, SCSI_SESSION_LOGGING_IN);
    return session->carrier->begin(session);
}

/* ---- events ---------------------------------------------------------------------------------- */

static void service(struct scsi_session *session, int events)
{
    if (session->state != SCSI_SESSION_LOST && !session->has_failed) {
        session->carrier->service(session, events);
    }
    check(session);
}

static void watch(struct scsi_session *session)
{
    if (session->state != SCSI_SESSION_LOST && session->carrier->watch != NULL) {
        session->carrier->watch(session);
    }
}

static instant_ns first_answer_due(const struct scsi_session *session)
{
    if (list_is_empty(&session->out)) {
        return INSTANT_NEVER;
    }
    const struct scsi_job *job = LIST_ENTRY(session->out.next, struct scsi_job, link);
    return instant_after(job->sent_at_ns, session->answer_within_ns);
}

static instant_ns state_due(const struct scsi_session *session)
{
    switch (session->state) {
    case SCSI_SESSION_LOST:
        return session->again_at_ns;
    case SCSI_SESSION_UP:
        return first_answer_due(session);
    default:
        return instant_after(session->state_since_ns, login_for_ns);
    }
}

static instant_ns transport_next_deadline(struct scsi_transport *transport)
{
    const struct scsi_session *session = (struct scsi_session *)transport;
    instant_ns at = state_due(session);
    if (session->state != SCSI_SESSION_UP && !list_is_empty(&session->waiting)) {
        const struct scsi_job *job = LIST_ENTRY(session->waiting.next, struct scsi_job, link);
        at = instant_min(at, instant_after(job->submitted_at_ns, session->patience_ns));
    }
    return at;
}

static void on_due(struct scsi_session *session, instant_ns now)
{
    if (state_due(session) > now) {
        return;
    }
    if (session->state != SCSI_SESSION_LOST) {
        scsi_session_fail(session, "the target does not answer");
        drop(session);
    } else if (begin(session) != 0) {
        scsi_session_fail(session, "no memory");
        drop(session);
    }
}

static void transport_flush(struct scsi_transport *transport)
{
    struct scsi_session *session = (struct scsi_session *)transport;
    send_waiting(session);
    if (session->state == SCSI_SESSION_UP) {
        service(session, POLLOUT);
    }
    watch(session);
}

static void transport_poll(struct scsi_transport *transport, instant_ns now)
{
    struct scsi_session *session = (struct scsi_session *)transport;
    struct epoll_event event;
    if (epoll_wait(session->epoll_fd, &event, 1, 0) == 1) {
        service(session, (int)event.events);
    }
    check(session);
    on_due(session, now);
    if (session->state != SCSI_SESSION_UP) {
        fail_old(session, now);
    }
    transport_flush(transport);
}

static int transport_poll_fd(struct scsi_transport *transport)
{
    return ((struct scsi_session *)transport)->epoll_fd;
}

static void transport_submit(struct scsi_transport *transport, struct scsi_job *job)
{
    struct scsi_session *session = (struct scsi_session *)transport;
    job->submitted_at_ns = clock_read(session);
    list_push_tail(&session->waiting, &job->link);
    send_waiting(session);
}

/* ---- opening --------------------------------------------------------------------------------- */

// The same for all processes of this machine, another one on each other machine.
void scsi_session_initiator(const char *wanted, char ret[SCSI_SESSION_TEXT_MAX])
{
    char machine[MACHINE_NAME_MAX];
    if (wanted != NULL) {
        snprintf(ret, SCSI_SESSION_TEXT_MAX, "%s", wanted);
    } else {
        machine_name(machine);
        uint64_t hash = fnv_text(fnv_text(FNV_START, machine), "\n"); // a line, as targets know it
        snprintf(ret, SCSI_SESSION_TEXT_MAX, "iqn.2026-11.invalid.weft:%016" PRIx64, hash);
    }
}

static int lock(struct scsi_session *session)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    struct timespec wait = {.tv_nsec = LOCK_TRY_NS};
    int len = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "weft/iscsi/%016" PRIx64,
                       session->unit);
    socklen_t name_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
    session->lock_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    for (unsigned i = 0; session->lock_fd >= 0 && i < LOCK_TRIES; i++) {
        if (bind(session->lock_fd, (struct sockaddr *)&name, name_len) == 0) {
            return 0;
        }
        if (errno != EADDRINUSE) {
            break;
        }
        nanosleep(&wait, NULL);
    }
    return errno == EADDRINUSE ? -EBUSY : -errno;
}

static void transport_close(struct scsi_transport *transport)
{
    struct scsi_session *session = (struct scsi_session *)transport;
    if (session->state == SCSI_SESSION_UP && list_is_empty(&session->out)) {
        session->carrier->log_out(session);
    }
    session->state = SCSI_SESSION_LOST;
    session->carrier->end(session);
    jobs_take_back(session);
    fail_all(&session->waiting, -ECANCELED);
    if (session->epoll_fd >= 0) {
        close(session->epoll_fd);
    }
    if (session->lock_fd >= 0) {
        close(session->lock_fd);
    }
    free(session);
}

static void await_settled(struct scsi_session *session)
{
    instant_ns until_ns = instant_after(clock_read(session), login_for_ns);
    struct pollfd pollfd = {.fd = session->epoll_fd, .events = POLLIN};
    check(session);
    transport_flush(&session->transport);
    for (instant_ns now; !session->has_settled && (now = clock_read(session)) < until_ns;) {
        poll(&pollfd, 1, poll_ms(now, instant_min(state_due(session), until_ns)));
        transport_poll(&session->transport, clock_read(session));
    }
}

static int first_session(struct scsi_session *session, struct why *ret_why)
{
    int error = lock(session);
    if (error != 0) {
        why_say(ret_why, "%.150s: %s", session->address,
                error == -EBUSY ? "another process has it open through weft" : strerror(-error));
        return error;
    }
    error = begin(session);
    if (error != 0) {
        return error;
    }
    await_settled(session);
    if (session->state != SCSI_SESSION_UP) {
        why_say(ret_why, "%.150s: %.320s", session->address,
                why_is_said(&session->why) ? session->why.text : "the target does not answer");
        return -ENOTCONN;
    }
    return 0;
}

static struct scsi_session *create(const struct scsi_transport_kind *kind,
                                   const struct scsi_carrier *carrier, const struct ddm_host *host)
{
    struct scsi_session *session = calloc(1, carrier->size);
    if (session == NULL) {
        return NULL;
    }
    session->transport = (struct scsi_transport){.kind = kind, .host = *host};
    session->carrier = carrier;
    session->answer_within_ns = 30 * NS_PER_S;
    session->patience_ns = 60 * NS_PER_S;
    session->again_in_ns = again_first_ns;
    session->must_reset = host->is_restart;
    session->lock_fd = -1;
    session->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    list_init(&session->out);
    list_init(&session->waiting);
    return session;
}

static int unit_set(struct scsi_session *session, const char *object, struct why *ret_why)
{
    int error = session->carrier->parse(session, object, ret_why);
    session->unit = fnv_text(fnv_text(FNV_START, session->address), session->initiator);
    return error;
}

// The target's name and secret, by which it proves itself to who does so too (RFC 7143 section
// 12.1.3: not with the same secret).
static int proof_set(struct scsi_session *session, const struct ddm_target *target,
                     struct why *ret_why)
{
    const char *user = parameter_find(target, "target_user");
    const char *secret = parameter_find(target, "target_secret");
    const char *fault = NULL;
    if (user == NULL && secret == NULL) {
        return 0;
    }
    if (user == NULL || secret == NULL || user[0] == '\0' || secret[0] == '\0') {
        fault = "target_user and target_secret go together";
    } else if (strlen(user) >= SCSI_SESSION_TEXT_MAX || strlen(secret) >= SCSI_SESSION_TEXT_MAX) {
        fault = "target_user or target_secret is too long";
    } else if (session->user[0] == '\0') {
        fault = "target_user takes USER%25SECRET@ before the host: who asks for a proof gives one";
    } else if (strcmp(session->secret, secret) == 0) {
        fault = "target_secret is the initiator's own";
    }
    if (fault != NULL) {
        why_say(ret_why, "%s", fault);
        return -EINVAL;
    }
    snprintf(session->target_user, sizeof session->target_user, "%s", user);
    snprintf(session->target_secret, sizeof session->target_secret, "%s", secret);
    return 0;
}

static int open_by(const struct scsi_transport_kind *kind, const struct scsi_carrier *carrier,
                   const struct ddm_target *target, const struct ddm_host *host,
                   struct scsi_transport **ret, struct why *ret_why)
{
    struct scsi_session *session = create(kind, carrier, host);
    if (session == NULL) {
        return -ENOMEM;
    }
    scsi_session_initiator(parameter_find(target, "initiator"), session->initiator);
    carrier->init(session);
    int error = session->epoll_fd < 0 ? -EMFILE : 0;
    if (error != 0 ||
        (error = parameter_duration(target, "timeout", &session->answer_within_ns, ret_why)) != 0 ||
        (error = parameter_duration(target, "patience", &session->patience_ns, ret_why)) != 0 ||
        (error = unit_set(session, target->object, ret_why)) != 0 ||
        (error = proof_set(session, target, ret_why)) != 0 ||
        (error = first_session(session, ret_why)) != 0) {
        transport_close(&session->transport);
        return error;
    }
    *ret = &session->transport;
    return 0;
}

static uint32_t transport_transfer_max(struct scsi_transport *transport)
{
    return TRANSFER_MAX;
}

static const char *transport_address(struct scsi_transport *transport)
{
    return ((struct scsi_session *)transport)->address;
}

/* ---- the transports -------------------------------------------------------------------------- */

static int open_libiscsi(const struct ddm_target *target, const struct ddm_host *host,
                         struct scsi_transport **ret, struct why *ret_why)
{
    return open_by(&scsi_transport_iscsi, &scsi_carrier_libiscsi, target, host, ret, ret_why);
}

static int open_oneshot(const struct ddm_target *target, const struct ddm_host *host,
                        struct scsi_transport **ret, struct why *ret_why)
{
    return open_by(&scsi_transport_iscsi_rdma, &scsi_carrier_oneshot, target, host, ret, ret_why);
}

const struct scsi_transport_kind scsi_transport_iscsi = {
    .name = "iscsi",
    .depth = SCSI_SESSION_DEPTH,
    .open = open_libiscsi,
    .transfer_max = transport_transfer_max,
    .address = transport_address,
    .submit = transport_submit,
    .flush = transport_flush,
    .poll_fd = transport_poll_fd,
    .next_deadline = transport_next_deadline,
    .poll = transport_poll,
    .close = transport_close,
};

const struct scsi_transport_kind scsi_transport_iscsi_rdma = {
    .name = "iscsi+rdma",
    .depth = SCSI_SESSION_DEPTH,
    .open = open_oneshot,
    .transfer_max = transport_transfer_max,
    .address = transport_address,
    .submit = transport_submit,
    .flush = transport_flush,
    .poll_fd = transport_poll_fd,
    .next_deadline = transport_next_deadline,
    .poll = transport_poll,
    .close = transport_close,
};
