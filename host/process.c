// The RNICs of a process, one per wire: brought up on first use, started anew in the child of a
// fork, flushed when the process exits.

#include "host/process.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>

#include "base/device_wire.h"
#include "base/port_datagram.h"
#include "base/port_link.h"
#include "base/time.h"
#include "host/clock.h"
#include "host/control.h"
#include "host/datagram.h"
#include "host/devices.h"
#include "host/link.h"
#include "host/mapping.h"
#include "host/settings.h"
#include "host/trace.h"
#include "rnic/create.h"
#include "rnic/stat.h"

// What the RNICs of this process stand on. The child of a fork makes one anew and leaves the
// parent's as it was, since the program may still hold objects in it.
struct process {
    struct host_settings settings;
    struct host_trace trace;
    struct mapping mapping;
    struct rnic *_Atomic rnics[DEVICE_WIRE_COUNT]; // NULL: not up yet
    struct process *before;                        // left behind by an earlier fork
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

// The link of the wire's kind into the parts.
static int link_create(struct process *p, enum device_wire wire, const struct rnic_port *port,
                       struct rnic_parts *parts)
{
    if (wire == DEVICE_WIRE_IWARP) {
        return host_link_create(&p->settings, &p->trace.trace, &parts->link);
    }
    parts->port = *port;
    return host_datagram_link_create(&p->settings, &p->trace.trace, &parts->port,
                                     &parts->datagrams);
}

static void parts_destroy(const struct rnic_parts *parts)
{
    if (parts->link != NULL) {
        link_destroy(parts->link);
    }
    if (parts->datagrams != NULL) {
        datagram_destroy(parts->datagrams);
    }
}

static const char *const names[DEVICE_WIRE_COUNT] = {
    [DEVICE_WIRE_IWARP] = DEVICE_NAME_IWARP,
    [DEVICE_WIRE_ROCE] = DEVICE_NAME_ROCE,
};

static int device_create(struct process *p, enum device_wire wire, const struct rnic_port *port,
                         struct rnic **ret)
{
    struct rnic_parts parts = {
        .name = names[wire],
        .config = p->settings.rnic,
        .clock = host_clock,
        .trace = &p->trace.trace,
        .probe = {.check = mapping_probe, .ctx = &p->mapping},
        .half_open_max = half_open_max(),
    };
    int error = link_create(p, wire, port, &parts);
    if (error != 0) {
        return error;
    }
    // The random pool is ready long before programs run; below 256 octets no read is short.
    if (getrandom(parts.stag_key, sizeof parts.stag_key, 0) < 0 ||
        getrandom(&parts.qp_num_first, sizeof parts.qp_num_first, 0) < 0) {
        error = -errno;
        parts_destroy(&parts);
        return error;
    }
    error = rnic_create(&parts, ret);
    if (error != 0 && port != NULL) {
        host_port_say_refused(&p->settings, port, error);
    }
    return error;
}

static struct process *process_create(void)
{
    struct process *p = calloc(1, sizeof *p);
    if (p != NULL) {
        host_settings_read(&p->settings);
        host_trace_init(&p->trace, &p->settings);
        mapping_init(&p->mapping);
    }
    return p;
}

static void process_destroy(struct process *p)
{
    mapping_fini(&p->mapping);
    free(p);
}

// The lock held. What the first device stands on goes with it if that cannot be had.
static struct rnic *bring_up(enum device_wire wire, const struct rnic_port *port, int *ret_error)
{
    struct process *before = atomic_load(&process);
    struct process *p = before != NULL ? before : process_create();
    if (p == NULL) {
        *ret_error = -ENOMEM;
        return NULL;
    }
    struct rnic *rnic = atomic_load(&p->rnics[wire]);
    if (rnic != NULL) {
        return rnic;
    }
    *ret_error = device_create(p, wire, port, &rnic);
    if (*ret_error != 0) {
        if (before == NULL) {
            process_destroy(p);
        }
        return NULL;
    }
    atomic_store(&p->rnics[wire], rnic);
    if (before == NULL) {
        // A failure only hides this process from `weft stat`.
        control_start(p->rnics, p->settings.read_pressure);
        atomic_store(&process, p);
    }
    return rnic;
}

/* ---- fork ------------------------------------------------------------------------------------ */

static void each_rnic(struct process *p, void (*call)(struct rnic *rnic))
{
    for (unsigned wire = 0; p != NULL && wire < DEVICE_WIRE_COUNT; wire++) {
        struct rnic *rnic = atomic_load(&p->rnics[wire]);
        if (rnic != NULL) {
            call(rnic);
        }
    }
}

// The fork happens while nobody drives, so that the child's copy is whole.
static void before_fork(void)
{
    pthread_mutex_lock(&process_lock);
    each_rnic(atomic_load(&process), rnic_hold);
}

static void after_fork_in_parent(void)
{
    each_rnic(atomic_load(&process), rnic_resume);
    pthread_mutex_unlock(&process_lock);
}

// The parent's connections stay the parent's: descriptors are closed here, nothing is shut down.
static void after_fork_in_child(void)
{
    struct process *p = atomic_load(&process);
    if (p != NULL) {
        each_rnic(p, rnic_abandon);
        control_abandon();
        mapping_fini(&p->mapping); // it shows the parent's memory
        p->before = left;
        left = p;
        atomic_store(&process, NULL);
    }
    pthread_mutex_unlock(&process_lock);
}

/* ---- exit ------------------------------------------------------------------------------------ */

static void stats_write(struct process *p)
{
    struct rnic *up[DEVICE_WIRE_COUNT];
    const unsigned count = devices_up(p->rnics, up);
    stat_write_file(up, count, p->settings.stats_path);
}

static void on_exit_of_process(void)
{
    struct process *p = atomic_load(&process);
    bool is_usable = true;
    for (unsigned wire = 0; p != NULL && wire < DEVICE_WIRE_COUNT; wire++) {
        struct rnic *rnic = atomic_load(&p->rnics[wire]);
        // The kernel would go on for a socket of a process that is gone; nobody does for our own
        // TCP.
        is_usable =
            (rnic == NULL || rnic_flush(rnic, exit_flush_ns, p->settings.peer_timeout_ns)) &&
            is_usable;
    }
    if (p == NULL || p->settings.stats_path[0] == '\0') {
        return;
    }
    if (is_usable) {
        stats_write(p);
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

struct rnic *host_rnic(enum device_wire wire, const struct rnic_port *port, int *ret_error)
{
    static pthread_once_t hooks_once = PTHREAD_ONCE_INIT;
    struct process *p = atomic_load(&process);
    struct rnic *rnic = p != NULL ? atomic_load(&p->rnics[wire]) : NULL;
    *ret_error = 0;
    if (rnic != NULL) {
        return rnic;
    }
    // Before the lock is taken: a fork by another thread meanwhile would give it to the child.
    pthread_once(&hooks_once, hooks_install);
    pthread_mutex_lock(&process_lock);
    rnic = bring_up(wire, port, ret_error);
    pthread_mutex_unlock(&process_lock);
    return rnic;
}

int host_rnics(struct rnic *ret[DEVICE_WIRE_COUNT])
{
    struct process *p = atomic_load(&process);
    unsigned count = p != NULL ? devices_up(p->rnics, ret) : 0;
    int error = 0;
    if (count == 0) {
        ret[0] = host_rnic(DEVICE_WIRE_IWARP, NULL, &error);
        count = 1;
    }
    return error != 0 ? error : (int)count;
}
