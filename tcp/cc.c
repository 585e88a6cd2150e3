#include "tcp/cc.h"

#include "base/check.h"

#define CWND_MAX (UINT32_C(1) << 30) // the largest window that can be offered

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

// RFC 6928 section 2.
static uint32_t initial_window(uint32_t mss)
{
    return smaller(10 * mss, larger(2 * mss, 14600));
}

void tcp_cc_init(struct tcp_cc *cc, enum tcp_cc_kind kind, uint32_t mss)
{
    CHECK(kind < TCP_CC_KIND_COUNT);
    *cc = (struct tcp_cc){
        .kind = kind,
        .cwnd = initial_window(mss),
        .ssthresh = TCP_SSTHRESH_NONE,
        .mss = mss,
    };
    tcp_hystart_init(&cc->hystart);
}

/* ---- Reno: one segment per window (RFC 5681 section 3.1) ------------------------------------- */

static void reno_grow(struct tcp_cc *cc, uint32_t acked_len)
{
    cc->acked_len += acked_len;
    if (cc->acked_len >= cc->cwnd) {
        cc->acked_len -= cc->cwnd;
        cc->cwnd += cc->mss;
    }
}

/* ---- CUBIC (RFC 9438 section 4) -------------------------------------------------------------- */

static const double cubic_c = 0.4;                           // segments per second cubed
static const double cubic_beta = 0.7;                        // what is left of the window at a loss
static const double cubic_alpha = 3 * (1 - 0.7) / (1 + 0.7); // growth that makes it fair to Reno

// By Newton's method, from above; `x` is not negative.
static double cube_root(double x)
{
    double root = x > 1 ? x : 1;
    for (int i = 0; i < 100; i++) {
        double next = (2 * root + x / (root * root)) / 3;
        if (next >= root) {
            break;
        }
        root = next;
    }
    return root;
}

static double seconds(duration_ns ns)
{
    return (double)ns / (double)NS_PER_S;
}

static void cubic_begin_epoch(struct tcp_cc *cc, instant_ns now)
{
    struct tcp_cubic *c = &cc->cubic;
    c->has_epoch = true;
    c->epoch_began = c->last_ack_at = now;
    c->w_est = cc->cwnd;
    if (c->w_max < cc->cwnd) {
        c->w_max = cc->cwnd;
    }
    c->k_s = cube_root((c->w_max - cc->cwnd) / cc->mss / cubic_c);
}

// W_cubic(t), in octets.
static double cubic_window(const struct tcp_cc *cc, double t_s)
{
    double d = t_s - cc->cubic.k_s;
    return cubic_c * d * d * d * cc->mss + cc->cubic.w_max;
}

static void cubic_grow(struct tcp_cc *cc, uint32_t acked_len, duration_ns srtt_ns, instant_ns now)
{
    struct tcp_cubic *c = &cc->cubic;
    if (!c->has_epoch) {
        cubic_begin_epoch(cc, now);
    }
    c->last_ack_at = now;
    double t_s = seconds(now - c->epoch_began), cwnd = cc->cwnd;
    double alpha = c->w_est >= c->cwnd_prior ? 1 : cubic_alpha;
    c->w_est += alpha * cc->mss * acked_len / cwnd;
    if (cubic_window(cc, t_s) < c->w_est) { // section 4.3: at least as Reno
        cc->cwnd = larger(cc->cwnd, (uint32_t)c->w_est);
        return;
    }
    double target = cubic_window(cc, t_s + seconds(srtt_ns));
    target = target > 1.5 * cwnd ? 1.5 * cwnd : target;
    if (target > cwnd) {
        cc->cwnd += (uint32_t)((target - cwnd) * acked_len / cwnd);
    }
}

static void cubic_on_loss(struct tcp_cc *cc)
{
    struct tcp_cubic *c = &cc->cubic;
    c->has_epoch = false;
    c->cwnd_prior = cc->cwnd;
    // Section 4.7, fast convergence: a window that shrinks from loss to loss makes room.
    c->w_max = cc->cwnd < c->w_max ? cc->cwnd * (1 + cubic_beta) / 2 : cc->cwnd;
}

/* ---- both ------------------------------------------------------------------------------------ */

bool tcp_cc_on_round_trip(struct tcp_cc *cc, duration_ns rtt_ns, bool is_limited, tcp_seq una,
                          tcp_seq nxt)
{
    if (cc->ssthresh != TCP_SSTHRESH_NONE) {
        return false;
    }
    if (!is_limited) {
        tcp_hystart_init(&cc->hystart);
        return false;
    }
    if (!tcp_hystart_on_sample(&cc->hystart, rtt_ns, una, nxt)) {
        return false;
    }
    tcp_hystart_init(&cc->hystart);
    cc->ssthresh = cc->cwnd;
    return true;
}

// Returns by how much.
static uint32_t slow_start_grow(struct tcp_cc *cc, uint32_t acked_len)
{
    const uint32_t growth = acked_len / tcp_hystart_divisor(&cc->hystart);
    const uint32_t step = smaller(growth, cc->ssthresh - cc->cwnd);
    cc->cwnd += step;
    return step;
}

void tcp_cc_on_ack(struct tcp_cc *cc, uint32_t acked_len, bool is_limited, duration_ns srtt_ns,
                   instant_ns now)
{
    if (!is_limited) {
        if (cc->cubic.has_epoch) { // RFC 9438 section 5.8: such time does not count
            cc->cubic.epoch_began += now - cc->cubic.last_ack_at;
            cc->cubic.last_ack_at = now;
        }
        return;
    }
    if (tcp_cc_is_slow_start(cc)) {
        acked_len -= slow_start_grow(cc, acked_len);
    }
    if (acked_len > 0 && cc->cwnd >= cc->ssthresh) {
        if (cc->kind == TCP_CC_CUBIC) {
            cubic_grow(cc, acked_len, srtt_ns, now);
        } else {
            reno_grow(cc, acked_len);
        }
    }
    cc->cwnd = smaller(cc->cwnd, CWND_MAX);
}

void tcp_cc_on_loss(struct tcp_cc *cc, uint32_t flight_len)
{
    double left = cc->kind == TCP_CC_CUBIC ? cubic_beta : 0.5;
    if (cc->kind == TCP_CC_CUBIC) {
        cubic_on_loss(cc);
    }
    cc->ssthresh = larger((uint32_t)(flight_len * left), 2 * cc->mss);
    cc->acked_len = 0;
    tcp_hystart_init(&cc->hystart);
}

void tcp_cc_on_timeout(struct tcp_cc *cc, uint32_t flight_len, bool is_first)
{
    if (is_first) {
        tcp_cc_on_loss(cc, flight_len);
    }
    cc->cubic.has_epoch = false;
    cc->cubic.w_max = 0; // section 4.8: the next epoch begins at its own window
    cc->cwnd = cc->mss;
}

void tcp_cc_on_recovered(struct tcp_cc *cc)
{
    cc->cwnd = cc->ssthresh;
}

void tcp_cc_on_idle(struct tcp_cc *cc)
{
    cc->cwnd = smaller(cc->cwnd, initial_window(cc->mss));
    cc->cubic.has_epoch = false;
}

void tcp_cc_undo(struct tcp_cc *cc, uint32_t cwnd, uint32_t ssthresh)
{
    cc->cwnd = larger(cc->cwnd, cwnd);
    cc->ssthresh = larger(cc->ssthresh, ssthresh);
    cc->cubic.has_epoch = false;
    cc->cubic.w_max = cc->cwnd;
}

void tcp_cc_on_spurious_timeout(struct tcp_cc *cc, uint32_t acked_len, uint32_t pipe,
                                uint32_t ssthresh)
{
    cc->cwnd = larger(cc->cwnd, pipe + smaller(acked_len, initial_window(cc->mss)));
    cc->ssthresh = larger(cc->ssthresh, ssthresh);
}

void tcp_cc_on_mss(struct tcp_cc *cc, uint32_t mss)
{
    cc->mss = mss;
    cc->cwnd = larger(cc->cwnd, mss);
}
