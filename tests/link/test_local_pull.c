// Reads past the stream, out of the memory of the process at its other end: here the same one.
#include <stdlib.h>
#include <sys/mman.h>

#include "base/port_push.h"
#include "link/local/local.h"
#include "link/local/stream.h"
#include "link/socket.h"
#include "tests/link/contract.h"

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

static void exchange(struct link_stream *from, struct link_stream *to)
{
    char got[4];
    assert_int_equal(send_text(from, "?"), 1);
    assert_int_equal(recv_some(to, got, sizeof got), 1);
}

static int begin(void **state)
{
    const struct link_local_config config = {
        .ring_len = 64 * 1024, .clock = clock_of_test, .rights = KEY_MAY_READ};
    struct link_socket_config socket_config = {0};
    struct link *inner;
    (void)state;
    descriptors_note();
    for (unsigned i = 0; i < sizeof source; i++) {
        source[i] = (uint8_t)(i * 7 + i / 256);
    }
    memset(here, 0, sizeof here);
    assert_int_equal(link_socket_create(&socket_config, &inner), 0);
    assert_int_equal(link_local_wrap(inner, &config, &the_link), 0);
    mirror = the_link->pushes->mirror(the_link);
    assert_non_null(mirror);
    show(STAG, KEY_MAY_READ, source, 1);
    loop_open(&l, the_link, AF_INET);
    exchange(l.active, l.passive);
    exchange(l.passive, l.active);
    exchange(l.active, l.passive);
    return 0;
}

static int end(void **state)
{
    (void)state;
    the_link->ops->destroy(the_link);
    descriptors_check();
    return 0;
}

static const struct local_counters *counters(void)
{
    return &local_link_of(the_link)->counters;
}

static void admit(void)
{
    assert_true(the_link->pushes->admit(l.passive, PD, KEY_MAY_READ));
}

static enum pull_answer answer_at(uint32_t stag, uint64_t to, size_t len, struct pull_source *ret)
{
    const struct pull pull = {.stag = stag, .to = to, .len = len};
    return the_link->pushes->locate(l.active, &pull, ret);
}

static bool locate_at(uint32_t stag, uint64_t to, size_t len, struct pull_source *ret)
{
    return answer_at(stag, to, len, ret) == PULL_BEGUN;
}

static bool locate(struct pull_source *ret)
{
    return locate_at(STAG, 0, LEN, ret);
}

static bool is_located(void)
{
    struct pull_source at;
    return locate(&at);
}

static bool copy(const struct pull_source *at)
{
    const struct mspan place = mspan_of(here, at->len);
    return the_link->pushes->copy(at, &place, 1);
}

static bool confirm(const struct pull_source *at)
{
    return the_link->pushes->confirm(l.active, at);
}

static void octets_are_copied_to_their_places(void **state)
{
    (void)state;
    struct pull_source at;
    const struct mspan places[] = {mspan_of(here + 600, 10), mspan_of(here, 1),
                                   mspan_of(here + 300, LEN - 11)};
    admit();
    assert_true(locate_at(STAG, 3, LEN, &at));
    assert_true(the_link->pushes->copy(&at, places, 3));
    assert_true(confirm(&at));
    assert_memory_equal(here + 600, source + 3, 10);
    assert_int_equal(here[0], source[13]);
    assert_memory_equal(here + 300, source + 14, LEN - 11);
    assert_int_equal(counters()->pulls, 1);
    assert_int_equal(counters()->pulled_octets, LEN);
}

static void nothing_is_read_before_the_peer_lets_in_or_after(void **state)
{
    (void)state;
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
    (void)state;
    struct pull_source at;
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
    struct pull_source at;
    (void)state;
    admit();
    assert_int_equal(send_text(l.active, "?"), 1);
    assert_int_equal(answer_at(STAG, 0, LEN, &at), PULL_BEHIND);
    assert_int_equal(recv_some(l.passive, got, sizeof got), 1);
    assert_true(is_located());
}

static void what_the_key_does_not_allow_goes_by_the_stream(void **state)
{
    (void)state;
    struct pull_source at;
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

// What was copied by a key that was taken back is worth nothing, also if it is shown again.
static void a_key_that_was_taken_back_meanwhile_is_found_out(void **state)
{
    (void)state;
    struct pull_source at;
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
    (void)state;
    struct pull_source at;
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
    (void)state;
    struct pull_source at;
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
    (void)state;
    struct pull_source at;
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
    (void)state;
    struct pull_source at;
    admit();
    assert_true(locate(&at));
    memset(local_link_of(the_link)->own_keys.sill, 1, 16);
    assert_false(copy(&at));
    at.process = 0x7fffffff;
    assert_false(copy(&at));
}

static void whatever_a_gate_says_nobody_else_is_hurt(void **state)
{
    (void)state;
    struct local_stream *s = local_stream_of(l.passive);
    _Atomic uint64_t *words = (void *)local_memory_gate(&s->memory, s->side);
    uint64_t random = 1;
    admit();
    for (unsigned i = 0; i < 2000; i++) {
        struct pull_source at;
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
