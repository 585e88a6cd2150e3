// NVMe over RDMA: connection requests, and the TTS as the UMA sees it.

#include "node/tts/nvme_rdma.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/list.h"
#include "base/why.h"
#include "format/nvme_pages.h"
#include "format/nvme_wire.h"
#include "listen/address.h"
#include "node/fabric/fabric.h"
#include "node/fabric/pair.h"
#include "node/interface/uma_tts.h"
#include "node/tts/nvme_rdma_queue.h"
#include "text/address.h"
#include "text/endpoint.h"

enum { URI_MAX = 384 };

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
    if (get_le16(at + NVME_RDMA_REQUEST_OFF_RECFMT) != 0) {
        return NVME_RDMA_INVALID_RECFMT;
    }
    if (ret->qid > NVME_IO_QUEUE_COUNT_MAX) {
        return NVME_RDMA_INVALID_QID;
    }
    if (hsqsize == 0 || hsqsize >= NVME_QUEUE_DEPTH_MAX) {
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
    fabric_say(&rdma->fabric, id, "the connection is rejected",
               why != NULL ? why : reject_names[status]);
    rdma_reject(id, data, sizeof data);
}

static bool on_request(void *ctx, const struct rdma_cm_event *event)
{
    struct nvme_rdma *rdma = ctx;
    struct nvme_rdma_wish wish;
    struct why why = {"no memory"};
    enum nvme_rdma_reject_status status = wish_parse(&event->param.conn, &wish);
    if (status != 0) {
        reject(rdma, event->id, status, NULL);
        return false;
    }
    const char *limit = fabric_pair_limit(&rdma->fabric, event->id);
    if (limit != NULL) {
        reject(rdma, event->id, NVME_RDMA_NO_RESOURCES, limit);
        return false;
    }
    if (!nvme_rdma_queue_create(rdma, event->id, &wish, &nvme_rdma_transport, &why)) {
        reject(rdma, event->id, NVME_RDMA_NO_RESOURCES, why.text);
        return false;
    }
    return true;
}

static const struct fabric_protocol protocol = {
    .name = "nvme-rdma",
    .late = "no Connect has succeeded in time",
    .default_port = "4420",
    .pair_max = NVME_RDMA_QUEUE_MAX,
    .on_request = on_request,
    .on_received = nvme_rdma_on_capsule,
    .on_sent = nvme_rdma_on_sent,
    .receives_post = nvme_rdma_receives_post,
    .retry = nvme_rdma_retry,
    .send = nvme_rdma_send,
    .await = nvme_rdma_await,
    .close = nvme_rdma_close,
    .abandon = nvme_rdma_abandon,
    .is_over = nvme_rdma_is_over,
    .destroy = nvme_rdma_queue_destroy,
};

/* ---- what the UMA calls ---------------------------------------------------------------------- */

// From now on it stands in the discovery log.
static void tell_hosts(struct nvme_rdma *rdma, const struct address_end *end)
{
    struct nvme_listener listener = {
        .trtype = NVME_TRTYPE_RDMA,
        .adrfam = end->is_6 ? NVME_ADRFAM_IPV6 : NVME_ADRFAM_IPV4,
        .is_wildcard = end->is_wildcard,
        .tsas = {[NVME_TSAS_RDMA_OFF_QPTYPE] = NVME_QPTYPE_CONNECTED,
                 [NVME_TSAS_RDMA_OFF_PRTYPE] = NVME_PRTYPE_NOT_SPECIFIED, // of either wire
                 [NVME_TSAS_RDMA_OFF_CMS] = NVME_CMS_RDMA_CM},
    };
    snprintf(listener.address, sizeof listener.address, "%s", end->host);
    snprintf(listener.service, sizeof listener.service, "%s", end->port);
    nvme_target_listener_add(rdma->parts.target, &listener);
}

static int tts_start(void *ctx, struct why *ret_why)
{
    struct nvme_rdma *rdma = ctx;
    int error = fabric_listen(&rdma->fabric, ret_why);
    for (unsigned i = 0; error == 0 && i < rdma->fabric.listener_count; i++) {
        tell_hosts(rdma, &rdma->fabric.listeners[i].end);
    }
    return error;
}

static void tts_advertise(void *ctx, const struct resource_table *table)
{
    // The discovery log is the controllers'.
}

static void tts_stop(void *ctx)
{
    struct fabric *fabric = &((struct nvme_rdma *)ctx)->fabric;
    fabric_close(fabric);
    for (struct list_link *l = fabric->pairs.next; l != &fabric->pairs; l = l->next) {
        fabric_end(LIST_ENTRY(l, struct fabric_pair, link), "the node ends");
    }
}

static bool tts_uri(void *ctx, const struct resource *volume, unsigned index, char *ret,
                    size_t capacity)
{
    const struct fabric *fabric = &((const struct nvme_rdma *)ctx)->fabric;
    char path[NVME_PATH_MAX], endpoint[TEXT_ADDRESS_MAX];
    if (index >= fabric->listener_count) {
        return false;
    }
    const struct address_end *end = &fabric->listeners[index].end;
    nvme_namespace_path(volume, path);
    text_endpoint_format(end->host, end->port, endpoint, sizeof endpoint);
    snprintf(ret, capacity, "nvme+rdma://%s/%s", endpoint, path);
    return true;
}

// For weft's own client, and for the kernel's.
static void tts_hint(void *ctx, const struct resource *volume, char *ret, size_t capacity)
{
    const struct address_end *end = &((const struct nvme_rdma *)ctx)->fabric.listeners[0].end;
    char nqn[NVME_NQN_MAX], uri[URI_MAX] = "";
    nvme_subsystem_nqn(volume, nqn);
    tts_uri(ctx, volume, 0, uri, sizeof uri);
    snprintf(ret, capacity, "weft cp '%s' copy.img\n  nvme connect -t rdma -a %s -s %s -n %s", uri,
             end->host, end->port, nqn);
}

static void tts_figures(void *ctx, tts_figure *figure, void *figure_ctx)
{
    const struct nvme_rdma *rdma = ctx;
    const struct nvme_rdma_counters *c = &rdma->counters;
    fabric_figures(&rdma->fabric, figure, figure_ctx);
#define X(name, text) figure(figure_ctx, #name, TTS_COUNTER, c->name);
    NVME_RDMA_COUNTERS(X)
#undef X
}

const struct tts_for_uma nvme_rdma_for_uma = {
    .name = "nvme-rdma",
    .start = tts_start,
    .advertise = tts_advertise,
    .stop = tts_stop,
    .figures = tts_figures,
    .uri = tts_uri,
    .hint = tts_hint,
};

/* ---- its life -------------------------------------------------------------------------------- */

struct nvme_rdma *nvme_rdma_create(const struct nvme_rdma_parts *parts)
{
    struct nvme_rdma *rdma = calloc(1, sizeof *rdma);
    if (rdma == NULL) {
        return NULL;
    }
    rdma->parts = *parts;
    fabric_init(&rdma->fabric, &protocol,
                &(struct fabric_parts){.loop = parts->loop,
                                       .listen = parts->listen,
                                       .pool = parts->pool,
                                       .pool_is_pinned = parts->pool_is_pinned,
                                       .patience_ns = parts->patience_ns,
                                       .pair_max = parts->connection_max,
                                       .say = parts->say,
                                       .say_ctx = parts->ctx,
                                       .ctx = rdma});
    return rdma;
}

void nvme_rdma_destroy(struct nvme_rdma *rdma)
{
    if (rdma != NULL) {
        fabric_fini(&rdma->fabric);
        free(rdma);
    }
}
