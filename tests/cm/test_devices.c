// Which of two devices an id uses, by its port space and the address that it asks for, and what it
// shows of it: addresses, GIDs, the path.

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/cm/loopback.h"
#include "tests/verbs/roce.h"

static struct in_addr own; // the address of the device of packets

static int own_ask(void **state)
{
    union ibv_gid gid;
    struct ibv_context *context = roce_open();
    assert_int_equal(ibv_query_gid(context, 1, 0, &gid), 0);
    memcpy(&own, gid.raw + 12, sizeof own);
    return ibv_close_device(context);
}

static struct end id_of(enum rdma_port_space space)
{
    struct end e = {.channel = rdma_create_event_channel()};
    assert_int_equal(rdma_create_id(e.channel, &e.id, NULL, space), 0);
    return e;
}

static struct sockaddr_in at(in_addr_t addr, in_port_t port)
{
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = addr, .sin_port = port};
}

static void expect_addr(const struct sockaddr *shown, in_addr_t addr, in_port_t port)
{
    const struct sockaddr_in *in = (const struct sockaddr_in *)shown;
    assert_int_equal(in->sin_family, AF_INET);
    assert_int_equal(in->sin_addr.s_addr, addr);
    assert_int_equal(in->sin_port, port);
}

static void expect_mapped(const union ibv_gid *gid, in_addr_t addr)
{
    static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};
    assert_memory_equal(gid->raw, prefix, sizeof prefix);
    assert_memory_equal(gid->raw + sizeof prefix, &addr, sizeof addr);
}

// A loopback address that no device has, and none at all, mean this host: of packets, the device.
static void who_looks_for_this_host_finds_the_device_of_packets(void **state)
{
    const in_addr_t asked[] = {htonl(INADDR_LOOPBACK + 1), htonl(INADDR_ANY), own.s_addr};
    for (unsigned i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        struct end e = id_of(RDMA_PS_UDP);
        struct sockaddr_in to = at(asked[i], htons(9));
        assert_int_equal(rdma_resolve_addr(e.id, NULL, (struct sockaddr *)&to, 1000), 0);
        assert_int_equal(event_take(e.channel, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
        assert_int_equal(e.id->verbs->device->transport_type, IBV_TRANSPORT_IB);
        assert_ptr_equal(e.id->pd->context, e.id->verbs);
        assert_int_equal(e.id->port_num, 1);
        expect_addr(rdma_get_peer_addr(e.id), own.s_addr, htons(9));
        expect_addr(rdma_get_local_addr(e.id), own.s_addr, 0);
        assert_int_equal(e.id->route.addr.addr.ibaddr.pkey, 0xffff);
        expect_mapped(&e.id->route.addr.addr.ibaddr.sgid, own.s_addr);
        expect_mapped(&e.id->route.addr.addr.ibaddr.dgid, own.s_addr);
        expect_addr((struct sockaddr *)&to, asked[i], htons(9)); // the program's own is left alone
        end_close(&e);
    }
}

// Streams are found at any address of the host, and keep it.
static void connections_take_the_device_of_streams(void **state)
{
    const in_addr_t asked[] = {htonl(INADDR_LOOPBACK), htonl(INADDR_LOOPBACK + 1), own.s_addr};
    for (unsigned i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        struct end e = id_of(RDMA_PS_TCP);
        struct sockaddr_in to = at(asked[i], htons(9));
        assert_int_equal(rdma_resolve_addr(e.id, NULL, (struct sockaddr *)&to, 1000), 0);
        assert_int_equal(event_take(e.channel, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
        assert_int_equal(e.id->verbs->device->transport_type, IBV_TRANSPORT_IWARP);
        expect_addr(rdma_get_peer_addr(e.id), asked[i], htons(9));
        expect_mapped(&e.id->route.addr.addr.ibaddr.dgid, asked[i]);
        assert_int_equal(rdma_resolve_route(e.id, 1000), 0);
        assert_int_equal(event_take(e.channel, RDMA_CM_EVENT_ROUTE_RESOLVED), 0);
        assert_int_equal(e.id->route.num_paths, 0); // that is InfiniBand's
        assert_null(e.id->route.path_rec);
        end_close(&e);
    }
}

// Datagrams at an address that is none of the device's are refused by the other device, with the
// queue pair.
static void datagrams_take_packets_where_the_address_is_the_devices(void **state)
{
    const struct {
        in_addr_t addr, shown;
        int transport; // -1: none yet, since the address is no device's
    } rows[] = {
        {own.s_addr, own.s_addr, IBV_TRANSPORT_IB},
        {htonl(INADDR_ANY), htonl(INADDR_ANY), -1},
        {htonl(INADDR_LOOPBACK + 1), htonl(INADDR_ANY), -1}, // stands for the device
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct end e = id_of(RDMA_PS_UDP);
        struct sockaddr_in local = at(rows[i].addr, 0);
        assert_int_equal(rdma_bind_addr(e.id, (struct sockaddr *)&local), 0);
        const in_port_t port = rdma_get_src_port(e.id);
        assert_int_not_equal(port, 0);
        expect_addr(rdma_get_local_addr(e.id), rows[i].shown, port);
        if (rows[i].transport < 0) {
            assert_null(e.id->verbs);
        } else {
            assert_int_equal(e.id->verbs->device->transport_type, rows[i].transport);
            expect_mapped(&e.id->route.addr.addr.ibaddr.sgid, rows[i].addr);
        }
        assert_int_equal(rdma_listen(e.id, 1), 0); // which streams refuse
        end_close(&e);
    }
}

static in_port_t free_port(void)
{
    struct end e = id_of(RDMA_PS_UDP);
    struct sockaddr_in local = at(htonl(INADDR_ANY), 0);
    assert_int_equal(rdma_bind_addr(e.id, (struct sockaddr *)&local), 0);
    const in_port_t port = rdma_get_src_port(e.id);
    end_close(&e);
    return port;
}

// Somebody else of this machine may take it meanwhile: then another is tried.
static void a_port_stays_where_the_address_stands_for_a_device(void **state)
{
    bool is_bound = false;
    for (unsigned i = 0; i < 8 && !is_bound; i++) {
        struct end e = id_of(RDMA_PS_UDP);
        struct sockaddr_in local = at(htonl(INADDR_LOOPBACK + 1), free_port());
        is_bound = rdma_bind_addr(e.id, (struct sockaddr *)&local) == 0;
        if (is_bound) {
            expect_addr(rdma_get_local_addr(e.id), htonl(INADDR_ANY), local.sin_port);
        } else {
            assert_int_equal(errno, EADDRINUSE);
        }
        end_close(&e);
    }
    assert_true(is_bound);
}

// As Linux's rdma_cm shows that of RoCE.
static void a_path_of_packets_has_every_field(void **state)
{
    for (unsigned has_tos = 0; has_tos < 2; has_tos++) {
        struct end e = id_of(RDMA_PS_UDP);
        struct sockaddr_in to = at(own.s_addr, htons(9));
        struct ibv_port_attr port;
        uint8_t tos = 0x68;
        if (has_tos) {
            assert_int_equal(
                rdma_set_option(e.id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof tos), 0);
        }
        assert_int_equal(rdma_resolve_addr(e.id, NULL, (struct sockaddr *)&to, 1000), 0);
        assert_int_equal(event_take(e.channel, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
        assert_null(e.id->route.path_rec);
        assert_int_equal(rdma_resolve_route(e.id, 1000), 0);
        assert_int_equal(event_take(e.channel, RDMA_CM_EVENT_ROUTE_RESOLVED), 0);
        const struct ibv_sa_path_rec *path = e.id->route.path_rec;
        assert_int_equal(e.id->route.num_paths, 1);
        assert_non_null(path);
        assert_int_equal(ibv_query_port(e.id->verbs, 1, &port), 0);
        expect_mapped(&path->dgid, own.s_addr);
        expect_mapped(&path->sgid, own.s_addr);
        assert_int_equal(path->hop_limit, 64);
        assert_int_equal(path->traffic_class, has_tos ? tos : 0);
        assert_int_equal(path->reversible, 1);
        assert_int_equal(path->numb_path, 1);
        assert_int_equal(path->pkey, 0xffff);
        assert_int_equal(path->mtu_selector, 2); // exactly
        assert_int_equal(path->mtu, port.active_mtu);
        assert_int_equal(path->rate_selector, 2);
        assert_int_equal(path->rate, IBV_RATE_100_GBPS);
        assert_int_equal(path->packet_life_time_selector, 2);
        assert_int_equal(path->packet_life_time, 16);
        assert_int_equal(path->dlid | path->slid | path->raw_traffic | path->sl, 0);
        end_close(&e);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_looks_for_this_host_finds_the_device_of_packets),
        cmocka_unit_test(connections_take_the_device_of_streams),
        cmocka_unit_test(datagrams_take_packets_where_the_address_is_the_devices),
        cmocka_unit_test(a_port_stays_where_the_address_stands_for_a_device),
        cmocka_unit_test(a_path_of_packets_has_every_field),
    };
    unsetenv("WEFT_WIRE"); // both
    roce_port_of_own();
    return cmocka_run_group_tests(tests, own_ask, NULL);
}
