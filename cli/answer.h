// What a running process of weft answers, as JSON.
#pragma once

#include <json-c/json.h>
#include <stddef.h>
#include <stdint.h>

#include "control/ask.h"

// Sends a request, one line with its end. 0 and the object; as process_ask, or -EBADMSG: what came
// is no object.
int answer_get(const struct process *process, const char *request, struct json_object **ret);

// The same of an answer with an object per line; each goes to the end of the array.
int answers_get(const struct process *process, const char *request, struct json_object *array);

// ... of an answer that is here already. 0, -EBADMSG or -ENOMEM.
int answers_parse(const char *text, size_t len, struct json_object *array);

// The member of that name and type. Anybody may have written an answer, so what has another type is
// not there. NULL: none.
struct json_object *answer_member(struct json_object *object, const char *name,
                                  enum json_type type);

// The text of a member, of which nothing ends its line or steers a terminal: that is changed where
// it lies, so the answer is not what came any more. "": none.
const char *answer_text(struct json_object *object, const char *name);

// The number of a member, an integer that is not negative. 0: none.
uint64_t answer_number(struct json_object *object, const char *name);

// How many elements the member has that is an array. 0: none is.
size_t answer_count(struct json_object *object, const char *name);

// Its elements, up to that many.
struct json_object *answer_element(struct json_object *object, const char *name, size_t index);

// Says why there was no answer; `what` is what there is not therefore.
void answer_say_failed(const struct process *process, const char *what, int error);
