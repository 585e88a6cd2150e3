// Whom a browser believes it speaks to. A page of somebody else, whose name is made to resolve to
// 127.0.0.1 while it is open (DNS rebinding), is in the browser's eyes of one origin with what
// listens there, and may read it; but the browser sends the page's name in the field Host. So who
// comes to a loopback address is answered only if Host is a name that no resolver is asked for:
// `localhost`, or below it (RFC 6761, section 6.3), or a loopback address as a number. The port may
// be any: a door may be reached through `ssh -L`.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// `text` is the field's value: "localhost:8080", "[::1]".
bool http_host_is_loopback(const char *text, size_t len);
