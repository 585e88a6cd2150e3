// iSCSI: the login phase (RFC 7143 section 6.3). The initiator says who it is, which target it
// wants and what it can; stages follow as it asks for them.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/list.h"
#include "base/time.h"
#include "format/iscsi_pdu.h"
#include "format/iscsi_text.h"
#include "node/interface/uma_tts.h"
#include "node/interface/volume.h"
#include "node/iscsi/accounts.h"
#include "node/iscsi/chap.h"
#include "node/iscsi/connection.h"
#include "node/iscsi/keys.h"
#include "node/scsi/device.h"
#include "text/show.h"

enum { ISCSI_PROTOCOL_IDENTIFIER = 5, ISCSI_VERSION_DESCRIPTOR = 0x0960 };

/* ---- answers --------------------------------------------------------------------------------- */

static void respond(struct iscsi_connection *c, uint8_t flags, enum iscsi_login_status status,
                    const struct iscsi_text_out *out)
{
    uint8_t *head =
        iscsi_control_put(c, ISCSI_LOGIN_RESPONSE, flags, c->login.itt,
                          out != NULL ? out->ptr : NULL, out != NULL ? (uint32_t)out->len : 0);
    if (head == NULL) {
        iscsi_leave(c);
        return;
    }
    memcpy(head + ISCSI_LOGIN_OFF_ISID, c->login.isid, ISCSI_ISID_LEN);
    put_be16(head + ISCSI_LOGIN_OFF_TSIH, c->tsih);
    put_be32(head + ISCSI_OFF_TTT, 0); // reserved here
    put_be16(head + ISCSI_LOGIN_OFF_STATUS, (uint16_t)status);
}

static enum iscsi_verdict refuse(struct iscsi_connection *c, enum iscsi_login_status status,
                                 const char *why)
{
    respond(c, 0, status, NULL);
    c->door->counters.refused++;
    iscsi_say(c, why);
    iscsi_leave(c);
    return ISCSI_STOPS;
}

// May it go on without a proof, or has it given one?
static bool is_trusted(const struct iscsi_connection *c)
{
    return !c->iscsi->parts.accounts->is_required || c->login.chap.phase == CHAP_PROVEN;
}

// Of what it asks for. It stays in the stage where it has to prove who it is.
static uint8_t transit_flags(const struct iscsi_connection *c)
{
    const uint8_t current = ISCSI_LOGIN_STAGE_MASK << ISCSI_LOGIN_CSG_SHIFT;
    bool goes_on = (c->login.flags & ISCSI_LOGIN_TRANSIT) != 0 && is_trusted(c);
    return c->login.flags &
           (goes_on ? ISCSI_LOGIN_TRANSIT | current | ISCSI_LOGIN_STAGE_MASK : current);
}

/* ---- the last answer ------------------------------------------------------------------------- */

static void succeed(struct iscsi_connection *c)
{
    struct iscsi_text_out out = {.ptr = c->answer, .len = c->answer_len};
    c->iscsi->tsih += c->iscsi->tsih == UINT16_MAX ? 2 : 1; // 0 is none
    c->tsih = c->iscsi->tsih;
    c->state = ISCSI_OPEN;
    c->door->counters.sessions++;
    respond(c, transit_flags(c), ISCSI_LOGIN_OK, &out);
    free(c->answer);
    c->answer = NULL;
}

static enum iscsi_verdict refuse_for(struct iscsi_connection *c, enum connect_status status)
{
    const struct iscsi_refusal *refusal = iscsi_refusal_of(status);
    return refuse(c, refusal->status, refusal->why);
}

void iscsi_answer_connect(struct iscsi_connection *c)
{
    if (iscsi_has_unit(c, ISCSI_UNIT_OPEN)) {
        succeed(c);
    } else {
        refuse_for(c, c->refusal);
    }
}

// The initiator port (RFC 7143 section 4.4.3), which is who registers.
static void port_name(const struct iscsi_login *login, char ret[CLIENT_REGISTRANT_MAX])
{
    char isid[2 * ISCSI_ISID_LEN + 1];
    snprintf(ret, CLIENT_REGISTRANT_MAX, "%.230s,i,0x%s", login->initiator,
             text_hex(login->isid, ISCSI_ISID_LEN, isid));
}

static void session_begin(struct iscsi_connection *c)
{
    port_name(&c->login, c->client.registrant);
    c->it.transport = c->door->carrier->transport;
    c->it.target = c->iscsi->target;
    c->it.protocol = ISCSI_PROTOCOL_IDENTIFIER;
    c->it.protocol_version = ISCSI_VERSION_DESCRIPTOR;
    snprintf(c->it.target_name, sizeof c->it.target_name, "%s", c->login.target);
    snprintf(c->it.initiator_port, sizeof c->it.initiator_port, "%s", c->client.registrant);
    it_nexus_begin(&c->it);
}

static enum iscsi_verdict session_open(struct iscsi_connection *c)
{
    session_begin(c);
    if (!iscsi_tasks_init(c)) {
        return refuse(c, ISCSI_OUT_OF_RESOURCES, "no memory");
    }
    enum connect_status status = iscsi_units_connect(c);
    if (status != CONNECT_OK) {
        return refuse_for(c, status);
    }
    c->state = ISCSI_CONNECTING;
    if (!iscsi_has_unit(c, ISCSI_UNIT_ASKED)) {
        iscsi_answer_connect(c);
    }
    return c->state == ISCSI_OPEN ? ISCSI_GOES_ON : ISCSI_STOPS;
}

void iscsi_logins_go_on(struct iscsi *iscsi)
{
    const struct list_link *all = &iscsi->connections;
    for (struct list_link *l = all->next; l != all; l = l->next) {
        struct iscsi_connection *c = LIST_ENTRY(l, struct iscsi_connection, link);
        if (c->state == ISCSI_REINSTATING && !iscsi_reinstate(c)) {
            session_open(c);
        }
    }
}

static enum iscsi_verdict finish(struct iscsi_connection *c)
{
    if (c->door->carrier->is_oneshot && !c->login.has_oneshot) {
        return refuse(c, ISCSI_MISSING_PARAMETER, "it lends no memory (" ISCSI_ONESHOT_KEY ")");
    }
    if (c->login.is_discovery) {
        succeed(c);
        return ISCSI_GOES_ON;
    }
    if (iscsi_reinstate(c)) {
        c->state = ISCSI_REINSTATING;
        return ISCSI_STOPS;
    }
    return session_open(c);
}

/* ---- keys ------------------------------------------------------------------------------------ */

static bool name_set(char *to, size_t capacity, const char *value)
{
    snprintf(to, capacity, "%s", value);
    return value[0] != '\0' && strlen(value) < capacity;
}

// Once it has said who it is, and perhaps proven it, it is nobody else.
static bool initiator_take(struct iscsi_login *login, const char *name)
{
    if (login->has_name) {
        return strcmp(login->initiator, name) == 0;
    }
    login->has_name = name_set(login->initiator, sizeof login->initiator, name);
    return login->has_name;
}

// Behind the first request it wants nothing else either: a secret may be good for one target.
static enum iscsi_login_status target_take(struct iscsi_login *login, const char *name)
{
    if (login->has_identity) {
        return strcmp(login->target, name) == 0 ? ISCSI_LOGIN_OK : ISCSI_INITIATOR_ERROR;
    }
    bool is_set = name_set(login->target, sizeof login->target, name);
    return is_set ? ISCSI_LOGIN_OK : ISCSI_TARGET_NOT_FOUND;
}

static enum iscsi_login_status type_take(struct iscsi_login *login, const char *type)
{
    bool is_discovery = strcmp(type, "Discovery") == 0;
    if (!is_discovery && strcmp(type, "Normal") != 0) {
        return ISCSI_NO_SESSION_TYPE;
    }
    if (login->has_identity && login->is_discovery != is_discovery) {
        return ISCSI_INITIATOR_ERROR;
    }
    login->is_discovery = is_discovery;
    return ISCSI_LOGIN_OK;
}

// The method of authentication.
static enum iscsi_login_status method_take(struct iscsi_connection *c, const char *methods,
                                           struct iscsi_text_out *out)
{
    bool is_ours;
    if (is_trusted(c)) {
        is_ours = iscsi_list_has(methods, "None");
        iscsi_text_put(out, "AuthMethod", "%s", is_ours ? "None" : "Reject");
    } else {
        is_ours = chap_begin(&c->login.chap, methods, out);
    }
    c->login.why = "it offers no way to prove who it is, or not to, that is wanted (AuthMethod)";
    return is_ours ? ISCSI_LOGIN_OK : ISCSI_AUTHENTICATION_FAILURE;
}

// Those that say who and what. False: it is none of these.
static bool identity_take(struct iscsi_connection *c, const struct iscsi_pair *pair,
                          struct iscsi_text_out *out, enum iscsi_login_status *ret)
{
    struct iscsi_login *login = &c->login;
    if (strcmp(pair->key, "InitiatorName") == 0) {
        *ret = initiator_take(login, pair->value) ? ISCSI_LOGIN_OK : ISCSI_INITIATOR_ERROR;
    } else if (strcmp(pair->key, "TargetName") == 0) {
        *ret = target_take(login, pair->value);
    } else if (strcmp(pair->key, "SessionType") == 0) {
        *ret = type_take(login, pair->value);
    } else if (strcmp(pair->key, "AuthMethod") == 0) {
        *ret = method_take(c, pair->value, out);
    } else {
        return false;
    }
    return true;
}

// Over RDMA data move no other way.
static enum iscsi_login_status oneshot_take(struct iscsi_login *login,
                                            const struct iscsi_pair *pair,
                                            struct iscsi_text_out *out)
{
    login->has_oneshot = strcmp(pair->value, "Yes") == 0;
    iscsi_text_put(out, pair->key, "%s", login->has_oneshot ? "Yes" : "No");
    bool is_known = login->has_oneshot || strcmp(pair->value, "No") == 0;
    return is_known ? ISCSI_LOGIN_OK : ISCSI_INITIATOR_ERROR;
}

static enum iscsi_login_status key_take(struct iscsi_connection *c, const struct iscsi_pair *pair,
                                        struct iscsi_text_out *out)
{
    enum iscsi_login_status status;
    if (identity_take(c, pair, out, &status)) {
        return status;
    }
    if (c->login.chap.phase != CHAP_UNASKED && strncmp(pair->key, "CHAP_", 5) == 0) {
        return chap_take(&c->login.chap, pair) ? ISCSI_LOGIN_OK : ISCSI_INITIATOR_ERROR;
    }
    if (c->door->carrier->is_oneshot && strcmp(pair->key, ISCSI_ONESHOT_KEY) == 0) {
        return oneshot_take(&c->login, pair, out);
    }
    switch (iscsi_key_take(pair, iscsi_key_session(c), &c->parameters, out)) {
    case ISCSI_KEY_TAKEN:
        return ISCSI_LOGIN_OK;
    case ISCSI_KEY_UNKNOWN:
        iscsi_text_put(out, pair->key, "NotUnderstood");
        return ISCSI_LOGIN_OK;
    default:
        iscsi_text_put(out, pair->key, "Reject");
        return ISCSI_INITIATOR_ERROR;
    }
}

static enum iscsi_login_status text_take(struct iscsi_connection *c, struct iscsi_text text,
                                         struct iscsi_text_out *out)
{
    for (;;) {
        struct iscsi_pair pair;
        enum iscsi_text_verdict verdict = iscsi_text_next(&text, &pair);
        if (verdict != ISCSI_TEXT_PAIR) {
            return verdict == ISCSI_TEXT_END ? ISCSI_LOGIN_OK : ISCSI_INITIATOR_ERROR;
        }
        enum iscsi_login_status status = key_take(c, &pair, out);
        if (status != ISCSI_LOGIN_OK) {
            return status;
        }
    }
}

/* ---- a request ------------------------------------------------------------------------------- */

// Who begins must say who it is, and what it wants unless it wants to discover.
static enum iscsi_login_status identity_check(struct iscsi_login *login)
{
    login->has_identity = login->has_name && (login->is_discovery || login->target[0] != '\0');
    return login->has_identity ? ISCSI_LOGIN_OK : ISCSI_MISSING_PARAMETER;
}

// Nobody leaves the first stage, or leaves it out, without the proof that is wanted.
static enum iscsi_login_status proof_take(struct iscsi_connection *c, struct iscsi_text_out *out)
{
    struct iscsi_login *login = &c->login;
    uint8_t unforeseen[1 + CHAP_CHALLENGE_LEN];
    const struct iscsi_parts *parts = &c->iscsi->parts;
    parts->randomize(parts->ctx, unforeseen, sizeof unforeseen);
    enum iscsi_login_status status = chap_step(&login->chap,
                                               &(struct chap_parts){.accounts = parts->accounts,
                                                                    .initiator = login->initiator,
                                                                    .target = login->target,
                                                                    .unforeseen = unforeseen},
                                               out, &login->why);
    bool leaves = login->stage != ISCSI_SECURITY || (login->flags & ISCSI_LOGIN_TRANSIT) != 0;
    if (status == ISCSI_LOGIN_OK && leaves && !is_trusted(c) && login->chap.phase == CHAP_UNASKED) {
        login->why = "it does not prove who it is (CHAP)";
        status = ISCSI_AUTHENTICATION_FAILURE;
    }
    return status;
}

// The last answer waits for the UMA.
static bool answer_keep(struct iscsi_connection *c, const struct iscsi_text_out *out)
{
    c->answer = malloc(out->len + 1);
    if (c->answer != NULL) {
        memcpy(c->answer, out->ptr, out->len);
        c->answer_len = (uint32_t)out->len;
    }
    return c->answer != NULL;
}

static enum iscsi_verdict answer(struct iscsi_connection *c, struct iscsi_text text)
{
    struct iscsi_login *login = &c->login;
    char pairs[ISCSI_LOGIN_DATA_MAX];
    struct iscsi_text_out out = {.ptr = pairs, .capacity = sizeof pairs};
    login->why = "its login makes no sense";
    enum iscsi_login_status status = text_take(c, text, &out);
    status = status == ISCSI_LOGIN_OK ? identity_check(login) : status;
    status = status == ISCSI_LOGIN_OK ? proof_take(c, &out) : status;
    if (status != ISCSI_LOGIN_OK || out.is_full) {
        c->door->counters.unproven += status == ISCSI_AUTHENTICATION_FAILURE;
        return refuse(c, out.is_full ? ISCSI_INITIATOR_ERROR : status, login->why);
    }
    snprintf(c->client.identity, sizeof c->client.identity, "%s", login->initiator);
    if (!login->is_discovery && !login->has_said_group) {
        login->has_said_group = true;
        iscsi_text_put(&out, "TargetPortalGroupTag", "%d", ISCSI_PORTAL_GROUP);
    }
    uint8_t flags = transit_flags(c);
    bool goes_on = (flags & ISCSI_LOGIN_TRANSIT) != 0;
    if (goes_on && (flags & ISCSI_LOGIN_STAGE_MASK) == ISCSI_FULL_FEATURE) {
        return answer_keep(c, &out) ? finish(c) : ISCSI_LEAVES;
    }
    if (goes_on) {
        login->stage = (enum iscsi_stage)(flags & ISCSI_LOGIN_STAGE_MASK);
    }
    respond(c, flags, ISCSI_LOGIN_OK, &out);
    return ISCSI_GOES_ON;
}

static bool stages_are_right(const struct iscsi_login *login, uint8_t flags)
{
    unsigned current = (flags >> ISCSI_LOGIN_CSG_SHIFT) & ISCSI_LOGIN_STAGE_MASK;
    unsigned next = flags & ISCSI_LOGIN_STAGE_MASK;
    bool is_transit = (flags & ISCSI_LOGIN_TRANSIT) != 0;
    bool is_current = login->has_begun ? current == login->stage : current <= ISCSI_OPERATIONAL;
    bool is_forward = next > current && next != 2;
    return is_current && (!is_transit || (is_forward && (flags & ISCSI_LOGIN_CONTINUE) == 0));
}

static void begin(struct iscsi_connection *c, const struct iscsi_header *h)
{
    struct iscsi_login *login = &c->login;
    memcpy(login->isid, h->at + ISCSI_LOGIN_OFF_ISID, ISCSI_ISID_LEN);
    login->cid = get_be16(h->at + ISCSI_LOGIN_OFF_CID);
    login->stage = (enum iscsi_stage)((h->flags >> ISCSI_LOGIN_CSG_SHIFT) & ISCSI_LOGIN_STAGE_MASK);
    login->has_begun = true;
    c->expcmdsn = h->cmdsn;
    c->statsn = get_be32(h->at + ISCSI_OFF_EXPSTATSN);
}

static enum iscsi_verdict take_parts(struct iscsi_connection *c, const struct iscsi_header *h,
                                     const uint8_t *data)
{
    if (!iscsi_request_append(c, data, h->data_len)) {
        return refuse(c, ISCSI_INITIATOR_ERROR, "its login is too long");
    }
    if ((h->flags & ISCSI_LOGIN_CONTINUE) != 0) {
        respond(c, h->flags & (ISCSI_LOGIN_STAGE_MASK << ISCSI_LOGIN_CSG_SHIFT), ISCSI_LOGIN_OK,
                NULL);
        return ISCSI_GOES_ON;
    }
    struct iscsi_text text = {.at = c->request, .left = c->request_len};
    c->request_len = 0;
    return answer(c, text);
}

enum iscsi_verdict iscsi_take_login(struct iscsi_connection *c, const struct iscsi_header *h,
                                    const uint8_t *data, instant_ns now)
{
    struct iscsi_login *login = &c->login;
    login->itt = h->itt;
    if (h->at[ISCSI_LOGIN_OFF_VERSION_MIN] != 0) {
        return refuse(c, ISCSI_UNSUPPORTED_VERSION, "its version is not ours");
    }
    if (!stages_are_right(login, h->flags)) {
        return refuse(c, ISCSI_INVALID_REQUEST, "its login has its stages wrong");
    }
    if (!login->has_begun) {
        begin(c, h);
    }
    uint16_t tsih = get_be16(h->at + ISCSI_LOGIN_OFF_TSIH);
    if (tsih != 0 && iscsi_is_there(c->iscsi, login->isid, tsih)) {
        return refuse(c, ISCSI_TOO_MANY_CONNECTIONS, "a session has one connection");
    }
    if (tsih != 0) {
        return refuse(c, ISCSI_NO_SESSION, "there is no session that it could join");
    }
    login->flags = h->flags;
    if (c->request_len > 0 || (h->flags & ISCSI_LOGIN_CONTINUE) != 0) {
        return take_parts(c, h, data);
    }
    return answer(c, (struct iscsi_text){.at = (const char *)data, .left = h->data_len});
}
