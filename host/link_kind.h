// The values of WEFT_LINK: which link carries the connections.
#pragma once

#include <stdbool.h>

#include "link/compound.h"
#include "link/device/tap.h"

#define HOST_LINK_VALUES "socket, udp, " TAP_VALUES ", or by peer, " LINK_COMPOUND_VALUES

enum host_link_kind {
    HOST_LINK_SOCKET,
    HOST_LINK_UDP,
    HOST_LINK_TAP,
    HOST_LINK_BY_PEER,
    HOST_LINK_KIND_COUNT, // none of them
};

// The kind that `text` names; HOST_LINK_KIND_COUNT: none.
enum host_link_kind host_link_kind_of(const char *text);
// Whether `text` is a value of WEFT_LINK; by peer, whether each link that it names is.
bool host_link_is_known(const char *text);
