// HyStart++ (RFC 9406): when the first slow start ends, by round trips alone.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tcp/cc.h"
#include "tcp/hystart.h"

enum { MSS = 1000, SAMPLES = 8, ROUNDS = 5 };

struct path {
    struct tcp_hystart h;
    tcp_seq nxt; // where the round ends that is under way
};

// The next round: so many ACKs, each with this round trip, the last of them for all that had been
// sent when it began. Returns whether slow start is over.
static bool round_of(struct path *p, unsigned acks, duration_ns rtt_ns)
{
    const tcp_seq end = p->nxt;
    bool is_over = false;
    p->nxt += 1000;
    for (unsigned left = acks; left-- > 0;) {
        is_over |= tcp_hystart_on_sample(&p->h, rtt_ns, end - left, p->nxt);
    }
    return is_over;
}

// Behind a round of `rtt_ns`.
static struct path path(duration_ns rtt_ns)
{
    struct path p = {.nxt = 1000};
    tcp_hystart_init(&p.h);
    assert_false(round_of(&p, 1, rtt_ns));
    return p;
}

static void round_trips_that_stay_go_on(void **state)
{
    struct path p = path(20 * NS_PER_MS);
    for (unsigned i = 0; i < 100; i++) {
        assert_false(round_of(&p, SAMPLES, 20 * NS_PER_MS));
        assert_int_equal(tcp_hystart_divisor(&p.h), 1);
    }
}

// An eighth of what it was, but never less than 4 ms nor more than 16.
static void growth_that_counts_is_an_eighth_between_4_and_16_ms(void **state)
{
    static const struct {
        duration_ns before, still, grown;
    } known[] = {{NS_PER_MS / 10, 4 * NS_PER_MS, 41 * NS_PER_MS / 10},
                 {80 * NS_PER_MS, 89 * NS_PER_MS, 90 * NS_PER_MS},
                 {400 * NS_PER_MS, 415 * NS_PER_MS, 416 * NS_PER_MS}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        struct path still = path(known[i].before), grown = path(known[i].before);
        round_of(&still, SAMPLES, known[i].still);
        round_of(&grown, SAMPLES, known[i].grown);
        assert_int_equal(tcp_hystart_divisor(&still.h), 1);
        assert_int_equal(tcp_hystart_divisor(&grown.h), 4);
    }
}

static void one_short_round_trip_in_a_round_says_that_no_queue_stands(void **state)
{
    struct path p = path(20 * NS_PER_MS);
    const tcp_seq end = p.nxt;
    tcp_hystart_on_sample(&p.h, 20 * NS_PER_MS, end - SAMPLES, end);
    round_of(&p, SAMPLES - 1, 60 * NS_PER_MS);
    assert_int_equal(tcp_hystart_divisor(&p.h), 1);
}

static void seven_samples_of_a_round_are_too_few_to_tell(void **state)
{
    struct path p = path(20 * NS_PER_MS);
    round_of(&p, SAMPLES - 1, 60 * NS_PER_MS);
    assert_int_equal(tcp_hystart_divisor(&p.h), 1);
}

// ... but it is what the next one is compared with.
static void round_of_few_samples_counts_as_the_one_before(void **state)
{
    struct path p = path(20 * NS_PER_MS);
    round_of(&p, SAMPLES - 1, 60 * NS_PER_MS);
    round_of(&p, SAMPLES, 62 * NS_PER_MS);
    assert_int_equal(tcp_hystart_divisor(&p.h), 1);
}

static void slow_start_is_over_behind_five_conservative_rounds(void **state)
{
    struct path p = path(20 * NS_PER_MS);
    for (unsigned i = 1; i < ROUNDS; i++) { // the one in which it begins among them
        assert_false(round_of(&p, SAMPLES, 40 * NS_PER_MS));
    }
    assert_true(round_of(&p, SAMPLES, 40 * NS_PER_MS));
}

// Somebody else's burst, or a peer that was not run for a while.
static void shorter_round_trips_bring_slow_start_back(void **state)
{
    struct path p = path(20 * NS_PER_MS);
    round_of(&p, SAMPLES, 40 * NS_PER_MS);
    round_of(&p, SAMPLES, 39 * NS_PER_MS);
    assert_int_equal(tcp_hystart_divisor(&p.h), 1);
    assert_false(round_of(&p, SAMPLES, 39 * NS_PER_MS));
    round_of(&p, SAMPLES, 60 * NS_PER_MS); // and a queue is still seen
    assert_int_equal(tcp_hystart_divisor(&p.h), 4);
}

/* ---- the window ------------------------------------------------------------------------------ */

// Behind a first round of 20 ms.
static struct tcp_cc window(void)
{
    struct tcp_cc cc;
    tcp_cc_init(&cc, TCP_CC_CUBIC, MSS);
    assert_false(tcp_cc_on_round_trip(&cc, 20 * NS_PER_MS, true, 0, 1000));
    return cc;
}

// One round of eight ACKs, the last of them for `end`.
static bool cc_round(struct tcp_cc *cc, tcp_seq end, duration_ns rtt_ns, bool is_limited)
{
    bool is_over = false;
    for (unsigned left = SAMPLES; left-- > 0;) {
        is_over |= tcp_cc_on_round_trip(cc, rtt_ns, is_limited, end - left, end + 1000);
    }
    return is_over;
}

static void conservative_window_grows_by_a_quarter(void **state)
{
    struct tcp_cc cc = window();
    cc_round(&cc, 1000, 20 * NS_PER_MS, true);
    cc_round(&cc, 2000, 40 * NS_PER_MS, true);
    tcp_cc_on_ack(&cc, 4 * MSS, true, 20 * NS_PER_MS, 0);
    assert_int_equal(cc.cwnd, 11 * MSS);
}

static void window_is_the_threshold_when_slow_start_is_over(void **state)
{
    struct tcp_cc cc = window();
    cc_round(&cc, 1000, 20 * NS_PER_MS, true);
    for (unsigned i = 1; i < ROUNDS; i++) {
        assert_false(cc_round(&cc, 1000 * (1 + i), 40 * NS_PER_MS, true));
    }
    assert_true(cc_round(&cc, 6000, 40 * NS_PER_MS, true));
    assert_int_equal(cc.ssthresh, cc.cwnd);
}

static void rounds_of_a_window_that_was_not_the_limit_tell_nothing(void **state)
{
    struct tcp_cc cc = window();
    cc_round(&cc, 1000, 20 * NS_PER_MS, true);
    cc_round(&cc, 2000, 20 * NS_PER_MS, false);
    for (unsigned i = 2; i < 2 + 2 * ROUNDS; i++) {
        assert_false(cc_round(&cc, 1000 * (1 + i), 40 * NS_PER_MS, true));
    }
    assert_int_equal(cc.ssthresh, TCP_SSTHRESH_NONE);
}

// RFC 9406 section 4.2: the first slow start alone; a loss ends it.
static void slow_start_behind_a_loss_is_not_watched(void **state)
{
    struct tcp_cc cc = window();
    cc_round(&cc, 1000, 20 * NS_PER_MS, true);
    cc_round(&cc, 2000, 40 * NS_PER_MS, true);
    tcp_cc_on_timeout(&cc, 40 * MSS, true);
    for (unsigned i = 2; i < 2 + 2 * ROUNDS; i++) {
        assert_false(cc_round(&cc, 1000 * (1 + i), 80 * NS_PER_MS, true));
    }
    tcp_cc_on_ack(&cc, MSS, true, 20 * NS_PER_MS, 0);
    assert_int_equal(cc.cwnd, 2 * MSS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trips_that_stay_go_on),
        cmocka_unit_test(growth_that_counts_is_an_eighth_between_4_and_16_ms),
        cmocka_unit_test(one_short_round_trip_in_a_round_says_that_no_queue_stands),
        cmocka_unit_test(seven_samples_of_a_round_are_too_few_to_tell),
        cmocka_unit_test(round_of_few_samples_counts_as_the_one_before),
        cmocka_unit_test(slow_start_is_over_behind_five_conservative_rounds),
        cmocka_unit_test(shorter_round_trips_bring_slow_start_back),
        cmocka_unit_test(conservative_window_grows_by_a_quarter),
        cmocka_unit_test(window_is_the_threshold_when_slow_start_is_over),
        cmocka_unit_test(rounds_of_a_window_that_was_not_the_limit_tell_nothing),
        cmocka_unit_test(slow_start_behind_a_loss_is_not_watched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
