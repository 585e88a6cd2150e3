// Options of ids.

#include <string.h>

#include "cm/cm.h"

// Of an octet or an int, as the option has it; false: the program's buffer has another length.
static bool octet_read(const void *value, size_t len, uint8_t *ret)
{
    if (value == NULL || len != sizeof *ret) {
        return false;
    }
    memcpy(ret, value, sizeof *ret);
    return true;
}

static bool switch_read(const void *value, size_t len, bool *ret)
{
    int number;
    if (value == NULL || len != sizeof number) {
        return false;
    }
    memcpy(&number, value, sizeof number);
    *ret = number != 0;
    return true;
}

static int set_tos(struct cm_id *c, const void *value, size_t len)
{
    if (!octet_read(value, len, &c->options.tos)) {
        return cm_fail(EINVAL);
    }
    c->options.has_tos = true;
    return cm_id_has_address(c) ? cm_result(c->device->way->set_tos(c, c->options.tos)) : 0;
}

// TCP knows no such time; it is kept so that ibv_query_qp shows what was asked for.
static int set_ack_timeout(struct cm_id *c, const void *value, size_t len)
{
    if (!octet_read(value, len, &c->options.ack_timeout) || c->id.qp_type == IBV_QPT_UD) {
        return cm_fail(EINVAL);
    }
    c->options.has_ack_timeout = true;
    if (c->id.qp != NULL) {
        struct ibv_qp_attr attr = {.timeout = c->options.ack_timeout};
        ibv_modify_qp(c->id.qp, &attr, IBV_QP_TIMEOUT);
    }
    return 0;
}

/* ---- switches of the address ----------------------------------------------------------------- */

// As the kernel's rdma_cm has it.
static bool may_switch(enum cm_state state, int name, bool wanted)
{
    if (state == CM_IDLE) {
        return true;
    }
    return name == RDMA_OPTION_ID_AFONLY ? state == CM_BOUND : wanted && state != CM_LISTENING;
}

static int bind_at(struct cm_id *c, const struct sockaddr_storage *local)
{
    const struct cm_way *way = c->device->way;
    int error = way->bind(c, c->device, (const struct sockaddr *)local);
    return error == 0 && c->options.has_tos ? way->set_tos(c, c->options.tos) : error;
}

// It takes effect when the id takes its address: who is bound takes his anew. Somebody else may
// have come in between, and has it then.
static int switch_bound(struct cm_id *c, bool *option, bool wanted)
{
    const struct cm_way *way = c->device->way;
    struct sockaddr_storage local;
    int error = way->local_addr(c, &local);
    if (error != 0) {
        return cm_result(error);
    }
    way->destroy(c);
    *option = wanted;
    error = bind_at(c, &local);
    if (error != 0) {
        *option = !wanted;
        if (bind_at(c, &local) != 0) {
            cm_id_unclaim(c, CM_CALL_BIND, CM_IDLE);
        }
    }
    return cm_result(error);
}

static int set_switch(struct cm_id *c, int name, bool *option, const void *value, size_t len)
{
    bool wanted;
    cm_lock();
    const enum cm_state state = c->state;
    cm_unlock();
    if (!switch_read(value, len, &wanted)) {
        return cm_fail(EINVAL);
    }
    if (wanted == *option) {
        return 0;
    }
    if (!may_switch(state, name, wanted)) {
        return cm_fail(EINVAL);
    }
    if (state == CM_BOUND) {
        return switch_bound(c, option, wanted);
    }
    *option = wanted;
    return 0;
}

static int set_id_option(struct cm_id *c, int name, const void *value, size_t len)
{
    switch (name) {
    case RDMA_OPTION_ID_TOS:
        return set_tos(c, value, len);
    case RDMA_OPTION_ID_REUSEADDR:
        return set_switch(c, name, &c->options.reuse_addr, value, len);
    case RDMA_OPTION_ID_AFONLY:
        return set_switch(c, name, &c->options.v6_only, value, len);
    case RDMA_OPTION_ID_ACK_TIMEOUT:
        return set_ack_timeout(c, value, len);
    default:
        return cm_fail(ENOSYS);
    }
}

int rdma_set_option(struct rdma_cm_id *id, int level, int optname, void *optval, size_t optlen)
{
    struct cm_id *c = cm_id_of(id);
    if (!cm_id_is_alive(c)) {
        return cm_fail(EIO);
    }
    if (level == RDMA_OPTION_ID) {
        return set_id_option(c, optname, optval, optlen);
    }
    // InfiniBand path records mean nothing to an iWARP device, whose routes are IP's.
    if (level == RDMA_OPTION_IB && optname == RDMA_OPTION_IB_PATH &&
        (optlen == 0 || optlen % sizeof(struct ibv_path_data) != 0)) {
        return cm_fail(EINVAL);
    }
    return cm_fail(ENOSYS);
}
