// The inside of the UMA, for its files.
#pragma once

#include "base/list.h"
#include "base/time.h"
#include "base/why.h"
#include "node/interface/request.h"
#include "node/interface/volume.h"
#include "node/uma/uma.h"

enum unit_state {
    UNIT_ABSENT,
    UNIT_STARTING,   // has a process that has not said hello
    UNIT_OPENING,    // devices are being opened, the fence awaited
    UNIT_CONNECTING, // connections that are there are told to it
    UNIT_READY,
    UNIT_ENDING,  // shall end when drained
    UNIT_DYING,   // has been killed, or told to yield
    UNIT_WAITING, // until it is started again
    UNIT_STATE_COUNT
};

// What its files say of a unit while they are at work: it is done when the call that the UMA was
// entered by is over (units_settle).
enum unit_note {
    UNIT_NOTE_BROKEN = 1 << 0,   // its process broke the rules
    UNIT_NOTE_LEAVES = 1 << 1,   // volumes that go have lost their last connection (volume.is_left)
    UNIT_NOTE_STANDBY = 1 << 2,  // volumes stand by: who waits for them may be connected
    UNIT_NOTE_NEEDED = 1 << 3,   // a volume has gone: it may have been the last
    UNIT_NOTE_PROGRESS = 1 << 4, // something that its process was asked for is over
};

enum unit_event {
    UNIT_ON_START,
    UNIT_ON_HELLO,
    UNIT_ON_OPENED,    // every volume
    UNIT_ON_CONNECTED, // every connection
    UNIT_ON_TIMER,
    UNIT_ON_BROKEN, // broke the rules, or the socket to it did
    UNIT_ON_DRAIN,  // nobody needs it any more
    UNIT_ON_EXIT,
    UNIT_EVENT_COUNT
};

struct unit {
    bool is_used;
    enum unit_state state;
    char name[VOLUME_NAME_MAX];
    instant_ns since_ns;
    instant_ns timer_ns;
    duration_ns backoff_ns;
    uint64_t restarts;
    unsigned failures;    // processes in a row that did not become ready
    int error;            // of the last one, if it could not be started: a negative errno
    struct why why;       // what became of the last one
    bool was_ready;       // some process of it was: the next one is a successor
    bool has_served;      // the process now, or the last one, was
    bool yields;          // another node is to have the device,
    duration_ns pause_ns; // and so long before the next process is started
    struct unit_counters counters;
    unsigned missing_count;      // connections that its process is to know and does not
    unsigned noted;              // enum unit_note
    struct list_link noted_link; // in uma.noted

    // What its process is still to be told (unit_telling.c).
    struct list_link unsaid_volumes;     // volume.unsaid
    struct list_link unsaid_connections; // connection.unsaid
    bool is_status_unsaid;
    bool is_drain_unsaid;
    bool is_yield_unsaid;
    bool is_blocked;       // the socket was full: go on when it is not
    instant_ns hear_by_ns; // if blocked: at the latest then
};

enum volume_state {
    VOLUME_UNUSED,
    VOLUME_NEW,     // to be opened when the unit is there
    VOLUME_OPENING, // asked, or about to be
    VOLUME_OPEN,
    VOLUME_FAILED,  // tried again later
    VOLUME_LEAVING, // connections are being ended
    VOLUME_CLOSING, // asked, or about to be
};

struct volume {
    enum volume_state state;
    uint32_t number;
    uint32_t unit;
    uint32_t members[VOLUME_GROUPING_COUNT]; // its numbers in its groups
    bool was_open;                           // opening it again waits for the fence
    bool is_probing;                         // its device is being asked anew
    bool is_left;                            // noted: it goes, and nobody is connected any more
    bool is_waited; // while it is being opened: another node has the device
    bool has_profile;
    int keepsake; // -1: none
    int window;   // while it is open; -1: none
    struct volume_wish wish;
    struct volume_profile profile;
    struct volume_identity identity;
    struct reservation *reservation; // once it was open; NULL: it has none
    struct list_link unsaid;         // in a list of the unit
    int error;                       // of the last attempt to open it, with the reason
    struct why why;
};

enum connection_state {
    CONNECTION_UNUSED,
    CONNECTION_ROUTING, // the CTA has been asked
    CONNECTION_ROUTED,  // the CTA has said yes; the RTA is to be asked
    CONNECTION_ADDING,  // the RTA has been asked, or is about to be
    CONNECTION_OPEN,
    CONNECTION_REMOVING, // the RTA has been told, or is about to be
};

struct connection {
    enum connection_state state;
    bool is_new; // its TTS has had no answer yet
    bool is_dropped;
    uint32_t number;
    struct volume *volume;
    struct connect_request *request;
    const struct tts_for_uma *tts;
    void *tts_ctx;
    struct list_link unsaid; // in a list of the unit
};

struct uma_tts {
    const struct tts_for_uma *tts;
    void *ctx;
    bool has_started;
    int error;
    struct why why;
};

struct uma {
    struct uma_parts parts;
    const struct cta_for_uma *cta;
    void *cta_ctx;
    bool is_started; // uma_start was called
    bool is_stopping;
    bool has_stopped;
    instant_ns tts_retry_ns;
    instant_ns now;         // of the call under way
    unsigned depth;         // of the calls under way: TTSs and the CTA call back
    struct list_link noted; // units: unit.noted_link
    uint32_t volume_serial;
    uint32_t connection_serial;
    unsigned connection_count;
    unsigned tts_count;
    struct uma_tts ttss[UMA_TTS_COUNT_MAX];
    unsigned unit_end; // no unit from here on has ever been used
    struct unit units[NODE_UNIT_COUNT_MAX];
    struct volume volumes[NODE_VOLUME_COUNT_MAX];
    struct connection connections[NODE_CONNECTION_COUNT_MAX];
    struct resource_table table;
    struct resource rows[NODE_VOLUME_COUNT_MAX];
};

/* ---- tables.c -------------------------------------------------------------------------------- */

uint32_t unit_number(const struct uma *uma, const struct unit *unit);
// Closes the descriptor, if it is one: -1 afterwards.
void descriptor_drop(struct uma *uma, int *fd);
// What is wrong with its process, said and remembered.
void unit_say(struct uma *uma, struct unit *unit, const char *what);
struct volume *volume_next(struct uma *uma, const struct volume *volume); // in use; NULL: first
struct volume *volume_by_number(struct uma *uma, uint32_t number);
// Is it for clients of the TTS with this name? (connection_manager.c)
bool volume_is_by(const struct volume *v, const char *service);
struct volume *volume_by_name(struct uma *uma, const char *name);
// Does another node serve the volume, or may it?
bool volume_stands_by(const struct uma *uma, const struct volume *volume);
// Connections of the volume.
unsigned connections_of(const struct uma *uma, const struct volume *volume);
void unit_note(struct uma *uma, struct unit *unit, enum unit_note note);

/* ---- unit_manager.c -------------------------------------------------------------------------- */

// The state that follows; UNIT_STATE_COUNT: the event means nothing there.
enum unit_state unit_next_state(enum unit_state state, enum unit_event event);
void unit_on_event(struct uma *uma, struct unit *unit, enum unit_event event);
// The unit of that name, made if need be; NULL: too many.
struct unit *unit_of_name(struct uma *uma, const char *name);
void unit_on_hello(struct uma *uma, struct unit *unit, const struct unit_message *message);
// Has every open that was asked for been answered, every connection been told?
void unit_check_progress(struct uma *uma, struct unit *unit);
// Does what was noted, and what follows from that. If the node stops, units end once nobody is
// connected.
void units_settle(struct uma *uma);

/* ---- unit_telling.c -------------------------------------------------------------------------- */

// The unit's process is to be told of the volume or the connection, as its state says when its turn
// comes: of a volume OPEN, CLOSE or else PROBE, of a connection ADD or REMOVE.
void unit_tell_volume(struct uma *uma, struct unit *unit, struct volume *volume);
void unit_tell_connection(struct uma *uma, struct unit *unit, struct connection *connection);
void unit_tell_status(struct uma *uma, struct unit *unit);
void unit_tell_drain(struct uma *uma, struct unit *unit);
void unit_tell_yield(struct uma *uma, struct unit *unit);
// The socket takes more.
void unit_on_writable(struct uma *uma, struct unit *unit);
// It has been blocked for as long as one waits. False: there is a reason, so it is waited on.
bool unit_is_deaf(struct uma *uma, struct unit *unit);
// Nothing is to be told any more: the process is gone.
void unit_telling_reset(struct unit *unit);

/* ---- unit_initialize.c ----------------------------------------------------------------------- */

// Asks the unit's process to open what is to be opened.
void volumes_open(struct uma *uma, struct unit *unit);
// The same, and to close what it could not close.
void volumes_retry(struct uma *uma, struct unit *unit);
// Nothing of the unit's volumes is open any more.
void volumes_lost(struct uma *uma, struct unit *unit);
// The descriptor that came with it becomes the UMA's; -1: none.
void volume_on_open(struct uma *uma, struct unit *unit, const struct unit_message *answer, int fd);
void volume_on_probe(struct uma *uma, struct unit *unit, const struct unit_message *answer);
void volume_on_standby(struct uma *uma, struct unit *unit, const struct unit_message *message);
// The unit's volumes are told of to the CTA as they stand by, or are ours.
void volumes_standby_tell(struct uma *uma, struct unit *unit);
// Is the unit's process waiting for another node?
bool unit_is_waiting(struct uma *uma, const struct unit *unit);
void volume_on_close(struct uma *uma, struct unit *unit, const struct unit_message *answer);
// Goes on with a volume that shall go, if nobody is connected to it, and with all such of the unit.
void volume_leave(struct uma *uma, struct volume *volume);
void volumes_leave(struct uma *uma, struct unit *unit);
// The table as it is now; told to the TTSs.
void resources_advertise(struct uma *uma);
// Starts the TTSs once every volume is ready or has failed.
void resources_check_started(struct uma *uma);

/* ---- connection_manager.c -------------------------------------------------------------------- */

void connection_connect(void *uma, struct connect_request *request);
void connection_disconnect(void *uma, uint32_t connection);
void connection_on_route(void *uma, uint32_t connection, enum connect_status status);
void connection_on_added(struct uma *uma, struct unit *unit, const struct unit_message *answer);
void connection_on_removed(struct uma *uma, struct unit *unit, const struct unit_message *answer);
bool connection_may_see(void *uma, uint32_t volume, const struct client *client);
// Tells the unit's new process of the connections that there are.
void connections_add_all(struct uma *uma, struct unit *unit);
// The unit's process is gone: those it had been told of are told to its successor, but for those of
// volumes that go, which the successor does not open.
void connections_lost(struct uma *uma, struct unit *unit);
// Who waits to be connected to a volume of the unit that stands by is: its requests end there.
void connections_stand_by(struct uma *uma, const struct unit *unit);
// Ends what waits on any connection: the node stops.
void connections_fail(struct uma *uma);
void connections_drop(struct uma *uma, const struct volume *volume);
