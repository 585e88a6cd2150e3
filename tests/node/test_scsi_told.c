// What initiators of a SCSI unit are told: sense data of each fault, what comes unasked, who ends
// their tasks, and reservations, which are the volume's own.
#include "tests/node/scsi_stage.h"

enum { TEST_READY = 0x00, REQUEST_SENSE = 0x03, INQUIRY = 0x12 };

/* ---- sense data, and what is told unasked ---------------------------------------------------- */

static const struct {
    enum scsi_fault fault;
    uint8_t key, asc, ascq;
} failures[] = {
    {FAULT_NONE, 0, 0, 0},
    {FAULT_OPCODE, 5, 0x20, 0},
    {FAULT_CDB_FIELD, 5, 0x24, 0},
    {FAULT_ATTRIBUTE, 5, 0x49, 0},
    {FAULT_LIST_FIELD, 5, 0x26, 0},
    {FAULT_LIST_LENGTH, 5, 0x1a, 0},
    {FAULT_LBA, 5, 0x21, 0},
    {FAULT_NO_UNIT, 5, 0x25, 0},
    {FAULT_STANDBY, 2, 0x04, 0x0b},
    {FAULT_SAVING, 5, 0x39, 0},
    {FAULT_WRITE_PROTECTED, 7, 0x27, 0},
    {FAULT_NO_SPACE, 7, 0x27, 7},
    {FAULT_READ, 3, 0x11, 0},
    {FAULT_WRITE, 3, 0x0c, 0},
    {FAULT_MISCOMPARE, 0xe, 0x1d, 0},
    {FAULT_DATA_DIGEST, 0xb, 0x47, 5},
    {FAULT_TRANSFER, 0xb, 0x4b, 0},
    {FAULT_UNSOLICITED, 0xb, 0x0c, 0x0c},
    {FAULT_AMOUNT, 0xb, 0x0c, 0x0d},
    {FAULT_PART_OF_A_BLOCK, 0x5, 0x0e, 0x03},
    {FAULT_TIMED_OUT, 0xb, 0x2e, 2},
    {FAULT_INTERNAL, 4, 0x44, 0},
    {FAULT_POWER_ON, 6, 0x29, 0},
    {FAULT_RESET, 6, 0x29, 3},
    {FAULT_CLEARED, 6, 0x2f, 0},
    {FAULT_CAPACITY_CHANGED, 6, 0x2a, 9},
    {FAULT_MODE_CHANGED, 6, 0x2a, 1},
    {FAULT_UNITS_CHANGED, 6, 0x3f, 0x0e},
    {FAULT_RELEASE, 5, 0x26, 4},
    {FAULT_REGISTRATIONS, 5, 0x55, 4},
    {FAULT_PREEMPTED, 6, 0x2a, 3},
    {FAULT_RELEASED, 6, 0x2a, 4},
    {FAULT_REGISTRATIONS_PREEMPTED, 6, 0x2a, 5},
};

static void each_fault_has_the_sense_data_of_spc_4(void **state)
{
    assert_int_equal(sizeof failures / sizeof failures[0], FAULT_COUNT);
    for (unsigned i = 0; i < FAULT_COUNT; i++) {
        const struct scsi_task task = {.nexus = &stage->nexuses[0], .fault = failures[i].fault};
        const uint8_t fixed[SCSI_SENSE_FIXED_LEN] = {
            0x70, [2] = failures[i].key, [7] = 10, [12] = failures[i].asc, failures[i].ascq};
        uint8_t sense[SCSI_SENSE_EMIT_MAX];
        memset(sense, 0x5a, sizeof sense);
        assert_int_equal(task_sense_emit(&task, sense), sizeof fixed);
        assert_memory_equal(sense, fixed, sizeof fixed);
    }
}

static void expect_sense(const struct scsi_sense *sense, bool in_descriptors, const void *octets,
                         uint32_t len)
{
    uint8_t emitted[SCSI_SENSE_EMIT_MAX];
    memset(emitted, 0x5a, sizeof emitted);
    assert_int_equal(scsi_sense_emit(emitted, sense, in_descriptors), len);
    assert_memory_equal(emitted, octets, len);
}

#define EXPECT_SENSE(sense, in_descriptors, ...)                    \
    do {                                                            \
        static const uint8_t octets[] = {__VA_ARGS__};              \
        expect_sense(sense, in_descriptors, octets, sizeof octets); \
    } while (0)

// SPC-4 sections 4.5.2 and 4.5.3. More than 32 bits of information have no place in the fixed
// format.
static void what_is_known_of_a_failure_is_told_in_either_format(void **state)
{
    const struct scsi_sense field = {
        .fault = FAULT_CDB_FIELD, .has_field = true, .field = 9, .bit = 2};
    EXPECT_SENSE(&field, false, 0x70, 0, 5, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x24, 0, 0, 0xca, 0, 9);
    EXPECT_SENSE(&field, true, 0x72, 5, 0x24, 0, 0, 0, 0, 8, 2, 6, 0, 0, 0xca, 0, 9, 0);
    struct scsi_sense both = {.fault = FAULT_MISCOMPARE,
                              .has_information = true,
                              .information = 0x01020304,
                              .has_field = true,
                              .field = 1};
    EXPECT_SENSE(&both, false, 0xf0, 0, 14, 1, 2, 3, 4, 10, 0, 0, 0, 0, 0x1d, 0, 0, 0xc8, 0, 1);
    EXPECT_SENSE(&both, true, 0x72, 14, 0x1d, 0, 0, 0, 0, 20, 0, 10, 0x80, 0, 0, 0, 0, 0, 1, 2, 3,
                 4, 2, 6, 0, 0, 0xc8, 0, 1, 0);
    both.information = UINT64_C(0x100000000);
    EXPECT_SENSE(&both, false, 0x70, 0, 14, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x1d, 0, 0, 0xc8, 0, 1);
}

static const struct {
    enum scsi_attention attention;
    enum scsi_fault fault;
} attentions[] = {
    {SCSI_ATTENTION_POWER_ON, FAULT_POWER_ON},
    {SCSI_ATTENTION_RESET, FAULT_RESET},
    {SCSI_ATTENTION_CLEARED, FAULT_CLEARED},
    {SCSI_ATTENTION_CAPACITY, FAULT_CAPACITY_CHANGED},
    {SCSI_ATTENTION_UNITS, FAULT_UNITS_CHANGED},
    {SCSI_ATTENTION_MODE, FAULT_MODE_CHANGED},
    {SCSI_ATTENTION_PREEMPTED, FAULT_PREEMPTED},
    {SCSI_ATTENTION_RELEASED, FAULT_RELEASED},
    {SCSI_ATTENTION_REGISTRATIONS, FAULT_REGISTRATIONS_PREEMPTED},
};

static void what_is_told_unasked_is_told_once_and_in_order(void **state)
{
    assert_int_equal(sizeof attentions / sizeof attentions[0], SCSI_ATTENTION_COUNT);
    stage->nexuses[0].attentions = (1U << SCSI_ATTENTION_COUNT) - 1;
    assert_int_equal(stage_run(CDB(INQUIRY, [4] = 96), 96, 0), SCSI_GOOD); // leaves them
    for (unsigned i = 0; i < SCSI_ATTENTION_COUNT; i++) {
        expect_fault(CDB(TEST_READY), 0, 0, attentions[i].fault);
    }
    expect_good(CDB(TEST_READY), 0, 0, "");
}

static void request_sense_tells_it_in_either_format(void **state)
{
    for (unsigned i = 0; i < SCSI_ATTENTION_COUNT; i++) {
        for (unsigned is_descriptor = 0; is_descriptor < 2; is_descriptor++) {
            const enum scsi_fault fault = attentions[i].fault;
            stage->nexuses[0].attentions = 1U << attentions[i].attention;
            const uint8_t fixed[18] = {
                0x70, [2] = failures[fault].key, [7] = 10, [12] = failures[fault].asc,
                failures[fault].ascq};
            const uint8_t other[8] = {0x72, failures[fault].key, failures[fault].asc,
                                      failures[fault].ascq};
            expect_data(CDB(REQUEST_SENSE, (uint8_t)is_descriptor, [4] = 255),
                        is_descriptor ? other : fixed, is_descriptor ? 8 : 18);
            assert_int_equal(stage->nexuses[0].attentions, 0);
        }
    }
    EXPECT_DATA(CDB(REQUEST_SENSE, 1, [4] = 255), 0x72, 0, 0, 0, 0, 0, 0, 0);
    EXPECT_DATA(CDB(REQUEST_SENSE, 1, [4] = 3), 0x72, 0, 0);
}

static void a_volume_that_changes_is_told_to_all(void **state)
{
    assert_int_equal(stage->nexuses[0].attentions, 0);
    stage_advertise(); // as it was
    assert_int_equal(stage->nexuses[1].attentions, 0);
    stage->row.profile.size *= 2;
    stage_advertise();
    assert_int_equal(stage->nexuses[0].attentions, 1U << SCSI_ATTENTION_CAPACITY);
    assert_int_equal(stage->nexuses[1].attentions, 1U << SCSI_ATTENTION_CAPACITY);
    stage_become(STAGE_ALL);
    stage->row.profile.block_size = 4096;
    stage->row.profile.size *= 8;
    stage_advertise();
    assert_int_equal(stage->nexuses[1].attentions, 1U << SCSI_ATTENTION_CAPACITY);
    stage_become(STAGE_ALL);
    stage->row.abilities = VOLUME_CAN_WRITE;
    stage_advertise();
    assert_int_equal(stage->nexuses[1].attentions, 1U << SCSI_ATTENTION_MODE);
    stage_become(VOLUME_CAN_WRITE);
    stage->row.state = RESOURCE_NOT_READY;
    stage->row.profile.size *= 2;
    stage_advertise();
    assert_int_equal(stage->nexuses[1].attentions, 0);
}

static void what_becomes_of_reservations_is_told_to_whom_it_concerns(void **state)
{
    static const struct {
        enum reservation_event event;
        enum scsi_attention attention;
    } rows[] = {{RESERVATION_REGISTRATION_PREEMPTED, SCSI_ATTENTION_REGISTRATIONS},
                {RESERVATION_RELEASED, SCSI_ATTENTION_RELEASED},
                {RESERVATION_CLEARED, SCSI_ATTENTION_PREEMPTED}};
    for (unsigned i = 0; i < 3; i++) {
        stage->nexuses[1].attentions = 0;
        scsi_target_on_reservation(stage->target, STAGE_CONNECTION + 1, rows[i].event, 0);
        scsi_target_on_reservation(stage->target, STAGE_CONNECTION + 9, rows[i].event, 0);
        assert_int_equal(stage->nexuses[1].attentions, 1U << rows[i].attention);
        assert_int_equal(stage->nexuses[0].attentions, 0);
    }
}

/* ---- ends that others bring about ------------------------------------------------------------ */

static void a_reset_ends_all_tasks_and_is_told_to_all(void **state)
{
    struct scsi_task tasks[3];
    stage->holds_fetch = true;
    stage_begin(&tasks[0], 1, CDB(0x15, 0x10, [4] = 12), 0, 12);
    stage->holds = true;
    stage_begin(&tasks[1], 0, CDB(0x28, [8] = 1), 512, 0);
    nexus_reset_unit(&stage->nexuses[0], 0);
    assert_int_equal(stage->forgotten, 1);
    assert_true(tasks[0].is_aborted && tasks[1].is_aborted);
    assert_int_equal(stage->ended, 1); // the other is with the volume
    assert_int_equal(stage->unclaimed_by, STAGE_CONNECTION);
    assert_true(stage->unclaimed_any);
    stage->held_count--;
    stage_carry_out(stage->held[0]);
    assert_int_equal(stage->ended, 2);
    assert_int_equal(stage->outcome, NODE_TRANSFER);
    assert_int_equal(stage->nexuses[0].attentions, 1U << SCSI_ATTENTION_RESET);
    assert_int_equal(stage->nexuses[1].attentions, 1U << SCSI_ATTENTION_RESET);
}

static void who_loses_tasks_by_the_wish_of_another_is_told(void **state)
{
    struct scsi_task tasks[2];
    stage->holds_fetch = true;
    stage_begin(&tasks[0], 0, CDB(0x15, 0x10, [4] = 12), 0, 12);
    stage_begin(&tasks[1], 1, CDB(0x15, 0x10, [4] = 12), 0, 12);
    nexus_clear(&stage->nexuses[0], 0);
    assert_int_equal(stage->ended, 2);
    assert_int_equal(stage->nexuses[0].attentions, 0);
    assert_int_equal(stage->nexuses[1].attentions, 1U << SCSI_ATTENTION_CLEARED);
    nexus_clear(&stage->nexuses[1], 0); // there are none any more
    assert_int_equal(stage->nexuses[0].attentions, 0);
}

static void what_was_reserved_by_others_aborts_what_is_under_way(void **state)
{
    struct scsi_task task;
    stage->holds_fetch = true;
    stage_begin(&task, 1, CDB(0x2a, [8] = 1), 0, 512);
    scsi_target_on_reservation(stage->target, STAGE_CONNECTION + 1, RESERVATION_TASKS_ABORTED, 0);
    assert_int_equal(stage->ended, 1);
    assert_int_equal(stage->outcome, NODE_TRANSFER);
    assert_int_equal(task.fault, FAULT_TRANSFER);
}

// What is on its way to the task's memory may not find it given away.
static void an_aborted_task_ends_when_data_on_their_way_have_come(void **state)
{
    struct scsi_task task;
    stage->holds_fetch = true;
    stage->keeps_fetch = true;
    stage_begin(&task, 0, CDB(0x2a, [8] = 1), 0, 512);
    task_abort(&task, 0);
    assert_int_equal(stage->forgotten, 1);
    assert_int_equal(stage->ended, 0);
    task_fetched(&task, true, 0);
    assert_int_equal(stage->outcome, NODE_TRANSFER);
    assert_int_equal(stage->ended, 1);
}

static void data_that_do_not_come_end_the_task(void **state)
{
    struct scsi_task task;
    stage->holds_fetch = true;
    stage_begin(&task, 0, CDB(0x15, 0x10, [4] = 12), 0, 12);
    task_fetched(&task, false, 0);
    assert_int_equal(task.fault, FAULT_TRANSFER);
    stage_begin(&task, 0, CDB(0x2a, [8] = 1), 0, 512);
    task.fault = FAULT_DATA_DIGEST; // the transport's own word
    task_fetched(&task, false, 0);
    assert_int_equal(task.fault, FAULT_DATA_DIGEST);
    assert_int_equal(stage->ended, 2);
}

static void one_initiator_has_so_much_scratch_and_no_more(void **state)
{
    enum { EACH = SCSI_SCRATCH_OF_NEXUS_MAX / 2 };
    struct scsi_task tasks[3];
    const uint8_t half[SCSI_CDB_LEN] = {0x2f, 2, [7] = EACH / 512 / 256}; // verify all of it
    stage->holds_fetch = true;
    stage_begin(&tasks[0], 0, half, 0, EACH);
    stage_begin(&tasks[1], 0, half, 0, EACH);
    assert_int_equal(stage->nexuses[0].scratch_len, SCSI_SCRATCH_OF_NEXUS_MAX);
    stage_begin(&tasks[2], 0, CDB(INQUIRY, [4] = 96), 96, 0);
    assert_int_equal(tasks[2].status, SCSI_TASK_SET_FULL);
    assert_int_equal(scsi_target_counters(stage->target).refusals, 1);
    stage_begin(&tasks[2], 1, CDB(INQUIRY, [4] = 96), 96, 0); // another has its own
    assert_int_equal(tasks[2].status, SCSI_GOOD);
    task_abort(&tasks[0], 0);
    task_abort(&tasks[1], 0);
    assert_int_equal(stage->nexuses[0].scratch_len, 0);
}

/* ---- reservations ---------------------------------------------------------------------------- */

enum { RESERVE_IN = 0x5e, RESERVE_OUT = 0x5f, KEY = 0x1122334455667788 };

static void reservation_become(uint8_t type, const char *holder)
{
    stage->has_reservation = true;
    stage->reservation =
        (struct reservation){.type = type,
                             .can_persist = true,
                             .persists = true,
                             .generation = 0x01020304,
                             .registrant_count = 2,
                             .registrants = {{"iqn.host1,i,0x80", 0x0102}, {"nqn.other", 0x0304}}};
    snprintf(stage->reservation.holder, sizeof stage->reservation.holder, "%s", holder);
}

static void keys_and_reservations_are_reported(void **state)
{
    EXPECT_DATA(CDB(RESERVE_IN, 0, [8] = 255), 0, 0, 0, 0, 0, 0, 0, 0); // of a volume without any
    EXPECT_DATA(CDB(RESERVE_IN, 1, [8] = 255), 0, 0, 0, 0, 0, 0, 0, 0);
    reservation_become(RESERVATION_NONE, "");
    EXPECT_DATA(CDB(RESERVE_IN, 0, [8] = 255), 1, 2, 3, 4, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 1, 2, 0,
                0, 0, 0, 0, 0, 3, 4);
    EXPECT_DATA(CDB(RESERVE_IN, 0, [8] = 10), 1, 2, 3, 4, 0, 0, 0, 16, 0, 0);
    EXPECT_DATA(CDB(RESERVE_IN, 1, [8] = 255), 1, 2, 3, 4, 0, 0, 0, 0);
    reservation_become(EXCLUSIVE_ACCESS, "nqn.other");
    EXPECT_DATA(CDB(RESERVE_IN, 1, [8] = 255), 1, 2, 3, 4, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 3, 4, 0,
                0, 0, 0, 0, 3, 0, 0);
    reservation_become(WRITE_EXCLUSIVE_ALL, ""); // is of all: no key
    EXPECT_DATA(CDB(RESERVE_IN, 1, [8] = 255), 1, 2, 3, 4, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                0, 0, 0, 0, 7, 0, 0);
}

static void registrants_are_reported_with_their_transports(void **state)
{
    reservation_become(WRITE_EXCLUSIVE, "iqn.host1,i,0x80");
    EXPECT_DATA(CDB(RESERVE_IN, 3, [8] = 255), 1, 2, 3, 4, 0, 0, 0, 96,
                // an initiator port of this transport, which holds it
                0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 24, 0x45, 0, 0,
                20, 'i', 'q', 'n', '.', 'h', 'o', 's', 't', '1', ',', 'i', ',', '0', 'x', '8', '0',
                0, 0, 0, 0,
                // who came by another protocol
                0, 0, 0, 0, 0, 0, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 24, 0x4f, 0, 0,
                20, 'n', 'q', 'n', '.', 'o', 't', 'h', 'e', 'r', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    snprintf(stage->reservation.registrants[0].name, 64, "iqn.of-twenty-octe,i,0x8");
    stage->reservation.registrant_count = 1;
    expect_good(CDB(RESERVE_IN, 3, [8] = 255), 255, 0, "");
    assert_int_equal(get_be16(stage->in + 8 + 26), 28); // with a terminator at least
    assert_int_equal(stage->in[8 + 12], 0);             // another holds it
}

static void what_reservations_there_may_be_is_reported(void **state)
{
    EXPECT_DATA(CDB(RESERVE_IN, 2, [8] = 255), 0, 8, 0, 0x80, 0xea, 1, 0, 0);
    reservation_become(RESERVATION_NONE, "");
    EXPECT_DATA(CDB(RESERVE_IN, 2, [8] = 255), 0, 8, 1, 0x81, 0xea, 1, 0, 0);
    stage->reservation.persists = false;
    EXPECT_DATA(CDB(RESERVE_IN, 2, [8] = 5), 0, 8, 1, 0x80, 0xea);
}

static void what_is_wished_is_handed_on(void **state)
{
    static const uint8_t actions[] = {RESERVATION_REGISTER,    RESERVATION_ACQUIRE,
                                      RESERVATION_RELEASE,     RESERVATION_CLEAR,
                                      RESERVATION_PREEMPT,     RESERVATION_PREEMPT_AND_ABORT,
                                      RESERVATION_REGISTER_ANY};
    static const uint8_t types[16] = {[0] = RESERVATION_TYPE_COUNT, WRITE_EXCLUSIVE,
                                      RESERVATION_TYPE_COUNT,       EXCLUSIVE_ACCESS,
                                      RESERVATION_TYPE_COUNT,       WRITE_EXCLUSIVE_REGISTRANTS,
                                      EXCLUSIVE_ACCESS_REGISTRANTS, WRITE_EXCLUSIVE_ALL,
                                      EXCLUSIVE_ACCESS_ALL,         RESERVATION_TYPE_COUNT};
    memset(stage->out, 0, 24);
    put_be64(stage->out, KEY);
    put_be64(stage->out + 8, KEY + 1);
    for (unsigned action = 0; action < sizeof actions; action++) {
        for (unsigned number = 0; number < 10; number++) {
            const bool registers = action == 0 || action == 6;
            stage->out[20] = number % 2; // APTPL
            expect_good(CDB(RESERVE_OUT, (uint8_t)action, (uint8_t)number, [8] = 24), 0, 24, "");
            const struct reservation_request *r = &stage->reserved;
            assert_int_equal(r->connection, STAGE_CONNECTION);
            assert_int_equal(r->wish.action, actions[action]);
            assert_int_equal(r->wish.type, types[number]);
            assert_true(r->wish.key == KEY && r->wish.new_key == KEY + 1);
            assert_int_equal(r->wish.persistence, !registers ? RESERVATION_PERSISTENCE_AS_IT_IS
                                                  : number % 2 != 0 ? RESERVATION_PERSISTS
                                                                    : RESERVATION_ENDS_WITH_NODE);
        }
    }
    expect_good(CDB(RESERVE_OUT, 1, 0x11, [8] = 24), 0, 24, ""); // a scope that is not the unit's
    assert_int_equal(stage->reserved.wish.type, RESERVATION_TYPE_COUNT);
    expect_fault(CDB(RESERVE_OUT, 1, 1, [8] = 23), 0, 24, FAULT_LIST_LENGTH);
    expect_fault(CDB(RESERVE_OUT, 1, 1, [8] = 25), 0, 25, FAULT_LIST_LENGTH);
    expect_fault(CDB(RESERVE_OUT, 1, 1, [8] = 24), 0, 23, FAULT_LIST_LENGTH);
    stage->out[20] = 1 << 3; // for ports that are named
    expect_fault(CDB(RESERVE_OUT, 0, 1, [8] = 24), 0, 24, FAULT_LIST_FIELD);
}

static void each_outcome_has_its_status(void **state)
{
    static const struct {
        enum reservation_outcome outcome;
        enum scsi_status_code status;
        enum scsi_fault fault;
    } rows[] = {
        {RESERVATION_DONE, SCSI_GOOD, FAULT_NONE},
        {RESERVATION_CONFLICT, SCSI_RESERVATION_CONFLICT, FAULT_NONE},
        {RESERVATION_BAD_TYPE, SCSI_CHECK_CONDITION, FAULT_CDB_FIELD},
        {RESERVATION_BAD_KEY, SCSI_CHECK_CONDITION, FAULT_LIST_FIELD},
        {RESERVATION_OTHER_TYPE, SCSI_CHECK_CONDITION, FAULT_RELEASE},
        {RESERVATION_FULL, SCSI_CHECK_CONDITION, FAULT_REGISTRATIONS},
        {RESERVATION_NO_STORE, SCSI_CHECK_CONDITION, FAULT_LIST_FIELD},
        {RESERVATION_NOT_STORED, SCSI_CHECK_CONDITION, FAULT_INTERNAL},
    };
    assert_int_equal(sizeof rows / sizeof rows[0], RESERVATION_OUTCOME_COUNT);
    memset(stage->out, 0, 24);
    for (unsigned i = 0; i < RESERVATION_OUTCOME_COUNT; i++) {
        stage->reserve_outcome = rows[i].outcome;
        assert_int_equal(stage_run(CDB(RESERVE_OUT, 1, 1, [8] = 24), 0, 24), rows[i].status);
        assert_int_equal(stage->task.fault, rows[i].fault);
    }
}

// READ and MODE SENSE, WRITE and MODE SELECT, and what is answered whatever is reserved.
static void reservations_keep_others_from_what_they_are_of(void **state)
{
    static const struct {
        uint8_t type;
        bool may_read, may_write;
    } rows[] = {{RESERVATION_NONE, true, true},
                {WRITE_EXCLUSIVE, true, false},
                {EXCLUSIVE_ACCESS, false, false},
                {WRITE_EXCLUSIVE_REGISTRANTS, true, false},
                {EXCLUSIVE_ACCESS_ALL, false, false}};
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        static const uint8_t readers[] = {0x28, 0x1a, 0x2f},
                             writers[] = {0x2a, 0x15, 0x35, 0x1b, 0x1d},
                             rest[] = {TEST_READY, INQUIRY, 0x25, RESERVE_IN, REQUEST_SENSE};
        reservation_become(rows[i].type, "nqn.other");
        for (unsigned k = 0; k < sizeof readers; k++) {
            const bool is_kept =
                stage_run(CDB(readers[k], 0, 8, [4] = 4), 255, 0) == SCSI_RESERVATION_CONFLICT;
            assert_int_equal(is_kept, !rows[i].may_read);
        }
        for (unsigned k = 0; k < sizeof writers; k++) {
            const bool is_kept =
                stage_run(CDB(writers[k], 0x10), 0, 0) == SCSI_RESERVATION_CONFLICT;
            assert_int_equal(is_kept, !rows[i].may_write);
        }
        for (unsigned k = 0; k < sizeof rest; k++) {
            assert_int_equal(stage_run(CDB(rest[k]), 255, 0), SCSI_GOOD);
        }
    }
}

// SBC-3 table 5: that alone, without a power condition.
static void a_unit_that_others_reserve_may_be_started(void **state)
{
    reservation_become(EXCLUSIVE_ACCESS, "nqn.other");
    assert_int_equal(stage_run(CDB(0x1b, [4] = 1), 0, 0), SCSI_GOOD);
    assert_int_equal(stage_run(CDB(0x1b, [4] = 0), 0, 0), SCSI_RESERVATION_CONFLICT);
    assert_int_equal(stage_run(CDB(0x1b, [4] = 0x11), 0, 0), SCSI_RESERVATION_CONFLICT);
}

static void who_claims_the_unit_has_it_alone(void **state)
{
    struct scsi_task task;
    expect_good(CDB(TEST_READY), 0, 0, "");
    stage->has_reservation = true;
    assert_int_equal(stage_run(CDB(0x16), 0, 0), SCSI_RESERVATION_CONFLICT); // somebody has it
    stage->may_claim = true;
    expect_good(CDB(0x16), 0, 0, "");
    assert_int_equal(stage->reservation.claimed_by, STAGE_CONNECTION);
    expect_good(CDB(TEST_READY), 0, 0, "");
    stage_begin(&task, 1, CDB(TEST_READY), 0, 0);
    assert_int_equal(task.status, SCSI_RESERVATION_CONFLICT);
    stage_begin(&task, 1, CDB(INQUIRY, [4] = 96), 96, 0);
    assert_int_equal(task.status, SCSI_GOOD);
    stage_begin(&task, 1, CDB(0x17), 0, 0); // which has no effect, and says nothing
    assert_int_equal(task.status, SCSI_GOOD);
    assert_int_equal(stage->unclaimed_by, STAGE_CONNECTION + 1);
    assert_false(stage->unclaimed_any);
}

/* ---- units of one session -------------------------------------------------------------------- */

static void a_number_is_read_by_either_address_method_and_written_by_the_shorter(void **state)
{
    static const struct {
        uint64_t lun;
        uint32_t number;
    } good[] = {{0, 0},
                {UINT64_C(0x0001) << 48, 1},
                {UINT64_C(0x00ff) << 48, 255},
                {UINT64_C(0x4000) << 48, 0},
                {UINT64_C(0x40ff) << 48, 255},
                {UINT64_C(0x7fff) << 48, SCSI_LUN_MAX}};
    static const uint64_t bad[] = {1,
                                   UINT64_C(1) << 47,
                                   UINT64_C(0x0100) << 48,
                                   UINT64_C(0x3f01) << 48,
                                   UINT64_C(0x8001) << 48,
                                   UINT64_C(0xc101) << 48,
                                   (UINT64_C(0x4001) << 48) + 1};
    uint32_t number;
    for (unsigned i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(scsi_lun_parse(good[i].lun, &number));
        assert_int_equal(number, good[i].number);
    }
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(scsi_lun_parse(bad[i], &number));
    }
    assert_true(scsi_lun_of(255) == UINT64_C(0x00ff) << 48);
    assert_true(scsi_lun_of(256) == UINT64_C(0x4100) << 48);
}

static void a_unit_that_comes_or_goes_is_told_to_the_others_of_its_session(void **state)
{
    const unsigned changed = 1U << SCSI_ATTENTION_UNITS;
    struct resource row = stage->row;
    struct it_nexus *it = &stage->its[0];
    struct nexus second = {.it = it, .lun = 3, .connection = STAGE_CONNECTION + 2};
    row.volume++;
    assert_true(nexus_begin(&second, &row));
    assert_ptr_equal(it_nexus_find(it, UINT64_C(3) << 48), &second);
    assert_ptr_equal(it_nexus_find(&stage->its[1], UINT64_C(3) << 48), &stage->its[1].nowhere);
    assert_int_equal(second.attentions, 1U << SCSI_ATTENTION_POWER_ON);
    assert_int_equal(stage->nexuses[0].attentions, changed);
    assert_int_equal(stage->nexuses[1].attentions, 0);
    EXPECT_DATA(CDB(0xa0, 0, 1, [9] = 16), 0, 0, 0, 0, 0, 0, 0, 0); // none of these
    assert_int_equal(stage->nexuses[0].attentions, changed);
    EXPECT_DATA(CDB(0xa0, [9] = 255), 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0,
                0, 0, 0, 0);
    assert_int_equal(stage->nexuses[0].attentions, 0); // who has read the list knows
    nexus_leave(&second);
    nexus_end(&second);
    assert_ptr_equal(it_nexus_find(it, UINT64_C(3) << 48), &it->nowhere);
    expect_fault(CDB(TEST_READY), 0, 0, FAULT_UNITS_CHANGED);
    expect_good(CDB(TEST_READY), 0, 0, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(each_fault_has_the_sense_data_of_spc_4),
        STAGE_TEST(what_is_known_of_a_failure_is_told_in_either_format),
        STAGE_TEST(what_is_told_unasked_is_told_once_and_in_order),
        STAGE_TEST(request_sense_tells_it_in_either_format),
        STAGE_TEST(a_volume_that_changes_is_told_to_all),
        STAGE_TEST(what_becomes_of_reservations_is_told_to_whom_it_concerns),
        STAGE_TEST(a_reset_ends_all_tasks_and_is_told_to_all),
        STAGE_TEST(who_loses_tasks_by_the_wish_of_another_is_told),
        STAGE_TEST(what_was_reserved_by_others_aborts_what_is_under_way),
        STAGE_TEST(an_aborted_task_ends_when_data_on_their_way_have_come),
        STAGE_TEST(data_that_do_not_come_end_the_task),
        STAGE_TEST(one_initiator_has_so_much_scratch_and_no_more),
        STAGE_TEST(keys_and_reservations_are_reported),
        STAGE_TEST(registrants_are_reported_with_their_transports),
        STAGE_TEST(what_reservations_there_may_be_is_reported),
        STAGE_TEST(what_is_wished_is_handed_on),
        STAGE_TEST(each_outcome_has_its_status),
        STAGE_TEST(reservations_keep_others_from_what_they_are_of),
        STAGE_TEST(a_unit_that_others_reserve_may_be_started),
        STAGE_TEST(who_claims_the_unit_has_it_alone),
        STAGE_TEST(a_number_is_read_by_either_address_method_and_written_by_the_shorter),
        STAGE_TEST(a_unit_that_comes_or_goes_is_told_to_the_others_of_its_session),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
