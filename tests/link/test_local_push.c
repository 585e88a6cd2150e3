// Writes past the stream, into the memory of the process at its other end: here the same one.
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/port_push.h"
#include "tests/link/local_loop.h"

enum { STAG = 0x00abcdef, PD = 5, LEN = 256 };

static uint8_t target[PUSH_LEN_MAX + 1];
static const uint8_t source[PUSH_LEN_MAX + 1] = {1, 2, 3, 4, 5, 6, 7, 8};
static struct key_mirror *mirror;

static instant_ns now_ns = 1; // goes on by 50 us with each look, unless it is held
static bool is_held;

static instant_ns clock_of_test(void *ctx)
{
    (void)ctx;
    now_ns += is_held ? 0 : 50 * NS_PER_US;
    return now_ns;
}

static atomic_bool is_said; // that a revocation takes long
static atomic_bool may_leave;

static void on_long_revocation(pid_t process, pid_t thread)
{
    (void)process;
    (void)thread;
    atomic_store(&is_said, true);
}

static const struct link_local_config config = {.ring_len = 64 * 1024,
                                                .clock = clock_of_test,
                                                .on_long_revocation = on_long_revocation,
                                                .rights = KEY_MAY_WRITE};

static void fall_asleep(void)
{
    while (!the_link->ops->may_wait(the_link)) {
        struct link_ready ready[8];
        the_link->ops->poll(the_link, ready, 8);
    }
    the_link->ops->wait(the_link, 0);
}

static int begin(void **state)
{
    is_held = false;
    atomic_store(&is_said, false);
    descriptors_note();
    memset(target, 0, sizeof target);
    local_link_open(&config);
    mirror = the_link->pushes->mirror(the_link);
    assert_non_null(mirror);
    const struct key key = {.generation = 1,
                            .stag = STAG,
                            .pd = PD,
                            .rights = KEY_MAY_WRITE,
                            .length = sizeof target,
                            .addr = (uint64_t)(uintptr_t)target};
    assert_true(key_mirror_show(mirror, &key));
    local_loop_open();
    return 0;
}

static enum past_answer aim_at(uint32_t stag, uint64_t to, size_t len, struct push_aimed *ret)
{
    const struct span piece = {source, len};
    const struct push push = {
        .stag = stag, .to = to, .len = len, .pieces = &piece, .piece_count = 1};
    return the_link->pushes->aim(l.active, &push, ret);
}

static bool put(const struct push_aimed *aimed)
{
    bool is_done = the_link->pushes->put(aimed);
    the_link->pushes->conclude(aimed, is_done);
    return is_done;
}

static bool push_to(uint32_t stag, uint64_t to, size_t len)
{
    struct push_aimed aimed;
    return aim_at(stag, to, len, &aimed) == PAST_BEGUN && put(&aimed);
}

static bool push(void)
{
    return push_to(STAG, 0, LEN);
}

static void admit(void)
{
    assert_true(the_link->pushes->admit(l.passive, PD, KEY_MAY_WRITE));
    fall_asleep();
}

static void octets_come_while_everybody_sleeps(void **state)
{
    admit();
    assert_true(push());
    assert_memory_equal(target, source, LEN);
    assert_int_equal(counters()->pushes, 1);
    assert_int_equal(counters()->pushed_octets, LEN);
}

static void nothing_is_pushed_before_the_peer_lets_in_or_after(void **state)
{
    fall_asleep();
    assert_false(push());
    admit();
    assert_true(push());
    the_link->pushes->expel(l.passive);
    assert_false(push());
    admit(); // and again
    assert_true(push());
}

static void a_stream_that_is_closed_lets_nobody_in(void **state)
{
    admit();
    link_close(l.passive, false);
    l.passive = NULL;
    assert_false(push());
}

static void what_is_on_the_stream_comes_first(void **state)
{
    char got[4];
    admit();
    assert_int_equal(send_text(l.active, "?"), 1);
    assert_false(push());
    assert_int_equal(recv_some(l.passive, got, sizeof got), 1);
    fall_asleep();
    assert_true(push());
}

// A process that writes without end is better off with the ring.
static void writes_that_follow_each_other_go_by_the_stream(void **state)
{
    admit();
    is_held = true;
    for (unsigned i = 0; i < LOCAL_PUSH_RUN_MAX; i++) {
        assert_true(push());
    }
    assert_false(push());
    assert_false(push());
    assert_int_equal(counters()->pushes_streamed, 2);
    is_held = false; // a while later
    assert_true(push());
}

static void writes_that_are_answered_follow_nothing(void **state)
{
    char got[4];
    admit();
    is_held = true;
    for (unsigned i = 0; i < 2 * LOCAL_PUSH_RUN_MAX; i++) {
        assert_true(push());
        if (i % 4 == 3) {
            assert_int_equal(send_text(l.passive, "!"), 1);
        }
    }
    is_held = false;
    assert_int_equal(recv_some(l.active, got, sizeof got), 4);
}

static void what_the_key_does_not_allow_goes_by_the_stream(void **state)
{
    admit();
    assert_false(push_to(STAG + 1, 0, LEN));
    assert_false(push_to(STAG, sizeof target - LEN + 1, LEN));
    assert_false(push_to(STAG, UINT64_MAX, LEN));
    the_link->pushes->expel(l.passive);
    assert_true(the_link->pushes->admit(l.passive, PD + 1, KEY_MAY_WRITE));
    assert_false(push());
    assert_int_equal(counters()->pushes_failed, 4);
    assert_int_equal(target[0], 0);
}

static void a_key_that_was_taken_back_is_worth_nothing(void **state)
{
    admit();
    assert_true(the_link->pushes->revoke(the_link, key_mirror_withdraw(mirror, STAG)));
    assert_false(push());
}

// Between the two the lock is not held: what is looked at behind it stays.
static void a_key_that_is_taken_back_before_the_octets_go_lets_nobody_in(void **state)
{
    struct push_aimed aimed;
    admit();
    assert_int_equal(aim_at(STAG, 0, LEN, &aimed), PAST_BEGUN);
    assert_true(the_link->pushes->revoke(the_link, key_mirror_withdraw(mirror, STAG)));
    assert_false(put(&aimed));
    assert_int_equal(target[0], 0);
    assert_int_equal(counters()->pushes_failed, 1);
}

static void a_stream_that_is_closed_meanwhile_keeps_its_memory(void **state)
{
    struct push_aimed aimed;
    struct local_stream *s = local_stream_of(l.active);
    admit();
    assert_int_equal(aim_at(STAG, 0, LEN, &aimed), PAST_BEGUN);
    link_close(l.active, true);
    l.active = NULL;
    assert_non_null(s->memory.base);
    assert_true(the_link->pushes->put(&aimed)); // the peer has not heard of it
    the_link->pushes->conclude(&aimed, true);
    assert_null(s->memory.base);
    assert_memory_equal(target, source, LEN);
}

// More processes are known than there is room for: those whose keys are looked at stay.
static void keys_that_are_looked_at_are_not_forgotten(void **state)
{
    struct local_stream *s = local_stream_of(l.passive);
    struct local_gate *gate = local_memory_gate(&s->memory, s->side);
    struct push_aimed aimed;
    admit();
    assert_int_equal(aim_at(STAG, 0, LEN, &aimed), PAST_BEGUN);
    const struct local_peer_keys *used = local_stream_of(l.active)->pushing_by;
    for (unsigned i = 1; i <= LOCAL_PEERS_MAX; i++) {
        atomic_store(&gate->nonce, i);
        atomic_store(&gate->opening, 100 + i);
        assert_int_equal(aim_at(STAG, 0, LEN, NULL), PAST_REFUSED);
    }
    assert_int_equal(local_link_of(the_link)->peer_count, LOCAL_PEERS_MAX);
    assert_ptr_equal(local_link_of(the_link)->peers.next, &used->link);
    assert_false(put(&aimed)); // another opening
}

static void who_asks_whether_it_could_begins_nothing(void **state)
{
    admit();
    assert_int_equal(aim_at(STAG, 0, LEN, NULL), PAST_BEGUN);
    assert_null(local_stream_of(l.active)->pushing_by);
    assert_true(push());
}

// Comes in, and stays until it may leave. It runs all the time, so it may be in the call
// that is waited for; ThreadSanitizer's atomics would sleep on a lock of its own, in a call that
// is not.
__attribute__((no_sanitize("thread"))) static void *linger(void *ctx)
{
    struct local_slot *slot = ctx;
    atomic_store(&slot->thread, (uint64_t)gettid());
    atomic_store(&slot->turn, 1);
    atomic_store(&slot->generation, 1);
    while (!atomic_load(&may_leave)) {
    }
    atomic_store(&slot->generation, 0);
    return NULL;
}

// The passive side's peer, which has been admitted, is in.
static pthread_t somebody_inside(void)
{
    struct local_stream *s = local_stream_of(l.passive);
    struct local_slot *slot = local_memory_slot(&s->memory, local_other_side(s->side));
    pthread_t thread;
    atomic_store(&may_leave, false);
    assert_int_equal(pthread_create(&thread, NULL, linger, slot), 0);
    while (atomic_load(&slot->generation) == 0) {
    }
    return thread;
}

static void let_out(pthread_t thread)
{
    atomic_store(&may_leave, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void a_peer_that_lingers_is_waited_for_and_counted(void **state)
{
    admit();
    pthread_t thread = somebody_inside();
    const uint64_t generation = key_mirror_withdraw(mirror, STAG);
    while (!atomic_load(&is_said)) {
        assert_false(the_link->pushes->revoke(the_link, generation));
    }
    assert_false(the_link->pushes->revoke(the_link, generation));
    assert_int_equal(counters()->revocations_long, 1);
    assert_true(the_link->pushes->revoke(the_link, generation + 1)); // by another he is not in
    let_out(thread);
    assert_true(the_link->pushes->revoke(the_link, generation));
}

// Its stream ends, and keeps its memory for as long as it may still write by it.
static void a_peer_that_does_not_come_out_is_a_leaver(void **state)
{
    struct local_stream *s = local_stream_of(l.passive);
    admit();
    pthread_t thread = somebody_inside();
    const uint64_t leaver = the_link->pushes->expel(l.passive);
    assert_int_not_equal(leaver, 0);
    assert_false(the_link->pushes->admit(l.passive, PD, KEY_MAY_WRITE)); // not yet
    link_close(l.passive, false);
    l.passive = NULL;
    assert_false(the_link->pushes->has_left(the_link, leaver));
    assert_false(the_link->pushes->revoke(the_link, key_mirror_withdraw(mirror, STAG)));
    assert_non_null(s->memory.base);
    let_out(thread);
    assert_true(the_link->pushes->has_left(the_link, leaver));
    assert_null(s->memory.base);
}

// Who is waited for keeps no more than one stream of this process so.
static void a_process_with_a_leaver_is_not_let_in(void **state)
{
    admit();
    pthread_t thread = somebody_inside();
    assert_int_not_equal(the_link->pushes->expel(l.passive), 0);
    assert_true(the_link->pushes->admit(l.active, PD, KEY_MAY_WRITE));
    assert_false(local_stream_of(l.active)->lets_in);
    let_out(thread);
    assert_true(the_link->pushes->admit(l.active, PD, KEY_MAY_WRITE));
    assert_true(local_stream_of(l.active)->lets_in);
}

static void long_writes_go_by_the_stream(void **state)
{
    admit();
    assert_true(push_to(STAG, 0, PUSH_LEN_MAX));
    assert_false(push_to(STAG, 0, PUSH_LEN_MAX + 1));
}

static void memory_that_is_unmapped_goes_by_the_stream(void **state)
{
    const struct key key = {.generation = 2,
                            .stag = STAG + 7,
                            .pd = PD,
                            .rights = KEY_MAY_WRITE,
                            .length = LEN,
                            .addr = 4096};
    assert_true(key_mirror_show(mirror, &key));
    admit();
    assert_false(push_to(STAG + 7, 0, LEN));
    assert_true(push());
}

// A peer that names what is no sealed mirror of its own.
static void a_gate_that_lies_is_not_believed(void **state)
{
    int unsealed = memfd_create("unsealed", MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(unsealed, sizeof(struct key_mirror)), 0);
    const uint64_t numbers[] = {UINT64_MAX, 1U << 31, 999999, 0, (uint64_t)unsealed};
    struct local_stream *s = local_stream_of(l.passive);
    struct local_gate *gate = local_memory_gate(&s->memory, s->side);
    admit();
    for (unsigned i = 0; i < 5; i++) {
        atomic_store(&gate->mirror_fd, numbers[i]);
        atomic_store(&gate->nonce, i);
        atomic_store(&gate->opening, 100 + i);
        assert_false(push());
        assert_int_equal(counters()->pushes_forbidden, i + 1);
    }
    close(unsealed);
    atomic_store(&gate->opening, 200); // the mirror is right, the nonce is not there
    atomic_store(&gate->mirror_fd, (uint64_t)local_link_of(the_link)->own_keys.fd);
    atomic_store(&gate->nonce, 77);
    assert_false(push());
    assert_int_equal(counters()->pushes_forbidden, 6);
    assert_false(push()); // and is not asked again
    assert_int_equal(counters()->pushes_forbidden, 6);
}

// All is as it should be, but that it could be cut off under who reads it.
static void keys_that_are_not_sealed_are_not_read(void **state)
{
    int unsealed = memfd_create("unsealed", MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(unsealed, sizeof(struct key_mirror)), 0);
    assert_int_equal(pwrite(unsealed, mirror, sizeof *mirror, 0), sizeof *mirror);
    struct local_stream *s = local_stream_of(l.passive);
    admit();
    atomic_store(&local_memory_gate(&s->memory, s->side)->mirror_fd, (uint64_t)unsealed);
    assert_false(push());
    assert_int_equal(counters()->pushes_forbidden, 1);
    close(unsealed);
}

static void who_is_not_to_be_seen_is_not_let_in(void **state)
{
    local_stream_of(l.passive)->process = 0; // as of another PID namespace
    admit();
    assert_false(push());
}

#define PUSH_TEST(test) cmocka_unit_test_setup_teardown(test, begin, end)

/* ---- a child of a fork ----------------------------------------------------------------------- */

// What is left of the parent's, a bit each.
static unsigned left_of(const struct local_link *link)
{
    unsigned left = link->in_memory_count != 0;
    for (const struct list_link *at = link->streams.next; at != &link->streams; at = at->next) {
        const struct local_stream *s = LIST_ENTRY(at, const struct local_stream, link);
        left |= (unsigned)(s->memory.base != NULL) << 1;
        left |= (unsigned)(s->path != LOCAL_PATH_TCP || s->lets_in) << 2;
        left |= (unsigned)(s->door.fd >= 0) << 3;
        left |= (unsigned)!list_is_empty(&s->admitted_link) << 4;
        left |= (unsigned)!list_is_empty(&s->awake_link) << 5;
    }
    for (const struct list_link *at = link->peers.next; at != &link->peers; at = at->next) {
        left |= (unsigned)(LIST_ENTRY(at, const struct local_peer_keys, link)->shown != NULL) << 6;
    }
    return left | (unsigned)(link->own_keys.fd >= 0 || link->own_keys.shown != NULL) << 7;
}

// The memory is not the child's: whoever looks at it there is killed.
static void the_child_of_a_fork_has_nothing_of_its_parents_memory(void **state)
{
    int status;
    admit();
    assert_true(push());
    assert_int_not_equal(left_of(local_link_of(the_link)), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        link_abandon(the_link);
        _exit((int)(left_of(local_link_of(the_link)) | (descriptors_more() > 0)));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(push());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PUSH_TEST(octets_come_while_everybody_sleeps),
        PUSH_TEST(nothing_is_pushed_before_the_peer_lets_in_or_after),
        PUSH_TEST(a_stream_that_is_closed_lets_nobody_in),
        PUSH_TEST(what_is_on_the_stream_comes_first),
        PUSH_TEST(writes_that_follow_each_other_go_by_the_stream),
        PUSH_TEST(writes_that_are_answered_follow_nothing),
        PUSH_TEST(what_the_key_does_not_allow_goes_by_the_stream),
        PUSH_TEST(a_key_that_was_taken_back_is_worth_nothing),
        PUSH_TEST(a_key_that_is_taken_back_before_the_octets_go_lets_nobody_in),
        PUSH_TEST(a_stream_that_is_closed_meanwhile_keeps_its_memory),
        PUSH_TEST(keys_that_are_looked_at_are_not_forgotten),
        PUSH_TEST(who_asks_whether_it_could_begins_nothing),
        PUSH_TEST(a_peer_that_lingers_is_waited_for_and_counted),
        PUSH_TEST(a_peer_that_does_not_come_out_is_a_leaver),
        PUSH_TEST(a_process_with_a_leaver_is_not_let_in),
        PUSH_TEST(long_writes_go_by_the_stream),
        PUSH_TEST(memory_that_is_unmapped_goes_by_the_stream),
        PUSH_TEST(a_gate_that_lies_is_not_believed),
        PUSH_TEST(keys_that_are_not_sealed_are_not_read),
        PUSH_TEST(who_is_not_to_be_seen_is_not_let_in),
        PUSH_TEST(the_child_of_a_fork_has_nothing_of_its_parents_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
