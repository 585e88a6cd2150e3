// A queue's connection: address, route, private data both ways; and its end, as librdmacm tells it.

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/poll_ms.h"
#include "base/retries.h"
#include "clock/clock.h"
#include "initiator/agent.h"

enum { MEET_DATA_MAX = 64, READS_MAX = 128 };

// What the target said to a connection request.
struct meeting {
    int status; // of the event
    uint8_t data[MEET_DATA_MAX];
    unsigned data_len;
};

/* ---- refusals -------------------------------------------------------------------------------- */

static const char *const reject_names[] = {
    [NVME_RDMA_INVALID_LENGTH] = "private data of a wrong length",
    [NVME_RDMA_INVALID_RECFMT] = "a record format it does not know",
    [NVME_RDMA_INVALID_QID] = "a queue number it cannot have",
    [NVME_RDMA_INVALID_HSQSIZE] = "a submission queue of a size it cannot have",
    [NVME_RDMA_INVALID_HRQSIZE] = "a receive queue of a size it cannot have",
    [NVME_RDMA_NO_RESOURCES] = "it has no resources left",
    [NVME_RDMA_INVALID_IRD] = "too few reads that it may have outstanding",
    [NVME_RDMA_INVALID_ORD] = "too many reads that it may have outstanding",
};

static int say_rejected(const struct initiator_queue *queue, const struct meeting *meeting,
                        struct why *ret_why)
{
    const struct weft_nvme_address *a = &queue->nvme->address;
    unsigned reason = 0;
    if (meeting->data_len >= NVME_RDMA_REJECT_LEN) {
        reason = get_le16(meeting->data + NVME_RDMA_REJECT_OFF_STATUS);
    }
    if (reason > 0 && reason < sizeof reject_names / sizeof reject_names[0]) {
        return initiator_why(ret_why, -ECONNREFUSED, "%s:%s refuses queue %u: %s", a->host, a->port,
                             queue->number, reject_names[reason]);
    }
    return initiator_why(ret_why, -ECONNREFUSED, "%s:%s refuses the connection of queue %u",
                         a->host, a->port, queue->number);
}

// What an event other than the wanted one means for the queue that waits.
static int say_failed(const struct initiator_queue *queue, enum rdma_cm_event_type type,
                      const struct meeting *meeting, struct why *ret_why)
{
    const struct weft_nvme_address *a = &queue->nvme->address;
    int status = meeting->status < 0 ? -meeting->status : meeting->status;
    switch (type) {
    case RDMA_CM_EVENT_REJECTED:
        return say_rejected(queue, meeting, ret_why);
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
        return initiator_why(ret_why, -EHOSTUNREACH, "no way to %s: %s", a->host, strerror(status));
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_CONNECT_ERROR:
        return initiator_why(ret_why, status == ETIMEDOUT ? -ETIMEDOUT : -ECONNREFUSED,
                             "%s:%s does not answer as an RDMA target: %s", a->host, a->port,
                             strerror(status));
    default:
        return initiator_why(ret_why, -ECONNRESET, "%s:%s ended the connection of queue %u (%s)",
                             a->host, a->port, queue->number, rdma_event_str(type));
    }
}

/* ---- events ---------------------------------------------------------------------------------- */

// The next event within the time. NULL: there is none.
static struct rdma_cm_event *next_event(struct rdma_event_channel *channel, instant_ns until)
{
    for (;;) {
        struct rdma_cm_event *event;
        if (rdma_get_cm_event(channel, &event) == 0) {
            return event;
        }
        instant_ns now = clock_now();
        struct pollfd ready = {.fd = channel->fd, .events = POLLIN};
        int left_ms = poll_ms(now, until);
        if (left_ms == 0 || (poll(&ready, 1, left_ms) < 0 && errno != EINTR)) {
            return NULL;
        }
    }
}

static void meeting_fill(struct meeting *ret, const struct rdma_cm_event *event)
{
    const struct rdma_conn_param *conn = &event->param.conn;
    *ret = (struct meeting){.status = event->status};
    if (conn->private_data != NULL) {
        ret->data_len =
            conn->private_data_len < MEET_DATA_MAX ? conn->private_data_len : MEET_DATA_MAX;
        memcpy(ret->data, conn->private_data, ret->data_len);
    }
}

// Waits for this event of the queue's. Another queue's means that the controller is gone.
static int await(struct initiator_queue *queue, enum rdma_cm_event_type wanted, struct meeting *ret,
                 struct why *ret_why)
{
    struct weft_nvme *nvme = queue->nvme;
    instant_ns until = instant_after(clock_now(), nvme->attr.timeout_ms * NS_PER_MS);
    struct rdma_cm_event *event = next_event(nvme->channel, until);
    if (event == NULL) {
        return initiator_why(ret_why, -ETIMEDOUT, "%s:%s did not answer within %u ms",
                             nvme->address.host, nvme->address.port, nvme->attr.timeout_ms);
    }
    bool is_ours = event->id == queue->id;
    enum rdma_cm_event_type type = event->event;
    meeting_fill(ret, event);
    rdma_ack_cm_event(event);
    if (!is_ours) {
        return initiator_why(ret_why, -ECONNRESET, "%s:%s ended the controller while it connected",
                             nvme->address.host, nvme->address.port);
    }
    return type == wanted ? 0 : say_failed(queue, type, ret, ret_why);
}

bool initiator_on_cm_events(struct weft_nvme *nvme)
{
    struct rdma_cm_event *event;
    bool is_alive = true;
    while (rdma_get_cm_event(nvme->channel, &event) == 0) {
        is_alive &= event->event != RDMA_CM_EVENT_DISCONNECTED &&
                    event->event != RDMA_CM_EVENT_DEVICE_REMOVAL;
        rdma_ack_cm_event(event);
    }
    return is_alive;
}

/* ---- meeting --------------------------------------------------------------------------------- */

// Tries the host's addresses in turn.
static int resolve(struct initiator_queue *queue, struct why *ret_why)
{
    const struct weft_nvme *nvme = queue->nvme;
    const struct weft_nvme_address *a = &nvme->address;
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    struct meeting meeting;
    int error = getaddrinfo(a->host, a->port, &hints, &found);
    if (error != 0) {
        return initiator_why(ret_why, -EADDRNOTAVAIL, "%s:%s: %s", a->host, a->port,
                             gai_strerror(error));
    }
    error = -EHOSTUNREACH;
    for (struct addrinfo *i = found; i != NULL && error != 0; i = i->ai_next) {
        if (rdma_resolve_addr(queue->id, NULL, i->ai_addr, (int)nvme->attr.timeout_ms) != 0) {
            error =
                initiator_why(ret_why, -errno, "no RNIC reaches %s: %s", a->host, strerror(errno));
            continue;
        }
        error = await(queue, RDMA_CM_EVENT_ADDR_RESOLVED, &meeting, ret_why);
    }
    freeaddrinfo(found);
    if (error != 0) {
        return error;
    }
    if (rdma_resolve_route(queue->id, (int)nvme->attr.timeout_ms) != 0) {
        return initiator_why(ret_why, -errno, "no route to %s: %s", a->host, strerror(errno));
    }
    return await(queue, RDMA_CM_EVENT_ROUTE_RESOLVED, &meeting, ret_why);
}

// The target issues all reads; a host none.
static uint8_t reads_granted(const struct initiator_queue *queue)
{
    struct ibv_device_attr attr;
    if (ibv_query_device(queue->id->verbs, &attr) != 0 || attr.max_qp_rd_atom <= 0) {
        return 1;
    }
    return (uint8_t)(attr.max_qp_rd_atom < READS_MAX ? attr.max_qp_rd_atom : READS_MAX);
}

static void request_fill(const struct initiator_queue *queue, uint8_t data[NVME_RDMA_REQUEST_LEN])
{
    memset(data, 0, NVME_RDMA_REQUEST_LEN);
    put_le16(data + NVME_RDMA_REQUEST_OFF_QID, queue->number);
    put_le16(data + NVME_RDMA_REQUEST_OFF_HRQSIZE, (uint16_t)(queue->depth + 1));
    put_le16(data + NVME_RDMA_REQUEST_OFF_HSQSIZE, (uint16_t)queue->depth);
}

// One-shot needs weft at both ends; the answer may close the memory by its header or by Send with
// Invalidate.
static bool may_oneshot(const struct initiator_queue *queue)
{
    const struct weft_nvme *nvme = queue->nvme;
    const bool may_agree = nvme->has_oneshot && queue->number > 0;
    const int agreed = may_agree ? nvme->oneshot.agreed(queue->id->qp) : 0;
    return agreed > 0 && (agreed & WEFT_ONESHOT_ADVERTISE) != 0;
}

int initiator_channel_open(struct weft_nvme *nvme, struct why *ret_why)
{
    nvme->channel = rdma_create_event_channel();
    if (nvme->channel == NULL) {
        return initiator_why(ret_why, -ENODEV, "no RNIC: %s", strerror(errno));
    }
    if (!initiator_set_nonblocking(nvme->channel->fd) ||
        !initiator_watch(nvme, nvme->channel->fd)) {
        return initiator_why(ret_why, -errno, "descriptors cannot be waited for: %s",
                             strerror(errno));
    }
    return 0;
}

int initiator_queue_meet(struct initiator_queue *queue, struct why *ret_why)
{
    struct weft_nvme *nvme = queue->nvme;
    uint8_t data[NVME_RDMA_REQUEST_LEN];
    struct meeting meeting;
    int error = 0;
    if (rdma_create_id(nvme->channel, &queue->id, queue, RDMA_PS_TCP) != 0) {
        queue->id = NULL;
        return initiator_why(ret_why, -errno, "no RNIC: %s", strerror(errno));
    }
    if ((error = resolve(queue, ret_why)) != 0) {
        return error;
    }
    error = initiator_queue_create(queue);
    if (error != 0) {
        return initiator_why(ret_why, error, "no queue pair for %u commands: %s", queue->depth,
                             strerror(-error));
    }
    request_fill(queue, data);
    struct rdma_conn_param param = {.private_data = data,
                                    .private_data_len = sizeof data,
                                    .responder_resources = reads_granted(queue),
                                    .initiator_depth = 0,
                                    .retry_count = RETRIES_MAX,
                                    .rnr_retry_count = RETRIES_MAX};
    if (rdma_connect(queue->id, &param) != 0) {
        return initiator_why(ret_why, -errno, "cannot connect to %s:%s: %s", nvme->address.host,
                             nvme->address.port, strerror(errno));
    }
    error = await(queue, RDMA_CM_EVENT_ESTABLISHED, &meeting, ret_why);
    if (error != 0) {
        return error;
    }
    if (meeting.data_len < NVME_RDMA_ACCEPT_LEN ||
        get_le16(meeting.data + NVME_RDMA_ACCEPT_OFF_RECFMT) != 0) {
        return initiator_why(ret_why, -EPROTO, "%s:%s accepts, but not as an NVMe target",
                             nvme->address.host, nvme->address.port);
    }
    unsigned room = get_le16(meeting.data + NVME_RDMA_ACCEPT_OFF_CRQSIZE);
    queue->limit = room > 0 && room < queue->depth ? room : queue->depth;
    queue->is_oneshot = may_oneshot(queue);
    return 0;
}
