// Reservations of a volume: who may use it, whatever protocol a client speaks. What the protocols
// of block storage have in common of them, which is all but their octets:
//
//     registrants   clients that have given a key; a client is a registrant by its name
//     reservation   of one type, held by one registrant or by all
//     claim         a reservation of one connection, which ends with it
//
// Only clients whose protocol gives them a name can register; all others obey.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "node/interface/request.h"
#include "node/interface/uma_tts.h"

enum { RESERVATION_REGISTRANT_MAX = 64 }; // of a volume

// Values are fixed: they are stored.
enum reservation_type {
    RESERVATION_NONE = 0,
    WRITE_EXCLUSIVE = 1,
    EXCLUSIVE_ACCESS = 2,
    WRITE_EXCLUSIVE_REGISTRANTS = 3,
    EXCLUSIVE_ACCESS_REGISTRANTS = 4,
    WRITE_EXCLUSIVE_ALL = 5,
    EXCLUSIVE_ACCESS_ALL = 6,
    RESERVATION_TYPE_COUNT
};

struct reservation_type_facts {
    bool stops_reads;
    bool is_for_registrants; // who is registered may use it,
    bool is_held_by_all;     // and holds it
};

// The row of the table; NULL for a number that is no type.
const struct reservation_type_facts *reservation_type_facts(unsigned type);

struct registrant {
    char name[CLIENT_REGISTRANT_MAX];
    uint64_t key; // never 0
};

struct reservation {
    bool can_persist; // there is a place to store it,
    bool persists;    // and the registrants want it stored
    uint8_t type;     // enum reservation_type
    char holder[CLIENT_REGISTRANT_MAX];
    uint32_t claimed_by; // a connection; 0: none
    uint32_t generation; // counts changes of the registrants
    unsigned registrant_count;
    struct registrant registrants[RESERVATION_REGISTRANT_MAX];
};

// NULL: not registered, as nobody without a name is.
const struct registrant *reservation_registrant(const struct reservation *reservation,
                                                const char *name);
// Does this one hold it?
bool reservation_is_held_by(const struct reservation *reservation, const char *name);

// What somebody wants of the volume.
enum reservation_need { RESERVATION_TO_READ, RESERVATION_TO_WRITE };

// May this connection of the client so named?
bool reservation_allows(const struct reservation *reservation, const char *name,
                        uint32_t connection, enum reservation_need need);

enum reservation_action {
    RESERVATION_REGISTER,     // from `key` (0: not registered) to `new_key` (0: not any more)
    RESERVATION_REGISTER_ANY, // the same, whatever key it had
    RESERVATION_ACQUIRE,
    RESERVATION_RELEASE,
    RESERVATION_CLEAR,   // all registrants go
    RESERVATION_PREEMPT, // those with `new_key` go, and what they hold becomes the asker's
    RESERVATION_PREEMPT_AND_ABORT, // likewise, and so does what they have under way
    RESERVATION_ACTION_COUNT
};

// Whether the volume's reservation outlives the node, from now on.
enum reservation_persistence {
    RESERVATION_PERSISTENCE_AS_IT_IS,
    RESERVATION_PERSISTS,
    RESERVATION_ENDS_WITH_NODE,
};

enum reservation_outcome {
    RESERVATION_DONE,
    RESERVATION_CONFLICT,
    RESERVATION_BAD_TYPE,
    RESERVATION_BAD_KEY,    // none is named, where one must be
    RESERVATION_OTHER_TYPE, // to be released is one of another type
    RESERVATION_FULL,       // RESERVATION_REGISTRANT_MAX
    RESERVATION_NO_STORE,   // it cannot outlive the node
    RESERVATION_NOT_STORED, // it has changed, and to store that has failed
    RESERVATION_OUTCOME_COUNT
};

struct reservation_wish {
    uint8_t action;      // enum reservation_action
    uint8_t type;        // acquire, release, preempt
    uint8_t persistence; // register: enum reservation_persistence
    uint64_t key;        // the asker's
    uint64_t new_key;
};

// The TTS owns it and leaves it alone until on_reserved.
struct reservation_request {
    uint32_t connection;
    struct reservation_wish wish;
    enum reservation_outcome outcome; // the answer
    struct list_link link;            // the CTA's, as the rest
    bool is_fence;                    // what it has aborted is to end first
    uint64_t ticket;                  // of what is being stored; 0: nothing is
};

// What other registrants are told.
enum reservation_event {
    RESERVATION_REGISTRATION_PREEMPTED, // this one's registration is gone,
    RESERVATION_TASKS_ABORTED,          // and so is what it had under way
    RESERVATION_RELEASED,
    RESERVATION_CLEARED, // all registrations are gone
    RESERVATION_EVENT_COUNT
};
