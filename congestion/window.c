#include "congestion/window.h"

#define SLOW_START_DELAY_NS (100 * NS_PER_US) // slow start ends at such a wait in queues
#define PACE_GRAIN_NS       (5 * NS_PER_US)   // it takes longer than that to wait
#define EPOCH_NS            (10 * NS_PER_S)   // a way that became longer is noticed after two

enum {
    TIMEOUTS_MAX = 6,     // doublings
    ROUNDS_TO_JUDGE = 3,  // for a cut to arrive, to work, and to be seen
    STRIKES_MAX = 2,      // the first may have been of somebody who cuts a little later
    COMPETING_LOSSES = 8, // trying delay again costs a few round trips at a smaller window
};

static const double window_min = 1.0 / 8;

// What is left of the window.
static const double left_by_loss = 0.7;
static const double left_by_cnp = 0.8;
static const double left_by_delay_min = 0.5;

// How much faster than a window per round trip packets leave, so that the window fills.
static const double pace_slow_start = 2;
static const double pace_else = 1.25;

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

void congestion_init(struct congestion *c, const struct congestion_config *config)
{
    *c = (struct congestion){.config = *config, .limit = UINT32_MAX, .round_ns = INSTANT_NEVER};
    if (c->config.target_ns == 0) {
        c->config.target_ns = CONGESTION_TARGET_NS;
    }
    if (c->config.window_max == 0) {
        c->config.window_max = CONGESTION_WINDOW_STRANGER;
    }
    c->window = smaller(CONGESTION_WINDOW_INITIAL, c->config.window_max);
    c->threshold = c->config.window_max;
}

const char *congestion_phase_name(enum congestion_phase phase)
{
    static const char *const names[CONGESTION_PHASE_COUNT] = {
        [CONGESTION_SLOW_START] = "slow start",
        [CONGESTION_AVOIDANCE] = "avoidance",
        [CONGESTION_COMPETING] = "competing",
    };
    return names[phase];
}

static void set_window(struct congestion *c, double window)
{
    c->window = larger(smaller(window, c->config.window_max), window_min);
}

/* ---- growing --------------------------------------------------------------------------------- */

// Below a window of one whoever sends is held back by the pace, however little he has: somebody who
// waits for each answer would be paced for ever by a few losses of long ago.
void congestion_on_ack(struct congestion *c, uint32_t packets, bool is_limited)
{
    const bool grows = is_limited || c->window < 1;
    c->timeouts = 0;
    c->was_limited |= grows;
    if (!grows) {
        return;
    }
    if (c->phase == CONGESTION_SLOW_START) {
        set_window(c, smaller(c->window + packets, c->threshold));
        if (c->window >= c->threshold) {
            c->phase = CONGESTION_AVOIDANCE;
        }
    } else if (!c->is_above_target) {
        set_window(c, c->window + packets / larger(c->window, 1));
    }
}

// Slow start that was to end at the largest window ends at this one.
void congestion_widen(struct congestion *c, uint32_t window_max)
{
    if (c->threshold >= c->config.window_max) {
        c->threshold = window_max;
    }
    c->config.window_max = window_max;
}

void congestion_limit(struct congestion *c, uint32_t packets)
{
    c->limit = packets;
}

/* ---- shrinking ------------------------------------------------------------------------------- */

// What is cut now shows in a round trip: until then nothing more is.
static bool may_cut(const struct congestion *c, instant_ns now)
{
    return !c->was_cut || now - c->cut_at >= c->srtt_ns;
}

static void cut(struct congestion *c, double left, instant_ns now)
{
    set_window(c, c->window * left);
    c->was_cut = true;
    c->cut_at = now;
}

// Somebody else says that there is congestion: whatever was about to be judged is.
static void cut_by_event(struct congestion *c, double left, instant_ns now)
{
    c->rounds_to_judge = 0;
    if (c->phase == CONGESTION_SLOW_START) {
        c->phase = CONGESTION_AVOIDANCE;
    }
    if (may_cut(c, now)) {
        cut(c, left, now);
    }
}

void congestion_on_loss(struct congestion *c, instant_ns now)
{
    if (c->phase == CONGESTION_COMPETING && may_cut(c, now) && --c->losses_left == 0) {
        c->phase = CONGESTION_AVOIDANCE;
    }
    cut_by_event(c, left_by_loss, now);
}

void congestion_on_cnp(struct congestion *c, instant_ns now)
{
    cut_by_event(c, left_by_cnp, now);
}

void congestion_on_timeout(struct congestion *c, instant_ns now)
{
    c->threshold = larger(c->window / 2, 1);
    c->phase = CONGESTION_SLOW_START;
    c->rounds_to_judge = 0;
    c->timeouts++;
    cut(c, 1 / larger(c->window, 1), now);
}

/* ---- delay ----------------------------------------------------------------------------------- */

static duration_ns shortest(const struct congestion *c)
{
    return c->least_before_ns < c->least_ns ? c->least_before_ns : c->least_ns;
}

static void note_shortest(struct congestion *c, duration_ns sample_ns, instant_ns now)
{
    if (c->srtt_ns == 0) {
        c->srtt_ns = c->least_ns = c->least_before_ns = sample_ns;
        c->epoch_began = c->round_began = now;
        return;
    }
    c->srtt_ns = c->srtt_ns - c->srtt_ns / 8 + sample_ns / 8;
    if (now - c->epoch_began >= EPOCH_NS) {
        c->least_before_ns = c->least_ns;
        c->least_ns = sample_ns;
        c->epoch_began = now;
    }
    c->least_ns = sample_ns < c->least_ns ? sample_ns : c->least_ns;
}

// Whether cuts by delay emptied the queue. If not, the window of before the first is back.
static void judge(struct congestion *c, duration_ns rtt_ns)
{
    if (--c->rounds_to_judge > 0) {
        return;
    }
    if (rtt_ns <= shortest(c) + c->config.target_ns / 2) {
        c->strikes = 0;
    } else if (++c->strikes == STRIKES_MAX) {
        c->strikes = 0;
        c->phase = CONGESTION_COMPETING;
        c->losses_left = COMPETING_LOSSES;
        set_window(c, c->window_before);
    }
}

static void cut_by_delay(struct congestion *c, duration_ns rtt_ns, instant_ns now)
{
    double left = (double)shortest(c) / (double)rtt_ns;
    c->window_before = c->strikes == 0 ? c->window : c->window_before;
    c->rounds_to_judge = ROUNDS_TO_JUDGE;
    cut(c, larger(left, left_by_delay_min), now);
}

// A round trip is over, and this was the shortest in it: what a busy host adds to some is no queue.
// Who sent less than it might made none either, and a smaller window would mend nothing.
static void on_round(struct congestion *c, duration_ns rtt_ns, instant_ns now)
{
    if (!c->was_limited || c->config.has_no_line) {
        return;
    }
    c->was_limited = false;
    duration_ns waited_ns = rtt_ns - shortest(c);
    switch (c->phase) {
    case CONGESTION_SLOW_START:
        if (waited_ns <= SLOW_START_DELAY_NS) {
            return;
        }
        c->phase = CONGESTION_AVOIDANCE;
        break;
    case CONGESTION_COMPETING:
        c->is_above_target = false;
        if (waited_ns < c->config.target_ns / 4) {
            c->phase = CONGESTION_AVOIDANCE;
        }
        return;
    default:
        break;
    }
    c->is_above_target = waited_ns > c->config.target_ns;
    if (c->rounds_to_judge > 0) {
        judge(c, rtt_ns);
    } else if (c->is_above_target && may_cut(c, now)) {
        cut_by_delay(c, rtt_ns, now);
    }
}

void congestion_on_rtt(struct congestion *c, duration_ns sample_ns, instant_ns now)
{
    if (sample_ns == 0 || sample_ns > now) {
        return; // the difference of instants of which the later is the smaller
    }
    note_shortest(c, sample_ns, now);
    c->round_ns = sample_ns < c->round_ns ? sample_ns : c->round_ns;
    if (now - c->round_began >= c->srtt_ns) {
        duration_ns rtt_ns = c->round_ns;
        c->round_ns = INSTANT_NEVER;
        c->round_began = now;
        on_round(c, rtt_ns, now);
    }
}

/* ---- pace ------------------------------------------------------------------------------------ */

// Between two packets. Below a window of one, a packet takes more than a round trip. Else a window
// leaves in the shortest one: what the others take longer is a queue, which the window is there to
// empty, or a host that has not had its turn, after which there is nothing to wait for. A timer may
// be later than a short round trip takes: then acknowledgements are the clock, which come four
// times in a window. Within one host they are all the clock that there is.
static duration_ns interval(const struct congestion *c)
{
    if (c->window < 1) {
        return (duration_ns)((double)c->srtt_ns / c->window);
    }
    if (c->config.has_no_line) {
        return 0;
    }
    double pace = c->phase == CONGESTION_SLOW_START ? pace_slow_start : pace_else;
    return (duration_ns)((double)shortest(c) / (c->window * pace));
}

void congestion_on_sent(struct congestion *c, uint32_t packets, instant_ns now)
{
    duration_ns each = interval(c), burst = each * (congestion_ack_interval(c) - 1);
    burst = burst > PACE_GRAIN_NS ? burst : PACE_GRAIN_NS;
    instant_ns earliest = now > burst ? now - burst : 0; // what was not used before is lost
    c->not_before = (c->not_before > earliest ? c->not_before : earliest) + packets * each;
}

bool congestion_is_paced(const struct congestion *c)
{
    return interval(c) > 0;
}

instant_ns congestion_not_before(const struct congestion *c)
{
    return c->not_before;
}

uint32_t congestion_window(const struct congestion *c)
{
    uint32_t window = c->window < 1 ? 1 : (uint32_t)c->window;
    return window < c->limit ? window : c->limit;
}

// Over a line no more than that may leave in one burst. Within one host bursts are as long as the
// system takes, and an answer to each costs who receives as much as a quarter of taking it.
uint32_t congestion_ack_interval(const struct congestion *c)
{
    uint32_t quarter = congestion_window(c) / 4;
    if (quarter < 1) {
        return 1;
    }
    bool is_more = quarter > CONGESTION_ACK_INTERVAL_MAX && !c->config.has_no_line;
    return is_more ? CONGESTION_ACK_INTERVAL_MAX : quarter;
}

duration_ns congestion_timeout(const struct congestion *c, duration_ns timeout_ns)
{
    return timeout_ns << (c->timeouts < TIMEOUTS_MAX ? c->timeouts : TIMEOUTS_MAX);
}
