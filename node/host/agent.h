// The inside of the host storage node, for its files.
#pragma once

#include <sys/types.h>

#include "base/lookout.h"
#include "base/time.h"
#include "base/why.h"
#include "node/bus/ring.h"
#include "node/cta/cta.h"
#include "node/discovery/announcer.h"
#include "node/discovery/sources.h"
#include "node/host/announcement.h"
#include "node/host/events.h"
#include "node/host/host.h"
#include "node/host/pool.h"
#include "node/host/reservations.h"
#include "node/host/strangers.h"
#include "node/interface/request.h"
#include "node/iscsi/accounts.h"
#include "node/iscsi/iscsi.h"
#include "node/loop/loop.h"
#include "node/nvme/controller.h"
#include "node/tts/iscsi_rdma.h"
#include "node/tts/iscsi_tcp.h"
#include "node/tts/nbd.h"
#include "node/tts/nvme_rdma.h"
#include "node/tts/nvme_tcp.h"
#include "node/unit/runner.h"
#include "node/unit/segment.h"

// The standard error of a unit's process.
struct host_unit_log {
    int fd; // the reading end of a pipe; 0 or -1: none
    struct loop_watch *watch;
    size_t len; // of the line that has not ended
    char line[256];
};

// The process of one unit, and what connects it.
struct host_unit {
    struct host *host;
    uint32_t number;
    bool is_running;
    pid_t pid; // 0: the RTA is in the host's own process
    int pidfd;
    int channel;
    int bell_rta; // the writing end of a pipe: the host's alone
    int bell_cta; // an eventfd that the RTA has too: never read or written
    struct segment bus_memory;
    struct bus_end bus;
    struct loop_watch *exit_watch;
    struct loop_watch *channel_watch;
    struct loop_watch *bell_watch;
    struct runner *runner; // in the host's own process
    struct host_unit_log log;
};

enum { HOST_TTS_COUNT_MAX = 5, HOST_URI_MAX = 512 };

// A TTS that clients come to, and where it was asked to listen.
struct host_tts {
    const struct tts_for_uma *tts;
    void *ctx;
    const struct addresses *listen;
    const char *option; // of weft serve, for advice
};

struct host {
    const struct host_config *config;
    struct host_config in_file; // as last read; only its volumes count
    struct host_config wanted;  // all volumes that a rescan compares with, those of sources too
    struct host_config coming;  // volumes to be added when their names are free
    struct sources *sources;
    bool has_news;               // one of them has something else than it had
    struct announcer *announcer; // NULL: nothing is announced by mDNS
    struct loop *loop;
    struct pool pool;
    struct uma *uma;
    struct cta *cta;
    struct host_reservations *reservations;
    struct nbd *nbd;          // NULL, as the others: not asked for
    struct nvme_target *nvme; // the controllers of all NVMe TTSs
    struct nvme_rdma *nvme_rdma;
    struct nvme_tcp *nvme_tcp;
    struct iscsi *iscsi; // NULL: nothing carries sessions
    struct iscsi_accounts accounts;
    struct iscsi_tcp *iscsi_tcp;
    struct iscsi_rdma *iscsi_rdma;
    unsigned tts_count;
    struct host_tts ttss[HOST_TTS_COUNT_MAX]; // in the order of their URIs
    struct host_control *control;
    struct host_web *metrics, *page;
    struct host_events events;
    struct strangers strangers;
    struct strangers rtas;     // what they may say, by their names
    struct loop_member before; // the TTSs
    struct loop_member after;
    int signal_fd;
    struct loop_watch *signal_watch;
    bool has_announced;
    struct announcement announcement;
    instant_ns stop_by_ns; // when stopping: at the latest then
    int exit_status;
    pid_t captive_pid;
    int captive_fd;
    struct loop_watch *captive_watch;
    struct lookout lookout; // for answers of RTAs
    unsigned unit_end;      // no unit from here on has ever been used
    struct host_unit units[NODE_UNIT_COUNT_MAX];
};

/* ---- say.c ----------------------------------------------------------------------------------- */

// One line on standard error, and for who looks later.
void host_say(void *ctx, const char *line);
// What went wrong, with which object, why, and what to do.
void host_say_failure(const char *what, const char *object, const char *why, const char *remedy);
// What to do about a system that has not enough of something, by the negative errno.
const char *host_remedy(int error);

/* ---- end.c ----------------------------------------------------------------------------------- */

// A signal, or the captive command has ended so, or the node cannot start: everything stops.
void host_end(struct host *host, int exit_status);

/* ---- start.c --------------------------------------------------------------------------------- */

// Warns where the memory limit does not allow the pool.
void host_pool_look(const struct host *host);
// Announces the volumes, or says why there are none and ends; once, as soon as that is known.
void host_check_started(struct host *host);

/* ---- volumes.c ------------------------------------------------------------------------------- */

// Adds a volume, in the unit that the configuration says. 0, or a negative errno with the reason.
int host_volume_add(struct host *host, const struct volume_wish *wish, struct why *ret_why);
// All of the configuration's. 0, or a negative errno after saying why.
int host_volumes_add(struct host *host);
// The operator's reset event: volumes as the configuration file has them now, all probed anew. 0,
// or a negative errno with the reason in `ret_why`, and nothing changed. `note` hears what becomes
// of which volume: "added", "removed", "opened anew", "other clients",
// "another rate".
typedef void host_note(void *ctx, const char *volume, const char *what);
// One that tells the operator; the context is the struct host.
host_note host_note_said;
int host_rescan(struct host *host, host_note *note, void *ctx, struct why *ret_why);
// The same without the file: what sources have now.
int host_look(struct host *host, host_note *note, void *ctx, struct why *ret_why);
// The wish of a volume. NULL: none of that name.
const struct volume_wish *host_wish_find(const struct host_config *config, const char *name);
// At the end of a batch: those that come whose names have become free.
void host_volumes_come(struct host *host);
// Is everything done that was asked for?
bool host_volumes_are_settled(const struct host *host);

/* ---- ttss.c ---------------------------------------------------------------------------------- */

// Makes those that the configuration has, as members of the loop. 0 or a negative errno.
int host_ttss_create(struct host *host);
void host_ttss_destroy(struct host *host);
// How clients reach the volume through the `index`th address of this TTS; false: it listens at
// fewer.
bool host_uri(struct host *host, unsigned tts, const struct resource *row, unsigned index,
              char ret[HOST_URI_MAX]);

/* ---- units.c: parts of the UMA; the context is the struct host ------------------------------- */

int host_unit_spawn(void *ctx, uint32_t unit);
void host_unit_kill(void *ctx, uint32_t unit);
int host_unit_send(void *ctx, uint32_t unit, const struct unit_message *message, int keepsake);
struct frame_port host_unit_bus(void *ctx, uint32_t unit);
// Takes what has come over all buses.
void host_units_receive(struct host *host, instant_ns now);
// False: something has come.
bool host_units_sleep(struct host *host);
void host_units_wake(struct host *host);
void host_units_close(struct host *host);

/* ---- linger.c -------------------------------------------------------------------------------- */

// Before a sleep. True: an RTA has answered meanwhile.
bool host_units_linger(struct host *host);

/* ---- window.c -------------------------------------------------------------------------------- */

// A read window from what an RTA handed over, which is closed: a descriptor of the host's own to
// the same file. -1: it is none, or nothing can be read of it without waiting.
int host_window_open(int handed);
// As cta_parts.window_read.
bool host_window_read(void *ctx, int fd, uint64_t offset, void *data, uint32_t len);

/* ---- unit_log.c ------------------------------------------------------------------------------ */

// The writing end of a pipe that is to be the process's standard error; -1: none to be had.
int host_unit_log_open(struct host_unit *unit);
// After the last word that has come.
void host_unit_log_close(struct host_unit *unit);

/* ---- descriptor_limit.c ---------------------------------------------------------------------- */

// As many as this process may have.
void host_descriptors_raise(void);
// 0, or -EMFILE with the reason: they are too few for the volumes.
int host_descriptors_check(const struct host_config *config, struct why *ret_why);

/* ---- identity.c ------------------------------------------------------------------------------ */

void host_identify(void *ctx, const struct volume_profile *profile, struct volume_identity *ret);

/* ---- captive.c ------------------------------------------------------------------------------- */

// Starts the command with the node's URIs in its environment. 0 or a negative errno.
int host_captive_start(struct host *host);
void host_captive_close(struct host *host);
