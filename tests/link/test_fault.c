#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "link/device/fault.h"
#include "link/packet/cut.h"

/* ---- what is said ---------------------------------------------------------------------------- */

static void faults_are_read_as_they_are_written(void **state)
{
    struct fault_config c;
    assert_true(fault_config_parse("loss=1%,burst=3,reorder=0.5%,duplicate=2%,corrupt=0.01%,"
                                   "delay=10ms,jitter=200us,reorder-delay=1s,seed=7,side=both",
                                   &c));
    assert_int_equal(c.loss, 10000);
    assert_int_equal(c.burst, 3);
    assert_int_equal(c.reorder, 5000);
    assert_int_equal(c.duplicate, 20000);
    assert_int_equal(c.corrupt, 100);
    assert_int_equal(c.delay_ns, 10 * NS_PER_MS);
    assert_int_equal(c.jitter_ns, 200 * NS_PER_US);
    assert_int_equal(c.reorder_ns, NS_PER_S);
    assert_int_equal(c.seed, 7);
    assert_int_equal(c.sides, FAULT_SIDE_OUT | FAULT_SIDE_IN);
    assert_false(fault_config_is_none(&c));
    assert_true(fault_config_parse("", &c));
    assert_true(fault_config_is_none(&c));
    assert_int_equal(c.sides, FAULT_SIDE_OUT);
    assert_int_equal(c.burst, 1);
    assert_int_equal(c.seed, 1);
    assert_true(fault_config_parse("burst=1000,side=in", &c));
    assert_int_equal(c.burst, 1000);
    assert_int_equal(c.sides, FAULT_SIDE_IN);
}

static void an_item_has_less_than_64_characters(void **state)
{
    struct fault_config c;
    char text[70];
    for (unsigned len = 63; len < 65; len++) {
        memset(text, '0', len);
        memcpy(text, "loss=", 5);
        memcpy(text + len - 2, "7%", 3);
        assert_int_equal(fault_config_parse(text, &c), len == 63);
    }
}

static void what_cannot_be_understood_is_refused(void **state)
{
    static const char *const wrong[] = {
        "loss",     "loss=",     "loss=1",    "loss=101%",  "loss=-1%",   "loss=nan%",
        "bogus=1%", "delay=5",   "delay=1m",  "seed=x",     "seed=-1",    "burst=0",
        "side=up",  "loss=1%,x", "delay=-1s", "delay=9e9s", "burst=1001",
    };
    struct fault_config c;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_false(fault_config_parse(wrong[i], &c));
    }
}

/* ---- what is drawn --------------------------------------------------------------------------- */

enum { DRAWS = 100000 };

static struct fault_model model_of(const char *text)
{
    struct fault_config c;
    struct fault_model m;
    assert_true(fault_config_parse(text, &c));
    fault_model_init(&m, &c);
    return m;
}

static void shares_are_what_was_asked_for(void **state)
{
    struct fault_model m = model_of("loss=5%,reorder=10%,duplicate=2%");
    for (unsigned i = 0; i < DRAWS; i++) {
        fault_model_draw(&m, i);
    }
    assert_in_range(m.counters.lost, DRAWS * 47 / 1000, DRAWS * 53 / 1000);
    assert_in_range(m.counters.reordered, DRAWS * 90 / 1000, DRAWS * 102 / 1000);
    assert_in_range(m.counters.duplicated, DRAWS * 17 / 1000, DRAWS * 21 / 1000);
}

static void bursts_have_their_length_and_keep_the_share(void **state)
{
    struct fault_model m = model_of("loss=5%,burst=4");
    unsigned bursts = 0;
    bool was_lost = false;
    for (unsigned i = 0; i < DRAWS; i++) {
        bool is_lost = fault_model_draw(&m, 0).count == 0;
        bursts += is_lost && !was_lost;
        was_lost = is_lost;
    }
    assert_in_range(m.counters.lost, DRAWS * 45 / 1000, DRAWS * 55 / 1000);
    assert_in_range(m.counters.lost * 10 / bursts, 38, 47);
}

static void burst_does_not_outlast_a_pause(void **state)
{
    struct fault_model m = model_of("loss=1%,burst=1000");
    instant_ns now = 0;
    while (fault_model_draw(&m, now).count > 0) {
    }
    assert_int_equal(fault_model_draw(&m, now).count, 0);
    now += NS_PER_S;
    assert_int_equal(fault_model_draw(&m, now).count, 1);
}

static void everything_may_be_lost(void **state)
{
    struct fault_model m = model_of("loss=100%");
    for (unsigned i = 0; i < 1000; i++) {
        assert_int_equal(fault_model_draw(&m, i * NS_PER_S).count, 0);
    }
}

static void delays_vary_upwards_from_what_was_asked_for(void **state)
{
    struct fault_model m = model_of("delay=10ms,jitter=2ms");
    duration_ns least = INSTANT_NEVER, most = 0;
    for (unsigned i = 0; i < DRAWS; i++) {
        struct fault_fate fate = fault_model_draw(&m, i);
        assert_int_equal(fate.count, 1);
        least = fate.delay_ns[0] < least ? fate.delay_ns[0] : least;
        most = fate.delay_ns[0] > most ? fate.delay_ns[0] : most;
    }
    assert_in_range(least, 10 * NS_PER_MS, 10 * NS_PER_MS + NS_PER_MS / 10);
    assert_in_range(most, 12 * NS_PER_MS - NS_PER_MS / 10, 12 * NS_PER_MS);
}

static void what_is_reordered_is_later_by_a_part_of_its_delay(void **state)
{
    struct fault_model m = model_of("delay=10ms,reorder=100%,reorder-delay=1s,duplicate=100%");
    for (unsigned i = 0; i < 1000; i++) {
        struct fault_fate fate = fault_model_draw(&m, i);
        assert_int_equal(fate.count, 2); // each by itself
        for (unsigned k = 0; k < 2; k++) {
            assert_in_range(fate.delay_ns[k], 10 * NS_PER_MS + 1, NS_PER_S + 10 * NS_PER_MS + 1);
        }
        assert_int_not_equal(fate.delay_ns[0], fate.delay_ns[1]);
    }
    assert_int_equal(m.counters.reordered, 2000);
}

// Bounds are reached: a part of nothing is nothing, of one is 0 or 1, and late is later by 1.
static void the_shortest_parts_are_drawn_too(void **state)
{
    struct fault_model m = model_of("");
    unsigned seen[2] = {0};
    m.config.delay_ns = 7;
    m.config.jitter_ns = 1;
    for (unsigned i = 0; i < 100; i++) {
        const duration_ns delay_ns = fault_model_draw(&m, i).delay_ns[0];
        assert_in_range(delay_ns, 7, 8);
        seen[delay_ns - 7]++;
    }
    assert_true(seen[0] > 0 && seen[1] > 0);
    m.config.jitter_ns = m.config.reorder_ns = 0;
    assert_int_equal(fault_model_draw(&m, 0).delay_ns[0], 7);
    m.config.reorder = FAULT_ONE;
    assert_int_equal(fault_model_draw(&m, 0).delay_ns[0], 8);
    assert_int_equal(m.counters.packets, 102);
}

static void a_burst_goes_on_within_10_ms_of_its_beginning(void **state)
{
    struct fault_model m = model_of("loss=1%,burst=1000");
    instant_ns now = 100 * NS_PER_S;
    while (fault_model_draw(&m, now += NS_PER_S).count > 0) {
    }
    m.config.loss = 0; // no other begins
    m.config.burst = FAULT_ONE;
    assert_int_equal(fault_model_draw(&m, now + 10 * NS_PER_MS).count, 0);
    assert_int_equal(fault_model_draw(&m, now + 10 * NS_PER_MS + 1).count, 1);
}

static void any_bit_of_a_packet_may_change_and_only_one(void **state)
{
    struct fault_model m = model_of("corrupt=100%");
    unsigned bits = 0;
    for (unsigned i = 0; i < 200; i++) {
        uint8_t octets[2] = {0};
        fault_model_corrupt(&m, mspan_of(octets, sizeof octets));
        const unsigned changed = octets[0] | (unsigned)octets[1] << 8;
        assert_true(changed != 0 && (changed & (changed - 1)) == 0);
        bits |= changed;
    }
    assert_int_equal(bits, 0xffff);
    fault_model_corrupt(&m, mspan_of(NULL, 0));
    assert_int_equal(m.counters.corrupted, 200);
}

/* ---- the device ------------------------------------------------------------------------------ */

// The inner device: it notes what is sent, and gives what a test lets arrive.
static struct device inner;
static unsigned sent_count;
static uint32_t sent_seq[16];
static bool has_room;
static unsigned waiting_count; // segments that it will hand up

static unsigned inner_send(struct device *d, struct channel *channel, const struct net_flow *flow,
                           const struct net_segments *segments, instant_ns now)
{
    if (!has_room) {
        return 0;
    }
    assert_true(sent_count < 16);
    assert_int_equal(segments->count, 1);
    assert_ptr_equal(segments->transport, &packet_transport);
    assert_int_equal(segments->ecn, IP_ECN_ECT_0);
    uint8_t *header = net_segment_header(segments->at).ptr;
    uint32_t seq = get_be32(header + TCP_OFF_SEQ);
    assert_int_equal(segments->at->len, TCP_HEADER_LEN + 1);
    assert_int_equal(segments->at->iov_count, 2);
    assert_memory_equal(segments->at->iov[1].iov_base, &"payload"[seq], 1);
    memset(header - NET_HEADROOM, 0xff, NET_HEADROOM);
    sent_seq[sent_count++] = seq;
    return 1;
}

static bool inner_poll(struct device *d, instant_ns now)
{
    return waiting_count > 0;
}

static instant_ns inner_next_deadline(struct device *d)
{
    return INSTANT_NEVER;
}

static void inner_close(struct device *d, struct channel *channel)
{
}

static void inner_destroy(struct device *d)
{
}

static struct fault_model *corrupting; // what was asked for

static void inner_corrupt(struct device *d, struct fault_model *model)
{
    corrupting = model;
}

static struct channel channel;
static const struct net_flow flow = {.local_port = 1, .remote_port = 2};

static bool inner_next(struct device *d, instant_ns now, struct device_event *ret)
{
    *ret = (struct device_event){.kind = DEVICE_EVENT_SEGMENT,
                                 .channel = &channel,
                                 .flow = flow,
                                 .octets = span_of("x", 1),
                                 .ecn = IP_ECN_CE};
    return waiting_count > 0 && waiting_count--;
}

// How many segments come up.
static unsigned take(struct device *d, instant_ns now)
{
    struct device_event e;
    unsigned count = 0;
    while (device_next(d, now, &e)) {
        assert_int_equal(e.kind, DEVICE_EVENT_SEGMENT);
        assert_ptr_equal(e.channel, &channel);
        assert_int_equal(e.flow.remote_port, 2);
        assert_memory_equal(e.octets.ptr, "x", 1);
        assert_int_equal(e.ecn, IP_ECN_CE);
        count++;
    }
    return count;
}

static unsigned look(struct device *d, instant_ns now)
{
    return device_poll(d, now) ? take(d, now) : 0;
}

static struct device *make(const char *text)
{
    static const struct device_ops ops = {
        .send = inner_send,
        .poll = inner_poll,
        .next = inner_next,
        .corrupt = inner_corrupt,
        .next_deadline = inner_next_deadline,
        .close = inner_close,
        .destroy = inner_destroy,
    };
    struct fault_config c;
    struct device *d;
    assert_true(fault_config_parse(text, &c));
    inner = (struct device){.ops = &ops};
    has_room = true;
    sent_count = waiting_count = 0;
    corrupting = NULL;
    assert_int_equal(device_fault_wrap(&inner, &c, &d), 0);
    return d;
}

// Seven segments of one octet each.
static unsigned send_seven(struct device *d, instant_ns now)
{
    struct iovec iov = {(void *)"payload", 7};
    struct tcp_batch batch = {.ecn = IP_ECN_ECT_0,
                              .segment_count = 7,
                              .segment_len = 1,
                              .payload_len = 7,
                              .iov = &iov,
                              .iov_count = 1};
    static struct packet_cut cut;
    const struct net_segments *segments = packet_cut(&cut, &batch, d->takes_runs);
    return d->ops->send(d, &channel, &flow, segments, now);
}

static void segments_pass_where_nothing_is_wrong(void **state)
{
    struct device *d = make("");
    assert_int_equal(send_seven(d, 0), 7);
    assert_int_equal(sent_count, 7);
    for (unsigned i = 0; i < 7; i++) {
        assert_int_equal(sent_seq[i], i);
    }
    d->ops->destroy(d);
}

static void runs_stay_whole_only_where_nothing_happens_to_what_is_sent(void **state)
{
    struct fault_config c;
    struct device *of_in, *of_both, *d = make("");
    struct device cutting = {.ops = inner.ops, .takes_runs = true};
    assert_true(fault_config_parse("loss=1%,side=in", &c));
    assert_int_equal(device_fault_wrap(&cutting, &c, &of_in), 0);
    assert_true(fault_config_parse("loss=1%,side=both", &c));
    assert_int_equal(device_fault_wrap(&cutting, &c, &of_both), 0);
    assert_true(of_in->takes_runs);
    assert_false(of_both->takes_runs);
    d->ops->destroy(d);
    of_in->ops->destroy(of_in);
    of_both->ops->destroy(of_both);
}

static void lost_segments_count_as_sent(void **state)
{
    struct device *d = make("loss=100%");
    assert_int_equal(send_seven(d, 0), 7);
    assert_int_equal(sent_count, 0);
    assert_int_equal(device_fault_counters(d)->lost, 7);
    d->ops->destroy(d);
}

static void duplicates_are_sent_twice(void **state)
{
    struct device *d = make("duplicate=100%");
    assert_int_equal(send_seven(d, 0), 7);
    assert_int_equal(sent_count, 14);
    d->ops->destroy(d);
}

static void delayed_segments_leave_in_their_order_when_it_is_time(void **state)
{
    struct device *d = make("delay=1ms");
    assert_int_equal(send_seven(d, 5), 7);
    assert_int_equal(sent_count, 0);
    assert_int_equal(d->ops->next_deadline(d), 5 + NS_PER_MS);
    look(d, 4 + NS_PER_MS);
    assert_int_equal(sent_count, 0);
    look(d, 5 + NS_PER_MS);
    assert_int_equal(sent_count, 7);
    for (unsigned i = 0; i < 7; i++) {
        assert_int_equal(sent_seq[i], i);
    }
    assert_int_equal(d->ops->next_deadline(d), INSTANT_NEVER);
    d->ops->destroy(d);
}

static void late_segments_are_overtaken(void **state)
{
    struct device *d = make("reorder=50%,seed=4");
    assert_int_equal(send_seven(d, 0), 7);
    unsigned at_once = sent_count;
    assert_true(at_once > 0 && at_once < 7);
    look(d, NS_PER_S);
    assert_int_equal(sent_count, 7);
    d->ops->destroy(d);
}

static void full_device_is_told_from_a_bad_path(void **state)
{
    struct device *d = make("duplicate=1%");
    has_room = false;
    assert_int_equal(send_seven(d, 0), 0);
    d->ops->destroy(d);
}

static void what_waits_goes_with_its_channel(void **state)
{
    struct device *d = make("delay=1ms");
    send_seven(d, 0);
    d->ops->close(d, &channel);
    look(d, NS_PER_S);
    assert_int_equal(sent_count, 0);
    d->ops->destroy(d);
}

static void side_says_whose_path_is_bad(void **state)
{
    static const struct {
        const char *text;
        unsigned sent, arrived;
    } cases[] = {{"loss=100%,side=out", 0, 1}, {"loss=100%,side=both", 0, 0}};
    for (unsigned i = 0; i < 2; i++) {
        struct device *d = make(cases[i].text);
        send_seven(d, 0);
        waiting_count = 1;
        assert_int_equal(look(d, 0), cases[i].arrived);
        assert_int_equal(sent_count, cases[i].sent);
        d->ops->destroy(d);
    }
}

static void arriving_segments_are_held_up_too(void **state)
{
    struct device *d = make("delay=1ms,side=in");
    waiting_count = 2;
    assert_int_equal(look(d, 10), 0);
    assert_int_equal(look(d, 9 + NS_PER_MS), 0);
    assert_int_equal(look(d, 10 + NS_PER_MS), 2);
    d->ops->destroy(d);
}

static void arriving_segments_come_twice(void **state)
{
    struct device *d = make("duplicate=100%,side=in");
    waiting_count = 3;
    assert_int_equal(look(d, 0), 6);
    assert_int_equal(look(d, 0), 0);
    d->ops->destroy(d);
}

static void second_copy_goes_with_its_channel(void **state)
{
    struct device *d = make("duplicate=100%,side=in");
    struct device_event e;
    waiting_count = 1;
    assert_true(device_next(d, 0, &e));
    device_close(d, &channel);
    assert_false(device_next(d, 0, &e));
    d->ops->destroy(d);
}

static void one_bit_of_what_arrives_changes(void **state)
{
    struct device *d = make("corrupt=100%");
    uint8_t octets[64] = {0};
    unsigned bits = 0;
    assert_non_null(corrupting);
    fault_model_corrupt(corrupting, mspan_of(octets, sizeof octets));
    for (size_t i = 0; i < sizeof octets; i++) {
        bits += (unsigned)__builtin_popcount(octets[i]);
    }
    assert_int_equal(bits, 1);
    d->ops->destroy(d);
}

static void nothing_is_changed_where_nobody_asked_for_it(void **state)
{
    struct device *d = make("loss=1%");
    assert_null(corrupting);
    d->ops->destroy(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faults_are_read_as_they_are_written),
        cmocka_unit_test(what_cannot_be_understood_is_refused),
        cmocka_unit_test(an_item_has_less_than_64_characters),
        cmocka_unit_test(shares_are_what_was_asked_for),
        cmocka_unit_test(bursts_have_their_length_and_keep_the_share),
        cmocka_unit_test(burst_does_not_outlast_a_pause),
        cmocka_unit_test(everything_may_be_lost),
        cmocka_unit_test(delays_vary_upwards_from_what_was_asked_for),
        cmocka_unit_test(what_is_reordered_is_later_by_a_part_of_its_delay),
        cmocka_unit_test(the_shortest_parts_are_drawn_too),
        cmocka_unit_test(a_burst_goes_on_within_10_ms_of_its_beginning),
        cmocka_unit_test(any_bit_of_a_packet_may_change_and_only_one),
        cmocka_unit_test(segments_pass_where_nothing_is_wrong),
        cmocka_unit_test(runs_stay_whole_only_where_nothing_happens_to_what_is_sent),
        cmocka_unit_test(lost_segments_count_as_sent),
        cmocka_unit_test(duplicates_are_sent_twice),
        cmocka_unit_test(delayed_segments_leave_in_their_order_when_it_is_time),
        cmocka_unit_test(late_segments_are_overtaken),
        cmocka_unit_test(full_device_is_told_from_a_bad_path),
        cmocka_unit_test(what_waits_goes_with_its_channel),
        cmocka_unit_test(side_says_whose_path_is_bad),
        cmocka_unit_test(arriving_segments_are_held_up_too),
        cmocka_unit_test(arriving_segments_come_twice),
        cmocka_unit_test(second_copy_goes_with_its_channel),
        cmocka_unit_test(one_bit_of_what_arrives_changes),
        cmocka_unit_test(nothing_is_changed_where_nobody_asked_for_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
