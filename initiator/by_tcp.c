// Queues over TCP: each a connection of its own, capsules and data as NVMe/TCP has them.

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "format/nvme_tcp_wire.h"
#include "initiator/agent.h"
#include "initiator/tcp/stream.h"

enum { LOOK_EVERY_POLLS = 8 };

// A queue's own.
struct tcp_queue {
    struct pdu_stream stream;
    bool awaits_room; // to send
};

static struct tcp_queue *own_of(const struct initiator_queue *queue)
{
    return queue->own;
}

static struct initiator_queue *queue_at(struct weft_nvme *nvme, unsigned number)
{
    return number == 0 ? &nvme->admin : &nvme->queues[number - 1];
}

/* ---- a queue's life -------------------------------------------------------------------------- */

static int tcp_open(struct weft_nvme *nvme, struct why *ret_why)
{
    nvme->admin_data = calloc(1, ADMIN_ROOM_LEN);
    return nvme->admin_data != NULL ? 0 : initiator_why(ret_why, -ENOMEM, "no memory");
}

static int watch(const struct weft_nvme *nvme, const struct tcp_queue *own, int operation)
{
    struct epoll_event event = {.events = EPOLLIN | (own->awaits_room ? EPOLLOUT : 0),
                                .data.fd = own->stream.fd};
    return epoll_ctl(nvme->epoll_fd, operation, own->stream.fd, &event) == 0 ? 0 : -errno;
}

// That the program wants.
static uint8_t digests_of(const struct weft_nvme *nvme)
{
    return (uint8_t)((nvme->attr.flags & WEFT_NVME_HEADER_DIGEST ? NVME_TCP_IC_HDGST : 0) |
                     (nvme->attr.flags & WEFT_NVME_DATA_DIGEST ? NVME_TCP_IC_DDGST : 0));
}

static int tcp_meet(struct initiator_queue *queue, struct why *ret_why)
{
    struct weft_nvme *nvme = queue->nvme;
    const struct weft_nvme_address *a = &nvme->address;
    struct tcp_queue *own = calloc(1, sizeof *own);
    queue->own = own;
    if (own == NULL || pdu_stream_init(&own->stream, queue->depth, CID_INDEX_BITS) != 0) {
        return initiator_why(ret_why, -ENOMEM, "no memory for %u commands", queue->depth);
    }
    int error = pdu_stream_connect(&own->stream, a->host, a->port, digests_of(nvme),
                                   nvme->attr.timeout_ms, ret_why);
    if (error == 0 && (error = watch(nvme, own, EPOLL_CTL_ADD)) != 0) {
        initiator_why(ret_why, error, "descriptors cannot be waited for: %s", strerror(-error));
    }
    queue->sqes = pdu_stream_sqe(&own->stream, 0);
    queue->sqe_stride = sizeof(struct pdu_command);
    queue->limit = queue->depth;
    return error;
}

static void tcp_end(struct initiator_queue *queue)
{
    if (queue->own != NULL) {
        pdu_stream_close(&own_of(queue)->stream);
    }
}

static void tcp_destroy(struct initiator_queue *queue)
{
    if (queue->own != NULL) {
        pdu_stream_destroy(&own_of(queue)->stream);
        free(queue->own);
    }
}

/* ---- commands -------------------------------------------------------------------------------- */

// Whether the socket is full decides what the queue waits for.
static void room_await(const struct weft_nvme *nvme, struct tcp_queue *own)
{
    bool is_full = !list_is_empty(&own->stream.outs);
    if (is_full != own->awaits_room) {
        own->awaits_room = is_full;
        watch(nvme, own, EPOLL_CTL_MOD);
    }
}

// Admin and fabrics commands may always bring their data along.
static enum pdu_way way_of(const struct initiator_slot *slot, const struct initiator_data *data)
{
    const struct weft_nvme *nvme = slot->queue->nvme;
    bool may_go_along = slot->io == NULL ? data->len <= NVME_TCP_IN_CAPSULE_MAX
                                         : data->len <= nvme->info.in_capsule_len &&
                                               (nvme->attr.flags & WEFT_NVME_NO_IN_CAPSULE) == 0;
    if (data->len == 0) {
        return PDU_NOTHING;
    }
    if (!data->is_to_target) {
        return PDU_READ;
    }
    return may_go_along ? PDU_IN_CAPSULE : PDU_ASKED;
}

static int tcp_send(struct initiator_slot *slot, const struct initiator_data *data)
{
    struct initiator_queue *queue = slot->queue;
    struct tcp_queue *own = own_of(queue);
    enum pdu_way way = way_of(slot, data);
    slot->way = way == PDU_IN_CAPSULE && slot->io != NULL ? DATA_IN_CAPSULE : DATA_NONE;
    int error = pdu_stream_send(&own->stream, (unsigned)(slot - queue->slots), way, data->memory,
                                data->len);
    if (error == 0) {
        slot->awaits_answer = true;
        room_await(queue->nvme, own);
        return 0;
    }
    return -ENOTCONN; // which the next look finds, with the reason
}

static int queue_take(struct initiator_queue *queue, struct initiator_arrival *ret,
                      struct why *ret_why)
{
    struct tcp_queue *own = own_of(queue);
    // An event request has no end that anybody waits for.
    unsigned idle = queue->number == 0 && queue->nvme->access.has_events ? 1 : 0;
    bool is_due = queue->taken > idle || queue->nvme->polls % LOOK_EVERY_POLLS == 0;
    ret->queue = queue;
    if (own == NULL || !is_due) {
        return 0; // at idle ones now and then: whether the target has left
    }
    if (pdu_stream_flush(&own->stream) != 0) {
        return initiator_why(ret_why, -ECONNRESET, "the target ended the connection");
    }
    int result = pdu_stream_take(&own->stream, ret->cqe, ret_why);
    if (result >= 0) {
        room_await(queue->nvme, own);
    }
    return result;
}

// The next answer of any queue; those of I/O first.
static int tcp_take(struct weft_nvme *nvme, struct initiator_arrival *ret, struct why *ret_why)
{
    int result = 0;
    for (unsigned i = nvme->queue_count + 1; i-- > 0 && result == 0;) {
        result = queue_take(queue_at(nvme, i), ret, ret_why);
    }
    return result;
}

static void tcp_settle(struct initiator_slot *slot, bool is_good)
{
}

static int tcp_lend(struct weft_nvme *nvme, void *ptr, size_t len)
{
    return 0;
}

static void tcp_take_back(struct weft_nvme *nvme, void *ptr)
{
}

static void tcp_close(struct weft_nvme *nvme)
{
}

const struct initiator_carrier initiator_by_tcp = {
    .open = tcp_open,
    .meet = tcp_meet,
    .end = tcp_end,
    .destroy = tcp_destroy,
    .close = tcp_close,
    .send = tcp_send,
    .settle = tcp_settle,
    .poll = initiator_poll_by_taking,
    .look_on = initiator_poll_by_taking,
    .take = tcp_take,
    .lend = tcp_lend,
    .take_back = tcp_take_back,
};
