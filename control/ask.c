#include "control/ask.h"

#include <errno.h>
#include <poll.h>
#include <time.h>

#include "base/time.h"
#include "control/exchange.h"

enum { ANSWER_MAX_LEN = 64 << 20, ANSWER_SECONDS = 5 };

static instant_ns clock_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (instant_ns)now.tv_sec * NS_PER_S + (instant_ns)now.tv_nsec;
}

static void wait_for(const struct exchange *e, instant_ns now)
{
    struct pollfd wanted = exchange_wants(e);
    const duration_ns left = e->deadline_ns > now ? e->deadline_ns - now : 0;
    const duration_ns wait = wanted.fd < 0 ? instant_min(left, EXCHANGE_RETRY_NS) : left;
    poll(&wanted, 1, (int)(wait / NS_PER_MS) + 1);
}

int process_ask(const struct process *process, const char *request, char **ret_text,
                size_t *ret_len)
{
    struct exchange e;
    instant_ns now = clock_now();
    exchange_begin(&e, process, request, ANSWER_MAX_LEN, now,
                   instant_after(now, ANSWER_SECONDS * NS_PER_S));
    while (!exchange_is_over(&e)) {
        wait_for(&e, now);
        now = clock_now();
        exchange_step(&e, now);
    }
    int error = exchange_take(&e, ret_text, ret_len);
    exchange_end(&e);
    return error;
}
