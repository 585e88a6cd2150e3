// epoll(7) over sockets and descriptors of the kernel's at once: repoll_create and its relatives,
// newer than rdma-core 64. A set has the number of one of the kernel's, which takes what the kernel
// knows; sockets stand in a list, which rpoll looks at together with that set. Sockets are told of
// for as long as something is there (EPOLLET as if it were not given), what the kernel knows as it
// does.
//
// One lock is over all sets. Nobody waits with it held.

#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"
#include "descriptor/descriptor.h"
#include "rsocket/kernel_epoll.h"
#include "rsocket/rsocket.h"

// Those that poll() has by the same number.
enum { EPOLL_POLL_EVENTS = EPOLLIN | EPOLLPRI | EPOLLOUT | EPOLLRDHUP | EPOLLRDNORM | EPOLLWRNORM };
STATIC_CHECK(EPOLLIN == POLLIN && EPOLLOUT == POLLOUT && EPOLLERR == POLLERR &&
             EPOLLHUP == POLLHUP && EPOLLRDHUP == POLLRDHUP && EPOLLRDNORM == POLLRDNORM &&
             EPOLLWRNORM == POLLWRNORM);

// A socket of a set.
struct interest {
    int fd;
    bool is_told; // and wanted that once: it is left alone until asked for anew
    struct epoll_event event;
};

struct set {
    struct list_link link;
    int fd;   // the kernel's set
    int bell; // readable: what is watched has changed, and not everybody has heard
    bool is_closing;
    unsigned change_count;
    unsigned waiting_count, deaf_count; // threads in repoll_wait; those that have not heard
    struct interest *interests;
    unsigned count, room;
    unsigned first; // who is told first the next time, so that nobody starves: 0 is the kernel
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t all_left = PTHREAD_COND_INITIALIZER;
static struct list_link sets = {&sets, &sets};
static struct list_link left = {&left, &left}; // by forks: a parent's sets are not the child's

/* ---- sets by their numbers; lock held -------------------------------------------------------- */

static void after_fork_in_child(void)
{
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&all_left, NULL);
    for (struct list_link *l; (l = list_pop_head(&sets)) != NULL;) {
        list_push_tail(&left, l);
    }
}

static void hook_install(void)
{
    pthread_atfork(NULL, NULL, after_fork_in_child);
}

static struct set *find(int fd)
{
    for (struct list_link *l = sets.next; l != &sets; l = l->next) {
        struct set *set = LIST_ENTRY(l, struct set, link);
        if (set->fd == fd && !set->is_closing) {
            return set;
        }
    }
    return NULL;
}

// Locked; NULL with errno, and not.
static struct set *enter(int fd)
{
    pthread_mutex_lock(&lock);
    struct set *set = find(fd);
    if (set == NULL) {
        pthread_mutex_unlock(&lock);
        errno = fcntl(fd, F_GETFD) < 0 ? EBADF : EINVAL;
    }
    return set;
}

// What is watched has changed: whoever waits is to look again.
static void ring(struct set *set)
{
    uint64_t one = 1;
    set->change_count++;
    set->deaf_count = set->waiting_count;
    if (set->deaf_count > 0) {
        (void)!write(set->bell, &one, sizeof one);
    }
}

// Whoever is the last to hear lets it fall silent.
static void hear(struct set *set)
{
    uint64_t count;
    if (--set->deaf_count == 0) {
        (void)!read(set->bell, &count, sizeof count);
    }
}

/* ---- creation and end ------------------------------------------------------------------------ */

static void set_free(struct set *set)
{
    close(set->fd);
    if (set->bell >= 0) {
        close(set->bell);
    }
    free(set->interests);
    free(set);
}

int repoll_create(int flags)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, hook_install);
    int fd = descriptor_above_standard(kernel_epoll_create(flags));
    struct set *set = fd >= 0 ? calloc(1, sizeof *set) : NULL;
    if (set == NULL) {
        if (fd >= 0) {
            close(fd);
        }
        return -1;
    }
    set->fd = fd;
    set->bell = descriptor_above_standard(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (set->bell < 0) {
        int saved = errno;
        set_free(set);
        return rs_fail(saved);
    }
    pthread_mutex_lock(&lock);
    list_push_tail(&sets, &set->link);
    pthread_mutex_unlock(&lock);
    return fd;
}

int rs_epoll_close(int fd)
{
    struct set *set = enter(fd);
    if (set == NULL) {
        return rs_fail(EBADF);
    }
    set->is_closing = true;
    ring(set);
    while (set->waiting_count > 0) {
        pthread_cond_wait(&all_left, &lock);
    }
    list_remove(&set->link);
    pthread_mutex_unlock(&lock);
    set_free(set);
    return 0;
}

/* ---- what is watched; lock held -------------------------------------------------------------- */

static struct interest *interest_of(const struct set *set, int fd)
{
    for (unsigned i = 0; i < set->count; i++) {
        if (set->interests[i].fd == fd) {
            return &set->interests[i];
        }
    }
    return NULL;
}

static int add(struct set *set, int fd, const struct epoll_event *event)
{
    if (interest_of(set, fd) != NULL) {
        return rs_fail(EEXIST);
    }
    if (set->count == set->room) {
        unsigned room = set->room > 0 ? 2 * set->room : 8;
        struct interest *grown = realloc(set->interests, room * sizeof *grown);
        if (grown == NULL) {
            return rs_fail(ENOMEM);
        }
        set->interests = grown;
        set->room = room;
    }
    set->interests[set->count++] = (struct interest){.fd = fd, .event = *event};
    return 0;
}

static void drop(struct set *set, struct interest *interest)
{
    *interest = set->interests[--set->count];
}

static int change(struct set *set, int op, int fd, const struct epoll_event *event)
{
    if (op == EPOLL_CTL_ADD) {
        return add(set, fd, event);
    }
    struct interest *interest = interest_of(set, fd);
    if (interest == NULL) {
        return rs_fail(ENOENT);
    }
    if (op == EPOLL_CTL_DEL) {
        drop(set, interest);
    } else {
        *interest = (struct interest){.fd = fd, .event = *event};
    }
    return 0;
}

void rs_epoll_forget(int fd)
{
    pthread_mutex_lock(&lock);
    for (struct list_link *l = sets.next; l != &sets; l = l->next) {
        struct set *set = LIST_ENTRY(l, struct set, link);
        struct interest *interest = interest_of(set, fd);
        if (interest != NULL) {
            drop(set, interest);
            ring(set);
        }
    }
    pthread_mutex_unlock(&lock);
}

int repoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
    if (op != EPOLL_CTL_ADD && op != EPOLL_CTL_MOD && op != EPOLL_CTL_DEL) {
        return rs_fail(EINVAL);
    }
    if (op != EPOLL_CTL_DEL && event == NULL) {
        return rs_fail(EFAULT);
    }
    struct rs *rs = rs_lookup(fd); // held: it does not end before it stands in the list
    struct set *set = enter(epfd);
    int result = -1;
    if (set != NULL && find(fd) != NULL) {
        errno = EINVAL; // the kernel would not hear of that one's sockets
    } else if (set != NULL) {
        result = rs != NULL ? change(set, op, fd, event) : kernel_epoll_ctl(epfd, op, fd, event);
    }
    if (result == 0) {
        ring(set);
    }
    if (set != NULL) {
        pthread_mutex_unlock(&lock);
    }
    if (rs != NULL) {
        rs_release(rs);
    }
    return result;
}

/* ---- waiting --------------------------------------------------------------------------------- */

enum { AT_KERNEL, AT_BELL, AT_SOCKETS };

// Lock held. What rpoll is to look at, in `fds` of `room`; how many, or more than there is room
// for.
static unsigned list_of(const struct set *set, struct pollfd *fds, unsigned room)
{
    unsigned count = AT_SOCKETS + set->count;
    if (count <= room) {
        fds[AT_KERNEL] = (struct pollfd){.fd = set->fd, .events = POLLIN};
        fds[AT_BELL] = (struct pollfd){.fd = set->bell, .events = POLLIN};
        for (unsigned i = 0; i < set->count; i++) {
            const struct interest *interest = &set->interests[i];
            fds[AT_SOCKETS + i] =
                (struct pollfd){.fd = interest->is_told ? -1 : interest->fd,
                                .events = (short)(interest->event.events & EPOLL_POLL_EVENTS)};
        }
    }
    return count;
}

static bool tell(struct interest *interest, short revents, struct epoll_event *event)
{
    if (revents == 0 || interest->is_told) {
        return false;
    }
    *event = (struct epoll_event){.events = (uint32_t)revents, .data = interest->event.data};
    interest->is_told = (interest->event.events & EPOLLONESHOT) != 0;
    return true;
}

// Lock held; `fds` are those of the set as it is. How many events; -1 with errno.
static int collect(struct set *set, const struct pollfd *fds, struct epoll_event *events, int max)
{
    int found = 0;
    unsigned places = 1 + set->count;
    unsigned first = set->first % places;
    for (unsigned i = 0; i < places && found < max; i++) {
        unsigned at = (first + i) % places;
        if (at > 0) {
            short revents = fds[AT_SOCKETS + at - 1].revents;
            found += tell(&set->interests[at - 1], revents, &events[found]);
        } else if (fds[AT_KERNEL].revents != 0) {
            int more = kernel_epoll_look(set->fd, events + found, max - found);
            if (more < 0) {
                return found > 0 ? found : -1;
            }
            found += more;
        }
        set->first = at + 1;
    }
    return found;
}

// Lock held; let go of meanwhile. How many events, 0 also for a change of what is watched; -1 with
// errno.
static int wait_once(struct set *set, struct epoll_event *events, int max, int timeout_ms)
{
    enum { FEW = 16 };
    struct pollfd few[FEW], *fds = few;
    unsigned count = list_of(set, few, FEW);
    if (count > FEW) {
        fds = malloc(count * sizeof *fds);
        if (fds == NULL) {
            return rs_fail(ENOMEM);
        }
        list_of(set, fds, count);
    }
    unsigned changes_known = set->change_count;
    pthread_mutex_unlock(&lock);
    int result = rpoll(fds, count, timeout_ms);
    int saved = errno;
    pthread_mutex_lock(&lock);
    if (set->change_count != changes_known) {
        hear(set);
        result = 0; // what was found may be of a socket that is no more
    } else if (result > 0) {
        result = collect(set, fds, events, max);
        saved = errno;
    }
    if (fds != few) {
        free(fds);
    }
    errno = saved;
    return result;
}

int repoll_wait(int epfd, struct epoll_event *events, int maxevents, int timeout)
{
    if (maxevents <= 0 || events == NULL) {
        return rs_fail(maxevents <= 0 ? EINVAL : EFAULT);
    }
    struct set *set = enter(epfd);
    if (set == NULL) {
        return -1;
    }
    const int64_t until_ns = rs_until_ns(timeout);
    bool is_over = false;
    int result;
    set->waiting_count++;
    do {
        int left_ms = rs_left_ms(until_ns);
        unsigned changes_known = set->change_count;
        result = wait_once(set, events, maxevents, left_ms);
        is_over = left_ms == 0 && set->change_count == changes_known;
    } while (result == 0 && !is_over && !set->is_closing);
    int saved = set->is_closing && result == 0 ? EBADF : errno;
    if (set->is_closing && result == 0) {
        result = -1;
    }
    if (--set->waiting_count == 0) {
        pthread_cond_broadcast(&all_left);
    }
    pthread_mutex_unlock(&lock);
    errno = saved;
    return result;
}
