// CHAP of an iSCSI target, request by request: who proves what, what a proof out of turn, with
// parts missing or wrong gets, and whose account it is. The responses are RFC 1994's, computed
// elsewhere.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "chap/chap.h"
#include "format/iscsi_text.h"
#include "node/iscsi/chap.h"

enum { TEXT_MAX = 2048 };

static struct iscsi_accounts accounts;
static struct chap_parts parts;
static struct chap chap;
static uint8_t unforeseen[CHAP_CHALLENGE_LEN + 1];
static char said[TEXT_MAX]; // by the target, pairs with blanks between
static const char *why;

/* ---- octets ---------------------------------------------------------------------------------- */

static const struct {
    const char *number, *digest;
    size_t len;
} algorithms[] = {
    {"5", "5d797f3a5af5308f34158457600f6e27", 16},
    {"7", "1d996893e0c4aac1a098c1f54c37004b4ba7b3ab650fa2904da5da9104306ffa", 32},
    {"8", "f79d52e6fe530e174ade9703271279267272e13f6010dc043dbda35611b1506c", 32},
};

static void a_response_is_a_digest_of_identifier_secret_and_challenge(void **state)
{
    uint8_t challenge[16], digest[CHAP_DIGEST_MAX], expected[CHAP_DIGEST_MAX + CHAP_BINARY_SPARE];
    for (unsigned i = 0; i < sizeof challenge; i++) {
        challenge[i] = (uint8_t)i;
    }
    for (unsigned i = 0; i < 3; i++) {
        char text[80];
        size_t len;
        const struct chap_algorithm *algorithm = chap_algorithm_of(algorithms[i].number);
        assert_string_equal(chap_algorithm_number(algorithm), algorithms[i].number);
        assert_int_equal(chap_digest_len(algorithm), algorithms[i].len);
        chap_digest(algorithm, 7, "secret of twelve", challenge, sizeof challenge, digest);
        snprintf(text, sizeof text, "0x%s", algorithms[i].digest);
        assert_true(chap_binary_parse(text, CHAP_DIGEST_MAX, expected, &len));
        assert_int_equal(len, algorithms[i].len);
        assert_memory_equal(digest, expected, len);
    }
}

static void the_best_algorithm_of_a_list_is_taken(void **state)
{
    static const struct {
        const char *list, *number;
    } cases[] = {{"5,7,8", "8"}, {"5,7", "7"}, {"5", "5"},   {"6,5", "5"},
                 {"6", NULL},    {"", NULL},   {"55", NULL}, {"None", NULL}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct chap_algorithm *found = chap_algorithm_of(cases[i].list);
        assert_true((found == NULL) == (cases[i].number == NULL));
        if (found != NULL) {
            assert_string_equal(chap_algorithm_number(found), cases[i].number);
        }
    }
    assert_string_equal(chap_algorithms_offered, "8,7,5");
}

static void an_identifier_is_an_octet(void **state)
{
    static const struct {
        const char *text;
        int value; // -1: it is none
    } cases[] = {{"0", 0}, {"255", 255}, {"0xff", 255}, {"256", -1}, {"-1", -1}, {"", -1}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t value = 99;
        assert_true(chap_identifier_parse(cases[i].text, &value) == (cases[i].value >= 0));
        assert_int_equal(value, cases[i].value >= 0 ? cases[i].value : 0);
    }
}

static void binary_values_are_hexadecimal_or_base64_and_have_their_bounds(void **state)
{
    static const struct {
        const char *text;
        size_t len; // 0: it is none
        uint8_t first;
    } cases[] = {
        {"0xa1", 1, 0xa1},
        {"0XA1b2", 2, 0xa1},
        {"0xa1b2c3d4", 4, 0xa1},
        {"0xa1b2c3d4e5", 0, 0},
        {"0x", 0, 0},
        {"0xa", 0, 0},
        {"0xag", 0, 0},
        {"a1", 0, 0},
        {"1xa1", 0, 0},
        {"", 0, 0},
        {"0", 0, 0},
        {"0bYQ==", 1, 'a'},
        {"0BYWI=", 2, 'a'},
        {"0bYWJj", 3, 'a'},
        {"0bYWJjZA==", 4, 'a'},
        {"0bYWJjZGU=", 0, 0},
        {"0bYWJjZGVm", 0, 0},
        {"0bYQ", 0, 0},
        {"0bY!==", 0, 0},
        {"0b", 0, 0},
        {"1bYQ==", 0, 0},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t octets[4 + CHAP_BINARY_SPARE];
        size_t len = 0;
        bool is_good = chap_binary_parse(cases[i].text, 4, octets, &len);
        assert_true(is_good == (cases[i].len > 0));
        if (is_good) {
            assert_int_equal(len, cases[i].len);
            assert_int_equal(octets[0], cases[i].first);
        }
    }
}

/* ---- the dialogue ---------------------------------------------------------------------------- */

static int fresh(void **state)
{
    memset(&accounts, 0, sizeof accounts);
    memset(&chap, 0, sizeof chap);
    accounts.count = 2;
    accounts.initiators[0] = (struct iscsi_account){
        .name = "me", .initiator = "iqn.me", .target = "iqn.t", .secret = "a secret of mine"};
    accounts.initiators[1] = (struct iscsi_account){.name = "any", .secret = "of anybody at all"};
    accounts.target = (struct iscsi_account){.name = "the target", .secret = "the target's own"};
    parts = (struct chap_parts){
        .accounts = &accounts, .initiator = "iqn.me", .target = "iqn.t", .unforeseen = unforeseen};
    for (unsigned i = 0; i < sizeof unforeseen; i++) {
        unforeseen[i] = (uint8_t)(200 + i);
    }
    return 0;
}

static struct iscsi_text_out out_begin(char *text)
{
    return (struct iscsi_text_out){.ptr = text, .capacity = TEXT_MAX - 1};
}

static void out_end(char *text, const struct iscsi_text_out *out)
{
    for (size_t i = 0; i < out->len; i++) {
        said[i] = text[i] != '\0' ? text[i] : ' ';
    }
    said[out->len] = '\0';
}

static bool begin(const char *methods)
{
    char text[TEXT_MAX];
    struct iscsi_text_out out = out_begin(text);
    bool is_begun = chap_begin(&chap, methods, &out);
    out_end(text, &out);
    return is_begun;
}

static bool take(const char *key, const char *value)
{
    struct iscsi_pair pair = {.value = value};
    snprintf(pair.key, sizeof pair.key, "%s", key);
    return chap_take(&chap, &pair);
}

static enum iscsi_login_status step(void)
{
    char text[TEXT_MAX];
    struct iscsi_text_out out = out_begin(text);
    why = "";
    enum iscsi_login_status status = chap_step(&chap, &parts, &out, &why);
    out_end(text, &out);
    return status;
}

static void challenged_by(const char *list)
{
    assert_true(begin("None,CHAP"));
    assert_string_equal(said, "AuthMethod=CHAP ");
    assert_int_equal(chap.phase, CHAP_AGREED);
    assert_true(take("CHAP_A", list));
    assert_int_equal(step(), ISCSI_LOGIN_OK);
    assert_int_equal(chap.phase, CHAP_CHALLENGED);
}

static const char *response_of(const char *number, uint8_t identifier, const char *secret,
                               const uint8_t *challenge, size_t len)
{
    static char text[2 * CHAP_DIGEST_MAX + 3];
    uint8_t digest[CHAP_DIGEST_MAX];
    const struct chap_algorithm *algorithm = chap_algorithm_of(number);
    chap_digest(algorithm, identifier, secret, challenge, len, digest);
    snprintf(text, sizeof text, "0x");
    for (size_t i = 0; i < chap_digest_len(algorithm); i++) {
        snprintf(text + 2 + 2 * i, 3, "%02x", digest[i]);
    }
    return text;
}

static enum iscsi_login_status prove(const char *name, const char *secret)
{
    assert_true(take("CHAP_N", name));
    assert_true(take("CHAP_R", response_of("7", 200, secret, unforeseen + 1, CHAP_CHALLENGE_LEN)));
    return step();
}

static void who_knows_the_secret_is_let_in(void **state)
{
    challenged_by("7,5");
    assert_string_equal(said, "CHAP_A=7 CHAP_I=200 CHAP_C=0xc9cacbcccdcecfd0d1d2d3d4d5d6d7d8"
                              "d9dadbdcdddedfe0e1e2e3e4e5e6e7e8 ");
    assert_int_equal(prove("me", "a secret of mine"), ISCSI_LOGIN_OK);
    assert_int_equal(chap.phase, CHAP_PROVEN);
    assert_string_equal(said, "");
}

static void who_does_not_offer_it_is_told_so(void **state)
{
    assert_false(begin("None,KRB5"));
    assert_string_equal(said, "AuthMethod=Reject ");
    assert_int_equal(chap.phase, CHAP_UNASKED);
    challenged_by("7");
    assert_true(begin("CHAP")); // again: nothing is forgotten
    assert_int_equal(chap.phase, CHAP_CHALLENGED);
}

static void an_account_is_for_its_name_its_initiator_and_its_target(void **state)
{
    static const struct {
        const char *name, *secret, *initiator, *target;
        bool is_let_in;
    } cases[] = {
        {"me", "a secret of mine", "iqn.me", "iqn.t", true},
        {"me", "a secret of mine", "iqn.me", "", true}, // to discover
        {"me", "a secret of mine", "iqn.you", "iqn.t", false},
        {"me", "a secret of mine", "iqn.you", "", false},
        {"me", "a secret of mine", "iqn.me", "iqn.other", false},
        {"me", "a secret of mines", "iqn.me", "iqn.t", false},
        {"me", "of anybody at all", "iqn.me", "iqn.t", false},
        {"any", "of anybody at all", "iqn.you", "iqn.other", true},
        {"nobody", "of nobody at all", "iqn.me", "iqn.t", false}, // whose secret is in the source
        {"", "", "iqn.me", "iqn.t", false},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fresh(NULL);
        parts.initiator = cases[i].initiator;
        parts.target = cases[i].target;
        challenged_by("7");
        enum iscsi_login_status status = prove(cases[i].name, cases[i].secret);
        assert_int_equal(status,
                         cases[i].is_let_in ? ISCSI_LOGIN_OK : ISCSI_AUTHENTICATION_FAILURE);
        assert_string_equal(why, cases[i].is_let_in ? "" : "its name or secret is wrong (CHAP)");
        assert_int_equal(chap.phase, cases[i].is_let_in ? CHAP_PROVEN : CHAP_CHALLENGED);
    }
}

static void a_response_of_another_length_proves_nothing(void **state)
{
    static const char *const bad[] = {"0x00", "0x", "1", "0bYWJj", "no"};
    for (unsigned i = 0; i <= sizeof bad / sizeof bad[0]; i++) {
        bool is_md5 = i == sizeof bad / sizeof bad[0];
        fresh(NULL);
        challenged_by("7");
        assert_true(take("CHAP_N", "me"));
        assert_true(take("CHAP_R", is_md5 ? response_of("5", 200, "a secret of mine",
                                                        unforeseen + 1, CHAP_CHALLENGE_LEN)
                                          : bad[i]));
        assert_int_equal(step(), ISCSI_AUTHENTICATION_FAILURE);
    }
}

static void steps_out_of_turn_or_with_parts_missing_are_refused(void **state)
{
    static const struct {
        enum chap_phase phase;
        const char *keys; // letters of CHAP_x
        enum iscsi_login_status status;
        const char *why;
    } cases[] = {
        {CHAP_AGREED, "", ISCSI_LOGIN_OK, ""},
        {CHAP_CHALLENGED, "", ISCSI_LOGIN_OK, ""},
        {CHAP_UNASKED, "A", ISCSI_INITIATOR_ERROR, "its proof is out of turn"},
        {CHAP_AGREED, "NR", ISCSI_INITIATOR_ERROR, "its proof is out of turn"},
        {CHAP_CHALLENGED, "A", ISCSI_INITIATOR_ERROR, "its proof is out of turn"},
        {CHAP_CHALLENGED, "ANR", ISCSI_INITIATOR_ERROR, "its proof is out of turn"},
        {CHAP_PROVEN, "NR", ISCSI_INITIATOR_ERROR, "its proof is out of turn"},
        {CHAP_CHALLENGED, "N", ISCSI_INITIATOR_ERROR, "its proof has parts missing"},
        {CHAP_CHALLENGED, "R", ISCSI_INITIATOR_ERROR, "its proof has parts missing"},
        {CHAP_CHALLENGED, "IC", ISCSI_INITIATOR_ERROR, "its proof has parts missing"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fresh(NULL);
        chap.phase = cases[i].phase;
        chap.algorithm = chap_algorithm_of("7");
        for (const char *key = cases[i].keys; *key != '\0'; key++) {
            char name[] = {'C', 'H', 'A', 'P', '_', *key, '\0'};
            assert_true(take(name, "7"));
            assert_false(take(name, "7")); // twice
        }
        assert_int_equal(step(), cases[i].status);
        assert_string_equal(why, cases[i].why);
        assert_int_equal(chap.phase, cases[i].phase);
        assert_int_equal(step(), ISCSI_LOGIN_OK); // what was said is forgotten
    }
    assert_false(take("CHAP_X", "1"));
    assert_false(take("AuthMethod", "CHAP"));
    chap.phase = CHAP_AGREED;
    assert_true(take("CHAP_A", "6,9"));
    assert_int_equal(step(), ISCSI_AUTHENTICATION_FAILURE);
    assert_string_equal(why, "it knows no algorithm of ours (CHAP_A)");
    assert_int_equal(chap.phase, CHAP_AGREED);
}

static void the_target_proves_itself_to_who_asks(void **state)
{
    static const struct {
        const char *identifier, *challenge;
        bool has_secret;
        enum iscsi_login_status status;
        const char *why;
    } cases[] = {
        {"9", "0x0102", true, ISCSI_LOGIN_OK, ""},
        {"9", "0x0102", false, ISCSI_AUTHENTICATION_FAILURE,
         "it asks the target for a proof, which has no secret"},
        {"9", NULL, true, ISCSI_INITIATOR_ERROR, "its challenge is none"},
        {NULL, "0x0102", true, ISCSI_INITIATOR_ERROR, "its challenge is none"},
        {"256", "0x0102", true, ISCSI_INITIATOR_ERROR, "its challenge is none"},
        {"9", "0x", true, ISCSI_INITIATOR_ERROR, "its challenge is none"},
        {"9", "0xc9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8", true,
         ISCSI_AUTHENTICATION_FAILURE, "its challenge is the target's own"},
        {"9", "0xc9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e9", true,
         ISCSI_LOGIN_OK, ""},
        {"9", "0xc9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9", true,
         ISCSI_LOGIN_OK, ""},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fresh(NULL);
        accounts.target.secret[0] = cases[i].has_secret ? accounts.target.secret[0] : '\0';
        challenged_by("7");
        assert_true(cases[i].identifier == NULL || take("CHAP_I", cases[i].identifier));
        assert_true(cases[i].challenge == NULL || take("CHAP_C", cases[i].challenge));
        assert_int_equal(prove("me", "a secret of mine"), cases[i].status);
        assert_string_equal(why, cases[i].why);
        char expected[TEXT_MAX] = "";
        if (i == 0) {
            const uint8_t challenge[] = {1, 2};
            snprintf(expected, sizeof expected, "CHAP_N=the target CHAP_R=%s ",
                     response_of("7", 9, "the target's own", challenge, 2));
            assert_string_equal(said, expected);
        }
        assert_true((said[0] != '\0') == (cases[i].status == ISCSI_LOGIN_OK));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_response_is_a_digest_of_identifier_secret_and_challenge),
        cmocka_unit_test(the_best_algorithm_of_a_list_is_taken),
        cmocka_unit_test(an_identifier_is_an_octet),
        cmocka_unit_test(binary_values_are_hexadecimal_or_base64_and_have_their_bounds),
        cmocka_unit_test_setup(who_knows_the_secret_is_let_in, fresh),
        cmocka_unit_test_setup(who_does_not_offer_it_is_told_so, fresh),
        cmocka_unit_test_setup(an_account_is_for_its_name_its_initiator_and_its_target, fresh),
        cmocka_unit_test_setup(a_response_of_another_length_proves_nothing, fresh),
        cmocka_unit_test_setup(steps_out_of_turn_or_with_parts_missing_are_refused, fresh),
        cmocka_unit_test_setup(the_target_proves_itself_to_who_asks, fresh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
