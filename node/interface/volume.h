// A volume as its device characterises it, and as clients are told of it: device profile, identity,
// and the hardware resource table that lists them all.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum volume_limits {
    VOLUME_NAME_MAX = 64, // with the terminator, as all of these
    VOLUME_DRIVER_MAX = 32,
    VOLUME_MODEL_MAX = 48,
    VOLUME_ORIGIN_MAX = 512,
    VOLUME_INSTANCE_MAX = 64,
    VOLUME_UUID_LEN = 16,
    VOLUME_LINEAGE_MAX = 8,
    VOLUME_LINEAGE_LEN = 16 + VOLUME_LINEAGE_MAX * VOLUME_UUID_LEN,
    VOLUME_GROUP_MAX = 224,
    VOLUME_MEMBER_MAX = 256, // numbers of a group's members are 1 .. this
};

// What clients may see several volumes as, each where a protocol has such.
enum volume_grouping { VOLUME_IN_SUBSYSTEM, VOLUME_IN_TARGET, VOLUME_GROUPING_COUNT };

// Where a volume stands in such a thing.
struct volume_place {
    char group[VOLUME_GROUP_MAX]; // set by the operator. Empty: it stands alone
    uint32_t member;              // its number there, which is no other's; alone too
};

// Values are fixed: they cross between processes.
enum volume_ability {
    VOLUME_CAN_WRITE = 1 << 0,
    VOLUME_CAN_FLUSH = 1 << 1, // it has a volatile cache; without this, completed means stable
    VOLUME_CAN_FUA = 1 << 2,
    VOLUME_CAN_TRIM = 1 << 3,
    VOLUME_CAN_WRITE_ZEROES = 1 << 4,
    VOLUME_CAN_ZERO_FAST = 1 << 5, // zeroes cost less than writing them
    VOLUME_CAN_EXTENTS = 1 << 6,
    VOLUME_IS_ROTATIONAL = 1 << 7,
    VOLUME_ABILITY_ALL = (1 << 8) - 1,
};

// Volumes of which each is made of the next one, by their UUIDs: a node whose device is a volume of
// another node, whose device may be one of a third.
struct volume_lineage {
    uint32_t count;
    uint8_t uuids[VOLUME_LINEAGE_MAX][VOLUME_UUID_LEN];
};

// What a probe found (interface 320, 263). Nothing is in it that the probe did not prove. Plain
// data: it crosses between processes as it is.
struct volume_profile {
    uint64_t size;         // octets
    uint32_t abilities;    // enum volume_ability
    uint32_t block_size;   // the logical block that clients with blocks see: 512 .. 65536
    uint32_t alignment;    // offsets and lengths of requests are multiples of it: 1 .. block_size
    uint32_t preferred;    // requests of a multiple of this are served best
    uint32_t transfer_max; // octets of one read or write: what is longer is divided by the RTA
    uint64_t range_max;    // octets of one trim or write zeroes, likewise
    uint32_t depth;        // requests it carries at once
    char driver[VOLUME_DRIVER_MAX];
    char model[VOLUME_MODEL_MAX];
    char origin[VOLUME_ORIGIN_MAX];     // what makes the device this one and no other; same after a
                                        // restart, and what identities are derived from
    char instance[VOLUME_INSTANCE_MAX]; // where one device can take another's place under the same
                                        // origin: which one it is. Empty: the origin says it all
    struct volume_lineage lineage;      // of what the device is where another node serves it
};

// What of the profile stays the same as long as the device is the same one.
const char *volume_profile_pin(const struct volume_profile *profile);

// Are the fields of a profile that came from elsewhere possible, and its texts terminated?
bool volume_profile_is_sane(const struct volume_profile *profile);

// Who the volume is to its clients: stable as long as its origin, or as set by the operator.
struct volume_identity {
    uint8_t uuid[VOLUME_UUID_LEN];
    uint8_t alias[VOLUME_UUID_LEN]; // another, for who wants an identifier that is no UUID
};

enum resource_state {
    RESOURCE_NOT_READY, // its RTA is being started, or started again: requests wait
    RESOURCE_READY,
    RESOURCE_FAILED,  // it could not be opened; `why` in weft status
    RESOURCE_STANDBY, // another node may serve it: requests end with NODE_STANDBY
};

// One row of the hardware resource table.
struct resource {
    uint32_t volume;            // its number: never given to another volume
    char name[VOLUME_NAME_MAX]; // as clients ask for it
    enum resource_state state;
    uint32_t abilities; // the profile's, less what the operator took away
    struct volume_profile profile;
    struct volume_identity identity;
    struct volume_place places[VOLUME_GROUPING_COUNT];
};

struct resource_table {
    uint64_t generation; // changes whenever anything in it does
    size_t count;
    const struct resource *rows; // by number
};

// A volume's lineage as one node tells it another, from the volume itself on: a mark, how many,
// their UUIDs. What does not begin with the mark, or is too short, tells of none.
void volume_lineage_emit(const struct resource *row, uint8_t ret[VOLUME_LINEAGE_LEN]);
void volume_lineage_parse(const uint8_t *octets, size_t len, struct volume_lineage *ret);
// Is a volume that was told of, behind itself, made of one of the table?
bool volume_lineage_is_of(const struct volume_lineage *told, const struct resource_table *table);

// Is it shown to clients that may see it? It is until it has failed, and from when its size is
// known, which may be 0.
bool resource_is_there(const struct resource *row);

// NULL: none of that name, or number.
const struct resource *resource_by_name(const struct resource_table *table, const char *name);
const struct resource *resource_by_volume(const struct resource_table *table, uint32_t volume);
