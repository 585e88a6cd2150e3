// Packets between processes of one host through memory, as links of one process show it that have
// a slot each.
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "link/datagram/lane.h"
#include "link/datagram/share.h"
#include "link/datagram/slot.h"
#include "link/datagram/udp.h"
#include "link/local/sealed.h"
#include "tests/link/datagram_contract.h"
#include "tests/link/descriptors.h"
#include "tests/own_port.h"
#include "wire/bth.h"

enum { SHORT_NS = 10 * NS_PER_MS, MANY = 400 };

static struct datagram_udp_config config;
static struct got got[MANY];
static uint8_t payload[4096];
static instant_ns now_ns = NS_PER_S; // of both links

/* ---- two links ------------------------------------------------------------------------------- */

instant_ns pair_now(void)
{
    return now_ns;
}

static instant_ns clock_now(void *ctx)
{
    return now_ns;
}

void pair_turn(unsigned to)
{
    now_ns += 20 * NS_PER_US; // sockets are looked at again
    if ((datagram_poll(pair.link[to], pair_now()) & DATAGRAM_READY_IN) == 0 &&
        datagram_may_wait(pair.link[to])) {
        datagram_wait(pair.link[to], SHORT_NS);
    }
}

static atomic_bool is_open;

static void *serve(void *link)
{
    bool is_last;
    do {
        struct datagram_rx rx;
        is_last = atomic_load(&is_open);
        datagram_wait(link, NS_PER_MS);
        datagram_poll(link, pair_now());
        datagram_receive(link, &rx, 1, pair_now());
    } while (!is_last);
    return NULL;
}

int pair_open_at(unsigned i, const struct in6_addr *local)
{
    pthread_t other;
    atomic_store(&is_open, false);
    assert_int_equal(pthread_create(&other, NULL, serve, pair.link[1 - i]), 0);
    int error = datagram_open(pair.link[i], local, 0);
    atomic_store(&is_open, true);
    pthread_join(other, NULL);
    return error;
}

static void make(unsigned i)
{
    assert_int_equal(datagram_udp_create(&config, &pair.link[i]), 0);
}

static int begin_with(bool is_local_0, bool is_local_1)
{
    config = (struct datagram_udp_config){.port = own_port(), .clock = clock_now};
    for (unsigned i = 0; i < 2; i++) {
        pair.ipv4[i] = ipv4_mapped(INADDR_LOOPBACK);
        pair.ipv6[i] = in6addr_loopback;
        config.is_local = i == 0 ? is_local_0 : is_local_1;
        make(i);
    }
    pair_open();
    return 0;
}

static int begin(void **state)
{
    return begin_with(true, true);
}

static int end(void **state)
{
    datagram_destroy(pair.link[0]);
    datagram_destroy(pair.link[1]);
    return 0;
}

static uint64_t counted(unsigned i, const char *name)
{
    return datagram_counted(pair.link[i], name);
}

static void send_one(uint32_t psn, size_t len)
{
    const struct datagram_path path = pair_path(AF_INET);
    assert_true(pair_put(&path, psn, span_of(payload, len)));
    datagram_flush(pair.link[0]);
}

// Until packets of link[0] go by memory. How many have gone.
static uint32_t go_over(void)
{
    uint32_t psn = 0;
    for (; psn < 100 && counted(0, "local_packets_out") == 0; psn++) {
        send_one(psn, 8);
        assert_int_equal(pair_take(1, got, 1), 1);
    }
    assert_int_equal(counted(0, "local_packets_out"), 1);
    return psn;
}

// As a thread does that looks and does not wait, while another one does. How many have come.
static unsigned drive(unsigned i)
{
    struct datagram_rx rx[8];
    now_ns += NS_PER_MS;
    datagram_poll(pair.link[i], pair_now());
    return datagram_receive(pair.link[i], rx, 8, pair_now());
}

static void looks(unsigned i)
{
    for (unsigned turn = 0; turn < 100; turn++) {
        drive(i);
    }
}

static void assert_order(uint32_t first, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(pair_psn(&got[i]), first + i);
    }
}

/* ---- which way ------------------------------------------------------------------------------- */

static void packets_go_by_memory_after_some_by_udp(void **state)
{
    const uint32_t psn = go_over();
    assert_int_equal(counted(0, "local_lanes_made"), 1);
    assert_int_equal(counted(1, "local_lanes_taken"), 1);
    const uint64_t by_udp = counted(0, "packets_out");
    assert_in_range(by_udp, 8, psn);
    for (unsigned i = 0; i < 100; i++) {
        send_one(psn + i, 1024);
    }
    assert_int_equal(pair_take(1, got, MANY), 100);
    assert_order(psn, 100);
    assert_int_equal(counted(0, "packets_out"), by_udp);
    assert_int_equal(counted(0, "local_packets_out"), 101);
    assert_int_equal(counted(1, "local_packets_in"), 101);
}

static void receiver_sees_the_path_as_by_udp(void **state)
{
    struct datagram_path path = pair_path(AF_INET6);
    struct datagram_rx by_udp;
    send_one(0, 8);
    path.traffic_class = 0x28;
    pair_take(1, got, 1);
    assert_true(pair_put(&path, 1, span_of(payload, 8)));
    datagram_flush(pair.link[0]);
    assert_int_equal(pair_take(1, got, 1), 1);
    by_udp = got[0].rx;
    go_over();
    assert_true(pair_put(&path, 2, span_of(payload, 8)));
    datagram_flush(pair.link[0]);
    assert_int_equal(pair_take(1, got, 1), 1);
    assert_memory_equal(&got[0].rx.local, &by_udp.local, sizeof by_udp.local);
    assert_memory_equal(&got[0].rx.remote, &by_udp.remote, sizeof by_udp.remote);
    assert_int_equal(got[0].rx.traffic_class, by_udp.traffic_class);
    assert_int_equal(got[0].rx.hop_limit, by_udp.hop_limit);
    assert_int_equal(got[0].rx.source_port, by_udp.source_port);
    assert_int_equal(got[0].rx.scope_id, by_udp.scope_id);
    assert_true(got[0].rx.is_checked);
}

// What overtakes others is lost to an unreliable connection. The lane is taken over while packets
// that were sent before lie in the socket.
static void packets_keep_their_order_where_the_way_changes(void **state)
{
    uint32_t psn = 0;
    unsigned taken = 0;
    for (; psn < 12; psn++) {
        send_one(psn, 8);
    }
    for (; taken < 12 && counted(1, "local_lanes_taken") == 0; taken++) {
        assert_int_equal(pair_take(1, &got[taken], 1), 1);
    }
    assert_true(taken < 12);
    for (; psn < 40; psn++) {
        send_one(psn, 8);
    }
    assert_int_equal(counted(0, "local_packets_out"), 28);
    taken += pair_take(1, &got[taken], MANY - taken);
    assert_int_equal(taken, 40);
    assert_order(0, 40);
}

// ... nor what is still to leave by UDP when the first packets are shown in the lane.
static void what_was_put_before_leaves_before(void **state)
{
    const struct datagram_path path = pair_path(AF_INET);
    unsigned taken = 0;
    for (uint32_t psn = 0; psn < 8; psn++) {
        send_one(psn, 8);
    }
    assert_true(pair_put(&path, 8, span_of(payload, 8)));
    while (taken < 8) {
        taken += pair_take(1, &got[taken], 8 - taken);
    }
    looks(1);
    assert_int_equal(counted(1, "local_lanes_taken"), 1);
    for (uint32_t psn = 9; psn < 14; psn++) { // more than is put before it is shown
        assert_true(pair_put(&path, psn, span_of(payload, sizeof payload)));
    }
    assert_true(counted(0, "local_packets_out") > 0);
    taken += pair_take(1, &got[taken], MANY - taken);
    datagram_flush(pair.link[0]);
    taken += pair_take(1, &got[taken], MANY - taken);
    assert_int_equal(taken, 14);
    assert_order(0, 14);
}

static void few_packets_make_no_lane(void **state)
{
    for (uint32_t psn = 0; psn < 7; psn++) {
        send_one(psn, 8);
    }
    assert_int_equal(pair_take(1, got, MANY), 7);
    assert_int_equal(counted(0, "local_lanes_made"), 0);
}

static void assert_udp_alone(void)
{
    for (uint32_t psn = 0; psn < 50; psn++) {
        send_one(psn, 8);
        assert_int_equal(pair_take(1, got, MANY), 1);
        assert_int_equal(pair_psn(&got[0]), psn);
        datagram_poll(pair.link[0], pair_now()); // hears of a lane that was refused
    }
    assert_int_equal(counted(0, "packets_out"), 50);
    assert_int_equal(counted(0, "local_packets_out"), 0);
}

static void who_wants_none_gets_packets_by_udp(void **state)
{
    begin_with(true, false);
    assert_udp_alone();
    assert_int_equal(counted(0, "local_lanes_made"), 1); // and no more for a second
    assert_int_equal(counted(1, "local_lanes_refused"), 1);
    now_ns += 2 * NS_PER_S;
    for (uint32_t psn = 50; psn < 70; psn++) {
        send_one(psn, 8);
        datagram_poll(pair.link[0], pair_now());
    }
    assert_int_equal(counted(0, "local_lanes_made"), 2);
}

static void who_wants_none_makes_none(void **state)
{
    begin_with(false, true);
    assert_udp_alone();
    assert_int_equal(counted(0, "local_lanes_made"), 0);
}

static void where_descriptors_run_out_packets_go_by_udp(void **state)
{
    struct rlimit before, few;
    getrlimit(RLIMIT_NOFILE, &before);
    few = before;
    const int next = dup(0);
    close(next);
    for (unsigned more = 0; more < 3; more++) {
        few.rlim_cur = (rlim_t)next + more;
        setrlimit(RLIMIT_NOFILE, &few);
        now_ns += 2 * NS_PER_S;
        datagram_poll(pair.link[0], pair_now());
        for (uint32_t psn = 0; psn < 8; psn++) {
            send_one(psn, 8);
        }
        setrlimit(RLIMIT_NOFILE, &before);
        assert_int_equal(counted(0, "local_lanes_failed"), more + 1);
        assert_int_equal(dup(0), next); // none is kept
        close(next);
        assert_int_equal(pair_take(1, got, MANY), 8);
    }
    assert_int_equal(counted(0, "local_lanes_made"), 0);
}

/* ---- room ------------------------------------------------------------------------------------ */

static bool has_room(void)
{
    static const struct span piece = {payload, sizeof payload};
    const struct datagram_path path = pair_path(AF_INET);
    uint8_t head[PAIR_HEAD_LEN];
    pair_head(head, 1, 0);
    const struct datagram_tx tx = {
        .path = &path, .head = span_of(head, sizeof head), .pieces = &piece, .piece_count = 1};
    return datagram_has_room(pair.link[0], &tx);
}

static unsigned fill(void)
{
    unsigned count = 0;
    for (; has_room(); count++) {
        send_one(count, sizeof payload);
    }
    return count;
}

static void lane_that_is_full_has_no_room_until_its_reader_takes(void **state)
{
    go_over();
    const unsigned count = fill();
    assert_in_range(count, 200, 260);
    assert_int_equal(pair_take(1, got, MANY), count);
    assert_true(has_room());
    assert_int_equal(counted(0, "local_full"), 0);
}

// Who is stopped is not waited for, and holds up nobody else: the link has room for others.
static void who_takes_nothing_for_long_loses_what_comes(void **state)
{
    datagram_poll(pair.link[0], pair_now());
    go_over();
    fill();
    assert_false(has_room());
    for (unsigned i = 0; i < 300; i++) {
        has_room();
    }
    assert_false(has_room());
    now_ns += NS_PER_S;
    datagram_poll(pair.link[0], pair_now());
    assert_true(has_room());
    send_one(7, sizeof payload);
    assert_int_equal(counted(0, "local_full"), 1);
    datagram_poll(pair.link[0], pair_now());
    assert_true(datagram_flush(pair.link[0]));
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void packet_ends_the_wait_of_who_sleeps(void **state)
{
    const uint32_t psn = go_over();
    datagram_poll(pair.link[1], pair_now());
    assert_true(datagram_may_wait(pair.link[1]));
    send_one(psn, 8);
    assert_int_equal(counted(0, "local_bells"), 1);
    datagram_wait(pair.link[1], INSTANT_NEVER);
    assert_int_equal(pair_take(1, got, MANY), 1);
}

static void nobody_is_to_wait_where_a_packet_has_come(void **state)
{
    const uint32_t psn = go_over();
    send_one(psn, 8);
    assert_false(datagram_may_wait(pair.link[1]));
    assert_int_equal(pair_take(1, got, MANY), 1);
}

// Somebody else may take what ended a wait before who waited comes to it.
static void who_waits_is_woken_by_what_comes_after_another_looked(void **state)
{
    uint32_t psn = go_over();
    datagram_poll(pair.link[1], pair_now());
    assert_true(datagram_may_wait(pair.link[1]));
    send_one(psn++, 8);
    assert_int_equal(drive(1), 1);
    for (unsigned i = 0; i < 64; i++) { // looks at descriptors as well
        drive(1);
    }
    send_one(psn, 8);
    datagram_wait(pair.link[1], INSTANT_NEVER);
    assert_int_equal(pair_take(1, got, MANY), 1);
}

// Nobody has told who makes it that somebody sleeps.
static void who_waits_is_woken_when_another_takes_a_lane_over(void **state)
{
    assert_true(datagram_may_wait(pair.link[1]));
    for (uint32_t psn = 0; psn < 8; psn++) {
        send_one(psn, 8);
    }
    for (unsigned i = 0; i < 64; i++) {
        drive(1);
    }
    assert_int_equal(counted(1, "local_lanes_taken"), 1);
    datagram_wait(pair.link[1], INSTANT_NEVER);
}

enum { ROUNDS = 20000, LONG_S = 30 };

struct answers {
    _Atomic uint32_t taken;
    bool has_overslept; // nothing ended a sleep but its limit
};

static void *answer(void *ctx)
{
    struct answers *a = ctx;
    uint32_t taken = 0;
    while (taken < ROUNDS) {
        struct datagram_rx rx[8];
        if ((datagram_poll(pair.link[1], pair_now()) & DATAGRAM_READY_IN) == 0 &&
            datagram_may_wait(pair.link[1])) {
            const time_t begun = time(NULL);
            datagram_wait(pair.link[1], LONG_S * NS_PER_S);
            a->has_overslept |= time(NULL) - begun >= LONG_S;
        }
        taken += datagram_receive(pair.link[1], rx, 8, pair_now());
        atomic_store(&a->taken, taken);
    }
    return NULL;
}

// Each packet is sent when the one before has been taken, so who takes it is about to sleep.
static void no_wake_up_is_lost(void **state)
{
    static struct answers answers;
    pthread_t other;
    go_over();
    assert_int_equal(pthread_create(&other, NULL, answer, &answers), 0);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        send_one(i, 8);
        while (atomic_load(&answers.taken) <= i) {
            sched_yield(); // there may be one processor for both
        }
    }
    pthread_join(other, NULL);
    assert_false(answers.has_overslept);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void what_was_put_arrives_though_its_sender_has_ended(void **state)
{
    const uint32_t psn = go_over();
    for (unsigned i = 0; i < 100; i++) {
        send_one(psn + i, 8);
    }
    datagram_destroy(pair.link[0]);
    assert_int_equal(pair_take(1, got, MANY), 100);
    assert_order(psn, 100);
    make(0);
}

static void who_comes_after_a_process_that_has_ended_gets_a_lane_of_its_own(void **state)
{
    go_over();
    datagram_destroy(pair.link[1]);
    make(1);
    assert_int_equal(pair_open_at(1, &pair.ipv4[1]), 0);
    looks(0);
    now_ns += 2 * NS_PER_S;
    datagram_poll(pair.link[0], pair_now());
    for (uint32_t psn = 0; psn < 40; psn++) {
        send_one(psn, 8);
        assert_int_equal(pair_take(1, got, MANY), 1);
        assert_int_equal(pair_psn(&got[0]), psn);
    }
    assert_int_equal(counted(0, "local_lanes_made"), 2);
    assert_true(counted(1, "local_packets_in") > 0);
}

static void ends_leave_no_descriptor(void **state)
{
    datagram_destroy(pair.link[1]);
    datagram_destroy(pair.link[0]);
    descriptors_note();
    begin(state);
    go_over();
    end(state);
    descriptors_check();
    begin(state);
}

static void child_of_a_fork_keeps_no_descriptor(void **state)
{
    datagram_destroy(pair.link[1]);
    datagram_destroy(pair.link[0]);
    descriptors_note();
    begin(state);
    go_over();
    datagram_abandon(pair.link[0]);
    datagram_abandon(pair.link[1]);
    descriptors_check();
    end(state);
    begin(state);
}

/* ---- a process that does as it likes --------------------------------------------------------- */

// One that has a slot, and what it hands over.
struct rogue {
    struct datagram_share share;
    uint8_t *memory;
    int fds[2], own_fd;
};

static void rogue_make(struct rogue *r)
{
    int ends[2];
    assert_int_equal(datagram_share_init(&r->share, config.port), 0);
    assert_int_equal(
        local_sealed_create("test", LANE_MEMORY_LEN, LOCAL_SEALED_LEN, &r->memory, &r->fds[0]), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    r->own_fd = ends[0];
    r->fds[1] = ends[1];
}

static void rogue_end(struct rogue *r)
{
    local_sealed_release(r->memory, LANE_MEMORY_LEN);
    close(r->fds[0]);
    close(r->fds[1]);
    close(r->own_fd);
    datagram_share_fini(&r->share);
}

static unsigned slot_of(unsigned i)
{
    return pair.link[i]->qp_num_first >> DATAGRAM_SLOT_SHIFT;
}

static void hand_over(struct rogue *r, unsigned layout, const int fds[2])
{
    assert_int_equal(datagram_share_lane(&r->share, slot_of(1), layout, 1, fds), 0);
    looks(1);
}

static void what_is_no_lane_is_refused(void **state)
{
    struct rogue r;
    uint8_t *other;
    int other_fd, pipe_fds[2], open_fd = memfd_create("test", MFD_CLOEXEC);
    rogue_make(&r);
    assert_int_equal(ftruncate(open_fd, LANE_MEMORY_LEN), 0);
    assert_int_equal(pipe(pipe_fds), 0);
    assert_int_equal(
        local_sealed_create("test", LANE_MEMORY_LEN / 2, LOCAL_SEALED_LEN, &other, &other_fd), 0);
    descriptors_note();
    hand_over(&r, LANE_LAYOUT, (const int[]){open_fd, r.fds[1]});
    hand_over(&r, LANE_LAYOUT, (const int[]){other_fd, r.fds[1]});
    hand_over(&r, LANE_LAYOUT, (const int[]){r.fds[0], pipe_fds[0]});
    hand_over(&r, LANE_LAYOUT + 1, r.fds);
    assert_int_equal(counted(1, "local_lanes_refused"), 4);
    assert_int_equal(counted(1, "local_lanes_taken"), 0);
    descriptors_check();
    hand_over(&r, LANE_LAYOUT, r.fds);
    assert_int_equal(counted(1, "local_lanes_taken"), 1);
    local_sealed_release(other, LANE_MEMORY_LEN / 2);
    close(other_fd);
    close(open_fd);
    close(pipe_fds[0]);
    close(pipe_fds[1]);
    rogue_end(&r);
}

static void process_has_one_lane_to_another_at_a_time(void **state)
{
    struct rogue r;
    rogue_make(&r);
    hand_over(&r, LANE_LAYOUT, r.fds);
    hand_over(&r, LANE_LAYOUT, r.fds);
    assert_int_equal(counted(1, "local_lanes_taken"), 1);
    assert_int_equal(counted(1, "local_lanes_refused"), 1);
    rogue_end(&r);
}

static void nonsense_breaks_that_lane_alone(void **state)
{
    struct rogue r;
    rogue_make(&r);
    const uint32_t psn = go_over();
    hand_over(&r, LANE_LAYOUT, r.fds);
    memset(r.memory + LANE_MEMORY_RING, 0xff, 8);
    assert_int_equal(pair_take(1, got, 1), 0);
    datagram_receive(pair.link[1], &got[0].rx, 1, pair_now());
    assert_int_equal(counted(1, "local_lanes_broken"), 1);
    close(r.fds[1]);
    r.fds[1] = -1;
    uint8_t octet;
    assert_int_equal(recv(r.own_fd, &octet, 1, MSG_DONTWAIT), 0); // it is closed
    send_one(psn, 8);
    assert_int_equal(pair_take(1, got, 1), 1);
    rogue_end(&r);
}

// Of management, of another process, of an address that is not open.
static void packets_for_nobody_here_are_dropped(void **state)
{
    const uint32_t qp_nums[] = {BTH_QP_GSI, pair.link[0]->qp_num_first + 9, BTH_QP_MULTICAST,
                                pair.link[1]->qp_num_first + 9};
    struct datagram_path path = pair_path(AF_INET);
    struct lane_writer w;
    struct rogue r;
    rogue_make(&r);
    hand_over(&r, LANE_LAYOUT, r.fds);
    lane_writer_init(&w, r.memory);
    for (unsigned i = 0; i < 4; i++) {
        uint8_t head[BTH_LEN] = {0x64};
        put_be32(head + BTH_OFF_DEST_QP - 1, qp_nums[i]);
        const struct datagram_tx tx = {.path = &path, .head = span_of(head, sizeof head)};
        path.remote = i == 3 ? ipv4_mapped(INADDR_LOOPBACK + 77) : path.remote;
        assert_true(lane_put(&w, &tx, &path));
        lane_publish(&w);
        assert_int_equal(pair_take(1, got, 1), 0);
        assert_int_equal(counted(1, "local_strays"), i + 1);
    }
    rogue_end(&r);
}

// To look at sockets is a system call, which who has lanes makes now and then: but for who is about
// to flush, and asks for it. No time passes.
static void who_asks_for_it_looks_at_sockets_beside_lanes(void **state)
{
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                   .sin_port = htons(config.port)};
    go_over();
    looks(1);
    const int fd = socket(AF_INET, SOCK_DGRAM, 0);
    const uint64_t before = counted(1, "bad_lengths");
    struct datagram_rx rx;
    datagram_poll(pair.link[1], pair_now());
    const uint8_t of_link_1[BTH_LEN] = {0x64, [5] = (uint8_t)(pair.link[1]->qp_num_first >> 16)};
    assert_int_equal(
        sendto(fd, of_link_1, sizeof of_link_1, 0, (const struct sockaddr *)&to, sizeof to),
        sizeof of_link_1);
    datagram_poll(pair.link[1], pair_now());
    datagram_receive(pair.link[1], &rx, 1, pair_now());
    assert_int_equal(counted(1, "bad_lengths"), before);
    datagram_look_around(pair.link[1]);
    datagram_poll(pair.link[1], pair_now());
    datagram_receive(pair.link[1], &rx, 1, pair_now());
    assert_int_equal(counted(1, "bad_lengths"), before + 1);
    close(fd);
}

// Of who reads: where it says that it has taken what never came packets go by UDP.
static void reader_that_writes_nonsense_gets_packets_by_udp(void **state)
{
    struct rogue r;
    struct datagram_share_message *m = calloc(1, sizeof *m);
    const struct datagram_path path = pair_path(AF_INET);
    uint8_t head[BTH_LEN] = {0x64};
    int fds[DATAGRAM_SHARE_FDS];
    rogue_make(&r);
    put_be32(head + BTH_OFF_DEST_QP - 1, (r.share.slot << DATAGRAM_SLOT_SHIFT) + 9);
    const struct span piece = span_of(payload, sizeof payload);
    const struct datagram_tx tx = {
        .path = &path, .head = span_of(head, sizeof head), .pieces = &piece, .piece_count = 1};
    for (unsigned i = 0; i < 8; i++) {
        assert_true(datagram_put(pair.link[0], &tx));
    }
    while (m->kind != DATAGRAM_SHARE_LANE) {
        m->fds = fds;
        datagram_share_receive(&r.share, NS_PER_S, m);
        assert_int_not_equal(m->kind, DATAGRAM_SHARE_NOTHING);
    }
    uint8_t *memory;
    assert_int_equal(local_sealed_adopt(fds[0], LANE_MEMORY_LEN, &memory), 0);
    memory[LANE_MEMORY_IS_READ] = 1;
    while (datagram_has_room(pair.link[0], &tx) && counted(0, "local_packets_out") < 1000) {
        assert_true(datagram_put(pair.link[0], &tx));
    }
    memset(memory + LANE_MEMORY_RING + OCTET_RING_TAKEN, 0x77, 8);
    assert_true(datagram_put(pair.link[0], &tx));
    assert_int_equal(counted(0, "local_lanes_broken"), 1);
    assert_int_equal(counted(0, "local_full"), 0);
    local_sealed_release(memory, LANE_MEMORY_LEN);
    close(fds[0]);
    close(fds[1]);
    free(m);
    rogue_end(&r);
}

int main(void)
{
#define LANES_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
#define BARE_TEST(name)  cmocka_unit_test_teardown(name, end)
    const struct CMUnitTest tests[] = {
        LANES_TEST(packets_go_by_memory_after_some_by_udp),
        LANES_TEST(receiver_sees_the_path_as_by_udp),
        LANES_TEST(packets_keep_their_order_where_the_way_changes),
        LANES_TEST(what_was_put_before_leaves_before),
        LANES_TEST(few_packets_make_no_lane),
        BARE_TEST(who_wants_none_gets_packets_by_udp),
        BARE_TEST(who_wants_none_makes_none),
        LANES_TEST(where_descriptors_run_out_packets_go_by_udp),
        LANES_TEST(lane_that_is_full_has_no_room_until_its_reader_takes),
        LANES_TEST(who_takes_nothing_for_long_loses_what_comes),
        LANES_TEST(packet_ends_the_wait_of_who_sleeps),
        LANES_TEST(nobody_is_to_wait_where_a_packet_has_come),
        LANES_TEST(who_waits_is_woken_by_what_comes_after_another_looked),
        LANES_TEST(who_waits_is_woken_when_another_takes_a_lane_over),
        LANES_TEST(no_wake_up_is_lost),
        LANES_TEST(what_was_put_arrives_though_its_sender_has_ended),
        LANES_TEST(who_comes_after_a_process_that_has_ended_gets_a_lane_of_its_own),
        LANES_TEST(ends_leave_no_descriptor),
        LANES_TEST(child_of_a_fork_keeps_no_descriptor),
        LANES_TEST(what_is_no_lane_is_refused),
        LANES_TEST(process_has_one_lane_to_another_at_a_time),
        LANES_TEST(nonsense_breaks_that_lane_alone),
        LANES_TEST(packets_for_nobody_here_are_dropped),
        LANES_TEST(who_asks_for_it_looks_at_sockets_beside_lanes),
        LANES_TEST(reader_that_writes_nonsense_gets_packets_by_udp),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
