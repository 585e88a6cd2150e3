// Writes blocks to block-target and reads them back, in one of five ways to make memory reachable.
//
//     block-initiator ADDRESS PORT --way=mr|mr-inv|mw1|mw2|oneshot [--depth=N] [--size=OCTETS]
//                     [--pieces=N] [--count=N] [--no-verify] [--unchained]
//
// Commands that can start at the same time leave with one call; --unchained gives each a call of
// its own. Prints one JSON object: commands and seconds, latency, calls into the library and
// completions per command. --no-verify leaves the content alone, to measure the transport.
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "examples/initiator.h"
#include "examples/iscsi.h"
#include "examples/side.h"

// wr_id of work requests that somebody waits for.
enum { DONE_SEND, DONE_BIND };
enum { BATCH_COUNT = 16 }; // completions taken at a time

struct slot {
    struct ibv_mr *mr; // MR, MW1: while the command is under way
    struct ibv_mw *mw; // MW1, MW2
    uint32_t stag;     // as the target knows it
};

struct session {
    struct side side;
    struct initiator initiator;
    struct slot slots[INITIATOR_DEPTH_MAX];
    struct ibv_mr *mr; // MW2: of all memory
    uint8_t *memory;
    uint64_t free_messages[INITIATOR_DEPTH_MAX]; // one-shot: those that no posted receive has
    unsigned free_count;
    struct ibv_recv_wr recv_wrs[INITIATOR_DEPTH_MAX];
    struct ibv_sge recv_sges[INITIATOR_DEPTH_MAX];
    struct receives receives;
    bool is_unchained;
    uint64_t signalled; // Sends whose completion is to come
    struct ibv_send_wr wrs[2 * INITIATOR_DEPTH_MAX];
    struct ibv_sge sges[2 * INITIATOR_DEPTH_MAX];
    struct chain chain;
    struct weft_oneshot_wr posts[INITIATOR_DEPTH_MAX];
    unsigned post_count;
    double *latencies_us;
};

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void completion_check(struct session *s, const struct ibv_wc *wc)
{
    s->side.completions++;
    if (wc->status != IBV_WC_SUCCESS) {
        errno = 0;
        side_die("a work request: %s", ibv_wc_status_str(wc->status));
    }
}

// Takes one completion of the send queue, if there is any.
static void send_completion_take(struct session *s, struct ibv_wc *ret)
{
    if (ibv_poll_cq(s->side.send_cq, 1, ret) > 0) {
        completion_check(s, ret);
        s->signalled -= ret->wr_id == DONE_SEND;
    }
}

/* ---- what all conventional ways do ----------------------------------------------------------- */

static uint8_t *memory_of(const struct session *s, const struct initiator_command *c)
{
    return s->memory + (size_t)c->slot * s->initiator.options.command_len;
}

static void region_register(struct session *s, struct initiator_command *c, int access)
{
    struct slot *slot = &s->slots[c->slot];
    s->side.calls++;
    slot->mr = ibv_reg_mr(s->side.id->pd, memory_of(s, c), s->initiator.options.command_len,
                          access | IBV_ACCESS_LOCAL_WRITE);
    if (slot->mr == NULL) {
        side_die("ibv_reg_mr");
    }
    slot->stag = slot->mr->rkey;
}

static void region_deregister(struct session *s, struct initiator_command *c)
{
    s->side.calls++;
    if (ibv_dereg_mr(s->slots[c->slot].mr) != 0) {
        side_die("ibv_dereg_mr");
    }
}

// PDU and trailer, which tells STag and address.
static void command_add(struct session *s, const struct initiator_command *c)
{
    uint8_t *message = side_send_message(&s->side, c->slot);
    const struct target_memory memory = {s->slots[c->slot].stag, (uintptr_t)memory_of(s, c)};
    struct ibv_send_wr *wr = chain_add(&s->chain);
    memcpy(message, c->pdu, ISCSI_PDU_LEN);
    message_put_memory(message, memory);
    *wr->sg_list = side_sge(&s->side, message, MESSAGE_MAX_LEN);
    wr->wr_id = DONE_SEND;
    wr->opcode = IBV_WR_SEND;
    wr->send_flags = side_send_flags(&s->side);
    s->signalled += wr->send_flags != 0;
}

static int remote_access(const struct initiator_command *c)
{
    return c->is_write ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
}

static void released(struct session *s, struct initiator_command *c)
{
    uint64_t done = s->initiator.done;
    s->latencies_us[done] = 1e6 * (now_s() - c->started_at_s);
    initiator_on_released(&s->initiator, c);
}

/* ---- the ways -------------------------------------------------------------------------------- */

static void mr_submit(struct session *s, struct initiator_command *c)
{
    region_register(s, c, remote_access(c));
    command_add(s, c);
}

static void mr_release(struct session *s, struct initiator_command *c)
{
    region_deregister(s, c);
    released(s, c);
}

// Type 1: binding is waited for before the message is made, unbinding before the region goes.
static void mw1_bind(struct session *s, struct initiator_command *c, size_t len)
{
    struct slot *slot = &s->slots[c->slot];
    struct ibv_mw_bind bind = {
        .wr_id = DONE_BIND,
        .send_flags = IBV_SEND_SIGNALED,
        .bind_info = {.mr = slot->mr,
                      .addr = (uintptr_t)memory_of(s, c),
                      .length = len,
                      .mw_access_flags = (unsigned)remote_access(c)},
    };
    struct ibv_wc wc = {.wr_id = DONE_SEND};
    s->side.calls++;
    errno = ibv_bind_mw(s->side.id->qp, slot->mw, &bind);
    if (errno != 0) {
        side_die("ibv_bind_mw");
    }
    while (wc.wr_id != DONE_BIND) {
        send_completion_take(s, &wc);
    }
    slot->stag = slot->mw->rkey;
}

static void mw1_submit(struct session *s, struct initiator_command *c)
{
    region_register(s, c, IBV_ACCESS_MW_BIND);
    mw1_bind(s, c, s->initiator.options.command_len);
    command_add(s, c);
}

static void mw1_release(struct session *s, struct initiator_command *c)
{
    mw1_bind(s, c, 0);
    region_deregister(s, c);
    released(s, c);
}

// Type 2: bound in front of the Send; the target's answer has invalidated the window.
static void mw2_submit(struct session *s, struct initiator_command *c)
{
    struct slot *slot = &s->slots[c->slot];
    struct ibv_send_wr *wr = chain_add(&s->chain);
    slot->stag = ibv_inc_rkey(slot->stag);
    wr->wr_id = DONE_SEND;
    wr->num_sge = 0;
    wr->opcode = IBV_WR_BIND_MW;
    wr->bind_mw.mw = slot->mw;
    wr->bind_mw.rkey = slot->stag;
    wr->bind_mw.bind_info = (struct ibv_mw_bind_info){
        .mr = s->mr,
        .addr = (uintptr_t)memory_of(s, c),
        .length = s->initiator.options.command_len,
        .mw_access_flags = (unsigned)remote_access(c),
    };
    command_add(s, c);
}

// The memory, its STag, the message, and the receive for the answer, in one.
static void oneshot_submit(struct session *s, struct initiator_command *c)
{
    bool is_in_header = s->side.oneshot.agreed(s->side.id->qp) & WEFT_ONESHOT_ADVERTISE;
    uint8_t *message = side_send_message(&s->side, c->slot);
    unsigned i = s->post_count++;
    memcpy(message, c->pdu, ISCSI_PDU_LEN);
    receives_add(&s->side, &s->receives, s->free_messages[--s->free_count]);
    s->posts[i] = (struct weft_oneshot_wr){
        .wr_id = c->slot,
        .access = (unsigned)remote_access(c),
        .reference = c->cmd_sn,
        .memory = c->memory,
        .memory_count = c->memory_count,
        .body = side_sge(&s->side, message, is_in_header ? ISCSI_PDU_LEN : MESSAGE_MAX_LEN),
    };
    if (i > 0) {
        s->posts[i - 1].next = &s->posts[i];
    }
}

static void oneshot_leave(struct session *s)
{
    struct weft_oneshot_wr *bad;
    s->posts[0].answer = s->recv_wrs; // of all
    s->receives.count = 0;
    s->side.calls++;
    if (s->side.oneshot.post(s->side.id->qp, s->posts, &bad) != 0) {
        side_die("weft_oneshot_post");
    }
    for (unsigned i = 0; i < s->post_count; i++) {
        s->slots[s->posts[i].wr_id].stag = s->posts[i].stag;
    }
    s->post_count = 0;
}

/* ---- what the initiator wants done ----------------------------------------------------------- */

static void leave(struct session *s)
{
    if (s->post_count > 0) {
        oneshot_leave(s);
    }
    side_receives_post(&s->side, &s->receives);
    side_chain_post(&s->side, &s->chain);
}

static void submit(struct session *s, struct initiator_command *c)
{
    static void (*const submits[WAY_COUNT])(struct session *, struct initiator_command *) = {
        [WAY_MR] = mr_submit,   [WAY_MR_INV] = mr_submit,       [WAY_MW1] = mw1_submit,
        [WAY_MW2] = mw2_submit, [WAY_ONESHOT] = oneshot_submit,
    };
    c->started_at_s = now_s();
    submits[s->side.way](s, c);
    if (s->is_unchained) {
        leave(s);
    }
}

static void submit_all(struct session *s)
{
    for (struct initiator_command *c; (c = initiator_next(&s->initiator)) != NULL;) {
        submit(s, c);
    }
    leave(s);
}

// The answer is here: frees what is this side's to free.
static void release(struct session *s, struct initiator_command *c)
{
    static void (*const releases[WAY_COUNT])(struct session *, struct initiator_command *) = {
        [WAY_MR] = mr_release, [WAY_MR_INV] = mr_release, [WAY_MW1] = mw1_release,
        [WAY_MW2] = released,  [WAY_ONESHOT] = released,
    };
    releases[s->side.way](s, c);
}

/* ---- what has been done ---------------------------------------------------------------------- */

// In two of the ways the target takes the memory back: the completion must say so.
static bool is_taken_back(const struct session *s, const struct ibv_wc *wc,
                          const struct initiator_command *c)
{
    uint32_t stag = wc->invalidated_rkey;
    if (s->side.way == WAY_ONESHOT && !s->side.oneshot.wc_closed(wc, &stag)) {
        return false;
    }
    if (s->side.way == WAY_MW2 && (wc->wc_flags & IBV_WC_WITH_INV) == 0) {
        return false;
    }
    return (s->side.way != WAY_ONESHOT && s->side.way != WAY_MW2) || stag == s->slots[c->slot].stag;
}

static void on_answer(struct session *s, const struct ibv_wc *wc)
{
    const uint8_t *message = side_receive_message(&s->side, wc->wr_id);
    struct initiator_command *c = initiator_on_answer(&s->initiator, message, wc->byte_len);
    if (s->side.way == WAY_ONESHOT) {
        s->free_messages[s->free_count++] = wc->wr_id; // for the next command
    } else {
        receives_add(&s->side, &s->receives, wc->wr_id);
    }
    if (c != NULL && !is_taken_back(s, wc, c)) {
        errno = 0;
        side_die("an answer that leaves STag %#x open", s->slots[c->slot].stag);
    }
    if (c != NULL) {
        release(s, c);
    }
}

static void run(struct session *s)
{
    struct ibv_wc wc[BATCH_COUNT];
    submit_all(s);
    while (!initiator_is_done(&s->initiator)) {
        int count = ibv_poll_cq(s->side.cq, BATCH_COUNT, wc);
        for (int i = 0; i < count; i++) {
            completion_check(s, &wc[i]);
            on_answer(s, &wc[i]);
        }
        submit_all(s);
        if (s->signalled > 0) {
            send_completion_take(s, wc);
        }
    }
    if (s->initiator.failure != NULL) {
        errno = 0;
        side_die("%s", s->initiator.failure);
    }
}

/* ---- connecting ------------------------------------------------------------------------------ */

static void resolve(struct side *side, struct sockaddr_in *addr)
{
    side->channel = rdma_create_event_channel();
    if (side->channel == NULL || rdma_create_id(side->channel, &side->id, NULL, RDMA_PS_TCP) != 0 ||
        rdma_resolve_addr(side->id, NULL, (struct sockaddr *)addr, 2000) != 0) {
        side_die("rdma_resolve_addr");
    }
    rdma_ack_cm_event(side_event(side, RDMA_CM_EVENT_ADDR_RESOLVED));
    if (rdma_resolve_route(side->id, 2000) != 0) {
        side_die("rdma_resolve_route");
    }
    rdma_ack_cm_event(side_event(side, RDMA_CM_EVENT_ROUTE_RESOLVED));
}

static void windows_alloc(struct session *s)
{
    enum ibv_mw_type type = s->side.way == WAY_MW1 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2;
    for (unsigned i = 0; i < s->initiator.options.depth; i++) {
        s->slots[i].mw = ibv_alloc_mw(s->side.id->pd, type);
        if (s->slots[i].mw == NULL) {
            side_die("ibv_alloc_mw");
        }
        s->slots[i].stag = s->slots[i].mw->rkey;
    }
    s->mr = ibv_reg_mr(s->side.id->pd, s->memory, initiator_memory_len(&s->initiator.options),
                       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
    if (s->mr == NULL) {
        side_die("ibv_reg_mr");
    }
}

static void session_open(struct session *s, struct sockaddr_in *addr)
{
    const uint8_t greeting[] = {(uint8_t)s->side.way};
    struct rdma_conn_param param = {.private_data = greeting,
                                    .private_data_len = sizeof greeting,
                                    .responder_resources = 32,
                                    .initiator_depth = 32,
                                    .retry_count = 7,
                                    .rnr_retry_count = 7};
    bool is_oneshot = s->side.way == WAY_ONESHOT;
    resolve(&s->side, addr);
    side_prepare(&s->side, is_oneshot ? 0 : s->side.depth, true);
    s->chain = (struct chain){.wrs = s->wrs, .sges = s->sges};
    s->receives = (struct receives){.wrs = s->recv_wrs, .sges = s->recv_sges};
    if (is_oneshot && !s->side.has_oneshot) {
        errno = 0;
        side_die("this RNIC has no one-shot RDMA");
    }
    for (unsigned i = 0; is_oneshot && i < s->side.depth; i++) {
        s->free_messages[s->free_count++] = i;
    }
    if (s->side.way == WAY_MW1 || s->side.way == WAY_MW2) {
        windows_alloc(s);
    }
    if (rdma_connect(s->side.id, &param) != 0) {
        side_die("rdma_connect");
    }
    rdma_ack_cm_event(side_event(&s->side, RDMA_CM_EVENT_ESTABLISHED));
    s->side.calls = s->side.completions = 0;
}

static void session_close(struct session *s)
{
    rdma_disconnect(s->side.id);
    rdma_ack_cm_event(side_event(&s->side, RDMA_CM_EVENT_DISCONNECTED));
    for (unsigned i = 0; i < s->initiator.options.depth; i++) {
        if (s->slots[i].mw != NULL) {
            ibv_dealloc_mw(s->slots[i].mw);
        }
    }
    if (s->mr != NULL) {
        ibv_dereg_mr(s->mr);
    }
    side_unprepare(&s->side);
    rdma_destroy_event_channel(s->side.channel);
    free(s->memory);
    free(s->latencies_us);
}

/* ---- what it prints -------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print(struct session *s, double seconds)
{
    uint64_t count = s->initiator.done;
    qsort(s->latencies_us, count, sizeof *s->latencies_us, compare);
    printf("{\"way\": \"%s\", \"commands\": %llu, \"seconds\": %.6f, \"p50_us\": %.3f, "
           "\"p99_us\": %.3f, \"calls_per_command\": %.3f, \"completions_per_command\": %.3f}\n",
           way_names[s->side.way], (unsigned long long)count, seconds, s->latencies_us[count / 2],
           s->latencies_us[count * 99 / 100], (double)s->side.calls / (double)count,
           (double)s->side.completions / (double)count);
}

static int usage(void)
{
    fprintf(stderr,
            "usage: block-initiator ADDRESS PORT --way=mr|mr-inv|mw1|mw2|oneshot [--depth=N]"
            " [--size=OCTETS] [--pieces=N] [--count=N] [--no-verify] [--unchained]\n");
    return 2;
}

static enum way way_of(const char *name)
{
    enum way way = WAY_MR;
    while (way < WAY_COUNT && strcmp(name, way_names[way]) != 0) {
        way++;
    }
    return way;
}

// False: something that is not known or makes no sense.
static bool options_read(int argc, char **argv, struct initiator_options *o, struct session *s)
{
    static const struct option options[] = {
        {"way", required_argument, NULL, 'w'},   {"depth", required_argument, NULL, 'd'},
        {"size", required_argument, NULL, 's'},  {"pieces", required_argument, NULL, 'p'},
        {"count", required_argument, NULL, 'c'}, {"no-verify", no_argument, NULL, 'n'},
        {"unchained", no_argument, NULL, 'u'},   {0}};
    int option;
    s->side.way = WAY_COUNT;
    *o = (struct initiator_options){
        .depth = 8, .command_len = 4096, .pieces = 1, .count = 1000, .verify = true};
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        unsigned long number = optarg != NULL ? strtoul(optarg, NULL, 10) : 0;
        switch (option) {
        case 'w':
            s->side.way = way_of(optarg);
            break;
        case 'd':
            o->depth = (unsigned)number;
            break;
        case 's':
            o->command_len = (uint32_t)number;
            break;
        case 'p':
            o->pieces = (unsigned)number;
            break;
        case 'c':
            o->count = number;
            break;
        case 'n':
            o->verify = false;
            break;
        case 'u':
            s->is_unchained = true;
            break;
        default:
            return false;
        }
    }
    return s->side.way < WAY_COUNT && argc - optind == 2 && o->depth >= 1 &&
           o->depth <= INITIATOR_DEPTH_MAX && o->command_len > 0 &&
           o->command_len % ISCSI_BLOCK_LEN == 0 && o->pieces >= 1 &&
           o->pieces <= INITIATOR_PIECES_MAX && o->count >= 1;
}

int main(int argc, char **argv)
{
    static struct session s;
    struct initiator_options options;
    struct sockaddr_in addr;
    if (!options_read(argc, argv, &options, &s) ||
        !side_address(argv[optind], argv[optind + 1], &addr)) {
        return usage();
    }
    s.side.depth = options.depth;
    s.latencies_us = calloc(options.count, sizeof *s.latencies_us);
    if (s.latencies_us == NULL ||
        posix_memalign((void **)&s.memory, 4096, initiator_memory_len(&options)) != 0) {
        side_die("memory");
    }
    memset(s.memory, 0, initiator_memory_len(&options));
    initiator_init(&s.initiator, &options, s.memory);
    session_open(&s, &addr);
    double start_s = now_s();
    run(&s);
    print(&s, now_s() - start_s);
    session_close(&s);
    return 0;
}
