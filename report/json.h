// JSON as it is written, member by member, with the commas between them.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json {
    FILE *out;
    bool has_member;
};

// `name` NULL: the object stands alone, or in an array.
struct json json_open(struct json *parent, const char *name);
void json_close(struct json *object);

void json_name(struct json *object, const char *name);
// A counter_each of the object, too.
void json_number(void *object, const char *name, uint64_t value);
// The same, but only what has ever counted: refusals and the like have long lists of zeroes.
void json_if_counted(void *object, const char *name, uint64_t value);
// `text` is one of ours: no quotes, no control characters.
void json_text(struct json *object, const char *name, const char *text);
// `text` is anybody's: a program may have any name.
void json_foreign_text(struct json *object, const char *name, const char *text);
