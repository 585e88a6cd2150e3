// The masked operations of RFC 7306 section 5.1, against its pseudo-code; the refusals; no lost
// update.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/prng.h"
#include "rdmap/rx.h"

struct fixture {
    struct mem_table *mem;
    struct rdmap_stream stream;
    uint32_t stag;
    uint64_t words[4];
};

static int setup(void **state)
{
    static struct fixture f;
    static const uint8_t key[STAG_KEY_LEN] = {7};
    uint32_t pd;
    memset(&f, 0, sizeof f);
    f.mem = mem_table_create(key, 64, (struct mem_probe){0});
    assert_int_equal(mem_pd_alloc(f.mem, &pd), 0);
    assert_int_equal(mem_region_register(f.mem, pd, f.words, sizeof f.words, 0,
                                         MEM_ACCESS_LOCAL_WRITE | MEM_ACCESS_REMOTE_ATOMIC,
                                         &f.stag),
                     0);
    rdmap_stream_init(&f.stream, f.mem, (struct mem_asker){pd, 1}, 1000);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    mem_table_destroy(f->mem);
    return 0;
}

// The RFC's pseudo-code, bit by bit.
static uint64_t add_by_the_book(uint64_t original, uint64_t add, uint64_t mask)
{
    uint64_t result = 0, carry = 0;
    for (int bit = 0; bit < 64; bit++) {
        uint64_t location = 1ULL << bit;
        uint64_t sum = carry + ((original >> bit) & 1) + ((add >> bit) & 1);
        carry = (sum & 2) >> 1;
        if ((sum & 1) != 0) {
            result |= location;
        }
        carry = carry != 0 && (mask & location) == 0;
    }
    return result;
}

static void fetch_add_follows_the_rfc(void **state)
{
    struct fixture *f = *state;
    struct prng prng;
    prng_init(&prng, 1);
    for (unsigned i = 0; i < 20000; i++) {
        uint64_t original = prng_next(&prng), back;
        struct rdmap_atomic_request r = {
            .opcode = RDMAP_ATOMIC_FETCH_ADD,
            .stag = f->stag,
            .to = 8,
            .add_swap = prng_next(&prng),
            .add_swap_mask = i % 3 == 0 ? 0 : prng_next(&prng) & prng_next(&prng),
        };
        f->words[1] = original;
        assert_int_equal(rdmap_atomic_execute(&f->stream, &r, &back), RDMAP_ACCEPTED);
        assert_int_equal(back, original);
        assert_int_equal(f->words[1], add_by_the_book(original, r.add_swap, r.add_swap_mask));
    }
    assert_int_equal(f->words[0], 0);
    assert_int_equal(f->words[2], 0);
}

static void compare_and_swap_looks_at_masked_bits_only(void **state)
{
    struct fixture *f = *state;
    uint64_t back;
    struct rdmap_atomic_request r = {
        .opcode = RDMAP_ATOMIC_CMP_SWAP,
        .stag = f->stag,
        .to = 0,
        .add_swap = 0xaaaaaaaaaaaaaaaa,
        .add_swap_mask = 0xff00,
        .compare = 0x1234,
        .compare_mask = 0xff,
    };
    f->words[0] = 0x77777777777777ff;
    assert_int_equal(rdmap_atomic_execute(&f->stream, &r, &back), RDMAP_ACCEPTED);
    assert_int_equal(f->words[0], 0x77777777777777ff); // 0xff is not 0x34
    f->words[0] = 0x7777777777777734;
    assert_int_equal(rdmap_atomic_execute(&f->stream, &r, &back), RDMAP_ACCEPTED);
    assert_int_equal(back, 0x7777777777777734);
    assert_int_equal(f->words[0], 0x777777777777aa34);
}

static enum rdmap_refusal refusal(struct fixture *f, uint8_t opcode, uint32_t stag, uint64_t to)
{
    uint64_t back;
    struct rdmap_atomic_request r = {.opcode = opcode, .stag = stag, .to = to, .add_swap = 1};
    return rdmap_atomic_execute(&f->stream, &r, &back);
}

static void what_is_refused_changes_nothing(void **state)
{
    struct fixture *f = *state;
    for (uint8_t opcode = 0; opcode < 16; opcode++) {
        bool is_known = opcode == RDMAP_ATOMIC_FETCH_ADD || opcode == RDMAP_ATOMIC_CMP_SWAP;
        assert_true(is_known || refusal(f, opcode, f->stag, 0) == RDMAP_REFUSED_ATOMIC_OPCODE);
    }
    for (uint64_t to = 1; to < 8; to++) {
        assert_int_equal(refusal(f, RDMAP_ATOMIC_FETCH_ADD, f->stag, to),
                         RDMAP_REFUSED_ATOMIC_ALIGNMENT);
    }
    assert_int_equal(refusal(f, RDMAP_ATOMIC_FETCH_ADD, f->stag ^ 1, 0),
                     RDMAP_REFUSED_REMOTE_INVALID_STAG);
    assert_int_equal(refusal(f, RDMAP_ATOMIC_FETCH_ADD, f->stag, sizeof f->words),
                     RDMAP_REFUSED_REMOTE_BOUNDS);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(f->words[i], 0);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(fetch_add_follows_the_rfc),
        TEST(compare_and_swap_looks_at_masked_bits_only),
        TEST(what_is_refused_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
