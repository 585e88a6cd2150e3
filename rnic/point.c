#include "rnic/point.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/sockaddr.h"
#include "rnic/ep/ep.h"
#include "rnic/ep/state.h"
#include "rnic/internal.h"

enum { PORT_TRIES = 8 };

static bool is_taken(const void *ctx, uint32_t qp_num)
{
    const struct rnic *rnic = ctx;
    return rnic->qps[qp_num % rnic->qp_slot_count] != NULL;
}

static bool number_take(const struct rnic *rnic, struct point *point, uint32_t *ret_qp_num)
{
    *ret_qp_num = meeting_point_take(&point->numbers, is_taken, rnic);
    return *ret_qp_num != 0;
}

// A port of both families, or where there is no IPv6 of the one.
static int port_bind(struct rnic_ep *ep)
{
    static const struct sockaddr_in6 any = {.sin6_family = AF_INET6};
    static const struct sockaddr_in any_ipv4 = {.sin_family = AF_INET};
    struct link *link = ep->rnic->shard.link;
    int error = link->ops->bind(link, (const struct sockaddr *)&any, 0, ep, &ep->stream);
    return error == 0
               ? 0
               : link->ops->bind(link, (const struct sockaddr *)&any_ipv4, 0, ep, &ep->stream);
}

static void point_destroy(struct point *point)
{
    list_remove(&point->link);
    ep_doom(point->ep, false, rnic_now(point->ep->rnic));
    free(point);
}

static struct point *point_create(struct rnic *rnic)
{
    struct sockaddr_storage bound;
    struct point *point = calloc(1, sizeof *point);
    if (point == NULL) {
        return NULL;
    }
    point->ep = ep_create(rnic, NULL);
    if (point->ep == NULL) {
        free(point);
        return NULL;
    }
    list_push_head(&rnic->points, &point->link);
    if (port_bind(point->ep) != 0 ||
        point->ep->stream->link->ops->local_addr(point->ep->stream, &bound) != 0) {
        point_destroy(point);
        return NULL;
    }
    point->ep->point = point;
    point->numbers.port = ntohs(sockaddr_port((const struct sockaddr *)&bound));
    return point;
}

// Numbers that differ in their upper octet only would have the same slot: a port may come with all
// of its slots taken. Then another one is looked for, while this one is held.
static struct point *point_take_new(struct rnic *rnic, unsigned tries, uint32_t *ret_qp_num)
{
    struct point *point = tries > 0 ? point_create(rnic) : NULL;
    if (point == NULL || number_take(rnic, point, ret_qp_num)) {
        return point;
    }
    struct point *other = point_take_new(rnic, tries - 1, ret_qp_num);
    point_destroy(point);
    return other;
}

struct point *point_take(struct rnic *rnic, uint32_t *ret_qp_num)
{
    CHECK(shard_is_held(&rnic->shard));
    if (rnic->shard.link == NULL) {
        return NULL; // packets name numbers, no ports
    }
    for (struct list_link *l = rnic->points.next; l != &rnic->points; l = l->next) {
        struct point *point = LIST_ENTRY(l, struct point, link);
        if (number_take(rnic, point, ret_qp_num)) {
            return point;
        }
    }
    return point_take_new(rnic, PORT_TRIES, ret_qp_num);
}

void point_release(struct point *point)
{
    if (point != NULL && meeting_point_release(&point->numbers)) {
        point_destroy(point);
    }
}

int point_listen(struct point *point)
{
    CHECK(shard_is_held(&point->ep->rnic->shard));
    struct rnic_ep *ep = point->ep;
    if (ep->state == EP_LISTENING) {
        return 0;
    }
    int error = ep->stream->link->ops->listen(ep->stream, MEETING_POINT_NUMBERS);
    if (error == 0) {
        conn_listener_init(&ep->listener, MEETING_POINT_NUMBERS, &ep->rnic->gate);
        ep_move(ep, EP_IN_LISTEN);
    }
    return error;
}
