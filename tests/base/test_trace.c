// A trace line is made for who listens to its room, and never longer than it may be.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/trace.h"

static char said[1000];
static enum trace_room said_room;
static unsigned made_count;

static void hear(struct trace *trace, enum trace_room room, const char *line)
{
    said_room = room;
    strncpy(said, line, sizeof said - 1);
}

static int made(void)
{
    return (int)++made_count;
}

static int setup(void **state)
{
    memset(said, 0, sizeof said);
    made_count = 0;
    return 0;
}

static void who_listens_hears_the_line(void **state)
{
    struct trace trace = {.rooms = 1U << TRACE_QP, .emit = hear};
    TRACE(&trace, TRACE_QP, "number %d", made());
    assert_string_equal(said, "number 1");
    assert_int_equal(said_room, TRACE_QP);
}

static void nothing_is_made_for_nobody(void **state)
{
    struct trace trace = {.rooms = ~(1U << TRACE_QP), .emit = hear};
    struct trace *none = NULL;
    TRACE(&trace, TRACE_QP, "number %d", made());
    TRACE(none, TRACE_QP, "number %d", made());
    assert_string_equal(said, "");
    assert_int_equal(made_count, 0);
}

static void long_line_is_cut(void **state)
{
    struct trace trace = {.rooms = 1U << TRACE_MPA, .emit = hear};
    char text[600];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    TRACE(&trace, TRACE_MPA, "%s", text);
    assert_int_equal(strlen(said), 399);
}

#define CASE(name) cmocka_unit_test_setup(name, setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(who_listens_hears_the_line),
        CASE(nothing_is_made_for_nobody),
        CASE(long_line_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
