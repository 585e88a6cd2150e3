// The queue pair as the device has it: the table that every transport fills (base/transport.h).
#include <errno.h>

#include "base/time.h"
#include "base/transport.h"
#include "iwarp/counters.h"
#include "iwarp/internal.h"
#include "iwarp/state.h"

static struct qp *of(struct transport *t)
{
    return qp_of_transport(t);
}

static const struct qp *look_at(const struct transport *t)
{
    return (const struct qp *)t;
}

static void silence(struct transport *t)
{
    qp_silence(of(t));
}

static void destroy(struct transport *t)
{
    qp_destroy(of(t));
}

static enum qp_state state(const struct transport *t)
{
    return qp_state_of(look_at(t));
}

// The depth holds from the first read on, rights also behind a reset.
static int modify(struct transport *t, const struct qp_change *change, instant_ns now)
{
    struct qp *qp = of(t);
    const bool is_move = (change->mask & QP_CHANGE_STATE) != 0;
    if (is_move && !qp_state_may_modify(qp->state, change->state)) {
        return -EINVAL;
    }
    if ((change->mask & QP_CHANGE_MAX_RD_ATOMIC) != 0) {
        qp_set_ord_max(qp, change->max_rd_atomic);
    }
    if (is_move) {
        qp_modify(qp, change->state, now);
    }
    if ((change->mask & QP_CHANGE_RIGHTS) != 0) {
        qp_set_rights(qp, change->rights);
    }
    return 0;
}

static struct qp_attributes query(const struct transport *t)
{
    return qp_query(look_at(t));
}

static int may_post(const struct transport *t, unsigned opcode)
{
    return qp_may_post(look_at(t), (enum wqe_opcode)opcode);
}

static int oneshot_agreed(const struct transport *t)
{
    return qp_oneshot_agreed(look_at(t));
}

static void on_send_posted(struct transport *t, instant_ns now)
{
    qp_on_send_posted(of(t), now);
}

static void on_receive_posted(struct transport *t, instant_ns now)
{
    qp_on_receive_posted(of(t), now);
}

static bool wants_receive(const struct transport *t)
{
    return qp_wants_receive(look_at(t)) || look_at(t)->stream_state == QP_STREAM_ERROR;
}

static bool has_output(const struct transport *t)
{
    return qp_has_output(look_at(t));
}

static instant_ns next_deadline(const struct transport *t)
{
    return qp_next_deadline(look_at(t));
}

static void on_deadline(struct transport *t, instant_ns now)
{
    qp_on_deadline(of(t), now);
}

static void wish_allotment(struct transport *t, uint32_t allotment_len, bool may_follow,
                           enum allotment_event event, instant_ns now)
{
    qp_wish_allotment(of(t), allotment_len, may_follow, event, now);
}

static const void *counters(const struct transport *t)
{
    return qp_counters(look_at(t));
}

static void counters_add(void *total, const void *counters)
{
    qp_counters_add(total, counters);
}

static void counters_each(const void *counters, counter_each each, void *ctx)
{
    qp_counters_each(counters, each, ctx);
}

static bool check(const struct transport *t)
{
    return qp_check(look_at(t));
}

static const char *format(const struct transport *t, char *buf, size_t len)
{
    return qp_format(look_at(t), buf, len);
}

// A stream carries it: what leaves and what comes have calls of their own (iwarp/qp.h).
const struct transport_ops iwarp_transport_ops = {
    .name = "iwarp",
    .total_name = "qps_total",
    .segment_name = "mulpdu",
    .silence = silence,
    .destroy = destroy,
    .state = state,
    .modify = modify,
    .query = query,
    .may_post = may_post,
    .oneshot_agreed = oneshot_agreed,
    .on_send_posted = on_send_posted,
    .on_receive_posted = on_receive_posted,
    .wants_receive = wants_receive,
    .has_output = has_output,
    .next_deadline = next_deadline,
    .on_deadline = on_deadline,
    .wish_allotment = wish_allotment,
    .counters_len = sizeof(struct qp_counters),
    .counters = counters,
    .counters_add = counters_add,
    .counters_each = counters_each,
    .check = check,
    .format = format,
};
