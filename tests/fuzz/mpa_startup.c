// Octets of a peer as Request to a responder and as Reply to an initiator, whole and in single
// octets. The first octet of the input draws our own configuration.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "mpa/startup.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct mpa_startup_config config_of(uint8_t draw)
{
    return (struct mpa_startup_config){
        .revision = draw & 1 ? 2 : 1,
        .crc_wanted = draw & 2,
        .markers_wanted = draw & 4,
        .ird = draw & 8 ? 0 : 16,
        .ird_max = 32,
        .ord = 16,
        .leave_ird_ord = draw & 16,
        .peer_to_peer = draw & 32,
        .rtr_kinds = draw & 64 ? MPA_RTR_READ : MPA_RTR_ALL,
        .extensions = draw & 128,
        .marker_wish = draw & 2,
        .encodings = EXTENSION_ONESHOT_FLAGS | EXTENSION_ONESHOT_PARTS,
        .allotment_len = 65536,
        .private_data = span_of("ours", 4),
    };
}

static void check_agreement(const struct mpa_agreement *a)
{
    char line[200];
    CHECK(a->ird <= MPA_IRD_ORD_MAX && a->ord <= MPA_IRD_ORD_MAX);
    CHECK(a->revision == 1 || a->revision == 2);
    CHECK(a->rtr <= MPA_RTR_ALL);
    CHECK(a->enhanced || a->rtr == MPA_RTR_NONE);
    CHECK(mpa_agreement_format(a, line, sizeof line) == line);
}

// What we answer to a Request is a good frame and makes the same connection for the peer.
static void answer(struct mpa_startup *s, const struct mpa_startup_config *c)
{
    uint8_t reply[MPA_STARTUP_MAX_LEN];
    struct mpa_startup_frame f;
    struct mpa_agreement a;
    size_t frame_len;
    size_t len = mpa_startup_emit_accept(s, c, reply, &a);
    CHECK(mpa_startup_frame_parse(span_of(reply, len), MPA_REPLY, &f, &frame_len) == MPA_FRAME_OK);
    CHECK(frame_len == len && f.crc == a.crc && f.enhanced == s->frame.enhanced);
    check_agreement(&a);
    if (a.extensions_await_choices) {
        mpa_agreement_confirm(&a, NULL);
        CHECK(!a.extensions);
    }
    len = mpa_startup_emit_reject(s, c, reply);
    CHECK(mpa_startup_frame_parse(span_of(reply, len), MPA_REPLY, &f, &frame_len) == MPA_FRAME_OK);
    CHECK(f.reject);
}

static enum mpa_startup_verdict respond(const struct mpa_startup_config *c, struct span in,
                                        size_t step)
{
    struct mpa_startup s;
    struct mpa_peer_facts facts;
    enum mpa_startup_verdict v = MPA_STARTUP_INCOMPLETE;
    mpa_startup_init(&s, c);
    for (size_t at = 0; at < in.len && v == MPA_STARTUP_INCOMPLETE;) {
        size_t consumed, len = step < in.len - at ? step : in.len - at;
        v = mpa_startup_on_request(&s, span_of(in.ptr + at, len), &consumed, &facts);
        CHECK(consumed <= len);
        at += consumed;
    }
    if (v == MPA_STARTUP_OK) {
        CHECK(facts.private_data.len <= mpa_startup_private_data_max(facts.enhanced));
        answer(&s, c);
    }
    return v;
}

static enum mpa_startup_verdict initiate(const struct mpa_startup_config *c, struct span in,
                                         size_t step)
{
    struct mpa_startup s;
    struct mpa_peer_facts facts;
    struct mpa_agreement a;
    uint8_t request[MPA_STARTUP_MAX_LEN];
    enum mpa_startup_verdict v = MPA_STARTUP_INCOMPLETE;
    mpa_startup_init(&s, c);
    CHECK(mpa_startup_emit_request(&s, request) > 0);
    for (size_t at = 0; at < in.len && v == MPA_STARTUP_INCOMPLETE;) {
        size_t consumed, len = step < in.len - at ? step : in.len - at;
        v = mpa_startup_on_reply(&s, span_of(in.ptr + at, len), &consumed, &facts, &a);
        CHECK(consumed <= len);
        at += consumed;
    }
    if (v == MPA_STARTUP_OK) {
        check_agreement(&a);
        CHECK(c->leave_ird_ord || facts.ird == MPA_IRD_ORD_UNNEGOTIATED || !a.enhanced ||
              a.ord <= facts.ird);
    }
    return v;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) {
        return 0;
    }
    struct mpa_startup_config c = config_of(data[0]);
    struct span in = span_of(data + 1, size - 1);
    enum mpa_startup_verdict v = respond(&c, in, in.len);
    CHECK(respond(&c, in, 1) == v);
    v = initiate(&c, in, in.len);
    CHECK(initiate(&c, in, 1) == v);
    return 0;
}
