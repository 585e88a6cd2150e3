// XML going out, piece by piece, to whoever takes it.
#pragma once

#include <stddef.h>

struct xml_out {
    void (*put)(void *ctx, const char *text, size_t len);
    void *ctx;
};

// Markup as it stands, at most 2 KiB. What strangers wrote goes by xml_text.
void xml_put(const struct xml_out *out, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
// Text, or the value of an attribute: markup in it is escaped, and what is no character is '?'.
void xml_text(const struct xml_out *out, const char *text);
// Markup of any length, as it stands.
void xml_raw(const struct xml_out *out, const char *markup);
