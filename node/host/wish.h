// What an operator writes: volumes, sizes. For command lines and configuration files alike.
#pragma once

#include "base/time.h"
#include "base/why.h"
#include "node/interface/volume.h"
#include "node/uma/uma.h"

enum { WISH_POOL_DEFAULT = 64 << 20 };

// "[NAME=]URI". A bare path becomes file:PATH, or glob:PATH* where it ends with a slash; a missing
// name comes from the object. 0 or -EINVAL with the reason in `ret_why`.
int wish_parse(const char *text, struct volume_wish *ret, struct why *ret_why);

// The URI alone. What is the node's business of its parameters becomes the wish's: `allow` its list
// of clients, `protocol` what these may come by, `iops` and `bps` its rate, `nqn` and `target` its
// groups, `nsid` and `lun` its number in each, which no pattern has, `standby` whether other nodes
// serve it too.
int wish_uri_parse(const char *uri, struct volume_wish *ret, struct why *ret_why);

// What one of those words says: `allow` and `protocol` add one each time. 0, -EINVAL with the
// reason, or -ENOENT: it is none of them.
int wish_key_set(struct volume_wish *wish, const char *key, const char *value, struct why *ret_why);

// Gives the wish another name if one of `others` has its: "name-2".
void wish_name_settle(const struct volume_wish *others, size_t other_count,
                      struct volume_wish *wish);

// A name that a volume may have: letters, digits, . _ -
bool wish_name_is_good(const char *name);

// How long a client may hold memory of the pool without getting on; not 0.
int wish_patience_parse(const char *text, duration_ns *ret, struct why *ret_why);

// The number of the first controller of a node.
int wish_cntlid_parse(const char *text, uint16_t *ret, struct why *ret_why);
// How many connections each protocol over RDMA has room for.
int wish_rdma_connections_parse(const char *text, unsigned *ret, struct why *ret_why);
// May the volume, as it is wished, stand by, in an RTA that is `is_alone`?
int wish_standby_check(const struct volume_wish *wish, bool is_alone, struct why *ret_why);
// Has the volume a number of its own in a group?
bool wish_has_number(const struct volume_wish *wish);

// A size of the pool, rounded up to what it can be.
int wish_pool_parse(const char *text, uint64_t *ret, struct why *ret_why);
