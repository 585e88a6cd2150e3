#include "initiator/iscsi/proof.h"

#include <string.h>

/* ---- what is said ---------------------------------------------------------------------------- */

void proof_begin(struct proof *proof)
{
    proof->phase = PROOF_NONE;
    proof->algorithm = NULL;
    proof->has_identifier = false;
    proof->challenge_len = 0;
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

bool proof_take(struct proof *proof, const struct iscsi_pair *pair, struct why *ret_why)
{
    if (strcmp(pair->key, "AuthMethod") == 0) {
        return method_take(proof, pair->value, ret_why);
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

bool proof_step(struct proof *proof, struct why *ret_why)
{
    if (proof->phase != PROOF_OFFERED) {
        return true;
    }
    if (proof->algorithm == NULL || !proof->has_identifier || proof->challenge_len == 0) {
        return refuse(ret_why, "has parts of its challenge missing (CHAP)");
    }
    proof->phase = PROOF_CHALLENGED;
    return true;
}
