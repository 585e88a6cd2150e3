// The agent: made and ended, its listeners, what it has to tell, and what is due.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "ibcm/internal.h"
#include "wire/ip_cm.h"

enum { BUCKETS_MIN = 64, CONNS_PER_BUCKET = 8, BUCKET_KINDS = 4 };

struct ibcm_config ibcm_config_default(void)
{
    return (struct ibcm_config){
        .path_mtu_max = 5,
        .packet_lifetime = 16,  // 268 ms, as Linux has it
        .response_timeout = 18, // 1.07 s, as newer Linux has it
        .service_timeout = 24,  // 69 s, as Linux has it
        .ack_delay = 15,        // 134 ms, as rxe has it
        .max_cm_retries = 15,
        .conn_max = 16384,
        .half_open_max = 4096,
        .source_max = 2048,
        .answers_max = 1000,
    };
}

struct ibcm *ibcm_create(const struct ibcm_config *config)
{
    CHECK(config->half_open_max > 0 && config->half_open_max < config->conn_max);
    CHECK(config->source_max > 0 && config->sink.put != NULL);
    uint32_t buckets = BUCKETS_MIN;
    while (buckets < config->conn_max / CONNS_PER_BUCKET) {
        buckets *= 2;
    }
    struct ibcm *ibcm = calloc(1, sizeof *ibcm);
    struct ibcm_conn *conns = calloc(config->conn_max, sizeof *conns);
    struct list_link *heads = calloc(BUCKET_KINDS * (size_t)buckets, sizeof *heads);
    if (ibcm == NULL || conns == NULL || heads == NULL) {
        free(heads);
        free(conns);
        free(ibcm);
        return NULL;
    }
    *ibcm = (struct ibcm){.config = *config, .conns = conns, .bucket_mask = buckets - 1};
    list_init(&ibcm->listeners);
    list_init(&ibcm->events);
    ibcm_table_init(ibcm, heads);
    return ibcm;
}

void ibcm_destroy(struct ibcm *ibcm)
{
    if (ibcm != NULL) {
        free(ibcm->by_id);
        free(ibcm->conns);
        free(ibcm);
    }
}

/* ---- listeners ------------------------------------------------------------------------------- */

static bool has_listener(const struct ibcm *ibcm, uint64_t service_id, const struct in6_addr *local)
{
    const struct list_link *head = &ibcm->listeners;
    for (const struct list_link *l = head->next; l != head; l = l->next) {
        const struct ibcm_listener *other = LIST_ENTRY(l, struct ibcm_listener, link);
        if (other->service_id == service_id && memcmp(&other->local, local, sizeof *local) == 0) {
            return true;
        }
    }
    return false;
}

int ibcm_listen(struct ibcm *ibcm, struct ibcm_listener *l, enum ip_cm_port_space ps, uint16_t port,
                const struct in6_addr *local, int backlog, void *ctx)
{
    uint64_t service_id = ip_cm_service_id(ps, port);
    uint32_t most = ibcm->config.half_open_max;
    if (has_listener(ibcm, service_id, local)) {
        return -EADDRINUSE;
    }
    *l = (struct ibcm_listener){.service_id = service_id, .local = *local, .ctx = ctx};
    l->backlog = backlog > 0 && (uint32_t)backlog < most ? (uint32_t)backlog : most;
    list_init(&l->waiting);
    list_push_tail(&ibcm->listeners, &l->link);
    return 0;
}

void ibcm_unlisten(struct ibcm *ibcm, struct ibcm_listener *l, instant_ns now)
{
    struct list_link *link;
    while ((link = list_pop_head(&l->waiting)) != NULL) {
        struct ibcm_conn *conn = LIST_ENTRY(link, struct ibcm_conn, waiting_link);
        bool is_told = (conn->event_mask & 1U << IBCM_EVENT_CONNECT_REQUEST) == 0;
        conn->listener = NULL;
        if (!is_told) {
            ibcm_reject(ibcm, conn,
                        conn->is_datagram ? (unsigned)IBCM_SIDR_UNSUPPORTED
                                          : (unsigned)IBCM_REASON_INVALID_SERVICE_ID,
                        (struct span){0}, now);
            ibcm_drop(ibcm, conn, now);
        }
    }
    list_remove(&l->link);
}

/* ---- events ---------------------------------------------------------------------------------- */

bool ibcm_next_event(struct ibcm *ibcm, struct ibcm_event *ret)
{
    if (list_is_empty(&ibcm->events)) {
        return false;
    }
    struct ibcm_conn *conn = LIST_ENTRY(ibcm->events.next, struct ibcm_conn, event_link);
    enum ibcm_event_type type = (enum ibcm_event_type)__builtin_ctz(conn->event_mask);
    conn->event_mask &= conn->event_mask - 1;
    if (conn->event_mask == 0) {
        list_remove(&conn->event_link);
    }
    *ret = (struct ibcm_event){
        .type = type,
        .conn = conn,
        .ctx = conn->ctx,
        .peer = &conn->theirs,
        .ends = conn->ends,
        .port = ip_cm_port(conn->service_id),
        .is_datagram = conn->is_datagram,
        .is_silent = conn->is_silent,
        .reason = conn->reason,
        .private_data = span_of(conn->peer_data, conn->peer_data_len),
    };
    return true;
}

/* ---- what is due ----------------------------------------------------------------------------- */

instant_ns ibcm_next_deadline(const struct ibcm *ibcm)
{
    return deadlines_next(&ibcm->deadlines);
}

static void conn_on_deadline(struct ibcm *ibcm, struct ibcm_conn *conn, instant_ns now)
{
    enum ibcm_timer timer = ibcm_state_facts(conn->state)->timer;
    bool may_repeat = timer == IBCM_TIMER_RESPONSE || timer == IBCM_TIMER_SERVICE;
    if (may_repeat && conn->tries >= conn->tries_max) {
        ibcm_step(ibcm, conn, IBCM_IN_EXHAUSTED, NULL, now);
        return;
    }
    conn->tries += may_repeat;
    ibcm->counters.repeats += may_repeat;
    ibcm->counters.unserved += timer == IBCM_TIMER_PAUSE;
    ibcm_step(ibcm, conn, IBCM_IN_DEADLINE, NULL, now);
}

void ibcm_on_deadline(struct ibcm *ibcm, instant_ns now)
{
    struct deadline *due;
    while ((due = deadlines_take_due(&ibcm->deadlines, now)) != NULL) {
        conn_on_deadline(ibcm, DEADLINE_ENTRY(due, struct ibcm_conn, deadline), now);
    }
}

bool ibcm_has_qp_num(const struct ibcm *ibcm, uint32_t qp_num)
{
    const struct list_link *head = &ibcm->timewait;
    for (const struct list_link *l = head->next; l != head; l = l->next) {
        if (LIST_ENTRY(l, struct ibcm_conn, timewait_link)->ours.qp_num == qp_num) {
            return true;
        }
    }
    return false;
}

/* ---- what has to hold ------------------------------------------------------------------------ */

static uint32_t list_len(const struct list_link *head)
{
    uint32_t len = 0;
    for (const struct list_link *l = head->next; l != head; l = l->next) {
        len++;
    }
    return len;
}

static void conn_check(const struct ibcm_conn *conn)
{
    const struct ibcm_state_facts *facts = ibcm_state_facts(conn->state);
    CHECK(deadline_is_armed(&conn->deadline) == (facts->timer != IBCM_TIMER_NONE));
    CHECK((conn->event_mask != 0) == !list_is_empty(&conn->event_link));
    CHECK(conn->event_mask == 0 || conn->is_owned);
    CHECK(conn->is_owned || conn->state != IBCM_OVER);
    CHECK((conn->listener != NULL) == !list_is_empty(&conn->waiting_link));
    CHECK(conn->tries <= conn->tries_max || facts->timer == IBCM_TIMER_NONE ||
          facts->timer == IBCM_TIMER_TIMEWAIT || facts->timer == IBCM_TIMER_REPEATS);
}

void ibcm_check(const struct ibcm *ibcm)
{
    uint32_t count = 0;
    deadlines_check(&ibcm->deadlines);
    for (uint32_t i = 0; i < ibcm->touched; i++) {
        if (ibcm->conns[i].state != IBCM_NO_STATE) {
            count++;
            conn_check(&ibcm->conns[i]);
        }
    }
    CHECK(count == ibcm->conn_count);
    CHECK(list_len(&ibcm->half_open) == ibcm->half_open_count);
    CHECK(list_len(&ibcm->free) + count == ibcm->touched);
    const struct list_link *head = &ibcm->listeners;
    for (const struct list_link *l = head->next; l != head; l = l->next) {
        const struct ibcm_listener *listener = LIST_ENTRY(l, struct ibcm_listener, link);
        CHECK(list_len(&listener->waiting) == listener->waiting_count);
        CHECK(listener->waiting_count <= listener->backlog);
    }
}
