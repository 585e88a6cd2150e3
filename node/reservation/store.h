// The reservations of all volumes of a node, by the volumes' identities; and those that outlive it
// as a text:
//
//     weft reservations 1
//     volume UUID GENERATION TYPE
//     registrant KEY NAME
//     holder KEY NAME
//     end
//
// Names are percent-encoded, UUIDs and keys hexadecimal. A holder is a registrant too. What does
// not read so is refused as a whole: half of a reservation protects nobody.
//
// Sans-I/O. One thread at a time. Memory is taken in create and join.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/why.h"
#include "node/interface/reservation.h"
#include "node/interface/volume.h"

struct reservation_store;

// NULL without memory. `can_persist`: somebody writes it down.
struct reservation_store *reservation_store_create(bool can_persist);
void reservation_store_destroy(struct reservation_store *store);

// The volume's reservation, until reservation_store_leave: as remembered, or none. NULL without
// memory.
struct reservation *reservation_store_join(struct reservation_store *store,
                                           const uint8_t uuid[VOLUME_UUID_LEN]);
// The volume has gone; its reservation stays if it outlives the node.
void reservation_store_leave(struct reservation_store *store, struct reservation *reservation);

// What outlives the node, line by line.
void reservation_store_emit(const struct reservation_store *store,
                            void (*put)(void *ctx, const char *line), void *ctx);
// Into a store that is empty; the text is cut up. False: it is not such a text, or there is no
// memory, with the reason.
bool reservation_store_parse(struct reservation_store *store, char *text, struct why *ret_why);
