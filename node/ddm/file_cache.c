#include "node/ddm/file_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/uio.h>

#include "clock/clock.h"

enum {
    AT_ONCE_MAX = 64 << 10, // more than that is better copied beside the agent
    PAGE_LEN = 4096,
    REST_FACTOR = 20, // so many times as long as a writer was held back, the engine has them
};

static const duration_ns held_back_ns = 10 * NS_PER_MS; // far longer than the copy takes
static const duration_ns watch_ns = 1 * NS_PER_S;

void file_cache_init(struct file_cache *cache, int fd, bool may_wait)
{
    *cache = (struct file_cache){.fd = fd, .reads = true, .writes = true, .may_wait = may_wait};
}

// How often this thread has given up the processor to wait for something.
static long waits_so_far(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nvcsw : 0;
}

// True: it is done, or has failed as the engine would have it fail.
static bool is_answer(int64_t result, bool *is_supported)
{
    *is_supported &= result >= 0 || errno != EOPNOTSUPP;
    return result >= 0;
}

static bool read_try(struct file_cache *cache, struct file_job *job, const struct iovec *iov)
{
    if (!cache->reads) {
        return false;
    }
    int64_t got = preadv2(cache->fd, iov, 1, (off_t)job->offset, RWF_NOWAIT);
    job->result = got;
    return is_answer(got, &cache->reads);
}

// A page of which only a part is written may have to be read first.
static bool is_of_pages(const struct file_job *job)
{
    return (job->offset | job->len) % PAGE_LEN == 0;
}

static bool write_and_see(struct file_cache *cache, struct file_job *job, const struct iovec *iov)
{
    instant_ns begin = clock_now();
    if (!cache->may_wait || !is_of_pages(job) || begin < cache->writers_wait_until) {
        return false;
    }
    bool is_watched = begin < cache->watched_until;
    long waits = is_watched ? waits_so_far() : 0;
    int64_t written = pwritev2(cache->fd, iov, 1, (off_t)job->offset, 0);
    job->result = written < 0 ? -errno : written;
    instant_ns end = clock_now();
    if (end - begin >= held_back_ns) {
        bool has_waited = is_watched && waits_so_far() > waits;
        cache->writers_wait_until =
            has_waited ? instant_after(end, REST_FACTOR * (end - begin)) : 0;
        cache->watched_until = instant_after(end, watch_ns);
    }
    return true;
}

static bool write_try(struct file_cache *cache, struct file_job *job, const struct iovec *iov)
{
    if (job->rw_flags != 0) {
        return false; // stable when it is answered: that waits
    }
    if (!cache->writes) {
        return write_and_see(cache, job, iov);
    }
    int64_t written = pwritev2(cache->fd, iov, 1, (off_t)job->offset, RWF_NOWAIT);
    job->result = written;
    return is_answer(written, &cache->writes) || (!cache->writes && write_and_see(cache, job, iov));
}

int file_cache_window(int fd)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
}

bool file_cache_try(struct file_cache *cache, struct file_job *job)
{
    struct iovec iov = {.iov_base = job->data, .iov_len = job->len};
    if (job->len > AT_ONCE_MAX) {
        return false;
    }
    return job->call == FILE_READ    ? read_try(cache, job, &iov)
           : job->call == FILE_WRITE ? write_try(cache, job, &iov)
                                     : false;
}
