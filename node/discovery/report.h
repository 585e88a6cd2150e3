// What a host and an envoy of its say to each other, by a socket that keeps messages whole: they
// are structs of the one program that both are. The host believes nothing of it: whoever an envoy
// has spoken with may have got hold of it.
#pragma once

#include <stdint.h>

#include "base/why.h"
#include "node/discovery/remote_uri.h"
#include "node/interface/uma_rta.h"
#include "node/interface/volume.h"

enum order_kind {
    ORDER_ASK = 1,  // from now on: the source of this URI
    ORDER_AGAIN,    // now
    ORDER_ANNOUNCE, // a service, by mDNS, until the end
};

struct order {
    uint32_t kind;
    uint32_t port;           // ORDER_ANNOUNCE
    char text[UNIT_URI_MAX]; // the URI, or what the service is called
};

enum report_kind {
    REPORT_BEGIN = 1, // a reading
    REPORT_UNIT,      // of a target, where it is
    REPORT_KEPT,      // a target that could not be asked, with the reason: what it had stands
    REPORT_END,       // of the reading; `number` were left out
    REPORT_FAILED,    // the reading, with the reason: what there was last stands
};

struct report {
    uint32_t kind;
    uint32_t number;
    char where[REMOTE_HOST_MAX]; // empty: where it was asked
    char target[REMOTE_TARGET_MAX];
    struct volume_lineage lineage; // REPORT_UNIT: empty where nothing is told of it
    char text[WHY_MAX];
};

// By an envoy, which ends where nobody listens any more.
void report_send(int channel, const struct report *report);
