// The file of reservations that are to outlive the node: what is written when, what is read again,
// and what is told if it cannot be. The loop is the test's; the thread that writes is the node's.

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "node/cta/cta.h"
#include "node/host/reservations.h"
#include "node/interface/reservation.h"
#include "node/loop/loop.h"
#include "node/reservation/store.h"

#define TEXT                                        \
    "weft reservations 1\n"                         \
    "volume 000102030405060708090a0b0c0d0e0f 3 0\n" \
    "registrant 0000000000000011 one\n"             \
    "end\n"

static struct {
    bool no_watch, no_thread, no_memory, no_disk, no_sync;
    unsigned interrupts; // of writes
    size_t piece;        // that a write takes; 0: all
    bool had_signals;    // the thread
} world;

static char folder[64], path[128];
static struct host_reservations *r;
static struct why why;
static uint64_t told;
static bool told_stored;
static unsigned tellings;

/* ---- what is around -------------------------------------------------------------------------- */

struct loop_watch {
    int fd;
    void (*on_ready)(void *ctx, uint32_t events);
    void *ctx;
};

static struct loop_watch bell;

struct loop_watch *loop_watch(struct loop *loop, int fd, uint32_t events,
                              void (*on_ready)(void *ctx, uint32_t events), void *ctx)
{
    assert_int_equal(events, EPOLLIN);
    bell = (struct loop_watch){fd, on_ready, ctx};
    return world.no_watch ? NULL : &bell;
}

void loop_unwatch(struct loop_watch *watch)
{
    assert_true(watch == NULL || watch == &bell);
    bell.on_ready = NULL;
}

void cta_reservations_stored(struct cta *cta, uint64_t number, bool is_stored)
{
    assert_ptr_equal(cta, &told);
    told = number;
    told_stored = is_stored;
    tellings++;
}

int __real_pthread_create(pthread_t *ret, const pthread_attr_t *attr, void *(*run)(void *),
                          void *ctx);
int __wrap_pthread_create(pthread_t *ret, const pthread_attr_t *attr, void *(*run)(void *),
                          void *ctx);
int __wrap_pthread_create(pthread_t *ret, const pthread_attr_t *attr, void *(*run)(void *),
                          void *ctx)
{
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    world.had_signals = !sigismember(&blocked, SIGTERM) || !sigismember(&blocked, SIGUSR1);
    return world.no_thread ? EAGAIN : __real_pthread_create(ret, attr, run, ctx);
}

int __real_pthread_mutex_init(pthread_mutex_t *lock, const pthread_mutexattr_t *attr);
int __real_pthread_mutex_lock(pthread_mutex_t *lock);
int __real_pthread_mutex_unlock(pthread_mutex_t *lock);
int __real_pthread_mutex_destroy(pthread_mutex_t *lock);

FILE *__real_open_memstream(char **ret, size_t *ret_len);
FILE *__wrap_open_memstream(char **ret, size_t *ret_len);
FILE *__wrap_open_memstream(char **ret, size_t *ret_len)
{
    return world.no_memory ? NULL : __real_open_memstream(ret, ret_len);
}

ssize_t __real_write(int fd, const void *data, size_t len);
ssize_t __wrap_write(int fd, const void *data, size_t len);
ssize_t __wrap_write(int fd, const void *data, size_t len)
{
    bool is_file = len != sizeof(uint64_t) || fd != bell.fd;
    if (is_file && world.interrupts > 0) {
        world.interrupts--;
        errno = EINTR;
        return -1;
    }
    if (is_file && world.no_disk) {
        errno = ENOSPC;
        return -1;
    }
    return __real_write(fd, data,
                        is_file && world.piece != 0 && len > world.piece ? world.piece : len);
}

// A lock that notices who holds it not, or twice, or for ever.
static unsigned locks;

int __wrap_pthread_mutex_init(pthread_mutex_t *lock, const pthread_mutexattr_t *attr);
int __wrap_pthread_mutex_init(pthread_mutex_t *lock, const pthread_mutexattr_t *attr)
{
    pthread_mutexattr_t strict;
    pthread_mutexattr_init(&strict);
    pthread_mutexattr_settype(&strict, PTHREAD_MUTEX_ERRORCHECK);
    locks++;
    return __real_pthread_mutex_init(lock, &strict);
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
    if (__real_pthread_mutex_lock(lock) != 0) {
        abort();
    }
    return 0;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock)
{
    if (__real_pthread_mutex_unlock(lock) != 0) {
        abort();
    }
    return 0;
}

int __wrap_pthread_mutex_destroy(pthread_mutex_t *lock);
int __wrap_pthread_mutex_destroy(pthread_mutex_t *lock)
{
    if (__real_pthread_mutex_destroy(lock) != 0) {
        abort();
    }
    locks--;
    return 0;
}

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    struct stat status;
    fstat(fd, &status);
    errno = EIO;
    return world.no_sync ? -1 : __real_fsync(fd);
}

/* ---- who asks -------------------------------------------------------------------------------- */

static int open_before;

static int count_open(void)
{
    int count = 0;
    for (int fd = 0; fd < 64; fd++) {
        count += fcntl(fd, F_GETFD) >= 0;
    }
    return count;
}

static int begin(void **state)
{
    open_before = count_open();
    memset(&world, 0, sizeof world);
    told = tellings = 0;
    snprintf(folder, sizeof folder, "/tmp/weft-reservations-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/file", folder);
    why = (struct why){""};
    return 0;
}

static int end(void **state)
{
    char beside[160];
    snprintf(beside, sizeof beside, "%s.new", path);
    unlink(beside);
    rmdir(beside);
    unlink(path);
    rmdir(path);
    assert_int_equal(count_open(), open_before);
    assert_int_equal(locks, 0);
    return rmdir(folder);
}

static void open_at(const char *where)
{
    r = host_reservations_create(NULL, where, &why);
    assert_non_null(r);
    host_reservations_tell(r, (struct cta *)&told);
}

static void have(const char *name)
{
    static const uint8_t uuid[VOLUME_UUID_LEN] = {0, 1, 2,  3,  4,  5,  6,  7,
                                                  8, 9, 10, 11, 12, 13, 14, 15};
    struct reservation *book = reservation_store_join(host_reservations_store(r), uuid);
    book->persists = true;
    book->generation = 3;
    book->registrant_count = 1;
    book->registrants[0].key = 0x11;
    snprintf(book->registrants[0].name, sizeof book->registrants[0].name, "%s", name);
}

// Until so much is told.
static void hear(uint64_t number)
{
    while (told < number) {
        struct pollfd waits = {.fd = bell.fd, .events = POLLIN};
        assert_int_equal(poll(&waits, 1, 30000), 1);
        bell.on_ready(bell.ctx, EPOLLIN);
    }
}

static const char *text_of(const char *where)
{
    static char text[4096];
    FILE *in = fopen(where, "re");
    memset(text, 0, sizeof text);
    if (in == NULL) {
        return "none";
    }
    (void)!fread(text, 1, sizeof text - 1, in);
    fclose(in);
    return text;
}

static void put_down(const char *text)
{
    FILE *out = fopen(path, "we");
    fputs(text, out);
    fclose(out);
}

/* ---- written --------------------------------------------------------------------------------- */

static void what_is_written_is_told_and_read_again(void **state)
{
    struct stat status;
    char beside[160];
    mode_t before = umask(0);
    open_at(path);
    assert_false(world.had_signals); // those are the loop's
    assert_true((fcntl(bell.fd, F_GETFL) & O_NONBLOCK) != 0);
    assert_int_equal(fcntl(bell.fd, F_GETFD), FD_CLOEXEC);
    bell.on_ready(bell.ctx, EPOLLIN); // it did not ring
    assert_int_equal(tellings, 0);
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    assert_false(sigismember(&blocked, SIGTERM));
    have("one");
    assert_string_equal(text_of(path), "none"); // not before it is asked
    assert_int_equal(host_reservations_write(r), 1);
    hear(1);
    assert_true(told_stored);
    assert_int_equal(told, 1);
    assert_string_equal(text_of(path), TEXT);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    snprintf(beside, sizeof beside, "%s.new", path);
    assert_string_equal(text_of(beside), "none");
    assert_int_equal(host_reservations_write(r), 2);
    assert_int_equal(host_reservations_write(r), 3);
    hear(3);
    assert_true(told_stored);
    host_reservations_destroy(r);
    assert_null(bell.on_ready);
    umask(before);

    open_at(path);
    unlink(path);
    assert_int_equal(host_reservations_write(r), 1);
    host_reservations_destroy(r); // what was asked is written yet
    assert_string_equal(text_of(path), TEXT);
}

static void a_write_goes_on_where_it_was_interrupted(void **state)
{
    open_at(path);
    have("one");
    world.interrupts = 3;
    world.piece = 1;
    host_reservations_write(r);
    hear(1);
    assert_true(told_stored);
    assert_string_equal(text_of(path), TEXT);
    host_reservations_destroy(r);
}

static void what_cannot_be_written_leaves_what_was_there(void **state)
{
    enum { DISK, SYNC, MEMORY, NEW, LINK, RENAME, CASES };
    for (int i = 0; i < CASES; i++) {
        char beside[160];
        begin(NULL);
        put_down(TEXT);
        open_at(path);
        snprintf(beside, sizeof beside, "%s.new", path);
        world.no_disk = i == DISK;
        world.no_sync = i == SYNC;
        world.no_memory = i == MEMORY;
        if (i == NEW) {
            mkdir(beside, 0700);
        } else if (i == LINK) {
            assert_int_equal(symlink("/dev/null", beside), 0);
        } else if (i == RENAME) {
            unlink(path);
            mkdir(path, 0700);
        }
        host_reservations_write(r);
        hear(1);
        assert_false(told_stored);
        if (i != RENAME) {
            assert_string_equal(text_of(path), TEXT);
        }
        memset(&world, 0, sizeof world);
        unlink(beside);
        rmdir(beside);
        rmdir(path);
        host_reservations_write(r); // it is tried again
        hear(2);
        assert_true(told_stored);
        assert_string_equal(text_of(path), TEXT);
        host_reservations_destroy(r);
        end(NULL);
    }
}

/* ---- read ------------------------------------------------------------------------------------ */

static void what_no_node_has_written_is_refused(void **state)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"", "line 1: its first line is not as a node writes it"},
        {"other\n", "line 1: its first line is not as a node writes it"},
        {"weft reservations 1\nend\n", NULL},
        {"weft reservations 1\nnonsense\nend\n", "line 2: a line is not as a node writes it"},
        {"weft reservations 1\n", "line 2: a line is not as a node writes it"},
        {TEXT, NULL},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        why = (struct why){""};
        put_down(cases[i].text);
        r = host_reservations_create(NULL, path, &why);
        assert_string_equal(why.text, cases[i].why != NULL ? cases[i].why : "");
        assert_int_equal(r != NULL, cases[i].why == NULL);
        host_reservations_destroy(r);
    }
    unlink(path);
    mkdir(path, 0700);
    assert_null(host_reservations_create(NULL, path, &why));
    assert_string_equal(why.text, "it cannot be read: Is a directory");
    rmdir(path);
    assert_int_equal(symlink("file", path), 0);
    assert_null(host_reservations_create(NULL, path, &why));
    assert_string_equal(why.text, "it cannot be read: Too many levels of symbolic links");
}

/* ---- its life -------------------------------------------------------------------------------- */

static void who_cannot_write_does_not_begin(void **state)
{
    world.no_watch = true;
    assert_null(host_reservations_create(NULL, path, &why));
    assert_string_equal(why.text, "no memory, or no thread, to write it");
    why = (struct why){""};
    world.no_watch = false;
    world.no_thread = true;
    assert_null(host_reservations_create(NULL, path, &why));
    assert_string_equal(why.text, "no memory, or no thread, to write it");
    world.no_thread = false;
}

static void where_nothing_is_to_be_written_nothing_is_promised(void **state)
{
    world.no_thread = world.no_watch = true; // neither is needed
    open_at("");
    static const uint8_t uuid[VOLUME_UUID_LEN] = {1};
    assert_false(reservation_store_join(host_reservations_store(r), uuid)->can_persist);
    host_reservations_destroy(r);
    world.no_thread = world.no_watch = false;
    open_at(path);
    assert_true(reservation_store_join(host_reservations_store(r), uuid)->can_persist);
    host_reservations_destroy(r);
    host_reservations_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_written_is_told_and_read_again, begin, end),
        cmocka_unit_test_setup_teardown(a_write_goes_on_where_it_was_interrupted, begin, end),
        cmocka_unit_test(what_cannot_be_written_leaves_what_was_there),
        cmocka_unit_test_setup_teardown(what_no_node_has_written_is_refused, begin, end),
        cmocka_unit_test_setup_teardown(who_cannot_write_does_not_begin, begin, end),
        cmocka_unit_test_setup_teardown(where_nothing_is_to_be_written_nothing_is_promised, begin,
                                        end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
