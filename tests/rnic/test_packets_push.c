// Short Writes of queue pairs on packets between two devices of one host: they are put into the
// peer's memory, and neither end has a packet for it. What is not sure goes by packets, and has
// what it always had.

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/key_mirror.h"
#include "base/prng.h"
#include "host/clock.h"
#include "link/datagram/udp.h"
#include "link/datagram/udp_link.h"
#include "rnic/post.h"
#include "tests/own_port.h"
#include "tests/rnic/device.h"
#include "tests/rnic/packet_qp.h"
#include "wq/status.h"

enum {
    MTU = 1024,
    DEPTH = 64,
    LEN = 256,
    LONG_LEN = 8192,
    PUSH_MAX = 4096,
    REGION_LEN = 16384,
    SOME_MS = 30
};

// `a` writes into the memory of `b`; two queue pairs of each.
struct world {
    struct device a, b;
    struct rnic_qp *from[2], *to[2];
};

static uint16_t port;

static void open_device(struct device *d, unsigned rights, bool has_extensions)
{
    const struct datagram_udp_config config = {.port = port,
                                               .is_local = true,
                                               .rights = rights,
                                               .linger_ns = DATAGRAM_LINGER_NS,
                                               .clock = host_clock};
    struct rnic_parts parts = {
        .config = device_config(),
        .clock = host_clock,
        .port = {.addrs = {{.addr = loopback()}}, .addr_count = 1, .path_mtu = MTU},
    };
    parts.config.extensions = has_extensions;
    assert_int_equal(getrandom(parts.stag_key, sizeof parts.stag_key, 0), sizeof parts.stag_key);
    assert_int_equal(datagram_udp_create(&config, &parts.datagrams), 0);
    device_open_parts(d, &parts);
}

/* ---- Writes ---------------------------------------------------------------------------------- */

struct write {
    uint32_t to, len; // both also where it comes from
    enum wqe_opcode opcode;
    uint32_t stag; // 0: that of b's buffer
};

static void post(struct world *w, unsigned i, const struct write *write)
{
    struct rnic_sq_cursor cursor;
    rnic_sq_begin(&cursor, w->from[i]);
    struct send_wqe *wqe = rnic_sq_slot(&cursor);
    assert_non_null(wqe);
    wqe->wr_id = i;
    wqe->opcode = write->opcode;
    wqe->flags = WQE_SIGNALED;
    wqe->rkey = write->stag != 0 ? write->stag : w->b.stag;
    wqe->remote_addr = (uintptr_t)w->b.buf + write->to;
    wqe->sge_count = 1;
    wqe->length = write->len;
    wqe->sge[0] = (struct sge){
        .addr = (uintptr_t)w->a.buf + write->to, .length = write->len, .lkey = w->a.stag};
    rnic_sq_commit(&cursor);
    rnic_sq_end(&cursor);
}

static enum wc_status write_by(struct world *w, unsigned i, uint32_t to, uint32_t len)
{
    post(w, i, &(struct write){.to = to, .len = len, .opcode = WQE_RDMA_WRITE});
    return device_poll(&w->a).status;
}

static uint64_t pushes(struct world *w)
{
    return device_count(&w->a, "local_pushes");
}

// So far the lane has to be there, and what was sent before acknowledged at the other end too.
static void warm_up(struct world *w, unsigned i)
{
    const instant_ns deadline_ns = host_clock(NULL) + DEVICE_PATIENCE_NS;
    for (uint64_t before = pushes(w); pushes(w) == before; pause_ms(1)) {
        assert_true(host_clock(NULL) < deadline_ns);
        assert_int_equal(write_by(w, i, 0, LONG_LEN), WC_SUCCESS);
        assert_int_equal(write_by(w, i, 0, LEN), WC_SUCCESS);
    }
}

// Not a stream of Writes. One that the device's own thread finds goes by packets: then another.
static void assert_pushed(struct world *w, unsigned i, uint32_t to, uint32_t len)
{
    const instant_ns deadline_ns = host_clock(NULL) + DEVICE_PATIENCE_NS;
    for (uint64_t before, packets = 0;; pause_ms(1)) {
        assert_true(host_clock(NULL) < deadline_ns);
        before = pushes(w);
        packets = device_count(&w->b, "packets_in");
        assert_int_equal(write_by(w, i, to, len), WC_SUCCESS);
        assert_memory_equal(w->b.buf + to, w->a.buf + to, len);
        if (pushes(w) == before + 1) {
            assert_int_equal(device_count(&w->b, "packets_in"), packets);
            return;
        }
    }
}

static void assert_not_pushed(struct world *w, unsigned i, const struct write *write,
                              enum wc_status status)
{
    const uint64_t before = pushes(w);
    pause_ms(1);
    post(w, i, write);
    assert_int_equal(device_poll(&w->a).status, status);
    assert_int_equal(pushes(w), before);
}

static void fill(struct world *w, uint8_t octet)
{
    memset(w->a.buf, octet, DEVICE_BUF_LEN);
}

static void connect_pair(struct world *w, unsigned i)
{
    w->from[i] = packet_qp_open(&w->a, RNIC_QP_RC, DEPTH);
    w->to[i] = packet_qp_open(&w->b, RNIC_QP_RC, DEPTH);
    packet_qp_connect(w->to[i], w->from[i]->qp_num, MTU);
    packet_qp_connect(w->from[i], w->to[i]->qp_num, MTU);
}

static struct world *world_begin(unsigned rights_a, unsigned rights_b, bool has_extensions)
{
    struct world *w = calloc(1, sizeof *w);
    port = own_port();
    open_device(&w->a, rights_a, has_extensions);
    open_device(&w->b, rights_b, has_extensions);
    connect_pair(w, 0);
    connect_pair(w, 1);
    return w;
}

static int begin(void **state)
{
    *state = world_begin(KEY_MAY_WRITE, KEY_MAY_WRITE, true);
    warm_up(*state, 0);
    return 0;
}

static void world_end(struct world *w)
{
    for (unsigned i = 0; i < 2; i++) {
        rnic_qp_destroy(w->from[i]);
        if (w->to[i] != NULL) {
            rnic_qp_destroy(w->to[i]);
        }
    }
    device_close(&w->a);
    device_close(&w->b);
    free(w);
}

static int end(void **state)
{
    world_end(*state);
    return 0;
}

/* ---- what goes so ---------------------------------------------------------------------------- */

static void short_write_needs_no_packet(void **state)
{
    struct world *w = *state;
    fill(w, 1);
    assert_pushed(w, 0, 0, 1);
    assert_pushed(w, 0, 7, LEN);
    assert_pushed(w, 0, 100, PUSH_MAX);
    assert_true(device_count(&w->a, "local_pushed_octets") >= 1 + LEN + PUSH_MAX);
    assert_true(device_count(&w->a, "pushed_writes") >= 3);
}

// No PSN was used up for them, at either end.
static void packets_go_on_behind_those_that_needed_none(void **state)
{
    struct world *w = *state;
    for (uint8_t n = 0; n < 20; n++) {
        fill(w, n);
        assert_pushed(w, 0, 0, LEN);
        assert_int_equal(write_by(w, 0, 0, LONG_LEN), WC_SUCCESS);
        assert_memory_equal(w->b.buf, w->a.buf, LONG_LEN);
        assert_int_equal(write_by(w, 0, 0, LEN), WC_SUCCESS); // a Write behind a long one
    }
    assert_int_equal(device_count(&w->a, "sequence_naks_in"), 0);
}

// What is posted behind another does not overtake it, whatever way that went.
static void writes_come_in_their_order(void **state)
{
    struct world *w = *state;
    for (unsigned n = 0; n < 300; n++) {
        const uint32_t at = LONG_LEN - 1;
        w->a.buf[at] = (uint8_t)n;
        post(w, 0, &(struct write){.to = 0, .len = LONG_LEN, .opcode = WQE_RDMA_WRITE});
        assert_int_equal(device_poll(&w->a).status, WC_SUCCESS);
        w->a.buf[at] = (uint8_t)~n;
        post(w, 0, &(struct write){.to = at, .len = 1, .opcode = WQE_RDMA_WRITE});
        post(w, 0, &(struct write){.to = at, .len = 1, .opcode = WQE_RDMA_WRITE});
        assert_int_equal(device_poll(&w->a).status, WC_SUCCESS);
        assert_int_equal(device_poll(&w->a).status, WC_SUCCESS);
        assert_int_equal(((volatile uint8_t *)w->b.buf)[at], (uint8_t)~n);
    }
}

struct spinner {
    volatile uint8_t *at;
    _Atomic uint32_t len; // of the Write that is to come; 0: none
    _Atomic uint32_t bad_len;
    atomic_bool is_over;
};

static void *spin(void *arg)
{
    struct spinner *s = arg;
    for (uint8_t n = 1; !atomic_load(&s->is_over);) {
        const uint32_t len = atomic_load(&s->len);
        if (len == 0 || s->at[len - 1] != n) {
            continue;
        }
        for (uint32_t i = 0; i < len; i++) {
            if (s->at[i] != n) {
                atomic_store(&s->bad_len, len);
            }
        }
        n = (uint8_t)(n % 250 + 1);
        atomic_store(&s->len, 0);
    }
    return NULL;
}

static void who_spins_on_the_last_octet_sees_all_before_it(void **state)
{
    struct world *w = *state;
    struct spinner s = {.at = w->b.buf};
    const uint64_t before = pushes(w);
    pthread_t thread;
    memset(w->b.buf, 0, PUSH_MAX);
    assert_int_equal(pthread_create(&thread, NULL, spin, &s), 0);
    uint8_t n = 1;
    for (uint32_t len = 1; len <= PUSH_MAX; len += len < 200 ? 1 : 97) {
        fill(w, n);
        atomic_store(&s.len, len);
        assert_int_equal(write_by(w, 0, 0, len), WC_SUCCESS);
        while (atomic_load(&s.len) != 0) {
        }
        n = (uint8_t)(n % 250 + 1);
    }
    atomic_store(&s.is_over, true);
    pthread_join(thread, NULL);
    assert_int_equal(s.bad_len, 0);
    assert_true(pushes(w) > before + 50);
}

// One packet wakes the peer once for many; one call for each does not pay.
static void writes_that_follow_each_other_go_by_packets(void **state)
{
    struct world *w = *state;
    const uint64_t before = pushes(w);
    for (unsigned n = 0; n < 1000 && device_count(&w->a, "local_pushes_streamed") == 0; n++) {
        for (unsigned i = 0; i < DEPTH; i++) {
            post(w, 0, &(struct write){.to = 0, .len = LEN, .opcode = WQE_RDMA_WRITE});
        }
        for (unsigned i = 0; i < DEPTH; i++) {
            assert_int_equal(device_poll(&w->a).status, WC_SUCCESS);
        }
    }
    assert_true(pushes(w) > before);
    assert_true(device_count(&w->a, "local_pushes_streamed") > 0);
}

/* ---- what does not --------------------------------------------------------------------------- */

static void other_messages_go_by_packets(void **state)
{
    struct world *w = *state;
    assert_not_pushed(w, 0, &(struct write){0, PUSH_MAX + 1, WQE_RDMA_WRITE, 0}, WC_SUCCESS);
    assert_not_pushed(w, 0, &(struct write){0, 0, WQE_RDMA_WRITE, 0}, WC_SUCCESS);
    assert_pushed(w, 0, 0, PUSH_MAX);
}

static void wrong_key_has_its_code(void **state)
{
    struct world *w = *state;
    const struct write wrong = {0, LEN, WQE_RDMA_WRITE, w->b.stag ^ 0x100};
    const uint64_t before = device_count(&w->a, "local_pushes_failed");
    assert_not_pushed(w, 0, &wrong, WC_REM_ACCESS_ERR);
    assert_int_equal(device_count(&w->a, "local_pushes_failed"), before + 1);
}

static uint32_t region_of(struct device *d, uint32_t pd, uint32_t access)
{
    uint32_t stag;
    assert_int_equal(
        rnic_region_register(d->rnic, pd, d->buf, REGION_LEN, (uintptr_t)d->buf, access, &stag), 0);
    return stag;
}

static void range_beyond_the_key_has_its_code(void **state)
{
    struct world *w = *state;
    const uint32_t stag =
        region_of(&w->b, w->b.pd, MEM_ACCESS_LOCAL_WRITE | MEM_ACCESS_REMOTE_WRITE);
    const struct write beyond = {REGION_LEN - LEN + 1, LEN, WQE_RDMA_WRITE, stag};
    assert_not_pushed(w, 0, &beyond, WC_REM_ACCESS_ERR);
    assert_int_equal(rnic_region_deregister(w->b.rnic, stag), 0);
}

static void key_without_the_right_has_its_code(void **state)
{
    struct world *w = *state;
    const uint32_t stag =
        region_of(&w->b, w->b.pd, MEM_ACCESS_LOCAL_WRITE | MEM_ACCESS_REMOTE_READ);
    assert_not_pushed(w, 0, &(struct write){0, LEN, WQE_RDMA_WRITE, stag}, WC_REM_ACCESS_ERR);
    assert_int_equal(rnic_region_deregister(w->b.rnic, stag), 0);
}

static void key_of_another_domain_has_its_code(void **state)
{
    struct world *w = *state;
    uint32_t pd;
    assert_int_equal(rnic_pd_alloc(w->b.rnic, &pd), 0);
    const uint32_t stag = region_of(&w->b, pd, MEM_ACCESS_LOCAL_WRITE | MEM_ACCESS_REMOTE_WRITE);
    assert_not_pushed(w, 0, &(struct write){0, LEN, WQE_RDMA_WRITE, stag}, WC_REM_ACCESS_ERR);
    assert_int_equal(rnic_region_deregister(w->b.rnic, stag), 0);
    assert_int_equal(rnic_pd_dealloc(w->b.rnic, pd), 0);
}

static void queue_pair_without_the_right_has_its_code(void **state)
{
    struct world *w = *state;
    const struct qp_change none = {.mask = QP_CHANGE_RIGHTS, .rights = 0};
    const uint64_t before = pushes(w);
    assert_int_equal(rnic_qp_change(w->to[0], &none), 0);
    memset(w->b.buf, 0, LEN);
    fill(w, 9);
    assert_int_equal(write_by(w, 0, 0, LEN), WC_REM_INV_REQ_ERR);
    assert_int_equal(w->b.buf[0], 0);
    assert_int_equal(pushes(w), before);
}

static void right_that_comes_back_lets_writes_in_again(void **state)
{
    struct world *w = *state;
    const struct qp_change none = {.mask = QP_CHANGE_RIGHTS, .rights = 0};
    const struct qp_change some = {.mask = QP_CHANGE_RIGHTS, .rights = MEM_ACCESS_REMOTE_WRITE};
    assert_int_equal(rnic_qp_change(w->to[0], &none), 0);
    assert_int_equal(rnic_qp_change(w->to[0], &some), 0);
    assert_pushed(w, 0, 0, LEN);
}

static void give_up_soon(struct world *w)
{
    const struct qp_change soon = {
        .mask = QP_CHANGE_TIMEOUT | QP_CHANGE_RETRY_COUNT, .timeout = 12, .retry_count = 0};
    assert_int_equal(rnic_qp_change(w->from[0], &soon), 0);
}

// A packet to it would not be answered either.
static void assert_gives_up(struct world *w)
{
    give_up_soon(w);
    memset(w->b.buf, 0, LEN);
    fill(w, 9);
    assert_not_pushed(w, 0, &(struct write){0, LEN, WQE_RDMA_WRITE, 0}, WC_RETRY_EXC_ERR);
    assert_int_equal(w->b.buf[0], 0);
}

static void queue_pair_in_error_takes_nothing(void **state)
{
    struct world *w = *state;
    assert_int_equal(rnic_qp_modify(w->to[0], QP_ERR), 0);
    assert_gives_up(w);
}

static void queue_pair_that_was_reset_takes_nothing(void **state)
{
    struct world *w = *state;
    assert_int_equal(rnic_qp_modify(w->to[0], QP_RESET), 0);
    assert_gives_up(w);
}

static void queue_pair_that_is_gone_takes_nothing(void **state)
{
    struct world *w = *state;
    rnic_qp_destroy(w->to[0]);
    w->to[0] = NULL;
    assert_gives_up(w);
}

// ... and is of another connection by now, though everything but the PSN is as it was.
static void queue_pair_that_begins_anew_takes_nothing_of_the_old_one(void **state)
{
    struct world *w = *state;
    assert_int_equal(write_by(w, 0, 0, LONG_LEN), WC_SUCCESS);
    assert_int_equal(rnic_qp_modify(w->to[0], QP_RESET), 0);
    packet_qp_connect(w->to[0], w->from[0]->qp_num, MTU);
    const uint64_t before = pushes(w);
    give_up_soon(w);
    memset(w->b.buf, 0, LEN);
    fill(w, 9);
    assert_int_not_equal(write_by(w, 0, 0, LEN), WC_SUCCESS);
    assert_int_equal(pushes(w), before);
    assert_int_equal(w->b.buf[0], 0);
}

// The other queue pair of `b` has another peer; the PSN is the same. Packets do not say from which
// queue pair they are: it takes them, and tells its own peer so.
static void queue_pair_of_another_peer_takes_packets_alone(void **state)
{
    struct world *w = *state;
    assert_int_equal(rnic_qp_modify(w->from[0], QP_RESET), 0);
    packet_qp_connect(w->from[0], w->to[1]->qp_num, MTU);
    give_up_soon(w);
    assert_not_pushed(w, 0, &(struct write){0, LEN, WQE_RDMA_WRITE, 0}, WC_RETRY_EXC_ERR);
}

// `who`: 1, a does not write past packets; 2, b lets nobody; 3, both are plain InfiniBand.
static void who_does_not_want_it_has_packets(void **state)
{
    for (unsigned who = 1; who <= 3; who++) {
        struct world *w =
            world_begin(who == 1 ? 0 : KEY_MAY_WRITE, who == 2 ? 0 : KEY_MAY_WRITE, who != 3);
        for (unsigned n = 0; n < 40; n++) {
            assert_int_equal(write_by(w, 0, 0, n < 20 ? LONG_LEN : LEN), WC_SUCCESS);
            pause_ms(n < 20 ? 0 : 1);
        }
        assert_true(device_count(&w->a, "local_packets_out") > 0);
        assert_int_equal(pushes(w), 0);
        world_end(w);
    }
}

// The memory of the lane that leads to `b`, as it has it.
static uint8_t *lane_of_b(struct world *w)
{
    struct datagram_udp *b = datagram_udp_of(w->b.rnic->shard.packets.link);
    uint8_t *memory = NULL;
    for (unsigned slot = 0; slot < DATAGRAM_SHARE_SLOTS && memory == NULL; slot++) {
        memory = b->lanes.in[slot].memory;
    }
    return memory;
}

// What says that it is `b` is not there, as where another process has its number.
static void process_that_is_not_the_one_gets_packets(void **state)
{
    struct world *w = world_begin(KEY_MAY_WRITE, KEY_MAY_WRITE, true);
    while (lane_of_b(w) == NULL) {
        assert_int_equal(write_by(w, 0, 0, LONG_LEN), WC_SUCCESS);
    }
    atomic_fetch_xor(&lane_gate(lane_of_b(w))->nonce, 1);
    for (unsigned n = 0; n < 20; n++) {
        assert_int_equal(write_by(w, 0, 0, LONG_LEN), WC_SUCCESS);
        assert_int_equal(write_by(w, 0, 0, LEN), WC_SUCCESS);
        pause_ms(1);
    }
    assert_int_equal(pushes(w), 0);
    assert_int_equal(device_count(&w->a, "local_pushes_forbidden"), 1);
    world_end(w);
}

/* ---- taking back ----------------------------------------------------------------------------- */

static void key_that_is_taken_back_lets_nobody_in(void **state)
{
    struct world *w = *state;
    const uint32_t stag = w->b.stag;
    assert_int_equal(rnic_region_deregister(w->b.rnic, stag), 0);
    memset(w->b.buf, 0, LEN);
    fill(w, 9);
    assert_not_pushed(w, 0, &(struct write){0, LEN, WQE_RDMA_WRITE, stag}, WC_REM_ACCESS_ERR);
    assert_int_equal(w->b.buf[0], 0);
    device_register(&w->b);
}

// A thread of this process says that it is in, in the name of `a`.
struct liar {
    struct local_slot *slot;
    uint64_t generation, opening;
    atomic_bool is_in, may_leave;
};

static struct liar liar_of(struct world *w)
{
    struct datagram_udp *b = datagram_udp_of(w->b.rnic->shard.packets.link);
    struct liar liar = {.opening = w->to[0]->on_packets.gate.opening};
    struct key key;
    assert_true(key_mirror_find(&b->lanes.own_keys.shown->keys, w->b.stag, &key));
    liar.generation = key.generation;
    liar.slot = lane_slot(lane_of_b(w), LANE_SLOTS - 1);
    assert_non_null(liar.slot);
    return liar;
}

// Runs on and on, as a copy may. ThreadSanitizer's atomics would sleep in a call, which is seen to
// be another.
__attribute__((no_sanitize("thread"))) static void *linger(void *arg)
{
    struct liar *liar = arg;
    atomic_store(&liar->slot->thread, (uint64_t)gettid());
    atomic_store(&liar->slot->turn, atomic_load(&liar->slot->turn) + 1);
    atomic_store(&liar->slot->opening, liar->opening);
    atomic_store(&liar->slot->generation, liar->generation);
    atomic_store(&liar->is_in, true);
    while (!atomic_load(&liar->may_leave)) {
    }
    atomic_store(&liar->slot->generation, 0);
    return NULL;
}

struct call {
    struct world *world;
    void (*make)(struct world *w);
    atomic_bool is_done;
};

static void *call_main(void *arg)
{
    struct call *call = arg;
    call->make(call->world);
    atomic_store(&call->is_done, true);
    return NULL;
}

// The call waits until he is out; meanwhile the device goes on.
static void assert_waits_for_who_is_in(struct world *w, void (*make)(struct world *w),
                                       unsigned some_ms)
{
    struct liar liar = liar_of(w);
    struct call call = {.world = w, .make = make};
    pthread_t liar_thread, call_thread;
    assert_int_equal(pthread_create(&liar_thread, NULL, linger, &liar), 0);
    while (!atomic_load(&liar.is_in)) {
    }
    assert_int_equal(pthread_create(&call_thread, NULL, call_main, &call), 0);
    pause_ms(some_ms);
    assert_false(atomic_load(&call.is_done));
    assert_int_equal(write_by(w, 1, LONG_LEN, LONG_LEN), WC_SUCCESS);
    assert_false(atomic_load(&call.is_done));
    atomic_store(&liar.may_leave, true);
    pthread_join(call_thread, NULL);
    pthread_join(liar_thread, NULL);
}

static void deregister(struct world *w)
{
    assert_int_equal(rnic_region_deregister(w->b.rnic, w->b.stag), 0);
}

static void reset(struct world *w)
{
    assert_int_equal(rnic_qp_modify(w->to[0], QP_RESET), 0);
}

static void destroy(struct world *w)
{
    rnic_qp_destroy(w->to[0]);
    w->to[0] = NULL;
}

static void take_right(struct world *w)
{
    const struct qp_change none = {.mask = QP_CHANGE_RIGHTS, .rights = 0};
    assert_int_equal(rnic_qp_change(w->to[0], &none), 0);
}

static void move_to_error(struct world *w)
{
    assert_int_equal(rnic_qp_modify(w->to[0], QP_ERR), 0);
}

static void deregistration_waits_for_who_is_in(void **state)
{
    struct world *w = *state;
    struct liar liar = liar_of(w);
    struct call call = {.world = w, .make = deregister};
    pthread_t liar_thread, call_thread;
    assert_int_equal(pthread_create(&liar_thread, NULL, linger, &liar), 0);
    while (!atomic_load(&liar.is_in)) {
    }
    assert_int_equal(pthread_create(&call_thread, NULL, call_main, &call), 0);
    assert_true(device_waits_for_count(&w->b, "local_revocations_long", 1));
    assert_false(atomic_load(&call.is_done));
    atomic_store(&liar.may_leave, true);
    pthread_join(call_thread, NULL);
    pthread_join(liar_thread, NULL);
    device_register(&w->b);
}

// Under the lock for no more than 100 ms, and without it as long as it takes.
static void queue_pair_waits_for_who_is_in(void **state)
{
    void (*const calls[])(struct world * w) = {take_right, move_to_error, reset, destroy};
    for (unsigned i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        struct world *w = world_begin(KEY_MAY_WRITE, KEY_MAY_WRITE, true);
        warm_up(w, 0);
        assert_waits_for_who_is_in(w, calls[i], SOME_MS);
        world_end(w);
    }
}

// By another key, or to another queue pair.
static void who_is_in_for_something_else_is_not_waited_for(void **state)
{
    struct world *w = *state;
    struct liar liar = liar_of(w);
    pthread_t thread;
    const uint32_t stag =
        region_of(&w->b, w->b.pd, MEM_ACCESS_LOCAL_WRITE | MEM_ACCESS_REMOTE_WRITE);
    assert_int_equal(pthread_create(&thread, NULL, linger, &liar), 0);
    while (!atomic_load(&liar.is_in)) {
    }
    assert_int_equal(rnic_region_deregister(w->b.rnic, stag), 0);
    assert_int_equal(rnic_qp_modify(w->to[1], QP_RESET), 0);
    atomic_store(&liar.may_leave, true);
    pthread_join(thread, NULL);
}

/* ---- who is killed --------------------------------------------------------------------------- */

enum { VICTIMS = 6 };

// A process that writes until it is killed.
struct victim {
    pid_t process;
    int fd;
};

struct place {
    uint32_t qp_num, stag;
    uint8_t *buf; // in its process
};

static void say(int fd, const void *what, size_t len)
{
    assert_int_equal(write(fd, what, len), len);
}

static void hear(int fd, void *ret, size_t len)
{
    assert_int_equal(read(fd, ret, len), len);
}

static void victim_live(int fd)
{
    struct world w = {.a = {.rnic = NULL}};
    struct place to;
    if (read(fd, &port, sizeof port) != sizeof port) {
        _exit(0);
    }
    open_device(&w.a, KEY_MAY_WRITE, true);
    w.from[0] = packet_qp_open(&w.a, RNIC_QP_RC, DEPTH);
    fill(&w, 0x55);
    say(fd, &w.from[0]->qp_num, sizeof w.from[0]->qp_num);
    hear(fd, &to, sizeof to);
    w.b.stag = to.stag;
    w.b.buf = to.buf;
    packet_qp_connect(w.from[0], to.qp_num, MTU);
    for (unsigned n = 0;; n++) {
        write_by(&w, 0, 0, n < 20 ? LONG_LEN : PUSH_MAX);
        usleep(n < 20 ? 0 : 30); // no stream
    }
}

static void victim_begin(struct victim *v)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    v->process = fork();
    if (v->process == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        victim_live(ends[1]);
    }
    close(ends[1]);
    v->fd = ends[0];
}

// Writes past packets that have come, as the lane to `d` says.
static uint64_t turns_in(struct device *d)
{
    struct datagram_udp *udp = datagram_udp_of(d->rnic->shard.packets.link);
    uint64_t turns = 0;
    rnic_enter(d->rnic);
    for (unsigned slot = 0; slot < DATAGRAM_SHARE_SLOTS; slot++) {
        uint8_t *memory = udp->lanes.in[slot].memory;
        turns += memory != NULL ? atomic_load(&lane_slot(memory, 0)->turn) : 0;
    }
    rnic_leave(d->rnic, 0);
    return turns;
}

// Its memory is taken back at once, and stays as it is.
static void kill_one(struct device *d, struct victim *v, struct prng *rng)
{
    struct rnic_qp *qp = packet_qp_open(d, RNIC_QP_RC, DEPTH);
    struct place place = {.qp_num = qp->qp_num, .stag = d->stag, .buf = d->buf};
    uint32_t peer;
    while (turns_in(d) != 0) { // the lane of the one before
        pause_ms(1);
    }
    say(v->fd, &port, sizeof port);
    hear(v->fd, &peer, sizeof peer);
    packet_qp_connect(qp, peer, MTU);
    say(v->fd, &place, sizeof place);
    while (turns_in(d) < 3) {
        pause_ms(1);
    }
    usleep((useconds_t)(prng_next(rng) % 2000));
    kill(v->process, SIGKILL);
    assert_int_equal(rnic_region_deregister(d->rnic, d->stag), 0);
    memset(d->buf, 0xaa, PUSH_MAX);
    close(v->fd);
    assert_int_equal(waitpid(v->process, NULL, 0), v->process);
    for (unsigned i = 0; i < PUSH_MAX; i++) {
        assert_int_equal(d->buf[i], 0xaa);
    }
    device_register(d);
    rnic_qp_destroy(qp);
}

static void peer_that_is_killed_holds_up_nothing(void **state)
{
    struct victim victims[VICTIMS];
    struct device d;
    struct prng rng;
    prng_init(&rng, 7);
    for (unsigned i = 0; i < VICTIMS; i++) { // while this process has no thread
        victim_begin(&victims[i]);
    }
    port = own_port();
    open_device(&d, KEY_MAY_WRITE, true);
    for (unsigned i = 0; i < VICTIMS; i++) {
        kill_one(&d, &victims[i], &rng);
    }
    device_close(&d);
}

#define PUSH_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peer_that_is_killed_holds_up_nothing),
        PUSH_TEST(short_write_needs_no_packet),
        PUSH_TEST(packets_go_on_behind_those_that_needed_none),
        PUSH_TEST(writes_come_in_their_order),
        PUSH_TEST(who_spins_on_the_last_octet_sees_all_before_it),
        PUSH_TEST(writes_that_follow_each_other_go_by_packets),
        PUSH_TEST(other_messages_go_by_packets),
        PUSH_TEST(wrong_key_has_its_code),
        PUSH_TEST(range_beyond_the_key_has_its_code),
        PUSH_TEST(key_without_the_right_has_its_code),
        PUSH_TEST(key_of_another_domain_has_its_code),
        PUSH_TEST(queue_pair_without_the_right_has_its_code),
        PUSH_TEST(right_that_comes_back_lets_writes_in_again),
        PUSH_TEST(queue_pair_in_error_takes_nothing),
        PUSH_TEST(queue_pair_that_was_reset_takes_nothing),
        PUSH_TEST(queue_pair_that_is_gone_takes_nothing),
        PUSH_TEST(queue_pair_that_begins_anew_takes_nothing_of_the_old_one),
        PUSH_TEST(queue_pair_of_another_peer_takes_packets_alone),
        cmocka_unit_test(who_does_not_want_it_has_packets),
        cmocka_unit_test(process_that_is_not_the_one_gets_packets),
        PUSH_TEST(key_that_is_taken_back_lets_nobody_in),
        PUSH_TEST(deregistration_waits_for_who_is_in),
        cmocka_unit_test(queue_pair_waits_for_who_is_in),
        PUSH_TEST(who_is_in_for_something_else_is_not_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
