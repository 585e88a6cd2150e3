#include "node/host/wish.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "node/ddm/parameters.h"
#include "node/ddm/registry.h"
#include "node/ddm/uri.h"
#include "node/interface/request.h"
#include "node/interface/uma_tts.h"
#include "node/interface/volume.h"

static bool is_name_char(char c)
{
    return isalnum((unsigned char)c) || c == '.' || c == '_' || c == '-';
}

bool wish_name_is_good(const char *name)
{
    size_t len = 0;
    while (is_name_char(name[len])) {
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

static const char *last_component(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

// Of a file its own name, else the driver's: what others have for an object makes no name.
static void name_derive(const struct uri *uri, char ret_name[VOLUME_NAME_MAX])
{
    const char *driver = uri->schemes[uri->scheme_count - 1];
    bool is_file = strcmp(driver, "file") == 0;
    snprintf(ret_name, VOLUME_NAME_MAX, "%s", is_file ? last_component(uri->object) : driver);
    for (char *c = ret_name; *c != '\0'; c++) {
        *c = is_name_char(*c) ? *c : '_';
    }
    if (ret_name[0] == '\0') {
        snprintf(ret_name, VOLUME_NAME_MAX, "volume");
    }
}

static int allow_add(struct volume_wish *wish, const char *identity, size_t len,
                     struct why *ret_why)
{
    if (wish->allow_count == UMA_ALLOW_COUNT_MAX || len >= CLIENT_IDENTITY_MAX) {
        why_say(ret_why, "too many clients allowed, or too long a name: %.*s",
                (int)(len < 64 ? len : 64), identity);
        return -EINVAL;
    }
    memcpy(wish->allow[wish->allow_count], identity, len);
    wish->allow[wish->allow_count++][len] = '\0';
    return 0;
}

// Who may use the volume is the node's business, not the driver's: takes those parameters out.
static int allow_take(struct volume_wish *wish, struct why *ret_why)
{
    static const char key[] = "allow=";
    char *query = strchr(wish->uri, '?');
    char *out = query, *next;
    int error = 0;
    for (char *word = query; word != NULL && error == 0; word = next) {
        size_t len = strcspn(word + 1, "&") + 1; // with what stands before it
        next = word[len] != '\0' ? word + len : NULL;
        if (strncmp(word + 1, key, sizeof key - 1) == 0) {
            error = allow_add(wish, word + sizeof key, len - sizeof key, ret_why);
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

int wish_uri_parse(const char *uri, struct volume_wish *ret, struct why *ret_why)
{
    const char *prefix = has_scheme(uri) ? "" : "file:";
    int len = snprintf(ret->uri, sizeof ret->uri, "%s%s", prefix, uri);
    if (len >= (int)sizeof ret->uri) {
        why_say(ret_why, "the URI is too long");
        return -EINVAL;
    }
    int error = allow_take(ret, ret_why);
    if (error != 0) {
        return error;
    }
    return ddm_registry_knows(ret->uri, ret_why) ? 0 : -EINVAL;
}

int wish_parse(const char *text, struct volume_wish *ret, struct why *ret_why)
{
    *ret = (struct volume_wish){0};
    const char *equals = strchr(text, '=');
    size_t len = equals != NULL ? (size_t)(equals - text) : 0;
    bool has_name = len > 0 && len < sizeof ret->name;
    for (size_t i = 0; i < len && has_name; i++) {
        has_name = is_name_char(text[i]);
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
