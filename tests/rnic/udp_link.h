// A link with TCP of its own over UDP, for a device of these tests. Apart from tests/rnic/device.h,
// whose devices are others than those of link/.
#pragma once

struct link;

struct link *udp_link(const char *fault); // as WEFT_FAULT has it; empty: a good path
