// The units' parts of the pool: whose memory is whose, and when it goes back to the system.

#include <sys/mman.h>
#include <sys/stat.h>

#include "node/host/pool.h"
#include "tests/node/rig.h"

enum { BLOCK = 4096 };

static const uint64_t part_len = NODE_TRANSFER_MAX;

/* ---- memory ---------------------------------------------------------------------------------- */

static struct pool *pool_with(uint32_t one, uint32_t other)
{
    struct pool *pool = calloc(1, sizeof *pool);
    assert_int_equal(pool_create(pool, part_len), 0);
    assert_true(pool_part_make(pool, one) && pool_part_make(pool, other));
    return pool;
}

static uint8_t *part_of(const struct pool *pool, uint32_t unit)
{
    struct node_pool view = pool_view(pool);
    return node_pool_part(&view, unit);
}

static void pool_end(struct pool *pool)
{
    pool_destroy(pool);
    free(pool);
}

static void each_part_is_a_file_of_its_own(void **state)
{
    struct pool *pool = pool_with(0, 7);
    struct node_pool view = pool_view(pool);
    struct stat one, other;
    memset(part_of(pool, 0), 1, part_len);
    memset(part_of(pool, 7), 7, BLOCK);
    assert_int_equal(part_of(pool, 0)[part_len - 1], 1);
    assert_int_equal(fstat(pool->parts[0].fd, &one) + fstat(pool->parts[7].fd, &other), 0);
    assert_true(one.st_ino != other.st_ino);
    assert_int_equal(one.st_size, part_len);
    assert_int_equal(node_pool_unit(&view, part_of(pool, 7) + part_len - 1), 7);
    assert_int_equal(node_pool_unit(&view, &one), NODE_UNIT_COUNT_MAX);
    assert_int_equal(pool_part_memory(pool, 0), part_len);
    assert_int_equal(pool_part_memory(pool, 7), BLOCK);
    assert_int_equal(pool_part_memory(pool, 8), 0);
    pool_end(pool);
}

// Who still has what was there before, as a process that was killed late, has nothing of it.
static void a_part_that_is_made_again_is_other_memory(void **state)
{
    struct pool *pool = pool_with(0, 1);
    uint32_t generation = pool->generations[1];
    uint8_t *former = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED, pool->parts[1].fd, 0);
    former[0] = 1;
    assert_int_equal(part_of(pool, 1)[0], 1);
    pool_part_drop(pool, 1);
    assert_int_equal(pool->generations[1], 0);
    assert_true(pool_part_make(pool, 1));
    assert_true(pool->generations[1] != 0 && pool->generations[1] != generation);
    assert_int_equal(part_of(pool, 1)[0], 0);
    part_of(pool, 1)[0] = 2;
    assert_int_equal(former[0], 1);
    munmap(former, BLOCK);
    pool_end(pool);
}

static void what_is_trimmed_takes_no_memory_unless_a_device_has_its_pages(void **state)
{
    struct pool *pool = pool_with(0, 1);
    memset(part_of(pool, 0), 1, 4 * BLOCK);
    pool_part_trim(pool, 0, BLOCK, 2 * BLOCK);
    assert_int_equal(pool_part_memory(pool, 0), 2 * BLOCK);
    assert_int_equal(part_of(pool, 0)[BLOCK - 1], 1);
    assert_int_equal(part_of(pool, 0)[BLOCK], 0);
    assert_int_equal(part_of(pool, 0)[3 * BLOCK], 1);
    pool->is_pinned = true;
    pool_part_trim(pool, 0, 0, BLOCK);
    assert_int_equal(part_of(pool, 0)[0], 1);
    pool_end(pool);
}

/* ---- in the CTA ------------------------------------------------------------------------------ */

struct trims {
    unsigned count;
    uint64_t len;
    bool has_hit; // octets that are lent
    uint64_t lent_offset;
};

static struct trims trims;

static void note_trim(void *ctx, uint32_t unit, uint64_t offset, uint64_t len)
{
    trims.count++;
    trims.len += len;
    trims.has_hit |= trims.lent_offset >= offset && trims.lent_offset - offset < len;
    assert_int_equal(unit, RIG_UNIT);
}

static bool make_nothing(void *ctx, uint32_t unit)
{
    return true;
}

static void drop_nothing(void *ctx, uint32_t unit)
{
}

static struct rig *rig_that_trims(void)
{
    rig_parts_make = make_nothing;
    rig_parts_drop = drop_nothing;
    rig_parts_trim = note_trim;
    struct rig *rig = rig_ready();
    rig_parts_make = NULL;
    rig_parts_drop = NULL;
    rig_parts_trim = NULL;
    trims = (struct trims){.lent_offset = UINT64_MAX};
    return rig;
}

static void a_second_later(struct rig *rig)
{
    rig->now = instant_after(rig->now, NS_PER_S + 1);
    if (cta_next_deadline(rig->cta) <= rig->now) {
        cta_on_deadline(rig->cta, rig->now);
    }
}

static void what_is_free_goes_back_once_a_second(void **state)
{
    struct rig *rig = rig_that_trims();
    a_second_later(rig);
    assert_int_equal(trims.count, 0); // nobody has used anything
    struct service_request read = rig_request(NODE_READ, 0, BLOCK);
    struct service_request stays = rig_request(NODE_READ, 0, 2 * BLOCK);
    rig_submit_request(rig, &read);
    rig_run(rig);
    rig->holds = true;
    rig_submit_request(rig, &stays);
    rig_run(rig);
    trims.lent_offset = (uint64_t)((uint8_t *)rig->held[0]->data - rig->pool);
    a_second_later(rig);
    assert_true(trims.count > 0 && !trims.has_hit);
    assert_in_range(trims.len, RIG_POOL_LEN - (64 << 10), RIG_POOL_LEN - 1);
    unsigned count = trims.count;
    a_second_later(rig);
    assert_int_equal(trims.count, count); // an idle node does not wake for it
    rig_release(rig, 0);
    rig_destroy(rig);
}

static void pages_that_a_device_may_know_stay(void **state)
{
    struct rig *rig = rig_that_trims();
    cta_for_uma.unit_keep(rig->cta, RIG_UNIT);
    struct service_request read = rig_request(NODE_READ, 0, BLOCK);
    rig_submit_request(rig, &read);
    rig_run(rig);
    a_second_later(rig);
    assert_int_equal(trims.count, 0);
    rig_destroy(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_part_is_a_file_of_its_own),
        cmocka_unit_test(a_part_that_is_made_again_is_other_memory),
        cmocka_unit_test(what_is_trimmed_takes_no_memory_unless_a_device_has_its_pages),
        cmocka_unit_test(what_is_free_goes_back_once_a_second),
        cmocka_unit_test(pages_that_a_device_may_know_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
