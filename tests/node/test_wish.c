// What an operator writes of volumes, sizes and times, on a command line or in a file.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "node/host/wish.h"

enum { TEXT_MAX = 2 * UNIT_URI_MAX };

static void expect_fails(int error, const struct why *why, const char *said)
{
    assert_int_equal(error, -EINVAL);
    if (strstr(why->text, said) == NULL) {
        fail_msg("'%s' is not in '%s'", said, why->text);
    }
}

// `len` times the character, behind what stands there.
static void append(char text[TEXT_MAX], char c, size_t len)
{
    size_t at = strlen(text);
    memset(text + at, c, len);
    text[at + len] = '\0';
}

static void append_text(char text[TEXT_MAX], const char *more)
{
    size_t at = strlen(text);
    snprintf(text + at, TEXT_MAX - at, "%s", more);
}

/* ---- volumes --------------------------------------------------------------------------------- */

static void a_volume_is_a_uri_with_or_without_a_name(void **state)
{
    static const struct {
        const char *text, *name, *uri;
    } table[] = {
        {"ram:1M", "ram", "ram:1M"},
        {"data=ram:1M", "data", "ram:1M"},
        {"a.b_c-9=ram:1M", "a.b_c-9", "ram:1M"},
        {"delay+ram:1M", "ram", "delay+ram:1M"},
        {"/srv/my disk.img", "my_disk.img", "file:/srv/my disk.img"},
        {"file:/srv/a", "a", "file:/srv/a"},
        {"disk.img", "disk.img", "file:disk.img"},
        {"/srv/", "glob", "glob:/srv/*"},
        {"/srv/?iops=5", "glob", "glob:/srv/*"},
        {"delay+glob:/srv/*.img?delay.read=1s", "glob", "delay+glob:/srv/*.img?delay.read=1s"},
        {"x=/srv/a", "x", "file:/srv/a"},
        {"a b=c", "a_b_c", "file:a b=c"}, // what is no name belongs to the path
        {"=x", "_x", "file:=x"},
        {":x", "_x", "file::x"},
        {"/:x", "_x", "file:/:x"},
        {"./ram:1M", "ram_1M", "file:./ram:1M"},
        {"/srv/%61", "a", "file:/srv/%61"},
    };
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct volume_wish wish;
        struct why why = {""};
        assert_int_equal(wish_parse(table[i].text, &wish, &why), 0);
        assert_string_equal(wish.name, table[i].name);
        assert_string_equal(wish.uri, table[i].uri);
        assert_int_equal(wish.allow_count, 0);
    }
}

static void what_no_driver_knows_is_no_volume(void **state)
{
    static const struct {
        const char *text, *said;
    } table[] = {{"floppy:a", "there is no driver floppy"},
                 {"a=floppy:a", "there is no driver floppy"},
                 {"delay:1M", "there is no driver delay"},
                 {"ram+ram:1M", "there is no filter ram"},
                 {"ram:1M?colour=red", "there is no parameter colour"},
                 {"ram:1M?size", "a parameter is KEY=VALUE"}};
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct volume_wish wish;
        struct why why = {""};
        expect_fails(wish_parse(table[i].text, &wish, &why), &why, table[i].said);
    }
}

static void a_uri_is_as_long_as_a_unit_can_be_told(void **state)
{
    struct volume_wish wish;
    struct why why = {""};
    char text[TEXT_MAX] = "/";
    append(text, 'x', UNIT_URI_MAX - 1 - strlen("file:/"));
    assert_int_equal(wish_parse(text, &wish, &why), 0);
    assert_int_equal(strlen(wish.uri), UNIT_URI_MAX - 1);
    append(text, 'x', 1);
    expect_fails(wish_parse(text, &wish, &why), &why, "the URI is too long");
}

static void a_name_is_as_long_as_names_are(void **state)
{
    struct volume_wish wish;
    struct why why = {""};
    char text[TEXT_MAX] = "";
    append(text, 'n', VOLUME_NAME_MAX - 1);
    assert_true(wish_name_is_good(text));
    append_text(text, "=ram:1M");
    assert_int_equal(wish_parse(text, &wish, &why), 0);
    assert_int_equal(strlen(wish.name), VOLUME_NAME_MAX - 1);
    assert_string_equal(wish.uri, "ram:1M");
    char longer[TEXT_MAX] = "n";
    append_text(longer, text);
    assert_int_equal(wish_parse(longer, &wish, &why), 0); // so it is a path
    assert_memory_equal(wish.uri, "file:nn", 7);
    longer[VOLUME_NAME_MAX] = '\0';
    assert_false(wish_name_is_good(longer));
    assert_false(wish_name_is_good(""));
    assert_false(wish_name_is_good("a b"));
    assert_false(wish_name_is_good("a/"));
}

static void a_name_that_is_taken_gets_a_number(void **state)
{
    static const struct volume_wish others[] = {
        {.name = "disk"}, {.name = "disk-2"}, {.name = "a"}};
    struct volume_wish wish = {.name = "disk"};
    wish_name_settle(others, 3, &wish);
    assert_string_equal(wish.name, "disk-3");
    wish = (struct volume_wish){.name = "b"};
    wish_name_settle(others, 3, &wish);
    assert_string_equal(wish.name, "b");
    wish = (struct volume_wish){.name = "a"};
    wish_name_settle(others, 2, &wish);
    assert_string_equal(wish.name, "a");
}

/* ---- who may use it -------------------------------------------------------------------------- */

// The driver hears nothing of it.
static void clients_are_taken_out_of_the_uri(void **state)
{
    static const struct {
        const char *text, *uri, *first, *second;
        unsigned count;
    } table[] = {
        {"ram:1M?allow=a", "ram:1M", "a", "", 1},
        {"ram:1M?allow=a&allow=nqn.2026-11.test:b", "ram:1M", "a", "nqn.2026-11.test:b", 2},
        {"delay+ram:1M?allow=a&delay.read=1s&allow=b&delay.write=2s",
         "delay+ram:1M?delay.read=1s&delay.write=2s", "a", "b", 2},
        {"delay+ram:1M?delay.read=1s&allow=a", "delay+ram:1M?delay.read=1s", "a", "", 1},
        {"ram:1M?allow=", "ram:1M", "", "", 1},
        {"/srv/allow=a", "file:/srv/allow=a", "", "", 0},
    };
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct volume_wish wish;
        struct why why = {""};
        assert_int_equal(wish_parse(table[i].text, &wish, &why), 0);
        assert_string_equal(wish.uri, table[i].uri);
        assert_int_equal(wish.allow_count, table[i].count);
        assert_string_equal(wish.allow[0], table[i].first);
        assert_string_equal(wish.allow[1], table[i].second);
    }
}

static void protocols_are_taken_out_of_the_uri_and_known(void **state)
{
    static const char *const names[] = {"nbd", "nvme-tcp", "nvme-rdma", "iscsi", "iscsi-rdma"};
    struct volume_wish wish;
    struct why why = {""};
    char text[TEXT_MAX] = "ram:1M";
    for (unsigned i = 0; i < 5; i++) {
        append_text(text, i == 0 ? "?protocol=" : "&protocol=");
        append_text(text, names[i]);
        assert_int_equal(wish_parse(text, &wish, &why), 0);
        assert_string_equal(wish.uri, "ram:1M");
        assert_int_equal(wish.service_count, i + 1);
        assert_string_equal(wish.services[i], names[i]);
    }
    append_text(text, "&protocol=nbd&protocol=nbd&protocol=nbd");
    assert_int_equal(wish_parse(text, &wish, &why), 0);
    assert_int_equal(wish.service_count, UMA_SERVICE_COUNT_MAX);
    append_text(text, "&protocol=nbd");
    expect_fails(wish_parse(text, &wish, &why), &why, "there are 8 already");
    expect_fails(wish_parse("ram:1M?protocol=ftp", &wish, &why), &why, "protocol=ftp: it must be");
    expect_fails(wish_parse("ram:1M?protocol=", &wish, &why), &why, "protocol=: it must be");
    assert_int_equal(wish_key_set(&wish, "protocol", "NBD", &why), -EINVAL);
}

static void clients_are_so_many_and_their_names_so_long(void **state)
{
    struct volume_wish wish;
    struct why why = {""};
    char text[TEXT_MAX] = "ram:1M?allow=0";
    for (unsigned i = 1; i < UMA_ALLOW_COUNT_MAX; i++) {
        append_text(text, "&allow=x");
    }
    assert_int_equal(wish_parse(text, &wish, &why), 0);
    assert_int_equal(wish.allow_count, UMA_ALLOW_COUNT_MAX);
    assert_string_equal(wish.allow[UMA_ALLOW_COUNT_MAX - 1], "x");
    append_text(text, "&allow=last");
    expect_fails(wish_parse(text, &wish, &why), &why, "too many clients allowed");
    assert_non_null(strstr(why.text, "last"));
    snprintf(text, sizeof text, "ram:1M?allow=");
    append(text, 'y', CLIENT_IDENTITY_MAX - 1);
    assert_int_equal(wish_parse(text, &wish, &why), 0);
    assert_int_equal(strlen(wish.allow[0]), CLIENT_IDENTITY_MAX - 1);
    append(text, 'y', 1);
    expect_fails(wish_parse(text, &wish, &why), &why, "too long a name: yyy");
    assert_int_equal(strlen(strchr(why.text, ':')), strlen(": ") + 64); // no more is shown of it
}

static void a_rate_is_taken_out_of_the_uri(void **state)
{
    static const struct {
        const char *text, *uri;
        uint64_t iops, bps;
    } table[] = {
        {"ram:1M?iops=1", "ram:1M", 1, 0},
        {"delay+ram:1M?bps=10M&delay.read=1s&iops=1000000000", "delay+ram:1M?delay.read=1s",
         1000000000, 10 << 20},
        {"ram:1M?allow=iops=5", "ram:1M", 0, 0},
        {"ram:1M?bps=0000000000000000000000000000000000000001K", "ram:1M", 0, 1 << 10},
    };
    static const struct {
        const char *text, *said;
    } bad[] = {{"ram:1M?iops=0", "iops=0: it must be 1 to"},
               {"ram:1M?iops=1000000001", "it must be 1 to"},
               {"ram:1M?iops=1K", "iops=1K"},
               {"ram:1M?iops=", "iops=: it must"},
               {"ram:1M?bps=0", "bps=0: it must be octets"},
               {"ram:1M?bps=fast&iops=1", "bps=fast: it must"}};
    struct why why = {""};
    struct volume_wish wish;
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        assert_int_equal(wish_parse(table[i].text, &wish, &why), 0);
        assert_string_equal(wish.uri, table[i].uri);
        assert_int_equal(wish.rate.iops, table[i].iops);
        assert_int_equal(wish.rate.bps, table[i].bps);
    }
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        expect_fails(wish_parse(bad[i].text, &wish, &why), &why, bad[i].said);
    }
}

static void a_qualified_name_is_taken_out_of_the_uri(void **state)
{
    static const struct {
        const char *text, *said;
    } bad[] = {{"ram:1M?nqn=", "it must be 1 to 223 letters, digits, . : - _"},
               {"ram:1M?nqn=nqn.2026-11.test/a", "nqn=nqn.2026-11.test/a: it must be"},
               {"ram:1M?nqn=a b", "nqn=a b: it must be"},
               {"ram:1M?nqn=nqn.2014-08.org.nvmexpress.discovery", "it is the name of discovery"},
               {"/srv/?nqn=nqn.2026-11.test:all&nsid=2", "nsid and lun are numbers of one volume"},
               {"ram:1M?nsid=0", "nsid=0: it must be 1 to 256"},
               {"ram:1M?nsid=257", "nsid=257: it must be"},
               {"ram:1M?nsid=", "nsid=: it must be"},
               {"ram:1M?nsid=1x", "nsid=1x: it must be"}};
    char text[TEXT_MAX] = "ram:1M?nqn=nqn.2026-11.test:";
    struct why why = {""};
    struct volume_wish wish;
    assert_int_equal(wish_parse("ram:1M?nqn=nqn.2026-11.test:A-1_b&iops=5", &wish, &why), 0);
    assert_string_equal(wish.uri, "ram:1M");
    assert_string_equal(wish.places[VOLUME_IN_SUBSYSTEM].group, "nqn.2026-11.test:A-1_b");
    assert_int_equal(wish.places[VOLUME_IN_SUBSYSTEM].member, 0);
    assert_int_equal(wish_parse("ram:1M?nsid=256&nqn=a", &wish, &why), 0);
    assert_string_equal(wish.uri, "ram:1M");
    assert_int_equal(wish.places[VOLUME_IN_SUBSYSTEM].member, 256);
    assert_int_equal(wish_parse("/srv/?nqn=a", &wish, &why), 0); // all that is found, together
    assert_string_equal(wish.places[VOLUME_IN_SUBSYSTEM].group, "a");
    assert_int_equal(wish_parse("ram:1M?nqn=nqn.2026-11.test:A-1_b", &wish, &why), 0);
    append(text, 'x', VOLUME_GROUP_MAX - 1 - strlen("nqn.2026-11.test:"));
    assert_int_equal(wish_parse(text, &wish, &why), 0);
    assert_int_equal(strlen(wish.places[VOLUME_IN_SUBSYSTEM].group), VOLUME_GROUP_MAX - 1);
    append(text, 'x', 1);
    expect_fails(wish_parse(text, &wish, &why), &why, "it must be 1 to 223");
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        expect_fails(wish_parse(bad[i].text, &wish, &why), &why, bad[i].said);
    }
}

static void volumes_may_be_units_of_one_target(void **state)
{
    static const struct {
        const char *text, *said;
    } bad[] = {{"ram:1M?target=", "target=: it must be iqn., eui. or naa."},
               {"ram:1M?target=disk", "target=disk: it must be iqn."},
               {"ram:1M?target=iqn.", "it must be iqn., eui. or naa. and more"},
               {"ram:1M?target=iqn.2026-11.test:A", "at most 223 small letters"},
               {"ram:1M?target=iqn.2026-11.test:a_b", "digits, . : -"},
               {"/srv/?target=iqn.2026-11.test:a&lun=0", "are numbers of one volume"},
               {"ram:1M?lun=256", "lun=256: it must be 0 to 255"},
               {"ram:1M?lun=", "lun=: it must be"},
               {"ram:1M?lun=-1", "lun=-1: it must be"}};
    char text[TEXT_MAX] = "ram:1M?target=eui.";
    struct why why = {""};
    struct volume_wish wish;
    const struct volume_place *place = &wish.places[VOLUME_IN_TARGET];
    assert_int_equal(wish_parse("ram:1M?target=iqn.2026-11.test:a-1&iops=5", &wish, &why), 0);
    assert_string_equal(wish.uri, "ram:1M");
    assert_string_equal(place->group, "iqn.2026-11.test:a-1");
    assert_int_equal(place->member, 0);
    assert_string_equal(wish.places[VOLUME_IN_SUBSYSTEM].group, "");
    assert_int_equal(wish_parse("ram:1M?lun=255&target=naa.5", &wish, &why), 0);
    assert_int_equal(place->member, 256);
    assert_int_equal(wish_parse("ram:1M?lun=0", &wish, &why), 0);
    assert_int_equal(place->member, 1);
    assert_int_equal(wish_parse("/srv/?target=iqn.2026-11.test:a", &wish, &why), 0);
    append(text, '5', VOLUME_GROUP_MAX - 1 - strlen("eui."));
    assert_int_equal(wish_parse(text, &wish, &why), 0);
    assert_int_equal(strlen(place->group), VOLUME_GROUP_MAX - 1);
    append(text, '5', 1);
    expect_fails(wish_parse(text, &wish, &why), &why, "at most 223");
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        expect_fails(wish_parse(bad[i].text, &wish, &why), &why, bad[i].said);
    }
}

/* ---- numbers --------------------------------------------------------------------------------- */

static void a_pool_is_rounded_up_to_the_longest_requests(void **state)
{
    static const struct {
        const char *text;
        uint64_t len;
    } table[] = {{"1", NODE_TRANSFER_MAX},
                 {"32M", NODE_TRANSFER_MAX},
                 {"33554433", 2 * NODE_TRANSFER_MAX},
                 {"100M", 4 * UINT64_C(32) << 20},
                 {"1T", UINT64_C(1) << 40}};
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct why why = {""};
        uint64_t len = 0;
        assert_int_equal(wish_pool_parse(table[i].text, &len, &why), 0);
        assert_int_equal(len, table[i].len);
    }
    static const char *const bad[] = {"0", "1099511627777", "2T", "-1", "much", ""};
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct why why = {""};
        uint64_t len = 0;
        assert_int_equal(wish_pool_parse(bad[i], &len, &why), -EINVAL);
        assert_true(why_is_said(&why));
    }
}

static void patience_is_more_than_nothing(void **state)
{
    struct why why = {""};
    duration_ns patience = 0;
    assert_int_equal(wish_patience_parse("1ms", &patience, &why), 0);
    assert_int_equal(patience, NS_PER_MS);
    assert_int_equal(wish_patience_parse("30s", &patience, &why), 0);
    assert_int_equal(patience, 30 * NS_PER_S);
    expect_fails(wish_patience_parse("0s", &patience, &why), &why, "more than nothing");
    assert_int_equal(wish_patience_parse("long", &patience, &why), -EINVAL);
}

static void connections_over_rdma_are_at_least_two(void **state)
{
    static const char *const bad[] = {"1", "4097", "-2", "many", ""};
    struct why why = {""};
    unsigned count = 0;
    assert_int_equal(wish_rdma_connections_parse("2", &count, &why), 0);
    assert_int_equal(count, 2);
    assert_int_equal(wish_rdma_connections_parse("4096", &count, &why), 0);
    assert_int_equal(count, 4096);
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        expect_fails(wish_rdma_connections_parse(bad[i], &count, &why), &why, "2 to 4096");
    }
}

static void a_volume_may_stand_by(void **state)
{
    static const struct {
        const char *text;
        bool may_stand_by;
        const char *said; // NULL: it is good
    } rows[] = {
        {"file:/srv/a?standby=on", true, NULL},
        {"file:/srv/a?standby=off", false, NULL},
        {"file:/srv/a", false, NULL},
        {"file:/srv/a?standby=onn", false, "standby=onn: it must be on or off"},
        {"file:/srv/a?standby=of", false, "standby=of: it must be on or off"},
        {"file:/srv/a?standby=", false, "standby=: it must be on or off"},
        {"file:/srv/a?standby=ofn", false, "standby=ofn: it must be on or off"},
        {"file:/srv/a?standby=no", false, "standby=no: it must be on or off"},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct volume_wish wish;
        struct why why = {""};
        int error = wish_parse(rows[i].text, &wish, &why);
        if (rows[i].said != NULL) {
            expect_fails(error, &why, rows[i].said);
            continue;
        }
        assert_int_equal(error, 0);
        assert_int_equal(wish.may_stand_by, rows[i].may_stand_by);
        assert_string_equal(wish.uri, "file:/srv/a");
    }
}

static void who_may_stand_by_has_an_rta_and_a_device_for_it(void **state)
{
    struct volume_wish wish;
    struct why why = {""};
    assert_int_equal(wish_parse("ram:1M", &wish, &why), 0);
    assert_int_equal(wish_standby_check(&wish, false, &why), 0); // nobody wishes it
    wish.may_stand_by = true;
    assert_int_equal(wish_standby_check(&wish, true, &why), -EINVAL); // memory is one node's
    assert_true(why_is_said(&why));
    assert_int_equal(wish_parse("file:/srv/a?standby=on", &wish, &why), 0);
    assert_int_equal(wish_standby_check(&wish, true, &why), 0);
    expect_fails(wish_standby_check(&wish, false, &why), &why, "has an RTA of its own");
    wish.read_only = true;
    expect_fails(wish_standby_check(&wish, true, &why), &why, "is read-only");
}

static void controllers_are_numbered_from_what_leaves_room_for_all(void **state)
{
    uint16_t number = 0;
    struct why why = {""};
    assert_int_equal(wish_cntlid_parse("1", &number, &why), 0);
    assert_int_equal(number, 1);
    assert_int_equal(wish_cntlid_parse("65264", &number, &why), 0); // and 255 up to ffefh
    assert_int_equal(number, 65264);
    expect_fails(wish_cntlid_parse("65265", &number, &why), &why, "it must be 1 to 65264");
    expect_fails(wish_cntlid_parse("0", &number, &why), &why, "it must be 1 to 65264");
    assert_int_equal(number, 65264);
}

static void a_namespace_has_a_number_from_1(void **state)
{
    struct volume_wish wish;
    struct why why = {""};
    assert_int_equal(wish_parse("ram:1M?nsid=1", &wish, &why), 0);
    assert_int_equal(wish.places[VOLUME_IN_SUBSYSTEM].member, 1);
    assert_int_equal(wish_parse("ram:1M?nsid=256", &wish, &why), 0);
    expect_fails(wish_parse("ram:1M?nsid=257", &wish, &why), &why, "it must be 1 to 256");
    expect_fails(wish_parse("ram:1M?nsid=0", &wish, &why), &why, "it must be 1 to 256");
}

static void names_have_each_letter_of_their_alphabet(void **state)
{
    struct volume_wish wish;
    struct why why = {""};
    const char *nqn = wish.places[VOLUME_IN_SUBSYSTEM].group;
    const char *target = wish.places[VOLUME_IN_TARGET].group;
    memset(&wish, '~', sizeof wish);
    assert_int_equal(wish_key_set(&wish, "nqn", "azAZ09.:-_", &why), 0);
    assert_string_equal(nqn, "azAZ09.:-_");
    static const char *const no_nqns[] = {"a`", "a{", "a@", "a[", "a/", "a,"};
    for (unsigned i = 0; i < sizeof no_nqns / sizeof no_nqns[0]; i++) {
        assert_int_equal(wish_key_set(&wish, "nqn", no_nqns[i], &why), -EINVAL);
    }
    static const char *const targets[] = {"iqn.az", "eui.09", "naa.-"};
    for (unsigned i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        memset(&wish, '~', sizeof wish);
        assert_int_equal(wish_key_set(&wish, "target", targets[i], &why), 0);
        assert_string_equal(target, targets[i]);
    }
    static const char *const none[] = {"iqn.", "iqx.az", "az", "iqn.A", "xiqn.az"};
    for (unsigned i = 0; i < sizeof none / sizeof none[0]; i++) {
        assert_int_equal(wish_key_set(&wish, "target", none[i], &why), -EINVAL);
    }
}

static void what_is_no_word_of_the_node_is_left_to_others(void **state)
{
    static const char *const others[] = {"", "allo", "allowed", "nq", "read-only", "uri"};
    struct volume_wish wish = {0};
    struct why why = {""};
    for (unsigned i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_int_equal(wish_key_set(&wish, others[i], "x", &why), -ENOENT);
    }
    assert_false(why_is_said(&why));
}

// Of what is too long so much is told.
static void what_is_too_long_is_told_by_its_beginning(void **state)
{
    static const struct {
        const char *parameter, *said, *behind;
    } rows[] = {{"iops=", "iops=", ": it must be 1 to 1000000000 requests a second"},
                {"allow=", "too long a name: ", ""}};
    for (unsigned i = 0; i < 2; i++) {
        for (size_t len = 63; len <= 300; len += len == 65 ? 235 : 1) {
            char text[TEXT_MAX] = "ram:1M?", told[TEXT_MAX] = "";
            struct volume_wish wish;
            struct why why = {""};
            append_text(text, rows[i].parameter);
            append(text, '7', len);
            if (wish_parse(text, &wish, &why) == 0) {
                continue; // a name may be longer than digits
            }
            append_text(told, rows[i].said);
            append(told, '7', len < 64 ? len : 64);
            append_text(told, rows[i].behind);
            assert_string_equal(why.text, told);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_volume_is_a_uri_with_or_without_a_name),
        cmocka_unit_test(what_no_driver_knows_is_no_volume),
        cmocka_unit_test(a_uri_is_as_long_as_a_unit_can_be_told),
        cmocka_unit_test(a_name_is_as_long_as_names_are),
        cmocka_unit_test(a_name_that_is_taken_gets_a_number),
        cmocka_unit_test(clients_are_taken_out_of_the_uri),
        cmocka_unit_test(protocols_are_taken_out_of_the_uri_and_known),
        cmocka_unit_test(clients_are_so_many_and_their_names_so_long),
        cmocka_unit_test(a_rate_is_taken_out_of_the_uri),
        cmocka_unit_test(a_qualified_name_is_taken_out_of_the_uri),
        cmocka_unit_test(volumes_may_be_units_of_one_target),
        cmocka_unit_test(a_pool_is_rounded_up_to_the_longest_requests),
        cmocka_unit_test(patience_is_more_than_nothing),
        cmocka_unit_test(connections_over_rdma_are_at_least_two),
        cmocka_unit_test(a_volume_may_stand_by),
        cmocka_unit_test(who_may_stand_by_has_an_rta_and_a_device_for_it),
        cmocka_unit_test(controllers_are_numbered_from_what_leaves_room_for_all),
        cmocka_unit_test(a_namespace_has_a_number_from_1),
        cmocka_unit_test(names_have_each_letter_of_their_alphabet),
        cmocka_unit_test(what_is_no_word_of_the_node_is_left_to_others),
        cmocka_unit_test(what_is_too_long_is_told_by_its_beginning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
