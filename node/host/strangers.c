#include "node/host/strangers.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool take(struct stranger_bucket *bucket, unsigned burst, duration_ns interval,
                 instant_ns now)
{
    instant_ns full_ns = bucket->full_ns > now ? bucket->full_ns : now;
    if (full_ns - now > (burst - 1) * interval) {
        return false;
    }
    bucket->full_ns = full_ns + interval;
    return true;
}

static struct stranger *find(struct strangers *strangers, const char *host)
{
    struct stranger *oldest = &strangers->known[0];
    for (unsigned i = 0; i < STRANGERS_COUNT_MAX; i++) {
        struct stranger *s = &strangers->known[i];
        if (s->heard_ns != 0 && strcmp(s->host, host) == 0) {
            return s;
        }
        oldest = s->heard_ns < oldest->heard_ns ? s : oldest;
    }
    *oldest = (struct stranger){.heard_ns = 0};
    snprintf(oldest->host, sizeof oldest->host, "%s", host);
    return oldest;
}

bool strangers_line(struct strangers *strangers, const char *host, const char *line, instant_ns now,
                    char ret[STRANGERS_LINE_MAX])
{
    const duration_ns interval = STRANGERS_SECONDS * NS_PER_S;
    struct stranger *s = find(strangers, host);
    s->heard_ns = now;
    if (!take(&s->bucket, STRANGERS_BURST, interval, now) ||
        !take(&strangers->all, STRANGERS_BURST_OF_ALL, interval / STRANGERS_BURST, now)) {
        s->suppressed++;
        return false;
    }
    if (s->suppressed > 0) {
        snprintf(ret, STRANGERS_LINE_MAX, "%.700s (%" PRIu64 " more lines about it suppressed)",
                 line, s->suppressed);
    } else {
        snprintf(ret, STRANGERS_LINE_MAX, "%s", line);
    }
    s->suppressed = 0;
    return true;
}
