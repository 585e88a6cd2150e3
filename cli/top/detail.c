#include "cli/top/detail.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/histogram.h"
#include "cli/report.h"
#include "text/quantity.h"

enum { LINE_LEN = 512, WORD_LEN = 160, INDENT = 2, DEPTH_MAX = 8, MEMBERS_MAX = 4096 };

/* ---- words that flow into lines -------------------------------------------------------------- */

struct flow {
    top_line *each;
    void *ctx;
    unsigned width, len;
    unsigned member_count; // shown so far: a stranger's answer may have any number
    char line[LINE_LEN];
};

static void flow_end(struct flow *flow)
{
    if (flow->len > 0) {
        flow->each(flow->ctx, false, flow->line);
        flow->len = 0;
    }
}

static void flow_word(struct flow *flow, const char *word)
{
    const unsigned len = (unsigned)strlen(word);
    if (flow->len > 0 && flow->len + 2 + len > flow->width) {
        flow_end(flow);
    }
    flow->len += (unsigned)snprintf(flow->line + flow->len, LINE_LEN - flow->len, "  %s", word);
}

static void head(struct flow *flow, const char *text)
{
    flow_end(flow);
    flow->each(flow->ctx, true, text);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

// False: nothing to show, as zeroes are.
static bool value_format(const char *name, struct json_object *value, char ret[WORD_LEN])
{
    char text[TEXT_DURATION_MAX];
    if (json_object_is_type(value, json_type_string)) {
        snprintf(ret, WORD_LEN, "%.60s %.90s", name, json_object_get_string(value));
        return *json_object_get_string(value) != '\0';
    }
    const uint64_t number = json_object_get_uint64(value);
    if (!json_object_is_type(value, json_type_int) || number == 0) {
        return false;
    }
    if (report_is_duration(name)) {
        snprintf(ret, WORD_LEN, "%.*s %s", (int)strlen(name) - 3, name,
                 text_duration_format(number, text));
    } else {
        snprintf(ret, WORD_LEN, "%.60s %" PRIu64, name, number);
    }
    for (char *c = ret; *c != '\0' && *c != ' '; c++) {
        *c = *c == '_' ? ' ' : *c;
    }
    return true;
}

static void scalars_tell(struct flow *flow, struct json_object *object)
{
    char word[WORD_LEN];
    json_object_object_foreach(object, name, value)
    {
        if (strlen(name) < WORD_LEN / 2 && flow->member_count < MEMBERS_MAX &&
            value_format(name, value, word)) {
            flow->member_count++;
            flow_word(flow, word);
        }
    }
    flow_end(flow);
}

static bool has_scalars(struct json_object *object)
{
    char word[WORD_LEN];
    json_object_object_foreach(object, name, value)
    {
        if (strlen(name) < WORD_LEN / 2 && value_format(name, value, word)) {
            return true;
        }
    }
    return false;
}

// An object, then those in it, each under the names that lead to it.
static void object_tell(struct flow *flow, const char *path, struct json_object *object,
                        unsigned depth)
{
    if (!json_object_is_type(object, json_type_object) || depth > DEPTH_MAX) {
        return;
    }
    if (has_scalars(object)) {
        head(flow, path);
        scalars_tell(flow, object);
    }
    json_object_object_foreach(object, name, part)
    {
        char longer[WORD_LEN];
        snprintf(longer, sizeof longer, "%.90s%s%.60s", path, *path != '\0' ? ", " : "", name);
        object_tell(flow, longer, part, depth + 1);
    }
}

/* ---- what a connection needs of its device --------------------------------------------------- */

// Windows and read contexts are the device's, and so is who was refused what in memory.
static void device_tell(struct flow *flow, struct json_object *device)
{
    static const char *const names[] = {"windows", "oneshots", "sinks"};
    char word[WORD_LEN];
    head(flow, "its device");
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct json_object *value;
        if (json_object_object_get_ex(device, names[i], &value)) {
            snprintf(word, sizeof word, "%s %" PRIu64, names[i], json_object_get_uint64(value));
            flow_word(flow, word);
        }
    }
    flow_end(flow);
    object_tell(flow, "its device, reads", json_object_object_get(device, "reads"), 1);
    object_tell(flow, "its device, refusals of memory",
                json_object_object_get(device, "memory_refusals"), 1);
}

static void connection_tell(struct flow *flow, struct json_object *parts)
{
    struct json_object *device;
    object_tell(flow, "queue pair", json_object_object_get(parts, "queue pair"), 0);
    object_tell(flow, "connection", json_object_object_get(parts, "connection"), 0);
    if (json_object_object_get_ex(parts, "device", &device)) {
        device_tell(flow, device);
    }
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void latency_tell(struct flow *flow, const char *when, const struct histogram *h)
{
    char word[WORD_LEN], text[TEXT_DURATION_MAX];
    if (h == NULL || h->count == 0) {
        return;
    }
    head(flow, when);
    snprintf(word, sizeof word, "count %" PRIu64, h->count);
    flow_word(flow, word);
    for (unsigned i = 0; i < HISTOGRAM_SHOWN_COUNT; i++) {
        const char *name = histogram_shown[i].name;
        snprintf(word, sizeof word, "%.*s %s", (int)strlen(name) - 3, name,
                 text_duration_format(histogram_percentile(h, histogram_shown[i].permille), text));
        flow_word(flow, word);
    }
    snprintf(word, sizeof word, "max %s", text_duration_format(h->max, text));
    flow_word(flow, word);
    flow_end(flow);
}

static void rates_tell(struct flow *flow, const struct top_subject *s)
{
    char word[WORD_LEN], size[TEXT_SIZE_MAX];
    head(flow, s->has_rates ? "each second" : "since it began");
    const struct top_rates *r = &s->rates;
    const struct top_totals *t = &s->totals;
    snprintf(word, sizeof word, "%s %" PRIu64, s->is_node ? "requests" : "work requests",
             s->has_rates ? r->work : t->work);
    flow_word(flow, word);
    snprintf(word, sizeof word, "in %sB",
             text_size_format(s->has_rates ? r->octets_in : t->octets_in, size));
    flow_word(flow, word);
    snprintf(word, sizeof word, "out %sB",
             text_size_format(s->has_rates ? r->octets_out : t->octets_out, size));
    flow_word(flow, word);
    snprintf(word, sizeof word, "errors %" PRIu64, s->has_rates ? r->errors : t->errors);
    flow_word(flow, word);
    flow_end(flow);
}

static void answers_tell(struct flow *flow, struct json_object *answers)
{
    for (size_t i = 0; i < json_object_array_length(answers); i++) {
        object_tell(flow, "", json_object_array_get_idx(answers, i), 0);
    }
}

void top_detail(const struct top_subject *s, unsigned width, top_line *each, void *ctx)
{
    struct flow flow = {.each = each, .ctx = ctx, .width = width};
    char word[WORD_LEN];
    snprintf(word, sizeof word, "state: %s",
             s->status == TOP_ANSWERS && s->kind != TOP_PROCESS ? s->state
                                                                : top_status_name(s->status));
    head(&flow, word);
    rates_tell(&flow, s);
    latency_tell(&flow, "latency since the last look", s->latest);
    latency_tell(&flow, "latency of all", s->latency);
    if (s->kind == TOP_CONNECTION) {
        connection_tell(&flow, s->answer);
    } else if (json_object_is_type(s->answer, json_type_array)) {
        answers_tell(&flow, s->answer);
    } else {
        object_tell(&flow, s->is_node ? "node" : "", s->answer, 0);
    }
    flow_end(&flow);
}
