#include "text/endpoint.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static enum text_endpoint_verdict bracketed_split(const char *text, const char *end,
                                                  struct text_endpoint *ret)
{
    const char *bracket = memchr(text, ']', (size_t)(end - text));
    if (bracket == NULL || (bracket + 1 < end && bracket[1] != ':')) {
        return TEXT_ENDPOINT_BRACKET;
    }
    ret->host = text + 1;
    ret->host_len = (size_t)(bracket - ret->host);
    if (bracket + 1 < end) {
        ret->port = bracket + 2;
        ret->port_len = (size_t)(end - ret->port);
    }
    return TEXT_ENDPOINT_OK;
}

enum text_endpoint_verdict text_endpoint_split(const char *text, size_t len,
                                               struct text_endpoint *ret)
{
    const char *end = text + len;
    *ret = (struct text_endpoint){.host = text, .host_len = len};
    if (len > 0 && *text == '[') {
        return bracketed_split(text, end, ret);
    }
    const char *colon = memchr(text, ':', len);
    if (colon == NULL) {
        return TEXT_ENDPOINT_OK;
    }
    if (memchr(colon + 1, ':', (size_t)(end - colon - 1)) != NULL) {
        return TEXT_ENDPOINT_BARE_6;
    }
    ret->host_len = (size_t)(colon - text);
    ret->port = colon + 1;
    ret->port_len = (size_t)(end - ret->port);
    return TEXT_ENDPOINT_OK;
}

bool text_port_exists(const char *port, size_t len)
{
    uint32_t number = 0;
    for (size_t i = 0; i < len; i++) {
        if (port[i] < '0' || port[i] > '9') {
            return true; // a name
        }
        number = number > UINT16_MAX ? number : number * 10 + (uint32_t)(port[i] - '0');
    }
    return number <= UINT16_MAX;
}

size_t text_endpoint_format(const char *host, const char *port, char *ret, size_t capacity)
{
    const char *format = strchr(host, ':') != NULL ? "[%s]:%s" : "%s:%s";
    return (size_t)snprintf(ret, capacity, format, host, port);
}
