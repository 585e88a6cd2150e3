// A link of several, its members: each peer has one, by the address that it is reached at.
//
//   compound_config.c    which peers have which member, said in text and looked up
//   compound.c           the link, and streams: of all members that can take their place, until it
//                        is known which carries them
//
// A stream that is bound is bound on every member that has the address, at the same port; one that
// listens does so on all of them, and what is accepted is of the member that it came by. Who
// connects is carried by the member whose prefix of the peer's address is the longest; the other
// members let go of the place. `facts` of the link are what any member has, those of a stream what
// its member has. Counters of packets have the member's name in front.
#pragma once

#include <stdbool.h>

#include "base/port_link.h"
#include "net/addr.h"

enum {
    LINK_COMPOUND_MEMBER_MAX = 4,
    LINK_COMPOUND_RULE_MAX = 16,
    LINK_COMPOUND_TEXT_MAX = 256,
    LINK_COMPOUND_NAME_MAX = 32,
};

// Peers, and who carries what goes to them.
struct link_compound_rule {
    bool is_rest; // all that have no prefix
    struct net_addr prefix;
    uint8_t prefix_len;
    unsigned member;
};

struct link_compound_member {
    char text[LINK_COMPOUND_TEXT_MAX]; // what is said of it
    char name[LINK_COMPOUND_NAME_MAX]; // "udp", "tap.weft0"
};

struct link_compound_config {
    struct link_compound_rule rules[LINK_COMPOUND_RULE_MAX];
    unsigned rule_count;
    struct link_compound_member members[LINK_COMPOUND_MEMBER_MAX];
    unsigned member_count;
};

#define LINK_COMPOUND_VALUES "PREFIX=LINK;...;*=LINK"

// Reads "10.1.0.0/16=udp;fe80::/10=udp;*=socket": whose address begins so has that link; an address
// without a length is a whole one, and * are all others. What is behind = is not understood here,
// but for its own =: no member is a compound. Equal texts are one member. False: no sense can be
// made of it, or it has too much of something.
bool link_compound_config_parse(const char *text, struct link_compound_config *ret);

// The member that carries what goes to this peer: its place in `members`, -EAFNOSUPPORT, or
// -ENETUNREACH where no rule is for it.
int link_compound_member_for(const struct link_compound_config *config,
                             const struct sockaddr *peer);

// `members`, as many as `config` has, in that order, are the link's from now on; on failure they
// stay the caller's. Returns 0 or a negative errno (-EOPNOTSUPP: a member has no descriptor).
int link_compound_create(const struct link_compound_config *config, struct link *const *members,
                         struct link **ret);
