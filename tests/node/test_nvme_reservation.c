// Reservations as NVMe hosts ask for them (NVM Express Base 1.4 sections 6.10 to 6.13, 8.8): which
// wish an octet string is, which status an outcome, who is in the report, and what controllers
// tell.

#include "format/nvme_pages.h"
#include "node/interface/reservation.h"
#include "node/nvme/agent.h"
#include "tests/node/nvme_stage.h"

enum { KEY = 0x1122, NEW_KEY = 0x3344, NOTHING = 0xffff };

#define REGISTRANT "hostid:0102030405060708090a0b0c0d0e0f10"

static struct stage *s;
static struct line *admin, *io;
static uint16_t cntlid;
static struct reservation book;

static int begin_as(const uint8_t hostid[NVME_HOSTID_LEN])
{
    s = stage_create(VOLUME_CAN_WRITE);
    memcpy(s->hostid, hostid, NVME_HOSTID_LEN);
    memset(&book, 0, sizeof book);
    s->book = &book;
    admin = admin_open(s, STAGE_HOST, 0, &cntlid);
    io = line_open(s);
    assert_int_equal(line_connect(io, STAGE_HOST, 1, cntlid, 0).status, NVME_OK);
    return 0;
}

static int begin(void **state)
{
    static const uint8_t hostid[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    return begin_as(hostid);
}

static int end(void **state)
{
    line_end(io);
    line_end(admin);
    stage_destroy(s);
    return 0;
}

static void enrol(const char *name, uint64_t key)
{
    struct registrant *r = &book.registrants[book.registrant_count++];
    snprintf(r->name, sizeof r->name, "%s", name);
    r->key = key;
}

// The status, or NOTHING while it is at the CTA.
static uint16_t send_change(uint8_t opcode, uint32_t dword_10, uint64_t key, uint64_t new_key)
{
    uint8_t sqe[NVME_SQE_LEN];
    unsigned before = io->answer_count;
    sqe_fill(io, sqe, opcode, opcode == NVME_IO_RESERVATION_RELEASE ? 8 : 16);
    put_le32(sqe + NVME_SQE_OFF_CDW10, dword_10);
    put_le64(io->data, key);
    put_le64(io->data + 8, new_key);
    line_send(io, sqe);
    return io->answer_count > before ? line_answer(io).status : NOTHING;
}

/* ---- wishes ---------------------------------------------------------------------------------- */

static void a_register_command_is_a_wish_as_who_asks_is_registered_or_not(void **state)
{
    enum { IEKEY = NVME_RESERVATION_IEKEY };
    static const struct {
        bool is_registered;
        uint32_t action;
        uint64_t new_key;
        uint16_t status; // NOTHING: it goes to the CTA, ...
        uint8_t wish;
        uint64_t wished_key, wished_new_key;
    } cases[] = {
        {false, 0, NEW_KEY, NOTHING, RESERVATION_REGISTER, 0, NEW_KEY},
        {true, 0, NEW_KEY, NOTHING, RESERVATION_REGISTER, NEW_KEY, NEW_KEY},
        {true, 0 | IEKEY, NEW_KEY, NOTHING, RESERVATION_REGISTER_ANY, NEW_KEY, NEW_KEY},
        {false, 0, 0, NVME_INVALID_FIELD, 0, 0, 0},
        {true, 0, 0, NVME_INVALID_FIELD, 0, 0, 0},
        {true, 1, NEW_KEY, NOTHING, RESERVATION_REGISTER, KEY, 0},
        {true, 1 | IEKEY, 0, NOTHING, RESERVATION_REGISTER_ANY, KEY, 0},
        {false, 1, NEW_KEY, NVME_RESERVATION_CONFLICT, 0, 0, 0},
        {true, 2, NEW_KEY, NOTHING, RESERVATION_REGISTER, KEY, NEW_KEY},
        {true, 2 | IEKEY, NEW_KEY, NOTHING, RESERVATION_REGISTER_ANY, KEY, NEW_KEY},
        {true, 2, 0, NVME_INVALID_FIELD, 0, 0, 0},
        {false, 2, NEW_KEY, NVME_RESERVATION_CONFLICT, 0, 0, 0},
        {true, 3, NEW_KEY, NVME_INVALID_FIELD, 0, 0, 0},
        {true, 7, NEW_KEY, NVME_INVALID_FIELD, 0, 0, 0},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        book.registrant_count = 0;
        enrol("hostid:of another", KEY);
        if (cases[i].is_registered) {
            enrol(REGISTRANT, KEY);
        }
        uint16_t status =
            send_change(NVME_IO_RESERVATION_REGISTER, cases[i].action, KEY, cases[i].new_key);
        assert_int_equal(status, cases[i].status);
        if (status != NOTHING) {
            assert_true(line_answer(io).is_final);
            assert_null(s->reserve);
            continue;
        }
        assert_int_equal(s->reserve->wish.action, cases[i].wish);
        assert_int_equal(s->reserve->wish.key, cases[i].wished_key);
        assert_int_equal(s->reserve->wish.new_key, cases[i].wished_new_key);
        stage_reserved(s, RESERVATION_DONE);
        assert_int_equal(line_answer(io).status, NVME_OK);
    }
}

static void whether_it_outlives_the_node_is_said_in_two_bits(void **state)
{
    static const uint8_t wishes[] = {RESERVATION_PERSISTENCE_AS_IT_IS,
                                     RESERVATION_PERSISTENCE_AS_IT_IS, RESERVATION_ENDS_WITH_NODE,
                                     RESERVATION_PERSISTS};
    for (uint32_t cptpl = 0; cptpl < 4; cptpl++) {
        send_change(NVME_IO_RESERVATION_REGISTER, cptpl << NVME_CPTPL_SHIFT, 0, NEW_KEY);
        assert_int_equal(s->reserve->wish.persistence, wishes[cptpl]);
        stage_reserved(s, RESERVATION_DONE);
    }
}

static void acquire_and_release_are_wishes_with_a_type(void **state)
{
    enum { A = NVME_IO_RESERVATION_ACQUIRE, R = NVME_IO_RESERVATION_RELEASE, IEKEY = 8 };
    static const struct {
        uint8_t opcode;
        uint32_t action;
        uint16_t status;
        uint8_t wish;
    } cases[] = {
        {A, 0, NOTHING, RESERVATION_ACQUIRE},
        {A, 1, NOTHING, RESERVATION_PREEMPT},
        {A, 2, NOTHING, RESERVATION_PREEMPT_AND_ABORT},
        {A, 3, NVME_INVALID_FIELD, 0},
        {A, 0 | IEKEY, NVME_INVALID_FIELD, 0},
        {R, 0, NOTHING, RESERVATION_RELEASE},
        {R, 1, NOTHING, RESERVATION_CLEAR},
        {R, 2, NVME_INVALID_FIELD, 0},
        {R, 1 | IEKEY, NVME_INVALID_FIELD, 0},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint16_t status = send_change(cases[i].opcode, 5 << 8 | cases[i].action, KEY, NEW_KEY);
        assert_int_equal(status, cases[i].status);
        if (status == NOTHING) {
            assert_int_equal(s->reserve->wish.action, cases[i].wish);
            assert_int_equal(s->reserve->wish.type, 5);
            assert_int_equal(s->reserve->wish.key, KEY);
            assert_int_equal(s->reserve->wish.new_key, cases[i].opcode == A ? NEW_KEY : 0);
            stage_reserved(s, RESERVATION_DONE);
        }
    }
}

static void each_outcome_has_its_status(void **state)
{
    static const uint16_t statuses[RESERVATION_OUTCOME_COUNT] = {
        [RESERVATION_DONE] = NVME_OK,
        [RESERVATION_CONFLICT] = NVME_RESERVATION_CONFLICT,
        [RESERVATION_BAD_TYPE] = NVME_INVALID_FIELD,
        [RESERVATION_BAD_KEY] = NVME_INVALID_FIELD,
        [RESERVATION_OTHER_TYPE] = NVME_INVALID_FIELD,
        [RESERVATION_FULL] = NVME_RESERVATION_CONFLICT,
        [RESERVATION_NO_STORE] = NVME_INVALID_FIELD,
        [RESERVATION_NOT_STORED] = NVME_INTERNAL_ERROR,
    };
    for (unsigned i = 0; i < RESERVATION_OUTCOME_COUNT; i++) {
        assert_int_equal(send_change(NVME_IO_RESERVATION_ACQUIRE, 1 << 8, KEY, 0), NOTHING);
        stage_reserved(s, (enum reservation_outcome)i);
        assert_int_equal(line_answer(io).status, statuses[i]);
        assert_int_equal(line_answer(io).is_final, i != RESERVATION_DONE);
    }
}

static void data_that_cannot_be_fetched_change_nothing(void **state)
{
    io->fetch_status = NVME_DATA_TRANSFER_ERROR;
    assert_int_equal(send_change(NVME_IO_RESERVATION_ACQUIRE, 1 << 8, KEY, 0),
                     NVME_DATA_TRANSFER_ERROR);
    assert_null(s->reserve);
}

static void a_host_without_identifier_registers_nothing(void **state)
{
    static const uint8_t none[NVME_HOSTID_LEN] = {0};
    end(NULL);
    begin_as(none);
    assert_int_equal(send_change(NVME_IO_RESERVATION_REGISTER, 0, 0, KEY),
                     NVME_COMMAND_SEQUENCE_ERROR);
    assert_int_equal(send_change(NVME_IO_RESERVATION_RELEASE, 0, KEY, 0),
                     NVME_COMMAND_SEQUENCE_ERROR);
    assert_null(s->reserve);
}

/* ---- the report ------------------------------------------------------------------------------ */

static uint16_t report(uint32_t len, bool is_extended)
{
    uint8_t sqe[NVME_SQE_LEN];
    memset(io->came, 0xee, sizeof io->came);
    sqe_fill(io, sqe, NVME_IO_RESERVATION_REPORT, len);
    put_le32(sqe + NVME_SQE_OFF_CDW10, len / 4 - 1);
    put_le32(sqe + NVME_SQE_OFF_CDW11, is_extended ? NVME_REPORT_EDS : 0);
    line_send(io, sqe);
    return line_answer(io).status;
}

static void the_report_has_each_controller_of_each_registrant(void **state)
{
    enum { LEN = NVME_REPORT_HEADER_LEN + 3 * NVME_REPORT_ENTRY_LEN };
    uint16_t second;
    struct line *other = admin_open(s, STAGE_HOST, 0, &second); // of the same host
    enrol("iqn.elsewhere", 9);
    enrol(REGISTRANT, KEY);
    book.generation = 0x01020304;
    book.type = WRITE_EXCLUSIVE;
    book.persists = true;
    snprintf(book.holder, sizeof book.holder, REGISTRANT);
    assert_int_equal(report(LEN, true), NVME_OK);
    const uint8_t *page = io->came;
    assert_int_equal(get_le32(page + NVME_REPORT_OFF_GEN), 0x01020304);
    assert_int_equal(page[NVME_REPORT_OFF_RTYPE], WRITE_EXCLUSIVE);
    assert_int_equal(get_le16(page + NVME_REPORT_OFF_REGCTL), 3);
    assert_int_equal(page[NVME_REPORT_OFF_PTPLS], 1);
    static const uint8_t none[NVME_HOSTID_LEN] = {0};
    const struct {
        uint16_t cntlid;
        bool holds;
        uint64_t key;
        const uint8_t *hostid;
    } rows[] = {{NVME_CNTLID_DYNAMIC, false, 9, none},
                {cntlid, true, KEY, s->hostid},
                {second, true, KEY, s->hostid}};
    for (unsigned i = 0; i < 3; i++) {
        const uint8_t *entry = page + NVME_REPORT_HEADER_LEN + i * NVME_REPORT_ENTRY_LEN;
        assert_int_equal(get_le16(entry + NVME_REPORT_ENTRY_OFF_CNTLID), rows[i].cntlid);
        assert_int_equal(entry[NVME_REPORT_ENTRY_OFF_RCSTS], rows[i].holds);
        assert_int_equal(get_le64(entry + NVME_REPORT_ENTRY_OFF_RKEY), rows[i].key);
        assert_memory_equal(entry + NVME_REPORT_ENTRY_OFF_HOSTID, rows[i].hostid, NVME_HOSTID_LEN);
    }
    line_end(other);
}

static void a_registrant_that_is_not_connected_has_its_identifier_in_the_report(void **state)
{
    static const uint8_t gone[] = {0xa0, 1, 0xb2, 3,  0xc4, 5,  0xd6, 7,
                                   0xe8, 9, 0xfa, 11, 12,   13, 14,   15};
    static const uint8_t none[NVME_HOSTID_LEN] = {0};
    static const struct {
        const char *name;
        const uint8_t *hostid;
    } rows[] = {{"hostid:a001b203c405d607e809fa0b0c0d0e0f", gone},
                {"hostid:a001b203c405d607e809fa0b0c0d0e0f,i,0x1", none}, // an initiator's
                {"hostid:a001b203c405d607e809fa0b0c0d0e0", none},
                {"iqn.2026-11.test:a001b203c405d607e809fa0b0c0d0e0f", none}};
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        book.registrant_count = 0;
        enrol(rows[i].name, KEY);
        assert_int_equal(report(NVME_REPORT_HEADER_LEN + NVME_REPORT_ENTRY_LEN, true), NVME_OK);
        const uint8_t *entry = io->came + NVME_REPORT_HEADER_LEN;
        assert_int_equal(get_le16(entry + NVME_REPORT_ENTRY_OFF_CNTLID), NVME_CNTLID_DYNAMIC);
        assert_memory_equal(entry + NVME_REPORT_ENTRY_OFF_HOSTID, rows[i].hostid, NVME_HOSTID_LEN);
    }
}

static void a_report_that_is_cut_short_counts_what_is_left_out(void **state)
{
    static const uint32_t lens[] = {4, 8, 12, 64, 68, 128, 132, 192};
    enrol("iqn.elsewhere", 9);
    enrol(REGISTRANT, KEY);
    for (unsigned i = 0; i < sizeof lens / sizeof lens[0]; i++) {
        assert_int_equal(report(lens[i], true), NVME_OK);
        assert_int_equal(io->came[lens[i]], 0xee);
        if (lens[i] >= NVME_REPORT_HEADER_LEN) {
            assert_int_equal(get_le16(io->came + NVME_REPORT_OFF_REGCTL), 2);
        }
        assert_int_not_equal(io->came[lens[i] - 1], 0xee); // and all of it is written
    }
}

static void a_report_must_be_extended_and_fit(void **state)
{
    assert_int_equal(report(64, false), NVME_HOSTID_FORMAT);
    assert_int_equal(report(4 << 10, true), NVME_OK);
    assert_int_equal(report((4 << 10) + 4, true), NVME_INVALID_FIELD);
    s->book = NULL; // of a volume that has none
    assert_int_equal(report(64, true), NVME_OK);
    assert_int_equal(get_le16(io->came + NVME_REPORT_OFF_REGCTL), 0);
}

/* ---- notices --------------------------------------------------------------------------------- */

// The last connection, which is the I/O queue's for the namespace.
static void notify(enum reservation_event event)
{
    s->service->on_reservation(s->target, s->connects, event, s->now);
}

static void ask_for_events(void)
{
    uint8_t sqe[NVME_SQE_LEN];
    sqe_fill(admin, sqe, NVME_ADMIN_ASYNC_EVENT_REQUEST, 0);
    line_send(admin, sqe);
}

// Reads one off the log: its type; how many more there are.
static unsigned notice_read(uint8_t *ret_left, uint64_t *ret_count)
{
    uint8_t sqe[NVME_SQE_LEN];
    sqe_fill(admin, sqe, NVME_ADMIN_GET_LOG_PAGE, NVME_NOTICE_LEN);
    put_le32(sqe + NVME_SQE_OFF_NSID, 0);
    put_le32(sqe + NVME_SQE_OFF_CDW10, NVME_LOG_RESERVATION | (NVME_NOTICE_LEN / 4 - 1) << 16);
    line_send(admin, sqe);
    assert_int_equal(line_answer(admin).status, NVME_OK);
    *ret_left = admin->came[NVME_NOTICE_OFF_LEFT];
    *ret_count = get_le64(admin->came + NVME_NOTICE_OFF_COUNT);
    assert_int_equal(get_le32(admin->came + NVME_NOTICE_OFF_NSID),
                     admin->came[NVME_NOTICE_OFF_TYPE] != 0);
    return admin->came[NVME_NOTICE_OFF_TYPE];
}

static void what_happens_to_a_registrant_is_told_and_read_once_in_order(void **state)
{
    static const struct {
        enum reservation_event event;
        unsigned type;
    } told[] = {{RESERVATION_REGISTRATION_PREEMPTED, 1},
                {RESERVATION_RELEASED, 2},
                {RESERVATION_CLEARED, 3}};
    uint8_t left;
    uint64_t count;
    unsigned before = admin->answer_count;
    ask_for_events();
    notify(RESERVATION_TASKS_ABORTED); // NVMe has no such notice
    assert_int_equal(admin->answer_count, before);
    for (unsigned i = 0; i < 3; i++) {
        notify(told[i].event);
    }
    assert_int_equal(admin->answer_count, before + 1); // one event until the log is read
    assert_int_equal(line_answer(admin).result, NVME_EVENT_RESULT_RESERVATION);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(notice_read(&left, &count), told[i].type);
        assert_int_equal(left, 2 - i);
        assert_int_equal(count, i + 1);
    }
    assert_int_equal(notice_read(&left, &count), 0);
    assert_int_equal(count, 0);
}

static void the_log_holds_so_many_and_no_more(void **state)
{
    uint8_t left;
    uint64_t count;
    for (unsigned i = 0; i < NVME_NOTICE_MAX + 3; i++) {
        notify(RESERVATION_RELEASED);
    }
    notice_read(&left, &count);
    assert_int_equal(left, NVME_NOTICE_MAX - 1);
}

static void what_is_masked_is_not_told(void **state)
{
    uint8_t sqe[NVME_SQE_LEN], left;
    uint64_t count;
    sqe_fill(admin, sqe, NVME_ADMIN_SET_FEATURES, 0);
    put_le32(sqe + NVME_SQE_OFF_CDW10, NVME_FEATURE_RESERVATION_MASK);
    put_le32(sqe + NVME_SQE_OFF_CDW11, 1 << NVME_NOTICE_RELEASED);
    line_send(admin, sqe);
    assert_int_equal(line_answer(admin).status, NVME_OK);
    notify(RESERVATION_RELEASED);
    notify(RESERVATION_CLEARED);
    assert_int_equal(notice_read(&left, &count), NVME_NOTICE_RESERVATION_PREEMPTED);
    assert_int_equal(left, 0);
}

static void who_is_not_connected_so_is_told_nothing(void **state)
{
    uint8_t left;
    uint64_t count;
    s->service->on_reservation(s->target, s->connects + 7, RESERVATION_RELEASED, s->now);
    assert_int_equal(notice_read(&left, &count), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            a_register_command_is_a_wish_as_who_asks_is_registered_or_not, begin, end),
        cmocka_unit_test_setup_teardown(whether_it_outlives_the_node_is_said_in_two_bits, begin,
                                        end),
        cmocka_unit_test_setup_teardown(acquire_and_release_are_wishes_with_a_type, begin, end),
        cmocka_unit_test_setup_teardown(each_outcome_has_its_status, begin, end),
        cmocka_unit_test_setup_teardown(data_that_cannot_be_fetched_change_nothing, begin, end),
        cmocka_unit_test_setup_teardown(a_host_without_identifier_registers_nothing, begin, end),
        cmocka_unit_test_setup_teardown(the_report_has_each_controller_of_each_registrant, begin,
                                        end),
        cmocka_unit_test_setup_teardown(
            a_registrant_that_is_not_connected_has_its_identifier_in_the_report, begin, end),
        cmocka_unit_test_setup_teardown(a_report_that_is_cut_short_counts_what_is_left_out, begin,
                                        end),
        cmocka_unit_test_setup_teardown(a_report_must_be_extended_and_fit, begin, end),
        cmocka_unit_test_setup_teardown(what_happens_to_a_registrant_is_told_and_read_once_in_order,
                                        begin, end),
        cmocka_unit_test_setup_teardown(the_log_holds_so_many_and_no_more, begin, end),
        cmocka_unit_test_setup_teardown(what_is_masked_is_not_told, begin, end),
        cmocka_unit_test_setup_teardown(who_is_not_connected_so_is_told_nothing, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
