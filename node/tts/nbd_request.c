// NBD: what a request says, by either header, and whether it may be asked for.

#include <string.h>

#include "base/bytes.h"
#include "node/interface/request.h"
#include "node/interface/uma_tts.h"
#include "node/interface/volume.h"
#include "node/tts/nbd_connection.h"
#include "node/tts/nbd_wire.h"

/* ---- the header ------------------------------------------------------------------------------ */

uint32_t nbd_request_len(const struct nbd_connection *c)
{
    return c->is_extended ? NBD_EXTENDED_REQUEST_LEN : NBD_REQUEST_LEN;
}

// Data follow a write; behind an extended header whatever has a flag for them, and then the length
// is theirs.
bool nbd_request_parse(const struct nbd_connection *c, const uint8_t *at, struct nbd_asked *ret)
{
    bool has_payload;
    *ret = (struct nbd_asked){.flags = get_be16(at + NBD_REQUEST_OFF_FLAGS),
                              .command = get_be16(at + NBD_REQUEST_OFF_COMMAND),
                              .cookie = get_be64(at + NBD_REQUEST_OFF_COOKIE),
                              .offset = get_be64(at + NBD_REQUEST_OFF_OFFSET)};
    if (c->is_extended) {
        ret->len = get_be64(at + NBD_REQUEST_OFF_LENGTH);
        has_payload = (ret->flags & NBD_CMD_FLAG_PAYLOAD_LEN) != 0;
    } else {
        ret->len = get_be32(at + NBD_REQUEST_OFF_LENGTH);
        has_payload = ret->command == NBD_CMD_WRITE;
    }
    ret->payload_len = has_payload ? ret->len : 0;
    bool is_flood = c->is_extended && ret->payload_len > NBD_TRANSFER_MAX;
    return get_be32(at) == (c->is_extended ? NBD_EXTENDED_REQUEST_MAGIC : NBD_REQUEST_MAGIC) &&
           !is_flood;
}

/* ---- whether it may be ----------------------------------------------------------------------- */

static const struct nbd_command_facts commands[] = {
    [NBD_CMD_READ] = {true, NODE_READ, NBD_CMD_FLAG_DF | NBD_CMD_FLAG_FUA, true},
    [NBD_CMD_WRITE] = {true, NODE_WRITE, NBD_CMD_FLAG_FUA | NBD_CMD_FLAG_PAYLOAD_LEN, true},
    [NBD_CMD_FLUSH] = {true, NODE_FLUSH, NBD_CMD_FLAG_FUA, false},
    [NBD_CMD_TRIM] = {true, NODE_TRIM, NBD_CMD_FLAG_FUA, true},
    [NBD_CMD_CACHE] = {true, NODE_READ, NBD_CMD_FLAG_FUA, true},
    [NBD_CMD_WRITE_ZEROES] = {true, NODE_WRITE_ZEROES,
                              NBD_CMD_FLAG_FUA | NBD_CMD_FLAG_NO_HOLE | NBD_CMD_FLAG_FAST_ZERO,
                              true},
    [NBD_CMD_BLOCK_STATUS] = {true, NODE_EXTENTS,
                              NBD_CMD_FLAG_REQ_ONE | NBD_CMD_FLAG_FUA | NBD_CMD_FLAG_PAYLOAD_LEN,
                              true},
};

const struct nbd_command_facts *nbd_facts_of(uint16_t command)
{
    bool is_known = command < sizeof commands / sizeof commands[0] && commands[command].is_known;
    return is_known ? &commands[command] : NULL;
}

// Those that the client may set, as it was told of the export.
static uint16_t flags_offered(const struct nbd_connection *c)
{
    uint16_t flags = NBD_CMD_FLAG_NO_HOLE | NBD_CMD_FLAG_REQ_ONE;
    flags |= c->is_structured ? NBD_CMD_FLAG_DF : 0;
    flags |= c->is_extended ? NBD_CMD_FLAG_PAYLOAD_LEN : 0;
    flags |= (c->abilities & VOLUME_CAN_FUA) != 0 ? NBD_CMD_FLAG_FUA : 0;
    flags |= (c->abilities & VOLUME_CAN_ZERO_FAST) != 0 ? NBD_CMD_FLAG_FAST_ZERO : 0;
    return flags;
}

bool nbd_is_in_one_run(const struct nbd_connection *c, const struct nbd_asked *asked)
{
    return asked->command == NBD_CMD_READ && !c->is_structured && asked->len > NODE_TRANSFER_MAX;
}

// One buffer is all that is followed of advice; where it ends is looked at all the same, and so is
// what is longer than other clients can ask for, and what cannot be refused in its second part.
static bool is_beyond(const struct nbd_connection *c, const struct nbd_asked *asked)
{
    const struct nbd_parts *parts = &c->nbd->parts;
    bool is_looked_at = asked->command == NBD_CMD_CACHE || asked->len > UINT32_MAX;
    if (!is_looked_at && !nbd_is_in_one_run(c, asked)) {
        return false; // the RTA sees to it
    }
    const struct resource *volume =
        resource_by_volume(parts->uma->resources(parts->uma_ctx), c->connect.volume);
    return volume != NULL && !node_range_is_within(asked->offset, asked->len, volume->profile.size);
}

// Too much to be moved. Only a read that is answered by chunks can be told that it overflows.
static bool is_too_long(const struct nbd_asked *asked)
{
    bool is_read = asked->command == NBD_CMD_READ;
    bool is_whole = is_read && (asked->flags & NBD_CMD_FLAG_DF) != 0;
    uint32_t most = is_whole ? NODE_TRANSFER_MAX : NBD_TRANSFER_MAX;
    return (is_read || asked->command == NBD_CMD_WRITE) && asked->len > most;
}

// With an extended header a query of the status may name the contexts that are wished, of which
// there is one: the true length stands before it. False: another one, or several.
static bool query_take(struct nbd_asked *asked, const uint8_t *payload)
{
    if (asked->payload_len == 0) {
        return true;
    }
    if (asked->payload_len != NBD_QUERY_LEN ||
        get_be32(payload + NBD_QUERY_OFF_CONTEXT) != NBD_CONTEXT_ID) {
        return false;
    }
    asked->len = get_be64(payload);
    return true;
}

static struct nbd_error invalid(const char *why)
{
    return (struct nbd_error){NBD_EINVAL, why};
}

struct nbd_error nbd_request_check(const struct nbd_connection *c, struct nbd_asked *asked,
                                   const uint8_t *payload)
{
    const struct nbd_command_facts *facts = nbd_facts_of(asked->command);
    bool is_status = asked->command == NBD_CMD_BLOCK_STATUS;
    bool is_bare = asked->command == NBD_CMD_WRITE && asked->payload_len == 0;
    if (facts == NULL) {
        return invalid("there is no such command");
    }
    if ((asked->flags & ~(facts->flags & flags_offered(c))) != 0) {
        return invalid("the command has no such flag here");
    }
    if (is_status && (!c->has_context || !query_take(asked, payload))) {
        return invalid("no such context was chosen for this export");
    }
    if (facts->has_length && asked->len == 0) {
        return invalid("the length is 0");
    }
    if (is_bare) {
        return invalid("no data follow the write");
    }
    if (is_too_long(asked)) {
        bool is_told = asked->command == NBD_CMD_READ && c->is_structured;
        return (struct nbd_error){is_told ? NBD_EOVERFLOW : NBD_EINVAL, "it is too long"};
    }
    if (is_beyond(c, asked)) {
        bool needs_space = asked->command == NBD_CMD_WRITE_ZEROES;
        return (struct nbd_error){needs_space ? NBD_ENOSPC : NBD_EINVAL,
                                  "beyond the end of the volume"};
    }
    return (struct nbd_error){NBD_OK, ""};
}
