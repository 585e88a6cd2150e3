// What the host has to do with other processes, beside the agents of the test's: lines that RTAs
// say, answers that are looked for before a sleep, and the command of a captive node.

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/lookout.h"
#include "base/time.h"
#include "node/host/agent.h"
#include "node/interface/volume.h"

enum { SAID_MAX = 16384 };

static struct host *host;
static char said[SAID_MAX];
static instant_ns now;
static bool has_unit, no_watch;
static unsigned awaited;            // units, as bits
static unsigned frames;             // buses that have some, as bits, ...
static unsigned looks, looks_until; // ... after so many looks
static bool gives_way;
static int status_of_end;
static struct loop_watch *watches[8];
static unsigned watch_count;

struct loop_watch {
    int fd;
    void (*on_ready)(void *ctx, uint32_t events);
    void *ctx;
};

struct loop_watch *loop_watch(struct loop *loop, int fd, uint32_t events,
                              void (*on_ready)(void *ctx, uint32_t events), void *ctx)
{
    if (no_watch) {
        return NULL;
    }
    struct loop_watch *watch = calloc(1, sizeof *watch);
    *watch = (struct loop_watch){fd, on_ready, ctx};
    watches[watch_count++] = watch;
    return watch;
}

void loop_unwatch(struct loop_watch *watch)
{
    if (watch != NULL) {
        assert_ptr_equal(watch, watches[watch_count - 1]);
        watch_count--;
        free(watch);
    }
}

instant_ns loop_now(const struct loop *loop)
{
    return now;
}

instant_ns loop_clock(void)
{
    return now;
}

bool loop_give_way(struct lookout *lookout, instant_ns at)
{
    assert_true(at == now);
    now += 10 * NS_PER_US;
    return gives_way;
}

bool uma_unit_status(const struct uma *uma, uint32_t unit, struct uma_unit_status *ret)
{
    ret->name = "disk";
    assert_int_equal(unit, 3);
    return has_unit;
}

bool cta_awaits_unit(const struct cta *cta, uint32_t unit)
{
    return (awaited >> unit & 1) != 0;
}

bool bus_has_frames(struct bus_end *end)
{
    for (unsigned i = 0; i < 8; i++) {
        if (end == &host->units[i].bus) {
            return ++looks > looks_until && (frames >> i & 1) != 0;
        }
    }
    fail_msg("a bus of nobody's");
    return false;
}

void host_say(void *ctx, const char *line)
{
    size_t len = strlen(said);
    assert_ptr_equal(ctx, host);
    snprintf(said + len, sizeof said - len, "%s\n", line);
}

void host_end(struct host *it, int exit_status)
{
    assert_ptr_equal(it, host);
    status_of_end = exit_status;
}

static struct resource rows[2];
static struct resource_table table = {.rows = rows};

const struct resource_table *uma_resources(const struct uma *uma)
{
    return &table;
}

bool host_uri(struct host *it, unsigned tts, const struct resource *row, unsigned index,
              char ret[HOST_URI_MAX])
{
    assert_int_equal(tts, 0);
    assert_int_equal(index, 0);
    snprintf(ret, HOST_URI_MAX, "nbd://h/%td", row - rows);
    return row->volume != 99;
}

static unsigned kills;

int __real_kill(pid_t pid, int number);
int __wrap_kill(pid_t pid, int number);
int __wrap_kill(pid_t pid, int number)
{
    kills++;
    return pid > 1 ? __real_kill(pid, number) : -1;
}

static int open_before;

static int count_open(void)
{
    int count = 0;
    for (int fd = 0; fd < 64; fd++) {
        count += fcntl(fd, F_GETFD) >= 0;
    }
    return count;
}

static int begin(void **state)
{
    open_before = count_open();
    kills = 0;
    host = calloc(1, sizeof *host);
    host->captive_fd = -1;
    host->units[3].host = host;
    host->units[3].number = 3;
    said[0] = '\0';
    now = 1000 * NS_PER_S;
    has_unit = gives_way = true;
    no_watch = false;
    awaited = frames = looks = looks_until = 0;
    status_of_end = -1;
    rows[0].volume = rows[1].volume = 0;
    return 0;
}

static int end(void **state)
{
    assert_int_equal(watch_count, 0);
    assert_int_equal(count_open(), open_before);
    free(host);
    return 0;
}

/* ---- what an RTA says ------------------------------------------------------------------------ */

static void hear(int fd, const char *octets, size_t len)
{
    assert_int_equal(write(fd, octets, len), len);
    watches[0]->on_ready(watches[0]->ctx, 1);
}

static void each_line_of_an_rta_has_its_name(void **state)
{
    static const struct {
        const char *octets, *said;
    } cases[] = {
        {"a line\n", "RTA disk: a line\n"},
        {"weft: its own\n", "RTA disk: its own\n"},
        {"weft:other\n", "RTA disk: weft:other\n"},
        {"\n", ""},
        {"two\nlines\n", "RTA disk: two\nRTA disk: lines\n"},
        {"no end", ""},
        {" yet\n", "RTA disk: no end yet\n"},
        {"\x1b[2J\n", "RTA disk: ?[2J\n"},
        {"gr\xc3\xbc\xc3\x9f"
         "e\n",
         "RTA disk: gr\xc3\xbc\xc3\x9f"
         "e\n"},
    };
    struct host_unit *unit = &host->units[3];
    int fd = host_unit_log_open(unit);
    assert_true(fd >= 0);
    assert_true((fcntl(fd, F_GETFL) & O_NONBLOCK) != 0);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        now += 1000 * NS_PER_S; // it may speak again
        said[0] = '\0';
        hear(fd, cases[i].octets, strlen(cases[i].octets));
        assert_string_equal(said, cases[i].said);
    }
    said[0] = '\0';
    hear(fd, "a\0b\n", 4);
    assert_string_equal(said, "RTA disk: a?b\n");
    has_unit = false; // nobody knows whose it is
    hear(fd, "lost\n", 5);
    has_unit = true;
    hear(fd, "kept\n", 5);
    assert_string_equal(said, "RTA disk: a?b\nRTA disk: kept\n");
    host_unit_log_close(unit);
    close(fd);
}

static void a_line_that_is_too_long_loses_its_end(void **state)
{
    char line[600], whole[300];
    struct host_unit *unit = &host->units[3];
    int fd = host_unit_log_open(unit);
    memset(line, 'x', sizeof line);
    line[sizeof line - 1] = '\n';
    memset(whole, 'x', sizeof whole);
    whole[sizeof unit->log.line - 1] = '\0';
    hear(fd, line, sizeof line);
    assert_int_equal(strlen(said), strlen("RTA disk: ") + strlen(whole) + 1);
    assert_memory_equal(said + strlen("RTA disk: "), whole, strlen(whole));
    assert_null(host->units[4].host); // nor does it reach its neighbour
    said[0] = '\0';
    hear(fd, "next\n", 5);
    assert_string_equal(said, "RTA disk: next\n");
    host_unit_log_close(unit);
    close(fd);
}

static void an_rta_may_say_so_much(void **state)
{
    char line[5 * 64];
    struct host_unit *unit = &host->units[3];
    int fd = host_unit_log_open(unit);
    for (unsigned i = 0; i < sizeof line; i += 5) {
        memcpy(line + i, "line\n", 5);
    }
    for (unsigned i = 0; i < 150; i++) { // in one go no more than a batch is taken
        assert_int_equal(write(fd, line, sizeof line), sizeof line);
    }
    watches[0]->on_ready(watches[0]->ctx, 1);
    int left;
    assert_int_equal(ioctl(unit->log.fd, FIONREAD, &left), 0);
    assert_int_equal(left, 150 * sizeof line - 16 * 512);
    unsigned lines = 0;
    for (const char *at = said; (at = strchr(at, '\n')) != NULL; at++) {
        lines++;
    }
    assert_int_equal(lines, STRANGERS_BURST);
    close(fd);
    host_unit_log_close(unit);
}

static void what_an_rta_said_last_is_heard_at_its_end(void **state)
{
    struct host_unit *unit = &host->units[3];
    int fd = host_unit_log_open(unit);
    hear(fd, "last ", 5);
    assert_int_equal(write(fd, "words", 5), 5);
    host_unit_log_close(unit);
    assert_string_equal(said, "RTA disk: last words\n");
    assert_int_equal(unit->log.fd, -1);
    close(fd);
    host_unit_log_close(unit); // once more
    unit->log.fd = 0;          // never opened
    host_unit_log_close(unit);
    assert_string_equal(said, "RTA disk: last words\n");
    assert_true(fcntl(0, F_GETFD) >= 0);
}

static void who_closes_its_log_is_not_watched_any_more(void **state)
{
    struct host_unit *unit = &host->units[3];
    int fd = host_unit_log_open(unit);
    assert_int_equal(write(fd, "bye\n", 4), 4);
    close(fd);
    watches[0]->on_ready(watches[0]->ctx, 1);
    assert_string_equal(said, "RTA disk: bye\n");
    assert_int_equal(watch_count, 0);
    assert_null(unit->log.watch);
    host_unit_log_close(unit);
}

/* ---- answers that are looked for ------------------------------------------------------------- */

static void an_answer_that_is_awaited_is_looked_for(void **state)
{
    static const struct {
        unsigned running, own, awaited, frames, looks_until;
        bool has_come;
        unsigned looks;
    } cases[] = {
        {0xff, 0, 0, 0xff, 0, false, 0},    // of none
        {0xff, 0, 1, 1, 0, true, 1},        //
        {0xff, 0, 4, 4, 0, true, 1},        //
        {0xff, 0, 4, 1, 0, false, 10},      // another's
        {0xfe, 0, 1, 1, 0, false, 0},       // it does not run
        {0xff, 1, 1, 1, 0, false, 0},       // it is in this process
        {0xff, 0, 3, 2, 0, true, 2},        // the second of them
        {0xff, 0, 1, 1, 5, true, 6},        // a while later
        {0xff, 0, 0x80, 0x80, 0, false, 0}, // no unit from there on was ever used
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        begin(NULL);
        host->unit_end = 7;
        for (unsigned n = 0; n < 8; n++) {
            host->units[n].is_running = (cases[i].running >> n & 1) != 0;
            host->units[n].pid = (cases[i].own >> n & 1) != 0 ? 0 : 1;
        }
        awaited = cases[i].awaited;
        frames = cases[i].frames;
        looks_until = cases[i].looks_until;
        assert_int_equal(host_units_linger(host), cases[i].has_come);
        assert_int_equal(looks, cases[i].looks);
        assert_false(host->lookout.is_on);
        assert_int_equal(host->lookout.doubt, looks > 0 && !cases[i].has_come ? LOOKOUT_LOSS : 0);
        assert_true(looks > 0 || now == 1000 * NS_PER_S); // nobody waits for nothing
        end(NULL);
    }
}

static void who_is_wanted_elsewhere_looks_no_further(void **state)
{
    host->unit_end = 1;
    host->units[0].is_running = true;
    host->units[0].pid = awaited = 1;
    gives_way = false;
    assert_false(host_units_linger(host));
    assert_int_equal(looks, 1);
}

/* ---- the captive command --------------------------------------------------------------------- */

static struct host_config config;

static int start(const char *script)
{
    static char *words[] = {"sh", "-c", NULL, NULL};
    words[2] = (char *)script;
    config.captive = words;
    host->config = &config;
    host->tts_count = 1;
    return host_captive_start(host);
}

// Until the command has ended.
static void await(void)
{
    struct pollfd waits = {.fd = host->captive_fd, .events = POLLIN};
    assert_int_equal(poll(&waits, 1, 60000), 1);
    watches[0]->on_ready(watches[0]->ctx, 1);
}

static void the_node_ends_as_its_command_does(void **state)
{
    static const struct {
        const char *script;
        int status;
    } cases[] = {
        {"exit 0", 0},
        {"exit 7", 7},
        {"kill -9 $$", 128 + 9},
        {"kill -TERM $$", 128 + 15},
        {"test \"$uri\" = nbd://h/0", 0},
        {"test \"$uris\" = 'nbd://h/0 nbd://h/1'", 0},
        {"grep -q '^SigBlk:.*0000000000000000$' /proc/self/status", 0},
        {"kill -PIPE $$", 128 + 13}, // ignored here, not there
        {"kill -XFSZ $$", 128 + 25},
    };
    sigset_t term;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, NULL); // it is the loop's
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    table.count = 2;
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(start(cases[i].script), 0);
        assert_int_equal(status_of_end, -1);
        await();
        assert_int_equal(status_of_end, cases[i].status);
        assert_int_equal(host->captive_pid, 0);
        assert_int_equal(kills, 0); // it has ended by itself
        assert_int_equal(host->captive_fd, -1);
        assert_int_equal(watch_count, 0);
        status_of_end = -1;
    }
    sigprocmask(SIG_UNBLOCK, &term, NULL);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
}

static void volumes_without_an_address_have_no_uri(void **state)
{
    static const struct {
        unsigned tts_count;
        size_t count;
        uint32_t first, second;
        const char *uri, *uris;
    } cases[] = {
        {1, 2, 0, 0, "nbd://h/0", "nbd://h/0 nbd://h/1"},
        {1, 1, 0, 0, "nbd://h/0", "nbd://h/0"},
        {1, 2, 0, 99, "nbd://h/0", "nbd://h/0"},
        {1, 2, 99, 0, "nbd://h/1", "nbd://h/1"},
        {0, 2, 0, 0, NULL, ""},
        {1, 0, 0, 0, NULL, ""},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *nothing[] = {"/nonexistent/command", NULL};
        unsetenv("uri");
        setenv("uris", "stale", 1);
        rows[0].volume = cases[i].first;
        rows[1].volume = cases[i].second;
        table.count = cases[i].count;
        host->tts_count = cases[i].tts_count;
        config.captive = nothing;
        host->config = &config;
        host->captive_pid = 77;
        assert_int_equal(host_captive_start(host), -ENOENT);
        assert_int_equal(host->captive_pid, 0);
        assert_int_equal(host->captive_fd, -1);
        assert_string_equal(getenv("uris"), cases[i].uris);
        if (cases[i].uri != NULL) {
            assert_string_equal(getenv("uri"), cases[i].uri);
        } else {
            assert_null(getenv("uri"));
        }
    }
}

static void a_command_that_runs_is_ended_with_the_node(void **state)
{
    assert_int_equal(start("exec sleep 1000"), 0);
    pid_t pid = host->captive_pid;
    assert_true(pid > 0);
    host_captive_close(host);
    assert_int_equal(kill(pid, 0), -1); // and was waited for
    assert_int_equal(host->captive_pid, 0);
    assert_int_equal(host->captive_fd, -1);
    assert_int_equal(watch_count, 0);
    host_captive_close(host);
    no_watch = true;
    assert_int_equal(start("exec sleep 1000"), -ENOMEM);
    host_captive_close(host);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_line_of_an_rta_has_its_name, begin, end),
        cmocka_unit_test_setup_teardown(a_line_that_is_too_long_loses_its_end, begin, end),
        cmocka_unit_test_setup_teardown(an_rta_may_say_so_much, begin, end),
        cmocka_unit_test_setup_teardown(what_an_rta_said_last_is_heard_at_its_end, begin, end),
        cmocka_unit_test_setup_teardown(who_closes_its_log_is_not_watched_any_more, begin, end),
        cmocka_unit_test(an_answer_that_is_awaited_is_looked_for),
        cmocka_unit_test_setup_teardown(who_is_wanted_elsewhere_looks_no_further, begin, end),
        cmocka_unit_test_setup_teardown(the_node_ends_as_its_command_does, begin, end),
        cmocka_unit_test_setup_teardown(volumes_without_an_address_have_no_uri, begin, end),
        cmocka_unit_test_setup_teardown(a_command_that_runs_is_ended_with_the_node, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
