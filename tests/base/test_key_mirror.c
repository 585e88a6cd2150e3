// Keys as peers of the same host see them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/key_mirror.h"

enum { STAG = 0x1234, PD = 3, BASE = 1000, LEN = 100, ADDR = 50000 };

static struct key_mirror mirror;
static const struct key shown = {.generation = 7,
                                 .stag = STAG,
                                 .pd = PD,
                                 .base_to = BASE,
                                 .length = LEN,
                                 .addr = ADDR,
                                 .rights = KEY_MAY_READ};

static int begin(void **state)
{
    memset(&mirror, 0, sizeof mirror);
    return !key_mirror_show(&mirror, &shown);
}

static void a_key_is_found_as_it_was_shown(void **state)
{
    struct key key;
    assert_true(key_mirror_find(&mirror, STAG, &key));
    assert_int_equal(key.generation, 7);
    assert_int_equal(key.stag, STAG);
    assert_int_equal(key.pd, PD);
    assert_true(key_allows(&key, KEY_MAY_READ));
    assert_false(key_allows(&key, KEY_MAY_WRITE));
    assert_true(key_is_shown(&key));
    assert_false(key_mirror_find(&mirror, STAG + 1, &key));
}

static void what_was_withdrawn_is_seen_to_be_gone(void **state)
{
    struct key key;
    assert_true(key_mirror_find(&mirror, STAG, &key));
    assert_int_equal(key_mirror_withdraw(&mirror, STAG), 7);
    assert_false(key_is_shown(&key)); // by who has read it before, too
    assert_false(key_mirror_find(&mirror, STAG, &key));
    assert_int_equal(key_mirror_withdraw(&mirror, STAG), 0);
}

static void only_what_lies_in_the_key_and_its_domain_is_resolved(void **state)
{
    struct key key;
    uint64_t addr;
    assert_true(key_mirror_find(&mirror, STAG, &key));
    assert_true(key_resolve(&key, PD, BASE + 10, LEN - 10, &addr));
    assert_int_equal(addr, ADDR + 10);
    assert_true(key_resolve(&key, PD, BASE + LEN, 0, &addr));
    assert_false(key_resolve(&key, PD + 1, BASE, 1, &addr));
    assert_false(key_resolve(&key, PD, BASE - 1, 1, &addr));
    assert_false(key_resolve(&key, PD, BASE + LEN + 1, 0, &addr));
    assert_false(key_resolve(&key, PD, BASE + 1, LEN, &addr));
    assert_false(key_resolve(&key, PD, BASE + 1, UINT64_MAX, &addr));
}

static void a_bucket_shows_so_many_and_no_more(void **state)
{
    struct key other = shown;
    for (unsigned way = 1; way < KEY_MIRROR_WAYS; way++) {
        other.generation++;
        assert_true(key_mirror_show(&mirror, &other));
    }
    other.generation++;
    assert_false(key_mirror_show(&mirror, &other));
    key_mirror_withdraw(&mirror, STAG);
    assert_true(key_mirror_show(&mirror, &other));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_key_is_found_as_it_was_shown, begin),
        cmocka_unit_test_setup(what_was_withdrawn_is_seen_to_be_gone, begin),
        cmocka_unit_test_setup(only_what_lies_in_the_key_and_its_domain_is_resolved, begin),
        cmocka_unit_test_setup(a_bucket_shows_so_many_and_no_more, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
