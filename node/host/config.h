// The configuration file of a node, in the INI form:
//
//     [node]
//     nbd = 127.0.0.1:10809       HOST:PORT or unix:PATH
//     nvme-rdma = 127.0.0.1       HOST[:PORT]
//     nvme-tcp = 127.0.0.1:4420   HOST:PORT
//     iscsi = 127.0.0.1           HOST[:PORT]
//     iscsi-rdma = 127.0.0.1      HOST[:PORT]
//     metrics = 127.0.0.1:9108    address for Prometheus
//     http = 127.0.0.1:8080       address for browsers, and for Prometheus too
//     reservations = FILE         those that outlive the node; beside this file if not given
//     pool = 64M
//     patience = 30s              with clients that hold memory of the pool
//     rdma-connections = 512      room of each protocol over RDMA
//     rta = each                  each, one, host
//     allow-add = yes             volumes may be added while it runs
//     mdns = yes                  NVMe discovery over TCP is announced
//
//     [volume NAME]
//     uri = file:/srv/disk.img
//     read-only = yes
//     rta = NAME                  volumes with the same one share a process
//     uuid = 6f4d…                instead of the derived ones
//     nguid = 0011…
//     nqn = NQN                   of its NVMe subsystem; those of one name are its namespaces
//     nsid = 2                    its number there
//     iops = 500                  requests a second, of all its clients
//     bps = 10M                   octets a second
//     allow = IDENTITY            only these clients; may stand there several times
//     protocol = nvme-tcp         by these protocols alone; likewise
//
// A key that is not known, a value that cannot be, a volume twice: an error with its line.
#pragma once

#include "base/why.h"
#include "node/host/host.h"

// Reads into what is there already: what the file does not say stays. 0 or a negative errno, with
// the reason in `ret_why`. Volumes are added.
int config_read(const char *path, struct host_config *config, struct why *ret_why);

// Frees the volumes.
void config_free(struct host_config *config);

// The unit of volumes with `rta = host`, whatever the node's: in the host's own process. No volume
// has this name.
#define CONFIG_HOST_UNIT "(host)"

// "each", "one" or "host". False: none of them.
bool config_rta_parse(const char *word, enum host_rta *ret);

// Appends a volume; the array grows. 0; -EEXIST; -ENOMEM.
int config_volume_add(struct host_config *config, const struct volume_wish *wish);
