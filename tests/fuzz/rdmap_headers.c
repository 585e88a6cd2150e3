// Any octets as each RDMAP header of fixed length; the first octet is the control octet.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "wire/rdmap.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_request(struct span in)
{
    struct rdmap_read_request r;
    uint8_t out[RDMAP_READ_REQUEST_LEN];
    char line[240];
    enum rdmap_parse_verdict v = rdmap_read_request_parse(in, &r);
    CHECK((v == RDMAP_PARSE_OK) == (in.len == sizeof out));
    if (v == RDMAP_PARSE_OK) {
        CHECK(rdmap_read_request_emit(&r, out) == sizeof out);
        CHECK(memcmp(out, in.ptr, sizeof out) == 0);
        rdmap_read_request_format(&r, line, sizeof line);
    }
}

static void atomic_request(struct span in)
{
    struct rdmap_atomic_request r;
    uint8_t out[RDMAP_ATOMIC_REQUEST_LEN];
    char line[240];
    enum rdmap_parse_verdict v = rdmap_atomic_request_parse(in, &r);
    CHECK((v == RDMAP_PARSE_OK) == (in.len == sizeof out));
    if (v == RDMAP_PARSE_OK) {
        CHECK(rdmap_atomic_request_emit(&r, out) == sizeof out);
        CHECK(memcmp(out + 4, in.ptr + 4, sizeof out - 4) == 0); // before it: reserved bits
        CHECK((out[3] & 0x0f) == (in.ptr[3] & 0x0f));
        rdmap_atomic_request_format(&r, line, sizeof line);
    }
}

static void atomic_response(struct span in)
{
    struct rdmap_atomic_response r;
    uint8_t out[RDMAP_ATOMIC_RESPONSE_LEN];
    char line[240];
    enum rdmap_parse_verdict v = rdmap_atomic_response_parse(in, &r);
    CHECK((v == RDMAP_PARSE_OK) == (in.len == sizeof out));
    if (v == RDMAP_PARSE_OK) {
        CHECK(rdmap_atomic_response_emit(&r, out) == sizeof out);
        CHECK(memcmp(out, in.ptr, sizeof out) == 0);
        rdmap_atomic_response_format(&r, line, sizeof line);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) {
        return 0;
    }
    const struct rdmap_opcode_facts *facts = rdmap_opcode_facts(rdmap_control_opcode(data[0]));
    CHECK(facts->name != NULL);
    CHECK(!facts->fixed_len || !facts->carries_payload);
    CHECK(rdmap_control_version(data[0]) < 4);
    struct span in = span_of(data + 1, size - 1);
    read_request(in);
    atomic_request(in);
    atomic_response(in);
    return 0;
}
