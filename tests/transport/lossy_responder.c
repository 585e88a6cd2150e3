// The responder of the lossy transport: cells in order; requests once, and again for who asks
// again.
#include "tests/transport/lossy.h"

enum {
    LOSS = 100, // of 1024
    REPEAT = 60,
};

void lossy_send_packet(struct lossy *l, struct packet *p)
{
    p->to = l->end->peer;
    net_put(l->end->world, p, LOSS, REPEAT);
}

void lossy_send_word(struct lossy *l, enum lossy_kind kind, uint64_t psn)
{
    struct packet p = {.kind = kind, .psn = psn, .status = l->fault};
    lossy_send_packet(l, &p);
}

/* ---- responder ------------------------------------------------------------------------------- */

static bool is_request(const struct message *m)
{
    return m->opcode == WQE_RDMA_READ || m->opcode == WQE_ATOMIC_CMP_AND_SWP ||
           m->opcode == WQE_ATOMIC_FETCH_AND_ADD;
}

static enum wc_status answer_read(struct lossy *l, const struct packet *request)
{
    const struct message *m = &request->message;
    struct packet p = {.kind = KIND_ANSWER, .psn = request->psn, .offset = request->offset};
    do {
        uint64_t left = m->length - p.offset;
        size_t most = 1 + prng_below(&l->end->world->prng, PACKET_LEN_MAX);
        struct mspan pieces[SGE_COUNT_MAX];
        unsigned count;
        p.len = left < most ? (size_t)left : most;
        enum wc_status status = peer_read(&l->in, m, p.offset, p.len, pieces, &count);
        if (status != WC_SUCCESS) {
            return status;
        }
        for (unsigned i = 0, at = 0; i < count; at += (unsigned)pieces[i++].len) {
            memcpy(p.octets + at, pieces[i].ptr, pieces[i].len);
        }
        lossy_send_packet(l, &p);
        p.offset += p.len;
    } while (p.offset < m->length);
    return WC_SUCCESS;
}

static void answer_atomic(struct lossy *l, uint64_t psn)
{
    for (unsigned i = 0; i < REPLAY_MAX && i < l->replay_count; i++) {
        if (l->replays[i].psn == psn) {
            struct packet p = {.kind = KIND_ANSWER, .psn = psn, .len = 8};
            memcpy(p.octets, &l->replays[i].original, 8);
            lossy_send_packet(l, &p);
        }
    }
}

static enum wc_status take_request(struct lossy *l, const struct packet *p)
{
    if (p->message.opcode == WQE_RDMA_READ) {
        struct mspan pieces[SGE_COUNT_MAX];
        unsigned count;
        enum wc_status status =
            peer_read(&l->in, &p->message, 0, p->message.length, pieces, &count);
        return status == WC_SUCCESS ? answer_read(l, p) : status;
    }
    struct replay replay = {.psn = p->psn};
    enum wc_status status = peer_atomic(&l->in, &p->message, &replay.original);
    if (status == WC_SUCCESS) {
        l->replays[l->replay_count++ % REPLAY_MAX] = replay;
        answer_atomic(l, p->psn);
    }
    return status;
}

// Seen before, as a whole.
static void on_repeated(struct lossy *l, const struct packet *p)
{
    if (p->message.opcode == WQE_RDMA_READ) {
        l->end->world->trouble.read_again++;
        answer_read(l, p);
    } else if (is_request(&p->message)) {
        l->end->world->trouble.answered_again++;
        answer_atomic(l, p->psn);
    } else {
        lossy_send_word(l, KIND_ACK, l->expected_psn);
    }
}

// From the cell that is due; those before it were here already.
static enum wc_status take_cells(struct lossy *l, const struct packet *p)
{
    const struct message *m = &p->message;
    uint64_t seen = (l->expected_psn - p->psn) * CELL_LEN;
    struct span octets = span_skip(span_of(p->octets, p->len), (size_t)seen);
    enum wc_status status = peer_place(&l->in, m, p->offset + seen, octets);
    bool is_last = p->offset + p->len == m->length;
    return status == WC_SUCCESS && is_last ? peer_end(&l->in, m) : status;
}

void lossy_on_cells(struct lossy *l, const struct packet *p)
{
    const struct message *m = &p->message;
    bool is_first = !is_request(m) && p->psn == l->expected_psn && p->offset == 0;
    if (p->psn + p->cell_count <= l->expected_psn) {
        on_repeated(l, p);
    } else if (l->fault != WC_SUCCESS) {
        lossy_send_word(l, KIND_FAULT, l->expected_psn);
    } else if (l->is_over) {
        return;
    } else if (p->psn > l->expected_psn) {
        if (!l->has_told_gap) {
            l->end->world->trouble.gaps++;
            lossy_send_word(l, KIND_GAP, l->expected_psn);
        }
        l->has_told_gap = true;
    } else if (is_first && !peer_begin(&l->in, m)) {
        l->end->world->trouble.not_ready++;
        lossy_send_word(l, KIND_NOT_READY, l->expected_psn);
    } else {
        l->has_told_gap = false;
        l->fault = is_request(m) ? take_request(l, p) : take_cells(l, p);
        if (l->fault != WC_SUCCESS) {
            lossy_send_word(l, KIND_FAULT, l->expected_psn);
            lossy_flush(l);
            return;
        }
        l->expected_psn = p->psn + p->cell_count;
        lossy_send_word(l, KIND_ACK, l->expected_psn);
    }
}
