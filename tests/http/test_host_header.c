// Whom a browser believes it speaks to, and what a request's head may be.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "http/head.h"
#include "http/host_header.h"

static void loopback_by_name_or_number_is_this_machine(void **state)
{
    static const char *const own[] = {
        "localhost",   "LocalHost:8080",        "localhost.", "weft.localhost:1",
        "127.0.0.1",   "127.1.2.3:9109",        "[::1]",      "[::1]:65535",
        "localhost:0", "[::ffff:127.0.0.1]:80",
    };
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        assert_true(http_host_is_loopback(own[i], strlen(own[i])));
    }
}

// RFC 1035 section 2.3.4: 255 octets.
static void names_are_as_long_as_names_may_be(void **state)
{
    static const char own[] = ".localhost";
    char name[256 + 1];
    memset(name, 'a', sizeof name);
    memcpy(name + 256 - strlen(own), own, sizeof own);
    assert_true(http_host_is_loopback(name + 1, 255));
    assert_false(http_host_is_loopback(name, 256));
}

static void any_other_host_is_foreign(void **state)
{
    static const char *const foreign[] = {
        "",
        "example.com",
        "localhost.example.com",
        "notlocalhost",
        "192.0.2.1",
        "128.0.0.1",
        "127.0.0.1.nip.io",
        "[::2]",
        "::1",
        "[::1",
        "0.0.0.0",
        "127.0.0.1:65536",
        "127.0.0.1:00000080", // longer than any port
        "127.0.0.1:000000000000000080",
        "127.0.0.1:x",
        "localhost:80:80",
        "127.1",
        "2130706433",
        "[::ffff:1.2.3.4]",
        "localhost/",
        ".",
        " localhost ",
    };
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        assert_false(http_host_is_loopback(foreign[i], strlen(foreign[i])));
    }
    assert_false(http_host_is_loopback("127.0.0.1\0.example", 18));
}

static struct http_head plain(void)
{
    return (struct http_head){
        .method = "GET", .field_count = 1, .host_count = 1, .host = "localhost", .host_len = 9};
}

static void each_fault_of_a_head_has_its_verdict(void **state)
{
    struct http_head head = plain();
    assert_int_equal(http_head_judge(&head, true), HTTP_MAY_BE_ANSWERED);
    head.method = "HEAD";
    assert_int_equal(http_head_judge(&head, true), HTTP_MAY_BE_ANSWERED);
    head.method = "get";
    assert_int_equal(http_head_judge(&head, true), HTTP_NO_SUCH_METHOD);
    head = plain();
    head.field_count = HTTP_FIELD_MAX;
    assert_int_equal(http_head_judge(&head, true), HTTP_MAY_BE_ANSWERED);
    head.field_count++;
    assert_int_equal(http_head_judge(&head, true), HTTP_TOO_MANY_FIELDS);
    head = plain();
    head.has_body = true;
    assert_int_equal(http_head_judge(&head, true), HTTP_HAS_BODY);
    head = plain();
    head.host_count = 2;
    assert_int_equal(http_head_judge(&head, false), HTTP_NO_HOST);
    head.host_count = 0;
    assert_int_equal(http_head_judge(&head, false), HTTP_NO_HOST);
    head.is_1_0 = true;
    assert_int_equal(http_head_judge(&head, true), HTTP_MAY_BE_ANSWERED);
}

static void a_foreign_host_is_refused_on_loopback_alone(void **state)
{
    struct http_head head = plain();
    head.host = "rebound.example";
    head.host_len = strlen(head.host);
    assert_int_equal(http_head_judge(&head, true), HTTP_FOREIGN_HOST);
    assert_int_equal(http_head_judge(&head, false), HTTP_MAY_BE_ANSWERED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loopback_by_name_or_number_is_this_machine),
        cmocka_unit_test(names_are_as_long_as_names_may_be),
        cmocka_unit_test(any_other_host_is_foreign),
        cmocka_unit_test(each_fault_of_a_head_has_its_verdict),
        cmocka_unit_test(a_foreign_host_is_refused_on_loopback_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
