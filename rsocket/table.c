// Sockets by their numbers: a call holds its socket, and who takes it out waits until nobody does.

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "rsocket/rsocket.h"

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t released = PTHREAD_COND_INITIALIZER;

struct rs_table {
    struct rs_table *before; // left behind by an earlier fork
    int len;
    struct rs *of[]; // by descriptor
};
static struct rs_table *table; // table_lock; NULL: no socket yet
static struct rs_table *left;  // by forks: pointed to, so that it is no leak of the child's

static atomic_uint generation;

/* ---- fork ------------------------------------------------------------------------------------ */

// Another thread of the parent may have held the lock, and nobody is left here who would let go of
// it.
static void after_fork_in_child(void)
{
    atomic_fetch_add(&generation, 1);
    pthread_mutex_init(&table_lock, NULL);
    pthread_cond_init(&released, NULL);
    if (table != NULL) {
        table->before = left; // the parent's sockets are not the child's
        left = table;
        table = NULL;
    }
}

static void hook_install(void)
{
    pthread_atfork(NULL, NULL, after_fork_in_child);
}

unsigned rs_generation(void)
{
    return atomic_load_explicit(&generation, memory_order_relaxed);
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

/* ---- putting in, taking out ------------------------------------------------------------------ */

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

bool rs_insert(struct rs *rs)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, hook_install);
    pthread_mutex_lock(&table_lock);
    bool has_room = (table != NULL && rs->fd < table->len) || table_grow(rs->fd);
    if (has_room) {
        table->of[rs->fd] = rs;
    }
    pthread_mutex_unlock(&table_lock);
    return has_room;
}

void rs_remove(struct rs *rs)
{
    pthread_mutex_lock(&table_lock);
    table->of[rs->fd] = NULL;
    while (rs->ref_count > 0) {
        pthread_cond_wait(&released, &table_lock);
    }
    pthread_mutex_unlock(&table_lock);
}
