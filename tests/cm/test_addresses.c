// Which addresses an id shows, and that every local address is the device's.

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/cm/loopback.h"

// Somebody else of this machine may have a port too, connected from it to another peer, or by the
// other family: then another is tried.
enum { PORT_TRIES = 8 };

static bool is_ip(const struct sockaddr *addr)
{
    return addr != NULL && (addr->sa_family == AF_INET || addr->sa_family == AF_INET6);
}

static void test_every_local_address_can_be_bound(void **state)
{
    struct ifaddrs *list;
    struct rdma_event_channel *channel = rdma_create_event_channel();
    assert_int_equal(getifaddrs(&list), 0);
    for (struct ifaddrs *i = list; i != NULL; i = i->ifa_next) {
        struct rdma_cm_id *id;
        if (!is_ip(i->ifa_addr)) {
            continue;
        }
        assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
        assert_int_equal(rdma_bind_addr(id, i->ifa_addr), 0);
        assert_non_null(id->verbs);
        assert_int_equal(rdma_get_local_addr(id)->sa_family, i->ifa_addr->sa_family);
        assert_int_equal(rdma_listen(id, 1), 0);
        assert_int_equal(rdma_destroy_id(id), 0);
    }
    freeifaddrs(list);
    rdma_destroy_event_channel(channel);
}

static void test_a_resolved_id_shows_where_it_would_connect_from(void **state)
{
    struct end active = {.channel = rdma_create_event_channel()};
    struct sockaddr_in dst = loopback_addr(htons(4791)), *shown;
    assert_int_equal(rdma_create_id(active.channel, &active.id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_resolve_addr(active.id, NULL, (struct sockaddr *)&dst, 0), 0);
    shown = (struct sockaddr_in *)rdma_get_local_addr(active.id);
    assert_int_equal(shown->sin_family, AF_INET);
    assert_int_equal(shown->sin_addr.s_addr, htonl(INADDR_LOOPBACK));
    assert_int_equal(rdma_get_dst_port(active.id), htons(4791));
    assert_non_null(active.id->verbs);
    end_close(&active);
}

static void test_the_programs_source_is_kept(void **state)
{
    struct end active = {.channel = rdma_create_event_channel()};
    struct sockaddr_in dst = loopback_addr(htons(4791)), src = loopback_addr(0), *shown;
    src.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
    assert_int_equal(rdma_create_id(active.channel, &active.id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(
        rdma_resolve_addr(active.id, (struct sockaddr *)&src, (struct sockaddr *)&dst, 0), 0);
    shown = (struct sockaddr_in *)rdma_get_local_addr(active.id);
    assert_int_equal(shown->sin_addr.s_addr, src.sin_addr.s_addr);
    assert_int_not_equal(shown->sin_port, 0);
    end_close(&active);
}

// The connector is first to end it, so TCP keeps the pair of ports for a minute (TIME-WAIT).
static bool is_free_once_ended(void)
{
    struct loopback l;
    struct end next = {.channel = rdma_create_event_channel()};
    loopback_open(&l);
    struct sockaddr_in src = loopback_addr(rdma_get_src_port(l.active.id));
    assert_int_equal(rdma_disconnect(l.active.id), 0);
    assert_int_equal(event_take(l.listener.channel, RDMA_CM_EVENT_DISCONNECTED), 0);
    assert_int_equal(event_take(l.active.channel, RDMA_CM_EVENT_DISCONNECTED), 0);
    loopback_close(&l);
    assert_int_equal(rdma_create_id(next.channel, &next.id, NULL, RDMA_PS_TCP), 0);
    bool is_free = rdma_bind_addr(next.id, (struct sockaddr *)&src) == 0;
    end_close(&next);
    return is_free;
}

static void test_a_connectors_port_is_free_once_its_connection_has_ended(void **state)
{
    bool is_free = false;
    for (unsigned i = 0; i < PORT_TRIES && !is_free; i++) {
        is_free = is_free_once_ended();
    }
    assert_true(is_free);
}

static void test_a_connectors_port_is_its_own_while_it_is_connected(void **state)
{
    struct loopback l;
    struct end other = {.channel = rdma_create_event_channel()};
    loopback_open(&l);
    struct sockaddr_in src = loopback_addr(rdma_get_src_port(l.active.id));
    assert_int_equal(rdma_create_id(other.channel, &other.id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_bind_addr(other.id, (struct sockaddr *)&src), -1);
    assert_int_equal(errno, EADDRINUSE);
    end_close(&other);
    loopback_close(&l);
}

static bool has_ipv6(void)
{
    struct sockaddr_in6 any = {.sin6_family = AF_INET6};
    struct rdma_cm_id *id;
    bool result = rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) == 0 &&
                  rdma_bind_addr(id, (struct sockaddr *)&any) == 0;
    rdma_destroy_id(id);
    return result;
}

// Connects to `dst` and returns the family of the new id's addresses.
static int family_seen(struct end *listener, const struct sockaddr *dst)
{
    struct end active = {.channel = rdma_create_event_channel()};
    struct sockaddr_storage addr;
    memcpy(&addr, dst,
           dst->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
    assert_int_equal(rdma_create_id(active.channel, &active.id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_resolve_addr(active.id, NULL, (struct sockaddr *)&addr, 0), 0);
    event_take(active.channel, RDMA_CM_EVENT_ADDR_RESOLVED);
    assert_int_equal(rdma_resolve_route(active.id, 0), 0);
    event_take(active.channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
    qp_open(active.id);
    assert_int_equal(rdma_connect(active.id, NULL), 0);
    struct rdma_cm_event *event = event_expect(listener->channel, RDMA_CM_EVENT_CONNECT_REQUEST);
    int family = rdma_get_local_addr(event->id)->sa_family;
    assert_int_equal(rdma_get_peer_addr(event->id)->sa_family, family);
    struct end passive = {.id = event->id};
    rdma_ack_cm_event(event);
    end_close(&passive);
    end_close(&active);
    return family;
}

static void test_both_families_reach_an_ipv6_wildcard(void **state)
{
    struct end listener = {.channel = rdma_create_event_channel()};
    struct sockaddr_in6 any = {.sin6_family = AF_INET6};
    if (!has_ipv6()) {
        skip();
    }
    assert_int_equal(rdma_create_id(listener.channel, &listener.id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_bind_addr(listener.id, (struct sockaddr *)&any), 0);
    assert_int_equal(rdma_listen(listener.id, 0), 0);
    uint16_t port = rdma_get_src_port(listener.id);
    struct sockaddr_in v4 = loopback_addr(port);
    struct sockaddr_in6 v6 = {
        .sin6_family = AF_INET6, .sin6_port = port, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    assert_int_equal(family_seen(&listener, (struct sockaddr *)&v4), AF_INET);
    assert_int_equal(family_seen(&listener, (struct sockaddr *)&v6), AF_INET6);
    end_close(&listener);
}

static bool is_free_for_ipv4(uint16_t port)
{
    struct end v4 = {.channel = rdma_create_event_channel()};
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = port};
    assert_int_equal(rdma_create_id(v4.channel, &v4.id, NULL, RDMA_PS_TCP), 0);
    bool is_free =
        rdma_bind_addr(v4.id, (struct sockaddr *)&any) == 0 && rdma_listen(v4.id, 0) == 0;
    end_close(&v4);
    return is_free;
}

static void set_afonly(struct end *end)
{
    int on = 1;
    assert_int_equal(
        rdma_set_option(end->id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof on), 0);
}

static void expect_port_of_one_family(bool is_bound_before)
{
    struct sockaddr_in6 any = {.sin6_family = AF_INET6};
    bool is_left = false;
    if (!has_ipv6()) {
        skip();
    }
    for (unsigned i = 0; i < PORT_TRIES && !is_left; i++) {
        struct end v6 = {.channel = rdma_create_event_channel()};
        assert_int_equal(rdma_create_id(v6.channel, &v6.id, NULL, RDMA_PS_TCP), 0);
        if (!is_bound_before) {
            set_afonly(&v6);
        }
        assert_int_equal(rdma_bind_addr(v6.id, (struct sockaddr *)&any), 0);
        if (is_bound_before) {
            set_afonly(&v6);
        }
        assert_int_equal(rdma_listen(v6.id, 0), 0);
        is_left = is_free_for_ipv4(rdma_get_src_port(v6.id));
        end_close(&v6);
    }
    assert_true(is_left);
}

static void test_afonly_leaves_the_other_family_its_port(void **state)
{
    expect_port_of_one_family(false);
}

static void test_afonly_of_who_is_bound_leaves_the_other_family_its_port(void **state)
{
    expect_port_of_one_family(true);
}

// With the argument `off`, by TCP alone: within a host memory of both ends carries it otherwise.
int main(int argc, char **argv)
{
    if (argc > 1) {
        setenv("WEFT_LOCAL", argv[1], 1);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_local_address_can_be_bound),
        cmocka_unit_test(test_a_resolved_id_shows_where_it_would_connect_from),
        cmocka_unit_test(test_the_programs_source_is_kept),
        cmocka_unit_test(test_a_connectors_port_is_free_once_its_connection_has_ended),
        cmocka_unit_test(test_a_connectors_port_is_its_own_while_it_is_connected),
        cmocka_unit_test(test_both_families_reach_an_ipv6_wildcard),
        cmocka_unit_test(test_afonly_leaves_the_other_family_its_port),
        cmocka_unit_test(test_afonly_of_who_is_bound_leaves_the_other_family_its_port),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
