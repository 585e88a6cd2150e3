// Streams of the link through memory as they come and go: doors, what the peer and TCP are told of
// an end, and what is counted.
#include "tests/link/counted.h"
#include "tests/link/local_hand.h"

static unsigned length_of(const struct list_link *list)
{
    unsigned len = 0;
    for (const struct list_link *at = list->next; at != list; at = at->next) {
        len++;
    }
    return len;
}

static struct local_link *own(void)
{
    return local_link_of(the_link);
}

/* ---- doors ----------------------------------------------------------------------------------- */

static void a_listener_has_one_door(void **state)
{
    struct sockaddr_storage at;
    loop_listen(&l, the_link, AF_INET);
    const struct local_stream *s = local_stream_of(l.listener);
    const int door = s->door.fd;
    assert_true(door >= 0);
    assert_int_equal(length_of(&own()->listeners), 1);
    assert_int_equal(link_local_addr(l.listener, &at), 0);
    assert_int_equal(s->door_port, ntohs(((struct sockaddr_in *)&at)->sin_port));
    assert_int_equal(link_listen(l.listener, 3), 0); // longer, or shorter
    assert_int_equal(s->door.fd, door);
    assert_int_equal(length_of(&own()->listeners), 1);
    link_close(l.listener, false);
    assert_int_equal(length_of(&own()->listeners), 0);
    assert_int_equal(s->door.fd, -1);
}

static void where_a_door_cannot_be_had_all_comes_by_tcp(void **state)
{
    struct sockaddr_storage at = loopback(AF_INET);
    for (unsigned i = 0; i < 2; i++) {
        struct local_door taken = {.fd = -1};
        struct net_flow place = {0};
        assert_int_equal(link_bind(the_link, addr_of(&at), 0, NULL, &l.listener), 0);
        if (i == 0) { // somebody has its name
            struct sockaddr_storage bound;
            assert_int_equal(link_local_addr(l.listener, &bound), 0);
            assert_true(net_addr_from_sockaddr(addr_of(&bound), &place.local, &place.local_port,
                                               &place.scope));
            assert_int_equal(local_door_open(&taken, &place), 0);
        } else { // it has none
            addr_error = -ENOBUFS;
        }
        assert_int_equal(link_listen(l.listener, 3), 0);
        addr_error = 0;
        assert_int_equal(local_stream_of(l.listener)->door.fd, -1);
        assert_int_equal(length_of(&own()->listeners), 0);
        local_door_close(&taken);
        l.link = the_link;
        loop_connect(&l);
        exchange(l.active, l.passive);
        exchange(l.passive, l.active);
        assert_int_equal(far_end()->path, LOCAL_PATH_TCP);
        link_close(l.active, true);
        link_close(l.passive, true);
        link_close(l.listener, true);
    }
}

/* ---- made, and at rest ----------------------------------------------------------------------- */

static void what_cannot_be_had_leaves_no_stream(void **state)
{
    struct sockaddr_storage at;
    struct link_stream *other = NULL;
    loop_listen(&l, the_link, AF_INET);
    assert_int_equal(link_local_addr(l.listener, &at), 0);
    const unsigned count = length_of(&own()->streams);
    assert_int_equal(link_accept(l.listener, &other), -EAGAIN);
    assert_int_equal(link_bind(the_link, addr_of(&at), 0, NULL, &other), -EADDRINUSE);
    assert_null(other);
    assert_int_equal(length_of(&own()->streams), count);
}

static void a_stream_begins_with_nothing(void **state)
{
    int owner;
    loop_open(&l, the_link, AF_INET);
    assert_null(l.passive->owner);
    assert_ptr_equal(l.passive->link, the_link);
    assert_int_equal(far_end()->path, LOCAL_PATH_ASKED);
    assert_false(near_end()->is_connecting); // any more
    assert_int_equal(link_bind(the_link, NULL, 0, &owner, &l.active), 0);
    assert_ptr_equal(l.active->owner, &owner);
    assert_ptr_equal(l.active->link, the_link);
    assert_int_equal(near_end()->path, LOCAL_PATH_TCP);
    assert_int_equal(near_end()->door.fd, -1);
    assert_true(near_end()->wants_in);
    assert_false(near_end()->wants_out);
    assert_true(link_next_deadline(the_link) == INSTANT_NEVER);
    assert_null(the_link->pushes); // nobody may go past them
}

/* ---- ends ------------------------------------------------------------------------------------ */

static bool is_reset; // by the last that was closed

static void close_by_hand(struct link_stream *stream, bool abort)
{
    is_reset = abort;
    plain_ops->close(stream, abort);
}

static void the_peer_and_tcp_are_told_how_it_ends(void **state)
{
    static const struct {
        bool is_shut, is_abort, has_peer_shut;
        enum local_end said;
        bool is_reset;
    } rows[] = {
        {false, false, false, LOCAL_END_SHUT, false}, {false, true, false, LOCAL_END_ABORTED, true},
        {true, false, false, LOCAL_END_SHUT, false},  {true, true, false, LOCAL_END_ABORTED, true},
        {false, false, true, LOCAL_END_SHUT, true},   {true, false, true, LOCAL_END_SHUT, true},
        {false, true, true, LOCAL_END_ABORTED, true},
    };
    tcp_ops.close = close_by_hand;
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        go_over();
        if (rows[i].is_shut) {
            assert_int_equal(link_shutdown(l.active), 0);
        }
        if (rows[i].has_peer_shut) {
            assert_int_equal(link_shutdown(l.passive), 0);
        }
        const struct local_stream *s = near_end();
        link_close(l.active, rows[i].is_abort);
        assert_int_equal(is_reset, rows[i].is_reset);
        assert_int_equal(local_peer_end(far_end()), rows[i].said);
        assert_null(s->forward.base.owner);
        assert_null(s->channel);
        assert_true(list_is_empty(&s->awake_link));
        assert_int_equal(s->path, LOCAL_PATH_TCP);
        assert_int_equal(own()->in_memory_count, 1);
        is_held = false;
        link_close(l.passive, true);
        link_close(l.listener, true);
        assert_int_equal(own()->in_memory_count, 0);
        assert_int_equal(length_of(&own()->streams), 0);
        assert_int_equal(length_of(&own()->channels), 0);
    }
}

/* ---- handed on ------------------------------------------------------------------------------- */

static void none(void *ctx, const char *name, uint64_t value)
{
}

static void what_memory_has_nothing_to_say_of_is_tcps(void **state)
{
    struct sockaddr_storage at, to;
    go_over();
    const struct sockaddr_storage peer = loopback(AF_INET);
    const unsigned woken = wake_count;
    struct link_stream *const inner = near_end()->forward.inner;
    assert_string_equal(the_link->ops->name, "local");
    assert_int_equal(link_unsettled(l.active), 0);
    assert_int_equal(link_emss(l.active), link_emss(inner));
    assert_int_equal(link_set_tos(l.active, 0x20), 0);
    assert_int_equal(the_link->ops->route(the_link, addr_of(&peer), &at), 0);
    assert_true(((struct sockaddr_in *)&at)->sin_addr.s_addr == htonl(INADDR_LOOPBACK));
    assert_int_equal(link_local_addr(l.active, &at), 0);
    assert_int_equal(link_peer_addr(l.passive, &to), 0);
    assert_memory_equal(&at, &to, sizeof(struct sockaddr_in));
    assert_int_equal(the_link->ops->descriptor(the_link), plain_ops->descriptor(inner->link));
    assert_false(the_link->ops->is_busy(the_link));
    link_stream_counters(the_link, NULL, none, NULL);
    the_link->ops->wake(the_link);
    assert_int_equal(wake_count, woken + 1);
    is_held = false;
}

/* ---- counters -------------------------------------------------------------------------------- */

static uint64_t counted(const char *name)
{
    struct counted c = {.name = name};
    link_packet_counters(the_link, counted_take, &c);
    assert_int_equal(c.found, 1);
    return c.value;
}

static void counters_have_the_links_name(void **state)
{
    go_over();
    assert_int_equal(counted("local.streams"), 2);
    assert_int_equal(counted("local.offers_sent"), 1);
    assert_int_equal(counted("local.offers_received"), 1);
    assert_int_equal(counted("local.offers_refused"), 0);
    local_stream_of(l.listener)->door.stranger_count = 5; // who was sent away at the door
    assert_int_equal(counted("local.offers_refused"), 5);
    assert_int_equal(counters()->offers_refused, 0);
    is_held = false;
}

int main(void)
{
#define LINK_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        LINK_TEST(a_listener_has_one_door),
        LINK_TEST(where_a_door_cannot_be_had_all_comes_by_tcp),
        LINK_TEST(what_cannot_be_had_leaves_no_stream),
        LINK_TEST(a_stream_begins_with_nothing),
        LINK_TEST(the_peer_and_tcp_are_told_how_it_ends),
        LINK_TEST(what_memory_has_nothing_to_say_of_is_tcps),
        LINK_TEST(counters_have_the_links_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
