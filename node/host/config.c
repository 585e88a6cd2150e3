#include "node/host/config.h"

#include <errno.h>
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uuid/uuid.h>

#include "node/discovery/sources.h"
#include "node/host/wish.h"
#include "node/interface/uma_tts.h"
#include "node/interface/volume.h"
#include "node/uma/uma.h"
#include "text/addresses.h"

struct reading {
    struct host_config *config;
    struct volume_wish *wish; // of the section under way
    char section[VOLUME_NAME_MAX + 16];
    struct why *why;
};

bool config_rta_parse(const char *word, enum host_rta *ret)
{
    static const char *const words[] = {
        [HOST_RTA_EACH] = "each", [HOST_RTA_ONE] = "one", [HOST_RTA_HOST] = "host"};
    for (unsigned i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(word, words[i]) == 0) {
            *ret = (enum host_rta)i;
            return true;
        }
    }
    return false;
}

// For one more: where there are a power of two, for as many again.
static bool make_room(struct host_config *config)
{
    size_t count = config->volume_count;
    if ((count & (count - 1)) == 0) {
        struct volume_wish *longer =
            reallocarray(config->volumes, count > 0 ? 2 * count : 1, sizeof *longer);
        config->volumes = longer != NULL ? longer : config->volumes;
        return longer != NULL;
    }
    return true;
}

int config_volume_add(struct host_config *config, const struct volume_wish *wish)
{
    for (size_t i = 0; i < config->volume_count; i++) {
        if (strcmp(config->volumes[i].name, wish->name) == 0) {
            return -EEXIST;
        }
    }
    if (!make_room(config)) {
        return -ENOMEM;
    }
    config->volumes[config->volume_count++] = *wish;
    return 0;
}

void config_free(struct host_config *config)
{
    free(config->volumes);
    config->volumes = NULL;
    config->volume_count = 0;
}

/* ---- values ---------------------------------------------------------------------------------- */

static bool fail(struct reading *r, const char *what, const char *object)
{
    why_say(r->why, "%.200s: %.200s", what, object);
    return false;
}

static bool text_set(struct reading *r, char *to, size_t capacity, const char *value)
{
    if (strlen(value) >= capacity) {
        return fail(r, "too long", value);
    }
    snprintf(to, capacity, "%s", value);
    return true;
}

// A key that stands in the file more than once adds one each time; without a value it adds none.
static bool address_add(struct reading *r, struct addresses *addresses, const char *value)
{
    if (*value == '\0') {
        return true;
    }
    enum addresses_verdict verdict = addresses_add(addresses, value);
    return verdict == ADDRESSES_OK || fail(r, addresses_verdict_name(verdict), value);
}

static bool switch_parse(struct reading *r, const char *value, bool *ret)
{
    static const char *const on[] = {"yes", "on", "true"}, *const off[] = {"no", "off", "false"};
    for (unsigned i = 0; i < 3; i++) {
        if (strcmp(value, on[i]) == 0 || strcmp(value, off[i]) == 0) {
            *ret = strcmp(value, on[i]) == 0;
            return true;
        }
    }
    return fail(r, "neither yes nor no", value);
}

static bool nguid_parse(struct reading *r, const char *value, uint8_t ret[VOLUME_UUID_LEN])
{
    unsigned octet;
    for (unsigned i = 0; i < VOLUME_UUID_LEN; i++) {
        if (sscanf(value + 2 * (size_t)i, "%2x", &octet) != 1) {
            return fail(r, "not 32 hexadecimal digits", value);
        }
        ret[i] = (uint8_t)octet;
    }
    return strlen(value) == 2 * VOLUME_UUID_LEN || fail(r, "not 32 hexadecimal digits", value);
}

/* ---- keys ------------------------------------------------------------------------------------ */

// Where clients come to, by the protocol that they speak.
static struct addresses *listen_of(struct host_config *config, const char *protocol)
{
    const struct {
        const char *protocol;
        struct addresses *at;
    } rows[] = {
        {"nbd", &config->nbd_listen},
        {"nvme-rdma", &config->nvme_rdma_listen},
        {"nvme-tcp", &config->nvme_tcp_listen},
        {"iscsi", &config->iscsi_listen},
        {"iscsi-rdma", &config->iscsi_rdma_listen},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(protocol, rows[i].protocol) == 0) {
            return rows[i].at;
        }
    }
    return NULL;
}

static bool node_set(struct reading *r, const char *key, const char *value)
{
    struct host_config *config = r->config;
    struct addresses *listen = listen_of(config, key);
    struct why why;
    if (listen != NULL) {
        return address_add(r, listen, value);
    }
    if (strcmp(key, "http") == 0) {
        return text_set(r, config->http_listen, sizeof config->http_listen, value);
    }
    if (strcmp(key, "metrics") == 0) {
        return text_set(r, config->metrics_listen, sizeof config->metrics_listen, value);
    }
    if (strcmp(key, "iscsi-secrets") == 0) {
        return text_set(r, config->iscsi_secrets, sizeof config->iscsi_secrets, value);
    }
    if (strcmp(key, "reservations") == 0) {
        return text_set(r, config->reservations, sizeof config->reservations, value);
    }
    if (strcmp(key, "pool") == 0) {
        return wish_pool_parse(value, &config->pool_len, &why) == 0 || fail(r, why.text, key);
    }
    if (strcmp(key, "patience") == 0) {
        return wish_patience_parse(value, &config->patience_ns, &why) == 0 ||
               fail(r, why.text, key);
    }
    if (strcmp(key, "cntlid-min") == 0) {
        return wish_cntlid_parse(value, &config->cntlid_min, &why) == 0 || fail(r, why.text, key);
    }
    if (strcmp(key, "rdma-connections") == 0) {
        return wish_rdma_connections_parse(value, &config->rdma_connection_max, &why) == 0 ||
               fail(r, why.text, key);
    }
    if (strcmp(key, "allow-add") == 0) {
        return switch_parse(r, value, &config->takes_volumes);
    }
    if (strcmp(key, "mdns") == 0) {
        return switch_parse(r, value, &config->is_announced);
    }
    if (strcmp(key, "rta") == 0) {
        return config_rta_parse(value, &config->rta) || fail(r, "not each, one or host", value);
    }
    return fail(r, "there is no key", key);
}

static bool volume_set(struct reading *r, const char *key, const char *value)
{
    struct volume_wish *wish = r->wish;
    struct why why;
    if (strcmp(key, "uri") == 0) {
        return wish_uri_parse(value, wish, &why) == 0 || fail(r, why.text, value);
    }
    if (strcmp(key, "read-only") == 0) {
        return switch_parse(r, value, &wish->read_only);
    }
    if (strcmp(key, "standby") == 0) { // in more words than behind a URI
        return switch_parse(r, value, &wish->may_stand_by);
    }
    if (strcmp(key, "rta") == 0) {
        bool is_host = strcmp(value, "host") == 0;
        return text_set(r, wish->unit, sizeof wish->unit, is_host ? CONFIG_HOST_UNIT : value);
    }
    if (strcmp(key, "uuid") == 0) {
        wish->has_uuid = true;
        return uuid_parse(value, wish->identity.uuid) == 0 || fail(r, "not a UUID", value);
    }
    if (strcmp(key, "nguid") == 0) {
        wish->has_alias = true;
        return nguid_parse(r, value, wish->identity.alias);
    }
    int error = wish_key_set(wish, key, value, &why);
    return error == 0 || fail(r, error == -ENOENT ? "there is no key" : why.text, key);
}

/* ---- sections -------------------------------------------------------------------------------- */

static bool section_begin(struct reading *r, const char *section)
{
    static const char prefix[] = "volume ";
    snprintf(r->section, sizeof r->section, "%s", section);
    r->wish = NULL;
    if (strcmp(section, "node") == 0) {
        return true;
    }
    const char *name = section + sizeof prefix - 1;
    if (strncmp(section, prefix, sizeof prefix - 1) != 0 || !wish_name_is_good(name)) {
        return fail(r, "not [node] or [volume NAME]", section);
    }
    struct volume_wish wish = {0};
    snprintf(wish.name, sizeof wish.name, "%s", name);
    int error = config_volume_add(r->config, &wish);
    if (error != 0) {
        return fail(r, error == -EEXIST ? "the volume is there already" : "no memory", name);
    }
    r->wish = &r->config->volumes[r->config->volume_count - 1];
    return true;
}

static int on_key(void *ctx, const char *section, const char *key, const char *value)
{
    struct reading *r = ctx;
    if (strcmp(section, r->section) != 0 && !section_begin(r, section)) {
        return 0;
    }
    return r->wish != NULL ? volume_set(r, key, value) : node_set(r, key, value);
}

static bool has_identity(const struct volume_wish *wish)
{
    return wish->has_uuid || wish->has_alias || wish_has_number(wish);
}

// Beside the file, if it does not say where.
static bool reservations_settle(const char *path, struct host_config *config)
{
    int len = (int)strlen(config->reservations);
    if (len == 0) {
        len = snprintf(config->reservations, sizeof config->reservations, "%s.reservations", path);
    }
    return len < (int)sizeof config->reservations;
}

int config_read(const char *path, struct host_config *config, struct why *ret_why)
{
    struct why why = {"it cannot be read"};
    struct reading reading = {.config = config, .why = &why};
    int line = ini_parse(path, on_key, &reading);
    if (line != 0) {
        if (line > 0) {
            why_say(ret_why, "%.200s:%d: %.280s", path, line, why.text);
        } else {
            why_say(ret_why, "%.200s: %s", path, strerror(errno));
        }
        return line > 0 ? -EINVAL : -errno;
    }
    if (!reservations_settle(path, config)) {
        why_say(ret_why, "%.200s: its name is too long", path);
        return -ENAMETOOLONG;
    }
    for (size_t i = 0; i < config->volume_count; i++) {
        if (config->volumes[i].uri[0] == '\0') {
            why_say(ret_why, "%.200s: volume %s: it has no uri", path, config->volumes[i].name);
            return -EINVAL;
        }
        if (has_identity(&config->volumes[i]) && sources_is(config->volumes[i].uri)) {
            why_say(ret_why, "%.200s: volume %s: several volumes cannot have one identity", path,
                    config->volumes[i].name);
            return -EINVAL;
        }
    }
    return 0;
}
