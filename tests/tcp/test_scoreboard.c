// The records of what is in flight, against a naive model: one condition per segment.
#include "base/prng.h"
#include "tcp/scoreboard.h"
#include "tests/seeds.h"
#include "wire/tcp.h"

enum { MAX = 40, LEN = 10, SEGMENTS_MAX = 4000 };

static _Alignas(CARVE_ALIGN) uint8_t memory[1 << 16];
static uint8_t condition[SEGMENTS_MAX];
static unsigned una, nxt; // segments
static unsigned delivered;

static void on_delivered(void *ctx, const struct tcp_sent *sent)
{
    (void)ctx;
    assert_int_equal(sent->end - sent->seq, LEN);
    assert_int_not_equal(condition[sent->seq / LEN], TCP_SENT_SACKED); // told once only
    delivered++;
}

static const struct tcp_delivery_port port = {.on_delivered = on_delivered};

static void expect_same(const struct tcp_scoreboard *sb)
{
    unsigned count[4] = {0}, first_lost = nxt;
    tcp_scoreboard_check(sb);
    for (unsigned i = una; i < nxt; i++) {
        count[condition[i]]++;
        first_lost = condition[i] == TCP_SENT_LOST && first_lost == nxt ? i : first_lost;
    }
    assert_int_equal(sb->flight_len, (nxt - una) * LEN);
    assert_int_equal(sb->sacked_len, count[TCP_SENT_SACKED] * LEN);
    assert_int_equal(sb->sacked_segments, count[TCP_SENT_SACKED]);
    assert_int_equal(sb->lost_len, count[TCP_SENT_LOST] * LEN);
    assert_int_equal(tcp_scoreboard_pipe(sb), count[TCP_SENT_IN_NETWORK] * LEN);
    const struct tcp_sent *lost = tcp_scoreboard_first_lost(sb);
    assert_int_equal(lost != NULL, first_lost < nxt);
    if (lost != NULL) {
        assert_int_equal(lost->seq, first_lost * LEN); // the lowest
    }
    // SACKed neighbours are one record, or a long row of them would leave no room for others.
    for (unsigned i = 1; i < sb->count; i++) {
        assert_false(tcp_scoreboard_at(sb, i - 1)->condition == TCP_SENT_SACKED &&
                     tcp_scoreboard_at(sb, i)->condition == TCP_SENT_SACKED);
    }
}

static void send(struct tcp_scoreboard *sb)
{
    if (sb->count < sb->max) {
        tcp_scoreboard_on_sent(sb, nxt * LEN, (nxt + 1) * LEN, 0, nxt, 0);
        condition[nxt++] = TCP_SENT_IN_NETWORK;
    }
}

static void ack(struct prng *prng, struct tcp_scoreboard *sb)
{
    unsigned to = una + prng_below(prng, nxt - una + 1), expected = 0;
    while (to < nxt && condition[to] == TCP_SENT_SACKED) {
        to++; // who SACKed it acknowledges it, too
    }
    for (unsigned i = una; i < to; i++) {
        expected += condition[i] != TCP_SENT_SACKED;
    }
    delivered = 0;
    assert_int_equal(tcp_scoreboard_ack(sb, to * LEN, &port), expected * LEN);
    assert_int_equal(delivered, expected);
    una = to;
}

static void sack(struct prng *prng, struct tcp_scoreboard *sb)
{
    unsigned left = una + prng_below(prng, nxt - una + 1), expected = 0;
    unsigned right = left + prng_below(prng, nxt - left + 1);
    unsigned ragged = prng_below(prng, LEN); // parts of segments do not count
    for (unsigned i = left + (ragged > 0); i < right; i++) {
        expected += condition[i] != TCP_SENT_SACKED;
    }
    delivered = 0;
    assert_int_equal(tcp_scoreboard_sack(sb, left * LEN + ragged, right * LEN + ragged, &port),
                     expected * LEN);
    for (unsigned i = left + (ragged > 0); i < right; i++) {
        condition[i] = TCP_SENT_SACKED;
    }
    assert_int_equal(delivered, expected);
}

static void lose(struct prng *prng, struct tcp_scoreboard *sb)
{
    struct tcp_sent *sent = tcp_scoreboard_at(sb, prng_below(prng, sb->count + 1));
    if (sent != NULL && sent->condition == TCP_SENT_IN_NETWORK) {
        tcp_scoreboard_mark_lost(sb, sent);
        condition[sent->seq / LEN] = TCP_SENT_LOST;
    }
}

static void resend(struct tcp_scoreboard *sb)
{
    struct tcp_sent *sent = tcp_scoreboard_first_lost(sb);
    if (sent != NULL) {
        tcp_scoreboard_on_resent(sb, sent, nxt, 0);
        condition[sent->seq / LEN] = TCP_SENT_IN_NETWORK;
        assert_true(sent->was_retransmitted);
    }
}

static void run(uint64_t seed)
{
    struct prng prng;
    struct tcp_scoreboard sb;
    prng_init(&prng, seed);
    una = nxt = 0;
    tcp_scoreboard_init(&sb, MAX, &(struct carve){.block = memory});
    while (nxt < SEGMENTS_MAX - 1) {
        switch (prng_below(&prng, 8)) {
        case 0:
            ack(&prng, &sb);
            break;
        case 1:
        case 2:
            sack(&prng, &sb);
            break;
        case 3:
            lose(&prng, &sb);
            break;
        case 4:
            resend(&sb);
            break;
        default:
            send(&sb);
        }
        expect_same(&sb);
    }
}

/* ---- case by case ---------------------------------------------------------------------------- */

static unsigned told; // numbers of segments that were delivered, as bits of their tens

static void note_delivered(void *ctx, const struct tcp_sent *sent)
{
    told |= 1U << sent->seq / LEN;
}

static const struct tcp_delivery_port noted = {.on_delivered = note_delivered};

// Segments of LEN octets from 0 on, sent at 1, 2 …
static void sent_of(struct tcp_scoreboard *sb, unsigned count)
{
    tcp_scoreboard_init(sb, MAX, &(struct carve){.block = memory});
    assert_null(tcp_scoreboard_last(sb));
    assert_null(tcp_scoreboard_at(sb, 0));
    for (unsigned i = 0; i < count; i++) {
        tcp_scoreboard_on_sent(sb, i * LEN, (i + 1) * LEN, 0, i + 1, 100 + i);
    }
    told = 0;
}

static void a_record_says_how_it_was_sent(void **state)
{
    static const struct {
        uint8_t flags;
        bool has_psh, has_fin;
    } rows[] = {{0, false, false},
                {TCP_ACK, false, false},
                {TCP_PSH, true, false},
                {TCP_PSH | TCP_ACK, true, false},
                {TCP_FIN, true, true}};
    struct tcp_scoreboard sb;
    sent_of(&sb, 0);
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tcp_scoreboard_on_sent(&sb, i * LEN, (i + 1) * LEN, rows[i].flags, 50 + i, 7 + i);
        const struct tcp_sent *sent = tcp_scoreboard_last(&sb);
        assert_ptr_equal(sent, tcp_scoreboard_at(&sb, i));
        assert_int_equal(sent->seq, i * LEN);
        assert_int_equal(sent->sent_at, 50 + i);
        assert_int_equal(sent->ts_value, 7 + i);
        assert_int_equal(sent->number, i + 1);
        assert_int_equal(sent->segments, 1);
        assert_int_equal(sent->has_psh, rows[i].has_psh);
        assert_int_equal(sent->has_fin, rows[i].has_fin);
        assert_false(sent->was_retransmitted);
    }
    struct tcp_sent *again = tcp_scoreboard_at(&sb, 2);
    tcp_scoreboard_on_resent(&sb, again, 99, 88);
    assert_int_equal(again->sent_at, 99);
    assert_int_equal(again->ts_value, 88);
    assert_int_equal(again->number, 6);
    assert_true(again->was_retransmitted);
    tcp_scoreboard_check(&sb);
}

static void a_record_that_is_split_is_two(void **state)
{
    for (unsigned is_lost = 0; is_lost < 2; is_lost++) {
        struct tcp_scoreboard sb;
        sent_of(&sb, 3);
        tcp_scoreboard_on_sent(&sb, 3 * LEN, 4 * LEN, TCP_FIN, 4, 103);
        for (unsigned i = 0; i < 2; i++) { // the one with the FIN, then one before others
            struct tcp_sent *sent = tcp_scoreboard_at(&sb, i == 0 ? 3 : 1);
            const tcp_seq begin = sent->seq;
            if (is_lost) {
                tcp_scoreboard_mark_lost(&sb, sent);
            }
            tcp_scoreboard_split(&sb, sent, begin + 4);
            const struct tcp_sent *rest = tcp_scoreboard_at(&sb, i == 0 ? 4 : 2);
            assert_int_equal(sb.count, 5 + i);
            assert_int_equal(sent->end, begin + 4);
            assert_int_equal(sent->segments, 1);
            assert_false(sent->has_fin);
            assert_false(sent->has_psh);
            assert_int_equal(rest->seq, begin + 4);
            assert_int_equal(rest->end, begin + LEN);
            assert_int_equal(rest->segments, 1);
            assert_int_equal(rest->has_fin, i == 0);
            assert_int_equal(rest->condition, sent->condition);
            assert_ptr_equal(sent->link.next, &rest->link); // right behind it
            tcp_scoreboard_check(&sb);
        }
        assert_int_equal(sb.flight_len, 4 * LEN);
        assert_int_equal(sb.lost_len, is_lost ? 2 * LEN : 0);
    }
}

// What was several segments when the peer had them has fewer in each part.
static void parts_share_their_segments(void **state)
{
    struct tcp_scoreboard sb;
    sent_of(&sb, 5);
    assert_int_equal(tcp_scoreboard_sack(&sb, LEN, 4 * LEN, &noted), 3 * LEN);
    assert_int_equal(tcp_scoreboard_at(&sb, 1)->segments, 3);
    tcp_scoreboard_forget_sacks(&sb);
    tcp_scoreboard_split(&sb, tcp_scoreboard_at(&sb, 1), 2 * LEN);
    assert_int_equal(tcp_scoreboard_at(&sb, 1)->segments, 1);
    assert_int_equal(tcp_scoreboard_at(&sb, 2)->segments, 2);
    tcp_scoreboard_check(&sb);
}

static void what_the_peer_no_longer_has_is_in_the_network(void **state)
{
    struct tcp_scoreboard sb;
    sent_of(&sb, 5);
    tcp_scoreboard_mark_lost(&sb, tcp_scoreboard_at(&sb, 0));
    tcp_scoreboard_sack(&sb, LEN, 2 * LEN, &noted);
    tcp_scoreboard_sack(&sb, 4 * LEN, 5 * LEN, &noted);
    assert_int_equal(sb.sacked_len, 2 * LEN);
    tcp_scoreboard_forget_sacks(&sb);
    assert_int_equal(sb.sacked_len, 0);
    assert_int_equal(sb.sacked_segments, 0);
    assert_int_equal(sb.lost_len, LEN);
    for (unsigned i = 0; i < 5; i++) {
        const struct tcp_sent *sent = tcp_scoreboard_at(&sb, i);
        assert_int_equal(sent->condition, i == 0 ? TCP_SENT_LOST : TCP_SENT_IN_NETWORK);
        assert_int_equal(sent->was_retransmitted, i == 1 || i == 4); // of those nothing can be told
    }
    tcp_scoreboard_check(&sb);
}

// Losses are looked for from the earliest transmission on.
static void what_is_not_lost_after_all_is_in_the_order_of_sending(void **state)
{
    static const unsigned by_sending[] = {1, 2, 3, 5, 0, 4}; // segments
    struct tcp_scoreboard sb;
    unsigned i = 0;
    sent_of(&sb, 6);
    for (unsigned again = 0; again < 2; again++) { // segments 0 and 4, in this order
        tcp_scoreboard_mark_lost(&sb, tcp_scoreboard_at(&sb, 4 * again));
        tcp_scoreboard_on_resent(&sb, tcp_scoreboard_at(&sb, 4 * again), 10, 0);
    }
    for (unsigned lost = 0; lost < 5; lost++) {
        tcp_scoreboard_mark_lost(&sb, tcp_scoreboard_at(&sb, lost));
    }
    tcp_scoreboard_unmark_lost(&sb);
    assert_int_equal(sb.lost_len, 0);
    for (const struct list_link *l = sb.sent.next; l != &sb.sent; l = l->next) {
        const struct tcp_sent *sent = LIST_ENTRY(l, struct tcp_sent, link);
        assert_int_equal(sent->condition, TCP_SENT_IN_NETWORK);
        assert_int_equal(sent->seq, by_sending[i++] * LEN);
    }
    assert_int_equal(i, 6);
    tcp_scoreboard_check(&sb);
}

static void of_a_part_that_is_acknowledged_the_rest_stays_what_it_was(void **state)
{
    for (unsigned is_lost = 0; is_lost < 2; is_lost++) {
        struct tcp_scoreboard sb;
        sent_of(&sb, 3);
        if (is_lost) {
            tcp_scoreboard_mark_lost(&sb, tcp_scoreboard_at(&sb, 1));
        }
        assert_int_equal(tcp_scoreboard_ack(&sb, LEN + 3, &noted), LEN + 3);
        assert_int_equal(told, 1); // the first alone is there whole
        assert_int_equal(sb.count, 2);
        assert_int_equal(tcp_scoreboard_at(&sb, 0)->seq, LEN + 3);
        assert_int_equal(sb.flight_len, 2 * LEN - 3);
        assert_int_equal(sb.lost_len, is_lost ? LEN - 3 : 0);
        assert_int_equal(tcp_scoreboard_ack(&sb, LEN + 3, &noted), 0);
        assert_int_equal(tcp_scoreboard_ack(&sb, 2 * LEN, &noted), LEN - 3);
        assert_int_equal(told, 3);
        tcp_scoreboard_check(&sb);
    }
}

// The last flags are those of what was joined; one that was sent twice makes all of it so.
static void neighbours_that_are_joined_keep_what_is_told_of_them(void **state)
{
    for (unsigned resent = 0; resent < 3; resent++) { // 2: neither
        struct tcp_scoreboard sb;
        sent_of(&sb, 1);
        tcp_scoreboard_on_sent(&sb, LEN, 2 * LEN, TCP_PSH, 2, 0);
        tcp_scoreboard_on_sent(&sb, 2 * LEN, 3 * LEN, TCP_FIN, 3, 0);
        if (resent < 2) {
            tcp_scoreboard_on_resent(&sb, tcp_scoreboard_at(&sb, 1 + resent), 4, 0);
        }
        tcp_scoreboard_sack(&sb, LEN, 3 * LEN, &noted);
        assert_int_equal(told, 6);
        const struct tcp_sent *joined = tcp_scoreboard_at(&sb, 1);
        assert_int_equal(sb.count, 2);
        assert_int_equal(joined->end, 3 * LEN);
        assert_int_equal(joined->segments, 2);
        assert_true(joined->has_psh);
        assert_true(joined->has_fin);
        assert_int_equal(joined->was_retransmitted, resent < 2);
        tcp_scoreboard_check(&sb);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_says_how_it_was_sent),
        cmocka_unit_test(a_record_that_is_split_is_two),
        cmocka_unit_test(parts_share_their_segments),
        cmocka_unit_test(what_is_not_lost_after_all_is_in_the_order_of_sending),
        cmocka_unit_test(what_the_peer_no_longer_has_is_in_the_network),
        cmocka_unit_test(of_a_part_that_is_acknowledged_the_rest_stays_what_it_was),
        cmocka_unit_test(neighbours_that_are_joined_keep_what_is_told_of_them),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed != 0 ? failed : seeds_main("every_step_leaves_what_the_model_says", run, 20);
}
