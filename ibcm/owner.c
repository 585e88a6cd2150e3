// Whose a message is, where processes share an address and so queue pair 1. Who reads it first says
// so before anybody else has it: two that look at different times would find different listeners.

#include "ibcm/internal.h"

// The id by which the message names the receiver's connection; 0: it does not.
static uint32_t id_named(const struct ibcm_message *m)
{
    switch (m->kind) {
    case IBCM_MRA:
        return m->mra.remote_id;
    case IBCM_REJ:
        return m->rej.remote_id;
    case IBCM_REP:
        return m->rep.remote_id;
    case IBCM_RTU:
    case IBCM_DREP:
        return m->ids.remote_id;
    case IBCM_DREQ:
        return m->dreq.remote_id;
    case IBCM_SIDR_REP:
        return m->sidr_rep.id;
    default:
        return 0;
    }
}

// Nobody listens anywhere: who has read it refuses it.
static int owner_of_request(const struct ibcm *ibcm, const struct ibcm_ends *ends,
                            uint64_t service_id, uint32_t id, bool is_datagram)
{
    const struct ibcm_others *others = &ibcm->config.others;
    const bool is_here = ibcm_conn_by_remote(ibcm, id, &ends->remote, is_datagram) != NULL ||
                         ibcm_listener_find(ibcm, service_id, &ends->local) != NULL;
    const bool is_there =
        !is_here && others->serve != NULL && others->serve(others->ctx, service_id, &ends->local);
    return is_there ? IBCM_OWNER_ALL : IBCM_OWNER_HERE;
}

int ibcm_owner(const struct ibcm *ibcm, const struct ibcm_letter *in)
{
    const struct ibcm_message *m = in->m;
    if (m->kind == IBCM_REQ) {
        return owner_of_request(ibcm, in->ends, m->req.service_id, m->req.local_id, false);
    }
    if (m->kind == IBCM_SIDR_REQ) {
        return owner_of_request(ibcm, in->ends, m->sidr_req.service_id, m->sidr_req.id, true);
    }
    const uint32_t id = id_named(m);
    if (id != 0) {
        const unsigned slot = id >> IBCM_ID_SLOT_SHIFT;
        return slot == ibcm->config.id_slot ? IBCM_OWNER_HERE : (int)slot;
    }
    // The peer has given up before it heard of an id.
    const bool is_known =
        m->kind == IBCM_REJ && ibcm_conn_by_remote(ibcm, m->rej.local_id, &in->ends->remote, false);
    return is_known ? IBCM_OWNER_HERE : IBCM_OWNER_ALL;
}
