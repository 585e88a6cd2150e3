#include "node/interface/reservation.h"

#include <string.h>

static const struct reservation_type_facts types[RESERVATION_TYPE_COUNT] = {
    [WRITE_EXCLUSIVE] = {.stops_reads = false},
    [EXCLUSIVE_ACCESS] = {.stops_reads = true},
    [WRITE_EXCLUSIVE_REGISTRANTS] = {.is_for_registrants = true},
    [EXCLUSIVE_ACCESS_REGISTRANTS] = {.stops_reads = true, .is_for_registrants = true},
    [WRITE_EXCLUSIVE_ALL] = {.is_for_registrants = true, .is_held_by_all = true},
    [EXCLUSIVE_ACCESS_ALL] = {.stops_reads = true,
                              .is_for_registrants = true,
                              .is_held_by_all = true},
};

const struct reservation_type_facts *reservation_type_facts(unsigned type)
{
    return type != RESERVATION_NONE && type < RESERVATION_TYPE_COUNT ? &types[type] : NULL;
}

const struct registrant *reservation_registrant(const struct reservation *reservation,
                                                const char *name)
{
    for (unsigned i = 0; name[0] != '\0' && i < reservation->registrant_count; i++) {
        if (strcmp(reservation->registrants[i].name, name) == 0) {
            return &reservation->registrants[i];
        }
    }
    return NULL;
}

bool reservation_is_held_by(const struct reservation *reservation, const char *name)
{
    const struct reservation_type_facts *type = reservation_type_facts(reservation->type);
    return type != NULL && reservation_registrant(reservation, name) != NULL &&
           (type->is_held_by_all || strcmp(reservation->holder, name) == 0);
}

bool reservation_allows(const struct reservation *reservation, const char *name,
                        uint32_t connection, enum reservation_need need)
{
    const struct reservation_type_facts *type = reservation_type_facts(reservation->type);
    if (reservation->claimed_by != 0) {
        return reservation->claimed_by == connection;
    }
    return type == NULL || (need == RESERVATION_TO_READ && !type->stops_reads) ||
           reservation_is_held_by(reservation, name) ||
           (type->is_for_registrants && reservation_registrant(reservation, name) != NULL);
}
