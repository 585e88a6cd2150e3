#include "mpa/startup.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "wire/crc32c.h"

static uint16_t min_u16(uint16_t a, uint16_t b)
{
    return a < b ? a : b;
}

static uint16_t max_u16(uint16_t a, uint16_t b)
{
    return a > b ? a : b;
}

void mpa_startup_init(struct mpa_startup *s, const struct mpa_startup_config *config)
{
    CHECK(config->revision == 1 || config->revision == 2);
    s->config = *config;
    s->request_crc = 0;
    s->frame = (struct mpa_startup_frame){0};
    s->rx_len = 0;
}

size_t mpa_startup_private_data_max(bool enhanced)
{
    return MPA_PRIVATE_DATA_MAX_LEN - (enhanced ? MPA_ENHANCED_LEN : 0);
}

/* ---- what a frame says ----------------------------------------------------------------------- */

static uint8_t rtr_kinds_of(const struct mpa_startup_frame *f)
{
    // RFC 6581 section 9.2: without A the other three are ignored.
    if (!f->peer_to_peer) {
        return MPA_RTR_NONE;
    }
    return (f->rtr_send ? MPA_RTR_SEND : 0) | (f->rtr_write ? MPA_RTR_WRITE : 0) |
           (f->rtr_read ? MPA_RTR_READ : 0);
}

static struct mpa_peer_facts facts_of(const struct mpa_startup_frame *f)
{
    bool offered = f->kind == MPA_REQUEST && (f->reserved & MPA_FLAG_EXTENSIONS) != 0;
    return (struct mpa_peer_facts){
        .revision = f->revision,
        .enhanced = f->enhanced,
        .crc = f->crc,
        .markers = f->markers,
        .peer_to_peer = f->peer_to_peer,
        .rtr_kinds = rtr_kinds_of(f),
        .ird = f->ird,
        .ord = f->ord,
        .extensions_offered = offered,
        .marker_wish = offered && (f->reserved & MPA_FLAG_MARKER_WISH) != 0,
        .private_data = f->private_data,
    };
}

static enum mpa_startup_verdict verdict_of_frame(enum mpa_frame_verdict verdict)
{
    static const enum mpa_startup_verdict verdicts[MPA_FRAME_VERDICT_COUNT] = {
        [MPA_FRAME_OK] = MPA_STARTUP_OK,
        [MPA_FRAME_INCOMPLETE] = MPA_STARTUP_INCOMPLETE,
        [MPA_FRAME_BAD_KEY] = MPA_STARTUP_BAD_KEY,
        [MPA_FRAME_WRONG_KIND] = MPA_STARTUP_WRONG_ROLE,
        [MPA_FRAME_REVISION] = MPA_STARTUP_REVISION,
        [MPA_FRAME_PD_TOO_LONG] = MPA_STARTUP_PD_TOO_LONG,
        [MPA_FRAME_ENHANCED_MISSING] = MPA_STARTUP_ENHANCED_MISSING,
    };
    return verdicts[verdict];
}

// Collects the peer's frame in s->rx, never an octet beyond it, and parses it into s->frame.
static enum mpa_startup_verdict collect_frame(struct mpa_startup *s, enum mpa_frame_kind kind,
                                              struct span stream, size_t *ret_consumed)
{
    size_t due;
    enum mpa_frame_verdict verdict;
    *ret_consumed = 0;
    for (;;) {
        verdict = mpa_startup_frame_parse(span_of(s->rx, s->rx_len), kind, &s->frame, &due);
        size_t left = stream.len - *ret_consumed;
        if (verdict != MPA_FRAME_INCOMPLETE || left == 0) {
            return verdict_of_frame(verdict);
        }
        size_t take = due - s->rx_len < left ? due - s->rx_len : left;
        memcpy(s->rx + s->rx_len, stream.ptr + *ret_consumed, take);
        s->rx_len += take;
        *ret_consumed += take;
    }
}

/* ---- initiator: Request ---------------------------------------------------------------------- */

static void set_rtr(struct mpa_startup_frame *f, uint8_t kinds)
{
    f->peer_to_peer = true;
    f->rtr_send = (kinds & MPA_RTR_SEND) != 0;
    f->rtr_write = (kinds & MPA_RTR_WRITE) != 0;
    f->rtr_read = (kinds & MPA_RTR_READ) != 0;
}

size_t mpa_startup_emit_request(struct mpa_startup *s, uint8_t *buf)
{
    const struct mpa_startup_config *c = &s->config;
    struct mpa_startup_frame f = {
        .kind = MPA_REQUEST,
        .markers = c->markers_wanted,
        .crc = c->crc_wanted,
        .enhanced = c->revision >= 2,
        .revision = c->revision,
        .private_data = c->private_data,
    };
    if (c->private_data.len > mpa_startup_private_data_max(f.enhanced)) {
        return 0;
    }
    if (c->extensions) {
        f.reserved = MPA_FLAG_EXTENSIONS | (c->marker_wish ? MPA_FLAG_MARKER_WISH : 0);
    }
    if (f.enhanced) {
        f.ird = c->leave_ird_ord ? MPA_IRD_ORD_UNNEGOTIATED : min_u16(c->ird, MPA_IRD_ORD_MAX);
        f.ord = c->leave_ird_ord ? MPA_IRD_ORD_UNNEGOTIATED : min_u16(c->ord, MPA_IRD_ORD_MAX);
        if (c->peer_to_peer) {
            CHECK((c->rtr_kinds & MPA_RTR_ALL) != 0);
            set_rtr(&f, c->rtr_kinds);
        }
    }
    size_t len = mpa_startup_frame_emit(&f, buf);
    s->request_crc = crc32c(buf, len);
    return len;
}

void mpa_startup_forgo_crc(struct mpa_startup *s, uint8_t *buf, size_t len)
{
    uint8_t *flags = buf + MPA_OFF_FLAGS;
    put_be16(flags, get_be16(flags) & (uint16_t)~MPA_FLAG_CRC);
    s->config.crc_wanted = false;
    s->request_crc = crc32c(buf, len);
}

/* ---- responder: Request in, Reply out -------------------------------------------------------- */

enum mpa_startup_verdict mpa_startup_on_request(struct mpa_startup *s, struct span stream,
                                                size_t *ret_consumed, struct mpa_peer_facts *ret)
{
    enum mpa_startup_verdict verdict = collect_frame(s, MPA_REQUEST, stream, ret_consumed);
    if (verdict != MPA_STARTUP_OK) {
        return verdict;
    }
    if (s->frame.enhanced && s->config.revision < 2) {
        return MPA_STARTUP_ENHANCED_UNSUPPORTED;
    }
    s->request_crc = crc32c(s->rx, s->rx_len);
    *ret = facts_of(&s->frame);
    return MPA_STARTUP_OK;
}

// The RTR kinds that the Reply names: those that both know; when there are none, all that we know,
// so that the initiator sees why it must give up (RFC 6581 section 9.2).
static uint8_t answer_rtr(const struct mpa_startup_frame *request,
                          const struct mpa_startup_config *c)
{
    uint8_t ours = c->rtr_kinds & MPA_RTR_ALL ? c->rtr_kinds & MPA_RTR_ALL : MPA_RTR_ALL;
    uint8_t common = rtr_kinds_of(request) & ours;
    return common != MPA_RTR_NONE ? common : ours;
}

// IRD, ORD and RTR of an enhanced Reply, and what they mean for us (RFC 6581 sections 9.1, 9.2).
static void answer_enhanced(const struct mpa_startup_frame *request,
                            const struct mpa_startup_config *c, struct mpa_startup_frame *reply,
                            struct mpa_agreement *a)
{
    a->ird = min_u16(c->ird, MPA_IRD_ORD_MAX);
    a->ord = min_u16(c->ord, MPA_IRD_ORD_MAX);
    if (request->peer_to_peer) {
        a->rtr = answer_rtr(request, c);
        set_rtr(reply, a->rtr);
        if (a->rtr & MPA_RTR_READ) {
            a->ird = max_u16(a->ird, 1); // else the indication itself would be one Read too many
        }
    }
    reply->ird = request->ord == MPA_IRD_ORD_UNNEGOTIATED ? MPA_IRD_ORD_UNNEGOTIATED : a->ird;
    if (request->ird == MPA_IRD_ORD_UNNEGOTIATED) {
        reply->ord = MPA_IRD_ORD_UNNEGOTIATED;
    } else {
        a->ord = min_u16(a->ord, request->ird);
        reply->ord = a->ord;
    }
}

// Appends the extension block to the private data in `joined`, if the Request offers the
// extensions, we take them, and there is room.
static void answer_extensions(const struct mpa_startup *s, const struct mpa_startup_config *c,
                              struct mpa_startup_frame *reply, uint8_t *joined,
                              struct mpa_agreement *a)
{
    struct mpa_peer_facts request = facts_of(&s->frame);
    size_t total =
        (reply->enhanced ? MPA_ENHANCED_LEN : 0) + reply->private_data.len + EXTENSION_BLOCK_LEN;
    if (!c->extensions || !request.extensions_offered || total > MPA_PRIVATE_DATA_CAREFUL_LEN) {
        return;
    }
    struct extension_block block = {
        .request_crc = s->request_crc,
        .encodings = c->encodings,
        .marker_wish = c->marker_wish,
        .allotment_len = c->allotment_len,
    };
    if (reply->private_data.len > 0) {
        memcpy(joined, reply->private_data.ptr, reply->private_data.len);
    }
    size_t block_len = extension_block_emit(&block, joined + reply->private_data.len);
    reply->private_data = span_of(joined, reply->private_data.len + block_len);
    a->extensions = true;
    a->extensions_await_choices = true;
    a->rx_markers_if_seen = c->marker_wish && !a->rx_markers;
    a->peer_marker_wish = request.marker_wish;
    a->encodings = c->encodings;
    a->allotment_len = a->own_allotment_len = c->allotment_len;
}

size_t mpa_startup_emit_accept(struct mpa_startup *s, const struct mpa_startup_config *config,
                               uint8_t *buf, struct mpa_agreement *ret)
{
    const struct mpa_startup_frame *request = &s->frame;
    uint8_t joined[MPA_PRIVATE_DATA_CAREFUL_LEN];
    bool crc = config->crc_wanted || request->crc;
    struct mpa_startup_frame reply = {
        .kind = MPA_REPLY,
        .markers = config->markers_wanted,
        // What holds, not what we want: siw takes the Reply's word alone, wanted or not.
        .crc = crc,
        .enhanced = request->enhanced,
        .revision = request->revision,
        .private_data = config->private_data,
    };
    if (config->private_data.len > mpa_startup_private_data_max(reply.enhanced)) {
        return 0;
    }
    *ret = (struct mpa_agreement){
        .crc = crc,
        .tx_markers = request->markers,
        .rx_markers = config->markers_wanted,
        .revision = request->revision,
        .enhanced = request->enhanced,
        .ird = config->ird,
        .ord = config->ord,
    };
    if (reply.enhanced) {
        answer_enhanced(request, config, &reply, ret);
    }
    answer_extensions(s, config, &reply, joined, ret);
    return mpa_startup_frame_emit(&reply, buf);
}

size_t mpa_startup_emit_reject(struct mpa_startup *s, const struct mpa_startup_config *config,
                               uint8_t *buf)
{
    const struct mpa_startup_frame *request = &s->frame;
    struct mpa_startup_frame reply = {
        .kind = MPA_REPLY,
        .crc = request->crc,
        .reject = true,
        .enhanced = request->enhanced,
        .revision = request->revision,
        .private_data = config->private_data,
    };
    if (config->private_data.len > mpa_startup_private_data_max(reply.enhanced)) {
        return 0;
    }
    if (reply.enhanced) {
        reply.ird = min_u16(config->ird, MPA_IRD_ORD_MAX);
        reply.ord = min_u16(config->ord, MPA_IRD_ORD_MAX);
        if (request->peer_to_peer) {
            set_rtr(&reply, answer_rtr(request, config));
        }
    }
    return mpa_startup_frame_emit(&reply, buf);
}

/* ---- initiator: Reply ------------------------------------------------------------------------ */

static uint32_t smaller_allotment(uint32_t a, uint32_t b)
{
    return a < b ? a : b; // 0, none, wins over any
}

// Looks for the block, strips it from what the application sees, and takes what it offers.
static void read_extensions(const struct mpa_startup *s, struct mpa_peer_facts *facts,
                            struct mpa_agreement *a)
{
    const struct mpa_startup_config *c = &s->config;
    struct extension_block block;
    a->extension_verdict = EXTENSION_ABSENT;
    if (!c->extensions) {
        return;
    }
    a->extension_verdict = extension_block_parse(facts->private_data, s->request_crc, &block);
    if (a->extension_verdict != EXTENSION_OK) {
        a->peer_echoes = (s->frame.reserved & MPA_FLAG_EXTENSIONS) != 0;
        return;
    }
    facts->private_data =
        span_first(facts->private_data, facts->private_data.len - EXTENSION_BLOCK_LEN);
    a->extensions = true;
    a->tx_markers = a->tx_markers || block.marker_wish;
    a->rx_markers = a->rx_markers || c->marker_wish;
    a->encoding = extension_oneshot_common(c->encodings, block.encodings);
    a->encodings = a->encoding;
    a->own_allotment_len = c->allotment_len;
    a->peer_allotment_len = block.allotment_len;
    a->allotment_len = smaller_allotment(c->allotment_len, block.allotment_len);
}

// The RTR to send: Write and Read need nothing from the peer's application, a Send might.
static uint8_t choose_rtr(const struct mpa_startup_frame *reply, uint8_t kinds)
{
    uint8_t common = rtr_kinds_of(reply) & kinds;
    if (common & MPA_RTR_WRITE) {
        return MPA_RTR_WRITE;
    }
    if ((common & MPA_RTR_READ) && reply->ird > 0) {
        return MPA_RTR_READ;
    }
    return common & MPA_RTR_SEND;
}

static enum mpa_startup_verdict read_enhanced(const struct mpa_startup *s, struct mpa_agreement *a)
{
    const struct mpa_startup_config *c = &s->config;
    const struct mpa_startup_frame *reply = &s->frame;
    bool is_negotiated = !c->leave_ird_ord;
    if (is_negotiated && reply->ird != MPA_IRD_ORD_UNNEGOTIATED) {
        a->ord = min_u16(a->ord, reply->ird);
    }
    if (is_negotiated && reply->ord != MPA_IRD_ORD_UNNEGOTIATED) {
        if (reply->ord > max_u16(c->ird, c->ird_max)) {
            return MPA_STARTUP_INSUFFICIENT_IRD;
        }
        a->ird = max_u16(a->ird, reply->ord);
    }
    if (c->peer_to_peer) {
        a->rtr = choose_rtr(reply, c->rtr_kinds);
        if (a->rtr == MPA_RTR_NONE) {
            return MPA_STARTUP_NO_RTR;
        }
        if (a->rtr == MPA_RTR_READ) {
            a->ord = max_u16(a->ord, 1);
        }
    }
    return MPA_STARTUP_OK;
}

enum mpa_startup_verdict mpa_startup_on_reply(struct mpa_startup *s, struct span stream,
                                              size_t *ret_consumed,
                                              struct mpa_peer_facts *ret_facts,
                                              struct mpa_agreement *ret)
{
    const struct mpa_startup_config *c = &s->config;
    const struct mpa_startup_frame *reply = &s->frame;
    enum mpa_startup_verdict verdict = collect_frame(s, MPA_REPLY, stream, ret_consumed);
    if (verdict != MPA_STARTUP_OK) {
        return verdict;
    }
    *ret_facts = facts_of(reply);
    if (reply->reject) {
        return MPA_STARTUP_REJECTED;
    }
    if (reply->enhanced != (c->revision >= 2)) {
        return MPA_STARTUP_ENHANCED_MISMATCH;
    }
    *ret = (struct mpa_agreement){
        .crc = c->crc_wanted || reply->crc,
        .tx_markers = reply->markers,
        .rx_markers = c->markers_wanted,
        .revision = reply->revision,
        .enhanced = reply->enhanced,
        .ird = c->ird,
        .ord = c->ord,
    };
    read_extensions(s, ret_facts, ret);
    return reply->enhanced ? read_enhanced(s, ret) : MPA_STARTUP_OK;
}

/* ---- responder: the first FPDU --------------------------------------------------------------- */

bool mpa_agreement_confirm(struct mpa_agreement *a, const struct extension_message *choices)
{
    CHECK(a->extensions_await_choices);
    bool asked_markers = a->rx_markers_if_seen;
    a->extensions_await_choices = false;
    a->rx_markers_if_seen = false;
    bool is_right = choices != NULL && choices->kind == EXTENSION_CHOICES &&
                    (choices->encoding & ~a->encodings) == 0;
    if (!is_right) {
        a->extensions = false;
        a->encodings = 0;
        a->allotment_len = 0;
        return choices == NULL;
    }
    a->tx_markers = a->tx_markers || a->peer_marker_wish;
    a->rx_markers = a->rx_markers || asked_markers;
    a->encoding = choices->encoding;
    a->encodings = choices->encoding;
    a->peer_allotment_len = choices->allotment_len;
    a->allotment_len = smaller_allotment(a->own_allotment_len, choices->allotment_len);
    return true;
}

struct extension_message mpa_agreement_choices(const struct mpa_agreement *a)
{
    CHECK(a->extensions);
    return (struct extension_message){
        .kind = EXTENSION_CHOICES,
        .encoding = a->encoding,
        .allotment_len = a->own_allotment_len,
    };
}

const char *mpa_agreement_format(const struct mpa_agreement *a, char *buf, size_t len)
{
    snprintf(buf, len, "rev=%u%s%s%s%s ird=%u ord=%u rtr=0x%x%s", a->revision,
             a->enhanced ? " enhanced" : "", a->crc ? " crc" : "",
             a->tx_markers ? " tx-markers" : "", a->rx_markers ? " rx-markers" : "", a->ird, a->ord,
             a->rtr, a->peer_echoes ? " peer-echoes" : "");
    if (a->extensions) {
        size_t used = strnlen(buf, len);
        snprintf(buf + used, len - used, " extensions%s oneshot=%02x allotment=%u",
                 a->extensions_await_choices ? "(offered)" : "", a->encoding, a->allotment_len);
    }
    return buf;
}

/* ---- verdicts -------------------------------------------------------------------------------- */

const char *mpa_startup_verdict_name(enum mpa_startup_verdict verdict)
{
    static const char *const names[MPA_STARTUP_VERDICT_COUNT] = {
        [MPA_STARTUP_OK] = "ok",
        [MPA_STARTUP_INCOMPLETE] = "incomplete",
        [MPA_STARTUP_REJECTED] = "rejected by the peer's application",
        [MPA_STARTUP_BAD_KEY] = "not an MPA start-up frame",
        [MPA_STARTUP_WRONG_ROLE] = "both ends started in the same role",
        [MPA_STARTUP_REVISION] = "unknown MPA revision",
        [MPA_STARTUP_PD_TOO_LONG] = "private data longer than 512 octets",
        [MPA_STARTUP_ENHANCED_MISSING] = "S is set without the IRD and ORD octets",
        [MPA_STARTUP_ENHANCED_UNSUPPORTED] = "enhanced Request, but we speak revision 1",
        [MPA_STARTUP_ENHANCED_MISMATCH] = "Request and Reply are not both enhanced",
        [MPA_STARTUP_INSUFFICIENT_IRD] = "insufficient IRD resources",
        [MPA_STARTUP_NO_RTR] = "no matching RTR option",
    };
    return names[verdict];
}

enum terminate_cause mpa_startup_verdict_cause(enum mpa_startup_verdict verdict)
{
    switch (verdict) {
    case MPA_STARTUP_OK:
    case MPA_STARTUP_INCOMPLETE:
    case MPA_STARTUP_REJECTED:
        return TERM_NONE;
    case MPA_STARTUP_INSUFFICIENT_IRD:
        return TERM_MPA_INSUFFICIENT_IRD;
    case MPA_STARTUP_NO_RTR:
        return TERM_MPA_NO_RTR;
    default:
        return TERM_MPA_STARTUP;
    }
}
