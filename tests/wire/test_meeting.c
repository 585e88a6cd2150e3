// The private data by which a queue pair asks for another one.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "wire/meeting.h"

static const uint8_t golden[MEETING_REQUEST_LEN] = {
    'w', 'q', 'p', 1, 0x00, 0xab, 0xcd, 0x01, 0x00, 0x12, 0x34, 0xff,
};

static void request_is_emitted_as_the_figure_has_it(void **state)
{
    const struct meeting_request request = {.to_qp_num = 0xabcd01, .from_qp_num = 0x1234ff};
    uint8_t buf[MEETING_REQUEST_LEN];
    assert_int_equal(meeting_request_emit(&request, buf), sizeof golden);
    assert_memory_equal(buf, golden, sizeof golden);
}

static void request_is_parsed(void **state)
{
    struct meeting_request request;
    char line[80];
    assert_int_equal(meeting_request_parse(span_of(golden, sizeof golden), &request), MEETING_OK);
    assert_int_equal(request.to_qp_num, 0xabcd01);
    assert_int_equal(request.from_qp_num, 0x1234ff);
    assert_string_equal(meeting_request_format(&request, line, sizeof line),
                        "queue pair 1193215 asks for queue pair 11259137");
}

static void other_lengths_are_refused(void **state)
{
    uint8_t longer[MEETING_REQUEST_LEN + 1] = {0};
    struct meeting_request request;
    memcpy(longer, golden, sizeof golden);
    for (size_t len = 0; len <= sizeof longer; len++) {
        assert_int_equal(meeting_request_parse(span_of(longer, len), &request),
                         len == sizeof golden ? MEETING_OK : MEETING_BAD_LEN);
    }
}

static void other_octets_are_refused(void **state)
{
    struct meeting_request request;
    for (unsigned i = 0; i < MEETING_OFF_TO; i++) {
        uint8_t other[sizeof golden];
        memcpy(other, golden, sizeof golden);
        other[i]++;
        assert_int_equal(meeting_request_parse(span_of(other, sizeof other), &request),
                         MEETING_BAD_MAGIC);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(request_is_emitted_as_the_figure_has_it),
        cmocka_unit_test(request_is_parsed),
        cmocka_unit_test(other_lengths_are_refused),
        cmocka_unit_test(other_octets_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
