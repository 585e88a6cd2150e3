// What weft status shows, as JSON; the keys are documented in weft-status(1).
#pragma once

#include <json-c/json.h>

struct host;

// A new object; NULL without memory.
struct json_object *status_object(struct host *host);
