// Who has which address on the local network: what ARP (RFC 826) and neighbour discovery (RFC 4861
// section 7) found out. A table of fixed size; when it is full, whoever was used longest ago gives
// way.
//
//            use                  answer              30 s
//   (none) -------> INCOMPLETE -------------> REACHABLE ----> STALE
//                    | asks 3 times, 1 s apart   ^              | use
//                    v                           | answer       v
//                  FAILED <-------------------------------- PROBE  asks likewise, while the
//                    | 1 s later: (none)                           old answer is used
//
// Who asks and answers on the wire is the interface (net/iface.h).
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"
#include "net/addr.h"
#include "wire/eth.h"

enum { NET_NEIGHBOUR_MAX = 256, NET_NEIGHBOUR_ASK_MAX = 3 };

enum net_neighbour_state {
    NET_NEIGHBOUR_NONE,
    NET_NEIGHBOUR_INCOMPLETE,
    NET_NEIGHBOUR_REACHABLE,
    NET_NEIGHBOUR_STALE,
    NET_NEIGHBOUR_PROBE,
    NET_NEIGHBOUR_FAILED,
    NET_NEIGHBOUR_STATE_COUNT,
};

struct net_neighbour {
    struct net_addr addr;
    struct eth_addr eth; // not known in INCOMPLETE and FAILED
    enum net_neighbour_state state;
    unsigned ask_count; // questions so far
    instant_ns due_ns;  // when the state changes, or the next question is due
    instant_ns used_ns;
};

struct net_neighbours {
    struct net_neighbour entry[NET_NEIGHBOUR_MAX];
    struct net_neighbour *last; // the one found last
    instant_ns due_ns;          // not later than the earliest of all
};

enum net_neighbour_answer {
    NET_NEIGHBOUR_KNOWN,
    NET_NEIGHBOUR_ASKED,       // not known yet: it is being asked
    NET_NEIGHBOUR_UNREACHABLE, // it did not answer
};

void net_neighbours_init(struct net_neighbours *t);

// Where frames to `addr` go. `*ret_ask`: a question is to be sent now.
enum net_neighbour_answer net_neighbour_use(struct net_neighbours *t, const struct net_addr *addr,
                                            instant_ns now, struct eth_addr *ret, bool *ret_ask);

enum net_neighbour_news {
    NET_NEIGHBOUR_ANSWERED, // to a question of ours: it is reachable
    NET_NEIGHBOUR_SAID,     // of its own accord, or in a question to us
    NET_NEIGHBOUR_HINTED,   // likewise, not to replace what was known (RFC 4861: no override flag)
};
// `addr` is at `eth`. `may_add`: also if it is not in the table. True: who waited for it may go on.
bool net_neighbour_learn(struct net_neighbours *t, const struct net_addr *addr,
                         const struct eth_addr *eth, enum net_neighbour_news news, bool may_add,
                         instant_ns now);

instant_ns net_neighbours_next_deadline(const struct net_neighbours *t);
// One entry that is due: true if it is to be asked again or has failed (look at its state). False:
// no more is due.
bool net_neighbours_on_deadline(struct net_neighbours *t, instant_ns now,
                                const struct net_neighbour **ret);
