// Texts that strangers chose, for people: what is not printable ASCII, a quotation mark or a
// backslash stands there as \xNN, so that none can end its line, move a cursor or pass for another.
#pragma once

#include <stddef.h>
#include <stdio.h>

// As much of `text` as there is room for, between quotation marks.
static inline const char *show_quoted(const char *text, char *ret, size_t capacity)
{
    size_t at = 0;
    ret[at++] = '"';
    for (; *text != '\0' && at + 6 <= capacity; text++) { // an escape, a mark, the end
        unsigned char c = (unsigned char)*text;
        if (c < ' ' || c > '~' || c == '"' || c == '\\') {
            at += (size_t)snprintf(ret + at, capacity - at, "\\x%02x", c);
        } else {
            ret[at++] = (char)c;
        }
    }
    ret[at++] = '"';
    ret[at] = '\0';
    return ret;
}
