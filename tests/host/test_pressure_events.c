// A group whose kernel takes no trigger: its files, made up in a folder, and time as an argument.
// memory.pressure is a sealed file, which refuses to be written as the kernel does.
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "cgroup/memory.h"
#include "host/pressure.h"

enum { FILE_LEN = 256 };
static const instant_ns start = 1000 * NS_PER_S;
static const duration_ns window_ns = 2 * NS_PER_S, calm_after_ns = 5 * NS_PER_S;

struct world {
    struct cgroup_memory group;
    int stall_fd;
    char *stall; // what memory.pressure says
    struct pressure p;
};

static void path_of(const struct world *w, const char *name, char ret[CGROUP_FOLDER_LEN + 64])
{
    snprintf(ret, CGROUP_FOLDER_LEN + 64, "%s/%s", w->group.folder, name);
}

static void met(const struct world *w, unsigned high, unsigned max)
{
    char path[CGROUP_FOLDER_LEN + 64];
    path_of(w, "memory.events", path);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fprintf(file, "low 0\nhigh %u\nmax %u\noom 0\noom_kill 0\n", high, max);
    fclose(file);
}

static void stalled(struct world *w, unsigned long us)
{
    memset(w->stall, ' ', FILE_LEN);
    snprintf(w->stall, FILE_LEN,
             "some avg10=0.00 avg60=0.00 avg300=0.00 total=%lu\n"
             "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
             us);
}

static int world_make(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    char path[CGROUP_FOLDER_LEN + 64], target[64];
    snprintf(w->group.folder, sizeof w->group.folder, "/tmp/weft-group.XXXXXX");
    assert_non_null(mkdtemp(w->group.folder));
    w->stall_fd = memfd_create("memory.pressure", MFD_ALLOW_SEALING | MFD_CLOEXEC);
    assert_int_equal(ftruncate(w->stall_fd, FILE_LEN), 0);
    w->stall = mmap(NULL, FILE_LEN, PROT_READ | PROT_WRITE, MAP_SHARED, w->stall_fd, 0);
    assert_ptr_not_equal(w->stall, MAP_FAILED);
    assert_int_equal(fcntl(w->stall_fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
    snprintf(target, sizeof target, "/proc/self/fd/%d", w->stall_fd);
    path_of(w, "memory.pressure", path);
    assert_int_equal(symlink(target, path), 0);
    stalled(w, 5000000);
    met(w, 7, 9);
    *state = w;
    return 0;
}

static int remove_one(const char *path, const struct stat *facts, int kind, struct FTW *where)
{
    return remove(path);
}

static int world_remove(void **state)
{
    struct world *w = *state;
    pressure_close(&w->p);
    munmap(w->stall, FILE_LEN);
    close(w->stall_fd);
    const int error = nftw(w->group.folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    free(w);
    return error;
}

// The device comes up: what the machine's pressure is does not matter, what is told of it does.
static void begin(struct world *w)
{
    pressure_open(&w->p, &w->group);
    if (w->p.fds[PRESSURE_MACHINE] >= 0) {
        close(w->p.fds[PRESSURE_MACHINE]);
    }
    w->p.fds[PRESSURE_MACHINE] = open("/dev/zero", O_RDONLY | O_CLOEXEC);
}

static bool look(struct world *w, short revents, instant_ns now)
{
    const struct pollfd polled[PRESSURE_SOURCE_COUNT] = {[PRESSURE_EVENTS] = {.revents = revents}};
    return pressure_look(&w->p, polled, now);
}

static bool machine_is_short(struct world *w, instant_ns now)
{
    const struct pollfd polled[PRESSURE_SOURCE_COUNT] = {[PRESSURE_MACHINE] = {.revents = POLLPRI}};
    return pressure_look(&w->p, polled, now);
}

static int awaited_fd(const struct world *w)
{
    struct pollfd asked[PRESSURE_SOURCE_COUNT];
    pressure_poll_set(&w->p, asked);
    return asked[PRESSURE_EVENTS].fd;
}

static void refused_trigger_has_the_limits_awaited_instead(void **state)
{
    struct world *w = *state;
    begin(w);
    assert_int_equal(w->p.fds[PRESSURE_GROUP], -1);
    assert_true(pressure_is_told(&w->p));
    assert_true(awaited_fd(w) >= 0);
    assert_int_equal(pressure_timeout_ms(&w->p, start), -1);
}

static void limit_that_is_met_with_standstill_is_a_shortage(void **state)
{
    struct world *w = *state;
    begin(w);
    met(w, 8, 9);
    assert_false(look(w, POLLPRI, start)); // it may be had back easily
    assert_int_equal(awaited_fd(w), -1);   // not at each meeting again
    assert_in_range(pressure_timeout_ms(&w->p, start), 2000, 2001);
    stalled(w, 5100000);
    assert_false(look(w, 0, start + window_ns - 1));
    assert_true(look(w, 0, start + window_ns));
    assert_true(w->p.is_short);
}

static void limit_that_is_met_without_standstill_is_none(void **state)
{
    struct world *w = *state;
    begin(w);
    met(w, 8, 9);
    assert_false(look(w, POLLPRI, start));
    stalled(w, 5099999);
    met(w, 80, 90);
    assert_false(look(w, 0, start + window_ns));
    assert_false(w->p.is_short);
    assert_true(awaited_fd(w) >= 0); // the next time is awaited
}

// The machine's pressure counts what others want for: it is a reason to look, and no more.
static void shortage_of_the_machine_counts_if_the_group_has_it_too(void **state)
{
    struct world *w = *state;
    begin(w);
    assert_false(machine_is_short(w, start));
    assert_false(look(w, 0, start + window_ns));
    assert_false(machine_is_short(w, start + 2 * window_ns));
    stalled(w, 5100000);
    assert_true(look(w, 0, start + 3 * window_ns));
}

static void shortage_ends_when_windows_have_none(void **state)
{
    struct world *w = *state;
    unsigned long us = 5000000;
    instant_ns now = start;
    begin(w);
    look(w, POLLPRI, now);
    for (unsigned i = 0; i < 5; i++) { // no further word: each window looks by itself
        stalled(w, us += 200000);
        look(w, 0, now += window_ns);
        assert_true(w->p.is_short);
    }
    assert_false(look(w, 0, now + window_ns));
    assert_false(look(w, 0, now + calm_after_ns - 1));
    assert_true(look(w, 0, now + calm_after_ns));
    assert_false(w->p.is_short);
}

static void without_standstill_counted_the_limit_alone_tells(void **state)
{
    struct world *w = *state;
    char path[CGROUP_FOLDER_LEN + 64];
    path_of(w, "memory.pressure", path);
    assert_int_equal(unlink(path), 0);
    begin(w);
    look(w, POLLPRI, start);
    assert_false(look(w, 0, start + window_ns)); // once is none
    met(w, 8, 9);
    look(w, POLLPRI, start + 2 * window_ns);
    met(w, 9, 10);
    assert_true(look(w, 0, start + 3 * window_ns));
}

static void group_that_is_gone_is_given_up(void **state)
{
    struct world *w = *state;
    char path[CGROUP_FOLDER_LEN + 64];
    begin(w);
    path_of(w, "memory.events", path);
    assert_int_equal(truncate(path, 0), 0); // reads as nothing
    assert_false(look(w, POLLPRI, start));
    assert_int_equal(awaited_fd(w), -1);
    assert_int_equal(pressure_timeout_ms(&w->p, start), -1);
}

static void group_that_takes_a_trigger_is_polled_for_it(void **state)
{
    struct world *w = *state;
    char path[CGROUP_FOLDER_LEN + 64];
    path_of(w, "memory.pressure", path);
    assert_int_equal(unlink(path), 0);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fclose(file);
    pressure_open(&w->p, &w->group);
    assert_true(w->p.fds[PRESSURE_GROUP] >= 0);
    assert_int_equal(w->p.fds[PRESSURE_MACHINE], -1); // others' want is not ours
    assert_int_equal(awaited_fd(w), -1);
    char asked[64] = "";
    file = fopen(path, "re");
    assert_non_null(fgets(asked, sizeof asked, file));
    fclose(file);
    assert_string_equal(asked, "some 100000 2000000");
}

static void group_of_version_1_is_not_asked(void **state)
{
    struct world *w = *state;
    w->group.is_version_1 = true;
    begin(w);
    assert_int_equal(w->p.fds[PRESSURE_GROUP], -1);
    assert_int_equal(awaited_fd(w), -1);
    assert_true(machine_is_short(w, start)); // there is nothing better
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, world_make, world_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(refused_trigger_has_the_limits_awaited_instead),
        CASE(limit_that_is_met_with_standstill_is_a_shortage),
        CASE(limit_that_is_met_without_standstill_is_none),
        CASE(shortage_of_the_machine_counts_if_the_group_has_it_too),
        CASE(shortage_ends_when_windows_have_none),
        CASE(without_standstill_counted_the_limit_alone_tells),
        CASE(group_that_is_gone_is_given_up),
        CASE(group_that_takes_a_trigger_is_polled_for_it),
        CASE(group_of_version_1_is_not_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
