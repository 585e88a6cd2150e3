// A stream in full operation: what comes in any pieces, what leaves as there is room, and each way
// in which it ends. The link and time are the test's.
#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "base/port_journal.h"
#include "rnic/ep/ep.h"
#include "tests/iwarp/craft.h"
#include "tests/rnic/hand_world.h"
#include "tests/rnic/raw.h"
#include "wq/status.h"

#define CLOSE_WAIT_NS (2 * NS_PER_S)

/* ---- what is written down -------------------------------------------------------------------- */

static struct journal_record carried;
static unsigned carried_count;

static void keep_carried(struct journal *journal, const struct journal_record *record)
{
    if (record->kind == JOURNAL_CARRIED) {
        carried = *record;
        carried_count++;
    }
}

static struct in6_addr mapped(uint8_t last)
{
    return (struct in6_addr){.s6_addr = {[10] = 0xff, [11] = 0xff, 10, 0, 0, last}};
}

static void a_journal_is_told_where_a_stream_leads(void **state)
{
    static struct journal journal = {.put = keep_carried};
    const struct in6_addr local = mapped(1), remote = mapped(2);
    hand.device.rnic->journal = &journal;
    carried_count = 0;
    hand_establish_plain();
    assert_int_equal(carried_count, 1);
    assert_int_equal(carried.qp_num, hand.end.qp->qp_num);
    assert_memory_equal(&carried.carried.local, &local, sizeof local);
    assert_memory_equal(&carried.carried.remote, &remote, sizeof remote);
    assert_int_equal(carried.carried.local_port, 4711);
    assert_int_equal(carried.carried.remote_port, 7);
    assert_int_equal(carried.carried.remote_qp_num, 0);
    hand_end_anew();
    hand.link->local_error = -ENOTCONN;
    hand_establish_plain();
    assert_int_equal(carried_count, 1); // nothing is known of it
    hand.link->local_error = 0;
    hand.device.rnic->journal = NULL;
}

/* ---- what comes ------------------------------------------------------------------------------ */

static void sends_come_in_whatever_pieces(void **state)
{
    for (size_t piece = 1; piece < 60; piece += piece < 10 ? 1 : 7) {
        struct hand_stream *s = hand_establish_plain();
        end_post_recv(&hand.end, 1, 0, 1000);
        end_post_recv(&hand.end, 2, 1000, 1000);
        hand_send(s, 1, 0x11, 700);
        hand_send(s, 2, 0x22, 3);
        const size_t all = s->in_len;
        for (s->in_len = 0; s->in_len < all;) {
            s->in_len = s->in_len + piece < all ? s->in_len + piece : all;
            hand_run();
        }
        hand_expect_received(1, 0, 0x11, 700);
        hand_expect_received(2, 1000, 0x22, 3);
        assert_int_equal(hand.end.ep->in.rx.counters.fpdus, 2);
        assert_null(hand.end.ep->in.carry);
        hand_end_anew();
    }
}

static void what_ended_connections_have_counted_stays_in_the_totals(void **state)
{
    const struct rnic *rnic = hand.device.rnic;
    for (unsigned i = 1; i < 4; i++) {
        struct hand_stream *s = hand_establish_to_speak();
        end_post_recv(&hand.end, 1, 0, 1000);
        hand_send(s, 1, 0x11, 700);
        end_post_send(&hand.end, WQE_RDMA_WRITE, 0, 100, &hand.device, 0);
        hand_run();
        const uint64_t octets = hand.end.ep->in.rx.counters.octets;
        assert_int_equal(rnic->mpa_in_total.fpdus, i - 1);
        hand_end_anew();
        assert_int_equal(rnic->mpa_in_total.fpdus, i);
        assert_int_equal(rnic->mpa_in_total.octets, i * octets);
        assert_int_equal(rnic->mpa_out_total.fpdus, i);
    }
}

// Two buffers full at a turn, so that others have theirs.
static void much_comes_in_several_turns(void **state)
{
    enum { LEN = 2000, COUNT = 150 };
    uint8_t payload[LEN], fpdu[4096];
    struct hand_stream *s = hand_establish_plain();
    const size_t before = s->in_done;
    for (unsigned i = 0; i < COUNT; i++) {
        memset(payload, (int)i, LEN);
        const uint64_t to = (uintptr_t)hand.device.buf + i % 16 * LEN;
        const struct craft c = craft_tagged(RDMAP_WRITE, hand.device.stag, to, true, payload, LEN);
        hand_come(s, fpdu, raw_fpdu(fpdu, c.octets, c.len));
    }
    assert_true(s->in_len > 2 * SHARD_STAGING_LEN);
    rnic_step(hand.device.rnic);
    const size_t turn_len = s->in_done - before;
    assert_true(turn_len == 2 * SHARD_STAGING_LEN || turn_len == s->in_len - before);
    s->wants_in = false; // the link does not tell again
    hand_run();
    assert_int_equal(s->in_done, s->in_len);
    assert_int_equal(hand.end.ep->in.rx.counters.fpdus, COUNT);
    for (unsigned i = COUNT - 16; i < COUNT; i++) {
        assert_int_equal(hand.device.buf[i % 16 * LEN], i);
        assert_int_equal(hand.device.buf[i % 16 * LEN + LEN - 1], i);
    }
}

/* ---- what ends ------------------------------------------------------------------------------- */

static void an_end_is_counted_by_what_the_link_says(void **state)
{
    static const struct {
        int end;
        bool is_cut; // in the middle of an FPDU
        const char *reason;
    } rows[] = {
        {0, false, "by_peer"},
        {0, true, "by_reset"},
        {-ECONNRESET, false, "by_reset"},
        {-EPIPE, false, "by_reset"},
        {-ETIMEDOUT, false, "by_timeout"},
        {-EHOSTUNREACH, false, "by_timeout"},
        {-ENETUNREACH, true, "by_timeout"},
        {-EHOSTDOWN, false, "by_timeout"},
        {-ENETDOWN, false, "by_timeout"},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct rnic_config config = hand_config();
        hand_open_anew(&config, 0);
        struct hand_stream *s = hand_establish_plain();
        if (rows[i].is_cut) {
            hand_send(s, 1, 0, 100);
            s->in_len -= 50;
        }
        s->end = rows[i].end;
        hand_run();
        hand_expect_disconnected(s, rows[i].reason, strcmp(rows[i].reason, "by_peer") != 0);
    }
}

static void an_end_in_sending_is_counted_likewise(void **state)
{
    static const struct {
        int error;
        const char *reason;
    } rows[] = {{-EPIPE, "by_reset"}, {-ETIMEDOUT, "by_timeout"}};
    for (unsigned i = 0; i < 2; i++) {
        const struct rnic_config config = hand_config();
        hand_open_anew(&config, 0);
        struct hand_stream *s = hand_establish_to_speak();
        s->send_error = rows[i].error;
        end_post_send(&hand.end, WQE_RDMA_WRITE, 0, 100, &hand.device, 0);
        hand_run();
        hand_expect_disconnected(s, rows[i].reason, true);
        assert_int_equal(hand_completion().status, WC_WR_FLUSH_ERR);
    }
}

static void a_disconnect_waits_for_what_was_posted_and_then_for_the_peer(void **state)
{
    struct hand_stream *s = hand_establish_to_speak();
    s->room = 0;
    end_post_send(&hand.end, WQE_RDMA_WRITE, 0, 100, &hand.device, 0);
    assert_int_equal(rnic_ep_disconnect(hand.end.ep), 0);
    hand_run();
    assert_false(s->is_shut);
    s->room = SIZE_MAX;
    hand_run();
    assert_true(s->is_shut);
    assert_int_equal(hand_completion().status, WC_SUCCESS);
    assert_int_equal(rnic_next_deadline(hand.device.rnic), hand.now + CLOSE_WAIT_NS);
    assert_int_equal(rnic_ep_disconnect(hand.end.ep), 0);
    assert_false(end_has_event(&hand.end));
    hand_pass(CLOSE_WAIT_NS - 1);
    s->end = 0;
    hand_run();
    hand_expect_disconnected(s, "by_peer", false);
}

static void a_peer_that_does_not_end_its_side_is_reset(void **state)
{
    struct hand_stream *s = hand_establish_plain();
    assert_int_equal(rnic_ep_disconnect(hand.end.ep), 0);
    hand_pass(CLOSE_WAIT_NS - 1);
    assert_true(s->is_shut);
    assert_true(s->is_open);
    hand_pass(1);
    hand_expect_disconnected(s, "here", true);
}

static void a_queue_pair_that_is_reset_or_goes_ends_its_stream(void **state)
{
    struct hand_stream *s = hand_establish_plain();
    assert_int_equal(rnic_qp_modify(hand.end.qp, QP_RESET), 0);
    assert_false(s->is_open);
    assert_true(s->is_aborted);
    hand_event(&hand.end, RNIC_EP_DISCONNECTED);
    hand_end_anew();
    for (unsigned has_output = 0; has_output < 2; has_output++) {
        s = hand_establish_to_speak();
        s->room = has_output ? 0 : SIZE_MAX;
        end_post_send(&hand.end, WQE_RDMA_WRITE, 0, 100, &hand.device, 0);
        assert_int_equal(rnic_has_output(hand.device.rnic), has_output);
        rnic_qp_destroy(hand.end.qp);
        hand.end.qp = NULL;
        assert_false(s->is_open);
        assert_int_equal(s->is_aborted, has_output);
        hand_event(&hand.end, RNIC_EP_DISCONNECTED);
        hand_end_anew();
    }
}

static void an_endpoint_that_goes_resets_what_has_not_left(void **state)
{
    for (unsigned has_output = 0; has_output < 2; has_output++) {
        struct hand_stream *s = hand_establish_to_speak();
        s->room = has_output ? 0 : SIZE_MAX;
        end_post_send(&hand.end, WQE_RDMA_WRITE, 0, 100, &hand.device, 0);
        rnic_ep_destroy(hand.end.ep);
        hand.end.ep = NULL;
        assert_false(s->is_open);
        assert_int_equal(s->is_aborted, has_output);
        assert_int_equal(hand_endpoints(), 1);
        assert_false(end_has_event(&hand.end));
        hand_end_anew();
    }
}

/* ---- what is refused ------------------------------------------------------------------------- */

static struct hand_stream *refuse_one(void)
{
    struct mpa_startup_frame request = hand_frame(MPA_REQUEST);
    request.crc = true;
    struct hand_stream *s = hand_establish(&request);
    end_post_recv(&hand.end, 1, 0, 1000);
    hand_send(s, 1, 0x11, 100);
    s->in[s->in_len - 1] ^= 1;
    hand_send(s, 2, 0x22, 100); // nothing behind it is looked at
    hand_run();
    assert_true(s->is_open);
    assert_true(s->is_shut);
    assert_true(s->out_len > 0); // the Terminate
    assert_int_equal(device_count(&hand.device, "crc_errors"), 1);
    assert_int_equal(rnic_qp_state(hand.end.qp), QP_ERR);
    assert_int_equal(hand.device.buf[0], 0);
    return s;
}

static void a_refused_stream_ends_behind_its_terminate(void **state)
{
    struct hand_stream *s = refuse_one();
    const size_t said = s->out_len;
    hand_send(s, 3, 0x33, 100);
    s->end = 0;
    hand_run();
    assert_int_equal(s->out_len, said);
    hand_expect_disconnected(s, "by_peer", false);
    assert_int_equal(hand_completion().status, WC_WR_FLUSH_ERR);
}

static void a_refused_stream_is_not_reset_before_its_terminate_is_there(void **state)
{
    struct hand_stream *s = refuse_one();
    hand_pass(CLOSE_WAIT_NS - 1);
    assert_true(s->is_open);
    hand_pass(1);
    hand_expect_disconnected(s, "here", false);
}

/* ---- what leaves ----------------------------------------------------------------------------- */

enum { TO_OFFSET = 32 * 1024, WRITE_LEN = 5000 };

// All that the device has sent is a Write of its buffer's beginning, in segments of the link's.
static unsigned expect_write(const struct hand_stream *s)
{
    uint64_t to = (uintptr_t)hand.device.buf + TO_OFFSET;
    size_t at = 0, done = 0;
    unsigned count = 0;
    while (at < s->out_len) {
        struct ddp_header header;
        size_t header_len;
        const size_t len = get_be16(s->out + at);
        const struct span ulpdu = span_of(s->out + at + MPA_LENGTH_LEN, len);
        assert_true(at + mpa_fpdu_len(len) <= s->out_len);
        assert_true(mpa_fpdu_len(len) <= hand.link->emss);
        assert_int_equal(ddp_header_parse(ulpdu, &header, &header_len), DDP_PARSE_OK);
        assert_true(header.tagged);
        assert_int_equal(header.stag, hand.device.stag);
        assert_int_equal(header.to, to + done);
        assert_memory_equal(ulpdu.ptr + header_len, hand.device.buf + done, len - header_len);
        at += mpa_fpdu_len(len);
        done += len - header_len;
        assert_int_equal(header.last, at == s->out_len);
        count++;
    }
    assert_int_equal(done, WRITE_LEN);
    return count;
}

static void fill_buffer(void)
{
    for (unsigned i = 0; i < WRITE_LEN; i++) {
        hand.device.buf[i] = (uint8_t)(i * 7 + i / 256);
    }
}

static void a_write_leaves_in_segments_as_there_is_room(void **state)
{
    static const size_t rooms[] = {1, 2, 17, 700, 1460, 4000, WRITE_LEN, SIZE_MAX};
    for (unsigned i = 0; i < sizeof rooms / sizeof rooms[0]; i++) {
        struct hand_stream *s = hand_establish_to_speak();
        fill_buffer();
        s->room = 0;
        end_post_send(&hand.end, WQE_RDMA_WRITE, 0, WRITE_LEN, &hand.device, TO_OFFSET);
        hand_run();
        while (s->wants_out) {
            assert_true(rnic_has_output(hand.device.rnic));
            hand_expect_no_completion();
            s->room = rooms[i];
            hand_run();
        }
        assert_false(rnic_has_output(hand.device.rnic));
        assert_int_equal(hand_completion().status, WC_SUCCESS);
        assert_int_equal(expect_write(s), (WRITE_LEN + 1439) / 1440);
        assert_int_equal(hand.end.ep->out.tx.counters.octets, s->out_len);
        assert_null(hand.end.ep->out.batch);
        hand_end_anew();
    }
}

static void each_segment_is_a_record_of_the_links(void **state)
{
    struct hand_stream *s = hand_establish_to_speak();
    end_post_send(&hand.end, WQE_RDMA_WRITE, 0, WRITE_LEN, &hand.device, TO_OFFSET);
    hand_run();
    assert_int_equal(s->record_count, (WRITE_LEN + 1439) / 1440);
    hand_end_anew();
    s = hand_establish_to_speak(); // of a record that has partly left, the rest
    s->room = 1500;
    end_post_send(&hand.end, WQE_RDMA_WRITE, 0, WRITE_LEN, &hand.device, TO_OFFSET);
    hand_run();
    s->room = SIZE_MAX;
    hand_run();
    assert_int_equal(s->record_count, (WRITE_LEN + 1439) / 1440 - 1);
}

// An initiator that agreed on no first FPDU may wait for ours.
static void a_responder_speaks_when_the_peer_has_or_is_silent_for_long(void **state)
{
    struct hand_stream *s = hand_establish_plain();
    assert_int_equal(rnic_next_deadline(hand.device.rnic), hand.now + HAND_SILENCE_NS);
    end_post_send(&hand.end, WQE_RDMA_WRITE, 0, 100, &hand.device, 0);
    hand_pass(HAND_SILENCE_NS - 1);
    assert_int_equal(s->out_len, 0);
    hand_pass(1);
    assert_true(s->out_len > 0);
    hand_end_anew();
    s = hand_establish_plain();
    end_post_recv(&hand.end, 1, 0, 100);
    end_post_send(&hand.end, WQE_RDMA_WRITE, 0, 100, &hand.device, 0);
    hand_send(s, 1, 0x11, 4);
    hand_run();
    assert_true(s->out_len > 0);
}

/* ---- Sends without a receive ----------------------------------------------------------------- */

enum { STORE_LEN = 256, SEND_LEN = 100 };

static void come_sends(struct hand_stream *s, uint32_t first, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        hand_send(s, first + i, (uint8_t)(first + i), SEND_LEN);
    }
}

static void expect_sends(uint32_t first, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        end_post_recv(&hand.end, first + i, 0, SEND_LEN);
        hand_expect_received(first + i, 0, (uint8_t)(first + i), SEND_LEN);
    }
}

static struct rnic_config store_config(void)
{
    struct rnic_config config = hand_config();
    config.rnr_store_len = STORE_LEN;
    return config;
}

// Another stream's octets are read meanwhile, into the same buffer.
static void read_of_another(void)
{
    static const uint8_t data[RNIC_PRIVATE_DATA_MAX_LEN - MPA_ENHANCED_LEN];
    struct mpa_startup_frame request = hand_frame(MPA_REQUEST);
    request.private_data = span_of(data, sizeof data);
    struct hand_stream *s = hand_arrive();
    hand_say(s, &request);
    s->in_len--;
    hand_run();
    assert_int_equal(s->in_done, s->in_len);
}

// What was read lies aside; more is not read, so the peer's window closes.
static void sends_that_find_no_receive_stop_the_reading_until_they_have_one(void **state)
{
    const struct rnic_config config = store_config();
    hand_open_anew(&config, 0);
    struct hand_stream *s = hand_establish_plain();
    for (uint32_t first = 1, count = 6; count <= 24; first += count + 1, count *= 2) {
        come_sends(s, first, count);
        hand_run();
        assert_false(s->wants_in);
        assert_true(end_is_paused(&hand.end));
        const size_t read = s->in_done;
        hand_send(s, first + count, (uint8_t)(first + count), SEND_LEN);
        hand_run();
        assert_int_equal(s->in_done, read);
        read_of_another();
        expect_sends(first, count + 1);
        assert_true(s->wants_in);
        assert_false(end_is_paused(&hand.end));
        assert_int_equal(s->in_done, s->in_len);
    }
}

static void a_broken_stream_is_found_while_nobody_reads_it(void **state)
{
    const struct rnic_config config = store_config();
    hand_open_anew(&config, 0);
    struct hand_stream *s = hand_establish_plain();
    come_sends(s, 1, 6);
    hand_run();
    s->said = LINK_READY_OUT; // that is no end
    hand_run();
    assert_true(s->is_open);
    hand.link->result = -ETIMEDOUT;
    s->said = LINK_READY_ERR;
    hand_run();
    hand.link->result = 0;
    hand_expect_disconnected(s, "by_timeout", true);
}

static void a_send_that_waits_too_long_ends_the_stream(void **state)
{
    struct hand_stream *s = hand_establish_plain();
    const instant_ns come_ns = hand.now;
    hand_send(s, 1, 0x11, SEND_LEN);
    hand_run();
    assert_int_equal(rnic_next_deadline(hand.device.rnic), come_ns + 8 * NS_PER_S);
    hand_pass(8 * NS_PER_S - 1);
    assert_int_equal(s->out_len, 0);
    hand_pass(1);
    assert_true(s->out_len > 0); // its Terminate
    assert_true(s->is_shut);
}

/* ---- what the peer is still owed ------------------------------------------------------------- */

static void come_read_request(struct hand_stream *s, uint32_t len)
{
    uint8_t fpdu[256];
    const struct craft c = craft_read_request(1, hand.device.stag, (uintptr_t)hand.device.buf, len);
    hand_come(s, fpdu, raw_fpdu(fpdu, c.octets, c.len));
}

static void the_peers_end_waits_for_what_it_has_asked_for(void **state)
{
    struct hand_stream *s = hand_establish_plain();
    s->room = 0;
    come_read_request(s, 100);
    hand_run();
    assert_true(s->wants_out);
    s->end = 0;
    hand_run();
    assert_true(s->is_open);
    assert_false(s->wants_in);
    assert_false(end_has_event(&hand.end));
    s->room = SIZE_MAX;
    hand_run();
    assert_int_equal(s->out_len, mpa_fpdu_len(DDP_TAGGED_HEADER_LEN + 100));
    hand_expect_disconnected(s, "by_peer", false);
}

static struct hand_stream *send_unsettled(void)
{
    const struct rnic_config config = hand_config();
    hand_open_anew(&config, LINK_IS_OF_PROCESS);
    struct hand_stream *s = hand_establish_to_speak();
    s->unsettled = 1;
    end_post_send(&hand.end, WQE_RDMA_WRITE, 0, 100, &hand.device, 0);
    hand_run();
    assert_true(s->out_len > 0);
    hand_expect_no_completion();
    return s;
}

// Where TCP is the process's own, what it has taken is not there yet.
static void what_the_peer_has_not_acknowledged_is_not_complete(void **state)
{
    struct hand_stream *s = send_unsettled();
    s->said = LINK_READY_SETTLED;
    hand_run();
    hand_expect_no_completion();
    s->unsettled = 0;
    s->said = LINK_READY_SETTLED;
    hand_run();
    assert_int_equal(hand_completion().status, WC_SUCCESS);
}

static void the_peers_end_waits_for_its_acknowledgement(void **state)
{
    struct hand_stream *s = send_unsettled();
    s->end = 0;
    hand_run();
    assert_true(s->is_open);
    assert_false(s->wants_in);
    s->unsettled = 0;
    s->said = LINK_READY_SETTLED;
    hand_run();
    hand_expect_disconnected(s, "by_peer", false);
    assert_int_equal(hand_completion().status, WC_SUCCESS);
}

static void the_peers_end_may_be_its_acknowledgement(void **state)
{
    struct hand_stream *s = send_unsettled();
    s->unsettled = 0;
    s->end = 0;
    hand_run();
    hand_expect_disconnected(s, "by_peer", false);
    assert_int_equal(hand_completion().status, WC_SUCCESS);
}

static void what_was_acknowledged_before_a_reset_has_succeeded(void **state)
{
    for (unsigned left = 0; left < 2; left++) {
        struct hand_stream *s = send_unsettled();
        s->unsettled = left;
        s->end = -ECONNRESET;
        hand_run();
        hand_expect_disconnected(s, "by_reset", true);
        assert_int_equal(hand_completion().status, left ? WC_WR_FLUSH_ERR : WC_SUCCESS);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, hand_set_up, hand_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_journal_is_told_where_a_stream_leads),
        CASE(sends_come_in_whatever_pieces),
        CASE(much_comes_in_several_turns),
        CASE(what_ended_connections_have_counted_stays_in_the_totals),
        CASE(an_end_is_counted_by_what_the_link_says),
        CASE(an_end_in_sending_is_counted_likewise),
        CASE(a_disconnect_waits_for_what_was_posted_and_then_for_the_peer),
        CASE(a_peer_that_does_not_end_its_side_is_reset),
        CASE(a_queue_pair_that_is_reset_or_goes_ends_its_stream),
        CASE(an_endpoint_that_goes_resets_what_has_not_left),
        CASE(a_refused_stream_ends_behind_its_terminate),
        CASE(a_refused_stream_is_not_reset_before_its_terminate_is_there),
        CASE(a_write_leaves_in_segments_as_there_is_room),
        CASE(each_segment_is_a_record_of_the_links),
        CASE(a_responder_speaks_when_the_peer_has_or_is_silent_for_long),
        CASE(sends_that_find_no_receive_stop_the_reading_until_they_have_one),
        CASE(a_broken_stream_is_found_while_nobody_reads_it),
        CASE(a_send_that_waits_too_long_ends_the_stream),
        CASE(the_peers_end_waits_for_what_it_has_asked_for),
        CASE(what_the_peer_has_not_acknowledged_is_not_complete),
        CASE(the_peers_end_waits_for_its_acknowledgement),
        CASE(the_peers_end_may_be_its_acknowledgement),
        CASE(what_was_acknowledged_before_a_reset_has_succeeded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
