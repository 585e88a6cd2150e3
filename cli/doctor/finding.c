#include "cli/doctor/finding.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char *finding_result_name(enum finding_result result)
{
    static const char *const names[FINDING_RESULT_COUNT] = {
        [FINDING_OK] = "ok",
        [FINDING_NOTE] = "note",
        [FINDING_WARNING] = "warning",
        [FINDING_FAILURE] = "failure",
    };
    return names[result];
}

void finding_see(struct finding *finding, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(finding->seen, sizeof finding->seen, format, args);
    va_end(args);
}

void finding_see_more(struct finding *finding, const char *format, ...)
{
    va_list args;
    size_t len = strlen(finding->seen);
    if (len > 0) {
        snprintf(finding->seen + len, sizeof finding->seen - len, ", ");
        len = strlen(finding->seen);
    }
    va_start(args, format);
    vsnprintf(finding->seen + len, sizeof finding->seen - len, format, args);
    va_end(args);
}

bool finding_worsen(struct finding *finding, enum finding_result result, const char *why, ...)
{
    if (result <= finding->result) {
        return false;
    }
    va_list args;
    va_start(args, why);
    vsnprintf(finding->why, sizeof finding->why, why, args);
    va_end(args);
    finding->result = result;
    finding->cure[0] = '\0';
    return true;
}

void finding_cure(struct finding *finding, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(finding->cure, sizeof finding->cure, format, args);
    va_end(args);
}

const char *finding_sudo(void)
{
    return geteuid() == 0 ? "" : "sudo ";
}

static void hear(void *ctx, const struct objection *objection)
{
    struct finding *finding = ctx;
    const enum finding_result result = objection->status != 0 ? FINDING_FAILURE : FINDING_NOTE;
    if (finding_worsen(finding, result, "%s", objection->why)) {
        finding_cure(finding, "%s", objection->remedy);
    }
}

struct hearer finding_hearer(struct finding *finding)
{
    return (struct hearer){.hear = hear, .ctx = finding};
}
