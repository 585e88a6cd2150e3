// A field Host of anybody's making: no octet beyond its end is read, and what passes for this
// machine is no name that a resolver would be asked for.
#include <ctype.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "http/host_header.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// A letter that no number has, not even one in hexadecimal.
static bool has_letter(const char *text)
{
    bool has_any = false;
    for (; *text != '\0'; text++) {
        has_any |= isalpha((unsigned char)*text) && !isxdigit((unsigned char)*text);
    }
    return has_any;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *field = malloc(size > 0 ? size : 1); // ends where the field ends
    char *text = calloc(1, size + 1);
    memcpy(field, data, size);
    memcpy(text, data, size);
    if (http_host_is_loopback(field, size)) {
        CHECK(strlen(text) == size);
        CHECK(!has_letter(text) || strcasestr(text, "localhost") != NULL);
    }
    free(text);
    free(field);
    return 0;
}
