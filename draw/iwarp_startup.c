#include "draw/iwarp_startup.h"

#include <stdio.h>
#include <string.h>

#include "draw/story.h"
#include "text/append.h"
#include "text/quantity.h"
#include "text/show.h"
#include "wire/crc32c.h"
#include "wire/extension.h"
#include "wire/mpa.h"

enum { PRIVATE_SHOWN_MAX = 24 }; // octets of private data that are shown

static void tell_private(char *text, size_t capacity, struct span data)
{
    char hex[2 * PRIVATE_SHOWN_MAX + 1];
    size_t len = data.len < PRIVATE_SHOWN_MAX ? data.len : PRIVATE_SHOWN_MAX;
    if (data.len > 0) {
        text_append(text, capacity, "; private data %s%s", text_hex(data.ptr, len, hex),
                    len < data.len ? "…" : "");
    }
}

// weft's own block at the end of a Reply's private data.
static void agree_extensions(struct iwarp_connection *c, struct span private_data)
{
    struct extension_block block;
    char size[TEXT_SIZE_MAX];
    if (extension_block_parse(private_data, c->request_crc, &block) != EXTENSION_OK) {
        return;
    }
    text_append(c->agreed, sizeof c->agreed, ", weft's extensions");
    if (block.allotment_len != 0) {
        text_append(c->agreed, sizeof c->agreed, " (reads of %s at most)",
                    text_size_format(block.allotment_len, size));
    }
}

static void agree(struct iwarp_connection *c, const struct mpa_startup_frame *reply)
{
    if (!c->has_request || reply->reject) {
        return;
    }
    const char *to_responder = reply->markers ? "to the responder" : NULL;
    const char *to_initiator = c->request.markers ? "to the initiator" : NULL;
    snprintf(c->agreed, sizeof c->agreed, "MPA revision %u, %s, markers %s%s%s", reply->revision,
             c->request.crc || reply->crc ? "CRC" : "no CRC",
             to_responder != NULL ? to_responder : "",
             to_responder != NULL && to_initiator != NULL ? " and " : "",
             to_initiator != NULL ? to_initiator : (to_responder != NULL ? "" : "off"));
    agree_extensions(c, reply->private_data);
}

static void tell_frame(struct iwarp_side *s, const struct mpa_startup_frame *f)
{
    struct iwarp_connection *c = s->connection;
    struct story_event *e = story_add(c->teller.story, STORY_START, s->number);
    if (e == NULL) {
        return;
    }
    snprintf(e->label, sizeof e->label, "MPA %s", f->kind == MPA_REQUEST ? "Request" : "Reply");
    if (f->kind == MPA_REPLY && f->reject) {
        text_append(e->label, sizeof e->label, " · rejects");
    }
    if (f->enhanced) {
        text_append(e->label, sizeof e->label, " · IRD %u, ORD %u", f->ird, f->ord);
    }
    text_append(e->label, sizeof e->label, " · %zu octets of private data", f->private_data.len);
    mpa_startup_frame_format(f, e->detail, sizeof e->detail);
    if (f->kind == MPA_REPLY && c->agreed[0] != '\0') {
        text_append(e->detail, sizeof e->detail, "; agreed: %s", c->agreed);
    }
    tell_private(e->detail, sizeof e->detail, f->private_data);
}

static void on_frame(struct iwarp_side *s, const struct mpa_startup_frame *f, size_t len)
{
    struct iwarp_connection *c = s->connection;
    if (f->kind == MPA_REQUEST) {
        c->request = *f;
        c->has_request = true;
        c->request_crc = crc32c(s->startup, len);
    } else {
        c->reply = *f;
        c->has_reply = true;
        agree(c, f);
    }
    tell_frame(s, f);
    c->request.private_data = c->reply.private_data = (struct span){0};
}

static enum mpa_frame_verdict parse(const struct iwarp_side *s, struct mpa_startup_frame *ret,
                                    size_t *ret_len)
{
    struct span octets = span_of(s->startup, s->startup_len);
    enum mpa_frame_verdict verdict = mpa_startup_frame_parse(octets, MPA_REQUEST, ret, ret_len);
    return verdict == MPA_FRAME_WRONG_KIND
               ? mpa_startup_frame_parse(octets, MPA_REPLY, ret, ret_len)
               : verdict;
}

static void tell_refused(struct iwarp_side *s, enum mpa_frame_verdict verdict)
{
    struct story_event *e = story_add(s->connection->teller.story, STORY_TROUBLE, s->number);
    s->phase = IWARP_LOST;
    if (e != NULL) {
        snprintf(e->label, sizeof e->label, "MPA start-up · %s", mpa_frame_verdict_name(verdict));
    }
}

size_t iwarp_startup_feed(struct iwarp_side *s, struct span octets)
{
    struct mpa_startup_frame frame;
    size_t before = s->startup_len, len;
    size_t room = sizeof s->startup - before;
    size_t taken = octets.len < room ? octets.len : room;
    memcpy(s->startup + before, octets.ptr, taken);
    s->startup_len += taken;
    enum mpa_frame_verdict verdict = parse(s, &frame, &len);
    if (verdict == MPA_FRAME_INCOMPLETE) {
        return taken;
    }
    if (verdict != MPA_FRAME_OK) {
        tell_refused(s, verdict);
        return taken;
    }
    on_frame(s, &frame, len);
    s->phase = IWARP_FULL;
    return len - before;
}
