// Connections by the connection manager's word: which numbers they get, who is refused and how, and
// what becomes of each that its volume or its unit's process leaves.

#include "tests/node/uma_stage.h"

static struct connect_request come(struct stage *s)
{
    return connect_to(s, s->volume);
}

static void added(struct stage *s, uint32_t connection, int error)
{
    hear(s, (struct unit_message){
                .kind = UNIT_CONNECTION_ADD, .connection = connection, .error = error});
}

/* ---- numbers --------------------------------------------------------------------------------- */

static void numbers_go_round_past_zero_and_who_is_there(void **state)
{
    struct stage *s = stage_ready();
    struct connect_request one, two, next, last;
    stage_connect(s, &one);
    stage_connect(s, &two);
    assert_int_equal(two.connection, one.connection + 1);
    assert_int_equal(uma_connection_count(s->uma), 2);
    s->uma->connection_serial = one.connection + NODE_CONNECTION_COUNT_MAX - 1;
    stage_connect(s, &next); // those two have their slots
    assert_int_equal(next.connection, two.connection + NODE_CONNECTION_COUNT_MAX + 1);
    s->uma->connection_serial = UINT32_MAX; // the next is 0, which none may have
    stage_connect(s, &last);
    assert_int_equal(last.connection, next.connection % NODE_CONNECTION_COUNT_MAX + 1);
    assert_int_equal(uma_connection_count(s->uma), 4);
    stage_destroy(s);
}

static void there_are_so_many_at_most(void **state)
{
    struct stage *s = stage_ready();
    struct connect_request request;
    for (unsigned i = 0; i < NODE_CONNECTION_COUNT_MAX; i++) {
        stage_connect(s, &request);
    }
    struct connect_request more = come(s);
    uma_for_tts.connect(s->uma, &more);
    expect(s, "connected-4 ");
    assert_int_equal(more.connection, 0);
    uma_for_tts.disconnect(s->uma, request.connection);
    hear(s,
         (struct unit_message){.kind = UNIT_CONNECTION_REMOVE, .connection = request.connection});
    stage_connect(s, &more);
    stage_destroy(s);
}

/* ---- who may come ---------------------------------------------------------------------------- */

static void what_is_not_there_is_not_seen(void **state)
{
    struct stage *s = stage_ready();
    struct client client = {.identity = "friend"};
    assert_true(uma_for_tts.may_see(s->uma, s->volume, &client));
    assert_false(uma_for_tts.may_see(s->uma, 99, &client));
    stage_destroy(s);
}

static void who_comes_too_early_or_too_late_is_told(void **state)
{
    struct stage *s = stage_ready();
    struct volume_wish w = wish("b"); // that is not open yet
    uma_volume_add(s->uma, &w, s->now);
    struct connect_request request = come(s);
    s->notes[0] = '\0';
    uma_for_tts.connect(s->uma, &request);
    expect(s, "connected-3 ");
    hear(s, opened(s->volume));
    s->notes[0] = '\0';
    uma_stop(s->uma, s->now);
    s->notes[0] = '\0';
    uma_for_tts.connect(s->uma, &request);
    expect(s, "connected-3 ");
    stage_destroy(s);
}

static void a_volumes_rate_is_told_with_its_client(void **state)
{
    struct stage *s = stage_ready();
    struct volume_wish w = wish("b");
    struct connect_request request;
    w.rate = (struct volume_rate){.iops = 7, .bps = 9};
    uma_volume_add(s->uma, &w, s->now);
    hear(s, opened(s->volume));
    s->limited = 0;
    stage_connect(s, &request);
    assert_int_equal(s->limited, s->volume);
    assert_int_equal(s->most.iops, 7);
    assert_int_equal(s->most.bps, 9);
    stage_destroy(s);
}

/* ---- what goes ------------------------------------------------------------------------------- */

// The first slot is as good as any.
static struct stage *with_first_slot(struct connect_request *request)
{
    struct stage *s = stage_ready();
    s->uma->connection_serial = NODE_CONNECTION_COUNT_MAX - 1;
    stage_connect(s, request);
    assert_int_equal(request->connection, NODE_CONNECTION_COUNT_MAX);
    return s;
}

static void the_process_is_back(struct stage *s)
{
    s->now = uma_next_deadline(s->uma);
    uma_on_deadline(s->uma, s->now);
    say_hello(s);
    hear(s, opened(s->volume));
}

static void a_volume_that_goes_lets_go_of_each_client(void **state)
{
    struct connect_request first, second;
    struct stage *s = with_first_slot(&first);
    stage_connect(s, &second);
    uma_volume_remove(s->uma, "a", s->now);
    expect(s, "route-fail drop route-fail drop ");
    uma_volume_remove(s->uma, "a", s->now); // once
    expect(s, "");
    uma_for_tts.disconnect(s->uma, second.connection);
    hear(s, (struct unit_message){.kind = UNIT_CONNECTION_REMOVE, .connection = second.connection});
    expect(s, "route-remove remove "); // the first is there yet, so the volume is
    stage_destroy(s);
}

static void a_successor_hears_of_each_connection(void **state)
{
    struct connect_request request;
    struct stage *s = with_first_slot(&request);
    uma_on_exit(s->uma, 0, "killed", s->now);
    the_process_is_back(s);
    expect(s, "cta-lost spawn open add ");
    added(s, request.connection, 0);
    expect(s, "cta-ready ");
    stage_destroy(s);
}

static void who_leaves_lets_the_others_go_on(void **state)
{
    struct connect_request one, two;
    struct stage *s = with_first_slot(&one);
    stage_connect(s, &two);
    uma_on_exit(s->uma, 0, "killed", s->now);
    the_process_is_back(s);
    expect(s, "cta-lost spawn open add add ");
    added(s, two.connection, 0);
    expect(s, ""); // one of them is missing yet
    uma_for_tts.disconnect(s->uma, one.connection);
    expect(s, "route-remove remove cta-ready ");
    stage_destroy(s);
}

// A client that does not heed that its volume goes keeps nobody else's process waiting.
static void a_successor_does_not_hear_of_whom_a_volume_let_go(void **state)
{
    struct connect_request request;
    struct stage *s = with_first_slot(&request);
    struct volume_wish w = wish("b");
    uma_volume_add(s->uma, &w, s->now);
    hear(s, opened(s->volume));
    uma_volume_remove(s->uma, "a", s->now);
    s->notes[0] = '\0';
    uma_on_exit(s->uma, 0, "killed", s->now);
    the_process_is_back(s);
    expect(s, "cta-lost spawn open cta-ready ");
    stage_destroy(s);
}

static void a_successor_that_will_not_have_them_is_killed(void **state)
{
    struct connect_request request;
    struct stage *s = with_first_slot(&request);
    uma_on_exit(s->uma, 0, "killed", s->now);
    the_process_is_back(s);
    s->notes[0] = '\0';
    added(s, request.connection, -EEXIST);
    expect(s, "cta-lost kill ");
    assert_non_null(strstr(s->line, "would not have a connection that its predecessor had"));
    assert_int_equal(uma_connection_count(s->uma), 1);
    stage_destroy(s);
}

// Its client has not heard of it yet.
static void who_waits_for_a_volume_that_goes_is_refused(void **state)
{
    struct stage *s = stage_ready();
    uma_on_exit(s->uma, 0, "killed", s->now);
    struct connect_request request = come(s);
    uma_for_tts.connect(s->uma, &request); // there is no process to know of it
    expect(s, "cta-lost route-add ");
    uma_volume_remove(s->uma, "a", s->now);
    expect(s, "route-remove connected-1 cta-remove "); // nobody needs the unit any more
    assert_int_equal(uma_connection_count(s->uma), 0);
    stage_destroy(s);
    s = stage_ready();
    request = come(s);
    uma_for_tts.connect(s->uma, &request); // the process has heard, and does not answer any more
    uma_volume_remove(s->uma, "a", s->now);
    expect(s, "route-add add ");
    uma_on_exit(s->uma, 0, "killed", s->now);
    expect(s, "cta-lost route-remove connected-1 cta-remove ");
    assert_int_equal(uma_connection_count(s->uma), 0);
    stage_destroy(s);
}

static void who_was_leaving_is_gone_with_the_process(void **state)
{
    struct stage *s = stage_ready();
    struct connect_request request;
    stage_connect(s, &request);
    uma_for_tts.disconnect(s->uma, request.connection);
    expect(s, "route-remove remove ");
    assert_int_equal(uma_connection_count(s->uma), 1);
    uma_on_exit(s->uma, 0, "killed", s->now);
    assert_int_equal(uma_connection_count(s->uma), 0);
    stage_destroy(s);
}

static void who_waits_for_a_successor_is_let_go_with_the_volume(void **state)
{
    struct stage *s = stage_ready();
    struct connect_request request;
    stage_connect(s, &request);
    uma_on_exit(s->uma, 0, "killed", s->now);
    uma_volume_remove(s->uma, "a", s->now);
    expect(s, "cta-lost route-fail drop ");
    stage_destroy(s);
}

static void a_unit_answers_for_its_own_alone(void **state)
{
    struct stage *s = stage_ready();
    added(s, 4321, 0);
    expect(s, "cta-lost kill ");
    assert_non_null(strstr(s->line, "answered for a connection that is not its"));
    stage_destroy(s);
}

static void what_is_said_twice_is_heard_once(void **state)
{
    struct stage *s = stage_ready();
    struct connect_request request;
    stage_connect(s, &request);
    added(s, request.connection, 0);
    added(s, request.connection, -EEXIST);
    hear(s,
         (struct unit_message){.kind = UNIT_CONNECTION_REMOVE, .connection = request.connection});
    expect(s, "");
    assert_int_equal(uma_connection_count(s->uma), 1);
    stage_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_go_round_past_zero_and_who_is_there),
        cmocka_unit_test(there_are_so_many_at_most),
        cmocka_unit_test(what_is_not_there_is_not_seen),
        cmocka_unit_test(who_comes_too_early_or_too_late_is_told),
        cmocka_unit_test(a_volumes_rate_is_told_with_its_client),
        cmocka_unit_test(a_volume_that_goes_lets_go_of_each_client),
        cmocka_unit_test(a_successor_hears_of_each_connection),
        cmocka_unit_test(who_leaves_lets_the_others_go_on),
        cmocka_unit_test(a_successor_does_not_hear_of_whom_a_volume_let_go),
        cmocka_unit_test(a_successor_that_will_not_have_them_is_killed),
        cmocka_unit_test(who_waits_for_a_volume_that_goes_is_refused),
        cmocka_unit_test(who_was_leaving_is_gone_with_the_process),
        cmocka_unit_test(who_waits_for_a_successor_is_let_go_with_the_volume),
        cmocka_unit_test(a_unit_answers_for_its_own_alone),
        cmocka_unit_test(what_is_said_twice_is_heard_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
