// NBD: addresses of exports, nbd://HOST[:PORT][/EXPORT] and nbd+unix:///[EXPORT]?socket=PATH
// (volume_nbd_address.c), and the module that speaks it.
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct volume_protocol;
struct why;

extern const char *const volume_nbd_schemes[];

int volume_nbd_check(const char *uri, bool is_one, struct why *ret_why);
const char *volume_nbd_remedy(int error);

// Does it name an export? Without, it is a server, or its export of no name.
bool volume_nbd_has_name(const char *uri);
// The same server's export `name`; NULL: the URI as it is. False: too long.
bool volume_nbd_name_put(const char *uri, const char *name, char *ret, size_t capacity);

// Of weft-nbd.so.
extern const struct volume_protocol volume_libnbd;
