#include "rnic/place.h"

#include <stdlib.h>

#include "rnic/ep.h"
#include "rnic/internal.h"

enum { PORT_TRIES = 8 };

static bool index_take(struct rnic *rnic, struct place *place, uint32_t *ret_qp_num)
{
    for (unsigned i = 0; i < PLACE_INDEX_COUNT; i++) {
        uint32_t index = place->index_next++ % PLACE_INDEX_COUNT;
        uint32_t num = (uint32_t)place->port << PLACE_INDEX_BITS | index;
        if (rnic->qps[num % rnic->qp_slot_count] == NULL) {
            *ret_qp_num = num;
            place->qp_count++;
            return true;
        }
    }
    return false;
}

static struct place *place_create(struct rnic *rnic)
{
    const struct sockaddr_in any = {.sin_family = AF_INET};
    struct link *link = rnic->shard.link;
    struct sockaddr_storage bound;
    struct place *place = calloc(1, sizeof *place);
    if (place == NULL) {
        return NULL;
    }
    place->ep = ep_create(rnic, NULL);
    if (place->ep == NULL) {
        free(place);
        return NULL;
    }
    list_push_head(&rnic->places, &place->link);
    if (link->ops->bind(link, (const struct sockaddr *)&any, 0, place->ep, &place->ep->stream) !=
            0 ||
        link->ops->local_addr(place->ep->stream, &bound) != 0) {
        place_release(place);
        return NULL;
    }
    place->ep->place = place;
    place->port = ntohs(((const struct sockaddr_in *)&bound)->sin_port);
    return place;
}

// Numbers that differ in their upper octet only would have the same slot: a port may come with all
// of its slots taken. Then another one is looked for, while this one is held.
static struct place *place_take_new(struct rnic *rnic, unsigned tries, uint32_t *ret_qp_num)
{
    struct place *place = tries > 0 ? place_create(rnic) : NULL;
    if (place == NULL || index_take(rnic, place, ret_qp_num)) {
        return place;
    }
    struct place *other = place_take_new(rnic, tries - 1, ret_qp_num);
    place_release(place);
    return other;
}

struct place *place_take(struct rnic *rnic, uint32_t *ret_qp_num)
{
    for (struct list_link *l = rnic->places.next; l != &rnic->places; l = l->next) {
        struct place *place = LIST_ENTRY(l, struct place, link);
        if (index_take(rnic, place, ret_qp_num)) {
            return place;
        }
    }
    return place_take_new(rnic, PORT_TRIES, ret_qp_num);
}

void place_release(struct place *place)
{
    if (place == NULL || (place->qp_count > 0 && --place->qp_count > 0)) {
        return;
    }
    list_remove(&place->link);
    ep_doom(place->ep, false, rnic_now(place->ep->rnic));
    free(place);
}

int place_listen(struct place *place)
{
    struct rnic_ep *ep = place->ep;
    if (ep->state == EP_LISTENING) {
        return 0;
    }
    int error = ep->stream->link->ops->listen(ep->stream, PLACE_INDEX_COUNT);
    if (error == 0) {
        conn_listener_init(&ep->listener, PLACE_INDEX_COUNT, &ep->rnic->gate);
        ep->state = EP_LISTENING;
    }
    return error;
}
