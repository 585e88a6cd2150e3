#include "format/iscsi_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_key_char(char c)
{
    bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    return is_letter || (c >= '0' && c <= '9') || strchr(".-+@_/", c) != NULL;
}

enum iscsi_text_verdict iscsi_text_next(struct iscsi_text *text, struct iscsi_pair *ret)
{
    while (text->left > 0 && *text->at == '\0') { // padding
        text->at++;
        text->left--;
    }
    if (text->left == 0) {
        return ISCSI_TEXT_END;
    }
    const char *end = memchr(text->at, '\0', text->left);
    const char *equals = end != NULL ? memchr(text->at, '=', (size_t)(end - text->at)) : NULL;
    size_t key_len = equals != NULL ? (size_t)(equals - text->at) : 0;
    if (key_len == 0 || key_len >= ISCSI_KEY_MAX) {
        return ISCSI_TEXT_BROKEN;
    }
    for (size_t i = 0; i < key_len; i++) {
        if (text->at[i] == '\0' || !is_key_char(text->at[i])) {
            return ISCSI_TEXT_BROKEN;
        }
    }
    memcpy(ret->key, text->at, key_len);
    ret->key[key_len] = '\0';
    ret->value = equals + 1;
    text->left -= (size_t)(end + 1 - text->at);
    text->at = end + 1;
    return ISCSI_TEXT_PAIR;
}

void iscsi_text_put(struct iscsi_text_out *out, const char *key, const char *format, ...)
{
    char value[512];
    va_list args;
    va_start(args, format);
    vsnprintf(value, sizeof value, format, args);
    va_end(args);
    size_t room = out->capacity - out->len;
    int len = snprintf(out->ptr + out->len, room, "%s=%s", key, value);
    if (len < 0 || (size_t)len >= room) {
        out->is_full = true;
        return;
    }
    out->len += (size_t)len + 1;
}

bool iscsi_list_has(const char *list, const char *word)
{
    size_t len = strlen(word);
    for (const char *at = list;; at++) {
        if (strncmp(at, word, len) == 0 && (at[len] == ',' || at[len] == '\0')) {
            return true;
        }
        at = strchr(at, ',');
        if (at == NULL) {
            return false;
        }
    }
}

bool iscsi_number_parse(const char *text, uint32_t *ret)
{
    bool is_hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
    const char *digits = is_hex ? text + 2 : text;
    size_t len = strspn(digits, is_hex ? "0123456789abcdefABCDEF" : "0123456789");
    if (len == 0 || len > 10 || digits[len] != '\0') {
        return false;
    }
    unsigned long long value = strtoull(digits, NULL, is_hex ? 16 : 10);
    *ret = (uint32_t)value;
    return value <= UINT32_MAX;
}
