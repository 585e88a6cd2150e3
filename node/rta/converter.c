#include "node/rta/converter.h"

#include "base/check.h"
#include "node/interface/request.h"
#include "node/interface/volume.h"

/* ---- what may be asked ----------------------------------------------------------------------- */

static const uint32_t ability_needed[NODE_DEVICE_OPERATION_COUNT] = {
    [NODE_WRITE] = VOLUME_CAN_WRITE,
    [NODE_TRIM] = VOLUME_CAN_WRITE | VOLUME_CAN_TRIM,
    [NODE_WRITE_ZEROES] = VOLUME_CAN_WRITE | VOLUME_CAN_WRITE_ZEROES,
    [NODE_EXTENTS] = VOLUME_CAN_EXTENTS,
};

static bool is_aligned(const struct volume_profile *profile, const struct frame *request)
{
    uint64_t mask = profile->alignment - 1;
    return (request->offset & mask) == 0 && (request->len & mask) == 0;
}

static bool has_right_buffer(const struct frame *request)
{
    switch (request->operation) {
    case NODE_READ:
    case NODE_WRITE:
        return request->buffer_len == request->len && request->len > 0;
    case NODE_EXTENTS:
        return request->buffer_len >= sizeof(struct node_extent) && request->len > 0;
    case NODE_PROFILE:
        return request->buffer_len >= sizeof(struct volume_profile);
    default:
        return request->buffer_len == 0;
    }
}

enum node_completion converter_check(const struct volume_profile *profile, bool is_read_only,
                                     const struct frame *request)
{
    const struct node_operation_facts *facts = node_operation_facts(request->operation);
    bool is_known = request->operation < NODE_DEVICE_OPERATION_COUNT;
    if (!is_known || (request->flags & ~facts->flags) != 0 || !has_right_buffer(request) ||
        request->buffer_len > NODE_TRANSFER_MAX) {
        return NODE_MALFORMED;
    }
    if (facts->changes && is_read_only) {
        return NODE_READ_ONLY;
    }
    uint32_t needed = ability_needed[request->operation];
    if ((profile->abilities & needed) != needed ||
        ((request->flags & NODE_FUA) != 0 && (profile->abilities & VOLUME_CAN_FUA) == 0)) {
        return NODE_UNSUPPORTED;
    }
    if ((request->flags & NODE_FAST_ONLY) != 0 &&
        (profile->abilities & VOLUME_CAN_ZERO_FAST) == 0) {
        return NODE_UNSUPPORTED;
    }
    if (facts->has_range && !is_aligned(profile, request)) {
        return NODE_MALFORMED;
    }
    if (facts->has_range && !node_range_is_within(request->offset, request->len, profile->size)) {
        return NODE_RANGE;
    }
    return NODE_OK;
}

/* ---- requests to commands -------------------------------------------------------------------- */

// Octets that one command of the request may have; 0: it is not divided.
static uint64_t piece_max(const struct volume_profile *profile, unsigned operation)
{
    switch (operation) {
    case NODE_READ:
    case NODE_WRITE:
        return profile->transfer_max;
    case NODE_TRIM:
    case NODE_WRITE_ZEROES:
        return profile->range_max;
    default:
        return 0;
    }
}

enum node_completion converter_command(const struct volume_profile *profile,
                                       const struct io_format *format,
                                       const struct store_transaction *transaction,
                                       struct ddm_command *ret)
{
    const struct frame *request = &transaction->request;
    ret->operation = request->operation;
    ret->flags = request->flags;
    ret->offset = request->offset + transaction->done_len;
    ret->len = request->len - transaction->done_len;
    ret->data = transaction->data;
    ret->data_len = request->buffer_len;
    uint64_t most = piece_max(profile, request->operation);
    if (most > 0 && ret->len > most) {
        ret->len = most;
    }
    if (request->operation == NODE_READ || request->operation == NODE_WRITE) {
        ret->data = (uint8_t *)transaction->data + transaction->done_len;
        ret->data_len = (uint32_t)ret->len;
    }
    ret->answer_len = 0;
    ret->detail = 0;
    ret->end_count = 0;
    ret->native_len = ret->status_len = 0;
    ret->transport_error = 0;
    return format == NULL ? NODE_OK : format->encode(profile, ret);
}

/* ---- what the device says -------------------------------------------------------------------- */

bool converter_result(const struct volume_profile *profile, const struct io_format *format,
                      struct store_transaction *transaction, struct ddm_command *command)
{
    if (format != NULL && command->native_len > 0) {
        format->decode(command);
    }
    if (command->completion != NODE_OK) {
        return false;
    }
    transaction->done_len += command->len;
    if (node_operation_facts(command->operation)->moves_to_client) {
        bool is_read = command->operation == NODE_READ;
        transaction->answer_len += is_read ? command->data_len : command->answer_len;
    }
    CHECK(transaction->answer_len <= transaction->request.buffer_len);
    return transaction->done_len < transaction->request.len &&
           piece_max(profile, command->operation) > 0;
}
