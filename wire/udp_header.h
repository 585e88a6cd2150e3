// The UDP header (RFC 768).
//
//   OFFSET SIZE FIELD
//    0      2   source port
//    2      2   destination port
//    4      2   length, this header included
//    6      2   checksum; over IPv4, 0: there is none
#pragma once

#include "base/check.h"

enum {
    UDP_OFF_SRC_PORT = 0,
    UDP_OFF_DST_PORT = 2,
    UDP_OFF_LEN = 4,
    UDP_OFF_CHECKSUM = 6,
    UDP_HEADER_LEN = 8,
};
STATIC_CHECK(UDP_OFF_CHECKSUM + 2 == UDP_HEADER_LEN);
