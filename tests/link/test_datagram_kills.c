// A process that writes past lanes by several threads, stopped or killed at a random instant while
// what it writes by is taken back: a key, or a queue pair's gate. No octet comes behind that, and
// nothing of it is left. WEFT_SOAK=1 makes it 10,000 times each.
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/gate_mirror.h"
#include "base/key_mirror.h"
#include "base/port_packet_push.h"
#include "base/port_push.h"
#include "base/prng.h"
#include "clock/clock.h"
#include "host/clock.h"
#include "link/datagram/slot.h"
#include "link/datagram/udp.h"
#include "link/datagram/udp_link.h"
#include "link/datagram/way.h"
#include "link/local/slot.h"
#include "tests/link/counted.h"
#include "tests/link/descriptors.h"
#include "tests/own_port.h"
#include "wire/bth.h"

enum { STAG = 0x12345678, PD = 3, PSN = 7, TARGET_LEN = 2 * PUSH_LEN_MAX };
enum { WRITERS = 2, LANE_AFTER = 8, STOPS = 60, KILLS = 200, SOAK = 10000 };

// What a writer, a child of ours, and we have in common.
struct common {
    _Atomic uint32_t owner_qp_num, writer_qp_num; // 0: not yet
    _Atomic uint64_t written, refused;            // times
};

static struct common *c;
static struct datagram_udp_config config;
static struct datagram_link *owner; // whose memory it is
static const struct in6_addr here = {.s6_addr = {[10] = 0xff, 0xff, 127, 0, 0, 1}};
static uint8_t target[TARGET_LEN], source[PUSH_LEN_MAX];
static uint64_t generation;
static struct prng prng;

static void spin(duration_ns time_ns)
{
    const instant_ns until = instant_after(clock_now(), time_ns);
    while (clock_now() < until) {
    }
}

static void turn(struct datagram_link *link)
{
    struct datagram_rx rx;
    datagram_poll(link, clock_now());
    datagram_receive(link, &rx, 1, clock_now());
}

static uint32_t qp_num_of(const struct datagram_link *link)
{
    return link->qp_num_first + 9;
}

static struct gate gate_between(uint32_t qp_num, uint32_t peer_qp_num)
{
    return (struct gate){.qp_num = qp_num,
                         .peer_qp_num = peer_qp_num,
                         .local = here,
                         .remote = here,
                         .pd = PD,
                         .psn = PSN};
}

/* ---- who writes ------------------------------------------------------------------------------ */

static struct datagram_link *writer;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static instant_ns no_stream_ns; // Writes seem to come slowly enough to go past packets

static enum past_answer aim(uint64_t to, size_t len, struct push_aimed *ret)
{
    const struct span piece = span_of(source, len);
    const struct packet_push push = {
        .write = {.stag = STAG, .to = to, .len = (uint32_t)len, .pieces = &piece, .piece_count = 1},
        .from = gate_between(qp_num_of(writer), atomic_load(&c->owner_qp_num)),
        .is_writer = true,
        .now = no_stream_ns += NS_PER_MS};
    return writer->pushes->aim(writer, &push, ret);
}

// As the link does it, or with the instant that matters made wide.
static bool put(const struct push_aimed *aimed, struct prng *own)
{
    const struct datagram_way_user *user = aimed->by;
    if (prng_below(own, 2) == 0) {
        return writer->pushes->put(aimed);
    }
    if (!local_slot_enter(&user->pusher, &aimed->key, aimed->addr, aimed->len)) {
        return false;
    }
    spin(prng_below(own, 20 * NS_PER_US));
    const int error = local_slot_call(&user->pusher, source, aimed->len);
    local_slot_leave(&user->pusher);
    return error == 0;
}

static void *write_for_ever(void *arg)
{
    struct prng own;
    prng_init(&own, (uint64_t)gettid());
    for (;;) {
        struct push_aimed aimed;
        const size_t len = 1 + (size_t)prng_below(&own, PUSH_LEN_MAX);
        pthread_mutex_lock(&lock);
        const enum past_answer answer = aim(prng_below(&own, PUSH_LEN_MAX), len, &aimed);
        pthread_mutex_unlock(&lock);
        if (answer != PAST_BEGUN) {
            atomic_fetch_add(&c->refused, 1);
            sched_yield();
            continue;
        }
        const bool is_done = put(&aimed, &own);
        pthread_mutex_lock(&lock);
        writer->pushes->conclude(&aimed, is_done);
        pthread_mutex_unlock(&lock);
        atomic_fetch_add(is_done ? &c->written : &c->refused, 1);
    }
    return arg;
}

// Packets, until they go by a lane, and whose memory that leads to has been said.
static void lane_make(void)
{
    const struct datagram_path path = {.local = here, .remote = here, .source_port = 0xc123};
    uint8_t head[BTH_LEN] = {0x64};
    struct push_aimed aimed;
    put_be32(head + BTH_OFF_DEST_QP - 1, atomic_load(&c->owner_qp_num));
    const struct datagram_tx tx = {.path = &path, .head = span_of(head, sizeof head)};
    for (unsigned n = 0; aim(0, 1, &aimed) != PAST_BEGUN; n++) {
        if (n < LANE_AFTER || n % LANE_AFTER == 0) {
            datagram_put(writer, &tx);
            datagram_flush(writer);
        }
        turn(writer);
        sched_yield();
    }
    writer->pushes->conclude(&aimed, false);
}

static void writer_run(void)
{
    pthread_t threads[WRITERS];
    prctl(PR_SET_PDEATHSIG, SIGKILL); // a case that fails leaves nobody who writes
    datagram_abandon(owner);
    memset(source, 0xaa, sizeof source);
    if (datagram_udp_create(&config, &writer) != 0 || datagram_open(writer, &here, 0) != 0) {
        _exit(1);
    }
    atomic_store(&c->writer_qp_num, qp_num_of(writer));
    lane_make();
    for (unsigned i = 0; i < WRITERS; i++) {
        pthread_create(&threads[i], NULL, write_for_ever, NULL);
    }
    for (;;) {
        pthread_mutex_lock(&lock);
        turn(writer);
        pthread_mutex_unlock(&lock);
        usleep(1000);
    }
}

/* ---- whose memory it is ---------------------------------------------------------------------- */

static pid_t child;
static struct gate_entry *gate;
static uint64_t opening;

static void show(void)
{
    const struct key key = {.generation = ++generation,
                            .stag = STAG,
                            .pd = PD,
                            .length = TARGET_LEN,
                            .addr = (uint64_t)(uintptr_t)target,
                            .rights = KEY_MAY_WRITE};
    assert_true(key_mirror_show(owner->pushes->mirror(owner), &key));
}

static void gate_open(void)
{
    const struct gate g = gate_between(qp_num_of(owner), atomic_load(&c->writer_qp_num));
    gate = owner->pushes->open(owner, &g, &opening);
    assert_non_null(gate);
}

// Of somebody who waits for the writer, and sees now and then that it has not failed.
static void go_on(unsigned n)
{
    enum { NOW_AND_THEN = 256 };
    siginfo_t ended = {.si_pid = 0}; // and is not forgotten: its number is still its own
    assert_true(n % NOW_AND_THEN != 0 ||
                (waitid(P_PID, (id_t)child, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
                 ended.si_pid == 0));
    turn(owner);
    sched_yield();
}

static void writer_begin(void)
{
    atomic_store(&c->writer_qp_num, 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        writer_run();
    }
    for (unsigned n = 0; atomic_load(&c->writer_qp_num) == 0; n++) {
        go_on(n);
    }
    gate_open();
}

// Until it is seen that the lane has ended, a second at most: nothing is left of it.
static void await_no_lane(void)
{
    const uint32_t slot = atomic_load(&c->writer_qp_num) >> DATAGRAM_SLOT_SHIFT;
    const struct datagram_lane_in *lane = &datagram_udp_of(owner)->lanes.in[slot];
    for (unsigned n = 0; n < 10000 && lane->memory != NULL; n++) {
        datagram_look_around(owner);
        turn(owner);
        usleep(lane->memory != NULL ? 100 : 0);
    }
    assert_null(lane->memory);
}

static void writer_end(void)
{
    int status;
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    await_no_lane();
}

static void await_more(const _Atomic uint64_t *count, uint64_t more)
{
    const uint64_t wanted = atomic_load(count) + more;
    for (unsigned n = 0; atomic_load(count) < wanted; n++) {
        go_on(n);
    }
}

static void key_take_back(void)
{
    const uint64_t withdrawn = key_mirror_withdraw(owner->pushes->mirror(owner), STAG);
    while (!owner->pushes->revoke(owner, withdrawn)) {
        sched_yield();
    }
}

static void gate_take_back(void)
{
    if (!owner->pushes->close(owner, gate, opening)) {
        while (!owner->pushes->has_left(owner, opening)) {
            sched_yield();
        }
    }
}

static bool is_all_ours(void)
{
    size_t count = 0;
    for (size_t i = 0; i < TARGET_LEN; i++) {
        count += target[i] == 0x55;
    }
    return count == TARGET_LEN;
}

// When what it writes by has been taken back the memory is ours alone.
static void take_back_under(int number, bool is_key)
{
    await_more(&c->written, 1);
    spin(prng_below(&prng, 40 * NS_PER_US));
    if (number != 0) {
        assert_int_equal(kill(child, number), 0);
    }
    is_key ? key_take_back() : gate_take_back();
    memset(target, 0x55, TARGET_LEN);
}

static void stop_and_look(unsigned i)
{
    static const int numbers[] = {SIGSTOP, SIGSTOP, SIGSTOP, 0};
    const bool is_key = i % 2 == 0;
    take_back_under(numbers[i / 2 % 4], is_key);
    assert_int_equal(kill(child, SIGCONT), 0);
    await_more(&c->refused, 2 * WRITERS);
    assert_true(is_all_ours());
    is_key ? show() : gate_open();
}

// The next one gets a lane of its own.
static void kill_and_look(unsigned i)
{
    const bool is_key = i % 2 == 0;
    take_back_under(SIGKILL, is_key);
    writer_end();
    assert_true(is_all_ours());
    if (is_key) {
        show();
        gate_take_back();
    }
    writer_begin();
}

/* ---- the tests ------------------------------------------------------------------------------- */

static int begin(void **state)
{
    c = mmap(NULL, sizeof *c, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_SHARED, -1, 0);
    assert_true(c != MAP_FAILED);
    config = (struct datagram_udp_config){
        .port = own_port(), .is_local = true, .rights = KEY_MAY_WRITE, .clock = host_clock};
    prng_init(&prng, 11);
    descriptors_note();
    assert_int_equal(datagram_udp_create(&config, &owner), 0);
    assert_int_equal(datagram_open(owner, &here, 0), 0);
    atomic_store(&c->owner_qp_num, qp_num_of(owner));
    show();
    writer_begin();
    return 0;
}

static uint64_t lanes_now(void)
{
    struct counted taken = {.name = "local_lanes_taken"};
    datagram_counters(owner, counted_take, &taken);
    return taken.value;
}

static int end(void **state)
{
    writer_end();
    datagram_destroy(owner);
    descriptors_check();
    munmap(c, sizeof *c);
    return 0;
}

static unsigned times(unsigned usual)
{
    return getenv("WEFT_SOAK") != NULL ? SOAK : usual;
}

static void no_octet_comes_from_a_writer_that_was_stopped(void **state)
{
    for (unsigned i = 0; i < times(STOPS); i++) {
        stop_and_look(i);
    }
}

static void no_octet_comes_from_a_writer_that_was_killed(void **state)
{
    const uint64_t before = lanes_now();
    for (unsigned i = 0; i < times(KILLS); i++) {
        kill_and_look(i);
    }
    await_more(&c->written, 1);
    assert_int_equal(lanes_now() - before, times(KILLS) + (before == 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(no_octet_comes_from_a_writer_that_was_stopped, begin, end),
        cmocka_unit_test_setup_teardown(no_octet_comes_from_a_writer_that_was_killed, begin, end),
    };
    return cmocka_run_group_tests_name("datagram_kills", tests, NULL, NULL);
}
