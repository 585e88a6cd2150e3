// What the tests of one-shot RDMA share: a pair with command tables, and the posts of both sides.
// End a posts commands, end b is the target.
#pragma once

#include <endian.h>
#include <errno.h>

#include "tests/iwarp/craft.h"
#include "tests/iwarp/pair.h"

enum {
    FLAGS = EXTENSION_ONESHOT_FLAGS | EXTENSION_ONESHOT_PARTS,
    OPCODE = EXTENSION_ONESHOT_OPCODE | EXTENSION_ONESHOT_PARTS,
    BODY_LEN = 48,
    REFERENCE_AT = 24,
    COMMAND_MAX = 4,
    ELEMENT_MAX = 100,
    DATA_AT = 64 * 1024, // in both memories; bodies and receives lie in front of it
    DATA_LEN = 10000,
};

static const uint64_t reference = 0x1122334455667788;

static const struct oneshot_config config = {
    .command_max = COMMAND_MAX,
    .element_max = ELEMENT_MAX,
    .request = {.offset = REFERENCE_AT, .len = 8},
    .answer = {.offset = REFERENCE_AT, .len = 8},
};

static inline struct pair *open_pair(uint8_t agreed, uint32_t mulpdu)
{
    struct pair_options options = {.weft = agreed != 0, .oneshot = agreed, .mulpdu = mulpdu};
    struct pair *p = pair_open(&options);
    assert_int_equal(wq_oneshot_create(qp_wq(p->a.qp), &config), 0);
    assert_int_equal(wq_oneshot_create(qp_wq(p->b.qp), &config), 0);
    pair_run(p); // the extension message
    for (unsigned i = 0; i < 8; i++) {
        pair_post_receive(p, &p->a, 100 + i, i * 256, 256);
        pair_post_receive(p, &p->b, 200 + i, i * 256, 256);
    }
    return p;
}

// DATA_LEN octets of a's memory, in pieces of `element_len` with gaps of as many octets.
static inline void fill_list(struct end *e, struct oneshot_command *command, uint32_t element_len)
{
    unsigned count = (DATA_LEN + element_len - 1) / element_len;
    for (unsigned i = 0; i < count; i++) {
        uint32_t len = i + 1 < count ? element_len : DATA_LEN - i * element_len;
        command->list.elements[i].octets = mspan_of(e->memory + DATA_AT + 2 * i * element_len, len);
    }
    mem_list_init(&command->list, command->list.elements, count);
    command->offset = 0;
    command->length = DATA_LEN;
}

// One post, as a front does it; the STag.
static inline uint32_t post_command_as(struct pair *p, struct end *e,
                                       const struct oneshot_config *c, uint64_t number,
                                       uint32_t element_len)
{
    struct oneshot_command *command = wq_oneshot_slot(qp_wq(e->qp));
    assert_non_null(command);
    fill_list(e, command, element_len);
    command->reference = number;
    command->access = MEM_ACCESS_REMOTE_READ | MEM_ACCESS_REMOTE_WRITE;
    struct send_wqe *wqe = pair_send_slot(e, number, WQE_SEND, WQE_INLINE);
    memset(wqe->inline_data, 0x77, BODY_LEN);
    oneshot_field_write(&c->request, wqe->inline_data, number);
    wqe->length = BODY_LEN;
    uint32_t stag = command->stag;
    wq_oneshot_commit(qp_wq(e->qp), wqe);
    pair_post(p, e);
    return stag;
}

static inline uint32_t post_command(struct pair *p, struct end *e, uint64_t number,
                                    uint32_t element_len)
{
    return post_command_as(p, e, &config, number, element_len);
}

static inline void post_close_as(struct pair *p, struct end *e, const struct oneshot_config *c,
                                 uint32_t stag, uint64_t number)
{
    struct send_wqe *wqe = pair_send_slot(e, 900, WQE_SEND, WQE_INLINE | WQE_CLOSE);
    wqe->imm_or_inv = stag;
    memset(wqe->inline_data, 0x99, BODY_LEN);
    oneshot_field_write(&c->answer, wqe->inline_data, number);
    wqe->length = BODY_LEN;
    pair_post(p, e);
}

static inline void post_close(struct pair *p, struct end *e, uint32_t stag, uint64_t number)
{
    post_close_as(p, e, &config, stag, number);
}

static inline void post_access(struct pair *p, struct end *e, enum wqe_opcode opcode, uint32_t stag,
                               uint64_t to, uint32_t len)
{
    struct send_wqe *wqe = pair_send_slot(e, 901, opcode, WQE_SIGNALED);
    pair_set_sge(e, wqe, DATA_AT, len);
    wqe->rkey = stag;
    wqe->remote_addr = to;
    pair_post(p, e);
}

static inline void expect_advertised(struct pair *p, uint32_t stag, uint64_t number)
{
    struct cqe cqe = pair_poll(p->b.recv_cq);
    assert_int_equal(cqe.status, WC_SUCCESS);
    assert_int_equal(cqe.byte_len, BODY_LEN);
    assert_int_equal(cqe.wc_flags, WC_ADVERTISED | WC_REFERENCE);
    assert_int_equal(cqe.inv_rkey, stag);
    assert_true(cqe.reference == number);
}

static inline void expect_closed(struct pair *p, uint32_t stag, uint64_t number)
{
    struct cqe cqe = pair_poll(p->a.recv_cq);
    assert_int_equal(cqe.status, WC_SUCCESS);
    assert_int_equal(cqe.wc_flags, WC_WITH_INV | WC_CLOSED | WC_REFERENCE);
    assert_int_equal(cqe.inv_rkey, stag);
    assert_true(cqe.reference == number);
}
