// Whatever file is given, a picture comes of what can be read of it; and what a capture gives does
// not depend on how it was cut into pieces, nor what a telling sees on what the registry saw.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "draw/svg.h"
#include "draw/telling.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { EVENTS = 64 };

typedef void see_fn(void *ctx, const struct capture_packet *packet, const struct frame *frame);

// Reads the file, `step` octets being there at a time beyond what is asked for; how many packets.
static uint64_t read_file(struct span file, size_t step, uint8_t *scratch, see_fn *see, void *ctx)
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
            if (see != NULL && frame_parse(&packet, FRAME_ROCE_PORT, scratch, &f) == FRAME_OK &&
                f.kind != FRAME_OTHER) {
                do {
                    see(ctx, &packet, &f);
                } while (frame_next(&f));
            }
        } else if (verdict == CAPTURE_MORE && len < file.len) {
            CHECK(c.needed > len && c.needed <= CAPTURE_NEED_MAX);
            there = c.needed;
        } else if (verdict != CAPTURE_NOTHING) {
            return c.packet_count;
        }
    }
}

static void see_first(void *ctx, const struct capture_packet *packet, const struct frame *frame)
{
    struct registry_sighting seen;
    registry_see(ctx, packet, frame, &seen);
}

static void see_again(void *ctx, const struct capture_packet *packet, const struct frame *frame)
{
    telling_see(ctx, packet, frame);
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

static void draw(struct span file, const struct registry *r, uint8_t *scratch)
{
    static struct picture picture;
    struct telling t;
    uint32_t index[1];
    struct story_bounds bounds = {.to_packet = UINT64_MAX, .to = UINT64_MAX, .event_max = EVENTS};
    if (registry_find(r, registry_choice(r), &index[0]) == NULL) {
        return;
    }
    CHECK(telling_create(&t, r, index, 1, &bounds));
    read_file(file, SIZE_MAX, scratch, see_again, &t);
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
    struct registry registry;
    struct span file = span_of(data, size);
    CHECK(scratch != NULL && registry_create(&registry, key));
    uint64_t whole = read_file(file, SIZE_MAX, scratch, see_first, &registry);
    CHECK(read_file(file, 1, scratch, NULL, NULL) == whole);
    draw(file, &registry, scratch);
    registry_destroy(&registry);
    free(scratch);
    return 0;
}
