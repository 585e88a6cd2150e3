#include "node/iscsi/chap.h"

#include <nettle/memops.h>
#include <string.h>

#include "chap/chap.h"

/* ---- the target's challenge ------------------------------------------------------------------ */

bool chap_begin(struct chap *chap, const char *methods, struct iscsi_text_out *out)
{
    bool is_offered = iscsi_list_has(methods, "CHAP");
    iscsi_text_put(out, "AuthMethod", "%s", is_offered ? "CHAP" : "Reject");
    if (is_offered && chap->phase == CHAP_UNASKED) {
        chap->phase = CHAP_AGREED;
    }
    return is_offered;
}

bool chap_take(struct chap *chap, const struct iscsi_pair *pair)
{
    for (unsigned i = 0; i < CHAP_KEY_COUNT; i++) {
        if (strcmp(chap_key_name(i), pair->key) == 0 && chap->values[i] == NULL) {
            chap->values[i] = pair->value;
            return true;
        }
    }
    return false;
}

static enum iscsi_login_status challenge(struct chap *chap, const struct chap_parts *parts,
                                         struct iscsi_text_out *out, const char **ret_why)
{
    chap->algorithm = chap_algorithm_of(chap->values[CHAP_ALGORITHM]);
    if (chap->algorithm == NULL) {
        *ret_why = "it knows no algorithm of ours (CHAP_A)";
        return ISCSI_AUTHENTICATION_FAILURE;
    }
    chap->identifier = parts->unforeseen[0];
    memcpy(chap->challenge, parts->unforeseen + 1, CHAP_CHALLENGE_LEN);
    iscsi_text_put(out, chap_key_name(CHAP_ALGORITHM), "%s",
                   chap_algorithm_number(chap->algorithm));
    iscsi_text_put(out, chap_key_name(CHAP_IDENTIFIER), "%u", chap->identifier);
    chap_binary_put(out, CHAP_CHALLENGE, chap->challenge, CHAP_CHALLENGE_LEN);
    chap->phase = CHAP_CHALLENGED;
    return ISCSI_LOGIN_OK;
}

/* ---- the initiator's proof ------------------------------------------------------------------- */

static bool is_or_any(const char *wanted, const char *name)
{
    return wanted[0] == '\0' || strcmp(wanted, name) == 0;
}

// Whoever may log in to one target may discover.
static const struct iscsi_account *account_find(const struct chap_parts *parts, const char *name)
{
    const struct iscsi_accounts *accounts = parts->accounts;
    for (size_t i = 0; i < accounts->count; i++) {
        const struct iscsi_account *account = &accounts->initiators[i];
        if (strcmp(account->name, name) == 0 && is_or_any(account->initiator, parts->initiator) &&
            (parts->target[0] == '\0' || is_or_any(account->target, parts->target))) {
            return account;
        }
    }
    return NULL;
}

// Who is not known is found wrong no sooner than who has another secret.
static bool is_proven(const struct chap *chap, const struct chap_parts *parts)
{
    static const struct iscsi_account nobody = {.secret = "of nobody at all"};
    const struct iscsi_account *account = account_find(parts, chap->values[CHAP_NAME]);
    const char *secret = account != NULL ? account->secret : nobody.secret;
    uint8_t expected[CHAP_DIGEST_MAX], said[CHAP_DIGEST_MAX + CHAP_BINARY_SPARE];
    size_t said_len, len = chap_digest_len(chap->algorithm);
    chap_digest(chap->algorithm, chap->identifier, secret, chap->challenge, CHAP_CHALLENGE_LEN,
                expected);
    bool is_right =
        chap_binary_parse(chap->values[CHAP_RESPONSE], CHAP_DIGEST_MAX, said, &said_len) &&
        said_len == len && memeql_sec(said, expected, len) != 0;
    return is_right && account != NULL;
}

/* ---- the target's proof ---------------------------------------------------------------------- */

// A challenge that is our own would be answered by who asks it elsewhere.
static enum iscsi_login_status prove(struct chap *chap, const struct chap_parts *parts,
                                     struct iscsi_text_out *out, const char **ret_why)
{
    const struct iscsi_account *target = &parts->accounts->target;
    uint8_t asked[CHAP_CHALLENGE_MAX + CHAP_BINARY_SPARE], response[CHAP_DIGEST_MAX];
    uint8_t identifier;
    size_t len;
    bool is_whole = chap->values[CHAP_IDENTIFIER] != NULL && chap->values[CHAP_CHALLENGE] != NULL;
    if (!is_whole || !chap_identifier_parse(chap->values[CHAP_IDENTIFIER], &identifier) ||
        !chap_binary_parse(chap->values[CHAP_CHALLENGE], CHAP_CHALLENGE_MAX, asked, &len)) {
        *ret_why = "its challenge is none";
        return ISCSI_INITIATOR_ERROR;
    }
    if (len == CHAP_CHALLENGE_LEN && memcmp(asked, chap->challenge, len) == 0) {
        *ret_why = "its challenge is the target's own";
        return ISCSI_AUTHENTICATION_FAILURE;
    }
    if (target->secret[0] == '\0') {
        *ret_why = "it asks the target for a proof, which has no secret";
        return ISCSI_AUTHENTICATION_FAILURE;
    }
    chap_digest(chap->algorithm, identifier, target->secret, asked, len, response);
    iscsi_text_put(out, chap_key_name(CHAP_NAME), "%s", target->name);
    chap_binary_put(out, CHAP_RESPONSE, response, chap_digest_len(chap->algorithm));
    return ISCSI_LOGIN_OK;
}

static enum iscsi_login_status judge(struct chap *chap, const struct chap_parts *parts,
                                     struct iscsi_text_out *out, const char **ret_why)
{
    bool is_whole = chap->values[CHAP_NAME] != NULL && chap->values[CHAP_RESPONSE] != NULL;
    bool asks = chap->values[CHAP_IDENTIFIER] != NULL || chap->values[CHAP_CHALLENGE] != NULL;
    if (!is_whole) {
        *ret_why = "its proof has parts missing";
        return ISCSI_INITIATOR_ERROR;
    }
    if (!is_proven(chap, parts)) {
        *ret_why = "its name or secret is wrong (CHAP)";
        return ISCSI_AUTHENTICATION_FAILURE;
    }
    chap->phase = CHAP_PROVEN;
    return asks ? prove(chap, parts, out, ret_why) : ISCSI_LOGIN_OK;
}

/* ---- a request ------------------------------------------------------------------------------- */

static bool has_said(const struct chap *chap)
{
    bool has_any = false;
    for (unsigned i = 0; i < CHAP_KEY_COUNT; i++) {
        has_any |= chap->values[i] != NULL;
    }
    return has_any;
}

enum iscsi_login_status chap_step(struct chap *chap, const struct chap_parts *parts,
                                  struct iscsi_text_out *out, const char **ret_why)
{
    enum iscsi_login_status status = ISCSI_LOGIN_OK;
    bool has_algorithm = chap->values[CHAP_ALGORITHM] != NULL;
    if (has_said(chap)) {
        if (chap->phase == CHAP_AGREED && has_algorithm) {
            status = challenge(chap, parts, out, ret_why);
        } else if (chap->phase == CHAP_CHALLENGED && !has_algorithm) {
            status = judge(chap, parts, out, ret_why);
        } else {
            *ret_why = "its proof is out of turn";
            status = ISCSI_INITIATOR_ERROR;
        }
    }
    memset(chap->values, 0, sizeof chap->values);
    return status;
}
