// What drivers whose device is reached over a network ask of the system once it is open: to connect
// again, and to move data, by sockets or by weft's own RNIC (ddm_driver.calls). Both look up names,
// so they read files, and start threads to do so.
#pragma once

#include <stdbool.h>

extern const char *const network_calls[];
extern const char *const rnic_calls[];

// Is the RNIC of this process weft's own? Of another nobody knows what it asks for: that of the
// kernel opens its files again with each connection.
bool network_rnic_is_known(void);
