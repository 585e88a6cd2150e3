// URIs of portals and discovery services, and what strangers' names become behind them.

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/time.h"
#include "base/why.h"
#include "node/discovery/remote_uri.h"
#include "node/interface/uma_rta.h"
#include "node/interface/volume.h"

static struct remote_uri parsed(const char *uri)
{
    struct remote_uri ret;
    struct why why = {""};
    assert_int_equal(remote_uri_parse(uri, &ret, &why), 0);
    return ret;
}

static void a_pattern_makes_a_source(void **state)
{
    static const char *const sources[] = {"iscsi://h/*", "nvme+tcp://h:8009/nqn.2014*",
                                          "delay+nvme+rdma://[::1]/*?most=3", "log+iscsi://h/*/1"};
    static const char *const others[] = {"iscsi://h/target/1", "nvme+tcp://h/nqn", "iscsi://h",
                                         "iscsi://*",          "file:/srv/*",      "nbd://h/*",
                                         "iscsi://h/t/1?x=*",  "xiscsi://h/*"};
    for (unsigned i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        assert_true(remote_uri_is(sources[i]));
    }
    for (unsigned i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_false(remote_uri_is(others[i]));
    }
}

static void parts_are_the_sources_or_each_devices(void **state)
{
    struct remote_uri uri = parsed(
        "delay+iscsi://me%25pw@h:1/iqn.%2a*?delay=1ms&most=7&initiator=iqn.i&interval=2s&a=b*");
    assert_string_equal(uri.head, "delay+iscsi");
    assert_string_equal(uri.driver, "iscsi");
    assert_string_equal(uri.user, "me%25pw@");
    assert_string_equal(uri.where, "h:1");
    assert_string_equal(uri.pattern, "iqn.**");
    assert_string_equal(uri.rest, "?delay=1ms&initiator=iqn.i&a=b*");
    assert_string_equal(uri.initiator, "iqn.i");
    assert_int_equal(uri.most, 7);
    assert_int_equal(uri.interval_ns, 2 * NS_PER_S);
}

static void a_password_ends_at_the_last_at_sign(void **state)
{
    struct remote_uri uri = parsed("iscsi://me%25p@w@h:1/*");
    assert_string_equal(uri.user, "me%25p@w@");
    assert_string_equal(uri.where, "h:1");
}

static void what_is_not_said_has_its_default(void **state)
{
    struct remote_uri uri = parsed("iscsi://h/*?initiator=iqn.%41%2f");
    assert_int_equal(uri.most, 128);
    assert_int_equal(uri.interval_ns, 30 * NS_PER_S);
    assert_string_equal(uri.initiator, "iqn.A/");
    assert_string_equal(uri.rest, "?initiator=iqn.%41%2f");
    assert_string_equal(uri.user, "");
}

static void each_bound_is_kept_or_named(void **state)
{
    static const struct {
        const char *uri, *why; // NULL: it is taken
    } rows[] = {
        {"iscsi://h/*?interval=1s", NULL},
        {"iscsi://h/*?interval=999ms", "interval must be 1s to 86400s"},
        {"iscsi://h/*?interval=86400s", NULL},
        {"iscsi://h/*?interval=86401s", "interval must be 1s to 86400s"},
        {"iscsi://h/*?interval=often", ""},
        {"iscsi://h/*?interval=often&a=b", ""}, // whatever stands behind it
        {"iscsi://h/*?most=1&a=b", NULL},
        {"iscsi://h/*?most=0&a=b", "most must be 1 to 1024"},
        {"iscsi://h/*?most=1024", NULL},
        {"iscsi://h/*?most=1025", "most must be 1 to 1024"},
        {"file:/srv/*", "not DRIVER://"},
        {"iscsi://h/*/1", "the pattern is of names of targets"},
        {"iscsi://me%25p/*w@h/*", "a slash before it is %2F"},
        {"iscsi://me%25p/w*@h", "a slash before it is %2F"},
        {"iscsi://me%25p/w*?x@h/*", "a question mark before it is %3F"},
        {"iscsi:///*", "there is no host"},
        {"iscsi://:3260/*", "there is no host"},
        {"iscsi://me%25pw@/*", "there is no host"},
        {"nvme+tcp://me@h/*", "NVMe has no users"},
        {"nvme+rdma://me@h/*", "NVMe has no users"},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct remote_uri ret;
        struct why why = {""};
        int error = remote_uri_parse(rows[i].uri, &ret, &why);
        assert_int_equal(error, rows[i].why != NULL ? -EINVAL : 0);
        assert_non_null(strstr(why.text, rows[i].why != NULL ? rows[i].why : ""));
        assert_int_equal(why.text[0] != '\0', rows[i].why != NULL);
    }
}

// Each part as long as there is room for it, and one longer.
static void no_part_is_cut(void **state)
{
    static const struct {
        const char *before, *behind;
        size_t room;
        const char *why;
    } rows[] = {{"", "+iscsi://h/*", 64 - 1 - 6, "too many filters"},
                {"iscsi://", "/*", REMOTE_HOST_MAX - 1, "it is too long"},
                {"iscsi://", "@h/*", REMOTE_USER_MAX - 2, "it is too long"},
                {"iscsi://h/*", "", UNIT_URI_MAX - 1 - 11, "too long"},
                {"iscsi://me%25hush@h/*", "", UNIT_URI_MAX - 1 - 21, "too long"}};
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (unsigned more = 0; more < 2; more++) {
            char part[UNIT_URI_MAX + 1] = "", uri[2 * UNIT_URI_MAX];
            struct remote_uri ret;
            struct why why = {""};
            memset(part, 'x', rows[i].room + more);
            snprintf(uri, sizeof uri, "%s%s%s", rows[i].before, part, rows[i].behind);
            assert_int_equal(remote_uri_parse(uri, &ret, &why), more > 0 ? -EINVAL : 0);
            assert_non_null(strstr(why.text, more > 0 ? rows[i].why : ""));
            assert_null(strstr(why.text, "hush")); // the log may be read by others
        }
    }
}

static void a_unit_has_a_uri_and_a_name(void **state)
{
    struct remote_uri uri = parsed("delay+iscsi://me%25pw@h:1/*?delay=1ms");
    char found[UNIT_URI_MAX], name[VOLUME_NAME_MAX];
    assert_true(remote_uri_of(&uri, "", "iqn.x:disk", 3, found, name));
    assert_string_equal(found, "delay+iscsi://me%25pw@h:1/iqn.x:disk/3?delay=1ms");
    assert_string_equal(name, "iqn.x_disk-lun3");
    assert_true(remote_uri_of(&uri, "[fe80::1]:3260", "iqn.x:disk", 0, found, name));
    assert_string_equal(found, "delay+iscsi://me%25pw@[fe80::1]:3260/iqn.x:disk/0?delay=1ms");
    uri = parsed("nvme+rdma://h/*");
    assert_true(remote_uri_of(&uri, "", "nqn.y", 2, found, name));
    assert_string_equal(name, "nqn.y-ns2");
}

static void a_long_name_keeps_its_end_and_is_no_others(void **state)
{
    struct remote_uri uri = parsed("iscsi://h/*");
    char found[UNIT_URI_MAX], one[VOLUME_NAME_MAX], two[VOLUME_NAME_MAX], again[VOLUME_NAME_MAX];
    const char *tail = "-a-long-name-of-which-no-more-than-the-end-has-room-here:disk";
    char target[2][REMOTE_TARGET_MAX];
    snprintf(target[0], sizeof target[0], "iqn.2026-11.invalid.one%s", tail);
    snprintf(target[1], sizeof target[1], "iqn.2026-11.invalid.two%s", tail);
    assert_true(remote_uri_of(&uri, "", target[0], 1, found, one));
    assert_true(remote_uri_of(&uri, "", target[1], 1, found, two));
    assert_true(remote_uri_of(&uri, "", target[0], 1, found, again));
    assert_int_equal(strlen(one), VOLUME_NAME_MAX - 1);
    assert_string_equal(one + strlen(one) - 10, "_disk-lun1");
    assert_string_equal(one, again);
    assert_string_not_equal(one, two);
}

static void strangers_names_end_no_part_of_a_uri(void **state)
{
    static const char *const targets[] = {"",    "a/b",      "a?x=1",    "a#b",  "a%41", "a b",
                                          "a\n", "a\x1b[2J", "\xc3\xa4", "../a", "a&b",  "a@b"};
    static const char *const places[] = {"h/x", "me@h", "h?x", "h h", "h\n", "%41"};
    struct remote_uri uri = parsed("iscsi://h/*");
    char found[UNIT_URI_MAX], name[VOLUME_NAME_MAX], longest[REMOTE_TARGET_MAX + 1] = "";
    for (unsigned i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        assert_false(remote_uri_of(&uri, "", targets[i], 1, found, name));
    }
    for (unsigned i = 0; i < sizeof places / sizeof places[0]; i++) {
        assert_false(remote_uri_of(&uri, places[i], "iqn.a", 1, found, name));
    }
    memset(longest, 'a', REMOTE_TARGET_MAX);
    assert_false(remote_uri_of(&uri, "", longest, 1, found, name));
    longest[REMOTE_TARGET_MAX - 1] = '\0';
    assert_true(remote_uri_of(&uri, "", longest, 1, found, name));
}

static void a_uri_that_gets_too_long_is_none(void **state)
{
    char text[UNIT_URI_MAX], found[UNIT_URI_MAX], name[VOLUME_NAME_MAX];
    snprintf(text, sizeof text, "iscsi://h/*?x=");
    memset(text + strlen(text), 'a', sizeof text - strlen("iscsi://h/*?x=") - 1);
    text[sizeof text - 1] = '\0';
    struct remote_uri uri = parsed(text);
    assert_false(remote_uri_of(&uri, "", "iqn.a", 1, found, name));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pattern_makes_a_source),
        cmocka_unit_test(parts_are_the_sources_or_each_devices),
        cmocka_unit_test(a_password_ends_at_the_last_at_sign),
        cmocka_unit_test(what_is_not_said_has_its_default),
        cmocka_unit_test(each_bound_is_kept_or_named),
        cmocka_unit_test(no_part_is_cut),
        cmocka_unit_test(a_unit_has_a_uri_and_a_name),
        cmocka_unit_test(a_long_name_keeps_its_end_and_is_no_others),
        cmocka_unit_test(strangers_names_end_no_part_of_a_uri),
        cmocka_unit_test(a_uri_that_gets_too_long_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
