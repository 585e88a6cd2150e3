#include "tests/rnic/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

// One value of JSON, as far as these objects use it; behind it, or NULL.
static const char *json_skip(const char *at)
{
    if (*at == '"') {
        const char *end = strchr(at + 1, '"');
        return end != NULL ? end + 1 : NULL;
    }
    if (*at != '{' && *at != '[') {
        size_t len = strspn(at, "0123456789");
        return len > 0 ? at + len : NULL;
    }
    const char close = *at == '{' ? '}' : ']';
    if (at[1] == close) {
        return at + 2;
    }
    do {
        at = json_skip(at + 1);
        if (at != NULL && close == '}') {
            at = *at == ':' ? json_skip(at + 1) : NULL;
        }
    } while (at != NULL && *at == ',');
    return at != NULL && *at == close ? at + 1 : NULL;
}

void json_expect(const char *text)
{
    const char *end = json_skip(text);
    if (text[0] != '{' || end == NULL || strcmp(end, "\n") != 0) {
        fail_msg("no JSON: %s", text);
    }
}
