// Who was met is found again; strangers fill no memory.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "rsocket/datagram.h"

static unsigned handles_destroyed;

// In the device's place.
int ibv_destroy_ah(struct ibv_ah *ah)
{
    handles_destroyed++;
    return 0;
}

static struct sockaddr_in address_of(unsigned number)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_addr.s_addr = htonl(0x0a000000 + number / 3),
                                .sin_port = htons((uint16_t)(1 + number % 3))};
}

static struct rs_peer *find(struct rs_peers *peers, unsigned number)
{
    struct sockaddr_in addr = address_of(number);
    return rs_peers_find(peers, (struct sockaddr *)&addr);
}

static struct rs_peer *add(struct rs_peers *peers, unsigned number)
{
    struct sockaddr_in addr = address_of(number);
    return rs_peers_add(peers, (struct sockaddr *)&addr, NULL);
}

static void test_each_address_and_port_has_its_own(void **state)
{
    struct rs_peers peers;
    struct rs_peer *added[100];
    rs_peers_init(&peers);
    for (unsigned i = 0; i < 100; i++) {
        assert_null(find(&peers, i));
        added[i] = add(&peers, i);
    }
    for (unsigned i = 0; i < 100; i++) {
        assert_ptr_equal(find(&peers, i), added[i]);
    }
    rs_peers_fini(&peers);
}

static void test_families_are_not_mixed(void **state)
{
    struct sockaddr_in a4 = {.sin_family = AF_INET, .sin_port = htons(1)};
    struct sockaddr_in6 a6 = {.sin6_family = AF_INET6, .sin6_port = htons(1)};
    struct sockaddr_in6 b6 = a6;
    b6.sin6_addr.s6_addr[15] = 1;
    assert_false(sockaddr_is_same((struct sockaddr *)&a4, (struct sockaddr *)&a6));
    assert_false(sockaddr_is_same((struct sockaddr *)&a6, (struct sockaddr *)&b6));
    assert_true(sockaddr_is_same((struct sockaddr *)&a6, (struct sockaddr *)&a6));
}

static void test_of_too_many_the_one_asked_for_longest_ago_is_forgotten(void **state)
{
    struct rs_peers peers;
    int octet; // as a handle, which nobody looks into
    rs_peers_init(&peers);
    for (unsigned i = 0; i < RS_PEER_MAX; i++) {
        add(&peers, i)->ah = i == 1 ? (struct ibv_ah *)&octet : NULL;
    }
    assert_non_null(find(&peers, 0)); // so that 1 is the oldest
    handles_destroyed = 0;
    add(&peers, RS_PEER_MAX);
    assert_int_equal(peers.count, RS_PEER_MAX);
    assert_int_equal(handles_destroyed, 1);
    assert_non_null(find(&peers, 0));
    assert_null(find(&peers, 1));
    rs_peers_fini(&peers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_address_and_port_has_its_own),
        cmocka_unit_test(test_families_are_not_mixed),
        cmocka_unit_test(test_of_too_many_the_one_asked_for_longest_ago_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
