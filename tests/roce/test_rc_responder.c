// The responder's checks, packet by packet: what each refusal says to the peer, counts, raises, and
// leaves behind; and that what is right is done.
#include "roce/rc_internal.h"
#include "tests/roce/rc_end.h"

enum { LOCAL = 4096, LEN = 256 };

static uint8_t octets[8192];

static struct roce_packet write_packet(const struct rc_end *e, uint8_t operation, uint32_t psn,
                                       uint32_t dma_len)
{
    struct roce_packet p = rc_end_make(operation, psn);
    p.reth = (struct reth){rc_end_addr(e, LOCAL), e->key, dma_len};
    return p;
}

static struct roce_packet atomic_packet(const struct rc_end *e, uint32_t psn, size_t offset)
{
    struct roce_packet p = rc_end_make(ROCE_FETCH_ADD, psn);
    p.atomiceth = (struct atomiceth){rc_end_addr(e, offset), e->key, 1, 0};
    return p;
}

/* ---- refusals -------------------------------------------------------------------------------- */

// Each brings the packets that lead to the one refusal of its row, the last of them refused.

static uint32_t reserved_opcode(struct rc_end *e)
{
    struct roce_packet p = rc_end_make(ROCE_SEND_ONLY, RC_END_PSN);
    uint8_t buf[BTH_LEN];
    p.bth.opcode = 0x15;
    rc_end_take_octets(e, span_of(buf, bth_emit(&p.bth, buf)));
    return RC_END_PSN;
}

static uint32_t middle_without_first(struct rc_end *e)
{
    struct roce_packet p = rc_end_make(ROCE_SEND_MIDDLE, RC_END_PSN);
    rc_end_take(e, &p, octets, LEN);
    return RC_END_PSN;
}

static uint32_t first_inside_a_message(struct rc_end *e)
{
    struct roce_packet p = write_packet(e, ROCE_WRITE_FIRST, RC_END_PSN, 1000);
    rc_end_take(e, &p, octets, LEN);
    p.bth.psn++;
    rc_end_take(e, &p, octets, LEN);
    return RC_END_PSN + 1;
}

static uint32_t read_inside_a_message(struct rc_end *e)
{
    struct roce_packet p = write_packet(e, ROCE_WRITE_FIRST, RC_END_PSN, 1000);
    rc_end_take(e, &p, octets, LEN);
    p = write_packet(e, ROCE_READ_REQUEST, RC_END_PSN + 1, 10);
    rc_end_take(e, &p, octets, 0);
    return RC_END_PSN + 1;
}

static uint32_t last_of_another_kind(struct rc_end *e)
{
    struct roce_packet p = write_packet(e, ROCE_WRITE_FIRST, RC_END_PSN, 1000);
    rc_end_take(e, &p, octets, LEN);
    p = rc_end_make(ROCE_SEND_LAST, RC_END_PSN + 1);
    rc_end_take(e, &p, octets, 10);
    return RC_END_PSN + 1;
}

static uint32_t write_only_of(struct rc_end *e, uint32_t dma_len, size_t len)
{
    struct roce_packet p = write_packet(e, ROCE_WRITE_ONLY, RC_END_PSN, dma_len);
    rc_end_take(e, &p, octets, len);
    return RC_END_PSN;
}

static uint32_t right_write(struct rc_end *e)
{
    return write_only_of(e, 10, 10);
}

static uint32_t right_read(struct rc_end *e)
{
    struct roce_packet p = write_packet(e, ROCE_READ_REQUEST, RC_END_PSN, 10);
    rc_end_take(e, &p, octets, 0);
    return RC_END_PSN;
}

static uint32_t right_atomic(struct rc_end *e)
{
    struct roce_packet p = atomic_packet(e, RC_END_PSN, LOCAL);
    rc_end_take(e, &p, octets, 0);
    return RC_END_PSN;
}

static uint32_t write_shorter_than_it_said(struct rc_end *e)
{
    return write_only_of(e, 11, 10);
}

static uint32_t write_longer_than_it_said(struct rc_end *e)
{
    return write_only_of(e, 9, 10);
}

static uint32_t write_of_more_than_two_gigabytes(struct rc_end *e)
{
    struct roce_packet p = write_packet(e, ROCE_WRITE_FIRST, RC_END_PSN, (1U << 31) + 1);
    rc_end_take(e, &p, octets, LEN);
    return RC_END_PSN;
}

static uint32_t read_of_more_than_two_gigabytes(struct rc_end *e)
{
    struct roce_packet p = write_packet(e, ROCE_READ_REQUEST, RC_END_PSN, (1U << 31) + 1);
    rc_end_take(e, &p, octets, 0);
    return RC_END_PSN;
}

static uint32_t read_with_payload(struct rc_end *e)
{
    struct roce_packet p = write_packet(e, ROCE_READ_REQUEST, RC_END_PSN, 10);
    rc_end_take(e, &p, octets, 4);
    return RC_END_PSN;
}

static uint32_t first_shorter_than_the_path_mtu(struct rc_end *e)
{
    struct roce_packet p = write_packet(e, ROCE_WRITE_FIRST, RC_END_PSN, 1000);
    rc_end_take(e, &p, octets, LEN - 4);
    return RC_END_PSN;
}

static uint32_t only_longer_than_the_path_mtu(struct rc_end *e)
{
    return write_only_of(e, LEN + 1, LEN + 1);
}

static uint32_t last_of_no_octets(struct rc_end *e)
{
    struct roce_packet p = write_packet(e, ROCE_WRITE_FIRST, RC_END_PSN, 2 * LEN);
    rc_end_take(e, &p, octets, LEN);
    p = rc_end_make(ROCE_WRITE_LAST, RC_END_PSN + 1);
    rc_end_take(e, &p, octets, 0);
    return RC_END_PSN + 1;
}

// Its first packet would be all of it.
static uint32_t middle_that_goes_on_behind_the_end(struct rc_end *e)
{
    struct roce_packet p = write_packet(e, ROCE_WRITE_FIRST, RC_END_PSN, 2 * LEN);
    rc_end_take(e, &p, octets, LEN);
    p = rc_end_make(ROCE_WRITE_MIDDLE, RC_END_PSN + 1);
    rc_end_take(e, &p, octets, LEN);
    return RC_END_PSN + 1;
}

static uint32_t key_of_nothing(struct rc_end *e)
{
    struct roce_packet p = write_packet(e, ROCE_WRITE_ONLY, RC_END_PSN, 10);
    p.reth.rkey ^= 0x100;
    rc_end_take(e, &p, octets, 10);
    return RC_END_PSN;
}

// The whole of it is looked at before its first octet is written.
static uint32_t write_beyond_the_region(struct rc_end *e)
{
    struct roce_packet p = write_packet(e, ROCE_WRITE_FIRST, RC_END_PSN, RC_END_MEMORY_LEN);
    rc_end_take(e, &p, octets, LEN);
    assert_int_equal(e->memory[LOCAL], 0);
    return RC_END_PSN;
}

static uint32_t write_whose_key_is_taken_back_within(struct rc_end *e)
{
    struct roce_packet p = write_packet(e, ROCE_WRITE_FIRST, RC_END_PSN, 3 * LEN);
    rc_end_take(e, &p, octets, LEN);
    assert_int_equal(mem_region_deregister(e->mem, e->key), 0);
    p = rc_end_make(ROCE_WRITE_MIDDLE, RC_END_PSN + 1);
    rc_end_take(e, &p, octets, LEN);
    return RC_END_PSN + 1;
}

static uint32_t read_beyond_the_region(struct rc_end *e)
{
    struct roce_packet p = write_packet(e, ROCE_READ_REQUEST, RC_END_PSN, RC_END_MEMORY_LEN);
    rc_end_take(e, &p, octets, 0);
    return RC_END_PSN;
}

static uint32_t atomic_beyond_the_region(struct rc_end *e)
{
    struct roce_packet p = atomic_packet(e, RC_END_PSN, RC_END_MEMORY_LEN);
    rc_end_take(e, &p, octets, 0);
    return RC_END_PSN;
}

static uint32_t write_to_memory_that_is_not_there(struct rc_end *e)
{
    struct roce_packet p = write_packet(e, ROCE_WRITE_ONLY, RC_END_PSN, 10);
    uint32_t access = MEM_ACCESS_LOCAL_WRITE | MEM_ACCESS_REMOTE_WRITE | MEM_ACCESS_ON_DEMAND;
    assert_int_equal(mem_region_register(e->mem, e->pd, e->memory, RC_END_MEMORY_LEN,
                                         (uintptr_t)e->memory, access, &p.reth.rkey),
                     0);
    e->has_no_memory = true;
    rc_end_take(e, &p, octets, 10);
    return RC_END_PSN;
}

static uint32_t atomic_that_is_not_aligned(struct rc_end *e)
{
    struct roce_packet p = atomic_packet(e, RC_END_PSN, LOCAL + 4);
    rc_end_take(e, &p, octets, 0);
    return RC_END_PSN;
}

static uint32_t send_with_a_key_that_nobody_may_take_back(struct rc_end *e)
{
    struct roce_packet p = rc_end_make(ROCE_SEND_ONLY_INV, RC_END_PSN);
    p.ieth.rkey = e->key;
    rc_end_post_receive(e, 7, 0, 100);
    rc_end_take(e, &p, octets, 10);
    return RC_END_PSN;
}

static uint32_t send_longer_than_its_receive(struct rc_end *e)
{
    struct roce_packet p = rc_end_make(ROCE_SEND_ONLY, RC_END_PSN);
    rc_end_post_receive(e, 7, 0, 9);
    rc_end_take(e, &p, octets, 10);
    rc_end_completed(e->recv_cq, 7, WC_LOC_LEN_ERR);
    return RC_END_PSN;
}

static uint32_t send_into_memory_that_is_not_ours(struct rc_end *e)
{
    struct roce_packet p = rc_end_make(ROCE_SEND_ONLY, RC_END_PSN);
    uint32_t key = e->key;
    e->key ^= 0x100;
    rc_end_post_receive(e, 7, 0, 100);
    e->key = key;
    rc_end_take(e, &p, octets, 10);
    rc_end_completed(e->recv_cq, 7, WC_LOC_PROT_ERR);
    return RC_END_PSN;
}

static uint32_t reads_more_than_were_agreed_on(struct rc_end *e)
{
    struct roce_packet p = write_packet(e, ROCE_READ_REQUEST, RC_END_PSN, 10);
    e->has_no_room = true; // the answer to the first has not left
    rc_end_take(e, &p, octets, 0);
    p.bth.psn++;
    rc_end_take(e, &p, octets, 0);
    e->has_no_room = false;
    rc_end_output(e);
    rc_end_left(e, ROCE_READ_RESPONSE_ONLY, RC_END_PSN);
    return RC_END_PSN + 1;
}

static const struct refused {
    const char *name;
    uint32_t (*bring)(struct rc_end *e); // returns the PSN that is refused
    enum rc_refusal refusal;
    uint8_t syndrome;
    enum qp_event event; // QP_EVENT_COUNT: none, a completion tells
    struct rc_end_options options;
} refused[] = {
#define REFUSED(name, ...)       \
    {                            \
#name, name, __VA_ARGS__ \
    }
    REFUSED(reserved_opcode, RC_REFUSED_OPCODE, 0x61, QP_EVENT_REQ_ERR),
    REFUSED(middle_without_first, RC_REFUSED_ORDER, 0x61, QP_EVENT_REQ_ERR),
    REFUSED(first_inside_a_message, RC_REFUSED_ORDER, 0x61, QP_EVENT_REQ_ERR),
    REFUSED(read_inside_a_message, RC_REFUSED_ORDER, 0x61, QP_EVENT_REQ_ERR),
    REFUSED(last_of_another_kind, RC_REFUSED_ORDER, 0x61, QP_EVENT_REQ_ERR),
    REFUSED(right_write, RC_REFUSED_RIGHTS, 0x61, QP_EVENT_ACCESS_ERR,
            {.rights = MEM_ACCESS_REMOTE_READ | MEM_ACCESS_REMOTE_ATOMIC}),
    REFUSED(right_read, RC_REFUSED_RIGHTS, 0x61, QP_EVENT_ACCESS_ERR,
            {.rights = MEM_ACCESS_REMOTE_WRITE | MEM_ACCESS_REMOTE_ATOMIC}),
    REFUSED(right_atomic, RC_REFUSED_RIGHTS, 0x61, QP_EVENT_ACCESS_ERR,
            {.rights = MEM_ACCESS_REMOTE_WRITE | MEM_ACCESS_REMOTE_READ}),
    REFUSED(right_write, RC_REFUSED_RIGHTS, 0x61, QP_EVENT_ACCESS_ERR, {.has_no_rights = true}),
    REFUSED(reads_more_than_were_agreed_on, RC_REFUSED_TOO_MANY, 0x61, QP_EVENT_REQ_ERR,
            {.max_dest_rd_atomic = 1}),
    REFUSED(write_shorter_than_it_said, RC_REFUSED_LENGTH, 0x61, QP_EVENT_REQ_ERR),
    REFUSED(write_longer_than_it_said, RC_REFUSED_LENGTH, 0x61, QP_EVENT_REQ_ERR),
    REFUSED(write_of_more_than_two_gigabytes, RC_REFUSED_LENGTH, 0x61, QP_EVENT_REQ_ERR),
    REFUSED(read_of_more_than_two_gigabytes, RC_REFUSED_LENGTH, 0x61, QP_EVENT_REQ_ERR),
    REFUSED(read_with_payload, RC_REFUSED_LENGTH, 0x61, QP_EVENT_REQ_ERR),
    REFUSED(first_shorter_than_the_path_mtu, RC_REFUSED_LENGTH, 0x61, QP_EVENT_REQ_ERR),
    REFUSED(only_longer_than_the_path_mtu, RC_REFUSED_LENGTH, 0x61, QP_EVENT_REQ_ERR),
    REFUSED(last_of_no_octets, RC_REFUSED_LENGTH, 0x61, QP_EVENT_REQ_ERR),
    REFUSED(middle_that_goes_on_behind_the_end, RC_REFUSED_LENGTH, 0x61, QP_EVENT_REQ_ERR),
    REFUSED(key_of_nothing, RC_REFUSED_ACCESS, 0x62, QP_EVENT_ACCESS_ERR),
    REFUSED(write_beyond_the_region, RC_REFUSED_ACCESS, 0x62, QP_EVENT_ACCESS_ERR),
    REFUSED(write_whose_key_is_taken_back_within, RC_REFUSED_ACCESS, 0x62, QP_EVENT_ACCESS_ERR),
    REFUSED(read_beyond_the_region, RC_REFUSED_ACCESS, 0x62, QP_EVENT_ACCESS_ERR),
    REFUSED(atomic_beyond_the_region, RC_REFUSED_ACCESS, 0x62, QP_EVENT_ACCESS_ERR),
    REFUSED(write_to_memory_that_is_not_there, RC_REFUSED_UNMAPPED, 0x63, QP_EVENT_FATAL),
    REFUSED(atomic_that_is_not_aligned, RC_REFUSED_ALIGNMENT, 0x61, QP_EVENT_REQ_ERR),
    REFUSED(send_with_a_key_that_nobody_may_take_back, RC_REFUSED_INVALIDATE, 0x62,
            QP_EVENT_ACCESS_ERR),
    REFUSED(send_longer_than_its_receive, RC_REFUSED_TOO_LONG, 0x61, QP_EVENT_COUNT),
    REFUSED(send_into_memory_that_is_not_ours, RC_REFUSED_LOCAL, 0x63, QP_EVENT_COUNT),
#undef REFUSED
};

static uint32_t all_events(const struct rc_end *e)
{
    uint32_t count = 0;
    for (unsigned i = 0; i < QP_EVENT_COUNT; i++) {
        count += e->events[i];
    }
    return count;
}

static void each_is_refused_by_its_name(void **state)
{
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        const struct refused *r = &refused[i];
        print_message("# %s\n", r->name);
        struct rc_end *e = rc_end_open(&r->options);
        uint32_t psn = r->bring(e);
        rc_end_left_ack(e, psn, r->syndrome);
        rc_end_left_none(e);
        assert_int_equal(rc_end_counters(e)->refusals[r->refusal], 1);
        assert_int_equal(rc_end_state(e), QP_ERR);
        assert_int_equal(all_events(e), r->event == QP_EVENT_COUNT ? 0 : 1);
        assert_true(r->event == QP_EVENT_COUNT || e->events[r->event] == 1);
        rc_end_post_receive(e, 9, 0, 10); // and what is posted from here on is flushed
        struct cqe cqe;
        unsigned flushed_count = 0;
        while (cq_poll(e->recv_cq, &cqe, 1) == 1) {
            assert_int_equal(cqe.status, WC_WR_FLUSH_ERR);
            flushed_count++;
        }
        assert_true(flushed_count > 0);
        rc_end_close(e);
    }
}

// Until it has heard it; what it asks for is not done.
static void who_is_refused_is_told_again(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = 0});
    key_of_nothing(e);
    rc_end_left_ack(e, RC_END_PSN, 0x62);
    write_only_of(e, 10, 10);
    rc_end_left_ack(e, RC_END_PSN, 0x62);
    assert_int_equal(e->memory[LOCAL], 0);
    assert_int_equal(e->events[QP_EVENT_ACCESS_ERR], 1);
    rc_end_close(e);
}

// Neither a Read in the place of what was refused is answered, nor a Write before it acknowledged.
static void behind_a_refusal_nothing_new_is_answered(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = 0});
    struct roce_packet p = write_packet(e, ROCE_WRITE_ONLY, RC_END_PSN, 10);
    rc_end_take(e, &p, octets, 10);
    struct roce_packet wrong = write_packet(e, ROCE_WRITE_ONLY, RC_END_PSN + 1, 10);
    wrong.reth.rkey ^= 0x100;
    rc_end_take(e, &wrong, octets, 10);
    rc_end_left_ack(e, RC_END_PSN + 1, 0x62);
    struct roce_packet read = write_packet(e, ROCE_READ_REQUEST, RC_END_PSN + 1, 10);
    rc_end_take(e, &read, octets, 0);
    rc_end_left_ack(e, RC_END_PSN + 1, 0x62);
    rc_end_take(e, &p, octets, 10);
    rc_end_left_ack(e, RC_END_PSN + 1, 0x62);
    rc_end_left_none(e);
    rc_end_close(e);
}

/* ---- what stays as it was -------------------------------------------------------------------- */

static void a_hole_is_told_once(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = 0});
    struct roce_packet p = write_packet(e, ROCE_WRITE_ONLY, RC_END_PSN + 2, 10);
    rc_end_take(e, &p, octets, 10);
    rc_end_left_ack(e, RC_END_PSN, 0x60);
    p.bth.psn++;
    rc_end_take(e, &p, octets, 10);
    rc_end_left_none(e);
    assert_int_equal(rc_end_counters(e)->refusals[RC_REFUSED_SEQUENCE], 1);
    assert_int_equal(rc_end_counters(e)->dropped_hole, 1);
    p.bth.psn = RC_END_PSN; // what was missing
    rc_end_take(e, &p, octets, 10);
    rc_end_left_none(e);
    p.bth.psn = RC_END_PSN + 2; // another hole
    rc_end_take(e, &p, octets, 10);
    rc_end_left_ack(e, RC_END_PSN + 1, 0x60);
    assert_int_equal(rc_end_counters(e)->naks_out, 2);
    assert_int_equal(rc_end_counters(e)->acks_out, 0);
    assert_int_equal(rc_end_state(e), QP_RTS);
    rc_end_close(e);
}

static void a_send_without_a_receive_is_taken_later(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.min_rnr_timer = 12});
    struct roce_packet p = rc_end_make(ROCE_SEND_ONLY, RC_END_PSN);
    p.bth.ack_req = true;
    rc_end_take(e, &p, octets, 10);
    rc_end_left_ack(e, RC_END_PSN, 0x20 | 12);
    p.bth.psn++; // behind it: nothing is said
    rc_end_take(e, &p, octets, 10);
    rc_end_left_none(e);
    rc_end_post_receive(e, 7, 0, 100);
    p.bth.psn--;
    rc_end_take(e, &p, octets, 10);
    rc_end_left_ack(e, RC_END_PSN, AETH_SYNDROME_ACK);
    rc_end_completed(e->recv_cq, 7, WC_SUCCESS);
    assert_int_equal(rc_end_counters(e)->refusals[RC_REFUSED_NOT_READY], 1);
    rc_end_close(e);
}

// The receive is wanted at the end of a Write alone; then its last packet waits, not its octets.
static void a_write_with_immediate_waits_for_its_receive_at_its_end(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = 0});
    memset(octets, 5, sizeof octets);
    struct roce_packet p = write_packet(e, ROCE_WRITE_FIRST, RC_END_PSN, LEN + 4);
    rc_end_take(e, &p, octets, LEN);
    p = rc_end_make(ROCE_WRITE_LAST_IMM, RC_END_PSN + 1);
    p.immdt.imm_data = 0x01020304;
    rc_end_take(e, &p, octets, 4);
    rc_end_left_ack(e, RC_END_PSN + 1, 0x20);
    rc_end_post_receive(e, 7, 0, 0);
    rc_end_take(e, &p, octets, 4);
    struct cqe cqe;
    assert_int_equal(cq_poll(e->recv_cq, &cqe, 1), 1);
    assert_int_equal(cqe.opcode, WC_RECV_RDMA_WITH_IMM);
    assert_int_equal(cqe.byte_len, LEN + 4);
    assert_int_equal(cqe.imm_data, 0x01020304);
    assert_memory_equal(e->memory + LOCAL, octets, LEN + 4);
    rc_end_close(e);
}

static void only_what_asks_is_acknowledged_and_for_all_before(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = 0});
    for (unsigned i = 0; i < 20; i++) { // across the wrap
        struct roce_packet p = write_packet(e, ROCE_WRITE_ONLY, RC_END_PSN + i, 10);
        p.bth.ack_req = i == 19;
        rc_end_take(e, &p, octets, 10);
    }
    const struct rc_end_packet *left = rc_end_left(e, ROCE_ACKNOWLEDGE, RC_END_PSN + 19);
    assert_int_equal(aeth_kind(left->p.aeth.syndrome), AETH_ACK);
    assert_int_equal(left->p.aeth.msn, 20);
    assert_true(left->p.bth.mig_req);
    rc_end_left_none(e);
    assert_int_equal(rc_end_counters(e)->acks_out, 1);
    rc_end_close(e);
}

static void keys_mean_nothing_where_there_are_no_octets(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = 0});
    struct roce_packet p = write_packet(e, ROCE_WRITE_ONLY, RC_END_PSN, 0);
    p.reth.rkey = 0;
    p.bth.ack_req = true;
    rc_end_take(e, &p, octets, 0);
    rc_end_left_ack(e, RC_END_PSN, AETH_SYNDROME_ACK);
    p = write_packet(e, ROCE_READ_REQUEST, RC_END_PSN + 1, 0);
    p.reth.rkey = 0;
    rc_end_take(e, &p, octets, 0);
    assert_int_equal(rc_end_left(e, ROCE_READ_RESPONSE_ONLY, RC_END_PSN + 1)->p.payload.len, 0);
    rc_end_close(e);
}

static void a_send_wants_no_rights(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.has_no_rights = true});
    struct roce_packet p = rc_end_make(ROCE_SEND_ONLY, RC_END_PSN);
    rc_end_post_receive(e, 7, 0, 100);
    rc_end_take(e, &p, octets, 10);
    rc_end_completed(e->recv_cq, 7, WC_SUCCESS);
    rc_end_close(e);
}

// Whatever it asks for: its answer is an acknowledgement.
static void a_read_and_an_atomic_are_acknowledged_by_their_answers_alone(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = LEN});
    struct roce_packet p = write_packet(e, ROCE_READ_REQUEST, RC_END_PSN, 2 * LEN);
    p.bth.ack_req = true;
    rc_end_take(e, &p, octets, 0);
    rc_end_left(e, ROCE_READ_RESPONSE_FIRST, RC_END_PSN);
    rc_end_left(e, ROCE_READ_RESPONSE_LAST, RC_END_PSN + 1);
    p = atomic_packet(e, RC_END_PSN + 2, LOCAL);
    p.bth.ack_req = true;
    rc_end_take(e, &p, octets, 0);
    rc_end_left(e, ROCE_ATOMIC_ACKNOWLEDGE, RC_END_PSN + 2);
    rc_end_left_none(e);
    assert_int_equal(rc_end_counters(e)->acks_out, 0);
    rc_end_close(e);
}

// It counts messages, not packets, and has as many bits as a PSN.
static void messages_are_counted_in_twenty_four_bits(void **state)
{
    static const struct {
        uint8_t operation;
        uint32_t msn;
    } rows[] = {
        {ROCE_WRITE_ONLY, 0xffffff}, {ROCE_WRITE_FIRST, 0xffffff}, {ROCE_WRITE_MIDDLE, 0xffffff},
        {ROCE_WRITE_LAST, 0},        {ROCE_WRITE_ONLY, 1},
    };
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = LEN});
    e->rc->resp.msn = 0xfffffe;
    for (uint32_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bool is_one = rows[i].operation == ROCE_WRITE_ONLY;
        struct roce_packet p =
            write_packet(e, rows[i].operation, RC_END_PSN + i, is_one ? LEN : 3 * LEN);
        p.bth.ack_req = true;
        rc_end_take(e, &p, octets, LEN);
        assert_int_equal(rc_end_left(e, ROCE_ACKNOWLEDGE, RC_END_PSN + i)->p.aeth.msn, rows[i].msn);
    }
    rc_end_close(e);
}

// An acknowledgement of all before it says less.
static void a_duplicate_does_not_silence_that_there_is_no_receive(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.min_rnr_timer = 12});
    struct roce_packet p = write_packet(e, ROCE_WRITE_ONLY, RC_END_PSN, 10);
    rc_end_take(e, &p, octets, 10);
    e->has_no_room = true;
    struct roce_packet send = rc_end_make(ROCE_SEND_ONLY, RC_END_PSN + 1);
    rc_end_take(e, &send, octets, 10);
    rc_end_take(e, &p, octets, 10); // the net has it twice
    e->has_no_room = false;
    rc_end_output(e);
    rc_end_left_ack(e, RC_END_PSN + 1, 0x20 | 12);
    rc_end_left_none(e);
    rc_end_close(e);
}

// What comes behind is kept, and the peer is not to send what it was told to wait with.
static void a_weft_end_without_a_receive_says_so_and_not_that_there_is_a_hole(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.min_rnr_timer = 12});
    const uint32_t psn = RC_END_PSN + RC_END_GREETINGS;
    rc_end_meet(e);
    struct roce_packet p = rc_end_make(ROCE_SEND_ONLY, psn);
    rc_end_take(e, &p, octets, 10);
    rc_end_left_ack(e, psn, 0x20 | 12);
    p.bth.psn = psn + 1;
    rc_end_take(e, &p, octets, 10);
    rc_end_left_none(e);
    rc_end_post_receive(e, 7, 0, 100);
    p.bth.psn = psn;
    rc_end_take(e, &p, octets, 10);
    rc_end_completed(e->recv_cq, 7, WC_SUCCESS);
    rc_end_left_ack(e, psn + 1, 0x20 | 12); // and now the one that was kept has none
    rc_end_close(e);
}

/* ---- what is dropped ------------------------------------------------------------------------- */

static void deliver_from(struct rc_end *e, struct in6_addr local, struct in6_addr remote)
{
    struct roce_packet p = write_packet(e, ROCE_WRITE_ONLY, RC_END_PSN, 4);
    uint8_t buf[ROCE_HEAD_MAX_LEN + 4] = {0};
    size_t len = roce_head_emit(&p, buf) + 4;
    struct datagram_rx rx = {.local = local, .remote = remote, .octets = span_of(buf, len)};
    transport_take_packet(e->t, &rx, e->now);
}

static void what_is_not_of_the_peer_is_dropped_and_counted(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = 0});
    struct roce_packet p = write_packet(e, ROCE_WRITE_ONLY, RC_END_PSN, 4);
    const struct rc_counters *c = rc_end_counters(e);
    deliver_from(e, rc_end_local, rc_end_local);
    deliver_from(e, rc_end_remote, rc_end_remote);
    assert_int_equal(c->dropped_address, 2);
    p.bth.pkey = 0x1234;
    rc_end_take(e, &p, octets, 4);
    assert_int_equal(c->dropped_partition, 1);
    p.bth.pkey = 0x7fff; // a limited member of the same one is no stranger
    rc_end_take(e, &p, octets, 4);
    assert_int_equal(c->dropped_partition, 1);
    p.bth.opcode = ROCE_UC | ROCE_WRITE_ONLY;
    rc_end_take(e, &p, octets, 4);
    assert_int_equal(c->dropped_service, 1);
    rc_end_take_octets(e, span_of(octets, BTH_LEN - 1));
    assert_int_equal(c->dropped_malformed, 1);
    rc_end_left_none(e);
    rc_end_close(e);
}

static void nothing_is_taken_before_ready_to_receive(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.state = QP_INIT});
    deliver_from(e, rc_end_local, rc_end_remote);
    rc_end_output(e);
    assert_int_equal(rc_end_counters(e)->dropped_state, 1);
    rc_end_left_none(e);
    rc_end_modify(e, QP_RTR);
    deliver_from(e, rc_end_local, rc_end_remote);
    assert_int_equal(rc_end_counters(e)->dropped_state, 1);
    assert_int_equal(e->events[QP_EVENT_COMM_EST], 1);
    deliver_from(e, rc_end_local, rc_end_remote);
    assert_int_equal(e->events[QP_EVENT_COMM_EST], 1);
    struct roce_packet ack = rc_end_make(ROCE_ACKNOWLEDGE, RC_END_PSN);
    rc_end_take(e, &ack, octets, 0); // answers to nothing
    assert_int_equal(rc_end_counters(e)->dropped_state, 2);
    rc_end_close(e);
}

static void after_a_reset_the_peer_is_news_again(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.state = QP_RTR});
    for (unsigned life = 1; life <= 2; life++) {
        deliver_from(e, rc_end_local, rc_end_remote);
        deliver_from(e, rc_end_local, rc_end_remote);
        assert_int_equal(e->events[QP_EVENT_COMM_EST], life);
        rc_end_modify(e, QP_RESET);
        const struct qp_change again = {.mask = QP_CHANGE_STATE | QP_CHANGE_RIGHTS |
                                                QP_CHANGE_PATH | QP_CHANGE_DEST_QP_NUM |
                                                QP_CHANGE_RQ_PSN,
                                        .state = QP_INIT,
                                        .rights = MEM_ACCESS_REMOTE_WRITE,
                                        .path = {.local = rc_end_local, .remote = rc_end_remote},
                                        .dest_qp_num = RC_END_PEER,
                                        .rq_psn = RC_END_PSN};
        assert_int_equal(e->t->ops->modify(e->t, &again, e->now), 0);
        rc_end_modify(e, QP_RTR);
    }
    rc_end_close(e);
}

static void the_memory_of_a_write_is_looked_up_once(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = LEN});
    const uint64_t before = mem_table_verdict_count(e->mem, MEM_OK);
    struct roce_packet p = write_packet(e, ROCE_WRITE_FIRST, RC_END_PSN, 3 * LEN);
    for (uint32_t i = 0; i < 3; i++) {
        memset(octets, (int)i + 1, LEN);
        rc_end_take(e, &p, octets, LEN);
        assert_int_equal(e->memory[LOCAL + i * LEN], i + 1);
        p = rc_end_make(i == 0 ? ROCE_WRITE_MIDDLE : ROCE_WRITE_LAST, RC_END_PSN + 1 + i);
    }
    assert_int_equal(mem_table_verdict_count(e->mem, MEM_OK), before + 1);
    rc_end_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_memory_of_a_write_is_looked_up_once),
        cmocka_unit_test(each_is_refused_by_its_name),
        cmocka_unit_test(who_is_refused_is_told_again),
        cmocka_unit_test(behind_a_refusal_nothing_new_is_answered),
        cmocka_unit_test(a_hole_is_told_once),
        cmocka_unit_test(a_send_without_a_receive_is_taken_later),
        cmocka_unit_test(a_write_with_immediate_waits_for_its_receive_at_its_end),
        cmocka_unit_test(only_what_asks_is_acknowledged_and_for_all_before),
        cmocka_unit_test(keys_mean_nothing_where_there_are_no_octets),
        cmocka_unit_test(a_send_wants_no_rights),
        cmocka_unit_test(a_read_and_an_atomic_are_acknowledged_by_their_answers_alone),
        cmocka_unit_test(messages_are_counted_in_twenty_four_bits),
        cmocka_unit_test(a_duplicate_does_not_silence_that_there_is_no_receive),
        cmocka_unit_test(a_weft_end_without_a_receive_says_so_and_not_that_there_is_a_hole),
        cmocka_unit_test(what_is_not_of_the_peer_is_dropped_and_counted),
        cmocka_unit_test(nothing_is_taken_before_ready_to_receive),
        cmocka_unit_test(after_a_reset_the_peer_is_news_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
