// The groups of one family that a host is in, and when to tell the network of them: the host's part
// of IGMPv3 (RFC 3376 section 5) and MLDv2 (RFC 3810 section 6), and of their older versions where
// a querier speaks one of those (sections 7.2 and 8.2). What the two families call differently is
// one thing here: a *dialect*.
//
//             join                 robustness times, at random within an interval
//   (none) ---------> member ----> says JOINED      a query, within the time that it grants:
//      ^                | leave                     says IN
//      +--- left <------+        ----> says LEFT likewise
//
// A dialect that is older lasts as long as queriers that speak it do. A query about some sources of
// a group is answered as one about the group: we want all.
// Nobody is silenced by the report of another, as old versions had it: who looks on, a switch,
// wants to hear of all, and a forged report keeps nobody out.
//
// What a stranger's queries cost is bounded: a group is told of at most ten times a second,
// whatever is asked, and there is one pending answer for each.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/prng.h"
#include "base/time.h"
#include "net/addr.h"

enum { NET_GROUPS_MAX = 40 };

enum net_dialect {
    NET_DIALECT_RECORDS, // IGMPv3, MLDv2: many groups in a message
    NET_DIALECT_SECOND,  // IGMPv2, MLDv1: a message for each
    NET_DIALECT_FIRST,   // IGMPv1: ... and none when it is left
    NET_DIALECT_COUNT,
};

enum net_group_word { NET_GROUP_JOINED, NET_GROUP_LEFT, NET_GROUP_IN };

struct net_group {
    struct net_addr addr;
    bool is_used, is_member; // a group that has been left is used until that has been told
    unsigned change_count;   // how often joining or leaving is to be told yet, ...
    instant_ns change_ns;    // ... and when next; INSTANT_NEVER: not at all
    instant_ns answer_ns;    // when to answer a query
    instant_ns quiet_ns;     // no answer before
};

struct net_groups {
    struct net_group at[NET_GROUPS_MAX];
    struct prng rng;
    unsigned robustness;
    duration_ns interval_ns; // between two queries, as the last one said
    enum net_dialect dialect;
    instant_ns until_ns[NET_DIALECT_COUNT]; // queriers of this older dialect are there
    instant_ns answer_ns;                   // when to answer a query about all
    instant_ns due_ns;                      // the first of all that
};

struct net_groups_query {
    enum net_dialect dialect;
    struct net_addr group; // all zero: all
    duration_ns max_resp_ns;
    unsigned robustness;     // 0: not said
    duration_ns interval_ns; // 0: not said
};

struct net_groups_say {
    enum net_group_word word;
    enum net_dialect dialect;
    struct net_addr group;
};

void net_groups_init(struct net_groups *g, uint64_t seed);
// Once for each group, however many of the host's are in it. False: there is no room for it.
bool net_groups_join(struct net_groups *g, const struct net_addr *group, instant_ns now);
void net_groups_leave(struct net_groups *g, const struct net_addr *group, instant_ns now);
void net_groups_on_query(struct net_groups *g, const struct net_groups_query *query,
                         instant_ns now);

instant_ns net_groups_next_deadline(const struct net_groups *g);
// What is to be said now, one group each time. False: nothing.
bool net_groups_on_deadline(struct net_groups *g, instant_ns now, struct net_groups_say *ret);
