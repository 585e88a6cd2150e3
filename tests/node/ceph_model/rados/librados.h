// What the fence asks of librados, for tests that stand in for a cluster themselves.
#pragma once

#include <stdint.h>

typedef void *rados_t;

int rados_getaddrs(rados_t cluster, char **ret_addrs);
int rados_blocklist_add(rados_t cluster, char *client_address, uint32_t expire_seconds);
int rados_wait_for_latest_osdmap(rados_t cluster);
