#include "node/host/wish.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "format/nvme_wire.h"
#include "node/ddm/parameters.h"
#include "node/ddm/registry.h"
#include "node/ddm/uri.h"
#include "node/discovery/names.h"
#include "node/discovery/sources.h"
#include "node/interface/request.h"
#include "node/interface/uma_rta.h"
#include "node/interface/uma_tts.h"
#include "node/interface/volume.h"
#include "node/nvme/controller.h"
#include "text/quantity.h"

bool wish_name_is_good(const char *name)
{
    size_t len = 0;
    while (names_char_is_good(name[len])) {
        len++;
    }
    return len > 0 && name[len] == '\0' && len < VOLUME_NAME_MAX;
}

// Is there a scheme before the first colon: letters, digits and +?
static bool has_scheme(const char *text)
{
    size_t len = 0;
    while (isalnum((unsigned char)text[len]) || text[len] == '+' || text[len] == '-') {
        len++;
    }
    return len > 0 && text[len] == ':';
}

// Of a file its own name, else the driver's: what others have for an object makes no name.
static void name_derive(const struct uri *uri, char ret_name[VOLUME_NAME_MAX])
{
    const char *driver = uri->schemes[uri->scheme_count - 1];
    bool is_file = strcmp(driver, "file") == 0;
    names_of_path(is_file ? uri->object : driver, ret_name);
}

/* ---- what the node does with a volume -------------------------------------------------------- */

static int allow_take(struct volume_wish *wish, const char *value, struct why *ret_why)
{
    if (wish->allow_count == UMA_ALLOW_COUNT_MAX) {
        why_say(ret_why, "too many clients allowed: %.64s", value);
        return -EINVAL;
    }
    if (strlen(value) >= CLIENT_IDENTITY_MAX) {
        why_say(ret_why, "too long a name: %.64s", value);
        return -EINVAL;
    }
    snprintf(wish->allow[wish->allow_count++], CLIENT_IDENTITY_MAX, "%s", value);
    return 0;
}

static bool is_protocol(const char *text)
{
    static const char *const all[] = {"nbd", "nvme-tcp", "nvme-rdma", "iscsi", "iscsi-rdma"};
    for (unsigned i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (strcmp(text, all[i]) == 0) {
            return true;
        }
    }
    return false;
}

static int protocol_take(struct volume_wish *wish, const char *value, struct why *ret_why)
{
    if (!is_protocol(value)) {
        why_say(ret_why, "protocol=%.64s: it must be nbd, nvme-tcp, nvme-rdma, iscsi or iscsi-rdma",
                value);
        return -EINVAL;
    }
    if (wish->service_count == UMA_SERVICE_COUNT_MAX) {
        why_say(ret_why, "protocol=%s: there are %d already", value, UMA_SERVICE_COUNT_MAX);
        return -EINVAL;
    }
    snprintf(wish->services[wish->service_count++], TTS_NAME_MAX, "%s", value);
    return 0;
}

static int iops_take(struct volume_wish *wish, const char *value, struct why *ret_why)
{
    if (!text_number_parse(value, 1, NS_PER_S, &wish->rate.iops)) {
        why_say(ret_why, "iops=%.64s: it must be 1 to 1000000000 requests a second", value);
        return -EINVAL;
    }
    return 0;
}

static int bps_take(struct volume_wish *wish, const char *value, struct why *ret_why)
{
    uint64_t bps;
    if (!text_size_parse(value, &bps) || bps == 0) {
        why_say(ret_why, "bps=%.64s: it must be octets a second, with K, M, G, T or P", value);
        return -EINVAL;
    }
    wish->rate.bps = bps;
    return 0;
}

static bool is_nqn_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr(".:-_", c) != NULL);
}

// As Linux targets take them, too, with characters that a URI can have.
static int nqn_take(struct volume_wish *wish, const char *value, struct why *ret_why)
{
    size_t len = 0;
    while (is_nqn_char(value[len])) {
        len++;
    }
    if (len == 0 || len >= VOLUME_GROUP_MAX || value[len] != '\0') {
        why_say(ret_why, "nqn=%.64s: it must be 1 to %d letters, digits, . : - _", value,
                VOLUME_GROUP_MAX - 1);
        return -EINVAL;
    }
    if (strcmp(value, "nqn.2014-08.org.nvmexpress.discovery") == 0) {
        why_say(ret_why, "nqn=%s: it is the name of discovery", value);
        return -EINVAL;
    }
    memcpy(wish->places[VOLUME_IN_SUBSYSTEM].group, value, len + 1);
    return 0;
}

static int nsid_take(struct volume_wish *wish, const char *value, struct why *ret_why)
{
    uint64_t number;
    if (!text_number_parse(value, 1, VOLUME_MEMBER_MAX, &number)) {
        why_say(ret_why, "nsid=%.64s: it must be 1 to %d", value, VOLUME_MEMBER_MAX);
        return -EINVAL;
    }
    wish->places[VOLUME_IN_SUBSYSTEM].member = (uint32_t)number;
    return 0;
}

// RFC 7143 section 4.2.7.2: one of three types, and what preparation by stringprep leaves as it is.
static bool is_target_name(const char *text)
{
    static const char *const types[] = {"iqn.", "eui.", "naa."};
    bool has_type = false;
    for (unsigned i = 0; i < sizeof types / sizeof types[0]; i++) {
        has_type |= strncmp(text, types[i], strlen(types[i])) == 0;
    }
    size_t len = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789.:-");
    return has_type && len > strlen(types[0]) && text[len] == '\0' && len < VOLUME_GROUP_MAX;
}

static int target_take(struct volume_wish *wish, const char *value, struct why *ret_why)
{
    if (!is_target_name(value)) {
        why_say(ret_why,
                "target=%.64s: it must be iqn., eui. or naa. and more, in all at most %d small "
                "letters, digits, . : -",
                value, VOLUME_GROUP_MAX - 1);
        return -EINVAL;
    }
    memcpy(wish->places[VOLUME_IN_TARGET].group, value, strlen(value) + 1);
    return 0;
}

// Members of a group count from 1.
static int lun_take(struct volume_wish *wish, const char *value, struct why *ret_why)
{
    uint64_t number;
    if (!text_number_parse(value, 0, VOLUME_MEMBER_MAX - 1, &number)) {
        why_say(ret_why, "lun=%.64s: it must be 0 to %d", value, VOLUME_MEMBER_MAX - 1);
        return -EINVAL;
    }
    wish->places[VOLUME_IN_TARGET].member = (uint32_t)number + 1;
    return 0;
}

static int standby_take(struct volume_wish *wish, const char *value, struct why *ret_why)
{
    bool is_on = strcmp(value, "on") == 0;
    if (!is_on && strcmp(value, "off") != 0) {
        why_say(ret_why, "standby=%.64s: it must be on or off", value);
        return -EINVAL;
    }
    wish->may_stand_by = is_on;
    return 0;
}

typedef int wish_taker(struct volume_wish *wish, const char *value, struct why *ret_why);

// NULL: what the `len` characters say is the driver's business.
static wish_taker *taker_of(const char *key, size_t len)
{
    static const struct {
        const char *key;
        wish_taker *take;
    } rows[] = {
        {"allow", allow_take},   {"iops", iops_take}, {"bps", bps_take},
        {"nqn", nqn_take},       {"nsid", nsid_take}, {"standby", standby_take},
        {"target", target_take}, {"lun", lun_take},   {"protocol", protocol_take},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strlen(rows[i].key) == len && strncmp(key, rows[i].key, len) == 0) {
            return rows[i].take;
        }
    }
    return NULL;
}

int wish_key_set(struct volume_wish *wish, const char *key, const char *value, struct why *ret_why)
{
    wish_taker *take = taker_of(key, strlen(key));
    return take != NULL ? take(wish, value, ret_why) : -ENOENT;
}

/* ---- its URI --------------------------------------------------------------------------------- */

// Who may use the volume, and how fast, is not the driver's business: takes those parameters out.
static int own_words_take(struct volume_wish *wish, struct why *ret_why)
{
    char *query = strchr(wish->uri, '?');
    char *out = query, *next;
    int error = 0;
    for (char *word = query; word != NULL && error == 0; word = next) {
        size_t len = strcspn(word + 1, "&") + 1; // with what stands before it
        next = word[len] != '\0' ? word + len : NULL;
        size_t key_len = strcspn(word + 1, "=&");
        wish_taker *take = word[1 + key_len] == '=' ? taker_of(word + 1, key_len) : NULL;
        if (take != NULL) {
            size_t before_len = key_len + 2;
            char value[UNIT_URI_MAX];
            snprintf(value, sizeof value, "%.*s", (int)(len - before_len), word + before_len);
            error = take(wish, value, ret_why);
        } else {
            memmove(out, word, len);
            *out = out == query ? '?' : '&';
            out += len;
        }
    }
    if (query != NULL && error == 0) {
        *out = '\0';
    }
    return error;
}

// A bare path that ends with a slash is a folder, and stands for what is in it.
static int uri_complete(const char *uri, char ret[UNIT_URI_MAX])
{
    size_t path_len = strcspn(uri, "?");
    if (has_scheme(uri)) {
        return snprintf(ret, UNIT_URI_MAX, "%s", uri);
    }
    if (path_len > 0 && uri[path_len - 1] == '/') {
        return snprintf(ret, UNIT_URI_MAX, "glob:%.*s*%s", (int)path_len, uri, uri + path_len);
    }
    return snprintf(ret, UNIT_URI_MAX, "file:%s", uri);
}

// Of a source: could what it finds be a volume?
static bool is_known(const char *uri, struct why *ret_why)
{
    char one[UNIT_URI_MAX];
    if (!sources_is(uri)) {
        return ddm_registry_knows(uri, ret_why);
    }
    return sources_check(uri, one, ret_why) == 0 && ddm_registry_knows(one, ret_why);
}

bool wish_has_number(const struct volume_wish *wish)
{
    bool has_number = false;
    for (unsigned i = 0; i < VOLUME_GROUPING_COUNT; i++) {
        has_number |= wish->places[i].member != 0;
    }
    return has_number;
}

int wish_uri_parse(const char *uri, struct volume_wish *ret, struct why *ret_why)
{
    int len = uri_complete(uri, ret->uri);
    if (len >= (int)sizeof ret->uri) {
        why_say(ret_why, "the URI is too long");
        return -EINVAL;
    }
    int error = own_words_take(ret, ret_why);
    if (error != 0) {
        return error;
    }
    if (wish_has_number(ret) && sources_is(ret->uri)) {
        why_say(ret_why, "nsid and lun are numbers of one volume, not of all that a source finds");
        return -EINVAL;
    }
    return is_known(ret->uri, ret_why) ? 0 : -EINVAL;
}

int wish_parse(const char *text, struct volume_wish *ret, struct why *ret_why)
{
    *ret = (struct volume_wish){0};
    const char *equals = strchr(text, '=');
    size_t len = equals != NULL ? (size_t)(equals - text) : 0;
    bool has_name = len > 0 && len < sizeof ret->name;
    for (size_t i = 0; i < len && has_name; i++) {
        has_name = names_char_is_good(text[i]);
    }
    int error = wish_uri_parse(has_name ? equals + 1 : text, ret, ret_why);
    struct uri uri;
    if (error == 0 && has_name) {
        memcpy(ret->name, text, len);
        ret->name[len] = '\0';
    } else if (error == 0 && (error = uri_parse(ret->uri, &uri, ret_why)) == 0) {
        name_derive(&uri, ret->name);
    }
    return error;
}

static bool is_taken(const struct volume_wish *wishes, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(wishes[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

void wish_name_settle(const struct volume_wish *others, size_t other_count,
                      struct volume_wish *wish)
{
    char name[VOLUME_NAME_MAX];
    memcpy(name, wish->name, sizeof name);
    for (unsigned number = 2; is_taken(others, other_count, name); number++) {
        snprintf(name, sizeof name, "%.48s-%u", wish->name, number);
    }
    memcpy(wish->name, name, sizeof name);
}

int wish_cntlid_parse(const char *text, uint16_t *ret, struct why *ret_why)
{
    const uint64_t most = NVME_CNTLID_MAX - NVME_CONTROLLER_COUNT_MAX + 1;
    uint64_t number;
    if (!text_number_parse(text, 1, most, &number)) {
        why_say(ret_why, "it must be 1 to %llu", (unsigned long long)most);
        return -EINVAL;
    }
    *ret = (uint16_t)number;
    return 0;
}

// As many as the node has room for at all, and two, of which one address has one.
int wish_rdma_connections_parse(const char *text, unsigned *ret, struct why *ret_why)
{
    uint64_t number;
    if (!text_number_parse(text, 2, NODE_CONNECTION_COUNT_MAX, &number)) {
        why_say(ret_why, "it must be 2 to %d", NODE_CONNECTION_COUNT_MAX);
        return -EINVAL;
    }
    *ret = (unsigned)number;
    return 0;
}

int wish_standby_check(const struct volume_wish *wish, bool is_alone, struct why *ret_why)
{
    if (!wish->may_stand_by) {
        return 0;
    }
    if (wish->read_only) {
        why_say(ret_why, "a volume that is read-only has no need to stand by: several nodes may "
                         "serve it at a time");
        return -EINVAL;
    }
    if (!is_alone) {
        why_say(ret_why, "a volume that may stand by has an RTA of its own: serve it with "
                         "--rta=each, and name no rta for it");
        return -EINVAL;
    }
    return ddm_registry_can_stand_by(wish->uri, ret_why) ? 0 : -EINVAL;
}

int wish_pool_parse(const char *text, uint64_t *ret, struct why *ret_why)
{
    uint64_t len, unit = NODE_TRANSFER_MAX;
    int error = parameter_size_parse(text, &len, ret_why);
    if (error == 0 && (len == 0 || len > UINT64_C(1) << 40)) {
        why_say(ret_why, "it must be 1 to 1T octets");
        return -EINVAL;
    }
    *ret = (len + unit - 1) / unit * unit;
    return error;
}

int wish_patience_parse(const char *text, duration_ns *ret, struct why *ret_why)
{
    int error = parameter_duration_parse(text, ret, ret_why);
    if (error == 0 && *ret == 0) {
        why_say(ret_why, "it must be more than nothing");
        return -EINVAL;
    }
    return error;
}
