// The one device that all ids of a process share, the lock of this room, and what a fork does to
// both.

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/device_wire.h"
#include "cm/cm.h"
#include "host/process.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread bool is_locked_here;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static pthread_mutex_t device_lock = PTHREAD_MUTEX_INITIALIZER;
static struct cm_device *device; // device_lock; NULL until first use in this process
static struct cm_device *left;   // by forks: pointed to, so that it is no leak of the child's
static atomic_uint generation;

/* ---- fork ------------------------------------------------------------------------------------ */

// Another thread of the parent may have held a lock, and nobody is left here who would let go of
// it. The objects it was changing are the parent's, and dead, so fresh locks guard nothing half
// done.
static void after_fork_in_child(void)
{
    atomic_fetch_add(&generation, 1);
    pthread_mutex_init(&lock, NULL);
    is_locked_here = false;
    pthread_cond_init(&changed, NULL);
    pthread_mutex_init(&device_lock, NULL);
    if (device != NULL) {
        device->before = left;
        left = device;
        device = NULL;
    }
}

static void hooks_install(void)
{
    pthread_atfork(NULL, NULL, after_fork_in_child);
}

void cm_fork_prepare(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, hooks_install);
}

unsigned cm_generation(void)
{
    return atomic_load_explicit(&generation, memory_order_relaxed);
}

/* ---- the lock -------------------------------------------------------------------------------- */

void cm_lock(void)
{
    pthread_mutex_lock(&lock);
    is_locked_here = true;
}

void cm_unlock(void)
{
    is_locked_here = false;
    pthread_mutex_unlock(&lock);
}

bool cm_lock_is_held(void)
{
    return is_locked_here;
}

void cm_wait(void)
{
    int before;
    CHECK(cm_lock_is_held());
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    pthread_cond_wait(&changed, &lock);
    pthread_setcancelstate(before, NULL);
}

void cm_signal(void)
{
    CHECK(cm_lock_is_held());
    pthread_cond_broadcast(&changed);
}

/* ---- device ---------------------------------------------------------------------------------- */

// Connections are made on streams.
static struct ibv_context *stream_device_open(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    if (list == NULL) {
        errno = ENODEV;
        return NULL;
    }
    struct ibv_context *verbs = NULL;
    errno = ENODEV;
    for (struct ibv_device **at = list; *at != NULL && verbs == NULL; at++) {
        if ((*at)->transport_type == IBV_TRANSPORT_IWARP) {
            verbs = ibv_open_device(*at);
        }
    }
    ibv_free_device_list(list);
    return verbs;
}

static int device_fill(struct cm_device *d)
{
    int error;
    d->verbs = stream_device_open();
    if (d->verbs == NULL) {
        return -1;
    }
    d->rnic = host_rnic(DEVICE_WIRE_IWARP, NULL, &error); // which is up
    d->pd = ibv_alloc_pd(d->verbs);
    if (d->pd == NULL) {
        int saved = errno;
        ibv_close_device(d->verbs);
        return cm_fail(saved);
    }
    d->max_rd_atom = (uint8_t)rnic_limits.max_qp_rd_atom;
    d->max_qp_wr = rnic_limits.max_qp_wr;
    return 0;
}

const struct cm_device *cm_device_open(void)
{
    cm_fork_prepare();
    pthread_mutex_lock(&device_lock);
    if (device == NULL) {
        struct cm_device *d = calloc(1, sizeof *d);
        if (d != NULL && device_fill(d) == 0) {
            device = d;
        } else {
            free(d);
        }
    }
    const struct cm_device *result = device;
    pthread_mutex_unlock(&device_lock);
    return result;
}

struct ibv_context **rdma_get_devices(int *num_devices)
{
    const struct cm_device *d = cm_device_open();
    struct ibv_context **list = d != NULL ? calloc(2, sizeof *list) : NULL;
    if (list != NULL) {
        list[0] = d->verbs;
    }
    if (num_devices != NULL) {
        *num_devices = list != NULL ? 1 : 0;
    }
    return list;
}

void rdma_free_devices(struct ibv_context **list)
{
    free(list);
}
