#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "net/flows.h"

enum { FLOWS = 2000 };

static struct net_flow_entry entry[FLOWS];

static void setup(struct net_flows *t)
{
    static const uint8_t key[SIPHASH_KEY_LEN] = {1, 2, 3};
    assert_int_equal(net_flows_init(t, key), 0);
    for (unsigned i = 0; i < FLOWS; i++) {
        entry[i].flow = (struct net_flow){.local_port = 1, .remote_port = (uint16_t)i};
        list_init(&entry[i].link);
    }
}

static void flows_are_found_while_the_table_grows_and_shrinks(void **state)
{
    struct net_flows t;
    setup(&t);
    for (unsigned i = 0; i < FLOWS; i++) {
        assert_null(net_flows_find(&t, &entry[i].flow));
        assert_int_equal(net_flows_resize(&t, i + 1), 0);
        net_flows_add(&t, &entry[i]);
    }
    assert_true(t.bucket_count >= FLOWS);
    for (unsigned i = 0; i < FLOWS; i++) {
        assert_ptr_equal(net_flows_find(&t, &entry[i].flow), &entry[i]);
        net_flows_remove(&t, &entry[i]);
        assert_null(net_flows_find(&t, &entry[i].flow));
    }
    net_flows_fini(&t);
}

static void flows_that_differ_in_any_number_are_others(void **state)
{
    struct net_flows t;
    setup(&t);
    net_flows_add(&t, &entry[7]);
    for (size_t i = 0; i < sizeof(struct net_flow); i++) {
        struct net_flow other = entry[7].flow;
        ((uint8_t *)&other)[i] ^= 1;
        assert_null(net_flows_find(&t, &other));
    }
    net_flows_remove(&t, &entry[7]);
    net_flows_fini(&t);
}

static void a_flow_that_comes_again_is_the_new_one(void **state)
{
    struct net_flows t;
    setup(&t);
    net_flows_add(&t, &entry[7]);
    assert_ptr_equal(net_flows_find(&t, &entry[7].flow), &entry[7]);
    net_flows_remove(&t, &entry[7]);
    entry[8].flow = entry[7].flow;
    net_flows_add(&t, &entry[8]);
    assert_ptr_equal(net_flows_find(&t, &entry[7].flow), &entry[8]);
    net_flows_remove(&t, &entry[8]);
    net_flows_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flows_are_found_while_the_table_grows_and_shrinks),
        cmocka_unit_test(flows_that_differ_in_any_number_are_others),
        cmocka_unit_test(a_flow_that_comes_again_is_the_new_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
