// Connecting to a target, what it says of itself, and what it may say that is wrong.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <weft/nvme.h>

#include "format/nvme_wire.h"
#include "tests/initiator/target.h"

static char why[WEFT_NVME_WHY_MAX];

// Connects to a target that behaves so, as far as it goes.
static int connect_to(struct target *target, const char *nqn, struct weft_nvme **ret)
{
    struct weft_nvme_address address = {.host = "127.0.0.1"};
    struct weft_nvme_attr attr = {.address = &address, .timeout_ms = 20000};
    memcpy(address.port, target_port(target), strlen(target_port(target)));
    memcpy(address.nqn, nqn, strlen(nqn));
    why[0] = '\0';
    return weft_nvme_connect(&attr, ret, why);
}

static void expect_refusal(const struct target_wish *wish, const char *nqn, int error,
                           const char *said)
{
    struct target *target = target_start(wish);
    struct weft_nvme *nvme = NULL;
    int result = connect_to(target, nqn, &nvme);
    target_stop(target);
    assert_int_equal(result, error);
    assert_null(nvme);
    if (strstr(why, said) == NULL) {
        fail_msg("'%s' is not in '%s'", said, why);
    }
}

static void a_subsystem_tells_what_it_is(void **state)
{
    const struct target_wish wish = {0};
    struct target *target = target_start(&wish);
    struct weft_nvme *nvme;
    struct weft_nvme_info info;
    struct weft_nvme_namespace ns;
    uint32_t nsids[4];
    assert_int_equal(connect_to(target, TARGET_NQN, &nvme), 0);
    weft_nvme_info(nvme, &info);
    assert_string_equal(info.nqn, TARGET_NQN);
    assert_string_equal(info.model, "a?target"); // not printable
    assert_string_equal(info.serial, "4711");
    assert_int_equal(info.transfer_max_len, TARGET_TRANSFER_MAX);
    assert_int_equal(info.in_capsule_len, TARGET_IN_CAPSULE_LEN);
    assert_int_equal(info.depth, 32);
    assert_true(info.is_oneshot && info.can_trim && info.has_volatile_cache);
    assert_int_equal(weft_nvme_namespaces(nvme, nsids, 4, why), 1);
    assert_int_equal(weft_nvme_identify(nvme, nsids[0], &ns, why), 0);
    assert_int_equal(ns.len, TARGET_DISK_LEN);
    assert_int_equal(ns.block_len, TARGET_BLOCK_LEN);
    assert_true(ns.has_uuid && ns.uuid[3] == 0x44);
    assert_int_equal(weft_nvme_identify(nvme, 2, &ns, why), -ENOENT);
    weft_nvme_disconnect(nvme);
    target_stop(target);
}

static void discovery_lists_subsystems(void **state)
{
    const struct target_wish wish = {.log_len = 3};
    struct target *target = target_start(&wish);
    struct weft_nvme *nvme;
    struct weft_nvme_entry *entries;
    size_t count;
    assert_int_equal(connect_to(target, "", &nvme), 0);
    assert_int_equal(weft_nvme_discover(nvme, &entries, &count, why), 0);
    assert_int_equal(count, 3);
    assert_int_equal(target_counters(target)->logs, 3 + 2); // the header before and after
    assert_string_equal(entries[2].nqn, TARGET_NQN);
    assert_string_equal(entries[0].transport, "rdma");
    assert_string_equal(entries[0].kind, "nvme");
    assert_string_equal(entries[0].host, "127.0.0.1");
    assert_string_equal(entries[0].port, target_port(target));
    assert_string_equal(entries[0].nqn, TARGET_NQN);
    free(entries);
    weft_nvme_disconnect(nvme);
    target_stop(target);
}

static void a_log_that_never_rests_is_given_up(void **state)
{
    const struct target_wish wish = {.restless_log = true};
    struct target *target = target_start(&wish);
    struct weft_nvme *nvme;
    struct weft_nvme_entry *entries;
    size_t count;
    assert_int_equal(connect_to(target, "", &nvme), 0);
    assert_int_equal(weft_nvme_discover(nvme, &entries, &count, why), -EAGAIN);
    weft_nvme_disconnect(nvme);
    target_stop(target);
}

static void a_log_that_cannot_be_read_is_told(void **state)
{
    const struct target_wish wish = {.log_status = NVME_INVALID_LOG_PAGE | NVME_STATUS_DNR};
    struct target *target = target_start(&wish);
    struct weft_nvme *nvme;
    struct weft_nvme_entry *entries;
    size_t count;
    assert_int_equal(connect_to(target, "", &nvme), 0);
    assert_int_equal(weft_nvme_discover(nvme, &entries, &count, why), -ENOENT);
    assert_non_null(strstr(why, "Invalid Log Page"));
    weft_nvme_disconnect(nvme);
    target_stop(target);
}

static void a_rejection_names_its_reason(void **state)
{
    const struct target_wish wish = {.reject = NVME_RDMA_NO_RESOURCES};
    expect_refusal(&wish, TARGET_NQN, -ECONNREFUSED, "no resources left");
}

static void refused_connects_say_why(void **state)
{
    const struct target_wish host = {.connect_status = NVME_CONNECT_INVALID_HOST | NVME_STATUS_DNR};
    const struct target_wish busy = {.connect_status = NVME_CONNECT_BUSY};
    const struct target_wish field = {.connect_status = NVME_CONNECT_INVALID, .connect_result = 44};
    const struct target_wish auth = {.connect_result = 1 << 17 | 1};
    const struct target_wish none = {0};
    expect_refusal(&host, TARGET_NQN, -EACCES, "does not let this host in");
    expect_refusal(&busy, TARGET_NQN, -EBUSY, "Controller Busy");
    expect_refusal(&field, TARGET_NQN, -EINVAL, "octet 44 of the Connect command");
    expect_refusal(&auth, TARGET_NQN, -EACCES, "authenticate");
    expect_refusal(&none, "nqn.nosuch", -ENOENT, "has no subsystem nqn.nosuch");
}

static void a_controller_that_calls_itself_another_is_refused(void **state)
{
    const struct target_wish wish = {.misnames_itself = true};
    expect_refusal(&wish, TARGET_NQN, -EPROTO, "controller 7 identifies itself as 8");
}

static void a_list_that_does_not_ascend_is_refused(void **state)
{
    const struct target_wish wish = {.lists_backwards = true};
    struct target *target = target_start(&wish);
    struct weft_nvme *nvme;
    uint32_t nsids[4];
    assert_int_equal(connect_to(target, TARGET_NQN, &nvme), 0);
    assert_int_equal(weft_nvme_namespaces(nvme, nsids, 4, why), -EPROTO);
    weft_nvme_disconnect(nvme);
    target_stop(target);
}

static void nobody_listens(void **state)
{
    const struct target_wish wish = {0};
    struct target *target = target_start(&wish);
    struct weft_nvme_address address = {.host = "127.0.0.1"};
    struct weft_nvme_attr attr = {.address = &address};
    struct weft_nvme *nvme = NULL;
    memcpy(address.port, target_port(target), strlen(target_port(target)));
    target_stop(target);
    assert_int_equal(weft_nvme_connect(&attr, &nvme, why), -ECONNREFUSED);
    assert_null(nvme);
}

static void keep_alives_are_sent_and_missed(void **state)
{
    const struct target_wish wish = {.is_mute = true};
    struct target *target = target_start(&wish);
    struct weft_nvme_address address = {.host = "127.0.0.1", .nqn = TARGET_NQN};
    struct weft_nvme_attr attr = {.address = &address, .keep_alive_ms = 300, .timeout_ms = 20000};
    struct weft_nvme *nvme;
    memcpy(address.port, target_port(target), strlen(target_port(target)));
    assert_int_equal(weft_nvme_connect(&attr, &nvme, why), 0);
    int result = 0;
    while (result == 0) {
        result = weft_nvme_wait(nvme, -1);
    }
    assert_int_equal(result, -ETIMEDOUT);
    assert_true(target_counters(target)->keep_alives > 0);
    assert_non_null(strstr(weft_nvme_why(nvme), "has not answered"));
    weft_nvme_disconnect(nvme);
    target_stop(target);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_subsystem_tells_what_it_is),
        cmocka_unit_test(discovery_lists_subsystems),
        cmocka_unit_test(a_log_that_never_rests_is_given_up),
        cmocka_unit_test(a_log_that_cannot_be_read_is_told),
        cmocka_unit_test(a_rejection_names_its_reason),
        cmocka_unit_test(refused_connects_say_why),
        cmocka_unit_test(a_controller_that_calls_itself_another_is_refused),
        cmocka_unit_test(a_list_that_does_not_ascend_is_refused),
        cmocka_unit_test(nobody_listens),
        cmocka_unit_test(keep_alives_are_sent_and_missed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
