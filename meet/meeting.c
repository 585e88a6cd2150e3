#include "meet/meeting.h"

#include <string.h>

#include "base/check.h"

static bool move(struct meeting *m, enum meeting_input input)
{
    enum meeting_state next = meeting_state_next(m->state, input);
    if (next == MEETING_NO_STATE) {
        return false;
    }
    m->state = next;
    return true;
}

// By the order of the addresses as they stand in a GID, then of the numbers.
static enum meeting_role role_of(const struct meeting_config *c)
{
    int order = memcmp(&c->own_addr, &c->peer_addr, sizeof c->own_addr);
    if (order == 0 && c->own_qp_num == c->peer_qp_num) {
        return MEETING_ROLE_ITSELF;
    }
    bool is_first = order != 0 ? order < 0 : c->own_qp_num < c->peer_qp_num;
    return is_first ? MEETING_ROLE_FIRST : MEETING_ROLE_SECOND;
}

void meeting_init(struct meeting *m, const struct meeting_config *config, instant_ns now)
{
    *m = (struct meeting){.config = *config,
                          .role = role_of(config),
                          .state = MEETING_DUE,
                          .try_at_ns = now,
                          .give_up_at_ns = INSTANT_NEVER};
    config->counters->begun++;
}

/* ---- what is due ----------------------------------------------------------------------------- */

static const struct {
    enum meeting_input input;
    enum meeting_action action;
} tries[] = {
    [MEETING_ROLE_FIRST] = {MEETING_IN_CONNECT, MEETING_DO_CONNECT},
    [MEETING_ROLE_SECOND] = {MEETING_IN_LISTEN, MEETING_DO_LISTEN},
    [MEETING_ROLE_ITSELF] = {MEETING_IN_CONNECT, MEETING_DO_REFLECT},
};

enum meeting_action meeting_next(struct meeting *m, instant_ns now)
{
    if (now >= m->give_up_at_ns && move(m, MEETING_IN_GIVE_UP)) {
        m->config.counters->gave_up++;
        return MEETING_DO_GIVE_UP;
    }
    if (m->state != MEETING_DUE || now < m->try_at_ns) {
        return MEETING_DO_NOTHING;
    }
    move(m, tries[m->role].input);
    return tries[m->role].action;
}

static void try_later(struct meeting *m, instant_ns now)
{
    m->try_at_ns = instant_after(now, MEETING_PAUSE_NS);
}

void meeting_on_not_now(struct meeting *m, instant_ns now)
{
    if (move(m, MEETING_IN_NOT_NOW)) {
        try_later(m, now);
    }
}

/* ---- what has come of it --------------------------------------------------------------------- */

void meeting_on_established(struct meeting *m)
{
    m->config.counters->met += move(m, MEETING_IN_ESTABLISHED);
}

void meeting_on_failed(struct meeting *m, instant_ns now)
{
    if (move(m, MEETING_IN_FAILED)) {
        m->config.counters->tries_failed++;
        try_later(m, now);
    }
}

void meeting_on_broken(struct meeting *m)
{
    m->config.counters->tries_failed += move(m, MEETING_IN_BROKEN);
}

void meeting_on_work(struct meeting *m, instant_ns now)
{
    if (meeting_is_waiting(m) && m->give_up_at_ns == INSTANT_NEVER) {
        m->give_up_at_ns = instant_after(now, m->config.patience_ns);
    }
}

/* ---- time ------------------------------------------------------------------------------------ */

instant_ns meeting_next_deadline(const struct meeting *m)
{
    if (!meeting_is_waiting(m)) {
        return INSTANT_NEVER;
    }
    return m->state == MEETING_DUE ? instant_min(m->try_at_ns, m->give_up_at_ns) : m->give_up_at_ns;
}

void meeting_check(const struct meeting *m)
{
    bool is_second = m->role == MEETING_ROLE_SECOND;
    bool is_listening = m->state == MEETING_LISTENING || m->state == MEETING_ANSWERING;
    CHECK(m->state > MEETING_NO_STATE && m->state < MEETING_STATE_COUNT);
    CHECK(!is_listening || is_second);
    CHECK(m->state != MEETING_CONNECTING || !is_second);
}
