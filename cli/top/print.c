#include "cli/top/print.h"

#include <stdlib.h>
#include <string.h>

#include "cli/top/columns.h"
#include "text/show.h"

enum { TIME_LEN = 32 };

static const char *time_format(time_t at, char ret[TIME_LEN])
{
    struct tm parts;
    gmtime_r(&at, &parts);
    strftime(ret, TIME_LEN, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return ret;
}

// In the order of the screen. `ret` is the caller's to free; NULL: no memory.
static const struct top_subject **rows_of(const struct top_model *model, enum top_kind kind,
                                          size_t *ret_count)
{
    const struct top_subject **rows = calloc(model->count + 1, sizeof *rows);
    *ret_count =
        rows != NULL ? top_rows(model, kind, top_table(kind)->sorted_by, false, NULL, rows) : 0;
    return rows;
}

/* ---- text ------------------------------------------------------------------------------------ */

static void cell_print(FILE *out, const struct top_column *c, const char *text, bool is_last)
{
    if (c->is_right) {
        fprintf(out, "%*s", (int)c->width, text);
    } else {
        fprintf(out, "%-*s", is_last ? 0 : (int)c->width, text);
    }
    fputs(is_last ? "\n" : "  ", out);
}

static void row_print(FILE *out, const struct top_table *table, const struct top_subject *s)
{
    for (unsigned i = 0; i < table->count; i++) {
        const struct top_column *c = &table->columns[i];
        char text[TOP_TEXT_LEN] = "";
        if (s != NULL) {
            c->show(s, text);
            for (char *at = text; *at != '\0'; at++) {
                *at = text_ascii_char(*at);
            }
        } else {
            snprintf(text, sizeof text, "%s", c->title);
        }
        cell_print(out, c, text, i + 1 == table->count);
    }
}

void top_print_text(FILE *out, const struct top_model *model, time_t at)
{
    char when[TIME_LEN];
    fprintf(out, "%s\n", time_format(at, when));
    for (unsigned kind = 0; kind < TOP_KIND_COUNT; kind++) {
        size_t count;
        const struct top_subject **rows = rows_of(model, kind, &count);
        if (count > 0) {
            fprintf(out, "\n%s\n", top_table(kind)->title);
            row_print(out, top_table(kind), NULL);
        }
        for (size_t i = 0; i < count; i++) {
            row_print(out, top_table(kind), rows[i]);
        }
        free(rows);
    }
    if (model->count == 0) {
        fprintf(out, "\n%s\n", top_table(TOP_PROCESS)->nothing);
    }
    if (model->left_out > 0) {
        fprintf(out, "\n%zu more are not shown\n", model->left_out);
    }
    fputc('\n', out);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static bool has_ending(const char *name, const char *ending)
{
    const size_t len = strlen(name), ending_len = strlen(ending);
    return len >= ending_len && strcmp(name + len - ending_len, ending) == 0;
}

// A number that is not known is null: no rate before the second answer, no percentile of nothing.
static bool is_known(const struct top_column *c, const struct top_subject *s)
{
    return has_ending(c->name, "_per_s") ? s->has_rates
           : has_ending(c->name, "_ns")  ? top_latency(s) != NULL
                                         : true;
}

static struct json_object *value_of(const struct top_column *c, const struct top_subject *s)
{
    if (!is_known(c, s)) {
        return NULL;
    }
    if (c->value != NULL) {
        return json_object_new_uint64(c->value(s));
    }
    char text[TOP_TEXT_LEN] = "";
    c->show(s, text);
    for (char *at = text; *at != '\0'; at++) {
        *at = text_ascii_char(*at); // JSON is UTF-8, and strangers' octets need not be
    }
    return json_object_new_string(text);
}

static struct json_object *subject_object(const struct top_subject *s)
{
    const struct top_table *table = top_table(s->kind);
    struct json_object *object = json_object_new_object();
    for (unsigned i = 0; i < table->count; i++) {
        json_object_object_add(object, table->columns[i].name, value_of(&table->columns[i], s));
    }
    return object;
}

void top_print_json(FILE *out, const struct top_model *model, time_t at)
{
    static const char *const names[TOP_KIND_COUNT] = {
        [TOP_PROCESS] = "processes", [TOP_CONNECTION] = "connections", [TOP_VOLUME] = "volumes",
        [TOP_RTA] = "rtas",          [TOP_CLIENT] = "clients",
    };
    char when[TIME_LEN];
    struct json_object *object = json_object_new_object();
    json_object_object_add(object, "time", json_object_new_string(time_format(at, when)));
    for (unsigned kind = 0; kind < TOP_KIND_COUNT; kind++) {
        size_t count;
        const struct top_subject **rows = rows_of(model, kind, &count);
        struct json_object *array = json_object_new_array();
        for (size_t i = 0; i < count; i++) {
            json_object_array_add(array, subject_object(rows[i]));
        }
        json_object_object_add(object, names[kind], array);
        free(rows);
    }
    json_object_object_add(object, "left_out", json_object_new_uint64(model->left_out));
    fprintf(out, "%s\n",
            json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN |
                                                       JSON_C_TO_STRING_NOSLASHESCAPE));
    json_object_put(object);
}
