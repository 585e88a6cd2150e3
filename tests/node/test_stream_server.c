// The server of streams by itself: the test stands in for its loop, its addresses and its streams.
// Whom it accepts and whom it refuses, what it leaves behind where it cannot listen, and what it
// does in a turn.
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <cmocka.h>

#include "listen/address.h"
#include "node/stream/server.h"

enum { QUEUE_MAX = 40, STREAM_MAX = 3, OF_HOST_MAX = 2, NOW = 1000, BATCH = 16 };

struct loop {
    struct loop_member *member;
};

struct loop_watch {
    int fd;
    uint32_t events;
    void (*on_ready)(void *ctx, uint32_t events);
    void *ctx;
    bool is_watched;
};

// One test's server, who waits at its listeners, and what it has said and done.
static struct stage {
    struct loop loop;
    struct stream_server server;
    struct loop_watch watches[ADDRESSES_COUNT_MAX];
    unsigned watch_count, watches_max; // so many can be had
    unsigned address_count, addresses_max;
    int listeners[ADDRESSES_COUNT_MAX];
    const char *hosts[QUEUE_MAX]; // who comes next
    unsigned next, hosts_count;
    int fds[QUEUE_MAX];
    struct stream streams[QUEUE_MAX];
    unsigned opened, destroyed;
    char said[256], said_of[64], unlinked[64];
    unsigned lines;
    char done[64]; // a letter for each thing that was done with a stream
    instant_ns clock_ns;
    bool gives_way;
} stage;

static void note(char what, const struct stream *s)
{
    size_t len = strlen(stage.done);
    snprintf(stage.done + len, sizeof stage.done - len, "%c%d ", what, (int)(s - stage.streams));
}

/* ---- the loop -------------------------------------------------------------------------------- */

void loop_join(struct loop *loop, struct loop_member *member)
{
    loop->member = member;
}

void loop_leave(struct loop *loop, struct loop_member *member)
{
    assert_ptr_equal(loop->member, member);
    loop->member = NULL;
}

struct loop_watch *loop_watch(struct loop *loop, int fd, uint32_t events,
                              void (*on_ready)(void *ctx, uint32_t events), void *ctx)
{
    if (stage.watch_count == stage.watches_max) {
        return NULL;
    }
    struct loop_watch *watch = &stage.watches[stage.watch_count++];
    *watch = (struct loop_watch){fd, events, on_ready, ctx, true};
    return watch;
}

void loop_unwatch(struct loop_watch *watch)
{
    assert_true(fcntl(watch->fd, F_GETFD) >= 0); // before it is closed
    watch->is_watched = false;
}

int loop_accept(struct loop_watch *watch)
{
    assert_true(watch->is_watched);
    if (stage.next == stage.hosts_count) {
        return -1;
    }
    return stage.fds[stage.next++] = eventfd(0, EFD_CLOEXEC);
}

instant_ns loop_now(const struct loop *loop)
{
    assert_ptr_equal(loop, &stage.loop);
    return NOW;
}

instant_ns loop_clock(void)
{
    return stage.clock_ns;
}

bool loop_give_way(struct lookout *lookout, instant_ns now)
{
    assert_int_equal(now, stage.clock_ns);
    return stage.gives_way;
}

/* ---- addresses ------------------------------------------------------------------------------- */

int address_listen(const char *text, const char *port, char *ret_path, size_t path_capacity,
                   struct why *ret_why)
{
    assert_string_equal(port, "77");
    if (stage.address_count == stage.addresses_max) {
        why_say(ret_why, "%s: no such address", text);
        return -EADDRNOTAVAIL;
    }
    snprintf(ret_path, path_capacity, "path of %s", text);
    return stage.listeners[stage.address_count++] = eventfd(0, EFD_CLOEXEC);
}

void address_unlink(const char *text, const char *path)
{
    char expected[64];
    snprintf(expected, sizeof expected, "path of %s", text);
    assert_string_equal(path, expected);
    size_t len = strlen(stage.unlinked);
    snprintf(stage.unlinked + len, sizeof stage.unlinked - len, "%s ", text);
}

void address_of_listener(int fd, char *ret, size_t capacity)
{
    snprintf(ret, capacity, "authority of %d", fd);
}

void address_of_peer(int fd, char ret[TEXT_ADDRESS_MAX])
{
    snprintf(ret, TEXT_ADDRESS_MAX, "%s:5", stage.hosts[stage.next - 1]);
}

void address_host_of_peer(int fd, char *ret, size_t capacity)
{
    snprintf(ret, capacity, "%s", stage.hosts[stage.next - 1]);
}

/* ---- streams --------------------------------------------------------------------------------- */

void stream_open(struct stream_server *server, int fd, const char *host, instant_ns now)
{
    assert_int_equal(now, NOW);
    struct stream *s = &stage.streams[stage.opened++];
    *s = (struct stream){.server = server, .fd = fd};
    snprintf(s->host, sizeof s->host, "%s", host);
    list_push_tail(&server->streams, &s->link);
    list_init(&s->dirty_link);
    server->stream_count++;
}

void stream_update(struct stream *s, instant_ns now)
{
    assert_int_equal(now, NOW);
    note('u', s);
}

void stream_look(struct stream *s, instant_ns now)
{
    assert_int_equal(now, NOW);
    note('l', s);
}

void stream_abort(struct stream *s, instant_ns now)
{
    assert_int_equal(now, NOW);
    note('a', s);
}

void stream_destroy(struct stream *s)
{
    list_remove(&s->link);
    s->server->stream_count--;
    close(s->fd);
    stage.destroyed++;
}

/* ---- the stage ------------------------------------------------------------------------------- */

static const struct stream_protocol protocol = {.name = "toy",
                                                .peer = "guest",
                                                .title = "Toy",
                                                .default_port = "77",
                                                .stream_max = STREAM_MAX,
                                                .stream_of_host_max = OF_HOST_MAX};

static void say(void *ctx, const char *host, const char *line)
{
    assert_ptr_equal(ctx, &stage);
    snprintf(stage.said, sizeof stage.said, "%s", line);
    snprintf(stage.said_of, sizeof stage.said_of, "%s", host);
    stage.lines++;
}

static int set_up(void **state)
{
    memset(&stage, 0, sizeof stage);
    stage.watches_max = stage.addresses_max = ADDRESSES_COUNT_MAX;
    struct stream_server_parts parts = {.loop = &stage.loop, .say = say, .say_ctx = &stage};
    parts.listen.count = 3;
    for (unsigned i = 0; i < 3; i++) {
        snprintf(parts.listen.of[i], ADDRESS_MAX, "%c", 'a' + (int)i);
    }
    stream_server_init(&stage.server, &protocol, &parts);
    assert_ptr_equal(stage.loop.member, &stage.server.member);
    return 0;
}

static int tear_down(void **state)
{
    stream_server_fini(&stage.server);
    assert_null(stage.loop.member);
    assert_int_equal(stage.destroyed, stage.opened);
    for (unsigned i = 0; i < stage.address_count; i++) {
        assert_int_equal(fcntl(stage.listeners[i], F_GETFD), -1); // none is left open
    }
    for (unsigned i = 0; i < stage.next; i++) {
        assert_int_equal(fcntl(stage.fds[i], F_GETFD), -1);
    }
    return 0;
}

static void listens(void)
{
    struct why why;
    assert_int_equal(stream_server_listen(&stage.server, &why), 0);
}

static void come(unsigned count, const char *const hosts[])
{
    for (unsigned i = 0; i < count; i++) {
        stage.hosts[stage.hosts_count++] = hosts[i];
    }
    stage.watches[0].on_ready(stage.watches[0].ctx, EPOLLIN);
}

/* ---- listening ------------------------------------------------------------------------------- */

static void each_address_is_watched_and_known_as_clients_reach_it(void **state)
{
    listens();
    assert_int_equal(stage.server.listener_count, 3);
    for (unsigned i = 0; i < 3; i++) {
        char authority[32];
        snprintf(authority, sizeof authority, "authority of %d", stage.listeners[i]);
        assert_int_equal(stage.watches[i].fd, stage.listeners[i]);
        assert_int_equal(stage.watches[i].events, EPOLLIN);
        assert_string_equal(stage.server.listeners[i].authority, authority);
    }
    stream_server_close(&stage.server);
    assert_string_equal(stage.unlinked, "c b a ");
    for (unsigned i = 0; i < 3; i++) {
        assert_false(stage.watches[i].is_watched);
    }
    stream_server_close(&stage.server);
    assert_string_equal(stage.unlinked, "c b a ");
}

static void an_address_that_cannot_be_had_leaves_none(void **state)
{
    struct why why;
    stage.addresses_max = 2;
    assert_int_equal(stream_server_listen(&stage.server, &why), -EADDRNOTAVAIL);
    assert_string_equal(why.text, "c: no such address");
    assert_int_equal(stage.server.listener_count, 0);
    assert_string_equal(stage.unlinked, "b a ");
    stage.addresses_max = ADDRESSES_COUNT_MAX;
    listens();
    assert_int_equal(stage.server.listener_count, 3);
}

static void an_address_that_cannot_be_watched_leaves_none(void **state)
{
    struct why why;
    stage.watches_max = 2;
    assert_int_equal(stream_server_listen(&stage.server, &why), -ENOMEM);
    assert_string_equal(why.text, "c: Cannot allocate memory");
    assert_int_equal(fcntl(stage.listeners[2], F_GETFD), -1);
    assert_string_equal(stage.unlinked, "c b a ");
    assert_int_equal(stage.server.listener_count, 0);
}

/* ---- accepting ------------------------------------------------------------------------------- */

static void so_many_of_a_host_are_let_in(void **state)
{
    listens();
    come(OF_HOST_MAX + 1, (const char *const[]){"h", "h", "h"});
    assert_int_equal(stage.opened, OF_HOST_MAX);
    assert_int_equal(stage.server.counters.accepted, OF_HOST_MAX + 1);
    assert_int_equal(stage.server.counters.refused, 1);
    assert_int_equal(fcntl(stage.fds[OF_HOST_MAX], F_GETFD), -1);
    assert_string_equal(stage.said,
                        "toy: a guest at h:5 is refused: too many connections come from there");
    assert_string_equal(stage.said_of, "h");
    come(1, (const char *const[]){"other"});
    assert_int_equal(stage.opened, OF_HOST_MAX + 1);
    assert_string_equal(stage.streams[OF_HOST_MAX].host, "other");
    assert_int_equal(stage.lines, 1);
}

static void so_many_are_let_in_at_all(void **state)
{
    listens();
    come(STREAM_MAX + 1, (const char *const[]){"a", "b", "c", "d"});
    assert_int_equal(stage.opened, STREAM_MAX);
    assert_string_equal(
        stage.said,
        "toy: a guest at d:5 is refused: the node has as many Toy connections as it can");
    stream_destroy(&stage.streams[0]);
    come(1, (const char *const[]){"d"});
    assert_int_equal(stage.opened, STREAM_MAX + 1);
    assert_int_equal(stage.server.counters.refused, 1);
}

// A crowd at the door keeps nobody inside waiting.
static void so_many_are_asked_in_in_a_turn(void **state)
{
    const char *const hosts[BATCH + 1] = {"h", "h", "h", "h", "h", "h", "h", "h", "h",
                                          "h", "h", "h", "h", "h", "h", "h", "h"};
    listens();
    come(BATCH + 1, hosts);
    assert_int_equal(stage.server.counters.accepted, BATCH);
    come(0, NULL);
    assert_int_equal(stage.server.counters.accepted, BATCH + 1);
}

/* ---- a turn ---------------------------------------------------------------------------------- */

static void touch(unsigned i)
{
    list_push_tail(&stage.server.dirty, &stage.streams[i].dirty_link);
}

static void who_was_touched_is_looked_after_before_the_loop_sleeps(void **state)
{
    struct loop_member *m = stage.loop.member;
    listens();
    come(2, (const char *const[]){"a", "b"});
    assert_true(m->may_sleep(m->ctx));
    touch(1);
    touch(0);
    assert_false(m->may_sleep(m->ctx));
    m->on_batch_end(m->ctx, NOW);
    assert_string_equal(stage.done, "u1 u0 ");
    assert_true(m->may_sleep(m->ctx));
}

static void whose_time_is_over_is_ended_and_counted(void **state)
{
    struct loop_member *m = stage.loop.member;
    listens();
    come(3, (const char *const[]){"a", "b", "c"});
    assert_true(m->next_deadline(m->ctx) == INSTANT_NEVER);
    for (unsigned i = 0; i < 3; i++) {
        deadline_arm(&stage.server.deadlines, &stage.streams[i].deadline, NOW + 1 - i);
    }
    assert_int_equal(m->next_deadline(m->ctx), NOW - 1);
    m->on_deadline(m->ctx, NOW);
    assert_string_equal(stage.done, "a2 a1 ");
    assert_int_equal(stage.server.counters.stalled, 2);
    assert_int_equal(m->next_deadline(m->ctx), NOW + 1);
    m->on_deadline(m->ctx, NOW);
    assert_int_equal(stage.server.counters.stalled, 2);
    deadline_disarm(&stage.server.deadlines, &stage.streams[0].deadline);
}

struct look_case {
    const char *what;
    bool has_heard, is_alone, is_answered, gives_way, has_touched, looks;
};

// Who spoke alone and has his answer may say the next thing at once.
static void the_loop_stays_awake_for_who_speaks_alone(void **state)
{
    static const struct look_case cases[] = {
        {"alone and answered", true, true, true, true, false, true},
        {"nobody", false, true, true, true, false, false},
        {"not alone", true, false, true, true, false, false},
        {"not answered", true, true, false, true, false, false},
        {"somebody wants the processor", true, true, true, false, false, false},
        {"there is work", true, true, true, true, true, false},
    };
    struct stream_server *server = &stage.server;
    listens();
    come(1, (const char *const[]){"a"});
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct look_case *c = &cases[i];
        struct loop_member *m = stage.loop.member;
        server->lookout = (struct lookout){0};
        server->heard = c->has_heard ? &stage.streams[0] : NULL;
        server->is_alone = c->is_alone;
        server->is_answered = c->is_answered;
        server->heard_count = 1;
        stage.gives_way = c->gives_way;
        stage.clock_ns = 5 * NS_PER_S;
        stage.done[0] = '\0';
        if (c->has_touched) {
            touch(0);
        }
        bool may_sleep = m->may_sleep(m->ctx);
        m->on_wake(m->ctx);
        if (may_sleep == (c->looks || c->has_touched) || (*stage.done != '\0') != c->looks) {
            fail_msg("%s: sleeps %d, did \"%s\"", c->what, may_sleep, stage.done);
        }
        m->on_wake(m->ctx); // once, if nobody asked again
        assert_string_equal(stage.done, c->looks ? "l0 " : "");
        list_remove(&stage.streams[0].dirty_link);
        list_init(&stage.streams[0].dirty_link);
    }
}

static void who_ends_before_he_is_looked_at_is_not(void **state)
{
    struct stream_server *server = &stage.server;
    struct loop_member *m = stage.loop.member;
    listens();
    come(1, (const char *const[]){"a"});
    server->heard = &stage.streams[0];
    server->is_alone = server->is_answered = stage.gives_way = true;
    server->heard_count = 1;
    stage.clock_ns = 5 * NS_PER_S;
    assert_false(m->may_sleep(m->ctx));
    server->heard = NULL;
    m->on_wake(m->ctx);
    assert_string_equal(stage.done, "");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(each_address_is_watched_and_known_as_clients_reach_it),
        TEST(an_address_that_cannot_be_had_leaves_none),
        TEST(an_address_that_cannot_be_watched_leaves_none),
        TEST(so_many_of_a_host_are_let_in),
        TEST(so_many_are_let_in_at_all),
        TEST(so_many_are_asked_in_in_a_turn),
        TEST(who_was_touched_is_looked_after_before_the_loop_sleeps),
        TEST(whose_time_is_over_is_ended_and_counted),
        TEST(the_loop_stays_awake_for_who_speaks_alone),
        TEST(who_ends_before_he_is_looked_at_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
