// What is told of each packet of RoCE: opcode by opcode and message by message of the connection
// manager, compared with golden files; and PSNs in order, missing, late and again, row by row.
#include <inttypes.h>

#include "draw/roce.h"
#include "tests/draw/told.h"
#include "tests/golden.h"
#include "tests/wire/ibcm_samples.h"
#include "tests/wire/roce_samples.h"

enum { PMTU = 256, PACKET_MAX = ROCE_HEAD_MAX_LEN + PMTU, PSN = 0xfffffe };

static struct story story;
static struct roce_connection connection;

static int setup(void **state)
{
    static const struct story_bounds all = {
        .to_packet = UINT64_MAX, .to = UINT64_MAX, .event_max = 500};
    told_len = 0;
    connection = (struct roce_connection){.story = &story};
    return story_create(&story, &all, 0) ? 0 : -1;
}

static int teardown(void **state)
{
    story_destroy(&story);
    return 0;
}

static void say_spans(void)
{
    for (uint32_t i = 0; i < story.span_count; i++) {
        const struct story_span *p = &story.span[i];
        say("  %s of %u from %" PRIu32 " to %d \"%s\" (%s)\n", story_span_kind_name(p->kind),
            p->side, p->begin, (int)p->end, p->label, p->detail);
    }
}

static void say_story(void)
{
    for (uint32_t i = 0; i < story.event_count; i++) {
        const struct story_event *e = &story.event[i];
        say("  %" PRIu32 " %s %s fpdus %u flags %u message %" PRIu32 " len %" PRIu32
            " \"%s\" (%s)\n",
            i, e->side == 0 ? "->" : "<-", story_kind_name(e->kind), e->fpdus, e->flags, e->message,
            e->len, e->label, e->detail);
    }
    say_spans();
}

/* ---- packets --------------------------------------------------------------------------------- */

static uint64_t number;

static const struct story_event *see(unsigned side, const uint8_t *octets, size_t len,
                                     struct frame f)
{
    f.kind = FRAME_ROCE;
    f.payload = span_of(octets, len);
    number++;
    story_on_packet(&story, number, number, 0);
    roce_on_packet(&connection, side, &f);
    return story.event_count > 0 ? &story.event[story.event_count - 1] : NULL;
}

// A packet as the sample has it but for its PSN, with so many octets of payload.
static const struct story_event *see_packet(unsigned side, uint8_t opcode, uint32_t psn, size_t len)
{
    uint8_t octets[PACKET_MAX] = {0};
    struct roce_packet p = roce_sample(opcode);
    p.bth.psn = psn & 0xffffff;
    p.bth.pad_len = roce_pad_len(len);
    return see(side, octets, roce_head_emit(&p, octets) + len + p.bth.pad_len, (struct frame){0});
}

static const struct story_event *see_read(uint32_t psn, uint32_t len)
{
    uint8_t octets[PACKET_MAX];
    struct roce_packet p = roce_sample(ROCE_READ_REQUEST);
    p.bth.psn = psn & 0xffffff;
    p.reth.dma_len = len;
    return see(0, octets, roce_head_emit(&p, octets), (struct frame){0});
}

static const struct story_event *see_ack(unsigned side, uint32_t psn, uint8_t syndrome)
{
    uint8_t octets[PACKET_MAX];
    struct roce_packet p = roce_sample(ROCE_ACKNOWLEDGE);
    p.bth.psn = psn & 0xffffff;
    p.aeth.syndrome = syndrome;
    return see(side, octets, roce_head_emit(&p, octets), (struct frame){0});
}

static const struct story_event *see_cm(unsigned side, const struct ibcm_message *m)
{
    uint8_t octets[ROCE_HEAD_MAX_LEN + MAD_LEN];
    struct roce_packet p = roce_sample(ROCE_UD | ROCE_SEND_ONLY);
    p.bth.dest_qp = BTH_QP_GSI;
    size_t len = roce_head_emit(&p, octets);
    return see(side, octets, len + ibcm_message_emit(m, octets + len), (struct frame){0});
}

/* ---- words ----------------------------------------------------------------------------------- */

static void each_opcode_has_its_words(void **state)
{
    static const uint8_t syndromes[] = {
        AETH_ACK | 3, AETH_RNR_NAK, AETH_RNR_NAK | 1, AETH_NAK, AETH_NAK | 2, AETH_RESERVED,
    };
    for (unsigned opcode = 0; opcode < 256; opcode++) {
        const struct roce_opcode_facts *facts = roce_opcode_facts((uint8_t)opcode);
        if (!facts->is_known) {
            continue;
        }
        size_t len = facts->payload == ROCE_PAYLOAD_NONE   ? 0
                     : facts->payload == ROCE_PAYLOAD_PMTU ? PMTU
                                                           : 5;
        say("%s\n", facts->name);
        see_packet(facts->is_response, (uint8_t)opcode, PSN, len);
        say_story();
        teardown(NULL);
        size_t kept = told_len;
        setup(NULL);
        told_len = kept;
    }
    say("acknowledgements\n");
    for (unsigned i = 0; i < sizeof syndromes; i++) {
        see_ack(1, PSN, syndromes[i]);
    }
    say_story();
    golden_compare("draw/golden/roce_words.txt", told);
}

static void each_message_of_the_connection_manager_has_its_words(void **state)
{
    for (unsigned kind = 0; kind < IBCM_KIND_COUNT; kind++) {
        const struct ibcm_message m = ibcm_sample((enum ibcm_kind)kind);
        see_cm(kind % 2, &m);
    }
    say_story();
    golden_compare("draw/golden/roce_cm_words.txt", told);
}

// The path MTU is that of the REQ; what is none is not known.
static void a_req_tells_the_path_mtu_and_where_psns_begin(void **state)
{
    static const struct {
        uint8_t path_mtu;
        uint32_t octets;
        const char *agreed;
    } rows[] = {{0, 0, "path MTU 0"},
                {1, 256, "path MTU 256"},
                {5, 4096, "path MTU 4096"},
                {6, 0, "path MTU 0"}};
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct ibcm_message m = ibcm_sample(IBCM_REQ);
        m.req.path_mtu = rows[i].path_mtu;
        connection.side[0].has_next = connection.side[1].has_next = true;
        see_cm(i % 2, &m);
        assert_int_equal(connection.pmtu, rows[i].octets);
        assert_string_equal(connection.agreed, rows[i].agreed);
        assert_false(connection.side[0].has_next || connection.side[1].has_next);
    }
}

static void what_cannot_be_read_is_trouble_or_nothing(void **state)
{
    uint8_t octets[BTH_LEN + DETH_LEN + MAD_LEN] = {0};
    struct roce_packet p = roce_sample(ROCE_UD | ROCE_SEND_ONLY);
    const struct story_event *e = see(1, octets, 7, (struct frame){0});
    assert_int_equal(e->kind, STORY_TROUBLE);
    assert_int_equal(e->side, 1);
    assert_non_null(strstr(e->label, "packet of 7 octets · "));
    p.bth.dest_qp = BTH_QP_GSI; // octets that are no message of the connection manager
    size_t len = roce_head_emit(&p, octets);
    see(0, octets, len + MAD_LEN, (struct frame){0});
    assert_int_equal(story.event_count, 1);
}

static void what_was_cut_or_spoilt_says_so(void **state)
{
    static const struct {
        struct frame frame;
        unsigned flags;
        enum story_kind kind;
        const char *label;
    } rows[] = {
        {{0}, 0, STORY_SEND, "Send · PSN 4478310 · 5"},
        {{.cut_len = 1}, STORY_CUT, STORY_SEND, "Send · PSN 4478310 · 5"},
        {{.is_icrc_wrong = true}, 0, STORY_TROUBLE, "RC SEND ONLY · ICRC is wrong"},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint8_t octets[SAMPLE_MAX_LEN];
        size_t len = roce_sample_emit(ROCE_SEND_ONLY, octets);
        connection.side[0].has_next = false;
        const struct story_event *e = see(0, octets, len, rows[i].frame);
        assert_int_equal(e->flags, rows[i].flags);
        assert_int_equal(e->kind, rows[i].kind);
        assert_string_equal(e->label, rows[i].label);
    }
}

/* ---- messages -------------------------------------------------------------------------------- */

// Requests and answers of one side are two, and those of a side that is not seen to begin too.
static void packets_of_one_message_have_its_number(void **state)
{
    static const struct {
        unsigned side;
        uint8_t opcode;
        uint32_t psn;
        size_t len;
        uint32_t message;
    } rows[] = {
        {0, ROCE_SEND_FIRST, 1, PMTU, 1},
        {1, ROCE_WRITE_FIRST, 1, PMTU, 2},
        {0, ROCE_READ_RESPONSE_FIRST, 7, PMTU, 3},
        {0, ROCE_SEND_MIDDLE, 2, PMTU, 1},
        {0, ROCE_READ_RESPONSE_LAST, 8, 9, 3},
        {0, ROCE_SEND_LAST, 3, 10, 1},
        {1, ROCE_WRITE_LAST, 2, 1, 2},
        {0, ROCE_SEND_MIDDLE, 4, PMTU, 4},
        {0, ROCE_SEND_LAST, 5, 3, 4},
        {0, ROCE_SEND_FIRST, 6, PMTU, 5},
        {0, ROCE_SEND_ONLY, 7, 3, 6},
        {0, ROCE_SEND_LAST, 8, 3, 7},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct story_event *e =
            see_packet(rows[i].side, rows[i].opcode, rows[i].psn, rows[i].len);
        assert_int_equal(e->message, rows[i].message);
        assert_int_equal(e->len, rows[i].len);
    }
    say_spans();
    assert_string_equal(told,
                        "  message of 0 from 2 to 4 \"\" (One message: 2 packets, 265 octets)\n"
                        "  message of 0 from 0 to 5 \"\" (One message: 3 packets, 522 octets)\n"
                        "  message of 1 from 1 to 6 \"\" (One message: 2 packets, 257 octets)\n"
                        "  message of 0 from 7 to 8 \"\" (One message: 2 packets, 259 octets)\n");
}

static void keys_live_from_their_use_to_their_end(void **state)
{
    for (unsigned side = 0; side < 2; side++) {
        uint8_t octets[PACKET_MAX] = {0};
        struct roce_packet p = roce_sample(ROCE_SEND_ONLY_INV);
        see_packet(side, ROCE_WRITE_ONLY, 1, 4);
        see_packet(side, ROCE_SEND_ONLY_INV, 2, 4); // of another key
        p.bth.psn = 3;
        p.ieth.rkey = 0xe1e2e3e4;
        see(side, octets, roce_head_emit(&p, octets), (struct frame){0});
    }
    see_read(4, 4);
    see_packet(1, ROCE_READ_RESPONSE_ONLY, 4, 4);
    see_read(4, 4); // again: it asks for nothing new
    say_spans();
    golden_compare("draw/golden/roce_keys.txt", told);
}

/* ---- PSNs ------------------------------------------------------------------------------------ */

static unsigned flags_at(uint32_t psn)
{
    return see_packet(0, ROCE_SEND_ONLY, psn, 4)->flags;
}

static void packets_out_of_turn_are_early_late_or_again(void **state)
{
    assert_int_equal(flags_at(PSN), 0);
    assert_int_equal(flags_at(PSN + 1), 0); // the last number; then 0
    assert_int_equal(flags_at(PSN + 4), STORY_EARLY);
    assert_int_equal(flags_at(PSN + 5), 0);
    assert_int_equal(flags_at(PSN), STORY_AGAIN);
    assert_int_equal(flags_at(PSN + 2), STORY_LATE);
    assert_int_equal(flags_at(PSN + 2), STORY_AGAIN);
    assert_int_equal(flags_at(PSN + 7), STORY_EARLY);
    assert_int_equal(flags_at(PSN + 3), STORY_LATE);
    assert_int_equal(flags_at(PSN + 3), STORY_AGAIN);
    assert_int_equal(flags_at(PSN + 4), STORY_AGAIN);
    say_spans();
    assert_string_equal(told, "  hole of 1 from 2 to 8 \"hole\" (A hole of 2 PSNs before 2)\n"
                              "  hole of 1 from 7 to -1 \"hole\" (A hole of 1 PSNs from 4; it was "
                              "not seen to close)\n");
}

// One that does not come in order closes all before it too.
static void a_late_packet_closes_what_is_before_it(void **state)
{
    flags_at(1);
    flags_at(10);
    assert_int_equal(flags_at(5), STORY_LATE);
    assert_int_equal(flags_at(4), STORY_AGAIN);
    assert_int_equal(flags_at(9), STORY_LATE);
    assert_int_equal(story.span[0].end, 4);
}

static void no_more_holes_are_told_than_there_is_room_for(void **state)
{
    flags_at(0);
    for (uint32_t i = 1; i <= ROCE_HOLE_MAX + 1; i++) {
        assert_int_equal(flags_at(2 * i), STORY_EARLY);
    }
    assert_int_equal(story.span_count, ROCE_HOLE_MAX);
    assert_int_equal(flags_at(2 * ROCE_HOLE_MAX - 1), STORY_LATE);
    assert_int_equal(flags_at(2 * ROCE_HOLE_MAX + 1), STORY_AGAIN); // nothing is known of it
    assert_int_equal(flags_at(2 * ROCE_HOLE_MAX + 4), STORY_EARLY); // in the place of the closed
    assert_int_equal(story.span_count, ROCE_HOLE_MAX + 1);
}

static void what_the_peer_acknowledges_was_not_captured(void **state)
{
    flags_at(1);
    flags_at(4);
    flags_at(8);
    see_ack(1, 2, AETH_SYNDROME_ACK);
    see_ack(0, 7, AETH_SYNDROME_ACK);                        // the other direction's
    see_ack(1, 7, aeth_syndrome_nak(AETH_NAK_PSN_SEQUENCE)); // that is none
    assert_string_equal(story.span[0].label, "hole");
    see_ack(1, 3, AETH_SYNDROME_ACK);
    assert_string_equal(story.span[0].label, "not captured");
    assert_string_equal(
        story.span[0].detail,
        "2 packets before PSN 4 that the peer acknowledges, but that were not captured");
    assert_int_equal(story.event[1].flags, 0);
    assert_int_equal(story.event[2].flags, STORY_EARLY); // behind the other hole
    assert_string_equal(story.span[1].label, "hole");
    assert_int_equal(flags_at(3), STORY_AGAIN);
}

// A Read takes as many numbers as its answer has packets, once their length is known.
static void a_read_takes_the_numbers_of_its_answer(void **state)
{
    static const struct {
        uint32_t pmtu, len, count; // 0: not known
    } rows[] = {
        {0, 0, 1},      {0, 256, 1},     {0, 257, 0},     {PMTU, 0, 1},
        {PMTU, 1, 1},   {PMTU, 256, 1},  {PMTU, 257, 2},  {PMTU, 512, 2},
        {PMTU, 513, 3}, {1024, 1024, 1}, {1024, 1025, 2}, {4096, 1 << 30, 1 << 18},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        connection.pmtu = rows[i].pmtu;
        connection.side[0].has_next = false;
        see_read(100, rows[i].len);
        assert_int_equal(connection.side[0].has_next, rows[i].count != 0);
        assert_int_equal(connection.side[0].next, 100 + rows[i].count);
    }
}

static void a_late_read_fills_as_many_numbers(void **state)
{
    connection.pmtu = PMTU;
    flags_at(1);
    flags_at(6);
    assert_int_equal(see_read(2, 600)->flags, STORY_LATE);
    assert_int_equal(flags_at(4), STORY_AGAIN);
    assert_int_equal(flags_at(5), STORY_LATE);
    connection.pmtu = 0;
    flags_at(9);
    assert_int_equal(see_read(7, 600)->flags, STORY_LATE); // at least one
    assert_int_equal(flags_at(7), STORY_AGAIN);
    assert_int_equal(flags_at(8), STORY_LATE);
}

// Where no REQ was seen, the first packet that must have all of it tells.
static void the_path_mtu_is_that_of_a_first_packet(void **state)
{
    see_packet(0, ROCE_SEND_ONLY, 1, 4);
    assert_int_equal(connection.pmtu, 0);
    see_packet(0, ROCE_SEND_FIRST, 2, PMTU);
    assert_int_equal(connection.pmtu, PMTU);
    see_packet(0, ROCE_SEND_MIDDLE, 3, 128);
    assert_int_equal(connection.pmtu, PMTU);
}

// Neither answers nor datagrams have numbers in that order.
static void only_requests_of_connections_are_followed(void **state)
{
    flags_at(1);
    see_packet(0, ROCE_READ_RESPONSE_ONLY, 9, 4);
    see_packet(0, ROCE_UD | ROCE_SEND_ONLY, 10, 4);
    see_ack(0, 11, AETH_SYNDROME_ACK);
    assert_int_equal(story.span_count, 0);
    assert_int_equal(flags_at(2), 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(each_opcode_has_its_words),
        CASE(each_message_of_the_connection_manager_has_its_words),
        CASE(a_req_tells_the_path_mtu_and_where_psns_begin),
        CASE(what_cannot_be_read_is_trouble_or_nothing),
        CASE(what_was_cut_or_spoilt_says_so),
        CASE(packets_of_one_message_have_its_number),
        CASE(keys_live_from_their_use_to_their_end),
        CASE(packets_out_of_turn_are_early_late_or_again),
        CASE(a_late_packet_closes_what_is_before_it),
        CASE(no_more_holes_are_told_than_there_is_room_for),
        CASE(what_the_peer_acknowledges_was_not_captured),
        CASE(a_read_takes_the_numbers_of_its_answer),
        CASE(a_late_read_fills_as_many_numbers),
        CASE(the_path_mtu_is_that_of_a_first_packet),
        CASE(only_requests_of_connections_are_followed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
