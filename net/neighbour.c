#include "net/neighbour.h"

#include <stddef.h>

static const duration_ns ask_again_ns = 1 * NS_PER_S;
static const duration_ns reachable_ns = 30 * NS_PER_S;
static const duration_ns failed_ns = 1 * NS_PER_S; // until it may be asked again

void net_neighbours_init(struct net_neighbours *t)
{
    *t = (struct net_neighbours){.due_ns = INSTANT_NEVER};
}

static struct net_neighbour *find(struct net_neighbours *t, const struct net_addr *addr)
{
    if (t->last != NULL && t->last->state != NET_NEIGHBOUR_NONE &&
        net_addr_equal(&t->last->addr, addr)) {
        return t->last;
    }
    for (unsigned i = 0; i < NET_NEIGHBOUR_MAX; i++) {
        struct net_neighbour *n = &t->entry[i];
        if (n->state != NET_NEIGHBOUR_NONE && net_addr_equal(&n->addr, addr)) {
            t->last = n;
            return n;
        }
    }
    return NULL;
}

// An unused entry, or that which was used longest ago.
static struct net_neighbour *add(struct net_neighbours *t, const struct net_addr *addr,
                                 instant_ns now)
{
    struct net_neighbour *victim = &t->entry[0];
    for (unsigned i = 0; i < NET_NEIGHBOUR_MAX && victim->state != NET_NEIGHBOUR_NONE; i++) {
        struct net_neighbour *n = &t->entry[i];
        if (n->state == NET_NEIGHBOUR_NONE || n->used_ns < victim->used_ns) {
            victim = n;
        }
    }
    *victim = (struct net_neighbour){.addr = *addr, .used_ns = now, .due_ns = INSTANT_NEVER};
    return victim;
}

static void due(struct net_neighbours *t, struct net_neighbour *n, instant_ns at_ns)
{
    n->due_ns = at_ns;
    t->due_ns = instant_min(t->due_ns, at_ns);
}

static void ask(struct net_neighbours *t, struct net_neighbour *n, enum net_neighbour_state state,
                instant_ns now)
{
    n->state = state;
    n->ask_count++;
    due(t, n, instant_after(now, ask_again_ns));
}

enum net_neighbour_answer net_neighbour_use(struct net_neighbours *t, const struct net_addr *addr,
                                            instant_ns now, struct eth_addr *ret, bool *ret_ask)
{
    struct net_neighbour *n = find(t, addr);
    *ret_ask = false;
    if (n == NULL) {
        n = add(t, addr, now);
        ask(t, n, NET_NEIGHBOUR_INCOMPLETE, now);
        *ret_ask = true;
        return NET_NEIGHBOUR_ASKED;
    }
    n->used_ns = now;
    switch (n->state) {
    case NET_NEIGHBOUR_INCOMPLETE:
        return NET_NEIGHBOUR_ASKED;
    case NET_NEIGHBOUR_FAILED:
        return NET_NEIGHBOUR_UNREACHABLE;
    case NET_NEIGHBOUR_STALE:
        ask(t, n, NET_NEIGHBOUR_PROBE, now);
        *ret_ask = true;
        break;
    default:
        break;
    }
    *ret = n->eth;
    return NET_NEIGHBOUR_KNOWN;
}

static void become(struct net_neighbours *t, struct net_neighbour *n,
                   enum net_neighbour_state state, instant_ns until_ns)
{
    n->state = state;
    n->ask_count = 0;
    due(t, n, until_ns);
}

bool net_neighbour_learn(struct net_neighbours *t, const struct net_addr *addr,
                         const struct eth_addr *eth, enum net_neighbour_news news, bool may_add,
                         instant_ns now)
{
    struct net_neighbour *n = find(t, addr);
    if (n == NULL && !may_add) {
        return false;
    }
    if (n == NULL) {
        n = add(t, addr, now);
        n->state = NET_NEIGHBOUR_INCOMPLETE;
    }
    bool was_known = n->state != NET_NEIGHBOUR_INCOMPLETE && n->state != NET_NEIGHBOUR_FAILED;
    bool is_same = was_known && eth_addr_equal(&n->eth, eth);
    bool is_asked = n->ask_count > 0;
    if (was_known && !is_same && news == NET_NEIGHBOUR_HINTED) {
        become(t, n, NET_NEIGHBOUR_STALE, INSTANT_NEVER);
        return false;
    }
    n->eth = *eth;
    if (news == NET_NEIGHBOUR_ANSWERED && is_asked) {
        become(t, n, NET_NEIGHBOUR_REACHABLE, instant_after(now, reachable_ns));
    } else if (!is_same) {
        become(t, n, NET_NEIGHBOUR_STALE, INSTANT_NEVER);
    }
    return !was_known;
}

instant_ns net_neighbours_next_deadline(const struct net_neighbours *t)
{
    return t->due_ns;
}

// What comes of a state when its time is up. True: somebody must hear of it.
static bool move_on(struct net_neighbours *t, struct net_neighbour *n, instant_ns now)
{
    switch (n->state) {
    case NET_NEIGHBOUR_INCOMPLETE:
    case NET_NEIGHBOUR_PROBE:
        if (n->ask_count == NET_NEIGHBOUR_ASK_MAX) {
            become(t, n, NET_NEIGHBOUR_FAILED, instant_after(now, failed_ns));
        } else {
            ask(t, n, n->state, now);
        }
        return true;
    case NET_NEIGHBOUR_REACHABLE:
        become(t, n, NET_NEIGHBOUR_STALE, INSTANT_NEVER);
        return false;
    default:
        become(t, n, NET_NEIGHBOUR_NONE, INSTANT_NEVER);
        return false;
    }
}

bool net_neighbours_on_deadline(struct net_neighbours *t, instant_ns now,
                                const struct net_neighbour **ret)
{
    if (now < t->due_ns) {
        return false;
    }
    for (unsigned i = 0; i < NET_NEIGHBOUR_MAX; i++) {
        struct net_neighbour *n = &t->entry[i];
        if (n->state != NET_NEIGHBOUR_NONE && n->due_ns <= now && move_on(t, n, now)) {
            *ret = n;
            return true;
        }
    }
    t->due_ns = INSTANT_NEVER;
    for (unsigned i = 0; i < NET_NEIGHBOUR_MAX; i++) {
        if (t->entry[i].state != NET_NEIGHBOUR_NONE) {
            due(t, &t->entry[i], t->entry[i].due_ns);
        }
    }
    return false;
}
