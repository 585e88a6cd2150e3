#include "draw/ulpdu.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "text/quantity.h"
#include "wire/ddp.h"
#include "wire/extension.h"
#include "wire/oneshot.h"
#include "wire/rdmap.h"
#include "wire/terminate.h"

struct segment {
    struct ddp_header ddp;
    uint8_t opcode;
    struct span payload; // behind the DDP header
};

__attribute__((format(printf, 2, 3))) static void label(struct story_event *e, const char *format,
                                                        ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(e->label, sizeof e->label, format, args);
    va_end(args);
}

// What follows the words of a message that goes on.
static const char *more(const struct segment *g)
{
    return g->ddp.last ? "" : " …";
}

/* ---- messages -------------------------------------------------------------------------------- */

static unsigned message_class(const struct segment *g)
{
    if (g->ddp.tagged) {
        return g->opcode == RDMAP_READ_RESPONSE ? 0 : 1;
    }
    return g->ddp.qn < DDP_QN_COUNT ? 2 + g->ddp.qn : ULPDU_MESSAGES - 1;
}

static void message_tell(struct ulpdu_message *m, struct story *s, unsigned side)
{
    if (m->fpdus < 2) {
        return;
    }
    uint32_t span = story_span_begin(s, STORY_MESSAGE, side, m->first_event);
    story_span_end(s, span, story_last(s));
    struct story_span *it = story_span_at(s, span);
    if (it != NULL) {
        snprintf(it->detail, sizeof it->detail,
                 "One message: %" PRIu32 " FPDUs, %" PRIu64 " octets", m->fpdus, m->len);
    }
}

// What began beyond a hole is next.
static void message_end(struct ulpdu_message m[2], struct story *s, unsigned side)
{
    message_tell(&m[0], s, side);
    m[0] = m[1];
    m[1].number = 0;
}

static bool is_of(const struct ulpdu_message *m, const struct segment *g, bool is_early)
{
    return m->number != 0 && !(m->is_last_early && is_early) &&
           (g->ddp.tagged || g->ddp.msn == m->msn);
}

// Counts the segment into its message. One that came early may be the last before others have come;
// what is early behind it is of the next message.
static void message_count(struct ulpdu_teller *t, unsigned side, const struct segment *g,
                          unsigned flags, struct story_event *e)
{
    struct ulpdu_message *under_way = t->message[side][message_class(g)];
    bool is_early = (flags & STORY_EARLY) != 0;
    bool is_next = is_early && under_way->number != 0 && !is_of(under_way, g, is_early);
    struct ulpdu_message *m = is_next ? under_way + 1 : under_way;
    if (!is_of(m, g, is_early)) {
        *m = (struct ulpdu_message){.number = ++t->story->message_count,
                                    .first_event = story_last(t->story),
                                    .msn = g->ddp.msn};
    }
    m->fpdus++;
    m->len += g->payload.len;
    if (e != NULL) {
        e->message = m->number;
    }
    if (g->ddp.last && is_early) {
        m->is_last_early = true;
    } else if (g->ddp.last) {
        message_end(under_way, t->story, side);
    }
}

void ulpdu_settle(struct ulpdu_teller *t, unsigned side)
{
    for (unsigned i = 0; i < ULPDU_MESSAGES; i++) {
        struct ulpdu_message *m = t->message[side][i];
        while (m->number != 0 && m->is_last_early) {
            message_end(m, t->story, side);
        }
    }
}

/* ---- one opcode each ------------------------------------------------------------------------- */

static void tell_send(struct ulpdu_teller *t, unsigned side, const struct segment *g,
                      struct story_event *e)
{
    struct oneshot_send send = {.mark = ONESHOT_NONE, .opcode = (enum rdmap_opcode)g->opcode};
    if (oneshot_read(t->oneshot, &g->ddp, &send) != ONESHOT_OK) {
        send = (struct oneshot_send){.opcode = (enum rdmap_opcode)g->opcode};
    }
    const char *name = rdmap_opcode_facts((uint8_t)send.opcode)->name;
    bool invalidates = rdmap_opcode_facts((uint8_t)send.opcode)->invalidates;
    uint32_t stag = g->ddp.rsvdulp_stag;
    if (e != NULL && send.mark != ONESHOT_NONE) {
        label(e, "%s · %s STag 0x%08" PRIx32 " · %zu%s", name,
              send.mark == ONESHOT_ADVERTISE ? "advertises" : "closes", stag, g->payload.len,
              more(g));
    } else if (e != NULL && invalidates) {
        label(e, "%s 0x%08" PRIx32 " · %zu%s", name, stag, g->payload.len, more(g));
    } else if (e != NULL) {
        label(e, "%s · %zu%s", name, g->payload.len, more(g));
    }
    if (g->ddp.last && send.mark == ONESHOT_ADVERTISE) {
        lives_on_advertise(&t->lives, t->story, side, stag);
    } else if (g->ddp.last && send.mark == ONESHOT_CLOSE) {
        lives_on_end(&t->lives, t->story, 1 - side, stag, "closed by the answer");
    } else if (g->ddp.last && invalidates) {
        lives_on_end(&t->lives, t->story, 1 - side, stag, "invalidated by a Send");
    }
}

static void tell_write(struct ulpdu_teller *t, unsigned side, const struct segment *g,
                       struct story_event *e)
{
    lives_on_use(&t->lives, t->story, 1 - side, g->ddp.stag);
    if (e != NULL) {
        label(e, "Write · STag 0x%08" PRIx32 " +0x%" PRIx64 " · %zu%s", g->ddp.stag, g->ddp.to,
              g->payload.len, more(g));
    }
}

static void tell_read_response(struct ulpdu_teller *t, unsigned side, const struct segment *g,
                               struct story_event *e)
{
    lives_on_response(&t->lives, t->story, 1 - side, g->ddp.stag, g->ddp.to,
                      (uint32_t)g->payload.len, g->ddp.last);
    if (e != NULL) {
        label(e, "Read Response · STag 0x%08" PRIx32 " +0x%" PRIx64 " · %zu%s", g->ddp.stag,
              g->ddp.to, g->payload.len, more(g));
    }
}

static void tell_read_request(struct ulpdu_teller *t, unsigned side, const struct segment *g,
                              struct story_event *e)
{
    struct rdmap_read_request r;
    enum rdmap_parse_verdict verdict = rdmap_read_request_parse(g->payload, &r);
    if (verdict != RDMAP_PARSE_OK) {
        if (e != NULL) {
            e->kind = STORY_TROUBLE;
            label(e, "Read Request · %s", rdmap_parse_verdict_name(verdict));
        }
        return;
    }
    struct lives_request request = {.sink_key = r.sink_stag,
                                    .source_key = r.src_stag,
                                    .sink_to = r.sink_to,
                                    .source_to = r.src_to,
                                    .len = r.rdmardsz,
                                    .name = r.sink_stag,
                                    .begin = r.sink_to,
                                    .extent = r.rdmardsz};
    struct lives_part part = lives_on_request(&t->lives, t->story, side, &request);
    lives_on_use(&t->lives, t->story, 1 - side, r.src_stag);
    if (e != NULL) {
        char size[TEXT_SIZE_MAX];
        label(e, "Read Request %" PRIu32 ".%" PRIu32 " · %s of STag 0x%08" PRIx32 " +0x%" PRIx64,
              part.read, part.part, text_size_format_exactly(r.rdmardsz, size), r.src_stag,
              r.src_to);
        rdmap_read_request_format(&r, e->detail, sizeof e->detail);
    }
}

static void tell_atomic(struct ulpdu_teller *t, unsigned side, const struct segment *g,
                        struct story_event *e)
{
    struct rdmap_atomic_request request;
    struct rdmap_atomic_response response;
    if (e == NULL) {
        return;
    }
    if (g->opcode == RDMAP_ATOMIC_REQUEST &&
        rdmap_atomic_request_parse(g->payload, &request) == RDMAP_PARSE_OK) {
        label(e, "%s · STag 0x%08" PRIx32 " +0x%" PRIx64,
              request.opcode == RDMAP_ATOMIC_CMP_SWAP ? "Compare and Swap" : "Fetch and Add",
              request.stag, request.to);
        rdmap_atomic_request_format(&request, e->detail, sizeof e->detail);
    } else if (g->opcode == RDMAP_ATOMIC_RESPONSE &&
               rdmap_atomic_response_parse(g->payload, &response) == RDMAP_PARSE_OK) {
        label(e, "Atomic Response · was 0x%" PRIx64, response.original);
        rdmap_atomic_response_format(&response, e->detail, sizeof e->detail);
    } else {
        e->kind = STORY_TROUBLE;
        label(e, "atomic operation of %zu octets, which is no right length", g->payload.len);
    }
}

static void tell_terminate(struct ulpdu_teller *t, unsigned side, const struct segment *g,
                           struct story_event *e)
{
    struct terminate it;
    if (e == NULL) {
        return;
    }
    if (terminate_parse(g->payload, TERMINATE_ORDER_RFC, &it) == TERMINATE_TOO_SHORT) {
        label(e, "Terminate · too short to say why");
        return;
    }
    enum terminate_cause cause = terminate_cause_find(it.layer, it.etype, it.code);
    if (cause == TERM_NONE) {
        terminate_parse(g->payload, TERMINATE_ORDER_SIW, &it);
        cause = terminate_cause_find(it.layer, it.etype, it.code);
    }
    label(e, "Terminate · %s",
          cause == TERM_NONE ? "for a reason no RFC has" : terminate_cause_facts(cause)->text);
    terminate_format(&it, e->detail, sizeof e->detail);
}

static void tell_extension(struct ulpdu_teller *t, unsigned side, const struct segment *g,
                           struct story_event *e)
{
    struct extension_message m;
    enum extension_message_verdict verdict = extension_message_parse(g->payload, &m);
    if (verdict == EXTENSION_MESSAGE_OK && m.kind == EXTENSION_CHOICES) {
        t->oneshot = m.encoding;
    }
    if (e == NULL) {
        return;
    }
    if (verdict != EXTENSION_MESSAGE_OK) {
        e->kind = STORY_TROUBLE;
        label(e, "extension message · %s", extension_message_verdict_name(verdict));
        return;
    }
    static const char *const names[] = {[EXTENSION_CHOICES] = "choices",
                                        [EXTENSION_ALLOTMENT] = "new allotment",
                                        [EXTENSION_TAKEN] = "allotment taken"};
    char size[TEXT_SIZE_MAX];
    label(e, "weft's %s · read allotment %s%s%s", names[m.kind],
          m.allotment_len == 0 ? "none" : text_size_format(m.allotment_len, size),
          m.encoding != 0 ? " · one-shot by " : "",
          m.encoding == 0                          ? ""
          : (m.encoding & EXTENSION_ONESHOT_FLAGS) ? "flags"
                                                   : "opcode");
    extension_message_format(&m, e->detail, sizeof e->detail);
}

static void tell_immediate(struct ulpdu_teller *t, unsigned side, const struct segment *g,
                           struct story_event *e)
{
    if (e != NULL) {
        label(e, "%s · %zu", rdmap_opcode_facts(g->opcode)->name, g->payload.len);
    }
}

typedef void (*tell_fn)(struct ulpdu_teller *, unsigned, const struct segment *,
                        struct story_event *);

static const struct {
    enum story_kind kind;
    tell_fn tell;
} rows[RDMAP_OPCODE_COUNT] = {
    [RDMAP_WRITE] = {STORY_WRITE, tell_write},
    [RDMAP_READ_REQUEST] = {STORY_READ_REQUEST, tell_read_request},
    [RDMAP_READ_RESPONSE] = {STORY_READ_RESPONSE, tell_read_response},
    [RDMAP_SEND] = {STORY_SEND, tell_send},
    [RDMAP_SEND_INV] = {STORY_SEND, tell_send},
    [RDMAP_SEND_SE] = {STORY_SEND, tell_send},
    [RDMAP_SEND_SE_INV] = {STORY_SEND, tell_send},
    [RDMAP_TERMINATE] = {STORY_TROUBLE, tell_terminate},
    [RDMAP_IMMEDIATE] = {STORY_SEND, tell_immediate},
    [RDMAP_IMMEDIATE_SE] = {STORY_SEND, tell_immediate},
    [RDMAP_ATOMIC_REQUEST] = {STORY_ATOMIC, tell_atomic},
    [RDMAP_ATOMIC_RESPONSE] = {STORY_ATOMIC, tell_atomic},
    [ONESHOT_OPCODE_CLOSE] = {STORY_SEND, tell_send},
    [RDMAP_EXTENSION] = {STORY_CONTROL, tell_extension},
};

/* ---- any ------------------------------------------------------------------------------------- */

static void tell_unparsed(struct ulpdu_teller *t, unsigned side, struct span ulpdu, unsigned flags,
                          const char *why)
{
    struct story_event *e = story_add(t->story, STORY_TROUBLE, side);
    if (e != NULL) {
        e->fpdus = 1;
        e->flags = (uint8_t)flags;
        e->len = (uint32_t)ulpdu.len;
        label(e, "FPDU of %zu octets · %s", ulpdu.len, why);
    }
}

static tell_fn teller_of(const struct ulpdu_teller *t, const struct segment *g)
{
    bool is_opcode = (t->oneshot & EXTENSION_ONESHOT_OPCODE) != 0;
    if (is_opcode && g->opcode == ONESHOT_OPCODE_ADVERTISE) {
        return tell_send;
    }
    if (!is_opcode && g->opcode == ONESHOT_OPCODE_CLOSE) {
        return NULL;
    }
    return rows[g->opcode].tell;
}

bool ulpdu_is_likely(struct span ulpdu)
{
    struct ddp_header h;
    size_t len;
    if (ddp_header_parse(ulpdu, &h, &len) != DDP_PARSE_OK) {
        return false;
    }
    uint8_t opcode = rdmap_control_opcode(h.rsvdulp);
    const struct rdmap_opcode_facts *facts = rdmap_opcode_facts(opcode);
    return rdmap_control_version(h.rsvdulp) == RDMAP_VERSION && rows[opcode].tell != NULL &&
           (!facts->is_known || facts->is_tagged == h.tagged);
}

void ulpdu_tell(struct ulpdu_teller *t, unsigned side, struct span ulpdu, unsigned flags)
{
    struct segment g;
    size_t header_len;
    enum ddp_parse_verdict verdict = ddp_header_parse(ulpdu, &g.ddp, &header_len);
    if (verdict != DDP_PARSE_OK) {
        tell_unparsed(t, side, ulpdu, flags, ddp_parse_verdict_name(verdict));
        return;
    }
    g.opcode = rdmap_control_opcode(g.ddp.rsvdulp);
    g.payload = span_skip(ulpdu, header_len);
    tell_fn tell = teller_of(t, &g);
    if (tell == NULL) {
        tell_unparsed(t, side, ulpdu, flags, "an opcode of RDMAP that is not in use");
        return;
    }
    struct story_event *e = story_add(t->story, rows[g.opcode].kind, side);
    if (e != NULL) {
        e->fpdus = 1;
        e->flags = (uint8_t)flags;
        e->len = (uint32_t)g.payload.len;
        ddp_header_format(&g.ddp, e->detail, sizeof e->detail);
    }
    message_count(t, side, &g, flags, e);
    tell(t, side, &g, e);
}
