#include "node/rbd/waiting.h"

#include <stdio.h>

#include "base/time.h"
#include "base/why.h"

static const duration_ns exit_wait_ns = NS_PER_S; // of a process of this machine that is ending

static void say(const struct waiting *waiting, const char *who)
{
    char line[WHY_MAX];
    snprintf(line, sizeof line, "rbd: image %.128s/%.128s: waiting: %.200s", waiting->spec->pool,
             waiting->spec->image, who);
    waiting->host->say(waiting->host->ctx, line);
}

static void on_wait(void *ctx, const char *who)
{
    const struct waiting *waiting = ctx;
    const struct weft_ddm_host *host = waiting->host;
    struct weft_ddm_profile profile = {.size = sizeof profile};
    say(waiting, who);
    if (host->stand_by != NULL) {
        profile_put(waiting->facts, waiting->spec, host->is_read_only, &profile);
        host->stand_by(host->ctx, &profile);
    }
}

struct fence_patience waiting_patience(struct waiting *waiting, bool is_first)
{
    const struct weft_ddm_host *host = waiting->host;
    struct fence_patience patience = {.for_socket = exit_wait_ns, .ctx = waiting};
    if (is_first && host->stand_by != NULL) {
        patience.for_socket = patience.for_lock = INSTANT_NEVER;
    } else if (is_first && !host->is_restart) {
        patience.for_lock = waiting->spec->wait;
    }
    patience.on_wait = is_first ? on_wait : NULL;
    return patience;
}
