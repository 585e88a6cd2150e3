// Patterns and what is found by them: which URIs are such, where they are looked for, and what a
// file's or a unit's volume is called and opened by.

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/siphash.h"
#include "node/discovery/names.h"
#include "node/discovery/pattern.h"

/* ---- patterns -------------------------------------------------------------------------------- */

static void a_pattern_is_known_by_its_scheme(void **state)
{
    static const struct {
        const char *uri;
        bool is;
    } rows[] = {{"glob:/a/*", true},
                {"lose+glob:/a/*", true},
                {"a+b+glob:x", true},
                {"glob:", true},
                {"file:/a/*", false},
                {"xglob:/a", false},
                {"glob/a", false},
                {"lob:/a", false},
                {":glob:/a", false},
                {"glab:/a/*", false},
                {"", false},
                {"file:glob:/a", false},
                {"glob+file:/a", false}};
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(pattern_is(rows[i].uri), rows[i].is);
    }
}

static void a_pattern_is_the_last_component(void **state)
{
    static const struct {
        const char *uri, *folder, *pattern; // folder NULL: refused
    } rows[] = {{"glob:/a/b/*.img", "/a/b", "*.img"},
                {"glob:/*", "/", "*"},
                {"glob:*.img", ".", "*.img"},
                {"glob:a/x", "a", "x"},
                {"glob:/a/", NULL, NULL},
                {"glob:/a*/b", NULL, NULL},
                {"glob:/a?/b", NULL, NULL},
                {"glob:/[a]/b", NULL, NULL}};
    char folder[PATTERN_PATH_MAX], pattern[PATTERN_PATH_MAX];
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct why why = {""};
        int error = pattern_parse(rows[i].uri, folder, pattern, &why);
        if (rows[i].folder == NULL) {
            assert_int_equal(error, -EINVAL);
            assert_string_not_equal(why.text, "");
            continue;
        }
        assert_int_equal(error, 0);
        assert_string_equal(folder, rows[i].folder);
        assert_string_equal(pattern, rows[i].pattern);
    }
    struct why why;
    assert_int_equal(pattern_parse("no scheme", folder, pattern, &why), -EINVAL);
}

static void a_found_file_has_the_patterns_parameters(void **state)
{
    static const struct {
        const char *uri, *path, *made;
    } rows[] = {{"glob:/a/*", "/a/b", "file:/a/b"},
                {"lose+glob:/a/*?lose=1%", "/a/b", "lose+file:/a/b?lose=1%"},
                {"glob:/a/*", "/a/1%?\x1f\x01 ~", "file:/a/1%25%3f%1f%01 ~"}};
    char made[UNIT_URI_MAX];
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_true(pattern_uri_of(rows[i].uri, rows[i].path, made));
        assert_string_equal(made, rows[i].made);
    }
}

// A path as long as a URI has room for is taken, and a longer one is not cut.
static void a_path_that_is_too_long_has_no_uri(void **state)
{
    char path[2 * UNIT_URI_MAX], made[UNIT_URI_MAX], uri[2 * UNIT_URI_MAX] = "glob:*?";
    size_t taken = 0;
    for (size_t len = UNIT_URI_MAX - 16; len < UNIT_URI_MAX + 16; len++) {
        memset(path, 'p', len);
        path[len] = '\0';
        if (pattern_uri_of("glob:*", path, made)) {
            assert_int_equal(strlen(made), strlen("file:") + len);
            assert_int_equal(len, taken == 0 ? len : taken + 1);
            taken = len;
        }
    }
    assert_true(taken >= UNIT_URI_MAX - 16 && taken < UNIT_URI_MAX - strlen("file:"));
    for (size_t len = UNIT_URI_MAX - 20; len < UNIT_URI_MAX + 16; len++) {
        memset(uri + 7, 'k', len - 7);
        uri[len] = '\0';
        size_t whole = strlen("file:p") + len - strlen("glob:*");
        assert_int_equal(pattern_uri_of(uri, "p", made), whole < UNIT_URI_MAX);
    }
    memset(uri, 'f', sizeof uri - 1);
    memcpy(uri + sizeof uri - 8, "+glob:*", 8);
    assert_false(pattern_uri_of(uri, "p", made));
}

/* ---- names ----------------------------------------------------------------------------------- */

static void a_file_is_called_by_its_last_component(void **state)
{
    static const struct {
        const char *path, *name;
    } rows[] = {{"/a/disk-1.img", "disk-1.img"},
                {"disk_2", "disk_2"},
                {"/a/b c%d\xc3", "b_c_d_"},
                {"/a/", "volume"},
                {"", "volume"},
                {"/", "volume"},
                {"azAZ09._-", "azAZ09._-"},
                {"/a:b/c:d", "c_d"}};
    char name[VOLUME_NAME_MAX];
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        names_of_path(rows[i].path, name);
        assert_string_equal(name, rows[i].name);
    }
    assert_true(names_char_is_good('a') && names_char_is_good('.') && names_char_is_good('-') &&
                names_char_is_good('_'));
    assert_false(names_char_is_good('/') || names_char_is_good(':') || names_char_is_good('\0'));
}

static void a_unit_is_called_by_its_target_and_number(void **state)
{
    char name[VOLUME_NAME_MAX];
    names_of_unit("iqn.2020:a", "lun", 7, name);
    assert_string_equal(name, "iqn.2020_a-lun7");
    names_of_unit("t", "", UINT32_MAX, name);
    assert_string_equal(name, "t-4294967295");
}

// One that is too long is told by a digest of all of it, and its end.
static void a_long_target_is_told_by_a_digest(void **state)
{
    char target[2 * VOLUME_NAME_MAX], name[VOLUME_NAME_MAX], expected[3 * VOLUME_NAME_MAX];
    static const uint8_t key[SIPHASH_KEY_LEN];
    size_t room = VOLUME_NAME_MAX - 1 - strlen("-n5");
    for (size_t len = room - 1; len <= room + 2; len++) {
        for (size_t i = 0; i < len; i++) {
            target[i] = (char)('a' + i % 26);
        }
        target[len] = '\0';
        names_of_unit(target, "n", 5, name);
        uint32_t digest = (uint32_t)siphash(key, (struct span){(const uint8_t *)target, len});
        if (len <= room) {
            snprintf(expected, sizeof expected, "%s-n5", target);
        } else {
            snprintf(expected, sizeof expected, "%08x_%s-n5", digest, target + len - (room - 9));
        }
        assert_string_equal(name, expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pattern_is_known_by_its_scheme),
        cmocka_unit_test(a_pattern_is_the_last_component),
        cmocka_unit_test(a_found_file_has_the_patterns_parameters),
        cmocka_unit_test(a_path_that_is_too_long_has_no_uri),
        cmocka_unit_test(a_file_is_called_by_its_last_component),
        cmocka_unit_test(a_unit_is_called_by_its_target_and_number),
        cmocka_unit_test(a_long_target_is_told_by_a_digest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
