// The records of what is in flight, against a naive model: one condition per segment.
#include "base/prng.h"
#include "tcp/scoreboard.h"
#include "tests/seeds.h"

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

int main(void)
{
    return seeds_main("every_step_leaves_what_the_model_says", run, 20);
}
