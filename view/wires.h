// Which devices there are.
#pragma once

#include <stdbool.h>

// The wires whose devices are listed, one bit per enum device_wire: as WEFT_WIRE says.
unsigned view_wires(void);

// Whether they are shown as files (place.h): unless WEFT_VIEW_FILES is off.
bool view_is_wanted(void);
