// The server of streams, with a protocol of single octets: what each stands for is its number.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/lookout.h"
#include "base/system_calls.h"
#include "base/time.h"
#include "node/stream/server.h"

enum {
    COUNT_MAX = 40,
    LIMIT = COUNT_MAX,
    PLACE_LEN = 20000,
    IN_LEN = 8 << 10,
    GOODBYE = 255,
    PLACE = 254,
    PAIR = 253, // an octet belongs to it
};

struct guest {
    struct stream stream;
    uint8_t number;
    bool has_number, says_goodbye;
    uint32_t placed; // octets in place
    bool is_placing;
};

// One test's server, its clients' ends, and what was seen.
static struct stage {
    struct loop *loop;
    struct stream_server server;
    struct addresses listen;
    char folder[32], path[64], line[256];
    int client[COUNT_MAX + 1];
    unsigned expected, numbered; // streams that say a number, and how many have
    instant_ns base;             // from where deadlines count; 0: not yet
    uint8_t ended[COUNT_MAX + 1];
    unsigned ended_count;
    uint8_t place[PLACE_LEN];
    uint32_t direct_len;
    instant_ns begun_at, whole_at; // turns in which a pair was seen
} stage;

static unsigned looks; // how often a socket was read

ssize_t __real_recv(int fd, void *to, size_t len, int flags);
ssize_t __wrap_recv(int fd, void *to, size_t len, int flags);

ssize_t __wrap_recv(int fd, void *to, size_t len, int flags)
{
    looks++;
    return __real_recv(fd, to, len, flags);
}

// Somebody looks at the clock: the system's, or one that goes on by a microsecond then.
static void (*on_clock)(void);
static instant_ns clock_now; // 0: the system's

int __real_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
    if (on_clock != NULL) {
        on_clock();
    }
    if (clock_now != 0) {
        clock_now += NS_PER_US;
        *ret = (struct timespec){.tv_sec = (time_t)(clock_now / NS_PER_S),
                                 .tv_nsec = (long)(clock_now % NS_PER_S)};
        return 0;
    }
    return __real_clock_gettime(clock, ret);
}

static unsigned sleeps;        // how often the loop was ready to wait
static bool (*on_sleep)(void); // true: it is woken at once

long __real_syscall(long number, ...);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);

long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    const struct timespec *timeout = (const struct timespec *)d;
    bool is_look = timeout != NULL && timeout->tv_sec == 0 && timeout->tv_nsec == 0;
    bool is_sleep = number == CALL_EPOLL_PWAIT2 && !is_look;
    sleeps += is_sleep;
    if (is_sleep && on_sleep != NULL && on_sleep()) {
        return 0;
    }
    return __real_syscall(number, a, b, c, d, e, f);
}

static struct guest *guest_of(const struct stream *s)
{
    return LIST_ENTRY(s, struct guest, stream);
}

static struct stream *guest_create(void *ctx)
{
    struct guest *guest = calloc(1, sizeof *guest);
    return guest != NULL ? &guest->stream : NULL;
}

static bool begin(struct stream *s)
{
    return true;
}

// When all have said their numbers, deadlines begin to run for all of them at once.
static void all_are_numbered(void)
{
    stage.base = loop_now(stage.loop);
    for (struct list_link *l = stage.server.streams.next; l != &stage.server.streams; l = l->next) {
        stream_touch(LIST_ENTRY(l, struct stream, link));
    }
}

static enum stream_verdict take(struct stream *s, instant_ns now)
{
    struct guest *guest = guest_of(s);
    uint32_t there = s->in_len - s->in_at;
    if (guest->is_placing) {
        uint32_t part = there < PLACE_LEN - guest->placed ? there : PLACE_LEN - guest->placed;
        memcpy(stage.place + guest->placed, s->in + s->in_at, part);
        s->in_at += part;
        guest->placed += part;
        return guest->placed < PLACE_LEN ? STREAM_NEEDS_MORE : STREAM_LEAVES;
    }
    if (there == 0) {
        return STREAM_NEEDS_MORE;
    }
    if (s->in[s->in_at] == PAIR) {
        stage.begun_at = stage.begun_at == 0 ? now : stage.begun_at;
        stage.whole_at = now;
        s->in_at += there == 1 ? 0 : 1;
        return there == 1 ? STREAM_NEEDS_MORE : STREAM_GOES_ON;
    }
    uint8_t octet = s->in[s->in_at++];
    guest->says_goodbye = octet == GOODBYE;
    guest->is_placing = octet == PLACE;
    if (octet >= PLACE) {
        return octet == GOODBYE ? STREAM_LEAVES : STREAM_GOES_ON;
    }
    guest->number = octet;
    guest->has_number = true;
    if (++stage.numbered == stage.expected) {
        all_are_numbered();
    }
    return STREAM_GOES_ON;
}

static uint8_t *direct(struct stream *s, uint32_t *ret_len)
{
    struct guest *guest = guest_of(s);
    *ret_len = PLACE_LEN - guest->placed;
    return guest->is_placing ? stage.place + guest->placed : NULL;
}

static void received(struct stream *s, uint32_t len, instant_ns now)
{
    guest_of(s)->placed += len;
    stage.direct_len += len;
}

static bool wants_input(const struct stream *s)
{
    return true;
}

static bool answers; // in each turn in which a stream spoke

static int flush(struct stream *s, instant_ns now)
{
    struct iovec answer = {.iov_base = "!", .iov_len = 1};
    if (answers) {
        stream_send(s, &answer, 1, now);
    }
    struct iovec goodbye = {.iov_base = "bye", .iov_len = 3};
    return guest_of(s)->says_goodbye ? (int)stream_send(s, &goodbye, 1, now) : 0;
}

static void expects(struct stream *s, instant_ns now)
{
    const struct guest *guest = guest_of(s);
    bool runs = stage.base != 0 && guest->has_number;
    s->silent_until_ns = runs ? stage.base + guest->number * NS_PER_MS : INSTANT_NEVER;
}

static void on_end(struct stream *s, instant_ns now)
{
    stage.ended[stage.ended_count++] = guest_of(s)->number;
    if (stage.ended_count == stage.expected) {
        loop_stop(stage.loop);
    }
}

static bool leave(struct stream *s)
{
    return true;
}

static void destroy(struct stream *s)
{
    free(guest_of(s));
}

static const struct stream_protocol protocol = {
    .name = "toy",
    .peer = "guest",
    .title = "toy",
    .stream_max = LIMIT,
    .stream_of_host_max = LIMIT,
    .in_len = IN_LEN,
    .handshake_ns = 60 * NS_PER_S,
    .create = guest_create,
    .begin = begin,
    .take = take,
    .direct = direct,
    .received = received,
    .wants_input = wants_input,
    .flush = flush,
    .expects = expects,
    .on_end = on_end,
    .leave = leave,
    .destroy = destroy,
};

/* ---- the stage ------------------------------------------------------------------------------- */

static void say(void *ctx, const char *host, const char *line)
{
    snprintf(stage.line, sizeof stage.line, "%s", line);
    loop_stop(stage.loop);
}

static int set_up(void **state)
{
    memset(&stage, 0, sizeof stage);
    snprintf(stage.folder, sizeof stage.folder, "/tmp/weft-stream-XXXXXX");
    assert_non_null(mkdtemp(stage.folder));
    snprintf(stage.path, sizeof stage.path, "%s/socket", stage.folder);
    stage.listen.count = 1;
    snprintf(stage.listen.of[0], ADDRESS_MAX, "unix:%s", stage.path);
    stage.loop = loop_create();
    assert_non_null(stage.loop);
    stream_server_init(
        &stage.server, &protocol,
        &(struct stream_server_parts){
            .loop = stage.loop, .listen = stage.listen, .patience_ns = 60 * NS_PER_S, .say = say});
    return 0;
}

static int tear_down(void **state)
{
    stream_server_fini(&stage.server);
    loop_destroy(stage.loop);
    for (unsigned i = 0; i < sizeof stage.client / sizeof stage.client[0]; i++) {
        if (stage.client[i] > 0) {
            close(stage.client[i]);
        }
    }
    rmdir(stage.folder);
    return 0;
}

static void listens(void)
{
    struct why why;
    assert_int_equal(stream_server_listen(&stage.server, &why), 0);
}

static void client_comes(unsigned i)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    snprintf(addr.sun_path, sizeof addr.sun_path, "%s", stage.path);
    stage.client[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(stage.client[i], (struct sockaddr *)&addr, sizeof addr), 0);
}

static void client_says(unsigned i, uint8_t octet)
{
    assert_int_equal(write(stage.client[i], &octet, 1), 1);
}

/* ---- the tests ------------------------------------------------------------------------------- */

static void silent_streams_end_in_the_order_of_their_deadlines(void **state)
{
    stage.expected = COUNT_MAX;
    listens();
    for (unsigned i = 0; i < COUNT_MAX; i++) {
        client_comes(i);
        client_says(i, (uint8_t)(1 + i * 7 % COUNT_MAX));
    }
    assert_int_equal(loop_run(stage.loop), 0);
    for (unsigned i = 0; i < COUNT_MAX; i++) {
        assert_int_equal(stage.ended[i], 1 + i);
    }
    assert_int_equal(stage.server.counters.stalled, COUNT_MAX);
}

static void who_comes_beyond_the_limit_is_refused_aloud(void **state)
{
    char end;
    stage.expected = COUNT_MAX + 1;
    listens();
    for (unsigned i = 0; i <= COUNT_MAX; i++) {
        client_comes(i);
    }
    assert_int_equal(loop_run(stage.loop), 0);
    assert_non_null(strstr(stage.line, "toy: a guest at unix"));
    assert_non_null(strstr(stage.line, "the node has as many toy connections as it can"));
    assert_int_equal(stage.server.counters.accepted, COUNT_MAX + 1);
    assert_int_equal(stage.server.counters.refused, 1);
    assert_int_equal(read(stage.client[COUNT_MAX], &end, 1), 0);
}

static void what_is_ready_to_go_is_sent_before_the_end(void **state)
{
    char text[4] = "";
    stage.expected = 1;
    listens();
    client_comes(0);
    client_says(0, GOODBYE);
    assert_int_equal(loop_run(stage.loop), 0);
    assert_int_equal(recv(stage.client[0], text, sizeof text, MSG_WAITALL), 3);
    assert_string_equal(text, "bye");
    assert_int_equal(stage.server.counters.stalled, 0);
}

static void a_socket_that_gave_all_it_had_is_not_read_again(void **state)
{
    stage.expected = 1;
    listens();
    client_comes(0);
    client_says(0, 1);
    looks = 0;
    assert_int_equal(loop_run(stage.loop), 0);
    assert_int_equal(looks, 1);
}

static bool has_said_rest;

static void rest_comes(void)
{
    if (stage.begun_at != 0 && !has_said_rest) {
        has_said_rest = true;
        client_says(0, 1);
    }
}

static void rest_comes_late(void *ctx, instant_ns now)
{
    rest_comes();
}

// By the next call of its sender, or at the latest when the turn ends.
static void the_rest_of_a_message_that_follows_closely_is_taken_in_the_same_turn(void **state)
{
    struct loop_member member = {.on_batch_end = rest_comes_late};
    stage.expected = 1;
    has_said_rest = false;
    listens();
    loop_join(stage.loop, &member);
    client_comes(0);
    client_says(0, PAIR);
    on_clock = rest_comes;
    assert_int_equal(loop_run(stage.loop), 0);
    on_clock = NULL;
    loop_leave(stage.loop, &member);
    assert_true(has_said_rest);
    assert_true(stage.whole_at != 0);
    assert_true(stage.whole_at == stage.begun_at);
}

static void turn_ends(void *ctx, instant_ns now)
{
    if (stage.begun_at != 0) {
        loop_stop(stage.loop);
    }
}

// Once behind what came, and once for the rest.
static void a_message_without_its_rest_is_not_looked_at_again(void **state)
{
    struct loop_member member = {.on_batch_end = turn_ends};
    listens();
    loop_join(stage.loop, &member);
    client_comes(0);
    client_says(0, PAIR);
    looks = 0;
    assert_int_equal(loop_run(stage.loop), 0);
    loop_leave(stage.loop, &member);
    assert_int_equal(looks, 2);
}

// The wish and the first octets fill the buffer; the rest has a place of its own.
static void many_octets_are_received_straight_into_place(void **state)
{
    uint8_t octets[1 + PLACE_LEN];
    memset(octets, 0x5a, sizeof octets);
    octets[0] = PLACE;
    stage.expected = 1;
    listens();
    client_comes(0);
    assert_int_equal(write(stage.client[0], octets, sizeof octets), sizeof octets);
    assert_int_equal(loop_run(stage.loop), 0);
    assert_memory_equal(stage.place, octets + 1, PLACE_LEN);
    assert_int_equal(stage.direct_len, sizeof octets - IN_LEN);
}

/* ---- what comes next ------------------------------------------------------------------------- */

enum { MESSAGES = 100 };

static unsigned talkers, said;

// Each says its next when what was said before has been taken.
static void talk(void)
{
    if (stage.numbered == MESSAGES) {
        loop_stop(stage.loop);
    } else if (said == stage.numbered) {
        client_says(said++ % talkers, 100);
    }
}

static void talk_late(void *ctx, instant_ns now)
{
    talk();
}

static void talk_all(unsigned count, bool is_answered)
{
    struct loop_member member = {.on_batch_end = talk_late};
    talkers = count;
    answers = is_answered;
    said = sleeps = looks = 0;
    clock_now = NS_PER_S;
    stage.expected = MESSAGES + 1; // no deadlines
    listens();
    for (unsigned i = 0; i < count; i++) {
        client_comes(i);
    }
    loop_join(stage.loop, &member);
    on_clock = talk;
    assert_int_equal(loop_run(stage.loop), 0);
    on_clock = NULL;
    loop_leave(stage.loop, &member);
    clock_now = 0;
    answers = false;
}

// It is known to be alone when it has spoken twice.
static void who_speaks_alone_finds_the_loop_awake(void **state)
{
    talk_all(1, true);
    assert_true(sleeps <= 3);
}

// Who awaits an answer says nothing meanwhile.
static void who_is_not_answered_at_once_is_not_looked_for(void **state)
{
    talk_all(1, false);
    assert_int_equal(looks, MESSAGES);
}

// Two at a time: no socket is read in vain.
static void of_several_that_speak_none_is_looked_for(void **state)
{
    talk_all(2, true);
    assert_int_equal(looks, MESSAGES);
}

/* ---- a member behind the server -------------------------------------------------------------- */

static struct late {
    struct loop_member member;
    bool has_touched, was_left;
} late;

static void late_touches(void *ctx, instant_ns now)
{
    if (stage.numbered == 1 && !late.has_touched) {
        late.has_touched = true;
        stream_touch(LIST_ENTRY(stage.server.streams.next, struct stream, link));
    }
}

static bool late_looks(void)
{
    if (late.has_touched) {
        late.was_left = !list_is_empty(&stage.server.dirty);
        loop_stop(stage.loop);
    }
    return late.has_touched;
}

static void a_stream_that_is_touched_last_of_all_does_not_wait_for_an_event(void **state)
{
    late = (struct late){.member = {.on_batch_end = late_touches}};
    on_sleep = late_looks;
    stage.expected = 1;
    listens();
    loop_join(stage.loop, &late.member);
    client_comes(0);
    client_says(0, 100);
    assert_int_equal(loop_run(stage.loop), 0);
    on_sleep = NULL;
    loop_leave(stage.loop, &late.member);
    assert_true(late.has_touched);
    assert_false(late.was_left);
}

static void a_server_that_could_not_listen_may_try_again(void **state)
{
    struct why why = {.text = ""};
    char other_path[STREAM_PATH_MAX];
    struct stream_server other;
    listens();
    stream_server_init(&other, &protocol,
                       &(struct stream_server_parts){.loop = stage.loop, .listen = stage.listen});
    assert_int_equal(stream_server_listen(&other, &why), -EADDRINUSE);
    assert_true(why_is_said(&why));
    stream_server_close(&stage.server);
    assert_int_equal(stream_server_listen(&other, &why), 0);
    snprintf(other_path, sizeof other_path, "%s", other.listeners[0].unix_path);
    stream_server_fini(&other);
    assert_int_equal(access(other_path, F_OK), -1);
}

// At all of its addresses, or at none.
static void a_server_listens_at_each_of_its_addresses(void **state)
{
    char first[sizeof stage.path];
    struct why why = {.text = ""};
    snprintf(first, sizeof first, "%s", stage.path);
    assert_int_equal(addresses_add(&stage.server.parts.listen, "nowhere"), ADDRESSES_OK);
    assert_int_equal(stream_server_listen(&stage.server, &why), -EINVAL);
    assert_non_null(strstr(why.text, "nowhere"));
    assert_int_equal(access(first, F_OK), -1);
    snprintf(stage.server.parts.listen.of[1], ADDRESS_MAX, "unix:%s/other", stage.folder);
    listens();
    for (unsigned i = 0; i < 2; i++) {
        client_comes(i);
        client_says(i, 100);
        snprintf(stage.path, sizeof stage.path, "%s/other", stage.folder);
    }
    stage.expected = 2;
    assert_int_equal(loop_run(stage.loop), 0);
    assert_int_equal(stage.server.counters.accepted, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(silent_streams_end_in_the_order_of_their_deadlines, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(who_comes_beyond_the_limit_is_refused_aloud, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_is_ready_to_go_is_sent_before_the_end, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_socket_that_gave_all_it_had_is_not_read_again, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_message_without_its_rest_is_not_looked_at_again, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            the_rest_of_a_message_that_follows_closely_is_taken_in_the_same_turn, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(many_octets_are_received_straight_into_place, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(who_speaks_alone_finds_the_loop_awake, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_is_not_answered_at_once_is_not_looked_for, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(of_several_that_speak_none_is_looked_for, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            a_stream_that_is_touched_last_of_all_does_not_wait_for_an_event, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_server_listens_at_each_of_its_addresses, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_server_that_could_not_listen_may_try_again, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
