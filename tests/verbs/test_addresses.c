// The addresses of a device of packets as the host's come and go, the host being a table.
#include <net/if.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "verbs/front.h"
#include "view/address.h"

/* ---- the host -------------------------------------------------------------------------------- */

static struct view_address host[VIEW_ADDRESS_MAX];
static unsigned host_count;
static bool is_blind; // it cannot be found out what the host has

static const struct identity identity_of_roce;

const struct identity *identity_of(enum device_wire wire)
{
    assert_int_equal(wire, DEVICE_WIRE_ROCE);
    return &identity_of_roce;
}

enum ibv_mtu identity_active_mtu(const struct identity *identity, unsigned interface_mtu)
{
    assert_ptr_equal(identity, &identity_of_roce);
    return interface_mtu >= 9000 ? IBV_MTU_4096 : IBV_MTU_1024;
}

unsigned view_interface_mtu(const char *interface)
{
    return strncmp(interface, "long", 4) == 0 ? 9000 : 1500;
}

unsigned if_nametoindex(const char *interface)
{
    unsigned index = 0;
    sscanf(interface, "%*[a-z]%u", &index);
    return index;
}

unsigned view_addresses_find(const struct identity *identity,
                             struct view_address ret[VIEW_ADDRESS_MAX])
{
    assert_ptr_equal(identity, &identity_of_roce);
    memcpy(ret, host, sizeof host);
    return host_count;
}

bool view_addresses_look(struct view_address ret[], unsigned count)
{
    for (unsigned i = 0; i < count && !is_blind; i++) {
        const struct in6_addr addr = ret[i].addr;
        ret[i] = (struct view_address){.addr = addr};
        for (unsigned k = 0; k < host_count; k++) {
            if (memcmp(&host[k].addr, &addr, sizeof addr) == 0) {
                ret[i] = host[k];
            }
        }
    }
    return !is_blind;
}

static struct in6_addr addr_of(unsigned number)
{
    return (struct in6_addr){.s6_addr = {[0] = 0xfd, [15] = (uint8_t)number}};
}

static void has(unsigned number, const char *interface)
{
    struct view_address *a = &host[host_count++];
    *a = (struct view_address){.addr = addr_of(number), .scope_id = 100 + number};
    snprintf(a->interface, sizeof a->interface, "%s", interface);
}

static void loses(unsigned number)
{
    unsigned i = 0;
    const struct in6_addr addr = addr_of(number);
    while (memcmp(&host[i].addr, &addr, sizeof addr) != 0) {
        i++;
    }
    host[i] = host[--host_count];
}

static int begin(void **state)
{
    host_count = 0;
    is_blind = false;
    return 0;
}

// Numbers by place; 0: the place is empty.
static void expect(const struct rnic_port *port, unsigned count, const unsigned *numbers)
{
    assert_int_equal(port->addr_count, count);
    for (unsigned i = 0; i < count; i++) {
        const struct in6_addr addr = numbers[i] > 0 ? addr_of(numbers[i]) : in6addr_any;
        assert_memory_equal(&port->addrs[i].addr, &addr, sizeof addr);
        assert_int_equal(port->addrs[i].scope_id, numbers[i] > 0 ? 100 + numbers[i] : 0);
    }
}

/* ---- the device ------------------------------------------------------------------------------ */

static void a_device_begins_with_all_that_the_host_has(void **state)
{
    has(1, "long1");
    has(2, "long2");
    struct rnic_port port = front_port_find(&identity_of_roce);
    expect(&port, 2, (const unsigned[]){1, 2});
    assert_int_equal(port.addrs[0].interface, 1);
    assert_int_equal(port.addrs[1].interface, 2);
    assert_int_equal(port.path_mtu, 4096);
}

static void packets_are_as_long_as_the_first_interface_takes(void **state)
{
    has(1, "short1");
    has(2, "long2");
    assert_int_equal(front_port_find(&identity_of_roce).path_mtu, 1024);
}

// The others keep their places: programs know them by their index.
static void an_address_that_is_gone_leaves_its_place_to_the_next_that_comes(void **state)
{
    has(1, "long1");
    has(2, "long1");
    has(3, "long1");
    struct rnic_port port = front_port_find(&identity_of_roce);
    loses(2);
    port.follow(&port);
    expect(&port, 3, (const unsigned[]){1, 0, 3});
    port.follow(&port);
    expect(&port, 3, (const unsigned[]){1, 0, 3});
    has(4, "long7");
    port.follow(&port);
    expect(&port, 3, (const unsigned[]){1, 4, 3});
    assert_int_equal(port.addrs[1].interface, 7);
    has(5, "long1");
    port.follow(&port);
    expect(&port, 4, (const unsigned[]){1, 4, 3, 5});
}

static void what_cannot_be_found_out_changes_nothing(void **state)
{
    has(1, "long1");
    struct rnic_port port = front_port_find(&identity_of_roce);
    loses(1);
    has(2, "long1");
    is_blind = true;
    port.follow(&port);
    expect(&port, 1, (const unsigned[]){1});
    is_blind = false;
    port.follow(&port);
    expect(&port, 1, (const unsigned[]){2});
}

static void an_interface_of_shorter_packets_adds_nothing(void **state)
{
    has(1, "long1");
    struct rnic_port port = front_port_find(&identity_of_roce);
    has(2, "short2");
    has(3, "long3");
    port.follow(&port);
    expect(&port, 2, (const unsigned[]){1, 3});
}

// They stand there where a host has no others: at the beginning, not for a moment.
static void loopback_is_not_added(void **state)
{
    has(1, "long1");
    struct rnic_port port = front_port_find(&identity_of_roce);
    host[host_count++] = (struct view_address){.addr = in6addr_loopback, .interface = "long9"};
    port.follow(&port);
    expect(&port, 1, (const unsigned[]){1});
}

static void the_last_place_is_used_too(void **state)
{
    unsigned numbers[RNIC_ADDR_MAX];
    for (unsigned i = 0; i < RNIC_ADDR_MAX; i++) {
        numbers[i] = i + 1;
        has(i + 1, "long1");
    }
    struct rnic_port port = front_port_find(&identity_of_roce);
    expect(&port, RNIC_ADDR_MAX, numbers);
    loses(RNIC_ADDR_MAX);
    has(99, "long1");
    numbers[RNIC_ADDR_MAX - 1] = 99;
    port.follow(&port);
    expect(&port, RNIC_ADDR_MAX, numbers);
}

#define TEST_OF(name) cmocka_unit_test_setup(name, begin)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_OF(a_device_begins_with_all_that_the_host_has),
        TEST_OF(packets_are_as_long_as_the_first_interface_takes),
        TEST_OF(an_address_that_is_gone_leaves_its_place_to_the_next_that_comes),
        TEST_OF(what_cannot_be_found_out_changes_nothing),
        TEST_OF(an_interface_of_shorter_packets_adds_nothing),
        TEST_OF(loopback_is_not_added),
        TEST_OF(the_last_place_is_used_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
