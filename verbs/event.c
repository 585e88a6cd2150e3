#include "verbs/event.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "descriptor/descriptor.h"

int event_queue_init(struct event_queue *queue)
{
    queue->fd = descriptor_above_standard(eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC));
    if (queue->fd < 0) {
        return errno;
    }
    pthread_mutex_init(&queue->lock, NULL);
    list_init(&queue->waiting);
    list_init(&queue->told);
    return 0;
}

void event_queue_fini(struct event_queue *queue)
{
    close(queue->fd);
    pthread_mutex_destroy(&queue->lock);
}

void event_source_init(struct event_source *source, void *object, int kind)
{
    *source = (struct event_source){.object = object, .kind = kind};
    list_init(&source->link);
    list_init(&source->told_link);
}

// Queue's lock held.
static void list_locked(struct event_queue *queue, struct event_source *source)
{
    if (source->waiting_count++ == 0) {
        list_push_tail(&queue->waiting, &source->link);
    }
}

static void count_up(struct event_queue *queue, uint64_t count)
{
    // Fails only when 2^64 - 2 events wait.
    // Not libc's write: that is a cancellation point, and locks are held here.
    long written = syscall(SYS_write, queue->fd, &count, sizeof count);
    (void)written;
}

// Who is woken by the count takes the queue's lock next: it is free by then, or he would sleep
// again at once and have to be woken once more.
void event_queue_raise(struct event_queue *queue, struct event_source *source)
{
    pthread_mutex_lock(&queue->lock);
    list_locked(queue, source);
    pthread_mutex_unlock(&queue->lock);
    count_up(queue, 1);
}

void event_raise_once(struct event_queue *queue, struct event_source *source)
{
    pthread_mutex_lock(&queue->lock);
    bool is_news = source->waiting_count == 0;
    if (is_news) {
        list_locked(queue, source);
    }
    pthread_mutex_unlock(&queue->lock);
    if (is_news) {
        count_up(queue, 1);
    }
}

// Queue's lock held. The sources take turns, so that one that is raised often hides no other.
static struct event_source *take_locked(struct event_queue *queue)
{
    struct list_link *link = list_pop_head(&queue->waiting);
    if (link == NULL) {
        return NULL;
    }
    struct event_source *source = LIST_ENTRY(link, struct event_source, link);
    source->taken_count++;
    if (--source->waiting_count > 0) {
        list_push_tail(&queue->waiting, link);
    }
    return source;
}

struct event_source *event_wait(struct event_queue *queue,
                                void (*on_taken)(struct event_source *source, void *ctx), void *ctx)
{
    for (;;) {
        uint64_t one;
        if (read(queue->fd, &one, sizeof one) != sizeof one) {
            return NULL;
        }
        pthread_mutex_lock(&queue->lock);
        struct event_source *source = take_locked(queue);
        if (source != NULL) {
            on_taken(source, ctx);
        }
        pthread_mutex_unlock(&queue->lock);
        if (source != NULL) {
            return source;
        }
        // The event was withdrawn between the two steps: its object is gone.
    }
}

/* ---- told ------------------------------------------------------------------------------------ */

void event_tell(struct event_queue *queue, struct event_source *source)
{
    pthread_mutex_lock(&queue->lock);
    if (source->told_count++ == 0) {
        list_push_tail(&queue->told, &source->told_link);
    }
    pthread_mutex_unlock(&queue->lock);
}

// Queue's lock held.
static struct event_source *take_told_locked(struct event_queue *queue)
{
    struct list_link *link = list_pop_head(&queue->told);
    if (link == NULL) {
        return NULL;
    }
    struct event_source *source = LIST_ENTRY(link, struct event_source, told_link);
    if (--source->told_count > 0) {
        list_push_tail(&queue->told, link);
    }
    return source;
}

struct event_source *event_take(struct event_queue *queue,
                                void (*on_taken)(struct event_source *source, void *ctx), void *ctx)
{
    pthread_mutex_lock(&queue->lock);
    struct event_source *source = take_told_locked(queue);
    if (source != NULL) {
        source->taken_count++;
        on_taken(source, ctx);
    }
    pthread_mutex_unlock(&queue->lock);
    return source;
}

bool event_is_told(struct event_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    bool is_told = !list_is_empty(&queue->told);
    pthread_mutex_unlock(&queue->lock);
    return is_told;
}

void event_raise_told(struct event_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    uint64_t count = 0;
    for (struct event_source *source; (source = take_told_locked(queue)) != NULL; count++) {
        list_locked(queue, source);
    }
    if (count > 0) { // by the lock: nothing else keeps a source of them from being withdrawn
        count_up(queue, count);
    }
    pthread_mutex_unlock(&queue->lock);
}

/* ---- taken back ------------------------------------------------------------------------------ */

// Takes one off the count unless a reader was faster. Never blocks, whatever the program has made
// of the descriptor.
static void count_down_uncancelled(int fd)
{
    uint64_t one;
    struct iovec iov = {.iov_base = &one, .iov_len = sizeof one};
    if (preadv2(fd, &iov, 1, -1, RWF_NOWAIT) >= 0 || errno == EAGAIN) {
        return;
    }
    // Kernels before 5.8. A reader may still come between the two calls and make this one wait
    // until the next event; they have no better way.
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    if (poll(&readable, 1, 0) == 1) {
        ssize_t len = read(fd, &one, sizeof one);
        (void)len;
    }
}

// The calls in it are cancellation points, and the queue's lock is held.
static void count_down(int fd)
{
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    count_down_uncancelled(fd);
    pthread_setcancelstate(before, NULL);
}

unsigned event_withdraw(struct event_queue *queue, struct event_source *source)
{
    pthread_mutex_lock(&queue->lock);
    for (; source->waiting_count > 0; source->waiting_count--) {
        count_down(queue->fd);
    }
    list_remove(&source->link);
    source->told_count = 0;
    list_remove(&source->told_link);
    unsigned taken_count = source->taken_count;
    pthread_mutex_unlock(&queue->lock);
    return taken_count;
}
