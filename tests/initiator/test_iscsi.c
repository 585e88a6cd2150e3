// The iSCSI initiator over one-shot RDMA: commands there and back, and targets that do not keep to
// it.
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "base/time.h"
#include "format/iscsi_pdu.h"
#include "format/scsi.h"
#include "initiator/iscsi/iscsi.h"
#include "tests/initiator/iscsi_target.h"
#include "tests/verbs/roce.h"

enum { LEN = 64 << 10, DEPTH = 16, TURN_MS = 20 };

static const duration_ns patience_ns = 20 * NS_PER_S; // what takes so long does not come

static instant_ns patience_end(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (instant_ns)t.tv_sec * NS_PER_S + (instant_ns)t.tv_nsec + patience_ns;
}

static bool is_before(instant_ns end)
{
    return patience_end() - patience_ns < end;
}

struct scene {
    struct iscsi_target *target;
    struct iscsi_initiator *initiator;
    uint8_t *data; // 2 * LEN
    unsigned depth;
};

static enum iscsi_initiator_state turn(struct scene *s)
{
    struct pollfd ready = {.fd = iscsi_initiator_fd(s->initiator), .events = POLLIN};
    enum iscsi_initiator_state state = iscsi_initiator_poll(s->initiator, true);
    if (state != ISCSI_INITIATOR_LOST) {
        poll(&ready, 1, TURN_MS);
    }
    return iscsi_initiator_poll(s->initiator, true);
}

static enum iscsi_initiator_state begin(struct scene *s, const struct iscsi_target_wish *wish)
{
    struct why why;
    s->target = iscsi_target_start(wish);
    struct iscsi_initiator_attr attr = {.host = "127.0.0.1",
                                        .port = iscsi_target_port(s->target),
                                        .target = "iqn.2026-11.invalid.judge:disk",
                                        .name = "iqn.2026-11.invalid.judge:us",
                                        .depth = s->depth};
    s->data = calloc(2, LEN);
    for (unsigned i = 0; i < LEN; i++) {
        s->data[i] = (uint8_t)(i * 7 + (i >> 9));
    }
    s->initiator = iscsi_initiator_begin(&attr, &why);
    if (s->initiator == NULL) {
        fail_msg("%s", why.text);
    }
    for (instant_ns until = patience_end();
         is_before(until) && turn(s) == ISCSI_INITIATOR_BEGINS;) {
    }
    return iscsi_initiator_state(s->initiator);
}

static void begin_well(struct scene *s, const struct iscsi_target_wish *wish)
{
    if (begin(s, wish) != ISCSI_INITIATOR_READY) {
        fail_msg("%s", iscsi_initiator_why(s->initiator));
    }
}

static void end(struct scene *s)
{
    iscsi_initiator_end(s->initiator);
    iscsi_target_stop(s->target);
    free(s->data);
}

static void on_end(struct iscsi_request *request)
{
    *(bool *)request->context = true;
}

static void request_fill(struct iscsi_request *r, bool is_write, uint8_t *data, uint64_t block,
                         uint32_t len, bool *is_done)
{
    *r = (struct iscsi_request){.direction = is_write ? ISCSI_TO_TARGET : ISCSI_FROM_TARGET,
                                .data = data,
                                .data_len = len,
                                .on_end = on_end,
                                .context = is_done};
    *is_done = false;
    scsi_block_emit(r->cdb, is_write ? SCSI_WRITE_16 : SCSI_READ_16, 0, block,
                    len / DISK_BLOCK_LEN);
}

// Until it has ended, or the connection has.
static void await(struct scene *s, const bool *is_done)
{
    for (instant_ns until = patience_end();
         is_before(until) && !*is_done && turn(s) == ISCSI_INITIATOR_READY;) {
    }
}

static void move(struct scene *s, struct iscsi_request *r, bool is_write, uint8_t *data,
                 uint32_t len)
{
    bool is_done;
    request_fill(r, is_write, data, 8, len, &is_done);
    assert_int_equal(iscsi_initiator_submit(s->initiator, r), 0);
    await(s, &is_done);
    if (!is_done) {
        fail_msg("no answer: %s", iscsi_initiator_why(s->initiator));
    }
}

static const struct iscsi_initiator_counters *counters(const struct scene *s)
{
    return iscsi_initiator_counters(s->initiator);
}

// One read, after which the connection is lost for this reason.
static void lost_by_a_read(const struct iscsi_target_wish *wish, const char *why)
{
    struct scene s = {.depth = DEPTH};
    struct iscsi_request r;
    bool is_done;
    begin_well(&s, wish);
    request_fill(&r, false, s.data, 0, 4096, &is_done);
    assert_int_equal(iscsi_initiator_submit(s.initiator, &r), 0);
    await(&s, &is_done);
    assert_int_equal(iscsi_initiator_state(s.initiator), ISCSI_INITIATOR_LOST);
    assert_false(is_done);
    if (strstr(iscsi_initiator_why(s.initiator), why) == NULL) {
        fail_msg("%s", iscsi_initiator_why(s.initiator));
    }
    end(&s);
}

/* ---- well ------------------------------------------------------------------------------------ */

static void what_was_written_is_read_and_every_answer_closes(void **state)
{
    const struct iscsi_target_wish wish = {0};
    struct scene s = {.depth = DEPTH};
    struct iscsi_request r;
    begin_well(&s, &wish);
    move(&s, &r, true, s.data, LEN);
    assert_memory_equal(iscsi_target_disk(s.target) + 8 * DISK_BLOCK_LEN, s.data, LEN);
    move(&s, &r, false, s.data + LEN, LEN);
    assert_memory_equal(s.data + LEN, s.data, LEN);
    assert_int_equal(counters(&s)->oneshots, 2);
    assert_int_equal(counters(&s)->closes, 2);
    assert_int_equal(counters(&s)->revokes + counters(&s)->strange, 0);
    assert_int_equal(counters(&s)->sends, 3); // and the login
    end(&s);
}

static void commands_keep_within_depth_and_window(void **state)
{
    enum { COUNT = 500 };
    const struct iscsi_target_wish wish = {0};
    struct scene s = {.depth = DEPTH};
    struct iscsi_request r[DEPTH];
    bool is_done[DEPTH];
    unsigned submitted = 0;
    begin_well(&s, &wish);
    memset(is_done, true, sizeof is_done);
    for (unsigned i = 0; submitted < COUNT; i = (i + 1) % DEPTH) {
        await(&s, &is_done[i]);
        request_fill(&r[i], submitted % 2 == 0, s.data + (size_t)i * 4096, i * 8, 4096,
                     &is_done[i]);
        assert_int_equal(iscsi_initiator_submit(s.initiator, &r[i]), 0);
        submitted++;
    }
    for (unsigned i = 0; i < DEPTH; i++) {
        await(&s, &is_done[i]);
        assert_true(is_done[i]);
    }
    assert_int_equal(counters(&s)->closes, COUNT);
    assert_int_equal(iscsi_target_counters(s.target)->last_cmdsn, COUNT);
    end(&s);
}

static void a_full_initiator_says_so(void **state)
{
    const struct iscsi_target_wish wish = {.silent_after = UINT32_MAX - 1};
    struct scene s = {.depth = DEPTH};
    struct iscsi_request r[DEPTH + 1];
    bool is_done[DEPTH + 1];
    begin_well(&s, &wish);
    for (unsigned i = 0; i <= DEPTH; i++) {
        request_fill(&r[i], false, s.data, 0, 4096, &is_done[i]);
        assert_int_equal(iscsi_initiator_submit(s.initiator, &r[i]), i < DEPTH ? 0 : -EAGAIN);
    }
    end(&s);
}

static void sense_data_and_residual_arrive(void **state)
{
    const struct iscsi_target_wish wish = {.status = SCSI_CHECK_CONDITION, .residual = 512};
    struct scene s = {.depth = DEPTH};
    struct iscsi_request r;
    begin_well(&s, &wish);
    move(&s, &r, false, s.data, 4096);
    assert_int_equal(r.status, SCSI_CHECK_CONDITION);
    assert_int_equal(r.residual, 512);
    assert_int_equal(r.sense_len, 14); // as many as there are, whatever their length says
    assert_int_equal(r.sense[0], 0x70);
    assert_int_equal(r.sense[12], 0x29);
    end(&s);
}

static void a_ping_is_answered(void **state)
{
    const struct iscsi_target_wish wish = {.pings = true};
    struct scene s = {.depth = DEPTH};
    struct iscsi_request r;
    begin_well(&s, &wish);
    for (unsigned i = 0; i < 40; i++) { // more than there are spare receives
        move(&s, &r, false, s.data, 4096);
    }
    for (instant_ns until = patience_end();
         is_before(until) && iscsi_target_counters(s.target)->pongs < 40;) {
        turn(&s);
    }
    assert_int_equal(iscsi_target_counters(s.target)->pongs, 40);
    end(&s);
}

static void who_leaves_says_so(void **state)
{
    const struct iscsi_target_wish wish = {0};
    struct scene s = {.depth = DEPTH};
    begin_well(&s, &wish);
    iscsi_initiator_log_out(s.initiator);
    assert_string_equal(iscsi_initiator_why(s.initiator), "logged out");
    assert_int_equal(iscsi_target_counters(s.target)->logouts, 1);
    assert_int_equal(iscsi_initiator_state(s.initiator), ISCSI_INITIATOR_LOST);
    end(&s);
}

/* ---- resets ---------------------------------------------------------------------------------- */

static void on_reset(void *context, uint8_t response)
{
    *(int *)context = response;
}

static void what_a_reset_aborts_is_taken_back(void **state)
{
    const struct iscsi_target_wish wish = {.silent_after = 1};
    struct scene s = {.depth = DEPTH};
    struct iscsi_request first, r;
    bool is_done;
    int response = -1;
    begin_well(&s, &wish);
    move(&s, &first, false, s.data, 4096);
    request_fill(&r, false, s.data, 0, 4096, &is_done);
    assert_int_equal(iscsi_initiator_submit(s.initiator, &r), 0);
    assert_int_equal(iscsi_initiator_reset(s.initiator, on_reset, &response), 0);
    await(&s, &is_done);
    assert_true(is_done);
    assert_int_equal(r.error, -ECANCELED);
    assert_int_equal(response, ISCSI_TASK_COMPLETE);
    assert_int_equal(counters(&s)->revokes, 1);
    end(&s);
}

/* ---- logins ---------------------------------------------------------------------------------- */

static void refused_by(const struct iscsi_target_wish *wish, const char *why)
{
    struct scene s = {.depth = DEPTH};
    assert_int_equal(begin(&s, wish), ISCSI_INITIATOR_LOST);
    if (strstr(iscsi_initiator_why(s.initiator), why) == NULL) {
        fail_msg("%s", iscsi_initiator_why(s.initiator));
    }
    end(&s);
}

static void the_login_asks_for_one_shot_rdma(void **state)
{
    const struct iscsi_target_wish wish = {0};
    struct scene s = {.depth = DEPTH};
    begin_well(&s, &wish); // a target that was not asked refuses
    assert_int_equal(iscsi_target_counters(s.target)->logins, 1);
    end(&s);
}

static void a_target_without_the_key_is_refused(void **state)
{
    static const char no[] = "X-invalid.weft.oneshot=NotUnderstood", none[] = "HeaderDigest=None",
                      digest[] = "X-invalid.weft.oneshot=Yes\0HeaderDigest=CRC32C";
    refused_by(&(struct iscsi_target_wish){.keys = no, .keys_len = sizeof no},
               "it answers X-invalid.weft.oneshot=NotUnderstood; use iscsi://");
    refused_by(&(struct iscsi_target_wish){.keys = none, .keys_len = sizeof none},
               "it does not answer X-invalid.weft.oneshot; use iscsi://");
    refused_by(&(struct iscsi_target_wish){.keys = digest, .keys_len = sizeof digest},
               "HeaderDigest=CRC32C, which RDMA has no place for");
}

static void a_login_that_is_refused_says_why(void **state)
{
    refused_by(&(struct iscsi_target_wish){.login_status = ISCSI_TARGET_NOT_FOUND},
               "there is no such target");
    refused_by(&(struct iscsi_target_wish){.login_status = 0x02ff}, "with status 02ff");
    refused_by(&(struct iscsi_target_wish){.keys = "nonsense", .keys_len = 9},
               "the target's login makes no sense");
}

/* ---- hostile targets ------------------------------------------------------------------------- */

static void an_answer_that_closes_nothing_is_made_up_for(void **state)
{
    const struct iscsi_target_wish wish = {.leaves_open = true};
    struct scene s = {.depth = DEPTH};
    struct iscsi_request r;
    begin_well(&s, &wish);
    move(&s, &r, false, s.data, 4096);
    assert_int_equal(counters(&s)->revokes, 1);
    assert_int_equal(counters(&s)->closes, 0);
    end(&s);
}

// What stood in the memory is nobody's business.
static void data_that_do_not_come_are_zeroes(void **state)
{
    const struct iscsi_target_wish wish = {.moves_nothing = true};
    struct iscsi_request request;
    struct scene s = {.depth = DEPTH};
    begin_well(&s, &wish);
    move(&s, &request, false, s.data, LEN);
    assert_int_equal(request.status, 0);
    assert_int_equal(request.residual, 0);
    for (unsigned i = 0; i < LEN; i++) {
        assert_int_equal(s.data[i], 0);
    }
    end(&s);
}

static void an_answer_to_no_command_ends_none(void **state)
{
    const struct iscsi_target_wish wish = {.wrong_tag = 1 << 8};
    struct scene s = {.depth = DEPTH};
    struct iscsi_request r;
    bool is_done;
    begin_well(&s, &wish);
    request_fill(&r, false, s.data, 0, 4096, &is_done);
    assert_int_equal(iscsi_initiator_submit(s.initiator, &r), 0);
    for (instant_ns until = patience_end(); is_before(until) && counters(&s)->strange == 0;) {
        turn(&s);
    }
    assert_int_equal(counters(&s)->strange, 1);
    assert_false(is_done);
    end(&s);
}

// Who polls has other things to do.
static void a_flood_is_taken_in_parts(void **state)
{
    enum { STRAYS = 250, AT_ONCE_MAX = 160 };
    const struct iscsi_target_wish wish = {.strays = STRAYS};
    struct scene s = {.depth = ISCSI_INITIATOR_DEPTH_MAX};
    struct iscsi_request request;
    bool is_done;
    begin_well(&s, &wish);
    request_fill(&request, false, s.data, 8, DISK_BLOCK_LEN, &is_done);
    assert_int_equal(iscsi_initiator_submit(s.initiator, &request), 0);
    for (instant_ns until = patience_end();
         is_before(until) && iscsi_target_strays(s.target) < STRAYS;) {
        poll(NULL, 0, 1);
    }
    uint64_t most = 0, before = 0;
    for (instant_ns until = patience_end(); is_before(until) && !is_done;) {
        struct pollfd ready = {.fd = iscsi_initiator_fd(s.initiator), .events = POLLIN};
        assert_int_equal(poll(&ready, 1, (int)(patience_ns / NS_PER_MS)), 1);
        assert_int_equal(iscsi_initiator_poll(s.initiator, true), ISCSI_INITIATOR_READY);
        uint64_t taken = counters(&s)->strange - before;
        before += taken;
        most = taken > most ? taken : most;
    }
    assert_true(is_done);
    assert_int_equal(counters(&s)->strange, STRAYS);
    assert_in_range(most, 1, AT_ONCE_MAX);
    end(&s);
}

static void who_closes_anothers_memory_ends_the_connection(void **state)
{
    const struct iscsi_target_wish wish = {.closes_another = true};
    struct scene s = {.depth = DEPTH};
    struct iscsi_request r[2];
    bool is_done[2];
    begin_well(&s, &wish);
    for (unsigned i = 0; i < 2; i++) {
        request_fill(&r[i], false, s.data, 0, 4096, &is_done[i]);
        assert_int_equal(iscsi_initiator_submit(s.initiator, &r[i]), 0);
    }
    await(&s, &is_done[1]);
    assert_int_equal(iscsi_initiator_state(s.initiator), ISCSI_INITIATOR_LOST);
    assert_false(is_done[0] || is_done[1]);
    end(&s);
}

static void who_writes_too_much_reaches_nothing_else(void **state)
{
    const struct iscsi_target_wish wish = {.spare_octets = 1};
    struct scene s = {.depth = DEPTH};
    struct iscsi_request r;
    bool is_done;
    begin_well(&s, &wish);
    memset(iscsi_target_disk(s.target), 0xaa, 8192);
    s.data[4096] = 0x55;
    request_fill(&r, false, s.data, 0, 4096, &is_done);
    assert_int_equal(iscsi_initiator_submit(s.initiator, &r), 0);
    await(&s, &is_done);
    assert_int_equal(iscsi_initiator_state(s.initiator), ISCSI_INITIATOR_LOST);
    assert_int_equal(s.data[4096], 0x55);
    end(&s);
}

static void nonsense_ends_the_connection(void **state)
{
    lost_by_a_read(&(struct iscsi_target_wish){.cuts_short = true}, "makes no sense");
    lost_by_a_read(&(struct iscsi_target_wish){.residual = 4097},
                   "more did not move than there was");
    lost_by_a_read(&(struct iscsi_target_wish){.ends = true}, "ends the session");
}

static void a_target_that_fails_is_an_error(void **state)
{
    const struct iscsi_target_wish wish = {.response = 1};
    struct scene s = {.depth = DEPTH};
    struct iscsi_request r;
    begin_well(&s, &wish);
    move(&s, &r, false, s.data, 4096);
    assert_int_equal(r.error, -EREMOTEIO);
    end(&s);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        setenv("WEFT_WIRE", argv[1], 1);
        roce_port_of_own();
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_read_and_every_answer_closes),
        cmocka_unit_test(commands_keep_within_depth_and_window),
        cmocka_unit_test(a_full_initiator_says_so),
        cmocka_unit_test(sense_data_and_residual_arrive),
        cmocka_unit_test(a_ping_is_answered),
        cmocka_unit_test(who_leaves_says_so),
        cmocka_unit_test(what_a_reset_aborts_is_taken_back),
        cmocka_unit_test(the_login_asks_for_one_shot_rdma),
        cmocka_unit_test(a_target_without_the_key_is_refused),
        cmocka_unit_test(a_login_that_is_refused_says_why),
        cmocka_unit_test(an_answer_that_closes_nothing_is_made_up_for),
        cmocka_unit_test(data_that_do_not_come_are_zeroes),
        cmocka_unit_test(an_answer_to_no_command_ends_none),
        cmocka_unit_test(a_flood_is_taken_in_parts),
        cmocka_unit_test(who_closes_anothers_memory_ends_the_connection),
        cmocka_unit_test(who_writes_too_much_reaches_nothing_else),
        cmocka_unit_test(nonsense_ends_the_connection),
        cmocka_unit_test(a_target_that_fails_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
