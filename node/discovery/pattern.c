#include "node/discovery/pattern.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "node/ddm/uri.h"

static const char scheme[] = "glob:";

// Where the scheme stands that is to become "file:"; NULL: nowhere.
static const char *scheme_find(const char *uri)
{
    const char *colon = strchr(uri, ':');
    size_t len = sizeof scheme - 1;
    if (colon == NULL || (size_t)(colon + 1 - uri) < len) {
        return NULL;
    }
    const char *at = colon + 1 - len;
    bool begins = at == uri || at[-1] == '+';
    return begins && strncmp(at, scheme, len) == 0 ? at : NULL;
}

bool pattern_is(const char *uri)
{
    return scheme_find(uri) != NULL;
}

int pattern_parse(const char *text, char ret_folder[PATTERN_PATH_MAX],
                  char ret_pattern[PATTERN_PATH_MAX], struct why *ret_why)
{
    struct uri uri;
    int error = uri_parse(text, &uri, ret_why);
    if (error != 0) {
        return error;
    }
    const char *slash = strrchr(uri.object, '/');
    const char *pattern = slash != NULL ? slash + 1 : uri.object;
    int folder_len = slash != NULL ? (int)(slash - uri.object) : 0;
    snprintf(ret_pattern, PATTERN_PATH_MAX, "%s", pattern);
    snprintf(ret_folder, PATTERN_PATH_MAX, "%.*s", folder_len, uri.object);
    if (folder_len == 0) {
        snprintf(ret_folder, PATTERN_PATH_MAX, "%s", slash != NULL ? "/" : ".");
    }
    if (*pattern == '\0' || strpbrk(ret_folder, "*?[") != NULL) {
        why_say(ret_why, "%.150s: the last component is the pattern, and it alone", uri.object);
        return -EINVAL;
    }
    return 0;
}

// What would be read as something else in a URI.
static bool is_special(char c)
{
    return c == '%' || c == '?' || (unsigned char)c < ' ';
}

static size_t path_put(const char *path, char *to, size_t room)
{
    size_t len = 0;
    for (; *path != '\0' && len + 4 <= room; path++) {
        len += (size_t)snprintf(to + len, room - len, is_special(*path) ? "%%%02x" : "%c",
                                (unsigned char)*path);
    }
    return *path == '\0' ? len : room;
}

bool pattern_uri_of(const char *uri, const char *path, char ret[UNIT_URI_MAX])
{
    const char *at = scheme_find(uri), *parameters = strchr(uri, '?');
    size_t len = (size_t)snprintf(ret, UNIT_URI_MAX, "%.*sfile:", (int)(at - uri), uri);
    len += len < UNIT_URI_MAX ? path_put(path, ret + len, UNIT_URI_MAX - len) : 0;
    if (len >= UNIT_URI_MAX) {
        return false;
    }
    size_t room = UNIT_URI_MAX - len;
    return (size_t)snprintf(ret + len, room, "%s", parameters != NULL ? parameters : "") < room;
}
