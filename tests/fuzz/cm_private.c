// Any octets as the private data of a connection, as those who look into it take them: rsockets,
// and the meetings of queue pairs without a connection manager; and as datagrams of rsockets.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "rsocket/datagram.h"
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

// Of a sender of either family.
static void over_udp(const uint8_t *data, size_t size, sa_family_t family)
{
    const struct sockaddr_storage sender = {.ss_family = family};
    const struct sockaddr *from = (const struct sockaddr *)&sender;
    struct rs_udp_header header, again;
    uint8_t out[RS_UDP_HEADER_MAX];
    size_t len = rs_udp_header_parse(data, size, from, &header);
    if (len > 0) {
        CHECK(len <= size && rs_udp_header_emit(&header, from, out) == len);
        CHECK(rs_udp_header_parse(out, len, from, &again) == len);
        CHECK(again.op == header.op && again.qpn == header.qpn);
    }
}

static void datagram(const uint8_t *data, size_t size)
{
    struct sockaddr_storage sender, again;
    uint8_t out[RS_DATAGRAM_HEADER_MAX];
    size_t len = rs_datagram_header_parse(data, size, &sender);
    if (len > 0) {
        CHECK(len <= size && rs_datagram_header_emit((struct sockaddr *)&sender, out) == len);
        CHECK(rs_datagram_header_parse(out, len, &again) == len);
        CHECK(memcmp(&sender, &again, sizeof sender) == 0);
    }
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
    over_udp(data, size, AF_INET);
    over_udp(data, size, AF_INET6);
    datagram(data, size);
    meeting(span_of(data, size));
    return 0;
}
