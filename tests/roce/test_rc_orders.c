// Eight packets with every kind of message, in every order: make soak goes through all 40,320, make
// check through some. Beside the end stands a twin that knows nothing of holes: what came too early
// a ledger keeps from it, packet by packet, until all before has come. Behind every packet both
// must have the same memory, the same completions and the same answers; and what the end has kept,
// and tells its peer of, is what stands in the ledger.
#include <stdio.h>
#include <stdlib.h>

#include "tests/roce/rc_end.h"
#include "wire/sack.h"

enum {
    PMTU = 256,
    PSN = RC_END_PSN + RC_END_GREETINGS,
    COUNT = 8,
    AT = 4096,        // what the peer writes and reads
    RECEIVE_AT = 256, // ... and receives
    LOOKED_AT = 8192, // octets of memory that are compared
};

// The packet number `i`, of `len` octets which are in `octets`.
static struct roce_packet packet_of(const struct rc_end *e, unsigned i, uint8_t octets[PMTU],
                                    size_t *ret_len)
{
    static const struct {
        uint8_t operation;
        size_t len;
    } packets[COUNT] = {
        {ROCE_WRITE_ONLY, 40},  {ROCE_SEND_FIRST, PMTU},  {ROCE_SEND_LAST, 30},
        {ROCE_READ_REQUEST, 0}, {ROCE_WRITE_FIRST, PMTU}, {ROCE_WRITE_LAST, 50},
        {ROCE_FETCH_ADD, 0},    {ROCE_SEND_ONLY_IMM, 20},
    };
    struct roce_packet p = rc_end_make(packets[i].operation, PSN + i);
    p.bth.ack_req = true;
    // What changes memory behind the Read is elsewhere: it might see that, too, without a fence.
    p.reth =
        (struct reth){rc_end_addr(e, i == 4 ? AT + 1024 : AT), e->key, i == 4 ? PMTU + 50 : 40};
    p.atomiceth = (struct atomiceth){rc_end_addr(e, AT + 1024), e->key, 3, 0};
    p.immdt = (struct immdt){77};
    memset(octets, (int)(10 + i), PMTU);
    *ret_len = packets[i].len;
    return p;
}

/* ---- an end, and its twin -------------------------------------------------------------------- */

struct side {
    struct rc_end *end;
    char told[2048]; // completions and answers, in their order
    size_t told_len;
};

static void side_open(struct side *s)
{
    s->told_len = 0;
    s->told[0] = '\0';
    s->end = rc_end_open(&(struct rc_end_options){.pmtu = PMTU});
    rc_end_meet(s->end);
    for (unsigned i = 0; i < 3; i++) {
        rc_end_post_receive(s->end, i, RECEIVE_AT + i * 512, 512);
    }
}

static void tell(struct side *s, const char *what, uint64_t a, uint64_t b, uint64_t c)
{
    s->told_len +=
        (size_t)snprintf(s->told + s->told_len, sizeof s->told - s->told_len, "%s %llu %llu %llu\n",
                         what, (unsigned long long)a, (unsigned long long)b, (unsigned long long)c);
    assert_true(s->told_len < sizeof s->told);
}

static void tell_completions(struct side *s)
{
    struct cqe cqe;
    while (cq_poll(s->end->recv_cq, &cqe, 1) == 1) {
        tell(s, "receive", cqe.wr_id, cqe.status, cqe.byte_len);
    }
}

// The refusal for a missing packet that left last, bit by bit; 0: none has left.
static uint64_t tell_answers(struct side *s)
{
    uint64_t here = 0;
    for (; s->end->count > 0; s->end->count--) {
        const struct roce_packet *p = &rc_end_peek(s->end)->p;
        struct sack sack;
        if (p->facts->kind == ROCE_KIND_ACK) {
            bool is_hole = p->payload.len > 0 && sack_parse(p->payload, &sack) == SACK_OK;
            here = 0;
            for (uint32_t i = 0; is_hole && i < COUNT; i++) {
                here |= (uint64_t)sack_has(&sack, i) << i;
            }
        } else {
            const uint8_t *octets = p->payload.ptr;
            tell(s, p->facts->name, p->bth.psn, p->payload.len > 0 ? octets[8] : 0,
                 p->payload.len > 0 ? octets[39] : p->atomicacketh.original);
        }
        s->end->first = (s->end->first + 1) % RC_END_PACKETS;
    }
    return here;
}

static void take(struct side *s, unsigned i)
{
    uint8_t octets[PMTU];
    size_t len;
    struct roce_packet p = packet_of(s->end, i, octets, &len);
    rc_end_take(s->end, &p, octets, len);
    tell_completions(s);
}

/* ---- the ledger ------------------------------------------------------------------------------ */

struct ledger {
    bool is_here[COUNT];
    unsigned due; // the first that is not
};

// What the ledger lets go of comes to the twin.
static void ledger_arrive(struct ledger *l, unsigned i, struct side *twin)
{
    l->is_here[i] = true;
    for (; l->due < COUNT && l->is_here[l->due]; l->due++) {
        take(twin, l->due);
    }
}

// The packets beyond the one that is due: bit 0 is the next.
static uint64_t ledger_beyond(const struct ledger *l)
{
    uint64_t here = 0;
    for (unsigned i = l->due + 1; i < COUNT; i++) {
        here |= (uint64_t)l->is_here[i] << (i - l->due - 1);
    }
    return here;
}

static void expect_same(struct side *end, struct side *twin)
{
    assert_string_equal(end->told, twin->told);
    assert_memory_equal(end->end->memory, twin->end->memory, LOOKED_AT);
}

static void run_order(const unsigned *order)
{
    struct ledger ledger = {.due = 0};
    struct side end, twin;
    side_open(&end);
    side_open(&twin);
    for (unsigned k = 0; k < COUNT; k++) {
        take(&end, order[k]);
        ledger_arrive(&ledger, order[k], &twin);
        const uint64_t beyond = ledger_beyond(&ledger), told = tell_answers(&end);
        tell_answers(&twin);
        expect_same(&end, &twin);
        assert_int_equal(told, beyond);
        assert_int_equal(end.end->t->ops->query(end.end->t).held_count,
                         __builtin_popcountll(beyond));
    }
    assert_int_equal(rc_end_counters(end.end)->held_none, 0);
    assert_int_equal(rc_end_counters(twin.end)->held, 0);
    rc_end_close(end.end);
    rc_end_close(twin.end);
}

// Heap's algorithm; `*left` counts down to the next order that is run.
static void permute(unsigned *order, unsigned n, unsigned *left, unsigned *ret_count)
{
    if (n == 1) {
        if (--*left == 0) {
            *left = getenv("WEFT_SOAK") != NULL ? 1 : 11;
            run_order(order);
            ++*ret_count;
        }
        return;
    }
    for (unsigned i = 0; i < n; i++) {
        permute(order, n - 1, left, ret_count);
        unsigned other = n % 2 == 0 ? i : 0, last = order[n - 1];
        order[n - 1] = order[other];
        order[other] = last;
    }
}

static void every_order_of_eight_packets_does_the_same(void **state)
{
    (void)state;
    unsigned order[] = {0, 1, 2, 3, 4, 5, 6, 7}, left = 1, count = 0;
    permute(order, COUNT, &left, &count);
    print_message("%u orders of 8 packets\n", count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_order_of_eight_packets_does_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
