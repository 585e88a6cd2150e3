// The tree as a program reads it.
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
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

// Every file of both devices, and what stands in it.
static void files_say_what_the_device_is(void **state)
{
    static const struct {
        const char *path, *lines[DEVICE_WIRE_COUNT];
    } rows[] = {
        {"node_type", {[DEVICE_WIRE_IWARP] = "4: RNIC\n", [DEVICE_WIRE_ROCE] = "1: CA\n"}},
        {"node_desc", {[DEVICE_WIRE_IWARP] = "weft0\n", [DEVICE_WIRE_ROCE] = "weft_roce0\n"}},
        {"ports/1/state", {"4: ACTIVE\n", "4: ACTIVE\n"}},
        {"ports/1/phys_state", {"5: LinkUp\n", "5: LinkUp\n"}},
        {"ports/1/link_layer", {"Ethernet\n", "Ethernet\n"}},
        {"ports/1/lid", {"0x0\n", "0x0\n"}},
        {"ports/1/lid_mask_count", {"0\n", "0\n"}},
        {"ports/1/sm_lid", {"0x0\n", "0x0\n"}},
        {"ports/1/sm_sl", {"0\n", "0\n"}},
        {"ports/1/rate", {"100 Gb/sec (4X EDR)\n", "100 Gb/sec (4X EDR)\n"}},
        {"ports/1/pkeys/0", {"0xffff\n", "0xffff\n"}},
        {"ports/1/gid_attrs/types/0",
         {[DEVICE_WIRE_IWARP] = "IB/RoCE v1\n", [DEVICE_WIRE_ROCE] = "RoCE v2\n"}},
        {"device/numa_node", {"-1\n", "-1\n"}},
        {"../../infiniband_verbs/%/ibdev",
         {[DEVICE_WIRE_IWARP] = "weft0\n", [DEVICE_WIRE_ROCE] = "weft_roce0\n"}},
        {"../../infiniband_verbs/%/abi_version", {"1\n", "1\n"}},
    };
    for (unsigned wire = 0; wire < DEVICE_WIRE_COUNT; wire++) {
        const struct identity *identity = identity_of(wire);
        assert_int_equal(tree_make(root, identity), 0);
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            const char *mark = strchr(rows[i].path, '%');
            char path[256];
            snprintf(path, sizeof path,
                     mark == NULL ? "class/infiniband/%s/%s" : "class/infiniband_verbs/%s/%s",
                     identity->name, mark == NULL ? rows[i].path : mark + 2);
            assert_string_equal(line_of(path), rows[i].lines[wire]);
        }
    }
}

static void numbers_stand_in_digits_of_fixed_count(void **state)
{
    for (unsigned wire = 0; wire < DEVICE_WIRE_COUNT; wire++) {
        const struct identity *identity = identity_of(wire);
        const uint64_t guid = identity_guid(identity);
        char path[256], expected[64];
        assert_int_equal(tree_make(root, identity), 0);
        snprintf(expected, sizeof expected, "%04x:%04x:%04x:%04x\n", (unsigned)(guid >> 48),
                 (unsigned)(guid >> 32) & 0xffff, (unsigned)(guid >> 16) & 0xffff,
                 (unsigned)guid & 0xffff);
        snprintf(path, sizeof path, "class/infiniband/%s/node_guid", identity->name);
        assert_string_equal(line_of(path), expected);
        snprintf(path, sizeof path, "class/infiniband/%s/sys_image_guid", identity->name);
        assert_string_equal(line_of(path), expected);
        snprintf(expected, sizeof expected, "0x%08x\n", identity->port_cap_flags);
        snprintf(path, sizeof path, "class/infiniband/%s/ports/1/cap_mask", identity->name);
        assert_string_equal(line_of(path), expected);
    }
}

static void a_disk_that_takes_nothing_is_told(void **state)
{
    struct rlimit before;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    struct rlimit limit = {.rlim_cur = 0, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    int error = tree_make(root, identity_of(DEVICE_WIRE_ROCE));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);
    assert_int_equal(error, -EIO);
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

// What an earlier version has left there is written over, to its end; nobody is led elsewhere.
static void what_stands_in_the_way_is_overwritten_or_refused(void **state)
{
    char path[PATH_MAX], aside[PATH_MAX];
    assert_int_equal(tree_make(root, identity_of(DEVICE_WIRE_ROCE)), 0);
    snprintf(path, sizeof path, "%s/class/infiniband/weft_roce0/node_type", root);
    FILE *file = fopen(path, "w");
    assert_true(fputs("1: CA, and much more than that\n", file) > 0);
    fclose(file);
    assert_int_equal(tree_make(root, identity_of(DEVICE_WIRE_ROCE)), 0);
    assert_string_equal(line_of("class/infiniband/weft_roce0/node_type"), "1: CA\n");
    snprintf(aside, sizeof aside, "%s/aside", root);
    assert_int_equal(rename(path, aside), 0);
    assert_int_equal(symlink(aside, path), 0);
    assert_int_equal(tree_make(root, identity_of(DEVICE_WIRE_ROCE)), -ELOOP);
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
        CASE(files_say_what_the_device_is),
        CASE(numbers_stand_in_digits_of_fixed_count),
        CASE(a_disk_that_takes_nothing_is_told),
        CASE(gid_is_the_address_and_its_interface),
        CASE(names_lead_to_the_device),
        CASE(made_again_it_is_the_same),
        CASE(what_stands_in_the_way_is_overwritten_or_refused),
        CASE(root_that_is_too_long_is_refused),
        CASE(root_that_is_not_there_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
