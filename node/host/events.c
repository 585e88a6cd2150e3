#include "node/host/events.h"

#include <stdio.h>

#include "text/show.h"

void host_event_add(struct host_events *events, time_t at, const char *text)
{
    struct host_event *event = &events->ring[events->count++ % HOST_EVENT_MAX];
    event->at = at;
    snprintf(event->text, sizeof event->text, "%s", text);
    text_tame_utf8(event->text);
}

const struct host_event *host_event_back(const struct host_events *events, unsigned back)
{
    if (back >= HOST_EVENT_MAX || back >= events->count) {
        return NULL;
    }
    return &events->ring[(events->count - 1 - back) % HOST_EVENT_MAX];
}
