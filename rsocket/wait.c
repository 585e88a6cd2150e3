// Waiting for sockets. A thread that sleeps does so in poll(), on the descriptors that the kernel
// knows and on one of its own: what one thread takes from a socket's descriptors may be what
// another one waits for, so who moves a socket on wakes all that sleep for it.

#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/time.h"
#include "descriptor/descriptor.h"
#include "rsocket/rsocket.h"

struct sleeper {
    struct list_link link; // in the socket's waiters
    int wake_fd;
};

/* ---- a descriptor for each thread ------------------------------------------------------------ */

static pthread_key_t wake_key;

// In the key: the descriptor and the generation of the process, since a child must not use its
// parent's.
struct wake {
    int fd;
    unsigned generation;
};

static void wake_free(void *value)
{
    struct wake *wake = value;
    close(wake->fd);
    free(wake);
}

static void wake_key_create(void)
{
    pthread_key_create(&wake_key, wake_free);
}

// -1 with errno.
static int wake_fd(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, wake_key_create);
    struct wake *wake = pthread_getspecific(wake_key);
    if (wake != NULL && wake->generation == rs_generation()) {
        return wake->fd;
    }
    struct wake *fresh = malloc(sizeof *fresh);
    int fd = fresh != NULL ? descriptor_above_standard(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) : -1;
    if (fd < 0) {
        free(fresh);
        return -1;
    }
    if (wake != NULL) {
        wake_free(wake);
    }
    *fresh = (struct wake){.fd = fd, .generation = rs_generation()};
    pthread_setspecific(wake_key, fresh);
    return fd;
}

static void wake_drain(int fd)
{
    uint64_t count;
    (void)!read(fd, &count, sizeof count);
}

void rs_wake(struct rs *rs)
{
    uint64_t one = 1;
    for (struct list_link *l = rs->waiters.next; l != &rs->waiters; l = l->next) {
        (void)!write(LIST_ENTRY(l, struct sleeper, link)->wake_fd, &one, sizeof one);
    }
}

/* ---- one socket ------------------------------------------------------------------------------ */

// Its data flow, or have flowed, so that the CQ tells what happens.
static bool has_stream(const struct rs *rs)
{
    return rs->state == RS_CONNECTED || rs->state == RS_DISCONNECTED || rs->state == RS_BROKEN;
}

// Its CQs tell what happens.
static bool has_queue_pair(const struct rs *rs)
{
    return rs_is_datagram(rs) || has_stream(rs);
}

bool rs_progress(struct rs *rs)
{
    bool moved = false;
    rs->has_more = false;
    if (rs_is_datagram(rs)) {
        moved = rs_datagrams_progress(rs);
    }
    if (rs_is_starting(rs)) {
        moved = rs_startup_progress(rs);
    }
    if (has_stream(rs)) {
        moved = rs_stream_progress(rs) || moved;
    }
    if (moved) {
        rs_wake(rs);
    }
    return moved;
}

static bool arm(struct rs *rs)
{
    return rs_is_datagram(rs) ? rs_datagrams_arm(rs) : rs_stream_arm(rs);
}

// True: who sleeps for it must arm it anew.
static bool take_events(struct rs *rs)
{
    if (rs_is_datagram(rs)) {
        return rs_datagrams_take_events(rs);
    }
    bool was_armed = rs->is_armed;
    if (was_armed) {
        rs_stream_take_event(rs);
    }
    return was_armed && !rs->is_armed;
}

static int fd_of(const struct rs *rs)
{
    if (rs_is_datagram(rs)) {
        return rs_datagrams_fd(rs);
    }
    return has_stream(rs) ? rs->id->recv_cq_channel->fd : rs->fd;
}

// Lock held. Arranges that something becomes readable when the socket moves; the descriptor, or -1:
// it has moved already.
static int sleep_begin(struct rs *rs, struct sleeper *sleeper, int fd)
{
    sleeper->wake_fd = fd;
    list_push_tail(&rs->waiters, &sleeper->link);
    if (has_queue_pair(rs) && (arm(rs) || rs->has_more) && rs_progress(rs)) {
        return -1;
    }
    return fd_of(rs);
}

// Lock held.
static void sleep_end(struct rs *rs, struct sleeper *sleeper)
{
    list_remove(&sleeper->link);
    if (has_queue_pair(rs) && take_events(rs)) {
        rs_wake(rs); // who sleeps on the same event must arm anew: we may not come back to it
    }
}

static bool spin_until(struct rs *rs, bool (*is_met)(const struct rs *rs))
{
    int64_t until_ns = rs_now_ns() + rs_defaults()->spin_ns;
    do {
        rs_progress(rs);
        if (is_met(rs)) {
            return true;
        }
    } while (has_queue_pair(rs) && rs_now_ns() < until_ns);
    return false;
}

static const int64_t never_ns = INT64_MAX;

int64_t rs_until_ns(int timeout_ms)
{
    return timeout_ms < 0 ? never_ns : rs_now_ns() + timeout_ms * (int64_t)NS_PER_MS;
}

int rs_left_ms(int64_t until_ns)
{
    const int64_t left_ns = until_ns - rs_now_ns();
    if (until_ns == never_ns) {
        return -1;
    }
    const int64_t left = left_ns > 0 ? left_ns / (int64_t)NS_PER_MS + 1 : 0;
    return left < INT_MAX ? (int)left : INT_MAX;
}

// Lock held; let go of meanwhile. -1 with errno.
static int sleep_once(struct rs *rs, int64_t until_ns)
{
    int own = wake_fd();
    if (own < 0) {
        return -1;
    }
    struct sleeper sleeper;
    int result = 0;
    int fd = sleep_begin(rs, &sleeper, own);
    if (fd >= 0) {
        struct pollfd fds[] = {{.fd = fd, .events = POLLIN}, {.fd = own, .events = POLLIN}};
        pthread_mutex_unlock(&rs->lock);
        result = poll(fds, 2, rs_left_ms(until_ns)) < 0 ? -1 : 0;
        pthread_mutex_lock(&rs->lock);
    }
    wake_drain(own);
    int saved = errno;
    sleep_end(rs, &sleeper);
    errno = saved;
    return result;
}

// Where `until_ns` is 0 nothing is waited for at all.
static int wait_for(struct rs *rs, int64_t until_ns, bool (*is_met)(const struct rs *rs))
{
    for (;;) {
        rs_progress(rs);
        if (is_met(rs)) {
            return 0;
        }
        if (rs->is_closing) {
            return rs_fail(EBADF);
        }
        if (until_ns != never_ns && rs_now_ns() >= until_ns) {
            return rs_fail(until_ns == 0 ? EAGAIN : ETIMEDOUT);
        }
        if (spin_until(rs, is_met)) {
            return 0;
        }
        if (sleep_once(rs, until_ns) != 0) {
            return -1;
        }
    }
}

int rs_wait_until(struct rs *rs, bool is_nonblocking, bool (*is_met)(const struct rs *rs))
{
    return wait_for(rs, is_nonblocking ? 0 : never_ns, is_met);
}

int rs_wait_within(struct rs *rs, int64_t until_ns, bool (*is_met)(const struct rs *rs))
{
    return wait_for(rs, until_ns, is_met);
}

/* ---- what calls wait for --------------------------------------------------------------------- */

static bool is_not_starting(const struct rs *rs)
{
    return !rs_is_starting(rs);
}

int rs_await_connected(struct rs *rs, bool is_nonblocking)
{
    if (rs_is_starting(rs) && rs_wait_until(rs, is_nonblocking, is_not_starting) != 0) {
        return -1;
    }
    switch (rs->state) {
    case RS_CONNECTED:
    case RS_DISCONNECTED:
    case RS_BROKEN:
        return 0;
    case RS_FAILED:
        return rs_fail(rs->error != 0 ? rs->error : ENOTCONN);
    default:
        return rs_fail(ENOTCONN);
    }
}

static bool may_send_or_over(const struct rs *rs)
{
    return rs->state != RS_CONNECTED || !rs->may_write || rs_stream_may_send(rs);
}

int rs_await_sendable(struct rs *rs, bool is_nonblocking)
{
    if (rs_stream_may_send(rs)) {
        return 0;
    }
    if (rs_wait_until(rs, is_nonblocking, may_send_or_over) != 0) {
        return -1;
    }
    return rs_stream_may_send(rs) ? 0 : rs_fail(rs->may_write ? ECONNRESET : EPIPE);
}

/* ---- many ------------------------------------------------------------------------------------ */

// Who reads is told of the end when there is nothing left to read: some take POLLHUP for a failure.
static short stream_events(const struct rs *rs, short asked)
{
    bool is_open = rs->state == RS_CONNECTED;
    bool has_rest = rs->state == RS_DISCONNECTED && rs->rx.ready_len > 0 &&
                    (asked & (POLLIN | POLLRDNORM)) != 0;
    short events = 0;
    if (rs->rx.ready_len > 0) {
        events |= POLLIN;
    }
    if (!is_open || !rs->may_read) {
        events |= POLLIN | POLLRDHUP;
    }
    if (rs_stream_may_send(rs)) {
        events |= POLLOUT;
    }
    if (!is_open && !has_rest) {
        events |= rs->state == RS_DISCONNECTED ? POLLHUP : POLLERR;
    }
    return events;
}

// Lock held. What poll() would say of the socket to who asks for these.
static short events_of(struct rs *rs, short asked)
{
    if (rs->is_closing) {
        return POLLNVAL;
    }
    if (rs->state == RS_LISTENING) {
        struct pollfd request = {.fd = rs->fd, .events = POLLIN};
        return poll(&request, 1, 0) == 1 ? POLLIN : 0;
    }
    rs_progress(rs);
    if (rs_is_datagram(rs)) {
        return rs_datagrams_events(rs);
    }
    if (rs->state == RS_FAILED) {
        return POLLIN | POLLOUT | POLLERR;
    }
    return has_stream(rs) ? stream_events(rs, asked) : 0;
}

// One element of rpoll's list.
struct watched {
    struct rs *rs; // NULL: a descriptor of the kernel's
    struct sleeper sleeper;
};

struct watch {
    struct pollfd *fds; // the program's
    nfds_t count;
    struct watched *watched;
    struct pollfd *kernel_fds; // the same in the kernel's terms, and our own
};

// What is told of a socket, of what was asked for. There is normal data alone.
static short wanted(const struct pollfd *fd, short events)
{
    events |= (short)((events & POLLIN ? POLLRDNORM : 0) | (events & POLLOUT ? POLLWRNORM : 0));
    return events & (fd->events | POLLERR | POLLHUP | POLLNVAL);
}

// How many of the program's descriptors have something to tell now; -1 with errno.
static int watch_check(struct watch *w)
{
    int ready = 0;
    for (nfds_t i = 0; i < w->count; i++) {
        w->kernel_fds[i] = w->fds[i];
        if (w->watched[i].rs != NULL) {
            w->kernel_fds[i].fd = -1;
        }
    }
    if (poll(w->kernel_fds, w->count, 0) < 0) {
        return -1;
    }
    for (nfds_t i = 0; i < w->count; i++) {
        struct rs *rs = w->watched[i].rs;
        w->fds[i].revents = w->kernel_fds[i].revents;
        if (rs != NULL) {
            pthread_mutex_lock(&rs->lock);
            w->fds[i].revents = wanted(&w->fds[i], events_of(rs, w->fds[i].events));
            pthread_mutex_unlock(&rs->lock);
        }
        ready += w->fds[i].revents != 0;
    }
    return ready;
}

// False: something has moved meanwhile, so that there is no need to sleep.
static bool watch_begin(struct watch *w, int own)
{
    bool is_quiet = true;
    w->kernel_fds[w->count] = (struct pollfd){.fd = own, .events = POLLIN};
    for (nfds_t i = 0; i < w->count; i++) {
        struct rs *rs = w->watched[i].rs;
        if (rs == NULL) {
            continue;
        }
        pthread_mutex_lock(&rs->lock);
        int fd = sleep_begin(rs, &w->watched[i].sleeper, own);
        // Something may have moved it between the check and now, and found nobody to wake.
        is_quiet = is_quiet && fd >= 0 && wanted(&w->fds[i], events_of(rs, w->fds[i].events)) == 0;
        pthread_mutex_unlock(&rs->lock);
        w->kernel_fds[i] = (struct pollfd){.fd = fd, .events = POLLIN};
    }
    return is_quiet;
}

static void watch_end(struct watch *w)
{
    for (nfds_t i = 0; i < w->count; i++) {
        struct rs *rs = w->watched[i].rs;
        if (rs != NULL) {
            pthread_mutex_lock(&rs->lock);
            sleep_end(rs, &w->watched[i].sleeper);
            pthread_mutex_unlock(&rs->lock);
        }
    }
}

static int watch_wait(struct watch *w, int timeout_ms)
{
    const int64_t until_ns = rs_until_ns(timeout_ms);
    for (;;) {
        int ready = watch_check(w);
        int left = rs_left_ms(until_ns);
        if (ready != 0 || left == 0) {
            return ready;
        }
        int own = wake_fd();
        if (own < 0) {
            return -1;
        }
        int result = watch_begin(w, own) ? poll(w->kernel_fds, w->count + 1, left) : 0;
        int saved = errno;
        wake_drain(own);
        watch_end(w);
        if (result < 0) {
            return rs_fail(saved);
        }
    }
}

int rpoll(struct pollfd *fds, nfds_t nfds, int timeout)
{
    enum { FEW = 8 };
    struct watched few_watched[FEW];
    struct pollfd few_fds[FEW + 1];
    struct watch w = {.fds = fds, .count = nfds, .watched = few_watched, .kernel_fds = few_fds};
    void *memory = NULL;
    if (nfds > FEW) {
        size_t watched_len = nfds * sizeof *w.watched;
        memory =
            nfds < SIZE_MAX / 256 ? malloc(watched_len + (nfds + 1) * sizeof *w.kernel_fds) : NULL;
        if (memory == NULL) {
            return rs_fail(ENOMEM);
        }
        w.watched = memory;
        w.kernel_fds = (struct pollfd *)((char *)memory + watched_len);
    }
    for (nfds_t i = 0; i < nfds; i++) {
        w.watched[i].rs = rs_lookup(fds[i].fd);
    }
    int result = watch_wait(&w, timeout);
    int saved = errno;
    for (nfds_t i = 0; i < nfds; i++) {
        if (w.watched[i].rs != NULL) {
            rs_release(w.watched[i].rs);
        }
    }
    free(memory);
    errno = saved;
    return result;
}

/* ---- rselect --------------------------------------------------------------------------------- */

// The sets that select() has, and what poll() calls them.
static const struct {
    short asked, answered;
} set_events[] = {
    {POLLIN, POLLIN | POLLHUP | POLLERR},
    {POLLOUT, POLLOUT | POLLERR},
    {0, POLLPRI | POLLERR},
};

static nfds_t sets_to_poll(int nfds, fd_set *const sets[3], struct pollfd *fds)
{
    nfds_t count = 0;
    for (int fd = 0; fd < nfds; fd++) {
        bool is_asked = false;
        fds[count] = (struct pollfd){.fd = fd};
        for (unsigned s = 0; s < 3; s++) {
            if (sets[s] != NULL && FD_ISSET(fd, sets[s])) {
                fds[count].events |= set_events[s].asked;
                is_asked = true;
            }
        }
        count += is_asked;
    }
    return count;
}

// select() has no name for it in a set: it fails.
static bool has_closed_one(const struct pollfd *fds, nfds_t count)
{
    for (nfds_t i = 0; i < count; i++) {
        if ((fds[i].revents & POLLNVAL) != 0) {
            return true;
        }
    }
    return false;
}

static int poll_to_sets(const struct pollfd *fds, nfds_t count, fd_set *const sets[3],
                        fd_set *const asked[3])
{
    int found = 0;
    for (nfds_t i = 0; i < count; i++) {
        for (unsigned s = 0; s < 3; s++) {
            if (sets[s] != NULL && FD_ISSET(fds[i].fd, asked[s]) &&
                (fds[i].revents & set_events[s].answered) != 0) {
                FD_SET(fds[i].fd, sets[s]);
                found++;
            }
        }
    }
    return found;
}

// In milliseconds, not before it; of what an int does not hold, as much as it does. -1: for ever.
static int timeout_of(const struct timeval *timeout)
{
    enum { SECONDS_MAX = INT_MAX / 1000 - 1 };
    if (timeout == NULL) {
        return -1;
    }
    int64_t seconds = timeout->tv_sec + timeout->tv_usec / 1000000;
    return seconds > SECONDS_MAX
               ? INT_MAX
               : (int)(seconds * 1000 + (timeout->tv_usec % 1000000 + 999) / 1000);
}

int rselect(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds, struct timeval *timeout)
{
    fd_set *const sets[3] = {readfds, writefds, exceptfds};
    fd_set copies[3];
    fd_set *const asked[3] = {&copies[0], &copies[1], &copies[2]};
    bool is_past = timeout != NULL && (timeout->tv_sec < 0 || timeout->tv_usec < 0);
    if (nfds < 0 || nfds > FD_SETSIZE || is_past) {
        return rs_fail(EINVAL);
    }
    struct pollfd *fds = calloc((size_t)nfds + 1, sizeof *fds);
    if (fds == NULL) {
        return rs_fail(ENOMEM);
    }
    nfds_t count = sets_to_poll(nfds, sets, fds);
    int result = rpoll(fds, count, timeout_of(timeout));
    if (result > 0 && has_closed_one(fds, count)) {
        result = rs_fail(EBADF);
    }
    for (unsigned s = 0; s < 3 && result >= 0; s++) {
        if (sets[s] != NULL) {
            copies[s] = *sets[s];
            FD_ZERO(sets[s]);
        }
    }
    if (result > 0) {
        result = poll_to_sets(fds, count, sets, asked);
    }
    free(fds);
    return result;
}
