// The host storage node: one UMA, one CTA, the TTSs and the processes of the RTAs, on one loop and
// one thread.
//
//     host.c      the agents put together; the loop; signals
//     start.c     what it serves, or why it does not; say.c: what it says; end.c: the end
//     ttss.c      the target transport services
//     units.c     processes of RTAs: the bus, the socket, the bells, the end
//     unit_log.c  what they say on standard error
//     reservations.c  reservations that outlive the node
//     identity.c  identities of volumes from their origins
//     notify.c    what the service manager is told
//     captive.c   the command that a captive node serves
//     config.c    the configuration file
//     volumes.c   what is to be served, at the start and by rescans
//     found.c     the volumes that a source (node/discovery) has
//     status.c    what weft status shows; control.c answers it, at a place that control/runtime.h
//                 names
//     metrics.c   the same for Prometheus
//     web.c       both by HTTP, and a page in a browser; events.c: what was said last
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"
#include "node/uma/uma.h"
#include "text/addresses.h"

enum host_limits { HOST_LISTEN_MAX = ADDRESS_MAX, HOST_PATH_MAX = 1024 };

// Where RTAs live.
enum host_rta {
    HOST_RTA_EACH, // a process for each volume, but for volumes that name a unit
    HOST_RTA_ONE,  // one process for all
    HOST_RTA_HOST, // none: in the host's own process
};

struct host_config {
    struct volume_wish *volumes; // `unit` empty: by `rta`
    size_t volume_count;
    size_t file_volume_count;             // the first of them stand in the file `path`
    struct addresses nbd_listen;          // address_listen's form; none: no NBD
    struct addresses nvme_tcp_listen;     // HOST:PORT; none: no NVMe/TCP
    struct addresses nvme_rdma_listen;    // HOST[:PORT]; none: no NVMe/RDMA
    struct addresses iscsi_listen;        // HOST[:PORT]; none: no iSCSI
    struct addresses iscsi_rdma_listen;   // HOST[:PORT]; none: no iSCSI over RDMA
    char metrics_listen[HOST_LISTEN_MAX]; // address_listen's form; empty: none
    char http_listen[HOST_LISTEN_MAX];    // likewise, with the page
    char iscsi_secrets[HOST_PATH_MAX];    // who may log in by iSCSI; empty: who likes
    char reservations[HOST_PATH_MAX];     // those that outlive the node; empty: none does
    uint64_t pool_len;                    // octets, a multiple of NODE_TRANSFER_MAX
    unsigned rdma_connection_max;         // of each protocol over RDMA; 0: 512
    uint16_t cntlid_min;                  // of the first NVMe controller; 0: 1
    duration_ns patience_ns;              // with clients that hold memory; 0: as usual
    enum host_rta rta;
    char *const *captive; // argv of a command; NULL: none
    const char *path;     // of the configuration file, for rescans; NULL: none
    bool takes_volumes;   // that weft rescan --add names
    bool is_read_only;    // all volumes, those that come later too
    bool is_quiet;        // nothing on standard output
    bool is_announced;    // NVMe discovery over TCP, by mDNS
};

// Serves until a signal, or the end of the captive command. The exit status: that of the captive
// command; else 0; or 1 after saying on standard error what is wrong.
int host_run(const struct host_config *config);
