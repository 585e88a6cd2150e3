// Which posts wait for company, and who sends them: the rule alone, and devices whose system calls
// are counted.
#include <string.h>

#include "host/clock.h"
#include "link/local/local.h"
#include "link/socket.h"
#include "rnic/gathering.h"
#include "rnic/post.h"
#include "tests/rnic/device.h"

/* ---- the rule -------------------------------------------------------------------------------- */

struct rule {
    struct gathering g;
    struct gathering_queue queue;
    instant_ns now;
};

static void rule_init(struct rule *r)
{
    *r = (struct rule){.now = NS_PER_S};
    gathering_init(&r->g);
}

// A post, `gap_ns` behind the last. Did it wait?
static bool post(struct rule *r, duration_ns gap_ns)
{
    r->now += gap_ns;
    const bool waits =
        !gathering_begins(&r->g, &r->queue) && gathering_may_wait(&r->g, &r->queue, r->now);
    if (waits) {
        gathering_note_waiting(&r->g, r->now);
        return true;
    }
    gathering_on_served(&r->g);
    if (gathering_is_timed(&r->g)) {
        gathering_note_sent(&r->g, r->now);
    }
    return false;
}

static void look(struct rule *r, duration_ns gap_ns)
{
    r->now += gap_ns;
    gathering_on_look(&r->g, r->now);
    gathering_on_served(&r->g);
}

// Posts until one waits. How many did not?
static unsigned count_until_one_waits(struct rule *r, duration_ns gap_ns)
{
    unsigned count = 0;
    while (count < 2 * GATHERING_TRUST_MAX && !post(r, gap_ns)) {
        count++;
    }
    return count;
}

// In a round in which posts of the queue pair wait.
static void rule_init_trusted(struct rule *r)
{
    rule_init(r);
    count_until_one_waits(r, NS_PER_US);
    look(r, NS_PER_US);
    assert_false(post(r, NS_PER_US));
}

static void posts_wait_once_the_program_came_back_soon_often_enough(void **state)
{
    struct rule r;
    rule_init(&r);
    // Two posts have nothing before them that was timed.
    assert_int_equal(count_until_one_waits(&r, NS_PER_US), GATHERING_TRUST_MIN + 1);
}

static void who_comes_back_late_never_waits(void **state)
{
    struct rule r;
    rule_init(&r);
    for (unsigned i = 0; i < 4 * GATHERING_TRUST_MIN; i++) {
        assert_false(post(&r, GATHERING_SOON_NS + 1));
    }
}

static void the_first_post_behind_a_look_leaves_at_once(void **state)
{
    struct rule r;
    rule_init_trusted(&r);
    assert_true(post(&r, NS_PER_US));
    look(&r, NS_PER_US);
    assert_false(post(&r, NS_PER_US));
    assert_true(post(&r, NS_PER_US));
}

static void the_first_post_of_another_queue_pair_leaves_at_once(void **state)
{
    struct rule r;
    struct gathering_queue other = {0};
    rule_init_trusted(&r);
    assert_false(gathering_may_wait(&r.g, &other, r.now));
    assert_true(gathering_may_wait(&r.g, &other, r.now));
}

// A round trip asks for no time.
static void one_post_between_looks_is_not_timed(void **state)
{
    struct rule r;
    rule_init_trusted(&r);
    look(&r, NS_PER_US);
    post(&r, NS_PER_US);
    assert_false(gathering_is_timed(&r.g));
    look(&r, 10 * GATHERING_SOON_NS); // and so nobody was late
    post(&r, NS_PER_US);
    assert_true(post(&r, NS_PER_US));
}

static void so_many_that_wait_leave_with_the_next(void **state)
{
    struct rule r;
    rule_init_trusted(&r);
    for (unsigned i = 0; i < GATHERING_COUNT_MAX; i++) {
        assert_true(post(&r, 1));
    }
    assert_false(post(&r, 1));
    assert_true(post(&r, 1));
}

static void what_has_waited_long_enough_leaves_with_the_next(void **state)
{
    struct rule r;
    rule_init_trusted(&r);
    const instant_ns since_ns = r.now + 3 * NS_PER_US;
    while (r.now + 3 * NS_PER_US <= since_ns + GATHERING_WAIT_MAX_NS) {
        assert_true(post(&r, 3 * NS_PER_US));
    }
    assert_false(post(&r, 3 * NS_PER_US));
}

static void who_stays_away_while_posts_wait_is_trusted_later(void **state)
{
    struct rule r;
    rule_init_trusted(&r);
    assert_true(post(&r, NS_PER_US));
    look(&r, GATHERING_SOON_NS + 1);
    assert_int_equal(count_until_one_waits(&r, NS_PER_US), 2 * GATHERING_TRUST_MIN + 1);
}

static void what_the_thread_finds_makes_trust_come_later(void **state)
{
    struct rule r;
    rule_init_trusted(&r);
    assert_true(post(&r, NS_PER_US));
    gathering_on_found(&r.g, r.now + GATHERING_AWAY_NS); // the program may be just behind
    assert_true(post(&r, NS_PER_US));
    gathering_on_found(&r.g, r.now + GATHERING_AWAY_NS + 1);
    assert_int_equal(count_until_one_waits(&r, NS_PER_US), 2 * GATHERING_TRUST_MIN - 1);
}

static void who_comes_back_soon_again_is_forgiven(void **state)
{
    struct rule r;
    rule_init_trusted(&r);
    assert_true(post(&r, NS_PER_US));
    look(&r, GATHERING_SOON_NS + 1);
    for (unsigned i = 0; i < GATHERING_FORGIVEN; i++) {
        post(&r, NS_PER_US);
        post(&r, NS_PER_US);
        look(&r, NS_PER_US);
    }
    post(&r, NS_PER_US);
    gathering_on_served(&r.g);
    post(&r, NS_PER_US);
    gathering_on_served(&r.g);
    look(&r, GATHERING_SOON_NS + 1);
    assert_int_equal(count_until_one_waits(&r, NS_PER_US), GATHERING_TRUST_MIN + 1);
}

static void the_thread_stays_within_reach_while_posts_may_wait(void **state)
{
    struct rule r;
    rule_init(&r);
    post(&r, NS_PER_US);
    assert_false(gathering_is_likely(&r.g, r.now));
    count_until_one_waits(&r, NS_PER_US);
    assert_true(gathering_is_likely(&r.g, r.now + GATHERING_IDLE_NS));
    assert_false(gathering_is_likely(&r.g, r.now + GATHERING_IDLE_NS + 1));
}

/* ---- devices --------------------------------------------------------------------------------- */

static const struct link_ops *uncounted_ops;
static atomic_uint send_count;

static ssize_t counting_send(struct link_stream *stream, const struct link_tx *tx)
{
    atomic_fetch_add(&send_count, 1);
    return uncounted_ops->send(stream, tx);
}

// However slow the machine, or the build, the program comes back soon unless the time is put on.
static _Atomic duration_ns put_on_ns;

static instant_ns slow_clock(void *ctx)
{
    return host_clock(NULL) / 256 + atomic_load(&put_on_ns);
}

struct stage {
    struct device active_device, passive_device;
    struct end active, passive, listener;
    struct link_ops counted;
    unsigned written; // octets of the passive end's buffer, in turn
};

static struct link *link_of(bool is_in_memory)
{
    const struct link_socket_config socket_config = {0};
    const struct link_local_config local_config = {.ring_len = LINK_LOCAL_RING_LEN,
                                                   .clock = host_clock};
    struct link *link;
    assert_int_equal(link_socket_create(&socket_config, &link), 0);
    if (is_in_memory) {
        assert_int_equal(link_local_wrap(link, &local_config, &link), 0);
    }
    return link;
}

static void stage_open_over(struct stage *s, bool is_in_memory)
{
    const struct rnic_config config = device_config();
    struct sockaddr_in addr;
    struct link *link = link_of(is_in_memory);
    uncounted_ops = link->ops;
    s->counted = *link->ops;
    s->counted.send = counting_send;
    link->ops = &s->counted;
    const struct rnic_parts parts = {.config = config, .clock = slow_clock, .link = link};
    device_open_parts(&s->active_device, &parts);
    device_open_over(&s->passive_device, &config, link_of(is_in_memory), NULL);
    end_listen(&s->listener, &s->passive_device, &addr);
    end_init(&s->active, &s->active_device);
    end_init(&s->passive, &s->passive_device);
    ends_connect(&s->active, &s->passive, &s->listener, &addr);
    s->written = 0;
}

static void stage_open(struct stage *s)
{
    stage_open_over(s, false);
}

static void stage_close(struct stage *s)
{
    end_fini(&s->active);
    end_fini(&s->passive);
    end_fini(&s->listener);
    device_close(&s->active_device);
    device_close(&s->passive_device);
}

enum { BURST = 32 };

static void post_writes(struct stage *s, uint32_t len)
{
    for (unsigned i = 0; i < BURST; i++) {
        end_post_send(&s->active, WQE_RDMA_WRITE, 0, len, &s->passive_device, i);
    }
}

// Writes of an octet each, and the last of them with its number: no look between.
static void post_burst(struct stage *s, uint8_t number)
{
    s->active_device.buf[0] = number;
    post_writes(s, 1);
}

static void take_completions(struct stage *s)
{
    for (unsigned i = 0; i < BURST; i++) {
        device_poll(&s->active_device);
    }
}

// Bursts with looks behind them, until one left in a quarter of the system calls.
static void gather_once(struct stage *s)
{
    const instant_ns deadline_ns = host_clock(NULL) + DEVICE_PATIENCE_NS;
    unsigned before;
    do {
        assert_true(host_clock(NULL) < deadline_ns);
        before = atomic_load(&send_count);
        post_burst(s, 1);
        take_completions(s);
    } while (atomic_load(&send_count) - before > BURST / 4);
}

static bool arrives(struct stage *s, uint8_t number)
{
    const uint8_t *last = s->passive_device.buf + BURST - 1;
    const instant_ns deadline_ns = host_clock(NULL) + DEVICE_PATIENCE_NS;
    while (__atomic_load_n(last, __ATOMIC_ACQUIRE) != number) {
        if (host_clock(NULL) > deadline_ns) {
            return false;
        }
    }
    return true;
}

static void bursts_leave_in_few_system_calls(void **state)
{
    struct stage s;
    stage_open(&s);
    gather_once(&s);
    stage_close(&s);
}

static void short_ones_into_memory_of_both_gather_too(void **state)
{
    struct stage s;
    stage_open_over(&s, true);
    gather_once(&s);
    stage_close(&s);
}

// They cost as much to copy as they would save: the peer copies out beside us. A thread that is
// awake may take some together all the same, so not each round shows it.
static void long_ones_into_memory_of_both_leave_at_once(void **state)
{
    enum { LONG_LEN = 8192, ROUNDS = 60, ENOUGH = 3 };
    struct stage s;
    unsigned left_at_once = 0;
    stage_open_over(&s, true);
    for (unsigned round = 0; round < ROUNDS && left_at_once < ENOUGH; round++) {
        gather_once(&s);
        post_writes(&s, LONG_LEN); // which may wait, behind short ones
        take_completions(&s);
        const unsigned before = atomic_load(&send_count);
        post_writes(&s, LONG_LEN);
        left_at_once += atomic_load(&send_count) - before > BURST / 2;
        take_completions(&s);
    }
    assert_int_equal(left_at_once, ENOUGH);
    stage_close(&s);
}

// Sends that come before their receives, and then the receives, one behind the other. True: some
// of those waited for the next look.
static bool receives_wait(struct stage *s)
{
    enum { SENDS = 8 };
    struct cqe cqe;
    const uint64_t stored = device_count(&s->active_device, "rnr_stored");
    for (unsigned i = 0; i < SENDS; i++) {
        end_post_send(&s->passive, WQE_SEND, 0, 1, &s->active_device, 0);
    }
    assert_true(device_waits_for_count(&s->active_device, "rnr_stored", stored + SENDS));
    assert_int_equal(rnic_cq_poll(s->active_device.cq, &cqe, 1), 0);
    for (unsigned i = 0; i < SENDS; i++) {
        end_post_recv(&s->active, i, i, 1);
    }
    const bool have_waited = gathering_has_waiting(&s->active_device.rnic->shard.gathering);
    for (unsigned i = 0; i < SENDS; i++) {
        device_poll(&s->active_device);
        device_poll(&s->passive_device);
    }
    return have_waited;
}

static void receives_wait_for_company_too(void **state)
{
    struct stage s;
    stage_open(&s);
    const instant_ns deadline_ns = host_clock(NULL) + DEVICE_PATIENCE_NS;
    do {
        assert_true(host_clock(NULL) < deadline_ns);
        gather_once(&s);
    } while (!receives_wait(&s));
    stage_close(&s);
}

static void what_waits_leaves_though_the_program_does_not_look(void **state)
{
    struct stage s;
    stage_open(&s);
    for (uint8_t number = 2; number < 30; number++) {
        gather_once(&s);
        post_burst(&s, number);
        assert_true(arrives(&s, number));
        take_completions(&s);
    }
    stage_close(&s);
}

// Which the thread finds in most rounds: it may also come before the time is put on, and beside
// others it mostly does.
static void a_program_that_does_not_look_is_trusted_later(void **state)
{
    enum { ROUNDS = 250, ENOUGH = 10 };
    struct stage s;
    stage_open(&s);
    const atomic_uint *trusted_from = &s.active_device.rnic->shard.gathering.trusted_from;
    unsigned doubled = 0;
    for (uint8_t number = 1; number <= ROUNDS && doubled < ENOUGH; number++) {
        gather_once(&s);
        const unsigned before = atomic_load(trusted_from);
        post_burst(&s, number + 1);
        atomic_fetch_add(&put_on_ns, 2 * GATHERING_AWAY_NS);
        assert_true(arrives(&s, number + 1));
        doubled += atomic_load(trusted_from) > before;
        take_completions(&s);
    }
    assert_int_equal(doubled, ENOUGH);
    stage_close(&s);
}

// The memory of what waits is still there when it is sent.
static void what_waits_leaves_before_another_call(void **state)
{
    struct stage s;
    stage_open(&s);
    for (unsigned round = 0; round < 20; round++) {
        gather_once(&s);
        post_burst(&s, 1);
        assert_int_equal(rnic_region_deregister(s.active_device.rnic, s.active_device.stag), 0);
        for (unsigned i = 0; i < BURST; i++) {
            assert_int_equal(device_poll(&s.active_device).status, 0);
        }
        device_register(&s.active_device);
    }
    stage_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(posts_wait_once_the_program_came_back_soon_often_enough),
        cmocka_unit_test(who_comes_back_late_never_waits),
        cmocka_unit_test(the_first_post_behind_a_look_leaves_at_once),
        cmocka_unit_test(the_first_post_of_another_queue_pair_leaves_at_once),
        cmocka_unit_test(one_post_between_looks_is_not_timed),
        cmocka_unit_test(so_many_that_wait_leave_with_the_next),
        cmocka_unit_test(what_has_waited_long_enough_leaves_with_the_next),
        cmocka_unit_test(who_stays_away_while_posts_wait_is_trusted_later),
        cmocka_unit_test(what_the_thread_finds_makes_trust_come_later),
        cmocka_unit_test(who_comes_back_soon_again_is_forgiven),
        cmocka_unit_test(the_thread_stays_within_reach_while_posts_may_wait),
        cmocka_unit_test(bursts_leave_in_few_system_calls),
        cmocka_unit_test(short_ones_into_memory_of_both_gather_too),
        cmocka_unit_test(long_ones_into_memory_of_both_leave_at_once),
        cmocka_unit_test(receives_wait_for_company_too),
        cmocka_unit_test(what_waits_leaves_though_the_program_does_not_look),
        cmocka_unit_test(a_program_that_does_not_look_is_trusted_later),
        cmocka_unit_test(what_waits_leaves_before_another_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
