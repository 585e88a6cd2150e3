// iSCSI over one-shot RDMA: connection requests, a connection's life, the TTS as the UMA sees it.

#include "node/tts/iscsi_rdma.h"

#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/retries.h"
#include "base/time.h"
#include "base/why.h"
#include "listen/address.h"
#include "node/fabric/fabric.h"
#include "node/fabric/pair.h"
#include "node/interface/request.h"
#include "node/interface/uma_tts.h"
#include "node/interface/volume.h"
#include "node/iscsi/connection.h"
#include "node/iscsi/iscsi.h"
#include "node/loop/loop.h"
#include "node/tts/iscsi_rdma_pair.h"
#include "text/address.h"
#include "text/endpoint.h"

enum { URI_MAX = 384 };

static const duration_ns login_within_ns = 10 * NS_PER_S;

/* ---- what a connection asks ------------------------------------------------------------------ */

static void touch(struct iscsi_connection *c)
{
    fabric_touch(&iscsi_pair_of_connection(c)->pair);
}

static bool own_end(const struct iscsi_connection *c, struct address_end *ret)
{
    const struct iscsi_rdma_pair *cp = LIST_ENTRY(c, struct iscsi_rdma_pair, c);
    return address_end_of(rdma_get_local_addr(cp->pair.id), ret);
}

static void on_task_free(struct iscsi_task *task)
{
    // A loan is the next command's to fill.
}

static const struct iscsi_carrier carrier = {
    .name = "iscsi-rdma",
    .tts = &iscsi_rdma_for_uma,
    .is_oneshot = true,
    .transport = &iscsi_rdma_transport,
    .touch = touch,
    .own_end = own_end,
    .on_command = iscsi_pair_on_command,
    .on_task_free = on_task_free,
};

/* ---- made ------------------------------------------------------------------------------------ */

enum {
    RECEIVES_LEN = ISCSI_RECEIVE_COUNT * ISCSI_RECEIVE_LEN,
    RESPONSES_LEN = ISCSI_TASK_COUNT * ISCSI_RESPONSE_LEN,
    CONTROLS_LEN = ISCSI_CONTROL_COUNT * ISCSI_CONTROL_LEN,
    MEMORY_LEN = RECEIVES_LEN + RESPONSES_LEN + CONTROLS_LEN,
};

static void memory_divide(struct iscsi_rdma_pair *cp)
{
    for (unsigned i = 0; i < ISCSI_RECEIVE_COUNT; i++) {
        cp->receives[i].octets = cp->memory + (size_t)i * ISCSI_RECEIVE_LEN;
        list_push_tail(&cp->idle, &cp->receives[i].link);
    }
    uint8_t *responses = cp->memory + RECEIVES_LEN, *controls = responses + RESPONSES_LEN;
    for (unsigned i = 0; i < ISCSI_POST_COUNT; i++) {
        struct iscsi_post *post = &cp->posts[i];
        post->octets = i < ISCSI_TASK_COUNT
                           ? responses + (size_t)i * ISCSI_RESPONSE_LEN
                           : controls + (size_t)(i - ISCSI_TASK_COUNT) * ISCSI_CONTROL_LEN;
        list_init(&post->link);
    }
}

static bool memory_create(struct iscsi_rdma_pair *cp)
{
    cp->memory = calloc(1, MEMORY_LEN);
    cp->receives = calloc(ISCSI_RECEIVE_COUNT, sizeof cp->receives[0]);
    cp->posts = calloc(ISCSI_POST_COUNT, sizeof cp->posts[0]);
    cp->loans = calloc(ISCSI_TASK_COUNT, sizeof cp->loans[0]);
    if (cp->memory == NULL || cp->receives == NULL || cp->posts == NULL || cp->loans == NULL) {
        return false;
    }
    memory_divide(cp);
    cp->mr = ibv_reg_mr(cp->pair.device->pd, cp->memory, MEMORY_LEN, IBV_ACCESS_LOCAL_WRITE);
    return cp->mr != NULL;
}

static void destroy(struct iscsi_rdma_pair *cp)
{
    iscsi_connection_fini(&cp->c);
    for (unsigned i = 0; cp->loans != NULL && i < ISCSI_TASK_COUNT; i++) {
        if (cp->loans[i].mr != NULL) {
            ibv_dereg_mr(cp->loans[i].mr);
        }
    }
    if (cp->mr != NULL) {
        ibv_dereg_mr(cp->mr);
    }
    free(cp->loans);
    free(cp->posts);
    free(cp->receives);
    free(cp->memory);
    free(cp);
}

// A Write and the response behind it, or a Read, of each task.
static const struct fabric_shape shape = {
    .receive_count = ISCSI_RECEIVE_COUNT,
    .descriptor_count = 2 * ISCSI_TASK_COUNT,
    .send_count = ISCSI_POST_COUNT,
    .quantum_len = 2 * NODE_TRANSFER_MAX,
};

// RDMA Reads are ours alone: the initiator asks for none.
static bool accept_initiator(struct iscsi_rdma_pair *cp, const struct rdma_conn_param *asked)
{
    struct client *client = &cp->c.client;
    struct rdma_conn_param param = {.initiator_depth = asked->initiator_depth,
                                    .rnr_retry_count = RETRIES_MAX};
    text_address_format(rdma_get_peer_addr(cp->pair.id), client->address);
    address_host(rdma_get_peer_addr(cp->pair.id), client->host, sizeof client->host);
    snprintf(client->service, sizeof client->service, "%s", carrier.name);
    cp->login_until = instant_after(loop_now(cp->pair.fabric->parts.loop), login_within_ns);
    iscsi_pair_receives_post(&cp->pair);
    return fabric_pair_accept(&cp->pair, &param);
}

static bool pair_create(struct iscsi_rdma *rdma, const struct rdma_cm_event *event,
                        struct why *ret_why)
{
    struct fabric_device *device = fabric_device_find(&rdma->fabric, event->id->verbs, ret_why);
    struct iscsi_rdma_pair *cp = device != NULL ? calloc(1, sizeof *cp) : NULL;
    const char *what = NULL;
    if (cp == NULL) {
        return false;
    }
    *cp = (struct iscsi_rdma_pair){.pair = {.device = device, .id = event->id}, .rdma = rdma};
    list_init(&cp->idle);
    list_init(&cp->waiting);
    list_init(&cp->c.link);
    list_init(&cp->c.units);
    if (!fabric_pair_init(&cp->pair, &shape)) {
        what = "no queue pair";
    } else if (!memory_create(cp) || !iscsi_connection_init(&cp->c, &rdma->door)) {
        what = "no memory for its PDUs";
    } else if (!accept_initiator(cp, &event->param.conn)) {
        what = "it cannot be accepted";
    }
    if (what != NULL) {
        why_say(ret_why, "%s: %s", what, strerror(errno));
        fabric_pair_fini(&cp->pair);
        destroy(cp);
    }
    return what == NULL;
}

static bool on_request(void *ctx, const struct rdma_cm_event *event)
{
    struct iscsi_rdma *rdma = ctx;
    struct why why = {"no memory"};
    const char *limit = fabric_pair_limit(&rdma->fabric, event->id);
    bool is_taken = false;
    if (event->param.conn.initiator_depth == 0) {
        why_say(&why, "it lets nobody read its memory (IRD)");
    } else if (limit != NULL) {
        why_say(&why, "%s", limit);
    } else {
        is_taken = pair_create(rdma, event, &why);
    }
    if (!is_taken) {
        fabric_say(&rdma->fabric, event->id, "the connection is rejected", why.text);
        rdma_reject(event->id, NULL, 0);
    }
    return is_taken;
}

/* ---- what the pair asks ---------------------------------------------------------------------- */

static void await(struct fabric_pair *p, instant_ns now)
{
    const struct iscsi_rdma_pair *cp = iscsi_pair_of(p);
    bool has_begun = cp->c.state >= ISCSI_OPEN;
    p->silent_until_ns = has_begun ? INSTANT_NEVER : cp->login_until;
}

static void close_pair(struct fabric_pair *p, instant_ns now)
{
    iscsi_leave(&iscsi_pair_of(p)->c);
}

static bool is_over(struct fabric_pair *p)
{
    return iscsi_connection_is_over(&iscsi_pair_of(p)->c);
}

static void destroy_pair(struct fabric_pair *p)
{
    destroy(iscsi_pair_of(p));
}

static const struct fabric_protocol protocol = {
    .name = "iscsi-rdma",
    .late = "its login took too long",
    .default_port = "3260",
    .pair_max = ISCSI_PAIR_MAX,
    .on_request = on_request,
    .on_received = iscsi_pair_on_received,
    .on_sent = iscsi_pair_on_sent,
    .receives_post = iscsi_pair_receives_post,
    .retry = iscsi_pair_retry,
    .send = iscsi_pair_send,
    .await = await,
    .close = close_pair,
    .abandon = iscsi_pair_abandon,
    .is_over = is_over,
    .destroy = destroy_pair,
};

/* ---- what the UMA calls ---------------------------------------------------------------------- */

static int tts_start(void *ctx, struct why *ret_why)
{
    return fabric_listen(&((struct iscsi_rdma *)ctx)->fabric, ret_why);
}

static void tts_stop(void *ctx)
{
    struct iscsi_rdma *rdma = ctx;
    fabric_close(&rdma->fabric);
    iscsi_door_stop(&rdma->door);
}

static bool tts_uri(void *ctx, const struct resource *volume, unsigned index, char *ret,
                    size_t capacity)
{
    const struct fabric *fabric = &((const struct iscsi_rdma *)ctx)->fabric;
    char name[ISCSI_NAME_MAX], endpoint[TEXT_ADDRESS_MAX];
    if (index >= fabric->listener_count) {
        return false;
    }
    const struct address_end *end = &fabric->listeners[index].end;
    iscsi_name(volume, name);
    text_endpoint_format(end->host, end->port, endpoint, sizeof endpoint);
    snprintf(ret, capacity, "iscsi+rdma://%s/%s/%u", endpoint, name, iscsi_lun(volume));
    return true;
}

static void tts_hint(void *ctx, const struct resource *volume, char *ret, size_t capacity)
{
    char uri[URI_MAX] = "";
    tts_uri(ctx, volume, 0, uri, sizeof uri);
    snprintf(ret, capacity, "weft cp '%s' copy.img", uri);
}

static void tts_figures(void *ctx, tts_figure *figure, void *figure_ctx)
{
    const struct iscsi_rdma *rdma = ctx;
    const struct iscsi_rdma_counters *c = &rdma->counters;
    fabric_figures(&rdma->fabric, figure, figure_ctx);
    figure(figure_ctx, "refused", TTS_COUNTER,
           rdma->fabric.counters.rejected + rdma->door.counters.refused);
#define X(name, text) figure(figure_ctx, #name, TTS_COUNTER, c->name);
    ISCSI_RDMA_COUNTERS(X)
#undef X
    iscsi_door_figures(&rdma->door, figure, figure_ctx);
}

const struct tts_for_uma iscsi_rdma_for_uma = {
    .name = "iscsi-rdma",
    .start = tts_start,
    .advertise = iscsi_door_advertise,
    .on_connected = iscsi_door_on_connected,
    .drop = iscsi_door_drop,
    .stop = tts_stop,
    .figures = tts_figures,
    .uri = tts_uri,
    .hint = tts_hint,
};

/* ---- its life -------------------------------------------------------------------------------- */

struct iscsi_rdma *iscsi_rdma_create(const struct iscsi_rdma_parts *parts)
{
    struct iscsi_rdma *rdma = calloc(1, sizeof *rdma);
    if (rdma == NULL) {
        return NULL;
    }
    const struct iscsi_parts *target = &parts->iscsi->parts;
    rdma->door = (struct iscsi_door){.carrier = &carrier, .iscsi = parts->iscsi};
    fabric_init(&rdma->fabric, &protocol,
                &(struct fabric_parts){.loop = parts->loop,
                                       .listen = parts->listen,
                                       .pool = parts->pool,
                                       .pool_is_pinned = parts->pool_is_pinned,
                                       .patience_ns = parts->patience_ns,
                                       .pair_max = parts->connection_max,
                                       .say = target->say,
                                       .say_ctx = target->ctx,
                                       .ctx = rdma});
    return rdma;
}

void iscsi_rdma_destroy(struct iscsi_rdma *rdma)
{
    if (rdma != NULL) {
        fabric_fini(&rdma->fabric);
        free(rdma);
    }
}
