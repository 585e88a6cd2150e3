// What a program asks for, as the target is told it; what may not be asked for, at each limit; and
// what the program hears when it is over.
#include <poll.h>

#include "base/bytes.h"
#include "format/nvme_pages.h"
#include "format/nvme_wire.h"
#include "tests/initiator/scene.h"

enum { BLOCK = TARGET_BLOCK_LEN, END = TARGET_DISK_LEN };

#define EDITS(...)          \
    .edits = {__VA_ARGS__}, \
    .edit_count = sizeof(struct target_edit[]){__VA_ARGS__} / sizeof(struct target_edit)

// A namespace of 2^48 blocks, of which the target keeps nothing: it says that it cannot.
static const struct target_wish huge = {.io_status = NVME_INTERNAL_ERROR,
                                        EDITS({TARGET_NAMESPACE, NVME_NS_OFF_NSZE + 6, 1})};

static int ask(struct scene *s, enum weft_nvme_operation operation, unsigned flags, uint64_t offset,
               uint64_t len)
{
    const struct iovec piece = {s->data, len};
    struct weft_nvme_io io = {.operation = operation,
                              .flags = flags,
                              .offset = offset,
                              .len = len,
                              .memory = &piece,
                              .memory_count = 1};
    return run(s, &io);
}

/* ---- what it says of itself ------------------------------------------------------------------ */

static void what_the_vendor_says_is_told_as_it_stands(void **state)
{
    enum { MOST = WEFT_NVME_VENDOR_MAX, FIRST = NVME_NS_OFF_VENDOR };
    const struct target_wish wish = {
        EDITS({TARGET_NAMESPACE, FIRST, 'w'}, {TARGET_NAMESPACE, FIRST + MOST - 1, 'z'})};
    uint8_t said[MOST + 1] = {[MOST] = 9};
    struct scene s;
    assert_int_equal(FIRST + MOST, NVME_IDENTIFY_LEN);
    scene_open(&s, &wish, 0, 1);
    assert_int_equal(weft_nvme_vendor_data(s.nvme, 1, said, sizeof said, NULL), 0);
    assert_int_equal(said[0], 'w');
    assert_int_equal(said[1], 0);
    assert_int_equal(said[MOST - 1], 'z');
    assert_int_equal(said[MOST], 9);
    memset(said, 9, sizeof said);
    assert_int_equal(weft_nvme_vendor_data(s.nvme, 1, said, 1, NULL), 0);
    assert_int_equal(said[0], 'w');
    assert_int_equal(said[1], 9);
    scene_close(&s);
}

// Behind a look at the namespace it is of that look; later it is asked for again, as of another
// namespace.
static void what_the_vendor_says_came_with_the_namespace(void **state)
{
    const struct target_wish wish = {EDITS({TARGET_NAMESPACE, NVME_NS_OFF_VENDOR, 'w'})};
    struct weft_nvme_namespace ns;
    struct scene s;
    scene_open(&s, &wish, 0, 1);
    const struct target_counters *counters = target_counters(s.target);
    for (unsigned i = 0; i < 3; i++) {
        uint8_t said = 0;
        assert_int_equal(weft_nvme_identify(s.nvme, 1, &ns, NULL), 0);
        unsigned before = counters->identifies;
        assert_int_equal(weft_nvme_vendor_data(s.nvme, 1, &said, 1, NULL), 0);
        assert_int_equal(counters->identifies - before, 0);
        assert_int_equal(said, 'w');
        assert_int_equal(weft_nvme_vendor_data(s.nvme, 1, &said, 1, NULL), 0);
        assert_int_equal(counters->identifies - before, 1);
    }
    uint8_t said = 9;
    assert_int_equal(weft_nvme_identify(s.nvme, 1, &ns, NULL), 0);
    assert_int_equal(weft_nvme_vendor_data(s.nvme, 77, &said, 1, NULL), 0);
    assert_int_equal(said, 0);
    scene_close(&s);
}

/* ---- what the target is told ----------------------------------------------------------------- */

static void a_command_says_its_blocks_and_its_flags(void **state)
{
    static const struct {
        enum weft_nvme_operation operation;
        unsigned flags;
        uint64_t offset, len;
        uint8_t opcode;
        uint64_t slba;
        uint16_t nlb, control;
    } table[] = {
        {WEFT_NVME_READ, 0, 0, BLOCK, NVME_IO_READ, 0, 0, 0},
        {WEFT_NVME_READ, 0, 77 * BLOCK, 300 * BLOCK, NVME_IO_READ, 77, 299, 0},
        {WEFT_NVME_WRITE, 0, BLOCK, 9 * BLOCK, NVME_IO_WRITE, 1, 8, 0},
        {WEFT_NVME_WRITE, WEFT_NVME_FUA, BLOCK, BLOCK, NVME_IO_WRITE, 1, 0, NVME_RW_FUA},
        {WEFT_NVME_WRITE_ZEROES, 0, BLOCK, 9 * BLOCK, NVME_IO_WRITE_ZEROES, 1, 8,
         NVME_RW_DEALLOCATE},
        {WEFT_NVME_WRITE_ZEROES, WEFT_NVME_NO_HOLE, BLOCK, BLOCK, NVME_IO_WRITE_ZEROES, 1, 0, 0},
        {WEFT_NVME_WRITE_ZEROES, WEFT_NVME_NO_HOLE | WEFT_NVME_FUA, 0, BLOCK, NVME_IO_WRITE_ZEROES,
         0, 0, NVME_RW_FUA},
        {WEFT_NVME_FLUSH, 0, 0, 0, NVME_IO_FLUSH, 0, 0, 0},
    };
    const struct target_wish wish = {0};
    struct scene s;
    scene_open(&s, &wish, WEFT_NVME_NO_ONESHOT, 1);
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        const uint8_t *sqe = target_seen(s.target, 1)->io;
        assert_int_equal(ask(&s, table[i].operation, table[i].flags, table[i].offset, table[i].len),
                         0);
        assert_int_equal(sqe[NVME_SQE_OFF_OPCODE], table[i].opcode);
        assert_int_equal(sqe[NVME_SQE_OFF_FLAGS], NVME_SQE_PSDT_SGL);
        assert_int_equal(get_le32(sqe + NVME_SQE_OFF_NSID), 1);
        assert_int_equal(get_le64(sqe + NVME_RW_OFF_SLBA), table[i].slba);
        assert_int_equal(get_le16(sqe + NVME_RW_OFF_NLB), table[i].nlb);
        assert_int_equal(get_le16(sqe + NVME_RW_OFF_CONTROL), table[i].control);
    }
    scene_close(&s);
}

// Of a write that goes along, and of one that is fetched.
static void a_command_says_where_its_data_are(void **state)
{
    const struct target_wish wish = {0};
    struct scene s;
    scene_open(&s, &wish, WEFT_NVME_NO_ONESHOT, 1);
    const uint8_t *sgl = target_seen(s.target, 1)->io + NVME_SQE_OFF_SGL1;
    assert_int_equal(ask(&s, WEFT_NVME_WRITE, 0, 0, TARGET_IN_CAPSULE_LEN), 0);
    assert_int_equal(get_le64(sgl + NVME_SGL_OFF_ADDRESS), 0);
    assert_int_equal(get_le32(sgl + NVME_SGL_OFF_LENGTH), TARGET_IN_CAPSULE_LEN);
    assert_int_equal(sgl[NVME_SGL_OFF_ID], NVME_SGL_IN_CAPSULE);
    assert_int_equal(ask(&s, WEFT_NVME_WRITE, 0, 0, TARGET_IN_CAPSULE_LEN + BLOCK), 0);
    assert_int_equal(get_le64(sgl + NVME_SGL_OFF_ADDRESS), (uintptr_t)s.data);
    assert_int_equal(get_le32(sgl + NVME_SGL_OFF_LENGTH) & 0xffffff, TARGET_IN_CAPSULE_LEN + BLOCK);
    assert_int_equal(sgl[NVME_SGL_OFF_ID], NVME_SGL_KEYED);
    assert_int_equal(ask(&s, WEFT_NVME_FLUSH, 0, 0, 0), 0); // nowhere
    assert_int_equal(get_le32(sgl + NVME_SGL_OFF_LENGTH), 0);
    scene_close(&s);
}

static void a_trim_says_one_range(void **state)
{
    for (unsigned i = 0; i < 2; i++) { // with the command, and fetched
        const struct target_wish wish = {.has_no_capsule_room = i == 1};
        struct scene s;
        scene_open(&s, &wish, WEFT_NVME_NO_ONESHOT, 1);
        const struct target_seen *seen = target_seen(s.target, 1);
        assert_int_equal(ask(&s, WEFT_NVME_TRIM, 0, 5 * BLOCK, 3 * BLOCK), 0);
        assert_int_equal(seen->io[NVME_SQE_OFF_OPCODE], NVME_IO_DATASET_MANAGEMENT);
        assert_int_equal(get_le32(seen->io + NVME_SQE_OFF_CDW10), 0); // of one, less 1
        assert_int_equal(get_le32(seen->io + NVME_SQE_OFF_CDW11), NVME_DSM_DEALLOCATE);
        assert_int_equal(get_le64(seen->range + NVME_DSM_RANGE_OFF_SLBA), 5);
        assert_int_equal(get_le32(seen->range + NVME_DSM_RANGE_OFF_NLB), 3);
        assert_int_equal(s.counters.in_capsules + s.counters.copies, 0); // of the program's data
        scene_close(&s);
    }
}

static void the_longest_ranges_are_told_whole(void **state)
{
    struct scene s;
    scene_open(&s, &huge, WEFT_NVME_NO_ONESHOT, 1);
    const uint8_t *sqe = target_seen(s.target, 1)->io;
    assert_int_equal(ask(&s, WEFT_NVME_WRITE_ZEROES, 0, (UINT64_C(1) << 40) * BLOCK, 65536 * BLOCK),
                     -EIO);
    assert_int_equal(get_le64(sqe + NVME_RW_OFF_SLBA), UINT64_C(1) << 40);
    assert_int_equal(get_le16(sqe + NVME_RW_OFF_NLB), 0xffff);
    scene_close(&s);
}

// 2^55 - 1 blocks of 512 octets, which is the most that 64 bits count in octets.
static void the_largest_namespace_is_known_to_its_end(void **state)
{
    const struct target_wish wish = {.io_status = NVME_INTERNAL_ERROR,
                                     EDITS({TARGET_NAMESPACE, NVME_NS_OFF_NSZE, 0xff},
                                           {TARGET_NAMESPACE, NVME_NS_OFF_NSZE + 1, 0xff},
                                           {TARGET_NAMESPACE, NVME_NS_OFF_NSZE + 2, 0xff},
                                           {TARGET_NAMESPACE, NVME_NS_OFF_NSZE + 3, 0xff},
                                           {TARGET_NAMESPACE, NVME_NS_OFF_NSZE + 4, 0xff},
                                           {TARGET_NAMESPACE, NVME_NS_OFF_NSZE + 5, 0xff},
                                           {TARGET_NAMESPACE, NVME_NS_OFF_NSZE + 6, 0x7f})};
    const uint64_t last = (UINT64_C(1) << 55) - 2;
    struct scene s;
    scene_open(&s, &wish, WEFT_NVME_NO_ONESHOT, 1);
    assert_int_equal(ask(&s, WEFT_NVME_READ, 0, last * BLOCK, BLOCK), -EIO);
    assert_int_equal(get_le64(target_seen(s.target, 1)->io + NVME_RW_OFF_SLBA), last);
    assert_int_equal(ask(&s, WEFT_NVME_READ, 0, last * BLOCK, 2 * BLOCK), -EINVAL);
    scene_close(&s);
}

/* ---- limits ---------------------------------------------------------------------------------- */

static void a_range_ends_with_the_namespace(void **state)
{
    static const struct {
        uint64_t offset, len;
        int error;
    } table[] = {{END - BLOCK, BLOCK, 0},
                 {END - BLOCK, 2 * BLOCK, -EINVAL},
                 {END, BLOCK, -EINVAL},
                 {END + BLOCK, BLOCK, -EINVAL},
                 {UINT64_MAX - BLOCK + 1, BLOCK, -EINVAL},
                 {0, BLOCK + 1, -EINVAL},
                 {1, BLOCK, -EINVAL},
                 {0, 0, -EINVAL}};
    const struct target_wish wish = {0};
    struct scene s;
    scene_open(&s, &wish, 0, 1);
    static const enum weft_nvme_operation operations[] = {WEFT_NVME_READ, WEFT_NVME_WRITE,
                                                          WEFT_NVME_TRIM, WEFT_NVME_WRITE_ZEROES};
    for (unsigned i = 0; i < 4 * sizeof table / sizeof table[0]; i++) {
        assert_int_equal(ask(&s, operations[i % 4], 0, table[i / 4].offset, table[i / 4].len),
                         table[i / 4].error);
    }
    assert_int_equal(s.counters.commands, 4); // of the others the target heard nothing
    scene_close(&s);
}

static void a_command_names_so_much_and_no_more(void **state)
{
    static const struct {
        enum weft_nvme_operation operation;
        uint64_t most;
    } table[] = {{WEFT_NVME_WRITE_ZEROES, UINT64_C(65536) * BLOCK},
                 {WEFT_NVME_TRIM, UINT64_C(0xffffffff) * BLOCK}};
    struct scene s;
    scene_open(&s, &huge, 0, 1);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(ask(&s, table[i].operation, 0, 0, table[i].most), -EIO); // the target's
        assert_int_equal(ask(&s, table[i].operation, 0, 0, table[i].most + BLOCK), -EMSGSIZE);
        assert_int_equal(weft_nvme_range_max_len(s.nvme, 1, table[i].operation), table[i].most);
        assert_int_equal(weft_nvme_range_max_len(s.nvme, 2, table[i].operation), 0);
    }
    assert_int_equal(weft_nvme_range_max_len(s.nvme, 1, WEFT_NVME_READ), 0);
    assert_int_equal(weft_nvme_range_max_len(s.nvme, 1, WEFT_NVME_WRITE), 0);
    scene_close(&s);
}

static void data_are_as_long_as_the_controller_takes(void **state)
{
    const struct target_wish wish = {0};
    struct scene s;
    scene_open(&s, &wish, 0, 1);
    uint8_t *data = s.data;
    s.data = calloc(1, TARGET_TRANSFER_MAX + BLOCK);
    assert_int_equal(ask(&s, WEFT_NVME_WRITE, 0, 0, TARGET_TRANSFER_MAX), 0);
    assert_int_equal(ask(&s, WEFT_NVME_READ, 0, 0, TARGET_TRANSFER_MAX), 0);
    assert_int_equal(ask(&s, WEFT_NVME_WRITE, 0, 0, TARGET_TRANSFER_MAX + BLOCK), -EMSGSIZE);
    free(s.data);
    s.data = data;
    scene_close(&s);
}

static void flags_are_those_of_the_operation(void **state)
{
    static const struct {
        enum weft_nvme_operation operation;
        unsigned good;
    } table[] = {{WEFT_NVME_READ, 0},
                 {WEFT_NVME_WRITE, WEFT_NVME_FUA},
                 {WEFT_NVME_TRIM, 0},
                 {WEFT_NVME_WRITE_ZEROES, WEFT_NVME_FUA | WEFT_NVME_NO_HOLE}};
    const struct target_wish wish = {0};
    struct scene s;
    scene_open(&s, &wish, 0, 1);
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        for (unsigned flag = 1; flag <= 8; flag <<= 1) {
            bool is_good = ((table[i].good | WEFT_NVME_MORE) & flag) != 0;
            assert_int_equal(ask(&s, table[i].operation, flag, 0, BLOCK), is_good ? 0 : -EINVAL);
        }
    }
    scene_close(&s);
}

static void pieces_are_as_long_together_as_the_data(void **state)
{
    static struct iovec pieces[WEFT_NVME_PIECE_MAX + 1];
    static const struct {
        size_t first, second;
        unsigned count;
        int error;
    } table[] = {{BLOCK, BLOCK, 2, 0},           {2 * BLOCK, 0, 2, 0},
                 {1, 2 * BLOCK - 1, 2, 0},       {BLOCK, BLOCK - 1, 2, -EINVAL},
                 {BLOCK, BLOCK + 1, 2, -EINVAL}, {SIZE_MAX, 2 * BLOCK, 2, -EINVAL},
                 {2 * BLOCK, 0, 1, 0},           {2 * BLOCK, 0, 0, -EINVAL}};
    const struct target_wish wish = {0};
    struct scene s;
    scene_open(&s, &wish, WEFT_NVME_NO_ONESHOT, 1);
    struct weft_nvme_io io = {.operation = WEFT_NVME_READ, .len = 2 * BLOCK, .memory = pieces};
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        pieces[0] = (struct iovec){s.data, table[i].first};
        pieces[1] = (struct iovec){s.data + BLOCK, table[i].second};
        io.memory_count = table[i].count;
        assert_int_equal(run(&s, &io), table[i].error);
    }
    for (unsigned i = 0; i <= WEFT_NVME_PIECE_MAX; i++) {
        pieces[i] = (struct iovec){s.data + i * 4, i < WEFT_NVME_PIECE_MAX ? 4 : 0};
    }
    io.memory_count = WEFT_NVME_PIECE_MAX;
    assert_int_equal(run(&s, &io), 0);
    assert_memory_equal(s.data, target_disk(s.target), 2 * BLOCK);
    io.memory_count = WEFT_NVME_PIECE_MAX + 1;
    assert_int_equal(run(&s, &io), -EINVAL);
    scene_close(&s);
}

/* ---- lent memory ----------------------------------------------------------------------------- */

static void what_lies_within_lent_memory_is_not_registered_again(void **state)
{
    static const struct {
        size_t at, len;
        bool is_lent;
    } table[] = {{0, 4 * BLOCK, true},     {BLOCK, 3 * BLOCK, true},      {3 * BLOCK, BLOCK, true},
                 {0, 5 * BLOCK, false},    {3 * BLOCK, 2 * BLOCK, false}, {4 * BLOCK, BLOCK, false},
                 {5 * BLOCK, BLOCK, false}};
    const struct target_wish wish = {.has_no_capsule_room = true};
    struct scene s;
    scene_open(&s, &wish, WEFT_NVME_NO_ONESHOT, 1);
    assert_int_equal(weft_nvme_lend(s.nvme, s.data + LEN, 4 * BLOCK), 0);
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct weft_nvme_counters before = s.counters;
        assert_int_equal(move(&s, WEFT_NVME_READ, 0, s.data + LEN + table[i].at, table[i].len), 0);
        assert_int_equal(s.counters.lent - before.lent, table[i].is_lent);
        assert_int_equal(s.counters.registrations - before.registrations, !table[i].is_lent);
    }
    assert_int_equal(move(&s, WEFT_NVME_READ, 0, s.data + LEN - BLOCK, BLOCK), 0);
    assert_int_equal(s.counters.registrations, 5);     // what stands before it is not within
    weft_nvme_take_back(s.nvme, s.data + LEN + BLOCK); // nobody lent that
    assert_int_equal(move(&s, WEFT_NVME_READ, 0, s.data + LEN, BLOCK), 0);
    assert_int_equal(s.counters.registrations, 5);
    weft_nvme_take_back(s.nvme, s.data + LEN);
    assert_int_equal(move(&s, WEFT_NVME_READ, 0, s.data + LEN, BLOCK), 0);
    assert_int_equal(s.counters.registrations, 6);
    scene_close(&s);
}

static void so_many_ranges_are_lent_at_a_time(void **state)
{
    const struct target_wish wish = {0};
    struct scene s;
    scene_open(&s, &wish, WEFT_NVME_NO_ONESHOT, 1);
    for (unsigned i = 0; i < WEFT_NVME_LENT_MAX; i++) {
        assert_int_equal(weft_nvme_lend(s.nvme, s.data + i * BLOCK, BLOCK), 0);
    }
    assert_int_equal(weft_nvme_lend(s.nvme, s.data + LEN, BLOCK), -ENOSPC);
    weft_nvme_take_back(s.nvme, s.data + 3 * BLOCK);
    assert_int_equal(weft_nvme_lend(s.nvme, s.data + LEN, BLOCK), 0);
    assert_int_equal(weft_nvme_lend(s.nvme, s.data + 3 * BLOCK, BLOCK), -ENOSPC);
    scene_close(&s);
    scene_open(&s, &wish, 0, 1); // one-shot needs none of it
    for (unsigned i = 0; i <= WEFT_NVME_LENT_MAX; i++) {
        assert_int_equal(weft_nvme_lend(s.nvme, s.data + i * BLOCK, BLOCK), 0);
    }
    scene_close(&s);
}

/* ---- what the program hears ------------------------------------------------------------------ */

static void an_answer_is_told_as_it_was(void **state)
{
    static const struct {
        uint16_t status, code;
        int error;
        bool may_retry;
    } table[] = {{NVME_LBA_OUT_OF_RANGE | NVME_STATUS_DNR, NVME_LBA_OUT_OF_RANGE, -ERANGE, false},
                 {NVME_NAMESPACE_NOT_READY, NVME_NAMESPACE_NOT_READY, -EBUSY, true},
                 {NVME_CAPACITY_EXCEEDED | NVME_STATUS_MORE, NVME_CAPACITY_EXCEEDED, -ENOSPC, true},
                 {0x3ff, 0x3ff, -EIO, true}};
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        const struct target_wish wish = {.io_status = table[i].status};
        struct scene s;
        scene_open(&s, &wish, WEFT_NVME_NO_ONESHOT, 1);
        const struct iovec pieces[] = {{s.data, BLOCK}, {s.data + LEN, BLOCK}};
        struct weft_nvme_io io = {
            .operation = WEFT_NVME_READ, .len = 2 * BLOCK, .memory = pieces, .memory_count = 2};
        uint8_t before = s.data[5];
        assert_int_equal(run(&s, &io), table[i].error);
        assert_int_equal(io.status, table[i].code);
        assert_int_equal(io.may_retry, table[i].may_retry);
        assert_int_equal(s.data[5], before); // nothing is copied of what was not read
        assert_int_equal(s.counters.errors, 1);
        assert_int_equal(s.counters.octets_read, 0);
        scene_close(&s);
    }
}

static void what_went_well_is_counted(void **state)
{
    const struct target_wish wish = {0};
    struct scene s;
    scene_open(&s, &wish, WEFT_NVME_NO_ONESHOT, 1);
    const struct iovec pieces[] = {{s.data, 16 * BLOCK}, {s.data + LEN, BLOCK}};
    struct weft_nvme_io io = {
        .operation = WEFT_NVME_WRITE, .len = 17 * BLOCK, .memory = pieces, .memory_count = 2};
    assert_int_equal(ask(&s, WEFT_NVME_WRITE, 0, 0, 8 * BLOCK), 0);
    assert_int_equal(ask(&s, WEFT_NVME_WRITE, 0, 0, 9 * BLOCK), 0);
    assert_int_equal(run(&s, &io), 0);
    assert_false(io.may_retry);
    assert_int_equal(ask(&s, WEFT_NVME_READ, 0, 0, 5 * BLOCK), 0);
    assert_int_equal(ask(&s, WEFT_NVME_TRIM, 0, 0, 5 * BLOCK), 0);
    assert_int_equal(s.counters.commands, 5);
    assert_int_equal(s.counters.octets_written, 34 * BLOCK);
    assert_int_equal(s.counters.octets_read, 5 * BLOCK);
    assert_int_equal(s.counters.in_capsules, 1);
    assert_int_equal(s.counters.registrations, 2);
    assert_int_equal(s.counters.copies, 1);
    assert_int_equal(s.counters.lent + s.counters.oneshots + s.counters.errors, 0);
    scene_close(&s);
}

struct again {
    struct weft_nvme *nvme;
    unsigned left;
    bool was_refused;
};

static void submit_again(struct weft_nvme_io *io)
{
    struct again *again = io->context;
    assert_int_equal(io->error, 0);
    if (--again->left > 0) {
        again->was_refused |= weft_nvme_submit(again->nvme, io) != 0;
    }
}

// A queue of one has room again when the program hears that its command is over.
static void a_command_may_be_submitted_again_where_its_end_is_told(void **state)
{
    const struct target_wish wish = {EDITS({TARGET_ACCEPTANCE, NVME_RDMA_ACCEPT_OFF_CRQSIZE, 1})};
    struct scene s;
    scene_open(&s, &wish, 0, 1);
    struct again again = {.nvme = s.nvme, .left = 50};
    struct weft_nvme_io flush = {
        .operation = WEFT_NVME_FLUSH, .nsid = 1, .on_complete = submit_again, .context = &again};
    assert_int_equal(s.info.depth, 1);
    assert_int_equal(weft_nvme_submit(s.nvme, &flush), 0);
    while (again.left > 0 && !again.was_refused) {
        assert_true(weft_nvme_wait(s.nvme, 1000) >= 0);
    }
    assert_false(again.was_refused);
    assert_int_equal(target_counters(s.target)->flushes, 50);
    scene_close(&s);
}

// Once there was nothing to take, the descriptor tells of the next.
static void a_program_may_sleep_on_the_descriptor(void **state)
{
    const struct target_wish wish = {0};
    struct scene s;
    unsigned done = 0;
    scene_open(&s, &wish, 0, 1);
    for (unsigned i = 0; i < 20; i++) {
        struct weft_nvme_io flush = {
            .operation = WEFT_NVME_FLUSH, .nsid = 1, .on_complete = on_complete, .context = &done};
        struct pollfd fd = {.fd = weft_nvme_fd(s.nvme), .events = POLLIN};
        assert_int_equal(weft_nvme_submit(s.nvme, &flush), 0);
        while (weft_nvme_poll(s.nvme) == 0) {
            assert_int_equal(poll(&fd, 1, 30000), 1);
        }
        assert_int_equal(done, i + 1);
    }
    assert_int_equal(weft_nvme_wait(s.nvme, 1), 0); // nothing is out
    scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_vendor_says_is_told_as_it_stands),
        cmocka_unit_test(what_the_vendor_says_came_with_the_namespace),
        cmocka_unit_test(a_command_says_its_blocks_and_its_flags),
        cmocka_unit_test(a_command_says_where_its_data_are),
        cmocka_unit_test(a_trim_says_one_range),
        cmocka_unit_test(the_longest_ranges_are_told_whole),
        cmocka_unit_test(the_largest_namespace_is_known_to_its_end),
        cmocka_unit_test(a_range_ends_with_the_namespace),
        cmocka_unit_test(a_command_names_so_much_and_no_more),
        cmocka_unit_test(data_are_as_long_as_the_controller_takes),
        cmocka_unit_test(flags_are_those_of_the_operation),
        cmocka_unit_test(pieces_are_as_long_together_as_the_data),
        cmocka_unit_test(what_lies_within_lent_memory_is_not_registered_again),
        cmocka_unit_test(so_many_ranges_are_lent_at_a_time),
        cmocka_unit_test(an_answer_is_told_as_it_was),
        cmocka_unit_test(what_went_well_is_counted),
        cmocka_unit_test(a_command_may_be_submitted_again_where_its_end_is_told),
        cmocka_unit_test(a_program_may_sleep_on_the_descriptor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
