// NBD: the negotiation. The server greets, the client sends options, until one of them (GO, or the
// older EXPORT_NAME) names the export.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/time.h"
#include "node/interface/request.h"
#include "node/interface/uma_tts.h"
#include "node/interface/volume.h"
#include "node/stream/stream.h"
#include "node/tts/nbd_connection.h"
#include "node/tts/nbd_wire.h"

static const char context_name[] = "base:allocation";
enum { CONTEXT_NAME_LEN = sizeof context_name - 1 };

// The longest answer is the list of all volumes.
STATIC_CHECK((NODE_VOLUME_COUNT_MAX + 1) * (NBD_OPTION_REPLY_LEN + 4 + VOLUME_NAME_MAX) <=
             NBD_ANSWER_MAX_LEN);

/* ---- what goes out --------------------------------------------------------------------------- */

// Room for `len` octets of negotiation; NULL: the client asks without listening.
static uint8_t *out_take(struct nbd_connection *c, uint32_t len)
{
    c->out = c->out != NULL ? c->out : malloc(NBD_OUT_LEN);
    if (c->out == NULL || len > NBD_OUT_LEN - c->out_len) {
        return NULL;
    }
    uint8_t *at = c->out + c->out_len;
    c->out_len += len;
    stream_touch(&c->stream);
    return at;
}

int nbd_out_send(struct nbd_connection *c, instant_ns now)
{
    while (c->out_sent < c->out_len) {
        struct iovec rest = {.iov_base = c->out + c->out_sent, .iov_len = c->out_len - c->out_sent};
        ssize_t sent = stream_send(&c->stream, &rest, 1, now);
        if (sent < 0) {
            return (int)sent;
        }
        c->out_sent += (uint32_t)sent;
    }
    free(c->out);
    c->out = NULL;
    c->out_len = c->out_sent = 0;
    if (c->is_full) {
        c->is_full = false;
        stream_touch(&c->stream);
    }
    return 0;
}

bool nbd_greet(struct nbd_connection *c)
{
    uint8_t *out = out_take(c, 18);
    if (out == NULL) {
        return false;
    }
    put_be64(out, NBD_MAGIC);
    put_be64(out + 8, NBD_OPTION_MAGIC);
    put_be16(out + 16, NBD_FLAG_FIXED_NEWSTYLE | NBD_FLAG_NO_ZEROES);
    c->state = NBD_CLIENT_FLAGS;
    return true;
}

// The payload's place, of `len` octets; NULL: no room.
static uint8_t *reply(struct nbd_connection *c, uint32_t option, uint32_t type, uint32_t len)
{
    uint8_t *out = out_take(c, NBD_OPTION_REPLY_LEN + len);
    if (out == NULL) {
        return NULL;
    }
    put_be64(out, NBD_OPTION_REPLY);
    put_be32(out + NBD_OPTION_REPLY_OFF_OPTION, option);
    put_be32(out + NBD_OPTION_REPLY_OFF_TYPE, type);
    put_be32(out + NBD_OPTION_REPLY_OFF_LENGTH, len);
    return out + NBD_OPTION_REPLY_LEN;
}

static enum stream_verdict answer(struct nbd_connection *c, uint32_t option, uint32_t type)
{
    return reply(c, option, type, 0) != NULL ? STREAM_GOES_ON : nbd_malformed(c);
}

static enum stream_verdict refuse(struct nbd_connection *c, uint32_t option, uint32_t type,
                                  const char *why)
{
    uint32_t len = (uint32_t)strlen(why);
    uint8_t *out = reply(c, option, type, len);
    if (out == NULL) {
        return nbd_malformed(c);
    }
    memcpy(out, why, len);
    return STREAM_GOES_ON;
}

/* ---- options --------------------------------------------------------------------------------- */

// An option under way.
struct option {
    uint32_t number;
    const uint8_t *data;
    uint32_t len;
};

// Takes `len` octets off the front; NULL: there are not so many.
static const uint8_t *take(struct option *option, uint32_t len)
{
    const uint8_t *at = option->data;
    if (len > option->len) {
        return NULL;
    }
    option->data += len;
    option->len -= len;
    return at;
}

// A name with its length before it. False: malformed. A name that is too long for any volume gives
// one that no volume has.
static bool name_take(struct option *option, char ret[VOLUME_NAME_MAX])
{
    const uint8_t *len = take(option, 4);
    const uint8_t *name = len != NULL ? take(option, get_be32(len)) : NULL;
    if (name == NULL) {
        return false;
    }
    uint32_t name_len = get_be32(len);
    bool is_possible = name_len < VOLUME_NAME_MAX && memchr(name, '\0', name_len) == NULL;
    snprintf(ret, VOLUME_NAME_MAX, "%.*s", is_possible ? (int)name_len : 1,
             is_possible ? (const char *)name : "/");
    return true;
}

static uint16_t transmission_flags(const struct nbd_connection *c, const struct resource *volume)
{
    static const struct {
        uint32_t abilities;
        uint16_t flag;
    } table[] = {
        {VOLUME_CAN_FUA, NBD_FLAG_SEND_FUA},
        {VOLUME_CAN_TRIM, NBD_FLAG_SEND_TRIM},
        {VOLUME_CAN_WRITE_ZEROES, NBD_FLAG_SEND_WRITE_ZEROES},
        {VOLUME_CAN_WRITE_ZEROES | VOLUME_CAN_ZERO_FAST, NBD_FLAG_SEND_FAST_ZERO},
        {VOLUME_IS_ROTATIONAL, NBD_FLAG_ROTATIONAL},
    };
    uint32_t abilities = volume->abilities;
    bool has_context = c->is_extended && c->context_volume == volume->volume;
    // Whoever is offered no flush refuses it to his program, though there were nothing to do.
    uint16_t flags =
        NBD_FLAG_HAS_FLAGS | NBD_FLAG_SEND_FLUSH | NBD_FLAG_CAN_MULTI_CONN | NBD_FLAG_SEND_CACHE;
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        bool has_all = (abilities & table[i].abilities) == table[i].abilities;
        flags |= has_all ? table[i].flag : 0;
    }
    flags |= (abilities & VOLUME_CAN_WRITE) == 0 ? NBD_FLAG_READ_ONLY : 0;
    flags |= c->is_structured ? NBD_FLAG_SEND_DF : 0;
    flags |= has_context ? NBD_FLAG_BLOCK_STATUS_PAYLOAD : 0;
    return flags;
}

static bool info_export(struct nbd_connection *c, uint32_t option, const struct resource *volume)
{
    uint8_t *out = reply(c, option, NBD_REP_INFO, 12);
    if (out != NULL) {
        put_be16(out, NBD_INFO_EXPORT);
        put_be64(out + 2, volume->profile.size);
        put_be16(out + 10, transmission_flags(c, volume));
    }
    return out != NULL;
}

// No less than a sector, and no more than a client may ask for.
static uint32_t preferred_of(const struct resource *volume)
{
    uint32_t preferred = volume->profile.preferred;
    if (preferred < NBD_PREFERRED_MIN) {
        return NBD_PREFERRED_MIN;
    }
    return preferred < NODE_TRANSFER_MAX ? preferred : NODE_TRANSFER_MAX;
}

static bool info_block_size(struct nbd_connection *c, uint32_t option,
                            const struct resource *volume)
{
    uint8_t *out = reply(c, option, NBD_REP_INFO, 14);
    if (out != NULL) {
        put_be16(out, NBD_INFO_BLOCK_SIZE);
        put_be32(out + 2, volume->profile.alignment);
        put_be32(out + 6, preferred_of(volume));
        put_be32(out + 10, NBD_TRANSFER_MAX);
    }
    return out != NULL;
}

static bool info_text(struct nbd_connection *c, uint32_t option, uint16_t info, const char *text)
{
    uint32_t len = (uint32_t)strlen(text);
    uint8_t *out = reply(c, option, NBD_REP_INFO, 2 + len);
    if (out != NULL) {
        put_be16(out, info);
        memcpy(out + 2, text, len);
    }
    return out != NULL;
}

// Is there an export of this volume for the client?
static bool is_there(const struct nbd_connection *c, const struct resource *row)
{
    return resource_is_there(row) &&
           c->nbd->parts.uma->may_see(c->nbd->parts.uma_ctx, row->volume, &c->connect.client);
}

// The volume that a client means. NULL: none.
static const struct resource *volume_find(const struct nbd_connection *c, const char *name)
{
    const struct nbd_parts *parts = &c->nbd->parts;
    const struct resource_table *table = parts->uma->resources(parts->uma_ctx);
    for (size_t i = 0; i < table->count; i++) {
        const struct resource *row = &table->rows[i];
        bool is_named = *name == '\0' || strcmp(row->name, name) == 0;
        if (is_named && is_there(c, row)) {
            return row;
        }
    }
    return NULL;
}

static enum stream_verdict connect_volume(struct nbd_connection *c, uint32_t option,
                                          const struct resource *volume)
{
    c->option = option;
    c->state = NBD_CONNECTING;
    snprintf(c->volume_name, sizeof c->volume_name, "%s", volume->name);
    c->connect.volume = volume->volume;
    c->nbd->parts.uma->connect(c->nbd->parts.uma_ctx, &c->connect);
    return c->state == NBD_CONNECTING ? STREAM_STOPS : STREAM_GOES_ON;
}

static bool is_wished(uint16_t info, const uint8_t *wishes, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (get_be16(wishes + 2 * (size_t)i) == info) {
            return true;
        }
    }
    return false;
}

// INFO and GO: the export's name, then which facts the client wants.
static enum stream_verdict on_info(struct nbd_connection *c, struct option option)
{
    char name[VOLUME_NAME_MAX];
    const uint8_t *count = name_take(&option, name) ? take(&option, 2) : NULL;
    const uint8_t *wishes = count != NULL ? take(&option, 2U * get_be16(count)) : NULL;
    if (wishes == NULL || option.len > 0) {
        return refuse(c, option.number, NBD_REP_INVALID, "malformed");
    }
    const struct resource *volume = volume_find(c, name);
    if (volume == NULL) {
        return refuse(c, option.number, NBD_REP_UNKNOWN, "there is no such volume");
    }
    bool has_room = info_block_size(c, option.number, volume);
    if (is_wished(NBD_INFO_NAME, wishes, get_be16(count))) {
        has_room = has_room && info_text(c, option.number, NBD_INFO_NAME, volume->name);
    }
    if (is_wished(NBD_INFO_DESCRIPTION, wishes, get_be16(count))) {
        has_room =
            has_room && info_text(c, option.number, NBD_INFO_DESCRIPTION, volume->profile.driver);
    }
    if (option.number == NBD_OPT_GO && has_room) {
        return connect_volume(c, option.number, volume);
    }
    has_room = has_room && info_export(c, option.number, volume);
    return has_room ? answer(c, option.number, NBD_REP_ACK) : nbd_malformed(c);
}

static enum stream_verdict on_export_name(struct nbd_connection *c, struct option option)
{
    char name[VOLUME_NAME_MAX];
    bool is_possible = option.len < sizeof name && memchr(option.data, '\0', option.len) == NULL;
    if (c->is_extended) { // who has that enters by GO alone
        return nbd_malformed(c);
    }
    snprintf(name, sizeof name, "%.*s", is_possible ? (int)option.len : 1,
             is_possible ? (const char *)option.data : "/");
    const struct resource *volume = volume_find(c, name);
    return volume != NULL ? connect_volume(c, NBD_OPT_EXPORT_NAME, volume) : STREAM_LEAVES;
}

static enum stream_verdict on_list(struct nbd_connection *c, struct option option)
{
    const struct nbd_parts *parts = &c->nbd->parts;
    const struct resource_table *table = parts->uma->resources(parts->uma_ctx);
    if (option.len > 0) {
        return refuse(c, option.number, NBD_REP_INVALID, "malformed");
    }
    for (size_t i = 0; i < table->count; i++) {
        const struct resource *row = &table->rows[i];
        if (!is_there(c, row)) {
            continue;
        }
        uint32_t len = (uint32_t)strlen(row->name);
        uint8_t *out = reply(c, option.number, NBD_REP_SERVER, 4 + len);
        if (out == NULL) {
            return nbd_malformed(c);
        }
        put_be32(out, len);
        memcpy(out + 4, row->name, len);
    }
    return answer(c, option.number, NBD_REP_ACK);
}

// A query stands for the context if it is its name, or for listing also its namespace.
static bool is_our_context(const uint8_t *query, uint32_t len, bool is_listing)
{
    bool is_it = len == CONTEXT_NAME_LEN && memcmp(query, context_name, len) == 0;
    return is_it || (is_listing && len == 5 && memcmp(query, "base:", 5) == 0);
}

static enum stream_verdict on_context(struct nbd_connection *c, struct option option)
{
    char name[VOLUME_NAME_MAX];
    bool is_listing = option.number == NBD_OPT_LIST_META_CONTEXT;
    c->context_volume = is_listing ? c->context_volume : 0; // a choice that fails leaves none
    const uint8_t *count = name_take(&option, name) ? take(&option, 4) : NULL;
    if (count == NULL || !c->is_structured) {
        return refuse(c, option.number, NBD_REP_INVALID, "malformed, or before structured replies");
    }
    const struct resource *volume = volume_find(c, name);
    if (volume == NULL) {
        return refuse(c, option.number, NBD_REP_UNKNOWN, "there is no such volume");
    }
    bool is_wanted = is_listing && get_be32(count) == 0;
    for (uint32_t i = 0; i < get_be32(count); i++) {
        const uint8_t *len = take(&option, 4);
        const uint8_t *query = len != NULL ? take(&option, get_be32(len)) : NULL;
        if (query == NULL) {
            return refuse(c, option.number, NBD_REP_INVALID, "malformed");
        }
        is_wanted |= is_our_context(query, get_be32(len), is_listing);
    }
    if (option.len > 0) {
        return refuse(c, option.number, NBD_REP_INVALID, "malformed");
    }
    is_wanted = is_wanted && (volume->abilities & VOLUME_CAN_EXTENTS) != 0;
    if (is_wanted) {
        uint8_t *out = reply(c, option.number, NBD_REP_CONTEXT, 4 + CONTEXT_NAME_LEN);
        if (out == NULL) {
            return nbd_malformed(c);
        }
        put_be32(out, is_listing ? 0 : NBD_CONTEXT_ID);
        memcpy(out + 4, context_name, CONTEXT_NAME_LEN);
    }
    c->context_volume = is_wanted && !is_listing ? volume->volume : c->context_volume;
    return answer(c, option.number, NBD_REP_ACK);
}

static enum stream_verdict on_structured(struct nbd_connection *c, struct option option)
{
    if (option.len > 0) {
        return refuse(c, option.number, NBD_REP_INVALID, "malformed");
    }
    if (c->is_extended) {
        return refuse(c, option.number, NBD_REP_EXT_HEADER_REQD, "headers are extended");
    }
    c->is_structured = true;
    return answer(c, option.number, NBD_REP_ACK);
}

static enum stream_verdict on_extended(struct nbd_connection *c, struct option option)
{
    if (option.len > 0) {
        return refuse(c, option.number, NBD_REP_INVALID, "malformed");
    }
    c->is_structured = c->is_extended = true;
    return answer(c, option.number, NBD_REP_ACK);
}

static enum stream_verdict on_option(struct nbd_connection *c, struct option option)
{
    switch (option.number) {
    case NBD_OPT_EXPORT_NAME:
        return on_export_name(c, option);
    case NBD_OPT_ABORT:
        answer(c, option.number, NBD_REP_ACK);
        return STREAM_LEAVES;
    case NBD_OPT_LIST:
        return on_list(c, option);
    case NBD_OPT_INFO:
    case NBD_OPT_GO:
        return on_info(c, option);
    case NBD_OPT_STRUCTURED_REPLY:
        return on_structured(c, option);
    case NBD_OPT_EXTENDED_HEADERS:
        return on_extended(c, option);
    case NBD_OPT_LIST_META_CONTEXT:
    case NBD_OPT_SET_META_CONTEXT:
        return on_context(c, option);
    default:
        return answer(c, option.number, NBD_REP_UNSUP);
    }
}

/* ---- what comes in --------------------------------------------------------------------------- */

static enum stream_verdict take_client_flags(struct nbd_connection *c)
{
    if (c->stream.in_len - c->stream.in_at < 4) {
        return STREAM_NEEDS_MORE;
    }
    uint32_t flags = get_be32(c->stream.in + c->stream.in_at);
    c->stream.in_at += 4;
    if ((flags & ~(uint32_t)(NBD_FLAG_FIXED_NEWSTYLE | NBD_FLAG_NO_ZEROES)) != 0) {
        return nbd_malformed(c);
    }
    c->no_zeroes = (flags & NBD_FLAG_NO_ZEROES) != 0;
    c->state = NBD_OPTIONS;
    return STREAM_GOES_ON;
}

static enum stream_verdict take_option(struct nbd_connection *c)
{
    uint32_t there = c->stream.in_len - c->stream.in_at;
    if (there == 0) {
        return STREAM_NEEDS_MORE;
    }
    const uint8_t *at = c->stream.in + c->stream.in_at;
    if (c->option_skip > 0) {
        uint32_t part = there < c->option_skip ? there : c->option_skip;
        c->stream.in_at += part;
        c->option_skip -= part;
        return STREAM_GOES_ON;
    }
    if (there < NBD_OPTION_LEN) {
        return STREAM_NEEDS_MORE;
    }
    struct option option = {.number = get_be32(at + NBD_OPTION_OFF_OPTION),
                            .data = at + NBD_OPTION_LEN,
                            .len = get_be32(at + NBD_OPTION_OFF_LENGTH)};
    if (get_be64(at) != NBD_OPTION_MAGIC) {
        return nbd_malformed(c);
    }
    if (NBD_OUT_LEN - c->out_len < NBD_ANSWER_MAX_LEN) {
        c->is_full = true;
        return STREAM_STOPS;
    }
    if (option.len > NBD_OPTION_MAX_LEN) {
        c->stream.in_at += NBD_OPTION_LEN;
        c->option_skip = option.len;
        return option.number == NBD_OPT_EXPORT_NAME ? nbd_malformed(c)
                                                    : answer(c, option.number, NBD_REP_TOO_BIG);
    }
    if (there - NBD_OPTION_LEN < option.len) {
        return STREAM_NEEDS_MORE;
    }
    c->stream.in_at += NBD_OPTION_LEN + option.len;
    return on_option(c, option);
}

enum stream_verdict nbd_negotiate(struct nbd_connection *c)
{
    switch (c->state) {
    case NBD_CLIENT_FLAGS:
        return take_client_flags(c);
    case NBD_OPTIONS:
        return take_option(c);
    default:
        return STREAM_STOPS;
    }
}

/* ---- the UMA's answer ------------------------------------------------------------------------ */

static bool answer_export_name(struct nbd_connection *c, const struct resource *volume)
{
    uint32_t len = 10 + (c->no_zeroes ? 0 : 124);
    uint8_t *out = out_take(c, len);
    if (out == NULL) {
        return false;
    }
    memset(out, 0, len);
    put_be64(out, volume->profile.size);
    put_be16(out + 8, transmission_flags(c, volume));
    return true;
}

void nbd_answer_connect(struct nbd_connection *c)
{
    const struct nbd_parts *parts = &c->nbd->parts;
    const struct resource *volume =
        resource_by_volume(parts->uma->resources(parts->uma_ctx), c->connect.volume);
    bool is_connected = c->connect.status == CONNECT_OK;
    bool is_good = is_connected && volume != NULL && nbd_transmission_init(c);
    c->connection = is_connected ? c->connect.connection : 0;
    c->is_established = is_connected;
    if (is_good && c->option == NBD_OPT_EXPORT_NAME) {
        is_good = answer_export_name(c, volume);
    } else if (is_good) {
        is_good = info_export(c, c->option, volume) && reply(c, c->option, NBD_REP_ACK, 0) != NULL;
    }
    if (is_good) {
        c->abilities = volume->abilities;
        c->has_context = c->context_volume == volume->volume;
        c->state = NBD_TRANSMISSION;
        c->nbd->counters.established++;
        return;
    }
    c->nbd->counters.refused++;
    c->state = NBD_OPTIONS;
    if (c->option == NBD_OPT_EXPORT_NAME || is_connected) {
        c->is_dropped = true;
    } else {
        refuse(c, c->option,
               c->connect.status == CONNECT_NOT_ALLOWED ? NBD_REP_POLICY : NBD_REP_SHUTDOWN,
               connect_status_name(c->connect.status));
    }
}
