// Preemptible partial reads between nodes of InfiniBand: what leaves are RDMA READ Requests, each
// of them whole to the peer, which knows nothing of weft. Two queue pairs share the read contexts
// of their device; the peer's answers are made by hand.
#include "tests/roce/rc_end.h"
#include "wire/psn.h"
#include "wq/read_sched.h"
#include "wq/status.h"

enum {
    PMTU = 256,
    ALLOTMENT = 2 * PMTU,
    REMOTE_KEY = 0x1234567,
    COUNT = 2,
};

static const uint64_t remote = 0x7000;

// The answers so far, by which the next PSN is known.
struct device {
    struct read_sched *sched;
    struct rc_end *end[COUNT];
    uint32_t psn[COUNT];
    uint32_t asked[COUNT]; // octets that the request asks for which was taken last
    uint64_t from[COUNT];  // ... and where
};

static struct device open_device(uint32_t contexts, uint32_t allotment_len)
{
    struct device d = {.sched = read_sched_create(contexts, 1)};
    assert_non_null(d.sched);
    read_sched_set_quantum(d.sched, ALLOTMENT);
    for (unsigned i = 0; i < COUNT; i++) {
        d.end[i] = rc_end_open(&(struct rc_end_options){
            .pmtu = PMTU, .allotment_len = allotment_len, .read_sched = d.sched});
        d.psn[i] = RC_END_PSN;
    }
    return d;
}

static void close_device(struct device *d)
{
    for (unsigned i = 0; i < COUNT; i++) {
        rc_end_close(d->end[i]);
    }
    read_sched_destroy(d->sched);
}

static struct read_sched_counters counters(const struct device *d)
{
    return *read_sched_counters(d->sched);
}

// A Read or an atomic of queue pair `i`.
static void post(struct device *d, unsigned i, enum wqe_opcode opcode, uint32_t len)
{
    rc_end_post(d->end[i], i, opcode, 0, len, remote, REMOTE_KEY);
}

// The request that has left queue pair `i` is for so many octets.
static void asked(struct device *d, unsigned i, uint64_t from, uint32_t len)
{
    rc_end_output(d->end[i]);
    const struct roce_packet *p = &rc_end_left(d->end[i], ROCE_READ_REQUEST, d->psn[i])->p;
    assert_int_equal(p->reth.va, from);
    assert_int_equal(p->reth.rkey, REMOTE_KEY);
    assert_int_equal(p->reth.dma_len, len);
    d->asked[i] = len;
    d->from[i] = from;
}

static void asked_nothing(struct device *d, unsigned i)
{
    rc_end_output(d->end[i]);
    rc_end_left_none(d->end[i]);
}

// What lies at the peer.
static uint8_t octet_at(uint64_t addr)
{
    return (uint8_t)(addr * 7 + addr / 256);
}

// The peer answers the request of queue pair `i`, packet by packet.
static void answer(struct device *d, unsigned i)
{
    uint32_t count = (d->asked[i] + PMTU - 1) / PMTU;
    for (uint32_t k = 0; k < count; k++) {
        uint8_t operation = count == 1       ? ROCE_READ_RESPONSE_ONLY
                            : k == 0         ? ROCE_READ_RESPONSE_FIRST
                            : k == count - 1 ? ROCE_READ_RESPONSE_LAST
                                             : ROCE_READ_RESPONSE_MIDDLE;
        struct roce_packet p = rc_end_make(operation, d->psn[i]++);
        uint8_t octets[PMTU];
        size_t len = k == count - 1 ? d->asked[i] - k * PMTU : PMTU;
        for (size_t at = 0; at < len; at++) {
            octets[at] = octet_at(d->from[i] + k * PMTU + at);
        }
        rc_end_take(d->end[i], &p, octets, len);
    }
}

static void answer_atomic(struct device *d, unsigned i, uint64_t original)
{
    struct roce_packet p = rc_end_make(ROCE_ATOMIC_ACKNOWLEDGE, d->psn[i]++);
    p.atomicacketh.original = original;
    rc_end_take(d->end[i], &p, "", 0);
}

// It is complete, with the octets of the peer.
static void read_is_complete(struct device *d, unsigned i, uint32_t len)
{
    rc_end_completed(d->end[i]->send_cq, i, WC_SUCCESS);
    for (uint32_t at = 0; at < len; at++) {
        assert_int_equal(d->end[i]->memory[at], octet_at(remote + at));
    }
}

// Claims 9 and 21: the request of the program names the total; 10 and 22: the first request and the
// subsidiary ones are RDMA READ commands, which together ask for just that.
static void a_read_is_a_first_request_and_subsidiary_ones(void **state)
{
    const uint32_t len = 3 * ALLOTMENT + 100;
    struct device d = open_device(1, ALLOTMENT);
    post(&d, 0, WQE_RDMA_READ, len);
    for (uint32_t done = 0; done < len; done += ALLOTMENT) {
        asked(&d, 0, remote + done, len - done < ALLOTMENT ? len - done : ALLOTMENT);
        asked_nothing(&d, 0); // the one context is taken
        rc_end_completed_none(d.end[0]->send_cq);
        answer(&d, 0);
    }
    read_is_complete(&d, 0, len);
    assert_int_equal(counters(&d).first_requests, 1);
    assert_int_equal(counters(&d).subsidiary_requests, 3);
    close_device(&d);
}

// Claim 25: the context of a Read that is not complete is taken, another queue pair's request is
// issued with it, and the Read goes on.
static void a_context_is_taken_used_for_another_and_the_read_goes_on(void **state)
{
    const uint32_t len = 3 * ALLOTMENT;
    struct device d = open_device(1, ALLOTMENT);
    post(&d, 0, WQE_RDMA_READ, len);
    asked(&d, 0, remote, ALLOTMENT);
    post(&d, 1, WQE_RDMA_READ, 64);
    asked_nothing(&d, 1);
    answer(&d, 0); // in part
    asked_nothing(&d, 0);
    asked(&d, 1, remote, 64);
    answer(&d, 1);
    read_is_complete(&d, 1, 64);
    asked(&d, 0, remote + ALLOTMENT, ALLOTMENT);
    answer(&d, 0);
    asked(&d, 0, remote + 2 * ALLOTMENT, ALLOTMENT);
    answer(&d, 0);
    read_is_complete(&d, 0, len);
    assert_int_equal(counters(&d).preemptions, 1);
    assert_int_equal(counters(&d).reactivations, 1);
    assert_int_equal(counters(&d).continuations, 1);
    close_device(&d);
}

// The second request is of another type, and of another queue (claims 6 and 18, on these nodes).
static void a_context_is_taken_for_an_atomic(void **state)
{
    struct device d = open_device(1, ALLOTMENT);
    post(&d, 0, WQE_RDMA_READ, 2 * ALLOTMENT);
    asked(&d, 0, remote, ALLOTMENT);
    post(&d, 1, WQE_ATOMIC_FETCH_AND_ADD, 8);
    asked_nothing(&d, 1);
    answer(&d, 0);
    rc_end_output(d.end[1]);
    rc_end_left(d.end[1], ROCE_FETCH_ADD, RC_END_PSN);
    asked_nothing(&d, 0);
    answer_atomic(&d, 1, 5);
    rc_end_completed(d.end[1]->send_cq, 1, WC_SUCCESS);
    asked(&d, 0, remote + ALLOTMENT, ALLOTMENT);
    close_device(&d);
}

// Undivided the window still cuts, but no context is taken.
static void an_undivided_read_keeps_its_context(void **state)
{
    struct device d = open_device(1, 0);
    const uint32_t part_len = 16 * PMTU, len = 3 * part_len;
    post(&d, 0, WQE_RDMA_READ, len);
    post(&d, 1, WQE_RDMA_READ, 64);
    for (uint32_t done = 0; done < len; done += d.asked[0]) {
        asked_nothing(&d, 1);
        rc_end_output(d.end[0]);
        d.asked[0] = rc_end_peek(d.end[0])->p.reth.dma_len;
        assert_true(d.asked[0] >= part_len);
        asked(&d, 0, remote + done, d.asked[0]);
        answer(&d, 0);
    }
    read_is_complete(&d, 0, len);
    asked(&d, 1, remote, 64);
    assert_int_equal(counters(&d).preemptions, 0);
    close_device(&d);
}

static void wish(struct device *d, uint32_t len)
{
    for (unsigned i = 0; i < COUNT; i++) {
        d->end[i]->t->ops->wish_allotment(d->end[i]->t, len, false, ALLOTMENT_OPERATOR,
                                          d->end[i]->now);
    }
}

// Requests that are out keep the allotment under which they were made.
static void another_allotment_holds_from_the_next_request_on(void **state)
{
    struct device d = open_device(1, ALLOTMENT);
    post(&d, 0, WQE_RDMA_READ, 4 * ALLOTMENT);
    asked(&d, 0, remote, ALLOTMENT);
    wish(&d, PMTU);
    answer(&d, 0);
    asked(&d, 0, remote + ALLOTMENT, PMTU);
    wish(&d, 2 * ALLOTMENT);
    answer(&d, 0);
    asked(&d, 0, remote + ALLOTMENT + PMTU, 2 * ALLOTMENT);
    assert_int_equal(d.end[0]->t->ops->query(d.end[0]->t).request_len, 2 * ALLOTMENT);
    assert_int_equal(rc_end_counters(d.end[0])->allotment_changes, 2);
    answer(&d, 0);
    asked(&d, 0, remote + 3 * ALLOTMENT + PMTU, ALLOTMENT - PMTU);
    answer(&d, 0);
    read_is_complete(&d, 0, 4 * ALLOTMENT);
    close_device(&d);
}

// A gigabyte, of which the list has room for the first parts.
static void post_gigabyte(struct device *d)
{
    struct send_wqe *wqe = rc_end_slot(d->end[0], 0, WQE_RDMA_READ);
    wqe->sge_count = 1;
    wqe->sge[0] = (struct sge){rc_end_addr(d->end[0], 0), RC_END_MEMORY_LEN, d->end[0]->key};
    wqe->length = 1U << 30;
    wqe->remote_addr = remote;
    wqe->rkey = REMOTE_KEY;
    rc_end_commit(d->end[0]);
}

static void post_read_with(struct device *d, uint32_t flags)
{
    struct send_wqe *wqe = rc_end_slot(d->end[0], 0, WQE_RDMA_READ);
    wqe->flags = flags;
    wqe->sge_count = 1;
    wqe->sge[0] = (struct sge){rc_end_addr(d->end[0], 0), 8, d->end[0]->key};
    wqe->length = 8;
    wqe->remote_addr = 8;
    wqe->rkey = REMOTE_KEY;
    rc_end_commit(d->end[0]);
}

// At the default number of contexts, on one queue pair.
static void an_atomic_does_not_wait_for_a_gigabyte(void **state)
{
    struct device d = open_device(128, ALLOTMENT);
    post_gigabyte(&d);
    asked(&d, 0, remote, ALLOTMENT);
    post(&d, 0, WQE_ATOMIC_FETCH_AND_ADD, 8);
    rc_end_left(d.end[0], ROCE_FETCH_ADD, RC_END_PSN + ALLOTMENT / PMTU);
    answer(&d, 0);
    answer_atomic(&d, 0, 5);
    asked(&d, 0, remote + ALLOTMENT, ALLOTMENT);
    rc_end_completed_none(d.end[0]->send_cq); // in the order of posting
    close_device(&d);
}

static void a_later_read_passes_if_its_program_says_so(void **state)
{
    for (unsigned passes = 0; passes < 2; passes++) {
        struct device d = open_device(128, ALLOTMENT);
        post_gigabyte(&d);
        asked(&d, 0, remote, ALLOTMENT);
        post_read_with(&d, passes ? WQE_MAY_PASS : 0);
        answer(&d, 0);
        const uint64_t next = remote + ALLOTMENT;
        asked(&d, 0, passes ? 8 : next, passes ? 8 : ALLOTMENT);
        close_device(&d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_read_is_a_first_request_and_subsidiary_ones),
        cmocka_unit_test(a_context_is_taken_used_for_another_and_the_read_goes_on),
        cmocka_unit_test(a_context_is_taken_for_an_atomic),
        cmocka_unit_test(an_undivided_read_keeps_its_context),
        cmocka_unit_test(another_allotment_holds_from_the_next_request_on),
        cmocka_unit_test(an_atomic_does_not_wait_for_a_gigabyte),
        cmocka_unit_test(a_later_read_passes_if_its_program_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
