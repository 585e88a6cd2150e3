// The channels of a link: found, made, taken over and left.

#include <errno.h>

#include "base/list.h"
#include "base/port_link.h"
#include "link/local/channel.h"
#include "link/local/door.h"
#include "link/local/memory.h"
#include "link/local/stream.h"
#include "link/socket.h"
#include "link/sys.h"
#include "net/addr.h"

// From now on a wake-up is seen by the link behind.
static int watch(struct local_link *l, struct local_channel *c)
{
    int error = link_socket_adopt(l->forward.inner, c->own_fd, c, &c->bell);
    if (error != 0) {
        local_channel_destroy(c);
        return error;
    }
    list_push_tail(&l->channels, &c->link);
    return 0;
}

void local_channel_unwatch(struct local_channel *c)
{
    if (c->bell != NULL) {
        link_socket_release(c->bell);
        c->bell = NULL;
        c->own_fd = -1;
    }
}

static bool leads_to(const struct local_channel *c, const struct net_flow *flow, pid_t process)
{
    return c->side == LOCAL_ACTIVE && c->process == process &&
           c->to.remote_port == flow->remote_port && c->to.scope == flow->scope &&
           net_addr_equal(&c->to.remote, &flow->remote);
}

int local_channel_open(struct local_link *l, const struct net_flow *flow, pid_t process,
                       struct local_channel **ret)
{
    for (struct list_link *at = l->channels.next; at != &l->channels; at = at->next) {
        struct local_channel *c = LIST_ENTRY(at, struct local_channel, link);
        if (leads_to(c, flow, process)) {
            c->user_count++;
            *ret = c;
            return 0;
        }
    }
    int error = local_channel_create(ret);
    if (error == 0) {
        (*ret)->process = process;
        (*ret)->to = *flow;
        error = watch(l, *ret);
    }
    return error;
}

static int take_over(struct local_link *l, const struct local_offer *offer,
                     struct local_channel **ret)
{
    for (struct list_link *at = l->channels.next; at != &l->channels; at = at->next) {
        struct local_channel *c = LIST_ENTRY(at, struct local_channel, link);
        if (c->side == LOCAL_PASSIVE && c->means.id == offer->means.id &&
            c->process == offer->process) {
            c->user_count++;
            *ret = c;
            return 0;
        }
    }
    int error = local_channel_adopt(&offer->means, ret);
    if (error == 0) {
        (*ret)->process = offer->process;
        error = watch(l, *ret);
    }
    return error;
}

int local_channel_take(struct local_link *l, const struct local_offer *offer,
                       struct local_channel **ret)
{
    int error = take_over(l, offer, ret);
    sys_close(offer->means.memory_fd);
    sys_close(offer->means.socket_fd);
    return error;
}

void local_channel_leave(struct local_channel *c)
{
    if (--c->user_count > 0) {
        return;
    }
    local_channel_unwatch(c);
    list_remove(&c->link);
    local_channel_destroy(c);
}

int local_stream_join(struct local_stream *s, struct local_channel *c)
{
    int error = local_channel_number(c, s, &s->number);
    if (error == 0) {
        s->channel = c;
    }
    return error;
}

void local_stream_part(struct local_stream *s)
{
    if (s->channel != NULL) {
        local_channel_free_number(s->channel, s->number);
        local_channel_leave(s->channel);
        s->channel = NULL;
    }
}
