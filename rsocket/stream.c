// The two directions of a connected socket.
//
//   out   program -> our ring -> RDMA Write into the peer's current place, then a message DATA n
//   in    the peer's Writes -> our ring (two halves, each a place) -> program
//         what the program has read is announced again, half a ring at a time: an rs_sge written
//         into the peer's list of places, then a message CREDIT
//
// The peer's list is written round robin; a place is used up before the next one is begun, so the
// list never overtakes its reader. Credits bound the messages under way to the receives posted.

#include <rdma/rdma_verbs.h>
#include <stdlib.h>
#include <string.h>

#include "rsocket/rsocket.h"

enum { MESSAGE_LEN = 4 };

// What a work request gives back when it completes, in its wr_id: the kind, and a number.
enum wr_kind {
    WR_RECEIVE, // number: which message slot
    WR_DATA,    // number: octets of the ring
    WR_CONTROL,
};

static uint64_t wr_id(enum wr_kind kind, uint32_t number)
{
    return (uint64_t)kind << 32 | number;
}

static void broken(struct rs *rs, int error)
{
    if (rs_move(rs, RS_ON_BREAK)) {
        rs->error = error;
    }
}

/* ---- creation -------------------------------------------------------------------------------- */

static uint8_t *message_slot(const struct rs *rs, uint32_t index)
{
    return rs->rx.ring + rs->rx.len + (size_t)index * MESSAGE_LEN;
}

static int receive_post(struct rs *rs, uint32_t index)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)message_slot(rs, index), .length = MESSAGE_LEN, .lkey = rs->rx.mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = wr_id(WR_RECEIVE, index), .sg_list = &sge, .num_sge = 1};
    struct ibv_recv_wr *bad;
    int error = ibv_post_recv(rs->id->qp, &wr, &bad);
    return error == 0 ? 0 : rs_fail(error);
}

static uint16_t qp_size_fit(uint16_t wanted, uint32_t most)
{
    uint16_t size = wanted < RS_QP_SIZE_MIN ? RS_QP_SIZE_MIN : wanted;
    return size < most ? size : (uint16_t)most;
}

// Control messages need no credit of the peer's, so there are work requests for some beyond what
// the program asked for.
static int qp_sizes_fit(struct rs *rs)
{
    struct ibv_device_attr device;
    int error = ibv_query_device(rs->id->verbs, &device);
    if (error != 0) {
        return rs_fail(error);
    }
    uint32_t most = (uint32_t)device.max_qp_wr - 2 * RS_CONTROL_WR_MAX;
    rs->options.sq_size = qp_size_fit(rs->options.sq_size, most);
    rs->options.rq_size = qp_size_fit(rs->options.rq_size, most);
    return 0;
}

static int qp_open(struct rs *rs)
{
    struct rdma_cm_id *id = rs->id;
    if (qp_sizes_fit(rs) != 0) {
        return -1;
    }
    rs->rx.receive_count = rs->options.rq_size + 2 * RS_CONTROL_WR_MAX;
    uint32_t send_count = rs->options.sq_size + RS_CONTROL_WR_MAX;
    id->recv_cq_channel = id->send_cq_channel = ibv_create_comp_channel(id->verbs);
    if (id->recv_cq_channel == NULL) {
        return -1;
    }
    fcntl(id->recv_cq_channel->fd, F_SETFL, O_NONBLOCK);
    id->recv_cq = id->send_cq = ibv_create_cq(id->verbs, (int)(send_count + rs->rx.receive_count),
                                              rs, id->recv_cq_channel, 0);
    if (id->recv_cq == NULL) {
        return -1;
    }
    // Entries of lists go inline at any rate: they live on the stack.
    uint32_t inline_len = rs->options.inline_len;
    if (inline_len < sizeof(struct rs_iomap_entry)) {
        inline_len = sizeof(struct rs_iomap_entry);
    }
    struct ibv_qp_init_attr attr = {
        .qp_context = rs,
        .send_cq = id->send_cq,
        .recv_cq = id->recv_cq,
        .qp_type = IBV_QPT_RC,
        .sq_sig_all = 1,
        .cap = {.max_send_wr = send_count,
                .max_recv_wr = rs->rx.receive_count,
                .max_send_sge = 2,
                .max_recv_sge = 1,
                .max_inline_data = inline_len},
    };
    if (rdma_create_qp(id, NULL, &attr) != 0) {
        return -1;
    }
    rs->options.inline_len =
        attr.cap.max_inline_data < RS_INLINE_MAX ? attr.cap.max_inline_data : RS_INLINE_MAX;
    return 0;
}

static int memory_open(struct rs *rs)
{
    size_t targets_len = RS_SGE_COUNT * sizeof(struct rs_sge) +
                         rs->options.iomap_count * sizeof(struct rs_iomap_entry);
    size_t rx_len = rs->options.recv_ring_len + (size_t)rs->rx.receive_count * MESSAGE_LEN;
    rs->tx.ring = malloc(rs->options.send_ring_len);
    rs->rx.ring = calloc(1, rx_len); // a peer may tell of octets that it never wrote
    rs->targets = calloc(1, targets_len);
    if (rs->tx.ring == NULL || rs->rx.ring == NULL || rs->targets == NULL) {
        return rs_fail(ENOMEM);
    }
    rs->tx.len = rs->tx.free_len = rs->options.send_ring_len;
    rs->rx.len = rs->options.recv_ring_len;
    rs->tx.mr = rdma_reg_msgs(rs->id, rs->tx.ring, rs->tx.len);
    rs->rx.mr = rdma_reg_write(rs->id, rs->rx.ring, rx_len);
    rs->targets_mr = rdma_reg_write(rs->id, rs->targets, targets_len);
    return rs->tx.mr != NULL && rs->rx.mr != NULL && rs->targets_mr != NULL ? 0 : -1;
}

int rs_stream_open(struct rs *rs)
{
    if (qp_open(rs) != 0 || memory_open(rs) != 0) {
        return -1;
    }
    for (uint32_t i = 0; i < rs->rx.receive_count; i++) {
        if (receive_post(rs, i) != 0) {
            return -1;
        }
    }
    // The first half is announced with the start-up data, the second one as soon as may be.
    rs->rx.announced_len = rs->rx.len / 2;
    rs->rx.free_len = rs->rx.free_at = rs->rx.len / 2;
    rs->rx.seq_credit = rs->options.rq_size / 2;
    return 0;
}

static void mr_close(struct ibv_mr *mr)
{
    if (mr != NULL) {
        ibv_dereg_mr(mr);
    }
}

void rs_stream_close(struct rs *rs)
{
    if (rs->id->qp != NULL) {
        rdma_destroy_qp(rs->id);
    } else if (rs->id->recv_cq_channel != NULL) { // opening it failed in between
        ibv_destroy_comp_channel(rs->id->recv_cq_channel);
        rs->id->recv_cq_channel = rs->id->send_cq_channel = NULL;
    }
    mr_close(rs->tx.mr);
    mr_close(rs->rx.mr);
    mr_close(rs->targets_mr);
    free(rs->tx.ring);
    free(rs->rx.ring);
    free(rs->targets);
    rs->tx = (struct rs_send_side){0};
    rs->rx = (struct rs_recv_side){0};
    rs->targets = NULL;
    rs->targets_mr = NULL;
    rs->is_armed = rs->has_more = false;
}

struct rs_hello rs_stream_hello(const struct rs *rs)
{
    return (struct rs_hello){
        .credits = rs->options.rq_size,
        .iomap_count = rs->options.iomap_count,
        .list = {.addr = (uintptr_t)rs->targets,
                 .key = rs->targets_mr->rkey,
                 .length = RS_SGE_COUNT},
        .first = {.addr = (uintptr_t)rs->rx.ring, .key = rs->rx.mr->rkey, .length = rs->rx.len / 2},
    };
}

void rs_stream_start(struct rs *rs, const struct rs_hello *peer)
{
    rs->tx.list = peer->list;
    rs->tx.list_index = 1 % peer->list.length;
    rs->tx.seq_end = peer->credits;
    rs->tx.iomap = (struct rs_sge){
        .addr = peer->list.addr + (uint64_t)peer->list.length * sizeof(struct rs_sge),
        .key = peer->list.key,
        .length = peer->iomap_count,
    };
    rs->tx.place = peer->first;
    rs->tx.place_index = 1;
    rs_move(rs, RS_ON_ESTABLISHED);
    rs->may_read = rs->may_write = true;
}

/* ---- posting --------------------------------------------------------------------------------- */

// A Write and the message that tells of it, or either alone; rung once.
struct transfer {
    struct ibv_sge sges[2];
    struct ibv_send_wr write;
    struct ibv_sge message_sge;
    struct ibv_send_wr message;
    uint8_t octets[RS_INLINE_MAX]; // what goes inline
};

// Whither; what is written stands there already.
static void write_address(struct transfer *t, uint64_t id, uint64_t addr, uint32_t key)
{
    t->write.wr_id = id;
    t->write.sg_list = t->sges;
    t->write.opcode = IBV_WR_RDMA_WRITE;
    t->write.wr.rdma.remote_addr = addr;
    t->write.wr.rdma.rkey = key;
}

// Writes one entry of a list, which needs to live only until it is posted.
static void entry_fill(struct transfer *t, const void *entry, uint32_t len)
{
    t->sges[0] = (struct ibv_sge){.addr = (uintptr_t)entry, .length = len};
    t->write = (struct ibv_send_wr){.num_sge = 1, .send_flags = IBV_SEND_INLINE};
}

static void message_fill(struct transfer *t, const uint32_t *message, enum wr_kind kind)
{
    t->message_sge = (struct ibv_sge){.addr = (uintptr_t)message, .length = MESSAGE_LEN};
    t->message = (struct ibv_send_wr){
        .wr_id = wr_id(kind, 0),
        .sg_list = &t->message_sge,
        .num_sge = 1,
        .opcode = IBV_WR_SEND,
        .send_flags = IBV_SEND_INLINE,
    };
}

static int post(struct rs *rs, struct ibv_send_wr *first)
{
    struct ibv_send_wr *bad;
    int error = ibv_post_send(rs->id->qp, first, &bad);
    if (error != 0) {
        broken(rs, error);
        return rs_fail(error);
    }
    return 0;
}

// Octets for the Write: through the ring, as one or two elements; few ones inline, which take no
// room there. Returns how much of the ring they take.
static uint32_t write_fill_from(struct rs *rs, struct transfer *t, struct rs_source *source,
                                uint32_t len)
{
    if (len <= rs->options.inline_len) {
        rs_source_copy(source, t->octets, len);
        t->sges[0] = (struct ibv_sge){.addr = (uintptr_t)t->octets, .length = len};
        t->write = (struct ibv_send_wr){.num_sge = 1, .send_flags = IBV_SEND_INLINE};
        return 0;
    }
    uint32_t to_end = rs->tx.len - rs->tx.at;
    uint32_t first = len < to_end ? len : to_end;
    rs_source_copy(source, rs->tx.ring + rs->tx.at, first);
    rs_source_copy(source, rs->tx.ring, len - first);
    t->sges[0] = (struct ibv_sge){
        .addr = (uintptr_t)(rs->tx.ring + rs->tx.at), .length = first, .lkey = rs->tx.mr->lkey};
    t->sges[1] = (struct ibv_sge){
        .addr = (uintptr_t)rs->tx.ring, .length = len - first, .lkey = rs->tx.mr->lkey};
    t->write = (struct ibv_send_wr){.num_sge = len > first ? 2 : 1};
    rs->tx.at = (rs->tx.at + len) % rs->tx.len;
    rs->tx.free_len -= len;
    return len;
}

/* ---- sending --------------------------------------------------------------------------------- */

// Takes the next place if it is there. The peer writes to the entry again only when this place is
// used up, so until then zeros can stand there.
static void place_take(struct rs *rs)
{
    struct rs_sge *entry = &rs->targets[rs->tx.place_index];
    if (rs->tx.place.length > 0) {
        return;
    }
    rs->tx.place = rs_sge_load(entry);
    if (rs->tx.place.length > 0) {
        *entry = (struct rs_sge){0};
        rs->tx.place_index = (rs->tx.place_index + 1) % RS_SGE_COUNT;
    }
}

bool rs_stream_may_send(const struct rs *rs)
{
    return rs->state == RS_CONNECTED && rs->may_write && rs->tx.seq != rs->tx.seq_end &&
           rs->tx.wr_count + 2 <= rs->options.sq_size && rs->tx.free_len >= RS_SEND_LOW_WATER &&
           rs->tx.place.length > 0;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t transfer_len(const struct rs *rs, const struct rs_source *source, uint64_t limit)
{
    uint64_t len = source->left < limit ? source->left : limit;
    return len < RS_TRANSFER_MAX ? least((uint32_t)len, rs->tx.free_len)
                                 : least(RS_TRANSFER_MAX, rs->tx.free_len);
}

ssize_t rs_stream_send(struct rs *rs, struct rs_source *source, size_t limit)
{
    struct rs_sge *place = &rs->tx.place;
    uint32_t len = least(transfer_len(rs, source, limit), place->length);
    uint32_t message = rs_message(RS_OP_DATA, len);
    struct transfer t;
    uint32_t ring_len = write_fill_from(rs, &t, source, len);
    write_address(&t, wr_id(WR_DATA, ring_len), place->addr, place->key);
    message_fill(&t, &message, WR_DATA);
    t.write.next = &t.message;
    place->addr += len;
    place->length -= len;
    place_take(rs);
    rs->tx.seq++;
    rs->tx.wr_count += 2;
    return post(rs, &t.write) == 0 ? (ssize_t)len : -1;
}

ssize_t rs_stream_send_direct(struct rs *rs, struct rs_source *source,
                              const struct rs_iomap_entry *entry, uint64_t offset)
{
    uint64_t at = offset - entry->offset;
    uint32_t len = transfer_len(rs, source, entry->sge.length - at);
    struct transfer t;
    uint32_t ring_len = write_fill_from(rs, &t, source, len);
    write_address(&t, wr_id(WR_DATA, ring_len), entry->sge.addr + at, entry->sge.key);
    rs->tx.wr_count++;
    return post(rs, &t.write) == 0 ? (ssize_t)len : -1;
}

bool rs_stream_may_control(const struct rs *rs)
{
    return rs->tx.control_count + 2 <= RS_CONTROL_WR_MAX;
}

int rs_stream_send_control(struct rs *rs, enum rs_control control)
{
    uint32_t message = rs_message(RS_OP_CONTROL, control);
    struct transfer t;
    message_fill(&t, &message, WR_CONTROL);
    rs->tx.control_count++;
    return post(rs, &t.message);
}

int rs_stream_send_iomap(struct rs *rs, unsigned index, const struct rs_iomap_entry *entry)
{
    uint32_t message = rs_message(RS_OP_IOMAP, index);
    struct transfer t;
    entry_fill(&t, entry, sizeof *entry);
    write_address(&t, wr_id(WR_DATA, 0), rs->tx.iomap.addr + (uint64_t)index * sizeof *entry,
                  rs->tx.iomap.key);
    message_fill(&t, &message, WR_DATA);
    t.write.next = &t.message;
    rs->tx.seq++;
    rs->tx.wr_count += 2;
    return post(rs, &t.write);
}

bool rs_stream_is_idle(const struct rs *rs)
{
    return rs->tx.wr_count == 0 && rs->tx.control_count == 0;
}

/* ---- credits --------------------------------------------------------------------------------- */

static bool has_half_free(const struct rs *rs)
{
    return rs->rx.free_len >= rs->rx.len / 2;
}

static bool is_credit_due(const struct rs *rs)
{
    return rs->state == RS_CONNECTED && rs_stream_may_control(rs) &&
           (has_half_free(rs) || (int16_t)(rs->rx.seq - rs->rx.seq_credit) >= 0);
}

static void credit_send(struct rs *rs)
{
    uint32_t half = rs->rx.len / 2;
    uint16_t end = (uint16_t)(rs->rx.seq + rs->options.rq_size);
    uint32_t message = rs_message(RS_OP_CREDIT, end);
    struct rs_sge place;
    struct transfer t;
    struct ibv_send_wr *first = &t.message;
    message_fill(&t, &message, WR_CONTROL);
    rs->tx.control_count++;
    if (has_half_free(rs)) {
        place = (struct rs_sge){.addr = (uintptr_t)(rs->rx.ring + rs->rx.free_at),
                                .key = rs->rx.mr->rkey,
                                .length = half};
        entry_fill(&t, &place, sizeof place);
        write_address(&t, wr_id(WR_CONTROL, 0), rs->tx.list.addr + rs->tx.list_index * sizeof place,
                      rs->tx.list.key);
        t.write.next = &t.message;
        first = &t.write;
        rs->tx.control_count++;
        rs->tx.list_index = (rs->tx.list_index + 1) % rs->tx.list.length;
        rs->rx.free_len -= half;
        rs->rx.free_at = (rs->rx.free_at + half) % rs->rx.len;
        rs->rx.announced_len += half;
    }
    rs->rx.seq_credit = (uint16_t)(rs->rx.seq + rs->options.rq_size / 2);
    post(rs, first);
}

/* ---- completions ----------------------------------------------------------------------------- */

static void on_data(struct rs *rs, uint32_t len)
{
    if (len > rs->rx.announced_len) {
        broken(rs, EPROTO); // more than the places that the peer had
        return;
    }
    rs->rx.announced_len -= len;
    rs->rx.ready_len += len;
    rs->rx.seq++;
}

static void on_control(struct rs *rs, uint32_t control)
{
    if (rs->state != RS_CONNECTED) {
        return;
    }
    if (control == RS_CONTROL_SHUTDOWN && rs->may_write) {
        rs->may_read = false;
    } else if (control == RS_CONTROL_SHUTDOWN || control == RS_CONTROL_DISCONNECT) {
        rs_move(rs, RS_ON_GOODBYE);
        rs->may_read = rs->may_write = false;
    }
}

static void on_message(struct rs *rs, uint32_t message)
{
    uint32_t value = message & RS_MESSAGE_VALUE_MASK;
    switch ((enum rs_op)(message >> 29)) {
    case RS_OP_DATA:
        on_data(rs, value);
        break;
    case RS_OP_CREDIT:
        rs->tx.seq_end = (uint16_t)value;
        break;
    case RS_OP_IOMAP:
        rs->rx.seq++; // the entry itself is in its place already
        break;
    case RS_OP_CONTROL:
        on_control(rs, value);
        break;
    }
}

static void on_receive(struct rs *rs, const struct ibv_wc *wc)
{
    uint32_t index = (uint32_t)wc->wr_id, message;
    if (wc->status != IBV_WC_SUCCESS) {
        broken(rs, ECONNRESET); // the stream is gone, and the peer had not said goodbye
        return;
    }
    memcpy(&message, message_slot(rs, index), sizeof message);
    on_message(rs, message);
    if (rs->state == RS_CONNECTED && receive_post(rs, index) != 0) {
        broken(rs, errno);
    }
}

static void on_completion(void *ctx, const struct ibv_wc *wc)
{
    struct rs *rs = ctx;
    switch ((enum wr_kind)(wc->wr_id >> 32)) {
    case WR_RECEIVE:
        on_receive(rs, wc);
        return;
    case WR_DATA:
        rs->tx.wr_count--;
        rs->tx.free_len += (uint32_t)wc->wr_id;
        break;
    case WR_CONTROL:
        rs->tx.control_count--;
        break;
    }
    if (wc->status != IBV_WC_SUCCESS) {
        broken(rs, ECONNRESET);
    }
}

bool rs_stream_progress(struct rs *rs)
{
    const int taken = rs_look(rs->id->recv_cq, on_completion, rs, &rs->has_more);
    if (taken < 0) {
        broken(rs, EIO);
    }
    place_take(rs);
    while (is_credit_due(rs)) {
        credit_send(rs);
    }
    return taken > 0;
}

bool rs_stream_arm(struct rs *rs)
{
    if (rs->is_armed) {
        return false;
    }
    rs->is_armed = true;
    ibv_req_notify_cq(rs->id->recv_cq, 0);
    return true;
}

void rs_stream_take_event(struct rs *rs)
{
    struct ibv_cq *cq;
    void *context;
    if (ibv_get_cq_event(rs->id->recv_cq_channel, &cq, &context) == 0) {
        ibv_ack_cq_events(cq, 1);
        rs->is_armed = false;
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

size_t rs_stream_peek(const struct rs *rs, size_t from, void *buf, size_t len)
{
    const size_t rest = from < rs->rx.ready_len ? rs->rx.ready_len - from : 0;
    const size_t n = len < rest ? len : rest;
    if (n == 0) {
        return 0;
    }
    const size_t at = (rs->rx.at + from) % rs->rx.len, to_end = rs->rx.len - at;
    const size_t first = n < to_end ? n : to_end;
    memcpy(buf, rs->rx.ring + at, first);
    memcpy((uint8_t *)buf + first, rs->rx.ring, n - first);
    return n;
}

size_t rs_stream_read(struct rs *rs, void *buf, size_t len)
{
    const uint32_t n = (uint32_t)rs_stream_peek(rs, 0, buf, len);
    if (n > 0) {
        rs->rx.at = (rs->rx.at + n) % rs->rx.len;
        rs->rx.ready_len -= n;
        rs->rx.free_len += n;
    }
    return n;
}
