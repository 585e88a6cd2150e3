// Which group limits a process: in files as the kernel writes them, made up in a folder.
#include <ftw.h>
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

#include "cgroup/memory.h"

static char place[64];

static int place_make(void **state)
{
    snprintf(place, sizeof place, "/tmp/weft-cgroup.XXXXXX");
    return mkdtemp(place) != NULL ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *facts, int kind, struct FTW *where)
{
    return remove(path);
}

static int place_remove(void **state)
{
    return nftw(place, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

// A file below the place, with the folders before it.
static void put(const char *name, const char *format, ...)
{
    char path[256];
    va_list args;
    snprintf(path, sizeof path, "%s/%s", place, name);
    for (char *slash = path + strlen(place) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    va_start(args, format);
    vfprintf(file, format, args);
    va_end(args);
    fclose(file);
}

// What a process in the group of version 2 has, seen from the group `root`.
static struct cgroup_memory found(const char *group, const char *root)
{
    struct cgroup_memory ret;
    put("cgroup", "0::%s\n", group);
    put("mountinfo",
        "22 1 0:20 / /proc rw,nosuid - proc proc rw\n"
        "30 1 0:27 %s %s/mount rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
        root, place);
    cgroup_memory_find(place, &ret);
    return ret;
}

static void expect_group(const struct cgroup_memory *got, const char *folder)
{
    char path[256] = "";
    if (folder != NULL) {
        snprintf(path, sizeof path, "%s/%s", place, folder);
    }
    assert_string_equal(got->folder, path);
    assert_false(got->is_version_1);
}

static void nearest_group_with_a_limit_counts(void **state)
{
    put("mount/a/memory.max", "4096000\n");
    put("mount/a/b/memory.max", "max\n");
    put("mount/a/b/memory.high", "8192000\n");
    put("mount/a/b/c/memory.max", "max\n");
    put("mount/a/b/c/memory.high", "max\n");
    struct cgroup_memory got = found("/a/b/c", "/");
    expect_group(&got, "mount/a/b");
    assert_int_equal(got.most_len, 4096000);
    got = found("/a", "/");
    expect_group(&got, "mount/a");
}

static void no_limit_is_none(void **state)
{
    put("mount/a/memory.max", "max\n");
    struct cgroup_memory got = found("/a", "/");
    expect_group(&got, NULL);
    assert_true(got.most_len == UINT64_MAX);
    got = found("/", "/"); // the root has no such files
    expect_group(&got, NULL);
}

// A container sees its own group as the root of what is mounted, with limits.
static void root_that_is_seen_may_have_the_limit(void **state)
{
    put("mount/memory.max", "1000000\n");
    put("mount/inner/memory.max", "max\n");
    struct cgroup_memory got = found("/", "/");
    expect_group(&got, "mount");
    got = found("/inner", "/");
    expect_group(&got, "mount");
}

static void group_below_the_root_of_the_mount_is_found_there(void **state)
{
    put("mount/job/memory.max", "1000000\n");
    struct cgroup_memory got = found("/pods/pod7/job", "/pods/pod7");
    expect_group(&got, "mount/job");
}

static void group_outside_of_what_is_seen_has_none(void **state)
{
    put("mount/memory.max", "1000000\n");
    put("mount/job/memory.max", "1000000\n");
    static const char *const groups[] = {"/pods/pod8/job", "/pods/pod70", "/other", "/../sibling"};
    for (unsigned i = 0; i < 3; i++) {
        struct cgroup_memory got = found(groups[i], "/pods/pod7");
        expect_group(&got, NULL);
    }
    struct cgroup_memory got = found(groups[3], "/");
    expect_group(&got, NULL);
}

// Mounts of version 1 are told apart by the controllers among their options.
static void group_of_version_1_is_known_as_such(void **state)
{
    struct cgroup_memory got;
    put("cpu/job/memory.limit_in_bytes", "5\n");
    put("memory/job/memory.limit_in_bytes", "1000000\n");
    put("memory/memory.limit_in_bytes", "9223372036854771712\n"); // none
    put("cgroup", "5:cpu:/job\n4:memory:/job\n0::/\n");
    put("mountinfo",
        "30 1 0:27 / %s/cpu rw - cgroup cgroup rw,cpu\n"
        "31 1 0:28 / %s/memory rw - cgroup cgroup rw,memory\n"
        "32 1 0:29 / %s/mount rw - cgroup2 cgroup2 rw\n",
        place, place, place);
    cgroup_memory_find(place, &got);
    char folder[128];
    snprintf(folder, sizeof folder, "%s/memory/job", place);
    assert_string_equal(got.folder, folder);
    assert_true(got.is_version_1);
    assert_int_equal(got.most_len, 1000000);
}

static void files_that_are_missing_or_nonsense_are_no_limit(void **state)
{
    struct cgroup_memory got;
    cgroup_memory_find(place, &got);
    expect_group(&got, NULL);
    put("cgroup", "\n::\nnonsense\n0::/a\n");
    cgroup_memory_find(place, &got); // nothing is mounted
    expect_group(&got, NULL);
    put("mountinfo", "\n - cgroup2\n30 1 0:27 - cgroup2 cgroup2 rw\n");
    cgroup_memory_find(place, &got);
    expect_group(&got, NULL);
    put("mount/a/memory.max", "-\n");
    got = found("/a", "/");
    expect_group(&got, NULL);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, place_make, place_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(nearest_group_with_a_limit_counts),
        CASE(no_limit_is_none),
        CASE(root_that_is_seen_may_have_the_limit),
        CASE(group_below_the_root_of_the_mount_is_found_there),
        CASE(group_outside_of_what_is_seen_has_none),
        CASE(group_of_version_1_is_known_as_such),
        CASE(files_that_are_missing_or_nonsense_are_no_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
