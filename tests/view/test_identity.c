#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "tests/fake_machine.h"
#include "view/identity.h"

static void stream_says_nothing_of_its_segments(void **state)
{
    const struct identity *iwarp = identity_of(DEVICE_WIRE_IWARP);
    assert_int_equal(identity_active_mtu(iwarp, 1500), IBV_MTU_4096);
    assert_int_equal(identity_active_mtu(iwarp, 0), IBV_MTU_4096);
}

static void path_mtu_and_headers_fit_the_interface(void **state)
{
    static const struct {
        unsigned interface_mtu;
        enum ibv_mtu active;
    } rows[] = {
        {0, IBV_MTU_256},     {576, IBV_MTU_256},   {607, IBV_MTU_256},    {608, IBV_MTU_512},
        {1500, IBV_MTU_1024}, {2143, IBV_MTU_1024}, {2144, IBV_MTU_2048},  {4191, IBV_MTU_2048},
        {4192, IBV_MTU_4096}, {9000, IBV_MTU_4096}, {65536, IBV_MTU_4096},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(identity_active_mtu(identity_of(DEVICE_WIRE_ROCE), rows[i].interface_mtu),
                         rows[i].active);
    }
}

static void devices_of_a_host_have_guids_of_their_own(void **state)
{
    const uint64_t iwarp = identity_guid(identity_of(DEVICE_WIRE_IWARP));
    const uint64_t roce = identity_guid(identity_of(DEVICE_WIRE_ROCE));
    assert_true(iwarp != roce);
    assert_int_equal(iwarp >> 56 & 3, 2); // local, of one device
    assert_int_equal(roce >> 56 & 3, 2);
    assert_true(roce == identity_guid(identity_of(DEVICE_WIRE_ROCE)));
}

static uint64_t guid_of_machine(const char *id, const char *host)
{
    machine.id = id;
    machine.host = host;
    const uint64_t guid = identity_guid(identity_of(DEVICE_WIRE_ROCE));
    machine.id = machine.host = NULL;
    return guid;
}

// Those that were made of one image have the same file until they have been started once.
static void device_of_another_machine_has_another_guid(void **state)
{
    assert_true(guid_of_machine("4a5f\n", "h") != guid_of_machine("4a60\n", "h"));
    assert_true(guid_of_machine("4a5f\n", "h") == guid_of_machine("4a5f\n", "i"));
    assert_true(guid_of_machine("uninitialized\n", "h") != guid_of_machine("uninitialized\n", "i"));
    assert_true(guid_of_machine("", "h") != guid_of_machine("", "i"));
}

static void device_without_address_handles_has_no_datagrams(void **state)
{
    for (enum device_wire wire = 0; wire < DEVICE_WIRE_COUNT; wire++) {
        const struct identity *identity = identity_of(wire);
        assert_int_equal(identity->max_ah > 0, (identity->qp_types & 1 << IBV_QPT_UD) != 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stream_says_nothing_of_its_segments),
        cmocka_unit_test(path_mtu_and_headers_fit_the_interface),
        cmocka_unit_test(devices_of_a_host_have_guids_of_their_own),
        cmocka_unit_test(device_of_another_machine_has_another_guid),
        cmocka_unit_test(device_without_address_handles_has_no_datagrams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
