#include "text/show.h"

#include <stdio.h>

enum { DELETE = 0x7f };

char text_ascii_char(char c)
{
    return c < ' ' || c >= DELETE ? '?' : c;
}

char text_tame_char(char c)
{
    return (unsigned char)c < ' ' || c == DELETE ? '?' : c;
}

void text_tame(char *text, size_t capacity)
{
    text[capacity - 1] = '\0';
    for (char *c = text; *c != '\0'; c++) {
        *c = text_tame_char(*c);
    }
}

const char *text_quote(const char *text, char *ret, size_t capacity)
{
    size_t at = 0;
    ret[at++] = '"';
    for (; *text != '\0' && at + 6 <= capacity; text++) { // an escape, a mark, the end
        unsigned char c = (unsigned char)*text;
        if (c < ' ' || c >= DELETE || c == '"' || c == '\\') {
            at += (size_t)snprintf(ret + at, capacity - at, "\\x%02x", c);
        } else {
            ret[at++] = (char)c;
        }
    }
    ret[at++] = '"';
    ret[at] = '\0';
    return ret;
}

const char *text_hex(const uint8_t *octets, size_t len, char *ret)
{
    *ret = '\0';
    for (size_t i = 0; i < len; i++) {
        snprintf(ret + 2 * i, 3, "%02x", octets[i]);
    }
    return ret;
}
