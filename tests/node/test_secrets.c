// The file of secrets: what may stand in it, who may have it, and that a bad one changes nothing.

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/why.h"
#include "node/host/secrets.h"

#define GOOD   "[initiator a]\nname = me\nsecret = 123456789012\n"
#define TARGET "[target]\nname = node\nsecret = abcdefghijkl\n"

static char path[] = "/tmp/weft-secrets.XXXXXX";
static struct iscsi_accounts *accounts;
static struct why why;

static int make_file(void **state)
{
    int fd = mkstemp(path);
    accounts = calloc(1, sizeof *accounts);
    return fd >= 0 && close(fd) == 0 && accounts != NULL ? 0 : -1;
}

static int remove_file(void **state)
{
    free(accounts);
    return unlink(path);
}

static int reading_of(const char *text)
{
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fputs(text, out);
    assert_int_equal(fclose(out), 0);
    memset(accounts, 0, sizeof *accounts);
    why = (struct why){""};
    return secrets_read(path, accounts, &why);
}

static void everything_that_may_stand_in_it_is_read(void **state)
{
    assert_int_equal(reading_of(GOOD "initiator = iqn.a\ntarget = iqn.t\n" TARGET
                                     "[initiator b]\nsecret = 210987654321\nname = you\n"),
                     0);
    assert_true(accounts->is_required);
    assert_int_equal(accounts->count, 2);
    assert_string_equal(accounts->initiators[0].name, "me");
    assert_string_equal(accounts->initiators[0].secret, "123456789012");
    assert_string_equal(accounts->initiators[0].initiator, "iqn.a");
    assert_string_equal(accounts->initiators[0].target, "iqn.t");
    assert_string_equal(accounts->initiators[1].name, "you");
    assert_string_equal(accounts->initiators[1].secret, "210987654321");
    assert_string_equal(accounts->initiators[1].initiator, "");
    assert_string_equal(accounts->target.name, "node");
    assert_string_equal(accounts->target.secret, "abcdefghijkl");
    assert_int_equal(reading_of(GOOD), 0); // no proof of the target
    assert_int_equal(accounts->count, 1);
}

static void what_is_wrong_is_said_with_its_line_and_without_its_value(void **state)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"[other]\nname = x\n", "line 2: not [initiator LABEL] or [target]"},
        {"[initiator]\nname = x\n", "line 2: not [initiator LABEL] or [target]"},
        {"name = x\n", "line 1: not [initiator LABEL] or [target]"},
        {"[initiator a]\ncolour = red\n", "line 2: there is no such key"},
        {"[initiator a]\nname =\n", "line 2: empty, or too long"},
        {"[initiator a]\nsecret = 12345678901\n", "line 2: a secret has 12 octets or more"},
        {TARGET "target = iqn.t\n", "line 4: there is no such key"},
        {TARGET "initiator = iqn.t\n", "line 4: there is no such key"},
        {GOOD "nonsense\n", "line 4: it cannot be read"},
        {"", "it has no [initiator LABEL]"},
        {TARGET, "it has no [initiator LABEL]"},
        {"[initiator a]\nname = me\n", "an initiator lacks its name or secret"},
        {"[initiator a]\nsecret = 123456789012\n", "an initiator lacks its name or secret"},
        {GOOD "[target]\nname = node\n", "the target lacks its name or secret"},
        {GOOD "[target]\nsecret = abcdefghijkl\n", "the target lacks its name or secret"},
        {GOOD "[target]\nname = node\nsecret = 123456789012\n",
         "the target has the secret of an initiator"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(reading_of(cases[i].text), -EINVAL);
        assert_string_equal(why.text, cases[i].why);
        assert_int_equal(accounts->count, 0);
        assert_false(accounts->is_required);
    }
}

static void names_and_secrets_have_their_lengths(void **state)
{
    static const struct {
        const char *key;
        size_t len;
        bool is_good;
    } cases[] = {{"secret", ACCOUNT_SECRET_MAX - 1, true},
                 {"secret", ACCOUNT_SECRET_MAX, false},
                 {"secret", ACCOUNT_SECRET_MIN, true},
                 {"secret", ACCOUNT_SECRET_MIN - 1, false},
                 {"name", 100, true},
                 {"target", 100, true}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char value[256] = "", text[1024];
        memset(value, 'x', cases[i].len);
        bool is_secret = strcmp(cases[i].key, "secret") == 0;
        snprintf(text, sizeof text, "[initiator a]\n%s = %s\n%s%s", cases[i].key, value,
                 strcmp(cases[i].key, "name") == 0 ? "" : "name = n\n",
                 is_secret ? "" : "secret = 123456789012\n");
        assert_int_equal(reading_of(text), cases[i].is_good ? 0 : -EINVAL);
    }
}

static void there_are_so_many_initiators_and_no_more(void **state)
{
    for (unsigned count = ACCOUNT_COUNT_MAX; count <= ACCOUNT_COUNT_MAX + 1; count++) {
        size_t capacity = count * 80 + 1, len = 0;
        char *text = calloc(1, capacity);
        for (unsigned i = 0; i < count; i++) {
            len += (size_t)snprintf(text + len, capacity - len,
                                    "[initiator %u]\nname=%u\nsecret=123456789012\n", i, i);
        }
        int error = reading_of(text);
        free(text);
        assert_int_equal(error, count <= ACCOUNT_COUNT_MAX ? 0 : -EINVAL);
    }
    assert_non_null(strstr(why.text, "there are too many initiators"));
}

static void it_is_nobody_elses_to_read(void **state)
{
    static const struct {
        mode_t mode;
        int error;
    } cases[] = {{0600, 0},       {0400, 0},       {0700, 0},
                 {0640, -EACCES}, {0620, -EACCES}, {0610, -EACCES},
                 {0604, -EACCES}, {0602, -EACCES}, {0601, -EACCES}};
    reading_of(GOOD);
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(chmod(path, cases[i].mode), 0);
        assert_int_equal(secrets_read(path, accounts, &why), cases[i].error);
        if (cases[i].error != 0) {
            assert_string_equal(why.text, "others may use it; its mode must be 0600");
        }
    }
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(secrets_read("/tmp", accounts, &why), -EACCES);
    assert_string_equal(why.text, "it is no file");
    assert_int_equal(secrets_read("/nowhere/at/all", accounts, &why), -ENOENT);
    assert_string_equal(why.text, strerror(ENOENT));
    if (geteuid() == 0) {
        assert_int_equal(chown(path, 65534, 65534), 0);
        assert_int_equal(secrets_read(path, accounts, &why), -EACCES);
        assert_string_equal(why.text, "it belongs to somebody else");
        assert_int_equal(chown(path, 0, 0), 0);
    }
}

static void without_a_path_nothing_is_wanted(void **state)
{
    memset(accounts, 0, sizeof *accounts);
    assert_int_equal(secrets_read("", accounts, &why), 0);
    assert_false(accounts->is_required);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_that_may_stand_in_it_is_read),
        cmocka_unit_test(what_is_wrong_is_said_with_its_line_and_without_its_value),
        cmocka_unit_test(names_and_secrets_have_their_lengths),
        cmocka_unit_test(there_are_so_many_initiators_and_no_more),
        cmocka_unit_test(it_is_nobody_elses_to_read),
        cmocka_unit_test(without_a_path_nothing_is_wanted),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
