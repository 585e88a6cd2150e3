#include "wire/icrc_known.h"

static struct icrc_known_entry *place_of(struct icrc_known *k, const struct icrc_outer *o)
{
    return &k->entries[(o->udp_len / 4 ^ o->src_port) % ICRC_KNOWN_COUNT];
}

static bool is_of(const struct icrc_known_entry *e, const struct icrc_outer *o)
{
    return e->udp_len == o->udp_len && e->src_port == o->src_port && e->dst_port == o->dst_port &&
           e->id == o->id && e->fragment == o->fragment && IN6_ARE_ADDR_EQUAL(&e->src, o->src) &&
           IN6_ARE_ADDR_EQUAL(&e->dst, o->dst);
}

uint32_t icrc_known_begin(struct icrc_known *k, const struct icrc_outer *outer)
{
    struct icrc_known_entry *e = place_of(k, outer);
    if (!is_of(e, outer)) {
        *e = (struct icrc_known_entry){
            .src = *outer->src,
            .dst = *outer->dst,
            .id = outer->id,
            .fragment = outer->fragment,
            .src_port = outer->src_port,
            .dst_port = outer->dst_port,
            .udp_len = outer->udp_len,
            .state = icrc_begin(outer),
        };
    }
    return e->state;
}
