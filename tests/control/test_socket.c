// The control socket of a node, in a runtime folder of the test's own: who sees it, who may enter,
// and what becomes of those that the dead have left.
#include <errno.h>
#include <fcntl.h>
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
#include "control/socket.h"

static char folder[64], path[RUNTIME_PATH_MAX];
static struct why why;

static int setup(void **state)
{
    snprintf(folder, sizeof folder, "/tmp/weft-control-XXXXXX");
    return mkdtemp(folder) != NULL ? setenv("WEFT_RUNTIME_DIR", folder, 1) : -1;
}

static int teardown(void **state)
{
    unlink(path);
    return rmdir(folder); // nothing else may be left there
}

// Leaves a socket of a process that was killed; there is none of this number.
static void remains_make_of(const char *prefix, pid_t pid, char ret[RUNTIME_PATH_MAX])
{
    struct process dead = {.pid = pid};
    struct sockaddr_un addr;
    assert_int_equal(runtime_path(folder, prefix, dead.pid, dead.path), 0);
    socklen_t len = process_address(&dead, &addr);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&addr, len), 0);
    assert_int_equal(listen(fd, 1), 0);
    close(fd);
    memcpy(ret, dead.path, sizeof dead.path);
}

static void remains_make(char ret[RUNTIME_PATH_MAX])
{
    remains_make_of(RUNTIME_NODE, INT32_MAX, ret);
}

static void a_node_is_found_where_it_listens(void **state)
{
    struct process *found;
    size_t count;
    int fd = control_socket_listen(1, path, &why);
    assert_true(fd >= 0);
    int next = dup(fd); // the lowest that is free
    close(next);
    assert_int_equal(processes_find(PROCESS_NODE, &found, &count), 0);
    assert_int_equal(dup(fd), next); // looking leaves none open
    close(next);
    const struct process *self = processes_at(found, count, getpid());
    assert_non_null(self);
    assert_null(processes_at(found, count, getpid() + 1));
    assert_string_equal(self->path, path);
    assert_int_equal(self->uid, geteuid());
    assert_true(process_is_alive(self));
    free(found);
    close(fd);
}

// A file that is no socket, or a socket of another user than the folder's.
static void what_is_no_node_is_not_found(void **state)
{
    struct process *found, file = {.pid = 4711};
    size_t count;
    struct stat status;
    assert_int_equal(runtime_path(folder, RUNTIME_NODE, file.pid, file.path), 0);
    int fd = open(file.path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    close(fd);
    fd = control_socket_listen(1, path, &why);
    assert_int_equal(processes_find(PROCESS_NODE, &found, &count), 0);
    assert_null(processes_at(found, count, file.pid));
    assert_non_null(processes_at(found, count, getpid()));
    free(found);
    if (geteuid() == 0) { // who may give it away
        assert_int_equal(chown(path, 12345, 0), 0);
        assert_int_equal(stat(path, &status), 0);
        assert_int_equal(status.st_uid, 12345);
        assert_int_equal(processes_find(PROCESS_NODE, &found, &count), 0);
        assert_null(processes_at(found, count, getpid()));
        free(found);
    }
    close(fd);
    unlink(file.path);
}

static void a_folder_that_is_not_there_has_no_nodes(void **state)
{
    struct process *found;
    size_t count;
    char absent[96];
    snprintf(absent, sizeof absent, "%s/absent", folder);
    setenv("WEFT_RUNTIME_DIR", absent, 1);
    assert_int_equal(processes_find(PROCESS_NODE, &found, &count), 0);
    assert_null(processes_at(found, count, getpid()));
    free(found);
}

static void a_folder_of_too_long_a_name_is_said(void **state)
{
    char name[RUNTIME_PATH_MAX + 1];
    struct process *found = NULL;
    size_t count = 0;
    memset(name, 'x', sizeof name);
    name[RUNTIME_PATH_MAX] = '\0';
    setenv("WEFT_RUNTIME_DIR", name, 1);
    assert_int_equal(processes_find(PROCESS_NODE, &found, &count), -ENAMETOOLONG);
    assert_int_equal(control_socket_listen(1, path, &why), -ENAMETOOLONG);
    assert_string_equal(why.text, "the path of the runtime folder is too long");
    name[RUNTIME_PATH_MAX - 4] = '\0'; // it fits, and no name in it
    setenv("WEFT_RUNTIME_DIR", name, 1);
    assert_int_equal(control_socket_listen(1, path, &why), -ENAMETOOLONG);
}

static void its_socket_is_not_waited_for_nor_handed_on(void **state)
{
    int next = dup(0); // the lowest that is free
    close(next);
    int fd = control_socket_listen(1, path, &why);
    assert_int_equal(fd, next);
    assert_int_not_equal(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
    assert_int_not_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
    close(fd);
    assert_int_equal(dup(0), next); // the folder is not kept open
    close(next);
}

static void a_name_that_cannot_be_had_leaves_nothing_behind(void **state)
{
    char name[RUNTIME_PATH_MAX];
    int next = dup(0);
    close(next);
    assert_int_equal(runtime_path(folder, RUNTIME_NODE, getpid(), name), 0);
    assert_int_equal(mkdir(name, 0700), 0);
    assert_int_equal(control_socket_listen(1, path, &why), -EISDIR);
    assert_non_null(strstr(why.text, strerror(EISDIR)));
    assert_int_equal(dup(0), next);
    close(next);
    rmdir(name);
}

static void its_socket_is_its_users_alone(void **state)
{
    struct stat status;
    int fd = control_socket_listen(1, path, &why);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    close(fd);
}

static void what_the_dead_left_is_removed(void **state)
{
    char left[RUNTIME_PATH_MAX];
    remains_make(left);
    int fd = control_socket_listen(1, path, &why);
    assert_true(fd >= 0);
    assert_int_equal(access(left, F_OK), -1);
    close(fd);
}

static void what_the_dead_left_before_they_listened_is_removed(void **state)
{
    char left[RUNTIME_PATH_MAX], young[RUNTIME_PATH_MAX], elsewhere[RUNTIME_PATH_MAX];
    const struct timespec long_ago[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1000000000}};
    remains_make_of(RUNTIME_YOUNG, INT32_MAX, left);
    remains_make_of(RUNTIME_YOUNG, getppid(), young);
    remains_make_of(RUNTIME_YOUNG, INT32_MAX - 1, elsewhere); // of another process namespace
    assert_int_equal(utimensat(AT_FDCWD, left, long_ago, 0), 0);
    assert_int_equal(utimensat(AT_FDCWD, young, long_ago, 0), 0);
    int fd = control_socket_listen(1, path, &why);
    assert_true(fd >= 0);
    assert_int_equal(access(left, F_OK), -1);
    assert_int_equal(access(young, F_OK), 0); // it is about to listen
    assert_int_equal(access(elsewhere, F_OK), 0);
    unlink(young);
    unlink(elsewhere);
    close(fd);
}

static void the_dead_are_not_found(void **state)
{
    char left[RUNTIME_PATH_MAX];
    struct process *found;
    size_t count;
    remains_make(left);
    assert_int_equal(processes_find(PROCESS_NODE, &found, &count), 0);
    assert_null(processes_at(found, count, INT32_MAX));
    free(found);
    unlink(left);
}

static void a_name_that_is_answered_is_not_taken(void **state)
{
    char again[RUNTIME_PATH_MAX];
    int fd = control_socket_listen(1, path, &why);
    assert_int_equal(control_socket_listen(1, again, &why), -EADDRINUSE);
    assert_non_null(strstr(why.text, "somebody else answers there"));
    close(fd);
}

static void a_folder_that_others_may_write_to_is_refused(void **state)
{
    assert_int_equal(chmod(folder, 0777), 0);
    assert_int_equal(control_socket_listen(1, path, &why), -EPERM);
    assert_non_null(strstr(why.text, "others may not write to"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_node_is_found_where_it_listens, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_no_node_is_not_found, setup, teardown),
        cmocka_unit_test_setup_teardown(a_folder_that_is_not_there_has_no_nodes, setup, teardown),
        cmocka_unit_test_setup_teardown(a_folder_of_too_long_a_name_is_said, setup, teardown),
        cmocka_unit_test_setup_teardown(its_socket_is_not_waited_for_nor_handed_on, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_name_that_cannot_be_had_leaves_nothing_behind, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(its_socket_is_its_users_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(what_the_dead_left_is_removed, setup, teardown),
        cmocka_unit_test_setup_teardown(what_the_dead_left_before_they_listened_is_removed, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(the_dead_are_not_found, setup, teardown),
        cmocka_unit_test_setup_teardown(a_name_that_is_answered_is_not_taken, setup, teardown),
        cmocka_unit_test_setup_teardown(a_folder_that_others_may_write_to_is_refused, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
