// The targets that volumes are to iSCSI initiators (RFC 7143), each a logical unit of one, whatever
// carries their sessions (a TTS). Discovery and normal sessions of one connection, error recovery
// level 0.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "node/interface/cta_tts.h"
#include "node/interface/uma_tts.h"
#include "node/interface/volume.h"
#include "node/iscsi/accounts.h"
#include "node/scsi/device.h"

enum { ISCSI_NAME_MAX = 224 };

struct iscsi;

// Of all sessions, and of those that TCP carries.
#define ISCSI_DOOR_COUNTERS(X)                                                           \
    X(sessions, "connections that got through their login")                              \
    X(unproven, "logins of who would not or could not prove who he is")                  \
    X(malformed, "connections ended because the initiator did not keep to the protocol") \
    X(rejects, "PDUs answered with Reject")

#define ISCSI_TCP_COUNTERS(X)                                          \
    X(accepted, "connections")                                         \
    X(stalled, "connections ended because nothing moved for too long") \
    X(refused, "connections beyond the limits, and logins")            \
    X(digest_errors, "of headers and of data")                         \
    X(octets_immediate, "data that came with or behind their command") \
    X(octets_asked, "data by R2T")                                     \
    X(octets_sent, "data of reads")

struct iscsi_counters {
#define X(name, text) uint64_t name;
    ISCSI_DOOR_COUNTERS(X)
    ISCSI_TCP_COUNTERS(X)
#undef X
};

struct iscsi_parts {
    const struct uma_for_tts *uma;
    void *uma_ctx;
    const struct cta_for_tts *cta;
    void *cta_ctx;
    const struct iscsi_accounts *accounts; // they may change at any time
    // Octets that nobody foresees.
    void (*randomize)(void *ctx, void *octets, size_t len);
    // One line for the operator about a stranger from this host; as in struct nvme_target_parts.
    void (*say)(void *ctx, const char *host, const char *line);
    void *ctx;
};

// The target of a volume, as the operator has it, or after its UUID; and which of its units it is.
void iscsi_name(const struct resource *row, char ret[ISCSI_NAME_MAX]);
uint32_t iscsi_lun(const struct resource *row);

// NULL without memory.
struct iscsi *iscsi_create(const struct iscsi_parts *parts);
// Nothing carries sessions of it any more.
void iscsi_destroy(struct iscsi *iscsi);
