#include "node/loop/loop.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/poll_ms.h"
#include "base/system_calls.h"
#include "clock/clock.h"

enum { EVENTS_MAX = 64 };

// So long members have their turns, then descriptors have theirs: longer than most of what is
// looked for takes to come.
static const duration_ns without_events_ns = 50 * NS_PER_US;
static const duration_ns accept_again_after_ns = 100 * NS_PER_MS;

struct loop_watch {
    struct loop *loop;
    int fd;
    void (*on_ready)(void *ctx, uint32_t events);
    void *ctx;
    uint32_t events;
    instant_ns rests_until; // while it is in `resting`
    bool is_dead;           // freed at the end of the turn: events of it may be in hand
    struct list_link link;  // of `resting` or `dead`
};

struct loop {
    int epoll_fd;
    bool is_stopped;
    bool is_pwait2_refused;
    instant_ns now;
    struct list_link members;
    struct list_link *next_member; // of the round under way: a member may leave meanwhile
    struct list_link resting;
    struct list_link dead;
};

instant_ns loop_clock(void)
{
    return clock_now();
}

struct loop *loop_create(void)
{
    struct loop *loop = calloc(1, sizeof *loop);
    if (loop == NULL) {
        return NULL;
    }
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (loop->epoll_fd < 0) {
        free(loop);
        return NULL;
    }
    loop->now = loop_clock();
    list_init(&loop->members);
    list_init(&loop->resting);
    list_init(&loop->dead);
    return loop;
}

static void bury(struct loop *loop)
{
    for (struct list_link *l; (l = list_pop_head(&loop->dead)) != NULL;) {
        free(LIST_ENTRY(l, struct loop_watch, link));
    }
}

void loop_destroy(struct loop *loop)
{
    if (loop != NULL) {
        bury(loop);
        close(loop->epoll_fd);
        free(loop);
    }
}

instant_ns loop_now(const struct loop *loop)
{
    return loop->now;
}

bool loop_give_way(struct lookout *lookout, instant_ns now)
{
    return lookout_turn(lookout, now, loop_clock, sched_yield);
}

void loop_stop(struct loop *loop)
{
    loop->is_stopped = true;
}

/* ---- members --------------------------------------------------------------------------------- */

void loop_join(struct loop *loop, struct loop_member *member)
{
    list_push_tail(&loop->members, &member->link);
}

void loop_leave(struct loop *loop, struct loop_member *member)
{
    if (loop->next_member == &member->link) {
        loop->next_member = member->link.next;
    }
    list_remove(&member->link);
}

// The members one after the other, whoever comes and goes meanwhile.
static struct loop_member *member_first(struct loop *loop)
{
    loop->next_member = loop->members.next;
    return NULL;
}

static struct loop_member *member_next(struct loop *loop)
{
    struct list_link *l = loop->next_member;
    if (l == &loop->members) {
        loop->next_member = NULL;
        return NULL;
    }
    loop->next_member = l->next;
    return LIST_ENTRY(l, struct loop_member, link);
}

/* ---- descriptors ----------------------------------------------------------------------------- */

struct loop_watch *loop_watch(struct loop *loop, int fd, uint32_t events,
                              void (*on_ready)(void *ctx, uint32_t events), void *ctx)
{
    struct loop_watch *watch = calloc(1, sizeof *watch);
    if (watch == NULL) {
        return NULL;
    }
    *watch = (struct loop_watch){
        .loop = loop, .fd = fd, .on_ready = on_ready, .ctx = ctx, .events = events};
    list_init(&watch->link);
    struct epoll_event event = {.events = events, .data.ptr = watch};
    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        free(watch);
        return NULL;
    }
    return watch;
}

static void look_for(struct loop_watch *watch, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = watch};
    epoll_ctl(watch->loop->epoll_fd, EPOLL_CTL_MOD, watch->fd, &event);
}

void loop_watch_change(struct loop_watch *watch, uint32_t events)
{
    watch->events = events;
    if (list_is_empty(&watch->link)) {
        look_for(watch, events);
    }
}

void loop_unwatch(struct loop_watch *watch)
{
    if (watch != NULL) {
        epoll_ctl(watch->loop->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
        watch->is_dead = true;
        list_remove(&watch->link);
        list_push_tail(&watch->loop->dead, &watch->link);
    }
}

/* ---- what cannot be taken now ---------------------------------------------------------------- */

static void rest(struct loop_watch *watch)
{
    look_for(watch, 0);
    watch->rests_until = instant_after(watch->loop->now, accept_again_after_ns);
    list_push_tail(&watch->loop->resting, &watch->link);
}

static bool is_shortage(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

int loop_accept(struct loop_watch *watch)
{
    int fd = accept4(watch->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && is_shortage(errno) && list_is_empty(&watch->link)) {
        rest(watch);
    }
    return fd;
}

static instant_ns rest_ends_at(const struct loop *loop)
{
    instant_ns at = INSTANT_NEVER;
    for (const struct list_link *l = loop->resting.next; l != &loop->resting; l = l->next) {
        at = instant_min(at, LIST_ENTRY(l, struct loop_watch, link)->rests_until);
    }
    return at;
}

static void end_rests(struct loop *loop)
{
    for (struct list_link *l = loop->resting.next, *next; l != &loop->resting; l = next) {
        struct loop_watch *watch = LIST_ENTRY(l, struct loop_watch, link);
        next = l->next;
        if (watch->rests_until <= loop->now) {
            list_remove(&watch->link);
            look_for(watch, watch->events);
        }
    }
}

/* ---- turns ----------------------------------------------------------------------------------- */

static int wait_finely(struct loop *loop, struct epoll_event *events, instant_ns until)
{
    duration_ns left = until <= loop->now ? 0 : until - loop->now;
    struct timespec timeout = {.tv_sec = (time_t)(left / NS_PER_S),
                               .tv_nsec = (long)(left % NS_PER_S)};
    return (int)syscall(CALL_EPOLL_PWAIT2, loop->epoll_fd, events, EVENTS_MAX,
                        until == INSTANT_NEVER ? NULL : &timeout, NULL, 0);
}

static int wait_coarsely(struct loop *loop, struct epoll_event *events, instant_ns until)
{
    return epoll_wait(loop->epoll_fd, events, EVENTS_MAX, poll_ms(loop->now, until));
}

// Kernels before 5.11 count in milliseconds only; filters and emulators of their time answer EPERM
// too. Who has said so once is not asked again: valgrind writes five lines each time.
static int wait_for_events(struct loop *loop, struct epoll_event *events, instant_ns until)
{
    if (!loop->is_pwait2_refused) {
        int count = wait_finely(loop, events, until);
        loop->is_pwait2_refused = count < 0 && (errno == ENOSYS || errno == EPERM);
        if (!loop->is_pwait2_refused) {
            return count;
        }
    }
    return wait_coarsely(loop, events, until);
}

// What the batch produced, and until when there is nothing to do.
static instant_ns batch_end(struct loop *loop)
{
    instant_ns until = rest_ends_at(loop);
    bool may_sleep = true;
    for (struct loop_member *m = member_first(loop); (m = member_next(loop)) != NULL;) {
        if (m->on_batch_end != NULL) {
            m->on_batch_end(m->ctx, loop->now);
        }
    }
    for (struct loop_member *m = member_first(loop); (m = member_next(loop)) != NULL;) {
        may_sleep = may_sleep && (m->may_sleep == NULL || m->may_sleep(m->ctx));
        if (m->next_deadline != NULL) {
            until = instant_min(until, m->next_deadline(m->ctx));
        }
    }
    return may_sleep && !loop->is_stopped ? until : 0;
}

static void wake(struct loop *loop)
{
    for (struct loop_member *m = member_first(loop); (m = member_next(loop)) != NULL;) {
        if (m->on_wake != NULL) {
            m->on_wake(m->ctx);
        }
    }
}

static void dispatch(struct loop *loop, const struct epoll_event *events, int count)
{
    for (int i = 0; i < count; i++) {
        struct loop_watch *watch = events[i].data.ptr;
        if (!watch->is_dead) {
            watch->on_ready(watch->ctx, events[i].events);
        }
    }
    bury(loop);
}

static void meet_deadlines(struct loop *loop)
{
    for (struct loop_member *m = member_first(loop); (m = member_next(loop)) != NULL;) {
        if (m->next_deadline != NULL && m->next_deadline(m->ctx) <= loop->now) {
            m->on_deadline(m->ctx, loop->now);
        }
    }
}

// Members that have work meanwhile do it without the kernel being asked what else there is.
static instant_ns batches_end(struct loop *loop)
{
    instant_ns until = batch_end(loop), begun = loop->now;
    while (until == 0 && !loop->is_stopped && loop->now < instant_after(begun, without_events_ns)) {
        loop->now = loop_clock();
        wake(loop);
        until = batch_end(loop);
    }
    return until;
}

int loop_run(struct loop *loop)
{
    struct epoll_event events[EVENTS_MAX];
    loop->is_stopped = false;
    loop->now = loop_clock();
    while (!loop->is_stopped) {
        instant_ns until = batches_end(loop);
        int count = wait_for_events(loop, events, until);
        if (count < 0 && errno != EINTR) {
            return -errno;
        }
        loop->now = loop_clock();
        wake(loop);
        dispatch(loop, events, count);
        if (until <= loop->now) {
            meet_deadlines(loop);
            end_rests(loop);
        }
    }
    return 0;
}
