#include "draw/lives.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "text/quantity.h"

/* ---- Reads ----------------------------------------------------------------------------------- */

static bool goes_on(const struct lives_chain *c, const struct lives_request *r)
{
    if (c->number == 0 || c->source_key != r->source_key || r->source_to <= c->begin) {
        return false;
    }
    if (r->source_to < c->end) {
        return r->source_to + r->len == c->end;
    }
    bool has_own_sink = r->sink_key != c->sink_key && r->sink_to == 0;
    bool is_behind = r->sink_key == c->sink_key && r->sink_to == c->sink_end;
    return r->source_to == c->end && r->len <= c->end - c->begin && (has_own_sink || is_behind);
}

// The Read that this request goes on with, or a new one.
static struct lives_chain *chain_of(struct lives_side *l, const struct lives_request *r)
{
    for (unsigned i = 0; i < LIVES_READ_MAX; i++) {
        if (goes_on(&l->chain[i], r)) {
            return &l->chain[i];
        }
    }
    struct lives_chain *c = &l->chain[l->next_chain++ % LIVES_READ_MAX];
    *c = (struct lives_chain){.number = ++l->read_count};
    return c;
}

static void chain_extend(struct lives_chain *c, const struct lives_request *r)
{
    c->sink_key = r->sink_key;
    c->source_key = r->source_key;
    c->begin = r->source_to;
    c->end = r->source_to + r->len;
    c->sink_end = r->sink_to + r->len;
    c->parts++;
}

static void read_describe(struct story_span *span, struct lives_part part,
                          const struct lives_request *r)
{
    char size[TEXT_SIZE_MAX];
    span->group = part.read;
    snprintf(span->label, sizeof span->label, "Read %" PRIu32 ".%" PRIu32, part.read, part.part);
    snprintf(span->detail, sizeof span->detail,
             "Read %" PRIu32 ", request %" PRIu32 ": %s octets, from 0x%08" PRIx32 " +0x%" PRIx64
             " to 0x%08" PRIx32 " +0x%" PRIx64,
             part.read, part.part, text_size_format_exactly(r->len, size), r->source_key,
             r->source_to, r->sink_key, r->sink_to);
}

struct lives_part lives_on_request(struct lives *l, struct story *s, unsigned side,
                                   const struct lives_request *request)
{
    struct lives_side *own = &l->side[side];
    struct lives_chain *c = chain_of(own, request);
    chain_extend(c, request);
    struct lives_read *r = &own->read[own->next_read++ % LIVES_READ_MAX];
    *r = (struct lives_read){.is_active = true,
                             .name = request->name,
                             .begin = request->begin,
                             .len = request->extent,
                             .span = story_span_begin(s, STORY_READ, side, story_last(s))};
    struct lives_part part = {.read = c->number, .part = c->parts};
    struct story_span *span = story_span_at(s, r->span);
    if (span != NULL) {
        read_describe(span, part, request);
    }
    return part;
}

void lives_on_response(struct lives *l, struct story *s, unsigned side, uint64_t name, uint64_t at,
                       uint32_t len, bool is_last)
{
    for (unsigned i = 0; i < LIVES_READ_MAX; i++) {
        struct lives_read *r = &l->side[side].read[i];
        // Wraps where `at` is before the beginning, and so is too much.
        if (!r->is_active || r->name != name || at - r->begin > r->len ||
            (at - r->begin == r->len && r->len > 0)) {
            continue;
        }
        r->got += len;
        if (is_last) {
            r->has_last = true;
            r->len = at + len - r->begin; // it may be less than was asked for
        }
        // What is behind a hole may come before the rest.
        if (r->has_last && r->got >= r->len) {
            story_span_end(s, r->span, story_last(s));
            r->is_active = false;
        }
        return;
    }
}

/* ---- keys ------------------------------------------------------------------------------------ */

static struct lives_key *key_find(struct lives_side *l, uint32_t key)
{
    for (unsigned i = 0; i < LIVES_KEY_MAX; i++) {
        if (l->key[i].is_there && l->key[i].key == key) {
            return &l->key[i];
        }
    }
    return NULL;
}

static struct lives_key *key_add(struct lives_side *l, uint32_t key)
{
    struct lives_key *k = &l->key[l->next_key++ % LIVES_KEY_MAX];
    *k = (struct lives_key){.key = key, .is_there = true, .span = STORY_NONE};
    return k;
}

void lives_on_advertise(struct lives *l, struct story *s, unsigned side, uint32_t key)
{
    struct lives_key *k = key_find(&l->side[side], key);
    k = k != NULL ? k : key_add(&l->side[side], key);
    k->first_use = story_last(s);
    k->span = story_span_begin(s, STORY_STAG, side, story_last(s));
    struct story_span *span = story_span_at(s, k->span);
    if (span != NULL) {
        snprintf(span->label, sizeof span->label, "0x%08" PRIx32, key);
        snprintf(span->detail, sizeof span->detail,
                 "STag 0x%08" PRIx32 ": advertised by a Send, not closed", key);
    }
}

void lives_on_use(struct lives *l, struct story *s, unsigned side, uint32_t key)
{
    if (key_find(&l->side[side], key) == NULL) {
        key_add(&l->side[side], key)->first_use = story_last(s);
    }
}

void lives_on_end(struct lives *l, struct story *s, unsigned side, uint32_t key, const char *how)
{
    struct lives_key *k = key_find(&l->side[side], key);
    if (k == NULL) {
        return;
    }
    bool was_advertised = k->span != STORY_NONE;
    uint32_t index = was_advertised ? k->span : story_span_begin(s, STORY_STAG, side, k->first_use);
    story_span_end(s, index, story_last(s));
    struct story_span *span = story_span_at(s, index);
    if (span != NULL) {
        snprintf(span->label, sizeof span->label, "0x%08" PRIx32, key);
        snprintf(span->detail, sizeof span->detail, "STag 0x%08" PRIx32 ": %s, then %s", key,
                 was_advertised ? "advertised by a Send" : "first used", how);
    }
    k->is_there = false;
}
