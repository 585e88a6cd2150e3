#include "cli/answer.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/say.h"
#include "text/show.h"

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

// One object of an answer into the array.
static int object_add(const char *text, size_t len, struct json_object *array)
{
    struct json_object *object = answer_parse(text, len);
    if (object == NULL) {
        return -EBADMSG;
    }
    return json_object_array_add(array, object) == 0 ? 0 : -ENOMEM;
}

int answers_parse(const char *text, size_t len, struct json_object *array)
{
    int error = 0;
    const char *end = text + len;
    for (const char *line = text; error == 0 && line < end;) {
        const char *line_end = memchr(line, '\n', (size_t)(end - line));
        line_end = line_end != NULL ? line_end : end;
        error = object_add(line, (size_t)(line_end - line), array);
        line = line_end + 1;
    }
    return error;
}

int answers_get(const struct process *process, const char *request, struct json_object *array)
{
    char *text;
    size_t len;
    int error = process_ask(process, request, &text, &len);
    if (error == 0) {
        error = answers_parse(text, len, array);
        free(text);
    }
    return error;
}

/* ---- members --------------------------------------------------------------------------------- */

struct json_object *answer_member(struct json_object *object, const char *name, enum json_type type)
{
    struct json_object *found;
    return json_object_is_type(object, json_type_object) &&
                   json_object_object_get_ex(object, name, &found) &&
                   json_object_is_type(found, type)
               ? found
               : NULL;
}

const char *answer_text(struct json_object *object, const char *name)
{
    struct json_object *found = answer_member(object, name, json_type_string);
    if (found == NULL) {
        return "";
    }
    char *text = (char *)(uintptr_t)json_object_get_string(found); // the answer is ours
    text_tame(text, strlen(text) + 1);
    return text;
}

uint64_t answer_number(struct json_object *object, const char *name)
{
    return json_object_get_uint64(answer_member(object, name, json_type_int));
}

size_t answer_count(struct json_object *object, const char *name)
{
    struct json_object *array = answer_member(object, name, json_type_array);
    return array != NULL ? json_object_array_length(array) : 0;
}

struct json_object *answer_element(struct json_object *object, const char *name, size_t index)
{
    return json_object_array_get_idx(answer_member(object, name, json_type_array), index);
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
