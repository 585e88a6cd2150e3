// The file engine on a pool of threads, for systems that refuse io_uring, as most containers do.

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/list.h"
#include "node/ddm/file.h"

enum { THREAD_COUNT = 8 };

struct file_engine {
    int fd;
    int event_fd; // counts ended jobs that nobody has been told of
    bool is_ending;
    unsigned thread_count;
    pthread_t threads[THREAD_COUNT];
    pthread_mutex_t lock;
    pthread_cond_t has_jobs;
    struct list_link waiting;
    struct list_link ended;
};

static int64_t call(int fd, const struct file_job *job)
{
    struct iovec iov = {.iov_base = job->data, .iov_len = job->len};
    int64_t result = 0;
    switch (job->call) {
    case FILE_READ:
        result = preadv2(fd, &iov, 1, (off_t)job->offset, job->rw_flags);
        break;
    case FILE_WRITE:
        result = pwritev2(fd, &iov, 1, (off_t)job->offset, job->rw_flags);
        break;
    case FILE_SYNC:
        result = fdatasync(fd);
        break;
    case FILE_ALLOCATE:
        result = fallocate(fd, job->mode, (off_t)job->offset, (off_t)job->len);
        break;
    }
    return result < 0 ? -errno : result;
}

static void *serve(void *ctx)
{
    struct file_engine *engine = ctx;
    pthread_mutex_lock(&engine->lock);
    for (;;) {
        while (list_is_empty(&engine->waiting) && !engine->is_ending) {
            pthread_cond_wait(&engine->has_jobs, &engine->lock);
        }
        struct list_link *l = list_pop_head(&engine->waiting);
        if (l == NULL) {
            break;
        }
        pthread_mutex_unlock(&engine->lock);
        struct file_job *job = LIST_ENTRY(l, struct file_job, link);
        job->result = call(engine->fd, job);
        pthread_mutex_lock(&engine->lock);
        bool is_first = list_is_empty(&engine->ended);
        list_push_tail(&engine->ended, &job->link);
        if (is_first) {
            eventfd_write(engine->event_fd, 1);
        }
    }
    pthread_mutex_unlock(&engine->lock);
    return NULL;
}

static void threads_destroy(struct file_engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    engine->is_ending = true;
    pthread_cond_broadcast(&engine->has_jobs);
    pthread_mutex_unlock(&engine->lock);
    for (unsigned i = 0; i < engine->thread_count; i++) {
        pthread_join(engine->threads[i], NULL);
    }
    pthread_cond_destroy(&engine->has_jobs);
    pthread_mutex_destroy(&engine->lock);
    if (engine->event_fd >= 0) {
        close(engine->event_fd);
    }
    free(engine);
}

// Signals are for the agent's own thread.
static void threads_start(struct file_engine *engine)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    while (engine->thread_count < THREAD_COUNT &&
           pthread_create(&engine->threads[engine->thread_count], NULL, serve, engine) == 0) {
        engine->thread_count++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static int threads_create(int fd, unsigned depth, struct file_engine **ret)
{
    struct file_engine *engine = calloc(1, sizeof *engine);
    if (engine == NULL) {
        return -ENOMEM;
    }
    engine->fd = fd;
    engine->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&engine->lock, NULL);
    pthread_cond_init(&engine->has_jobs, NULL);
    list_init(&engine->waiting);
    list_init(&engine->ended);
    threads_start(engine);
    if (engine->event_fd < 0 || engine->thread_count == 0) {
        threads_destroy(engine);
        return -EAGAIN;
    }
    *ret = engine;
    return 0;
}

static void threads_queue(struct file_engine *engine, struct file_job *job)
{
    pthread_mutex_lock(&engine->lock);
    list_push_tail(&engine->waiting, &job->link);
    pthread_cond_signal(&engine->has_jobs);
    pthread_mutex_unlock(&engine->lock);
}

static void threads_begin(struct file_engine *engine)
{
}

static int threads_ended_fd(struct file_engine *engine)
{
    return engine->event_fd;
}

static struct file_job *threads_reap(struct file_engine *engine)
{
    eventfd_t count;
    pthread_mutex_lock(&engine->lock);
    struct list_link *l = list_pop_head(&engine->ended);
    if (list_is_empty(&engine->ended)) {
        eventfd_read(engine->event_fd, &count);
    }
    pthread_mutex_unlock(&engine->lock);
    return l != NULL ? LIST_ENTRY(l, struct file_job, link) : NULL;
}

static void threads_wait(struct file_engine *engine)
{
    struct pollfd pollfd = {.fd = engine->event_fd, .events = POLLIN};
    poll(&pollfd, 1, -1);
}

const struct file_engine_kind file_engine_threads = {
    .name = "threads",
    .create = threads_create,
    .queue = threads_queue,
    .start = threads_begin,
    .ended_fd = threads_ended_fd,
    .reap = threads_reap,
    .wait = threads_wait,
    .destroy = threads_destroy,
};
