#include "cli/answer.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/say.h"

enum { PID_TEXT_LEN = 48 };

// The object in an answer; NULL if it is none, or there is more than one.
static struct json_object *answer_parse(const char *text, size_t len)
{
    struct json_tokener *tokener = json_tokener_new();
    struct json_object *object = NULL;
    if (tokener == NULL) {
        return NULL;
    }
    json_tokener_set_flags(tokener, JSON_TOKENER_STRICT);
    object = json_tokener_parse_ex(tokener, text, (int)len);
    bool is_whole = json_tokener_get_error(tokener) == json_tokener_success;
    json_tokener_free(tokener);
    if (!is_whole || !json_object_is_type(object, json_type_object)) {
        json_object_put(object);
        return NULL;
    }
    return object;
}

int answer_get(const struct process *process, const char *request, struct json_object **ret)
{
    char *text;
    size_t len;
    int error = process_ask(process, request, &text, &len);
    if (error != 0) {
        return error;
    }
    *ret = answer_parse(text, text[len - 1] == '\n' ? len - 1 : len);
    free(text);
    return *ret != NULL ? 0 : -EBADMSG;
}

void answer_say_failed(const struct process *process, const char *what, int error)
{
    char object[PID_TEXT_LEN];
    snprintf(object, sizeof object, "process %d", (int)process->pid);
    switch (error) {
    case -ECONNREFUSED:
        say_error(what, object, "look again which there are", "it has ended meanwhile");
        break;
    case -EACCES:
        say_error(what, object, "ask as its user, or as root",
                  "it belongs to another user, and answers its own and root only");
        break;
    case -ETIMEDOUT:
        say_error(what, object, "see whether it is stopped (state T in ps) or overloaded",
                  "it did not answer in time");
        break;
    case -EBADMSG:
    case -EMSGSIZE:
        say_error(what, object, "use the command of the weft it runs on",
                  "what it answered is not an object of weft's JSON");
        break;
    default:
        say_error(what, object, "try again", "%s", strerror(-error));
    }
}
