// How channels and ids end, each without the other, and how an id goes over to another channel:
// what belongs to others stays where it is.

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "tests/cm/loopback.h"
#include "tests/verbs/roce.h"

enum { LATE_NS = 30000000 };

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

// An id on this channel of which ADDR_RESOLVED waits.
static struct rdma_cm_id *told_of(struct rdma_event_channel *channel)
{
    struct sockaddr_in addr = loopback_addr(htons(1));
    struct rdma_cm_id *id;
    assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&addr, 1000), 0);
    return id;
}

static void expect_resolved(struct rdma_event_channel *channel, const struct rdma_cm_id *id)
{
    struct rdma_cm_event *event = event_expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
    assert_ptr_equal(event->id, id);
    rdma_ack_cm_event(event);
}

// Connects to a listener; the request waits on the listener's channel.
static void request_unanswered(struct end *active, const struct end *listener)
{
    active_open(active, rdma_get_src_port(listener->id));
    assert_int_equal(rdma_connect(active->id, NULL), 0);
    while (!event_waits(listener->channel)) {
    }
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void test_an_id_that_goes_leaves_the_events_of_others(void **state)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct rdma_cm_id *first = told_of(channel), *gone = told_of(channel), *last = told_of(channel);
    assert_int_equal(rdma_destroy_id(gone), 0);
    expect_resolved(channel, first);
    expect_resolved(channel, last);
    assert_false(event_waits(channel));
    assert_int_equal(rdma_destroy_id(first), 0);
    assert_int_equal(rdma_destroy_id(last), 0);
    rdma_destroy_event_channel(channel);
}

static void test_an_id_of_its_own_channel_takes_it_along(void **state)
{
    struct rdma_cm_id *id;
    assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
    const int fd = id->channel->fd;
    assert_true(is_open(fd));
    assert_int_equal(rdma_destroy_id(id), 0);
    assert_false(is_open(fd));
}

static void test_an_id_outlives_its_channel_and_its_connection_ends_with_that(void **state)
{
    struct loopback l;
    loopback_open(&l);
    const int fd = l.active.channel->fd;
    rdma_destroy_event_channel(l.active.channel);
    l.active.channel = NULL;
    assert_false(is_open(fd));
    assert_null(l.active.id->channel);
    assert_int_equal(event_take(l.listener.channel, RDMA_CM_EVENT_DISCONNECTED), 0);
    loopback_close(&l);
}

static void test_all_ids_of_a_channel_outlive_it(void **state)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct rdma_cm_id *ids[3] = {told_of(channel), told_of(channel), told_of(channel)};
    rdma_destroy_event_channel(channel);
    for (unsigned i = 0; i < 3; i++) {
        assert_null(ids[i]->channel);
        assert_int_equal(rdma_destroy_id(ids[i]), 0);
    }
}

static void test_a_channel_that_goes_turns_away_who_asked_on_it(void **state)
{
    struct end listener, active = {0};
    listener_open(&listener);
    request_unanswered(&active, &listener);
    rdma_destroy_event_channel(listener.channel);
    listener.channel = NULL;
    struct rdma_cm_event *event;
    assert_int_equal(rdma_get_cm_event(active.channel, &event), 0);
    assert_int_not_equal(event->status, 0);
    rdma_ack_cm_event(event);
    end_close(&active);
    end_close(&listener);
}

/* ---- from one channel to another ------------------------------------------------------------- */

static void test_who_migrates_leaves_the_events_of_others(void **state)
{
    struct rdma_event_channel *from = rdma_create_event_channel();
    struct rdma_event_channel *to = rdma_create_event_channel();
    struct rdma_cm_id *first = told_of(from), *moved = told_of(from), *last = told_of(from);
    assert_int_equal(rdma_migrate_id(moved, to), 0);
    expect_resolved(from, first);
    expect_resolved(from, last);
    assert_false(event_waits(from));
    expect_resolved(to, moved);
    assert_false(event_waits(to));
    rdma_destroy_event_channel(from); // the one that has left is not touched by it
    assert_ptr_equal(moved->channel, to);
    assert_int_equal(rdma_resolve_route(moved, 1000), 0);
    assert_int_equal(event_take(to, RDMA_CM_EVENT_ROUTE_RESOLVED), 0);
    assert_int_equal(rdma_destroy_id(first), 0);
    assert_int_equal(rdma_destroy_id(moved), 0);
    assert_int_equal(rdma_destroy_id(last), 0);
    rdma_destroy_event_channel(to);
}

static void test_a_listener_that_migrates_leaves_the_requests_of_others(void **state)
{
    struct end stays, moves, active = {0};
    struct rdma_event_channel *to = rdma_create_event_channel();
    listener_open(&stays);
    listener_open(&moves);
    assert_int_equal(rdma_migrate_id(moves.id, stays.channel), 0); // both on one channel
    request_unanswered(&active, &stays);
    assert_int_equal(rdma_migrate_id(moves.id, to), 0);
    assert_false(event_waits(to));
    struct rdma_cm_event *event = event_expect(stays.channel, RDMA_CM_EVENT_CONNECT_REQUEST);
    struct end passive = {.id = event->id};
    assert_ptr_equal(event->listen_id, stays.id);
    assert_ptr_equal(passive.id->channel, stays.channel);
    rdma_ack_cm_event(event);
    end_close(&passive);
    end_close(&active);
    end_close(&moves);
    end_close(&stays);
    rdma_destroy_event_channel(to);
}

static void test_who_has_taken_a_request_keeps_its_channel_when_the_listener_migrates(void **state)
{
    struct loopback l;
    struct rdma_event_channel *to = rdma_create_event_channel();
    loopback_request(&l);
    assert_int_equal(rdma_migrate_id(l.listener.id, to), 0);
    assert_ptr_equal(l.passive->channel, l.listener.channel);
    loopback_close(&l);
    rdma_destroy_event_channel(to);
}

static void test_an_id_that_waits_gives_up_its_own_channel_for_the_programs(void **state)
{
    struct rdma_event_channel *to = rdma_create_event_channel();
    struct rdma_cm_id *id;
    struct sockaddr_in addr = loopback_addr(htons(1));
    assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&addr, 1000), 0);
    const int fd = id->channel->fd;
    assert_non_null(id->event);
    assert_int_equal(rdma_migrate_id(id, to), 0);
    assert_null(id->event); // it was the id's, not the program's
    assert_false(is_open(fd));
    assert_int_equal(rdma_resolve_route(id, 1000), 0); // does not wait any more
    assert_int_equal(event_take(to, RDMA_CM_EVENT_ROUTE_RESOLVED), 0);
    assert_int_equal(rdma_destroy_id(id), 0);
    assert_true(is_open(to->fd));
    rdma_destroy_event_channel(to);
}

static void test_an_id_without_a_channel_to_go_to_waits_from_then_on(void **state)
{
    struct rdma_event_channel *from = rdma_create_event_channel();
    struct rdma_cm_id *id = told_of(from);
    expect_resolved(from, id);
    assert_int_equal(rdma_migrate_id(id, NULL), 0);
    assert_ptr_not_equal(id->channel, from);
    assert_true(is_open(from->fd));
    const int fd = id->channel->fd;
    assert_int_equal(rdma_resolve_route(id, 1000), 0);
    assert_int_equal(id->event->event, RDMA_CM_EVENT_ROUTE_RESOLVED);
    assert_int_equal(rdma_destroy_id(id), 0);
    assert_false(is_open(fd));
    rdma_destroy_event_channel(from);
}

static void test_an_id_whose_channel_is_gone_does_not_migrate(void **state)
{
    struct rdma_event_channel *from = rdma_create_event_channel();
    struct rdma_event_channel *to = rdma_create_event_channel();
    struct rdma_cm_id *id = told_of(from);
    rdma_destroy_event_channel(from);
    assert_int_equal(rdma_migrate_id(id, to), -1);
    assert_int_equal(errno, EINVAL);
    assert_null(id->channel);
    assert_int_equal(rdma_destroy_id(id), 0);
    rdma_destroy_event_channel(to);
}

/* ---- events that are not acknowledged yet ---------------------------------------------------- */

struct late {
    struct rdma_cm_event *event;
    atomic_bool is_acknowledged;
};

static void *acknowledge_late(void *arg)
{
    struct late *late = arg;
    nanosleep(&(struct timespec){.tv_nsec = LATE_NS}, NULL);
    atomic_store(&late->is_acknowledged, true);
    rdma_ack_cm_event(late->event);
    return NULL;
}

static void test_who_migrates_waits_for_the_acknowledgement_of_what_was_taken(void **state)
{
    struct rdma_event_channel *from = rdma_create_event_channel();
    struct rdma_event_channel *to = rdma_create_event_channel();
    struct rdma_cm_id *id = told_of(from);
    struct late late = {.event = event_expect(from, RDMA_CM_EVENT_ADDR_RESOLVED)};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, acknowledge_late, &late), 0);
    assert_int_equal(rdma_migrate_id(id, to), 0);
    assert_true(atomic_load(&late.is_acknowledged));
    pthread_join(thread, NULL);
    assert_int_equal(rdma_destroy_id(id), 0);
    rdma_destroy_event_channel(from);
    rdma_destroy_event_channel(to);
}

static void test_who_goes_waits_for_the_acknowledgement_of_what_was_taken(void **state)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct rdma_cm_id *id = told_of(channel);
    struct late late = {.event = event_expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED)};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, acknowledge_late, &late), 0);
    assert_int_equal(rdma_destroy_id(id), 0);
    assert_true(atomic_load(&late.is_acknowledged));
    pthread_join(thread, NULL);
    rdma_destroy_event_channel(channel);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "roce") == 0) {
        setenv("WEFT_WIRE", "roce", 1);
        roce_port_of_own();
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_id_that_goes_leaves_the_events_of_others),
        cmocka_unit_test(test_an_id_of_its_own_channel_takes_it_along),
        cmocka_unit_test(test_an_id_outlives_its_channel_and_its_connection_ends_with_that),
        cmocka_unit_test(test_all_ids_of_a_channel_outlive_it),
        cmocka_unit_test(test_a_channel_that_goes_turns_away_who_asked_on_it),
        cmocka_unit_test(test_who_migrates_leaves_the_events_of_others),
        cmocka_unit_test(test_a_listener_that_migrates_leaves_the_requests_of_others),
        cmocka_unit_test(test_who_has_taken_a_request_keeps_its_channel_when_the_listener_migrates),
        cmocka_unit_test(test_an_id_that_waits_gives_up_its_own_channel_for_the_programs),
        cmocka_unit_test(test_an_id_without_a_channel_to_go_to_waits_from_then_on),
        cmocka_unit_test(test_an_id_whose_channel_is_gone_does_not_migrate),
        cmocka_unit_test(test_who_migrates_waits_for_the_acknowledgement_of_what_was_taken),
        cmocka_unit_test(test_who_goes_waits_for_the_acknowledgement_of_what_was_taken),
    };
    return cmocka_run_group_tests_name("cm/channels", tests, NULL, NULL);
}
