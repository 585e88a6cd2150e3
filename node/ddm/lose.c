// lose: loses commands, as a device behind an unreliable transport does, or answers them long
// after.

#include <errno.h>

#include "base/list.h"
#include "base/prng.h"
#include "base/time.h"
#include "node/ddm/drivers.h"
#include "node/ddm/filter.h"
#include "node/ddm/parameters.h"
#include "node/interface/rta_ddm.h"

enum { ALL = 1000000 };

static const duration_ns late_by_ns = 1500 * NS_PER_MS;

struct lose {
    struct ddm ddm;
    struct prng prng;
    uint32_t share;      // of commands that vanish, in millionths
    uint32_t late_share; // of those that are carried out and answered late
    struct list_link late;
};

static const char *const keys[] = {"lose", "lose.late", "lose.seed", NULL};

static int lose_open(const struct ddm_target *target, const struct ddm_host *host, struct ddm *next,
                     struct ddm **ret, struct why *ret_why)
{
    uint32_t share = 0, late_share = 0;
    uint64_t seed = 1;
    int error = parameter_share(target, "lose", &share, ret_why);
    if (error != 0 || (error = parameter_share(target, "lose.late", &late_share, ret_why)) != 0 ||
        (error = parameter_size(target, "lose.seed", &seed, ret_why)) != 0) {
        return error;
    }
    struct ddm *ddm = filter_create(sizeof(struct lose), &ddm_lose, host, next);
    if (ddm == NULL) {
        return -ENOMEM;
    }
    struct lose *lose = (struct lose *)ddm;
    lose->share = share;
    lose->late_share = late_share;
    prng_init(&lose->prng, seed);
    list_init(&lose->late);
    *ret = ddm;
    return 0;
}

static void hold_answer(void *ctx, struct ddm_command *command)
{
    struct lose *lose = ctx;
    list_push_tail(&lose->late, &command->link);
}

static int lose_submit(struct ddm *ddm, struct ddm_command *command)
{
    struct lose *lose = (struct lose *)ddm;
    if (prng_below(&lose->prng, ALL) < lose->share) {
        return 0;
    }
    bool is_late = prng_below(&lose->prng, ALL) < lose->late_share;
    if (is_late) {
        ddm_command_expect(command, hold_answer, lose);
    }
    int error = filter_submit(ddm, command);
    if (error != 0 && is_late) {
        command->end_count--;
    }
    return error;
}

static instant_ns lose_next_deadline(struct ddm *ddm)
{
    const struct lose *lose = (const struct lose *)ddm;
    instant_ns at = filter_next_deadline(ddm);
    for (const struct list_link *l = lose->late.next; l != &lose->late; l = l->next) {
        const struct ddm_command *command = LIST_ENTRY(l, struct ddm_command, link);
        at = instant_min(at, instant_after(command->submitted_at_ns, late_by_ns));
    }
    return at;
}

static void answer_late(struct lose *lose, instant_ns now)
{
    struct list_link *following;
    for (struct list_link *l = lose->late.next; l != &lose->late; l = following) {
        struct ddm_command *command = LIST_ENTRY(l, struct ddm_command, link);
        following = l->next;
        if (instant_after(command->submitted_at_ns, late_by_ns) <= now) {
            list_remove(l);
            ddm_command_end(command);
        }
    }
}

static void lose_poll(struct ddm *ddm, instant_ns now)
{
    filter_poll(ddm, now);
    answer_late((struct lose *)ddm, now);
}

static void lose_drain(struct ddm *ddm)
{
    filter_drain(ddm);
    answer_late((struct lose *)ddm, INSTANT_NEVER);
}

static const char *const calls[] = {NULL};

const struct ddm_driver ddm_lose = {
    .version = DDM_VERSION,
    .self_size = sizeof(struct ddm_driver),
    .name = "lose",
    .summary = "loses commands, or answers them late",
    .fence = "that of the next",
    .parameters = keys,
    .is_filter = true,
    .may_lose = true,
    .calls = calls,
    .open = lose_open,
    .probe = filter_probe,
    .submit = lose_submit,
    .flush_queue = filter_flush_queue,
    .poll_fd = filter_poll_fd,
    .next_deadline = lose_next_deadline,
    .poll = lose_poll,
    .drain = lose_drain,
    .close = filter_close,
};
