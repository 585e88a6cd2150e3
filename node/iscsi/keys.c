#include "node/iscsi/keys.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "base/check.h"

const struct iscsi_parameters iscsi_parameters_default = {
    .peer_receive_max = ISCSI_LOGIN_DATA_MAX,
    .first_burst = 64 << 10,
    .max_burst = 256 << 10,
    .has_immediate_data = 1,
    .has_initial_r2t = 1,
    .time_to_wait = 2,
    .time_to_retain = 20,
};

enum { NOWHERE = UINT32_MAX };
#define AT(field) offsetof(struct iscsi_parameters, field)

struct key;

// How what is offered and what we have come to a result. False: the value cannot be.
typedef bool key_function(const struct key *key, const char *value, uint32_t *result,
                          struct iscsi_text_out *out);

struct key {
    const char *name;
    key_function *settle;
    uint32_t own;      // what we want,
    uint32_t oneshot;  // and where data move by RDMA
    uint32_t min, max; // of what may be offered
    size_t field;      // where the result goes
    bool is_of_data;   // has no meaning in discovery
    bool is_of_any;    // may be said when the login is over, too (RFC 7143 section 13)
};

static bool parse(const struct key *key, const char *value, uint32_t *ret)
{
    return iscsi_number_parse(value, ret) && *ret >= key->min && *ret <= key->max;
}

static bool settle_min(const struct key *key, const char *value, uint32_t *result,
                       struct iscsi_text_out *out)
{
    uint32_t offered;
    if (!parse(key, value, &offered)) {
        return false;
    }
    *result = offered < key->own ? offered : key->own;
    iscsi_text_put(out, key->name, "%" PRIu32, *result);
    return true;
}

static bool settle_max(const struct key *key, const char *value, uint32_t *result,
                       struct iscsi_text_out *out)
{
    uint32_t offered;
    if (!parse(key, value, &offered)) {
        return false;
    }
    *result = offered > key->own ? offered : key->own;
    iscsi_text_put(out, key->name, "%" PRIu32, *result);
    return true;
}

// Each end says its own, and the other keeps to it.
static bool settle_declared(const struct key *key, const char *value, uint32_t *result,
                            struct iscsi_text_out *out)
{
    if (!parse(key, value, result)) {
        return false;
    }
    iscsi_text_put(out, key->name, "%" PRIu32, key->own);
    return true;
}

static bool bool_parse(const char *value, bool *ret)
{
    *ret = strcmp(value, "Yes") == 0;
    return *ret || strcmp(value, "No") == 0;
}

static bool settle_and(const struct key *key, const char *value, uint32_t *result,
                       struct iscsi_text_out *out)
{
    bool offered;
    if (!bool_parse(value, &offered)) {
        return false;
    }
    *result = offered && key->own != 0;
    iscsi_text_put(out, key->name, "%s", *result != 0 ? "Yes" : "No");
    return true;
}

static bool settle_or(const struct key *key, const char *value, uint32_t *result,
                      struct iscsi_text_out *out)
{
    bool offered;
    if (!bool_parse(value, &offered)) {
        return false;
    }
    *result = offered || key->own != 0;
    iscsi_text_put(out, key->name, "%s", *result != 0 ? "Yes" : "No");
    return true;
}

// The first of the initiator's list that we have too: CRC32C if that is what we want, or none.
static bool settle_digest(const struct key *key, const char *value, uint32_t *result,
                          struct iscsi_text_out *out)
{
    for (const char *at = value; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        size_t len = strcspn(at, ",");
        bool is_crc = len == 6 && strncmp(at, "CRC32C", len) == 0;
        if ((is_crc && key->own != 0) || (len == 4 && strncmp(at, "None", len) == 0)) {
            *result = is_crc;
            iscsi_text_put(out, key->name, "%s", is_crc ? "CRC32C" : "None");
            return true;
        }
    }
    return false;
}

// How the end of tasks is told (section 13.23): as ever, which every list has to offer.
static bool settle_reporting(const struct key *key, const char *value, uint32_t *result,
                             struct iscsi_text_out *out)
{
    iscsi_text_put(out, key->name, "RFC3720");
    return iscsi_list_has(value, "RFC3720");
}

// Markers are of the past: whatever is said of their intervals is turned down (section 13.25).
static bool settle_obsolete(const struct key *key, const char *value, uint32_t *result,
                            struct iscsi_text_out *out)
{
    iscsi_text_put(out, key->name, "Reject");
    return true;
}

// Said, and of no consequence here.
static bool settle_heard(const struct key *key, const char *value, uint32_t *result,
                         struct iscsi_text_out *out)
{
    return true;
}

enum { BURST_MIN = 512, BURST_LIMIT = (1 << 24) - 1 };

static const struct key keys[] = {
    {"HeaderDigest", settle_digest, 1, 0, 0, 0, AT(has_header_digest), false},
    {"DataDigest", settle_digest, 1, 0, 0, 0, AT(has_data_digest), false},
    {"MaxConnections", settle_min, 1, 1, 1, 65535, NOWHERE, true},
    {"InitialR2T", settle_or, 0, 1, 0, 0, AT(has_initial_r2t), true},
    {"ImmediateData", settle_and, 1, 0, 0, 0, AT(has_immediate_data), true},
    {"MaxRecvDataSegmentLength", settle_declared, ISCSI_RECEIVE_MAX, ISCSI_LOGIN_DATA_MAX,
     BURST_MIN, BURST_LIMIT, AT(peer_receive_max), false, true},
    {"MaxBurstLength", settle_min, ISCSI_BURST_MAX, ISCSI_BURST_MAX, BURST_MIN, BURST_LIMIT,
     AT(max_burst), true},
    {"FirstBurstLength", settle_min, ISCSI_FIRST_BURST_MAX, ISCSI_FIRST_BURST_MAX, BURST_MIN,
     BURST_LIMIT, AT(first_burst), true},
    {"DefaultTime2Wait", settle_max, 0, 0, 0, 3600, AT(time_to_wait), false},
    {"DefaultTime2Retain", settle_min, 0, 0, 0, 3600, AT(time_to_retain), false},
    {"MaxOutstandingR2T", settle_min, 1, 1, 1, 65535, NOWHERE, true},
    {"DataPDUInOrder", settle_or, 1, 1, 0, 0, NOWHERE, true},
    {"DataSequenceInOrder", settle_or, 1, 1, 0, 0, NOWHERE, true},
    {"ErrorRecoveryLevel", settle_min, 0, 0, 0, 2, NOWHERE, false},
    {"TaskReporting", settle_reporting, 0, 0, 0, 0, NOWHERE, true},
    {"iSCSIProtocolLevel", settle_min, 1, 1, 0, 31, NOWHERE, true},
    {"IFMarkInt", settle_obsolete, 0, 0, 0, 0, NOWHERE, false},
    {"OFMarkInt", settle_obsolete, 0, 0, 0, 0, NOWHERE, false},
    {"IFMarker", settle_and, 0, 0, 0, 0, NOWHERE, false},
    {"OFMarker", settle_and, 0, 0, 0, 0, NOWHERE, false},
    {"InitiatorAlias", settle_heard, 0, 0, 0, 0, NOWHERE, false, true},
};

// Once in a login (RFC 7143 section 6.3).
static bool is_said_again(const struct key *key, struct iscsi_parameters *parameters)
{
    uint32_t bit = UINT32_C(1) << (key - keys);
    bool is_again = (parameters->said & bit) != 0;
    parameters->said |= bit;
    return is_again;
}

STATIC_CHECK(sizeof keys / sizeof keys[0] <= 32); // each has a bit

static const struct key *find(const char *name)
{
    for (unsigned i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (strcmp(keys[i].name, name) == 0) {
            return &keys[i];
        }
    }
    return NULL;
}

enum iscsi_key_verdict iscsi_key_take(const struct iscsi_pair *pair,
                                      struct iscsi_key_session session,
                                      struct iscsi_parameters *parameters,
                                      struct iscsi_text_out *out)
{
    const struct key *found = find(pair->key);
    uint32_t result = 0;
    if (found == NULL) {
        return ISCSI_KEY_UNKNOWN;
    }
    if (session.is_open ? !found->is_of_any : is_said_again(found, parameters)) {
        return ISCSI_KEY_REFUSED;
    }
    struct key key = *found;
    key.own = session.is_oneshot ? found->oneshot : found->own;
    if (session.is_discovery && key.is_of_data) {
        iscsi_text_put(out, key.name, "Irrelevant");
        return ISCSI_KEY_TAKEN;
    }
    if (!key.settle(&key, pair->value, &result, out)) {
        return ISCSI_KEY_REFUSED;
    }
    if (key.field != NOWHERE) {
        memcpy((uint8_t *)parameters + key.field, &result, sizeof result);
    }
    return ISCSI_KEY_TAKEN;
}
