#include "report/json.h"

#include <inttypes.h>

void json_name(struct json *object, const char *name)
{
    fprintf(object->out, "%s\"%s\":", object->has_member ? "," : "", name);
    object->has_member = true;
}

struct json json_open(struct json *parent, const char *name)
{
    if (name != NULL) {
        json_name(parent, name);
    }
    fputc('{', parent->out);
    return (struct json){.out = parent->out};
}

void json_close(struct json *object)
{
    fputc('}', object->out);
}

void json_number(void *ctx, const char *name, uint64_t value)
{
    struct json *object = ctx;
    json_name(object, name);
    fprintf(object->out, "%" PRIu64, value);
}

void json_if_counted(void *ctx, const char *name, uint64_t value)
{
    if (value != 0) {
        json_number(ctx, name, value);
    }
}

void json_text(struct json *object, const char *name, const char *text)
{
    json_name(object, name);
    fprintf(object->out, "\"%s\"", text);
}

void json_foreign_text(struct json *object, const char *name, const char *text)
{
    json_name(object, name);
    fputc('"', object->out);
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        bool is_plain = c >= ' ' && c < 0x7f && c != '"' && c != '\\';
        fprintf(object->out, is_plain ? "%c" : "\\u%04x", c); // octets beyond ASCII as Latin-1
    }
    fputc('"', object->out);
}
