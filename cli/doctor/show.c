// A report for people and as JSON. Names of files and programs are whatever somebody chose: nothing
// of a finding may steer a terminal.

#include "text/show.h"

#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "cli/doctor/doctor.h"
#include "cli/doctor/finding.h"

enum { RESULT_WIDTH = 9, NAME_WIDTH = 13, INDENT = 2, PART_INDENT = INDENT + RESULT_WIDTH };
enum { SHOWN_MAX = FINDING_WHY_MAX };

/* ---- lines ----------------------------------------------------------------------------------- */

struct page {
    unsigned width;
    bool has_color;
};

static const char *color_of(enum finding_result result)
{
    static const char *const colors[FINDING_RESULT_COUNT] = {
        [FINDING_OK] = "\033[32m",
        [FINDING_NOTE] = "\033[36m",
        [FINDING_WARNING] = "\033[33m",
        [FINDING_FAILURE] = "\033[1;31m",
    };
    return colors[result];
}

// A word in a column of its own.
static void word_put(const struct page *page, const char *color, const char *word, int width)
{
    const bool has_color = page->has_color && color != NULL;
    const int gap = width - (int)strlen(word);
    printf("%s%s%s%*s", has_color ? color : "", word, has_color ? "\033[0m" : "", gap > 0 ? gap : 0,
           "");
}

// Words that flow; the lines behind the first begin at `indent`, where the first stands already.
static void text_flow(const struct page *page, const char *text, unsigned indent)
{
    char shown[SHOWN_MAX];
    unsigned column = indent;
    snprintf(shown, sizeof shown, "%s", text);
    text_tame(shown, sizeof shown);
    text_tame_utf8(shown); // it may have been cut
    for (const char *word = shown; *word != '\0';) {
        const unsigned len = (unsigned)strcspn(word, " ");
        if (column > indent && column + 1 + len > page->width) {
            printf("\n%*s", (int)indent, "");
            column = indent;
        } else if (column > indent) {
            putchar(' ');
            column++;
        }
        printf("%.*s", (int)len, word);
        column += len;
        word += len + strspn(word + len, " ");
    }
    putchar('\n');
}

// A command is one line, however long, so that it can be taken as it is.
static void cure_put(const char *cure)
{
    char shown[SHOWN_MAX];
    snprintf(shown, sizeof shown, "%s", cure);
    text_tame(shown, sizeof shown);
    printf("%*sdo:  %s\n", PART_INDENT, "", shown);
}

static void finding_put(const struct page *page, const struct doctor_check *check,
                        const struct finding *finding)
{
    static const char why[] = "why: ";
    printf("%*s", INDENT, "");
    word_put(page, color_of(finding->result), finding_result_name(finding->result), RESULT_WIDTH);
    word_put(page, NULL, check->name, NAME_WIDTH);
    text_flow(page, finding->seen, PART_INDENT + NAME_WIDTH);
    if (finding->why[0] != '\0') {
        printf("%*s%s", PART_INDENT, "", why);
        text_flow(page, finding->why, PART_INDENT + sizeof why - 1);
    }
    if (finding->cure[0] != '\0') {
        cure_put(finding->cure);
    }
}

/* ---- the whole ------------------------------------------------------------------------------- */

static bool is_shown(const struct finding *finding, bool is_quiet)
{
    return !is_quiet || finding->result >= FINDING_WARNING;
}

static const char *plural(size_t count)
{
    return count == 1 ? "" : "s";
}

static void verdict_put(const struct page *page, const struct doctor_report *report,
                        const struct doctor_subject *subject)
{
    const size_t failures = doctor_report_tally(report, FINDING_FAILURE);
    const size_t warnings = doctor_report_tally(report, FINDING_WARNING);
    const char *whom = subject->program != NULL ? subject->program : "programs";
    char shown[SHOWN_MAX];
    snprintf(shown, sizeof shown, "%s", whom);
    text_tame(shown, sizeof shown);
    putchar('\n');
    if (failures > 0) {
        word_put(page, color_of(FINDING_FAILURE), "In the way", 0);
        printf(" of %s on weft: %zu of %zu checks", shown, failures, report->count);
    } else {
        word_put(page, color_of(FINDING_OK), "Nothing is in the way", 0);
        printf(" of %s on weft: %zu checks", shown, report->count);
    }
    if (warnings > 0) {
        printf(", %zu warning%s", warnings, plural(warnings));
    }
    puts(".");
}

void doctor_report_print(const struct doctor_report *report, const struct doctor_subject *subject,
                         bool is_quiet, unsigned width, bool has_color)
{
    const struct page page = {.width = width, .has_color = has_color};
    const struct doctor_group *group = NULL;
    size_t shown = 0;
    for (size_t i = 0; i < report->count; i++) {
        if (!is_shown(&report->findings[i], is_quiet)) {
            continue;
        }
        if (!is_quiet && report->groups[i] != group) {
            printf("%s%s\n", group != NULL ? "\n" : "", report->groups[i]->name);
        }
        group = report->groups[i];
        finding_put(&page, report->checks[i], &report->findings[i]);
        shown++;
    }
    if (!is_quiet || shown > 0) {
        verdict_put(&page, report, subject);
    }
}

/* ---- JSON ------------------------------------------------------------------------------------ */

// JSON is UTF-8, whatever a file may be named.
static struct json_object *text_json(const char *text)
{
    char shown[PATH_MAX];
    snprintf(shown, sizeof shown, "%s", text);
    text_tame_utf8(shown);
    return json_object_new_string(shown);
}

static struct json_object *text_or_null(const char *text)
{
    return text != NULL && *text != '\0' ? text_json(text) : NULL;
}

static struct json_object *finding_json(const struct doctor_group *group,
                                        const struct doctor_check *check,
                                        const struct finding *finding)
{
    struct json_object *object = json_object_new_object();
    json_object_object_add(object, "group", json_object_new_string(group->name));
    json_object_object_add(object, "name", json_object_new_string(check->name));
    json_object_object_add(object, "about", json_object_new_string(check->about));
    json_object_object_add(object, "result",
                           json_object_new_string(finding_result_name(finding->result)));
    json_object_object_add(object, "seen", text_json(finding->seen));
    json_object_object_add(object, "why", text_or_null(finding->why));
    json_object_object_add(object, "do", text_or_null(finding->cure));
    return object;
}

void doctor_report_print_json(const struct doctor_report *report,
                              const struct doctor_subject *subject, bool is_quiet)
{
    struct json_object *object = json_object_new_object();
    struct json_object *tallies = json_object_new_object();
    struct json_object *checks = json_object_new_array();
    const size_t failures = doctor_report_tally(report, FINDING_FAILURE);
    json_object_object_add(object, "version", json_object_new_string(WEFT_VERSION));
    json_object_object_add(object, "program", text_or_null(subject->program));
    json_object_object_add(object, "is_in_the_way", json_object_new_boolean(failures > 0));
    for (enum finding_result i = FINDING_OK; i < FINDING_RESULT_COUNT; i++) {
        json_object_object_add(tallies, finding_result_name(i),
                               json_object_new_int64((int64_t)doctor_report_tally(report, i)));
    }
    json_object_object_add(object, "results", tallies);
    for (size_t i = 0; i < report->count; i++) {
        if (is_shown(&report->findings[i], is_quiet)) {
            json_object_array_add(
                checks, finding_json(report->groups[i], report->checks[i], &report->findings[i]));
        }
    }
    json_object_object_add(object, "checks", checks);
    puts(json_object_to_json_string_ext(object, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED |
                                                    JSON_C_TO_STRING_NOSLASHESCAPE));
    json_object_put(object);
}
