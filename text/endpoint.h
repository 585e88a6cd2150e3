// Where a service is, as users write it: HOST, HOST:PORT, [NUMBER], [NUMBER]:PORT. An IPv6 number
// stands in brackets (RFC 3986, section 3.2.2), since its colons would pass for that of a port.
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum text_endpoint_verdict {
    TEXT_ENDPOINT_OK,
    TEXT_ENDPOINT_BRACKET, // no closing bracket, or something else than a colon behind it
    TEXT_ENDPOINT_BARE_6,  // colons without brackets: `host` is all of the text
};

// Parts of the text that was taken apart; `port` is NULL where there is no colon before one. Either
// may be empty.
struct text_endpoint {
    const char *host, *port;
    size_t host_len, port_len;
};

enum text_endpoint_verdict text_endpoint_split(const char *text, size_t len,
                                               struct text_endpoint *ret);

// False: a number beyond 16 bits, of which resolvers would take the low ones. The name of a service
// may be one.
bool text_port_exists(const char *port, size_t len);

// "HOST:PORT", with brackets around a host that has colons. Gives back how long it is, or would be.
size_t text_endpoint_format(const char *host, const char *port, char *ret, size_t capacity);
