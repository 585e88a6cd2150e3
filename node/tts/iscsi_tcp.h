// The target transport service for iSCSI over TCP.
#pragma once

#include "base/time.h"
#include "node/interface/uma_tts.h"
#include "node/iscsi/iscsi.h"
#include "node/loop/loop.h"
#include "text/addresses.h"

struct iscsi_tcp;

struct iscsi_tcp_parts {
    struct iscsi *iscsi;
    struct loop *loop;
    struct addresses listen; // "HOST[:PORT]", "[HOST][:PORT]"; PORT 0: one that is free
    duration_ns patience_ns; // with initiators that hold memory (node/stream/progress.h)
};

// NULL without memory. It joins the loop as a member.
struct iscsi_tcp *iscsi_tcp_create(const struct iscsi_tcp_parts *parts);
void iscsi_tcp_destroy(struct iscsi_tcp *tcp);
// Its URIs, as libiscsi has them: "iscsi://127.0.0.1:3260/TARGET/0".
extern const struct tts_for_uma iscsi_tcp_for_uma;
struct iscsi_counters iscsi_tcp_counters(const struct iscsi_tcp *tcp);
