// Texts that strangers chose, made fit for people's eyes: none can end its line, move a cursor or
// pass for another. And octets in hexadecimal.
#pragma once

#include <stddef.h>
#include <stdint.h>

// As much of `text` as there is room for, between quotation marks. What is not printable ASCII, a
// quotation mark or a backslash stands there as \xNN.
const char *text_quote(const char *text, char *ret, size_t capacity);

// Puts '?' in place of each control character, and of those of two octets (U+0080 to U+009F), which
// steer terminals of UTF-8 too. The text ends within `capacity` octets after that; octets beyond
// ASCII stay: UTF-8 has them.
void text_tame(char *text, size_t capacity);

// Puts '?' in place of each octet that is no part of well-formed UTF-8 (RFC 3629), so that the text
// may go into JSON.
void text_tame_utf8(char *text);

// A word of a command line, as a shell reads it: as it is, or between quotes. "FILE" where there is
// no room for it, so that no part of it is taken for the whole.
const char *text_shell_quote(const char *text, char *ret, size_t capacity);

// The octet, or '?' where it is not printable ASCII.
char text_ascii_char(char c);

// Two digits per octet and a terminator: 2 * len + 1 octets.
const char *text_hex(const uint8_t *octets, size_t len, char *ret);

enum { TEXT_UUID_LEN = 16, TEXT_UUID_MAX = 2 * TEXT_UUID_LEN + 4 + 1 };

// The five groups of RFC 9562 section 4, in lower case, as names of targets have them.
const char *text_uuid(const uint8_t u[TEXT_UUID_LEN], char ret[TEXT_UUID_MAX]);
