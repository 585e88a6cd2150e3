// The target transport service for NBD clients: fixed newstyle negotiation over TCP and Unix
// sockets, structured replies and block status where the client asks for them. An export is a
// volume, by its name; the empty name is the first volume.
#pragma once

#include "base/time.h"
#include "node/interface/cta_tts.h"
#include "node/interface/uma_tts.h"
#include "node/loop/loop.h"
#include "text/addresses.h"

struct nbd;

#define NBD_COUNTERS(X)                                                               \
    X(accepted, "connections")                                                        \
    X(established, "of them, got to transmission")                                    \
    X(refused, "connections: too many, or no volume")                                 \
    X(malformed, "connections ended because the client did not keep to the protocol") \
    X(stalled, "connections ended because nothing moved for too long")                \
    X(requests, "requests taken")                                                     \
    X(errors, "requests answered with an error")

struct nbd_counters {
#define X(name, text) uint64_t name;
    NBD_COUNTERS(X)
#undef X
};

struct nbd_parts {
    struct loop *loop;
    // "HOST:PORT", "[HOST]:PORT" or "unix:PATH"; PORT 0: one that is free.
    struct addresses listen;
    const struct uma_for_tts *uma;
    void *uma_ctx;
    const struct cta_for_tts *cta;
    void *cta_ctx;
    duration_ns patience_ns; // with clients that hold memory (node/stream/progress.h)
    // One line for the operator about a stranger from this host; as in struct nvme_target_parts.
    void (*say)(void *ctx, const char *host, const char *line);
    void *ctx;
};

// NULL without memory. It joins the loop as a member.
struct nbd *nbd_tts_create(const struct nbd_parts *parts);
void nbd_tts_destroy(struct nbd *nbd);

// Its URIs: "nbd://127.0.0.1:10809/NAME" or "nbd+unix:///NAME?socket=/path".
extern const struct tts_for_uma nbd_for_uma;

struct nbd_counters nbd_counters(const struct nbd *nbd);
