// Shares of the pool, and of the requests under way: nobody can take so much that others wait for
// it, whatever its clients do with what they have.

#include "node/cta/agent.h"

// What somebody may hold at a time: sixteenths of the pool, and requests.
struct limit {
    unsigned sixteenths;
    uint32_t request_count;
};

static const struct limit connection_limit = {1, CTA_UNIT_DEPTH / 8};
static const struct limit client_limit = {4, CTA_UNIT_DEPTH / 8 * 3};
static const struct limit volume_limit = {6, CTA_UNIT_DEPTH / 2};
// Of a volume, beside what its clients have yet to send, for who has nothing to send: else those
// who do not end their writes would keep all that read.
static const struct limit come_limit = {3, CTA_UNIT_DEPTH / 8};

// Sixteenths of the pool for requests by their size. What is over is for small ones.
enum {
    OVERSIZED_SIXTEENTHS = 8,     // altogether
    NOT_SMALL_SIXTEENTHS = 14,    // these and large ones
    LARGE_PATIENT_SIXTEENTHS = 6, // large ones while an oversized one waits for room
};

// ... of all that is lent, whatever volumes it is for, and of it for what clients have yet to send:
// sixteenths of the pool. What is over is for clients that hold little: so those of many volumes
// who are slow, or do not go on, keep nobody from a large request.
struct tier {
    unsigned awaited, lent;
};

static const struct tier tiers[CTA_SIZE_COUNT][2] = {
    // of who holds much, and of who holds little
    [CTA_SMALL] = {{12, 15}, {14, 16}},
    [CTA_LARGE] = {{10, 12}, {12, NOT_SMALL_SIXTEENTHS}}, // oversized ones have a part of their own
};

// What a client has had for so long is not about to come back; and who has waited for so long is
// not overtaken any more by those that get on.
static const duration_ns soon_ns = NS_PER_S;

static uint64_t part_of_pool(const struct cta *cta, unsigned sixteenths)
{
    return cta->parts.pool.len / 16 * sixteenths;
}

enum cta_size shares_size_of(const struct cta *cta, uint32_t len)
{
    uint64_t run_len = buffers_run_len(len);
    if (run_len <= CTA_SMALL_LEN) {
        return CTA_SMALL;
    }
    bool is_over = run_len > part_of_pool(cta, connection_limit.sixteenths);
    return is_over ? CTA_OVERSIZED : CTA_LARGE;
}

static bool fits(const struct cta *cta, const struct cta_share *share, uint64_t len,
                 const struct limit *limit)
{
    uint64_t most = part_of_pool(cta, limit->sixteenths);
    return share->request_count < limit->request_count && share->held_len <= most &&
           len <= most - share->held_len;
}

// What every connection may hold, however much others of its client and volume do.
static bool is_on_floor(const struct cta_share *share, uint64_t len)
{
    return share->request_count < CTA_FLOOR_COUNT && share->held_len <= CTA_FLOOR_LEN &&
           len <= CTA_FLOOR_LEN - share->held_len;
}

static bool is_oversized(const struct cta *cta, uint32_t len)
{
    return len > 0 && shares_size_of(cta, len) == CTA_OVERSIZED;
}

// Oversized requests have a part of the pool of their own, and do not count in the shares.
static uint64_t counted_len(const struct cta *cta, uint32_t len)
{
    return len > 0 && !is_oversized(cta, len) ? buffers_run_len(len) : 0;
}

// Who has nothing there yet has the volume's share beside what others have yet to send.
static bool fits_volume(const struct cta *cta, const struct cta_volume *volume, uint64_t len,
                        bool is_awaited, bool is_first)
{
    struct cta_share come = volume->share;
    come.request_count -= volume->awaited.request_count;
    come.held_len -= volume->awaited.held_len;
    return fits(cta, &volume->share, len, &volume_limit) ||
           (is_first && fits(cta, &come, len, &volume_limit)) ||
           (!is_awaited && fits(cta, &come, len, &come_limit));
}

// One that is alone always finds room.
static bool has_room(const struct cta *cta, uint64_t lent, uint64_t len, unsigned sixteenths)
{
    uint64_t most = part_of_pool(cta, sixteenths);
    return lent == 0 || (lent <= most && len <= most - lent);
}

static bool holds_little(const struct cta_route *route)
{
    const struct cta_share *share = route->client != NULL ? &route->client->share : &route->share;
    return share->held_len <= CTA_FLOOR_LEN && share->oversized_count == 0;
}

// What clients have had for so long that nobody waits for its end.
struct stuck {
    uint64_t len, awaited_len; // octets; of them, those that clients have yet to send
    uint32_t awaited_count;
};

static void stuck_add(struct stuck *stuck, const struct transaction *t)
{
    bool is_awaited = t->state == TRANSACTION_FETCHING;
    uint64_t run_len = buffers_run_len(t->buffer.len);
    stuck->len += run_len;
    stuck->awaited_len += is_awaited ? run_len : 0;
    stuck->awaited_count += is_awaited;
}

// Of requests of these sizes.
static struct stuck stuck_of(const struct cta *cta, enum cta_size least, enum cta_size most,
                             instant_ns now)
{
    struct stuck stuck = {0};
    for (unsigned i = 0; i < cta->unit_end; i++) {
        const struct list_link *list = cta->units[i] != NULL ? &cta->units[i]->elsewhere : NULL;
        for (const struct list_link *l = list; l != NULL && (l = l->next) != list;) {
            const struct transaction *t = LIST_ENTRY(l, struct transaction, link);
            bool is_long = t->buffer.len > 0 && now >= instant_after(t->handed_at_ns, soon_ns);
            enum cta_size size = is_long ? shares_size_of(cta, t->buffer.len) : CTA_SIZE_COUNT;
            if (size >= least && size <= most) {
                stuck_add(&stuck, t);
            }
        }
    }
    return stuck;
}

static uint64_t lent_beside(const struct cta *cta, enum cta_size size)
{
    uint64_t not_small = cta->lent_len[CTA_LARGE] + cta->lent_len[CTA_OVERSIZED];
    return size == CTA_SMALL ? not_small + cta->lent_len[CTA_SMALL] : not_small;
}

enum cta_class shares_class_of(const struct cta_route *route, bool is_awaited)
{
    return holds_little(route) ? (is_awaited ? CTA_LITTLE_AWAITED : CTA_LITTLE)
                               : (is_awaited ? CTA_MUCH_AWAITED : CTA_MUCH);
}

// A request that may be lent no buffer now, since so much is lent.
struct want {
    enum cta_size size;
    uint64_t run_len;
    struct tier tier;
};

static bool may_be_awaited(const struct cta *cta, const struct want *want,
                           const struct stuck *without)
{
    const unsigned sixteenths = want->tier.awaited;
    return cta->awaited_count - without->awaited_count <
               NODE_TRANSACTION_COUNT_MAX / 16 * sixteenths &&
           has_room(cta, cta->awaited_len - without->awaited_len, want->run_len, sixteenths);
}

static bool may_be_lent(const struct cta *cta, const struct want *want, const struct stuck *without)
{
    return has_room(cta, lent_beside(cta, want->size) - without->len, want->run_len,
                    want->tier.lent);
}

// Those who do not go on are passed by who holds little, as long as they like. But where all that
// is lent comes back soon, who has waited for a while has his turn before all others.
static bool is_in_turn(const struct cta *cta, const struct want *want, bool lacks_awaited,
                       instant_ns came_at_ns, instant_ns now)
{
    if (now < instant_after(came_at_ns, soon_ns)) {
        return false;
    }
    const struct stuck stuck = lacks_awaited ? stuck_of(cta, CTA_SMALL, CTA_LARGE, now)
                                             : stuck_of(cta, want->size, CTA_OVERSIZED, now);
    return lacks_awaited ? !may_be_awaited(cta, want, &stuck) : !may_be_lent(cta, want, &stuck);
}

unsigned shares_behind(const struct cta *cta, const struct cta_route *route, uint32_t len,
                       bool is_awaited, instant_ns came_at_ns, instant_ns now)
{
    static const struct stuck nothing;
    if (len == 0 || is_oversized(cta, len)) {
        return 0;
    }
    enum cta_size size = shares_size_of(cta, len);
    bool has_little = holds_little(route);
    const struct want want = {size, buffers_run_len(len), tiers[size][has_little]};
    bool lacks_awaited = is_awaited && !may_be_awaited(cta, &want, &nothing);
    if (!lacks_awaited && may_be_lent(cta, &want, &nothing)) {
        return 0;
    }
    bool is_before_all = has_little || is_in_turn(cta, &want, lacks_awaited, came_at_ns, now);
    unsigned awaited = CTA_MUCH_AWAITED | (is_before_all ? CTA_LITTLE_AWAITED : 0U);
    unsigned others = CTA_MUCH | (is_before_all ? CTA_LITTLE : 0U);
    return lacks_awaited ? awaited : awaited | others;
}

bool shares_allow(const struct cta *cta, const struct cta_route *route, uint32_t len,
                  bool is_awaited)
{
    uint64_t counted = counted_len(cta, len);
    // One at a time, so that who reads none of them does not have all that room.
    if (is_oversized(cta, len) && route->share.oversized_count > 0) {
        return false;
    }
    if (is_on_floor(&route->share, counted)) {
        return true;
    }
    bool is_first = counted > CTA_FLOOR_LEN && holds_little(route);
    return fits(cta, &route->share, counted, &connection_limit) &&
           fits_volume(cta, route->volume, counted, is_awaited, is_first) &&
           (route->client == NULL || fits(cta, &route->client->share, counted, &client_limit));
}

// While an oversized one waits for room what comes back is for it.
static bool goes_before_oversized(const struct cta *cta, uint64_t len, instant_ns now)
{
    uint64_t large = cta->lent_len[CTA_LARGE];
    return cta->waits[CTA_OVERSIZED] == 0 || has_room(cta, large, len, LARGE_PATIENT_SIXTEENTHS) ||
           has_room(cta, large - stuck_of(cta, CTA_LARGE, CTA_LARGE, now).len, len,
                    LARGE_PATIENT_SIXTEENTHS);
}

instant_ns shares_feed_at(const struct cta *cta, instant_ns now)
{
    bool waits = cta->waits[CTA_OVERSIZED] != 0 && cta->waits[CTA_LARGE] != 0;
    return waits ? instant_after(now, soon_ns) : INSTANT_NEVER;
}

// Beside what shares_behind() looks at.
static bool may_lend(const struct cta *cta, enum cta_size size, uint64_t len, instant_ns now)
{
    if (size == CTA_OVERSIZED) {
        return has_room(cta, lent_beside(cta, size), len, NOT_SMALL_SIXTEENTHS) &&
               has_room(cta, cta->lent_len[CTA_OVERSIZED], len, OVERSIZED_SIXTEENTHS);
    }
    return size == CTA_SMALL || goes_before_oversized(cta, len, now);
}

uint64_t shares_lent_len(const struct cta *cta)
{
    uint64_t len = 0;
    for (unsigned i = 0; i < CTA_SIZE_COUNT; i++) {
        len += cta->lent_len[i];
    }
    return len;
}

bool shares_obtain(struct cta *cta, struct cta_unit *unit, uint32_t len, instant_ns now,
                   struct node_buffer *ret)
{
    enum cta_size size = shares_size_of(cta, len);
    uint64_t run_len = buffers_run_len(len);
    if (run_len > cta->parts.pool.len - shares_lent_len(cta) ||
        !may_lend(cta, size, run_len, now) || !buffers_obtain(unit->buffers, len, ret)) {
        return false;
    }
    cta->lent_len[size] += run_len;
    return true;
}

void shares_release(struct cta_unit *unit, struct node_buffer buffer)
{
    struct cta *cta = unit->cta;
    cta->lent_len[shares_size_of(cta, buffer.len)] -= buffers_run_len(buffer.len);
    buffers_release(unit->buffers, buffer);
}

static void count(struct cta_share *share, uint64_t len, bool is_oversized, int sign)
{
    share->request_count += sign > 0 ? 1U : -1U;
    share->oversized_count += is_oversized ? (sign > 0 ? 1U : -1U) : 0;
    share->held_len += sign > 0 ? len : -len;
}

static void count_everywhere(const struct cta *cta, struct cta_route *route, uint32_t len, int sign)
{
    uint64_t counted = counted_len(cta, len);
    bool is_over = is_oversized(cta, len);
    count(&route->share, counted, is_over, sign);
    count(&route->volume->share, counted, is_over, sign);
    if (route->client != NULL) {
        count(&route->client->share, counted, is_over, sign);
    }
}

void shares_take(struct cta *cta, struct cta_route *route, uint32_t len, bool is_awaited)
{
    count_everywhere(cta, route, len, 1);
    if (is_awaited) {
        cta->awaited_count++;
        cta->awaited_len += counted_len(cta, len);
        count(&route->volume->awaited, counted_len(cta, len), is_oversized(cta, len), 1);
    }
}

void shares_note_come(struct cta *cta, struct cta_route *route, uint32_t len)
{
    cta->awaited_count--;
    cta->awaited_len -= counted_len(cta, len);
    count(&route->volume->awaited, counted_len(cta, len), is_oversized(cta, len), -1);
}

void shares_give_back(const struct cta *cta, struct cta_route *route, uint32_t len)
{
    count_everywhere(cta, route, len, -1);
}
