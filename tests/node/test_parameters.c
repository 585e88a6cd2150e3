// What drivers take from a URI, and what each says of itself.

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "node/ddm/parameters.h"
#include "node/ddm/registry.h"

static const char *const words[] = {"slow", "fast", "late", NULL};

static struct ddm_target target_of(const struct ddm_parameter parameters[2])
{
    return (struct ddm_target){.object = "", .parameters = parameters, .parameter_count = 2};
}

static void shares_are_of_a_million(void **state)
{
    static const struct {
        const char *text;
        uint32_t share;
    } table[] = {{"100%", 1000000}, {"1", 1000000}, {"50%", 500000}, {"0.25", 250000},
                 {"0%", 0},         {"0", 0},       {"1%", 10000}};
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        const struct ddm_parameter parameters[] = {{"other", "x"}, {"share", table[i].text}};
        const struct ddm_target target = target_of(parameters);
        struct why why = {""};
        uint32_t share = 7;
        assert_int_equal(parameter_share(&target, "share", &share, &why), 0);
        assert_int_equal(share, table[i].share);
    }
}

static void what_is_no_share_is_refused(void **state)
{
    static const char *const texts[] = {"101%", "1.1", "-1", "-1%", "", "%", "1x", "50%%", "nan"};
    for (unsigned i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const struct ddm_parameter parameters[] = {{"other", "x"}, {"share", texts[i]}};
        const struct ddm_target target = target_of(parameters);
        struct why why = {""};
        uint32_t share = 7;
        assert_int_equal(parameter_share(&target, "share", &share, &why), -EINVAL);
        assert_non_null(strstr(why.text, "share="));
        assert_int_equal(share, 7);
    }
}

static void sizes_durations_and_words_are_taken(void **state)
{
    const struct ddm_parameter parameters[] = {{"first", "2M"}, {"second", "late"}};
    const struct ddm_parameter times[] = {{"first", "30ms"}, {"second", "2s"}};
    const struct ddm_target target = target_of(parameters), timed = target_of(times);
    struct why why = {""};
    uint64_t size = 7;
    duration_ns duration = 7;
    unsigned word = 7;
    assert_int_equal(parameter_size(&target, "first", &size, &why), 0);
    assert_int_equal(size, 2 << 20);
    assert_int_equal(parameter_word(&target, "second", words, &word, &why), 0);
    assert_int_equal(word, 2);
    assert_int_equal(parameter_duration(&timed, "first", &duration, &why), 0);
    assert_int_equal(duration, 30 * NS_PER_MS);
    assert_int_equal(parameter_duration(&timed, "second", &duration, &why), 0);
    assert_int_equal(duration, 2 * NS_PER_S);
    assert_int_equal(parameter_duration_parse("5ms", &duration, &why), 0);
    assert_int_equal(duration, 5 * NS_PER_MS);
    assert_string_equal(why.text, "");
}

static void what_is_not_given_stays_what_it_was(void **state)
{
    const struct ddm_parameter parameters[] = {{"first", "x"}, {"second", "x"}};
    const struct ddm_target target = target_of(parameters);
    struct why why = {""};
    uint64_t size = 1;
    duration_ns duration = 2;
    uint32_t share = 3;
    unsigned word = 4;
    assert_int_equal(parameter_size(&target, "third", &size, &why), 0);
    assert_int_equal(parameter_duration(&target, "third", &duration, &why), 0);
    assert_int_equal(parameter_share(&target, "third", &share, &why), 0);
    assert_int_equal(parameter_word(&target, "third", words, &word, &why), 0);
    assert_true(size == 1 && duration == 2 && share == 3 && word == 4);
    assert_null(parameter_find(&target, "third"));
}

static void what_is_wrong_is_told_with_what_it_must_be(void **state)
{
    const struct ddm_parameter parameters[] = {{"first", "some"}, {"second", "some"}};
    const struct ddm_target target = target_of(parameters);
    struct why why = {""};
    uint64_t size;
    duration_ns duration;
    unsigned word;
    assert_int_equal(parameter_size(&target, "first", &size, &why), -EINVAL);
    assert_string_equal(why.text, "size=some: it must be a number of octets, with K, M, G, T or P");
    assert_int_equal(parameter_duration(&target, "first", &duration, &why), -EINVAL);
    assert_string_equal(why.text, "first=some: it must be a duration like 10ms or 2s");
    assert_int_equal(parameter_duration_parse("some", &duration, &why), -EINVAL);
    assert_string_equal(why.text, "duration=some: it must be one like 10ms or 2s");
    assert_int_equal(parameter_word(&target, "second", words, &word, &why), -EINVAL);
    assert_string_equal(why.text, "second=some: it must be slow or fast or late");
}

static void every_driver_says_all_of_itself(void **state)
{
    unsigned filters = 0, devices = 0;
    for (const struct ddm_driver *const *d = ddm_registry(); *d != NULL; d++) {
        const struct ddm_driver *driver = *d;
        assert_int_equal(driver->version, DDM_VERSION);
        assert_int_equal(driver->self_size, sizeof *driver);
        assert_true(driver->name[0] != '\0' && driver->summary[0] != '\0');
        assert_true(driver->is_filter || driver->object[0] != '\0');
        assert_true(driver->is_filter || driver->fence[0] != '\0');
        assert_non_null(driver->open);
        assert_non_null(driver->probe);
        assert_non_null(driver->submit);
        assert_non_null(driver->poll_fd);
        assert_non_null(driver->poll);
        assert_non_null(driver->drain);
        assert_non_null(driver->close);
        *(driver->is_filter ? &filters : &devices) += 1;
    }
    assert_true(filters >= 4 && devices >= 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_are_of_a_million),
        cmocka_unit_test(what_is_no_share_is_refused),
        cmocka_unit_test(sizes_durations_and_words_are_taken),
        cmocka_unit_test(what_is_not_given_stays_what_it_was),
        cmocka_unit_test(what_is_wrong_is_told_with_what_it_must_be),
        cmocka_unit_test(every_driver_says_all_of_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
