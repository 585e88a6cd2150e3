// What is to be called with the shard's lock held stops the process without it: each door of the
// room, and those of the engine's objects that a device guards.

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/clock.h"
#include "link/socket.h"
#include "rnic/ep/ep.h"
#include "rnic/point.h"
#include "rnic/post.h"
#include "rnic/pull.h"
#include "rnic/puller.h"
#include "rnic/qp/meeting.h"
#include "rnic/reads.h"
#include "tests/rnic/device.h"

// What a child has to knock with.
struct house {
    struct device device;
    struct end end;
    struct rnic_srq *srq;
    struct shard *shard;
};

static void knock_shard_run(struct house *h)
{
    shard_run(h->shard, 0);
}

static void knock_shard_serve_doorbells(struct house *h)
{
    shard_serve_doorbells(h->shard, 0);
}

static void knock_shard_next_deadline(struct house *h)
{
    shard_next_deadline(h->shard);
}

static void knock_shard_note_deadline(struct house *h)
{
    shard_note_deadline(h->shard, 0);
}

static void knock_shard_arm(struct house *h)
{
    shard_arm(h->shard, h->end.ep, 0);
}

static void knock_shard_run_again(struct house *h)
{
    shard_run_again(h->shard, h->end.ep);
}

static void knock_shard_settle_later(struct house *h)
{
    shard_settle_later(h->shard, h->end.ep);
}

static void knock_shard_unlist(struct house *h)
{
    shard_unlist(h->shard, h->end.ep);
}

static void knock_shard_note_farewell(struct house *h)
{
    shard_note_farewell(h->shard, &(struct farewell){0});
}

static void knock_shard_batch_borrow(struct house *h)
{
    shard_batch_borrow(h->shard);
}

static void knock_ep_on_pulled(struct house *h)
{
    const struct puller puller = {0};
    ep_on_pulled(h->end.qp, &puller, 0, 0);
}

static void knock_shard_bar_pulls(struct house *h)
{
    shard_bar_pulls(h->shard, h->end.qp);
}

static void knock_shard_await_copies_of(struct house *h)
{
    shard_await_copies_of(h->shard, h->device.stag);
}

static void knock_qp_on_doorbell(struct house *h)
{
    rnic_qp_on_doorbell(h->end.qp, 0);
}

static void knock_qp_note_state(struct house *h)
{
    rnic_qp_note_state(h->end.qp, 0);
}

static void knock_meeting_on_doorbell(struct house *h)
{
    qp_meeting_on_doorbell(h->end.qp, 0);
}

static void knock_meeting_end(struct house *h)
{
    qp_meeting_end(h->end.qp, 0);
}

static void knock_meeting_forget(struct house *h)
{
    qp_meeting_forget(h->end.qp, 0);
}

static void knock_meetings_on_deadline(struct house *h)
{
    qp_meetings_on_deadline(h->device.rnic, 0);
}

static void knock_point_take(struct house *h)
{
    uint32_t qp_num;
    point_take(h->device.rnic, &qp_num);
}

static void knock_reads_query(struct house *h)
{
    reads_query(h->device.rnic);
}

static void knock_ep_create(struct house *h)
{
    ep_create(h->device.rnic, NULL);
}

static void knock_ep_doom(struct house *h)
{
    ep_doom(h->end.ep, true, 0);
}

static void knock_ep_attach(struct house *h)
{
    ep_attach(h->end.ep, h->end.qp);
}

static void knock_ep_settle(struct house *h)
{
    ep_settle(h->end.ep, 0);
}

static void knock_ep_close(struct house *h)
{
    ep_close(h->end.ep, QP_CLOSE_LOCAL, true, 0);
}

static void knock_ep_on_ready(struct house *h)
{
    ep_on_ready(h->end.ep, 0, 0);
}

static void knock_ep_on_turn(struct house *h)
{
    ep_on_turn(h->end.ep, 0);
}

static void knock_ep_on_deadline(struct house *h)
{
    ep_on_deadline(h->end.ep, 0);
}

static void knock_ep_on_doorbell(struct house *h)
{
    ep_on_doorbell(h->end.ep, 0);
}

static void knock_cq_push(struct house *h)
{
    cq_push(h->device.cq->cq, &(struct cqe){0});
}

static void knock_cq_moderate(struct house *h)
{
    cq_moderate(h->device.cq->cq, 0, 0);
}

static void knock_cq_next_deadline(struct house *h)
{
    cq_next_deadline(h->device.cq->cq);
}

static void knock_cq_on_deadline(struct house *h)
{
    cq_on_deadline(h->device.cq->cq, 0);
}

static void knock_cq_resize(struct house *h)
{
    cq_resize(h->device.cq->cq, 16);
}

static void knock_cq_purge(struct house *h)
{
    cq_purge(h->device.cq->cq, 0);
}

static void knock_cq_detach(struct house *h)
{
    cq_detach(h->device.cq->cq, 0);
}

static void knock_srq_claim(struct house *h)
{
    srq_claim(h->srq->srq);
}

static void knock_srq_set_limit(struct house *h)
{
    srq_set_limit(h->srq->srq, 0);
}

static void knock_wq_next(struct house *h)
{
    struct transport_work work;
    wq_next(h->end.qp->wq, &work);
}

static void knock_wq_receive_claim(struct house *h)
{
    wq_receive_claim(h->end.qp->wq);
}

static void knock_wq_on_settled(struct house *h)
{
    wq_on_settled(h->end.qp->wq, 0);
}

static void knock_wq_flush_sends(struct house *h)
{
    wq_flush_sends(h->end.qp->wq);
}

static void knock_wq_close(struct house *h)
{
    wq_close(h->end.qp->wq);
}

static void knock_wq_reset(struct house *h)
{
    wq_reset(h->end.qp->wq);
}

static void knock_wq_oneshot_create(struct house *h)
{
    wq_oneshot_create(h->end.qp->wq, &(struct oneshot_config){0});
}

static void knock_wq_oneshot_revoke(struct house *h)
{
    wq_oneshot_revoke(h->end.qp->wq, 0);
}

static void knock_sq_slot(struct house *h)
{
    struct rnic_sq_cursor cursor;
    rnic_sq_begin(&cursor, h->end.qp);
    rnic_sq_end(&cursor);
    rnic_sq_slot(&cursor);
}

static void knock_rq_slot(struct house *h)
{
    struct rnic_rq_cursor cursor;
    rnic_srq_begin(&cursor, h->srq);
    rnic_rq_end(&cursor);
    rnic_rq_slot(&cursor);
}

static void knock_sq_command(struct house *h)
{
    struct rnic_sq_cursor cursor = {0};
    rnic_sq_command(&cursor);
}

static const char by_shard[] = "does not hold: shard_is_held(";
static const char by_guard[] = "does not hold: guard_is_held(";
static const char by_cursor[] = "does not hold: cursor->qp != NULL";

static const struct {
    const char *file, *words; // of the CHECK that ends it
    void (*knock)(struct house *h);
} doors[] = {
    {"rnic/pass.c", by_shard, knock_shard_run},
    {"rnic/lock.c", by_shard, knock_shard_serve_doorbells},
    {"rnic/agenda.c", by_shard, knock_shard_next_deadline},
    {"rnic/agenda.c", by_shard, knock_shard_note_deadline},
    {"rnic/agenda.c", by_shard, knock_shard_arm},
    {"rnic/agenda.c", by_shard, knock_shard_run_again},
    {"rnic/agenda.c", by_shard, knock_shard_settle_later},
    {"rnic/agenda.c", by_shard, knock_shard_unlist},
    {"rnic/agenda.c", by_shard, knock_shard_note_farewell},
    {"rnic/batch.c", by_shard, knock_shard_batch_borrow},
    {"rnic/ep/push.c", by_shard, knock_ep_on_pulled},
    {"rnic/pull.c", by_shard, knock_shard_bar_pulls},
    {"rnic/pull.c", by_shard, knock_shard_await_copies_of},
    {"rnic/qp/doorbell.c", by_shard, knock_qp_on_doorbell},
    {"rnic/qp/waits.c", by_shard, knock_qp_note_state},
    {"rnic/qp/meeting.c", by_shard, knock_meeting_on_doorbell},
    {"rnic/qp/meeting.c", by_shard, knock_meeting_end},
    {"rnic/qp/meeting.c", by_shard, knock_meeting_forget},
    {"rnic/qp/meeting.c", by_shard, knock_meetings_on_deadline},
    {"rnic/point.c", by_shard, knock_point_take},
    {"rnic/reads.c", by_shard, knock_reads_query},
    {"rnic/ep/life.c", by_shard, knock_ep_create},
    {"rnic/ep/life.c", by_shard, knock_ep_doom},
    {"rnic/ep/life.c", by_shard, knock_ep_attach},
    {"rnic/ep/turn.c", by_shard, knock_ep_settle},
    {"rnic/ep/life.c", by_shard, knock_ep_close},
    {"rnic/ep/turn.c", by_shard, knock_ep_on_ready},
    {"rnic/ep/turn.c", by_shard, knock_ep_on_turn},
    {"rnic/ep/turn.c", by_shard, knock_ep_on_deadline},
    {"rnic/ep/turn.c", by_shard, knock_ep_on_doorbell},
    {"cq/cq.c", by_guard, knock_cq_push},
    {"cq/cq.c", by_guard, knock_cq_moderate},
    {"cq/cq.c", by_guard, knock_cq_next_deadline},
    {"cq/cq.c", by_guard, knock_cq_on_deadline},
    {"cq/cq.c", by_guard, knock_cq_resize},
    {"cq/cq.c", by_guard, knock_cq_purge},
    {"cq/cq.c", by_guard, knock_cq_detach},
    {"wq/srq.c", by_guard, knock_srq_claim},
    {"wq/srq.c", by_guard, knock_srq_set_limit},
    {"wq/start.c", by_guard, knock_wq_next},
    {"wq/receive.c", by_guard, knock_wq_receive_claim},
    {"wq/complete.c", by_guard, knock_wq_on_settled},
    {"wq/complete.c", by_guard, knock_wq_flush_sends},
    {"wq/create.c", by_guard, knock_wq_close},
    {"wq/create.c", by_guard, knock_wq_reset},
    {"wq/oneshot.c", by_guard, knock_wq_oneshot_create},
    {"wq/oneshot.c", by_guard, knock_wq_oneshot_revoke},
    {"rnic/post.c", by_cursor, knock_sq_slot},
    {"rnic/post.c", by_cursor, knock_rq_slot},
    {"rnic/post.c", by_cursor, knock_sq_command},
};

/* ---- children: the device is opened in them, so that none is ever forked --------------------- */

static void house_open(struct house *h)
{
    const struct rnic_config config = device_config();
    device_open(&h->device, &config, 0);
    end_init(&h->end, &h->device);
    end_bind(&h->end);
    assert_int_equal(
        rnic_srq_create(h->device.rnic, h->device.pd, 4, 1, &(struct rnic_async_port){0}, &h->srq),
        0);
    h->shard = &h->device.rnic->shard;
}

struct child {
    int status;
    char said[4096];
};

static struct child child_run(void (*act)(struct house *h, unsigned i), unsigned i)
{
    struct child child = {0};
    size_t len = 0;
    ssize_t got;
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct house house;
        setrlimit(RLIMIT_CORE, &(struct rlimit){0});
        signal(SIGABRT, SIG_DFL); // a test program has a handler of its own
        dup2(fds[1], STDERR_FILENO);
        close(fds[0]);
        close(fds[1]);
        house_open(&house);
        act(&house, i);
        _exit(0);
    }
    close(fds[1]);
    while ((got = read(fds[0], child.said + len, sizeof child.said - 1 - len)) > 0) {
        len += (size_t)got;
    }
    close(fds[0]);
    assert_int_equal(waitpid(pid, &child.status, 0), pid);
    return child;
}

static void knock_without(struct house *h, unsigned i)
{
    doors[i].knock(h);
}

static void *hold_for_ever(void *arg)
{
    struct house *h = arg;
    rnic_enter(h->device.rnic);
    for (;;) {
        pause_ms(1000); // its process ends before
    }
    return NULL;
}

static void knock_beside_a_holder(struct house *h, unsigned i)
{
    pthread_t holder;
    pthread_create(&holder, NULL, hold_for_ever, h);
    while (atomic_load(&h->shard->holder) == NULL) {
        pause_ms(1);
    }
    doors[i].knock(h);
}

static void knock_with(struct house *h, unsigned i)
{
    rnic_enter(h->device.rnic);
    knock_shard_serve_doorbells(h);
    knock_shard_next_deadline(h);
    knock_qp_on_doorbell(h);
    knock_reads_query(h);
    knock_cq_purge(h);
    knock_srq_claim(h);
    knock_wq_close(h);
    rnic_leave(h->device.rnic, 0);
}

static void expect_stopped(const struct child *child, unsigned i)
{
    if (!WIFSIGNALED(child->status) || WTERMSIG(child->status) != SIGABRT ||
        strstr(child->said, doors[i].file) == NULL || strstr(child->said, doors[i].words) == NULL) {
        fail_msg("door %u, of %s: status 0x%x, said: %s", i, doors[i].file, child->status,
                 child->said);
    }
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void every_door_without_the_lock_stops_the_process(void **state)
{
    for (unsigned i = 0; i < sizeof doors / sizeof *doors; i++) {
        const struct child child = child_run(knock_without, i);
        expect_stopped(&child, i);
    }
}

static void the_lock_of_another_thread_opens_no_door(void **state)
{
    const struct child child = child_run(knock_beside_a_holder, 0);
    expect_stopped(&child, 0);
}

static void with_the_lock_doors_are_open(void **state)
{
    const struct child child = child_run(knock_with, 0);
    assert_string_equal(child.said, "");
    assert_true(WIFEXITED(child.status));
    assert_int_equal(WEXITSTATUS(child.status), 0);
}

/* ---- time ------------------------------------------------------------------------------------ */

struct watch {
    struct rnic *_Atomic rnic;
    pthread_t poller;
    unsigned with, without; // readings of the poller's, with the lock and without
};

static instant_ns watched_clock(void *ctx)
{
    struct watch *w = ctx;
    if (w->rnic != NULL && pthread_equal(pthread_self(), w->poller)) {
        bool is_held = shard_is_held(&w->rnic->shard);
        w->with += is_held;
        w->without += !is_held;
    }
    return host_clock(NULL);
}

// An instant from before the lock may be older than what was done under it meanwhile: for who is
// behind the lock, time would go back.
static void who_polls_reads_the_clock_behind_the_lock(void **state)
{
    enum { POLLS = 1000 };
    const struct link_socket_config link_config = {.peer_timeout_ns = NS_PER_S};
    struct watch watch = {.poller = pthread_self()};
    struct rnic_parts parts = {
        .config = device_config(),
        .clock = watched_clock,
        .clock_ctx = &watch,
        .is_simulated = true, // no other thread has the lock
    };
    struct device d;
    assert_int_equal(link_socket_create(&link_config, &parts.link), 0);
    device_open_parts(&d, &parts);
    watch.rnic = d.rnic;
    for (unsigned i = 0; i < POLLS; i++) {
        struct cqe cqe;
        assert_int_equal(rnic_cq_poll(d.cq, &cqe, 1), 0);
    }
    watch.rnic = NULL;
    assert_int_equal(watch.with, POLLS);
    assert_int_equal(watch.without, 0);
    device_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_polls_reads_the_clock_behind_the_lock),
        cmocka_unit_test(every_door_without_the_lock_stops_the_process),
        cmocka_unit_test(the_lock_of_another_thread_opens_no_door),
        cmocka_unit_test(with_the_lock_doors_are_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
