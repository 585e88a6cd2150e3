// One connection's life, from its request to the last of what was under way on it.

#include "node/fabric/pair.h"

#include <errno.h>
#include <string.h>

#include "base/list.h"
#include "base/time.h"
#include "base/why.h"
#include "listen/address.h"
#include "node/fabric/fabric.h"
#include "node/loop/loop.h"
#include "node/stream/progress.h"

enum {
    ROUND_MAX = 8,  // batches of completions, before other pairs have their turn
    ANSWER_MAX = 4, // messages answered together: the peer goes on with those meanwhile
};

static const duration_ns leave_within_ns = 2 * NS_PER_S;

/* ---- made ------------------------------------------------------------------------------------ */

static bool manager_create(struct fabric_pair *p, const struct fabric_shape *shape)
{
    const struct weft_rdma_manager_attr attr = {.qp = p->id->qp,
                                                .descriptor_count = shape->descriptor_count,
                                                .quantum_len = shape->quantum_len};
    int error = weft_rdma_manager_create(&attr, &p->manager);
    errno = -error;
    return error == 0;
}

// Room for all that may be posted at a time, so that the manager never waits for descriptors, and
// responses leave in the order in which they are made.
bool fabric_pair_init(struct fabric_pair *p, const struct fabric_shape *shape)
{
    unsigned send_count = shape->descriptor_count + shape->send_count;
    struct fabric_device *device = p->device;
    p->fabric = device->fabric;
    p->silent_until_ns = INSTANT_NEVER;
    list_init(&p->sending);
    list_init(&p->link);
    list_init(&p->dirty_link);
    p->recv_cq = ibv_create_cq(device->verbs, (int)shape->receive_count, p, device->completions, 0);
    p->send_cq = ibv_create_cq(device->verbs, (int)send_count, p, device->completions, 0);
    struct ibv_qp_init_attr attr = {
        .send_cq = p->send_cq,
        .recv_cq = p->recv_cq,
        .cap = {.max_send_wr = send_count,
                .max_recv_wr = shape->receive_count,
                .max_send_sge = 1,
                .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC,
    };
    return p->recv_cq != NULL && p->send_cq != NULL &&
           rdma_create_qp(p->id, device->pd, &attr) == 0 && manager_create(p, shape);
}

const char *fabric_pair_limit(const struct fabric *fabric, struct rdma_cm_id *id)
{
    const unsigned wished = fabric->parts.pair_max;
    const unsigned most = wished > 0 ? wished : fabric->protocol->pair_max;
    char host[CLIENT_HOST_MAX];
    unsigned count = 0;
    address_host(rdma_get_peer_addr(id), host, sizeof host);
    for (const struct list_link *l = fabric->pairs.next; l != &fabric->pairs; l = l->next) {
        count += strcmp(LIST_ENTRY(l, struct fabric_pair, link)->host, host) == 0;
    }
    if (fabric->pair_count >= most) {
        return "there are too many connections";
    }
    return count >= most / 2 ? "too many connections come from there" : NULL;
}

bool fabric_pair_accept(struct fabric_pair *p, struct rdma_conn_param *param)
{
    struct fabric *fabric = p->fabric;
    if (why_is_said(&p->why) || rdma_accept(p->id, param) != 0) {
        return false;
    }
    p->id->context = p;
    address_host(rdma_get_peer_addr(p->id), p->host, sizeof p->host);
    list_push_tail(&fabric->pairs, &p->link);
    fabric->pair_count++;
    fabric->counters.accepted++;
    fabric_touch(p);
    return true;
}

void fabric_pair_fini(struct fabric_pair *p)
{
    struct ibv_cq *const cqs[] = {p->recv_cq, p->send_cq};
    list_remove(&p->dirty_link);
    if (p->id->qp != NULL) {
        rdma_destroy_qp(p->id);
    }
    if (p->manager != NULL) {
        weft_rdma_manager_flush(p->manager);
        weft_rdma_manager_destroy(p->manager);
    }
    for (unsigned i = 0; i < 2; i++) {
        if (cqs[i] != NULL) {
            ibv_destroy_cq(cqs[i]);
        }
    }
}

/* ---- completions ----------------------------------------------------------------------------- */

static bool is_good(struct fabric_pair *p, const struct ibv_wc *wc)
{
    if (wc->status != IBV_WC_SUCCESS) {
        fabric_on_bad_completion(p, wc->status);
    }
    return wc->status == IBV_WC_SUCCESS;
}

// What is out when the connection breaks is given up with it.
static void on_sent(struct fabric_pair *p, const struct ibv_wc *wc)
{
    bool is_managers = weft_rdma_manager_on_wc(p->manager, wc);
    if (is_good(p, wc) && !is_managers) {
        p->fabric->protocol->on_sent(p, wc);
    }
}

// Is anything out whose completion nobody else would tell of?
static bool awaits_sends(const struct fabric_pair *p)
{
    return p->transfer_count > 0 || !list_is_empty(&p->sending);
}

// At most a batch of each kind. How many. Few messages: what is in the page cache is read while one
// is taken, and a peer that waits for the answers to a whole queue has fallen asleep by then.
static unsigned take(struct fabric_pair *p, instant_ns now)
{
    const struct fabric_protocol *protocol = p->fabric->protocol;
    struct ibv_wc wcs[FABRIC_POLL_BATCH];
    // Sends first: what they end makes room for what has come.
    int sent = awaits_sends(p) ? ibv_poll_cq(p->send_cq, FABRIC_POLL_BATCH, wcs) : 0;
    for (int i = 0; i < sent; i++) {
        on_sent(p, &wcs[i]);
    }
    protocol->receives_post(p);
    int received = ibv_poll_cq(p->recv_cq, ANSWER_MAX, wcs);
    for (int i = 0; i < received; i++) {
        if (is_good(p, &wcs[i]) && fabric_is_usable(p)) {
            protocol->on_received(p, &wcs[i], now);
        }
    }
    if (sent < 0 || received < 0) {
        fabric_fail(p, "its completion queue cannot be polled");
        return 0;
    }
    return (unsigned)(sent + received);
}

static void cq_arm(struct fabric_pair *p, struct ibv_cq *cq, bool *is_armed)
{
    *is_armed = true;
    if (ibv_req_notify_cq(cq, 0) != 0) {
        fabric_fail(p, "its completions cannot be waited for");
    }
}

// True: something has been armed, so that what came before must be looked for once more.
static bool arm(struct fabric_pair *p)
{
    bool arms_recv = !p->is_recv_armed;
    bool arms_send = !p->is_send_armed && awaits_sends(p);
    if (arms_recv) {
        cq_arm(p, p->recv_cq, &p->is_recv_armed);
    }
    if (arms_send) {
        cq_arm(p, p->send_cq, &p->is_send_armed);
    }
    return arms_recv || arms_send;
}

/* ---- at work --------------------------------------------------------------------------------- */

// Takes completions, sends what there is, arms. False: there may be more to take. Most of what is
// sent has completed when it is looked for, so nothing needs to tell of it.
static bool run(struct fabric_pair *p, instant_ns now)
{
    const struct fabric_protocol *protocol = p->fabric->protocol;
    for (unsigned i = 0; i < ROUND_MAX; i++) {
        bool has_moved = take(p, now) > 0;
        protocol->retry(p, now);
        has_moved |= protocol->send(p, now);
        if (why_is_said(&p->why) || p->is_disconnected || (!has_moved && !arm(p))) {
            return true;
        }
    }
    return false;
}

// Waits for what the protocol does and for data under way; ends it if they have been waited for too
// long.
static void await(struct fabric_pair *p, instant_ns now)
{
    struct fabric *fabric = p->fabric;
    fabric->protocol->await(p, now);
    progress_await(&p->moving, p->transfer_count > 0, fabric->parts.patience_ns, now);
    instant_ns until = instant_min(p->silent_until_ns, progress_deadline(&p->moving));
    if (until > now) {
        deadline_arm(&fabric->deadlines, &p->deadline, until);
        return;
    }
    fabric->counters.stalled++;
    fabric_fail(p, p->silent_until_ns <= now ? fabric->protocol->late
                                             : "its data did not move for too long (patience)");
}

/* ---- the end --------------------------------------------------------------------------------- */

static void leave(struct fabric_pair *p, instant_ns now)
{
    struct fabric *fabric = p->fabric;
    fabric->protocol->send(p, now);
    p->state = FABRIC_LEAVING;
    deadline_arm(&fabric->deadlines, &p->deadline, instant_after(now, leave_within_ns));
    fabric->protocol->close(p, now);
}

static void disconnect(struct fabric_pair *p)
{
    if (!p->has_said_so) {
        p->has_said_so = true;
        rdma_disconnect(p->id);
    }
}

// What was posted arrives first, as why the peer is refused. A stream ends behind it by itself; a
// queue pair on packets gives up what is not acknowledged.
static void disconnect_behind_sends(struct fabric_pair *p, instant_ns now)
{
    while (take(p, now) > 0 || arm(p)) {
    }
    if (list_is_empty(&p->sending)) {
        disconnect(p);
    }
}

// The connection is over: whatever is under way on it ends now.
static void sever(struct fabric_pair *p, instant_ns now)
{
    struct fabric *fabric = p->fabric;
    bool is_closed = p->state == FABRIC_LEAVING;
    disconnect(p);
    p->state = FABRIC_ENDED;
    deadline_disarm(&fabric->deadlines, &p->deadline);
    rdma_destroy_qp(p->id); // from here on nothing of the peer's reaches our memory
    if (!is_closed) {
        fabric->protocol->close(p, now);
    }
    weft_rdma_manager_flush(p->manager);
    fabric->protocol->abandon(p, now);
}

static void destroy(struct fabric_pair *p)
{
    struct fabric *fabric = p->fabric;
    struct rdma_cm_id *id = p->id;
    struct weft_rdma_counters manager;
    weft_rdma_manager_counters(p->manager, &manager);
    fabric->counters.descriptors += manager.descriptor_count;
    list_remove(&p->link);
    fabric->pair_count--;
    fabric_pair_fini(p);
    fabric->protocol->destroy(p);
    rdma_destroy_id(id);
}

bool fabric_pair_update(struct fabric_pair *p, instant_ns now)
{
    bool is_at_work = fabric_is_usable(p);
    bool has_more = is_at_work && !run(p, now);
    if (is_at_work && !has_more && !why_is_said(&p->why)) {
        await(p, now);
    }
    if (is_at_work && why_is_said(&p->why)) {
        leave(p, now);
    }
    if (p->state == FABRIC_LEAVING && !p->is_disconnected) {
        disconnect_behind_sends(p, now);
    }
    bool is_time = p->state == FABRIC_LEAVING && !deadline_is_armed(&p->deadline);
    if ((p->is_disconnected || is_time) && p->state != FABRIC_ENDED) {
        sever(p, now);
    }
    if (p->state == FABRIC_ENDED && p->fabric->protocol->is_over(p)) {
        destroy(p);
        return false;
    }
    return has_more;
}

void fabric_pair_destroy(struct fabric_pair *p, instant_ns now)
{
    if (p->state != FABRIC_ENDED) {
        sever(p, now);
    }
    destroy(p);
}
