// Any octets as the private data of a connection, as those who look into it take them: rsockets,
// and the meetings of queue pairs without a connection manager.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "rsocket/rsocket.h"
#include "wire/meeting.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void hello(const uint8_t *data, size_t size)
{
    struct rs_hello hello, again;
    uint8_t out[RS_HELLO_LEN];
    if (rs_hello_parse(data, size, &hello) != 0) {
        return;
    }
    CHECK(size >= RS_HELLO_LEN);
    rs_hello_emit(&hello, out);
    int error = rs_hello_parse(out, sizeof out, &again);
    CHECK(error == 0 && again.credits == hello.credits && again.iomap_count == hello.iomap_count);
    CHECK(again.list.addr == hello.list.addr && again.list.key == hello.list.key &&
          again.list.length == hello.list.length);
    CHECK(again.first.addr == hello.first.addr && again.first.key == hello.first.key &&
          again.first.length == hello.first.length);
}

static void meeting(struct span in)
{
    struct meeting_request request;
    uint8_t out[MEETING_REQUEST_LEN];
    char line[160];
    enum meeting_verdict verdict = meeting_request_parse(in, &request);
    CHECK(verdict < MEETING_VERDICT_COUNT);
    if (verdict != MEETING_OK) {
        return;
    }
    meeting_request_format(&request, line, sizeof line);
    size_t len = meeting_request_emit(&request, out);
    CHECK(len == in.len && memcmp(out, in.ptr, len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    hello(data, size);
    meeting(span_of(data, size));
    return 0;
}
