// What the node says on standard error; the last of it is kept for who looks later.
#include <stdio.h>
#include <time.h>

#include "node/host/agent.h"
#include "node/host/events.h"

void host_say(void *ctx, const char *line)
{
    struct host *host = ctx;
    fprintf(stderr, "weft: %s\n", line);
    host_event_add(&host->events, time(NULL), line);
}
