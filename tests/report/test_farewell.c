// What a user hears when a connection ends badly.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "report/farewell.h"
#include "wire/ddp.h"
#include "wire/rdmap.h"

static char said[512];
static unsigned said_count;

static void emit(struct trace *trace, enum trace_room room, const char *line)
{
    assert_int_equal(room, TRACE_ERROR);
    snprintf(said, sizeof said, "%s", line);
    said_count++;
}

static struct trace trace = {.rooms = UINT32_MAX, .emit = emit};

static int setup(void **state)
{
    said_count = 0;
    return 0;
}

static struct farewell farewell_to(enum farewell_kind kind)
{
    const struct sockaddr_in addr = {
        .sin_family = AF_INET, .sin_port = htons(4791), .sin_addr = {htonl(0x0a000002)}};
    struct farewell f = {.kind = kind, .qp_num = 77};
    memcpy(&f.peer, &addr, sizeof addr);
    return f;
}

static void silent_peer_is_named(void **state)
{
    const struct farewell f = farewell_to(FAREWELL_LOST);
    farewell_say(&f, &trace);
    assert_int_equal(said_count, 1);
    assert_string_equal(said,
                        "QP 77, peer 10.0.0.2:4791: the connection is lost: the peer is silent");
}

static void terminate_is_told_with_who_sent_it_and_why(void **state)
{
    struct farewell f = farewell_to(FAREWELL_BY_PEER);
    f.terminate = (struct terminate){.layer = 1, .etype = 1, .code = 0};
    farewell_say(&f, &trace);
    assert_non_null(strstr(said, "the peer's Terminate ended the connection: DDP tagged buffer"));
    assert_null(strstr(said, "message:"));
    f.kind = FAREWELL_BY_US;
    farewell_say(&f, &trace);
    assert_non_null(strstr(said, "our Terminate ended the connection: DDP tagged buffer"));
}

static void message_that_the_terminate_quotes_is_named(void **state)
{
    struct farewell f = farewell_to(FAREWELL_BY_PEER);
    const struct ddp_header h = {.tagged = true,
                                 .last = true,
                                 .rsvdulp = rdmap_control_emit(RDMAP_WRITE),
                                 .stag = 0xabcd,
                                 .to = 0x1000};
    f.terminate = (struct terminate){.layer = 1, .etype = 1, .has_ddp = true};
    f.terminate.ddp_header_len = (uint8_t)ddp_header_emit(&h, f.terminate.ddp_header);
    farewell_say(&f, &trace);
    assert_non_null(strstr(said, "; message: RDMA Write to STag 0x0000abcd, offset 0x1000"));
}

// What a Terminate before quoted is not said again of one that quotes nothing, or nonsense.
static void what_is_not_quoted_is_not_named(void **state)
{
    message_that_the_terminate_quotes_is_named(state);
    struct farewell f = farewell_to(FAREWELL_BY_PEER);
    f.terminate = (struct terminate){.layer = 1, .etype = 1};
    farewell_say(&f, &trace);
    assert_string_equal(strrchr(said, ':'), ": invalid STag (layer 1 etype 1 code 0x00)");
    f.terminate.has_ddp = true;
    f.terminate.ddp_header_len = 1;
    farewell_say(&f, &trace);
    assert_null(strstr(said, "message:"));
}

static void untagged_message_is_named_by_queue_and_number(void **state)
{
    struct farewell f = farewell_to(FAREWELL_BY_US);
    const struct ddp_header h = {
        .last = true, .rsvdulp = rdmap_control_emit(RDMAP_SEND), .qn = 0, .msn = 9};
    f.terminate = (struct terminate){.layer = 1, .etype = 2, .has_ddp = true};
    f.terminate.ddp_header_len = (uint8_t)ddp_header_emit(&h, f.terminate.ddp_header);
    farewell_say(&f, &trace);
    assert_non_null(strstr(said, "; message: Send, queue 0, MSN 9"));
}

static void ipv6_peer_stands_in_brackets(void **state)
{
    struct farewell f = farewell_to(FAREWELL_LOST);
    const struct sockaddr_in6 addr = {
        .sin6_family = AF_INET6, .sin6_port = htons(5), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    memcpy(&f.peer, &addr, sizeof addr);
    farewell_say(&f, &trace);
    assert_non_null(strstr(said, "peer [::1]:5:"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(silent_peer_is_named, setup),
        cmocka_unit_test_setup(terminate_is_told_with_who_sent_it_and_why, setup),
        cmocka_unit_test_setup(message_that_the_terminate_quotes_is_named, setup),
        cmocka_unit_test_setup(what_is_not_quoted_is_not_named, setup),
        cmocka_unit_test_setup(untagged_message_is_named_by_queue_and_number, setup),
        cmocka_unit_test_setup(ipv6_peer_stands_in_brackets, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
