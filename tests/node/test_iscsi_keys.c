// The keys of an iSCSI login (RFC 7143 section 13), each with what an initiator may say of it and
// what comes of that: in a session over TCP, where data move by RDMA, and in one that discovers.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "node/iscsi/keys.h"

enum { TEXT_MAX = 128 };

#define REFUSED ""

static const struct iscsi_key_session tcp,
    rdma = {.is_oneshot = true}, discovery = {.is_discovery = true}, open = {.is_open = true};

// What is answered, as "key=value", or REFUSED; the last answer of a key said once.
static const char *said(const char *key, const char *value, struct iscsi_key_session session,
                        struct iscsi_parameters *ret)
{
    static char text[TEXT_MAX];
    struct iscsi_text_out out = {.ptr = text, .capacity = sizeof text};
    struct iscsi_pair pair = {.value = value};
    *ret = iscsi_parameters_default;
    snprintf(pair.key, sizeof pair.key, "%s", key);
    memset(text, 0, sizeof text);
    enum iscsi_key_verdict verdict = iscsi_key_take(&pair, session, ret, &out);
    assert_int_not_equal(verdict, ISCSI_KEY_UNKNOWN);
    return verdict == ISCSI_KEY_REFUSED ? REFUSED : out.len > 0 ? strchr(text, '=') + 1 : "nothing";
}

static void values_are_the_standards_before_anything_is_said(void **state)
{
    const struct iscsi_parameters *p = &iscsi_parameters_default;
    assert_int_equal(p->peer_receive_max, 8192);
    assert_int_equal(p->first_burst, 65536);
    assert_int_equal(p->max_burst, 262144);
    assert_int_equal(p->has_header_digest | p->has_data_digest, 0);
    assert_int_equal(p->has_immediate_data, 1);
    assert_int_equal(p->has_initial_r2t, 1);
    assert_int_equal(p->time_to_wait, 2);
    assert_int_equal(p->time_to_retain, 20);
}

static const struct number {
    const char *key;
    bool is_of_data;
    const char *below, *least, *most, *beyond; // what may be said, and what may not
    const char *of_least, *of_most;            // what comes of it
    const char *of_least_rdma, *of_most_rdma;
    size_t field; // where the result goes: of TCP what was said if `is_theirs`
    bool is_theirs;
} numbers[] = {
    {"MaxConnections", true, "0", "1", "65535", "65536", "1", "1", "1", "1", SIZE_MAX, false},
    {"MaxRecvDataSegmentLength", false, "511", "512", "16777215", "16777216", "262144", "262144",
     "8192", "8192", offsetof(struct iscsi_parameters, peer_receive_max), true},
    {"MaxBurstLength", true, "511", "512", "16777215", "16777216", "512", "1048576", "512",
     "1048576", offsetof(struct iscsi_parameters, max_burst), false},
    {"FirstBurstLength", true, "511", "512", "16777215", "16777216", "512", "65536", "512", "65536",
     offsetof(struct iscsi_parameters, first_burst), false},
    {"DefaultTime2Wait", false, "-1", "0", "3600", "3601", "0", "3600", "0", "3600",
     offsetof(struct iscsi_parameters, time_to_wait), false},
    {"DefaultTime2Retain", false, "-1", "0", "3600", "3601", "0", "0", "0", "0",
     offsetof(struct iscsi_parameters, time_to_retain), false},
    {"MaxOutstandingR2T", true, "0", "1", "65535", "65536", "1", "1", "1", "1", SIZE_MAX, false},
    {"ErrorRecoveryLevel", false, "-1", "0", "2", "3", "0", "0", "0", "0", SIZE_MAX, false},
    {"iSCSIProtocolLevel", true, "-1", "0", "31", "32", "0", "1", "0", "1", SIZE_MAX, false},
};

static void expect_field(const struct number *n, const struct iscsi_parameters *p, const char *text)
{
    uint32_t number, there;
    if (n->field != SIZE_MAX) {
        assert_true(iscsi_number_parse(text, &number));
        memcpy(&there, (const uint8_t *)p + n->field, sizeof there);
        assert_int_equal(there, number);
    }
}

static void numbers_have_their_bounds_and_ours(void **state)
{
    struct iscsi_parameters p;
    for (unsigned i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        const struct number *n = &numbers[i];
        assert_string_equal(said(n->key, n->below, tcp, &p), REFUSED);
        assert_string_equal(said(n->key, n->beyond, tcp, &p), REFUSED);
        assert_string_equal(said(n->key, "", tcp, &p), REFUSED);
        assert_string_equal(said(n->key, n->least, tcp, &p), n->of_least);
        expect_field(n, &p, n->is_theirs ? n->least : n->of_least);
        assert_string_equal(said(n->key, n->most, tcp, &p), n->of_most);
        expect_field(n, &p, n->is_theirs ? n->most : n->of_most);
        assert_string_equal(said(n->key, n->least, rdma, &p), n->of_least_rdma);
        assert_string_equal(said(n->key, n->most, rdma, &p), n->of_most_rdma);
        assert_string_equal(said(n->key, n->least, discovery, &p),
                            n->is_of_data ? "Irrelevant" : n->of_least);
    }
}

static const struct choice {
    const char *key;
    bool is_of_data;
    const char *of_yes, *of_no, *of_yes_rdma, *of_no_rdma;
} choices[] = {
    {"InitialR2T", true, "Yes", "No", "Yes", "Yes"},
    {"ImmediateData", true, "Yes", "No", "No", "No"},
    {"DataPDUInOrder", true, "Yes", "Yes", "Yes", "Yes"},
    {"DataSequenceInOrder", true, "Yes", "Yes", "Yes", "Yes"},
    {"IFMarker", false, "No", "No", "No", "No"},
    {"OFMarker", false, "No", "No", "No", "No"},
};

static void choices_are_yes_or_no(void **state)
{
    struct iscsi_parameters p;
    for (unsigned i = 0; i < sizeof choices / sizeof choices[0]; i++) {
        const struct choice *c = &choices[i];
        assert_string_equal(said(c->key, "yes", tcp, &p), REFUSED);
        assert_string_equal(said(c->key, "Yes", tcp, &p), c->of_yes);
        assert_string_equal(said(c->key, "No", tcp, &p), c->of_no);
        assert_string_equal(said(c->key, "Yes", rdma, &p), c->of_yes_rdma);
        assert_string_equal(said(c->key, "No", rdma, &p), c->of_no_rdma);
        assert_string_equal(said(c->key, "Yes", discovery, &p),
                            c->is_of_data ? "Irrelevant" : c->of_yes);
    }
    said("InitialR2T", "No", tcp, &p);
    assert_int_equal(p.has_initial_r2t, 0);
    said("ImmediateData", "No", tcp, &p);
    assert_int_equal(p.has_immediate_data, 0);
}

static void a_digest_is_the_first_that_both_have(void **state)
{
    static const struct {
        const char *list, *of_tcp, *of_rdma;
    } rows[] = {
        {"CRC32C", "CRC32C", REFUSED},
        {"None", "None", "None"},
        {"CRC32C,None", "CRC32C", "None"},
        {"None,CRC32C", "None", "None"},
        {"X,CRC32C", "CRC32C", REFUSED},
        {"Nine,None", "None", "None"},
        {"X-more,Y,None", "None", "None"},
        {"CRC32X,CRC32C", "CRC32C", REFUSED},
        {"CRC32", REFUSED, REFUSED},
        {"Nonesuch", REFUSED, REFUSED},
        {"", REFUSED, REFUSED},
        {"Non", REFUSED, REFUSED},
    };
    static const char *const digests[] = {"HeaderDigest", "DataDigest"};
    struct iscsi_parameters p;
    for (unsigned d = 0; d < 2; d++) {
        for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            bool is_crc = strcmp(rows[i].of_tcp, "CRC32C") == 0;
            assert_string_equal(said(digests[d], rows[i].list, tcp, &p), rows[i].of_tcp);
            assert_int_equal(d == 0 ? p.has_header_digest : p.has_data_digest, is_crc);
            assert_int_equal(d == 0 ? p.has_data_digest : p.has_header_digest, 0);
            assert_string_equal(said(digests[d], rows[i].list, rdma, &p), rows[i].of_rdma);
            assert_string_equal(said(digests[d], rows[i].list, discovery, &p), rows[i].of_tcp);
        }
    }
}

static void others_have_one_answer(void **state)
{
    struct iscsi_parameters p;
    assert_string_equal(said("TaskReporting", "FastAbort,RFC3720", tcp, &p), "RFC3720");
    assert_string_equal(said("TaskReporting", "FastAbort", tcp, &p), REFUSED);
    assert_string_equal(said("TaskReporting", "RFC3720", discovery, &p), "Irrelevant");
    assert_string_equal(said("IFMarkInt", "2048~8192", discovery, &p), "Reject");
    assert_string_equal(said("OFMarkInt", "2048", discovery, &p), "Reject");
    assert_string_equal(said("InitiatorAlias", "me", tcp, &p), "nothing");
    assert_string_equal(said("InitiatorAlias", "me", discovery, &p), "nothing");
}

// Behind the login two of them may be said, as often as wished.
static void what_was_agreed_on_stays(void **state)
{
    struct iscsi_parameters p;
    for (unsigned i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        bool may_be = strcmp(numbers[i].key, "MaxRecvDataSegmentLength") == 0;
        const char *answer = said(numbers[i].key, numbers[i].least, open, &p);
        assert_string_equal(answer, may_be ? "262144" : REFUSED);
    }
    for (unsigned i = 0; i < sizeof choices / sizeof choices[0]; i++) {
        assert_string_equal(said(choices[i].key, "Yes", open, &p), REFUSED);
    }
    assert_string_equal(said("HeaderDigest", "None", open, &p), REFUSED);
    assert_string_equal(said("DataDigest", "None", open, &p), REFUSED);
    assert_string_equal(said("TaskReporting", "RFC3720", open, &p), REFUSED);
    assert_string_equal(said("IFMarkInt", "2048", open, &p), REFUSED);
    assert_string_equal(said("OFMarkInt", "2048", open, &p), REFUSED);
    assert_string_equal(said("InitiatorAlias", "me", open, &p), "nothing");
}

static enum iscsi_key_verdict take(const char *key, struct iscsi_key_session session,
                                   struct iscsi_parameters *p)
{
    char text[TEXT_MAX];
    struct iscsi_text_out out = {.ptr = text, .capacity = sizeof text};
    struct iscsi_pair pair = {.value = "1024"};
    snprintf(pair.key, sizeof pair.key, "%s", key);
    return iscsi_key_take(&pair, session, p, &out);
}

static void a_login_says_each_once_and_others_do_not_count(void **state)
{
    struct iscsi_parameters p = iscsi_parameters_default;
    assert_int_equal(take("MaxBurstLength", tcp, &p), ISCSI_KEY_TAKEN);
    assert_int_equal(take("FirstBurstLength", tcp, &p), ISCSI_KEY_TAKEN);
    assert_int_equal(take("MaxBurstLength", tcp, &p), ISCSI_KEY_REFUSED);
    assert_int_equal(take("FirstBurstLength", tcp, &p), ISCSI_KEY_REFUSED);
    assert_int_equal(take("InitiatorAlias", tcp, &p), ISCSI_KEY_TAKEN); // the last
    assert_int_equal(take("InitiatorAlias", tcp, &p), ISCSI_KEY_REFUSED);
    assert_int_equal(take("MaxBurstLengt", tcp, &p), ISCSI_KEY_UNKNOWN);
    assert_int_equal(take("MaxRecvDataSegmentLength", open, &p), ISCSI_KEY_TAKEN);
    assert_int_equal(take("MaxRecvDataSegmentLength", open, &p), ISCSI_KEY_TAKEN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_the_standards_before_anything_is_said),
        cmocka_unit_test(numbers_have_their_bounds_and_ours),
        cmocka_unit_test(choices_are_yes_or_no),
        cmocka_unit_test(a_digest_is_the_first_that_both_have),
        cmocka_unit_test(others_have_one_answer),
        cmocka_unit_test(what_was_agreed_on_stays),
        cmocka_unit_test(a_login_says_each_once_and_others_do_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
