// Sockets by their numbers, and how long they live: a call holds its socket, and rclose waits until
// nobody does.

#include <stdlib.h>
#include <string.h>

#include "cm/rsocket.h"

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t released = PTHREAD_COND_INITIALIZER;

struct rs_table {
    struct rs_table *before; // left behind by an earlier fork
    int len;
    struct rs *of[]; // by descriptor
};
static struct rs_table *table; // table_lock; NULL: no socket yet
static struct rs_table *left;  // by forks: pointed to, so that it is no leak of the child's

void rs_after_fork(void)
{
    pthread_mutex_init(&table_lock, NULL);
    pthread_cond_init(&released, NULL);
    if (table != NULL) {
        table->before = left; // the parent's sockets are not the child's
        left = table;
        table = NULL;
    }
}

/* ---- looking up ------------------------------------------------------------------------------ */

struct rs *rs_lookup(int fd)
{
    pthread_mutex_lock(&table_lock);
    struct rs *rs = table != NULL && fd >= 0 && fd < table->len ? table->of[fd] : NULL;
    if (rs != NULL) {
        rs->ref_count++;
    }
    pthread_mutex_unlock(&table_lock);
    return rs;
}

void rs_release(struct rs *rs)
{
    pthread_mutex_lock(&table_lock);
    if (--rs->ref_count == 0) {
        pthread_cond_broadcast(&released);
    }
    pthread_mutex_unlock(&table_lock);
}

struct rs *rs_enter(int fd)
{
    struct rs *rs = rs_lookup(fd);
    if (rs == NULL) {
        errno = EBADF;
        return NULL;
    }
    pthread_mutex_lock(&rs->lock);
    return rs;
}

void rs_leave(struct rs *rs)
{
    pthread_mutex_unlock(&rs->lock);
    rs_release(rs);
}

/* ---- opening and closing --------------------------------------------------------------------- */

// table_lock held.
static bool table_grow(int fd)
{
    int len_before = table != NULL ? table->len : 0;
    int len = len_before > 0 ? len_before : 64;
    while (len <= fd) {
        len *= 2;
    }
    struct rs_table *grown = realloc(table, sizeof *grown + (size_t)len * sizeof *grown->of);
    if (grown == NULL) {
        return false;
    }
    memset(grown->of + len_before, 0, (size_t)(len - len_before) * sizeof *grown->of);
    grown->len = len;
    table = grown;
    return true;
}

static bool table_insert(struct rs *rs)
{
    pthread_mutex_lock(&table_lock);
    bool has_room = (table != NULL && rs->fd < table->len) || table_grow(rs->fd);
    if (has_room) {
        table->of[rs->fd] = rs;
    }
    pthread_mutex_unlock(&table_lock);
    return has_room;
}

static void rs_free(struct rs *rs)
{
    rs_stream_close(rs);
    rdma_destroy_id(rs->id);
    rdma_destroy_event_channel(rs->channel);
    pthread_mutex_destroy(&rs->lock);
    free(rs);
}

int rs_open(struct rdma_event_channel *channel, struct rdma_cm_id *id,
            const struct rs_options *options, struct rs **ret)
{
    struct rs *rs = calloc(1, sizeof *rs);
    if (rs == NULL) {
        rdma_destroy_id(id);
        rdma_destroy_event_channel(channel);
        return cm_fail(ENOMEM);
    }
    *rs = (struct rs){.fd = channel->fd, .channel = channel, .id = id, .options = *options};
    pthread_mutex_init(&rs->lock, NULL);
    list_init(&rs->iomaps);
    list_init(&rs->waiters);
    // Waiting is done in poll(), so nothing else may block on it.
    fcntl(channel->fd, F_SETFL, O_NONBLOCK);
    if (!table_insert(rs)) {
        rs_free(rs);
        return cm_fail(ENOMEM);
    }
    *ret = rs;
    return 0;
}

void rs_close(struct rs *rs)
{
    pthread_mutex_lock(&table_lock);
    table->of[rs->fd] = NULL;
    while (rs->ref_count > 0) {
        pthread_cond_wait(&released, &table_lock);
    }
    pthread_mutex_unlock(&table_lock);
    rs_free(rs);
}
