// The devices that the ids of a process share, the lock of this room, and what a fork does to both.

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
// device_lock; NULL until first use in this process
static struct cm_device *devices[DEVICE_WIRE_COUNT];
static struct cm_device *left; // by forks: pointed to, so that it is no leak of the child's
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
    for (unsigned wire = 0; wire < DEVICE_WIRE_COUNT; wire++) {
        if (devices[wire] != NULL) {
            devices[wire]->before = left;
            left = devices[wire];
            devices[wire] = NULL;
        }
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

static struct ibv_context *verbs_open(enum device_wire wire)
{
    static const char *const names[DEVICE_WIRE_COUNT] = {DEVICE_NAME_IWARP, DEVICE_NAME_ROCE};
    struct ibv_device **list = ibv_get_device_list(NULL);
    if (list == NULL) {
        errno = ENODEV;
        return NULL;
    }
    struct ibv_context *verbs = NULL;
    errno = ENODEV;
    for (struct ibv_device **at = list; *at != NULL && verbs == NULL; at++) {
        if (strcmp(ibv_get_device_name(*at), names[wire]) == 0) {
            verbs = ibv_open_device(*at);
        }
    }
    ibv_free_device_list(list);
    return verbs;
}

static int device_fill(struct cm_device *d, enum device_wire wire)
{
    int error;
    d->verbs = verbs_open(wire);
    if (d->verbs == NULL) {
        return -1;
    }
    d->rnic = host_rnic(wire, NULL, &error); // which is up
    d->way = rnic_port(d->rnic).addr_count > 0 ? &cm_packet_way : &cm_stream_way;
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

const struct cm_device *cm_device_open(enum device_wire wire)
{
    cm_fork_prepare();
    pthread_mutex_lock(&device_lock);
    if (devices[wire] == NULL) {
        struct cm_device *d = calloc(1, sizeof *d);
        if (d != NULL && device_fill(d, wire) == 0) {
            devices[wire] = d;
        } else {
            free(d);
        }
    }
    const struct cm_device *result = devices[wire];
    pthread_mutex_unlock(&device_lock);
    return result;
}

const struct cm_device *cm_device_try(enum device_wire wire)
{
    static atomic_bool is_absent[DEVICE_WIRE_COUNT];
    const struct cm_device *d = atomic_load(&is_absent[wire]) ? NULL : cm_device_open(wire);
    atomic_store(&is_absent[wire], d == NULL);
    return d;
}

// Those that connections may come by, which listeners hand to programs.
struct ibv_context **rdma_get_devices(int *num_devices)
{
    struct ibv_context **list = calloc(DEVICE_WIRE_COUNT + 1, sizeof *list);
    int count = 0;
    for (unsigned wire = 0; wire < DEVICE_WIRE_COUNT && list != NULL; wire++) {
        const struct cm_device *d = cm_device_try(wire);
        if (d != NULL) {
            list[count++] = d->verbs;
        }
    }
    if (count == 0) {
        free(list);
        list = NULL;
    }
    if (num_devices != NULL) {
        *num_devices = count;
    }
    return list;
}

void rdma_free_devices(struct ibv_context **list)
{
    free(list);
}
