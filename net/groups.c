#include "net/groups.h"

#include <stddef.h>

enum { ROBUSTNESS_DEFAULT = 2 };                             // RFC 3376 section 8.1
static const duration_ns query_interval_ns = 125 * NS_PER_S; // 8.2
static const duration_ns older_for_max_ns = 3600 * NS_PER_S; // whatever a stranger says
static const duration_ns answers_apart_ns = 100 * NS_PER_MS;

// Between two reports that nobody asked for (RFC 3376 section 8.11, RFC 2236 section 8.10).
static const duration_ns repeat_ns[NET_DIALECT_COUNT] = {
    [NET_DIALECT_RECORDS] = 1 * NS_PER_S,
    [NET_DIALECT_SECOND] = 10 * NS_PER_S,
    [NET_DIALECT_FIRST] = 10 * NS_PER_S,
};

void net_groups_init(struct net_groups *g, uint64_t seed)
{
    *g = (struct net_groups){.robustness = ROBUSTNESS_DEFAULT,
                             .interval_ns = query_interval_ns,
                             .answer_ns = INSTANT_NEVER,
                             .due_ns = INSTANT_NEVER};
    prng_init(&g->rng, seed);
}

static struct net_group *find(const struct net_groups *g, const struct net_addr *addr)
{
    for (unsigned i = 0; i < NET_GROUPS_MAX; i++) {
        if (g->at[i].is_used && net_addr_equal(&g->at[i].addr, addr)) {
            return (struct net_group *)&g->at[i];
        }
    }
    return NULL;
}

// Within (0, max].
static instant_ns some_time_within(struct net_groups *g, duration_ns max_ns, instant_ns now)
{
    const uint32_t max_us =
        (uint32_t)(max_ns / NS_PER_US < UINT32_MAX ? max_ns / NS_PER_US : UINT32_MAX);
    return max_us == 0 ? now : instant_after(now, (1 + prng_below(&g->rng, max_us)) * NS_PER_US);
}

// Asked in each turn, and mostly there is nothing.
static void due_note(struct net_groups *g)
{
    g->due_ns = g->answer_ns;
    for (unsigned i = 0; i < NET_GROUPS_MAX; i++) {
        if (g->at[i].is_used) {
            g->due_ns = instant_min(g->due_ns, instant_min(g->at[i].change_ns, g->at[i].answer_ns));
        }
    }
}

/* ---- dialects -------------------------------------------------------------------------------- */

// Another than before: what is pending is no more, and what has been left is forgotten
// (RFC 3376 section 7.2.1).
static void dialect_look(struct net_groups *g, instant_ns now)
{
    const enum net_dialect dialect = now < g->until_ns[NET_DIALECT_FIRST]    ? NET_DIALECT_FIRST
                                     : now < g->until_ns[NET_DIALECT_SECOND] ? NET_DIALECT_SECOND
                                                                             : NET_DIALECT_RECORDS;
    if (dialect == g->dialect) {
        return;
    }
    g->dialect = dialect;
    g->answer_ns = INSTANT_NEVER;
    for (unsigned i = 0; i < NET_GROUPS_MAX; i++) {
        struct net_group *one = &g->at[i];
        one->is_used = one->is_member;
        one->change_count = 0;
        one->change_ns = one->answer_ns = INSTANT_NEVER;
    }
}

// Queriers of a dialect are known by their queries about all.
static void dialect_hear(struct net_groups *g, const struct net_groups_query *q, instant_ns now)
{
    const duration_ns for_ns = g->robustness * g->interval_ns + q->max_resp_ns;
    if (q->dialect != NET_DIALECT_RECORDS && net_addr_is_any(&q->group)) {
        g->until_ns[q->dialect] =
            instant_after(now, for_ns < older_for_max_ns ? for_ns : older_for_max_ns);
    }
}

/* ---- joining and leaving --------------------------------------------------------------------- */

// Hosts are in the group of all without a word, and routers are not asked about what stays within
// a host (RFC 3376 section 5, RFC 3810 section 6).
static bool is_told_of(const struct net_addr *group)
{
    enum { SCOPE_MASK = 15, SCOPE_OF_INTERFACE = 1 };
    return !net_addr_is_all_hosts(group) &&
           (net_addr_is_ipv4(group) ? net_addr_ipv4(group)[0] >> 4 == 14
                                    : (group->octets[1] & SCOPE_MASK) > SCOPE_OF_INTERFACE);
}

static struct net_group *find_place(struct net_groups *g, const struct net_addr *group)
{
    struct net_group *place = find(g, group);
    for (unsigned i = 0; i < NET_GROUPS_MAX && place == NULL; i++) {
        place = g->at[i].is_used ? NULL : &g->at[i];
    }
    for (unsigned i = 0; i < NET_GROUPS_MAX && place == NULL; i++) {
        place = g->at[i].is_member ? NULL : &g->at[i];
    }
    return place;
}

static void change(struct net_group *one, unsigned count, instant_ns now)
{
    one->is_used = one->is_member || count > 0;
    one->change_count = count;
    one->change_ns = count > 0 ? now : INSTANT_NEVER;
    one->answer_ns = INSTANT_NEVER;
}

bool net_groups_join(struct net_groups *g, const struct net_addr *group, instant_ns now)
{
    dialect_look(g, now);
    struct net_group *one = find_place(g, group);
    if (one == NULL) {
        return false;
    }
    if (!one->is_used || !one->is_member) {
        *one = (struct net_group){.addr = *group, .is_member = true};
        change(one, is_told_of(group) ? g->robustness : 0, now);
    }
    due_note(g);
    return true;
}

void net_groups_leave(struct net_groups *g, const struct net_addr *group, instant_ns now)
{
    dialect_look(g, now);
    struct net_group *one = find(g, group);
    if (one != NULL && one->is_member) {
        const unsigned count[NET_DIALECT_COUNT] = {
            [NET_DIALECT_RECORDS] = g->robustness,
            [NET_DIALECT_SECOND] = 1, // RFC 2236 section 3
            [NET_DIALECT_FIRST] = 0,
        };
        one->is_member = false;
        change(one, is_told_of(group) ? count[g->dialect] : 0, now);
    }
    due_note(g);
}

/* ---- queries --------------------------------------------------------------------------------- */

static void answer_group(struct net_groups *g, struct net_group *one, instant_ns at_ns)
{
    if (one->is_used && one->is_member && is_told_of(&one->addr)) {
        const instant_ns then_ns = at_ns > one->quiet_ns ? at_ns : one->quiet_ns;
        one->answer_ns = instant_min(one->answer_ns, then_ns);
    }
}

// In the newest dialect all groups answer at once, else each in a time of its own.
static void answer_all(struct net_groups *g, const struct net_groups_query *q, instant_ns now)
{
    if (g->dialect == NET_DIALECT_RECORDS) {
        g->answer_ns = instant_min(g->answer_ns, some_time_within(g, q->max_resp_ns, now));
        return;
    }
    for (unsigned i = 0; i < NET_GROUPS_MAX; i++) {
        answer_group(g, &g->at[i], some_time_within(g, q->max_resp_ns, now));
    }
}

void net_groups_on_query(struct net_groups *g, const struct net_groups_query *q, instant_ns now)
{
    if (q->dialect == NET_DIALECT_RECORDS) {
        g->robustness = q->robustness != 0 ? q->robustness : ROBUSTNESS_DEFAULT;
        g->interval_ns = q->interval_ns != 0 ? q->interval_ns : query_interval_ns;
    }
    dialect_hear(g, q, now);
    dialect_look(g, now);
    struct net_group *one = find(g, &q->group);
    if (net_addr_is_any(&q->group)) {
        answer_all(g, q, now);
    } else if (one != NULL) {
        const instant_ns at_ns = some_time_within(g, q->max_resp_ns, now);
        if (g->answer_ns > at_ns) { // else that is all the answer (RFC 3376 section 5.2)
            answer_group(g, one, at_ns);
        }
    }
    due_note(g);
}

/* ---- time ------------------------------------------------------------------------------------ */

instant_ns net_groups_next_deadline(const struct net_groups *g)
{
    return g->due_ns;
}

static void answer_falls_due(struct net_groups *g, instant_ns now)
{
    if (g->answer_ns <= now) {
        g->answer_ns = INSTANT_NEVER;
        for (unsigned i = 0; i < NET_GROUPS_MAX; i++) {
            answer_group(g, &g->at[i], now);
        }
    }
}

static bool is_due(const struct net_group *one, instant_ns now)
{
    return one->is_used && (one->change_ns <= now || one->answer_ns <= now);
}

// What is said of a change says that the host is in the group, too.
static enum net_group_word say(struct net_groups *g, struct net_group *one, instant_ns now)
{
    const bool is_change = one->change_ns <= now;
    one->answer_ns = INSTANT_NEVER;
    one->quiet_ns = instant_after(now, answers_apart_ns);
    if (is_change) {
        one->change_count--;
        one->change_ns = one->change_count == 0 ? INSTANT_NEVER
                                                : some_time_within(g, repeat_ns[g->dialect], now);
        one->is_used = one->is_member || one->change_count > 0;
    }
    return !is_change ? NET_GROUP_IN : one->is_member ? NET_GROUP_JOINED : NET_GROUP_LEFT;
}

bool net_groups_on_deadline(struct net_groups *g, instant_ns now, struct net_groups_say *ret)
{
    dialect_look(g, now);
    answer_falls_due(g, now);
    for (unsigned i = 0; i < NET_GROUPS_MAX; i++) {
        struct net_group *one = &g->at[i];
        if (is_due(one, now)) {
            *ret = (struct net_groups_say){.group = one->addr, .dialect = g->dialect};
            ret->word = say(g, one, now);
            due_note(g);
            return true;
        }
    }
    due_note(g);
    return false;
}
