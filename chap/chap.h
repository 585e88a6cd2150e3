// CHAP's own (RFC 1994, RFC 7143 section 12.1.3): the algorithms, what they make of a secret and a
// challenge, and octets as text. Who proves what to whom: node/iscsi/chap.h, the target's side;
// initiator/iscsi/proof.h, the initiator's.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/iscsi_text.h"

enum chap_limits {
    CHAP_CHALLENGE_MAX = 1024, // octets
    CHAP_DIGEST_MAX = 32,
    CHAP_BINARY_SPARE = 2, // room that chap_binary_parse needs behind what there is to be
};

enum chap_key {
    CHAP_ALGORITHM,
    CHAP_NAME,
    CHAP_RESPONSE,
    CHAP_IDENTIFIER,
    CHAP_CHALLENGE,
    CHAP_KEY_COUNT
};

// "CHAP_A" ...
const char *chap_key_name(enum chap_key key);

struct chap_algorithm;

// The numbers of all that we have, the best first, as CHAP_A has them.
extern const char chap_algorithms_offered[];
// The best of ours in a list of numbers. NULL: none of them is.
const struct chap_algorithm *chap_algorithm_of(const char *list);
const char *chap_algorithm_number(const struct chap_algorithm *algorithm);
// Octets of a response.
size_t chap_digest_len(const struct chap_algorithm *algorithm);
// The response to a challenge (RFC 1994 section 4.1).
void chap_digest(const struct chap_algorithm *algorithm, uint8_t identifier, const char *secret,
                 const uint8_t *challenge, size_t challenge_len, uint8_t ret[CHAP_DIGEST_MAX]);

// An identifier of a challenge. False: it is none.
bool chap_identifier_parse(const char *value, uint8_t *ret);
// A binary value (RFC 7143 section 6.1), of 1 to `capacity` octets; `ret` has CHAP_BINARY_SPARE
// more of room. False: it is none.
bool chap_binary_parse(const char *value, size_t capacity, uint8_t *ret, size_t *ret_len);
// At most CHAP_DIGEST_MAX octets.
void chap_binary_put(struct iscsi_text_out *out, enum chap_key key, const uint8_t *octets,
                     size_t len);
