#include "link/datagram/memberships.h"

#include <errno.h>
#include <stddef.h>

static struct datagram_membership *find(const struct datagram_memberships *m,
                                        const struct in6_addr *group)
{
    for (unsigned i = 0; i < DATAGRAM_MEMBERSHIPS_MAX; i++) {
        const struct datagram_membership *one = &m->at[i];
        if (one->count > 0 && IN6_ARE_ADDR_EQUAL(&one->group, group)) {
            return (struct datagram_membership *)one;
        }
    }
    return NULL;
}

static struct datagram_membership *find_free(struct datagram_memberships *m)
{
    for (unsigned i = 0; i < DATAGRAM_MEMBERSHIPS_MAX; i++) {
        if (m->at[i].count == 0) {
            return &m->at[i];
        }
    }
    return NULL;
}

int datagram_memberships_join(struct datagram_memberships *m, const struct in6_addr *group)
{
    struct datagram_membership *one = find(m, group);
    one = one != NULL ? one : find_free(m);
    if (one == NULL) {
        return -ENOBUFS;
    }
    one->group = *group;
    one->count++;
    return 0;
}

void datagram_memberships_leave(struct datagram_memberships *m, const struct in6_addr *group)
{
    struct datagram_membership *one = find(m, group);
    if (one != NULL) {
        one->count--;
    }
}

bool datagram_memberships_has(const struct datagram_memberships *m, const struct in6_addr *group)
{
    return find(m, group) != NULL;
}
