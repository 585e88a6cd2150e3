// Serves a disk in memory over RDMA, to one initiator after the other.
//
//     block-target ADDRESS PORT [--disk=MIB] [--once]
//
// On any RNIC; the one-shot way needs nothing of it but Send with Invalidate.
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/iscsi.h"
#include "examples/side.h"
#include "examples/target.h"

// wr_id: what completes, and of which task or message.
enum { DONE_RECEIVE = 0, DONE_PULL = 1 << 16, DONE_OTHER = 2 << 16, DONE_MASK = 3 << 16 };

enum { BATCH_COUNT = 16 }; // completions taken at a time; what they lead to leaves together

struct service {
    struct side side;
    struct target target;
    struct ibv_mr *disk_mr;
    struct ibv_send_wr wrs[2 * BATCH_COUNT];
    struct ibv_sge sges[2 * BATCH_COUNT];
    struct chain chain;
    struct ibv_recv_wr recv_wrs[BATCH_COUNT];
    struct ibv_sge recv_sges[BATCH_COUNT];
    struct receives receives;
    struct weft_oneshot_close_wr closes[BATCH_COUNT];
    struct ibv_send_wr pushes[BATCH_COUNT]; // one-shot: the Writes that go before them
    struct ibv_sge push_sges[BATCH_COUNT];
    struct ibv_send_wr *push; // of the next close
    unsigned close_count;
    struct target_task *answered[BATCH_COUNT]; // their answers leave next
    unsigned answered_count;
    uint64_t answer_index;
};

static unsigned task_index(const struct service *s, const struct target_task *task)
{
    return (unsigned)(task - s->target.tasks);
}

/* ---- what the target wants done -------------------------------------------------------------- */

// Does the answer leave by weft_oneshot_close?
static bool is_closed_by_call(const struct service *s)
{
    return s->side.has_oneshot && (s->side.way == WAY_ONESHOT || s->side.way == WAY_MR_INV);
}

static void rdma_fill(const struct service *s, const struct target_task *task,
                      struct ibv_send_wr *wr)
{
    *wr->sg_list = (struct ibv_sge){
        .addr = (uintptr_t)task->blocks, .length = task->len, .lkey = s->disk_mr->lkey};
    wr->wr_id = DONE_PULL | task_index(s, task);
    wr->wr.rdma.remote_addr = task->memory.to;
    wr->wr.rdma.rkey = task->memory.stag;
}

static void push(struct service *s, struct target_task *task)
{
    struct ibv_send_wr *wr;
    if (is_closed_by_call(s)) {
        wr = &s->pushes[s->close_count];
        *wr = (struct ibv_send_wr){.sg_list = &s->push_sges[s->close_count], .num_sge = 1};
        s->push = wr;
    } else {
        wr = chain_add(&s->chain);
    }
    wr->opcode = IBV_WR_RDMA_WRITE;
    rdma_fill(s, task, wr);
}

static void pull(struct service *s, struct target_task *task)
{
    struct ibv_send_wr *wr = chain_add(&s->chain);
    wr->opcode = IBV_WR_RDMA_READ;
    wr->send_flags = IBV_SEND_SIGNALED;
    rdma_fill(s, task, wr);
}

// Room for the answer that is next. It was used TARGET_TASK_MAX answers ago: the initiator has that
// one, or it could not have sent so many commands since.
static struct ibv_sge answer_room(struct service *s, const struct target_task *task)
{
    uint8_t *message = side_send_message(&s->side, s->answer_index++ % TARGET_TASK_MAX);
    memcpy(message, task->answer, ISCSI_PDU_LEN);
    return side_sge(&s->side, message, ISCSI_PDU_LEN);
}

static void close_add(struct service *s, const struct target_task *task)
{
    unsigned i = s->close_count++;
    s->closes[i] = (struct weft_oneshot_close_wr){
        .wr_id = DONE_OTHER,
        .send_flags = side_send_flags(&s->side),
        .stag = task->memory.stag,
        .reference = task->command.task_tag,
        .body = answer_room(s, task),
        .before = s->push,
    };
    s->push = NULL;
    if (i > 0) {
        s->closes[i - 1].next = &s->closes[i];
    }
}

static void answer_add(struct service *s, const struct target_task *task)
{
    struct ibv_send_wr *wr = chain_add(&s->chain);
    *wr->sg_list = answer_room(s, task);
    wr->wr_id = DONE_OTHER;
    wr->opcode = IBV_WR_SEND;
    wr->send_flags = side_send_flags(&s->side);
    if (s->side.way == WAY_MW2 || s->side.way == WAY_MR_INV || s->side.way == WAY_ONESHOT) {
        wr->opcode = IBV_WR_SEND_WITH_INV;
        wr->invalidate_rkey = task->memory.stag;
        wr->wr.rdma.rkey = task->memory.stag; // siw's user library takes it from here
    }
}

static void answer(struct service *s, struct target_task *task)
{
    if (is_closed_by_call(s)) {
        close_add(s, task);
    } else {
        answer_add(s, task);
    }
    s->answered[s->answered_count++] = task;
}

static void carry_on(struct service *s, struct target_task *task)
{
    if (task->step == TARGET_PULL) {
        pull(s, task);
        return;
    }
    if (task->step == TARGET_PUSH) {
        push(s, task);
    }
    answer(s, task);
}

static void leave(struct service *s)
{
    struct weft_oneshot_close_wr *bad;
    if (s->close_count > 0 && s->chain.count > 0) { // Reads go along, in front of the first close
        s->wrs[s->chain.count - 1].next = s->closes[0].before;
        s->closes[0].before = s->wrs;
        s->chain.count = 0;
    }
    side_chain_post(&s->side, &s->chain);
    if (s->close_count > 0) {
        s->side.calls++;
        s->close_count = 0;
        if (s->side.oneshot.close(s->side.id->qp, s->closes, &bad) != 0) {
            side_die("weft_oneshot_close");
        }
    }
    for (unsigned i = 0; i < s->answered_count; i++) {
        target_on_answered(&s->target, s->answered[i]);
    }
    s->answered_count = 0;
    side_receives_post(&s->side, &s->receives);
}

/* ---- what has been done ---------------------------------------------------------------------- */

static struct target_memory memory_of(struct service *s, const struct ibv_wc *wc,
                                      const uint8_t *message)
{
    struct target_memory memory = {0};
    uint64_t reference;
    if (s->side.way == WAY_ONESHOT && s->side.has_oneshot) {
        if (s->side.oneshot.request(s->side.id->qp, wc, message, &memory.stag, &reference) != 0) {
            side_die("a message that advertises nothing");
        }
        return memory; // offset 0 is the first octet
    }
    if (wc->byte_len < MESSAGE_MAX_LEN) {
        errno = 0;
        side_die("a command without its trailer: %u octets", wc->byte_len);
    }
    return message_get_memory(message);
}

static void on_completion(struct service *s, const struct ibv_wc *wc)
{
    uint64_t index = wc->wr_id & ~(uint64_t)DONE_MASK;
    s->side.completions++;
    if (wc->opcode & IBV_WC_RECV) {
        const uint8_t *message = side_receive_message(&s->side, index);
        struct target_task *task =
            target_on_command(&s->target, message, wc->byte_len, memory_of(s, wc, message));
        if (task != NULL) {
            carry_on(s, task);
        }
        receives_add(&s->side, &s->receives, index);
    } else if ((wc->wr_id & DONE_MASK) == DONE_PULL) {
        target_on_pulled(&s->target, &s->target.tasks[index]);
        carry_on(s, &s->target.tasks[index]);
    }
}

// Until the initiator hangs up.
static void serve(struct service *s)
{
    struct ibv_wc wc[BATCH_COUNT];
    for (;;) {
        int count = ibv_poll_cq(s->side.cq, BATCH_COUNT, wc);
        for (int i = 0; i < count; i++) {
            if (wc[i].status == IBV_WC_WR_FLUSH_ERR) {
                return;
            }
            if (wc[i].status != IBV_WC_SUCCESS) {
                errno = 0;
                side_die("a work request: %s", ibv_wc_status_str(wc[i].status));
            }
            on_completion(s, &wc[i]);
        }
        leave(s);
        if (count < 0 || s->target.failure != NULL) {
            errno = 0;
            side_die("%s", count < 0 ? "ibv_poll_cq" : s->target.failure);
        }
    }
}

// To whoever started it, who may be waiting for the line.
static void __attribute__((format(printf, 1, 2))) say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    fflush(stdout);
}

/* ---- connections ----------------------------------------------------------------------------- */

static void meet(struct service *s, uint8_t *disk, size_t disk_len)
{
    struct rdma_conn_param param = {
        .responder_resources = 32, .initiator_depth = 32, .rnr_retry_count = 7};
    struct rdma_cm_event *event = side_event(&s->side, RDMA_CM_EVENT_CONNECT_REQUEST);
    const uint8_t *greeting = event->param.conn.private_data;
    if (event->param.conn.private_data_len < 1 || greeting[0] >= WAY_COUNT) {
        errno = 0;
        side_die("a greeting that says nothing");
    }
    s->side.way = (enum way)greeting[0];
    s->side.id = event->id;
    s->side.depth = TARGET_TASK_MAX;
    rdma_ack_cm_event(event);
    side_prepare(&s->side, 2 * s->side.depth, false);
    s->chain = (struct chain){.wrs = s->wrs, .sges = s->sges};
    s->receives = (struct receives){.wrs = s->recv_wrs, .sges = s->recv_sges};
    s->disk_mr = ibv_reg_mr(s->side.id->pd, disk, disk_len, IBV_ACCESS_LOCAL_WRITE);
    if (s->disk_mr == NULL) {
        side_die("ibv_reg_mr of the disk");
    }
    target_init(&s->target, disk, disk_len);
    if (rdma_accept(s->side.id, &param) != 0) {
        side_die("rdma_accept");
    }
    rdma_ack_cm_event(side_event(&s->side, RDMA_CM_EVENT_ESTABLISHED));
    say("%s: connected\n", way_names[s->side.way]);
}

static void part(struct service *s)
{
    rdma_ack_cm_event(side_event(&s->side, RDMA_CM_EVENT_DISCONNECTED));
    ibv_dereg_mr(s->disk_mr);
    side_unprepare(&s->side);
}

static struct rdma_cm_id *listen_at(struct service *s, struct sockaddr_in *addr)
{
    struct rdma_cm_id *listener;
    s->side.channel = rdma_create_event_channel();
    if (s->side.channel == NULL ||
        rdma_create_id(s->side.channel, &listener, NULL, RDMA_PS_TCP) != 0 ||
        rdma_bind_addr(listener, (struct sockaddr *)addr) != 0 || rdma_listen(listener, 4) != 0) {
        side_die("listening");
    }
    return listener;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"disk", required_argument, NULL, 'd'}, {"once", no_argument, NULL, 'o'}, {0}};
    size_t disk_len = 64 << 20;
    bool is_once = false;
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'd') {
            disk_len = strtoul(optarg, NULL, 10) << 20;
        } else if (option == 'o') {
            is_once = true;
        } else {
            return 2;
        }
    }
    struct sockaddr_in addr;
    if (argc - optind != 2 || !side_address(argv[optind], argv[optind + 1], &addr)) {
        fprintf(stderr, "usage: block-target ADDRESS PORT [--disk=MIB] [--once]\n");
        return 2;
    }
    static struct service service;
    uint8_t *disk = calloc(1, disk_len);
    struct rdma_cm_id *listener = listen_at(&service, &addr);
    if (disk == NULL) {
        side_die("memory for the disk");
    }
    say("listening on port %u\n", ntohs(rdma_get_src_port(listener)));
    do {
        meet(&service, disk, disk_len);
        serve(&service);
        say("%s: %llu commands\n", way_names[service.side.way],
            (unsigned long long)service.target.done);
        part(&service);
    } while (!is_once);
    rdma_destroy_id(listener);
    rdma_destroy_event_channel(service.side.channel);
    free(disk);
    return 0;
}
