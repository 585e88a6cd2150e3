// Objects of the verbs on both devices, made with right values and wrong ones as dice have it.
#pragma once

#include <errno.h>
#include <fcntl.h>

#include "base/prng.h"
#include "tests/verbs/meet.h"
#include "tests/verbs/roce.h"

enum {
    DEVICES = 2,
    SLOTS = 10,
    AREA_LEN = 1 << 18,
    GUARD_LEN = 1 << 12, // never registered, at both ends of the area
    GUARD_OCTET = 0xa5,
    SGES_MAX = 64,
    QKEY = 0x11,
    EVERYTHING = MEET_EVERYTHING | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND,
};

// In the order in which they can be destroyed.
enum kind {
    WINDOW,
    QUEUE_PAIR,
    ADDRESS,
    SHARED_QUEUE,
    CQ,
    CQ_EX, // made by ibv_create_cq_ex
    CHANNEL,
    REGION,
    DOMAIN,
    KIND_COUNT
};

static struct {
    struct prng dice;
    struct ibv_context *context[DEVICES];
    union ibv_gid gid[DEVICES];
    void *things[KIND_COUNT][SLOTS];
    unsigned here;          // the device that a step is mostly about
    bool is_careful;        // a step without wrong values
    unsigned made, refused; // of all seeds
} w;

static uint8_t area[AREA_LEN] __attribute__((aligned(4096)));

/* ---- dice ------------------------------------------------------------------------------------ */

static inline uint32_t below(uint32_t bound)
{
    return prng_below(&w.dice, bound);
}

static inline bool one_in(uint32_t count)
{
    return below(count) == 0;
}

static inline bool wrong(uint32_t count)
{
    return !w.is_careful && one_in(count);
}

static inline uint32_t edge(void)
{
    static const uint32_t edges[] = {
        0,    1,    2,    7,    8,     31,    32,      63,      64,       255,       256,
        1023, 1024, 4095, 4096, 65535, 65536, 1 << 20, 1 << 24, 1U << 31, INT32_MAX, UINT32_MAX};
    return edges[below(sizeof edges / sizeof *edges)];
}

// Mostly below `bound`.
static inline uint32_t mostly_below(uint32_t bound)
{
    return wrong(4) ? edge() : below(bound);
}

static inline uint32_t mostly(uint32_t value)
{
    return wrong(6) ? edge() : value;
}

static inline unsigned any_device(void)
{
    return wrong(12) ? below(DEVICES) : w.here;
}

static inline struct ibv_context *any_context(void)
{
    return w.context[any_device()];
}

// Each struct of the verbs begins with it.
static inline bool is_of(const void *thing, const struct ibv_context *context)
{
    return *(struct ibv_context *const *)thing == context;
}

static inline void *any(enum kind kind)
{
    const unsigned start = below(SLOTS);
    const struct ibv_context *context = any_context();
    for (unsigned i = 0; i < SLOTS; i++) {
        void *thing = w.things[kind][(start + i) % SLOTS];
        if (thing != NULL && is_of(thing, context)) {
            return thing;
        }
    }
    return NULL;
}

static inline struct ibv_cq *any_cq(void)
{
    struct ibv_cq_ex *extended = any(CQ_EX);
    struct ibv_cq *cq = any(CQ);
    return extended != NULL && (cq == NULL || one_in(2)) ? ibv_cq_ex_to_cq(extended) : cq;
}

static inline void **free_slot(enum kind kind)
{
    for (unsigned i = 0; i < SLOTS; i++) {
        if (w.things[kind][i] == NULL) {
            return &w.things[kind][i];
        }
    }
    return NULL;
}

// What a call that makes something has answered.
static inline void keep(void **slot, void *made)
{
    assert_true(made != NULL || errno > 0);
    w.made += made != NULL;
    w.refused += made == NULL;
    *slot = made;
}

// What another call has answered.
static inline void expect_errno(int answer)
{
    assert_true(answer >= 0);
    w.refused += answer != 0;
}

static inline uint32_t any_key(void)
{
    const struct ibv_mr *mr = any(REGION);
    const struct ibv_mw *mw = any(WINDOW);
    if (mw != NULL && one_in(6)) {
        return mw->rkey;
    }
    return mr == NULL || wrong(6) ? (uint32_t)prng_next(&w.dice) : mr->rkey;
}

static inline uint64_t any_address(void)
{
    const struct ibv_mr *mr = any(REGION);
    const uint64_t at = mr != NULL && !wrong(4) ? (uintptr_t)mr->addr : (uintptr_t)area;
    return wrong(10) ? prng_next(&w.dice) : at + below(AREA_LEN / 8);
}

static inline struct ibv_sge any_sge(void)
{
    const struct ibv_mr *mr = any(REGION);
    struct ibv_sge sge = {.addr = any_address(), .length = mostly_below(5000), .lkey = any_key()};
    if (mr != NULL && mr->length > 0 && !wrong(6)) {
        sge.addr = (uintptr_t)mr->addr + below((uint32_t)mr->length);
        sge.length = mostly_below(1 + (uint32_t)((uintptr_t)mr->addr + mr->length - sge.addr));
        sge.lkey = mr->lkey;
    }
    return sge;
}

// How many of `sges` are set. More than the array has are more than a device takes.
static inline int any_sges(struct ibv_sge *sges)
{
    const unsigned count = wrong(6) ? below(SGES_MAX) : below(3);
    for (unsigned i = 0; i < count; i++) {
        sges[i] = any_sge();
    }
    return wrong(12) ? (one_in(2) ? -1 : INT32_MAX) : (int)count;
}

/* ---- what makes ------------------------------------------------------------------------------ */

static inline void make_domain(void **slot)
{
    keep(slot, ibv_alloc_pd(any_context()));
}

static inline void make_channel(void **slot)
{
    struct ibv_comp_channel *channel = ibv_create_comp_channel(any_context());
    keep(slot, channel);
    if (channel != NULL) {
        assert_int_equal(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
    }
}

static inline void make_cq(void **slot)
{
    struct ibv_comp_channel *channel = one_in(2) ? any(CHANNEL) : NULL;
    const int vector = (int)mostly(0);
    keep(slot, ibv_create_cq(any_context(), (int)mostly_below(200), &w, channel, vector));
}

static inline void make_cq_ex(void **slot)
{
    struct ibv_cq_init_attr_ex attr = {
        .cqe = mostly_below(200),
        .channel = one_in(2) ? any(CHANNEL) : NULL,
        .comp_vector = mostly(0),
        .wc_flags = wrong(4) ? prng_next(&w.dice) : below(IBV_WC_STANDARD_FLAGS + 1),
        .comp_mask = wrong(2) ? mostly_below(4) : 0,
        .flags = below(4),
        .parent_domain = any(DOMAIN),
    };
    keep(slot, ibv_create_cq_ex(any_context(), &attr));
}

static inline void make_shared_queue(void **slot)
{
    struct ibv_pd *pd = any(DOMAIN);
    struct ibv_srq_init_attr attr = {
        .attr = {.max_wr = mostly_below(100), .max_sge = mostly_below(9), .srq_limit = edge()}};
    if (pd != NULL) {
        keep(slot, ibv_create_srq(pd, &attr));
    }
}

static inline struct ibv_qp_cap any_cap(void)
{
    return (struct ibv_qp_cap){
        .max_send_wr = mostly_below(64),
        .max_recv_wr = mostly_below(64),
        .max_send_sge = mostly_below(6),
        .max_recv_sge = mostly_below(6),
        .max_inline_data = mostly_below(300),
    };
}

static inline enum ibv_qp_type any_type(void)
{
    static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_UD, IBV_QPT_UC};
    return wrong(8) ? (enum ibv_qp_type)below(300) : types[below(4)];
}

static inline void make_queue_pair(void **slot)
{
    struct ibv_pd *pd = any(DOMAIN);
    struct ibv_qp_init_attr attr = {
        .send_cq = any_cq(),
        .recv_cq = any_cq(),
        .srq = one_in(3) ? any(SHARED_QUEUE) : NULL,
        .cap = any_cap(),
        .qp_type = any_type(),
        .sq_sig_all = one_in(2),
    };
    if (pd != NULL) {
        keep(slot, ibv_create_qp(pd, &attr));
    }
}

static inline void make_queue_pair_ex(void **slot)
{
    struct ibv_qp_init_attr_ex attr = {
        .send_cq = any_cq(),
        .recv_cq = any_cq(),
        .srq = one_in(3) ? any(SHARED_QUEUE) : NULL,
        .cap = any_cap(),
        .qp_type = any_type(),
        .sq_sig_all = one_in(2),
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .pd = any(DOMAIN),
        .create_flags = mostly(0),
        .send_ops_flags = wrong(3) ? prng_next(&w.dice) : IBV_QP_EX_WITH_SEND,
    };
    attr.comp_mask ^= wrong(8) ? edge() : 0;
    if (attr.pd != NULL) {
        keep(slot, ibv_create_qp_ex(any_context(), &attr));
    }
}

// Octets between the guards, or a place where nothing need be.
static inline void make_region(void **slot)
{
    struct ibv_pd *pd = any(DOMAIN);
    const uint32_t room = AREA_LEN - 2 * GUARD_LEN, offset = below(room);
    void *addr = area + GUARD_LEN + offset;
    size_t length = below(room - offset + 1);
    unsigned access = wrong(2) ? below(1 << 10) & ~(unsigned)IBV_ACCESS_ON_DEMAND : EVERYTHING;
    if (wrong(6)) {
        addr = (void *)(uintptr_t)prng_next(&w.dice);
        length = edge();
    }
    if (pd != NULL) {
        const uint64_t iova = one_in(4) ? prng_next(&w.dice) : (uintptr_t)addr;
        keep(slot, one_in(4) ? ibv_reg_mr_iova(pd, addr, length, iova, access)
                             : ibv_reg_mr(pd, addr, length, (int)access));
    }
}

static inline void make_window(void **slot)
{
    struct ibv_pd *pd = any(DOMAIN);
    if (pd != NULL) {
        keep(slot, ibv_alloc_mw(pd, (enum ibv_mw_type)mostly(1 + below(2))));
    }
}

// Addresses of documentation (RFC 5737, RFC 3849), behind which nobody is bothered; a group; none.
static inline union ibv_gid gid_of_nobody(void)
{
    static const union ibv_gid all[] = {{.raw = {[10] = 0xff, 0xff, 192, 0, 2, 77}},
                                        {.raw = {0x20, 0x01, 0x0d, 0xb8, [15] = 77}},
                                        {.raw = {0xff, 0x01, [15] = 77}},
                                        {.raw = {0}}};
    return all[below(sizeof all / sizeof all[0])];
}

static inline struct ibv_ah_attr any_path(void)
{
    struct ibv_ah_attr path = {.is_global = !wrong(8),
                               .port_num = (uint8_t)mostly(1),
                               .grh = {.dgid = w.gid[any_device()],
                                       .sgid_index = (uint8_t)mostly(0),
                                       .hop_limit = (uint8_t)below(256),
                                       .traffic_class = (uint8_t)below(256)}};
    if (wrong(8)) {
        path.grh.dgid = gid_of_nobody();
    }
    return path;
}

static inline void make_address(void **slot)
{
    struct ibv_pd *pd = any(DOMAIN);
    struct ibv_ah_attr attr = any_path();
    if (pd != NULL) {
        keep(slot, ibv_create_ah(pd, &attr));
    }
}

static inline void make_one(void)
{
    static void (*const make[])(void **) = {[WINDOW] = make_window,
                                            [QUEUE_PAIR] = make_queue_pair,
                                            [ADDRESS] = make_address,
                                            [CQ] = make_cq,
                                            [SHARED_QUEUE] = make_shared_queue,
                                            [CQ_EX] = make_cq_ex,
                                            [CHANNEL] = make_channel,
                                            [REGION] = make_region,
                                            [DOMAIN] = make_domain};
    const enum kind kind = below(KIND_COUNT);
    void **slot = free_slot(kind);
    if (slot != NULL && kind == QUEUE_PAIR && one_in(2)) {
        make_queue_pair_ex(slot);
    } else if (slot != NULL) {
        make[kind](slot);
    }
}

/* ---- what destroys --------------------------------------------------------------------------- */

static inline int destroy(enum kind kind, void *thing)
{
    switch (kind) {
    case WINDOW:
        return ibv_dealloc_mw(thing);
    case QUEUE_PAIR:
        return ibv_destroy_qp(thing);
    case ADDRESS:
        return ibv_destroy_ah(thing);
    case SHARED_QUEUE:
        return ibv_destroy_srq(thing);
    case CQ:
    case CQ_EX:
        return ibv_destroy_cq(thing);
    case CHANNEL:
        return ibv_destroy_comp_channel(thing);
    case REGION:
        return ibv_dereg_mr(thing);
    default:
        return ibv_dealloc_pd(thing);
    }
}
