#include "draw/xml.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"

enum { PIECE_MAX = 2048 };

void xml_put(const struct xml_out *out, const char *format, ...)
{
    char piece[PIECE_MAX];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(piece, sizeof piece, format, args);
    va_end(args);
    CHECK(len >= 0 && len < PIECE_MAX);
    out->put(out->ctx, piece, (size_t)len);
}

void xml_raw(const struct xml_out *out, const char *markup)
{
    out->put(out->ctx, markup, strlen(markup));
}

static const char *escape(char c)
{
    switch (c) {
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '&':
        return "&amp;";
    case '"':
        return "&quot;";
    default:
        return (unsigned char)c < ' ' || c == 0x7f ? "?" : NULL;
    }
}

// Octets of the character, 1 to 4; 0: no UTF-8.
static size_t character_len(const char *text)
{
    const unsigned char *p = (const unsigned char *)text;
    size_t len = p[0] < 0x80   ? 1
                 : p[0] < 0xc2 ? 0
                 : p[0] < 0xe0 ? 2
                 : p[0] < 0xf0 ? 3
                 : p[0] < 0xf5 ? 4
                               : 0;
    for (size_t i = 1; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    return len;
}

void xml_text(const struct xml_out *out, const char *text)
{
    while (*text != '\0') {
        size_t len = character_len(text);
        const char *escaped = len == 1 ? escape(*text) : NULL;
        if (len == 0) {
            out->put(out->ctx, "?", 1);
            len = 1;
        } else if (escaped != NULL) {
            xml_raw(out, escaped);
        } else {
            out->put(out->ctx, text, len);
        }
        text += len;
    }
}
