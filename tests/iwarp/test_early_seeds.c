// Random messages, random segments of them in random order, one seed. SEED=n replays one run.
#include <stdlib.h>

#include "base/sanitized.h"
#include "tests/iwarp/hole.h"
#include "tests/seeds.h"

// Under a sanitizer a quarter of those that run without one.
enum { CHECK_COUNT = IS_SANITIZED ? 150 : 600, SOAK_COUNT = 200000, MESSAGE_MAX = 40 };

struct run {
    struct prng prng;
    struct hole *h;
    uint32_t sinks[8], sink_len[8];
    unsigned read_count, answered;
    unsigned receive_count, request_count; // of the peer's messages
    bool is_foreign;
    size_t written; // octets of the part that Writes go to
};

static uint32_t below(struct run *r, uint32_t limit)
{
    return prng_below(&r->prng, limit);
}

static void add_write(struct run *r)
{
    uint32_t len = below(r, 500);
    if (r->written + len > HOLE_PART_LEN) {
        return;
    }
    hole_write(r->h, r->h->early.stag, hole_write_to(r->written), len);
    r->written += len;
    if (below(r, 3) == 0 && r->receive_count < HOLE_RECEIVE_COUNT) {
        hole_immediate(r->h, len, below(r, 2));
        r->receive_count++;
    }
}

static void add_send(struct run *r)
{
    if (r->receive_count < HOLE_RECEIVE_COUNT) {
        hole_send(r->h, &(struct hole_send){
                            .len = below(r, 3) == 0 ? below(r, HOLE_BUFFER_LEN) : below(r, 100),
                            .solicited = below(r, 2),
                            .has_immediate = !r->is_foreign && below(r, 4) == 0,
                            .immediate = below(r, 1000),
                        });
        r->receive_count++;
    }
}

static void add_request(struct run *r)
{
    if (below(r, 2) == 0) {
        hole_fetch_add(r->h, below(r, 3));
    } else {
        hole_read_request(r->h, below(r, 1000), below(r, 300));
    }
    r->request_count++;
}

static void add_response(struct run *r)
{
    if (r->answered < r->read_count) {
        hole_read_response(r->h, r->sinks[r->answered], r->sink_len[r->answered]);
        r->answered++;
    }
}

static void add_message(struct run *r)
{
    switch (below(r, 4)) {
    case 0:
        add_write(r);
        break;
    case 1:
        add_send(r);
        break;
    case 2:
        add_request(r);
        break;
    default:
        add_response(r);
    }
}

static void open_run(struct run *r)
{
    r->is_foreign = below(r, 3) == 0;
    struct hole_options options = {
        .is_foreign = r->is_foreign,
        .markers = below(r, 2),
        .mulpdu = 64 + below(r, 400),
        .ird = (uint16_t)(1 + below(r, 16)),
        .first_msn = below(r, 4) == 0 ? UINT32_MAX - below(r, 5) : 0,
        .tcp = below(r, 2),
        .placement = below(r, 6) == 0 ? PLACEMENT_STRICT : PLACEMENT_EARLY,
    };
    r->h = hole_open(&options);
    r->read_count = below(r, 8);
    for (unsigned i = 0; i < r->read_count; i++) {
        r->sink_len[i] = 1 + below(r, HOLE_BUFFER_LEN);
        r->sinks[i] = hole_post_read(r->h, i, r->sink_len[i]);
    }
    unsigned count = 1 + below(r, MESSAGE_MAX);
    for (unsigned i = 0; i < count; i++) {
        add_message(r);
    }
}

// A segment of one or more FPDUs, not too far from the first hole; or of any octets.
static void arrive_one(struct run *r)
{
    struct hole *h = r->h;
    unsigned due = 0;
    while (due + 1 < h->count && h->start[due + 1] <= hole_handed(h)) {
        due++;
    }
    unsigned ahead = h->count - due, first = due + below(r, ahead < 20 ? ahead : 20);
    unsigned left = h->count - first, last = first + 1 + below(r, left < 3 ? left : 3);
    if (last > h->count) {
        last = h->count;
    }
    size_t at = h->start[first], len = h->start[last] - at;
    if (below(r, 12) == 0) { // cut elsewhere than the sender did
        at += below(r, (uint32_t)len);
        len = 1 + below(r, (uint32_t)(h->start[last] - at));
    }
    hole_arrive_octets(h, at, len);
}

static void run_seed(uint64_t seed)
{
    struct run r = {0};
    unsigned posted = 0;
    prng_init(&r.prng, seed);
    open_run(&r);
    hole_begin(r.h);
    for (unsigned i = 0; i < 300 && hole_handed(r.h) < r.h->wire_len; i++) {
        if (posted < HOLE_RECEIVE_COUNT && below(&r, 4) == 0) {
            unsigned count = 1 + below(&r, HOLE_RECEIVE_COUNT - posted);
            hole_post_receives(r.h, count, HOLE_BUFFER_LEN);
            posted += count;
            hole_resume(r.h);
        }
        arrive_one(&r);
    }
    if (posted < HOLE_RECEIVE_COUNT) {
        hole_post_receives(r.h, HOLE_RECEIVE_COUNT - posted, HOLE_BUFFER_LEN);
        hole_resume(r.h);
    }
    hole_close(r.h);
}

int main(void)
{
    uint64_t count = getenv("WEFT_SOAK") != NULL ? SOAK_COUNT : CHECK_COUNT;
    return seeds_main("any_segments_in_any_order_deliver_the_same", run_seed, count);
}
