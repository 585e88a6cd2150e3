#include "tests/rnic/udp_link.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "host/link.h"
#include "host/settings.h"

struct link *udp_link(const char *fault)
{
    struct host_settings settings;
    struct link *link;
    setenv("WEFT_LINK", "udp", 1);
    setenv("WEFT_FAULT", fault, 1);
    host_settings_read(&settings);
    assert_int_equal(host_link_create(&settings, NULL, &link), 0);
    return link;
}
