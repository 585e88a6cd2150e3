// iSCSI: text requests of the full feature phase. SendTargets (RFC 7143 appendix C) lists the
// targets that the initiator may use, each with the address that it came to.

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/time.h"
#include "format/iscsi_pdu.h"
#include "format/iscsi_text.h"
#include "listen/address.h"
#include "node/interface/volume.h"
#include "node/iscsi/connection.h"
#include "node/iscsi/iscsi.h"
#include "node/iscsi/keys.h"
#include "text/address.h"
#include "text/endpoint.h"

enum { ANSWER_MAX = 128 << 10 };
// What we ask for: more of our answer, or more of the request.
enum { ANSWER_TAG = 1, REQUEST_TAG = 2 };

static void target_put(struct iscsi_connection *c, const struct resource *row,
                       struct iscsi_text_out *out)
{
    char name[ISCSI_NAME_MAX], endpoint[TEXT_ADDRESS_MAX];
    struct address_end own;
    iscsi_name(row, name);
    iscsi_text_put(out, "TargetName", "%s", name);
    if (c->door->carrier->own_end(c, &own)) {
        text_endpoint_format(own.host, own.port, endpoint, sizeof endpoint);
        iscsi_text_put(out, "TargetAddress", "%s,%d", endpoint, ISCSI_PORTAL_GROUP);
    }
}

// A target stands where the first of its volumes does that the initiator may see.
static bool is_first(const struct iscsi_connection *c, const struct resource_table *table,
                     size_t at)
{
    const char *group = table->rows[at].places[VOLUME_IN_TARGET].group;
    for (size_t i = 0; i < at && group[0] != '\0'; i++) {
        const char *other = table->rows[i].places[VOLUME_IN_TARGET].group;
        if (strcmp(other, group) == 0 && iscsi_may_see(c, &table->rows[i])) {
            return false;
        }
    }
    return iscsi_may_see(c, &table->rows[at]);
}

// All, one by its name, or in a normal session the one it is with.
static void send_targets(struct iscsi_connection *c, const char *which, struct iscsi_text_out *out)
{
    const struct iscsi_parts *parts = &c->iscsi->parts;
    const struct resource_table *table = parts->uma->resources(parts->uma_ctx);
    which = *which == '\0' ? c->login.target : which;
    for (size_t i = 0; i < table->count; i++) {
        const struct resource *row = &table->rows[i];
        char name[ISCSI_NAME_MAX];
        iscsi_name(row, name);
        bool is_asked =
            strcmp(which, "All") == 0 ? c->login.is_discovery : strcmp(which, name) == 0;
        if (is_asked && is_first(c, table, i)) {
            target_put(c, row, out);
        }
    }
}

static bool key_take(struct iscsi_connection *c, const struct iscsi_pair *pair,
                     struct iscsi_text_out *out)
{
    if (strcmp(pair->key, "SendTargets") == 0) {
        send_targets(c, pair->value, out);
        return !out->is_full;
    }
    switch (iscsi_key_take(pair, iscsi_key_session(c), &c->parameters, out)) {
    case ISCSI_KEY_UNKNOWN:
        iscsi_text_put(out, pair->key, "NotUnderstood");
        break;
    case ISCSI_KEY_REFUSED:
        iscsi_text_put(out, pair->key, "Reject");
        break;
    default:
        break;
    }
    return !out->is_full;
}

static void answer_drop(struct iscsi_connection *c)
{
    free(c->answer);
    c->answer = NULL;
}

static enum iscsi_verdict text_put(struct iscsi_connection *c, const struct iscsi_header *h,
                                   uint8_t flags, uint32_t tag, const char *text, uint32_t len)
{
    uint8_t *head = iscsi_control_put(c, ISCSI_TEXT_RESPONSE, flags, h->itt, text, len);
    if (head == NULL) {
        return ISCSI_LEAVES;
    }
    put_be32(head + ISCSI_OFF_TTT, tag);
    c->awaits_text = tag == REQUEST_TAG;
    return ISCSI_GOES_ON;
}

// As much of the answer as the initiator takes in one PDU. It says whether that is the end.
static enum iscsi_verdict answer_put(struct iscsi_connection *c, const struct iscsi_header *h)
{
    uint32_t left = c->answer_len - c->answer_at, most = iscsi_control_data_max(c);
    uint32_t len = left < most ? left : most;
    const char *at = c->answer + c->answer_at;
    if (len < left) {
        c->answer_at += len;
        return text_put(c, h, ISCSI_TEXT_CONTINUE, ANSWER_TAG, at, len);
    }
    bool is_end = (h->flags & ISCSI_FINAL) != 0;
    enum iscsi_verdict verdict =
        text_put(c, h, is_end ? ISCSI_FINAL : 0, is_end ? ISCSI_NO_TAG : REQUEST_TAG, at, len);
    answer_drop(c);
    return verdict;
}

static enum iscsi_verdict refuse(struct iscsi_connection *c, const struct iscsi_header *h)
{
    c->request_len = 0;
    c->awaits_text = false;
    iscsi_reject(c, h, ISCSI_REJECT_PROTOCOL_ERROR);
    return ISCSI_GOES_ON;
}

static enum iscsi_verdict answer(struct iscsi_connection *c, const struct iscsi_header *h,
                                 struct iscsi_text text)
{
    answer_drop(c);
    c->answer = malloc(ANSWER_MAX);
    if (c->answer == NULL) {
        return ISCSI_LEAVES;
    }
    struct iscsi_text_out out = {.ptr = c->answer, .capacity = ANSWER_MAX};
    struct iscsi_pair pair;
    enum iscsi_text_verdict verdict;
    while ((verdict = iscsi_text_next(&text, &pair)) == ISCSI_TEXT_PAIR &&
           key_take(c, &pair, &out)) {
    }
    if (verdict != ISCSI_TEXT_END) { // there is no rest of it to be asked for
        answer_drop(c);
        return refuse(c, h);
    }
    c->answer_len = (uint32_t)out.len;
    c->answer_at = 0;
    return answer_put(c, h);
}

// RFC 7143 sections 6.2 and 11.10: a request may come in several PDUs (C), which are taken when the
// last one is there, and be followed by others before the initiator is at its end (F).
enum iscsi_verdict iscsi_take_text(struct iscsi_connection *c, const struct iscsi_header *h,
                                   const uint8_t *data, instant_ns now)
{
    uint32_t tag = get_be32(h->at + ISCSI_OFF_TTT);
    bool is_part = (h->flags & ISCSI_TEXT_CONTINUE) != 0, is_end = (h->flags & ISCSI_FINAL) != 0;
    bool is_asked = tag == REQUEST_TAG && c->awaits_text;
    if (tag == ANSWER_TAG && c->answer != NULL) {
        return answer_put(c, h);
    }
    if ((tag != ISCSI_NO_TAG && !is_asked) || (is_part && is_end)) {
        return refuse(c, h);
    }
    c->request_len = is_asked ? c->request_len : 0;
    if (!is_part && c->request_len == 0) {
        return answer(c, h, (struct iscsi_text){.at = (const char *)data, .left = h->data_len});
    }
    if (!iscsi_request_append(c, data, h->data_len)) {
        return refuse(c, h);
    }
    if (is_part) {
        return text_put(c, h, 0, REQUEST_TAG, NULL, 0);
    }
    struct iscsi_text text = {.at = c->request, .left = c->request_len};
    c->request_len = 0;
    return answer(c, h, text);
}
