// What the node says on standard error; the last of it is kept for who looks later.
#include <errno.h>
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

void host_say_failure(const char *what, const char *object, const char *why, const char *remedy)
{
    fprintf(stderr, "weft: %s: %s\n  why: %s\n  do:  %s\n", what, object, why, remedy);
}

// Of a system that has not enough of something.
const char *host_remedy(int error)
{
    switch (-error) {
    case EFBIG:
        return "raise the limit on the size of files (ulimit -f), or give a smaller --pool";
    case EMFILE:
    case ENFILE:
        return "raise the limit on open files (ulimit -n)";
    case EAGAIN:
        return "raise the limit on processes and threads (ulimit -u)";
    default:
        return "free some memory, or give a smaller --pool";
    }
}
