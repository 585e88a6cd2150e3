#include "node/ddm/parameters.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "base/why.h"
#include "text/quantity.h"

static int fail(struct why *ret_why, const char *key, const char *value, const char *what)
{
    why_say(ret_why, "%s=%.100s: it must be %s", key, value, what);
    return -EINVAL;
}

const char *parameter_find(const struct ddm_target *target, const char *key)
{
    for (size_t i = 0; i < target->parameter_count; i++) {
        if (strcmp(target->parameters[i].key, key) == 0) {
            return target->parameters[i].value;
        }
    }
    return NULL;
}

int parameter_size_parse(const char *text, uint64_t *ret, struct why *ret_why)
{
    if (!text_size_parse(text, ret)) {
        return fail(ret_why, "size", text, "a number of octets, with K, M, G, T or P");
    }
    return 0;
}

int parameter_size(const struct ddm_target *target, const char *key, uint64_t *ret,
                   struct why *ret_why)
{
    const char *value = parameter_find(target, key);
    return value == NULL ? 0 : parameter_size_parse(value, ret, ret_why);
}

int parameter_duration_parse(const char *text, duration_ns *ret, struct why *ret_why)
{
    bool is_good = text_duration_parse(text, ret);
    return is_good ? 0 : fail(ret_why, "duration", text, "one like 10ms or 2s");
}

int parameter_duration(const struct ddm_target *target, const char *key, duration_ns *ret,
                       struct why *ret_why)
{
    const char *value = parameter_find(target, key);
    if (value != NULL && !text_duration_parse(value, ret)) {
        return fail(ret_why, key, value, "a duration like 10ms or 2s");
    }
    return 0;
}

int parameter_share(const struct ddm_target *target, const char *key, uint32_t *ret,
                    struct why *ret_why)
{
    const char *value = parameter_find(target, key);
    if (value == NULL) {
        return 0;
    }
    char *end;
    double number = strtod(value, &end);
    bool is_percent = strcmp(end, "%") == 0;
    number /= is_percent ? 100 : 1;
    if (end == value || (*end != '\0' && !is_percent) || !(number >= 0 && number <= 1)) {
        return fail(ret_why, key, value, "a share like 10% or 0.1");
    }
    *ret = (uint32_t)(number * 1000000);
    return 0;
}

int parameter_word(const struct ddm_target *target, const char *key, const char *const *words,
                   unsigned *ret, struct why *ret_why)
{
    const char *value = parameter_find(target, key);
    char list[WHY_MAX / 2] = "";
    for (unsigned i = 0; value != NULL && words[i] != NULL; i++) {
        if (strcmp(words[i], value) == 0) {
            *ret = i;
            return 0;
        }
        size_t len = strlen(list);
        snprintf(list + len, sizeof list - len, "%s%s", i == 0 ? "" : " or ", words[i]);
    }
    return value == NULL ? 0 : fail(ret_why, key, value, list);
}
