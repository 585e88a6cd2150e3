// Which devices there are.
#pragma once

// The wires whose devices are listed, one bit per enum device_wire: as WEFT_WIRE says.
unsigned view_wires(void);
