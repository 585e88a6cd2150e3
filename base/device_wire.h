// The wires that devices of this process speak: a device each, listed in this order.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum device_wire { DEVICE_WIRE_IWARP, DEVICE_WIRE_ROCE, DEVICE_WIRE_COUNT };

// The devices' names, as programs choose them.
#define DEVICE_NAME_IWARP "weft0"
#define DEVICE_NAME_ROCE  "weft_roce0"

#define DEVICE_WIRES_VALUES "both, iwarp or roce"

// Some of them by name, one bit each. False: it is none of DEVICE_WIRES_VALUES.
static inline bool device_wires_parse(const char *text, unsigned *ret)
{
    static const struct {
        const char *text;
        unsigned wires;
    } words[] = {
        {"both", 1U << DEVICE_WIRE_IWARP | 1U << DEVICE_WIRE_ROCE},
        {"iwarp", 1U << DEVICE_WIRE_IWARP},
        {"roce", 1U << DEVICE_WIRE_ROCE},
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(words[i].text, text) == 0) {
            *ret = words[i].wires;
            return true;
        }
    }
    return false;
}
