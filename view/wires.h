// Which devices there are.
#pragma once

// The wires whose devices are listed, one bit per enum device_wire; the same in every call.
unsigned view_wires(void);
