#include "initiator/iscsi/proof.h"

#include <string.h>

/* ---- what is said ---------------------------------------------------------------------------- */

void proof_begin(struct proof *proof)
{
    proof->phase = PROOF_NONE;
    proof->algorithm = NULL;
    proof->has_identifier = false;
    proof->challenge_len = 0;
    proof->has_target_name = false;
    proof->response_len = 0;
}

static bool is_mutual(const struct proof *proof)
{
    return proof->target_name[0] != '\0';
}

// Who wants a proof of the target's does not go on without CHAP.
const char *proof_methods(const struct proof *proof)
{
    return is_mutual(proof) ? "CHAP" : "CHAP,None";
}

bool proof_is_complete(const struct proof *proof)
{
    return !is_mutual(proof) || proof->phase == PROOF_PROVEN;
}

bool proof_is_owed(const struct proof *proof)
{
    return proof->phase == PROOF_CHOSEN || proof->phase == PROOF_CHALLENGED;
}

static void response_put(const struct proof *proof, struct iscsi_text_out *out)
{
    uint8_t response[CHAP_DIGEST_MAX];
    chap_digest(proof->algorithm, proof->identifier, proof->secret, proof->challenge,
                proof->challenge_len, response);
    iscsi_text_put(out, chap_key_name(CHAP_NAME), "%s", proof->name);
    chap_binary_put(out, CHAP_RESPONSE, response, chap_digest_len(proof->algorithm));
    if (is_mutual(proof)) {
        iscsi_text_put(out, chap_key_name(CHAP_IDENTIFIER), "%u", proof->asked_identifier);
        chap_binary_put(out, CHAP_CHALLENGE, proof->asked, sizeof proof->asked);
    }
}

void proof_put(struct proof *proof, struct iscsi_text_out *out)
{
    if (proof->phase == PROOF_CHOSEN) {
        iscsi_text_put(out, chap_key_name(CHAP_ALGORITHM), "%s", chap_algorithms_offered);
        proof->phase = PROOF_OFFERED;
    } else if (proof->phase == PROOF_CHALLENGED) {
        response_put(proof, out);
        proof->phase = PROOF_GIVEN;
    }
}

/* ---- what is heard --------------------------------------------------------------------------- */

static bool refuse(struct why *ret_why, const char *what)
{
    why_say(ret_why, "the target %s", what);
    return false;
}

static bool method_take(struct proof *proof, const char *method, struct why *ret_why)
{
    if (strcmp(method, "CHAP") == 0 && proof->phase == PROOF_NONE && proof->name[0] != '\0') {
        proof->phase = PROOF_CHOSEN;
        return true;
    }
    return strcmp(method, "None") == 0 ||
           refuse(ret_why, "wants a way to prove who logs in that was not offered");
}

// Once, and one of those that were offered: who might choose again could choose a worse one.
static bool algorithm_take(struct proof *proof, const char *number, struct why *ret_why)
{
    bool is_first = proof->algorithm == NULL;
    proof->algorithm = is_first ? chap_algorithm_of(number) : NULL;
    return proof->algorithm != NULL || refuse(ret_why, "has no algorithm of CHAP that we have");
}

static bool identifier_take(struct proof *proof, const char *value, struct why *ret_why)
{
    proof->has_identifier = chap_identifier_parse(value, &proof->identifier);
    return proof->has_identifier || refuse(ret_why, "has an identifier of CHAP that is none");
}

static bool challenge_take(struct proof *proof, const char *value, struct why *ret_why)
{
    return chap_binary_parse(value, CHAP_CHALLENGE_MAX, proof->challenge, &proof->challenge_len) ||
           refuse(ret_why, "has a challenge of CHAP that is none");
}

// Each once.
static bool target_take(struct proof *proof, const struct iscsi_pair *pair, struct why *ret_why)
{
    if (strcmp(pair->key, chap_key_name(CHAP_NAME)) == 0 && !proof->has_target_name) {
        proof->has_target_name = strcmp(pair->value, proof->target_name) == 0;
        return proof->has_target_name || refuse(ret_why, "proves to be another (CHAP)");
    }
    if (strcmp(pair->key, chap_key_name(CHAP_RESPONSE)) == 0 && proof->response_len == 0) {
        return chap_binary_parse(pair->value, CHAP_DIGEST_MAX, proof->response,
                                 &proof->response_len) ||
               refuse(ret_why, "has a proof of CHAP that is none");
    }
    return strncmp(pair->key, "CHAP_", 5) != 0 || refuse(ret_why, "has CHAP out of turn");
}

bool proof_take(struct proof *proof, const struct iscsi_pair *pair, struct why *ret_why)
{
    if (strcmp(pair->key, "AuthMethod") == 0) {
        return method_take(proof, pair->value, ret_why);
    }
    if (proof->phase == PROOF_GIVEN && is_mutual(proof)) {
        return target_take(proof, pair, ret_why);
    }
    if (proof->phase != PROOF_OFFERED) {
        return strncmp(pair->key, "CHAP_", 5) != 0 || refuse(ret_why, "has CHAP out of turn");
    }
    if (strcmp(pair->key, chap_key_name(CHAP_ALGORITHM)) == 0) {
        return algorithm_take(proof, pair->value, ret_why);
    }
    if (strcmp(pair->key, chap_key_name(CHAP_IDENTIFIER)) == 0) {
        return identifier_take(proof, pair->value, ret_why);
    }
    if (strcmp(pair->key, chap_key_name(CHAP_CHALLENGE)) == 0) {
        return challenge_take(proof, pair->value, ret_why);
    }
    return true;
}

static bool target_judge(struct proof *proof, struct why *ret_why)
{
    uint8_t expected[CHAP_DIGEST_MAX];
    size_t len = chap_digest_len(proof->algorithm);
    if (!proof->has_target_name || proof->response_len == 0) {
        return refuse(ret_why, "does not prove who it is (CHAP)");
    }
    chap_digest(proof->algorithm, proof->asked_identifier, proof->target_secret, proof->asked,
                sizeof proof->asked, expected);
    if (proof->response_len != len || memcmp(proof->response, expected, len) != 0) {
        return refuse(ret_why, "has another secret (CHAP)");
    }
    proof->phase = PROOF_PROVEN;
    return true;
}

bool proof_step(struct proof *proof, struct why *ret_why)
{
    if (proof->phase == PROOF_GIVEN && is_mutual(proof)) {
        return target_judge(proof, ret_why);
    }
    if (proof->phase != PROOF_OFFERED) {
        return true;
    }
    if (proof->algorithm == NULL || !proof->has_identifier || proof->challenge_len == 0) {
        return refuse(ret_why, "has parts of its challenge missing (CHAP)");
    }
    proof->phase = PROOF_CHALLENGED;
    return true;
}
