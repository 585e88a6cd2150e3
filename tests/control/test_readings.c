// What is made of the kernel's list of sockets, in several readings, and of the folders of several
// sessions: both are the test's.
#include <errno.h>
#include <glob.h>
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

#include "control/find.h"
#include "control/runtime.h"

enum { READINGS = 3, MANY = 40 };

#define HEADER     "Num       RefCount Protocol Flags    Type St Inode Path\n"
#define LISTENING  "0000000000000000: 00000002 00000000 00010000 0001 01 4711 "
#define CONNECTING "0000000000000000: 00000003 00000000 00000000 0001 03 4711 "

static const char *readings[READINGS]; // NULL: it cannot be read
static unsigned opened, closed;
static unsigned arrays_left; // that memory is there for
static uid_t user;

FILE *__wrap_fopen64(const char *path, const char *mode);
int __real_fclose(FILE *file);
int __wrap_fclose(FILE *file);
void *__real_reallocarray(void *array, size_t count, size_t size);
void *__wrap_reallocarray(void *array, size_t count, size_t size);
uid_t __wrap_geteuid(void);

FILE *__wrap_fopen64(const char *path, const char *mode)
{
    assert_string_equal(path, "/proc/net/unix");
    const char *text = readings[opened++];
    errno = EACCES;
    return text == NULL ? NULL : fmemopen((void *)(uintptr_t)text, strlen(text), "r");
}

int __wrap_fclose(FILE *file)
{
    closed++;
    return __real_fclose(file);
}

void *__wrap_reallocarray(void *array, size_t count, size_t size)
{
    return arrays_left > 0 && arrays_left-- > 0 ? __real_reallocarray(array, count, size) : NULL;
}

uid_t __wrap_geteuid(void)
{
    return user;
}

static int setup(void **state)
{
    for (unsigned i = 0; i < READINGS; i++) {
        readings[i] = HEADER;
    }
    opened = closed = 0;
    arrays_left = UINT32_MAX;
    user = 1000;
    return 0;
}

static size_t find(struct process **ret)
{
    size_t count = 0;
    assert_int_equal(processes_find(PROCESS_DEVICE, ret, &count), 0);
    assert_int_equal(opened, READINGS);
    assert_int_equal(closed, READINGS);
    return count;
}

static void expect(const struct process *process, uid_t uid, pid_t pid)
{
    assert_int_equal(process->uid, uid);
    assert_int_equal(process->pid, pid);
}

/* ---- devices --------------------------------------------------------------------------------- */

static void who_is_missing_in_one_reading_is_in_another(void **state)
{
    struct process *found;
    readings[0] = HEADER LISTENING "@weft.7.30\n";
    readings[1] = HEADER LISTENING "@weft.7.20\n" LISTENING "@weft.7.30\n";
    readings[2] = HEADER LISTENING "@weft.7.10\n";
    assert_int_equal(find(&found), 3);
    expect(&found[0], 7, 10);
    expect(&found[1], 7, 20);
    expect(&found[2], 7, 30);
    free(found);
}

static void nobody_is_found_twice(void **state)
{
    struct process *found;
    for (unsigned i = 0; i < READINGS; i++) {
        readings[i] = HEADER LISTENING "@weft.0.5\n" LISTENING "@weft.0.4\n" //
            LISTENING "@weft.0.5\n";
    }
    assert_int_equal(find(&found), 2);
    expect(&found[0], 0, 4);
    expect(&found[1], 0, 5);
    free(found);
}

// Of two namespaces of users, or of somebody who uses another's number.
static void one_number_of_two_users_is_two_processes(void **state)
{
    struct process *found;
    readings[0] = HEADER LISTENING "@weft.9.5\n" LISTENING "@weft.8.5\n" LISTENING "@weft.10.4\n";
    readings[2] = HEADER LISTENING "@weft.8.5\n";
    assert_int_equal(find(&found), 3);
    expect(&found[0], 10, 4);
    expect(&found[1], 8, 5);
    expect(&found[2], 9, 5);
    free(found);
    setup(state);
    readings[0] = HEADER LISTENING "@weft.8.5\n" LISTENING "@weft.9.5\n"; // in order already
    assert_int_equal(find(&found), 2);
    expect(&found[0], 8, 5);
    expect(&found[1], 9, 5);
    free(found);
}

static void where_nobody_listens_nobody_is_found(void **state)
{
    struct process *found;
    assert_int_equal(find(&found), 0);
    free(found);
}

static void what_is_no_device_that_listens_is_passed_over(void **state)
{
    static const char *const lines[] = {
        CONNECTING "@weft.7.30\n",
        LISTENING "/run/weft.7.30\n",
        LISTENING "weft.7.30\n",
        LISTENING "@other.7.30\n",
        LISTENING "@weft.7\n",
        LISTENING "@\n",
        LISTENING "\n",
        "0000000000000000: 00000002 00000000 zzzzzzzz 0001 01 4711 @weft.7.30\n",
        "\n",
        "",
    };
    struct process *found;
    for (unsigned i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        char text[512];
        setup(state);
        snprintf(text, sizeof text, HEADER "%s" LISTENING "@weft.7.31\n", lines[i]);
        readings[0] = text;
        assert_int_equal(find(&found), 1);
        expect(&found[0], 7, 31);
        free(found);
    }
}

static void other_flags_of_a_socket_do_not_hide_it(void **state)
{
    struct process *found;
    readings[0] = "0: 00000002 00000000 00030001 0001 01 9 @weft.7.30\n";
    assert_int_equal(find(&found), 1);
    free(found);
}

static void a_list_that_cannot_be_read_is_said(void **state)
{
    for (unsigned failing = 0; failing < READINGS; failing++) {
        struct process *found = NULL;
        size_t count = 77;
        setup(state);
        readings[0] = HEADER LISTENING "@weft.7.30\n";
        readings[failing] = NULL;
        assert_int_equal(processes_find(PROCESS_DEVICE, &found, &count), -EACCES);
        assert_int_equal(opened, failing + 1);
        assert_int_equal(closed, failing); // none is left open
        assert_null(found);
        assert_int_equal(count, 77);
    }
}

static void without_memory_for_them_none_is_found(void **state)
{
    char text[MANY * 80] = HEADER;
    for (unsigned i = 0; i < MANY; i++) {
        size_t len = strlen(text);
        snprintf(text + len, sizeof text - len, LISTENING "@weft.7.%u\n", 1 + i);
    }
    for (unsigned arrays = 0; arrays < 2; arrays++) { // none, or one that is too small
        struct process *found = NULL;
        size_t count;
        setup(state);
        readings[0] = text;
        arrays_left = arrays;
        assert_int_equal(processes_find(PROCESS_DEVICE, &found, &count), -ENOMEM);
        assert_int_equal(opened, 1);
        assert_int_equal(closed, 1);
        assert_null(found);
    }
}

static void of_others_a_user_has_none_and_root_has_all(void **state)
{
    static const struct process all[] = {{.uid = 1001, .pid = 1},
                                         {.uid = 1000, .pid = 2},
                                         {.uid = 0, .pid = 3},
                                         {.uid = 1000, .pid = 4}};
    struct process processes[4];
    memcpy(processes, all, sizeof all);
    assert_int_equal(processes_keep_own(processes, 4), 2);
    expect(&processes[0], 1000, 2);
    expect(&processes[1], 1000, 4);
    user = 0;
    memcpy(processes, all, sizeof all);
    assert_int_equal(processes_keep_own(processes, 4), 4);
    assert_memory_equal(processes, all, sizeof all);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

enum { SESSIONS = 2 };

static char folders[1 + SESSIONS][64]; // the user's own, and those of sessions
static int listeners[1 + SESSIONS];
static unsigned globs, globs_freed;
static char *session_paths[] = {folders[1], folders[2], NULL};

int __wrap_glob64(const char *pattern, int flags, int (*on_error)(const char *, int), glob_t *ret);
void __wrap_globfree64(glob_t *found);

int __wrap_glob64(const char *pattern, int flags, int (*on_error)(const char *, int), glob_t *ret)
{
    assert_string_equal(pattern, "/run/user/*/weft");
    globs++;
    *ret = (glob_t){.gl_pathc = SESSIONS, .gl_pathv = session_paths};
    return 0;
}

void __wrap_globfree64(glob_t *found)
{
    globs_freed++;
}

// A node in each folder, of number 101 and so on.
static int open_sessions(void **state)
{
    setup(state);
    globs = globs_freed = 0;
    for (unsigned i = 0; i < 1 + SESSIONS; i++) {
        struct process node = {.pid = (pid_t)(101 + i)};
        struct sockaddr_un addr;
        snprintf(folders[i], sizeof folders[i], "/tmp/weft-readings-XXXXXX");
        assert_non_null(mkdtemp(folders[i]));
        assert_int_equal(runtime_path(folders[i], RUNTIME_NODE, node.pid, node.path), 0);
        socklen_t len = process_address(&node, &addr);
        listeners[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(bind(listeners[i], (struct sockaddr *)&addr, len), 0);
        assert_int_equal(listen(listeners[i], 8), 0);
    }
    return setenv("WEFT_RUNTIME_DIR", folders[0], 1);
}

static int close_sessions(void **state)
{
    for (unsigned i = 0; i < 1 + SESSIONS; i++) {
        char path[RUNTIME_PATH_MAX];
        close(listeners[i]);
        runtime_path(folders[i], RUNTIME_NODE, (pid_t)(101 + i), path);
        unlink(path);
        rmdir(folders[i]);
    }
    return 0;
}

static void a_user_sees_the_nodes_of_his_folder(void **state)
{
    struct process *found;
    size_t count;
    assert_int_equal(processes_find(PROCESS_NODE, &found, &count), 0);
    assert_int_equal(count, 1);
    assert_int_equal(found[0].pid, 101);
    assert_int_equal(globs, 0);
    free(found);
}

static void root_sees_those_of_all_sessions(void **state)
{
    struct process *found;
    size_t count;
    user = 0;
    assert_int_equal(processes_find(PROCESS_NODE, &found, &count), 0);
    assert_int_equal(count, 1 + SESSIONS);
    for (size_t i = 0; i < count; i++) {
        struct stat status;
        assert_int_equal(stat(found[i].path, &status), 0);
        expect(&found[i], status.st_uid, (pid_t)(101 + i));
    }
    assert_int_equal(globs, 1);
    assert_int_equal(globs_freed, 1);
    free(found);
}

static void without_memory_no_further_session_is_looked_at(void **state)
{
    struct process *found = NULL;
    size_t count;
    user = 0;
    arrays_left = 0;
    assert_int_equal(processes_find(PROCESS_NODE, &found, &count), -ENOMEM);
    assert_null(found);
    assert_int_equal(globs, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(who_is_missing_in_one_reading_is_in_another, setup),
        cmocka_unit_test_setup(nobody_is_found_twice, setup),
        cmocka_unit_test_setup(one_number_of_two_users_is_two_processes, setup),
        cmocka_unit_test_setup(where_nobody_listens_nobody_is_found, setup),
        cmocka_unit_test_setup(what_is_no_device_that_listens_is_passed_over, setup),
        cmocka_unit_test_setup(other_flags_of_a_socket_do_not_hide_it, setup),
        cmocka_unit_test_setup(a_list_that_cannot_be_read_is_said, setup),
        cmocka_unit_test_setup(without_memory_for_them_none_is_found, setup),
        cmocka_unit_test_setup(of_others_a_user_has_none_and_root_has_all, setup),
        cmocka_unit_test_setup_teardown(a_user_sees_the_nodes_of_his_folder, open_sessions,
                                        close_sessions),
        cmocka_unit_test_setup_teardown(root_sees_those_of_all_sessions, open_sessions,
                                        close_sessions),
        cmocka_unit_test_setup_teardown(without_memory_no_further_session_is_looked_at,
                                        open_sessions, close_sessions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
