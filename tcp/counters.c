#include "base/counter.h"
#include "tcp/listen.h"
#include "tcp/tcp.h"

void tcp_counters_add(struct tcp_counters *to, const struct tcp_counters *more)
{
#define X(name, text) to->name += more->name;
    TCP_COUNTERS(X)
#undef X
#define X(name, text) to->name = more->name > to->name ? more->name : to->name;
    TCP_PEAKS(X)
#undef X
    for (unsigned i = 0; i < TCP_REFUSAL_COUNT; i++) {
        to->refusals[i] += more->refusals[i];
    }
}

void tcp_counters_each(const struct tcp_counters *counters, counter_each each, void *ctx)
{
#define X(name, text) each(ctx, #name, counters->name);
    TCP_COUNTERS(X)
    TCP_PEAKS(X)
#undef X
    for (unsigned i = TCP_TAKEN + 1; i < TCP_REFUSAL_COUNT; i++) {
        counter_tell(each, ctx, "refused.", tcp_refusal_name((enum tcp_refusal)i), "",
                     counters->refusals[i]);
    }
}

void tcp_listen_counters_each(const struct tcp_listen_counters *counters, counter_each each,
                              void *ctx)
{
#define X(name, text) each(ctx, #name, counters->name);
    TCP_LISTEN_COUNTERS(X)
#undef X
    for (unsigned i = TCP_LISTEN_TAKEN + 1; i < TCP_LISTEN_REFUSAL_COUNT; i++) {
        counter_tell(each, ctx, "refused.", tcp_listen_refusal_name((enum tcp_listen_refusal)i), "",
                     counters->refusals[i]);
    }
}
