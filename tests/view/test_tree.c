// The tree as a program reads it.
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "view/address.h"
#include "view/tree.h"

static char root[] = "/tmp/weft-test-tree-XXXXXX";

static int setup(void **state)
{
    memcpy(root + sizeof root - 7, "XXXXXX", 6);
    assert_non_null(mkdtemp(root));
    return 0;
}

static int teardown(void **state)
{
    struct stat status;
    tree_remove(root);
    assert_int_equal(lstat(root, &status), -1);
    return 0;
}

static const char *line_of(const char *path)
{
    static char line[128];
    char whole[PATH_MAX];
    snprintf(whole, sizeof whole, "%s/%s", root, path);
    FILE *file = fopen(whole, "r");
    if (file == NULL || fgets(line, sizeof line, file) == NULL) {
        fail_msg("%s cannot be read", whole);
    }
    assert_int_equal(fgetc(file), EOF);
    fclose(file);
    return line;
}

static void files_say_what_the_device_is(void **state)
{
    static const struct {
        const char *path, *line;
    } rows[] = {
        {"node_type", "1: CA\n"},
        {"ports/1/state", "4: ACTIVE\n"},
        {"ports/1/link_layer", "Ethernet\n"},
        {"ports/1/lid", "0x0\n"},
        {"ports/1/rate", "100 Gb/sec (4X EDR)\n"},
        {"ports/1/pkeys/0", "0xffff\n"},
        {"ports/1/gid_attrs/types/0", "RoCE v2\n"},
        {"device/numa_node", "-1\n"},
    };
    assert_int_equal(tree_make(root, identity_of(DEVICE_WIRE_ROCE)), 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char path[128];
        snprintf(path, sizeof path, "class/infiniband/weft_roce0/%s", rows[i].path);
        assert_string_equal(line_of(path), rows[i].line);
    }
}

static void gid_is_the_address_and_its_interface(void **state)
{
    struct view_address own;
    char expected[64];
    view_address_find(&own);
    assert_int_equal(tree_make(root, identity_of(DEVICE_WIRE_ROCE)), 0);
    const uint8_t *a = own.addr.s6_addr;
    int len = 0;
    for (int i = 0; i < 16; i += 2) {
        len += snprintf(expected + len, sizeof expected - (size_t)len, "%02x%02x%c", a[i], a[i + 1],
                        i < 14 ? ':' : '\n');
    }
    assert_string_equal(line_of("class/infiniband/weft_roce0/ports/1/gids/0"), expected);
    snprintf(expected, sizeof expected, "%s\n", own.interface);
    assert_string_equal(line_of("class/infiniband/weft_roce0/ports/1/gid_attrs/ndevs/0"), expected);
}

static void names_lead_to_the_device(void **state)
{
    char path[PATH_MAX], real[PATH_MAX], device[TREE_PATH_MAX];
    const struct identity *identity = identity_of(DEVICE_WIRE_IWARP);
    assert_int_equal(tree_make(root, identity), 0);
    assert_true(tree_device_path(root, identity, device));
    snprintf(path, sizeof path, "%s/class/infiniband/weft0", root);
    assert_non_null(realpath(path, real));
    assert_string_equal(real, device);
    assert_non_null(strstr(real, "/virtual/"));
    snprintf(path, sizeof path, "%s/class/infiniband/weft0/device/net/lo", root);
    struct stat status;
    struct view_address own;
    view_address_find(&own);
    assert_int_equal(lstat(path, &status), strcmp(own.interface, "lo") == 0 ? 0 : -1);
    snprintf(path, sizeof path, "%s/dev/infiniband/weft0", root);
    assert_int_equal(stat(path, &status), 0);
    assert_true(S_ISCHR(status.st_mode));
}

static void made_again_it_is_the_same(void **state)
{
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tree_make(root, identity_of(DEVICE_WIRE_ROCE)), 0);
        assert_string_equal(line_of("class/infiniband/weft_roce0/node_type"), "1: CA\n");
    }
}

static void root_that_is_too_long_is_refused(void **state)
{
    char path[TREE_PATH_MAX], device[TREE_PATH_MAX];
    memset(path, 'x', sizeof path);
    path[sizeof path - 1] = '\0';
    assert_false(tree_device_path(path, identity_of(DEVICE_WIRE_ROCE), device));
    assert_true(tree_make(path, identity_of(DEVICE_WIRE_ROCE)) < 0);
}

static void root_that_is_not_there_is_refused(void **state)
{
    assert_true(tree_make("/nowhere/at/all", identity_of(DEVICE_WIRE_ROCE)) < 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(files_say_what_the_device_is),     CASE(gid_is_the_address_and_its_interface),
        CASE(names_lead_to_the_device),         CASE(made_again_it_is_the_same),
        CASE(root_that_is_too_long_is_refused), CASE(root_that_is_not_there_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
