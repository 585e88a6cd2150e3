// Eight packets with every kind of message, in every order: make soak goes through all 40,320, make
// check through some. The same of eight that write over each other, into memory with relaxed
// ordering: there all but the octets must be the same behind every packet, and the octets at the
// end. Beside the end stands a twin that knows nothing of holes: what came too early
// a ledger keeps from it, packet by packet, until all before has come. Behind every packet both
// must have the same memory, the same completions and the same answers; and what the end has kept,
// and tells its peer of, is what stands in the ledger.
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/sanitized.h"
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

// What the peer sends: one packet, at an offset of AT if it says where, of a message so long.
struct step {
    uint8_t operation;
    size_t len;
    uint32_t at, message_len;
};

// What changes memory behind the Read is elsewhere: it might see that, too, without a fence.
static const struct step every_kind[COUNT] = {
    {ROCE_WRITE_ONLY, 40, 0, 40},
    {ROCE_SEND_FIRST, PMTU, 0, 0},
    {ROCE_SEND_LAST, 30, 0, 0},
    {ROCE_READ_REQUEST, 0, 0, 40},
    {ROCE_WRITE_FIRST, PMTU, 1024, PMTU + 50},
    {ROCE_WRITE_LAST, 50, 0, 0},
    {ROCE_FETCH_ADD, 0, 1024, 0},
    {ROCE_SEND_ONLY_IMM, 20, 0, 0},
};

static const struct step over_each_other[COUNT] = {
    {ROCE_WRITE_FIRST, PMTU, 0, 2 * PMTU + 50},
    {ROCE_WRITE_MIDDLE, PMTU, 0, 0},
    {ROCE_WRITE_LAST, 50, 0, 0},
    {ROCE_WRITE_ONLY, 100, PMTU - 50, 100},
    {ROCE_SEND_ONLY, 20, 0, 0},
    {ROCE_WRITE_FIRST, PMTU, 20, PMTU + 9},
    {ROCE_WRITE_LAST_IMM, 9, 0, 0},
    {ROCE_WRITE_ONLY, 30, PMTU, 30},
};

struct play {
    const struct step *steps;
    bool is_relaxed;
};

// The packet number `i`, of `len` octets which are in `octets`.
static struct roce_packet packet_of(const struct rc_end *e, const struct step *steps, unsigned i,
                                    uint8_t octets[PMTU], size_t *ret_len)
{
    const struct step *s = &steps[i];
    struct roce_packet p = rc_end_make(s->operation, PSN + i);
    p.bth.ack_req = true;
    p.reth = (struct reth){rc_end_addr(e, AT + s->at), e->key, s->message_len};
    p.atomiceth = (struct atomiceth){rc_end_addr(e, AT + s->at), e->key, 3, 0};
    p.immdt = (struct immdt){77};
    memset(octets, (int)(10 + i), PMTU);
    *ret_len = s->len;
    return p;
}

/* ---- an end, and its twin -------------------------------------------------------------------- */

struct side {
    const struct step *steps;
    struct rc_end *end;
    char told[2048]; // completions and answers, in their order
    size_t told_len;
};

static void side_open(struct side *s, const struct play *play)
{
    s->steps = play->steps;
    s->told_len = 0;
    s->told[0] = '\0';
    s->end = rc_end_open(&(struct rc_end_options){
        .pmtu = PMTU, .is_relaxed = play->is_relaxed, .packets = 2 * COUNT});
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
        s->end->first = (s->end->first + 1) % s->end->packet_capacity;
    }
    return here;
}

static void take(struct side *s, unsigned i)
{
    uint8_t octets[PMTU];
    size_t len;
    struct roce_packet p = packet_of(s->end, s->steps, i, octets, &len);
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

static void run_order(const struct play *play, const unsigned *order, uint64_t *ret_early_count)
{
    struct ledger ledger = {.due = 0};
    struct side end, twin;
    side_open(&end, play);
    side_open(&twin, play);
    for (unsigned k = 0; k < COUNT; k++) {
        take(&end, order[k]);
        ledger_arrive(&ledger, order[k], &twin);
        const uint64_t beyond = ledger_beyond(&ledger), told = tell_answers(&end);
        tell_answers(&twin);
        assert_string_equal(end.told, twin.told);
        if (!play->is_relaxed || beyond == 0) {
            assert_memory_equal(end.end->memory, twin.end->memory, LOOKED_AT);
        }
        assert_int_equal(told, beyond);
        assert_int_equal(end.end->t->ops->query(end.end->t).held_count,
                         __builtin_popcountll(beyond));
    }
    assert_int_equal(ledger.due, COUNT);
    assert_int_equal(rc_end_counters(end.end)->held_none, 0);
    assert_int_equal(rc_end_counters(twin.end)->held, 0);
    assert_int_equal(rc_end_counters(twin.end)->early_writes, 0);
    *ret_early_count += rc_end_counters(end.end)->early_writes;
    rc_end_close(end.end);
    rc_end_close(twin.end);
}

// One order of so many is run: with a sanitizer, which costs tenfold, fewer.
static unsigned stride(void)
{
    const unsigned some = IS_SANITIZED ? 101 : 11;
    return getenv("WEFT_SOAK") != NULL ? 1 : some;
}

struct count {
    unsigned left; // to the next order that is run
    unsigned orders;
    uint64_t early; // packets that were placed beyond a hole
};

// Heap's algorithm.
static void permute(const struct play *play, unsigned *order, unsigned n, struct count *count)
{
    if (n == 1) {
        if (--count->left == 0) {
            count->left = stride();
            run_order(play, order, &count->early);
            count->orders++;
        }
        return;
    }
    for (unsigned i = 0; i < n; i++) {
        permute(play, order, n - 1, count);
        unsigned other = n % 2 == 0 ? i : 0, last = order[n - 1];
        order[n - 1] = order[other];
        order[other] = last;
    }
}

static struct count every_order(const struct play *play)
{
    unsigned order[] = {0, 1, 2, 3, 4, 5, 6, 7};
    struct count count = {.left = 1};
    permute(play, order, COUNT, &count);
    print_message("%u orders of 8 packets, %llu packets placed beyond holes\n", count.orders,
                  (unsigned long long)count.early);
    return count;
}

static void every_order_of_eight_packets_does_the_same(void **state)
{
    assert_int_equal(every_order(&(struct play){every_kind, false}).early, 0);
}

static void so_does_every_order_where_writes_are_placed_beyond_holes(void **state)
{
    assert_true(every_order(&(struct play){every_kind, true}).early > 0);
}

static void so_does_every_order_of_writes_over_each_other(void **state)
{
    const struct count count = every_order(&(struct play){over_each_other, true});
    assert_true(count.early > 2 * count.orders);
    assert_int_equal(every_order(&(struct play){over_each_other, false}).early, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_order_of_eight_packets_does_the_same),
        cmocka_unit_test(so_does_every_order_where_writes_are_placed_beyond_holes),
        cmocka_unit_test(so_does_every_order_of_writes_over_each_other),
    };
    // Thousands of ends come and go: each is made of the memory of the one before.
    mallopt(M_TRIM_THRESHOLD, 16 << 20);
    mallopt(M_MMAP_THRESHOLD, 16 << 20);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
