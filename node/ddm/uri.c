#include "node/ddm/uri.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "text/percent.h"

static int fail(struct why *ret_why, const char *why, const char *text)
{
    why_say(ret_why, "%s: %.100s", why, text);
    return -EINVAL;
}

// Drivers whose own name has a plus.
static const char *const compounds[] = {"iscsi+rdma", "nvme+rdma", "nvme+tcp"};

enum { COMPOUND_COUNT = sizeof compounds / sizeof compounds[0] };

// The compound's beginning in the text that it ends, or NULL.
static char *compound_find(char *text)
{
    for (unsigned i = 0; i < COMPOUND_COUNT; i++) {
        size_t len = strlen(text), own_len = strlen(compounds[i]);
        char *at = len >= own_len ? text + len - own_len : NULL;
        if (at != NULL && strcmp(at, compounds[i]) == 0 && (at == text || at[-1] == '+')) {
            return at;
        }
    }
    return NULL;
}

static int schemes_parse(char *text, struct uri *ret, struct why *ret_why)
{
    char *rest = NULL, *last = compound_find(text);
    if (last == text) {
        ret->schemes[ret->scheme_count++] = last;
        return 0;
    }
    if (last != NULL) {
        last[-1] = '\0';
    }
    for (char *word = strtok_r(text, "+", &rest); word != NULL; word = strtok_r(NULL, "+", &rest)) {
        if (ret->scheme_count == URI_SCHEME_MAX) {
            return fail(ret_why, "too many filters", word);
        }
        ret->schemes[ret->scheme_count++] = word;
    }
    if (last != NULL && ret->scheme_count == URI_SCHEME_MAX) {
        return fail(ret_why, "too many filters", last);
    }
    if (last != NULL) {
        ret->schemes[ret->scheme_count++] = last;
    }
    return ret->scheme_count > 0 ? 0 : fail(ret_why, "no driver", ret->object);
}

static int parameters_parse(char *text, struct uri *ret, struct why *ret_why)
{
    char *rest = NULL;
    for (char *word = strtok_r(text, "&", &rest); word != NULL; word = strtok_r(NULL, "&", &rest)) {
        char *value = strchr(word, '=');
        if (value == NULL) {
            return fail(ret_why, "a parameter is KEY=VALUE", word);
        }
        if (ret->parameter_count == URI_PARAMETER_MAX) {
            return fail(ret_why, "too many parameters", word);
        }
        *value++ = '\0';
        text_percent_decode(value);
        ret->parameters[ret->parameter_count++] =
            (struct ddm_parameter){.key = word, .value = value};
    }
    return 0;
}

int uri_parse(const char *text, struct uri *ret, struct why *ret_why)
{
    *ret = (struct uri){0};
    if (strlen(text) >= sizeof ret->text) {
        return fail(ret_why, "the URI is too long", text);
    }
    snprintf(ret->text, sizeof ret->text, "%s", text);
    char *object = strchr(ret->text, ':');
    if (object == NULL) {
        return fail(ret_why, "not DRIVER:OBJECT", text);
    }
    *object++ = '\0';
    ret->object = object;
    char *parameters = strchr(object, '?');
    if (parameters != NULL) {
        *parameters++ = '\0';
    }
    int error = schemes_parse(ret->text, ret, ret_why);
    if (error == 0 && parameters != NULL) {
        error = parameters_parse(parameters, ret, ret_why);
    }
    text_percent_decode(object);
    return error;
}
