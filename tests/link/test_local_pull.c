// Reads past the stream, out of the memory of the process at its other end: here the same one.
#include <stdlib.h>
#include <sys/mman.h>

#include "base/port_push.h"
#include "tests/link/local_loop.h"

enum { STAG = 0x00abcdef, PD = 5, LEN = 256 };

static uint8_t source[4 * LEN], here[4 * LEN];
static struct key_mirror *mirror;

static instant_ns clock_of_test(void *ctx)
{
    (void)ctx;
    return 1;
}

static void show(uint32_t stag, unsigned rights, const void *at, uint64_t generation)
{
    const struct key key = {.generation = generation,
                            .stag = stag,
                            .pd = PD,
                            .rights = rights,
                            .length = sizeof source,
                            .addr = (uint64_t)(uintptr_t)at};
    assert_true(key_mirror_show(mirror, &key));
}

static int begin(void **state)
{
    const struct link_local_config config = {
        .ring_len = 64 * 1024, .clock = clock_of_test, .rights = KEY_MAY_READ};
    descriptors_note();
    for (unsigned i = 0; i < sizeof source; i++) {
        source[i] = (uint8_t)(i * 7 + i / 256);
    }
    memset(here, 0, sizeof here);
    local_link_open(&config);
    mirror = the_link->pushes->mirror(the_link);
    assert_non_null(mirror);
    show(STAG, KEY_MAY_READ, source, 1);
    local_loop_open();
    return 0;
}

static void admit(void)
{
    assert_true(the_link->pushes->admit(l.passive, PD, KEY_MAY_READ));
}

// It joins the run, and its octets come behind those of the others.
static enum past_answer join_at(uint32_t stag, uint64_t to, size_t len, struct pull_run *run)
{
    const struct mspan place = mspan_of(here + run->len, len);
    const struct pull pull = {
        .stag = stag, .to = to, .len = len, .pieces = &place, .piece_count = 1};
    return the_link->pushes->locate(l.active, &pull, run);
}

static enum past_answer answer_at(uint32_t stag, uint64_t to, size_t len, struct pull_run *ret)
{
    pull_run_begin(ret);
    return join_at(stag, to, len, ret);
}

static bool locate_at(uint32_t stag, uint64_t to, size_t len, struct pull_run *ret)
{
    return answer_at(stag, to, len, ret) == PAST_BEGUN;
}

static bool locate(struct pull_run *ret)
{
    return locate_at(STAG, 0, LEN, ret);
}

static bool is_located(void)
{
    struct pull_run run;
    return locate(&run);
}

static bool copy(const struct pull_run *run)
{
    return the_link->pushes->copy(run) == run->count;
}

static unsigned good_count(const struct pull_run *run)
{
    return the_link->pushes->confirm(l.active, run, run->count);
}

static bool confirm(const struct pull_run *run)
{
    return good_count(run) == run->count;
}

static void octets_are_copied_to_their_places(void **state)
{
    struct pull_run at;
    const struct mspan places[] = {mspan_of(here + 600, 10), mspan_of(here, 1),
                                   mspan_of(here + 300, LEN - 11)};
    admit();
    const struct pull pull = {
        .stag = STAG, .to = 3, .len = LEN, .pieces = places, .piece_count = 3};
    pull_run_begin(&at);
    assert_int_equal(the_link->pushes->locate(l.active, &pull, &at), PAST_BEGUN);
    assert_true(copy(&at));
    assert_true(confirm(&at));
    assert_memory_equal(here + 600, source + 3, 10);
    assert_int_equal(here[0], source[13]);
    assert_memory_equal(here + 300, source + 14, LEN - 11);
    assert_int_equal(counters()->pulls, 1);
    assert_int_equal(counters()->pulled_octets, LEN);
}

static void nothing_is_read_before_the_peer_lets_in_or_after(void **state)
{
    assert_false(is_located());
    admit();
    assert_true(is_located());
    the_link->pushes->expel(l.passive);
    assert_false(is_located());
    admit();
    assert_true(is_located());
    link_close(l.passive, false);
    l.passive = NULL;
    assert_false(is_located());
}

static void who_may_write_may_not_read(void **state)
{
    struct pull_run at;
    assert_true(the_link->pushes->admit(l.passive, PD, KEY_MAY_WRITE));
    assert_false(is_located()); // of the stream
    the_link->pushes->expel(l.passive);
    show(STAG + 1, KEY_MAY_WRITE, source, 2);
    admit();
    assert_false(locate_at(STAG + 1, 0, LEN, &at)); // of the key
    assert_true(is_located());
}

static void what_is_on_the_stream_comes_first(void **state)
{
    char got[4];
    struct pull_run at;
    admit();
    assert_int_equal(send_text(l.active, "?"), 1);
    assert_int_equal(answer_at(STAG, 0, LEN, &at), PAST_BEHIND);
    assert_int_equal(recv_some(l.passive, got, sizeof got), 1);
    assert_true(is_located());
}

static void what_the_key_does_not_allow_goes_by_the_stream(void **state)
{
    struct pull_run at;
    admit();
    assert_false(locate_at(STAG + 7, 0, LEN, &at));
    assert_true(locate_at(STAG, sizeof source - LEN, LEN, &at));
    assert_false(locate_at(STAG, sizeof source - LEN + 1, LEN, &at));
    assert_false(locate_at(STAG, UINT64_MAX, LEN, &at));
    assert_false(locate_at(STAG, 1, SIZE_MAX, &at));
    the_link->pushes->expel(l.passive);
    assert_true(the_link->pushes->admit(l.passive, PD + 1, KEY_MAY_READ));
    assert_false(is_located());
    assert_int_equal(counters()->pulls_failed, 5);
}

/* ---- several in one call --------------------------------------------------------------------- */

static void those_of_a_run_are_copied_by_one_call(void **state)
{
    struct pull_run run;
    admit();
    show(STAG + 1, KEY_MAY_READ, source, 2);
    assert_true(locate_at(STAG, 2 * LEN, 100, &run));
    assert_int_equal(join_at(STAG, 2 * LEN + 100, 50, &run), PAST_BEGUN); // side by side
    assert_int_equal(join_at(STAG + 1, 7, 60, &run), PAST_BEGUN);
    assert_true(copy(&run));
    assert_true(confirm(&run));
    assert_memory_equal(here, source + 2 * LEN, 150);
    assert_memory_equal(here + 150, source + 7, 60);
    assert_int_equal(counters()->pulls, 3);
    assert_int_equal(counters()->pulled_octets, 210);
    assert_int_equal(counters()->pull_calls, 1);
}

static void those_before_a_key_that_was_taken_back_are_good(void **state)
{
    struct pull_run run;
    admit();
    show(STAG + 1, KEY_MAY_READ, source, 2);
    assert_true(locate(&run));
    assert_int_equal(join_at(STAG + 1, 0, LEN, &run), PAST_BEGUN);
    assert_int_equal(join_at(STAG, 0, LEN, &run), PAST_BEGUN);
    assert_true(copy(&run));
    assert_int_equal(key_mirror_withdraw(mirror, STAG + 1), 2);
    assert_int_equal(good_count(&run), 1);
    assert_int_equal(counters()->pulls, 1);
    assert_int_equal(counters()->pulls_failed, 2);
}

static void those_before_memory_that_is_unmapped_are_whole(void **state)
{
    struct pull_run run;
    uint8_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(page, MAP_FAILED);
    show(STAG + 1, KEY_MAY_READ, page, 2);
    admit();
    assert_true(locate(&run));
    assert_int_equal(join_at(STAG, 1, LEN, &run), PAST_BEGUN);
    assert_int_equal(join_at(STAG + 1, 0, LEN, &run), PAST_BEGUN);
    munmap(page, 4096);
    assert_int_equal(the_link->pushes->copy(&run), 2);
    assert_memory_equal(here + LEN, source + 1, LEN);
}

static void a_run_is_full_of_reads_of_octets_or_of_pieces(void **state)
{
    struct pull_run run = {0};
    const struct pull large = {.len = PULL_LEN_MAX, .piece_count = 1};
    const struct pull small = {.len = 1, .piece_count = 1};
    const struct pull scattered = {.len = 1, .piece_count = PULL_PIECES_MAX};
    assert_true(pull_run_has_room(&run, &large));
    run = (struct pull_run){.count = PULL_RUN_MAX - 1};
    assert_true(pull_run_has_room(&run, &small));
    assert_false(pull_run_has_room(&run, &large));
    run.count++;
    assert_false(pull_run_has_room(&run, &small));
    run = (struct pull_run){.count = 1, .len = PULL_RUN_LEN - 1};
    assert_true(pull_run_has_room(&run, &small));
    run.len++;
    assert_false(pull_run_has_room(&run, &small));
    run = (struct pull_run){.count = 1, .piece_count = PULL_RUN_PIECES_MAX - PULL_PIECES_MAX};
    assert_true(pull_run_has_room(&run, &scattered));
    run.piece_count++;
    assert_false(pull_run_has_room(&run, &scattered));
}

/* ---- what is found out behind the copy ------------------------------------------------------- */

// What was copied by a key that was taken back is worth nothing, also if it is shown again.
static void a_key_that_was_taken_back_meanwhile_is_found_out(void **state)
{
    struct pull_run at;
    admit();
    assert_true(locate(&at));
    assert_true(copy(&at));
    assert_int_equal(key_mirror_withdraw(mirror, STAG), 1);
    assert_false(confirm(&at));
    show(STAG, KEY_MAY_READ, source, 2);
    assert_false(confirm(&at));
    assert_true(locate(&at));
    assert_true(confirm(&at));
    assert_int_equal(counters()->pulls_failed, 2);
    assert_int_equal(counters()->pulls, 1);
}

static void a_gate_that_was_closed_meanwhile_is_found_out(void **state)
{
    struct pull_run at;
    admit();
    assert_true(locate(&at));
    assert_true(copy(&at));
    the_link->pushes->expel(l.passive);
    assert_false(confirm(&at));
    admit(); // it is another time
    assert_false(confirm(&at));
}

static void a_peer_that_was_forgotten_meanwhile_is_found_out(void **state)
{
    struct pull_run at;
    admit();
    assert_true(locate(&at));
    assert_true(copy(&at));
    struct local_link *link = local_link_of(the_link);
    local_gate_forget_peer(link, LIST_ENTRY(link->peers.next, struct local_peer_keys, link));
    assert_true(confirm(&at)); // it is known again, and its key is the same
    at.nonce++;
    assert_false(confirm(&at));
}

static void memory_that_is_unmapped_is_not_copied(void **state)
{
    struct pull_run at;
    const size_t page_len = 4096;
    uint8_t *pages =
        mmap(NULL, 2 * page_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(pages, MAP_FAILED);
    munmap(pages + page_len, page_len);
    show(STAG + 1, KEY_MAY_READ, pages + page_len - LEN / 2, 2);
    admit();
    assert_true(locate_at(STAG + 1, 0, LEN / 2, &at));
    assert_true(copy(&at));
    assert_true(locate_at(STAG + 1, 0, LEN, &at));
    assert_false(copy(&at));
    munmap(pages, page_len);
    assert_false(copy(&at));
}

// It has called exec, or another one has its number.
static void a_process_without_the_nonce_is_another_one(void **state)
{
    struct pull_run at;
    admit();
    assert_true(locate(&at));
    memset(local_link_of(the_link)->own_keys.sill, 1, 16);
    assert_false(copy(&at));
    at.process = 0x7fffffff;
    assert_false(copy(&at));
}

static void whatever_a_gate_says_nobody_else_is_hurt(void **state)
{
    struct local_stream *s = local_stream_of(l.passive);
    _Atomic uint64_t *words = (void *)local_memory_gate(&s->memory, s->side);
    uint64_t random = 1;
    admit();
    for (unsigned i = 0; i < 2000; i++) {
        struct pull_run at;
        random = random * 6364136223846793005ULL + 1442695040888963407ULL;
        atomic_store(&words[random >> 61], random >> (random >> 32) % 64);
        if (locate(&at)) {
            copy(&at);
            confirm(&at);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)
        CASE(octets_are_copied_to_their_places),
        CASE(nothing_is_read_before_the_peer_lets_in_or_after),
        CASE(who_may_write_may_not_read),
        CASE(what_is_on_the_stream_comes_first),
        CASE(what_the_key_does_not_allow_goes_by_the_stream),
        CASE(those_of_a_run_are_copied_by_one_call),
        CASE(those_before_a_key_that_was_taken_back_are_good),
        CASE(those_before_memory_that_is_unmapped_are_whole),
        CASE(a_run_is_full_of_reads_of_octets_or_of_pieces),
        CASE(a_key_that_was_taken_back_meanwhile_is_found_out),
        CASE(a_gate_that_was_closed_meanwhile_is_found_out),
        CASE(a_peer_that_was_forgotten_meanwhile_is_found_out),
        CASE(memory_that_is_unmapped_is_not_copied),
        CASE(a_process_without_the_nonce_is_another_one),
        CASE(whatever_a_gate_says_nobody_else_is_hurt),
#undef CASE
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
