// Multicast groups of an id, row by row: who may join, what the event says of the group, and what
// leaving leaves.

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <cmocka.h>

#include "tests/cm/loopback.h"
#include "tests/verbs/roce.h"

enum { MEMBER = RDMA_MC_JOIN_FLAG_FULLMEMBER, SPEAKER = RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER };

// The n-th of 239.77.12.0/24.
static struct sockaddr_in group(unsigned n)
{
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xef4d0c00 + n)};
}

// The same, as IPv6 has it.
static struct sockaddr_in6 group_mapped(unsigned n)
{
    const struct sockaddr_in at = group(n);
    struct sockaddr_in6 mapped = {.sin6_family = AF_INET6};
    mapped.sin6_addr.s6_addr[10] = mapped.sin6_addr.s6_addr[11] = 0xff;
    memcpy(&mapped.sin6_addr.s6_addr[12], &at.sin_addr, sizeof at.sin_addr);
    return mapped;
}

static struct end id_of(enum rdma_port_space space)
{
    struct end e = {.channel = rdma_create_event_channel()};
    assert_int_equal(rdma_create_id(e.channel, &e.id, NULL, space), 0);
    return e;
}

// With the device and an address of it: it knows the way to this host.
static struct end resolved(void)
{
    struct end e = id_of(RDMA_PS_UDP);
    struct sockaddr_in to = loopback_addr(htons(9));
    assert_int_equal(rdma_resolve_addr(e.id, NULL, (struct sockaddr *)&to, 1000), 0);
    assert_int_equal(event_take(e.channel, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
    return e;
}

// Bound to that address: one of loopback stands for all of a device.
static struct end bound(void)
{
    struct end way = resolved(), e = id_of(RDMA_PS_UDP);
    struct sockaddr_in at = *(struct sockaddr_in *)rdma_get_local_addr(way.id);
    at.sin_port = 0;
    assert_int_equal(rdma_bind_addr(e.id, (struct sockaddr *)&at), 0);
    end_close(&way);
    return e;
}

static int join(struct end *e, unsigned n, void *context)
{
    struct sockaddr_in at = group(n);
    return rdma_join_multicast(e->id, (struct sockaddr *)&at, context);
}

static int leave(struct end *e, unsigned n)
{
    struct sockaddr_in at = group(n);
    return rdma_leave_multicast(e->id, (struct sockaddr *)&at);
}

static int join_with(struct end *e, uint32_t mask, uint32_t flags)
{
    struct sockaddr_in at = group(1);
    struct rdma_cm_join_mc_attr_ex attr = {
        .comp_mask = mask, .join_flags = flags, .addr = (struct sockaddr *)&at};
    return rdma_join_multicast_ex(e->id, &attr, e);
}

static void expect_joined(struct end *e, unsigned n, const void *context)
{
    const struct sockaddr_in6 gid = group_mapped(n);
    struct rdma_cm_event *event = event_expect(e->channel, RDMA_CM_EVENT_MULTICAST_JOIN);
    assert_ptr_equal(event->id, e->id);
    assert_int_equal(event->status, 0);
    assert_ptr_equal(event->param.ud.private_data, context);
    assert_memory_equal(event->param.ud.ah_attr.grh.dgid.raw, &gid.sin6_addr, 16);
    assert_int_equal(rdma_ack_cm_event(event), 0);
}

#define REFUSED(call, error)            \
    do {                                \
        errno = 0;                      \
        assert_int_equal(call, -1);     \
        assert_int_equal(errno, error); \
    } while (0)

/* ---- who may join ---------------------------------------------------------------------------- */

static void an_id_joins_from_when_it_has_a_device_until_it_serves(void **state)
{
    struct end e = id_of(RDMA_PS_UDP);
    REFUSED(join(&e, 1, NULL), EINVAL);
    end_close(&e);
    e = resolved();
    assert_int_equal(join(&e, 1, NULL), 0);
    expect_joined(&e, 1, NULL);
    assert_int_equal(rdma_resolve_route(e.id, 1000), 0);
    assert_int_equal(event_take(e.channel, RDMA_CM_EVENT_ROUTE_RESOLVED), 0);
    assert_int_equal(join(&e, 2, NULL), 0);
    expect_joined(&e, 2, NULL);
    end_close(&e);
    e = bound();
    assert_int_equal(join(&e, 1, NULL), 0);
    expect_joined(&e, 1, NULL);
    assert_int_equal(rdma_listen(e.id, 1), 0);
    REFUSED(join(&e, 2, NULL), EINVAL);
    end_close(&e);
}

static void a_connections_id_joins_nothing(void **state)
{
    struct sockaddr_in at = loopback_addr(0);
    struct end e = id_of(RDMA_PS_TCP);
    assert_int_equal(rdma_bind_addr(e.id, (struct sockaddr *)&at), 0);
    REFUSED(join(&e, 1, NULL), EINVAL);
    end_close(&e);
}

static void what_is_asked_for_is_looked_at(void **state)
{
    static const struct {
        uint32_t mask, flags;
        int error;
    } rows[] = {
        {RDMA_CM_JOIN_MC_ATTR_ADDRESS, MEMBER, EINVAL},
        {RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS, MEMBER, EINVAL},
        {0, MEMBER, EINVAL},
        {3 | RDMA_CM_JOIN_MC_ATTR_RESERVED, MEMBER, ENOTSUP},
        {RDMA_CM_JOIN_MC_ATTR_RESERVED, MEMBER, ENOTSUP},
        {3, RDMA_MC_JOIN_FLAG_RESERVED, EINVAL},
        {3, RDMA_MC_JOIN_FLAG_RESERVED + 1, EINVAL},
        {3, MEMBER, 0},
        {3, SPEAKER, 0},
    };
    struct end e = resolved();
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].error != 0) {
            REFUSED(join_with(&e, rows[i].mask, rows[i].flags), rows[i].error);
        } else {
            assert_int_equal(join_with(&e, rows[i].mask, rows[i].flags), 0);
            expect_joined(&e, 1, &e);
        }
    }
    struct sockaddr unknown = {.sa_family = AF_UNIX};
    REFUSED(rdma_join_multicast(e.id, &unknown, NULL), EINVAL);
    REFUSED(rdma_leave_multicast(e.id, &unknown), EINVAL);
    end_close(&e);
}

/* ---- what is told ---------------------------------------------------------------------------- */

static void an_event_says_how_to_reach_the_group(void **state)
{
    for (unsigned has_tos = 0; has_tos < 2; has_tos++) {
        struct end e = resolved();
        uint8_t tos = 0x60;
        union ibv_gid gid;
        if (has_tos) {
            assert_int_equal(
                rdma_set_option(e.id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof tos), 0);
        }
        assert_int_equal(join(&e, 3, &tos), 0);
        struct rdma_cm_event *event = event_expect(e.channel, RDMA_CM_EVENT_MULTICAST_JOIN);
        const struct rdma_ud_param *ud = &event->param.ud;
        assert_ptr_equal(ud->private_data, &tos);
        assert_int_equal(ud->private_data_len, 0);
        assert_int_equal(ud->qp_num, 0xffffff);
        assert_int_equal(ud->qkey, RDMA_UDP_QKEY);
        assert_int_equal(ud->ah_attr.is_global, 1);
        assert_int_equal(ud->ah_attr.port_num, e.id->port_num);
        assert_int_equal(
            ibv_query_gid(e.id->verbs, ud->ah_attr.port_num, ud->ah_attr.grh.sgid_index, &gid), 0);
        assert_memory_equal(&gid.raw[12],
                            &((struct sockaddr_in *)rdma_get_local_addr(e.id))->sin_addr, 4);
        assert_int_equal(ud->ah_attr.grh.hop_limit, 64);
        assert_int_equal(ud->ah_attr.grh.traffic_class, has_tos ? 0x60 : 0);
        assert_int_equal(ud->ah_attr.dlid, 0);
        rdma_ack_cm_event(event);
        end_close(&e);
    }
}

static void groups_are_told_in_their_order_without_those_that_were_left(void **state)
{
    struct end e = resolved();
    for (unsigned n = 1; n < 5; n++) {
        assert_int_equal(join(&e, n, (char *)&e + n), 0);
    }
    assert_int_equal(leave(&e, 3), 0);
    assert_int_equal(leave(&e, 1), 0);
    REFUSED(leave(&e, 1), EADDRNOTAVAIL);
    expect_joined(&e, 2, (char *)&e + 2);
    expect_joined(&e, 4, (char *)&e + 4);
    assert_false(event_waits(e.channel));
    assert_int_equal(leave(&e, 2), 0);
    assert_int_equal(leave(&e, 4), 0);
    REFUSED(leave(&e, 4), EADDRNOTAVAIL);
    end_close(&e);
}

// An IPv4 group is the same in either family.
static void a_group_is_left_by_either_of_its_names(void **state)
{
    struct end e = resolved();
    struct sockaddr_in6 mapped = group_mapped(6);
    assert_int_equal(join(&e, 6, NULL), 0);
    expect_joined(&e, 6, NULL);
    assert_int_equal(rdma_leave_multicast(e.id, (struct sockaddr *)&mapped), 0);
    assert_int_equal(rdma_join_multicast(e.id, (struct sockaddr *)&mapped, &e), 0);
    expect_joined(&e, 6, &e);
    assert_int_equal(leave(&e, 6), 0);
    REFUSED(rdma_leave_multicast(e.id, (struct sockaddr *)&mapped), EADDRNOTAVAIL);
    end_close(&e);
}

// An id without a channel has its events at once.
static void an_id_without_a_channel_joins_within_the_call(void **state)
{
    struct sockaddr_in at = loopback_addr(htons(9));
    struct end e = {0};
    assert_int_equal(rdma_create_id(NULL, &e.id, NULL, RDMA_PS_UDP), 0);
    assert_int_equal(rdma_resolve_addr(e.id, NULL, (struct sockaddr *)&at, 1000), 0);
    assert_int_equal(join(&e, 7, &at), 0);
    assert_non_null(e.id->event);
    assert_int_equal(e.id->event->event, RDMA_CM_EVENT_MULTICAST_JOIN);
    assert_ptr_equal(e.id->event->param.ud.private_data, &at);
    assert_int_equal(leave(&e, 7), 0);
    REFUSED(leave(&e, 7), EADDRNOTAVAIL);
    assert_int_equal(rdma_destroy_id(e.id), 0);
}

/* ---- queue pairs ----------------------------------------------------------------------------- */

// Whether the queue pair is in the group: it could not be taken out of it twice.
static bool takes_out(struct ibv_qp *qp, unsigned n)
{
    const struct sockaddr_in6 mapped = group_mapped(n);
    union ibv_gid gid;
    memcpy(gid.raw, &mapped.sin6_addr, sizeof gid.raw);
    return ibv_detach_mcast(qp, &gid, 0) == 0;
}

static struct ibv_qp *datagrams_open(struct end *e)
{
    struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_UD, .cap = {1, 1, 1, 1, 0}};
    assert_int_equal(rdma_create_qp(e->id, NULL, &attr), 0);
    return e->id->qp;
}

static void members_receive_and_speakers_do_not(void **state)
{
    for (unsigned is_member = 0; is_member < 2; is_member++) {
        struct end e = resolved();
        struct ibv_qp *qp = datagrams_open(&e);
        assert_int_equal(join_with(&e, 3, is_member ? MEMBER : SPEAKER), 0);
        assert_false(takes_out(qp, 1)); // when the event is taken
        expect_joined(&e, 1, &e);
        assert_int_equal(takes_out(qp, 1), is_member);
        end_close(&e);
    }
}

static void a_queue_pair_has_a_group_as_long_as_one_join_stays(void **state)
{
    struct end e = resolved();
    struct ibv_qp *qp = datagrams_open(&e);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(join(&e, 1, NULL), 0);
        assert_int_equal(join(&e, 2, NULL), 0);
        expect_joined(&e, 1, NULL);
        expect_joined(&e, 2, NULL);
    }
    assert_int_equal(leave(&e, 1), 0);
    assert_true(takes_out(qp, 1)); // the program's doing ...
    assert_int_equal(leave(&e, 2), 0);
    assert_int_equal(leave(&e, 2), 0);
    assert_false(takes_out(qp, 2));
    REFUSED(leave(&e, 1), EINVAL); // ... of which leaving hears
    REFUSED(leave(&e, 1), EADDRNOTAVAIL);
    end_close(&e);
}

// A queue pair that goes leaves its groups, and the id may have another.
static void a_queue_pair_that_goes_leaves_the_group(void **state)
{
    struct end e = resolved();
    struct ibv_pd *before = e.id->pd, *pd = ibv_alloc_pd(e.id->verbs);
    struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_UD, .cap = {1, 1, 1, 1, 0}};
    assert_non_null(pd);
    assert_int_equal(rdma_create_qp(e.id, pd, &attr), 0);
    assert_int_equal(join(&e, 1, NULL), 0);
    assert_int_equal(join(&e, 2, NULL), 0);
    expect_joined(&e, 1, NULL);
    expect_joined(&e, 2, NULL);
    rdma_destroy_qp(e.id);
    assert_int_equal(ibv_dealloc_pd(pd), 0); // nothing of it is left
    e.id->pd = before;
    datagrams_open(&e);
    assert_int_equal(leave(&e, 1), 0); // which the new one never had
    assert_int_equal(leave(&e, 2), 0);
    end_close(&e);
}

// An address that is no group's is found out when the queue pair is to be put into it.
static void what_is_no_group_is_told_with_the_event(void **state)
{
    struct end e = resolved();
    struct sockaddr_in at = loopback_addr(0);
    datagrams_open(&e);
    assert_int_equal(rdma_join_multicast(e.id, (struct sockaddr *)&at, &e), 0);
    struct rdma_cm_event *event = event_expect(e.channel, RDMA_CM_EVENT_MULTICAST_ERROR);
    assert_int_equal(event->status, -EINVAL);
    assert_int_equal(rdma_ack_cm_event(event), 0);
    assert_int_equal(rdma_leave_multicast(e.id, (struct sockaddr *)&at), 0);
    end_close(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_id_joins_from_when_it_has_a_device_until_it_serves),
        cmocka_unit_test(a_connections_id_joins_nothing),
        cmocka_unit_test(what_is_asked_for_is_looked_at),
        cmocka_unit_test(an_event_says_how_to_reach_the_group),
        cmocka_unit_test(groups_are_told_in_their_order_without_those_that_were_left),
        cmocka_unit_test(a_group_is_left_by_either_of_its_names),
        cmocka_unit_test(an_id_without_a_channel_joins_within_the_call),
        cmocka_unit_test(members_receive_and_speakers_do_not),
        cmocka_unit_test(a_queue_pair_that_goes_leaves_the_group),
        cmocka_unit_test(what_is_no_group_is_told_with_the_event),
        cmocka_unit_test(a_queue_pair_has_a_group_as_long_as_one_join_stays),
    };
    setenv("WEFT_WIRE", "roce", 1);
    roce_port_of_own();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
