// What the page cache does at once, on a file system whose answers the test gives: the system calls
// and the clock are the test's own.

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <cmocka.h>

#include "base/time.h"
#include "node/ddm/file_cache.h"

enum { BLOCK = 4096, FD = 7 };

static uint8_t block[128 << 10];

static struct {
    instant_ns now;
    ssize_t nowait_result; // of calls that may not wait; a negative errno
    ssize_t result;        // of those that may
    duration_ns takes_ns;  // such a call
    bool is_wait;          // and it waits meanwhile, else the processor is another's
    long waits;
    unsigned nowait_calls, calls;
} kernel;

static ssize_t answer(ssize_t result)
{
    errno = result < 0 ? (int)-result : 0;
    return result < 0 ? -1 : result;
}

static ssize_t io(int fd, int flags)
{
    assert_int_equal(fd, FD);
    if ((flags & RWF_NOWAIT) != 0) {
        kernel.nowait_calls++;
        return answer(kernel.nowait_result);
    }
    kernel.calls++;
    kernel.now += kernel.takes_ns;
    kernel.waits += kernel.is_wait;
    return answer(kernel.result);
}

ssize_t __wrap_preadv64v2(int fd, const struct iovec *iov, int count, off_t offset, int flags);
ssize_t __wrap_pwritev64v2(int fd, const struct iovec *iov, int count, off_t offset, int flags);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);

ssize_t __wrap_preadv64v2(int fd, const struct iovec *iov, int count, off_t offset, int flags)
{
    return io(fd, flags);
}

ssize_t __wrap_pwritev64v2(int fd, const struct iovec *iov, int count, off_t offset, int flags)
{
    return io(fd, flags);
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
    *ret = (struct timespec){.tv_sec = (time_t)(kernel.now / NS_PER_S),
                             .tv_nsec = (long)(kernel.now % NS_PER_S)};
    return 0;
}

int __wrap_getrusage(int who, struct rusage *ret);

int __wrap_getrusage(int who, struct rusage *ret)
{
    assert_int_equal(who, RUSAGE_THREAD);
    *ret = (struct rusage){.ru_nvcsw = kernel.waits};
    return 0;
}

static struct file_cache cache_on(ssize_t nowait_result, bool may_wait)
{
    struct file_cache cache;
    memset(&kernel, 0, sizeof kernel);
    kernel.now = NS_PER_S;
    kernel.nowait_result = nowait_result;
    kernel.result = BLOCK;
    file_cache_init(&cache, FD, may_wait);
    return cache;
}

static struct file_job job_of(enum file_call call, uint64_t offset, uint64_t len)
{
    return (struct file_job){.call = call, .data = block, .offset = offset, .len = len};
}

static bool tries(struct file_cache *cache, enum file_call call, uint64_t offset, uint64_t len)
{
    struct file_job job = job_of(call, offset, len);
    return file_cache_try(cache, &job);
}

static void what_the_cache_has_is_read_at_once(void **state)
{
    struct file_cache cache = cache_on(1024, false);
    struct file_job job = job_of(FILE_READ, 512, BLOCK);
    assert_true(file_cache_try(&cache, &job));
    assert_int_equal(job.result, 1024);
    assert_int_equal(kernel.calls, 0);
}

static void what_it_has_not_is_the_engines(void **state)
{
    struct file_cache cache = cache_on(-EAGAIN, true);
    assert_false(tries(&cache, FILE_READ, 0, BLOCK));
    assert_false(tries(&cache, FILE_WRITE, 0, BLOCK));
    assert_int_equal(kernel.nowait_calls, 2);
    assert_int_equal(kernel.calls, 0);
}

static void a_file_system_that_does_not_know_the_flag_is_asked_once(void **state)
{
    struct file_cache cache = cache_on(-EOPNOTSUPP, false);
    for (unsigned i = 0; i < 3; i++) {
        assert_false(tries(&cache, FILE_READ, 0, BLOCK));
        assert_false(tries(&cache, FILE_WRITE, 0, BLOCK));
    }
    assert_int_equal(kernel.nowait_calls, 2);
    assert_int_equal(kernel.calls, 0);
}

static void a_write_that_cannot_say_whether_it_waits_is_made_by_who_may_wait(void **state)
{
    struct file_cache cache = cache_on(-EOPNOTSUPP, true);
    struct file_job job = job_of(FILE_WRITE, BLOCK, BLOCK);
    assert_true(file_cache_try(&cache, &job));
    assert_int_equal(job.result, BLOCK);
    kernel.result = -ENOSPC;
    assert_true(file_cache_try(&cache, &job));
    assert_int_equal(job.result, -ENOSPC);
    assert_int_equal(kernel.nowait_calls, 1);
}

static void what_would_read_from_the_disk_or_wait_for_it_is_the_engines(void **state)
{
    struct file_cache cache = cache_on(-EOPNOTSUPP, true);
    struct file_job stable = job_of(FILE_WRITE, 0, BLOCK);
    stable.rw_flags = RWF_DSYNC;
    assert_false(tries(&cache, FILE_WRITE, 512, BLOCK));
    assert_false(tries(&cache, FILE_WRITE, 0, 512));
    assert_false(file_cache_try(&cache, &stable));
    assert_false(tries(&cache, FILE_SYNC, 0, 0));
    assert_false(tries(&cache, FILE_ALLOCATE, 0, BLOCK));
    assert_int_equal(kernel.calls, 0);
}

static void long_copies_are_the_engines(void **state)
{
    struct file_cache cache = cache_on(BLOCK, true);
    assert_false(tries(&cache, FILE_READ, 0, sizeof block));
    assert_false(tries(&cache, FILE_WRITE, 0, sizeof block));
    assert_int_equal(kernel.nowait_calls, 0);
}

static void a_writer_that_was_held_back_leaves_writing_to_the_engine_for_a_time(void **state)
{
    struct file_cache cache = cache_on(-EOPNOTSUPP, true);
    kernel.takes_ns = 50 * NS_PER_MS;
    kernel.is_wait = true;
    assert_true(tries(&cache, FILE_WRITE, 0, BLOCK)); // from here on it is looked at closely
    assert_true(tries(&cache, FILE_WRITE, 0, BLOCK));
    kernel.takes_ns = 0;
    kernel.now += 900 * NS_PER_MS;
    assert_false(tries(&cache, FILE_WRITE, 0, BLOCK));
    kernel.now += 100 * NS_PER_MS;
    assert_true(tries(&cache, FILE_WRITE, 0, BLOCK));
    assert_true(tries(&cache, FILE_WRITE, 0, BLOCK));
}

static void a_writer_that_lost_the_processor_goes_on(void **state)
{
    struct file_cache cache = cache_on(-EOPNOTSUPP, true);
    kernel.takes_ns = 50 * NS_PER_MS;
    for (unsigned i = 0; i < 5; i++) {
        assert_true(tries(&cache, FILE_WRITE, 0, BLOCK));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_cache_has_is_read_at_once),
        cmocka_unit_test(what_it_has_not_is_the_engines),
        cmocka_unit_test(a_file_system_that_does_not_know_the_flag_is_asked_once),
        cmocka_unit_test(a_write_that_cannot_say_whether_it_waits_is_made_by_who_may_wait),
        cmocka_unit_test(what_would_read_from_the_disk_or_wait_for_it_is_the_engines),
        cmocka_unit_test(long_copies_are_the_engines),
        cmocka_unit_test(a_writer_that_was_held_back_leaves_writing_to_the_engine_for_a_time),
        cmocka_unit_test(a_writer_that_lost_the_processor_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
