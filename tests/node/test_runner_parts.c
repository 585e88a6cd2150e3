// An RTA's runner between neighbours that are tables: what it asks of loop, bus, socket, bell and
// agent, in which order, and what it does about each answer.

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/lookout.h"
#include "node/ddm/registry.h"
#include "node/interface/cta_rta.h"
#include "node/interface/request.h"
#include "node/rta/rta.h"
#include "node/unit/channel.h"
#include "node/unit/confinement.h"
#include "node/unit/runner.h"
#include "tests/failing_memory.h"
#include "text/append.h"

enum { CHANNEL = 110, BELL_RTA = 111, BELL_CTA = 112, POOL = 113, BUS = 114, DEVICE = 200 };
enum { SAID_MAX = 1024, WATCHES = 2 + NODE_VOLUME_COUNT_MAX + 1, NOW = 5000, CLOCK = 9000 };

static struct loop *const the_loop = (struct loop *)0x10;
static struct rta *const the_rta = (struct rta *)0x20;
static struct ddm *const the_ddm = (struct ddm *)0x30;

struct watch {
    int fd;
    uint32_t events;
    void (*on_ready)(void *ctx, uint32_t events);
    void *ctx;
};

// Who stands around the runner, and what they answer.
static struct {
    bool is_on;
    char said[SAID_MAX];
    struct rta_parts parts; // the agent's
    struct loop_member *member;
    struct watch watches[WATCHES];
    unsigned watch_count;
    bool no_rta;
    int no_watch; // of this descriptor
    bool sends, receives, has_bus_sense, rings, sleeps;
    uint32_t kind;   // of the frame that is received
    int put, got[4]; // what the socket answers; and to reads, in turn
    unsigned got_at;
    uint32_t put_kind; // what was sent there
    int put_keepsake;
    bool obeys, understands; // the agent: a message, the bus
    bool drained, awaits, looks_on;
    unsigned frames_after; // so many looks; 0: never
    bool gives_way;        // does it go on then?
    instant_ns clock, step;
    int polled;
    short revents;
    int full_reads;
    unsigned ends, stops; // told to the host; of the loop
} now;

static void say(const char *word, long number)
{
    text_append(now.said, sizeof now.said, "%s %ld, ", word, number);
}

static void expect(const char *said)
{
    assert_string_equal(now.said, said);
    now.said[0] = '\0';
}

/* ---- the loop -------------------------------------------------------------------------------- */

void __wrap_loop_join(struct loop *loop, struct loop_member *member);
void __wrap_loop_join(struct loop *loop, struct loop_member *member)
{
    assert_ptr_equal(loop, the_loop);
    now.member = member;
    say("join", 1);
}

void __wrap_loop_leave(struct loop *loop, struct loop_member *member);
void __wrap_loop_leave(struct loop *loop, struct loop_member *member)
{
    assert_ptr_equal(loop, the_loop);
    assert_ptr_equal(member, now.member);
    say("leave", 1);
}

struct loop_watch *__wrap_loop_watch(struct loop *loop, int fd, uint32_t events,
                                     void (*on_ready)(void *ctx, uint32_t events), void *ctx);
struct loop_watch *__wrap_loop_watch(struct loop *loop, int fd, uint32_t events,
                                     void (*on_ready)(void *ctx, uint32_t events), void *ctx)
{
    assert_ptr_equal(loop, the_loop);
    if (fd == now.no_watch) {
        return NULL;
    }
    assert_true(now.watch_count < WATCHES);
    struct watch *watch = &now.watches[now.watch_count++];
    *watch = (struct watch){fd, events, on_ready, ctx};
    say("watch", fd);
    return (struct loop_watch *)watch;
}

void __wrap_loop_watch_change(struct loop_watch *watch, uint32_t events);
void __wrap_loop_watch_change(struct loop_watch *watch, uint32_t events)
{
    ((struct watch *)watch)->events = events;
    say(events == EPOLLIN ? "in" : "out", ((struct watch *)watch)->fd);
}

void __wrap_loop_unwatch(struct loop_watch *watch);
void __wrap_loop_unwatch(struct loop_watch *watch)
{
    if (watch != NULL) {
        say("unwatch", ((struct watch *)watch)->fd);
    }
}

instant_ns __wrap_loop_now(const struct loop *loop);
instant_ns __wrap_loop_now(const struct loop *loop)
{
    assert_ptr_equal(loop, the_loop);
    return NOW;
}

instant_ns __wrap_loop_clock(void);
instant_ns __wrap_loop_clock(void)
{
    now.clock += now.step;
    return now.clock;
}

void __wrap_loop_stop(struct loop *loop);
void __wrap_loop_stop(struct loop *loop)
{
    assert_ptr_equal(loop, the_loop);
    now.stops++;
}

bool __wrap_loop_give_way(struct lookout *lookout, instant_ns at);
bool __wrap_loop_give_way(struct lookout *lookout, instant_ns at)
{
    assert_true(lookout->is_on);
    assert_true(at == now.clock);
    return now.gives_way;
}

/* ---- bus, socket, system --------------------------------------------------------------------- */

void __wrap_bus_end_init(struct bus_end *end, struct bus_memory *memory, bool is_cta);
void __wrap_bus_end_init(struct bus_end *end, struct bus_memory *memory, bool is_cta)
{
    assert_ptr_equal(memory, &now);
    assert_false(is_cta);
    say("begin", 1);
}

bool __wrap_bus_send(struct bus_end *end, const struct frame *frame);
bool __wrap_bus_send(struct bus_end *end, const struct frame *frame)
{
    say("frame", frame->kind);
    return now.sends;
}

bool __wrap_bus_receive(struct bus_end *end, struct frame *ret);
bool __wrap_bus_receive(struct bus_end *end, struct frame *ret)
{
    ret->kind = now.kind;
    return now.receives;
}

bool __wrap_bus_has_frames(struct bus_end *end);
bool __wrap_bus_has_frames(struct bus_end *end)
{
    return now.frames_after > 0 && --now.frames_after == 0;
}

bool __wrap_bus_is_broken(const struct bus_end *end);
bool __wrap_bus_is_broken(const struct bus_end *end)
{
    return !now.has_bus_sense;
}

bool __wrap_bus_sleep(struct bus_end *end);
bool __wrap_bus_sleep(struct bus_end *end)
{
    say("sleep", now.sleeps);
    return now.sleeps;
}

void __wrap_bus_wake(struct bus_end *end);
void __wrap_bus_wake(struct bus_end *end)
{
    say("wake", 1);
}

bool __wrap_bus_should_ring(struct bus_end *end);
bool __wrap_bus_should_ring(struct bus_end *end)
{
    return now.rings;
}

int __wrap_channel_send(int fd, const struct unit_message *message, int keepsake);
int __wrap_channel_send(int fd, const struct unit_message *message, int keepsake)
{
    assert_int_equal(fd, CHANNEL);
    now.put_kind = message->kind;
    now.put_keepsake = keepsake;
    say("put", now.put);
    return now.put;
}

int __wrap_channel_receive(int fd, struct unit_message *ret, int *ret_keepsake);
int __wrap_channel_receive(int fd, struct unit_message *ret, int *ret_keepsake)
{
    assert_int_equal(fd, CHANNEL);
    int got = now.got[now.got_at++];
    ret->kind = 7;
    *ret_keepsake = got;
    say("get", got);
    return got;
}

ssize_t __real_write(int fd, const void *data, size_t len);
ssize_t __wrap_write(int fd, const void *data, size_t len);
ssize_t __wrap_write(int fd, const void *data, size_t len)
{
    if (!now.is_on || fd < CHANNEL) {
        return __real_write(fd, data, len);
    }
    uint64_t rings = 0;
    assert_int_equal(len, sizeof rings);
    memcpy(&rings, data, len);
    assert_int_equal(rings, 1);
    say("ring", fd);
    return (ssize_t)len;
}

ssize_t __wrap_read(int fd, void *data, size_t len);
ssize_t __wrap_read(int fd, void *data, size_t len)
{
    assert_true(len >= 256);
    say("read", fd);
    return now.full_reads-- > 0 ? (ssize_t)len : 1;
}

int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
    if (!now.is_on) {
        return __real_close(fd);
    }
    say("close", fd);
    return 0;
}

void __wrap_segment_close(struct segment *segment);
void __wrap_segment_close(struct segment *segment)
{
    say("free", segment->fd);
}

int __wrap_prctl(int what, ...);
int __wrap_prctl(int what, ...)
{
    va_list arguments;
    va_start(arguments, what);
    assert_int_equal(what, PR_SET_PDEATHSIG);
    say("dies by", va_arg(arguments, int));
    va_end(arguments);
    return 0;
}

int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    assert_int_equal(fds->fd, CHANNEL);
    assert_int_equal(count, 1);
    assert_int_equal(timeout_ms, 0);
    fds->revents = now.revents;
    return now.polled;
}

void __wrap_confinement_narrow(const struct ddm *chain);
void __wrap_confinement_narrow(const struct ddm *chain)
{
    assert_ptr_equal(chain, the_ddm);
    say("narrow", 1);
}

/* ---- the agent ------------------------------------------------------------------------------- */

struct rta *__wrap_rta_create(const struct rta_parts *parts);
struct rta *__wrap_rta_create(const struct rta_parts *parts)
{
    now.parts = *parts;
    return now.no_rta ? NULL : the_rta;
}

void __wrap_rta_start(struct rta *rta);
void __wrap_rta_start(struct rta *rta)
{
    assert_ptr_equal(rta, the_rta);
    say("start", 1);
}

void __wrap_rta_destroy(struct rta *rta);
void __wrap_rta_destroy(struct rta *rta)
{
    assert_ptr_equal(rta, the_rta);
    say("destroy", 1);
}

bool __wrap_rta_on_message(struct rta *rta, const struct unit_message *message, int keepsake,
                           instant_ns at);
bool __wrap_rta_on_message(struct rta *rta, const struct unit_message *message, int keepsake,
                           instant_ns at)
{
    assert_int_equal(message->kind, 7);
    assert_true(at == NOW);
    say("message", keepsake);
    return now.obeys;
}

bool __wrap_rta_on_bus(struct rta *rta, instant_ns at);
bool __wrap_rta_on_bus(struct rta *rta, instant_ns at)
{
    say("bus", at);
    return now.understands;
}

void __wrap_rta_on_device(struct rta *rta, struct ddm *ddm, instant_ns at);
void __wrap_rta_on_device(struct rta *rta, struct ddm *ddm, instant_ns at)
{
    assert_true(at == NOW);
    say("device", (long)((uintptr_t)ddm));
}

bool __wrap_rta_look_on(struct rta *rta, instant_ns at);
bool __wrap_rta_look_on(struct rta *rta, instant_ns at)
{
    assert_true(at == now.clock);
    say("look", now.looks_on);
    return now.looks_on;
}

instant_ns __wrap_rta_next_deadline(struct rta *rta);
instant_ns __wrap_rta_next_deadline(struct rta *rta)
{
    return 4321;
}

bool __wrap_rta_on_deadline(struct rta *rta, instant_ns at);
bool __wrap_rta_on_deadline(struct rta *rta, instant_ns at)
{
    say("deadline", at);
    return now.understands;
}

bool __wrap_rta_is_drained(const struct rta *rta);
bool __wrap_rta_is_drained(const struct rta *rta)
{
    return now.drained;
}

bool __wrap_rta_awaits_device(const struct rta *rta);
bool __wrap_rta_awaits_device(const struct rta *rta)
{
    return now.awaits;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void on_end(void *ctx)
{
    assert_ptr_equal(ctx, &now);
    now.ends++;
}

static struct runner *begin(bool is_in_host)
{
    struct runner_parts parts = {.loop = the_loop,
                                 .channel = CHANNEL,
                                 .bell_rta = BELL_RTA,
                                 .bell_cta = BELL_CTA,
                                 .pool = {.ptr = now.said, .len = 77, .fd = POOL},
                                 .bus = {.ptr = &now, .fd = BUS},
                                 .is_in_host = is_in_host,
                                 .landlock = 9,
                                 .on_end = on_end,
                                 .ctx = &now};
    now.is_on = true;
    return runner_create(&parts);
}

static struct runner *begun(void)
{
    struct runner *runner = begin(false);
    assert_non_null(runner);
    now.said[0] = '\0';
    return runner;
}

static int fresh(void **state)
{
    memset(&now, 0, sizeof now);
    now.no_watch = -1;
    now.obeys = now.understands = now.has_bus_sense = now.sleeps = now.gives_way = true;
    now.clock = CLOCK;
    return 0;
}

static int over(void **state)
{
    now.is_on = false;
    return 0;
}

static void a_process_of_its_own_gives_all_back(void **state)
{
    struct runner *runner = begin(false);
    expect("begin 1, join 1, watch 110, watch 111, start 1, ");
    assert_int_equal(now.watches[0].events, EPOLLIN);
    assert_int_equal(now.watches[1].events, EPOLLIN | EPOLLET);
    assert_ptr_equal(now.parts.pool, now.said);
    assert_int_equal(now.parts.pool_len, 77);
    assert_int_equal(now.parts.landlock, 9);
    assert_true(now.parts.is_alone);
    assert_non_null(now.parts.on_waiting);
    assert_ptr_equal(now.parts.ddm_open, ddm_registry_open);
    assert_string_equal(now.parts.formats[0]->name, "ata");
    assert_string_equal(now.parts.formats[1]->name, "scsi");
    assert_null(now.parts.formats[2]);
    assert_true(now.parts.clock(runner) == CLOCK);
    now.parts.on_only(now.parts.ctx, the_ddm);
    now.parts.drop(now.parts.ctx, 99);
    runner_destroy(runner);
    expect("narrow 1, close 99, leave 1, unwatch 110, unwatch 111, destroy 1, close 110, "
           "close 111, close 112, free 113, free 114, ");
}

static void the_hosts_own_leaves_it_what_is_its(void **state)
{
    struct runner *runner = begin(true);
    assert_false(now.parts.is_alone);
    assert_null(now.parts.on_only);
    assert_null(now.parts.on_waiting);
    assert_ptr_equal(now.parts.ddm_open, ddm_registry_open_in_host);
    now.rings = true;
    now.said[0] = '\0';
    now.parts.bus.ring(now.parts.bus.ctx); // it looks at the bus before it sleeps
    expect("");
    runner_destroy(runner);
    expect("leave 1, unwatch 110, unwatch 111, destroy 1, close 110, close 111, close 112, ");
}

static void what_cannot_begin_gives_all_back(void **state)
{
    static const struct {
        bool no_rta;
        int no_watch;
        const char *said;
    } cases[] = {
        {true, -1, "begin 1, join 1, watch 110, watch 111, leave 1, unwatch 110, unwatch 111, "},
        {false, CHANNEL, "begin 1, join 1, watch 111, leave 1, unwatch 111, destroy 1, "},
        {false, BELL_RTA, "begin 1, join 1, watch 110, leave 1, unwatch 110, destroy 1, "},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char said[SAID_MAX];
        fresh(NULL);
        now.no_rta = cases[i].no_rta;
        now.no_watch = cases[i].no_watch;
        assert_null(begin(false));
        snprintf(said, sizeof said, "%sclose 110, close 111, close 112, free 113, free 114, ",
                 cases[i].said);
        expect(said);
    }
}

static void without_memory_all_is_given_back(void **state)
{
    for (unsigned is_in_host = 0; is_in_host < 2; is_in_host++) {
        fresh(NULL);
        memory_fail_at(1);
        assert_null(begin(is_in_host != 0));
        memory_fail_at(0);
        expect(is_in_host != 0 ? "close 110, close 111, close 112, "
                               : "close 110, close 111, close 112, free 113, free 114, ");
        over(NULL);
    }
}

static void an_end_is_told_to_the_host_and_stops_a_loop_of_its_own(void **state)
{
    for (unsigned is_in_host = 0; is_in_host < 2; is_in_host++) {
        fresh(NULL);
        struct runner *runner = begin(is_in_host != 0);
        now.drained = true;
        for (unsigned i = 0; i < 2; i++) { // once
            now.member->on_batch_end(now.member->ctx, 66);
            assert_int_equal(now.ends, is_in_host);
            assert_int_equal(now.stops, 1 - is_in_host);
        }
        runner_destroy(runner);
    }
}

/* ---- the bus --------------------------------------------------------------------------------- */

static void frames_pass_and_a_host_that_sleeps_is_rung(void **state)
{
    struct runner *runner = begun();
    struct frame frame = {.kind = FRAME_RESULT}, got = {0};
    const struct frame_port *bus = &now.parts.bus;
    for (unsigned yes = 0; yes < 2; yes++) {
        now.sends = now.receives = now.rings = yes != 0;
        assert_int_equal(bus->send(bus->ctx, &frame), yes);
        assert_int_equal(bus->receive(bus->ctx, &got), yes);
        now.said[0] = '\0';
        bus->ring(bus->ctx);
        expect(yes != 0 ? "ring 112, " : "");
    }
    runner_destroy(runner);
}

static void rings_are_taken_from_the_pipe_now_and_then(void **state)
{
    struct runner *runner = begun();
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < 255; i++) {
            now.watches[1].on_ready(now.watches[1].ctx, EPOLLIN);
        }
        expect("");
        now.full_reads = 2;
        now.watches[1].on_ready(now.watches[1].ctx, EPOLLIN);
        expect("read 111, read 111, read 111, ");
    }
    runner_destroy(runner);
}

static void who_puts_nonsense_on_the_bus_is_left(void **state)
{
    static const struct {
        bool understands, has_sense, drained;
        unsigned stops;
    } cases[] = {{true, true, false, 0},
                 {false, true, false, 1},
                 {true, false, false, 1},
                 {true, true, true, 1},
                 {false, false, true, 1}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fresh(NULL);
        struct runner *runner = begun();
        now.understands = cases[i].understands;
        now.has_bus_sense = cases[i].has_sense;
        now.drained = cases[i].drained;
        now.member->on_batch_end(now.member->ctx, 66);
        expect("bus 66, ");
        now.member->on_batch_end(now.member->ctx, 67); // it has ended once, and asks no more
        expect(cases[i].stops > 0 ? "" : "bus 67, ");
        assert_int_equal(now.stops, cases[i].stops);
        runner_destroy(runner);
    }
    fresh(NULL);
    struct runner *runner = begun();
    now.understands = false;
    now.member->on_deadline(now.member->ctx, 68); // frames are taken there as well
    expect("deadline 68, ");
    assert_int_equal(now.stops, 1);
    runner_destroy(runner);
}

/* ---- the socket ------------------------------------------------------------------------------ */

static void messages_are_heard_until_there_are_no_more(void **state)
{
    static const struct {
        bool obeys;
        int got[4];
        unsigned stops;
        const char *said;
    } cases[] = {
        {true, {-EAGAIN}, 0, "get -11, "},
        {true, {3, 4, -EAGAIN}, 0, "get 3, message 3, get 4, message 4, get -11, "},
        {true, {-EINTR}, 0, "get -4, "},
        {true, {3, 0}, 1, "get 3, message 3, get 0, "},
        {true, {-EPIPE}, 1, "get -32, "},
        {false, {3, 4}, 1, "get 3, message 3, "},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fresh(NULL);
        struct runner *runner = begun();
        now.obeys = cases[i].obeys;
        memcpy(now.got, cases[i].got, sizeof now.got);
        now.watches[0].on_ready(now.watches[0].ctx, EPOLLIN);
        expect(cases[i].said);
        assert_int_equal(now.stops, cases[i].stops);
        runner_destroy(runner);
    }
}

static void an_answer_is_said_or_its_error_is(void **state)
{
    struct runner *runner = begun();
    static const int errors[] = {0, -EPIPE};
    for (unsigned i = 0; i < 2; i++) {
        now.put = errors[i];
        assert_int_equal(
            now.parts.uma.send(now.parts.uma.ctx, &(struct unit_message){.kind = 5}, 8), errors[i]);
        assert_int_equal(now.put_kind, 5);
        assert_int_equal(now.put_keepsake, 8);
    }
    expect("put 0, put -32, ");
    runner_destroy(runner);
}

static void an_answer_without_room_waits_and_no_more_is_read(void **state)
{
    struct runner *runner = begun();
    const struct unit_port *uma = &now.parts.uma;
    struct watch *channel = &now.watches[0];
    now.put = -EAGAIN;
    assert_int_equal(uma->send(uma->ctx, &(struct unit_message){.kind = 5}, 8), 0);
    expect("put -11, out 110, ");
    assert_int_equal(uma->send(uma->ctx, &(struct unit_message){.kind = 6}, 9), -EAGAIN);
    expect("");
    channel->on_ready(channel->ctx, EPOLLOUT); // still none
    expect("put -11, ");
    assert_int_equal(now.put_kind, 5);
    assert_int_equal(now.put_keepsake, 8);
    now.put = 0;
    now.got[0] = -EAGAIN;
    channel->on_ready(channel->ctx, EPOLLOUT);
    expect("put 0, in 110, get -11, ");
    assert_int_equal(now.put_kind, 5);
    assert_int_equal(now.put_keepsake, 8);
    assert_int_equal(uma->send(uma->ctx, &(struct unit_message){.kind = 6}, 9), 0);
    expect("put 0, ");
    assert_int_equal(now.stops, 0);
    runner_destroy(runner);
}

/* ---- devices --------------------------------------------------------------------------------- */

static struct ddm *ddm_of(unsigned i)
{
    return (struct ddm *)(uintptr_t)(1000 + i);
}

static void each_device_is_heard_by_its_descriptor(void **state)
{
    struct runner *runner = begun();
    for (unsigned i = 0; i < NODE_VOLUME_COUNT_MAX; i++) {
        now.parts.watch(now.parts.ctx, DEVICE + (int)i, ddm_of(i));
        assert_int_equal(now.watch_count, 3 + i);
        assert_int_equal(now.watches[2 + i].events, EPOLLIN);
        now.said[0] = '\0';
    }
    now.parts.watch(now.parts.ctx, DEVICE - 1, ddm_of(0)); // more there cannot be
    expect("");
    static const unsigned some[] = {0, 1, NODE_VOLUME_COUNT_MAX - 1};
    for (unsigned n = 0; n < 3; n++) {
        char said[32];
        struct watch *watch = &now.watches[2 + some[n]];
        watch->on_ready(watch->ctx, EPOLLIN);
        snprintf(said, sizeof said, "device %u, ", 1000 + some[n]);
        expect(said);
        now.parts.unwatch(now.parts.ctx, DEVICE + (int)some[n]);
        snprintf(said, sizeof said, "unwatch %u, ", DEVICE + some[n]);
        expect(said);
        now.parts.unwatch(now.parts.ctx, DEVICE + (int)some[n]); // it is gone
        expect("");
    }
    now.watch_count--;
    now.parts.watch(now.parts.ctx, DEVICE + 999, ddm_of(999)); // in the place of one that is gone
    expect("watch 1199, ");
    runner_destroy(runner);
    const char *first = strstr(now.said, "unwatch 1199, unwatch 202, "); // each that is there
    assert_ptr_equal(first, now.said + strlen("leave 1, "));
}

static void who_waits_for_another_node_ends_with_its_host(void **state)
{
    static const struct {
        bool waits;
        int polled;
        short revents;
        const char *said;
        bool ends;
    } cases[] = {{true, 0, 0, "dies by 9, ", false},
                 {true, 1, POLLIN, "dies by 9, ", false},
                 {true, 0, POLLHUP, "dies by 9, ", false},
                 {true, 1, POLLHUP | POLLIN, "dies by 9, ", true},
                 {false, 1, POLLHUP, "dies by 0, ", false}};
    struct runner *runner = begun();
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int status;
        now.polled = cases[i].polled;
        now.revents = cases[i].revents;
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) {
            now.parts.on_waiting(now.parts.ctx, cases[i].waits);
            _exit(strcmp(now.said, cases[i].said) == 0 ? 17 : 18);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), cases[i].ends ? EXIT_SUCCESS : 17);
    }
    runner_destroy(runner);
}

/* ---- sleep ----------------------------------------------------------------------------------- */

static void who_sleeps_has_looked_before(void **state)
{
    static const struct {
        bool awaits, looks_on; // a device
        bool has_come;         // a request, so another one is looked for
        unsigned frames_after;
        bool gives_way, sleeps;
        const char *said;
        bool may;
    } cases[] = {
        {true, true, true, 1, true, true, "look 1, ", false},
        {true, false, true, 1, true, true, "look 0, sleep 1, ", true},
        {true, false, false, 0, true, false, "look 0, sleep 0, ", false},
        {false, false, false, 1, true, true, "sleep 1, ", true},
        {false, false, true, 1, true, true, "", false},
        {false, false, true, 3, true, true, "", false},
        {false, false, true, 3, false, true, "sleep 1, ", true},
        {false, false, true, 0, true, true, "sleep 1, ", true},
        {false, false, true, 0, true, false, "sleep 0, ", false},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct frame frame;
        fresh(NULL);
        struct runner *runner = begun();
        now.awaits = cases[i].awaits;
        now.looks_on = cases[i].looks_on;
        now.frames_after = cases[i].frames_after;
        now.gives_way = cases[i].gives_way;
        now.sleeps = cases[i].sleeps;
        now.step = LOOKOUT_NS / 10;
        now.receives = true;
        now.kind = cases[i].has_come ? FRAME_REQUEST : FRAME_RESULT;
        now.parts.bus.receive(now.parts.bus.ctx, &frame);
        assert_int_equal(now.member->may_sleep(now.member->ctx), cases[i].may);
        assert_true(now.clock < CLOCK + 2 * LOOKOUT_NS);
        expect(cases[i].said);
        runner_destroy(runner);
    }
}

static void times_are_the_agents(void **state)
{
    struct runner *runner = begun();
    assert_true(now.member->next_deadline(now.member->ctx) == 4321);
    now.member->on_deadline(now.member->ctx, 55);
    now.member->on_wake(now.member->ctx);
    expect("deadline 55, wake 1, ");
    runner_destroy(runner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_process_of_its_own_gives_all_back, fresh, over),
        cmocka_unit_test_setup_teardown(the_hosts_own_leaves_it_what_is_its, fresh, over),
        cmocka_unit_test_setup_teardown(what_cannot_begin_gives_all_back, fresh, over),
        cmocka_unit_test_setup_teardown(without_memory_all_is_given_back, fresh, over),
        cmocka_unit_test_setup_teardown(an_end_is_told_to_the_host_and_stops_a_loop_of_its_own,
                                        fresh, over),
        cmocka_unit_test_setup_teardown(frames_pass_and_a_host_that_sleeps_is_rung, fresh, over),
        cmocka_unit_test_setup_teardown(rings_are_taken_from_the_pipe_now_and_then, fresh, over),
        cmocka_unit_test_setup_teardown(who_puts_nonsense_on_the_bus_is_left, fresh, over),
        cmocka_unit_test_setup_teardown(messages_are_heard_until_there_are_no_more, fresh, over),
        cmocka_unit_test_setup_teardown(an_answer_is_said_or_its_error_is, fresh, over),
        cmocka_unit_test_setup_teardown(an_answer_without_room_waits_and_no_more_is_read, fresh,
                                        over),
        cmocka_unit_test_setup_teardown(each_device_is_heard_by_its_descriptor, fresh, over),
        cmocka_unit_test_setup_teardown(who_waits_for_another_node_ends_with_its_host, fresh, over),
        cmocka_unit_test_setup_teardown(who_sleeps_has_looked_before, fresh, over),
        cmocka_unit_test_setup_teardown(times_are_the_agents, fresh, over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
