#include "node/discovery/names.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/siphash.h"
#include "base/span.h"

enum { DIGEST_LEN = 9 }; // eight digits and a mark

bool names_char_is_good(char c)
{
    return isalnum((unsigned char)c) || c == '.' || c == '_' || c == '-';
}

static void tame(char *name)
{
    for (char *c = name; *c != '\0'; c++) {
        *c = names_char_is_good(*c) ? *c : '_';
    }
}

void names_of_path(const char *path, char ret[VOLUME_NAME_MAX])
{
    const char *slash = strrchr(path, '/');
    snprintf(ret, VOLUME_NAME_MAX, "%s", slash != NULL ? slash + 1 : path);
    tame(ret);
    if (ret[0] == '\0') {
        snprintf(ret, VOLUME_NAME_MAX, "volume");
    }
}

// Nobody gains by two targets that meet in one digest: their volumes get different numbers.
static uint32_t digest_of(const char *text)
{
    static const uint8_t key[SIPHASH_KEY_LEN];
    return (uint32_t)siphash(key, (struct span){(const uint8_t *)text, strlen(text)});
}

void names_of_unit(const char *target, const char *mark, uint32_t number, char ret[VOLUME_NAME_MAX])
{
    char suffix[24];
    size_t suffix_len = (size_t)snprintf(suffix, sizeof suffix, "-%s%u", mark, number);
    size_t room = VOLUME_NAME_MAX - 1 - suffix_len, len = strlen(target);
    if (len <= room) {
        snprintf(ret, VOLUME_NAME_MAX, "%s%s", target, suffix);
    } else {
        snprintf(ret, VOLUME_NAME_MAX, "%08x_%s%s", digest_of(target),
                 target + len - (room - DIGEST_LEN), suffix);
    }
    tame(ret);
}
