// What a SCSI or ATA device may answer: the first octet says to which question.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "format/ata.h"
#include "format/scsi.h"
#include "node/rta/formats.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_text(const char *text, size_t capacity)
{
    size_t len = strnlen(text, capacity);
    for (size_t i = 0; i < len; i++) {
        if (text[i] < ' ' || text[i] > '~') {
            return false;
        }
    }
    return len < capacity;
}

static void tell_what_it_is(const uint8_t *octets, uint32_t len)
{
    struct scsi_inquiry inquiry;
    struct scsi_capacity capacity;
    struct scsi_limits limits;
    struct scsi_provisioning provisioning;
    struct scsi_mode mode;
    char name[SCSI_NAME_MAX];
    bool is_supported;
    if (scsi_inquiry_parse(octets, len, &inquiry)) {
        CHECK(is_text(inquiry.vendor, sizeof inquiry.vendor));
        CHECK(is_text(inquiry.product, sizeof inquiry.product));
    }
    if (scsi_capacity_parse(octets, len, &capacity)) {
        CHECK(capacity.blocks > 0 && capacity.blocks <= UINT64_MAX / capacity.block_size);
    }
    CHECK(!scsi_identification_parse(octets, len, name) || is_text(name, sizeof name));
    CHECK(!scsi_serial_parse(octets, len, name) || is_text(name, sizeof name));
    scsi_limits_parse(octets, len, &limits);
    scsi_provisioning_parse(octets, len, &provisioning);
    scsi_mode_parse(octets, len, &mode);
    scsi_operation_parse(octets, len, &is_supported);
    scsi_pages_have(octets, len, SCSI_BLOCK_LIMITS);
}

static void identify(const uint8_t *octets, uint32_t len)
{
    struct ata_identity identity;
    if (len == ATA_BLOCK_LEN && ata_identity_parse(octets, &identity)) {
        CHECK(identity.blocks <= UINT64_MAX / identity.block_size);
        CHECK(is_text(identity.model, sizeof identity.model));
        CHECK(is_text(identity.serial, sizeof identity.serial));
    }
}

// A read of eight blocks, however it ends.
static void end_a_read(const struct io_format *format, const uint8_t *octets, uint32_t len)
{
    struct volume_profile profile = {.block_size = 512, .transfer_max = 1 << 20};
    struct ddm_command command = {.operation = NODE_READ, .len = 4096, .data_len = 4096};
    uint8_t registers[ATA_ANSWER_LEN];
    CHECK(format->encode(&profile, &command) == NODE_OK);
    command.status_len = len < DDM_STATUS_MAX ? len : DDM_STATUS_MAX;
    memcpy(command.status, octets, command.status_len);
    format->decode(&command);
    CHECK(command.completion < NODE_COMPLETION_COUNT);
    CHECK(command.len <= 4096 && command.len == command.data_len && command.len % 512 == 0);
    CHECK(command.completion != NODE_OK || command.len > 0);
    ata_return_parse(octets, len, registers);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > 4096) {
        return 0;
    }
    uint32_t len = (uint32_t)size - 1;
    uint8_t *octets = malloc(len > 0 ? len : 1); // exactly as long, so that a sanitizer sees more
    CHECK(octets != NULL);
    memcpy(octets, data + 1, len);
    switch (data[0] % 4) {
    case 0:
        tell_what_it_is(octets, len);
        break;
    case 1:
        identify(octets, len);
        break;
    default:
        end_a_read(data[0] % 4 == 2 ? &io_format_scsi : &io_format_ata, octets, len);
    }
    free(octets);
    return 0;
}
