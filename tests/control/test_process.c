// Names of processes with a device, and the addresses that they stand for.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "control/process.h"

static void a_name_says_user_and_process(void **state)
{
    struct process process;
    assert_true(process_name_parse("weft.1000.4711", &process));
    assert_int_equal(process.uid, 1000);
    assert_int_equal(process.pid, 4711);
    assert_string_equal(process.path, "");
    assert_true(process_name_parse("weft.0.1", &process));
    assert_true(process_name_parse("weft.4294967295.2147483647", &process));
    assert_int_equal(process.uid, UINT32_MAX);
    assert_int_equal(process.pid, INT32_MAX);
}

static void what_others_call_themselves_is_no_name(void **state)
{
    static const char *const names[] = {"",
                                        "weft",
                                        "weft.",
                                        "weft.1",
                                        "weft.1.",
                                        "weft.1.0",
                                        "weft.1.2x",
                                        "weft.1.2.3",
                                        "weft..2",
                                        "weft.-1.2",
                                        "weft.1.-2",
                                        "weft-node.1.2",
                                        "xweft.1.2",
                                        "weft.1 .2",
                                        "weft.1.2147483648",
                                        "weft.4294967296.1",
                                        "weft.00000000000000000001.1"};
    struct process process;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_false(process_name_parse(names[i], &process));
    }
}

static void an_address_is_the_name_it_is_found_by(void **state)
{
    const struct process process = {.uid = 1000, .pid = 77};
    struct process found;
    struct sockaddr_un addr;
    char name[sizeof addr.sun_path] = "";
    socklen_t len = process_address(&process, &addr);
    size_t name_len = len - offsetof(struct sockaddr_un, sun_path) - 1;
    assert_int_equal(addr.sun_path[0], '\0');
    memcpy(name, addr.sun_path + 1, name_len);
    assert_int_equal(strlen(name), name_len);
    assert_true(process_name_parse(name, &found));
    assert_int_equal(found.uid, process.uid);
    assert_int_equal(found.pid, process.pid);
}

static void a_path_is_its_own_address(void **state)
{
    const struct process process = {.uid = 1000, .pid = 77, .path = "/run/weft/node.77"};
    struct sockaddr_un addr;
    assert_int_equal(process_address(&process, &addr), sizeof addr);
    assert_string_equal(addr.sun_path, "/run/weft/node.77");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_says_user_and_process),
        cmocka_unit_test(what_others_call_themselves_is_no_name),
        cmocka_unit_test(an_address_is_the_name_it_is_found_by),
        cmocka_unit_test(a_path_is_its_own_address),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
