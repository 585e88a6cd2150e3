// The intrusive list against an array of what should be in it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/list.h"

enum { ITEM_COUNT = 4 };

static struct list_link head, items[ITEM_COUNT];

static int setup(void **state)
{
    list_init(&head);
    for (unsigned i = 0; i < ITEM_COUNT; i++) {
        list_init(&items[i]);
    }
    return 0;
}

// Forwards and backwards.
static void expect(const struct list_link *list, unsigned count, const unsigned *order)
{
    const struct list_link *at = list;
    for (unsigned i = 0; i < count; i++) {
        at = at->next;
        assert_ptr_equal(at, &items[order[i]]);
    }
    assert_ptr_equal(at->next, list);
    for (unsigned i = count; i-- > 0;) {
        assert_ptr_equal(at, &items[order[i]]);
        at = at->prev;
    }
    assert_ptr_equal(at, list);
}

static void pushed_at_either_end(void **state)
{
    list_push_tail(&head, &items[1]);
    list_push_tail(&head, &items[2]);
    list_push_head(&head, &items[0]);
    expect(&head, 3, (const unsigned[]){0, 1, 2});
}

static void removed_from_anywhere_and_from_nowhere(void **state)
{
    for (unsigned i = 0; i < 3; i++) {
        list_push_tail(&head, &items[i]);
    }
    list_remove(&items[1]);
    list_remove(&items[1]);
    list_remove(&items[3]);
    assert_true(list_is_empty(&items[1]));
    expect(&head, 2, (const unsigned[]){0, 2});
    list_push_head(&head, &items[1]); // and back
    expect(&head, 3, (const unsigned[]){1, 0, 2});
}

static void popped_until_there_is_nothing(void **state)
{
    list_push_tail(&head, &items[0]);
    list_push_tail(&head, &items[1]);
    assert_ptr_equal(list_pop_head(&head), &items[0]);
    assert_true(list_is_empty(&items[0]));
    assert_ptr_equal(list_pop_head(&head), &items[1]);
    assert_null(list_pop_head(&head));
    assert_true(list_is_empty(&head));
}

static void moved_in_order_leaving_nothing(void **state)
{
    struct list_link to;
    for (unsigned i = 0; i < 3; i++) {
        list_push_tail(&head, &items[i]);
    }
    list_move_all(&to, &head);
    expect(&to, 3, (const unsigned[]){0, 1, 2});
    expect(&head, 0, NULL);
    list_move_all(&head, &to);
    list_move_all(&to, &to); // an empty one
    expect(&to, 0, NULL);
    expect(&head, 3, (const unsigned[]){0, 1, 2});
}

static void entry_is_found_from_its_link(void **state)
{
    struct {
        int before;
        struct list_link link;
    } object;
    struct list_link *link = &object.link;
    assert_ptr_equal(LIST_ENTRY(link, __typeof__(object), link), &object);
}

#define CASE(name) cmocka_unit_test_setup(name, setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(pushed_at_either_end),          CASE(removed_from_anywhere_and_from_nowhere),
        CASE(popped_until_there_is_nothing), CASE(moved_in_order_leaving_nothing),
        CASE(entry_is_found_from_its_link),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
