#include "node/ddm/filter.h"

#include <stdlib.h>

#include "base/time.h"

int filter_probe(struct ddm *ddm, struct volume_profile *ret)
{
    return ddm_probe(ddm->next, ret);
}

int filter_submit(struct ddm *ddm, struct ddm_command *command)
{
    return ddm_submit(ddm->next, command);
}

void filter_flush_queue(struct ddm *ddm)
{
    ddm_flush_queue(ddm->next);
}

int filter_poll_fd(struct ddm *ddm)
{
    return ddm_poll_fd(ddm->next);
}

instant_ns filter_next_deadline(struct ddm *ddm)
{
    return ddm_next_deadline(ddm->next);
}

void filter_poll(struct ddm *ddm, instant_ns now)
{
    ddm_poll(ddm->next, now);
}

void filter_drain(struct ddm *ddm)
{
    ddm_drain(ddm->next);
}

void filter_close(struct ddm *ddm)
{
    ddm_free(ddm->next);
    free(ddm);
}

struct ddm *filter_create(size_t size, const struct ddm_driver *driver, const struct ddm_host *host,
                          struct ddm *next)
{
    struct ddm *ddm = calloc(1, size);
    if (ddm != NULL) {
        *ddm = (struct ddm){.driver = driver, .next = next, .host = *host};
    }
    return ddm;
}
