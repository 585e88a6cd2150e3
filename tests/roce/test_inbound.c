// A message as its packets arrive: what fits, where its octets go, and how its receive ends.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "cq/cq.h"
#include "roce/inbound.h"

enum { MEMORY_LEN = 4096, QP_NUM = 5, PMTU = 256, IMM = 0x1234, INV = 0x5678 };

static struct mem_table *mem;
static uint32_t key, other_key;
static _Alignas(64) uint8_t memory[MEMORY_LEN], octets[PMTU];
static struct cq *cq;
static struct wq_config config;
static struct wq_counters counters;
static struct wq wq;
static struct mem_asker asker;
static struct inbound in;

static int begin(void **state)
{
    uint8_t table_key[STAG_KEY_LEN] = {7};
    const uint32_t rights = MEM_ACCESS_LOCAL_WRITE | MEM_ACCESS_REMOTE_WRITE;
    asker = (struct mem_asker){.qp_num = QP_NUM};
    mem = mem_table_create(table_key, 64, (struct mem_probe){0});
    assert_int_equal(mem_pd_alloc(mem, &asker.pd), 0);
    assert_int_equal(
        mem_region_register(mem, asker.pd, memory, MEMORY_LEN, (uintptr_t)memory, rights, &key), 0);
    assert_int_equal(mem_region_register(mem, asker.pd, memory, MEMORY_LEN, (uintptr_t)memory,
                                         rights, &other_key),
                     0);
    cq = cq_create(8, (struct cq_port){0});
    config = (struct wq_config){
        .qp_num = QP_NUM,
        .pd = asker.pd,
        .caps = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
        .send_cq = cq,
        .recv_cq = cq,
        .mem = mem,
    };
    memset(&wq, 0, sizeof wq);
    counters = (struct wq_counters){0};
    assert_int_equal(wq_init(&wq, &config, &counters), 0);
    wq_begin(&wq);
    in = (struct inbound){0};
    memset(memory, 0, sizeof memory);
    for (unsigned i = 0; i < PMTU; i++) {
        octets[i] = (uint8_t)(i + 1);
    }
    return 0;
}

static int end(void **state)
{
    wq_fini(&wq);
    cq_destroy(cq);
    mem_table_destroy(mem);
    return 0;
}

static struct roce_packet packet_of(enum roce_operation operation, size_t len)
{
    return (struct roce_packet){
        .facts = roce_opcode_facts(ROCE_RC | operation),
        .reth = {.va = (uintptr_t)memory + 1000, .rkey = key, .dma_len = (uint32_t)len},
        .immdt = {.imm_data = IMM},
        .ieth = {.rkey = INV},
        .payload = span_of(octets, len),
    };
}

static void post_receive(uint64_t wr_id, uint32_t len)
{
    struct recv_wqe *wqe = wq_receive_slot(&wq, 0);
    assert_non_null(wqe);
    wqe->wr_id = wr_id;
    wqe->sge_count = 1;
    wqe->sge[0] = (struct sge){(uintptr_t)memory, len, key};
    wq_receive_commit(&wq, 1);
}

/* ---- checks ---------------------------------------------------------------------------------- */

static void a_packet_goes_on_with_what_is_open_or_begins(void **state)
{
    static const struct {
        bool is_open;
        enum roce_kind kind;
        enum roce_operation operation;
        bool is_in_order;
    } cases[] = {
        {false, ROCE_KIND_SEND, ROCE_SEND_FIRST, true},
        {false, ROCE_KIND_SEND, ROCE_SEND_LAST, false},
        {true, ROCE_KIND_SEND, ROCE_SEND_FIRST, false},
        {true, ROCE_KIND_SEND, ROCE_SEND_LAST, true},
        {true, ROCE_KIND_SEND, ROCE_WRITE_LAST, false},
        {true, ROCE_KIND_WRITE, ROCE_WRITE_MIDDLE, true},
        {true, ROCE_KIND_WRITE, ROCE_SEND_ONLY, false},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        in = (struct inbound){.is_open = cases[i].is_open, .kind = cases[i].kind};
        const struct roce_packet p = packet_of(cases[i].operation, 0);
        assert_int_equal(inbound_is_in_order(&in, &p), cases[i].is_in_order);
    }
}

static void a_packet_is_as_long_as_its_message_says(void **state)
{
    static const struct {
        const char *what;
        enum roce_operation operation;
        uint32_t len, dma_len;
        uint64_t arrived_len, length; // of the message that is open
        bool fits;
    } cases[] = {
        {"a Write in one packet", ROCE_WRITE_ONLY, 4, 4, 0, 0, true},
        {"... that says more", ROCE_WRITE_ONLY, 4, 5, 0, 0, false},
        {"... that says less", ROCE_WRITE_ONLY, 4, 3, 0, 0, false},
        {"... behind another", ROCE_WRITE_ONLY, 4, 4, 99, 500, true},
        {"a Write that goes on", ROCE_WRITE_FIRST, PMTU, PMTU + 1, 0, 0, true},
        {"... and is over", ROCE_WRITE_FIRST, PMTU, PMTU, 0, 0, false},
        {"... of the greatest length", ROCE_WRITE_FIRST, PMTU, 1U << 31, 0, 0, true},
        {"... longer", ROCE_WRITE_FIRST, PMTU, (1U << 31) + 1, 0, 0, false},
        {"the middle of a Write", ROCE_WRITE_MIDDLE, PMTU, 0, PMTU, 2 * PMTU + 1, true},
        {"... that would be its end", ROCE_WRITE_MIDDLE, PMTU, 0, PMTU, 2 * PMTU, false},
        {"the end of a Write", ROCE_WRITE_LAST, 44, 44, PMTU, PMTU + 44, true},
        {"... too early", ROCE_WRITE_LAST, 43, 43, PMTU, PMTU + 44, false},
        {"a Read", ROCE_READ_REQUEST, 0, 1U << 31, 0, 0, true},
        {"... that is too long", ROCE_READ_REQUEST, 0, (1U << 31) + 1, 0, 0, false},
        {"a Send behind a longer Write", ROCE_SEND_ONLY, 4, 0, 0, (1ULL << 31) + 1, true},
        {"a Send's middle", ROCE_SEND_MIDDLE, PMTU, 0, (1U << 31) - PMTU, 0, true},
        {"... that makes it too long", ROCE_SEND_MIDDLE, PMTU, 0, (1U << 31) - PMTU + 1, 0, false},
        {"more than the path takes", ROCE_SEND_ONLY, PMTU + 1, 0, 0, 0, false},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        in = (struct inbound){.arrived_len = cases[i].arrived_len, .length = cases[i].length};
        struct roce_packet p = packet_of(cases[i].operation, cases[i].len);
        p.reth.dma_len = cases[i].dma_len;
        if (inbound_fits(&in, &p, PMTU) != cases[i].fits) {
            fail_msg("%s", cases[i].what);
        }
    }
}

/* ---- Writes ---------------------------------------------------------------------------------- */

static unsigned placed_count;

static void place(void *ctx, uint8_t *to, struct span from)
{
    assert_ptr_equal(ctx, &in);
    memcpy(to, from.ptr, from.len);
    placed_count++;
}

static enum mem_verdict write_part(enum roce_operation operation, size_t len)
{
    static const struct inbound_placer placer = {place, &in};
    struct roce_packet p = packet_of(operation, len);
    enum mem_verdict verdict = MEM_OK;
    p.reth.dma_len = 2 * PMTU + 1;
    if (p.facts->begins) {
        assert_int_equal(inbound_check_memory(&in, &wq, asker, &p), MEM_OK);
    } else {
        p.reth = (struct reth){0}; // it has none
    }
    enum inbound_verdict placed = inbound_place(&in, &wq, asker, &p, &placer, &verdict);
    assert_int_equal(placed, verdict == MEM_OK ? INBOUND_OK : INBOUND_MEMORY);
    return verdict;
}

static void expect_written(size_t len)
{
    for (size_t i = 0; i < len; i++) {
        assert_int_equal(memory[1000 + i], octets[i % PMTU]);
    }
    assert_int_equal(memory[1000 + len], 0);
    assert_int_equal(memory[999], 0);
}

// Whatever else is taken back in between: then the key is looked up again.
static void a_write_goes_where_its_first_packet_says(void **state)
{
    for (unsigned changes = 0; changes < 2; changes++) {
        memset(memory, 0, sizeof memory);
        placed_count = 0;
        assert_int_equal(write_part(ROCE_WRITE_FIRST, PMTU), MEM_OK);
        if (changes == 1) {
            assert_int_equal(mem_region_deregister(mem, other_key), 0);
        }
        assert_int_equal(write_part(ROCE_WRITE_MIDDLE, PMTU), MEM_OK);
        assert_int_equal(write_part(ROCE_WRITE_LAST, 1), MEM_OK);
        expect_written(2 * PMTU + 1);
        assert_int_equal(placed_count, 3);
    }
}

static void a_write_ends_where_its_memory_is_taken_back(void **state)
{
    assert_int_equal(write_part(ROCE_WRITE_FIRST, PMTU), MEM_OK);
    assert_int_equal(mem_region_deregister(mem, key), 0);
    assert_int_equal(write_part(ROCE_WRITE_MIDDLE, PMTU), MEM_INVALID_STAG);
    expect_written(PMTU);
}

static void a_write_ends_where_the_queue_pair_denies_it(void **state)
{
    assert_int_equal(write_part(ROCE_WRITE_FIRST, PMTU), MEM_OK);
    asker.denied = MEM_ACCESS_REMOTE_WRITE;
    assert_int_not_equal(write_part(ROCE_WRITE_MIDDLE, PMTU), MEM_OK);
    expect_written(PMTU);
}

// What it holds of the Write before is none of its own.
static void a_read_leaves_the_place_of_a_write_alone(void **state)
{
    uint32_t read_key;
    assert_int_equal(mem_region_register(mem, asker.pd, memory, 64, (uintptr_t)memory,
                                         MEM_ACCESS_REMOTE_READ, &read_key),
                     0);
    assert_int_equal(write_part(ROCE_WRITE_FIRST, PMTU), MEM_OK);
    struct roce_packet p = packet_of(ROCE_READ_REQUEST, 0);
    p.reth = (struct reth){.va = (uintptr_t)memory, .rkey = read_key, .dma_len = 64};
    assert_int_equal(inbound_check_memory(&in, &wq, asker, &p), MEM_OK);
    assert_int_equal(write_part(ROCE_WRITE_MIDDLE, PMTU), MEM_OK);
    expect_written(2 * PMTU);
}

static void without_a_placer_octets_are_copied(void **state)
{
    struct roce_packet p = packet_of(ROCE_WRITE_ONLY, 100);
    enum mem_verdict verdict = MEM_OK;
    assert_int_equal(inbound_check_memory(&in, &wq, asker, &p), MEM_OK);
    assert_int_equal(inbound_place(&in, &wq, asker, &p, NULL, &verdict), INBOUND_OK);
    expect_written(100);
}

/* ---- receives -------------------------------------------------------------------------------- */

static void a_receive_is_told_what_its_last_packet_has(void **state)
{
    static const struct {
        enum roce_operation operation;
        bool is_close, has_reference;
        uint32_t opcode, flags, imm_or_inv;
    } cases[] = {
        {ROCE_SEND_ONLY, false, false, WC_RECV, 0, 0},
        {ROCE_SEND_ONLY_IMM, false, false, WC_RECV, WC_WITH_IMM, IMM},
        {ROCE_SEND_ONLY_INV, false, false, WC_RECV, WC_WITH_INV, INV},
        {ROCE_WRITE_ONLY_IMM, false, false, WC_RECV_RDMA_WITH_IMM, WC_WITH_IMM, IMM},
        {ROCE_SEND_ONLY_INV, true, true, WC_RECV, WC_WITH_INV | WC_CLOSED | WC_REFERENCE, INV},
        {ROCE_SEND_ONLY, true, false, WC_RECV, WC_CLOSED, 0},
        {ROCE_SEND_ONLY, false, true, WC_RECV, WC_REFERENCE, 0},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct roce_packet p = packet_of(cases[i].operation, 1);
        enum mem_verdict verdict = MEM_OK;
        struct cqe cqe;
        p.bth.solicited = i % 2 == 1;
        post_receive(70 + i, 100);
        assert_int_equal(inbound_check_memory(&in, &wq, asker, &p), MEM_OK);
        assert_true(inbound_claim(&in, &wq));
        assert_int_equal(inbound_place(&in, &wq, asker, &p, NULL, &verdict), INBOUND_OK);
        assert_true(in.is_open && !in.is_close && !in.has_reference);
        in.is_close = cases[i].is_close;
        in.has_reference = cases[i].has_reference;
        in.reference = 99;
        inbound_end(&in, &wq, &p);
        assert_false(in.is_open);
        assert_int_equal(cq_peek(cq, 0)->solicited, p.bth.solicited);
        assert_int_equal(cq_poll(cq, &cqe, 1), 1);
        assert_int_equal(cqe.wr_id, 70 + i);
        assert_int_equal(cqe.status, WC_SUCCESS);
        assert_int_equal(cqe.opcode, cases[i].opcode);
        assert_int_equal(cqe.byte_len, 1);
        assert_int_equal(cqe.wc_flags, cases[i].flags);
        if (!cases[i].has_reference) {
            assert_int_equal(cqe.imm_data, cases[i].imm_or_inv);
        }
        assert_int_equal(counters.recv_completions, i + 1);
    }
}

static void a_send_that_is_longer_than_its_receive_fails_it(void **state)
{
    struct roce_packet p = packet_of(ROCE_SEND_ONLY, 101);
    enum mem_verdict verdict = MEM_OK;
    struct cqe cqe;
    post_receive(7, 100);
    assert_true(inbound_claim(&in, &wq));
    assert_int_equal(inbound_place(&in, &wq, asker, &p, NULL, &verdict), INBOUND_TOO_LONG);
    inbound_fail(&in, &wq, WC_LOC_LEN_ERR);
    assert_int_equal(cq_poll(cq, &cqe, 1), 1);
    assert_int_equal(cqe.status, WC_LOC_LEN_ERR);
    assert_int_equal(counters.recv_errors, 1);
    assert_false(inbound_claim(&in, &wq)); // there is no other
}

static void a_message_that_is_flushed_is_not_gone_on_with(void **state)
{
    enum mem_verdict verdict = MEM_OK;
    struct cqe cqe;
    for (unsigned is_reset = 0; is_reset < 2; is_reset++) {
        struct roce_packet p = packet_of(ROCE_SEND_FIRST, PMTU);
        post_receive(7, 1000);
        assert_true(inbound_claim(&in, &wq));
        assert_int_equal(inbound_place(&in, &wq, asker, &p, NULL, &verdict), INBOUND_OK);
        (is_reset == 1 ? inbound_forget : inbound_flush)(&in, &wq);
        assert_false(in.is_open);
        assert_null(in.receive);
        assert_int_equal(cq_poll(cq, &cqe, 1), is_reset == 1 ? 0 : 1);
    }
}

#define TEST_OF(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_OF(a_packet_goes_on_with_what_is_open_or_begins),
        TEST_OF(a_packet_is_as_long_as_its_message_says),
        TEST_OF(a_write_goes_where_its_first_packet_says),
        TEST_OF(a_write_ends_where_its_memory_is_taken_back),
        TEST_OF(a_write_ends_where_the_queue_pair_denies_it),
        TEST_OF(a_read_leaves_the_place_of_a_write_alone),
        TEST_OF(without_a_placer_octets_are_copied),
        TEST_OF(a_receive_is_told_what_its_last_packet_has),
        TEST_OF(a_send_that_is_longer_than_its_receive_fails_it),
        TEST_OF(a_message_that_is_flushed_is_not_gone_on_with),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
