#include "draw/telling.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "draw/iwarp.h"
#include "draw/roce.h"
#include "draw/svg_text.h"
#include "draw/works.h"
#include "text/append.h"
#include "text/quantity.h"

struct telling_part {
    uint32_t index; // in the registry
    struct registry_connection facts;
    struct iwarp_connection *iwarp; // or, NULL,
    struct roce_connection roce;
};

/* ---- making ---------------------------------------------------------------------------------- */

static struct telling_part *part_create(const struct registry *first, uint32_t index,
                                        struct story *story)
{
    struct telling_part *part = calloc(1, sizeof *part);
    if (part == NULL) {
        return NULL;
    }
    part->index = index;
    part->facts = first->connection[index];
    part->roce.story = story;
    if (part->facts.wire != REGISTRY_IWARP) {
        return part;
    }
    part->iwarp = calloc(1, sizeof *part->iwarp);
    if (part->iwarp == NULL || !iwarp_create(part->iwarp, story)) {
        free(part->iwarp);
        free(part);
        return NULL;
    }
    return part;
}

// An end that tells its holes itself knows them better than who looks at packets.
static void owner_choose(struct telling *t, const struct owner *owner, unsigned part, unsigned side)
{
    struct iwarp_connection *iwarp = t->part[part]->iwarp;
    t->owner[t->owner_count++] =
        (struct telling_owner){.owner = *owner, .part = part, .side = side};
    if (iwarp != NULL && owner->tells_holes) {
        iwarp->side[side].tells_holes = true;
    }
}

// Those of the connections that are told of, as many as there is room for.
static void owners_choose(struct telling *t, const struct owners *owners)
{
    for (uint32_t i = 0; i < owners->count; i++) {
        for (unsigned part = 0; part < t->part_count && t->owner_count < TELLING_OWNER_MAX;
             part++) {
            const struct registry_connection *c = &t->part[part]->facts;
            unsigned side = owner_side(&owners->owner[i], c);
            if (side < 2) {
                owner_choose(t, &owners->owner[i], part, side ^ c->initiator);
            }
        }
    }
}

bool telling_create(struct telling *t, const struct registry *first, const struct owners *owners,
                    const uint32_t *index, unsigned count, const struct story_bounds *bounds)
{
    instant_ns begin = INSTANT_NEVER;
    for (unsigned i = 0; i < count; i++) {
        begin = instant_min(begin, first->connection[index[i]].first);
    }
    *t = (struct telling){.works = calloc(1, sizeof *t->works)};
    bool is_made = t->works != NULL && registry_create(&t->again, first->key) &&
                   story_create(&t->story, bounds, begin);
    for (unsigned i = 0; is_made && i < count; i++) {
        t->part[i] = part_create(first, index[i], &t->story);
        is_made = t->part[i] != NULL;
        t->part_count += is_made;
    }
    if (is_made) {
        owners_choose(t, owners);
    } else {
        telling_destroy(t);
    }
    return is_made;
}

void telling_destroy(struct telling *t)
{
    for (unsigned i = 0; i < t->part_count; i++) {
        if (t->part[i]->iwarp != NULL) {
            iwarp_destroy(t->part[i]->iwarp);
            free(t->part[i]->iwarp);
        }
        free(t->part[i]);
    }
    free(t->works);
    story_destroy(&t->story);
    registry_destroy(&t->again);
    *t = (struct telling){0};
}

/* ---- reading --------------------------------------------------------------------------------- */

void telling_see(struct telling *t, const struct capture_packet *packet, const struct frame *f)
{
    struct registry_sighting seen;
    if (!registry_see(&t->again, packet, f, &seen)) {
        return;
    }
    for (unsigned i = 0; i < t->part_count; i++) {
        struct telling_part *part = t->part[i];
        if (part->index != seen.index) {
            continue;
        }
        // Who asked for the connection stands on the left.
        unsigned side = seen.side ^ part->facts.initiator;
        story_on_packet(&t->story, packet->number, packet->at, i);
        if (part->iwarp != NULL) {
            iwarp_on_segment(part->iwarp, side, f);
        } else {
            roce_on_packet(&part->roce, side, f);
        }
    }
}

static bool is_of(const struct telling *t, const struct telling_owner *o,
                  const struct journal_record *record)
{
    const struct registry_connection *c = &t->part[o->part]->facts;
    const uint32_t peer = c->qp[1 - (o->side ^ c->initiator)];
    return c->wire != REGISTRY_UD || works_is_of(t->works, o->part, o->side, peer, record);
}

void telling_see_record(struct telling *t, unsigned origin, const struct capture_record *record)
{
    for (unsigned i = 0; i < t->owner_count; i++) {
        const struct telling_owner *o = &t->owner[i];
        if (owner_has(&o->owner, origin, record) && is_of(t, o, &record->what)) {
            story_on_record(&t->story, record->number, record->at, o->part);
            works_on_record(t->works, &t->story, o->side, &record->what);
        }
    }
}

/* ---- words ----------------------------------------------------------------------------------- */

static void describe_end(const struct telling *t, unsigned side, char *ret, size_t size)
{
    char text[FRAME_END_TEXT_MAX];
    for (unsigned i = 0; i < t->part_count; i++) {
        const struct registry_connection *c = &t->part[i]->facts;
        unsigned which = side ^ c->initiator;
        if (i > 0 && frame_end_equal(&c->end[which], &t->part[0]->facts.end[which ^ 0])) {
            continue;
        }
        const struct frame_end *end = &c->end[which];
        frame_end_format(end, text);
        if (i > 0) {
            // The same host at another port, as a rule.
            text_append(ret, size, ", :%u", end->port);
        } else if (c->wire == REGISTRY_IWARP) {
            text_append(ret, size, "%s", text);
        } else {
            *strrchr(text, ':') = '\0';
            text_append(ret, size, "%s, QP 0x%06" PRIx32, text, c->qp[which]);
        }
    }
}

static void describe_left_out(const struct telling *t, struct picture *p)
{
    const struct story *s = &t->story;
    if (s->left_out_before > 0) {
        snprintf(p->note[p->note_count++], PICTURE_TEXT_MAX,
                 "Left out before: %" PRIu64 " events (%s).", s->left_out_before,
                 s->bounds.first_event > 0 ? "--tail" : "--from");
    }
    if (s->left_out_behind > 0) {
        bool is_full = s->event_count == s->bounds.event_max;
        snprintf(p->note[p->note_count++], PICTURE_TEXT_MAX,
                 "Left out behind: %" PRIu64 " more events (%s).", s->left_out_behind,
                 is_full ? "--max-events" : "--to");
    }
}

// Datagrams agree on nothing before they come.
static void describe_agreed(const struct telling_part *part, struct picture *p)
{
    const char *agreed = part->iwarp != NULL ? part->iwarp->agreed : part->roce.agreed;
    if (agreed[0] != '\0') {
        text_append(p->subtitle, sizeof p->subtitle, "; agreed: %s", agreed);
    } else if (part->facts.wire != REGISTRY_UD) {
        text_append(p->subtitle, sizeof p->subtitle, "; its start-up was not captured");
    }
    text_append(p->subtitle, sizeof p->subtitle, ".");
}

static void describe(const struct telling *t, struct picture *p)
{
    char size[TEXT_SIZE_MAX], time[SVG_TIME_MAX];
    for (unsigned i = 0; i < t->part_count; i++) {
        const struct telling_part *part = t->part[i];
        const struct registry_connection *c = &part->facts;
        if (t->part_count > 1) {
            text_append(p->subtitle, sizeof p->subtitle, "%s[%" PRIu32 "] ", i > 0 ? " " : "",
                        c->number);
        }
        text_append(p->subtitle, sizeof p->subtitle, "%s, %" PRIu64 " packets, %s octets, %s",
                    registry_wire_name(c->wire), c->packet_count,
                    text_size_format(c->payload_len, size),
                    svg_text_time(c->last > c->first ? c->last - c->first : 0, time));
        describe_agreed(part, p);
    }
}

void telling_finish(struct telling *t, struct picture *ret)
{
    story_finish(&t->story);
    *ret = (struct picture){.story = &t->story, .connection_count = t->part_count, .folds = true};
    for (unsigned i = 0; i < t->part_count; i++) {
        ret->connection_number[i] = t->part[i]->facts.number;
    }
    for (unsigned side = 0; side < 2; side++) {
        snprintf(ret->side[side].role, sizeof ret->side[side].role, "%s",
                 side == 0 ? "initiator" : "responder");
        describe_end(t, side, ret->side[side].address, sizeof ret->side[side].address);
    }
    describe(t, ret);
    describe_left_out(t, ret);
}
