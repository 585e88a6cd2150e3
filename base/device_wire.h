// The wires that devices of this process speak: a device each, listed in this order.
#pragma once

enum device_wire { DEVICE_WIRE_IWARP, DEVICE_WIRE_ROCE, DEVICE_WIRE_COUNT };
