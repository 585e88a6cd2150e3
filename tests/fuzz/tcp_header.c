// A TCP header: whatever is parsed without complaint is emitted and parsed again to the same.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "wire/tcp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tcp_header h, again;
    size_t len, again_len;
    uint8_t buf[TCP_HEADER_MAX_LEN], buf_again[TCP_HEADER_MAX_LEN];
    char line[256];
    if (tcp_header_parse(span_of(data, size), &h, &len) != TCP_PARSE_OK) {
        return 0;
    }
    CHECK(len <= size);
    CHECK(strlen(tcp_header_format(&h, line, sizeof line)) < sizeof line);
    if (tcp_options_len(&h.options) > TCP_OPTIONS_MAX_LEN) {
        return 0; // padding makes them longer than they were
    }
    size_t emitted = tcp_header_emit(&h, buf);
    CHECK(tcp_header_parse(span_of(buf, emitted), &again, &again_len) == TCP_PARSE_OK);
    CHECK(again_len == emitted);
    CHECK(tcp_header_emit(&again, buf_again) == emitted);
    CHECK(memcmp(buf, buf_again, emitted) == 0);
    return 0;
}
