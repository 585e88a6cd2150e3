#include "congestion/share.h"

#include "base/list.h"
#include "base/time.h"

static const duration_ns period_ns = 1 * NS_PER_MS;

void congestion_share_init(struct congestion_share *s, uint64_t room_len)
{
    *s = (struct congestion_share){.room_len = room_len};
    list_init(&s->waiting);
}

void congestion_member_init(struct congestion_member *m, struct congestion_share *s,
                            void (*on_room)(void *ctx), void *ctx)
{
    *m = (struct congestion_member){.share = s, .on_room = on_room, .ctx = ctx};
    list_init(&m->link);
}

/* ---- room ------------------------------------------------------------------------------------ */

static bool is_silent(const struct congestion_share *s, instant_ns now)
{
    return s->out_len > 0 && now >= instant_after(s->moved_at, CONGESTION_WRITE_OFF_NS);
}

static uint64_t own_len(const struct congestion_member *m)
{
    return m->epoch == m->share->epoch ? m->out_len : 0;
}

// Where nothing is out one may have more than there is room for: otherwise it could never send it.
static bool fits(const struct congestion_member *m, uint64_t promised_len, uint64_t out_len)
{
    uint64_t all = m->share->out_len + promised_len;
    return all == 0 || all - own_len(m) + out_len <= m->share->room_len;
}

static bool is_next(const struct congestion_member *m)
{
    const struct list_link *waiting = &m->share->waiting;
    return list_is_empty(waiting) || waiting->next == &m->link;
}

bool congestion_member_may(const struct congestion_member *m, uint64_t out_len, instant_ns now)
{
    const struct congestion_share *s = m->share;
    return s == NULL || (is_next(m) && fits(m, 0, out_len)) || is_silent(s, now);
}

uint64_t congestion_member_most(const struct congestion_member *m)
{
    const struct congestion_share *s = m->share;
    if (s == NULL) {
        return UINT64_MAX;
    }
    uint64_t others_len = s->out_len - own_len(m);
    return is_next(m) && others_len < s->room_len ? s->room_len - others_len : 0;
}

uint32_t congestion_member_packets(const struct congestion_member *m, uint32_t packet_len)
{
    const struct congestion_share *s = m->share;
    if (s == NULL) {
        return UINT32_MAX;
    }
    uint32_t lately =
        s->most_active > s->most_active_before ? s->most_active : s->most_active_before;
    uint32_t now = s->active + (m->is_active ? 0 : 1), sharing = now > lately ? now : lately;
    uint64_t count = s->room_len / sharing / packet_len;
    return count > UINT32_MAX ? UINT32_MAX : count > 0 ? (uint32_t)count : 1;
}

/* ---- members --------------------------------------------------------------------------------- */

static void note_active(struct congestion_member *m)
{
    bool is_active = m->out_len > 0 || !list_is_empty(&m->link);
    struct congestion_share *s = m->share;
    s->active += is_active - m->is_active;
    s->most_active = s->active > s->most_active ? s->active : s->most_active;
    m->is_active = is_active;
}

static void note_period(struct congestion_share *s, instant_ns now)
{
    if (now - s->period_began >= period_ns) {
        s->most_active_before = s->most_active;
        s->most_active = s->active;
        s->period_began = now;
    }
}

// Those whose turn it is, as far as there is room for what they want. They leave the line
// themselves, when they have it or want nothing any more.
static void wake(const struct congestion_share *s)
{
    uint64_t promised_len = 0;
    for (const struct list_link *l = s->waiting.next; l != &s->waiting; l = l->next) {
        const struct congestion_member *m = LIST_ENTRY(l, struct congestion_member, link);
        if (!fits(m, promised_len, m->wanted_len)) {
            break;
        }
        promised_len += m->wanted_len - own_len(m);
        m->on_room(m->ctx);
    }
}

static void write_off(struct congestion_share *s)
{
    s->epoch++;
    s->out_len = 0;
}

void congestion_member_set(struct congestion_member *m, uint64_t out_len, instant_ns now)
{
    struct congestion_share *s = m->share;
    if (s == NULL || (out_len == m->out_len && m->epoch == s->epoch)) {
        return;
    }
    if (out_len > m->out_len && is_silent(s, now)) {
        write_off(s);
    }
    if (m->epoch != s->epoch) {
        m->epoch = s->epoch;
        m->out_len = 0;
    }
    if (out_len < m->out_len || s->out_len == 0) {
        s->moved_at = now;
    }
    note_period(s, now);
    bool is_back = out_len < m->out_len;
    s->out_len += out_len - m->out_len;
    m->out_len = out_len;
    note_active(m);
    if (is_back) {
        wake(s);
    }
}

void congestion_member_wait(struct congestion_member *m, uint64_t out_len)
{
    m->wanted_len = out_len;
    if (list_is_empty(&m->link)) {
        list_push_tail(&m->share->waiting, &m->link);
        note_active(m);
    }
}

void congestion_member_leave(struct congestion_member *m)
{
    if (!list_is_empty(&m->link)) {
        list_remove(&m->link);
        note_active(m);
        wake(m->share);
    }
}

instant_ns congestion_member_until(const struct congestion_member *m)
{
    return list_is_empty(&m->link) ? INSTANT_NEVER
                                   : instant_after(m->share->moved_at, CONGESTION_WRITE_OFF_NS);
}
