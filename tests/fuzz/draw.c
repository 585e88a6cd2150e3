// Whatever file is given, a picture comes of what can be read of it; and what a capture gives does
// not depend on how it was cut into pieces, nor what a telling sees on what the registry saw.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "draw/owners.h"
#include "draw/svg.h"
#include "draw/telling.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { EVENTS = 64 };

struct eye {
    void (*see)(void *ctx, const struct capture_packet *packet, const struct frame *frame);
    void (*see_record)(void *ctx, const struct capture_record *record);
    void *ctx;
};

// Reads the file, `step` octets being there at a time beyond what is asked for; how many packets
// and records.
static uint64_t read_file(struct span file, size_t step, uint8_t *scratch, const struct eye *eye)
{
    struct capture c = {0};
    struct capture_packet packet;
    struct frame f;
    size_t there = step;
    for (;;) {
        size_t used, len = there < file.len ? there : file.len;
        enum capture_verdict verdict = capture_next(&c, span_first(file, len), &used, &packet);
        CHECK(used <= len);
        file = span_skip(file, used);
        there = step;
        if (verdict == CAPTURE_PACKET) {
            CHECK(packet.number == c.packet_count && packet.len >= packet.octets.len);
            if (eye != NULL && frame_parse(&packet, FRAME_ROCE_PORT, scratch, &f) == FRAME_OK &&
                f.kind != FRAME_OTHER) {
                do {
                    eye->see(eye->ctx, &packet, &f);
                } while (frame_next(&f));
            }
        } else if (verdict == CAPTURE_RECORD) {
            CHECK(c.record.number == c.record_count);
            CHECK(c.record.verdict != JOURNAL_PARSE_FOREIGN);
            if (eye != NULL && c.record.verdict == JOURNAL_PARSE_OK) {
                eye->see_record(eye->ctx, &c.record);
            }
        } else if (verdict == CAPTURE_MORE && len < file.len) {
            CHECK(c.needed > len && c.needed <= CAPTURE_NEED_MAX);
            there = c.needed;
        } else if (verdict != CAPTURE_NOTHING) {
            return c.packet_count + c.record_count;
        }
    }
}

struct survey {
    struct registry registry;
    struct owners owners;
};

static void see_first(void *ctx, const struct capture_packet *packet, const struct frame *frame)
{
    struct survey *survey = ctx;
    struct registry_sighting seen;
    registry_see(&survey->registry, packet, frame, &seen);
}

static void see_record_first(void *ctx, const struct capture_record *record)
{
    struct survey *survey = ctx;
    owners_see(&survey->owners, 0, record);
}

static void see_again(void *ctx, const struct capture_packet *packet, const struct frame *frame)
{
    telling_see(ctx, packet, frame);
}

static void see_record_again(void *ctx, const struct capture_record *record)
{
    telling_see_record(ctx, 0, record);
}

// Nothing of the file gets out as markup: elements end as often as they begin.
static void count_markup(void *ctx, const char *text, size_t len)
{
    long *depth = ctx;
    for (size_t i = 0; i < len; i++) {
        CHECK((unsigned char)text[i] >= ' ' || text[i] == '\n');
        *depth += text[i] == '<';
        *depth -= text[i] == '>';
    }
}

static void draw(struct span file, const struct survey *survey, uint8_t *scratch)
{
    const struct registry *r = &survey->registry;
    static struct picture picture;
    struct telling t;
    uint32_t index[1];
    struct story_bounds bounds = {.to_packet = UINT64_MAX, .to = UINT64_MAX, .event_max = EVENTS};
    if (registry_find(r, registry_choice(r), &index[0]) == NULL) {
        return;
    }
    CHECK(telling_create(&t, r, &survey->owners, index, 1, &bounds));
    const struct eye eye = {see_again, see_record_again, &t};
    read_file(file, SIZE_MAX, scratch, &eye);
    CHECK(t.again.connection_count == r->connection_count);
    CHECK(t.again.number_count == r->number_count);
    telling_finish(&t, &picture);
    CHECK(t.story.event_count <= EVENTS);
    for (uint32_t i = 0; i < t.story.span_count; i++) {
        CHECK(t.story.span[i].begin < t.story.event_count);
        CHECK(t.story.span[i].end < t.story.event_count);
    }
    long depth = 0;
    struct xml_out out = {count_markup, &depth};
    CHECK(svg_put(&out, &picture, false));
    CHECK(depth == 0);
    telling_destroy(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t key[SIPHASH_KEY_LEN];
    uint8_t *scratch = malloc(FRAME_SCRATCH_LEN);
    struct survey survey;
    struct span file = span_of(data, size);
    const struct eye eye = {see_first, see_record_first, &survey};
    CHECK(scratch != NULL && registry_create(&survey.registry, key));
    CHECK(owners_create(&survey.owners));
    uint64_t whole = read_file(file, SIZE_MAX, scratch, &eye);
    CHECK(read_file(file, 1, scratch, NULL) == whole);
    draw(file, &survey, scratch);
    registry_destroy(&survey.registry);
    owners_destroy(&survey.owners);
    free(scratch);
    return 0;
}
