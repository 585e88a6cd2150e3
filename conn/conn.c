#include "conn/conn.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "wire/terminate.h"

#define COUNT(conn, name)                      \
    do {                                       \
        if ((conn)->config.counters != NULL) { \
            (conn)->config.counters->name++;   \
        }                                      \
    } while (0)

/* ---- failures -------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    const char *text;
    int error;
} failures[CONN_FAILURE_COUNT] = {[CONN_FAILURE_NONE] = {"NONE", "nothing is wrong", 0},
#define X(name, error, text) [CONN_FAILURE_##name] = {#name, text, error},
                                  CONN_FAILURES(X)
#undef X
};

const char *conn_failure_name(enum conn_failure failure)
{
    return failure < CONN_FAILURE_COUNT ? failures[failure].name : "?";
}

const char *conn_failure_text(enum conn_failure failure)
{
    return failure < CONN_FAILURE_COUNT ? failures[failure].text : "?";
}

static enum conn_failure failure_of_verdict(enum mpa_startup_verdict verdict)
{
    static const enum conn_failure of[MPA_STARTUP_VERDICT_COUNT] = {
        [MPA_STARTUP_BAD_KEY] = CONN_FAILURE_BAD_KEY,
        [MPA_STARTUP_WRONG_ROLE] = CONN_FAILURE_WRONG_ROLE,
        [MPA_STARTUP_REVISION] = CONN_FAILURE_REVISION,
        [MPA_STARTUP_PD_TOO_LONG] = CONN_FAILURE_PD_TOO_LONG,
        [MPA_STARTUP_ENHANCED_MISSING] = CONN_FAILURE_ENHANCED_MISSING,
        [MPA_STARTUP_ENHANCED_UNSUPPORTED] = CONN_FAILURE_ENHANCED_UNSUPPORTED,
        [MPA_STARTUP_ENHANCED_MISMATCH] = CONN_FAILURE_ENHANCED_MISMATCH,
        [MPA_STARTUP_INSUFFICIENT_IRD] = CONN_FAILURE_INSUFFICIENT_IRD,
        [MPA_STARTUP_NO_RTR] = CONN_FAILURE_NO_RTR,
    };
    CHECK(of[verdict] != CONN_FAILURE_NONE);
    return of[verdict];
}

/* ---- moving ---------------------------------------------------------------------------------- */

static instant_ns deadline_after(instant_ns now, duration_ns timeout_ns)
{
    return timeout_ns == 0 ? INSTANT_NEVER : instant_after(now, timeout_ns);
}

// Follows the table; false when the input does not belong here. Entering a state stops its
// predecessor's clock; who enters one that has a clock of its own starts it.
static bool move(struct conn *conn, enum conn_input input)
{
    enum conn_state next = conn_state_next(conn->state, input);
    if (next == CONN_NO_STATE) {
        return false;
    }
    if (next != conn->state) {
        TRACE(conn->config.trace, TRACE_CONN, "%s -> %s: %s", conn_state_name(conn->state),
              conn_state_name(next), conn_input_name(input));
        conn->state = next;
        conn->deadline_ns = INSTANT_NEVER;
    }
    return true;
}

static void raise_event(struct conn *conn, enum conn_event_type type)
{
    conn->event_mask |= 1U << type;
}

// What was due and not taken yet is of no use any more.
static void fail(struct conn *conn, enum conn_failure failure, int status,
                 enum terminate_cause cause)
{
    CHECK(conn->state == CONN_FAILED);
    conn->failure = failure;
    conn->status = status;
    conn->cause = cause;
    conn->event_mask = 1U << CONN_EVENT_FAILED;
    if (conn->config.counters != NULL) {
        conn->config.counters->refusals[failure]++;
    }
    TRACE(conn->config.trace, TRACE_CONN, "failed: %s", failures[failure].text);
}

static void fail_by(struct conn *conn, enum conn_failure failure)
{
    fail(conn, failure, -failures[failure].error, TERM_NONE);
}

static void enter_established(struct conn *conn)
{
    char line[200];
    CHECK(conn->state == CONN_ESTABLISHED);
    COUNT(conn, established);
    raise_event(conn, CONN_EVENT_ESTABLISHED);
    TRACE(conn->config.trace, TRACE_CONN, "established: %s",
          mpa_agreement_format(&conn->agreement, line, sizeof line));
}

/* ---- the application ------------------------------------------------------------------------- */

static struct mpa_startup_config startup_config(const struct conn_config *c,
                                                const struct conn_params *params)
{
    return (struct mpa_startup_config){
        .revision = c->revision,
        .crc_wanted = c->crc_wanted,
        .markers_wanted = c->markers_wanted,
        .ird = params->ird,
        .ird_max = c->ird_max,
        .ord = params->ord,
        .peer_to_peer = c->is_initiator && c->peer_to_peer && c->revision >= 2,
        .rtr_kinds = (c->rtr_kinds & MPA_RTR_ALL) != 0 ? c->rtr_kinds : MPA_RTR_ALL,
        .extensions = c->extensions,
        .marker_wish = c->marker_wish,
        .encodings = c->encodings,
        .allotment_len = c->allotment_len,
        .private_data = params->private_data,
    };
}

void conn_init(struct conn *conn, const struct conn_config *config, struct conn_frames *frames,
               instant_ns now)
{
    const struct conn_params none = {.wants_reply = false};
    memset(conn, 0, sizeof *conn);
    conn->config = *config;
    conn->deadline_ns = INSTANT_NEVER;
    conn->frames = frames;
    frames->tx_len = frames->tx_done = 0;
    struct mpa_startup_config startup = startup_config(config, &none);
    mpa_startup_init(&frames->startup, &startup);
    if (config->is_initiator) {
        conn->state = CONN_IDLE;
    } else {
        conn->state = CONN_WAIT_REQUEST;
        conn->deadline_ns = deadline_after(now, config->request_timeout_ns);
    }
}

int conn_connect(struct conn *conn, const struct conn_params *params)
{
    if (conn->state != CONN_IDLE) {
        return -EISCONN;
    }
    struct conn_frames *frames = conn->frames;
    struct mpa_startup_config startup = startup_config(&conn->config, params);
    mpa_startup_init(&frames->startup, &startup);
    frames->tx_len = mpa_startup_emit_request(&frames->startup, frames->tx);
    if (frames->tx_len == 0) {
        return -EINVAL;
    }
    frames->startup.config.private_data = (struct span){0}; // it is the caller's again
    conn->wants_reply = params->wants_reply;
    move(conn, CONN_IN_CONNECT);
    return 0;
}

void conn_forgo_crc(struct conn *conn)
{
    conn->config.crc_wanted = false;
    if (conn->state == CONN_CONNECTING) {
        struct conn_frames *frames = conn->frames;
        mpa_startup_forgo_crc(&frames->startup, frames->tx, frames->tx_len);
    }
}

struct conn_frames *conn_frames_back(struct conn *conn)
{
    bool are_needed =
        (conn->state < CONN_ESTABLISHED && conn->state != CONN_WAIT_RTR) || conn->event_mask != 0;
    if (are_needed) {
        return NULL;
    }
    struct conn_frames *frames = conn->frames;
    conn->frames = NULL;
    conn->peer.private_data = (struct span){0};
    return frames;
}

// A start-up frame cannot say that no Read is served, so neither is it said here.
static struct mpa_agreement agreement_with_itself(const struct conn_config *c,
                                                  const struct conn_params *params)
{
    uint16_t ird = params->ird > 0 ? params->ird : 1;
    return (struct mpa_agreement){
        .revision = 2,
        .enhanced = true,
        .ird = ird,
        .ord = params->ord < ird ? params->ord : ird,
        .extensions = true,
        .allotment_len = c->allotment_len,
        .own_allotment_len = c->allotment_len,
        .peer_allotment_len = c->allotment_len,
    };
}

int conn_connect_to_itself(struct conn *conn, const struct conn_params *params)
{
    if (!move(conn, CONN_IN_CONNECT_ITSELF)) {
        return -EISCONN;
    }
    conn->agreement = agreement_with_itself(&conn->config, params);
    conn->has_agreement = true;
    enter_established(conn);
    return 0;
}

int conn_accept(struct conn *conn, const struct conn_params *params, instant_ns now)
{
    if (conn_state_next(conn->state, CONN_IN_ACCEPT) == CONN_NO_STATE) {
        return -ENOTCONN;
    }
    struct conn_frames *frames = conn->frames;
    struct mpa_startup_config startup = startup_config(&conn->config, params);
    frames->tx_len =
        mpa_startup_emit_accept(&frames->startup, &startup, frames->tx, &conn->agreement);
    if (frames->tx_len == 0) {
        return -EINVAL;
    }
    conn->has_agreement = true;
    move(conn, CONN_IN_ACCEPT);
    conn->deadline_ns = deadline_after(now, conn->config.reply_timeout_ns);
    return 0;
}

int conn_reject(struct conn *conn, const struct conn_params *params, instant_ns now)
{
    if (conn_state_next(conn->state, CONN_IN_REJECT) == CONN_NO_STATE) {
        return -ENOTCONN;
    }
    struct conn_frames *frames = conn->frames;
    struct mpa_startup_config startup = startup_config(&conn->config, params);
    frames->tx_len = mpa_startup_emit_reject(&frames->startup, &startup, frames->tx);
    if (frames->tx_len == 0) {
        return -EINVAL;
    }
    move(conn, CONN_IN_REJECT);
    conn->deadline_ns = deadline_after(now, conn->config.reply_timeout_ns);
    return 0;
}

int conn_establish(struct conn *conn, instant_ns now)
{
    bool is_held = now < conn->hold_until_ns;
    if (!move(conn, is_held ? CONN_IN_ESTABLISH_HELD : CONN_IN_ESTABLISH)) {
        return -ENOTCONN;
    }
    if (is_held) {
        conn->deadline_ns = conn->hold_until_ns;
    } else {
        enter_established(conn);
    }
    return 0;
}

/* ---- TCP ------------------------------------------------------------------------------------- */

void conn_on_llp_connected(struct conn *conn, instant_ns now)
{
    if (move(conn, CONN_IN_LLP_CONNECTED)) {
        conn->deadline_ns = deadline_after(now, conn->config.reply_timeout_ns);
    }
}

void conn_on_llp_failed(struct conn *conn, int error, instant_ns now)
{
    (void)now;
    if (!move(conn, CONN_IN_LLP_FAILED) || conn->state != CONN_FAILED) {
        return;
    }
    if (error == 0) {
        fail_by(conn, CONN_FAILURE_LLP_CLOSED);
    } else {
        fail(conn, CONN_FAILURE_LLP, error, TERM_NONE);
    }
}

/* ---- frames in ------------------------------------------------------------------------------- */

// RFC 6581 section 8: IRD and RTR disagreements go out in a Terminate, all else closes silently.
static void refuse_frame(struct conn *conn, enum mpa_startup_verdict verdict)
{
    enum terminate_cause cause = mpa_startup_verdict_cause(verdict);
    enum conn_failure failure = failure_of_verdict(verdict);
    move(conn, CONN_IN_FRAME_REFUSED);
    conn->has_agreement = cause != TERM_MPA_STARTUP;
    fail(conn, failure, -failures[failure].error, conn->has_agreement ? cause : TERM_NONE);
}

static size_t on_request(struct conn *conn, struct span octets)
{
    size_t consumed;
    enum mpa_startup_verdict verdict =
        mpa_startup_on_request(&conn->frames->startup, octets, &consumed, &conn->peer);
    if (verdict == MPA_STARTUP_OK) {
        COUNT(conn, requests_received);
        move(conn, CONN_IN_REQUEST);
        raise_event(conn, CONN_EVENT_REQUEST);
    } else if (verdict != MPA_STARTUP_INCOMPLETE) {
        refuse_frame(conn, verdict);
    }
    return consumed;
}

static void on_good_reply(struct conn *conn, instant_ns now)
{
    COUNT(conn, replies_received);
    conn->has_agreement = true;
    // A peer that repeats our offer without a block is siw, see CONN_SIW_HOLD_NS.
    if (conn->agreement.peer_echoes) {
        COUNT(conn, holds);
        conn->hold_until_ns = instant_after(now, CONN_SIW_HOLD_NS);
    }
    if (conn->wants_reply) {
        move(conn, CONN_IN_REPLY_DELIVER);
        raise_event(conn, CONN_EVENT_REPLY);
    } else if (conn->hold_until_ns != 0) {
        move(conn, CONN_IN_REPLY_HOLD);
        conn->deadline_ns = conn->hold_until_ns;
    } else {
        move(conn, CONN_IN_REPLY);
        enter_established(conn);
    }
}

static size_t on_reply(struct conn *conn, struct span octets, instant_ns now)
{
    size_t consumed;
    enum mpa_startup_verdict verdict = mpa_startup_on_reply(
        &conn->frames->startup, octets, &consumed, &conn->peer, &conn->agreement);
    switch (verdict) {
    case MPA_STARTUP_INCOMPLETE:
        break;
    case MPA_STARTUP_OK:
        on_good_reply(conn, now);
        break;
    case MPA_STARTUP_REJECTED:
        COUNT(conn, rejects_received);
        move(conn, CONN_IN_REPLY_REJECTED);
        raise_event(conn, CONN_EVENT_REJECTED);
        break;
    default:
        refuse_frame(conn, verdict);
        break;
    }
    return consumed;
}

size_t conn_on_input(struct conn *conn, struct span octets, instant_ns now)
{
    switch (conn->state) {
    case CONN_WAIT_REQUEST:
        return on_request(conn, octets);
    case CONN_WAIT_REPLY:
        return on_reply(conn, octets, now);
    default:
        return 0;
    }
}

/* ---- frames out ------------------------------------------------------------------------------ */

struct span conn_output(struct conn *conn)
{
    bool is_due = conn->state == CONN_WAIT_REPLY || conn->state == CONN_ACCEPTING ||
                  conn->state == CONN_REJECTING;
    if (!is_due) {
        return (struct span){0};
    }
    const struct conn_frames *frames = conn->frames;
    return span_of(frames->tx + frames->tx_done, frames->tx_len - frames->tx_done);
}

static void on_reply_written(struct conn *conn, instant_ns now)
{
    COUNT(conn, replies_sent);
    if (conn->agreement.rtr != MPA_RTR_NONE) {
        move(conn, CONN_IN_WRITTEN_AWAIT);
        conn->deadline_ns = deadline_after(now, conn->config.reply_timeout_ns);
    } else {
        move(conn, CONN_IN_WRITTEN);
        enter_established(conn);
    }
}

void conn_on_output(struct conn *conn, size_t written, instant_ns now)
{
    struct span due = conn_output(conn);
    CHECK(written <= due.len);
    if (written == 0) {
        return;
    }
    conn->frames->tx_done += written;
    if (conn->frames->tx_done < conn->frames->tx_len) {
        return;
    }
    if (conn->state == CONN_ACCEPTING) {
        on_reply_written(conn, now);
    } else if (conn->state == CONN_REJECTING) {
        COUNT(conn, rejects_sent);
        move(conn, CONN_IN_WRITTEN);
        raise_event(conn, CONN_EVENT_REJECT_SENT);
    } else {
        COUNT(conn, requests_sent);
        move(conn, CONN_IN_WRITTEN);
    }
}

/* ---- the first FPDU -------------------------------------------------------------------------- */

bool conn_confirm(struct conn *conn, const struct extension_message *choices)
{
    if (!conn->has_agreement || !conn->agreement.extensions_await_choices) {
        return false;
    }
    return mpa_agreement_confirm(&conn->agreement, choices);
}

void conn_on_first_fpdu(struct conn *conn, instant_ns now)
{
    (void)now;
    if (conn->config.is_initiator || conn->has_first_fpdu) {
        conn->has_first_fpdu = true;
        return;
    }
    bool was_established = conn->state == CONN_ESTABLISHED;
    if (!move(conn, CONN_IN_FIRST_FPDU)) {
        return;
    }
    conn->has_first_fpdu = true;
    if (conn->state == CONN_FAILED) {
        fail_by(conn, CONN_FAILURE_EARLY_FPDU);
        return;
    }
    if (conn->agreement.extensions_await_choices) {
        mpa_agreement_confirm(&conn->agreement, NULL);
    }
    if (!was_established) {
        enter_established(conn);
    }
}

const struct mpa_agreement *conn_agreement(const struct conn *conn)
{
    return conn->has_agreement ? &conn->agreement : NULL;
}

/* ---- time ------------------------------------------------------------------------------------ */

instant_ns conn_next_deadline(const struct conn *conn)
{
    return conn->deadline_ns;
}

static enum conn_failure failure_of_time(enum conn_state state)
{
    switch (state) {
    case CONN_WAIT_REQUEST:
        return CONN_FAILURE_REQUEST_TIMEOUT;
    case CONN_WAIT_REPLY:
        return CONN_FAILURE_REPLY_TIMEOUT;
    case CONN_WAIT_RTR:
        return CONN_FAILURE_RTR_TIMEOUT;
    default:
        return CONN_FAILURE_WRITE_TIMEOUT;
    }
}

void conn_on_deadline(struct conn *conn, instant_ns now)
{
    enum conn_state expired = conn->state;
    if (now < conn->deadline_ns || !move(conn, CONN_IN_DEADLINE)) {
        return;
    }
    if (conn->state == CONN_ESTABLISHED) {
        enter_established(conn);
    } else {
        COUNT(conn, timeouts);
        fail_by(conn, failure_of_time(expired));
    }
}

/* ---- events ---------------------------------------------------------------------------------- */

// What the peer's frame says, for the program (RFC 6581 section 9.1).
static void fill_of_peer(const struct conn *conn, struct conn_event *ret)
{
    ret->ird = conn->peer.ird;
    ret->ord = conn->peer.ord;
    ret->private_data = conn->peer.private_data;
}

// A responder's program, and one whose peer's frame says nothing, hears of its own values.
static void fill_agreed(const struct conn *conn, struct conn_event *ret)
{
    if (conn->config.is_initiator) {
        fill_of_peer(conn, ret);
    }
    if (!conn->config.is_initiator || !conn->peer.enhanced) {
        ret->ird = conn->agreement.ird;
        ret->ord = conn->agreement.ord;
    }
}

bool conn_next_event(struct conn *conn, struct conn_event *ret)
{
    if (conn->event_mask == 0) {
        return false;
    }
    enum conn_event_type type = (enum conn_event_type)__builtin_ctz(conn->event_mask);
    conn->event_mask &= conn->event_mask - 1;
    *ret = (struct conn_event){.type = type};
    switch (type) {
    case CONN_EVENT_REQUEST:
        fill_of_peer(conn, ret);
        break;
    case CONN_EVENT_REPLY:
    case CONN_EVENT_ESTABLISHED:
        fill_agreed(conn, ret);
        break;
    case CONN_EVENT_REJECTED:
        fill_of_peer(conn, ret);
        break;
    case CONN_EVENT_REJECT_SENT:
        break;
    case CONN_EVENT_FAILED:
        ret->failure = conn->failure;
        ret->status = conn->status;
        ret->text = failures[conn->failure].text;
        ret->cause = conn->cause;
        break;
    }
    return true;
}

/* ---- looking --------------------------------------------------------------------------------- */

void conn_check(const struct conn *conn)
{
    CHECK(conn->state > CONN_NO_STATE && conn->state < CONN_STATE_COUNT);
    const struct conn_frames *frames = conn->frames;
    CHECK(frames == NULL ||
          (frames->tx_done <= frames->tx_len && frames->tx_len <= sizeof frames->tx));
    CHECK((conn->state == CONN_FAILED) == (conn->failure != CONN_FAILURE_NONE));
    CHECK(conn->state != CONN_ESTABLISHED || conn->has_agreement);
    CHECK(!conn_is_over(conn) || conn->deadline_ns == INSTANT_NEVER);
    CHECK(conn->state != CONN_ESTABLISHED || conn->deadline_ns == INSTANT_NEVER);
    CHECK(conn->config.is_initiator || conn->hold_until_ns == 0);
}

const char *conn_format(const struct conn *conn, char *buf, size_t len)
{
    const char *role = conn->config.is_initiator ? "initiator" : "responder";
    if (conn->state == CONN_FAILED) {
        snprintf(buf, len, "%s %s: %s", role, conn_state_name(conn->state),
                 failures[conn->failure].text);
    } else if (conn->has_agreement) {
        char agreed[160];
        snprintf(buf, len, "%s %s: %s", role, conn_state_name(conn->state),
                 mpa_agreement_format(&conn->agreement, agreed, sizeof agreed));
    } else {
        snprintf(buf, len, "%s %s", role, conn_state_name(conn->state));
    }
    return buf;
}
