// The number of descriptors against brute force: every way to divide a short request is tried, and
// none that a device would take has fewer descriptors. What the descriptors move is compared octet
// by octet. The oracle knows octets only, no elements and no positions.
#include <stdlib.h>

#include "base/prng.h"
#include "tests/manager/chain.h"

enum { OCTETS_MAX = 12, CASES = 3000, CASES_SOAK = 300000 };

// One octet of a request: where it is here, and where it is there.
struct octet {
    uint64_t addr, remote_addr;
    uint32_t lkey, rkey;
};

struct octets {
    struct octet at[OCTETS_MAX];
    unsigned count;
};

static void octets_add(struct octets *octets, struct octet octet)
{
    assert_in_range(octets->count, 0, OCTETS_MAX - 1);
    octets->at[octets->count++] = octet;
}

static struct octets octets_of_chain(const struct chain *chain)
{
    struct octets octets = {.count = 0};
    for (const struct weft_rdma_element *e = chain->elements; e != NULL; e = e->next) {
        uint64_t remote_addr = e->remote_addr;
        for (uint32_t b = 0; b < e->buffer_count; b++) {
            for (uint64_t i = 0; i < e->buffers[b].len; i++) {
                octets_add(&octets, (struct octet){.addr = e->buffers[b].addr + i,
                                                   .remote_addr = remote_addr++,
                                                   .lkey = e->buffers[b].lkey,
                                                   .rkey = e->rkey});
            }
        }
    }
    return octets;
}

static void octets_of_descriptor(struct octets *octets, const struct descriptor *descriptor)
{
    uint64_t remote_addr = descriptor->wr.wr.rdma.remote_addr;
    for (int s = 0; s < descriptor->wr.num_sge; s++) {
        const struct ibv_sge *segment = &descriptor->wr.sg_list[s];
        assert_true(segment->length > 0);
        for (uint32_t i = 0; i < segment->length; i++) {
            octets_add(octets, (struct octet){.addr = segment->addr + i,
                                              .remote_addr = remote_addr++,
                                              .lkey = segment->lkey,
                                              .rkey = descriptor->wr.wr.rdma.rkey});
        }
    }
}

// Whether octets [begin, end) are a descriptor that a device takes.
static bool is_descriptor(const struct octets *octets, struct transfer_limits limits,
                          unsigned begin, unsigned end)
{
    unsigned segments = 1;
    for (unsigned i = begin + 1; i < end; i++) {
        const struct octet *a = &octets->at[i - 1], *b = &octets->at[i];
        if (b->rkey != a->rkey || b->remote_addr != a->remote_addr + 1) {
            return false;
        }
        segments += b->lkey != a->lkey || b->addr != a->addr + 1;
    }
    return end - begin <= limits.max_transfer_len && segments <= limits.max_segment_count;
}

// Bit i of `cuts`: a descriptor ends behind octet i. 0: a device would not take one of them.
static unsigned descriptors_of(const struct octets *octets, struct transfer_limits limits,
                               unsigned cuts)
{
    unsigned count = 0, begin = 0;
    for (unsigned end = 1; end <= octets->count; end++) {
        if (end == octets->count || (cuts >> (end - 1) & 1) != 0) {
            if (!is_descriptor(octets, limits, begin, end)) {
                return 0;
            }
            begin = end;
            count++;
        }
    }
    return count;
}

static unsigned fewest(const struct octets *octets, struct transfer_limits limits)
{
    unsigned best = octets->count;
    for (unsigned cuts = 0; cuts < 1U << (octets->count - 1); cuts++) {
        unsigned count = descriptors_of(octets, limits, cuts);
        best = count != 0 && count < best ? count : best;
    }
    return best;
}

// Up to OCTETS_MAX octets; both sides touch more often than not, keys differ now and then.
static void draw_chain(struct prng *prng, struct chain *chain)
{
    uint64_t addr = 0x1000, remote_addr = 0x9000;
    unsigned left = 1 + prng_below(prng, OCTETS_MAX);
    memset(chain, 0, sizeof *chain);
    while (left > 0) {
        remote_addr += prng_below(prng, 4) == 0 ? 1 + prng_below(prng, 3) : 0;
        struct weft_rdma_element *element = chain_element(chain, remote_addr);
        element->rkey += prng_below(prng, 8) == 0;
        for (unsigned buffers = 1 + prng_below(prng, 3); buffers > 0 && left > 0; buffers--) {
            unsigned len = 1 + prng_below(prng, left < 4 ? left : 4);
            addr += prng_below(prng, 2) == 0 ? 1 + prng_below(prng, 3) : 0;
            chain_buffer(chain, addr, len)->lkey += prng_below(prng, 8) == 0;
            addr += len;
            remote_addr += len;
            left -= len;
        }
    }
}

static void the_fewest_descriptors_that_move_every_octet_once_in_order(void **state)
{
    unsigned cases = getenv("WEFT_SOAK") != NULL ? CASES_SOAK : CASES;
    for (uint64_t seed = 1; seed <= cases; seed++) {
        struct chain chain;
        struct prng prng;
        struct sheet sheet = {.descriptor.wr.sg_list = sheet.segments};
        struct octets moved = {.count = 0};
        unsigned count = 0;
        prng_init(&prng, seed);
        draw_chain(&prng, &chain);
        struct transfer_limits limits = {.max_transfer_len = 1 + prng_below(&prng, 9),
                                         .max_segment_count = 1 + prng_below(&prng, 4)};
        struct octets octets = octets_of_chain(&chain);
        struct weft_rdma_position at = position_at_start(chain.elements);
        uint64_t foretold = transfers_count(at, limits, &sheet.descriptor);
        for (; at.element != NULL; count++) {
            const struct descriptor *descriptor = sheet_format(&sheet, &at, limits);
            assert_in_range(descriptor->len, 1, limits.max_transfer_len);
            assert_in_range(descriptor->wr.num_sge, 1, limits.max_segment_count);
            octets_of_descriptor(&moved, descriptor);
        }
        bool is_same = moved.count == octets.count &&
                       memcmp(moved.at, octets.at, octets.count * sizeof *octets.at) == 0;
        if (!is_same || count != foretold || count != fewest(&octets, limits)) {
            fail_msg("seed %llu: %u descriptors, %llu foretold, %u possible, octets %s",
                     (unsigned long long)seed, count, (unsigned long long)foretold,
                     fewest(&octets, limits), is_same ? "right" : "wrong");
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fewest_descriptors_that_move_every_octet_once_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
