// The unit management agent: knows which volumes there shall be, starts and restarts the RTAs that
// serve them, discovers what the volumes are, advertises them through the TTSs, and connects
// clients to them.
//
//     unit_manager.c       units: their processes, their states, their restarts
//     unit_telling.c       what their processes are to be told, as fast as they read
//     unit_initialize.c    discovery: device profiles, identities, the hardware resource table
//     connection_manager.c connections: CTA (262), RTA (261), and back to the TTS (260)
//     uma.c                the agent as others see it
//
// A reset event (the start, an operator's rescan, an RTA that ended) makes it discover anew.
//
// A unit's states; the table is in unit_manager.c:
//
//     ABSENT ─start─▶ STARTING ─hello─▶ OPENING ─opened─▶ CONNECTING ─connected─▶ READY
//                        ▲   (each but ABSENT) exit │                               │ drain
//                        └─timer─ WAITING ◀─────────┴─ DYING ◀─ broken              ▼
//                                                            ABSENT ◀─exit─ ENDING
//
// Fence first: a successor's process answers "opened" only when the I/O of its predecessor is over,
// and the CTA is told that the unit is ready only after that.
//
// A volume that other nodes serve too (may_stand_by) is ours from when its unit is ready until that
// is lost; else it stands by. Its unit is OPENING for as long as another node has the device.
//
// Sans-I/O. One thread at a time. Memory is taken in create.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"
#include "node/interface/uma_cta.h"
#include "node/interface/uma_rta.h"
#include "node/interface/uma_tts.h"
#include "node/interface/volume.h"

struct uma;

enum uma_limits { UMA_TTS_COUNT_MAX = 8, UMA_ALLOW_COUNT_MAX = 16, UMA_SERVICE_COUNT_MAX = 8 };

// What the operator wants of a volume.
struct volume_wish {
    char name[VOLUME_NAME_MAX]; // not that of another
    char uri[UNIT_URI_MAX];
    char unit[VOLUME_NAME_MAX]; // volumes of the same unit are served by one RTA
    bool is_alone;              // no other volume will have its unit
    bool read_only;
    bool may_stand_by; // other nodes serve it too, one at a time; its unit is its own
    unsigned source;   // of where it was found: that it cannot be opened is no failure of the
                       // node; 0: the operator has named it
    bool has_uuid;     // set by the operator, else derived from the origin
    bool has_alias;
    struct volume_identity identity;
    // A member's number is not that of another of the group; 0: the first that is free.
    struct volume_place places[VOLUME_GROUPING_COUNT];
    struct volume_rate rate;
    unsigned allow_count; // 0: any client
    char allow[UMA_ALLOW_COUNT_MAX][CLIENT_IDENTITY_MAX];
    unsigned service_count; // 0: by any TTS
    char services[UMA_SERVICE_COUNT_MAX][TTS_NAME_MAX];
};

// What the UMA needs of the system. Calls that fail make the unit be tried again later.
struct uma_parts {
    void *ctx;
    // Starts a process for the unit, on an empty bus. 0 or a negative errno.
    int (*spawn)(void *ctx, uint32_t unit);
    // Kills it; uma_on_exit follows.
    void (*kill)(void *ctx, uint32_t unit);
    // 0; -EAGAIN: not now, and uma_on_writable follows when it can be; other errors: the process is
    // gone, and uma_on_exit follows.
    int (*send)(void *ctx, uint32_t unit, const struct unit_message *message, int keepsake);
    // The CTA's end of the unit's bus, for all its processes.
    struct frame_port (*bus)(void *ctx, uint32_t unit);
    void (*close_keepsake)(void *ctx, int keepsake);
    // Derives the identity of a volume from its origin.
    void (*identify)(void *ctx, const struct volume_profile *profile, struct volume_identity *ret);
    // The reservation of a volume with this identity, until it is left. NULL without memory. Both
    // NULL: volumes have none.
    struct reservation *(*reservation_join)(void *ctx, const struct volume_identity *identity);
    void (*reservation_leave)(void *ctx, struct reservation *reservation);
    // One line for the operator.
    void (*say)(void *ctx, const char *line);
    // Everything has ended after uma_stop.
    void (*on_stopped)(void *ctx);
};

struct uma *uma_create(const struct uma_parts *parts);
void uma_destroy(struct uma *uma);

// The CTA, once, before anything else: it was made with the UMA in its hand.
void uma_join_cta(struct uma *uma, const struct cta_for_uma *cta, void *cta_ctx);

// What it offers; the context is the struct uma.
extern const struct uma_for_cta uma_for_cta;
extern const struct uma_for_tts uma_for_tts;

// Before or after the start. 0; -EEXIST: the name is taken; -ENOTUNIQ: the number in its group is;
// -ENOSPC: too many, or in the group.
int uma_volume_add(struct uma *uma, const struct volume_wish *wish, instant_ns now);
// Ends its connections, closes it. -ENOENT: no such volume.
int uma_volume_remove(struct uma *uma, const char *name, instant_ns now);

// Before the start.
void uma_tts_add(struct uma *uma, const struct tts_for_uma *tts, void *tts_ctx);

// The first reset event: units are started; the TTSs when every volume is ready or has failed.
void uma_start(struct uma *uma, instant_ns now);

// Other clients may use the volume from now on, or by other TTSs; who is connected stays. -ENOENT:
// no such volume.
int uma_volume_allow(struct uma *uma, const struct volume_wish *wish);
// Is the volume of this number for clients of the TTS with this name?
bool uma_volume_is_by(struct uma *uma, uint32_t volume, const char *service);
// It may be used at another rate, likewise.
int uma_volume_rate_set(struct uma *uma, const struct volume_wish *wish);
// Another node that waits for it gets it, or this one has it again. -ENOENT: no such volume;
// -EINVAL: no other node serves it; -EALREADY: another one does.
int uma_volume_stand_by(struct uma *uma, const char *name, instant_ns now);
// Is there a volume of this name, one that is going included?
bool uma_has_volume(const struct uma *uma, const char *name);

// The operator's reset event: volumes are probed anew, failed ones opened again.
void uma_rescan(struct uma *uma, instant_ns now);
// Nothing that was asked of a device is unanswered: every volume is open and as its device is now,
// has failed, or is gone.
bool uma_is_settled(const struct uma *uma);

// No volume has a rate any more: for those who wait, before a stop.
void uma_rates_lift(struct uma *uma);

// Connections are ended, units drained; on_stopped follows.
void uma_stop(struct uma *uma, instant_ns now);

// From the unit's process. A descriptor becomes the UMA's; -1: none.
void uma_on_message(struct uma *uma, uint32_t unit, const struct unit_message *message,
                    int keepsake, instant_ns now);
// The socket to the unit's process takes messages again.
void uma_on_writable(struct uma *uma, uint32_t unit, instant_ns now);
// The unit's process has ended, and been waited for. `how`: for people.
void uma_on_exit(struct uma *uma, uint32_t unit, const char *how, instant_ns now);

instant_ns uma_next_deadline(const struct uma *uma);
void uma_on_deadline(struct uma *uma, instant_ns now);

// Is every volume ready or failed, and does every TTS listen?
bool uma_has_started(const struct uma *uma);

/* ---- for weft status ------------------------------------------------------------------------- */

const struct resource_table *uma_resources(const struct uma *uma);

struct uma_unit_status {
    const char *name;
    const char *state;   // "ready", "waiting" ...
    instant_ns since_ns; // in this state
    uint64_t restarts;
    unsigned failures;             // processes in a row that did not become ready
    const char *why;               // what became of the last one; empty: it serves, or is the first
    int error;                     // the negative errno, if it could not be started
    struct unit_counters counters; // as last heard
};

// False: no unit with this number, of 0 .. NODE_UNIT_COUNT_MAX - 1.
bool uma_unit_status(const struct uma *uma, uint32_t unit, struct uma_unit_status *ret);

// Why the volume has failed; empty if it has not. The negative errno that goes with it.
const char *uma_volume_why(const struct uma *uma, uint32_t volume);
int uma_volume_error(const struct uma *uma, uint32_t volume);
// The rate that its clients may have; both 0: any.
struct volume_rate uma_volume_rate(const struct uma *uma, uint32_t volume);
// The unit that serves it.
uint32_t uma_volume_unit(const struct uma *uma, uint32_t volume);

// What has kept a TTS from starting; NULL: nothing. By index from 0. The negative errno with it.
const char *uma_tts_why(const struct uma *uma, size_t index);
int uma_tts_error(const struct uma *uma, size_t index);
// Its name; NULL: there are no more. And its figures, if it has any.
const char *uma_tts_name(const struct uma *uma, size_t index);
void uma_tts_figures(const struct uma *uma, size_t index, tts_figure *figure, void *figure_ctx);

unsigned uma_connection_count(const struct uma *uma);

// Asks every unit for its counters; uma_unit_status has them later.
void uma_ask_counters(struct uma *uma);
