#include "node/discovery/remote_uri.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "node/ddm/parameters.h"
#include "node/ddm/uri.h"
#include "node/discovery/names.h"
#include "node/interface/request.h"
#include "text/percent.h"
#include "text/quantity.h"

static const char separator[] = "://";

static const struct remote_driver {
    const char *name;
    const char *mark; // what stands before the number in a volume's name
} drivers[] = {{"nvme+tcp", "ns"}, {"nvme+rdma", "ns"}, {"iscsi", "lun"}};

// Of the text before the separator, whose last scheme it is.
static const struct remote_driver *driver_of(const char *head, size_t len)
{
    for (unsigned i = 0; i < sizeof drivers / sizeof drivers[0]; i++) {
        size_t own_len = strlen(drivers[i].name);
        const char *at = len >= own_len ? head + len - own_len : NULL;
        if (at != NULL && strncmp(at, drivers[i].name, own_len) == 0 &&
            (at == head || at[-1] == '+')) {
            return &drivers[i];
        }
    }
    return NULL;
}

bool remote_uri_is(const char *uri)
{
    const char *colon = strstr(uri, separator);
    if (colon == NULL || driver_of(uri, (size_t)(colon - uri)) == NULL) {
        return false;
    }
    const char *begin = colon + sizeof separator - 1;
    const char *end = begin + strcspn(begin, "?"), *slash = strchr(begin, '/');
    return slash != NULL && slash < end && memchr(slash, '*', (size_t)(end - slash)) != NULL;
}

/* ---- what is asked --------------------------------------------------------------------------- */

static int fail(struct why *ret_why, const char *what, const char *why)
{
    why_say(ret_why, "%.100s: %s", what, why);
    return -EINVAL;
}

static bool put(char *to, size_t capacity, const char *from, size_t len)
{
    if (len >= capacity) {
        return false;
    }
    memcpy(to, from, len);
    to[len] = '\0';
    return true;
}

static int authority_parse(const char *text, size_t len, struct remote_uri *ret,
                           struct why *ret_why)
{
    const char *at = memrchr(text, '@', len); // a password may have others
    size_t user_len = at != NULL ? (size_t)(at + 1 - text) : 0;
    if (!put(ret->user, sizeof ret->user, text, user_len) ||
        !put(ret->where, sizeof ret->where, text + user_len, len - user_len)) {
        return fail(ret_why, "HOST[:PORT]", "it is too long");
    }
    if (ret->where[0] == '\0' || ret->where[0] == ':') {
        return fail(ret_why, "//HOST[:PORT]/PATTERN", "there is no host");
    }
    bool has_users = strcmp(ret->driver, "iscsi") == 0;
    return has_users || user_len == 0 ? 0 : fail(ret_why, ret->where, "NVMe has no users");
}

static int interval_take(struct remote_uri *ret, const char *value, struct why *ret_why)
{
    int error = parameter_duration_parse(value, &ret->interval_ns, ret_why);
    bool is_good =
        ret->interval_ns >= NS_PER_S && ret->interval_ns <= REMOTE_INTERVAL_MAX_S * NS_PER_S;
    return error != 0 || is_good ? error : fail(ret_why, value, "interval must be 1s to 86400s");
}

static int most_take(struct remote_uri *ret, const char *value, struct why *ret_why)
{
    uint64_t most;
    if (!text_number_parse(value, 1, NODE_VOLUME_COUNT_MAX, &most)) {
        return fail(ret_why, value, "most must be 1 to 1024 volumes");
    }
    ret->most = (uint32_t)most;
    return 0;
}

static int initiator_take(struct remote_uri *ret, const char *value, struct why *ret_why)
{
    snprintf(ret->initiator, sizeof ret->initiator, "%s", value);
    text_percent_decode(ret->initiator);
    return 0;
}

// Those that say how the source is asked; the last of them is each device's too.
static const struct source_parameter {
    const char *key;
    bool is_devices;
    int (*take)(struct remote_uri *ret, const char *value, struct why *ret_why);
} parameters[] = {{"interval=", false, interval_take},
                  {"most=", false, most_take},
                  {"initiator=", true, initiator_take}};

static const struct source_parameter *parameter_of(const char *word)
{
    for (unsigned i = 0; i < sizeof parameters / sizeof parameters[0]; i++) {
        if (strncmp(word, parameters[i].key, strlen(parameters[i].key)) == 0) {
            return &parameters[i];
        }
    }
    return NULL;
}

// The words behind the question mark: taken, or put into `rest`.
static int parameters_parse(const char *text, struct remote_uri *ret, struct why *ret_why)
{
    size_t len, rest_len = 0;
    int error = 0;
    for (; *text != '\0' && error == 0; text += len) {
        char word[UNIT_URI_MAX];
        len = strcspn(text + 1, "&") + 1; // with what stands before it
        snprintf(word, sizeof word, "%.*s", (int)len - 1, text + 1);
        const struct source_parameter *own = parameter_of(word);
        if (memchr(word, '@', strcspn(word, "=")) != NULL) {
            return fail(ret_why, "its URI", // which is of a password with a question mark
                        "no parameter has an @ in its name; a question mark before it is %3F");
        }
        if (own != NULL) {
            error = own->take(ret, word + strlen(own->key), ret_why);
        }
        if (own == NULL || own->is_devices) {
            rest_len += (size_t)snprintf(ret->rest + rest_len, sizeof ret->rest - rest_len, "%c%s",
                                         rest_len == 0 ? '?' : '&', word);
        }
    }
    return error;
}

int remote_uri_parse(const char *uri, struct remote_uri *ret, struct why *ret_why)
{
    *ret = (struct remote_uri){.most = REMOTE_MOST_DEFAULT,
                               .interval_ns = REMOTE_INTERVAL_DEFAULT_S * NS_PER_S};
    if (!remote_uri_is(uri) || strlen(uri) >= UNIT_URI_MAX) {
        return fail(ret_why, "its URI", "not DRIVER://HOST[:PORT]/PATTERN, or too long");
    }
    const char *colon = strstr(uri, separator), *begin = colon + sizeof separator - 1;
    const char *slash = strchr(begin, '/'), *end = begin + strcspn(begin, "?");
    size_t head_len = (size_t)(colon - uri), path_len = (size_t)(end - slash - 1);
    if (!put(ret->head, sizeof ret->head, uri, head_len)) {
        return fail(ret_why, "its URI", "too many filters");
    }
    snprintf(ret->driver, sizeof ret->driver, "%s", driver_of(uri, head_len)->name);
    put(ret->pattern, sizeof ret->pattern, slash + 1, path_len);
    if (strchr(ret->pattern, '@') != NULL) {
        return fail(
            ret_why, "its URI", // which is of a password with a slash
            "the pattern is of names of targets, which have no @; a slash before it is %2F");
    }
    if (strchr(ret->pattern, '/') != NULL) {
        return fail(ret_why, "its URI", // which may be of a password with a slash
                    "the pattern is of names of targets, with all their units, and nothing stands "
                    "behind it");
    }
    text_percent_decode(ret->pattern);
    int error = authority_parse(begin, (size_t)(slash - begin), ret, ret_why);
    return error == 0 ? parameters_parse(end, ret, ret_why) : error;
}

/* ---- what is found --------------------------------------------------------------------------- */

static bool is_of(const char *text, const char *others, size_t capacity)
{
    size_t len = 0;
    while (len < capacity && (isalnum((unsigned char)text[len]) ||
                              (text[len] != '\0' && strchr(others, text[len]) != NULL))) {
        len++;
    }
    return len < capacity && text[len] == '\0';
}

bool remote_uri_of(const struct remote_uri *asked, const char *where, const char *target,
                   uint32_t number, char ret_uri[UNIT_URI_MAX], char ret_name[VOLUME_NAME_MAX])
{
    // Neither may end a part of the URI, or stand for another octet.
    if (!is_of(where, ".-:[]_", REMOTE_HOST_MAX) || *target == '\0' ||
        !is_of(target, ".-:_", REMOTE_TARGET_MAX)) {
        return false;
    }
    int len = snprintf(ret_uri, UNIT_URI_MAX, "%s://%s%s/%s/%u%s", asked->head, asked->user,
                       *where != '\0' ? where : asked->where, target, number, asked->rest);
    names_of_unit(target, driver_of(asked->head, strlen(asked->head))->mark, number, ret_name);
    return len < UNIT_URI_MAX;
}
