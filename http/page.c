#include "http/page.h"

#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "text/show.h"

enum { NAME_LEN_MAX = 128 };

size_t page_resources(const struct http_resource *own, size_t own_count,
                      struct http_resource ret[HTTP_RESOURCE_MAX])
{
    CHECK(own_count <= HTTP_RESOURCE_MAX && page_file_count <= HTTP_RESOURCE_MAX - own_count);
    memcpy(ret, page_files, page_file_count * sizeof *ret);
    memcpy(ret + page_file_count, own, own_count * sizeof *ret);
    return page_file_count + own_count;
}

static const char *text_of(struct json_object *object)
{
    return json_object_to_json_string_ext(object,
                                          JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
}

void page_status_begin(struct page_status *status, FILE *out, const char *command, instant_ns now)
{
    *status = (struct page_status){.out = out};
    fprintf(out,
            "{\"command\":\"%s\",\"version\":\"" WEFT_VERSION "\",\"time_ms\":%" PRIu64
            ",\"processes\":[",
            command, now / NS_PER_MS);
}

// Whole, or not at all.
static void answers_put(struct page_status *status, struct json_object *answers)
{
    const char *text = answers != NULL ? text_of(answers) : "null";
    const size_t len = strlen(text);
    if (len > PAGE_ANSWERS_MAX_LEN - status->len) {
        status->left_out++;
        text = "null";
    } else {
        status->len += len;
    }
    fprintf(status->out, ",\"answers\":%s}", text);
}

void page_status_put(struct page_status *status, pid_t pid, bool is_node, const char *name,
                     const char *state, struct json_object *answers)
{
    char shown[NAME_LEN_MAX];
    snprintf(shown, sizeof shown, "%s", name);
    text_tame_utf8(shown);
    struct json_object *own = json_object_new_object();
    json_object_object_add(own, "pid", json_object_new_int64(pid));
    json_object_object_add(own, "kind", json_object_new_string(is_node ? "node" : "program"));
    json_object_object_add(own, "name", json_object_new_string(shown));
    json_object_object_add(own, "state", json_object_new_string(state));
    const char *text = text_of(own); // ends with its brace, which is to come later
    fprintf(status->out, "%s%.*s", status->has_any ? "," : "", (int)strlen(text) - 1, text);
    json_object_put(own);
    answers_put(status, answers);
    status->has_any = true;
}

void page_status_end(struct page_status *status, uint64_t left_out)
{
    fprintf(status->out, "],\"left_out\":%" PRIu64 "}\n", status->left_out + left_out);
}
