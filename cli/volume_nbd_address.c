// Addresses of NBD exports, as NBD's own document of URIs has them.

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/why.h"
#include "cli/volume.h"
#include "cli/volume_nbd.h"
#include "text/endpoint.h"

const char *const volume_nbd_schemes[] = {"nbd://", "nbd+unix://", NULL};

// Where the authority ends: at the path, at the query, or at all.
static const char *authority_end(const char *uri)
{
    const char *authority = strstr(uri, "://") + 3;
    return authority + strcspn(authority, "/?");
}

int volume_nbd_check(const char *uri, bool is_one, struct why *ret_why)
{
    bool is_unix = strncmp(uri, "nbd+unix://", 11) == 0;
    const char *authority = strstr(uri, "://") + 3;
    const char *query = strchr(uri, '?');
    struct text_endpoint endpoint;
    if (strlen(uri) >= VOLUME_URI_MAX) {
        why_say(ret_why, "it is longer than %d octets", VOLUME_URI_MAX - 1);
        return -EINVAL;
    }
    if (is_unix && (authority_end(uri) != authority || query == NULL ||
                    strncmp(query, "?socket=", 8) != 0 || query[8] == '\0')) {
        why_say(ret_why, "it is not nbd+unix:///[EXPORT]?socket=PATH");
        return -EINVAL;
    }
    if (!is_unix && authority_end(uri) == authority) {
        why_say(ret_why, "it names no host");
        return -EINVAL;
    }
    text_endpoint_split(authority, (size_t)(authority_end(uri) - authority), &endpoint);
    if (endpoint.port != NULL && !text_port_exists(endpoint.port, endpoint.port_len)) {
        why_say(ret_why, "there is no port %.*s", (int)endpoint.port_len, endpoint.port);
        return -EINVAL;
    }
    return 0;
}

const char *volume_nbd_remedy(int error)
{
    switch (error) {
    case -ECONNREFUSED:
    case -ENOENT:
    case -EHOSTUNREACH:
    case -ETIMEDOUT:
        return "see whether an NBD server listens there, and has this export: weft ls nbd://HOST";
    case -ELIBACC:
        return "build weft where libnbd-dev is, and install libnbd0; or use nbdcopy or qemu-img";
    case -EOPNOTSUPP:
        return "use another program for this server, nbdcopy or qemu-img";
    default:
        return "see what the server says of it";
    }
}

bool volume_nbd_has_name(const char *uri)
{
    const char *end = authority_end(uri);
    return end[0] == '/' && end[1] != '\0' && end[1] != '?';
}

// What may stand in a path as it is.
static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("-._~:@!$&'()*+,;=/", c) != NULL);
}

bool volume_nbd_name_put(const char *uri, const char *name, char *ret, size_t capacity)
{
    const char *end = authority_end(uri), *query = strchr(uri, '?');
    if (name == NULL) {
        return (size_t)snprintf(ret, capacity, "%s", uri) < capacity;
    }
    int len = snprintf(ret, capacity, "%.*s/", (int)(end - uri), uri);
    for (const char *c = name; *c != '\0' && (size_t)len < capacity; c++) {
        len += snprintf(ret + len, capacity - (size_t)len, is_plain(*c) ? "%c" : "%%%02X",
                        (unsigned char)*c);
    }
    if (query != NULL && (size_t)len < capacity) {
        len += snprintf(ret + len, capacity - (size_t)len, "%s", query);
    }
    return (size_t)len < capacity;
}
