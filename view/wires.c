#include "view/wires.h"

#include "base/device_wire.h"

unsigned view_wires(void)
{
    return 1U << DEVICE_WIRE_IWARP;
}
