#include "text/percent.h"

#include <string.h>

// 16: not a hexadecimal digit.
static unsigned digit(char c)
{
    if (c >= '0' && c <= '9') {
        return (unsigned)(c - '0');
    }
    c |= 'a' ^ 'A';
    return c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10 : 16;
}

unsigned char text_percent_take(const char **at, const char *end)
{
    const char *text = *at;
    if (end - text >= 3 && *text == '%' && digit(text[1]) < 16 && digit(text[2]) < 16) {
        *at += 3;
        return (unsigned char)(digit(text[1]) << 4 | digit(text[2]));
    }
    *at += 1;
    return (unsigned char)*text;
}

void text_percent_decode(char *text)
{
    const char *at = text, *end = text + strlen(text);
    char *out = text;
    while (at < end) {
        *out++ = (char)text_percent_take(&at, end);
    }
    *out = '\0';
}
