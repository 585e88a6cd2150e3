// What the events of its channel make of a socket that is being connected.

#include "rsocket/rsocket.h"

void rs_failed(struct rs *rs, int error)
{
    rs_move(rs, RS_ON_FAILURE);
    rs->error = error;
    rs->is_failure_told = false;
}

static void on_established(struct rs *rs, const struct rdma_conn_param *param)
{
    int error = 0;
    if (rs->state == RS_CONNECTING) {
        error = rs_hello_parse(param->private_data, param->private_data_len, &rs->peer);
    }
    if (error == 0) {
        rs_stream_start(rs, &rs->peer);
    } else {
        rs_failed(rs, error);
    }
}

static void on_event(struct rs *rs, const struct rdma_cm_event *event)
{
    switch (event->event) {
    case RDMA_CM_EVENT_ESTABLISHED:
        on_established(rs, &event->param.conn);
        break;
    case RDMA_CM_EVENT_REJECTED:
        rs_failed(rs, ECONNREFUSED);
        break;
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_CONNECT_ERROR:
        rs_failed(rs, event->status < 0 ? -event->status : ECONNABORTED);
        break;
    case RDMA_CM_EVENT_DISCONNECTED:
        rs_failed(rs, ECONNRESET);
        break;
    default:
        break; // of resolving, which was over at once
    }
}

bool rs_startup_progress(struct rs *rs)
{
    struct rdma_cm_event *event;
    bool moved = false;
    while (rs_is_starting(rs) && rdma_get_cm_event(rs->channel, &event) == 0) {
        on_event(rs, event);
        rdma_ack_cm_event(event);
        moved = true;
    }
    return moved;
}
