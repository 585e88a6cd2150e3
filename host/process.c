// The one RNIC of a process: brought up on first use, started anew in the child of a fork, flushed
// when the process exits.

#include "host/process.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>

#include "base/time.h"
#include "host/clock.h"
#include "host/control.h"
#include "host/link.h"
#include "host/mapping.h"
#include "host/settings.h"
#include "host/trace.h"
#include "rnic/create.h"
#include "rnic/stat.h"

// What an RNIC of this process stands on. The child of a fork makes one anew and leaves the
// parent's as it was, since the program may still hold objects in it.
struct process {
    struct host_settings settings;
    struct host_trace trace;
    struct mapping mapping;
    struct link *link;
    struct rnic *rnic;
    struct process *before; // left behind by an earlier fork
};

static pthread_mutex_t process_lock = PTHREAD_MUTEX_INITIALIZER;
static struct process *_Atomic process; // NULL: not up yet
static struct process *left; // by forks: pointed to, so that it is no leak of the child's

// How long a process that exits waits until what it posted has left.
static const duration_ns exit_flush_ns = 1 * NS_PER_S;

/* ---- bringing up ----------------------------------------------------------------------------- */

// At most half of the descriptors that the process may have are for peers that say nothing.
static uint32_t half_open_max(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur / 2 >= UINT32_MAX) {
        return 0;
    }
    return limit.rlim_cur < 2 ? 1 : (uint32_t)(limit.rlim_cur / 2);
}

static int device_create(struct process *p)
{
    struct rnic_parts parts = {
        .config = p->settings.rnic,
        .link = p->link,
        .clock = host_clock,
        .trace = &p->trace.trace,
        .probe = {.check = mapping_probe, .ctx = &p->mapping},
        .half_open_max = half_open_max(),
    };
    // The random pool is ready long before programs run; below 256 octets no read is short.
    if (getrandom(parts.stag_key, sizeof parts.stag_key, 0) < 0 ||
        getrandom(&parts.qp_num_first, sizeof parts.qp_num_first, 0) < 0) {
        int error = -errno;
        p->link->ops->destroy(p->link);
        return error;
    }
    return rnic_create(&parts, &p->rnic);
}

static struct process *process_create(int *ret_error)
{
    struct process *p = calloc(1, sizeof *p);
    if (p == NULL) {
        *ret_error = -ENOMEM;
        return NULL;
    }
    host_settings_read(&p->settings);
    host_trace_init(&p->trace, &p->settings);
    mapping_init(&p->mapping);
    *ret_error = host_link_create(&p->settings, &p->trace.trace, &p->link);
    if (*ret_error == 0) {
        *ret_error = device_create(p);
    }
    if (*ret_error != 0) {
        mapping_fini(&p->mapping);
        free(p);
        return NULL;
    }
    return p;
}

/* ---- fork ------------------------------------------------------------------------------------ */

// The fork happens while nobody drives, so that the child's copy is whole.
static void before_fork(void)
{
    pthread_mutex_lock(&process_lock);
    struct process *p = atomic_load(&process);
    if (p != NULL) {
        rnic_hold(p->rnic);
    }
}

static void after_fork_in_parent(void)
{
    struct process *p = atomic_load(&process);
    if (p != NULL) {
        rnic_resume(p->rnic);
    }
    pthread_mutex_unlock(&process_lock);
}

// The parent's connections stay the parent's: descriptors are closed here, nothing is shut down.
static void after_fork_in_child(void)
{
    struct process *p = atomic_load(&process);
    if (p != NULL) {
        rnic_abandon(p->rnic);
        control_abandon();
        mapping_fini(&p->mapping); // it shows the parent's memory
        p->before = left;
        left = p;
        atomic_store(&process, NULL);
    }
    pthread_mutex_unlock(&process_lock);
}

/* ---- exit ------------------------------------------------------------------------------------ */

static void on_exit_of_process(void)
{
    struct process *p = atomic_load(&process);
    if (p == NULL) {
        return;
    }
    // The kernel would go on for a socket of a process that is gone; nobody does for our own TCP.
    bool is_usable = rnic_flush(p->rnic, exit_flush_ns, p->settings.peer_timeout_ns);
    if (p->settings.stats_path[0] == '\0') {
        return;
    }
    if (is_usable) {
        stat_write_file(p->rnic, p->settings.stats_path);
    } else {
        fprintf(stderr, "weft: no counters are written (WEFT_STATS_FILE): the process exits in a "
                        "signal handler, in the middle of a call\n");
    }
}

/* ---- first use ------------------------------------------------------------------------------- */

static void hooks_install(void)
{
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    atexit(on_exit_of_process);
}

struct rnic *host_rnic(int *ret_error)
{
    static pthread_once_t hooks_once = PTHREAD_ONCE_INIT;
    struct process *p = atomic_load(&process);
    *ret_error = 0;
    if (p != NULL) {
        return p->rnic;
    }
    // Before the lock is taken: a fork by another thread meanwhile would give it to the child.
    pthread_once(&hooks_once, hooks_install);
    pthread_mutex_lock(&process_lock);
    p = atomic_load(&process);
    if (p == NULL) {
        p = process_create(ret_error);
        if (p != NULL) {
            // Without it `weft stat` does not see this process, no more.
            control_start(p->rnic, p->settings.read_pressure);
            atomic_store(&process, p);
        }
    }
    pthread_mutex_unlock(&process_lock);
    return p != NULL ? p->rnic : NULL;
}
