// The process of an envoy (envoy.h).
#pragma once

#include "node/discovery/envoy.h"

// Until the host is gone or has had enough. The exit status.
int discovery_process_main(void);
