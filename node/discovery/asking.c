// What a process that asks reports of it.

#include "node/discovery/asking.h"

#include <fnmatch.h>
#include <stdio.h>

#include "node/discovery/report.h"
#include "node/loop/loop.h"

bool asking_has_time(const struct asking *asking)
{
    return loop_clock() < asking->until;
}

bool asking_is_full(const struct asking *asking)
{
    return asking->units >= asking->uri->most;
}

bool asking_wants(const struct asking *asking, const char *target)
{
    return fnmatch(asking->uri->pattern, target, 0) == 0;
}

void asking_begin(const struct asking *asking)
{
    report_send(asking->channel, &(struct report){.kind = REPORT_BEGIN});
}

void asking_end(const struct asking *asking, int error, const char *why)
{
    struct report message = {.kind = error == 0 ? REPORT_END : REPORT_FAILED,
                             .number = asking->left_out};
    snprintf(message.text, sizeof message.text, "%s", why);
    report_send(asking->channel, &message);
}

void asking_unit(struct asking *asking, const char *where, const char *target, uint32_t number,
                 const struct volume_lineage *lineage)
{
    struct report message = {.kind = REPORT_UNIT, .number = number, .lineage = *lineage};
    bool is_short =
        snprintf(message.where, sizeof message.where, "%s", where) < (int)sizeof message.where &&
        snprintf(message.target, sizeof message.target, "%s", target) < (int)sizeof message.target;
    if (is_short && !asking_is_full(asking)) {
        asking->units++;
        report_send(asking->channel, &message);
    } else {
        asking->left_out++;
    }
}

void asking_keep(const struct asking *asking, const char *target, const char *why)
{
    struct report message = {.kind = REPORT_KEPT};
    snprintf(message.target, sizeof message.target, "%s", target);
    snprintf(message.text, sizeof message.text, "%s", why);
    report_send(asking->channel, &message);
}
