// The net of a test: three hosts that hear and accept, of which most need two.
#pragma once

#include "tests/ibcm/net.h"

static struct net net;
#define A (&net.hosts[0])
#define B (&net.hosts[1])

static int set_up(void **state)
{
    net_init(&net, 1);
    return 0;
}

static int tear_down(void **state)
{
    net_fini(&net);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
