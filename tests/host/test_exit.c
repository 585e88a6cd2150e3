// How processes end. A program that calls exit() within a signal handler, as many do: whatever it
// was in the middle of, its process ends. And the counters that a process leaves.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/verbs/pair.h"

enum {
    EXIT_STATUS = 41,
    CHILD_COUNT = 8,      // hardly any signal finds a program that polls outside of the device
    END_LIMIT_MS = 30000, // for a process that takes a second at most
};

static void on_signal(int number)
{
    exit(EXIT_STATUS);
}

/* ---- what the children do -------------------------------------------------------------------- */

static void poll_for_ever(int ready_fd)
{
    static struct bench bench;
    struct ibv_wc wc;
    bench_init(&bench);
    for (unsigned i = 0;; i++) {
        ibv_poll_cq(bench.cq, 1, &wc);
        if (i == 100) {
            write(ready_fd, "", 1);
        }
    }
}

static void write_for_ever(int ready_fd)
{
    static struct pair pair;
    pair_init(&pair);
    pair_connect(&pair);
    struct ibv_send_wr wr = {
        .opcode = IBV_WR_RDMA_WRITE,
        .wr.rdma = {.remote_addr = (uintptr_t)pair.b.buf, .rkey = pair.b.mr->rkey}};
    for (unsigned i = 0;; i++) {
        pair_post_send(&pair.a, wr, bench_sge(&pair.a, 0, BENCH_BUF_LEN));
        if (i == 100) {
            write(ready_fd, "", 1);
        }
    }
}

/* ---- their end ------------------------------------------------------------------------------- */

static pid_t child_start(void (*work)(int ready_fd))
{
    int fds[2];
    char octet;
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        signal(SIGTERM, on_signal);
        work(fds[1]);
    }
    close(fds[1]);
    assert_int_equal(read(fds[0], &octet, 1), 1);
    close(fds[0]);
    return pid;
}

// Asks the child to end. False: it did not within the limit, or not by itself.
static bool child_ends(pid_t pid)
{
    int status;
    struct pollfd fd = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};
    assert_true(fd.fd >= 0);
    assert_int_equal(kill(pid, SIGTERM), 0);
    bool has_ended = poll(&fd, 1, END_LIMIT_MS) == 1;
    if (!has_ended) {
        kill(pid, SIGKILL);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    close(fd.fd);
    return has_ended && WIFEXITED(status) && WEXITSTATUS(status) == EXIT_STATUS;
}

static void expect_ends(void (*work)(int ready_fd))
{
    for (unsigned i = 0; i < CHILD_COUNT; i++) {
        assert_true(child_ends(child_start(work)));
    }
}

static void program_that_polls_may_exit_in_a_signal_handler(void **state)
{
    expect_ends(poll_for_ever);
}

static void program_that_posts_and_polls_may_exit_in_a_signal_handler(void **state)
{
    expect_ends(write_for_ever);
}

static void exit_in_a_signal_handler_leaves_whole_counters_or_none(void **state)
{
    char folder[] = "/tmp/weft-test-exit-XXXXXX", path[64], text[3] = "";
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/counters", folder);
    setenv("WEFT_STATS_FILE", path, 1);
    for (unsigned i = 0; i < CHILD_COUNT; i++) {
        assert_true(child_ends(child_start(poll_for_ever)));
        FILE *file = fopen(path, "r");
        if (file != NULL) {
            assert_int_equal(fseek(file, -2, SEEK_END), 0);
            assert_non_null(fgets(text, sizeof text, file));
            assert_string_equal(text, "}\n");
            fclose(file);
            unlink(path);
        }
    }
    unsetenv("WEFT_STATS_FILE");
    rmdir(folder);
}

/* ---- the file of counters -------------------------------------------------------------------- */

// A process of this user writes its counters to `path` and ends.
static void counters_write(const char *path)
{
    int status;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        setenv("WEFT_STATS_FILE", path, 1);
        ibv_close_device(bench_open());
        exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void counters_are_for_the_users_eyes_only(void **state)
{
    char folder[] = "/tmp/weft-test-exit-XXXXXX", path[64];
    struct stat at;
    mode_t before = umask(0);
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/counters", folder);
    counters_write(path);
    umask(before);
    assert_int_equal(stat(path, &at), 0);
    assert_true(at.st_size > 0);
    assert_int_equal(at.st_mode & 0777, 0600);
    unlink(path);
    rmdir(folder);
}

// Whoever may write to the folder of a file that will be written can lay such a trap.
static void counters_go_to_no_file_with_a_second_name(void **state)
{
    char folder[] = "/tmp/weft-test-exit-XXXXXX", path[64], precious[64];
    struct stat at;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/counters", folder);
    snprintf(precious, sizeof precious, "%s/precious", folder);
    int fd = open(precious, O_WRONLY | O_CREAT, 0600);
    assert_int_equal(write(fd, "gold", 4), 4);
    close(fd);
    assert_int_equal(link(precious, path), 0);
    counters_write(path);
    assert_int_equal(stat(precious, &at), 0);
    assert_int_equal(at.st_size, 4);
    unlink(path);
    unlink(precious);
    rmdir(folder);
}

// A slip of the pen costs no letter.
static void counters_go_over_nothing_but_counters(void **state)
{
    char folder[] = "/tmp/weft-test-exit-XXXXXX", path[64], text[8] = "";
    struct stat at;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/letter", folder);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, "Dear", 4), 4);
    counters_write(path);
    assert_int_equal(pread(fd, text, sizeof text - 1, 0), 4);
    assert_string_equal(text, "Dear");
    assert_int_equal(ftruncate(fd, 0), 0);
    for (unsigned i = 0; i < 2; i++) { // into the empty file, and over what it holds then
        counters_write(path);
        assert_int_equal(fstat(fd, &at), 0);
        assert_true(at.st_size > 4);
        assert_int_equal(pread(fd, text, 7, 0), 7);
        assert_string_equal(text, "{\"pid\":");
    }
    close(fd);
    unlink(path);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(program_that_polls_may_exit_in_a_signal_handler),
        cmocka_unit_test(program_that_posts_and_polls_may_exit_in_a_signal_handler),
        cmocka_unit_test(exit_in_a_signal_handler_leaves_whole_counters_or_none),
        cmocka_unit_test(counters_are_for_the_users_eyes_only),
        cmocka_unit_test(counters_go_to_no_file_with_a_second_name),
        cmocka_unit_test(counters_go_over_nothing_but_counters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
