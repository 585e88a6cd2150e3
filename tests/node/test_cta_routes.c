// The routing table of the common transport agent: who is let in at once and who waits, what a
// number that was given anew means, and how long a volume and a client are known.

#include "tests/node/rig.h"

enum { BLOCK = 4096, MIB = 1 << 20, OTHER_VOLUME = RIG_VOLUME + 1, LAST_SLOT = 4095 };

// The connection of that slot.
static uint32_t of_slot(uint32_t slot)
{
    return (1u << NODE_CONNECTION_SLOT_BITS) | slot;
}

static struct client_route named(struct rig *rig, uint32_t connection, uint32_t volume,
                                 const char *identity)
{
    struct client_route route = rig_route(rig, connection);
    route.volume = volume;
    snprintf(route.client.identity, sizeof route.client.identity, "%s", identity);
    return route;
}

static struct rig *rig_with_unit(void)
{
    struct rig *rig = rig_create();
    rig_rta_start(rig);
    cta_for_uma.unit_ready(rig->cta, RIG_UNIT, rig->now);
    return rig;
}

static struct service_request write_of_former;

// A connection that has left a write behind, which the device still has.
static void leave_behind(struct rig *rig, const struct client_route *former)
{
    cta_for_uma.route_add(rig->cta, former);
    assert_int_equal(rig->route_answers, 1);
    rig_tell(rig, (struct unit_message){.kind = UNIT_CONNECTION_ADD,
                                        .volume = former->volume,
                                        .connection = former->connection});
    write_of_former = rig_request(NODE_WRITE, 0, BLOCK);
    write_of_former.connection = former->connection;
    rig->holds = true;
    rig_submit_request(rig, &write_of_former);
    rig_run(rig);
    assert_int_equal(rig->held_count, 1);
}

static void end_what_was_left(struct rig *rig)
{
    rig_release(rig, 0);
    rta_on_bus(rig->rta, rig->now);
    rig_run(rig);
}

static void forget(struct rig *rig, const struct client_route *route)
{
    cta_for_uma.route_remove(rig->cta, route->connection);
    rig_tell(rig, (struct unit_message){.kind = UNIT_CONNECTION_REMOVE,
                                        .volume = route->volume,
                                        .connection = route->connection});
}

static bool is_there(struct rig *rig, uint32_t connection)
{
    struct cta_connection_counters found;
    return cta_connection_counters(rig->cta, node_connection_slot(connection), &found) &&
           found.connection == connection;
}

struct return_case {
    const char *what;
    uint32_t former_slot;
    const char *former, *comer;
    uint32_t comer_volume;
    bool has_left, waits;
};

// Else a write of the connection before could pass one of the connection that follows.
static void who_comes_back_waits_for_what_he_left_at_this_volume(void **state)
{
    static const struct return_case cases[] = {
        {"the same, back", 5, "host-a", "host-a", RIG_VOLUME, true, true},
        {"... from the first slot", 0, "host-a", "host-a", RIG_VOLUME, true, true},
        {"... with a name of one letter", 5, "a", "a", RIG_VOLUME, true, true},
        {"... from the last slot", LAST_SLOT, "host-a", "host-a", RIG_VOLUME, true, true},
        {"another", 5, "host-a", "host-b", RIG_VOLUME, true, false},
        {"a name that begins alike", 5, "host-a", "host-aa", RIG_VOLUME, true, false},
        {"at another volume", 5, "host-a", "host-a", OTHER_VOLUME, true, false},
        {"who has no name", 5, "", "", RIG_VOLUME, true, false},
        {"a second connection beside the first", 5, "host-a", "host-a", RIG_VOLUME, false, false},
    };
    struct rig *rig = rig_with_unit();
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct return_case *c = &cases[i];
        struct client_route former = named(rig, of_slot(c->former_slot), RIG_VOLUME, c->former);
        struct client_route comer = named(rig, of_slot(9), c->comer_volume, c->comer);
        rig->route_answers = 0;
        leave_behind(rig, &former);
        if (c->has_left) {
            cta_for_uma.route_remove(rig->cta, former.connection);
        }
        cta_for_uma.route_add(rig->cta, &comer);
        if (rig->route_answers != (c->waits ? 1 : 2)) {
            fail_msg("%s: %u answers", c->what, rig->route_answers);
        }
        end_what_was_left(rig);
        assert_int_equal(rig->route_answers, 2);
        assert_int_equal(rig->route_status, CONNECT_OK);
        assert_int_equal(is_there(rig, former.connection), !c->has_left);
        forget(rig, &comer);
        forget(rig, &former);
    }
    rig_destroy(rig);
}

static void each_who_waits_is_let_in_once(void **state)
{
    struct rig *rig = rig_with_unit();
    struct client_route former = named(rig, of_slot(5), RIG_VOLUME, "host-a");
    leave_behind(rig, &former);
    cta_for_uma.route_remove(rig->cta, former.connection);
    static const uint32_t slots[] = {0, 7, LAST_SLOT};
    for (unsigned i = 0; i < 3; i++) {
        struct client_route comer = named(rig, of_slot(slots[i]), RIG_VOLUME, "host-a");
        cta_for_uma.route_add(rig->cta, &comer);
    }
    assert_int_equal(rig->route_answers, 1);
    end_what_was_left(rig);
    assert_int_equal(rig->route_answers, 4);
    for (unsigned i = 0; i < 3; i++) {
        cta_for_uma.route_remove(rig->cta, of_slot(slots[i]));
    }
    assert_int_equal(rig->route_answers, 4);
    rig_destroy(rig);
}

static void who_goes_while_he_waits_is_not_let_in(void **state)
{
    struct rig *rig = rig_with_unit();
    struct client_route former = named(rig, of_slot(5), RIG_VOLUME, "host-a");
    struct client_route comer = named(rig, of_slot(6), RIG_VOLUME, "host-a");
    leave_behind(rig, &former);
    cta_for_uma.route_remove(rig->cta, former.connection);
    cta_for_uma.route_add(rig->cta, &comer);
    assert_int_equal(cta_volume_counters(rig->cta, 0)->connections, 2);
    cta_for_uma.route_remove(rig->cta, comer.connection);
    assert_false(is_there(rig, comer.connection));
    assert_int_equal(cta_volume_counters(rig->cta, 0)->connections, 1);
    end_what_was_left(rig);
    assert_int_equal(rig->route_answers, 1);
    assert_int_equal(cta_volume_counters(rig->cta, 0)->connections, 0);
    rig_destroy(rig);
}

// A slot is given anew with another number.
static void a_number_of_before_means_nobody(void **state)
{
    static const uint32_t slots[] = {0, 5};
    struct rig *rig = rig_with_unit();
    for (unsigned i = 0; i < 2; i++) {
        struct client_route route = rig_route(rig, of_slot(slots[i]));
        struct client_route next = rig_route(rig, route.connection + NODE_CONNECTION_COUNT_MAX);
        cta_for_uma.route_add(rig->cta, &route);
        cta_for_uma.route_remove(rig->cta, next.connection);
        cta_for_uma.route_remove(rig->cta, 0);
        cta_for_uma.route_fail(rig->cta, next.connection, rig->now);
        assert_true(is_there(rig, route.connection));
        cta_for_uma.route_add(rig->cta, &next);
        assert_int_equal(rig->route_status, CONNECT_TOO_MANY);
        assert_true(is_there(rig, route.connection));
        assert_int_equal(cta_volume_counters(rig->cta, 0)->connections, 1);
        struct service_request flush = rig_request(NODE_FLUSH, 0, 0);
        flush.connection = route.connection;
        rig_tell(rig, (struct unit_message){.kind = UNIT_CONNECTION_ADD,
                                            .volume = RIG_VOLUME,
                                            .connection = route.connection});
        rig_submit_request(rig, &flush);
        rig_run(rig);
        assert_int_equal(rig->last_completion, NODE_OK);
        cta_for_uma.route_remove(rig->cta, route.connection);
        cta_for_uma.route_add(rig->cta, &next);
        assert_int_equal(rig->route_status, CONNECT_OK);
        assert_true(is_there(rig, next.connection));
        cta_for_uma.route_remove(rig->cta, next.connection);
    }
    rig_destroy(rig);
}

static void a_connection_that_is_leaving_leaves_once(void **state)
{
    struct rig *rig = rig_with_unit();
    struct client_route former = named(rig, of_slot(5), RIG_VOLUME, "host-a");
    leave_behind(rig, &former);
    for (unsigned i = 0; i < 2; i++) {
        cta_for_uma.route_remove(rig->cta, former.connection);
        assert_int_equal(cta_volume_counters(rig->cta, 0)->connections, 1);
    }
    end_what_was_left(rig);
    assert_false(is_there(rig, former.connection));
    assert_int_equal(cta_volume_counters(rig->cta, 0)->connections, 0);
    rig_destroy(rig);
}

/* ---- volumes --------------------------------------------------------------------------------- */

static void a_volume_is_known_until_it_is_gone(void **state)
{
    struct rig *rig = rig_with_unit();
    struct client_route route = named(rig, of_slot(1), 7, "");
    cta_for_uma.volume_remove(rig->cta, 0); // none has this number
    for (unsigned i = 0; i < 2; i++) {
        cta_for_uma.route_add(rig->cta, &route);
        assert_int_equal(cta_volume_counters(rig->cta, 0)->connections, 1);
        cta_for_uma.route_remove(rig->cta, route.connection);
        assert_int_equal(cta_volume_counters(rig->cta, 0)->volume, 7);
        assert_int_equal(cta_volume_counters(rig->cta, 0)->connections, 0);
    }
    cta_for_uma.volume_remove(rig->cta, 7);
    assert_null(cta_volume_counters(rig->cta, 0));
    rig_destroy(rig);
}

// A slot that is taken: of a volume that nobody has used yet nothing is left.
static void who_is_refused_leaves_no_volume_behind(void **state)
{
    struct rig *rig = rig_with_unit();
    struct client_route route = named(rig, of_slot(1), 7, "");
    struct client_route next = named(rig, route.connection + NODE_CONNECTION_COUNT_MAX, 8, "");
    cta_for_uma.route_add(rig->cta, &route);
    cta_for_uma.route_add(rig->cta, &next);
    assert_int_equal(rig->route_status, CONNECT_TOO_MANY);
    assert_int_equal(cta_volume_counters(rig->cta, 0)->volume, 7);
    assert_null(cta_volume_counters(rig->cta, 1));
    rig_destroy(rig);
}

static void the_last_volume_is_found_and_its_place_is_given_anew(void **state)
{
    struct rig *rig = rig_with_unit();
    for (uint32_t i = 0; i < NODE_VOLUME_COUNT_MAX; i++) {
        struct client_route route = named(rig, of_slot(i), 1 + i, "");
        cta_for_uma.route_add(rig->cta, &route);
        assert_int_equal(rig->route_status, CONNECT_OK);
    }
    const size_t last = NODE_VOLUME_COUNT_MAX - 1;
    struct client_route second = named(rig, of_slot(LAST_SLOT), NODE_VOLUME_COUNT_MAX, "");
    cta_for_uma.route_add(rig->cta, &second);
    assert_int_equal(rig->route_status, CONNECT_OK);
    assert_int_equal(cta_volume_counters(rig->cta, last)->connections, 2);
    cta_for_uma.volume_remove(rig->cta, NODE_VOLUME_COUNT_MAX);
    cta_for_uma.route_remove(rig->cta, second.connection);
    cta_for_uma.route_remove(rig->cta, of_slot(NODE_VOLUME_COUNT_MAX - 1));
    assert_null(cta_volume_counters(rig->cta, last));
    second.volume = NODE_VOLUME_COUNT_MAX + 1;
    cta_for_uma.route_add(rig->cta, &second);
    assert_int_equal(rig->route_status, CONNECT_OK);
    assert_int_equal(cta_volume_counters(rig->cta, last)->volume, NODE_VOLUME_COUNT_MAX + 1);
    rig_destroy(rig);
}

/* ---- clients --------------------------------------------------------------------------------- */

static unsigned lent_to(struct rig *rig, uint32_t slot, const char *host,
                        struct service_request *writes)
{
    enum { COUNT = 4 };
    struct client_route route = named(rig, of_slot(slot), 1 + slot, "");
    snprintf(route.client.host, sizeof route.client.host, "%s", host);
    cta_for_uma.route_add(rig->cta, &route);
    unsigned before = rig->transfer_count;
    for (unsigned i = 0; i < COUNT; i++) {
        writes[i] = rig_request(NODE_WRITE, 0, MIB);
        writes[i].connection = route.connection;
        rig_submit_request(rig, &writes[i]);
    }
    return rig->transfer_count - before;
}

// What is of one host shares, though who came before it has gone and left his place.
static void connections_of_a_host_share_behind_a_place_that_is_free(void **state)
{
    struct rig *rig = rig_with_unit();
    static struct service_request writes[6][4];
    struct client_route first = named(rig, of_slot(1), 1, "");
    snprintf(first.client.host, sizeof first.client.host, "gone");
    cta_for_uma.route_add(rig->cta, &first);
    rig->is_slow = true;
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(lent_to(rig, 2 + i, "h", writes[i]), 4);
    }
    cta_for_uma.route_remove(rig->cta, first.connection);
    assert_int_equal(lent_to(rig, 6, "h", writes[3]), 4); // a quarter of the pool is full
    assert_int_equal(lent_to(rig, 7, "h", writes[4]), 0);
    assert_int_equal(lent_to(rig, 8, "t", writes[5]), 4);
    for (unsigned i = 0; i < rig->transfer_count; i++) {
        cta_for_tts.transferred(rig->cta, rig->transfers[i], NODE_TRANSFER, rig->now);
        cta_flush(rig->cta, rig->now);
    }
    assert_int_equal(cta_pool_taken_len(rig->cta), 0);
    rig_destroy(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_comes_back_waits_for_what_he_left_at_this_volume),
        cmocka_unit_test(each_who_waits_is_let_in_once),
        cmocka_unit_test(who_goes_while_he_waits_is_not_let_in),
        cmocka_unit_test(a_number_of_before_means_nobody),
        cmocka_unit_test(a_connection_that_is_leaving_leaves_once),
        cmocka_unit_test(a_volume_is_known_until_it_is_gone),
        cmocka_unit_test(who_is_refused_leaves_no_volume_behind),
        cmocka_unit_test(the_last_volume_is_found_and_its_place_is_given_anew),
        cmocka_unit_test(connections_of_a_host_share_behind_a_place_that_is_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
