#include "http/host_header.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <strings.h>

#include "text/endpoint.h"
#include "text/quantity.h"

enum { NAME_MAX_LEN = 255 };

static bool is_port(const char *text, size_t len)
{
    char port[8];
    uint64_t number;
    if (len >= sizeof port) {
        return false;
    }
    memcpy(port, text, len);
    port[len] = '\0';
    return text_number_parse(port, 0, UINT16_MAX, &number);
}

static bool is_loopback_name(const char *name, size_t len)
{
    static const char own[] = "localhost";
    const size_t own_len = sizeof own - 1;
    if (len > 0 && name[len - 1] == '.') { // the root of all names
        len--;
    }
    return len >= own_len && strncasecmp(name + len - own_len, own, own_len) == 0 &&
           (len == own_len || name[len - own_len - 1] == '.');
}

static bool is_loopback_number(const char *name)
{
    struct in_addr in;
    struct in6_addr in6;
    if (inet_pton(AF_INET, name, &in) == 1) {
        return ntohl(in.s_addr) >> 24 == IN_LOOPBACKNET;
    }
    return inet_pton(AF_INET6, name, &in6) == 1 &&
           (IN6_IS_ADDR_LOOPBACK(&in6) ||
            (IN6_IS_ADDR_V4MAPPED(&in6) && in6.s6_addr[12] == IN_LOOPBACKNET));
}

bool http_host_is_loopback(const char *text, size_t len)
{
    struct text_endpoint end;
    char name[NAME_MAX_LEN + 1];
    if (len > NAME_MAX_LEN || memchr(text, '\0', len) != NULL ||
        text_endpoint_split(text, len, &end) != TEXT_ENDPOINT_OK || end.host_len == 0 ||
        (end.port != NULL && !is_port(end.port, end.port_len))) {
        return false;
    }
    memcpy(name, end.host, end.host_len);
    name[end.host_len] = '\0';
    return is_loopback_name(name, end.host_len) || is_loopback_number(name);
}
