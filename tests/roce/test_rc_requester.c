// What leaves: packets of every kind of message at each path MTU, their PSNs, what asks for an
// acknowledgement, and what leaves again.
#include "congestion/window.h"
#include "roce/rc_internal.h"
#include "tests/roce/rc_end.h"
#include "wire/psn.h"

enum { PMTU = 256, WINDOW = CONGESTION_WINDOW_INITIAL, REMOTE_KEY = 0x1234 };

static const uint64_t remote = 0x100000;

/* ---- packets --------------------------------------------------------------------------------- */

static const struct kind {
    enum wqe_opcode opcode;
    uint8_t first, middle, last, only;
} kinds[] = {
    {WQE_SEND, ROCE_SEND_FIRST, ROCE_SEND_MIDDLE, ROCE_SEND_LAST, ROCE_SEND_ONLY},
    {WQE_SEND_WITH_IMM, ROCE_SEND_FIRST, ROCE_SEND_MIDDLE, ROCE_SEND_LAST_IMM, ROCE_SEND_ONLY_IMM},
    {WQE_SEND_WITH_INV, ROCE_SEND_FIRST, ROCE_SEND_MIDDLE, ROCE_SEND_LAST_INV, ROCE_SEND_ONLY_INV},
    {WQE_RDMA_WRITE, ROCE_WRITE_FIRST, ROCE_WRITE_MIDDLE, ROCE_WRITE_LAST, ROCE_WRITE_ONLY},
    {WQE_RDMA_WRITE_WITH_IMM, ROCE_WRITE_FIRST, ROCE_WRITE_MIDDLE, ROCE_WRITE_LAST_IMM,
     ROCE_WRITE_ONLY_IMM},
};

static void expect_headers(const struct roce_packet *p, uint32_t len)
{
    if (p->facts->headers & ROCE_HAS_RETH) {
        assert_int_equal(p->reth.va, remote);
        assert_int_equal(p->reth.rkey, REMOTE_KEY);
        assert_int_equal(p->reth.dma_len, len);
    }
    if (p->facts->headers & ROCE_HAS_IMMDT) {
        assert_int_equal(p->immdt.imm_data, 0xabcd);
    }
    if (p->facts->headers & ROCE_HAS_IETH) {
        assert_int_equal(p->ieth.rkey, 0xabcd);
    }
}

// The window is full: what has left so far arrived.
static void open_window(struct rc_end *e, uint32_t psn)
{
    if (e->count == 0) {
        rc_end_take_ack(e, psn - 1, AETH_SYNDROME_ACK);
    }
}

static void expect_message(struct rc_end *e, const struct kind *k, uint32_t pmtu, uint32_t len)
{
    uint32_t count = len == 0 ? 1 : (len + pmtu - 1) / pmtu;
    for (uint32_t i = 0; i < count; i++) {
        bool is_first = i == 0, is_last = i == count - 1;
        open_window(e, RC_END_PSN + i);
        uint8_t operation = is_first  ? (is_last ? k->only : k->first)
                            : is_last ? k->last
                                      : k->middle;
        const struct rc_end_packet *left = rc_end_left(e, operation, RC_END_PSN + i);
        size_t part = is_last ? len - i * pmtu : pmtu;
        assert_int_equal(left->p.payload.len, part);
        assert_memory_equal(left->p.payload.ptr, e->memory + i * pmtu, part);
        assert_true(!is_last || left->p.bth.ack_req);
        assert_int_equal(left->p.bth.solicited, is_last);
        expect_headers(&left->p, len);
    }
    rc_end_left_none(e);
    rc_end_take_ack(e, RC_END_PSN + count - 1, AETH_SYNDROME_ACK);
    rc_end_completed(e->send_cq, 1, WC_SUCCESS);
}

static void leave(const struct kind *k, uint32_t pmtu, uint32_t len)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = pmtu});
    for (uint32_t i = 0; i < len; i++) {
        e->memory[i] = (uint8_t)(i * 11 + (i >> 8));
    }
    struct send_wqe *wqe = rc_end_slot(e, 1, k->opcode);
    wqe->flags = WQE_SOLICITED;
    wqe->sge_count = 2;
    wqe->sge[0] = (struct sge){rc_end_addr(e, 0), len / 3, e->key};
    wqe->sge[1] = (struct sge){rc_end_addr(e, len / 3), len - len / 3, e->key};
    wqe->length = len;
    wqe->remote_addr = remote;
    wqe->rkey = REMOTE_KEY;
    wqe->imm_or_inv = 0xabcd;
    rc_end_commit(e);
    expect_message(e, k, pmtu, len);
    rc_end_close(e);
}

static void messages_leave_in_packets_of_the_path_mtu(void **state)
{
    for (uint32_t pmtu = 256; pmtu <= 4096; pmtu *= 2) {
        uint32_t lengths[] = {0,        1,        pmtu - 1,     pmtu,
                              pmtu + 1, 2 * pmtu, 3 * pmtu - 1, 17 * pmtu + 5};
        for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
            for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
                leave(&kinds[k], pmtu, lengths[i]);
            }
        }
    }
}

static void a_read_takes_a_psn_for_each_packet_of_its_answer(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU});
    rc_end_post(e, 1, WQE_RDMA_READ, 0, 7 * PMTU + 1, remote, REMOTE_KEY);
    rc_end_post(e, 2, WQE_RDMA_READ, 0, 0, remote, REMOTE_KEY);
    rc_end_post(e, 3, WQE_RDMA_WRITE, 0, 0, remote, REMOTE_KEY);
    assert_int_equal(rc_end_left(e, ROCE_READ_REQUEST, RC_END_PSN)->p.reth.dma_len, 7 * PMTU + 1);
    rc_end_left(e, ROCE_READ_REQUEST, RC_END_PSN + 8);
    rc_end_left(e, ROCE_WRITE_ONLY, RC_END_PSN + 9);
    rc_end_close(e);
}

static void a_long_read_is_several_to_the_peer(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU, .allotment_len = 1000});
    rc_end_post(e, 1, WQE_RDMA_READ, 0, 2500, remote, REMOTE_KEY);
    const struct rc_end_packet *left = rc_end_left(e, ROCE_READ_REQUEST, RC_END_PSN);
    assert_int_equal(left->p.reth.dma_len, 1000);
    left = rc_end_left(e, ROCE_READ_REQUEST, RC_END_PSN + 4);
    assert_int_equal(left->p.reth.va, remote + 1000);
    rc_end_close(e);
}

// However long: what it brings at a time is what the window bears, and all of it counts.
static void a_read_without_a_bound_is_bounded_by_the_window(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU});
    struct send_wqe *wqe = rc_end_slot(e, 1, WQE_RDMA_READ);
    wqe->sge_count = 0; // no list: it is never answered
    wqe->length = 1ULL << 31;
    wqe->rkey = REMOTE_KEY;
    rc_end_commit(e);
    const struct rc_end_packet *left = rc_end_left(e, ROCE_READ_REQUEST, RC_END_PSN);
    assert_int_equal(left->p.reth.dma_len, 16 * PMTU);
    rc_end_left_none(e);
    rc_end_close(e);
}

/* ---- the window ------------------------------------------------------------------------------ */

static void a_window_of_packets_leaves_and_asks_in_time(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU});
    rc_end_post(e, 1, WQE_RDMA_WRITE, 0, 200 * PMTU, remote, REMOTE_KEY);
    assert_int_equal(e->count, WINDOW);
    unsigned asked_count = 0;
    for (uint32_t i = 0; i < WINDOW; i++) {
        const struct rc_end_packet *left =
            rc_end_left(e, i == 0 ? ROCE_WRITE_FIRST : ROCE_WRITE_MIDDLE, RC_END_PSN + i);
        asked_count += left->p.bth.ack_req;
    }
    assert_true(asked_count >= 4);
    rc_end_take_ack(e, RC_END_PSN + 3, AETH_SYNDROME_ACK);
    assert_int_equal(e->count, 8); // as many again, and the window is as much larger
    rc_end_close(e);
}

// Posted at once: of those that another message follows at once, only each quarter of the window.
static void what_is_followed_by_a_message_asks_no_more_often_than_the_window_wants(void **state)
{
    static const struct {
        enum wqe_opcode opcodes[4];
        uint32_t flags; // of the last
        bool asks[4];
    } rows[] = {
        {{WQE_RDMA_WRITE, WQE_SEND, WQE_RDMA_WRITE, WQE_SEND}, 0, {false, true, false, true}},
        {{WQE_SEND, WQE_SEND, WQE_RDMA_WRITE, WQE_RDMA_READ}, 0, {false, true, true, true}},
        {{WQE_SEND, WQE_SEND, WQE_RDMA_WRITE, WQE_SEND}, WQE_FENCE, {false, true, true, true}},
    };
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU});
        for (unsigned i = 0; i < 4; i++) {
            struct send_wqe *wqe = rc_end_slot(e, i, rows[row].opcodes[i]);
            wqe->flags |= i == 3 ? rows[row].flags : 0;
            wqe->sge_count = 1;
            wqe->sge[0] = (struct sge){rc_end_addr(e, 0), 8, e->key};
            wqe->length = 8;
            wqe->remote_addr = remote;
            wqe->rkey = REMOTE_KEY;
            if (i < 3) {
                wq_send_commit(rc_wq(e->rc), 1);
            }
        }
        rc_end_commit(e);
        assert_int_equal(e->count, 4);
        for (unsigned i = 0; i < 4; i++) {
            assert_int_equal(e->packets[i].p.bth.ack_req, rows[row].asks[i]);
        }
        rc_end_close(e);
    }
}

// Whatever the interval is by then: 12 packets, of which every third asks.
static void the_packet_that_fills_the_window_asks(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU});
    rc_end_post(e, 1, WQE_RDMA_WRITE, 0, 200 * PMTU, remote, REMOTE_KEY);
    rc_end_take_ack(e, RC_END_PSN, AETH_SYNDROME_ACK);
    rc_end_take_ack(e, RC_END_PSN + 1, AETH_SYNDROME_ACK);
    assert_int_equal(e->count, 14);
    assert_true(e->packets[13].p.bth.ack_req);
    rc_end_close(e);
}

// A loss makes it smaller.
static void a_hole_makes_the_window_smaller(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU});
    rc_end_post(e, 1, WQE_RDMA_WRITE, 0, 200 * PMTU, remote, REMOTE_KEY);
    e->first = e->count = 0;
    rc_end_take_ack(e, RC_END_PSN, 0x60);
    assert_int_equal(e->count, 7);
    rc_end_close(e);
}

// Once the round trip is known.
// The peer's host has other work, and answers late: that is no queue, of which a smaller window
// would make less.
static void a_message_alone_leaves_at_once_however_late_those_before_were_answered(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){0});
    for (uint32_t i = 0; i < 40; i++) {
        rc_end_post(e, i, WQE_RDMA_WRITE, 0, 64, remote, REMOTE_KEY);
        rc_end_left(e, ROCE_WRITE_ONLY, (RC_END_PSN + i) & PSN_MASK);
        e->now += i % 5 == 0 ? 30 * NS_PER_US : 2 * NS_PER_MS;
        rc_end_take_ack(e, (RC_END_PSN + i) & PSN_MASK, AETH_SYNDROME_ACK);
        rc_end_completed(e->send_cq, i, WC_SUCCESS);
    }
    rc_end_close(e);
}

static void packets_leave_at_a_pace(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU});
    rc_end_post(e, 1, WQE_RDMA_WRITE, 0, 300 * PMTU, remote, REMOTE_KEY);
    e->now += 100 * NS_PER_US;
    e->first = e->count = 0;
    rc_end_take_ack(e, RC_END_PSN + WINDOW - 1, AETH_SYNDROME_ACK);
    unsigned at_once = e->count;
    assert_true(at_once < 2 * WINDOW);
    instant_ns next = e->t->ops->next_deadline(e->t);
    assert_true(next > e->now && next < e->now + 100 * NS_PER_US);
    rc_end_wait(e, e->now + 100 * NS_PER_US);
    assert_int_equal(e->count, 2 * WINDOW);
    rc_end_wait(e, e->now + 100 * NS_PER_US);
    assert_int_equal(e->count, 2 * WINDOW); // the window is full
    rc_end_close(e);
}

// Nor does what takes long there say anything of the window: there is no line.
static void nothing_is_paced_within_a_host(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU, .is_one_host = true});
    rc_end_post(e, 1, WQE_RDMA_WRITE, 0, 300 * PMTU, remote, REMOTE_KEY);
    e->now += 100 * NS_PER_US;
    e->first = e->count = 0;
    rc_end_take_ack(e, RC_END_PSN + WINDOW - 1, AETH_SYNDROME_ACK);
    assert_int_equal(e->count, 2 * WINDOW);
    rc_end_close(e);
}

// A thread that waited for its turn has an older time than those before it: no round trip is
// measured backwards, by which a pace would never end.
static void time_does_not_go_back(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU});
    e->now += 1000;
    rc_end_post(e, 1, WQE_RDMA_WRITE, 0, 4, remote, REMOTE_KEY);
    e->now -= 900;
    rc_end_take_ack(e, RC_END_PSN, AETH_SYNDROME_ACK);
    e->now += 2000;
    e->first = e->count = 0;
    rc_end_post(e, 2, WQE_RDMA_WRITE, 0, 50 * PMTU, remote, REMOTE_KEY);
    assert_int_equal(e->count, WINDOW);
    rc_end_close(e);
}

/* ---- marks of the network -------------------------------------------------------------------- */

static void take_marked(struct rc_end *e, uint8_t traffic_class)
{
    uint8_t octets[ROCE_HEAD_MAX_LEN];
    struct roce_packet p = rc_end_make(ROCE_WRITE_ONLY, RC_END_PSN);
    struct datagram_rx rx = {
        .local = rc_end_local,
        .remote = rc_end_remote,
        .traffic_class = traffic_class,
        .octets = span_of(octets, roce_head_emit(&p, octets)),
    };
    transport_take_packet(e->t, &rx, e->now);
    rc_end_output(e);
}

// The peer is told, once in a while; acknowledgements of the same packet come again.
static void a_marked_packet_is_told_to_the_peer(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU});
    take_marked(e, 2);
    rc_end_left_none(e);
    take_marked(e, 3);
    assert_int_equal(e->packets[0].p.bth.opcode, ROCE_CNP);
    assert_true(e->packets[0].p.bth.becn);
    assert_int_equal(e->packets[0].p.bth.psn, 0);
    take_marked(e, 3);
    const struct rc_counters *c = rc_end_counters(e);
    assert_int_equal(c->cnps_out, 1);
    assert_int_equal(c->marked_in, 2);
    e->now += 50 * NS_PER_US;
    take_marked(e, 3);
    assert_int_equal(c->cnps_out, 2);
    rc_end_close(e);
}

static void who_is_told_of_marks_sends_less(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU});
    uint8_t octets[ROCE_HEAD_MAX_LEN];
    struct roce_packet p = {.bth = {.opcode = ROCE_CNP, .becn = true, .pkey = BTH_PKEY_DEFAULT}};
    rc_end_take_octets(e, span_of(octets, roce_head_emit(&p, octets)));
    assert_int_equal(rc_end_counters(e)->cnps_in, 1);
    rc_end_post(e, 1, WQE_RDMA_WRITE, 0, 300 * PMTU, remote, REMOTE_KEY);
    assert_true(e->count < WINDOW);
    rc_end_close(e);
}

static void what_the_sink_has_no_room_for_leaves_later(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU});
    e->has_no_room = true;
    rc_end_post(e, 1, WQE_RDMA_WRITE, 0, 2 * PMTU, remote, REMOTE_KEY);
    rc_end_left_none(e);
    assert_true(e->t->ops->has_output(e->t));
    e->has_no_room = false;
    rc_end_output(e);
    rc_end_left(e, ROCE_WRITE_FIRST, RC_END_PSN);
    rc_end_left(e, ROCE_WRITE_LAST, RC_END_PSN + 1);
    assert_false(e->t->ops->has_output(e->t));
    rc_end_close(e);
}

static void a_read_that_the_sink_has_no_room_for_leaves_later(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU});
    e->has_no_room = true;
    rc_end_post(e, 1, WQE_RDMA_READ, 0, 2 * PMTU, remote, REMOTE_KEY);
    rc_end_left_none(e);
    e->has_no_room = false;
    rc_end_output(e);
    rc_end_left(e, ROCE_READ_REQUEST, RC_END_PSN);
    rc_end_left_none(e);
    rc_end_close(e);
}

// Of all that the program wants at once half a window; the other half is for the next one.
static void a_read_asks_for_half_of_a_window_that_has_grown(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU});
    rc_end_post(e, 1, WQE_RDMA_WRITE, 0, 70 * PMTU, remote, REMOTE_KEY);
    for (uint32_t psn = RC_END_PSN; psn < RC_END_PSN + 70; psn += e->count, e->count = 0) {
        rc_end_take_ack(e, psn - 1, AETH_SYNDROME_ACK);
        e->first = 0;
    }
    rc_end_take_ack(e, RC_END_PSN + 69, AETH_SYNDROME_ACK);
    const uint32_t window = congestion_window(&e->rc->req.congestion);
    assert_true(window >= 40);
    rc_end_post(e, 2, WQE_RDMA_READ, 0, 100 * PMTU, remote, REMOTE_KEY);
    const struct rc_end_packet *left = rc_end_left(e, ROCE_READ_REQUEST, RC_END_PSN + 70);
    assert_int_equal(left->p.reth.dma_len, window / 2 * PMTU);
    rc_end_close(e);
}

/* ---- again ----------------------------------------------------------------------------------- */

static void drop_all(struct rc_end *e)
{
    e->first = e->count = 0;
}

static void what_was_missed_leaves_again_and_all_behind_it(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU});
    rc_end_post(e, 1, WQE_SEND, 0, 5 * PMTU, 0, 0);
    rc_end_post(e, 2, WQE_RDMA_WRITE, 0, 2 * PMTU, remote, REMOTE_KEY);
    drop_all(e);
    e->memory[3 * PMTU] = 9; // the memory is looked at again
    rc_end_take_ack(e, RC_END_PSN + 3, 0x60);
    assert_int_equal(rc_end_left(e, ROCE_SEND_MIDDLE, RC_END_PSN + 3)->p.payload.ptr[0], 9);
    rc_end_left(e, ROCE_SEND_LAST, RC_END_PSN + 4);
    rc_end_left(e, ROCE_WRITE_FIRST, RC_END_PSN + 5);
    rc_end_left(e, ROCE_WRITE_LAST, RC_END_PSN + 6);
    rc_end_left_none(e);
    assert_int_equal(rc_end_counters(e)->requests_again, 4);
    assert_int_equal(rc_end_counters(e)->resumed_inside, 1);
    rc_end_take_ack(e, RC_END_PSN + 3, 0x60); // the net has it twice
    rc_end_left_none(e);
    assert_int_equal(rc_end_counters(e)->sequence_naks_in, 2);
    rc_end_take_ack(e, RC_END_PSN + 6, AETH_SYNDROME_ACK);
    rc_end_completed(e->send_cq, 1, WC_SUCCESS);
    rc_end_completed(e->send_cq, 2, WC_SUCCESS);
    rc_end_close(e);
}

// Once more after silence: what was sent again may have been lost again.
// There was room for sixteen at first, and the oldest of them have been answered.
static void more_messages_are_out_than_there_was_room_for_at_first(void **state)
{
    enum { FIRST = WINDOW, ALL = 3 * WINDOW };
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU, .retry_count = 7});
    for (uint32_t i = 0; i < ALL; i++) {
        rc_end_post(e, i, WQE_RDMA_WRITE, i, 4, remote + i, REMOTE_KEY);
    }
    assert_int_equal(e->count, FIRST);
    drop_all(e);
    rc_end_take_ack(e, RC_END_PSN + FIRST - 1, AETH_SYNDROME_ACK);
    for (unsigned again = 0; again < 2; again++) {
        for (uint32_t i = FIRST; i < ALL; i++) {
            const struct rc_end_packet *left = rc_end_left(e, ROCE_WRITE_ONLY, RC_END_PSN + i);
            assert_int_equal(left->p.reth.va, remote + i);
            if (again > 0) {
                rc_end_take_ack(e, RC_END_PSN + i, AETH_SYNDROME_ACK);
            }
        }
        if (again == 0) {
            rc_end_take_ack(e, RC_END_PSN + FIRST, 0x60);
        }
    }
    for (uint32_t i = 0; i < ALL; i++) {
        rc_end_completed(e->send_cq, i, WC_SUCCESS);
    }
    rc_end_close(e);
}

static void what_is_missed_again_after_silence_leaves_again(void **state)
{
    struct rc_end *e =
        rc_end_open(&(struct rc_end_options){.pmtu = PMTU, .timeout = 10, .retry_count = 7});
    rc_end_post(e, 1, WQE_SEND, 0, 4, 0, 0);
    drop_all(e);
    rc_end_take_ack(e, RC_END_PSN, 0x60);
    rc_end_left(e, ROCE_SEND_ONLY, RC_END_PSN);
    rc_end_take_ack(e, RC_END_PSN, 0x60);
    rc_end_left_none(e);
    rc_end_wait(e, e->now + (4096 << 10));
    rc_end_left(e, ROCE_SEND_ONLY, RC_END_PSN);
    rc_end_take_ack(e, RC_END_PSN, 0x60);
    rc_end_left(e, ROCE_SEND_ONLY, RC_END_PSN);
    rc_end_close(e);
}

static void answer_read(struct rc_end *e, uint8_t operation, uint32_t psn, size_t len)
{
    static const uint8_t octets[PMTU] = {1, 2, 3};
    struct roce_packet p = rc_end_make(operation, psn);
    p.aeth.syndrome = AETH_SYNDROME_ACK;
    rc_end_take(e, &p, octets, len);
}

static void a_read_is_asked_for_again_from_what_is_missing(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU});
    rc_end_post(e, 1, WQE_RDMA_READ, 0, 1000, remote, REMOTE_KEY);
    rc_end_left(e, ROCE_READ_REQUEST, RC_END_PSN);
    answer_read(e, ROCE_READ_RESPONSE_FIRST, RC_END_PSN, PMTU);
    answer_read(e, ROCE_READ_RESPONSE_MIDDLE, RC_END_PSN + 2, PMTU); // the second was lost
    const struct rc_end_packet *left = rc_end_left(e, ROCE_READ_REQUEST, RC_END_PSN + 1);
    assert_int_equal(left->p.reth.va, remote + PMTU);
    assert_int_equal(left->p.reth.dma_len, 1000 - PMTU);
    answer_read(e, ROCE_READ_RESPONSE_LAST, RC_END_PSN + 3, 1000 - 3 * PMTU);
    rc_end_left_none(e); // it has been asked for already
    answer_read(e, ROCE_READ_RESPONSE_FIRST, RC_END_PSN + 1, PMTU);
    answer_read(e, ROCE_READ_RESPONSE_MIDDLE, RC_END_PSN + 1, PMTU); // twice
    answer_read(e, ROCE_READ_RESPONSE_MIDDLE, RC_END_PSN + 2, PMTU);
    answer_read(e, ROCE_READ_RESPONSE_LAST, RC_END_PSN + 3, 1000 - 3 * PMTU);
    rc_end_completed(e->send_cq, 1, WC_SUCCESS);
    assert_int_equal(rc_end_counters(e)->answers_missed, 2);
    assert_int_equal(rc_end_counters(e)->dropped_old_answer, 1);
    rc_end_close(e);
}

// Who acknowledges what is behind a Read has answered it.
static void an_acknowledgement_behind_a_read_says_that_its_answer_was_lost(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU});
    rc_end_post(e, 1, WQE_SEND, 0, 4, 0, 0);
    rc_end_post(e, 2, WQE_RDMA_READ, 0, 4, remote, REMOTE_KEY);
    rc_end_post(e, 3, WQE_SEND, 0, 4, 0, 0);
    drop_all(e);
    rc_end_take_ack(e, RC_END_PSN + 2, AETH_SYNDROME_ACK);
    rc_end_completed(e->send_cq, 1, WC_SUCCESS);
    rc_end_completed_none(e->send_cq);
    rc_end_left(e, ROCE_READ_REQUEST, RC_END_PSN + 1);
    rc_end_left(e, ROCE_SEND_ONLY, RC_END_PSN + 2);
    answer_read(e, ROCE_READ_RESPONSE_ONLY, RC_END_PSN + 1, 4);
    rc_end_completed(e->send_cq, 2, WC_SUCCESS);
    rc_end_completed_none(e->send_cq);
    rc_end_take_ack(e, RC_END_PSN + 2, AETH_SYNDROME_ACK);
    rc_end_completed(e->send_cq, 3, WC_SUCCESS);
    rc_end_close(e);
}

// The answer to a Read acknowledges the messages before it.
static void an_answer_acknowledges_what_stands_before_it(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU});
    rc_end_post(e, 1, WQE_SEND, 0, 3 * PMTU, 0, 0);
    rc_end_post(e, 2, WQE_RDMA_READ, 0, 4, remote, REMOTE_KEY);
    answer_read(e, ROCE_READ_RESPONSE_ONLY, RC_END_PSN + 3, 4);
    rc_end_completed(e->send_cq, 1, WC_SUCCESS);
    rc_end_completed(e->send_cq, 2, WC_SUCCESS);
    rc_end_close(e);
}

static void a_fence_waits_for_the_answer(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU});
    rc_end_post(e, 1, WQE_RDMA_READ, 0, 4, remote, REMOTE_KEY);
    rc_end_left(e, ROCE_READ_REQUEST, RC_END_PSN);
    struct send_wqe *wqe = rc_end_slot(e, 2, WQE_SEND);
    wqe->flags = WQE_FENCE;
    rc_end_commit(e);
    rc_end_left_none(e);
    answer_read(e, ROCE_READ_RESPONSE_ONLY, RC_END_PSN, 4);
    rc_end_left(e, ROCE_SEND_ONLY, RC_END_PSN + 1);
    rc_end_close(e);
}

static void no_more_reads_are_out_than_the_peer_takes(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU, .max_rd_atomic = 2});
    for (unsigned i = 0; i < 4; i++) {
        rc_end_post(e, i, WQE_RDMA_READ, 0, 4, remote, REMOTE_KEY);
    }
    rc_end_left(e, ROCE_READ_REQUEST, RC_END_PSN);
    rc_end_left(e, ROCE_READ_REQUEST, RC_END_PSN + 1);
    rc_end_left_none(e);
    answer_read(e, ROCE_READ_RESPONSE_ONLY, RC_END_PSN, 4);
    rc_end_left(e, ROCE_READ_REQUEST, RC_END_PSN + 2);
    rc_end_left_none(e);
    rc_end_close(e);
}

/* ---- atomics --------------------------------------------------------------------------------- */

static void an_atomic_brings_what_was_there(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU});
    struct send_wqe *wqe = rc_end_slot(e, 1, WQE_ATOMIC_CMP_AND_SWP);
    wqe->sge_count = 1;
    wqe->sge[0] = (struct sge){rc_end_addr(e, 64), 8, e->key};
    wqe->length = 8;
    wqe->remote_addr = remote;
    wqe->rkey = REMOTE_KEY;
    wqe->compare_add = 7;
    wqe->swap = 8;
    rc_end_commit(e);
    const struct rc_end_packet *left = rc_end_left(e, ROCE_CMP_SWAP, RC_END_PSN);
    assert_int_equal(left->p.atomiceth.compare, 7);
    assert_int_equal(left->p.atomiceth.swap_add, 8);
    assert_int_equal(left->p.atomiceth.va, remote);
    struct roce_packet p = rc_end_make(ROCE_ATOMIC_ACKNOWLEDGE, RC_END_PSN);
    p.aeth.syndrome = AETH_SYNDROME_ACK;
    p.atomicacketh.original = 0x1122334455667788;
    rc_end_take(e, &p, "", 0);
    uint64_t word;
    memcpy(&word, e->memory + 64, sizeof word);
    assert_int_equal(word, 0x1122334455667788);
    rc_end_completed(e->send_cq, 1, WC_SUCCESS);
    rc_end_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_leave_in_packets_of_the_path_mtu),
        cmocka_unit_test(a_read_takes_a_psn_for_each_packet_of_its_answer),
        cmocka_unit_test(a_long_read_is_several_to_the_peer),
        cmocka_unit_test(a_read_without_a_bound_is_bounded_by_the_window),
        cmocka_unit_test(a_window_of_packets_leaves_and_asks_in_time),
        cmocka_unit_test(what_is_followed_by_a_message_asks_no_more_often_than_the_window_wants),
        cmocka_unit_test(the_packet_that_fills_the_window_asks),
        cmocka_unit_test(a_hole_makes_the_window_smaller),
        cmocka_unit_test(a_message_alone_leaves_at_once_however_late_those_before_were_answered),
        cmocka_unit_test(packets_leave_at_a_pace),
        cmocka_unit_test(nothing_is_paced_within_a_host),
        cmocka_unit_test(time_does_not_go_back),
        cmocka_unit_test(a_marked_packet_is_told_to_the_peer),
        cmocka_unit_test(who_is_told_of_marks_sends_less),
        cmocka_unit_test(what_the_sink_has_no_room_for_leaves_later),
        cmocka_unit_test(a_read_that_the_sink_has_no_room_for_leaves_later),
        cmocka_unit_test(a_read_asks_for_half_of_a_window_that_has_grown),
        cmocka_unit_test(what_was_missed_leaves_again_and_all_behind_it),
        cmocka_unit_test(more_messages_are_out_than_there_was_room_for_at_first),
        cmocka_unit_test(what_is_missed_again_after_silence_leaves_again),
        cmocka_unit_test(a_read_is_asked_for_again_from_what_is_missing),
        cmocka_unit_test(an_acknowledgement_behind_a_read_says_that_its_answer_was_lost),
        cmocka_unit_test(an_answer_acknowledges_what_stands_before_it),
        cmocka_unit_test(a_fence_waits_for_the_answer),
        cmocka_unit_test(no_more_reads_are_out_than_the_peer_takes),
        cmocka_unit_test(an_atomic_brings_what_was_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
