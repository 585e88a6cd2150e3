// rdma_getaddrinfo: libc's answers in RDMA's terms.

#include <errno.h>
#include <netdb.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "tests/cm/loopback.h"

static void test_the_active_sides_answer_is_a_destination(void **state)
{
    struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *res;
    assert_int_equal(rdma_getaddrinfo("127.0.0.1", "7471", &hints, &res), 0);
    const struct sockaddr_in *dst = (const struct sockaddr_in *)res->ai_dst_addr;
    assert_int_equal(res->ai_flags, 0);
    assert_int_equal(res->ai_family, AF_INET);
    assert_int_equal(res->ai_qp_type, IBV_QPT_RC);
    assert_int_equal(res->ai_port_space, RDMA_PS_TCP);
    assert_int_equal(res->ai_dst_len, sizeof *dst);
    assert_int_equal(dst->sin_port, htons(7471));
    assert_int_equal(dst->sin_addr.s_addr, htonl(INADDR_LOOPBACK));
    assert_null(res->ai_src_addr);
    rdma_freeaddrinfo(res);
}

static void test_the_passive_sides_answer_is_a_source(void **state)
{
    struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE,
                                  .ai_family = AF_INET,
                                  .ai_port_space = RDMA_PS_TCP},
                         *res;
    assert_int_equal(rdma_getaddrinfo(NULL, "7471", &hints, &res), 0);
    const struct sockaddr_in *src = (const struct sockaddr_in *)res->ai_src_addr;
    assert_int_equal(res->ai_flags, RAI_PASSIVE);
    assert_int_equal(src->sin_port, htons(7471));
    assert_int_equal(src->sin_addr.s_addr, htonl(INADDR_ANY));
    assert_null(res->ai_dst_addr);
    rdma_freeaddrinfo(res);
}

static void test_without_hints_streams_come_first(void **state)
{
    struct rdma_addrinfo *res;
    assert_int_equal(rdma_getaddrinfo("127.0.0.1", NULL, NULL, &res), 0);
    assert_int_equal(res->ai_qp_type, IBV_QPT_RC);
    assert_int_equal(res->ai_port_space, RDMA_PS_TCP);
    rdma_freeaddrinfo(res);
}

static void test_the_hints_choose_datagrams(void **state)
{
    struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_UDP}, *res;
    assert_int_equal(rdma_getaddrinfo("127.0.0.1", "1", &hints, &res), 0);
    assert_int_equal(res->ai_qp_type, IBV_QPT_UD);
    assert_int_equal(res->ai_port_space, RDMA_PS_UDP);
    rdma_freeaddrinfo(res);
}

static void test_the_hints_source_goes_along(void **state)
{
    struct sockaddr_in src = loopback_addr(0);
    struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP,
                                  .ai_src_len = sizeof src,
                                  .ai_src_addr = (struct sockaddr *)&src},
                         *res;
    assert_int_equal(rdma_getaddrinfo("127.0.0.1", "1", &hints, &res), 0);
    assert_int_equal(res->ai_src_len, sizeof src);
    assert_memory_equal(res->ai_src_addr, &src, sizeof src);
    assert_ptr_not_equal(res->ai_src_addr, &src);
    rdma_freeaddrinfo(res);
}

static void test_hints_alone_are_their_own_answer(void **state)
{
    struct sockaddr_in dst = loopback_addr(htons(9));
    struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP,
                                  .ai_qp_type = IBV_QPT_RC,
                                  .ai_family = AF_INET,
                                  .ai_dst_len = sizeof dst,
                                  .ai_dst_addr = (struct sockaddr *)&dst},
                         *res;
    assert_int_equal(rdma_getaddrinfo(NULL, NULL, &hints, &res), 0);
    assert_memory_equal(res->ai_dst_addr, &dst, sizeof dst);
    assert_int_equal(res->ai_family, AF_INET);
    rdma_freeaddrinfo(res);
    const struct rdma_addrinfo others = {.ai_flags = RAI_PASSIVE | RAI_NUMERICHOST,
                                         .ai_qp_type = IBV_QPT_UD,
                                         .ai_port_space = RDMA_PS_UDP};
    assert_int_equal(rdma_getaddrinfo(NULL, NULL, &others, &res), 0);
    assert_int_equal(res->ai_flags, others.ai_flags);
    assert_int_equal(res->ai_qp_type, IBV_QPT_UD);
    assert_int_equal(res->ai_port_space, RDMA_PS_UDP);
    assert_null(res->ai_dst_addr);
    assert_null(res->ai_src_addr);
    rdma_freeaddrinfo(res);
}

static void test_nothing_to_go_by_is_refused(void **state)
{
    struct rdma_addrinfo *res;
    errno = 0;
    assert_int_equal(rdma_getaddrinfo(NULL, NULL, NULL, &res), -1);
    assert_int_equal(errno, EINVAL);
}

// To no host in particular: the active side's is this one, the passive side's any.
static void test_a_port_alone_is_of_this_host_or_of_any(void **state)
{
    static const struct {
        int flags;
        uint32_t addr;
    } rows[] = {{0, INADDR_LOOPBACK}, {RAI_PASSIVE, INADDR_ANY}};
    for (unsigned i = 0; i < 2; i++) {
        struct rdma_addrinfo *res,
            hints = {.ai_flags = rows[i].flags, .ai_family = AF_INET, .ai_port_space = RDMA_PS_TCP};
        assert_int_equal(rdma_getaddrinfo(NULL, "7", &hints, &res), 0);
        const struct sockaddr *addr = i == 0 ? res->ai_dst_addr : res->ai_src_addr;
        assert_int_equal(((const struct sockaddr_in *)addr)->sin_addr.s_addr, htonl(rows[i].addr));
        rdma_freeaddrinfo(res);
    }
}

static void test_numeric_hosts_are_not_looked_up(void **state)
{
    struct rdma_addrinfo hints = {.ai_flags = RAI_NUMERICHOST}, *res;
    assert_int_equal(rdma_getaddrinfo("localhost", NULL, &hints, &res), EAI_NONAME);
    hints.ai_flags |= RAI_FAMILY;
    hints.ai_family = AF_INET6;
    assert_int_equal(rdma_getaddrinfo("::1", NULL, &hints, &res), 0);
    assert_int_equal(res->ai_family, AF_INET6);
    rdma_freeaddrinfo(res);
}

// What a hint says of the queue pair or the port space, the answer says of both.
static void test_queue_pair_and_port_space_agree(void **state)
{
    static const struct {
        int qp_type, port_space; // hints; 0: none
        int expected_qp_type, expected_space;
    } rows[] = {
        {IBV_QPT_RC, 0, IBV_QPT_RC, RDMA_PS_TCP},
        {IBV_QPT_UC, 0, IBV_QPT_UC, RDMA_PS_TCP},
        {IBV_QPT_XRC_SEND, 0, IBV_QPT_XRC_SEND, RDMA_PS_TCP},
        {IBV_QPT_XRC_RECV, 0, IBV_QPT_XRC_RECV, RDMA_PS_TCP},
        {IBV_QPT_UD, 0, IBV_QPT_UD, RDMA_PS_UDP},
        {0, RDMA_PS_TCP, IBV_QPT_RC, RDMA_PS_TCP},
        {0, RDMA_PS_UDP, IBV_QPT_UD, RDMA_PS_UDP},
        {0, RDMA_PS_IPOIB, IBV_QPT_UD, RDMA_PS_IPOIB},
        {IBV_QPT_RC, RDMA_PS_IB, IBV_QPT_RC, RDMA_PS_IB},
        {IBV_QPT_UD, RDMA_PS_IB, IBV_QPT_UD, RDMA_PS_IB},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct rdma_addrinfo *res,
            hints = {.ai_qp_type = rows[i].qp_type, .ai_port_space = rows[i].port_space};
        assert_int_equal(rdma_getaddrinfo("127.0.0.1", "7", &hints, &res), 0);
        assert_int_equal(res->ai_qp_type, rows[i].expected_qp_type);
        assert_int_equal(res->ai_port_space, rows[i].expected_space);
        assert_int_equal(res->ai_family, AF_INET);
        assert_int_equal(res->ai_flags, 0);
        rdma_freeaddrinfo(res);
    }
    struct rdma_addrinfo *res, wrong = {.ai_qp_type = IBV_QPT_RC, .ai_port_space = RDMA_PS_UDP};
    assert_int_not_equal(rdma_getaddrinfo("127.0.0.1", "7", &wrong, &res), 0);
    wrong = (struct rdma_addrinfo){.ai_qp_type = IBV_QPT_UD, .ai_port_space = RDMA_PS_TCP};
    assert_int_not_equal(rdma_getaddrinfo("127.0.0.1", "7", &wrong, &res), 0);
}

// As rdma-core 57 has them.
int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service,
                          const struct rdma_addrinfo *hints);
int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **ret);

static void test_an_event_says_that_an_answer_is_there(void **state)
{
    const enum rdma_cm_event_type resolved =
        (enum rdma_cm_event_type)(RDMA_CM_EVENT_TIMEWAIT_EXIT + 1);
    struct rdma_addrinfo *res, subnet = {.ai_flags = 0x10};
    struct end end = {.channel = rdma_create_event_channel()};
    assert_int_equal(rdma_create_id(end.channel, &end.id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_query_addrinfo(end.id, &res), -1);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(rdma_resolve_addrinfo(end.id, NULL, "7", &subnet), -1);
    assert_int_equal(errno, ENOTSUP);
    assert_int_equal(rdma_resolve_addrinfo(NULL, "127.0.0.1", "7", NULL), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(rdma_resolve_addrinfo(end.id, "127.0.0.1", "7", NULL), 0);
    assert_int_equal(rdma_resolve_addrinfo(end.id, "127.0.0.1", "7", NULL), -1);
    assert_int_equal(errno, EBUSY);
    assert_int_equal(event_take(end.channel, resolved), 0);
    assert_int_equal(rdma_query_addrinfo(end.id, &res), 0);
    assert_int_equal(((const struct sockaddr_in *)res->ai_dst_addr)->sin_port, htons(7));
    rdma_freeaddrinfo(res);
    assert_int_equal(rdma_query_addrinfo(end.id, &res), -1);
    assert_int_equal(rdma_resolve_addrinfo(end.id, "127.0.0.1", "7", NULL), 0); // never asked for
    end_close(&end);
}

static void test_a_resolution_that_fails_may_be_tried_again(void **state)
{
    struct rdma_addrinfo numeric = {.ai_flags = RAI_NUMERICHOST};
    struct end end = {.channel = rdma_create_event_channel()};
    assert_int_equal(rdma_create_id(end.channel, &end.id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_resolve_addrinfo(end.id, "no.address", "7", &numeric), -1);
    assert_int_equal(errno, ENODATA);
    assert_false(event_waits(end.channel));
    assert_int_equal(rdma_resolve_addrinfo(end.id, "::1", "7", &numeric), 0);
    end_close(&end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_active_sides_answer_is_a_destination),
        cmocka_unit_test(test_the_passive_sides_answer_is_a_source),
        cmocka_unit_test(test_without_hints_streams_come_first),
        cmocka_unit_test(test_the_hints_choose_datagrams),
        cmocka_unit_test(test_the_hints_source_goes_along),
        cmocka_unit_test(test_hints_alone_are_their_own_answer),
        cmocka_unit_test(test_nothing_to_go_by_is_refused),
        cmocka_unit_test(test_a_port_alone_is_of_this_host_or_of_any),
        cmocka_unit_test(test_numeric_hosts_are_not_looked_up),
        cmocka_unit_test(test_queue_pair_and_port_space_agree),
        cmocka_unit_test(test_an_event_says_that_an_answer_is_there),
        cmocka_unit_test(test_a_resolution_that_fails_may_be_tried_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
