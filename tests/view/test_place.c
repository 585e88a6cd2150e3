// How long a tree is there: each case in processes of its own, since a process has one.
#include <dirent.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/sanitized.h"
#include "view/place.h"
#include "view/tree.h"

static char folder[] = "/tmp/weft-test-place-XXXXXX";

static int setup(void **state)
{
    memcpy(folder + sizeof folder - 7, "XXXXXX", 6);
    assert_non_null(mkdtemp(folder));
    return setenv("WEFT_RUNTIME_DIR", folder, 1);
}

static int teardown(void **state)
{
    tree_remove(folder);
    return 0;
}

static unsigned tree_count(void)
{
    unsigned count = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        count += strncmp(entry->d_name, "view.", 5) == 0;
    }
    closedir(dir);
    return count;
}

// Runs it in a child, which exits with its answer.
static pid_t child(int (*run)(void))
{
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        exit(run());
    }
    assert_true(pid > 0);
    return pid;
}

static int status_of(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static int make_and_look(void)
{
    char path[PATH_MAX];
    if (!place_make(1U << DEVICE_WIRE_ROCE)) {
        return 1;
    }
    snprintf(path, sizeof path, "%s/class/infiniband/weft_roce0/node_type", place_root());
    if (access(path, R_OK) != 0) {
        return 2;
    }
    snprintf(path, sizeof path, "%s/class/infiniband/weft0", place_root());
    return access(path, F_OK) == 0 ? 3 : 0;
}

static int make_and_die(void)
{
    if (!place_make(1U << DEVICE_WIRE_ROCE)) {
        return 1;
    }
    raise(SIGKILL);
    return 0;
}

static int say_and_make_nothing(void)
{
    return strncmp(place_root(), folder, strlen(folder)) == 0 && tree_count() == 0 ? 0 : 1;
}

static int leave_it_to_a_child(void)
{
    if (!place_make(1U << DEVICE_WIRE_ROCE)) {
        return 1;
    }
    const pid_t pid = fork();
    if (pid == 0) {
        usleep(50000); // its parent is likely gone by then
        exit(access(place_root(), F_OK) == 0 ? 0 : 1);
    }
    return pid > 0 && tree_count() == 1 ? 0 : 2;
}

static int make_though_unwanted(void)
{
    setenv("WEFT_VIEW_FILES", "off", 1);
    return place_make(1U << DEVICE_WIRE_ROCE) || tree_count() > 0 ? 1 : 0;
}

// One after the other, each looking at what others are about to make.
static int make_many_times(void)
{
    enum { TIMES = IS_SANITIZED ? 10 : 40 };
    for (unsigned i = 0; i < TIMES; i++) {
        if (status_of(child(make_and_look)) != 0) {
            return 1;
        }
    }
    return 0;
}

static void saying_where_makes_nothing(void **state)
{
    assert_int_equal(status_of(child(say_and_make_nothing)), 0);
}

static void none_is_made_where_none_is_wanted(void **state)
{
    assert_int_equal(status_of(child(make_though_unwanted)), 0);
}

static void tree_is_there_until_the_process_exits(void **state)
{
    assert_int_equal(status_of(child(make_and_look)), 0);
    assert_int_equal(tree_count(), 0);
}

static void tree_of_one_that_was_killed_goes_with_the_next(void **state)
{
    assert_int_equal(status_of(child(make_and_die)), SIGKILL);
    assert_int_equal(tree_count(), 1);
    assert_int_equal(status_of(child(make_and_look)), 0);
    assert_int_equal(tree_count(), 0);
}

static void tree_stays_for_a_child_of_who_made_it(void **state)
{
    assert_int_equal(status_of(child(leave_it_to_a_child)), 0);
    while (tree_count() > 0) {
        usleep(1000);
    }
}

static void tree_of_one_that_begins_is_no_left_behind_one(void **state)
{
    enum { COUNT = 6 };
    pid_t pids[COUNT];
    for (unsigned i = 0; i < COUNT; i++) {
        pids[i] = child(make_many_times);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        assert_int_equal(status_of(pids[i]), 0);
    }
    assert_int_equal(tree_count(), 0);
}

static void folder_that_others_may_write_to_is_not_used(void **state)
{
    assert_int_equal(chmod(folder, 0777), 0);
    assert_int_equal(status_of(child(make_and_look)), 1 << 8);
    assert_int_equal(chmod(folder, 0700), 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(saying_where_makes_nothing),
        CASE(none_is_made_where_none_is_wanted),
        CASE(tree_is_there_until_the_process_exits),
        CASE(tree_of_one_that_was_killed_goes_with_the_next),
        CASE(tree_stays_for_a_child_of_who_made_it),
        CASE(tree_of_one_that_begins_is_no_left_behind_one),
        CASE(folder_that_others_may_write_to_is_not_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
