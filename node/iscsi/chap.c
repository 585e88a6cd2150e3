#include "node/iscsi/chap.h"

#include <nettle/base16.h>
#include <nettle/base64.h>
#include <nettle/md5.h>
#include <nettle/memops.h>
#include <nettle/nettle-meta.h>
#include <nettle/sha2.h>
#include <nettle/sha3.h>
#include <stdio.h>
#include <string.h>

#include "text/show.h"

/* ---- algorithms ------------------------------------------------------------------------------ */

// By their numbers (RFC 7143 section 12.1.3 and IANA's registry), the best first.
static const struct chap_algorithm {
    const char *number;
    const struct nettle_hash *hash;
} algorithms[] = {
    {"8", &nettle_sha3_256},
    {"7", &nettle_sha256},
    {"5", &nettle_md5},
};

static const struct chap_algorithm *algorithm_of(const char *list)
{
    for (unsigned i = 0; i < sizeof algorithms / sizeof algorithms[0]; i++) {
        if (iscsi_list_has(list, algorithms[i].number)) {
            return &algorithms[i];
        }
    }
    return NULL;
}

union hash_context {
    struct md5_ctx md5;
    struct sha256_ctx sha256;
    struct sha3_256_ctx sha3_256;
};

// RFC 1994 section 4.1
static void digest(const struct chap_algorithm *algorithm, uint8_t identifier, const char *secret,
                   const uint8_t *challenge, size_t challenge_len, uint8_t ret[CHAP_DIGEST_MAX])
{
    const struct nettle_hash *hash = algorithm->hash;
    union hash_context context;
    hash->init(&context);
    hash->update(&context, 1, &identifier);
    hash->update(&context, strlen(secret), (const uint8_t *)secret);
    hash->update(&context, challenge_len, challenge);
    hash->digest(&context, hash->digest_size, ret);
    explicit_bzero(&context, sizeof context);
}

/* ---- binary values (RFC 7143 section 6.1) ---------------------------------------------------- */

static bool hex_parse(const char *digits, size_t capacity, uint8_t *ret, size_t *ret_len)
{
    struct base16_decode_ctx context;
    size_t len = strlen(digits);
    base16_decode_init(&context);
    *ret_len = capacity;
    return len % 2 == 0 && len / 2 <= capacity &&
           base16_decode_update(&context, ret_len, ret, len, digits) != 0;
}

static bool base64_parse(const char *text, size_t capacity, uint8_t *ret, size_t *ret_len)
{
    struct base64_decode_ctx context;
    size_t len = strlen(text);
    base64_decode_init(&context);
    *ret_len = capacity;
    return BASE64_DECODE_LENGTH(len) <= capacity + 2 &&
           base64_decode_update(&context, ret_len, ret, len, text) != 0 &&
           base64_decode_final(&context) != 0;
}

// `ret` has two octets of room behind `capacity`.
static bool binary_parse(const char *value, size_t capacity, uint8_t *ret, size_t *ret_len)
{
    bool is_hex = value[0] == '0' && (value[1] == 'x' || value[1] == 'X');
    bool is_base64 = value[0] == '0' && (value[1] == 'b' || value[1] == 'B');
    bool is_good = (is_hex && hex_parse(value + 2, capacity, ret, ret_len)) ||
                   (is_base64 && base64_parse(value + 2, capacity, ret, ret_len));
    return is_good && *ret_len > 0 && *ret_len <= capacity;
}

static void binary_put(struct iscsi_text_out *out, const char *key, const uint8_t *octets,
                       size_t len)
{
    char digits[2 * CHAP_DIGEST_MAX + 1];
    iscsi_text_put(out, key, "0x%s", text_hex(octets, len, digits));
}

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

static const char *const keys[CHAP_KEY_COUNT] = {
    [CHAP_ALGORITHM] = "CHAP_A",  [CHAP_NAME] = "CHAP_N",      [CHAP_RESPONSE] = "CHAP_R",
    [CHAP_IDENTIFIER] = "CHAP_I", [CHAP_CHALLENGE] = "CHAP_C",
};

bool chap_take(struct chap *chap, const struct iscsi_pair *pair)
{
    for (unsigned i = 0; i < CHAP_KEY_COUNT; i++) {
        if (strcmp(keys[i], pair->key) == 0 && chap->values[i] == NULL) {
            chap->values[i] = pair->value;
            return true;
        }
    }
    return false;
}

static enum iscsi_login_status challenge(struct chap *chap, const struct chap_parts *parts,
                                         struct iscsi_text_out *out, const char **ret_why)
{
    chap->algorithm = algorithm_of(chap->values[CHAP_ALGORITHM]);
    if (chap->algorithm == NULL) {
        *ret_why = "it knows no algorithm of ours (CHAP_A)";
        return ISCSI_AUTHENTICATION_FAILURE;
    }
    chap->identifier = parts->unforeseen[0];
    memcpy(chap->challenge, parts->unforeseen + 1, CHAP_CHALLENGE_LEN);
    iscsi_text_put(out, keys[CHAP_ALGORITHM], "%s", chap->algorithm->number);
    iscsi_text_put(out, keys[CHAP_IDENTIFIER], "%u", chap->identifier);
    binary_put(out, keys[CHAP_CHALLENGE], chap->challenge, CHAP_CHALLENGE_LEN);
    chap->phase = CHAP_CHALLENGED;
    return ISCSI_LOGIN_OK;
}

/* ---- the initiator's proof ------------------------------------------------------------------- */

static const struct iscsi_account *account_find(const struct chap_parts *parts, const char *name)
{
    const struct iscsi_accounts *accounts = parts->accounts;
    for (size_t i = 0; i < accounts->count; i++) {
        const struct iscsi_account *account = &accounts->initiators[i];
        bool is_for =
            account->initiator[0] == '\0' || strcmp(account->initiator, parts->initiator) == 0;
        if (is_for && strcmp(account->name, name) == 0) {
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
    uint8_t expected[CHAP_DIGEST_MAX], said[CHAP_DIGEST_MAX + 2];
    size_t said_len, len = chap->algorithm->hash->digest_size;
    digest(chap->algorithm, chap->identifier, secret, chap->challenge, CHAP_CHALLENGE_LEN,
           expected);
    bool is_right = binary_parse(chap->values[CHAP_RESPONSE], CHAP_DIGEST_MAX, said, &said_len) &&
                    said_len == len && memeql_sec(said, expected, len) != 0;
    return is_right && account != NULL;
}

/* ---- the target's proof ---------------------------------------------------------------------- */

// A challenge that is our own would be answered by who asks it elsewhere.
static enum iscsi_login_status prove(struct chap *chap, const struct chap_parts *parts,
                                     struct iscsi_text_out *out, const char **ret_why)
{
    const struct iscsi_account *target = &parts->accounts->target;
    uint8_t asked[CHAP_CHALLENGE_MAX + 2], response[CHAP_DIGEST_MAX];
    uint32_t identifier;
    size_t len;
    bool is_whole = chap->values[CHAP_IDENTIFIER] != NULL && chap->values[CHAP_CHALLENGE] != NULL;
    if (!is_whole || !iscsi_number_parse(chap->values[CHAP_IDENTIFIER], &identifier) ||
        identifier > UINT8_MAX ||
        !binary_parse(chap->values[CHAP_CHALLENGE], CHAP_CHALLENGE_MAX, asked, &len)) {
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
    digest(chap->algorithm, (uint8_t)identifier, target->secret, asked, len, response);
    iscsi_text_put(out, keys[CHAP_NAME], "%s", target->name);
    binary_put(out, keys[CHAP_RESPONSE], response, chap->algorithm->hash->digest_size);
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
