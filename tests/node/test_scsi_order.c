// The task set of a SCSI unit: which tasks are carried out beside which (SAM-5 section 8).
#include "tests/node/scsi_stage.h"

static struct scsi_task tasks[4];

// A read of one block, whose address is the task's number, by either initiator.
static void begin(unsigned i, unsigned initiator, enum scsi_attribute attribute)
{
    tasks[i] = (struct scsi_task){.nexus = &stage->nexuses[initiator],
                                  .cdb = {0x28, [5] = (uint8_t)i, [8] = 1},
                                  .attribute = (uint8_t)attribute,
                                  .in_max = 512};
    task_execute(&tasks[i], 0);
}

// What was asked of the volume since the last time, with what was told that its turn has come.
static void expect_asked(const char *trace)
{
    if (stage->turns > 0) {
        stage->turns = 0;
        scsi_target_go_on(stage->target, 0);
    }
    assert_string_equal(stage->trace, trace);
    stage->trace[0] = '\0';
}

static void simple_tasks_go_side_by_side(void **state)
{
    stage->holds = true;
    begin(0, 0, SCSI_SIMPLE);
    begin(1, 1, SCSI_UNTAGGED);
    expect_asked("read 0+1\nread 1+1\n");
    stage_release();
    stage_release();
    assert_int_equal(stage->ended, 2);
}

static void what_is_ordered_waits_for_all_before_it_and_all_behind_it_wait(void **state)
{
    stage->holds = true;
    begin(0, 0, SCSI_SIMPLE);
    begin(1, 1, SCSI_ORDERED); // the set is that of all initiators
    begin(2, 0, SCSI_SIMPLE);
    begin(3, 0, SCSI_ORDERED);
    expect_asked("read 0+1\n");
    stage_release();
    expect_asked("read 1+1\n");
    stage_release();
    expect_asked("read 2+1\n");
    stage_release();
    expect_asked("read 3+1\n");
    stage_release();
    assert_int_equal(stage->ended, 4);
}

static void heads_of_the_queue_go_first(void **state)
{
    stage->holds = true;
    begin(0, 0, SCSI_SIMPLE);
    begin(1, 0, SCSI_ORDERED);
    begin(2, 1, SCSI_HEAD_OF_QUEUE);
    expect_asked("read 0+1\nread 2+1\n");
    stage_release();
    expect_asked(""); // the head is under way
    begin(3, 0, SCSI_SIMPLE);
    stage_release();
    expect_asked("read 1+1\n");
    stage_release();
    expect_asked("read 3+1\n");
    stage_release();
    begin(0, 0, SCSI_HEAD_OF_QUEUE);
    begin(1, 0, SCSI_SIMPLE);
    expect_asked("read 0+1\n");
    stage_release();
    expect_asked("read 1+1\n");
    stage_release();
}

// One that begins and ends at once lets the next one begin.
static void what_waits_begins_in_order(void **state)
{
    stage->holds = true;
    begin(0, 0, SCSI_SIMPLE);
    begin(1, 0, SCSI_ORDERED);
    begin(2, 1, SCSI_ORDERED);
    begin(3, 0, SCSI_SIMPLE);
    stage->holds = false;
    stage_release();
    expect_asked("read 0+1\nread 1+1\nread 2+1\nread 3+1\n");
    assert_int_equal(stage->ended, 4);
}

static void what_waits_and_is_aborted_keeps_nobody_waiting(void **state)
{
    stage->holds = true;
    begin(0, 0, SCSI_SIMPLE);
    begin(1, 0, SCSI_ORDERED);
    begin(2, 1, SCSI_SIMPLE);
    task_abort(&tasks[1], 0);
    assert_int_equal(stage->ended, 1);
    expect_asked("read 0+1\nread 2+1\n");
    begin(3, 0, SCSI_ORDERED);
    nexus_reset_unit(&stage->nexuses[1], 0);
    assert_int_equal(stage->ended, 2);
    stage_release();
    stage_release();
    expect_asked("");
}

static void what_is_aborted_while_it_is_made_stable_is_not_read(void **state)
{
    stage->holds = true;
    stage_begin(&tasks[0], 0, CDB(0x28, 8, [8] = 1), 512, 0); // FUA
    expect_asked("flush 0+0\n");
    task_abort(&tasks[0], 0);
    stage_release();
    expect_asked("");
    assert_int_equal(stage->ended, 1);
}

// A reader that is slow to take its data has done with the unit.
static void what_is_delivered_keeps_nobody_waiting(void **state)
{
    stage->holds_delivery = true;
    begin(0, 0, SCSI_SIMPLE);
    begin(1, 1, SCSI_ORDERED);
    assert_int_equal(stage->ended, 0);
    expect_asked("read 0+1\nread 1+1\n");
    task_delivered(&tasks[0], true, 0);
    task_delivered(&tasks[1], true, 0);
}

static void who_asks_what_it_is_waits_for_nobody(void **state)
{
    stage->holds = true;
    begin(0, 0, SCSI_ORDERED);
    stage_begin(&tasks[1], 1, CDB(0x12, [4] = 96), 96, 0);
    assert_int_equal(stage->in_len, 96);
    stage_release();
}

static void other_attributes_are_refused(void **state)
{
    for (unsigned attribute = 4; attribute < 8; attribute++) {
        begin(0, 0, (enum scsi_attribute)attribute);
        assert_int_equal(tasks[0].fault, FAULT_ATTRIBUTE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(simple_tasks_go_side_by_side),
        STAGE_TEST(what_is_ordered_waits_for_all_before_it_and_all_behind_it_wait),
        STAGE_TEST(heads_of_the_queue_go_first),
        STAGE_TEST(what_waits_begins_in_order),
        STAGE_TEST(what_waits_and_is_aborted_keeps_nobody_waiting),
        STAGE_TEST(what_is_aborted_while_it_is_made_stable_is_not_read),
        STAGE_TEST(what_is_delivered_keeps_nobody_waiting),
        STAGE_TEST(who_asks_what_it_is_waits_for_nobody),
        STAGE_TEST(other_attributes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
