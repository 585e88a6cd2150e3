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
    [CTA_LARGE] = {{10, 12}, {12, 14}},
    [CTA_OVERSIZED] = {{16, 16}, {16, 16}}, // they have a part of their own
};

// What is with a client for so long is not about to come back.
static const duration_ns soon_ns = 250 * NS_PER_MS;

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

static bool fits_volume(const struct cta *cta, const struct cta_volume *volume, uint64_t len,
                        bool is_awaited)
{
    struct cta_share come = volume->share;
    come.request_count -= volume->awaited.request_count;
    come.held_len -= volume->awaited.held_len;
    return fits(cta, &volume->share, len, &volume_limit) ||
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

static bool may_be_awaited(const struct cta *cta, uint64_t run_len, unsigned sixteenths)
{
    return cta->awaited_count < NODE_TRANSACTION_COUNT_MAX / 16 * sixteenths &&
           has_room(cta, cta->awaited_len, run_len, sixteenths);
}

unsigned shares_behind(const struct cta *cta, const struct cta_route *route, uint32_t len,
                       bool is_awaited)
{
    if (len == 0) {
        return 0;
    }
    enum cta_size size = shares_size_of(cta, len);
    uint64_t run_len = buffers_run_len(len);
    bool has_little = holds_little(route);
    const struct tier *tier = &tiers[size][has_little];
    if (is_awaited && !may_be_awaited(cta, run_len, tier->awaited)) {
        return has_little ? CTA_MUCH_AWAITED | CTA_LITTLE_AWAITED : CTA_MUCH_AWAITED;
    }
    if (!has_room(cta, lent_beside(cta, size), run_len, tier->lent)) {
        return has_little ? CTA_ALL : CTA_MUCH | CTA_MUCH_AWAITED;
    }
    return 0;
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
           (is_first || fits_volume(cta, route->volume, counted, is_awaited)) &&
           (route->client == NULL || fits(cta, &route->client->share, counted, &client_limit));
}

// Octets of large requests that clients have had for so long that nobody waits for their end.
static uint64_t stuck_len(const struct cta *cta, instant_ns now)
{
    uint64_t len = 0;
    for (unsigned i = 0; i < cta->unit_end; i++) {
        const struct list_link *list = cta->units[i] != NULL ? &cta->units[i]->elsewhere : NULL;
        for (const struct list_link *l = list; l != NULL && (l = l->next) != list;) {
            const struct transaction *t = LIST_ENTRY(l, struct transaction, link);
            bool is_stuck = t->buffer.len > 0 && now >= instant_after(t->begun_at_ns, soon_ns) &&
                            shares_size_of(cta, t->buffer.len) == CTA_LARGE;
            len += is_stuck ? buffers_run_len(t->buffer.len) : 0;
        }
    }
    return len;
}

// While an oversized one waits for room what comes back is for it.
static bool goes_before_oversized(const struct cta *cta, uint64_t len, instant_ns now)
{
    uint64_t large = cta->lent_len[CTA_LARGE];
    return cta->waits[CTA_OVERSIZED] == 0 || has_room(cta, large, len, LARGE_PATIENT_SIXTEENTHS) ||
           has_room(cta, large - stuck_len(cta, now), len, LARGE_PATIENT_SIXTEENTHS);
}

instant_ns shares_feed_at(const struct cta *cta, instant_ns now)
{
    bool waits = cta->waits[CTA_OVERSIZED] != 0 && cta->waits[CTA_LARGE] != 0;
    return waits ? instant_after(now, soon_ns) : INSTANT_NEVER;
}

static bool may_lend(const struct cta *cta, enum cta_size size, uint64_t len, instant_ns now)
{
    if (size == CTA_SMALL) {
        return true;
    }
    if (!has_room(cta, lent_beside(cta, size), len, NOT_SMALL_SIXTEENTHS)) {
        return false;
    }
    return size == CTA_OVERSIZED
               ? has_room(cta, cta->lent_len[CTA_OVERSIZED], len, OVERSIZED_SIXTEENTHS)
               : goes_before_oversized(cta, len, now);
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
        cta->awaited_len += buffers_run_len(len);
        count(&route->volume->awaited, counted_len(cta, len), is_oversized(cta, len), 1);
    }
}

void shares_note_come(struct cta *cta, struct cta_route *route, uint32_t len)
{
    cta->awaited_count--;
    cta->awaited_len -= buffers_run_len(len);
    count(&route->volume->awaited, counted_len(cta, len), is_oversized(cta, len), -1);
}

void shares_give_back(const struct cta *cta, struct cta_route *route, uint32_t len)
{
    count_everywhere(cta, route, len, -1);
}
