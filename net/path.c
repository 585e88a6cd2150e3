#include "net/path.h"

#include <string.h>

// The index, or `count`.
static unsigned find(const struct net_paths *t, const struct net_addr *remote)
{
    unsigned i = 0;
    while (i < t->count && !net_addr_equal(&t->path[i].remote, remote)) {
        i++;
    }
    return i;
}

static void forget(struct net_paths *t, unsigned index)
{
    t->count--;
    memmove(t->path + index, t->path + index + 1, (t->count - index) * sizeof t->path[0]);
}

uint16_t net_paths_mss(const struct net_paths *t, const struct net_addr *remote)
{
    unsigned i = find(t, remote);
    return i < t->count ? t->path[i].mss : 0;
}

void net_paths_note(struct net_paths *t, const struct net_addr *remote, uint16_t mss,
                    instant_ns now)
{
    unsigned i = find(t, remote);
    if (i < t->count) {
        mss = t->path[i].mss < mss ? t->path[i].mss : mss; // no message widens a path
        forget(t, i);
    } else if (t->count == NET_PATH_MAX) {
        forget(t, 0);
    }
    t->path[t->count++] = (struct net_path){*remote, mss, now};
}

instant_ns net_paths_next_deadline(const struct net_paths *t)
{
    return t->count == 0 ? INSTANT_NEVER : instant_after(t->path[0].told_at_ns, NET_PATH_AGE_NS);
}

void net_paths_on_deadline(struct net_paths *t, instant_ns now)
{
    while (net_paths_next_deadline(t) <= now) {
        forget(t, 0);
    }
}
