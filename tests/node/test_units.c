// Processes of RTAs as the host has them: how they begin, are rung, listened to and ended, and what
// is left of one that could not begin. Processes, sockets and pipes are real; the bus, the loop,
// the UMA and the CTA are the test's.

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
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "node/host/agent.h"
#include "node/unit/channel.h"
#include "node/unit/process.h"
#include "node/unit/self.h"
#include "tests/node/done.h"

enum { NOW = 50, UNIT = 2, WATCH_MAX = 8, PATIENCE_MS = 20000, FD_MAX = 256 };

static struct host *host;
static struct host_config config;
static bool is_broken, is_quiet, should_ring, is_full, no_log, no_runner;
static int spawn_error, status_of_child;
static unsigned watch_calls, no_watch_at, buses_begun, logs_closed;
static bool dies_in_turn, has_more;

struct loop_watch {
    int fd;
    uint32_t events;
    void (*on_ready)(void *ctx, uint32_t events);
    void *ctx;
};
static struct loop_watch watches[WATCH_MAX];
static struct runner_parts runner_parts;
static bool has_runner;
static int fds_of_child[UNIT_FD_END];
static struct unit_message heard;
static int heard_keepsake;

/* ---- others ---------------------------------------------------------------------------------- */

struct loop_watch *loop_watch(struct loop *loop, int fd, uint32_t events,
                              void (*on_ready)(void *ctx, uint32_t events), void *ctx)
{
    if (++watch_calls == no_watch_at) {
        return NULL;
    }
    for (unsigned i = 0; i < WATCH_MAX; i++) {
        if (watches[i].on_ready == NULL) {
            watches[i] = (struct loop_watch){fd, events, on_ready, ctx};
            return &watches[i];
        }
    }
    fail();
    return NULL;
}

void loop_unwatch(struct loop_watch *watch)
{
    if (watch != NULL) {
        assert_non_null(watch->on_ready);
        watch->on_ready = NULL;
    }
}

void loop_watch_change(struct loop_watch *watch, uint32_t events)
{
    watch->events = events;
}

instant_ns loop_now(const struct loop *loop)
{
    return NOW;
}

void bus_end_init(struct bus_end *end, struct bus_memory *memory, bool is_cta)
{
    assert_true(end == &host->units[UNIT].bus || end == &host->units[0].bus);
    assert_non_null(memory);
    assert_true(is_cta);
    buses_begun++;
}

bool bus_send(struct bus_end *end, const struct frame *frame)
{
    return !is_full;
}

bool bus_receive(struct bus_end *end, struct frame *ret)
{
    return true;
}

bool bus_is_broken(const struct bus_end *end)
{
    return is_broken;
}

bool bus_sleep(struct bus_end *end)
{
    note("sleep ");
    return is_quiet;
}

void bus_wake(struct bus_end *end)
{
    note("wake ");
}

bool bus_should_ring(struct bus_end *end)
{
    return should_ring;
}

void cta_on_bus(struct cta *cta, uint32_t unit, instant_ns now)
{
    note("bus %u@%d ", unit, (int)now);
    if (dies_in_turn) {
        host->units[UNIT].is_running = false;
    }
}

static void on_unit_broken(void *uma, uint32_t unit, const char *why)
{
    note("broken %u: %s ", unit, why);
}

const struct uma_for_cta uma_for_cta = {.on_unit_broken = on_unit_broken};

bool uma_unit_status(const struct uma *uma, uint32_t unit, struct uma_unit_status *ret)
{
    ret->name = "swift";
    return true;
}

void uma_on_exit(struct uma *uma, uint32_t unit, const char *how, instant_ns now)
{
    assert_int_equal(now, NOW);
    assert_false(host->units[unit].is_running);
    note("exit %u: %s ", unit, how);
}

void uma_on_message(struct uma *uma, uint32_t unit, const struct unit_message *message,
                    int keepsake, instant_ns now)
{
    assert_int_equal(now, NOW);
    note("message %u ", unit);
    heard = *message;
    heard_keepsake = keepsake;
    if (has_more) {
        assert_int_equal(channel_send(fds_of_child[UNIT_FD_CHANNEL], message, -1), 0);
    }
}

void uma_on_writable(struct uma *uma, uint32_t unit, instant_ns now)
{
    assert_int_equal(now, NOW);
    note("writable %u ", unit);
}

int host_window_open(int handed)
{
    close(handed);
    return 1000;
}

int host_unit_log_open(struct host_unit *unit)
{
    return no_log ? -1 : open("/dev/null", O_WRONLY | O_CLOEXEC);
}

void host_unit_log_close(struct host_unit *unit)
{
    logs_closed++;
}

struct runner *runner_create(const struct runner_parts *parts)
{
    runner_parts = *parts;
    has_runner = !no_runner;
    if (no_runner) { // as it does itself
        close(parts->channel);
        close(parts->bell_rta);
        close(parts->bell_cta);
    }
    return no_runner ? NULL : (struct runner *)&runner_parts;
}

void runner_destroy(struct runner *runner)
{
    assert_ptr_equal(runner, &runner_parts);
    assert_true(has_runner);
    has_runner = false;
    close(runner_parts.channel);
    close(runner_parts.bell_rta);
    close(runner_parts.bell_cta);
}

static void child_close(int fd)
{
    if (fds_of_child[fd] >= 0) {
        close(fds_of_child[fd]);
        fds_of_child[fd] = -1;
    }
}

// A child that waits, or ends at once with a status.
int self_spawn(const struct self_process *process, pid_t *ret_pid)
{
    assert_string_equal(process->argv[0], "weft");
    assert_string_equal(process->argv[1], UNIT_PROCESS_COMMAND);
    assert_string_equal(process->argv[2], "swift");
    assert_null(process->argv[3]);
    assert_true(process->log_fd >= 0);
    assert_int_equal(process->first, UNIT_FD_CHANNEL);
    assert_int_equal(process->count, UNIT_FD_END - UNIT_FD_CHANNEL);
    for (int i = 0; i < process->count; i++) {
        assert_true(process->fds[i] >= UNIT_FD_END);
        assert_int_equal(fcntl(process->fds[i], F_GETFD), FD_CLOEXEC);
        child_close(process->first + i);
        fds_of_child[process->first + i] = dup(process->fds[i]);
    }
    if (spawn_error != 0) {
        return spawn_error;
    }
    *ret_pid = fork();
    if (*ret_pid == 0) {
        for (int fd = 3; fd < FD_MAX; fd++) {
            close(fd);
        }
        while (status_of_child < 0) {
            pause();
        }
        _exit(status_of_child);
    }
    return 0;
}

static int pipes_left, eventfds_left;

int __real_pipe2(int ret_fds[2], int flags);
int __wrap_pipe2(int ret_fds[2], int flags);
int __wrap_pipe2(int ret_fds[2], int flags)
{
    errno = ENFILE;
    assert_int_equal(flags, O_CLOEXEC | O_NONBLOCK);
    return pipes_left-- > 0 ? __real_pipe2(ret_fds, flags) : -1;
}

int __real_eventfd(unsigned value, int flags);
int __wrap_eventfd(unsigned value, int flags);
int __wrap_eventfd(unsigned value, int flags)
{
    errno = ENFILE;
    assert_int_equal(value, 0);
    assert_int_equal(flags, EFD_CLOEXEC | EFD_NONBLOCK);
    return eventfds_left-- > 0 ? __real_eventfd(value, flags) : -1;
}

/* ---- the stage ------------------------------------------------------------------------------- */

static unsigned open_before;

static unsigned open_count(void)
{
    unsigned count = 0;
    for (int fd = 0; fd < FD_MAX; fd++) {
        count += fcntl(fd, F_GETFD) >= 0;
    }
    return count;
}

static unsigned watch_count(void)
{
    unsigned count = 0;
    for (unsigned i = 0; i < WATCH_MAX; i++) {
        count += watches[i].on_ready != NULL;
    }
    return count;
}

static int set_up(void **state)
{
    host = calloc(1, sizeof *host);
    assert_non_null(host);
    config = (struct host_config){.rta = HOST_RTA_EACH};
    host->config = &config;
    memset(watches, 0, sizeof watches);
    done[0] = '\0';
    is_broken = should_ring = is_full = no_log = no_runner = has_runner = false;
    is_quiet = true;
    spawn_error = 0;
    status_of_child = -1;
    watch_calls = no_watch_at = buses_begun = logs_closed = 0;
    dies_in_turn = has_more = false;
    pipes_left = eventfds_left = 100;
    memset(fds_of_child, -1, sizeof fds_of_child);
    open_before = open_count();
    host->pool.parts[UNIT].fd = memfd_create("part", MFD_CLOEXEC);
    host->units[UNIT].number = 99;
    host_unit_bus(host, UNIT);
    return 0;
}

static int tear_down(void **state)
{
    host_units_close(host);
    for (int fd = 0; fd < UNIT_FD_END; fd++) {
        child_close(fd);
    }
    close(host->pool.parts[UNIT].fd);
    assert_int_equal(open_count(), open_before);
    assert_int_equal(watch_count(), 0);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); // nobody is left
    free(host);
    return 0;
}

static struct host_unit *spawned(void)
{
    assert_int_equal(host_unit_spawn(host, UNIT), 0);
    assert_true(host->units[UNIT].is_running);
    return &host->units[UNIT];
}

// What the loop tells of a descriptor that can be read.
static void tell(int fd, uint32_t events)
{
    for (unsigned i = 0; i < WATCH_MAX; i++) {
        if (watches[i].on_ready != NULL && watches[i].fd == fd) {
            watches[i].on_ready(watches[i].ctx, events);
            return;
        }
    }
    fail();
}

static uint32_t watched(int fd)
{
    for (unsigned i = 0; i < WATCH_MAX; i++) {
        if (watches[i].on_ready != NULL && watches[i].fd == fd) {
            return watches[i].events;
        }
    }
    return 0;
}

static void wait_readable(int fd)
{
    struct pollfd waits = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&waits, 1, PATIENCE_MS), 1);
}

static bool is_there(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

/* ---- the beginning --------------------------------------------------------------------------- */

static void a_process_has_a_socket_memory_and_bells(void **state)
{
    struct host_unit *unit = spawned();
    struct unit_message message = {.kind = UNIT_OPEN}, got;
    int keepsake;
    uint64_t rung = 0;
    assert_int_equal(channel_send(fds_of_child[UNIT_FD_CHANNEL], &message, -1), 0);
    assert_int_equal(channel_receive(unit->channel, &got, &keepsake), 1);
    assert_int_equal(write(fds_of_child[UNIT_FD_BELL_CTA], &(uint64_t){1}, 8), 8);
    assert_int_equal(read(unit->bell_cta, &rung, sizeof rung), sizeof rung);
    assert_int_equal(lseek(fds_of_child[UNIT_FD_BUS], 0, SEEK_END), sizeof(struct bus_memory));
    assert_int_equal(lseek(fds_of_child[UNIT_FD_POOL], 0, SEEK_END), 0);
    assert_int_equal(watched(unit->channel), EPOLLIN);
    assert_int_equal(watched(unit->bell_cta), EPOLLIN | EPOLLET);
    assert_int_equal(watched(unit->pidfd), EPOLLIN);
    tell(unit->bell_cta, EPOLLIN);
    expect("");
    assert_int_equal(buses_begun, 1);
}

static void a_bell_of_the_host_can_be_read_alone(void **state)
{
    struct frame_port port = host_unit_bus(host, UNIT);
    char octet;
    spawned();
    port.ring(port.ctx);
    assert_int_equal(read(fds_of_child[UNIT_FD_BELL_RTA], &octet, 1), -1);
    should_ring = true;
    port.ring(port.ctx);
    assert_int_equal(read(fds_of_child[UNIT_FD_BELL_RTA], &octet, 1), 1);
    assert_int_equal(write(fds_of_child[UNIT_FD_BELL_RTA], &octet, 1), -1);
}

static void who_cannot_begin_leaves_nothing(void **state)
{
    static const struct {
        bool is_in_host, no_pipe, no_eventfd, no_log, no_pool, no_runner;
        unsigned no_watch_at;
        int spawn, error;
    } cases[] = {
        {.no_pipe = true, .error = -ENFILE},
        {.no_eventfd = true, .error = -ENFILE},
        {.no_log = true, .error = -EMFILE},
        {.no_pool = true, .error = -EMFILE},
        {.spawn = -EAGAIN, .error = -EAGAIN},
        {.no_watch_at = 1, .error = -ENOMEM},
        {.no_watch_at = 2, .error = -ENOMEM},
        {.no_watch_at = 3, .error = -ENOMEM},
        {.is_in_host = true, .no_watch_at = 1, .error = -ENOMEM},
        {.is_in_host = true, .no_watch_at = 2, .error = -ENOMEM},
        {.is_in_host = true, .no_watch_at = 3, .error = -ENOMEM},
        {.is_in_host = true, .no_runner = true, .error = -ENOMEM},
    };
    int part = host->pool.parts[UNIT].fd;
    unsigned before = open_count();
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        config.rta = cases[i].is_in_host ? HOST_RTA_HOST : HOST_RTA_ONE;
        no_log = cases[i].no_log;
        no_runner = cases[i].no_runner;
        host->pool.parts[UNIT].fd = cases[i].no_pool ? -1 : part;
        spawn_error = cases[i].spawn;
        pipes_left = cases[i].no_pipe ? 0 : 9;
        eventfds_left = cases[i].no_eventfd ? 0 : 9;
        no_watch_at = cases[i].no_watch_at;
        watch_calls = 0;
        assert_int_equal(host_unit_spawn(host, UNIT), cases[i].error);
        for (int fd = 0; fd < UNIT_FD_END; fd++) {
            child_close(fd);
        }
        assert_int_equal(open_count(), before);
        assert_int_equal(watch_count(), 0);
        assert_false(has_runner);
        assert_false(host->units[UNIT].is_running);
        assert_int_equal(host->units[UNIT].pid, 0);
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    }
    host->pool.parts[UNIT].fd = part;
}

/* ---- the bus --------------------------------------------------------------------------------- */

static void a_bus_is_used_while_its_process_is_there(void **state)
{
    struct frame_port port = host_unit_bus(host, UNIT);
    struct frame frame = {0};
    assert_int_equal(host->unit_end, UNIT + 1);
    assert_ptr_equal(host->units[UNIT].host, host);
    assert_int_equal(host->units[UNIT].number, UNIT);
    assert_false(port.send(port.ctx, &frame));
    assert_false(port.receive(port.ctx, &frame));
    spawned();
    assert_true(port.send(port.ctx, &frame));
    assert_true(port.receive(port.ctx, &frame));
    is_full = true;
    assert_false(port.send(port.ctx, &frame));
    host_unit_bus(host, UNIT - 1); // a lower number
    assert_int_equal(host->unit_end, UNIT + 1);
}

static void buses_are_heard_in_each_turn(void **state)
{
    host_units_receive(host, NOW);
    expect("");
    assert_true(host_units_sleep(host));
    host_units_wake(host);
    expect("");
    spawned();
    host_units_receive(host, NOW);
    expect("bus 2@50 ");
    assert_true(host_units_sleep(host));
    is_quiet = false;
    assert_false(host_units_sleep(host));
    host_units_wake(host);
    expect("sleep sleep wake ");
    is_broken = true;
    host_units_receive(host, NOW);
    expect("bus 2@50 broken 2: it spoiled the bus ");
    dies_in_turn = true;
    host_units_receive(host, NOW);
    expect("bus 2@50 ");
    host->units[UNIT].is_running = true;
    dies_in_turn = is_broken = false;
    host_unit_bus(host, 0);
    assert_int_equal(host_unit_spawn(host, 0), 0);
    host->units[UNIT + 1].is_running = true; // it is none that was ever used
    host_units_receive(host, NOW);
    host_units_sleep(host);
    host_units_wake(host);
    expect("bus 0@50 bus 2@50 sleep sleep wake wake ");
    host->units[UNIT + 1].is_running = false;
}

/* ---- the end --------------------------------------------------------------------------------- */

static void how_a_process_ended_is_told(void **state)
{
    struct host_unit *unit = spawned();
    kill(unit->pid, SIGSTOP); // is no end
    host_unit_kill(host, UNIT);
    wait_readable(unit->pidfd);
    tell(unit->pidfd, EPOLLIN);
    expect("exit 2: its process was ended by signal 9 ");
    status_of_child = 3;
    spawned();
    wait_readable(unit->pidfd);
    tell(unit->pidfd, EPOLLIN);
    expect("exit 2: its process was ended by status 3 ");
    assert_int_equal(unit->pid, 0);
    assert_int_equal(unit->pidfd, -1);
    assert_int_equal(unit->channel, -1);
    assert_int_equal(unit->bell_rta, -1);
    assert_int_equal(unit->bell_cta, -1);
    assert_null(unit->exit_watch);
    assert_null(unit->channel_watch);
    assert_null(unit->bell_watch);
    assert_int_equal(logs_closed, 2);
    spawned();
    waitpid(unit->pid, NULL, 0); // by somebody else
    tell(unit->pidfd, EPOLLIN);
    expect("exit 2: its process has ended ");
    host_unit_kill(host, UNIT); // is harmless
    expect("");
}

static void an_rta_in_the_host_ends_from_the_loop(void **state)
{
    config.rta = HOST_RTA_HOST;
    struct host_unit *unit = spawned();
    assert_true(runner_parts.is_in_host);
    assert_int_equal(runner_parts.bus.len, unit->bus_memory.len);
    assert_int_equal(unit->pid, 0);
    assert_int_equal(channel_send(runner_parts.channel, &heard, -1), 0);
    tell(unit->channel, EPOLLIN);
    expect("message 2 ");
    runner_parts.on_end(runner_parts.ctx);
    assert_true(has_runner);
    wait_readable(unit->pidfd);
    tell(unit->pidfd, EPOLLIN);
    assert_false(has_runner);
    expect("exit 2: ended ");
    spawned();
    host_unit_kill(host, UNIT);
    assert_true(has_runner);
    wait_readable(unit->pidfd);
    tell(unit->pidfd, EPOLLIN);
    expect("exit 2: ended ");
    spawned();
    host_units_close(host);
    assert_false(has_runner);
    host_units_close(host); // is harmless
}

/* ---- the socket ------------------------------------------------------------------------------ */

static void a_full_socket_is_told_of_when_it_has_room(void **state)
{
    static const struct unit_message message = {.kind = UNIT_OPEN};
    struct host_unit *unit = &host->units[UNIT];
    assert_int_equal(host_unit_send(host, UNIT, &message, -1), -EPIPE); // there is none yet
    spawned();
    int error = host_unit_send(host, UNIT, &message, -1);
    assert_int_equal(error, 0);
    assert_int_equal(watched(host->units[UNIT].channel), EPOLLIN);
    for (unsigned i = 0; i < 10000 && error == 0; i++) {
        error = host_unit_send(host, UNIT, &message, -1);
    }
    assert_int_equal(error, -EAGAIN);
    assert_int_equal(watched(unit->channel), EPOLLIN | EPOLLOUT);
    tell(unit->channel, EPOLLOUT);
    assert_int_equal(watched(unit->channel), EPOLLIN);
    expect("writable 2 ");
}

static void messages_come_in_batches(void **state)
{
    struct host_unit *unit = spawned();
    struct unit_message message = {.kind = UNIT_OPEN};
    unsigned count = 0;
    has_more = true; // one behind each that is heard
    assert_int_equal(channel_send(fds_of_child[UNIT_FD_CHANNEL], &message, -1), 0);
    tell(unit->channel, EPOLLIN);
    for (const char *at = done; (at = strstr(at, "message 2 ")) != NULL; at++) {
        count++;
    }
    assert_int_equal(count, 64);
    done[0] = '\0';
    has_more = false;
    tell(unit->channel, EPOLLIN);
    expect("message 2 ");
    tell(unit->channel, EPOLLIN); // nothing is there
    expect("");
    assert_int_equal(watched(unit->channel), EPOLLIN);
}

// A message with a descriptor of this kind; what was told of it, and whether it is listened to.
static void hand_over(int fd, bool is_window, const char *words, bool goes_on)
{
    struct unit_message message = {.kind = UNIT_OPEN, .is_window = is_window};
    struct host_unit *unit = &host->units[UNIT];
    assert_int_equal(channel_send(fds_of_child[UNIT_FD_CHANNEL], &message, fd), 0);
    close(fd);
    heard_keepsake = -2;
    tell(unit->channel, EPOLLIN);
    expect(words);
    assert_int_equal(unit->channel_watch != NULL, goes_on);
}

static void a_keepsake_is_memory_or_a_window(void **state)
{
    struct host_unit *unit = spawned();
    hand_over(memfd_create("keepsake", MFD_CLOEXEC), false, "message 2 ", true);
    assert_true(is_there(heard_keepsake));
    close(heard_keepsake);
    hand_over(open("/dev/null", O_RDONLY), true, "message 2 ", true);
    assert_int_equal(heard_keepsake, 1000);
    hand_over(open("/dev/null", O_RDONLY), false,
              "broken 2: it handed over a descriptor that is no memory ", false);
    assert_int_equal(watched(unit->channel), 0);
    assert_int_equal(host_unit_send(host, UNIT, &heard, -1), -EPIPE);
}

static void who_says_what_is_no_message_is_listened_to_no_longer(void **state)
{
    struct host_unit *unit = spawned();
    assert_int_equal(send(fds_of_child[UNIT_FD_CHANNEL], "hello", 5, 0), 5);
    tell(unit->channel, EPOLLIN);
    expect("broken 2: it sent what is no message, or descriptors that it may not send ");
    assert_null(unit->channel_watch);
}

static void who_shuts_its_socket_is_killed(void **state)
{
    struct host_unit *unit = spawned();
    child_close(UNIT_FD_CHANNEL);
    wait_readable(unit->channel); // it has closed its own
    tell(unit->channel, EPOLLIN);
    assert_null(unit->channel_watch);
    wait_readable(unit->pidfd);
    tell(unit->pidfd, EPOLLIN);
    expect("exit 2: its process was ended by signal 9 ");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_process_has_a_socket_memory_and_bells),
        TEST(a_bell_of_the_host_can_be_read_alone),
        TEST(who_cannot_begin_leaves_nothing),
        TEST(a_bus_is_used_while_its_process_is_there),
        TEST(buses_are_heard_in_each_turn),
        TEST(how_a_process_ended_is_told),
        TEST(an_rta_in_the_host_ends_from_the_loop),
        TEST(a_full_socket_is_told_of_when_it_has_room),
        TEST(messages_come_in_batches),
        TEST(a_keepsake_is_memory_or_a_window),
        TEST(who_says_what_is_no_message_is_listened_to_no_longer),
        TEST(who_shuts_its_socket_is_killed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
