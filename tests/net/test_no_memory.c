// Hosts and their tables while the Nth allocation fails, for every N: who asked is told, what was
// there works as before, and all that was taken is given back.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "net/flows.h"
#include "net/host.h"
#include "tests/failing_memory.h"

enum { ALLOCATIONS_MAX = 100, FLOWS = 257 }; // more than a table begins with

static void host_is_made_whole_or_not_at_all(void **state)
{
    static const struct net_config config = {.secret = {7}};
    struct net_host *host = NULL;
    int64_t before = memory_blocks;
    unsigned n = 1;
    for (; host == NULL && n < ALLOCATIONS_MAX; n++) {
        memory_fail_at(n);
        host = net_host_create(&config);
        memory_fail_at(0);
        assert_true(host != NULL || memory_blocks == before);
    }
    assert_true(n > 3); // the host, and a table of each kind
    assert_non_null(host);
    net_host_destroy(host);
    assert_int_equal(memory_blocks, before);
}

static void listener_is_made_whole_or_not_at_all(void **state)
{
    static const struct net_config config = {.secret = {7}};
    const struct tcp_listener_config listen = {.connection = tcp_config_default,
                                               .half_open_max = 4};
    struct net_host *host = net_host_create(&config);
    int64_t before = memory_blocks;
    int error = -ENOMEM;
    struct net_listener listener;
    for (unsigned n = 1; error != 0 && n < ALLOCATIONS_MAX; n++) {
        listener = (struct net_listener){.place = {.local_port = 7471}, .backlog = 1};
        memory_fail_at(n);
        error = net_listener_create(host, &listener, &listen);
        memory_fail_at(0);
        assert_true(error == 0 || error == -ENOMEM);
        assert_true(error == 0 || memory_blocks == before);
    }
    assert_int_equal(error, 0);
    net_listener_destroy(host, &listener);
    net_host_destroy(host);
}

// It is only slower than it could be.
static void table_that_cannot_grow_keeps_what_it_has(void **state)
{
    static const uint8_t key[SIPHASH_KEY_LEN] = {1, 2, 3};
    static struct net_flow_entry entry[FLOWS];
    struct net_flows t;
    int64_t before = memory_blocks;
    assert_int_equal(net_flows_init(&t, key), 0);
    for (unsigned i = 0; i < FLOWS; i++) {
        entry[i].flow = (struct net_flow){.local_port = 1, .remote_port = (uint16_t)i};
        list_init(&entry[i].link);
        net_flows_add(&t, &entry[i]);
    }
    memory_fail_at(1);
    assert_int_equal(net_flows_resize(&t, FLOWS), -ENOMEM);
    memory_fail_at(0);
    for (unsigned pass = 0; pass < 2; pass++) {
        for (unsigned i = 0; i < FLOWS; i++) {
            assert_ptr_equal(net_flows_find(&t, &entry[i].flow), &entry[i]);
        }
        assert_int_equal(net_flows_resize(&t, FLOWS), 0);
    }
    for (unsigned i = 0; i < FLOWS; i++) {
        net_flows_remove(&t, &entry[i]);
    }
    net_flows_fini(&t);
    assert_int_equal(memory_blocks, before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(host_is_made_whole_or_not_at_all),
        cmocka_unit_test(listener_is_made_whole_or_not_at_all),
        cmocka_unit_test(table_that_cannot_grow_keeps_what_it_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
