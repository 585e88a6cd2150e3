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
        cmocka_unit_test(a_log_is_not_read_beyond_its_end),
        WITH(a_controller_says_how_long_its_log_is_and_a_change_takes),
        WITH(one_without_states_reaches_all_that_it_has),
        WITH(statuses_count_until_the_log_was_read),
        WITH(a_log_that_could_not_be_read_changes_nothing),
        WITH(events_have_the_log_read_at_once_and_statuses_before_long),
        WITH(a_refused_event_request_is_the_last_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
