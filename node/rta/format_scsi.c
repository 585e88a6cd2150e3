// SCSI: requests become block commands (SBC-3), a status and sense data become a completion.
//
// The converter asks for the best there is: a driver takes FUA and UNMAP out of a command again
// where its device has them not, and makes up for it.

#include "base/bytes.h"
#include "format/scsi.h"
#include "node/interface/request.h"
#include "node/interface/volume.h"
#include "node/rta/formats.h"

/* ---- requests to commands -------------------------------------------------------------------- */

static void block_command(const struct volume_profile *profile, struct ddm_command *command,
                          uint8_t opcode, uint8_t flags)
{
    scsi_block_emit(command->native + SCSI_NATIVE_CDB, opcode, flags,
                    command->offset / profile->block_size,
                    (uint32_t)(command->len / profile->block_size));
    command->native_len = SCSI_CDB_LEN;
}

static void unmap(const struct volume_profile *profile, struct ddm_command *command)
{
    scsi_unmap_emit(command->native + SCSI_NATIVE_CDB, command->native + SCSI_NATIVE_LIST,
                    command->offset / profile->block_size,
                    (uint32_t)(command->len / profile->block_size));
    command->native_len = SCSI_NATIVE_LIST + SCSI_UNMAP_LIST_LEN;
}

// By one block that the device repeats; or written, as much as one write may have.
static void zeroes(const struct volume_profile *profile, struct ddm_command *command)
{
    if ((profile->abilities & VOLUME_CAN_ZERO_FAST) != 0) {
        bool may_unmap = (command->flags & NODE_NO_HOLE) == 0;
        block_command(profile, command, SCSI_WRITE_SAME_16, may_unmap ? SCSI_SAME_UNMAP : 0);
        return;
    }
    if (command->len > profile->transfer_max) {
        command->len = profile->transfer_max;
    }
    block_command(profile, command, SCSI_WRITE_16, 0);
}

static enum node_completion encode(const struct volume_profile *profile,
                                   struct ddm_command *command)
{
    switch (command->operation) {
    case NODE_READ:
        block_command(profile, command, SCSI_READ_16, 0);
        return NODE_OK;
    case NODE_WRITE:
        block_command(profile, command, SCSI_WRITE_16,
                      (command->flags & NODE_FUA) != 0 ? SCSI_FUA : 0);
        return NODE_OK;
    case NODE_FLUSH:
        command->offset = command->len = 0; // no blocks: all of them
        block_command(profile, command, SCSI_SYNCHRONIZE_CACHE_16, 0);
        return NODE_OK;
    case NODE_TRIM:
        unmap(profile, command);
        return NODE_OK;
    case NODE_WRITE_ZEROES:
        zeroes(profile, command);
        return NODE_OK;
    default:
        return NODE_UNSUPPORTED;
    }
}

/* ---- answers to completions ------------------------------------------------------------------ */

// By sense key, where the additional code says nothing else.
static const enum node_completion by_key[SCSI_SENSE_KEY_COUNT] = {
    [SCSI_NO_SENSE] = NODE_OK,
    [SCSI_RECOVERED_ERROR] = NODE_OK,
    [SCSI_NOT_READY] = NODE_RETRY,
    [SCSI_MEDIUM_ERROR] = NODE_MEDIA,
    [SCSI_HARDWARE_ERROR] = NODE_MEDIA,
    [SCSI_ILLEGAL_REQUEST] = NODE_MALFORMED,
    [SCSI_UNIT_ATTENTION] = NODE_RETRY,
    [SCSI_DATA_PROTECT] = NODE_READ_ONLY,
    [SCSI_BLANK_CHECK] = NODE_MEDIA,
    [0x9] = NODE_MEDIA, // vendor specific
    [SCSI_COPY_ABORTED] = NODE_MEDIA,
    [SCSI_ABORTED_COMMAND] = NODE_RETRY,
    [0xc] = NODE_MEDIA, // reserved
    [SCSI_VOLUME_OVERFLOW] = NODE_NO_SPACE,
    [SCSI_MISCOMPARE] = NODE_MEDIA,
    [SCSI_COMPLETED] = NODE_OK,
};

enum { ANY = 0x100 };

static const struct {
    uint8_t key;
    uint8_t asc;
    uint16_t ascq;
    enum node_completion completion;
} by_code[] = {
    {SCSI_NOT_READY, 0x3a, ANY, NODE_NO_VOLUME},         // medium not present
    {SCSI_ILLEGAL_REQUEST, 0x20, ANY, NODE_UNSUPPORTED}, // invalid operation code
    {SCSI_ILLEGAL_REQUEST, 0x24, ANY, NODE_UNSUPPORTED}, // invalid field in CDB
    {SCSI_ILLEGAL_REQUEST, 0x26, ANY, NODE_UNSUPPORTED}, // invalid field in parameter list
    {SCSI_ILLEGAL_REQUEST, 0x21, ANY, NODE_RANGE},       // address out of range
    {SCSI_ILLEGAL_REQUEST, 0x25, ANY, NODE_NO_VOLUME},   // logical unit not supported
    {SCSI_DATA_PROTECT, 0x27, 0x07, NODE_NO_SPACE},      // space allocation failed
    {SCSI_ABORTED_COMMAND, 0x10, ANY, NODE_MEDIA},       // protection information
};

// What a deferred error tells of an earlier command is told, if something was lost by it; its code
// says nothing of this one.
static enum node_completion completion_of_sense(const struct scsi_failure *sense)
{
    for (unsigned i = 0; !sense->is_deferred && i < sizeof by_code / sizeof by_code[0]; i++) {
        if (by_code[i].key == sense->key && by_code[i].asc == sense->asc &&
            (by_code[i].ascq == ANY || by_code[i].ascq == sense->ascq)) {
            return by_code[i].completion;
        }
    }
    enum node_completion completion = by_key[sense->key];
    return completion == NODE_OK && !scsi_sense_is_success(sense) ? NODE_RETRY : completion;
}

static void decode_check(struct ddm_command *command)
{
    struct scsi_failure sense;
    if (!scsi_sense_parse(command->status + SCSI_ANSWER_SENSE,
                          command->status_len - SCSI_ANSWER_SENSE, &sense)) {
        command->completion = NODE_RETRY; // it failed, and did not say how
        command->detail = SCSI_CHECK_CONDITION;
        return;
    }
    command->completion = completion_of_sense(&sense);
    command->detail = (uint32_t)(sense.key << 16 | sense.asc << 8 | sense.ascq);
}

// A device that moved only whole blocks of a part has done that part.
static void decode_short(struct ddm_command *command, uint32_t residual)
{
    uint32_t blocks = get_be32(command->native + SCSI_NATIVE_CDB + SCSI_CDB_BLOCKS);
    uint32_t block_size = blocks > 0 ? command->data_len / blocks : 0;
    uint32_t moved = residual < command->data_len ? command->data_len - residual : 0;
    moved -= block_size > 0 ? moved % block_size : moved;
    if (moved == 0) {
        command->completion = NODE_RETRY;
        return;
    }
    command->data_len = moved;
    command->len = moved;
}

static void decode(struct ddm_command *command)
{
    if (command->transport_error != 0) {
        command->completion = io_format_unanswered(command->transport_error);
        command->detail = (uint32_t)-command->transport_error;
        return;
    }
    if (command->status_len < SCSI_ANSWER_SENSE) {
        return; // a filter has answered
    }
    uint32_t residual = get_be32(command->status + SCSI_ANSWER_RESIDUAL);
    uint8_t status = command->status[SCSI_ANSWER_STATUS];
    command->completion = NODE_OK;
    command->detail = 0;
    switch (status) {
    case SCSI_CHECK_CONDITION:
        decode_check(command);
        break;
    case SCSI_GOOD:
    case SCSI_CONDITION_MET:
        break;
    case SCSI_RESERVATION_CONFLICT: // until it is released, which may be never
        command->completion = NODE_RESERVED;
        command->detail = status;
        break;
    default: // busy, task set full, aborted by another
        command->completion = NODE_RETRY;
        command->detail = status;
    }
    if (command->completion == NODE_OK && residual > 0 &&
        (command->operation == NODE_READ || command->operation == NODE_WRITE)) {
        decode_short(command, residual);
    }
}

const struct io_format io_format_scsi = {.name = "scsi", .encode = encode, .decode = decode};
