// The text of reservations that outlive a node, octet by octet: what is written, which texts are
// read, and which line of another is told.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/why.h"
#include "node/interface/reservation.h"
#include "node/reservation/store.h"
#include "text/append.h"

enum { TEXT_MAX = 16384 };

#define HEADER "weft reservations 1\n"
#define UUID   "a1020304000000000000000000000000"
#define OTHER  "a1020304000000000000000000000001"
#define VOLUME "volume " UUID " 4 1\n"
#define FREE   "volume " UUID " 4 0\n"
#define TEN    "0123456789"
#define FIFTY  TEN TEN TEN TEN TEN
#define LONG   FIFTY FIFTY FIFTY FIFTY FIFTY "01234" // 255 octets

static const uint8_t uuid[VOLUME_UUID_LEN] = {0xa1, 2, 3, 4};

static void put(void *ctx, const char *line)
{
    text_append(ctx, TEXT_MAX, "%s\n", line);
}

static void what_is_read_is_written_again(void **state)
{
    static const char *const texts[] = {
        HEADER "end\n",
        HEADER VOLUME "holder 0000000000000001 a\nend\n",
        HEADER VOLUME "registrant 0000000000000002 b\nholder ffffffffffffffff a\nend\n",
        HEADER FREE "registrant 0000000000000001 a\nend\n",
        HEADER "volume " UUID " 4294967295 6\nregistrant 0000000000000001 a\nend\n",
        HEADER "volume " UUID " 0 5\nregistrant 0000000000000001 a\nend\n",
        HEADER VOLUME "holder 0000000000000001 a\nvolume " OTHER
                      " 1 2\nholder 0000000000000009 a\nend\n",
        HEADER VOLUME "holder 0000000000000001 azAZ09.:,-_\nend\n",
        HEADER VOLUME "holder 0000000000000001 %20%25%2f%7f%c3%bc\nend\n",
        HEADER VOLUME "holder 0000000000000001 " LONG "\nend\n",
    };
    for (unsigned i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct reservation_store *store = reservation_store_create(true);
        char text[TEXT_MAX], again[TEXT_MAX] = "";
        struct why why = {""};
        snprintf(text, sizeof text, "%s", texts[i]);
        assert_true(reservation_store_parse(store, text, &why));
        reservation_store_emit(store, put, again);
        assert_string_equal(again, texts[i]);
        reservation_store_destroy(store);
    }
}

static void what_is_read_is_the_reservation(void **state)
{
    char text[] = HEADER "volume " UUID " 17 2\nholder 00000000000000ab one\n"
                         "registrant 00000000000000cd tw%6f\nend\n";
    struct reservation_store *store = reservation_store_create(true);
    struct why why;
    assert_true(reservation_store_parse(store, text, &why));
    struct reservation *book = reservation_store_join(store, uuid);
    assert_true(book->persists && book->can_persist);
    assert_int_equal(book->generation, 17);
    assert_int_equal(book->type, EXCLUSIVE_ACCESS);
    assert_string_equal(book->holder, "one");
    assert_int_equal(book->registrant_count, 2);
    assert_string_equal(book->registrants[0].name, "one");
    assert_int_equal(book->registrants[0].key, 0xab);
    assert_string_equal(book->registrants[1].name, "two");
    assert_int_equal(book->registrants[1].key, 0xcd);
    assert_ptr_equal(reservation_store_join(store, uuid), book); // another volume's user
    static const uint8_t another[VOLUME_UUID_LEN] = {0xa1, 2, 3, 5};
    assert_ptr_not_equal(reservation_store_join(store, another), book);
    reservation_store_destroy(store);
    reservation_store_destroy(NULL);
}

static void another_text_is_refused_with_the_line_that_is_not_right(void **state)
{
    static const struct {
        const char *text, *what;
    } cases[] = {
        {"", "line 1: its first line"},
        {"weft reservations 2\nend\n", "line 1: its first line"},
        {"weft reservations 1 \nend\n", "line 1: its first line"},
        {"weft reservations 1", "line 1: its end, which is missing,"},
        {HEADER, "line 2: a line"},
        {HEADER "end", "line 2: a line"},
        {HEADER "end\nend\n", "line 2: a line"},
        {HEADER "end\n ", "line 2: a line"},
        {HEADER "something 1 2\nend\n", "line 2: a line"},
        {HEADER "registrant 1\nend\n", "line 2: a line"},
        {HEADER "holder 1\nend\n", "line 2: a line"},
        {HEADER VOLUME "holder 1 a b\nend\n", "line 3: a line"},
        {HEADER "volume " UUID " 4\nend\n", "line 2: a line"},
        {HEADER "volume " UUID " 4 1 1\nend\n", "line 2: a line"},
        {HEADER VOLUME "holder 1 a", "line 3: its end, which is missing,"},
        {HEADER "registrant 1 a\nend\n", "line 2: a registrant"},
        {HEADER VOLUME "end\n", "line 3: the last volume"}, // nobody
        {HEADER FREE "end\n", "line 3: the last volume"},
        {HEADER VOLUME "registrant 1 a\nend\n", "line 4: the last volume"}, // nobody holds it
        {HEADER VOLUME "volume " OTHER " 1 1\n", "line 3: a volume"},
        {HEADER VOLUME "registrant 1 a\nvolume " OTHER " 1 1\n", "line 4: a volume"},
        {HEADER VOLUME "holder 1 a\n" VOLUME, "line 4: a volume"}, // twice
        {HEADER VOLUME "holder 1 a\nholder 1 b\nend\n", "line 4: a registrant"},
        {HEADER VOLUME "holder 1 a\nregistrant 2 a\nend\n", "line 4: a registrant"},
        {HEADER FREE "holder 1 a\nend\n", "line 3: a registrant"}, // of nothing
        {HEADER VOLUME "holder 0 a\nend\n", "line 3: a registrant"},
        {HEADER VOLUME "holder 10000000000000000 a\nend\n", "line 3: a registrant"},
        {HEADER VOLUME "holder 1A a\nend\n", "line 3: a registrant"},
        {HEADER VOLUME "holder -1 a\nend\n", "line 3: a registrant"},
        {HEADER VOLUME "holder 0x1 a\nend\n", "line 3: a registrant"},
        {HEADER VOLUME "holder 1 " LONG "5\nend\n", "line 3: a registrant"},
        {HEADER "volume a102 4 1\nend\n", "line 2: a volume"},
        {HEADER "volume " UUID "0 4 1\nend\n", "line 2: a volume"},
        {HEADER "volume g1020304000000000000000000000000 4 1\nend\n", "line 2: a volume"},
        {HEADER "volume a102030400000000000000000000000g 4 1\nend\n", "line 2: a volume"},
        {HEADER "volume A1020304000000000000000000000000 4 1\nend\n", "line 2: a volume"},
        {HEADER "volume " UUID " 4294967296 1\nend\n", "line 2: a volume"},
        {HEADER "volume " UUID " -4 1\nend\n", "line 2: a volume"},
        {HEADER "volume " UUID " a 1\nend\n", "line 2: a volume"},
        {HEADER "volume " UUID " 4 7\nend\n", "line 2: a volume"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct reservation_store *store = reservation_store_create(true);
        char text[TEXT_MAX], line[128];
        struct why why = {""};
        snprintf(text, sizeof text, "%s", cases[i].text);
        snprintf(line, sizeof line, "%s is not as a node writes it", cases[i].what);
        assert_false(reservation_store_parse(store, text, &why));
        assert_string_equal(why.text, line);
        reservation_store_destroy(store);
    }
}

static void registrants_are_so_many_at_most(void **state)
{
    for (unsigned more = 0; more < 2; more++) {
        struct reservation_store *store = reservation_store_create(true);
        char text[TEXT_MAX] = HEADER FREE;
        struct why why;
        for (unsigned i = 0; i < RESERVATION_REGISTRANT_MAX + more; i++) {
            text_append(text, sizeof text, "registrant 1 r%u\n", i);
        }
        text_append(text, sizeof text, "end\n");
        assert_int_equal(reservation_store_parse(store, text, &why), !more);
        reservation_store_destroy(store);
    }
}

static void only_what_is_to_persist_outlives_its_volume(void **state)
{
    struct reservation_store *store = reservation_store_create(false);
    struct reservation *book = reservation_store_join(store, uuid);
    assert_false(book->can_persist);
    book->generation = 5;
    assert_ptr_equal(reservation_store_join(store, uuid), book);
    reservation_store_leave(store, book);
    assert_int_equal(book->generation, 5); // somebody has it yet
    reservation_store_leave(store, book);
    book = reservation_store_join(store, uuid);
    assert_int_equal(book->generation, 0);
    book->generation = 6;
    book->persists = true;
    reservation_store_leave(store, book);
    char text[TEXT_MAX] = "";
    reservation_store_emit(store, put, text);
    assert_string_equal(text, HEADER "end\n"); // nobody is registered
    book = reservation_store_join(store, uuid);
    assert_int_equal(book->generation, 6);
    book->registrant_count = 1;
    book->registrants[0].key = 1;
    memcpy(book->registrants[0].name, "a", 2);
    book->persists = false;
    text[0] = '\0';
    reservation_store_emit(store, put, text);
    assert_string_equal(text, HEADER "end\n");
    reservation_store_destroy(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_read_is_written_again),
        cmocka_unit_test(what_is_read_is_the_reservation),
        cmocka_unit_test(another_text_is_refused_with_the_line_that_is_not_right),
        cmocka_unit_test(registrants_are_so_many_at_most),
        cmocka_unit_test(only_what_is_to_persist_outlives_its_volume),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
