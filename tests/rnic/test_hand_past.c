// Writes and Reads past the stream: what the device asks of a link that has a way past, and what it
// does with each answer; whom it lets in. The link, the peer and the way past are the test's.

#include <stdio.h>
#include <string.h>

#include "base/port_push.h"
#include "mpa/startup.h"
#include "rnic/ep/ep.h"
#include "rnic/puller.h"
#include "tests/rnic/hand_world.h"
#include "wq/status.h"

enum { READS_MAX = 8, LOG_LEN = 1024, LEN = 100, HOST = LINK_IS_OF_HOST | LINK_LENDS };

/* ---- the way past ---------------------------------------------------------------------------- */

// What was asked is written down in words: "aim 100 put done " …
static struct {
    char log[LOG_LEN];
    enum past_answer answer;
    bool fails;      // what was put or copied is not there
    unsigned whole;  // of a run, so many are copied
    unsigned good;   // ... and their keys held
    bool admits;     // at once
    uint64_t leaver; // who is expelled and has not come out
    bool was_null;   // the last aim was asked without a place for what begins
    uint32_t stag;   // ... of what was asked last
    uint64_t to;
    uint8_t octets[64 * 1024]; // what was put
    size_t octets_len;
} past;

static void note(const char *word, uint64_t number)
{
    const size_t at = strlen(past.log);
    snprintf(past.log + at, sizeof past.log - at, "%s %llu ", word, (unsigned long long)number);
}

static void expect_log(const char *text)
{
    assert_string_equal(past.log, text);
    past.log[0] = '\0';
}

static struct key_mirror *past_mirror(struct link *link)
{
    return NULL;
}

static bool past_revoke(struct link *link, uint64_t generation)
{
    return true;
}

static bool past_admit(struct link_stream *stream, uint32_t pd, unsigned rights)
{
    assert_int_equal(pd, hand.device.pd);
    note("admit", rights);
    return past.admits;
}

static uint64_t past_expel(struct link_stream *stream)
{
    note("expel", 0);
    return past.leaver;
}

static bool past_has_left(struct link *link, uint64_t leaver)
{
    note("left", leaver);
    return true;
}

static enum past_answer past_aim(struct link_stream *stream, const struct push *push,
                                 struct push_aimed *ret)
{
    note("aim", push->len);
    past.was_null = ret == NULL;
    past.stag = push->stag;
    past.to = push->to;
    if (ret != NULL && past.answer == PAST_BEGUN) {
        *ret = (struct push_aimed){.process = 4711, .len = push->len};
        past.octets_len = 0;
        for (unsigned i = 0; i < push->piece_count; i++) {
            memcpy(past.octets + past.octets_len, push->pieces[i].ptr, push->pieces[i].len);
            past.octets_len += push->pieces[i].len;
        }
    }
    return past.answer;
}

static bool past_put(const struct push_aimed *push)
{
    assert_int_equal(hand.end.qp->pull.process, 4711);
    assert_int_equal(hand.end.qp->pull.is_pushing, 1);
    note("put", push->len);
    return !past.fails;
}

static void past_conclude(const struct push_aimed *push, bool is_done)
{
    note("done", is_done);
}

static enum past_answer past_locate(struct link_stream *stream, const struct pull *pull,
                                    struct pull_run *run)
{
    note("locate", pull->len);
    past.stag = pull->stag;
    past.to = pull->to;
    if (past.answer == PAST_BEGUN) {
        run->process = 4712;
        for (unsigned i = 0; i < pull->piece_count; i++) {
            run->pieces[run->piece_count++] = pull->pieces[i];
        }
        run->sources[run->count++] = (struct pull_source){.len = pull->len};
        run->len += pull->len;
    }
    return past.answer;
}

static unsigned past_copy(const struct pull_run *run)
{
    assert_int_equal(hand.end.qp->pull.process, 4712);
    assert_int_equal(hand.end.qp->pull.is_pushing, 0);
    note("copy", run->count);
    const unsigned whole = past.whole < run->count ? past.whole : run->count;
    for (unsigned i = 0; i < run->piece_count && i < whole; i++) {
        memset(run->pieces[i].ptr, 0x77, run->pieces[i].len);
    }
    return whole;
}

static unsigned past_confirm(struct link_stream *stream, const struct pull_run *run, unsigned count)
{
    note("confirm", count);
    return past.good < count ? past.good : count;
}

static const struct push_ops past_ops = {
    .mirror = past_mirror,
    .revoke = past_revoke,
    .admit = past_admit,
    .expel = past_expel,
    .has_left = past_has_left,
    .aim = past_aim,
    .put = past_put,
    .conclude = past_conclude,
    .locate = past_locate,
    .copy = past_copy,
    .confirm = past_confirm,
};

/* ---- a peer that is weft --------------------------------------------------------------------- */

static const struct sockaddr_in there = {
    .sin_family = AF_INET, .sin_port = 0x3412, .sin_addr = {7}};

// The device has connected to it, and has sent its first FPDU.
static struct hand_stream *connect_to(unsigned facts, bool crc, bool is_weft)
{
    static const struct rnic_ep_params params = {.ird = READS_MAX, .ord = READS_MAX};
    const struct rnic_config config = hand_config();
    const struct mpa_startup_config peer_config = {.revision = 2,
                                                   .crc_wanted = crc,
                                                   .ird = READS_MAX,
                                                   .ord = READS_MAX,
                                                   .extensions = is_weft};
    struct mpa_startup peer;
    struct mpa_peer_facts said;
    struct mpa_agreement agreement;
    uint8_t reply[MPA_STARTUP_MAX_LEN];
    size_t len;
    hand_open_anew(&config, facts); // who was let in before goes
    memset(&past, 0, sizeof past);
    past.admits = true;
    past.answer = PAST_BEGUN;
    past.whole = past.good = READS_MAX;
    hand.link->base.pushes = &past_ops;
    end_bind(&hand.end);
    assert_int_equal(
        rnic_ep_connect(hand.end.ep, (const struct sockaddr *)&there, hand.end.qp, &params), 0);
    hand_run();
    struct hand_stream *s = hand_of(&hand.end);
    mpa_startup_init(&peer, &peer_config);
    assert_int_equal(mpa_startup_on_request(&peer, span_of(s->out, s->out_len), &len, &said),
                     MPA_STARTUP_OK);
    hand_come(s, reply, mpa_startup_emit_accept(&peer, &peer_config, reply, &agreement));
    hand_run();
    hand_event(&hand.end, RNIC_EP_ESTABLISHED);
    s->out_len = 0;
    return s;
}

static struct hand_stream *connect_past(void)
{
    struct hand_stream *s = connect_to(HOST, false, true);
    expect_log("admit 3 ");
    for (unsigned i = 0; i < DEVICE_BUF_LEN; i++) {
        hand.device.buf[i] = (uint8_t)(i * 7 + i / 256);
    }
    return s;
}

static void write_of(uint32_t len)
{
    end_post_send(&hand.end, WQE_RDMA_WRITE, 10, len, &hand.device, 2000);
}

static void read_of(uint32_t offset, uint32_t len)
{
    end_post_send(&hand.end, WQE_RDMA_READ, offset, len, &hand.device, 3000);
}

static void expect_done(enum wc_status status)
{
    assert_int_equal(hand_completion().status, status);
    hand_expect_no_completion();
}

/* ---- Writes ---------------------------------------------------------------------------------- */

static void a_write_is_put_and_nothing_of_it_is_sent(void **state)
{
    struct hand_stream *s = connect_past();
    write_of(LEN);
    expect_log("aim 100 put 100 done 1 ");
    assert_int_equal(past.stag, hand.device.stag);
    assert_int_equal(past.to, (uintptr_t)hand.device.buf + 2000);
    assert_int_equal(past.octets_len, LEN);
    assert_memory_equal(past.octets, hand.device.buf + 10, LEN);
    expect_done(WC_SUCCESS);
    assert_int_equal(s->out_len, 0);
    assert_int_equal(device_count(&hand.device, "pushed_writes"), 1);
}

static void a_write_that_could_not_be_put_is_sent(void **state)
{
    struct hand_stream *s = connect_past();
    past.fails = true;
    write_of(LEN);
    hand_run();
    expect_log("aim 100 put 100 done 0 ");
    assert_true(s->out_len > LEN);
    expect_done(WC_SUCCESS);
}

static void a_write_may_be_refused_the_way_past(void **state)
{
    static const struct {
        enum past_answer answer;
        bool is_sent;
    } rows[] = {{PAST_REFUSED, true}, {PAST_BEHIND, true}, {PAST_LATER, false}};
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct hand_stream *s = connect_past();
        past.answer = rows[i].answer;
        write_of(LEN);
        expect_log("aim 100 ");
        assert_false(past.was_null);
        assert_int_equal(s->out_len > LEN, rows[i].is_sent);
        if (rows[i].is_sent) {
            expect_done(WC_SUCCESS);
        } else { // asked again in the next turn
            past.answer = PAST_BEGUN;
            rnic_drive_pass(hand.device.rnic);
            expect_log("aim 100 put 100 done 1 ");
            expect_done(WC_SUCCESS);
            assert_int_equal(s->out_len, 0);
        }
    }
}

static void writes_follow_each_other_one_at_a_time(void **state)
{
    struct hand_stream *s = connect_past();
    s->room = 0;
    past.answer = PAST_LATER;
    write_of(1);
    write_of(2);
    write_of(3);
    past.log[0] = '\0';
    past.answer = PAST_BEGUN;
    rnic_drive_pass(hand.device.rnic);
    expect_log("aim 1 put 1 done 1 aim 2 put 2 done 1 aim 3 put 3 done 1 ");
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(hand_completion().status, WC_SUCCESS);
    }
    assert_int_equal(s->out_len, 0);
}

/* ---- Reads ----------------------------------------------------------------------------------- */

static void a_read_is_copied_and_nothing_of_it_is_sent(void **state)
{
    struct hand_stream *s = connect_past();
    read_of(500, LEN);
    expect_log("locate 100 copy 1 confirm 1 ");
    assert_int_equal(past.stag, hand.device.stag);
    assert_int_equal(past.to, (uintptr_t)hand.device.buf + 3000);
    expect_done(WC_SUCCESS);
    assert_int_equal(hand.device.buf[500], 0x77);
    assert_int_equal(hand.device.buf[500 + LEN - 1], 0x77);
    assert_int_equal(hand.device.buf[500 + LEN], (uint8_t)((500 + LEN) * 7 + (500 + LEN) / 256));
    assert_int_equal(s->out_len, 0);
    assert_int_equal(device_count(&hand.device, "pulled_reads"), 1);
}

static void a_read_that_is_not_whole_or_whose_key_went_is_asked_for(void **state)
{
    for (unsigned is_whole = 0; is_whole < 2; is_whole++) {
        struct hand_stream *s = connect_past();
        past.whole = is_whole;
        past.good = 0;
        read_of(500, LEN);
        hand_run();
        expect_log(is_whole ? "locate 100 copy 1 confirm 1 " : "locate 100 copy 1 confirm 0 ");
        assert_true(s->out_len > 0);
        hand_expect_no_completion();
    }
}

static void a_read_may_be_refused_the_way_past(void **state)
{
    static const struct {
        enum past_answer answer;
        bool is_sent;
    } rows[] = {{PAST_REFUSED, true}, {PAST_BEHIND, true}, {PAST_LATER, false}};
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct hand_stream *s = connect_past();
        past.answer = rows[i].answer;
        read_of(500, LEN);
        expect_log("locate 100 ");
        assert_int_equal(s->out_len > 0, rows[i].is_sent);
        if (!rows[i].is_sent) {
            past.answer = PAST_BEGUN;
            rnic_drive_pass(hand.device.rnic);
            expect_log("locate 100 copy 1 confirm 1 ");
            expect_done(WC_SUCCESS);
            assert_int_equal(s->out_len, 0);
        }
    }
}

// Of a run the first that are good are over; the one behind them is asked for on the stream.
static void reads_that_follow_each_other_are_copied_together(void **state)
{
    struct hand_stream *s = connect_past();
    past.answer = PAST_LATER;
    for (uint32_t i = 0; i < 4; i++) {
        read_of(1000 * i, LEN + i);
    }
    past.log[0] = '\0';
    past.answer = PAST_BEGUN;
    past.good = 2;
    rnic_drive_pass(hand.device.rnic);
    hand_run();
    const char *const run = "locate 100 locate 101 locate 102 locate 103 copy 4 confirm 4 ";
    assert_memory_equal(past.log, run, strlen(run));
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(hand_completion().status, WC_SUCCESS);
    }
    hand_expect_no_completion();
    assert_true(s->out_len > 0);
}

/* ---- who may copy ---------------------------------------------------------------------------- */

// The device looks, and is nobody who may copy.
static void what_nobody_may_copy_waits_for_who_was_there_lately(void **state)
{
    for (unsigned row = 0; row < 3; row++) {
        const bool is_late = row == 0, is_long = row == 1;
        struct hand_stream *s = connect_past();
        past.answer = PAST_LATER;
        write_of(LEN);
        expect_log("aim 100 ");
        past.answer = PAST_BEGUN;
        hand.now += is_late ? 2 * PULLER_PATIENCE_MAX_NS : 0;
        rnic_step(hand.device.rnic);
        if (is_late) {
            expect_log("");
            assert_true(s->out_len > LEN);
            expect_done(WC_SUCCESS);
            continue;
        }
        expect_log("aim 100 ");
        assert_true(past.was_null); // it could begin
        rnic_step(hand.device.rnic);
        expect_log(""); // and is left for who may
        assert_int_equal(s->out_len, 0);
        if (is_long) {
            hand.now += 2 * PULLER_PATIENCE_MAX_NS;
            rnic_step(hand.device.rnic);
            expect_log("");
            assert_true(s->out_len > LEN);
        } else {
            rnic_drive_pass(hand.device.rnic);
            expect_log("aim 100 put 100 done 1 ");
        }
        expect_done(WC_SUCCESS);
    }
}

/* ---- who is asked ---------------------------------------------------------------------------- */

static void a_stream_of_another_kind_has_no_way_past(void **state)
{
    static const struct {
        unsigned facts;
        bool crc, is_weft;
        const char *log;
    } rows[] = {
        {HOST, false, true, "admit 3 aim 100 put 100 done 1 locate 100 copy 1 confirm 1 "},
        {LINK_LENDS, false, true, ""},
        {HOST, true, true, ""},
        {HOST, false, false, "admit 3 "},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct hand_stream *s = connect_to(rows[i].facts, rows[i].crc, rows[i].is_weft);
        write_of(LEN);
        read_of(500, LEN);
        hand_run();
        expect_log(rows[i].log);
        assert_int_equal(s->out_len > 0, i > 0);
    }
}

/* ---- whom we let in -------------------------------------------------------------------------- */

static void the_peer_is_let_in_as_soon_as_the_link_can(void **state)
{
    connect_to(HOST, false, true);
    expect_log("admit 3 ");
    hand_run();
    expect_log(""); // once
    hand_end_anew();
    struct hand_stream *s = connect_to(HOST, false, true);
    past.log[0] = '\0';
    s->end = 0;
    hand_run();
    expect_log("expel 0 ");
    hand_expect_disconnected(s, "by_peer", false);
}

static void who_is_in_goes_with_the_queue_pairs_state(void **state)
{
    for (unsigned is_inside = 0; is_inside < 2; is_inside++) {
        connect_past();
        past.leaver = is_inside ? 9 : 0;
        assert_int_equal(rnic_qp_modify(hand.end.qp, QP_ERR), 0);
        hand_run();
        assert_memory_equal(past.log, "expel 0 ", 8);
        assert_int_equal(strstr(past.log, "admit") != NULL, 0);
        past.log[0] = '\0';
        rnic_qp_destroy(hand.end.qp);
        hand.end.qp = NULL;
        assert_int_equal(strstr(past.log, "left 9") != NULL, is_inside);
    }
}

// It may not read what a Send that waits for its receive would have changed before.
static void the_peer_does_not_read_past_what_waits_for_a_receive(void **state)
{
    struct hand_stream *s = connect_past();
    hand_send(s, 1, 0x11, LEN);
    hand_run();
    assert_true(strstr(past.log, "expel 0 ") != NULL);
    past.log[0] = '\0';
    end_post_recv(&hand.end, 1, 0, 1000);
    hand_run();
    assert_true(strstr(past.log, "admit 3 ") != NULL);
    hand_expect_received(1, 0, 0x11, LEN);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, hand_set_up, hand_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_write_is_put_and_nothing_of_it_is_sent),
        CASE(a_write_that_could_not_be_put_is_sent),
        CASE(a_write_may_be_refused_the_way_past),
        CASE(writes_follow_each_other_one_at_a_time),
        CASE(a_read_is_copied_and_nothing_of_it_is_sent),
        CASE(a_read_that_is_not_whole_or_whose_key_went_is_asked_for),
        CASE(a_read_may_be_refused_the_way_past),
        CASE(reads_that_follow_each_other_are_copied_together),
        CASE(what_nobody_may_copy_waits_for_who_was_there_lately),
        CASE(a_stream_of_another_kind_has_no_way_past),
        CASE(the_peer_is_let_in_as_soon_as_the_link_can),
        CASE(who_is_in_goes_with_the_queue_pairs_state),
        CASE(the_peer_does_not_read_past_what_waits_for_a_receive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
