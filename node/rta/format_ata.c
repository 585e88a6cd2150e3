// ATA: requests become commands of 48-bit addresses (ACS-3), the status and error registers become
// a completion.

#include "format/ata.h"
#include "node/interface/request.h"
#include "node/rta/formats.h"

/* ---- requests to commands -------------------------------------------------------------------- */

static void emit(struct ddm_command *command, struct ata_registers registers)
{
    registers.device = ATA_DEVICE_LBA;
    ata_registers_emit(command->native, &registers);
    command->native_len = ATA_NATIVE_TRIM;
}

static void transfer(const struct volume_profile *profile, struct ddm_command *command,
                     uint8_t opcode)
{
    emit(command, (struct ata_registers){
                      .command = opcode,
                      .protocol = ATA_DMA,
                      .count = (uint16_t)(command->len / profile->block_size), // 65536 becomes 0
                      .lba = command->offset / profile->block_size});
}

static void flush(struct ddm_command *command)
{
    emit(command, (struct ata_registers){.command = ATA_FLUSH_CACHE_EXT, .protocol = ATA_NON_DATA});
}

// As much of the range as the entries of one command name.
static void trim(const struct volume_profile *profile, struct ddm_command *command)
{
    uint64_t lba = command->offset / profile->block_size;
    uint64_t left = command->len / profile->block_size, done = 0;
    emit(command, (struct ata_registers){.command = ATA_DATA_SET_MANAGEMENT,
                                         .protocol = ATA_DMA,
                                         .feature = ATA_FEATURE_TRIM,
                                         .count = 1});
    for (unsigned i = 0; i < ATA_TRIM_ENTRIES_MAX && left > 0; i++) {
        uint16_t blocks = left < ATA_TRIM_ENTRY_BLOCKS ? (uint16_t)left : ATA_TRIM_ENTRY_BLOCKS;
        ata_trim_entry_emit(command->native + command->native_len, lba + done, blocks);
        command->native_len += ATA_TRIM_ENTRY_LEN;
        done += blocks;
        left -= blocks;
    }
    command->len = done * profile->block_size;
}

static enum node_completion encode(const struct volume_profile *profile,
                                   struct ddm_command *command)
{
    bool is_fua = (command->flags & NODE_FUA) != 0;
    switch (command->operation) {
    case NODE_READ:
        transfer(profile, command, ATA_READ_DMA_EXT);
        return NODE_OK;
    case NODE_WRITE:
        transfer(profile, command, is_fua ? ATA_WRITE_DMA_FUA_EXT : ATA_WRITE_DMA_EXT);
        return NODE_OK;
    case NODE_FLUSH:
        flush(command);
        return NODE_OK;
    case NODE_TRIM:
        trim(profile, command);
        return NODE_OK;
    case NODE_WRITE_ZEROES: // written: there is no command for it that disks have
        command->len = command->len < profile->transfer_max ? command->len : profile->transfer_max;
        transfer(profile, command, is_fua ? ATA_WRITE_DMA_FUA_EXT : ATA_WRITE_DMA_EXT);
        return NODE_OK;
    default:
        return NODE_UNSUPPORTED;
    }
}

/* ---- answers to completions ------------------------------------------------------------------ */

// The first that is set counts.
static const struct {
    uint8_t error_bit;
    enum node_completion completion;
} by_error[] = {
    {ATA_ERROR_INTERFACE_CRC, NODE_RETRY},
    {ATA_ERROR_UNCORRECTABLE, NODE_MEDIA},
    {ATA_ERROR_ID_NOT_FOUND, NODE_RANGE},
};

static enum node_completion completion_of_registers(const struct ddm_command *command)
{
    uint8_t status = command->status[ATA_ANSWER_STATUS], error = command->status[ATA_ANSWER_ERROR];
    if ((status & ATA_STATUS_BUSY) != 0) {
        return NODE_RETRY; // no other bit counts then
    }
    if ((status & ATA_STATUS_DEVICE_FAULT) != 0) {
        return NODE_MEDIA;
    }
    if ((status & ATA_STATUS_ERROR) == 0) {
        return NODE_OK;
    }
    for (unsigned i = 0; i < sizeof by_error / sizeof by_error[0]; i++) {
        if ((error & by_error[i].error_bit) != 0) {
            return by_error[i].completion;
        }
    }
    // Aborted, and nothing else: a trim is no command of this device, a transfer may be repeated.
    return command->operation == NODE_TRIM ? NODE_UNSUPPORTED : NODE_RETRY;
}

static void decode(struct ddm_command *command)
{
    if (command->transport_error != 0) {
        command->completion = io_format_unanswered(command->transport_error);
        command->detail = (uint32_t)-command->transport_error;
    } else if (command->status_len >= ATA_ANSWER_LEN) { // otherwise a filter has answered
        command->completion = completion_of_registers(command);
        command->detail =
            (uint32_t)(command->status[ATA_ANSWER_STATUS] << 8 | command->status[ATA_ANSWER_ERROR]);
    }
}

const struct io_format io_format_ata = {.name = "ata", .encode = encode, .decode = decode};
