// Writes past lanes: into whose memory they go, and who is waited for. Links of one process show
// it, and a process that does as it likes.
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/gate_mirror.h"
#include "base/key_mirror.h"
#include "base/port_packet_push.h"
#include "link/datagram/lane.h"
#include "link/datagram/share.h"
#include "link/datagram/slot.h"
#include "link/datagram/udp.h"
#include "link/datagram/udp_link.h"
#include "link/local/sealed.h"
#include "link/local/slot.h"
#include "tests/link/datagram_contract.h"
#include "tests/own_port.h"
#include "wire/bth.h"

enum { STAG = 0x12345678, PD = 3, PSN = 7, LEN = 64, PACKETS_MAX = 100, TURNS = 200, OTHERS = 16 };

static struct datagram_udp_config config;
static struct in6_addr here;
static uint8_t source[LEN], target[LEN];
static uint64_t generation;

/* ---- two links ------------------------------------------------------------------------------- */

// One millisecond at each look.
static _Atomic instant_ns now_ns;

static instant_ns clock_now(void *ctx)
{
    (void)ctx;
    return atomic_fetch_add(&now_ns, NS_PER_MS) + NS_PER_MS;
}

instant_ns pair_now(void)
{
    return clock_now(NULL);
}

void pair_turn(unsigned to)
{
    struct datagram_rx rx;
    datagram_poll(pair.link[to], pair_now());
    datagram_receive(pair.link[to], &rx, 1, pair_now());
}

static atomic_bool is_open;

static void *serve(void *link)
{
    while (!atomic_load(&is_open)) {
        struct datagram_rx rx;
        datagram_wait(link, NS_PER_MS);
        datagram_poll(link, pair_now());
        datagram_receive(link, &rx, 1, pair_now());
    }
    return NULL;
}

int pair_open_at(unsigned i, const struct in6_addr *local)
{
    pthread_t other;
    atomic_store(&is_open, false);
    assert_int_equal(pthread_create(&other, NULL, serve, pair.link[1 - i]), 0);
    const int error = datagram_open(pair.link[i], local, 0);
    atomic_store(&is_open, true);
    pthread_join(other, NULL);
    return error;
}

static struct datagram_udp *udp(unsigned i)
{
    return datagram_udp_of(pair.link[i]);
}

static const struct packet_push_ops *ops(void)
{
    return pair.link[0]->pushes;
}

static uint32_t slot_of(unsigned i)
{
    return pair.link[i]->qp_num_first >> DATAGRAM_SLOT_SHIFT;
}

static uint32_t qp_num_in(uint32_t slot)
{
    return (slot << DATAGRAM_SLOT_SHIFT) + 9;
}

static uint64_t counted(unsigned i, const char *name)
{
    return datagram_counted(pair.link[i], name);
}

// link[1] shows `target`.
static int begin(void **state)
{
    atomic_store(&now_ns, NS_PER_S);
    here = ipv4_mapped(INADDR_LOOPBACK);
    config = (struct datagram_udp_config){
        .port = own_port(), .is_local = true, .rights = KEY_MAY_WRITE, .clock = clock_now};
    for (unsigned i = 0; i < 2; i++) {
        pair.ipv4[i] = here;
        pair.ipv6[i] = in6addr_loopback;
        assert_int_equal(datagram_udp_create(&config, &pair.link[i]), 0);
    }
    pair_open();
    const struct key key = {.generation = ++generation,
                            .stag = STAG,
                            .pd = PD,
                            .length = LEN,
                            .addr = (uint64_t)(uintptr_t)target,
                            .rights = KEY_MAY_WRITE};
    assert_true(key_mirror_show(ops()->mirror(pair.link[1]), &key));
    memset(source, 0xaa, LEN);
    memset(target, 0, LEN);
    return 0;
}

static int end(void **state)
{
    datagram_destroy(pair.link[0]);
    datagram_destroy(pair.link[1]);
    return 0;
}

static void put_to(uint32_t qp_num)
{
    const struct datagram_path path = pair_path(AF_INET);
    uint8_t head[BTH_LEN] = {0x64};
    put_be32(head + BTH_OFF_DEST_QP - 1, qp_num);
    const struct datagram_tx tx = {.path = &path, .head = span_of(head, sizeof head)};
    assert_true(datagram_put(pair.link[0], &tx));
    datagram_flush(pair.link[0]);
}

/* ---- gates and Writes ------------------------------------------------------------------------ */

static struct gate gate_between(uint32_t qp_num, uint32_t peer_qp_num)
{
    return (struct gate){.qp_num = qp_num,
                         .peer_qp_num = peer_qp_num,
                         .local = here,
                         .remote = here,
                         .pd = PD,
                         .psn = PSN};
}

// Of a queue pair of link[1].
static struct gate_entry *gate_open(uint32_t nth, uint32_t peer_qp_num, uint64_t *ret)
{
    const struct gate gate = gate_between(qp_num_in(slot_of(1)) + nth, peer_qp_num);
    struct gate_entry *entry = ops()->open(pair.link[1], &gate, ret);
    assert_non_null(entry);
    return entry;
}

// A Write of link[0] to a queue pair that is in this slot. True: it went past packets.
static bool writes_past(uint32_t slot)
{
    const struct span piece = span_of(source, LEN);
    const struct packet_push push = {
        .write = {.stag = STAG, .len = LEN, .pieces = &piece, .piece_count = 1},
        .from = gate_between(qp_num_in(slot_of(0)), qp_num_in(slot)),
        .is_writer = true,
        .now = pair_now()};
    struct push_aimed aimed;
    if (ops()->aim(pair.link[0], &push, &aimed) != PAST_BEGUN) {
        return false;
    }
    const bool is_done = ops()->put(&aimed);
    ops()->conclude(&aimed, is_done);
    return is_done;
}

static void look(unsigned i)
{
    for (unsigned n = 0; n < TURNS; n++) {
        pair_turn(i);
    }
}

static void write_goes_into_the_memory_of_who_has_taken_the_lane(void **state)
{
    uint64_t opening;
    struct gate_entry *entry = gate_open(0, qp_num_in(slot_of(0)), &opening);
    for (unsigned n = 0; n < PACKETS_MAX && counted(0, "local_packets_out") == 0; n++) {
        put_to(qp_num_in(slot_of(1)));
        look(1);
    }
    look(0);
    assert_true(writes_past(slot_of(1)));
    assert_memory_equal(target, source, LEN);
    assert_int_equal(counted(0, "local_pushes"), 1);
    assert_true(ops()->close(pair.link[1], entry, opening));
    assert_false(writes_past(slot_of(1)));
}

// Who takes a lane says so again where the other one's socket had no room for it.
static void who_could_not_be_told_yet_is_told_later(void **state)
{
    struct datagram_share others[OTHERS]; // the room of one may end before that of the socket
    uint64_t opening;
    gate_open(0, qp_num_in(slot_of(0)), &opening);
    for (unsigned n = 0; n < 8; n++) {
        put_to(qp_num_in(slot_of(1)));
    }
    for (unsigned i = 0; i < OTHERS; i++) {
        assert_int_equal(datagram_share_init(&others[i], config.port), 0);
        while (datagram_share_come(&others[i], slot_of(0)) == 0) {
        }
    }
    look(1);
    put_to(qp_num_in(slot_of(1)));
    assert_int_equal(counted(0, "local_packets_out"), 1);
    assert_false(writes_past(slot_of(1)));
    look(0);
    assert_false(writes_past(slot_of(1)));
    look(1); // takes the packet
    look(0);
    assert_true(writes_past(slot_of(1)));
    for (unsigned i = 0; i < OTHERS; i++) {
        datagram_share_fini(&others[i]);
    }
}

/* ---- a process that does as it likes --------------------------------------------------------- */

// One that has a slot, and a lane: from link[0], or to link[1].
struct rogue {
    struct datagram_share share;
    uint8_t *memory;
    int fd;         // of its socket
    unsigned offer; // which of link[0]'s it is
};

static void rogue_end(struct rogue *r)
{
    if (r->fd >= 0) {
        close(r->fd);
    }
    local_sealed_release(r->memory, LANE_MEMORY_LEN);
    datagram_share_fini(&r->share);
}

// Gets a lane, says that it reads, and that the memory at the other end is that of link[1]'s
// process: a third one, if this were not ours.
static void rogue_take_lane(struct rogue *r)
{
    struct datagram_share_message *m = calloc(1, sizeof *m);
    int fds[DATAGRAM_SHARE_FDS];
    assert_int_equal(datagram_share_init(&r->share, config.port), 0);
    const uint32_t qp_num = qp_num_in(r->share.slot);
    for (unsigned n = 0; n < 8; n++) {
        put_to(qp_num);
    }
    while (m->kind != DATAGRAM_SHARE_LANE) {
        m->fds = fds;
        datagram_share_receive(&r->share, NS_PER_S, m);
        assert_int_not_equal(m->kind, DATAGRAM_SHARE_NOTHING);
    }
    assert_int_equal(local_sealed_adopt(fds[0], LANE_MEMORY_LEN, &r->memory), 0);
    close(fds[0]);
    r->fd = fds[1];
    r->offer = m->first;
    free(m);
    r->memory[LANE_MEMORY_IS_READ] = 1;
    put_to(qp_num);
    assert_true(counted(0, "local_packets_out") > 0);

    const struct local_own_keys *own = &udp(1)->lanes.own_keys;
    const struct gate gate = gate_between(qp_num, qp_num_in(slot_of(0)));
    assert_non_null(gate_mirror_open(&own->shown->gates, &gate, 77));
    atomic_store(&lane_gate(r->memory)->mirror_fd, (uint64_t)own->fd);
    atomic_store(&lane_gate(r->memory)->sill, (uint64_t)(uintptr_t)own->sill);
    atomic_store(&lane_gate(r->memory)->nonce, own->nonce);
    atomic_store(&lane_gate(r->memory)->opening, 1);
}

static void assert_gets_packets(const struct rogue *r)
{
    look(0);
    assert_false(writes_past(r->share.slot));
    assert_int_equal(target[0], 0);
    assert_int_equal(counted(0, "local_pushes"), 0);
}

// Memory that says whose it is says nothing; nor does an answer to another offer. Who says it of
// itself is believed.
static void who_has_not_said_that_he_took_the_lane_gets_packets(void **state)
{
    struct rogue r;
    rogue_take_lane(&r);
    assert_gets_packets(&r);
    assert_int_equal(datagram_share_taken(&r.share, slot_of(0), r.offer - 1), 0);
    assert_gets_packets(&r);
    assert_int_equal(counted(0, "local_pushes_forbidden"), 0);
    assert_int_equal(datagram_share_taken(&r.share, slot_of(0), r.offer), 0);
    look(0);
    assert_true(writes_past(r.share.slot));
    rogue_end(&r);
}

// The kernel says from which process the message is; the memory names another's keys.
static void who_names_a_third_process_gets_packets(void **state)
{
    struct rogue r;
    rogue_take_lane(&r);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (datagram_share_taken(&r.share, slot_of(0), r.offer) != 0) {
            _exit(1);
        }
        pause();
        _exit(0);
    }
    const struct datagram_lane_out *lane = &udp(0)->lanes.out[r.share.slot];
    for (unsigned n = 0; n < 1000 && lane->process == 0; n++) {
        usleep(1000);
        look(0);
    }
    assert_int_equal(lane->process, child);
    assert_gets_packets(&r);
    assert_int_equal(counted(0, "local_pushes_forbidden"), 1);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    rogue_end(&r);
}

/* ---- who is in ------------------------------------------------------------------------------- */

// Hands a lane of its own to link[1].
static void rogue_give_lane(struct rogue *r)
{
    int ends[2], fds[DATAGRAM_SHARE_LANE_FDS];
    assert_int_equal(
        local_sealed_create("test", LANE_MEMORY_LEN, LOCAL_SEALED_LEN, &r->memory, &fds[0]), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    r->fd = ends[0];
    fds[1] = ends[1];
    const uint64_t before = counted(1, "local_lanes_taken");
    assert_int_equal(datagram_share_lane(&r->share, slot_of(1), LANE_LAYOUT, 1, fds), 0);
    look(1);
    assert_int_equal(counted(1, "local_lanes_taken"), before + 1);
    close(fds[0]);
    close(fds[1]);
}

static void rogue_begin(struct rogue *r)
{
    assert_int_equal(datagram_share_init(&r->share, config.port), 0);
    rogue_give_lane(r);
}

// A thread that runs, as one in the call may, and is named by whoever says that he is in.
static _Atomic uint64_t runner_number;
static atomic_bool may_rest;

__attribute__((no_sanitize("thread"))) static void *run(void *arg)
{
    atomic_store(&runner_number, (uint64_t)gettid());
    while (!atomic_load(&may_rest)) {
    }
    return arg;
}

static pthread_t runner_begin(void)
{
    pthread_t thread;
    atomic_store(&runner_number, 0);
    atomic_store(&may_rest, false);
    assert_int_equal(pthread_create(&thread, NULL, run, NULL), 0);
    while (atomic_load(&runner_number) == 0) {
    }
    return thread;
}

static void runner_end(pthread_t thread)
{
    atomic_store(&may_rest, true);
    pthread_join(thread, NULL);
}

static void rogue_enter(const struct rogue *r, unsigned i, uint64_t opening)
{
    struct local_slot *slot = lane_slot(r->memory, i);
    atomic_store(&slot->thread, atomic_load(&runner_number));
    atomic_store(&slot->turn, 1);
    atomic_store(&slot->opening, opening);
    atomic_store(&slot->generation, generation);
}

static void rogue_leave(const struct rogue *r, unsigned i)
{
    atomic_store(&lane_slot(r->memory, i)->generation, 0);
}

static void who_is_in_by_another_processs_opening_holds_up_nothing(void **state)
{
    struct rogue r;
    uint64_t opening;
    rogue_begin(&r);
    struct gate_entry *entry = gate_open(0, qp_num_in(slot_of(0)), &opening);
    const pthread_t runner = runner_begin();
    rogue_enter(&r, 0, opening);
    assert_true(ops()->close(pair.link[1], entry, opening));
    assert_true(ops()->has_left(pair.link[1], opening));
    runner_end(runner);
    rogue_end(&r);
}

// A look at the clock is a millisecond.
static bool closes_at_once(struct gate_entry *entry, uint64_t opening, bool *ret_is_out)
{
    const instant_ns before = atomic_load(&now_ns);
    *ret_is_out = ops()->close(pair.link[1], entry, opening);
    return atomic_load(&now_ns) - before < 50 * NS_PER_MS;
}

static void who_is_in_for_long_is_waited_for_once(void **state)
{
    struct rogue r;
    struct gate_entry *entries[3];
    uint64_t openings[3];
    bool is_out;
    rogue_begin(&r);
    for (unsigned i = 0; i < 3; i++) {
        entries[i] = gate_open(i, qp_num_in(r.share.slot), &openings[i]);
    }
    const pthread_t runner = runner_begin();
    rogue_enter(&r, 0, openings[0]);
    rogue_enter(&r, 1, openings[1]);
    rogue_enter(&r, 2, openings[2]);
    assert_false(closes_at_once(entries[0], openings[0], &is_out));
    assert_false(is_out);
    assert_true(closes_at_once(entries[1], openings[1], &is_out));
    assert_false(is_out);
    assert_false(ops()->has_left(pair.link[1], openings[0]));
    rogue_leave(&r, 0);
    rogue_leave(&r, 1);
    assert_true(ops()->has_left(pair.link[1], openings[0]));
    assert_true(ops()->has_left(pair.link[1], openings[1]));
    assert_false(closes_at_once(entries[2], openings[2], &is_out)); // it is the first again
    assert_false(is_out);
    runner_end(runner);
    rogue_end(&r);
}

// Who has aimed and not come in yet looks at the mirror alone: what he then says is to be seen.
static void lane_that_is_broken_stays_until_the_other_process_hangs_up(void **state)
{
    struct rogue r;
    uint64_t opening;
    uint8_t octet;
    bool is_out;
    rogue_begin(&r);
    struct gate_entry *entry = gate_open(0, qp_num_in(r.share.slot), &opening);
    memset(r.memory + LANE_MEMORY_RING, 0xff, 8);
    look(1);
    assert_int_equal(counted(1, "local_lanes_broken"), 1);
    assert_int_equal(recv(r.fd, &octet, sizeof octet, MSG_DONTWAIT), 0);
    const pthread_t runner = runner_begin();
    rogue_enter(&r, 0, opening);
    closes_at_once(entry, opening, &is_out);
    assert_false(is_out);
    close(r.fd);
    r.fd = -1;
    look(1);
    assert_true(ops()->has_left(pair.link[1], opening));
    assert_int_equal(counted(1, "local_lanes_broken"), 1);
    runner_end(runner);
    rogue_end(&r);
}

static void await_long(const struct rogue *r)
{
    const uint64_t before = counted(1, "local_revocations_long");
    rogue_enter(r, 0, 0);
    for (unsigned n = 0; n < 2 * TURNS; n++) {
        assert_false(ops()->revoke(pair.link[1], generation));
    }
    assert_int_equal(counted(1, "local_revocations_long"), before + 1);
    rogue_leave(r, 0);
}

static void who_has_a_slot_next_is_said_to_take_long_too(void **state)
{
    struct rogue r;
    rogue_begin(&r);
    const pthread_t runner = runner_begin();
    await_long(&r);
    close(r.fd);
    local_sealed_release(r.memory, LANE_MEMORY_LEN);
    look(1);
    rogue_give_lane(&r);
    await_long(&r);
    runner_end(runner);
    rogue_end(&r);
}

#define PAST_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PAST_TEST(write_goes_into_the_memory_of_who_has_taken_the_lane),
        PAST_TEST(who_could_not_be_told_yet_is_told_later),
        PAST_TEST(who_has_not_said_that_he_took_the_lane_gets_packets),
        PAST_TEST(who_names_a_third_process_gets_packets),
        PAST_TEST(who_is_in_by_another_processs_opening_holds_up_nothing),
        PAST_TEST(who_is_in_for_long_is_waited_for_once),
        PAST_TEST(who_has_a_slot_next_is_said_to_take_long_too),
        PAST_TEST(lane_that_is_broken_stays_until_the_other_process_hangs_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
