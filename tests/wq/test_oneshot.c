// The command table of a queue pair by the calls that a program and a transport make.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/port_journal.h"
#include "wq/wq.h"

enum { MEMORY_LEN = 4096, COMMAND_MAX = 2, QP_NUM = 5, REFERENCE = 77 };

static const struct oneshot_config table = {
    .command_max = COMMAND_MAX,
    .element_max = 3,
    .request = {.offset = 8, .len = 8},
    .answer = {.offset = 8, .len = 8},
};

static struct {
    struct mem_table *mem;
    uint32_t pd;
    uint8_t memory[MEMORY_LEN];
    struct cq *cq;
    struct wq_config config;
    struct wq_counters counters;
    struct wq wq;
    struct journal_record last; // that was put into the journal
} it;

static void note(struct journal *journal, const struct journal_record *record)
{
    (void)journal;
    it.last = *record;
}

static struct journal journal = {.put = note};

static int open_queue(void **state)
{
    const uint8_t key[STAG_KEY_LEN] = {7};
    memset(&it, 0, sizeof it);
    it.mem = mem_table_create(key, 64, (struct mem_probe){0});
    assert_int_equal(mem_pd_alloc(it.mem, &it.pd), 0);
    it.cq = cq_create(16, (struct cq_port){0});
    it.config = (struct wq_config){
        .qp_num = QP_NUM,
        .pd = it.pd,
        .caps = {.max_send_wr = 8, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
        .send_cq = it.cq,
        .recv_cq = it.cq,
        .mem = it.mem,
        .journal = &journal,
    };
    assert_int_equal(wq_init(&it.wq, &it.config, &it.counters), 0);
    wq_begin(&it.wq);
    assert_int_equal(wq_oneshot_create(&it.wq, &table), 0);
    return 0;
}

static int close_queue(void **state)
{
    assert_true(wq_check(&it.wq, 0));
    wq_fini(&it.wq);
    cq_destroy(it.cq);
    mem_table_destroy(it.mem);
    return 0;
}

// As a front does it; all of the memory.
static struct oneshot_command *post(void)
{
    struct oneshot_command *command = wq_oneshot_slot(&it.wq);
    struct send_wqe *wqe = wq_send_slot(&it.wq, 0);
    assert_non_null(command);
    assert_non_null(wqe);
    command->list.elements[0].octets = mspan_of(it.memory, MEMORY_LEN);
    mem_list_init(&command->list, command->list.elements, 1);
    command->length = MEMORY_LEN;
    command->access = MEM_ACCESS_REMOTE_READ;
    command->reference = REFERENCE;
    *wqe = (struct send_wqe){.opcode = WQE_SEND};
    wq_oneshot_commit(&it.wq, wqe);
    wq_send_commit(&it.wq, 1);
    return command;
}

// As a transport does it when the Send starts; the STag that it puts into the message.
static uint32_t start(const struct oneshot_command *expected)
{
    struct transport_work work;
    assert_int_equal(wq_next(&it.wq, &work), TRANSPORT_MESSAGE);
    const struct oneshot_command *command = oneshot_open(&it.wq, wq_send_at(&it.wq, work.handle));
    assert_ptr_equal(command, expected);
    wq_message_put(&it.wq, 1);
    return command->stag;
}

static bool is_open(uint32_t stag)
{
    struct oneshot_command *command;
    return oneshot_find(&it.wq, stag, &command) == MEM_OK;
}

static void expect_record(enum journal_kind kind, uint32_t stag)
{
    assert_int_equal(it.last.kind, kind);
    assert_int_equal(it.last.qp_num, QP_NUM);
    assert_int_equal(it.last.key, stag);
    assert_int_equal(it.last.wr_id, REFERENCE);
    assert_int_equal(it.last.len, MEMORY_LEN);
}

static void a_command_is_open_from_the_start_of_its_send_until_it_is_closed(void **state)
{
    struct oneshot_command *command = post(), *found;
    assert_false(is_open(command->stag));
    uint32_t stag = start(command);
    assert_int_equal(oneshot_find(&it.wq, stag, &found), MEM_OK);
    assert_ptr_equal(found, command);
    assert_true(wq_check(&it.wq, 0));
    oneshot_close_by_peer(&it.wq, command);
    assert_false(is_open(stag));
    assert_true(wq_check(&it.wq, 0));
    assert_int_equal(it.counters.oneshot_advertised, 1);
    assert_int_equal(it.counters.oneshot_closed, 1);
}

static void what_was_closed_may_be_posted_again_with_another_stag(void **state)
{
    struct oneshot_command *first = post(), *second = post();
    assert_ptr_not_equal(first, second);
    uint32_t stag = start(first);
    start(second);
    assert_null(wq_oneshot_slot(&it.wq)); // all are out
    oneshot_close_by_peer(&it.wq, first);
    assert_ptr_equal(wq_oneshot_slot(&it.wq), first);
    assert_int_not_equal(first->stag, stag);
    oneshot_detach_all(&it.wq);
    assert_int_equal(it.counters.oneshot_detached, 1); // the other
}

static void lending_and_closing_are_recorded(void **state)
{
    struct oneshot_command *command = post();
    uint32_t stag = start(command);
    expect_record(JOURNAL_STAG_LENT, stag);
    oneshot_close_by_peer(&it.wq, command);
    expect_record(JOURNAL_STAG_CLOSED, stag);
}

static void what_is_revoked_is_closed_and_recorded_as_taken_back(void **state)
{
    uint32_t stag = start(post());
    assert_int_equal(wq_oneshot_revoke(&it.wq, stag), 0);
    expect_record(JOURNAL_STAG_TAKEN_BACK, stag);
    assert_false(is_open(stag));
    assert_int_equal(wq_oneshot_revoke(&it.wq, stag), -EINVAL);
    assert_int_equal(it.counters.oneshot_revoked, 1);
}

static void a_command_whose_send_never_starts_is_free_again(void **state)
{
    for (unsigned i = 0; i < 3 * COMMAND_MAX; i++) {
        post();
        wq_flush_sends(&it.wq);
    }
    assert_int_equal(it.counters.oneshot_advertised, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_queue, close_queue)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_command_is_open_from_the_start_of_its_send_until_it_is_closed),
        TEST(what_was_closed_may_be_posted_again_with_another_stag),
        TEST(lending_and_closing_are_recorded),
        TEST(what_is_revoked_is_closed_and_recorded_as_taken_back),
        TEST(a_command_whose_send_never_starts_is_free_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
