// NVMe over RDMA: the listeners, what happens to connections, and the TTS as the UMA sees it.

#include "node/tts/nvme_rdma.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/bytes.h"
#include "base/deadlines.h"
#include "base/list.h"
#include "base/time.h"
#include "base/why.h"
#include "listen/address.h"
#include "node/interface/uma_tts.h"
#include "node/nvme/pages.h"
#include "node/nvme/wire.h"
#include "node/tts/nvme_rdma_queue.h"
#include "text/address.h"
#include "text/endpoint.h"

enum { BACKLOG = 128, URI_MAX = 384 };

static const char default_port[] = "4420";

/* ---- connection requests --------------------------------------------------------------------- */

// What stands in the private data, or why that cannot be had. InfiniBand pads them.
static enum nvme_rdma_reject_status wish_parse(const struct rdma_conn_param *param,
                                               struct nvme_rdma_wish *ret)
{
    const uint8_t *at = param->private_data;
    if (at == NULL || param->private_data_len < NVME_RDMA_REQUEST_LEN) {
        return NVME_RDMA_INVALID_LENGTH;
    }
    unsigned hsqsize = get_le16(at + NVME_RDMA_REQUEST_OFF_HSQSIZE);
    ret->qid = get_le16(at + NVME_RDMA_REQUEST_OFF_QID);
    ret->read_count = param->initiator_depth;
    ret->command_count = (uint16_t)(hsqsize + 1);
    unsigned most = ret->qid == 0 ? NVME_ADMIN_DEPTH_MAX : NVME_QUEUE_DEPTH_MAX;
    if (get_le16(at + NVME_RDMA_REQUEST_OFF_RECFMT) != 0) {
        return NVME_RDMA_INVALID_RECFMT;
    }
    if (ret->qid > NVME_IO_QUEUE_COUNT_MAX) {
        return NVME_RDMA_INVALID_QID;
    }
    if (hsqsize == 0 || hsqsize >= most) {
        return NVME_RDMA_INVALID_HSQSIZE;
    }
    if (get_le16(at + NVME_RDMA_REQUEST_OFF_HRQSIZE) == 0) {
        return NVME_RDMA_INVALID_HRQSIZE;
    }
    return ret->read_count == 0 ? NVME_RDMA_INVALID_IRD : 0;
}

static const char *const reject_names[] = {
    [NVME_RDMA_INVALID_LENGTH] = "its private data are too short",
    [NVME_RDMA_INVALID_RECFMT] = "the format of its private data is unknown (RECFMT)",
    [NVME_RDMA_INVALID_QID] = "it asks for a queue with too high a number (QID)",
    [NVME_RDMA_INVALID_HSQSIZE] = "it asks for too long or too short a queue (HSQSIZE)",
    [NVME_RDMA_INVALID_HRQSIZE] = "it has no room for responses (HRQSIZE)",
    [NVME_RDMA_NO_RESOURCES] = "no resources",
    [NVME_RDMA_INVALID_IRD] = "it lets nobody read its memory (IRD)",
};

static void reject(struct nvme_rdma *rdma, struct rdma_cm_id *id,
                   enum nvme_rdma_reject_status status, const char *why)
{
    uint8_t data[NVME_RDMA_REJECT_LEN] = {0};
    put_le16(data + NVME_RDMA_REJECT_OFF_STATUS, (uint16_t)status);
    rdma->counters.rejected++;
    nvme_rdma_say(rdma, id, "the connection is rejected", why != NULL ? why : reject_names[status]);
    rdma_reject(id, data, sizeof data);
}

// True: the id has become a queue's.
static bool on_connect_request(struct nvme_rdma *rdma, const struct rdma_cm_event *event)
{
    struct nvme_rdma_wish wish;
    struct why why = {"no memory"};
    enum nvme_rdma_reject_status status = wish_parse(&event->param.conn, &wish);
    rdma->counters.accepted += status == 0;
    if (status != 0) {
        reject(rdma, event->id, status, NULL);
        return false;
    }
    if (rdma->queue_count >= NVME_RDMA_QUEUE_MAX) {
        reject(rdma, event->id, NVME_RDMA_NO_RESOURCES, "there are too many connections");
        return false;
    }
    if (nvme_rdma_queue_create(rdma, event->id, &wish, &why) == NULL) {
        reject(rdma, event->id, NVME_RDMA_NO_RESOURCES, why.text);
        return false;
    }
    return true;
}

/* ---- events ---------------------------------------------------------------------------------- */

static void on_queue_event(struct nvme_rdma_queue *q, enum rdma_cm_event_type type)
{
    switch (type) {
    case RDMA_CM_EVENT_ESTABLISHED:
        q->state = q->state == QUEUE_ACCEPTING ? QUEUE_UP : q->state;
        break;
    case RDMA_CM_EVENT_DISCONNECTED:
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_REJECTED:
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
        q->is_disconnected = true;
        break;
    default:
        break;
    }
    nvme_rdma_touch(q);
}

static void on_event(struct nvme_rdma *rdma, struct rdma_cm_event *event)
{
    struct rdma_cm_id *id = event->id;
    if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
        bool is_taken = on_connect_request(rdma, event);
        rdma_ack_cm_event(event);
        if (!is_taken) {
            rdma_destroy_id(id);
        }
        return;
    }
    if (id->context != NULL) { // a listener has none
        on_queue_event(id->context, event->event);
    }
    rdma_ack_cm_event(event);
}

static void on_channel(void *ctx, uint32_t events)
{
    struct nvme_rdma *rdma = ctx;
    struct rdma_cm_event *event;
    while (rdma->channel != NULL && rdma_get_cm_event(rdma->channel, &event) == 0) {
        on_event(rdma, event);
    }
}

/* ---- the listeners --------------------------------------------------------------------------- */

static void listeners_close(struct nvme_rdma *rdma)
{
    while (rdma->listener_count > 0) {
        rdma_destroy_id(rdma->listeners[--rdma->listener_count].id);
    }
}

static int listen_fail(const char *listen, struct why *ret_why, const char *what)
{
    int error = errno;
    why_say(ret_why, "%.48s: %s: %s", listen, what, strerror(error));
    return -error;
}

static int channel_open(struct nvme_rdma *rdma)
{
    if (rdma->channel != NULL) {
        return 0;
    }
    rdma->channel = rdma_create_event_channel();
    if (rdma->channel == NULL) {
        return -1;
    }
    fcntl(rdma->channel->fd, F_SETFL, fcntl(rdma->channel->fd, F_GETFL) | O_NONBLOCK);
    rdma->channel_watch =
        loop_watch(rdma->parts.loop, rdma->channel->fd, EPOLLIN, on_channel, rdma);
    return rdma->channel_watch != NULL ? 0 : -1;
}

// From now on it stands in the discovery log.
static void tell_hosts(struct nvme_rdma *rdma, const struct address_end *end)
{
    struct nvme_listener listener = {
        .trtype = NVME_TRTYPE_RDMA,
        .adrfam = end->is_6 ? NVME_ADRFAM_IPV6 : NVME_ADRFAM_IPV4,
        .is_wildcard = end->is_wildcard,
        .tsas = {[NVME_TSAS_RDMA_OFF_QPTYPE] = NVME_QPTYPE_CONNECTED,
                 [NVME_TSAS_RDMA_OFF_PRTYPE] = NVME_PRTYPE_IWARP,
                 [NVME_TSAS_RDMA_OFF_CMS] = NVME_CMS_RDMA_CM},
    };
    snprintf(listener.address, sizeof listener.address, "%s", end->host);
    snprintf(listener.service, sizeof listener.service, "%s", end->port);
    nvme_target_listener_add(rdma->parts.target, &listener);
}

// Of 0 the id listens; of an error it is still the caller's.
static int listen_at(struct rdma_cm_id *id, const char *listen, struct sockaddr *addr,
                     struct why *ret_why)
{
    if (rdma_bind_addr(id, addr) != 0) {
        return listen_fail(listen, ret_why,
                           errno == EADDRNOTAVAIL ? "no RDMA device has this address"
                                                  : "cannot have this address");
    }
    return rdma_listen(id, BACKLOG) == 0 ? 0 : listen_fail(listen, ret_why, "cannot listen");
}

static int listener_open(struct nvme_rdma *rdma, const char *listen, struct why *ret_why)
{
    struct nvme_rdma_listener *l = &rdma->listeners[rdma->listener_count];
    struct sockaddr_storage addr;
    int error = address_resolve(listen, default_port, &addr, ret_why);
    if (error != 0) {
        return error;
    }
    if (channel_open(rdma) != 0 || rdma_create_id(rdma->channel, &l->id, NULL, RDMA_PS_TCP) != 0) {
        return listen_fail(listen, ret_why, "there is no RDMA device to listen with");
    }
    error = listen_at(l->id, listen, (struct sockaddr *)&addr, ret_why);
    if (error != 0) {
        rdma_destroy_id(l->id);
        return error;
    }
    address_end_of(rdma_get_local_addr(l->id), &l->end);
    rdma->listener_count++;
    return 0;
}

static int tts_start(void *ctx, struct why *ret_why)
{
    struct nvme_rdma *rdma = ctx;
    const struct addresses *listen = &rdma->parts.listen;
    for (unsigned i = 0; i < listen->count; i++) {
        int error = listener_open(rdma, listen->of[i], ret_why);
        if (error != 0) {
            listeners_close(rdma);
            return error;
        }
    }
    for (unsigned i = 0; i < rdma->listener_count; i++) {
        tell_hosts(rdma, &rdma->listeners[i].end);
    }
    return 0;
}

static void tts_advertise(void *ctx, const struct resource_table *table)
{
    // The discovery log is the controllers'.
}

static void tts_stop(void *ctx)
{
    struct nvme_rdma *rdma = ctx;
    listeners_close(rdma);
    for (struct list_link *l = rdma->queues.next; l != &rdma->queues; l = l->next) {
        nvme_rdma_queue_end(LIST_ENTRY(l, struct nvme_rdma_queue, link), "the node ends");
    }
}

static bool tts_uri(void *ctx, const struct resource *volume, unsigned index, char *ret,
                    size_t capacity)
{
    const struct nvme_rdma *rdma = ctx;
    char path[NVME_PATH_MAX], endpoint[TEXT_ADDRESS_MAX];
    if (index >= rdma->listener_count) {
        return false;
    }
    const struct address_end *end = &rdma->listeners[index].end;
    nvme_namespace_path(volume, path);
    text_endpoint_format(end->host, end->port, endpoint, sizeof endpoint);
    snprintf(ret, capacity, "nvme+rdma://%s/%s", endpoint, path);
    return true;
}

// For weft's own client, and for the kernel's.
static void tts_hint(void *ctx, const struct resource *volume, char *ret, size_t capacity)
{
    const struct address_end *end = &((const struct nvme_rdma *)ctx)->listeners[0].end;
    char nqn[NVME_NQN_MAX], uri[URI_MAX] = "";
    nvme_subsystem_nqn(volume, nqn);
    tts_uri(ctx, volume, 0, uri, sizeof uri);
    snprintf(ret, capacity, "weft cp '%s' copy.img\n  nvme connect -t rdma -a %s -s %s -n %s", uri,
             end->host, end->port, nqn);
}

const struct tts_for_uma nvme_rdma_for_uma = {
    .name = "nvme-rdma",
    .start = tts_start,
    .advertise = tts_advertise,
    .stop = tts_stop,
    .uri = tts_uri,
    .hint = tts_hint,
};

/* ---- a member of the loop -------------------------------------------------------------------- */

// True: there may be more to do at once.
static bool update(struct nvme_rdma_queue *q, instant_ns now)
{
    bool is_at_work = q->state == QUEUE_ACCEPTING || q->state == QUEUE_UP;
    bool has_more = is_at_work && !nvme_rdma_queue_run(q, now);
    if (is_at_work && !has_more && !why_is_said(&q->why)) {
        nvme_rdma_queue_await(q, now);
    }
    if (is_at_work && why_is_said(&q->why)) {
        nvme_rdma_queue_leave(q, now);
    }
    if (q->state == QUEUE_LEAVING) {
        nvme_rdma_take(q, now);
    }
    bool is_time = q->state == QUEUE_LEAVING && !deadline_is_armed(&q->deadline);
    if ((q->is_disconnected || is_time) && q->state != QUEUE_ENDED) {
        nvme_rdma_queue_sever(q, now);
    }
    if (q->state == QUEUE_ENDED && nvme_queue_is_over(q->nvme)) {
        nvme_rdma_queue_destroy(q);
        return false;
    }
    return has_more;
}

static void on_batch_end(void *ctx, instant_ns now)
{
    struct nvme_rdma *rdma = ctx;
    struct list_link batch;
    list_move_all(&batch, &rdma->dirty);
    for (struct list_link *l; (l = list_pop_head(&batch)) != NULL;) {
        struct nvme_rdma_queue *q = LIST_ENTRY(l, struct nvme_rdma_queue, dirty_link);
        if (update(q, now)) {
            nvme_rdma_touch(q);
        }
    }
}

static bool may_sleep(void *ctx)
{
    struct nvme_rdma *rdma = ctx;
    return nvme_rdma_devices_may_sleep(rdma) && list_is_empty(&rdma->dirty);
}

static void on_wake(void *ctx)
{
    nvme_rdma_devices_wake(ctx);
}

static instant_ns next_deadline(void *ctx)
{
    const struct nvme_rdma *rdma = ctx;
    return deadlines_next(&rdma->deadlines);
}

// Completions that have come meanwhile are looked at before anybody is judged.
static void on_deadline(void *ctx, instant_ns now)
{
    struct nvme_rdma *rdma = ctx;
    struct deadline *d;
    while ((d = deadlines_take_due(&rdma->deadlines, now)) != NULL) {
        nvme_rdma_touch(DEADLINE_ENTRY(d, struct nvme_rdma_queue, deadline));
    }
}

struct nvme_rdma *nvme_rdma_create(const struct nvme_rdma_parts *parts)
{
    struct nvme_rdma *rdma = calloc(1, sizeof *rdma);
    if (rdma == NULL) {
        return NULL;
    }
    rdma->parts = *parts;
    list_init(&rdma->devices);
    list_init(&rdma->queues);
    list_init(&rdma->dirty);
    rdma->member = (struct loop_member){.ctx = rdma,
                                        .on_batch_end = on_batch_end,
                                        .may_sleep = may_sleep,
                                        .on_wake = on_wake,
                                        .next_deadline = next_deadline,
                                        .on_deadline = on_deadline};
    loop_join(parts->loop, &rdma->member);
    return rdma;
}

void nvme_rdma_destroy(struct nvme_rdma *rdma)
{
    if (rdma == NULL) {
        return;
    }
    listeners_close(rdma);
    while (!list_is_empty(&rdma->queues)) {
        nvme_rdma_queue_force_destroy(LIST_ENTRY(rdma->queues.next, struct nvme_rdma_queue, link));
    }
    while (!list_is_empty(&rdma->devices)) {
        nvme_rdma_device_destroy(LIST_ENTRY(rdma->devices.next, struct nvme_rdma_device, link));
    }
    loop_unwatch(rdma->channel_watch);
    if (rdma->channel != NULL) {
        rdma_destroy_event_channel(rdma->channel);
    }
    loop_leave(rdma->parts.loop, &rdma->member);
    free(rdma);
}

struct nvme_rdma_counters nvme_rdma_counters(const struct nvme_rdma *rdma)
{
    struct nvme_rdma_counters counters = rdma->counters;
    for (const struct list_link *l = rdma->queues.next; l != &rdma->queues; l = l->next) {
        struct weft_rdma_counters manager;
        weft_rdma_manager_counters(LIST_ENTRY(l, struct nvme_rdma_queue, link)->manager, &manager);
        counters.descriptors += manager.descriptor_count;
    }
    return counters;
}

unsigned nvme_rdma_connection_count(const struct nvme_rdma *rdma)
{
    return rdma->queue_count;
}
