// Random programs at both ends of a connection between two real processes of one host, through
// memory of both and past it. One seed draws how the devices are set, what is posted, how it lies
// and how it ends (one_host_drawn.h). Each process looks at what it can see itself:
//
//     memory    each octet that the peer writes names the work request that brought it: the last
//               one that is known to be over, or a later one; what a Read or an atomic brings is
//               what the order of posting says; a source is spoilt behind its completion
//     order     completions come in posting order, each once; what is written before an octet that
//               is there, is there; and so is all of its own Write before the last one
//     delivery  messages come in the order of their sending, each once and whole, with length,
//               opcode, immediate data and invalidated key; all that was sent before is there
//     fences    what is written behind a fence is not seen by the Reads that it waits for
//     rights    what names wrong memory changes nothing, and nothing behind it is successful; no
//               octet comes behind the return of a deregistration
//
//     SEED=7 build/tests/test_rnic_one_host       # that one; SEEDS=n: so many
//     WEFT_SOAK=1 build/tests/test_rnic_one_host  # 2,000
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "host/clock.h"
#include "link/local/local.h"
#include "link/socket.h"
#include "rnic/post.h"
#include "tests/rnic/device.h"
#include "tests/rnic/one_host_drawn.h"
#include "tests/rnic/one_host_written.h"
#include "tests/seeds.h"

enum {
    SEED_COUNT = 60,
    SEED_COUNT_SOAK = 2000,
    RECEIVE_COUNT = DRAWN_OPEN_MAX,
    RECEIVES_AT = DRAWN_OPEN_MAX * DRAWN_SLOT_LEN, // in the local memory; before it sources
    LOCAL_LEN = RECEIVES_AT + RECEIVE_COUNT * DRAWN_SLOT_LEN,
    QUEUE_LEN = 2 * DRAWN_OPEN_MAX,
    BUSY_MAX_US = 300, // with something else, before memory is taken back
    SPOILT = 0xee,
    PRIVATE = 0x5a,
    RECEIVE = 1 << 16, // in wr_id
};

#define SLEEP_NS NS_PER_MS // a sleeper looks whether the peer has come to its end

// What the peer has to know before it posts, in memory of both.
struct told {
    atomic_bool is_there;
    uint8_t *target, *private;
    uint32_t stag, windows[DRAWN_WINDOW_COUNT];
    uint32_t read_only, write_only; // of `private`
};

// What took part, over all seeds.
struct sums {
    _Atomic uint64_t streams, pulls, pushes, received, broken;
};

struct shared {
    struct told told[2];
    atomic_bool is_done[2];
};

static struct sums *sums;

struct open_op {
    const struct drawn_op *op;
    uint8_t expected[DRAWN_SLOT_LEN]; // what it brings
};

struct run {
    const struct drawn *drawn;
    const struct drawn_end *how;
    const struct drawn_program *program, *peers; // our own, the peer's
    unsigned index;
    struct shared *shared;
    struct told *own, *peer;
    struct prng prng;
    struct device device;
    struct end listener, end;
    struct rnic_cq *cq;
    struct rnic_srq *srq;
    sem_t event;
    uint8_t *target, *private, *local;
    uint32_t window_region, local_stag;
    uint8_t shadow[DRAWN_TARGET_LEN]; // of the peer: numbers, once all that was posted is done
    unsigned first, next;             // of the program: complete before, posted before
    struct open_op open[DRAWN_OPEN_MAX];
    struct written written; // to our own memory
    unsigned messages_end;  // of the peer's program: received before
    unsigned receive_first, receive_next, received;
    bool has_failed; // a work request of the program
    bool has_ended;  // ... or a receive was flushed: nothing is posted any more
    bool is_withdrawn;
};

static instant_ns patience_end(void)
{
    return host_clock(NULL) + DEVICE_PATIENCE_NS;
}

static bool chance(struct run *r, uint32_t of_1024)
{
    return prng_below(&r->prng, 1024) < of_1024;
}

static bool may_fail(const struct run *r)
{
    return r->drawn->ending != ENDING_QUIET;
}

/* ---- posting --------------------------------------------------------------------------------- */

static uint8_t *source_of(const struct run *r, unsigned number)
{
    return r->local + (size_t)(number % DRAWN_OPEN_MAX) * DRAWN_SLOT_LEN;
}

static uint8_t *receive_of(const struct run *r, unsigned number)
{
    return r->local + RECEIVES_AT + (size_t)(number % RECEIVE_COUNT) * DRAWN_SLOT_LEN;
}

// What travels lies in the source; what comes back is expected there.
static void prepare(struct run *r, unsigned number, const struct drawn_op *op)
{
    struct open_op *open = &r->open[number % DRAWN_OPEN_MAX];
    uint8_t *source = source_of(r, number);
    open->op = op;
    if (op->opcode == WQE_RDMA_READ && !op->is_wrong && !op->is_of_atomic) {
        for (uint32_t i = 0; i < op->len; i++) {
            open->expected[i] = drawn_octet(r->shadow[op->at + i], op->at + i);
        }
    } else if (drawn_brings(op)) {
        memcpy(open->expected, &op->original, sizeof op->original);
    }
    for (uint32_t i = 0; i < op->len && !drawn_brings(op); i++) {
        source[i] = drawn_octet((uint8_t)number, op->at + i);
        if (drawn_covers(op, op->at + i)) {
            r->shadow[op->at + i] = (uint8_t)number;
        }
    }
}

static void name_remote(const struct run *r, const struct drawn_op *op, struct send_wqe *wqe)
{
    const struct told *peer = r->peer;
    wqe->rkey = op->window >= 0 ? peer->windows[op->window] : peer->stag;
    wqe->remote_addr = (uintptr_t)peer->target + op->at;
    if (op->is_wrong && r->drawn->ending == ENDING_WRONG_KEY) {
        wqe->rkey ^= 0x5500;
    } else if (op->is_wrong && r->drawn->ending == ENDING_RIGHTS) {
        wqe->rkey = op->opcode == WQE_RDMA_READ ? peer->write_only : peer->read_only;
        wqe->remote_addr = (uintptr_t)peer->private;
    }
    wqe->imm_or_inv = op->opcode == WQE_SEND_WITH_INV ? peer->windows[op->window] : op->immediate;
    wqe->compare_add = op->compare_add;
    wqe->swap = op->swap;
}

static void list_parts(const struct run *r, unsigned number, const struct drawn_op *op,
                       struct send_wqe *wqe)
{
    uint8_t *at = source_of(r, number);
    if ((op->flags & WQE_INLINE) != 0) {
        memcpy(wqe->inline_data, at, op->len);
        memset(at, SPOILT, op->len); // it is the program's again
        wqe->sge_count = 0;
        return;
    }
    for (unsigned i = 0; i < op->part_count; i++) {
        wqe->sge[i] =
            (struct sge){.addr = (uintptr_t)at, .length = op->parts[i], .lkey = r->local_stag};
        at += op->parts[i];
    }
    wqe->sge_count = op->part_count;
}

// What is wrong goes when nothing is out, so that nothing forbids the shortest way.
static bool may_post(const struct run *r)
{
    bool is_wrong = r->next <= r->program->count && r->program->ops[r->next].is_wrong;
    if (is_wrong && r->first < r->next) {
        return false;
    }
    return r->next <= r->program->count && r->next - r->first < DRAWN_OPEN_MAX && !r->has_ended;
}

static void post(struct run *r, unsigned count)
{
    struct rnic_sq_cursor cursor;
    rnic_sq_begin(&cursor, r->end.qp);
    for (; count > 0 && may_post(r); count--, r->next++) {
        const struct drawn_op *op = &r->program->ops[r->next];
        struct send_wqe *wqe = rnic_sq_slot(&cursor);
        assert_non_null(wqe);
        prepare(r, r->next, op);
        wqe->wr_id = r->next;
        wqe->opcode = op->opcode;
        wqe->flags = op->flags;
        wqe->length = op->len;
        name_remote(r, op, wqe);
        list_parts(r, r->next, op, wqe);
        rnic_sq_commit(&cursor);
    }
    rnic_sq_end(&cursor);
}

static void post_receive(struct run *r)
{
    struct rnic_rq_cursor cursor;
    if (r->receive_next - r->receive_first == RECEIVE_COUNT) {
        return;
    }
    if (r->srq != NULL) {
        rnic_srq_begin(&cursor, r->srq);
    } else {
        rnic_rq_begin(&cursor, r->end.qp);
    }
    struct recv_wqe *wqe = rnic_rq_slot(&cursor);
    uint32_t first = prng_below(&r->prng, DRAWN_SLOT_LEN + 1);
    uint8_t *at = receive_of(r, r->receive_next);
    assert_non_null(wqe);
    memset(at, SPOILT, DRAWN_SLOT_LEN);
    wqe->wr_id = RECEIVE | r->receive_next++;
    wqe->sge_count = 2;
    wqe->sge[0] = (struct sge){(uintptr_t)at, first, r->local_stag};
    wqe->sge[1] = (struct sge){(uintptr_t)at + first, DRAWN_SLOT_LEN - first, r->local_stag};
    rnic_rq_commit(&cursor);
    rnic_rq_end(&cursor);
}

/* ---- completions ----------------------------------------------------------------------------- */

static void retire(struct run *r, bool is_success)
{
    const struct open_op *open = &r->open[r->first % DRAWN_OPEN_MAX];
    uint8_t *source = source_of(r, r->first);
    if (is_success && drawn_brings(open->op)) {
        assert_false(open->op->is_wrong);
        assert_memory_equal(source, open->expected, open->op->len);
    }
    memset(source, SPOILT, open->op->len); // who reads it later sends nonsense
    r->first++;
}

// Those before `end` are complete, and have not said so.
static void retire_silent(struct run *r, unsigned end)
{
    while (r->first < end) {
        const struct drawn_op *op = r->open[r->first % DRAWN_OPEN_MAX].op;
        assert_false((op->flags & WQE_SIGNALED) != 0 || r->how->sq_sig_all || r->has_failed);
        retire(r, true);
    }
}

static void on_sent(struct run *r, const struct cqe *cqe)
{
    bool is_success = cqe->status == WC_SUCCESS;
    assert_true(cqe->wr_id >= r->first && cqe->wr_id < r->next);
    assert_true(is_success || may_fail(r));
    assert_false(is_success && r->has_failed);
    retire_silent(r, (unsigned)cqe->wr_id);
    r->has_failed |= !is_success;
    r->has_ended |= !is_success;
    retire(r, is_success);
}

static unsigned next_message(const struct run *r)
{
    unsigned n = r->messages_end;
    while (n <= r->peers->count && !drawn_takes_receive(&r->peers->ops[n])) {
        n++;
    }
    assert_true(n <= r->peers->count);
    return n;
}

static void expect_message(const struct run *r, const struct cqe *cqe, unsigned n)
{
    const struct drawn_op *op = &r->peers->ops[n];
    bool is_write = op->opcode == WQE_RDMA_WRITE_WITH_IMM;
    bool has_inv = op->opcode == WQE_SEND_WITH_INV;
    bool has_imm = is_write || op->opcode == WQE_SEND_WITH_IMM;
    const uint8_t *buffer = receive_of(r, r->receive_first);
    assert_int_equal(cqe->opcode, is_write ? WC_RECV_RDMA_WITH_IMM : WC_RECV);
    assert_int_equal(cqe->byte_len, op->len);
    assert_int_equal(cqe->wc_flags, (has_imm ? WC_WITH_IMM : 0) | (has_inv ? WC_WITH_INV : 0));
    assert_true(!has_imm || cqe->imm_data == op->immediate);
    assert_true(!has_inv || cqe->inv_rkey == r->own->windows[op->window]);
    for (uint32_t i = 0; i < DRAWN_SLOT_LEN; i++) {
        bool is_message = i < op->len && !is_write;
        assert_int_equal(buffer[i], is_message ? drawn_octet((uint8_t)n, i) : SPOILT);
    }
}

static bool is_done(const struct run *r)
{
    return r->first > r->program->count && r->received == r->peers->message_count;
}

static void on_received(struct run *r, const struct cqe *cqe)
{
    assert_int_equal(cqe->wr_id, RECEIVE | r->receive_first);
    if (cqe->status == WC_SUCCESS) {
        unsigned n = next_message(r);
        expect_message(r, cqe, n);
        if (!r->is_withdrawn) {
            written_settle(&r->written, n + 1, "behind a message that was sent later");
        }
        r->messages_end = n + 1;
        r->received++;
    } else { // or nothing comes any more, and it is left over
        assert_true(may_fail(r) || is_done(r));
        r->has_ended = true;
    }
    r->receive_first++;
}

static bool poll_one(struct run *r)
{
    struct cqe cqe;
    int count = rnic_cq_poll(r->cq, &cqe, 1);
    assert_true(count >= 0);
    if (count > 0) {
        (cqe.wr_id & RECEIVE) != 0 ? on_received(r, &cqe) : on_sent(r, &cqe);
    }
    return count > 0;
}

static void on_event(void *ctx)
{
    sem_post(&((struct run *)ctx)->event);
}

static void sleep_until_event(struct run *r)
{
    struct timespec until;
    rnic_cq_arm(r->cq, false);
    if (poll_one(r)) {
        return;
    }
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)SLEEP_NS;
    until.tv_sec += until.tv_nsec / (long)NS_PER_S;
    until.tv_nsec %= (long)NS_PER_S;
    sem_timedwait(&r->event, &until);
}

/* ---- a program runs -------------------------------------------------------------------------- */

static void pause_us(unsigned us)
{
    const struct timespec pause = {.tv_nsec = (long)us * 1000};
    if (us > 0) {
        nanosleep(&pause, NULL);
    }
}

// Keys that nobody uses come and go beside those that are used.
static void register_for_nothing(struct run *r)
{
    uint32_t stag;
    assert_int_equal(rnic_region_register(r->device.rnic, r->device.pd, r->local, LOCAL_LEN,
                                          (uintptr_t)r->local, MEM_ACCESS_ALL, &stag),
                     0);
    assert_int_equal(rnic_region_deregister(r->device.rnic, stag), 0);
}

// When it returns no octet comes any more, and none is read: the memory is the program's again. It
// has been at something else just before, so that what comes then comes past the stream.
static void withdraw(struct run *r)
{
    pause_us(prng_below(&r->prng, BUSY_MAX_US));
    assert_int_equal(rnic_region_deregister(r->device.rnic, r->own->stag), 0);
    memset(r->target, SPOILT, DRAWN_TARGET_LEN);
    r->is_withdrawn = true;
}

static void act(struct run *r)
{
    switch (prng_below(&r->prng, 8)) {
    case 0:
    case 1:
        post(r, 1 + prng_below(&r->prng, r->how->burst_max));
        break;
    case 2:
        register_for_nothing(r);
        break;
    case 3:
        if (!r->is_withdrawn) {
            written_probe(&r->written);
        }
        break;
    case 4:
        pause_us(r->how->think_us);
        break;
    default:
        while (poll_one(r)) {
        }
        if (r->how->is_asleep && (!may_post(r) || chance(r, 100))) {
            sleep_until_event(r);
        }
    }
    if (chance(r, r->how->receive_rate)) {
        post_receive(r);
    }
    bool is_to_withdraw = r->drawn->ending == ENDING_WITHDRAWN && r->drawn->culprit == r->index;
    if (is_to_withdraw && !r->is_withdrawn && r->first > r->drawn->withdrawn_at) {
        withdraw(r);
    }
}

// Both programs have come to their end, or the connection has.
static bool is_over(struct run *r)
{
    bool must_fail = may_fail(r) && r->drawn->ending != ENDING_WITHDRAWN;
    if (end_has_event(&r->end)) {
        return true;
    }
    if (!must_fail && is_done(r)) {
        atomic_store(&r->shared->is_done[r->index], true);
        return atomic_load(&r->shared->is_done[r->index ^ 1]);
    }
    return false;
}

static void run_program(struct run *r)
{
    instant_ns deadline_ns = patience_end();
    while (!is_over(r)) {
        unsigned moved = r->first + r->receive_first;
        act(r);
        deadline_ns = moved != r->first + r->receive_first ? patience_end() : deadline_ns;
        assert_true(host_clock(NULL) < deadline_ns);
    }
}

/* ---- the end --------------------------------------------------------------------------------- */

static void expect_all_memory(struct run *r)
{
    if (!may_fail(r)) {
        written_expect_done(&r->written);
    }
    if (!r->is_withdrawn) {
        written_expect_all(&r->written);
    }
    for (uint32_t at = 0; at < DRAWN_TARGET_LEN && r->is_withdrawn; at++) {
        assert_int_equal(r->target[at], SPOILT);
    }
    for (unsigned i = 0; i < DRAWN_PRIVATE_LEN; i++) {
        assert_int_equal(r->private[i], PRIVATE);
    }
}

static void finish(struct run *r)
{
    if (r->index == 1) {
        rnic_ep_disconnect(r->end.ep); // that of a connection that has failed says so
    }
    end_take(&r->end, RNIC_EP_DISCONNECTED);
    instant_ns deadline_ns = patience_end();
    while (poll_one(r) || wq_send_count(r->end.qp->wq) > 0) {
        assert_true(host_clock(NULL) < deadline_ns);
    }
    while (poll_one(r)) { // what came just before the last look
    }
    retire_silent(r, r->next);
    assert_true(may_fail(r) || is_done(r));
    expect_all_memory(r);
    atomic_fetch_add(&sums->streams, device_count(&r->device, "local.streams"));
    atomic_fetch_add(&sums->pulls, device_count(&r->device, "local.pulls"));
    atomic_fetch_add(&sums->pushes, device_count(&r->device, "local.pushes"));
    atomic_fetch_add(&sums->broken, device_count(&r->device, "local.broken"));
    atomic_fetch_add(&sums->received, r->received);
}

/* ---- the beginning --------------------------------------------------------------------------- */

static void open_device(struct run *r)
{
    const struct link_socket_config socket_config = {.peer_timeout_ns = DEVICE_PATIENCE_NS};
    const struct link_local_config local_config = {.ring_len = r->drawn->ring_len,
                                                   .linger_ns = LINK_LOCAL_LINGER_NS,
                                                   .clock = host_clock,
                                                   .rights = r->how->rights};
    struct rnic_parts parts = {.config = device_config(), .clock = host_clock};
    parts.config.crc = r->drawn->crc_within_host;
    parts.config.crc_within_host = r->drawn->crc_within_host;
    parts.config.write_flush = r->drawn->write_flush;
    assert_int_equal(link_socket_create(&socket_config, &parts.link), 0);
    assert_int_equal(link_local_wrap(parts.link, &local_config, &parts.link), 0);
    assert_int_equal(getrandom(parts.stag_key, sizeof parts.stag_key, 0), sizeof parts.stag_key);
    device_open_parts(&r->device, &parts);
}

static uint32_t register_as(struct run *r, void *octets, size_t len, uint32_t access)
{
    uint32_t stag;
    assert_int_equal(rnic_region_register(r->device.rnic, r->device.pd, octets, len,
                                          (uintptr_t)octets, access, &stag),
                     0);
    return stag;
}

static void open_memory(struct run *r)
{
    const uint32_t all = MEM_ACCESS_ALL & ~(uint32_t)MEM_ACCESS_ZERO_BASED;
    r->target = aligned_alloc(4096, DRAWN_TARGET_LEN);
    r->private = malloc(DRAWN_PRIVATE_LEN);
    r->local = malloc(LOCAL_LEN);
    written_init(&r->written, r->target, r->peers);
    memset(r->private, PRIVATE, DRAWN_PRIVATE_LEN);
    r->own->target = r->target;
    r->own->private = r->private;
    r->own->stag = register_as(r, r->target, DRAWN_TARGET_LEN, all);
    r->own->read_only = register_as(r, r->private, DRAWN_PRIVATE_LEN,
                                    MEM_ACCESS_LOCAL_WRITE | MEM_ACCESS_REMOTE_READ);
    r->own->write_only = register_as(r, r->private, DRAWN_PRIVATE_LEN,
                                     MEM_ACCESS_LOCAL_WRITE | MEM_ACCESS_REMOTE_WRITE);
    r->window_region = register_as(r, r->target, DRAWN_TARGET_LEN, all);
    r->local_stag = register_as(r, r->local, LOCAL_LEN, MEM_ACCESS_LOCAL_WRITE);
}

static void open_queues(struct run *r)
{
    const struct cq_port port = {.on_event = on_event, .ctx = r};
    struct rnic_qp *qp;
    sem_init(&r->event, 0, 0);
    assert_int_equal(rnic_cq_create(r->device.rnic, 4 * QUEUE_LEN, &port, &r->cq), 0);
    if (r->how->has_srq) {
        assert_int_equal(rnic_srq_create(r->device.rnic, r->device.pd, QUEUE_LEN, 2,
                                         &(struct rnic_async_port){0}, &r->srq),
                         0);
    }
    const struct rnic_qp_init init = {
        .pd = r->device.pd,
        .send_cq = r->cq,
        .recv_cq = r->cq,
        .srq = r->srq,
        .max_send_wr = QUEUE_LEN,
        .max_recv_wr = QUEUE_LEN,
        .max_send_sge = DRAWN_SGE_MAX,
        .max_recv_sge = 2,
        .max_inline_len = DRAWN_INLINE_MAX,
        .sq_sig_all = r->how->sq_sig_all,
    };
    assert_int_equal(rnic_qp_create(r->device.rnic, &init, &qp), 0);
    end_init_with(&r->end, &r->device, qp);
}

static void tell(struct run *r)
{
    atomic_store(&r->own->is_there, true);
}

static void wait_until_told(struct run *r)
{
    instant_ns deadline_ns = patience_end();
    while (!atomic_load(&r->peer->is_there)) {
        assert_true(host_clock(NULL) < deadline_ns);
        sched_yield();
    }
}

// Who connects waits at a pipe for the address: the kernel has drawn its port.
static void connect_ends(struct run *r, int *fds)
{
    const struct rnic_ep_params params = {.ird = r->how->reads, .ord = r->how->reads};
    struct sockaddr_in addr;
    if (r->index == 0) {
        end_listen(&r->listener, &r->device, &addr);
        assert_int_equal(write(fds[1], &addr, sizeof addr), sizeof addr);
        end_take_request(&r->end, &r->listener);
        assert_int_equal(rnic_ep_accept(r->end.ep, r->end.qp, &params), 0);
    } else {
        assert_int_equal(read(fds[0], &addr, sizeof addr), sizeof addr);
        end_bind(&r->end);
        const struct sockaddr *to = (const struct sockaddr *)&addr;
        assert_int_equal(rnic_ep_connect(r->end.ep, to, r->end.qp, &params), 0);
    }
    end_take(&r->end, RNIC_EP_ESTABLISHED);
}

static void bind_window(struct run *r, unsigned i)
{
    struct rnic_sq_cursor cursor;
    struct cqe cqe;
    assert_int_equal(rnic_window_alloc(r->device.rnic, r->device.pd, 2, &r->own->windows[i]), 0);
    rnic_sq_begin(&cursor, r->end.qp);
    struct send_wqe *wqe = rnic_sq_slot(&cursor);
    assert_non_null(wqe);
    wqe->wr_id = 0;
    wqe->opcode = WQE_BIND_MW;
    wqe->flags = WQE_SIGNALED;
    wqe->sge_count = 0;
    wqe->length = 0;
    wqe->bind = (struct wqe_bind){.mw_rkey = r->own->windows[i],
                                  .lkey = r->window_region,
                                  .addr = (uintptr_t)r->target,
                                  .length = DRAWN_TARGET_LEN,
                                  .access = MEM_ACCESS_REMOTE_WRITE | MEM_ACCESS_REMOTE_READ};
    rnic_sq_commit(&cursor);
    rnic_sq_end(&cursor);
    instant_ns deadline_ns = patience_end();
    while (rnic_cq_poll(r->cq, &cqe, 1) == 0) {
        assert_true(host_clock(NULL) < deadline_ns);
    }
    assert_int_equal(cqe.status, WC_SUCCESS);
}

static void close_all(struct run *r)
{
    struct rnic *rnic = r->device.rnic;
    end_fini(&r->end);
    if (r->index == 0) {
        end_fini(&r->listener);
    }
    for (unsigned i = 0; i < DRAWN_WINDOW_COUNT; i++) {
        assert_int_equal(rnic_window_dealloc(rnic, r->own->windows[i]), 0);
    }
    assert_int_equal(r->is_withdrawn ? 0 : rnic_region_deregister(rnic, r->own->stag), 0);
    assert_int_equal(rnic_region_deregister(rnic, r->own->read_only), 0);
    assert_int_equal(rnic_region_deregister(rnic, r->own->write_only), 0);
    assert_int_equal(rnic_region_deregister(rnic, r->window_region), 0);
    assert_int_equal(rnic_region_deregister(rnic, r->local_stag), 0);
    assert_int_equal(r->srq != NULL ? rnic_srq_destroy(r->srq) : 0, 0);
    assert_int_equal(rnic_cq_destroy(r->cq), 0);
    device_close(&r->device);
}

/* ---- two processes --------------------------------------------------------------------------- */

static void be_end(const struct drawn *drawn, unsigned index, struct shared *shared, int *fds)
{
    struct run *r = calloc(1, sizeof *r);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    r->drawn = drawn;
    r->index = index;
    r->how = &drawn->ends[index];
    r->program = &drawn->programs[index];
    r->peers = &drawn->programs[index ^ 1];
    r->shared = shared;
    r->own = &shared->told[index];
    r->peer = &shared->told[index ^ 1];
    r->first = r->next = r->messages_end = 1;
    prng_init(&r->prng, drawn->seed * 2 + index);
    open_device(r);
    open_memory(r);
    open_queues(r);
    connect_ends(r, fds);
    for (unsigned i = 0; i < DRAWN_WINDOW_COUNT; i++) {
        bind_window(r, i);
    }
    tell(r);
    wait_until_told(r);
    run_program(r);
    finish(r);
    close_all(r);
    _exit(0);
}

// The other one would wait for one that has failed.
static bool both_succeed(const pid_t *processes)
{
    bool is_good = true;
    for (unsigned i = 0; i < 2; i++) {
        int status;
        pid_t process = waitpid(-1, &status, 0);
        assert_true(process == processes[0] || process == processes[1]);
        if (status != 0 && i == 0) {
            kill(processes[process == processes[0]], SIGKILL);
        }
        is_good &= status == 0;
    }
    return is_good;
}

static void run_seed(uint64_t seed)
{
    static struct drawn drawn;
    struct shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t processes[2];
    int fds[2];
    assert_ptr_not_equal(shared, MAP_FAILED);
    assert_int_equal(pipe(fds), 0);
    drawn_init(&drawn, seed);
    if (getenv("SEED") != NULL && getenv("SEEDS") == NULL) {
        drawn_print(&drawn);
    }
    fflush(NULL);
    for (unsigned i = 0; i < 2; i++) {
        processes[i] = fork();
        assert_true(processes[i] >= 0);
        if (processes[i] == 0) {
            be_end(&drawn, i, shared, fds);
        }
    }
    close(fds[0]);
    close(fds[1]);
    assert_true(both_succeed(processes));
    munmap(shared, sizeof *shared);
}

static void run_seeds(void **state)
{
    struct seeds *seeds = *state;
    seeds_each(state);
    print_message("# %llu streams, %llu pulls, %llu pushes, %llu messages\n",
                  (unsigned long long)sums->streams, (unsigned long long)sums->pulls,
                  (unsigned long long)sums->pushes, (unsigned long long)sums->received);
    assert_int_equal(sums->broken, 0);
    if (getenv("SEED") == NULL && seeds_number("SEEDS", seeds->count) >= SEED_COUNT) {
        assert_int_equal(sums->streams, 2 * seeds_number("SEEDS", seeds->count));
        assert_true(sums->pulls > 0 && sums->pushes > 0 && sums->received > 0);
    }
}

int main(void)
{
    struct seeds seeds = {.run = run_seed,
                          .count = getenv("WEFT_SOAK") != NULL ? SEED_COUNT_SOAK : SEED_COUNT};
    const struct CMUnitTest tests[] = {{.name = "programs_of_two_processes_keep_memory_and_order",
                                        .test_func = run_seeds,
                                        .teardown_func = seeds_name_the_failed,
                                        .initial_state = &seeds}};
    sums = mmap(NULL, sizeof *sums, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return sums == MAP_FAILED ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
