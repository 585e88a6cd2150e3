#include "chap/chap.h"

#include <nettle/base16.h>
#include <nettle/base64.h>
#include <nettle/md5.h>
#include <nettle/nettle-meta.h>
#include <nettle/sha2.h>
#include <nettle/sha3.h>
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

const char chap_algorithms_offered[] = "8,7,5";

const struct chap_algorithm *chap_algorithm_of(const char *list)
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

const char *chap_algorithm_number(const struct chap_algorithm *algorithm)
{
    return algorithm->number;
}

size_t chap_digest_len(const struct chap_algorithm *algorithm)
{
    return algorithm->hash->digest_size;
}

void chap_digest(const struct chap_algorithm *algorithm, uint8_t identifier, const char *secret,
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

/* ---- values (RFC 7143 section 6.1) ----------------------------------------------------------- */

const char *chap_key_name(enum chap_key key)
{
    static const char *const names[CHAP_KEY_COUNT] = {
        [CHAP_ALGORITHM] = "CHAP_A",  [CHAP_NAME] = "CHAP_N",      [CHAP_RESPONSE] = "CHAP_R",
        [CHAP_IDENTIFIER] = "CHAP_I", [CHAP_CHALLENGE] = "CHAP_C",
    };
    return names[key];
}

bool chap_identifier_parse(const char *value, uint8_t *ret)
{
    uint32_t number;
    bool is_good = iscsi_number_parse(value, &number) && number <= UINT8_MAX;
    *ret = is_good ? (uint8_t)number : 0;
    return is_good;
}

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
    return BASE64_DECODE_LENGTH(len) <= capacity + CHAP_BINARY_SPARE &&
           base64_decode_update(&context, ret_len, ret, len, text) != 0 &&
           base64_decode_final(&context) != 0;
}

bool chap_binary_parse(const char *value, size_t capacity, uint8_t *ret, size_t *ret_len)
{
    bool is_hex = value[0] == '0' && (value[1] == 'x' || value[1] == 'X');
    bool is_base64 = value[0] == '0' && (value[1] == 'b' || value[1] == 'B');
    bool is_good = (is_hex && hex_parse(value + 2, capacity, ret, ret_len)) ||
                   (is_base64 && base64_parse(value + 2, capacity, ret, ret_len));
    return is_good && *ret_len > 0 && *ret_len <= capacity;
}

void chap_binary_put(struct iscsi_text_out *out, enum chap_key key, const uint8_t *octets,
                     size_t len)
{
    char digits[2 * CHAP_DIGEST_MAX + 1];
    iscsi_text_put(out, chap_key_name(key), "0x%s", text_hex(octets, len, digits));
}
