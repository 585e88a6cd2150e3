// Any octets as private data with an extension block, and as extension message. The first four
// octets are the CRC32C of the Request that the block should answer.
#include "wire/extension.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/bytes.h"
#include "base/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void block(struct span in, uint32_t request_crc)
{
    struct extension_block b, again;
    uint8_t out[EXTENSION_BLOCK_LEN];
    char line[160];
    enum extension_verdict v = extension_block_parse(in, request_crc, &b);
    CHECK(extension_verdict_name(v) != NULL);
    if (v != EXTENSION_OK) {
        return;
    }
    CHECK(in.len >= EXTENSION_BLOCK_LEN && b.request_crc == request_crc);
    extension_block_format(&b, line, sizeof line);
    CHECK(extension_block_emit(&b, out) == sizeof out);
    CHECK(extension_block_parse(span_of(out, sizeof out), request_crc, &again) == EXTENSION_OK);
    CHECK(again.encodings == b.encodings && again.marker_wish == b.marker_wish);
    CHECK(again.allotment_len == b.allotment_len);
}

static void message(struct span in)
{
    struct extension_message m;
    uint8_t out[EXTENSION_MESSAGE_LEN];
    char line[160];
    enum extension_message_verdict v = extension_message_parse(in, &m);
    CHECK(extension_message_verdict_name(v) != NULL);
    if (v != EXTENSION_MESSAGE_OK) {
        return;
    }
    extension_message_format(&m, line, sizeof line);
    CHECK(extension_message_emit(&m, out) == in.len);
    CHECK(memcmp(out, in.ptr, 3) == 0 && memcmp(out + 4, in.ptr + 4, 4) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 4) {
        return 0;
    }
    struct span in = span_of(data + 4, size - 4);
    block(in, get_be32(data));
    message(in);
    return 0;
}
