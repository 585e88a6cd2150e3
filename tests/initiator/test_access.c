// What a controller's log, its events and statuses say of the ways to its namespaces (ANA).

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "initiator/agent.h"

enum { NSID = 7, LOG_LEN = NVME_ANA_HEADER_LEN + NVME_ANA_GROUP_LEN + 4 };

static struct weft_nvme nvme;

// A group with one namespace, in octets of their own, so that a look beyond them is seen.
static uint8_t *log_make(uint32_t nsid, uint32_t count, uint8_t state, size_t len)
{
    uint8_t whole[LOG_LEN] = {0};
    put_le16(whole + NVME_ANA_OFF_NGRPS, 1);
    put_le32(whole + NVME_ANA_HEADER_LEN + NVME_ANA_GROUP_OFF_NNSIDS, count);
    whole[NVME_ANA_HEADER_LEN + NVME_ANA_GROUP_OFF_STATE] = state;
    put_le32(whole + NVME_ANA_HEADER_LEN + NVME_ANA_GROUP_LEN, nsid);
    uint8_t *log = malloc(len > 0 ? len : 1);
    assert_non_null(log);
    memcpy(log, whole, len);
    return log;
}

static enum weft_nvme_access found(uint32_t nsid, uint32_t count, uint8_t state, size_t len)
{
    uint8_t *log = log_make(nsid, count, state, len);
    enum weft_nvme_access access = initiator_access_find(log, len, NSID);
    free(log);
    return access;
}

static void states_are_those_of_the_namespaces_group(void **state)
{
    static const struct {
        uint8_t state;
        enum weft_nvme_access access;
    } table[] = {
        {1, WEFT_NVME_OPTIMIZED},       {2, WEFT_NVME_NON_OPTIMIZED}, {3, WEFT_NVME_INACCESSIBLE},
        {4, WEFT_NVME_UNREACHABLE},     {15, WEFT_NVME_CHANGING},     {0, WEFT_NVME_INACCESSIBLE},
        {9, WEFT_NVME_INACCESSIBLE}, // which nobody has named
        {0xf3, WEFT_NVME_INACCESSIBLE},
    };
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        assert_int_equal(found(NSID, 1, table[i].state, LOG_LEN), table[i].access);
        assert_int_equal(found(NSID + 1, 1, table[i].state, LOG_LEN), WEFT_NVME_OPTIMIZED);
    }
}

static void a_log_is_not_read_beyond_its_end(void **state)
{
    for (size_t len = 0; len < LOG_LEN; len++) {
        assert_int_equal(found(NSID, 1, 3, len), WEFT_NVME_OPTIMIZED);
    }
    assert_int_equal(found(NSID, UINT32_MAX, 3, LOG_LEN), WEFT_NVME_INACCESSIBLE);
    assert_int_equal(found(NSID + 1, UINT32_MAX, 3, LOG_LEN), WEFT_NVME_OPTIMIZED);
}

static uint8_t *group_put(uint8_t *at, uint8_t state, uint32_t count, const uint32_t *nsids)
{
    put_le32(at + NVME_ANA_GROUP_OFF_NNSIDS, count);
    at[NVME_ANA_GROUP_OFF_STATE] = state;
    for (uint32_t i = 0; i < count; i++) {
        put_le32(at + NVME_ANA_GROUP_LEN + 4 * (size_t)i, nsids[i]);
    }
    return at + NVME_ANA_GROUP_LEN + 4 * (size_t)count;
}

static void the_group_is_found_wherever_it_stands(void **state)
{
    static const struct {
        uint32_t nsid;
        enum weft_nvme_access access;
    } table[] = {{3, WEFT_NVME_NON_OPTIMIZED}, {4, WEFT_NVME_NON_OPTIMIZED},
                 {5, WEFT_NVME_NON_OPTIMIZED}, {6, WEFT_NVME_UNREACHABLE},
                 {7, WEFT_NVME_CHANGING},      {8, WEFT_NVME_CHANGING},
                 {9, WEFT_NVME_OPTIMIZED}};
    uint8_t log[256] = {0};
    uint8_t *at = log + NVME_ANA_HEADER_LEN;
    at = group_put(at, 2, 3, (const uint32_t[]){3, 4, 5});
    at = group_put(at, 1, 0, NULL);
    at = group_put(at, 4, 1, (const uint32_t[]){6});
    at = group_put(at, 15, 2, (const uint32_t[]){7, 8});
    group_put(at, 3, 1, (const uint32_t[]){9}); // one more than there are said to be
    put_le16(log + NVME_ANA_OFF_NGRPS, 4);
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        assert_int_equal(initiator_access_find(log, sizeof log, table[i].nsid), table[i].access);
    }
}

// A controller with states, and one namespace of it.
static int setup(void **state)
{
    nvme = (struct weft_nvme){.admin_data = calloc(1, ADMIN_ROOM_LEN), .namespace_count = 1};
    assert_non_null(nvme.admin_data);
    nvme.namespaces[0] =
        (struct initiator_namespace_known){.nsid = NSID, .access = WEFT_NVME_OPTIMIZED};
    nvme.admin_data[NVME_CTRL_OFF_CMIC] = NVME_CMIC_ANA;
    nvme.admin_data[NVME_CTRL_OFF_ANATT] = 10;
    put_le32(nvme.admin_data + NVME_CTRL_OFF_OAES, NVME_EVENT_ANA_CHANGE);
    put_le32(nvme.admin_data + NVME_CTRL_OFF_NANAGRPID, 1);
    put_le32(nvme.admin_data + NVME_CTRL_OFF_NN, 1);
    initiator_access_take(&nvme);
    return 0;
}

static int teardown(void **state)
{
    free(nvme.admin_data);
    return 0;
}

static void a_controller_says_how_long_its_log_is_and_a_change_takes(void **state)
{
    assert_true(nvme.access.is_known && nvme.access.has_events);
    assert_int_equal(nvme.access.room.iov_len, LOG_LEN);
    assert_int_equal(weft_nvme_access_change_ms(&nvme), 10000);
    put_le32(nvme.admin_data + NVME_CTRL_OFF_NANAGRPID, UINT32_MAX);
    put_le32(nvme.admin_data + NVME_CTRL_OFF_MNAN, UINT32_MAX);
    initiator_access_take(&nvme);
    assert_int_equal(nvme.access.room.iov_len, ACCESS_LOG_MAX);
}

static void the_log_is_asked_for_as_long_as_it_can_be(void **state)
{
    static const struct {
        uint32_t groups, most, now, len; // namespaces: that there may be, that there are
    } table[] = {
        {1, 0, 1, NVME_ANA_HEADER_LEN + NVME_ANA_GROUP_LEN + 4},
        {3, 0, 10, NVME_ANA_HEADER_LEN + 3 * NVME_ANA_GROUP_LEN + 40},
        {3, 20, 10, NVME_ANA_HEADER_LEN + 3 * NVME_ANA_GROUP_LEN + 80},
        {1, UINT32_MAX, 1, ACCESS_LOG_MAX},
    };
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        put_le32(nvme.admin_data + NVME_CTRL_OFF_NANAGRPID, table[i].groups);
        put_le32(nvme.admin_data + NVME_CTRL_OFF_MNAN, table[i].most);
        put_le32(nvme.admin_data + NVME_CTRL_OFF_NN, table[i].now);
        put_le32(nvme.admin_data + NVME_CTRL_OFF_OAES, i % 2 ? NVME_EVENT_ANA_CHANGE : 0);
        initiator_access_take(&nvme);
        const struct initiator_admin_command command = initiator_access_command(&nvme.access);
        const uint32_t dwords = table[i].len / 4 - 1;
        assert_int_equal(nvme.access.has_events, i % 2);
        assert_ptr_equal(nvme.access.room.iov_base, nvme.admin_data + ADMIN_DATA_LEN);
        assert_ptr_equal(command.room, &nvme.access.room);
        assert_int_equal(command.data_len, table[i].len);
        assert_int_equal(command.opcode, NVME_ADMIN_GET_LOG_PAGE);
        assert_int_equal(command.nsid, NVME_NSID_ALL);
        assert_int_equal(command.cdw10, NVME_LOG_ANA | (dwords & 0xffff) << 16);
        assert_int_equal(command.cdw11, dwords >> 16);
    }
}

static void statuses_and_logs_are_of_each_namespace(void **state)
{
    static const uint32_t nsids[] = {2, NSID, 9};
    uint8_t *at = nvme.access.room.iov_base;
    nvme.access.room.iov_len = NVME_ANA_HEADER_LEN + NVME_ANA_GROUP_LEN + sizeof nsids;
    nvme.namespace_count = 3;
    for (unsigned i = 0; i < 3; i++) {
        nvme.namespaces[i] = (struct initiator_namespace_known){.nsid = nsids[i]};
    }
    for (unsigned i = 0; i < 3; i++) {
        initiator_access_on_status(&nvme, nsids[i], NVME_ANA_INACCESSIBLE);
        for (unsigned k = 0; k < 3; k++) {
            assert_int_equal(weft_nvme_access(&nvme, nsids[k]),
                             k <= i ? WEFT_NVME_INACCESSIBLE : nvme.namespaces[k].access);
        }
    }
    assert_int_equal(weft_nvme_access(&nvme, 3), WEFT_NVME_OPTIMIZED);
    memset(at, 0, NVME_ANA_HEADER_LEN);
    put_le16(at + NVME_ANA_OFF_NGRPS, 1);
    group_put(at + NVME_ANA_HEADER_LEN, 4, 3, nsids);
    nvme.access.is_reading = true;
    initiator_access_on_log(&nvme);
    assert_false(nvme.access.is_reading);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(weft_nvme_access(&nvme, nsids[i]), WEFT_NVME_UNREACHABLE);
    }
}

static void one_without_states_reaches_all_that_it_has(void **state)
{
    nvme.access = (struct initiator_access){0};
    nvme.admin_data[NVME_CTRL_OFF_CMIC] = 0;
    initiator_access_take(&nvme);
    initiator_access_on_status(&nvme, NSID, NVME_ANA_INACCESSIBLE);
    assert_false(nvme.access.is_known || nvme.access.is_stale);
    assert_int_equal(weft_nvme_access(&nvme, NSID), WEFT_NVME_OPTIMIZED);
}

static void statuses_count_until_the_log_was_read(void **state)
{
    static const struct {
        uint16_t status;
        enum weft_nvme_access access;
        bool is_state;
    } table[] = {
        {NVME_ANA_PERSISTENT_LOSS, WEFT_NVME_UNREACHABLE, true},
        {NVME_ANA_INACCESSIBLE, WEFT_NVME_INACCESSIBLE, true},
        {NVME_ANA_TRANSITION, WEFT_NVME_CHANGING, true},
        {NVME_PATH_INTERNAL_ERROR, WEFT_NVME_OPTIMIZED, false},
        {NVME_CONTROLLER_PATHING_ERROR, WEFT_NVME_OPTIMIZED, false},
        {NVME_WRITE_FAULT, WEFT_NVME_OPTIMIZED, false},
    };
    uint8_t *log = log_make(NSID, 1, 1, LOG_LEN);
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        nvme.access.is_stale = false;
        initiator_access_on_status(&nvme, NSID, table[i].status);
        assert_int_equal(weft_nvme_access(&nvme, NSID), table[i].access);
        assert_int_equal(nvme.access.is_stale, table[i].is_state);
        memcpy(nvme.access.room.iov_base, log, LOG_LEN);
        initiator_access_on_log(&nvme);
        assert_int_equal(weft_nvme_access(&nvme, NSID), WEFT_NVME_OPTIMIZED);
    }
    free(log);
}

static void a_log_that_could_not_be_read_changes_nothing(void **state)
{
    initiator_access_on_status(&nvme, NSID, NVME_ANA_INACCESSIBLE);
    nvme.access.log.status = NVME_INVALID_LOG_PAGE | NVME_STATUS_DNR;
    initiator_access_on_log(&nvme);
    assert_int_equal(weft_nvme_access(&nvme, NSID), WEFT_NVME_INACCESSIBLE);
}

static void events_have_the_log_read_at_once_and_statuses_before_long(void **state)
{
    struct initiator_access *access = &nvme.access;
    access->read_at = 50 * NS_PER_MS;
    assert_false(initiator_access_is_due(access, 60 * NS_PER_MS));
    assert_true(initiator_access_is_due(access, 150 * NS_PER_MS));
    access->event = (struct initiator_admin_answer){.is_there = true};
    assert_true(initiator_access_on_event(access));
    assert_true(access->is_stale && !access->event.is_there);
    assert_true(initiator_access_is_due(access, 60 * NS_PER_MS));
    access->is_reading = true;
    assert_false(initiator_access_is_due(access, 60 * NS_PER_MS));
}

static void a_refused_event_request_is_the_last_one(void **state)
{
    nvme.access.event = (struct initiator_admin_answer){.is_there = true, .status = NVME_AER_LIMIT};
    assert_false(initiator_access_on_event(&nvme.access));
    assert_false(nvme.access.has_events || nvme.access.is_stale);
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_are_those_of_the_namespaces_group),
        cmocka_unit_test(the_group_is_found_wherever_it_stands),
        cmocka_unit_test(a_log_is_not_read_beyond_its_end),
        WITH(a_controller_says_how_long_its_log_is_and_a_change_takes),
        WITH(the_log_is_asked_for_as_long_as_it_can_be),
        WITH(statuses_and_logs_are_of_each_namespace),
        WITH(one_without_states_reaches_all_that_it_has),
        WITH(statuses_count_until_the_log_was_read),
        WITH(a_log_that_could_not_be_read_changes_nothing),
        WITH(events_have_the_log_read_at_once_and_statuses_before_long),
        WITH(a_refused_event_request_is_the_last_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
