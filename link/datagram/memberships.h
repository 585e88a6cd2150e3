// Which multicast groups a link is in, each as often as it has joined.
#pragma once

#include <netinet/in.h>
#include <stdbool.h>

enum { DATAGRAM_MEMBERSHIPS_MAX = 32 };

struct datagram_memberships {
    struct datagram_membership {
        struct in6_addr group;
        unsigned count; // 0: free
    } at[DATAGRAM_MEMBERSHIPS_MAX];
};

// 0, or -ENOBUFS: it is in as many as there is room for.
int datagram_memberships_join(struct datagram_memberships *m, const struct in6_addr *group);
void datagram_memberships_leave(struct datagram_memberships *m, const struct in6_addr *group);
bool datagram_memberships_has(const struct datagram_memberships *m, const struct in6_addr *group);
