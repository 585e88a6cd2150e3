#include "draw/registry_roce.h"

#include "draw/frame.h"
#include "draw/registry_table.h"
#include "wire/bth.h"
#include "wire/ibcm.h"
#include "wire/psn.h"
#include "wire/roce.h"
#include "wire/roce_verdict.h"

enum {
    STRANGERS_MAX = 64, // latest connections that are looked at for the other half
    PSN_NEAR = 1 << 16, // an answer is so near to its request
};

static struct registry_key key_of(const struct frame *f, enum registry_key_kind kind, uint32_t low,
                                  uint32_t high)
{
    return (struct registry_key){
        .src = f->src.addr, .dst = f->dst.addr, .kind = kind, .low = low, .high = high};
}

static struct registry_key turned(struct registry_key key)
{
    struct in6_addr src = key.src;
    key.src = key.dst;
    key.dst = src;
    return key;
}

static bool begin(struct registry *r, const struct frame *f, enum registry_wire wire,
                  struct registry_sighting *ret)
{
    if (!registry_table_begin(r, f, ret)) {
        return false;
    }
    struct registry_connection *c = &r->connection[ret->index];
    c->wire = wire;
    c->number = ++r->number_count;
    return true;
}

/* ---- the connection manager's messages ------------------------------------------------------- */

static bool on_req(struct registry *r, const struct frame *f, const struct ibcm_req *req,
                   struct registry_sighting *ret)
{
    struct registry_key id = key_of(f, REGISTRY_KEY_CM, req->local_id, 0);
    if (registry_table_find(r, &id, ret) && r->connection[ret->index].qp[0] == req->qp_num) {
        return true;
    }
    bool is_uc = req->transport == IBCM_TRANSPORT_UC;
    if (!begin(r, f, is_uc ? REGISTRY_UC : REGISTRY_RC, ret)) {
        return false;
    }
    struct registry_connection *c = &r->connection[ret->index];
    c->has_start = true;
    c->qp[0] = req->qp_num;
    c->cm_id[0] = req->local_id;
    struct registry_key back = turned(key_of(f, REGISTRY_KEY_QP, req->qp_num, 0));
    return registry_table_put(r, &id, ret->index, 0) && registry_table_put(r, &back, ret->index, 1);
}

// The connection of which either end is named as a message names them.
static bool by_ids(struct registry *r, const struct frame *f, uint32_t local_id, uint32_t remote_id,
                   struct registry_sighting *ret)
{
    struct registry_key own = key_of(f, REGISTRY_KEY_CM, local_id, 0);
    if (local_id != 0 && registry_table_find(r, &own, ret)) {
        return true;
    }
    struct registry_key peer = turned(key_of(f, REGISTRY_KEY_CM, remote_id, 0));
    if (remote_id == 0 || !registry_table_find(r, &peer, ret)) {
        return false;
    }
    ret->side = 1 - ret->side;
    return true;
}

static bool on_rep(struct registry *r, const struct frame *f, const struct ibcm_rep *rep,
                   struct registry_sighting *ret)
{
    if (!by_ids(r, f, 0, rep->remote_id, ret)) {
        return false;
    }
    struct registry_connection *c = &r->connection[ret->index];
    c->qp[ret->side] = rep->qp_num;
    c->cm_id[ret->side] = rep->local_id;
    struct registry_key id = key_of(f, REGISTRY_KEY_CM, rep->local_id, 0);
    struct registry_key back = turned(key_of(f, REGISTRY_KEY_QP, rep->qp_num, 0));
    return registry_table_put(r, &id, ret->index, ret->side) &&
           registry_table_put(r, &back, ret->index, 1 - ret->side);
}

static bool on_message(struct registry *r, const struct frame *f, struct span mad,
                       struct registry_sighting *ret)
{
    struct ibcm_message m;
    if (ibcm_message_parse(mad, &m) != IBCM_PARSE_OK) {
        return false;
    }
    switch (m.kind) {
    case IBCM_REQ:
        return on_req(r, f, &m.req, ret);
    case IBCM_REP:
        return on_rep(r, f, &m.rep, ret);
    case IBCM_RTU:
    case IBCM_DREP:
        return by_ids(r, f, m.ids.local_id, m.ids.remote_id, ret);
    case IBCM_DREQ:
        return by_ids(r, f, m.dreq.local_id, m.dreq.remote_id, ret);
    case IBCM_REJ:
        return by_ids(r, f, m.rej.local_id, m.rej.remote_id, ret);
    case IBCM_MRA:
        return by_ids(r, f, m.mra.local_id, m.mra.remote_id, ret);
    default:
        return false; // asks for no connection
    }
}

/* ---- queue pairs ----------------------------------------------------------------------------- */

static enum registry_wire wire_of(const struct roce_packet *p)
{
    switch (p->bth.opcode & ROCE_TRANSPORT_MASK) {
    case ROCE_UC:
        return REGISTRY_UC;
    case ROCE_UD:
        return REGISTRY_UD;
    default:
        return REGISTRY_RC;
    }
}

// Whether the packet, whose key nobody has, can be the connection's, sent by `side`.
static bool is_other_half(const struct registry_connection *c, unsigned side, const struct frame *f,
                          const struct roce_packet *p)
{
    if (c->qp[1 - side] != 0 || c->wire != wire_of(p) || c->has_start ||
        !IN6_ARE_ADDR_EQUAL(&c->end[side].addr, &f->src.addr) ||
        !IN6_ARE_ADDR_EQUAL(&c->end[1 - side].addr, &f->dst.addr)) {
        return false;
    }
    if (!p->facts->is_response) {
        return true;
    }
    int32_t behind = psn_diff(c->psn[1 - side], p->bth.psn);
    return c->has_psn[1 - side] && behind > -PSN_NEAR && behind < PSN_NEAR;
}

static bool find_other_half(const struct registry *r, const struct frame *f,
                            const struct roce_packet *p, struct registry_sighting *ret)
{
    uint32_t looked = 0;
    for (uint32_t i = r->connection_count; i-- > 0 && looked < STRANGERS_MAX; looked++) {
        for (unsigned side = 0; side < 2; side++) {
            if (is_other_half(&r->connection[i], side, f, p)) {
                *ret = (struct registry_sighting){.index = i, .side = side};
                return true;
            }
        }
    }
    return false;
}

static bool by_queue_pair(struct registry *r, const struct frame *f, const struct roce_packet *p,
                          struct registry_sighting *ret)
{
    struct registry_key key = key_of(f, REGISTRY_KEY_QP, p->bth.dest_qp, 0);
    bool is_known = registry_table_find(r, &key, ret);
    if (!is_known && p->bth.opcode == ROCE_CNP) {
        return false;
    }
    if (!is_known && !find_other_half(r, f, p, ret) && !begin(r, f, wire_of(p), ret)) {
        return false;
    }
    struct registry_connection *c = &r->connection[ret->index];
    if (!is_known) {
        c->qp[1 - ret->side] = p->bth.dest_qp;
        if (!registry_table_put(r, &key, ret->index, ret->side)) {
            return false;
        }
    }
    if (!p->facts->is_response) {
        c->psn[ret->side] = p->bth.psn;
        c->has_psn[ret->side] = true;
    }
    return true;
}

static bool by_both(struct registry *r, const struct frame *f, const struct roce_packet *p,
                    struct registry_sighting *ret)
{
    struct registry_key key = key_of(f, REGISTRY_KEY_UD, p->deth.src_qp, p->bth.dest_qp);
    if (registry_table_find(r, &key, ret)) {
        return true;
    }
    if (!begin(r, f, REGISTRY_UD, ret)) {
        return false;
    }
    struct registry_connection *c = &r->connection[ret->index];
    c->qp[0] = p->deth.src_qp;
    c->qp[1] = p->bth.dest_qp;
    struct registry_key back = turned(key_of(f, REGISTRY_KEY_UD, p->bth.dest_qp, p->deth.src_qp));
    return registry_table_put(r, &key, ret->index, 0) &&
           registry_table_put(r, &back, ret->index, 1);
}

bool registry_roce_find(struct registry *r, const struct frame *f, struct registry_sighting *ret)
{
    struct roce_packet p;
    if (f->kind != FRAME_ROCE || roce_packet_parse(f->payload, &p) != ROCE_PARSE_OK) {
        return false;
    }
    if (p.bth.opcode == (ROCE_UD | ROCE_SEND_ONLY) && p.bth.dest_qp == BTH_QP_GSI) {
        return on_message(r, f, p.payload, ret);
    }
    if ((p.bth.opcode & ROCE_TRANSPORT_MASK) == ROCE_UD) {
        return by_both(r, f, &p, ret);
    }
    return by_queue_pair(r, f, &p, ret);
}
