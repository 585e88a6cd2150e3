#include "view/wires.h"

#include <stdlib.h>
#include <string.h>

#include "base/device_wire.h"

// A value that cannot be understood is named when a device comes up (host/settings.h).
unsigned view_wires(void)
{
    unsigned wires;
    const char *text = secure_getenv("WEFT_WIRE");
    if (text == NULL || !device_wires_parse(text, &wires)) {
        device_wires_parse("both", &wires);
    }
    return wires;
}

bool view_is_wanted(void)
{
    const char *text = secure_getenv("WEFT_VIEW_FILES");
    return text == NULL || strcmp(text, "off") != 0;
}
