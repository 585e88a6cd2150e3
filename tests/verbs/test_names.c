#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "verbs/front.h"

static void values_have_the_names_that_programs_print(void **state)
{
    assert_string_equal(ibv_wc_status_str(IBV_WC_SUCCESS), "success");
    assert_string_equal(ibv_wc_status_str(IBV_WC_WR_FLUSH_ERR), "Work Request Flushed Error");
    assert_string_equal(ibv_wc_status_str(IBV_WC_TM_RNDV_INCOMPLETE), "TM software rendezvous");
    assert_string_equal(ibv_node_type_str(IBV_NODE_RNIC), "iWARP NIC");
    assert_string_equal(ibv_port_state_str(IBV_PORT_ACTIVE), "active");
    assert_string_equal(ibv_event_type_str(IBV_EVENT_WQ_FATAL), "WQ fatal");
    assert_string_equal(ibv_wr_opcode_str(IBV_WR_SEND_WITH_INV), "send-with-inv");
}

static void other_values_are_unknown(void **state)
{
    assert_string_equal(ibv_wc_status_str((enum ibv_wc_status) - 1), "unknown");
    assert_string_equal(ibv_wc_status_str(IBV_WC_TM_RNDV_INCOMPLETE + 1), "unknown");
    assert_string_equal(ibv_node_type_str(IBV_NODE_UNKNOWN), "unknown");
    assert_string_equal(ibv_node_type_str((enum ibv_node_type)0), "unknown");
    assert_string_equal(ibv_port_state_str((enum ibv_port_state)6), "unknown");
    assert_string_equal(ibv_event_type_str((enum ibv_event_type)1000), "unknown");
    assert_string_equal(ibv_wr_opcode_str((enum ibv_wr_opcode)12), "unknown");
}

static void rates_convert_both_ways(void **state)
{
    for (int rate = IBV_RATE_MAX; rate <= IBV_RATE_1200_GBPS + 1; rate++) {
        int mbps = ibv_rate_to_mbps((enum ibv_rate)rate);
        int mult = ibv_rate_to_mult((enum ibv_rate)rate);
        if (mbps != -1) {
            assert_int_equal(mbps_to_ibv_rate(mbps), rate);
        }
        if (mult != -1) {
            assert_int_equal(mult_to_ibv_rate(mult), rate);
        }
    }
    assert_int_equal(ibv_rate_to_mbps(IBV_RATE_100_GBPS), 103125);
    assert_int_equal(ibv_rate_to_mult(IBV_RATE_10_GBPS), 4);
}

static void other_rates_are_none(void **state)
{
    assert_int_equal(ibv_rate_to_mbps(IBV_RATE_MAX), -1);
    assert_int_equal(ibv_rate_to_mbps((enum ibv_rate)1), -1);
    assert_int_equal(ibv_rate_to_mbps((enum ibv_rate) - 1), -1);
    assert_int_equal(ibv_rate_to_mult(IBV_RATE_14_GBPS), -1);
    assert_int_equal(mbps_to_ibv_rate(0), IBV_RATE_MAX);
    assert_int_equal(mbps_to_ibv_rate(12345), IBV_RATE_MAX);
    assert_int_equal(mult_to_ibv_rate(-1), IBV_RATE_MAX);
    assert_int_equal(mult_to_ibv_rate(0), IBV_RATE_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_have_the_names_that_programs_print),
        cmocka_unit_test(other_values_are_unknown),
        cmocka_unit_test(rates_convert_both_ways),
        cmocka_unit_test(other_rates_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
