#include "cli/top/columns.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/histogram.h"
#include "text/quantity.h"

/* ---- cells ----------------------------------------------------------------------------------- */

static void show_number(uint64_t number, char ret[TOP_TEXT_LEN])
{
    snprintf(ret, TOP_TEXT_LEN, "%" PRIu64, number);
}

// 999, 9.9k, 123M: five characters at most.
static void show_scaled(const struct top_subject *s, uint64_t rate, unsigned step,
                        char ret[TOP_TEXT_LEN])
{
    const char *units = step == 1024 ? " KMGTPE" : " kMGTPE";
    unsigned unit = 0;
    double value = (double)rate;
    if (!s->has_rates) {
        snprintf(ret, TOP_TEXT_LEN, "-");
        return;
    }
    for (; value >= step - 0.5 && units[unit + 1] != '\0'; unit++) {
        value /= step;
    }
    if (unit == 0) {
        snprintf(ret, TOP_TEXT_LEN, "%.0f", value);
    } else {
        snprintf(ret, TOP_TEXT_LEN, "%.*f%c", value < 9.95 ? 1 : 0, value, units[unit]);
    }
}

static void show_rate(const struct top_subject *s, uint64_t rate, char ret[TOP_TEXT_LEN])
{
    show_scaled(s, rate, 1000, ret);
}

static void show_octets(const struct top_subject *s, uint64_t rate, char ret[TOP_TEXT_LEN])
{
    show_scaled(s, rate, 1024, ret);
}

static uint64_t percentile_of(const struct top_subject *s, unsigned permille)
{
    const struct histogram *h = top_latency(s);
    return h != NULL ? histogram_percentile(h, permille) : 0;
}

static void show_duration(uint64_t ns, char ret[TOP_TEXT_LEN])
{
    char text[TEXT_DURATION_MAX];
    snprintf(ret, TOP_TEXT_LEN, "%s", ns > 0 ? text_duration_format(ns, text) : "-");
}

#define TEXT_CELL(name, field)                                                   \
    static void show_##name(const struct top_subject *s, char ret[TOP_TEXT_LEN]) \
    {                                                                            \
        memcpy(ret, s->field, TOP_TEXT_LEN);                                     \
    }
#define NUMBER_CELL(name, field)                                                 \
    static uint64_t value_##name(const struct top_subject *s)                    \
    {                                                                            \
        return s->field;                                                         \
    }                                                                            \
    static void show_##name(const struct top_subject *s, char ret[TOP_TEXT_LEN]) \
    {                                                                            \
        show_number(s->field, ret);                                              \
    }
#define RATE_CELL(name, show)                                                    \
    static uint64_t value_##name(const struct top_subject *s)                    \
    {                                                                            \
        return s->rates.name;                                                    \
    }                                                                            \
    static void show_##name(const struct top_subject *s, char ret[TOP_TEXT_LEN]) \
    {                                                                            \
        show(s, s->rates.name, ret);                                             \
    }
#define PERCENTILE_CELL(name, permille)                                          \
    static uint64_t value_##name(const struct top_subject *s)                    \
    {                                                                            \
        return percentile_of(s, permille);                                       \
    }                                                                            \
    static void show_##name(const struct top_subject *s, char ret[TOP_TEXT_LEN]) \
    {                                                                            \
        show_duration(value_##name(s), ret);                                     \
    }

TEXT_CELL(name, name)
TEXT_CELL(what, what)
TEXT_CELL(id, id)
TEXT_CELL(identity, identity)
NUMBER_CELL(pid, pid)
NUMBER_CELL(connections, connections)
NUMBER_CELL(rta_pid, rta_pid)
NUMBER_CELL(restarts, restarts)
NUMBER_CELL(in_flight, in_flight)
RATE_CELL(work, show_rate)
RATE_CELL(octets_in, show_octets)
RATE_CELL(octets_out, show_octets)
RATE_CELL(errors, show_rate)
PERCENTILE_CELL(p50, 500)
PERCENTILE_CELL(p99, 990)

static uint64_t value_size(const struct top_subject *s)
{
    return s->size;
}

static void show_size(const struct top_subject *s, char ret[TOP_TEXT_LEN])
{
    char text[TEXT_SIZE_MAX];
    snprintf(ret, TOP_TEXT_LEN, "%s", text_size_format(s->size, text));
}

// Of itself, as long as its process answers.
static void show_state(const struct top_subject *s, char ret[TOP_TEXT_LEN])
{
    const bool is_own = s->kind != TOP_PROCESS && s->status == TOP_ANSWERS;
    snprintf(ret, TOP_TEXT_LEN, "%s", is_own ? s->state : top_status_name(s->status));
}

/* ---- tables ---------------------------------------------------------------------------------- */

static const struct top_column processes[] = {
    {"PID", "pid", 7, true, show_pid, value_pid},
    {"PROGRAM", "program", 12, false, show_name, NULL},
    {"STATE", "state", 9, false, show_state, NULL},
    {"CONN", "connections", 4, true, show_connections, value_connections},
    {"WR/s", "work_per_s", 5, true, show_work, value_work},
    {"IN/s", "octets_in_per_s", 5, true, show_octets_in, value_octets_in},
    {"OUT/s", "octets_out_per_s", 5, true, show_octets_out, value_octets_out},
    {"P50", "p50_ns", 6, true, show_p50, value_p50},
    {"P99", "p99_ns", 6, true, show_p99, value_p99},
    {"DEVICES", "devices", 0, false, show_what, NULL},
};

static const struct top_column connections[] = {
    {"PID", "pid", 7, true, show_pid, value_pid},
    {"DEVICE AND QP", "id", 21, false, show_id, NULL},
    {"STATE", "state", 9, false, show_state, NULL},
    {"WR/s", "work_per_s", 5, true, show_work, value_work},
    {"IN/s", "octets_in_per_s", 5, true, show_octets_in, value_octets_in},
    {"OUT/s", "octets_out_per_s", 5, true, show_octets_out, value_octets_out},
    {"PEER", "peer", 0, false, show_name, NULL},
};

static const struct top_column volumes[] = {
    {"PID", "pid", 7, true, show_pid, value_pid},
    {"VOLUME", "name", 12, false, show_name, NULL},
    {"STATE", "state", 9, false, show_state, NULL},
    {"CLNT", "clients", 4, true, show_connections, value_connections},
    {"REQ/s", "requests_per_s", 5, true, show_work, value_work},
    {"IN/s", "octets_in_per_s", 5, true, show_octets_in, value_octets_in},
    {"OUT/s", "octets_out_per_s", 5, true, show_octets_out, value_octets_out},
    {"P50", "p50_ns", 6, true, show_p50, value_p50},
    {"P99", "p99_ns", 6, true, show_p99, value_p99},
    {"SIZE", "size", 5, true, show_size, value_size},
    {"DRIVER", "driver", 0, false, show_what, NULL},
};

static const struct top_column rtas[] = {
    {"PID", "pid", 7, true, show_pid, value_pid},
    {"RTA", "name", 20, false, show_name, NULL},
    {"STATE", "state", 10, false, show_state, NULL},
    {"ITS PID", "rta_pid", 7, true, show_rta_pid, value_rta_pid},
    {"REQ/s", "requests_per_s", 5, true, show_work, value_work},
    {"FLIGHT", "in_flight", 6, true, show_in_flight, value_in_flight},
    {"RESTARTS", "restarts", 8, true, show_restarts, value_restarts},
    {"ERR/s", "errors_per_s", 5, true, show_errors, value_errors},
};

static const struct top_column clients[] = {
    {"PID", "pid", 7, true, show_pid, value_pid},
    {"CLIENT", "address", 21, false, show_name, NULL},
    {"VOLUME", "volume", 12, false, show_what, NULL},
    {"REQ/s", "requests_per_s", 5, true, show_work, value_work},
    {"IN/s", "octets_in_per_s", 5, true, show_octets_in, value_octets_in},
    {"OUT/s", "octets_out_per_s", 5, true, show_octets_out, value_octets_out},
    {"FLIGHT", "in_flight", 6, true, show_in_flight, value_in_flight},
    {"IDENTITY", "identity", 0, false, show_identity, NULL},
};

#define COLUMNS(columns) columns, sizeof(columns) / sizeof(columns)[0]
static const struct top_table tables[TOP_KIND_COUNT] = {
    [TOP_PROCESS] = {"processes", "process",
                     "Nothing runs now. Start something with: weft run PROGRAM, weft serve FILE",
                     COLUMNS(processes), 4},
    [TOP_CONNECTION] = {"connections", "connection", "No connection.", COLUMNS(connections), 5},
    [TOP_VOLUME] = {"volumes", "volume", "No volume. Serve one with: weft serve FILE",
                    COLUMNS(volumes), 4},
    [TOP_RTA] = {"RTAs", "RTA", "No RTA: no storage node runs now.", COLUMNS(rtas), 4},
    [TOP_CLIENT] = {"clients", "client", "No client of a volume.", COLUMNS(clients), 3},
};

const struct top_table *top_table(enum top_kind kind)
{
    return &tables[kind];
}

/* ---- rows ------------------------------------------------------------------------------------ */

static bool holds(const struct top_subject *s, const char *filter)
{
    const struct top_table *table = &tables[s->kind];
    for (unsigned i = 0; i < table->count; i++) {
        char text[TOP_TEXT_LEN] = "";
        table->columns[i].show(s, text);
        if (strcasestr(text, filter) != NULL) {
            return true;
        }
    }
    return false;
}

struct order {
    const struct top_column *column;
    bool is_reversed;
};

// The greatest first, texts by their letters; then by process and name, so that rows stay.
static int by_column(const void *a, const void *b, void *ctx)
{
    const struct top_subject *left = *(const struct top_subject *const *)a;
    const struct top_subject *right = *(const struct top_subject *const *)b;
    const struct order *order = ctx;
    int result;
    if (order->column->value != NULL) {
        const uint64_t l = order->column->value(left), r = order->column->value(right);
        result = (l < r) - (l > r);
    } else {
        char l[TOP_TEXT_LEN] = "", r[TOP_TEXT_LEN] = "";
        order->column->show(left, l);
        order->column->show(right, r);
        result = strcmp(l, r);
    }
    result = order->is_reversed ? -result : result;
    result = result != 0 ? result : (left->pid > right->pid) - (left->pid < right->pid);
    return result != 0 ? result : strcmp(left->id, right->id);
}

size_t top_rows(const struct top_model *model, enum top_kind kind, unsigned sorted_by,
                bool is_reversed, const char *filter, const struct top_subject **ret)
{
    struct order order = {&tables[kind].columns[sorted_by], is_reversed};
    size_t count = 0;
    for (size_t i = 0; i < model->count; i++) {
        const struct top_subject *s = model->subjects[i];
        if (s->kind == kind && (filter == NULL || *filter == '\0' || holds(s, filter))) {
            ret[count++] = s;
        }
    }
    if (count > 0) {
        qsort_r(ret, count, sizeof *ret, by_column, &order);
    }
    return count;
}
