// The multicast groups that a queue pair is attached to.
#include <errno.h>

#include "roce/ud.h"
#include "roce/ud_internal.h"

static bool is_group(const struct in6_addr *address)
{
    const uint8_t ipv4_class_d = 0xe0, ipv4_class_mask = 0xf0;
    bool is_ipv4 = IN6_IS_ADDR_V4MAPPED(address);
    return is_ipv4 ? (address->s6_addr[12] & ipv4_class_mask) == ipv4_class_d
                   : IN6_IS_ADDR_MULTICAST(address);
}

// Where it stands; group_count: nowhere.
static unsigned find(const struct ud *ud, const struct in6_addr *group)
{
    unsigned i = 0;
    while (i < ud->group_count && !IN6_ARE_ADDR_EQUAL(&ud->groups[i].address, group)) {
        i++;
    }
    return i;
}

bool ud_is_attached(const struct ud *ud, const struct in6_addr *group)
{
    return find(ud, group) < ud->group_count;
}

int ud_attach(struct ud *ud, const struct in6_addr *group)
{
    unsigned at = find(ud, group);
    if (!is_group(group)) {
        return -EINVAL;
    }
    if (at == UD_GROUP_MAX) {
        return -ENOMEM;
    }
    if (at == ud->group_count) {
        ud->group_count++;
        ud->groups[at].address = *group;
        ud->groups[at].count = 0;
    }
    ud->groups[at].count++;
    return 0;
}

int ud_detach(struct ud *ud, const struct in6_addr *group)
{
    unsigned at = find(ud, group);
    if (at == ud->group_count) {
        return -EINVAL;
    }
    if (--ud->groups[at].count == 0) {
        ud->groups[at] = ud->groups[--ud->group_count];
    }
    return 0;
}
