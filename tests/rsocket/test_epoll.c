// repoll_create and its relatives: what a set tells of sockets and of the kernel's descriptors,
// when it wakes, and what it refuses.
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rsocket/pair.h"

// Of <rdma/rsocket.h> newer than rdma-core 64.
int repoll_create(int flags);
int repoll_ctl(int epfd, int op, int fd, struct epoll_event *event);
int repoll_wait(int epfd, struct epoll_event *events, int maxevents, int timeout);

enum { SOON_US = 50000 };

#define assert_refused(call, error)      \
    do {                                 \
        errno = 0;                       \
        assert_int_equal((int)call, -1); \
        assert_int_equal(errno, error);  \
    } while (0)

static struct pair p;
static int set;

static int open_set(void **state)
{
    pair_open(&p);
    set = repoll_create(EPOLL_CLOEXEC);
    assert_true(set >= 0);
    return 0;
}

static int close_set(void **state)
{
    assert_int_equal(rclose(set), 0);
    pair_close(&p);
    return 0;
}

static void watch(int op, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.fd = fd};
    assert_int_equal(repoll_ctl(set, op, fd, &event), 0);
}

// One event, of that descriptor.
static void assert_told(int fd, uint32_t events)
{
    struct epoll_event event = {0};
    assert_int_equal(repoll_wait(set, &event, 1, PATIENCE_MS), 1);
    assert_int_equal(event.data.fd, fd);
    assert_int_equal(event.events, events);
}

static void assert_silent(void)
{
    struct epoll_event event;
    assert_int_equal(repoll_wait(set, &event, 1, 0), 0);
    assert_int_equal(repoll_wait(set, &event, 1, 20), 0);
}

static void read_octet(int fd)
{
    char octet;
    assert_int_equal(rrecv(fd, &octet, 1, 0), 1);
}

/* ---- what is told ---------------------------------------------------------------------------- */

static void a_socket_is_told_of_until_it_is_read(void **state)
{
    watch(EPOLL_CTL_ADD, p.passive, EPOLLIN);
    assert_silent();
    assert_int_equal(rsend(p.active, "x", 1, 0), 1);
    assert_told(p.passive, EPOLLIN);
    assert_told(p.passive, EPOLLIN);
    read_octet(p.passive);
    assert_silent();
}

static void a_socket_is_told_of_as_was_asked_for_last(void **state)
{
    watch(EPOLL_CTL_ADD, p.active, EPOLLIN);
    assert_silent();
    watch(EPOLL_CTL_MOD, p.active, EPOLLIN | EPOLLOUT);
    assert_told(p.active, EPOLLOUT);
    assert_int_equal(repoll_ctl(set, EPOLL_CTL_DEL, p.active, NULL), 0);
    assert_silent();
}

static void who_wants_to_be_told_once_asks_anew(void **state)
{
    watch(EPOLL_CTL_ADD, p.active, EPOLLOUT | EPOLLONESHOT);
    assert_told(p.active, EPOLLOUT);
    assert_silent();
    watch(EPOLL_CTL_MOD, p.active, EPOLLOUT | EPOLLONESHOT);
    assert_told(p.active, EPOLLOUT);
}

static void an_end_is_told_without_being_asked_for(void **state)
{
    watch(EPOLL_CTL_ADD, p.passive, 0);
    assert_silent();
    assert_int_equal(rshutdown(p.active, SHUT_RDWR), 0);
    assert_told(p.passive, EPOLLHUP);
}

// The kernel's are told of as epoll(7) does: at the edge here.
static void descriptors_of_the_kernel_are_in_it_too(void **state)
{
    int pipe_fds[2];
    assert_int_equal(pipe(pipe_fds), 0);
    watch(EPOLL_CTL_ADD, pipe_fds[0], EPOLLIN | EPOLLET);
    assert_silent();
    assert_int_equal(write(pipe_fds[1], "x", 1), 1);
    assert_told(pipe_fds[0], EPOLLIN);
    assert_silent();
    close(pipe_fds[0]);
    close(pipe_fds[1]);
}

// With room for one, each has its turn.
static void nobody_starves(void **state)
{
    int pipe_fds[2], times[3] = {0};
    assert_int_equal(pipe(pipe_fds), 0);
    const int fds[] = {p.active, p.passive, pipe_fds[1]};
    for (unsigned i = 0; i < 3; i++) {
        watch(EPOLL_CTL_ADD, fds[i], EPOLLOUT);
    }
    struct epoll_event events[4];
    while (repoll_wait(set, events, 4, PATIENCE_MS) < 3) {
        usleep(1000); // the passive end is not ready at once
    }
    for (unsigned turn = 0; turn < 6; turn++) {
        struct epoll_event event;
        assert_int_equal(repoll_wait(set, &event, 1, PATIENCE_MS), 1);
        for (unsigned i = 0; i < 3; i++) {
            times[i] += event.data.fd == fds[i];
        }
    }
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(times[i], 2);
    }
    close(pipe_fds[0]);
    close(pipe_fds[1]);
}

static void many_sockets_are_in_it(void **state)
{
    enum { COUNT = 40 };
    int fds[COUNT];
    for (unsigned i = 0; i < COUNT; i++) {
        fds[i] = rsocket(AF_INET, SOCK_STREAM, 0);
        assert_true(fds[i] >= 0);
        watch(EPOLL_CTL_ADD, fds[i], EPOLLIN);
    }
    watch(EPOLL_CTL_ADD, p.active, EPOLLOUT);
    assert_told(p.active, EPOLLOUT);
    for (unsigned i = 0; i < COUNT; i++) {
        assert_int_equal(rclose(fds[i]), 0);
    }
}

/* ---- sockets that go ------------------------------------------------------------------------- */

// A socket by that number. Lower ones may be free too, where a device has ended since: sockets of
// nobody fill them meanwhile.
static int socket_by_number(int fd)
{
    enum { COUNT = 64 };
    int fillers[COUNT];
    unsigned count = 0;
    int next = rsocket(AF_INET, SOCK_STREAM, 0);
    while (next >= 0 && next < fd && count < COUNT) {
        fillers[count++] = next;
        next = rsocket(AF_INET, SOCK_STREAM, 0);
    }
    while (count > 0) {
        assert_int_equal(rclose(fillers[--count]), 0);
    }
    return next;
}

// As the kernel does. What has its number next is another socket.
static void a_closed_socket_is_in_no_set(void **state)
{
    int fd = rsocket(AF_INET, SOCK_STREAM, 0);
    watch(EPOLL_CTL_ADD, fd, EPOLLIN);
    assert_int_equal(rclose(fd), 0);
    assert_silent();
    int next = socket_by_number(fd);
    assert_int_equal(next, fd);
    watch(EPOLL_CTL_ADD, next, EPOLLIN);
    assert_int_equal(rclose(next), 0);
}

static void a_child_has_none_of_its_parents_sets(void **state)
{
    watch(EPOLL_CTL_ADD, p.active, EPOLLOUT);
    pid_t child = fork();
    if (child == 0) {
        struct epoll_event event;
        _exit(repoll_wait(set, &event, 1, 0) == -1 ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_told(p.active, EPOLLOUT);
}

/* ---- threads --------------------------------------------------------------------------------- */

static void *in_a_moment(void *act)
{
    usleep(SOON_US);
    ((void (*)(void))(uintptr_t)act)();
    return NULL;
}

static void send_octet(void)
{
    assert_int_equal(rsend(p.active, "x", 1, 0), 1);
}

static void watch_active(void)
{
    watch(EPOLL_CTL_ADD, p.active, EPOLLOUT);
}

static void wait_for(void (*act)(void), int told)
{
    pthread_t thread;
    struct epoll_event event = {0};
    assert_int_equal(pthread_create(&thread, NULL, in_a_moment, (void *)(uintptr_t)act), 0);
    assert_int_equal(repoll_wait(set, &event, 1, -1), 1);
    assert_int_equal(event.data.fd, told);
    pthread_join(thread, NULL);
}

static void who_waits_wakes_for_octets(void **state)
{
    watch(EPOLL_CTL_ADD, p.passive, EPOLLIN);
    wait_for(send_octet, p.passive);
}

static void who_waits_wakes_for_what_is_watched_since(void **state)
{
    wait_for(watch_active, p.active);
}

struct waiting {
    int set, result, error;
    _Atomic pid_t thread; // 0: it has not begun
};

// In its call: it comes to nothing else that one could sleep in. Who came later than the set is
// closed would ask for a number that another thread may have by then.
static bool is_asleep(const struct waiting *w)
{
    char path[64], state = ' ';
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)w->thread);
    FILE *in = fopen(path, "r");
    if (in != NULL) {
        assert_int_equal(fscanf(in, "%*d (%*[^)]) %c", &state), 1);
        fclose(in);
    }
    return state == 'S';
}

static void *wait_main(void *ctx)
{
    struct waiting *w = ctx;
    struct epoll_event event;
    w->thread = gettid();
    w->result = repoll_wait(w->set, &event, 1, -1);
    w->error = errno;
    return NULL;
}

static void all_who_wait_wake_when_the_set_is_closed(void **state)
{
    enum { COUNT = 3 };
    struct waiting waiting[COUNT];
    pthread_t threads[COUNT];
    int fd = repoll_create(0);
    for (unsigned i = 0; i < COUNT; i++) {
        waiting[i] = (struct waiting){.set = fd};
        assert_int_equal(pthread_create(&threads[i], NULL, wait_main, &waiting[i]), 0);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        while (waiting[i].thread == 0 || !is_asleep(&waiting[i])) {
            sched_yield();
        }
    }
    assert_int_equal(rclose(fd), 0);
    for (unsigned i = 0; i < COUNT; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(waiting[i].result, -1);
        assert_true(waiting[i].error == EBADF);
    }
}

/* ---- what is refused ------------------------------------------------------------------------- */

// Before there is a device: its threads would take the number.
static void a_closed_set_is_none(void **state)
{
    struct epoll_event event = {.events = EPOLLIN};
    int closed = repoll_create(0);
    assert_int_equal(rclose(closed), 0);
    assert_refused(rclose(closed), EBADF);
    assert_refused(repoll_wait(closed, &event, 1, 0), EBADF);
    assert_refused(repoll_ctl(closed, EPOLL_CTL_ADD, STDIN_FILENO, &event), EBADF);
}

static void wrong_calls_are_refused_as_epoll_does(void **state)
{
    struct epoll_event event = {.events = EPOLLIN};
    int other = repoll_create(0);
    assert_refused(repoll_create(~EPOLL_CLOEXEC), EINVAL);
    assert_refused(repoll_wait(p.active, &event, 1, 0), EINVAL);
    assert_refused(repoll_wait(set, &event, 0, 0), EINVAL);
    assert_refused(repoll_wait(set, NULL, 1, 0), EFAULT);
    assert_refused(repoll_ctl(p.active, EPOLL_CTL_ADD, p.passive, &event), EINVAL);
    assert_refused(repoll_ctl(set, 77, p.active, &event), EINVAL);
    assert_refused(repoll_ctl(set, EPOLL_CTL_ADD, p.active, NULL), EFAULT);
    assert_refused(repoll_ctl(set, EPOLL_CTL_ADD, -1, &event), EBADF);
    assert_refused(repoll_ctl(set, EPOLL_CTL_ADD, set, &event), EINVAL);
    assert_refused(repoll_ctl(set, EPOLL_CTL_ADD, other, &event), EINVAL);
    assert_refused(repoll_ctl(set, EPOLL_CTL_MOD, p.active, &event), ENOENT);
    assert_refused(repoll_ctl(set, EPOLL_CTL_DEL, p.active, NULL), ENOENT);
    assert_int_equal(repoll_ctl(set, EPOLL_CTL_ADD, p.active, &event), 0);
    assert_refused(repoll_ctl(set, EPOLL_CTL_ADD, p.active, &event), EEXIST);
    assert_refused(rsend(set, "x", 1, 0), EBADF);
    assert_int_equal(rclose(other), 0);
}

#define WITH_SET(test) cmocka_unit_test_setup_teardown(test, open_set, close_set)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_closed_set_is_none),
        WITH_SET(a_socket_is_told_of_until_it_is_read),
        WITH_SET(a_socket_is_told_of_as_was_asked_for_last),
        WITH_SET(who_wants_to_be_told_once_asks_anew),
        WITH_SET(an_end_is_told_without_being_asked_for),
        WITH_SET(descriptors_of_the_kernel_are_in_it_too),
        WITH_SET(nobody_starves),
        WITH_SET(many_sockets_are_in_it),
        WITH_SET(a_closed_socket_is_in_no_set),
        WITH_SET(a_child_has_none_of_its_parents_sets),
        WITH_SET(who_waits_wakes_for_octets),
        WITH_SET(who_waits_wakes_for_what_is_watched_since),
        WITH_SET(all_who_wait_wake_when_the_set_is_closed),
        WITH_SET(wrong_calls_are_refused_as_epoll_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
