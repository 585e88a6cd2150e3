#include "cli/report.h"

#include <inttypes.h>
#include <string.h>

#include "base/device_wire.h"
#include "text/quantity.h"
#include "text/show.h"

enum { VALUE_MAX_LEN = 128, LABEL_LEN = 16, SECTION_INDENT = 2, PART_INDENT = 4 };

/* ---- words ----------------------------------------------------------------------------------- */

bool report_is_duration(const char *name)
{
    const size_t len = strlen(name);
    return len > 3 && strcmp(name + len - 3, "_ns") == 0;
}

// Words that flow into lines behind a label.
struct paragraph {
    FILE *out;
    unsigned width, column;
};

// Another process wrote it: nothing of it may steer a terminal.
static void text_copy(char ret[VALUE_MAX_LEN], const char *text, bool is_name)
{
    size_t len = 0;
    for (; text[len] != '\0' && len < VALUE_MAX_LEN - 1; len++) {
        char c = text[len];
        ret[len] = text_ascii_char(c);
        if ((c == '_' || c == '.') && is_name) {
            ret[len] = ' ';
        }
    }
    ret[len] = '\0';
}

static struct paragraph paragraph_open(FILE *out, unsigned width, unsigned indent,
                                       const char *label)
{
    char shown[VALUE_MAX_LEN];
    text_copy(shown, label, false);
    fprintf(out, "%*s%s", (int)indent, "", shown);
    return (struct paragraph){
        .out = out, .width = width, .column = indent + (unsigned)strlen(shown)};
}

static void word_put(struct paragraph *p, const char *name, const char *value)
{
    char shown[VALUE_MAX_LEN];
    text_copy(shown, name, true);
    if (report_is_duration(name)) {
        shown[strlen(shown) - 3] = '\0'; // the value has the unit
    }
    unsigned len = (unsigned)(strlen(shown) + 1 + strlen(value));
    if (p->column < LABEL_LEN) {
        fprintf(p->out, "%*s", (int)(LABEL_LEN - p->column), "");
        p->column = LABEL_LEN;
    } else if (p->column + 2 + len > p->width && p->column > LABEL_LEN) {
        fprintf(p->out, "\n%*s", LABEL_LEN, "");
        p->column = LABEL_LEN;
    }
    fprintf(p->out, "  %s %s", shown, value);
    p->column += 2 + len;
}

static void paragraph_close(struct paragraph *p)
{
    fputc('\n', p->out);
}

/* ---- numbers --------------------------------------------------------------------------------- */

static void octets_format(uint64_t octets, char ret[VALUE_MAX_LEN])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    unsigned unit = 0;
    double value = (double)octets;
    while (value >= 1024 && unit + 1 < sizeof units / sizeof units[0]) {
        value /= 1024;
        unit++;
    }
    snprintf(ret, VALUE_MAX_LEN, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
}

// 1234567 as 1,234,567.
static void count_format(uint64_t count, char ret[VALUE_MAX_LEN])
{
    char digits[32];
    int len = snprintf(digits, sizeof digits, "%" PRIu64, count);
    unsigned at = 0;
    for (int i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0) {
            ret[at++] = ',';
        }
        ret[at++] = digits[i];
    }
    ret[at] = '\0';
}

static bool is_octets(const char *name)
{
    return strstr(name, "octets") != NULL;
}

// False: nothing to show (zero, or no scalar).
static bool value_format(const char *name, struct json_object *value, char ret[VALUE_MAX_LEN])
{
    if (json_object_is_type(value, json_type_string)) {
        text_copy(ret, json_object_get_string(value), false);
        return *ret != '\0';
    }
    uint64_t number = json_object_get_uint64(value);
    if (!json_object_is_type(value, json_type_int) || number == 0) {
        return false;
    }
    if (report_is_duration(name)) {
        text_duration_format(number, ret);
    } else if (is_octets(name)) {
        octets_format(number, ret);
    } else if (strcmp(name, "qp_num") == 0) {
        snprintf(ret, VALUE_MAX_LEN, "%" PRIu64, number);
    } else {
        count_format(number, ret);
    }
    return true;
}

/* ---- sections -------------------------------------------------------------------------------- */

static bool is_in(const char *name, const char *const *names)
{
    for (; *names != NULL; names++) {
        if (strcmp(name, *names) == 0) {
            return true;
        }
    }
    return false;
}

// One direction of a queue pair's traffic: the members "in.send.octets" and the like.
struct direction {
    const char *prefix, *label;
};
static const struct direction directions[] = {{"in.", "in"}, {"out.", "out"}};
enum { DIRECTION_COUNT = sizeof directions / sizeof directions[0] };

static bool is_of(const char *name, const struct direction *direction)
{
    return strncmp(name, direction->prefix, strlen(direction->prefix)) == 0;
}

static bool has_direction(const char *name)
{
    return is_of(name, &directions[0]) || is_of(name, &directions[1]);
}

// The members of one direction, or with `only` NULL those of none.
static void members_print(FILE *out, unsigned width, const char *label, struct json_object *object,
                          const struct direction *only)
{
    char value[VALUE_MAX_LEN];
    struct paragraph p = {0};
    json_object_object_foreach(object, name, member)
    {
        bool is_wanted = only != NULL ? is_of(name, only) : !has_direction(name);
        if (!is_wanted || !value_format(name, member, value)) {
            continue;
        }
        if (p.out == NULL) {
            p = paragraph_open(out, width, PART_INDENT, label);
        }
        word_put(&p, only != NULL ? name + strlen(only->prefix) : name, value);
    }
    if (p.out != NULL) {
        paragraph_close(&p);
    }
}

// The durations of each operation, in a line.
static void latency_print(FILE *out, unsigned width, struct json_object *latency)
{
    json_object_object_foreach(latency, name, operation)
    {
        if (json_object_is_type(operation, json_type_object)) {
            char label[VALUE_MAX_LEN];
            snprintf(label, sizeof label, "%.32s took", name);
            members_print(out, width, label, operation, NULL);
        }
    }
}

static void part_print(FILE *out, unsigned width, const char *label, struct json_object *object)
{
    char shown[VALUE_MAX_LEN];
    text_copy(shown, label, true);
    if (strcmp(label, "latency") == 0) {
        latency_print(out, width, object);
        return;
    }
    members_print(out, width, shown, object, NULL);
    for (unsigned i = 0; i < DIRECTION_COUNT; i++) {
        members_print(out, width, directions[i].label, object, &directions[i]);
    }
}

// A label, the scalars of the object without those in `is_in_label`, then its objects as parts.
static void section_print(FILE *out, unsigned width, const char *label, struct json_object *object,
                          const char *const *is_in_label)
{
    char value[VALUE_MAX_LEN];
    struct paragraph p = paragraph_open(out, width, SECTION_INDENT, label);
    json_object_object_foreach(object, name, member)
    {
        if (!is_in(name, is_in_label) && value_format(name, member, value)) {
            word_put(&p, name, value);
        }
    }
    paragraph_close(&p);
    json_object_object_foreach(object, part_name, part)
    {
        if (json_object_is_type(part, json_type_object)) {
            part_print(out, width, part_name, part);
        }
    }
}

static const char *text_of(struct json_object *object, const char *name, const char *otherwise)
{
    struct json_object *member = json_object_object_get(object, name); // NULL: null, too
    return member != NULL ? json_object_get_string(member) : otherwise;
}

static void connection_print(FILE *out, unsigned width, struct json_object *connection)
{
    static const char *const is_in_label[] = {"local", "peer", NULL};
    char label[VALUE_MAX_LEN];
    const char *peer = text_of(connection, "peer", NULL);
    snprintf(label, sizeof label, "connection %s%s%s", text_of(connection, "local", "unbound"),
             peer != NULL ? " -> " : "", peer != NULL ? peer : "");
    section_print(out, width, label, connection, is_in_label);
}

static void qp_print(FILE *out, unsigned width, struct json_object *qp)
{
    static const char *const is_in_label[] = {"qp_num", NULL};
    char label[VALUE_MAX_LEN];
    snprintf(label, sizeof label, "queue pair %s", text_of(qp, "qp_num", "?"));
    section_print(out, width, label, qp, is_in_label);
}

static void each_print(FILE *out, unsigned width, struct json_object *process, const char *name,
                       void (*print)(FILE *out, unsigned width, struct json_object *object))
{
    struct json_object *array;
    if (!json_object_object_get_ex(process, name, &array) ||
        !json_object_is_type(array, json_type_array)) {
        return;
    }
    for (size_t i = 0; i < json_object_array_length(array); i++) {
        struct json_object *object = json_object_array_get_idx(array, i);
        if (json_object_is_type(object, json_type_object)) {
            print(out, width, object);
        }
    }
}

void report_print(FILE *out, struct json_object *process, unsigned width)
{
    static const char *const none[] = {NULL};
    static const char *const devices[] = {DEVICE_NAME_IWARP, DEVICE_NAME_ROCE};
    char program[VALUE_MAX_LEN], pid[VALUE_MAX_LEN];
    struct json_object *device;
    text_copy(program, text_of(process, "program", "?"), false);
    text_copy(pid, text_of(process, "pid", "?"), false); // which may be a text, too
    fprintf(out, "%s, process %s\n", program, pid);
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++) {
        if (json_object_object_get_ex(process, devices[i], &device) &&
            json_object_is_type(device, json_type_object)) {
            char label[VALUE_MAX_LEN];
            snprintf(label, sizeof label, "device %s", devices[i]);
            section_print(out, width, label, device, none);
        }
    }
    each_print(out, width, process, "connections", connection_print);
    each_print(out, width, process, "qps", qp_print);
}
