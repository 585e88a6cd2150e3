#include "text/show.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { DELETE = 0x7f, C1_LEAD = 0xc2, C1_FIRST = 0x80, C1_LAST = 0x9f };

char text_ascii_char(char c)
{
    return c < ' ' || c >= DELETE ? '?' : c;
}

static char tame(char c)
{
    return (unsigned char)c < ' ' || c == DELETE ? '?' : c;
}

// U+0080 to U+009F: controls, of two octets.
static bool is_c1(const char *text)
{
    const uint8_t *octets = (const uint8_t *)text;
    return octets[0] == C1_LEAD && octets[1] >= C1_FIRST && octets[1] <= C1_LAST;
}

void text_tame(char *text, size_t capacity)
{
    text[capacity - 1] = '\0';
    for (char *c = text; *c != '\0'; c++) {
        if (is_c1(c)) {
            *c++ = '?';
            *c = '?';
        } else {
            *c = tame(*c);
        }
    }
}

// By a character's first octet: how long it is, and between what its second lies. What has no row
// begins none.
struct utf8_lead {
    uint8_t first, last, len, second_min, second_max;
};
static const struct utf8_lead utf8_leads[] = {
    {0x01, 0x7f, 1, 0, 0},       {0xc2, 0xdf, 2, 0x80, 0xbf}, {0xe0, 0xe0, 3, 0xa0, 0xbf},
    {0xe1, 0xec, 3, 0x80, 0xbf}, {0xed, 0xed, 3, 0x80, 0x9f}, {0xee, 0xef, 3, 0x80, 0xbf},
    {0xf0, 0xf0, 4, 0x90, 0xbf}, {0xf1, 0xf3, 4, 0x80, 0xbf}, {0xf4, 0xf4, 4, 0x80, 0x8f},
};

static bool utf8_goes_on(const uint8_t *text, const struct utf8_lead *lead)
{
    bool goes_on = lead->len == 1 || (text[1] >= lead->second_min && text[1] <= lead->second_max);
    for (size_t i = 2; goes_on && i < lead->len; i++) {
        goes_on = (text[i] & 0xc0) == 0x80;
    }
    return goes_on;
}

// The length of the character that stands there; 0: it is none. The terminator goes on with none.
static size_t utf8_len(const uint8_t *text)
{
    for (size_t i = 0; i < sizeof utf8_leads / sizeof utf8_leads[0]; i++) {
        const struct utf8_lead *lead = &utf8_leads[i];
        if (text[0] >= lead->first && text[0] <= lead->last) {
            return utf8_goes_on(text, lead) ? lead->len : 0;
        }
    }
    return 0;
}

void text_tame_utf8(char *text)
{
    while (*text != '\0') {
        const size_t len = utf8_len((const uint8_t *)text);
        if (len == 0) {
            *text = '?';
        }
        text += len > 0 ? len : 1;
    }
}

static bool is_plain_word(const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_./:=@%+,-";
    return *text != '\0' && text[strspn(text, plain)] == '\0';
}

const char *text_shell_quote(const char *text, char *ret, size_t capacity)
{
    static const char quote[] = "'\\''"; // ends the quotes, is one, begins them anew
    const bool is_plain = is_plain_word(text);
    size_t at = 0;
    if (!is_plain) {
        ret[at++] = '\'';
    }
    for (; *text != '\0' && at + sizeof quote < capacity; text++) {
        if (*text == '\'') {
            memcpy(ret + at, quote, sizeof quote - 1);
            at += sizeof quote - 1;
        } else {
            ret[at++] = *text;
        }
    }
    if (!is_plain) {
        ret[at++] = '\'';
    }
    ret[at] = '\0';
    return *text == '\0' ? ret : "FILE";
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

const char *text_uuid(const uint8_t u[TEXT_UUID_LEN], char ret[TEXT_UUID_MAX])
{
    snprintf(ret, TEXT_UUID_MAX,
             "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1],
             u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14],
             u[15]);
    return ret;
}
