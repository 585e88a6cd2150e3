#include "control/ask.h"

#include <errno.h>
#include <poll.h>

#include "base/poll_ms.h"
#include "base/time.h"
#include "clock/clock.h"
#include "control/exchange.h"

enum { ANSWER_MAX_LEN = 64 << 20, ANSWER_SECONDS = 5 };

static void wait_for(const struct exchange *e, instant_ns now)
{
    struct pollfd wanted = exchange_wants(e);
    const instant_ns again_ns =
        wanted.fd < 0 ? instant_after(now, EXCHANGE_RETRY_NS) : INSTANT_NEVER;
    poll(&wanted, 1, poll_ms(now, instant_min(e->deadline_ns, again_ns)));
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
