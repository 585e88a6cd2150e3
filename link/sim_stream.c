// What both files of the simulated network need of links and streams: who has an address, and a new
// stream.

#include "link/sim_stream.h"

#include <stdlib.h>

#include "base/list.h"

bool sim_link_has(const struct sim_link *l, struct in_addr addr)
{
    for (unsigned i = 0; i < l->addr_count; i++) {
        if (l->addrs[i].s_addr == addr.s_addr) {
            return true;
        }
    }
    return false;
}

struct sim_link *sim_link_find(struct sim_net *net, struct in_addr addr)
{
    for (struct list_link *i = net->links.next; i != &net->links; i = i->next) {
        struct sim_link *l = LIST_ENTRY(i, struct sim_link, link);
        if (sim_link_has(l, addr)) {
            return l;
        }
    }
    return NULL;
}

struct sim_stream *sim_stream_new(struct sim_link *l, void *owner)
{
    struct sim_stream *s = calloc(1, sizeof *s);
    if (s == NULL) {
        return NULL;
    }
    s->base = (struct link_stream){.link = &l->base, .owner = owner, .facts = l->base.facts};
    s->local.sin_family = AF_INET;
    s->wants_in = true;
    list_init(&s->waiting);
    list_init(&s->waiting_link);
    list_push_tail(&l->streams, &s->link);
    return s;
}
