#include "cli/objection.h"

#include <stdarg.h>
#include <stdio.h>

#include "cli/say.h"

enum { WHY_MAX_LEN = 2048 };

static void say(void *ctx, const struct objection *objection)
{
    if (objection->status == 0) {
        say_note("note: %s %s", objection->object, objection->why);
    } else {
        say_error(objection->what, objection->object, objection->remedy, "%s", objection->why);
    }
}

static void pass_over(void *ctx, const struct objection *objection)
{
}

const struct hearer hearer_aloud = {.hear = say};
const struct hearer hearer_deaf = {.hear = pass_over};

int object_to(const struct hearer *hearer, int status, const char *what, const char *object,
              const char *remedy, const char *why, ...)
{
    char text[WHY_MAX_LEN];
    va_list args;
    va_start(args, why);
    vsnprintf(text, sizeof text, why, args);
    va_end(args);
    const struct objection objection = {
        .status = status, .what = what, .object = object, .why = text, .remedy = remedy};
    hearer->hear(hearer->ctx, &objection);
    return status;
}
