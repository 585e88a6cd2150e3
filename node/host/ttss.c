// The target transport services of a node: which there are, and what they stand on.

#include <errno.h>
#include <stdio.h>
#include <sys/random.h>

#include "base/check.h"
#include "base/time.h"
#include "node/cta/cta.h"
#include "node/host/agent.h"
#include "node/host/pool.h"
#include "node/host/strangers.h"
#include "node/iscsi/iscsi.h"
#include "node/loop/loop.h"
#include "node/nvme/controller.h"
#include "node/tts/iscsi_rdma.h"
#include "node/tts/iscsi_tcp.h"
#include "node/tts/nbd.h"
#include "node/tts/nvme_rdma.h"
#include "node/tts/nvme_tcp.h"
#include "node/uma/uma.h"

static const duration_ns patience_default_ns = 30 * NS_PER_S;

static void tts_add(struct host *host, const struct tts_for_uma *tts, void *ctx,
                    const struct addresses *listen, const char *option)
{
    CHECK(host->tts_count < HOST_TTS_COUNT_MAX);
    host->ttss[host->tts_count++] =
        (struct host_tts){.tts = tts, .ctx = ctx, .listen = listen, .option = option};
    uma_tts_add(host->uma, tts, ctx);
}

static void say_of_stranger(void *ctx, const char *from, const char *line)
{
    struct host *host = ctx;
    char bounded[STRANGERS_LINE_MAX];
    if (strangers_line(&host->strangers, from, line, loop_now(host->loop), bounded)) {
        host_say(host, bounded);
    }
}

static duration_ns patience_of(const struct host *host)
{
    return host->config->patience_ns > 0 ? host->config->patience_ns : patience_default_ns;
}

static int nbd_add(struct host *host)
{
    struct nbd_parts parts = {.loop = host->loop,
                              .listen = host->config->nbd_listen,
                              .uma = &uma_for_tts,
                              .uma_ctx = host->uma,
                              .cta = &cta_for_tts,
                              .cta_ctx = host->cta,
                              .patience_ns = patience_of(host),
                              .say = say_of_stranger,
                              .ctx = host};
    host->nbd = nbd_tts_create(&parts);
    if (host->nbd != NULL) {
        tts_add(host, &nbd_for_uma, host->nbd, &host->config->nbd_listen, "nbd");
    }
    return host->nbd != NULL ? 0 : -ENOMEM;
}

// The controllers come before the transports that carry their queues.
static int nvme_add(struct host *host)
{
    struct nvme_target_parts parts = {.uma = &uma_for_tts,
                                      .uma_ctx = host->uma,
                                      .cta = &cta_for_tts,
                                      .cta_ctx = host->cta,
                                      .cntlid_min = host->config->cntlid_min,
                                      .say = say_of_stranger,
                                      .ctx = host};
    host->nvme = nvme_target_create(&parts);
    return host->nvme != NULL ? 0 : -ENOMEM;
}

static int nvme_rdma_add(struct host *host)
{
    struct nvme_rdma_parts parts = {
        .loop = host->loop,
        .listen = host->config->nvme_rdma_listen,
        .target = host->nvme,
        .pool = pool_view(&host->pool),
        .pool_is_pinned = &host->pool.is_pinned,
        .patience_ns = patience_of(host),
        .connection_max = host->config->rdma_connection_max,
        .say = say_of_stranger,
        .ctx = host,
    };
    host->nvme_rdma = nvme_rdma_create(&parts);
    if (host->nvme_rdma != NULL) {
        tts_add(host, &nvme_rdma_for_uma, host->nvme_rdma, &host->config->nvme_rdma_listen,
                "nvme-rdma");
    }
    return host->nvme_rdma != NULL ? 0 : -ENOMEM;
}

static int nvme_tcp_add(struct host *host)
{
    struct nvme_tcp_parts parts = {.loop = host->loop,
                                   .listen = host->config->nvme_tcp_listen,
                                   .target = host->nvme,
                                   .patience_ns = patience_of(host),
                                   .say = say_of_stranger,
                                   .ctx = host};
    host->nvme_tcp = nvme_tcp_create(&parts);
    if (host->nvme_tcp != NULL) {
        tts_add(host, &nvme_tcp_for_uma, host->nvme_tcp, &host->config->nvme_tcp_listen,
                "nvme-tcp");
    }
    return host->nvme_tcp != NULL ? 0 : -ENOMEM;
}

// The kernel has them, at any time and all at once.
static void randomize(void *ctx, void *octets, size_t len)
{
    ssize_t got = getrandom(octets, len, 0);
    CHECK(got == (ssize_t)len);
}

// The target comes before what carries its sessions.
static int iscsi_add(struct host *host)
{
    struct iscsi_parts parts = {.uma = &uma_for_tts,
                                .uma_ctx = host->uma,
                                .cta = &cta_for_tts,
                                .cta_ctx = host->cta,
                                .accounts = &host->accounts,
                                .randomize = randomize,
                                .say = say_of_stranger,
                                .ctx = host};
    host->iscsi = iscsi_create(&parts);
    return host->iscsi != NULL ? 0 : -ENOMEM;
}

static int iscsi_tcp_add(struct host *host)
{
    struct iscsi_tcp_parts parts = {.iscsi = host->iscsi,
                                    .loop = host->loop,
                                    .listen = host->config->iscsi_listen,
                                    .patience_ns = patience_of(host)};
    host->iscsi_tcp = iscsi_tcp_create(&parts);
    if (host->iscsi_tcp != NULL) {
        tts_add(host, &iscsi_tcp_for_uma, host->iscsi_tcp, &host->config->iscsi_listen, "iscsi");
    }
    return host->iscsi_tcp != NULL ? 0 : -ENOMEM;
}

static int iscsi_rdma_add(struct host *host)
{
    struct iscsi_rdma_parts parts = {.iscsi = host->iscsi,
                                     .loop = host->loop,
                                     .listen = host->config->iscsi_rdma_listen,
                                     .pool = pool_view(&host->pool),
                                     .pool_is_pinned = &host->pool.is_pinned,
                                     .patience_ns = patience_of(host),
                                     .connection_max = host->config->rdma_connection_max};
    host->iscsi_rdma = iscsi_rdma_create(&parts);
    if (host->iscsi_rdma != NULL) {
        tts_add(host, &iscsi_rdma_for_uma, host->iscsi_rdma, &host->config->iscsi_rdma_listen,
                "iscsi-rdma");
    }
    return host->iscsi_rdma != NULL ? 0 : -ENOMEM;
}

static int iscsis_add(struct host *host)
{
    bool has_tcp = host->config->iscsi_listen.count > 0;
    bool has_rdma = host->config->iscsi_rdma_listen.count > 0;
    int error = has_tcp || has_rdma ? iscsi_add(host) : 0;
    if (error == 0 && has_tcp) {
        error = iscsi_tcp_add(host);
    }
    if (error == 0 && has_rdma) {
        error = iscsi_rdma_add(host);
    }
    return error;
}

int host_ttss_create(struct host *host)
{
    int error = nvme_add(host);
    if (error == 0 && host->config->nbd_listen.count > 0) {
        error = nbd_add(host);
    }
    if (error == 0 && host->config->nvme_rdma_listen.count > 0) {
        error = nvme_rdma_add(host);
    }
    if (error == 0 && host->config->nvme_tcp_listen.count > 0) {
        error = nvme_tcp_add(host);
    }
    if (error == 0) {
        error = iscsis_add(host);
    }
    if (error == 0) {
        uma_tts_add(host->uma, &nvme_for_uma, host->nvme);
    }
    return error;
}

void host_ttss_destroy(struct host *host)
{
    nbd_tts_destroy(host->nbd);
    nvme_rdma_destroy(host->nvme_rdma);
    nvme_tcp_destroy(host->nvme_tcp);
    iscsi_tcp_destroy(host->iscsi_tcp);
    iscsi_rdma_destroy(host->iscsi_rdma);
    iscsi_destroy(host->iscsi);
    nvme_target_destroy(host->nvme);
}

bool host_uri(struct host *host, unsigned tts, const struct resource *row, unsigned index,
              char ret[HOST_URI_MAX])
{
    return uma_volume_is_by(host->uma, row->volume, host->ttss[tts].tts->name) &&
           host->ttss[tts].tts->uri(host->ttss[tts].ctx, row, index, ret, HOST_URI_MAX);
}
