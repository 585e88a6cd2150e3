// Interface 260: the unit management agent and the target transport services. Over it the UMA tells
// what there is and connects clients to it; the TTS listens, names its clients, and hides its
// network protocol. Method calls within one process, on one thread.
//
// A connection is begun by the client, through its TTS:
//
//     TTS connect ────────▶ UMA ──(262)─▶ CTA: routing table
//                            └──(261)──▶ RTA: transaction store, a row
//     TTS on_connected ◀──── UMA          both have said yes, or one has refused
//
// and ended by whoever must: the TTS (disconnect), or the UMA (drop, which the TTS answers with
// disconnect once its service requests have ended).
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/why.h"
#include "node/interface/request.h"
#include "node/interface/volume.h"

enum client_limits {
    CLIENT_ADDRESS_MAX = 128,
    CLIENT_IDENTITY_MAX = 256,
    CLIENT_HOST_MAX = 64,
    CLIENT_REGISTRANT_MAX = 256,
};

enum { TTS_NAME_MAX = 32 };

// Who asks. The texts are opaque here: the address is shown, the others are compared.
struct client {
    char address[CLIENT_ADDRESS_MAX];   // where it comes from
    char host[CLIENT_HOST_MAX];         // the same for all connections that shall share what one
                                        // client may have; empty: this one shares with none
    char identity[CLIENT_IDENTITY_MAX]; // who it says it is; empty where the protocol has no name
    char registrant[CLIENT_REGISTRANT_MAX]; // who it is to reservations: all connections with this
                                            // text are one; empty: it can register none
    char service[TTS_NAME_MAX];             // the name of the TTS that it comes by
};

enum connect_status {
    CONNECT_OK,
    CONNECT_NO_VOLUME,   // none of that number
    CONNECT_NOT_ALLOWED, // this client may not use the volume
    CONNECT_NOT_READY,   // the volume has failed, or the node ends
    CONNECT_TOO_MANY,    // NODE_CONNECTION_COUNT_MAX
    CONNECT_REFUSED,     // the RTA would not have it
    CONNECT_STATUS_COUNT
};

// "ok", "no volume" ... (connect.c)
const char *connect_status_name(enum connect_status status);

struct tts_for_uma;
struct tts_for_cta; // cta_tts.h
struct reservation; // reservation.h

// The TTS owns it and leaves it alone until on_connected.
struct connect_request {
    struct client client;
    uint32_t volume;
    uint64_t cookie;                   // the TTS's own
    const struct tts_for_uma *tts;     // who is answered,
    const struct tts_for_cta *service; // who is called for service requests,
    void *tts_ctx;                     // and the argument of both
    uint32_t connection;        // the answer: the number for service requests (interface 284)
    enum connect_status status; // the answer
    struct list_link link;      // the UMA's
};

// What the UMA offers; `uma` is the context it gave with it.
struct uma_for_tts {
    // The volumes, as of now. Valid until the caller returns to the loop.
    const struct resource_table *(*resources)(void *uma);
    // Is the client on the volume's list, or has the volume none; and likewise what it comes by?
    bool (*may_see)(void *uma, uint32_t volume, const struct client *client);
    // Answered by on_connected, perhaps before this returns. A client that comes back is not
    // connected before the requests of its former connection to the volume have ended.
    void (*connect)(void *uma, struct connect_request *request);
    // The connection's service requests have all ended. No answer.
    void (*disconnect)(void *uma, uint32_t connection);
    // The reservation of the volume, for what is told of it. NULL: it can have none.
    const struct reservation *(*reservation)(void *uma, uint32_t volume);
};

// One of a TTS's figures: `name` as weft-status(1) has it, "accepted", "sessions" ...
enum tts_figure_kind {
    TTS_COUNTER, // since the start
    TTS_GAUGE,   // now
};
typedef void tts_figure(void *figure_ctx, const char *name, enum tts_figure_kind kind,
                        uint64_t value);

// What a TTS offers; `tts` is its own context. One that asks for no connections (another does, for
// it) has neither on_connected nor drop.
struct tts_for_uma {
    const char *name;
    // The units are initialised: accept connections. 0, or a negative errno with the reason in
    // `ret_why`. Called again while that fails.
    int (*start)(void *tts, struct why *ret_why);
    // The table has changed: advertise it in the protocol's own way.
    void (*advertise)(void *tts, const struct resource_table *table);
    void (*on_connected)(void *tts, struct connect_request *request);
    // End this connection: its volume is going.
    void (*drop)(void *tts, uint32_t connection);
    // Accept no more and end all connections; over when each has been disconnected.
    void (*stop)(void *tts);
    // Calls `figure` for each of its figures, always the same ones. NULL: it has none.
    void (*figures)(void *tts, tts_figure *figure, void *figure_ctx);
    // How clients reach the volume, once started: at the `index`th address it listens at, as one
    // word, false: there are not so many; and a command that a user may type for it, at the first.
    // Both NULL: this TTS has no address of its own.
    bool (*uri)(void *tts, const struct resource *volume, unsigned index, char *ret,
                size_t capacity);
    void (*hint)(void *tts, const struct resource *volume, char *ret, size_t capacity);
};
