// Any octets as DDP header: what parses is emitted as it was, reserved bits and all. A one-shot
// mark, whatever was agreed, is read back from the header that it is written into.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "wire/ddp.h"
#include "wire/extension.h"
#include "wire/oneshot.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void mark(const struct ddp_header *h, uint8_t agreed)
{
    struct oneshot_send send, again;
    if (oneshot_read(agreed, h, &send) != ONESHOT_OK || send.mark == ONESHOT_NONE) {
        return;
    }
    struct ddp_header plain = *h;
    CHECK(!h->tagged);
    plain.rsvd = 0;
    plain.rsvdulp = rdmap_control_emit(send.opcode);
    oneshot_write(agreed, send.mark, h->rsvdulp_stag, &plain);
    CHECK(oneshot_read(agreed, &plain, &again) == ONESHOT_OK);
    CHECK(again.mark == send.mark && again.opcode == send.opcode);
    CHECK(plain.rsvdulp_stag == h->rsvdulp_stag);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ddp_header h;
    size_t len;
    uint8_t out[DDP_HEADER_MAX_LEN];
    char line[160];
    enum ddp_parse_verdict v = ddp_header_parse(span_of(data, size), &h, &len);
    CHECK(ddp_parse_verdict_name(v) != NULL);
    if (v == DDP_PARSE_OK) {
        CHECK(len <= size && len == ddp_header_len(&h));
        CHECK(ddp_header_emit(&h, out) == len);
        CHECK(memcmp(out, data, len) == 0);
        CHECK(strlen(ddp_header_format(&h, line, sizeof line)) < sizeof line);
        for (unsigned agreed = 0; agreed < 0x40; agreed++) {
            mark(&h, (uint8_t)agreed);
        }
    }
    return 0;
}
