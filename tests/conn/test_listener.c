#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "conn/listener.h"

static struct conn_gate gate;
static struct conn_listener l, other;
static struct conn_admission a[8];

static void begin(int backlog, uint32_t half_open_max)
{
    conn_gate_init(&gate, half_open_max);
    conn_listener_init(&l, backlog, &gate);
    conn_listener_init(&other, backlog, &gate);
    for (int i = 0; i < 8; i++) {
        a[i] = (struct conn_admission){.listener = NULL};
        list_init(&a[i].link);
        list_init(&a[i].gate_link);
    }
}

static void oldest_half_open_connection_makes_room(void **state)
{
    begin(0, 2);
    assert_null(conn_listener_admit(&l, &a[0]));
    assert_null(conn_listener_admit(&l, &a[1]));
    assert_ptr_equal(conn_listener_admit(&l, &a[2]), &a[0]);
    assert_ptr_equal(conn_listener_admit(&l, &a[3]), &a[1]);
    assert_int_equal(gate.half_open_count, 2);
    assert_int_equal(l.counters.accepted, 4);
    assert_int_equal(l.counters.dropped, 2);
}

static void oldest_may_be_of_another_listener(void **state)
{
    begin(0, 2);
    conn_listener_admit(&l, &a[0]);
    conn_listener_admit(&l, &a[1]);
    assert_ptr_equal(conn_listener_admit(&other, &a[2]), &a[0]);
    assert_int_equal(l.counters.dropped, 1);
    assert_int_equal(other.counters.dropped, 0);
    assert_ptr_equal(conn_listener_drain(&l), &a[1]);
    assert_null(conn_listener_drain(&l));
}

static void who_has_no_descriptor_left_admits_no_more_than_there_were(void **state)
{
    begin(0, 8);
    for (unsigned i = 0; i < 3; i++) {
        assert_null(conn_listener_admit(&l, &a[i]));
    }
    assert_ptr_equal(conn_gate_narrow(&gate), &a[0]);
    assert_int_equal(l.counters.dropped, 1);
    assert_ptr_equal(conn_listener_admit(&other, &a[3]), &a[1]);
}

static void a_narrow_gate_grows_with_each_request_up_to_its_bound(void **state)
{
    begin(0, 2);
    assert_null(conn_gate_narrow(&gate)); // nobody is there: one is always admitted
    assert_null(conn_listener_admit(&l, &a[0]));
    assert_ptr_equal(conn_listener_admit(&l, &a[1]), &a[0]);
    assert_true(conn_listener_request(&a[1]));
    conn_listener_admit(&l, &a[2]);
    assert_null(conn_listener_admit(&l, &a[3]));
    assert_true(conn_listener_request(&a[2]));
    assert_true(conn_listener_request(&a[3]));
    conn_listener_admit(&l, &a[4]);
    conn_listener_admit(&l, &a[5]);
    assert_ptr_equal(conn_listener_admit(&l, &a[6]), &a[4]);
}

static void request_gives_its_half_open_place_back(void **state)
{
    begin(0, 1);
    conn_listener_admit(&l, &a[0]);
    assert_true(conn_listener_request(&a[0]));
    assert_null(conn_listener_admit(&l, &a[1]));
    assert_int_equal(l.waiting_count, 1);
}

static void request_beyond_the_backlog_is_refused(void **state)
{
    begin(1, 4);
    conn_listener_admit(&l, &a[0]);
    conn_listener_admit(&l, &a[1]);
    assert_true(conn_listener_request(&a[0]));
    assert_false(conn_listener_request(&a[1]));
    assert_int_equal(l.counters.backlog_full, 1);
    assert_int_equal(gate.half_open_count + l.waiting_count, 1);
}

static void answered_request_makes_room_in_the_backlog(void **state)
{
    begin(1, 4);
    conn_listener_admit(&l, &a[0]);
    conn_listener_request(&a[0]);
    conn_listener_leave(&a[0]);
    conn_listener_leave(&a[0]); // harmless
    conn_listener_admit(&l, &a[1]);
    assert_true(conn_listener_request(&a[1]));
}

static void drain_gives_back_everybody(void **state)
{
    begin(0, 4);
    conn_listener_admit(&l, &a[0]);
    conn_listener_admit(&l, &a[1]);
    conn_listener_request(&a[0]);
    assert_ptr_equal(conn_listener_drain(&l), &a[1]);
    assert_ptr_equal(conn_listener_drain(&l), &a[0]);
    assert_null(conn_listener_drain(&l));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(oldest_half_open_connection_makes_room),
        cmocka_unit_test(oldest_may_be_of_another_listener),
        cmocka_unit_test(who_has_no_descriptor_left_admits_no_more_than_there_were),
        cmocka_unit_test(a_narrow_gate_grows_with_each_request_up_to_its_bound),
        cmocka_unit_test(request_gives_its_half_open_place_back),
        cmocka_unit_test(request_beyond_the_backlog_is_refused),
        cmocka_unit_test(answered_request_makes_room_in_the_backlog),
        cmocka_unit_test(drain_gives_back_everybody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
