#include "base/counter.h"

#include <stdio.h>

void counter_tell(counter_each each, void *ctx, const char *prefix, const char *words,
                  const char *suffix, uint64_t value)
{
    char name[96];
    int len = snprintf(name, sizeof name, "%s%s%s", prefix, words, suffix);
    for (int i = 0; i < len && name[i] != '\0'; i++) {
        char c = name[i];
        name[i] = (char)(c == ' ' ? '_' : c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    }
    each(ctx, name, value);
}
