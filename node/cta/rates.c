// Rates: how many requests and octets a second the clients of a volume may have of it together.
//
// A bucket of tokens, kept as one instant: when all that has been taken will have been due. Who
// takes moves it on by what that costs; nobody takes while it lies further ahead than the burst.
// So the rate holds to the nanosecond over any time, and one request, however large, always goes.
//
// Routes that wait for their volume's rate stand with the volume and with nobody else's: what is
// looked at in each batch is the volumes whose time has come.

#include "base/time.h"
#include "node/cta/agent.h"

static const duration_ns burst_ns = 50 * NS_PER_MS; // of the rate, that may be had at once
static const duration_ns rest_ns = 1 * NS_PER_MS;   // at least, so that a wake-up is worth it

static duration_ns cost_ns(uint64_t count, uint64_t per_s)
{
    return per_s == 0 ? 0 : count * NS_PER_S / per_s; // at most 32 MiB: no overflow
}

static instant_ns due_at(const struct cta_rate *rate)
{
    instant_ns at =
        rate->requests_at_ns > rate->octets_at_ns ? rate->requests_at_ns : rate->octets_at_ns;
    return at > burst_ns ? at - burst_ns : 0;
}

bool rates_allow(const struct cta_route *route, instant_ns now)
{
    const struct cta_rate *rate = &route->volume->rate;
    return due_at(rate) <= now && list_is_empty(&rate->waiting);
}

static instant_ns moved_on(instant_ns at, duration_ns cost, instant_ns now)
{
    return instant_after(at > now ? at : now, cost);
}

void rates_take(struct cta_route *route, const struct service_request *request, instant_ns now)
{
    struct cta_rate *rate = &route->volume->rate;
    const struct volume_rate *most = &rate->most;
    rate->requests_at_ns = moved_on(rate->requests_at_ns, cost_ns(1, most->iops), now);
    rate->octets_at_ns = moved_on(rate->octets_at_ns, cost_ns(request->data_len, most->bps), now);
}

void rates_wait(struct cta *cta, struct cta_route *route, instant_ns now)
{
    struct cta_rate *rate = &route->volume->rate;
    list_push_tail(&rate->waiting, &route->link);
    if (list_is_empty(&rate->link)) {
        instant_ns at = due_at(rate), soonest = instant_after(now, rest_ns);
        rate->until_ns = at > soonest ? at : soonest;
        list_push_tail(&cta->paced, &rate->link);
    }
}

instant_ns rates_next(const struct cta *cta)
{
    instant_ns at = INSTANT_NEVER;
    for (const struct list_link *l = cta->paced.next; l != &cta->paced; l = l->next) {
        at = instant_min(at, LIST_ENTRY(l, struct cta_rate, link)->until_ns);
    }
    return at;
}

// They are hungry again, in their order, behind those who are.
static void release(struct cta *cta, struct cta_rate *rate)
{
    list_remove(&rate->link);
    for (struct list_link *l; (l = list_pop_head(&rate->waiting)) != NULL;) {
        list_push_tail(&cta->hungry, l);
    }
}

void rates_release(struct cta *cta, instant_ns now)
{
    struct list_link *next;
    for (struct list_link *l = cta->paced.next; l != &cta->paced; l = next) {
        struct cta_rate *rate = LIST_ENTRY(l, struct cta_rate, link);
        next = l->next;
        if (rate->until_ns <= now) {
            release(cta, rate);
        }
    }
}

void rates_set(void *ctx, uint32_t volume, const struct volume_rate *most)
{
    struct cta *cta = ctx;
    bool is_limited = most->iops > 0 || most->bps > 0;
    struct cta_volume *v = routes_volume(cta, volume, is_limited);
    if (v != NULL && (v->rate.most.iops != most->iops || v->rate.most.bps != most->bps)) {
        release(cta, &v->rate);
        v->rate.most = *most;
        v->rate.requests_at_ns = v->rate.octets_at_ns = 0;
    }
}
