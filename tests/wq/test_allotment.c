// The allotment of one connection, both nodes of it, and what they say to each other.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "wq/allotment.h"

struct nodes {
    struct allotment a, b;
};

static struct nodes nodes_of(uint32_t a_len, uint32_t b_len)
{
    struct nodes n;
    allotment_init(&n.a, a_len, false);
    allotment_init(&n.b, b_len, false);
    allotment_share(&n.a, a_len, b_len);
    allotment_share(&n.b, b_len, a_len);
    return n;
}

// `from` says one word, and `to` hears it. False: it has nothing to say.
static bool say_for(enum allotment_event why, struct allotment *from, struct allotment *to)
{
    uint32_t len = 0;
    enum allotment_word word = allotment_next_word(from, &len);
    if (word == ALLOTMENT_SAY_NOTHING) {
        return false;
    }
    allotment_said(from, word);
    if (word == ALLOTMENT_SAY_NOTICE) {
        allotment_on_notice(to, len, why);
    } else {
        assert_true(allotment_on_taken(to, len));
    }
    return true;
}

static bool say(struct allotment *from, struct allotment *to)
{
    return say_for(ALLOTMENT_OPERATOR, from, to);
}

static void expect(const struct nodes *n, uint32_t len)
{
    assert_int_equal(allotment_request_len(&n->a), len);
    assert_int_equal(allotment_request_len(&n->b), len);
    assert_int_equal(allotment_answer_len(&n->a), len);
    assert_int_equal(allotment_answer_len(&n->b), len);
}

static void the_smaller_one_holds(void **state)
{
    struct nodes n = nodes_of(1000, 300);
    expect(&n, 300);
    assert_true(allotment_may_name_rest(&n.a));
}

static void without_a_peer_that_knows_the_wish_holds(void **state)
{
    struct allotment a;
    uint32_t len;
    allotment_init(&a, 1000, false);
    allotment_wish(&a, 500, false);
    assert_int_equal(allotment_request_len(&a), 500);
    assert_int_equal(allotment_answer_len(&a), 0); // an answer is what was asked for
    assert_false(allotment_may_name_rest(&a));
    assert_int_equal(allotment_next_word(&a, &len), ALLOTMENT_SAY_NOTHING);
}

static void with_an_undivided_peer_everyone_cuts_its_own(void **state)
{
    struct nodes n = nodes_of(1000, 0);
    assert_int_equal(allotment_request_len(&n.a), 1000);
    assert_int_equal(allotment_request_len(&n.b), 0);
    assert_int_equal(allotment_answer_len(&n.a), 0);
    assert_int_equal(allotment_answer_len(&n.b), 0);
    assert_false(allotment_may_name_rest(&n.a));
}

static void a_change_reaches_both_nodes(void **state)
{
    struct nodes n = nodes_of(1000, 1000);
    for (unsigned i = 0; i < 4; i++) {
        uint32_t len = (const uint32_t[]){400, 1000, 0, 900}[i];
        allotment_wish(&n.a, len, false);
        assert_true(say(&n.a, &n.b));
        assert_true(say(&n.b, &n.a));
        assert_false(say(&n.a, &n.b));
        assert_int_equal(n.b.peer_len, len);
        if (len > 0) {
            expect(&n, len);
        }
    }
}

// The answers of a node follow its own change when the peer has taken it: what is out keeps the
// value under which it was asked for.
static void answers_follow_when_the_peer_has_taken_it(void **state)
{
    for (unsigned i = 0; i < 2; i++) {
        struct nodes n = nodes_of(500, 1000);
        uint32_t len = i == 0 ? 300 : 900;
        allotment_wish(&n.a, len, false);
        assert_int_equal(allotment_request_len(&n.a), 500); // not before the notice
        say(&n.a, &n.b);
        assert_int_equal(allotment_request_len(&n.a), len);
        assert_int_equal(allotment_request_len(&n.b), len);
        assert_int_equal(allotment_answer_len(&n.b), len);
        assert_int_equal(allotment_answer_len(&n.a), 500);
        say(&n.b, &n.a);
        assert_int_equal(allotment_answer_len(&n.a), len);
    }
}

static void one_notice_is_out_at_a_time(void **state)
{
    struct nodes n = nodes_of(500, 1000);
    allotment_wish(&n.a, 300, false);
    say(&n.a, &n.b);
    allotment_wish(&n.a, 400, false);
    assert_false(say(&n.a, &n.b));
    say(&n.b, &n.a);
    assert_true(say(&n.a, &n.b));
    say(&n.b, &n.a);
    expect(&n, 400);
}

static void both_may_change_at_once(void **state)
{
    struct nodes n = nodes_of(500, 500);
    uint32_t len;
    allotment_wish(&n.a, 400, false);
    allotment_wish(&n.b, 300, false);
    assert_int_equal(allotment_next_word(&n.a, &len), ALLOTMENT_SAY_NOTICE);
    assert_int_equal(allotment_next_word(&n.b, &len), ALLOTMENT_SAY_NOTICE);
    allotment_said(&n.a, ALLOTMENT_SAY_NOTICE);
    allotment_said(&n.b, ALLOTMENT_SAY_NOTICE);
    allotment_on_notice(&n.b, 400, ALLOTMENT_MEMORY);
    allotment_on_notice(&n.a, 300, ALLOTMENT_MEMORY);
    while (say(&n.a, &n.b) || say(&n.b, &n.a)) {
    }
    expect(&n, 300);
}

static void who_may_follows_a_peer_whose_pipe_holds_more(void **state)
{
    struct nodes n = nodes_of(500, 500);
    n.b.may_follow = true;
    allotment_wish(&n.a, 4000, true);
    say_for(ALLOTMENT_PIPE, &n.a, &n.b);
    while (say_for(ALLOTMENT_PEER, &n.b, &n.a) || say(&n.a, &n.b)) {
    }
    expect(&n, 4000);
    allotment_wish(&n.b, 300, false); // memory is short here
    while (say_for(ALLOTMENT_MEMORY, &n.b, &n.a) || say(&n.a, &n.b)) {
    }
    expect(&n, 300);
}

static void nobody_follows_an_operators_command(void **state)
{
    struct nodes n = nodes_of(500, 500);
    n.b.may_follow = true;
    allotment_wish(&n.a, 4000, true);
    while (say(&n.a, &n.b) || say(&n.b, &n.a)) {
    }
    expect(&n, 500);
}

static void a_pipe_pulls_no_further_than_its_bound(void **state)
{
    struct nodes n = nodes_of(500, 500);
    n.b.may_follow = true;
    allotment_wish(&n.a, UINT32_MAX, false);
    say_for(ALLOTMENT_PIPE, &n.a, &n.b);
    while (say(&n.b, &n.a)) {
    }
    assert_int_equal(allotment_request_len(&n.a), ALLOTMENT_PIPE_MAX_LEN);
}

static void nothing_is_taken_that_was_not_said(void **state)
{
    struct nodes n = nodes_of(500, 500);
    assert_false(allotment_on_taken(&n.a, 500));
    allotment_wish(&n.a, 300, false);
    say(&n.a, &n.b);
    assert_false(allotment_on_taken(&n.a, 301));
    assert_true(allotment_on_taken(&n.a, 300));
    assert_false(allotment_on_taken(&n.a, 300));
}

// Every order of words, each direction in order: no answer is ever longer than its request allows.
static void no_answer_is_longer_than_its_request_allows(void **state)
{
    enum { STEPS = 10 };
    for (unsigned order = 0; order < 1U << (2 * STEPS); order += 7) { // 4 moves per step
        struct nodes n = nodes_of(500, 500);
        uint32_t to_b[STEPS * 2], asked[STEPS * 2];
        enum allotment_word word_to_b[STEPS * 2];
        unsigned head = 0, tail = 0;
        for (unsigned step = 0; step < STEPS; step++) {
            uint32_t len = 0;
            switch (order >> (2 * step) & 3) {
            case 0: // b, who answers, changes its wish
                allotment_wish(&n.b, 100 * (1 + (order >> step) % 9), false);
                break;
            case 1: // a hears what b says
                say(&n.b, &n.a);
                break;
            case 2: // a says what it has to say, and asks
                word_to_b[tail] = allotment_next_word(&n.a, &len);
                if (word_to_b[tail] != ALLOTMENT_SAY_NOTHING) {
                    allotment_said(&n.a, word_to_b[tail]);
                }
                to_b[tail] = len;
                asked[tail++] = allotment_request_len(&n.a);
                break;
            default: // b hears it, and answers
                if (head < tail) {
                    if (word_to_b[head] == ALLOTMENT_SAY_TAKEN) {
                        assert_true(allotment_on_taken(&n.b, to_b[head]));
                    }
                    assert_int_equal(allotment_answer_len(&n.b), asked[head++]);
                }
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_smaller_one_holds),
        cmocka_unit_test(without_a_peer_that_knows_the_wish_holds),
        cmocka_unit_test(with_an_undivided_peer_everyone_cuts_its_own),
        cmocka_unit_test(a_change_reaches_both_nodes),
        cmocka_unit_test(answers_follow_when_the_peer_has_taken_it),
        cmocka_unit_test(one_notice_is_out_at_a_time),
        cmocka_unit_test(both_may_change_at_once),
        cmocka_unit_test(who_may_follows_a_peer_whose_pipe_holds_more),
        cmocka_unit_test(nobody_follows_an_operators_command),
        cmocka_unit_test(a_pipe_pulls_no_further_than_its_bound),
        cmocka_unit_test(nothing_is_taken_that_was_not_said),
        cmocka_unit_test(no_answer_is_longer_than_its_request_allows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
