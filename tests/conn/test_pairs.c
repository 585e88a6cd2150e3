// Every combination of what an initiator and a responder may want, run as a pair: both must agree
// on the same connection. What they agree on stands in golden/pairs.txt.
#include <stdio.h>

#include "tests/conn/pair.h"
#include "tests/golden.h"

static struct pair p;
static char text[1 << 16];
static size_t text_len;

// Bits of a case.
enum { INITIATOR_REV_1 = 1, RESPONDER_REV_1 = 2, PEER_TO_PEER = 4, OFFERS = 8, TAKES = 16 };
enum { INITIATOR_CRC = 32, RESPONDER_CRC = 64, CASE_COUNT = 128 };

static struct conn_config config_of(bool is_initiator, unsigned which)
{
    struct conn_config c = pair_config(&p, is_initiator);
    bool rev_1 = which & (is_initiator ? INITIATOR_REV_1 : RESPONDER_REV_1);
    c.revision = rev_1 ? 1 : 2;
    c.peer_to_peer = is_initiator && (which & PEER_TO_PEER);
    c.extensions = (which & (is_initiator ? OFFERS : TAKES)) != 0;
    c.crc_wanted = (which & (is_initiator ? INITIATOR_CRC : RESPONDER_CRC)) != 0;
    c.encodings = EXTENSION_ONESHOT_FLAGS | EXTENSION_ONESHOT_PARTS;
    c.allotment_len = is_initiator ? 65536 : 131072;
    return c;
}

static void say_end(struct conn *conn)
{
    char line[256];
    struct conn_event event;
    while (conn_next_event(conn, &event)) {
        // Only ends are of interest here.
    }
    text_len += (size_t)snprintf(text + text_len, sizeof text - text_len, "%s\n",
                                 conn_format(conn, line, sizeof line));
}

static void assert_both_agree(void)
{
    const struct mpa_agreement *i = conn_agreement(&p.initiator);
    const struct mpa_agreement *r = conn_agreement(&p.responder);
    assert_int_equal(i->crc, r->crc);
    assert_int_equal(i->tx_markers, r->rx_markers);
    assert_int_equal(i->rx_markers, r->tx_markers);
    assert_int_equal(i->enhanced, r->enhanced);
    assert_int_equal(i->extensions, r->extensions);
    assert_int_equal(i->allotment_len, r->allotment_len);
    assert_int_equal(i->encoding, r->encoding);
    if (i->enhanced) {
        assert_true(i->ord <= r->ird);
        assert_true(r->ord <= i->ird);
    }
    if (i->rtr != MPA_RTR_NONE) {
        assert_true((i->rtr & r->rtr) != 0);
    }
}

static void run_case(unsigned which)
{
    struct conn_params params = params_of("ask", 4, 16), answer = params_of("answer", 8, 32);
    struct conn_config initiator = config_of(true, which), responder = config_of(false, which);
    text_len +=
        (size_t)snprintf(text + text_len, sizeof text - text_len, "# rev %u%s%s%s / rev %u%s%s\n",
                         initiator.revision, initiator.crc_wanted ? " crc" : "",
                         initiator.peer_to_peer ? " p2p" : "",
                         initiator.extensions ? " offers" : "", responder.revision,
                         responder.crc_wanted ? " crc" : "", responder.extensions ? " takes" : "");
    pair_init(&p, &initiator, &responder);
    pair_request(&p, &params);
    if (conn_accept(&p.responder, &answer, p.now) != 0) {
        conn_on_llp_failed(&p.initiator, 0, p.now); // the responder closes
    } else {
        carry(&p.responder, &p.initiator, MPA_STARTUP_MAX_LEN, p.now);
        assert_true(conn_is_established(&p.initiator));
        if (conn_agreement(&p.initiator)->extensions) {
            struct extension_message choices = mpa_agreement_choices(conn_agreement(&p.initiator));
            assert_true(conn_confirm(&p.responder, &choices));
        }
        conn_on_first_fpdu(&p.responder, p.now);
        assert_true(conn_is_established(&p.responder));
        assert_both_agree();
    }
    say_end(&p.initiator);
    say_end(&p.responder);
}

static void both_ends_agree_in_every_combination(void **state)
{
    for (unsigned which = 0; which < CASE_COUNT; which++) {
        run_case(which);
    }
    golden_compare("conn/golden/pairs.txt", text);
}

static void extensions_end_when_another_fpdu_comes_first(void **state)
{
    struct conn_params params = params_of("", 4, 4);
    struct conn_config initiator = config_of(true, OFFERS), responder = config_of(false, TAKES);
    pair_init(&p, &initiator, &responder);
    pair_request(&p, &params);
    conn_accept(&p.responder, &params, p.now);
    carry(&p.responder, &p.initiator, MPA_STARTUP_MAX_LEN, p.now);
    assert_true(conn_agreement(&p.responder)->extensions);
    conn_on_first_fpdu(&p.responder, p.now);
    assert_false(conn_agreement(&p.responder)->extensions);
}

static void choices_that_were_not_offered_are_refused(void **state)
{
    struct conn_params params = params_of("", 4, 4);
    struct conn_config initiator = config_of(true, OFFERS), responder = config_of(false, TAKES);
    pair_init(&p, &initiator, &responder);
    pair_request(&p, &params);
    conn_accept(&p.responder, &params, p.now);
    carry(&p.responder, &p.initiator, MPA_STARTUP_MAX_LEN, p.now);
    struct extension_message choices = mpa_agreement_choices(conn_agreement(&p.initiator));
    choices.encoding = EXTENSION_ONESHOT_OPCODE | EXTENSION_ONESHOT_PARTS;
    assert_false(conn_confirm(&p.responder, &choices));
    assert_false(conn_agreement(&p.responder)->extensions);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ends_agree_in_every_combination),
        cmocka_unit_test(extensions_end_when_another_fpdu_comes_first),
        cmocka_unit_test(choices_that_were_not_offered_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
