#include "host/link_kind.h"

#include <string.h>

static bool is_tap(const char *text)
{
    struct device_tap_config config;
    return device_tap_config_parse(text, &config);
}

static bool is_by_peer(const char *text)
{
    struct link_compound_config config;
    bool is_good = link_compound_config_parse(text, &config);
    for (unsigned i = 0; is_good && i < config.member_count; i++) {
        is_good = host_link_is_known(config.members[i].text);
    }
    return is_good;
}

// By name, or by what may follow it.
static const struct {
    const char *name;
    bool (*is_named)(const char *text); // in place of `name`
} kinds[] = {
    [HOST_LINK_SOCKET] = {"socket", NULL},
    [HOST_LINK_UDP] = {"udp", NULL},
    [HOST_LINK_TAP] = {NULL, is_tap},
    [HOST_LINK_BY_PEER] = {NULL, is_by_peer},
};

enum host_link_kind host_link_kind_of(const char *text)
{
    enum host_link_kind kind = 0;
    while (kind < HOST_LINK_KIND_COUNT &&
           !(kinds[kind].name != NULL ? strcmp(kinds[kind].name, text) == 0
                                      : kinds[kind].is_named(text))) {
        kind++;
    }
    return kind;
}

bool host_link_is_known(const char *text)
{
    return host_link_kind_of(text) != HOST_LINK_KIND_COUNT;
}
