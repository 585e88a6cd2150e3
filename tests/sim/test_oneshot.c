// The block protocol of examples/ on two simulated devices: random nets, both encodings and none,
// scatter lists, and connections that break in the middle. Blocks read back are what was written,
// every PDU comes as it was made, no octet beside the advertised ones changes, and nothing is
// reachable any more by the time that the program hears of a lost connection.
//
//     build/tests/test_sim_oneshot               the seeds of make check
//     SEED=7 build/tests/test_sim_oneshot        one of them
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/prng.h"
#include "examples/initiator.h"
#include "examples/target.h"
#include "iwarp/internal.h"
#include "link/sim.h"
#include "rnic/create.h"
#include "rnic/internal.h"

enum {
    SEED_COUNT = 300,
    SEED_COUNT_SOAK = 20000,
    PORT = 4791,
    STEPS_MAX = 2000000,
    DEPTH_MAX = 16,
    MESSAGE_LEN = ISCSI_PDU_LEN + 4, // with the STag, where the header does not carry it
    MESSAGE_COUNT = 3 * DEPTH_MAX,
    COMMANDS = 60,
    FENCE_LEN = 64,
    DONE_PULL = 1 << 16, // wr_id of a Read; the rest is the task
};

struct node {
    struct rnic *rnic;
    struct rnic_cq *cq;
    struct rnic_qp *qp;
    struct rnic_ep *ep;
    uint32_t pd, stag; // of `memory`
    uint8_t *memory;   // messages, then (target) the disk
    size_t memory_len;
    bool is_established, has_ended;
};

static struct world {
    uint64_t seed;
    struct prng rng;
    instant_ns now_ns;
    struct sim_net *net;
    struct rnic_ep *listener;
    struct node initiator_node, target_node;
    struct initiator initiator;
    struct target target;
    struct initiator_options options;
    uint8_t *blocks; // the initiator's, a fence in front and behind
    size_t blocks_len;
    uint8_t sent[COMMANDS + 1][ISCSI_PDU_LEN], answered[COMMANDS + 1][ISCSI_PDU_LEN];
    bool is_to_break, has_failed;
    uint32_t mpa_revision;
} w;

static const struct oneshot_config config = {
    .command_max = DEPTH_MAX,
    .element_max = INITIATOR_PIECES_MAX,
    .request = {.offset = ISCSI_OFF_CMD_SN, .len = ISCSI_NUMBER_LEN},
    .answer = {.offset = ISCSI_OFF_TASK_TAG, .len = ISCSI_NUMBER_LEN},
};

static instant_ns world_clock(void *ctx)
{
    return w.now_ns;
}

static uint32_t draw(uint32_t bound)
{
    return prng_below(&w.rng, bound);
}

/* ---- posting, as the front does it ----------------------------------------------------------- */

static void ring(struct node *n)
{
    wq_send_commit(n->qp->wq, 1);
    rnic_qp_ring_sq(n->qp);
}

static struct send_wqe *send_slot(struct node *n, uint64_t wr_id, enum wqe_opcode opcode,
                                  uint32_t flags)
{
    struct send_wqe *wqe = wq_send_slot(n->qp->wq, 0);
    assert_non_null(wqe);
    wqe->wr_id = wr_id;
    wqe->opcode = opcode;
    wqe->flags = flags;
    wqe->sge_count = 0;
    return wqe;
}

static void post_receive(struct node *n, uint64_t index)
{
    struct recv_wqe *wqe = wq_receive_slot(n->qp->wq, 0);
    assert_non_null(wqe);
    wqe->wr_id = index;
    wqe->sge_count = 1;
    wqe->sge[0] = (struct sge){index * MESSAGE_LEN, MESSAGE_LEN, n->stag};
    wq_receive_commit(n->qp->wq, 1);
    rnic_qp_ring_rq(n->qp);
}

static void submit(struct initiator_command *c)
{
    struct node *n = &w.initiator_node;
    struct oneshot_command *command = wq_oneshot_slot(n->qp->wq);
    struct send_wqe *wqe = send_slot(n, c->cmd_sn, WQE_SEND, WQE_INLINE);
    bool is_in_header =
        qp_oneshot_agreed(qp_of_transport(n->qp->transport)) & EXTENSION_ONESHOT_ADVERTISE;
    uint32_t big_endian;
    assert_non_null(command);
    for (unsigned i = 0; i < c->memory_count; i++) {
        command->list.elements[i].octets = mspan_of(c->memory[i].iov_base, c->memory[i].iov_len);
    }
    mem_list_init(&command->list, command->list.elements, c->memory_count);
    command->offset = 0;
    command->length = command->list.length;
    command->access = c->is_write ? MEM_ACCESS_REMOTE_READ : MEM_ACCESS_REMOTE_WRITE;
    command->reference = c->cmd_sn;
    memcpy(wqe->inline_data, c->pdu, ISCSI_PDU_LEN);
    big_endian = htonl(command->stag);
    memcpy(wqe->inline_data + ISCSI_PDU_LEN, &big_endian, sizeof big_endian);
    wqe->length = is_in_header ? ISCSI_PDU_LEN : MESSAGE_LEN;
    memcpy(w.sent[c->cmd_sn], c->pdu, ISCSI_PDU_LEN);
    wq_oneshot_commit(n->qp->wq, wqe);
    ring(n);
}

static void submit_all(void)
{
    for (struct initiator_command *c; (c = initiator_next(&w.initiator)) != NULL;) {
        submit(c);
    }
}

static void post_rdma(struct target_task *task, enum wqe_opcode opcode, uint32_t flags)
{
    struct node *n = &w.target_node;
    uint64_t wr_id = DONE_PULL | (uint64_t)(task - w.target.tasks);
    struct send_wqe *wqe = send_slot(n, wr_id, opcode, flags);
    wqe->rkey = task->memory.stag;
    wqe->remote_addr = task->memory.to;
    wqe->sge_count = 1;
    wqe->sge[0] = (struct sge){(uint64_t)(task->blocks - n->memory), task->len, n->stag};
    wqe->length = task->len;
    ring(n);
}

static void push(struct target_task *task)
{
    post_rdma(task, WQE_RDMA_WRITE, 0);
}

static void pull(struct target_task *task)
{
    post_rdma(task, WQE_RDMA_READ, WQE_SIGNALED);
}

static void answer(struct target_task *task)
{
    struct node *n = &w.target_node;
    struct send_wqe *wqe = send_slot(n, 0, WQE_SEND, WQE_INLINE | WQE_CLOSE);
    wqe->imm_or_inv = task->memory.stag;
    memcpy(wqe->inline_data, task->answer, ISCSI_PDU_LEN);
    wqe->length = ISCSI_PDU_LEN;
    memcpy(w.answered[task->command.task_tag], task->answer, ISCSI_PDU_LEN);
    ring(n);
    target_on_answered(&w.target, task);
}

static void carry_on(struct target_task *task)
{
    if (task->step == TARGET_PULL) {
        pull(task);
        return;
    }
    if (task->step == TARGET_PUSH) {
        push(task);
    }
    answer(task);
}

/* ---- completions ----------------------------------------------------------------------------- */

static uint8_t *message_of(const struct node *n, const struct cqe *cqe)
{
    return n->memory + cqe->wr_id * MESSAGE_LEN;
}

// The program learns that the connection is lost: whatever it had lent is its own again.
static void on_failure(struct node *n)
{
    assert_true(w.is_to_break);
    w.has_failed = true;
    assert_int_equal(n->qp->wq->oneshot_open_count, 0);
}

static void initiator_on_completion(const struct cqe *cqe)
{
    struct node *n = &w.initiator_node;
    const uint8_t *message = message_of(n, cqe);
    assert_int_equal(cqe->opcode, WC_RECV);
    assert_int_equal(cqe->wc_flags, WC_WITH_INV | WC_CLOSED | WC_REFERENCE);
    assert_false(mem_is_oneshot(n->rnic->mem, cqe->inv_rkey));
    struct initiator_command *c = initiator_on_answer(&w.initiator, message, cqe->byte_len);
    assert_non_null(c);
    assert_true(cqe->reference == c->cmd_sn);
    assert_memory_equal(message, w.answered[c->cmd_sn], ISCSI_PDU_LEN);
    post_receive(n, cqe->wr_id);
    initiator_on_released(&w.initiator, c);
    submit_all();
}

static void target_on_command_message(const struct cqe *cqe)
{
    struct node *n = &w.target_node;
    const uint8_t *message = message_of(n, cqe);
    struct target_memory memory = {0};
    struct iscsi_command command;
    assert_true(iscsi_command_parse(message, cqe->byte_len, &command));
    assert_memory_equal(message, w.sent[command.cmd_sn], ISCSI_PDU_LEN);
    if (qp_oneshot_agreed(qp_of_transport(n->qp->transport)) & EXTENSION_ONESHOT_ADVERTISE) {
        assert_int_equal(cqe->wc_flags, WC_ADVERTISED | WC_REFERENCE);
        assert_int_equal(cqe->byte_len, ISCSI_PDU_LEN);
        assert_true(cqe->reference == command.cmd_sn);
        memory.stag = cqe->inv_rkey;
    } else {
        assert_int_equal(cqe->wc_flags, 0);
        memcpy(&memory.stag, message + ISCSI_PDU_LEN, 4);
        memory.stag = ntohl(memory.stag);
    }
    struct target_task *task = target_on_command(&w.target, message, cqe->byte_len, memory);
    assert_non_null(task);
    carry_on(task);
    post_receive(n, cqe->wr_id);
}

static bool poll(struct node *n)
{
    struct cqe cqe;
    if (rnic_cq_poll(n->cq, &cqe, 1) != 1) {
        return false;
    }
    if (cqe.status != WC_SUCCESS) {
        on_failure(n);
    } else if (w.has_failed) {
        return true; // what came in front of it
    } else if (n == &w.initiator_node) {
        initiator_on_completion(&cqe);
    } else if (cqe.opcode == WC_RECV) {
        target_on_command_message(&cqe);
    } else if (cqe.opcode == WC_RDMA_READ) {
        struct target_task *task = &w.target.tasks[cqe.wr_id & ~(uint64_t)DONE_PULL];
        target_on_pulled(&w.target, task);
        carry_on(task);
    }
    return true;
}

/* ---- making the world ------------------------------------------------------------------------ */

static void on_ep_event(void *ctx, struct rnic_ep *ep, const struct rnic_ep_event *event)
{
    struct node *n = ctx;
    n->is_established |= event->type == RNIC_EP_ESTABLISHED;
    if (event->type == RNIC_EP_DISCONNECTED) {
        n->has_ended = true;
        assert_int_equal(n->qp->wq->oneshot_open_count, 0);
    }
}

static void on_request(void *ctx, struct rnic_ep *ep, const struct rnic_ep_event *event)
{
    w.target_node.ep = event->new_ep;
    *event->new_ep_port = (struct rnic_ep_port){.on_event = on_ep_event, .ctx = &w.target_node};
}

static struct sockaddr_in addr_of(unsigned host)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons(PORT),
                                .sin_addr.s_addr = htonl(0x0a000001 + host)};
}

// Mostly the two want the same; sometimes one of them has nothing of it.
static struct rnic_config draw_config(uint32_t oneshot)
{
    return (struct rnic_config){
        .crc = draw(4) > 0,
        .markers = draw(4) == 0,
        .extensions = draw(6) > 0,
        .oneshot = draw(6) > 0 ? oneshot : draw(3),
        .oneshot_parts = draw(3) == 0 ? draw(3) : RNIC_ONESHOT_BOTH,
        .peer_to_peer = draw(2) > 0,
        .tx_copy = draw(3) == 0,
        .mpa_revision = w.mpa_revision,
        .rnr_store_len = 16384,
        .read_contexts = 1 + draw(16),
        .read_allotment_len = draw(2) * (512 + draw(8192)),
        .read_timeout_ns = 30 * NS_PER_S,
        .rnr_timeout_ns = 8 * NS_PER_S,
        .mpa_timeout_ns = 5 * NS_PER_S,
    };
}

static void node_open(struct node *n, unsigned host, uint32_t oneshot, size_t disk_len)
{
    struct in_addr addr = addr_of(host).sin_addr;
    const struct cq_port quiet = {0};
    struct rnic_parts parts = {
        .config = draw_config(oneshot),
        .link = sim_net_attach(w.net, &addr, 1),
        .clock = world_clock,
        .is_simulated = true,
    };
    memset(parts.stag_key, (int)(w.seed + host), sizeof parts.stag_key);
    n->memory_len = MESSAGE_COUNT * MESSAGE_LEN + disk_len;
    n->memory = calloc(1, n->memory_len);
    assert_int_equal(rnic_create(&parts, &n->rnic), 0);
    assert_int_equal(rnic_pd_alloc(n->rnic, &n->pd), 0);
    assert_int_equal(rnic_region_register(n->rnic, n->pd, n->memory, n->memory_len, 0,
                                          MEM_ACCESS_LOCAL_WRITE, &n->stag),
                     0);
    assert_int_equal(rnic_cq_create(n->rnic, 1024, &quiet, &n->cq), 0);
    const struct rnic_qp_init init = {.pd = n->pd,
                                      .send_cq = n->cq,
                                      .recv_cq = n->cq,
                                      .max_send_wr = 4 * DEPTH_MAX,
                                      .max_recv_wr = MESSAGE_COUNT,
                                      .max_send_sge = 1,
                                      .max_recv_sge = 1,
                                      .max_inline_len = MESSAGE_LEN};
    assert_int_equal(rnic_qp_create(n->rnic, &init, &n->qp), 0);
    assert_int_equal(rnic_oneshot_create(n->qp, &config), 0);
    for (unsigned i = 0; i < 2 * DEPTH_MAX; i++) {
        post_receive(n, i);
    }
}

static void node_close(struct node *n)
{
    assert_true(qp_check(qp_of_transport(n->qp->transport)));
    if (n->ep != NULL) {
        rnic_ep_destroy(n->ep);
    }
    rnic_qp_destroy(n->qp);
    assert_int_equal(rnic_cq_destroy(n->cq), 0);
    assert_int_equal(rnic_region_deregister(n->rnic, n->stag), 0);
    assert_int_equal(rnic_pd_dealloc(n->rnic, n->pd), 0);
    struct rnic_live live = rnic_live(n->rnic);
    assert_int_equal(live.regions + live.oneshots + live.sinks + live.qps, 0);
    rnic_destroy(n->rnic);
    free(n->memory);
}

static void protocol_init(size_t disk_len)
{
    w.blocks_len = initiator_memory_len(&w.options);
    w.blocks = malloc(w.blocks_len + 2 * FENCE_LEN);
    memset(w.blocks, 0xfe, w.blocks_len + 2 * FENCE_LEN);
    initiator_init(&w.initiator, &w.options, w.blocks + FENCE_LEN);
    target_init(&w.target, w.target_node.memory + MESSAGE_COUNT * MESSAGE_LEN, disk_len);
}

static void world_open(uint64_t seed)
{
    w = (struct world){.seed = seed, .now_ns = NS_PER_S};
    prng_init(&w.rng, seed);
    prng_next(&w.rng);
    w.is_to_break = draw(3) == 0;
    w.mpa_revision = 1 + draw(2);
    w.options = (struct initiator_options){
        .depth = 1 + draw(DEPTH_MAX),
        .command_len = ISCSI_BLOCK_LEN * (1 + draw(40)),
        .pieces = 1 + draw(INITIATOR_PIECES_MAX),
        .verify = true,
        .count = COMMANDS,
    };
    size_t disk_len = initiator_memory_len(&w.options);
    w.net = sim_net_create(&(struct sim_net_config){.seed = seed,
                                                    .clock = world_clock,
                                                    .delay_max_ns = 1 + draw(100000),
                                                    .window_len = 2048 + draw(200000),
                                                    .piece_max_len = 100 + draw(20000),
                                                    .emss = 536 + draw(9000),
                                                    .peer_timeout_ns = NS_PER_S});
    uint32_t oneshot = draw(2) > 0 ? RNIC_ONESHOT_FLAGS : RNIC_ONESHOT_OPCODE;
    node_open(&w.initiator_node, 0, oneshot, 0);
    node_open(&w.target_node, 1, oneshot, disk_len);
    protocol_init(disk_len);
}

static void world_connect(void)
{
    struct sockaddr_in addr = addr_of(1);
    struct rnic_ep_port on_listener = {.on_event = on_request};
    struct rnic_ep_port port = {.on_event = on_ep_event, .ctx = &w.initiator_node};
    const struct rnic_ep_params params = {.ird = 8, .ord = 8};
    assert_int_equal(
        rnic_ep_bind(w.target_node.rnic, (struct sockaddr *)&addr, 0, &on_listener, &w.listener),
        0);
    assert_int_equal(rnic_ep_listen(w.listener, 4), 0);
    assert_int_equal(rnic_ep_bind(w.initiator_node.rnic, NULL, 0, &port, &w.initiator_node.ep), 0);
    assert_int_equal(rnic_ep_connect(w.initiator_node.ep, (struct sockaddr *)&addr,
                                     w.initiator_node.qp, &params),
                     0);
}

static void world_close(void)
{
    for (unsigned i = 0; i < FENCE_LEN; i++) {
        assert_int_equal(w.blocks[i], 0xfe);
        assert_int_equal(w.blocks[FENCE_LEN + w.blocks_len + i], 0xfe);
    }
    rnic_ep_destroy(w.listener);
    node_close(&w.initiator_node);
    node_close(&w.target_node);
    sim_net_destroy(w.net);
    free(w.blocks);
}

/* ---- running --------------------------------------------------------------------------------- */

static bool step(bool *has_accepted, bool *has_started)
{
    const struct rnic_ep_params params = {.ird = 8, .ord = 8};
    bool moved = sim_net_advance(w.net);
    moved |= rnic_step(w.initiator_node.rnic);
    moved |= rnic_step(w.target_node.rnic);
    if (w.target_node.ep != NULL && !*has_accepted) {
        *has_accepted = moved = true;
        rnic_ep_accept(w.target_node.ep, w.target_node.qp, &params);
    }
    if (w.initiator_node.is_established && !*has_started) {
        *has_started = moved = true;
        submit_all();
    }
    moved |= poll(&w.initiator_node);
    return poll(&w.target_node) || moved;
}

// Now and then the connection breaks, once there is something on it.
static void maybe_strike(void)
{
    static const enum sim_fault faults[] = {SIM_FAULT_RESET, SIM_FAULT_FIN, SIM_FAULT_SILENCE};
    struct sockaddr_storage at;
    if (w.is_to_break && !w.has_failed && w.initiator.done > 3 && draw(200) == 0 &&
        rnic_ep_local_addr(w.initiator_node.ep, &at) == 0) {
        sim_net_strike(w.net, faults[draw(3)], (struct sockaddr_in *)&at);
    }
}

static bool is_over(void)
{
    return initiator_is_done(&w.initiator) || w.initiator_node.has_ended;
}

static void run(void)
{
    bool has_accepted = false, has_started = false;
    for (unsigned i = 0; i < STEPS_MAX && !is_over(); i++) {
        if (step(&has_accepted, &has_started)) {
            maybe_strike();
            continue;
        }
        instant_ns at_ns = instant_min(sim_net_next_event(w.net),
                                       instant_min(rnic_next_deadline(w.initiator_node.rnic),
                                                   rnic_next_deadline(w.target_node.rnic)));
        assert_true(at_ns != INSTANT_NEVER);
        w.now_ns = at_ns > w.now_ns ? at_ns : w.now_ns;
    }
    assert_true(is_over());
}

// What the counters of both ends must agree on when nothing broke.
static void check_counters(void)
{
    const struct qp_counters *i = qp_counters(qp_of_transport(w.initiator_node.qp->transport));
    const struct qp_counters *t = qp_counters(qp_of_transport(w.target_node.qp->transport));
    int agreed = qp_oneshot_agreed(qp_of_transport(w.initiator_node.qp->transport));
    assert_int_equal(agreed, qp_oneshot_agreed(qp_of_transport(w.target_node.qp->transport)));
    assert_int_equal(i->wq.oneshot_advertised, COMMANDS);
    assert_int_equal(i->wq.oneshot_closed, COMMANDS);
    assert_int_equal(i->wq.oneshot_detached, 0);
    assert_int_equal(t->oneshot_answered, COMMANDS);
    assert_int_equal(t->oneshot_received, agreed & EXTENSION_ONESHOT_ADVERTISE ? COMMANDS : 0);
    assert_int_equal(t->out[RDMAP_SEND_INV].messages,
                     agreed & EXTENSION_ONESHOT_CLOSE ? 0 : COMMANDS);
    // One message begins a command, one ends it.
    assert_int_equal(i->out[RDMAP_SEND].messages + i->out[RDMAP_SEND_SE].messages, COMMANDS);
}

static void run_seed(uint64_t seed)
{
    world_open(seed);
    world_connect();
    run();
    assert_null(w.target.failure);
    if (w.initiator.failure != NULL) {
        fail_msg("%s", w.initiator.failure);
    }
    if (!w.is_to_break) {
        assert_false(w.has_failed);
        check_counters();
    }
    assert_int_equal(w.initiator_node.qp->wq->oneshot_open_count, 0);
    world_close();
}

static void blocks_come_back_and_nothing_is_left_behind(void **state)
{
    const char *one = getenv("SEED"), *soak = getenv("WEFT_SOAK");
    if (one != NULL) {
        run_seed(strtoull(one, NULL, 10));
        return;
    }
    uint64_t count = soak != NULL ? SEED_COUNT_SOAK : SEED_COUNT, broken = 0;
    for (uint64_t seed = 1; seed <= count; seed++) {
        run_seed(seed);
        broken += w.has_failed;
    }
    assert_in_range(broken, count / 20, count / 2); // the faults strike
}

static int say_seed(void **state)
{
    printf("# last seed: %llu\n", (unsigned long long)w.seed);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(blocks_come_back_and_nothing_is_left_behind, say_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
