#include "text/addresses.h"

#include <stdio.h>
#include <string.h>

enum addresses_verdict addresses_add(struct addresses *addresses, const char *text)
{
    if (strlen(text) >= ADDRESS_MAX) {
        return ADDRESSES_TOO_LONG;
    }
    for (unsigned i = 0; i < addresses->count; i++) {
        if (strcmp(addresses->of[i], text) == 0) {
            return ADDRESSES_TWICE;
        }
    }
    if (addresses->count == ADDRESSES_COUNT_MAX) {
        return ADDRESSES_TOO_MANY;
    }
    memcpy(addresses->of[addresses->count++], text, strlen(text) + 1);
    return ADDRESSES_OK;
}

const char *addresses_verdict_name(enum addresses_verdict verdict)
{
    static const char *const names[] = {
        [ADDRESSES_OK] = "ok",
        [ADDRESSES_TOO_LONG] = "the address is too long",
        [ADDRESSES_TOO_MANY] = "too many addresses for one protocol",
        [ADDRESSES_TWICE] = "this address is given twice",
    };
    return names[verdict];
}
