// Any octets as Terminate message in both readings: what was read is read again after an emit.
#include "wire/terminate.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_in(struct span in, enum terminate_order order)
{
    struct terminate t, again;
    uint8_t out[TERMINATE_MAX_LEN];
    char line[200];
    enum terminate_verdict v = terminate_parse(in, order, &t);
    CHECK(terminate_verdict_name(v) != NULL);
    if (v == TERMINATE_TOO_SHORT) {
        return;
    }
    terminate_format(&t, line, sizeof line);
    size_t len = terminate_emit(&t, out);
    CHECK(len <= sizeof out);
    CHECK(terminate_parse(span_of(out, len), TERMINATE_ORDER_RFC, &again) == TERMINATE_OK);
    CHECK(again.layer == t.layer && again.etype == t.etype && again.code == t.code);
    CHECK(again.has_len == t.has_len && again.has_ddp == t.has_ddp);
    CHECK(again.has_rdmap == t.has_rdmap && again.ddp_header_len == t.ddp_header_len);
    CHECK(memcmp(again.ddp_header, t.ddp_header, t.ddp_header_len) == 0);
    CHECK(!t.has_rdmap || memcmp(again.read_request, t.read_request, sizeof t.read_request) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_in(span_of(data, size), TERMINATE_ORDER_RFC);
    read_in(span_of(data, size), TERMINATE_ORDER_SIW);
    return 0;
}
