// CHAP from the initiator's side, pair by pair: when it speaks, what it answers, and which targets
// it does not follow.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/why.h"
#include "format/iscsi_text.h"
#include "initiator/iscsi/proof.h"

enum { TEXT_MAX = 1024 };

static struct proof proof;
static struct why why;
static char said[TEXT_MAX];

static int fresh(void **state)
{
    memset(&proof, 0, sizeof proof);
    snprintf(proof.name, sizeof proof.name, "me");
    snprintf(proof.secret, sizeof proof.secret, "secret of twelve");
    proof_begin(&proof);
    return 0;
}

// One that asks the target for a proof, too: by 9 and the octets 0 to 31.
static int mutual(void **state)
{
    fresh(NULL);
    snprintf(proof.target_name, sizeof proof.target_name, "it");
    snprintf(proof.target_secret, sizeof proof.target_secret, "secret of the target");
    proof.asked_identifier = 9;
    for (unsigned i = 0; i < sizeof proof.asked; i++) {
        proof.asked[i] = (uint8_t)i;
    }
    return 0;
}

static void put(void)
{
    char text[TEXT_MAX];
    struct iscsi_text_out out = {.ptr = text, .capacity = sizeof text - 1};
    proof_put(&proof, &out);
    for (size_t i = 0; i < out.len; i++) {
        said[i] = text[i] != '\0' ? text[i] : ' ';
    }
    said[out.len] = '\0';
}

static bool take(const char *key, const char *value)
{
    struct iscsi_pair pair = {.value = value};
    snprintf(pair.key, sizeof pair.key, "%s", key);
    why = (struct why){""};
    return proof_take(&proof, &pair, &why);
}

static void offered(void)
{
    assert_false(proof_is_owed(&proof));
    put();
    assert_string_equal(said, "");
    assert_true(take("AuthMethod", "CHAP"));
    assert_true(proof_is_owed(&proof));
    put();
    assert_string_equal(said, "CHAP_A=8,7,5 ");
    assert_false(proof_is_owed(&proof));
    put(); // once
    assert_string_equal(said, "");
}

// The digests are RFC 1994's, of 7, the secret and 0 to 15, computed elsewhere.
static void a_challenge_is_answered_with_name_and_digest(void **state)
{
    static const struct {
        const char *number, *answer;
    } cases[] = {
        {"5", "CHAP_N=me CHAP_R=0x5d797f3a5af5308f34158457600f6e27 "},
        {"7", "CHAP_N=me "
              "CHAP_R=0x1d996893e0c4aac1a098c1f54c37004b4ba7b3ab650fa2904da5da9104306ffa "},
        {"8", "CHAP_N=me "
              "CHAP_R=0xf79d52e6fe530e174ade9703271279267272e13f6010dc043dbda35611b1506c "},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fresh(NULL);
        offered();
        assert_true(take("CHAP_A", cases[i].number));
        assert_true(take("CHAP_I", "7"));
        assert_true(take("CHAP_C", "0x000102030405060708090a0b0c0d0e0f"));
        assert_true(take("MaxRecvDataSegmentLength", "8192")); // none of this
        assert_false(proof_is_owed(&proof));
        assert_true(proof_step(&proof, &why));
        assert_true(proof_is_owed(&proof));
        put();
        assert_string_equal(said, cases[i].answer);
        assert_false(proof_is_owed(&proof));
        put();
        assert_string_equal(said, "");
        assert_true(proof_step(&proof, &why)); // of a response with nothing of this
    }
}

static void a_target_that_wants_no_proof_hears_none(void **state)
{
    assert_true(take("AuthMethod", "None"));
    assert_false(proof_is_owed(&proof));
    assert_true(proof_step(&proof, &why));
    put();
    assert_string_equal(said, "");
}

static void a_way_that_was_not_offered_is_not_followed(void **state)
{
    static const char *const methods[] = {"KRB5", "Reject", ""};
    for (unsigned i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        assert_false(take("AuthMethod", methods[i]));
        assert_non_null(strstr(why.text, "that was not offered"));
    }
    proof.name[0] = '\0'; // who has nothing to prove offers nothing
    assert_false(take("AuthMethod", "CHAP"));
    fresh(NULL);
    assert_true(take("AuthMethod", "CHAP"));
    assert_false(take("AuthMethod", "CHAP")); // twice
}

static void what_comes_out_of_turn_is_refused(void **state)
{
    static const char *const keys[] = {"CHAP_A", "CHAP_I", "CHAP_C", "CHAP_N"};
    for (unsigned i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        fresh(NULL);
        assert_false(take(keys[i], "7"));
        assert_string_equal(why.text, "the target has CHAP out of turn");
        assert_true(take("TargetAlias", "7"));
        assert_true(take("AuthMethod", "CHAP"));
        assert_false(take(keys[i], "7")); // nothing has been offered yet
    }
}

static void what_makes_no_sense_is_refused_and_why(void **state)
{
    static const struct {
        const char *key, *value, *why;
    } cases[] = {{"CHAP_A", "6", "has no algorithm of CHAP that we have"},
                 {"CHAP_I", "256", "has an identifier of CHAP that is none"},
                 {"CHAP_I", "x", "has an identifier of CHAP that is none"},
                 {"CHAP_C", "0x", "has a challenge of CHAP that is none"},
                 {"CHAP_C", "7", "has a challenge of CHAP that is none"}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fresh(NULL);
        offered();
        assert_false(take(cases[i].key, cases[i].value));
        assert_non_null(strstr(why.text, cases[i].why));
    }
    fresh(NULL);
    offered();
    assert_true(take("CHAP_A", "7"));
    assert_false(take("CHAP_A", "5")); // a worse one
    assert_non_null(strstr(why.text, "has no algorithm"));
}

static void a_challenge_has_all_its_parts(void **state)
{
    static const struct {
        const char *key, *value;
    } parts[] = {{"CHAP_A", "7"}, {"CHAP_I", "0"}, {"CHAP_C", "0x01"}};
    for (unsigned missing = 0; missing < 4; missing++) {
        fresh(NULL);
        offered();
        for (unsigned i = 0; i < 3; i++) {
            assert_true(i == missing || take(parts[i].key, parts[i].value));
        }
        assert_true(proof_step(&proof, &why) == (missing == 3));
        assert_true(missing == 3 || strstr(why.text, "parts of its challenge missing") != NULL);
        assert_true(proof_is_owed(&proof) == (missing == 3));
    }
}

static void a_login_that_begins_anew_forgets(void **state)
{
    offered();
    assert_true(take("CHAP_A", "7"));
    assert_true(take("CHAP_I", "1"));
    assert_true(take("CHAP_C", "0x01"));
    proof_begin(&proof);
    assert_string_equal(proof.name, "me");
    offered();
    assert_false(proof_step(&proof, &why));
}

/* ---- the target's proof ---------------------------------------------------------------------- */

#define OF_MD5 "0xe9e6a8dc814efd2abcd1b1cbfa212ef9"

// Up to the proof that it gives, and the challenge beside it.
static void ask(const char *algorithm)
{
    mutual(NULL);
    offered();
    assert_true(take("CHAP_A", algorithm));
    assert_true(take("CHAP_I", "7"));
    assert_true(take("CHAP_C", "0x000102030405060708090a0b0c0d0e0f"));
    assert_true(proof_step(&proof, &why));
    put();
    assert_non_null(
        strstr(said, " CHAP_I=9 "
                     "CHAP_C=0x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f "));
    assert_false(proof_is_complete(&proof));
}

// Computed elsewhere, as those above.
static void a_target_proves_who_it_is(void **state)
{
    static const char *const cases[][2] = {
        {"5", OF_MD5},
        {"7", "0xeae25d53dcc1d66668a335f665b4a758fea53c78d5824431ec0315a7e8c14c16"},
        {"8", "0x7d20ea165291133c97b59619748d85fcaab55e3b6feab34d61d565083097cee8"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ask(cases[i][0]);
        assert_true(take("CHAP_N", "it"));
        assert_true(take("CHAP_R", cases[i][1]));
        assert_true(proof_step(&proof, &why));
        assert_true(proof_is_complete(&proof));
        assert_false(take("CHAP_R", cases[i][1])); // once
    }
    fresh(NULL);
    assert_true(proof_is_complete(&proof)); // who is not asked
    assert_string_equal(proof_methods(&proof), "CHAP,None");
    mutual(NULL);
    assert_string_equal(proof_methods(&proof), "CHAP");
}

static void a_target_that_does_not_prove_it_is_refused(void **state)
{
    static const char right[] = OF_MD5;
    char wrong[] = OF_MD5;
    wrong[10] = wrong[10] == '0' ? '1' : '0';
    const struct {
        const char *name, *response, *why;
    } cases[] = {
        {NULL, NULL, "does not prove who it is"},  {"it", NULL, "does not prove who it is"},
        {NULL, right, "does not prove who it is"}, {"it", wrong, "has another secret"},
        {"it", "0x00", "has another secret"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ask("5");
        assert_true(cases[i].name == NULL || take("CHAP_N", cases[i].name));
        assert_true(cases[i].response == NULL || take("CHAP_R", cases[i].response));
        assert_false(proof_step(&proof, &why));
        assert_non_null(strstr(why.text, cases[i].why));
        assert_false(proof_is_complete(&proof));
    }
    ask("5");
    assert_false(take("CHAP_N", "another"));
    ask("5");
    assert_false(take("CHAP_R", "none"));
    ask("5");
    assert_false(take("CHAP_I", "1")); // it has had its turn
    mutual(NULL);
    assert_true(take("AuthMethod", "None"));
    assert_true(proof_step(&proof, &why));
    assert_false(proof_is_complete(&proof));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_challenge_is_answered_with_name_and_digest, fresh),
        cmocka_unit_test_setup(a_target_that_wants_no_proof_hears_none, fresh),
        cmocka_unit_test_setup(a_way_that_was_not_offered_is_not_followed, fresh),
        cmocka_unit_test_setup(what_comes_out_of_turn_is_refused, fresh),
        cmocka_unit_test_setup(what_makes_no_sense_is_refused_and_why, fresh),
        cmocka_unit_test_setup(a_challenge_has_all_its_parts, fresh),
        cmocka_unit_test_setup(a_login_that_begins_anew_forgets, fresh),
        cmocka_unit_test(a_target_proves_who_it_is),
        cmocka_unit_test(a_target_that_does_not_prove_it_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
