// The server of queue pairs: where it listens, what its connections hear, which RNICs it has the
// pool registered with, and who drives them. Verbs and the connection manager are the test's.

#include "tests/node/fabric_stage.h"

static struct why why;

static int begin(void **state)
{
    stage_begin(0);
    why = (struct why){""};
    return 0;
}

static int end(void **state)
{
    stage_end();
    return 0;
}

/* ---- listening ------------------------------------------------------------------------------- */

static void it_listens_at_each_address_by_one_channel(void **state)
{
    assert_int_equal(fabric_listen(&fabric, &why), 0);
    assert_log("events watch id bind5 listen128 id bind4420 listen128 ");
    assert_int_equal(fabric.listener_count, 2);
    assert_string_equal(fabric.listeners[0].end.host, "127.0.0.1");
    assert_string_equal(fabric.listeners[0].end.port, "5");
    assert_string_equal(fabric.listeners[1].end.host, "127.0.0.2");
    assert_string_equal(fabric.listeners[1].end.port, "4420");
    fabric_close(&fabric);
    assert_log("-id -id ");
    fabric_close(&fabric);
    assert_log("");
    assert_int_equal(fabric_listen(&fabric, &why), 0);
    assert_log("id bind5 listen128 id bind4420 listen128 ");
}

static void who_cannot_listen_at_all_listens_at_none(void **state)
{
    static const struct {
        const char *fails;
        unsigned fails_at;
        int error;
        const char *log, *why;
    } cases[] = {
        {"events", 0, ENODEV, "events ", "127.0.0.1:5: there is no RDMA device to listen with: "},
        {"watch", 0, ENOSPC, "events watch ",
         "127.0.0.1:5: there is no RDMA device to listen with: "},
        {"id", 0, ENODEV, "events watch id ",
         "127.0.0.1:5: there is no RDMA device to listen with: "},
        {"id", 1, EIO, "events watch id bind5 listen128 id -id ",
         "127.0.0.2: there is no RDMA device to listen with: "},
        {"bind", 0, EADDRNOTAVAIL, "events watch id bind5 -id ",
         "127.0.0.1:5: no RDMA device has this address: "},
        {"bind", 0, EADDRINUSE, "events watch id bind5 -id ",
         "127.0.0.1:5: somebody listens at this port (RDMA over TCP and TCP itself want two): "},
        {"bind", 1, EACCES, "events watch id bind5 listen128 id bind4420 -id -id ",
         "127.0.0.2: cannot have this address: "},
        {"listen", 0, EADDRINUSE, "events watch id bind5 listen128 -id ",
         "127.0.0.1:5: somebody listens at this port (RDMA over TCP and TCP itself want two): "},
        {"listen", 0, EADDRNOTAVAIL, "events watch id bind5 listen128 -id ",
         "127.0.0.1:5: cannot listen: "},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char line[256];
        begin(NULL);
        at.fails = cases[i].fails;
        at.fails_at = cases[i].fails_at;
        at.error = cases[i].error;
        snprintf(line, sizeof line, "%s%s", cases[i].why, strerror(cases[i].error));
        assert_int_equal(fabric_listen(&fabric, &why), -cases[i].error);
        assert_string_equal(why.text, line);
        assert_log(cases[i].log);
        assert_int_equal(fabric.listener_count, 0);
        stage_end();
    }
    begin(NULL);
    snprintf(fabric.parts.listen.of[1], ADDRESS_MAX, "[::1");
    assert_true(fabric_listen(&fabric, &why) < 0);
    assert_log("events watch id bind5 listen128 -id ");
    stage_end();
}

static void what_failed_may_be_tried_again(void **state)
{
    at.fails = "watch";
    assert_int_equal(fabric_listen(&fabric, &why), -ENOSPC);
    at.fails = NULL;
    at.log[0] = '\0';
    assert_int_equal(fabric_listen(&fabric, &why), 0);
    assert_log("watch id bind5 listen128 id bind4420 listen128 "); // it hears of connections
    assert_non_null(fabric.channel_watch);
}

/* ---- events ---------------------------------------------------------------------------------- */

static void hear(enum rdma_cm_event_type type, struct rdma_cm_id *id)
{
    struct rdma_cm_event event = {.event = type, .id = id};
    at.log[0] = '\0';
    at.events[at.event_count++] = &event;
    fabric.channel_watch->on_ready(fabric.channel_watch->ctx, 1);
    assert_int_equal(at.event_count, 0);
}

static void a_request_is_the_protocols_or_is_rejected(void **state)
{
    assert_int_equal(fabric_listen(&fabric, &why), 0);
    struct rdma_cm_id *id = stage_id("10.0.0.1");
    at.takes_requests = true;
    hear(RDMA_CM_EVENT_CONNECT_REQUEST, id);
    assert_log("request acked ");
    assert_int_equal(fabric.counters.rejected, 0);
    at.takes_requests = false;
    hear(RDMA_CM_EVENT_CONNECT_REQUEST, id);
    assert_log("request acked -id ");
    assert_int_equal(fabric.counters.rejected, 1);
    hear(RDMA_CM_EVENT_DEVICE_REMOVAL, fabric.listeners[0].id); // a listener's
    assert_log("acked ");
}

static void a_pair_hears_what_becomes_of_its_connection(void **state)
{
    static const struct {
        enum rdma_cm_event_type type;
        enum fabric_state before, behind;
        bool is_disconnected;
    } cases[] = {
        {RDMA_CM_EVENT_ESTABLISHED, FABRIC_ACCEPTING, FABRIC_UP, false},
        {RDMA_CM_EVENT_ESTABLISHED, FABRIC_UP, FABRIC_UP, false},
        {RDMA_CM_EVENT_ESTABLISHED, FABRIC_LEAVING, FABRIC_LEAVING, false},
        {RDMA_CM_EVENT_DISCONNECTED, FABRIC_UP, FABRIC_UP, true},
        {RDMA_CM_EVENT_CONNECT_ERROR, FABRIC_ACCEPTING, FABRIC_ACCEPTING, true},
        {RDMA_CM_EVENT_UNREACHABLE, FABRIC_ACCEPTING, FABRIC_ACCEPTING, true},
        {RDMA_CM_EVENT_REJECTED, FABRIC_ACCEPTING, FABRIC_ACCEPTING, true},
        {RDMA_CM_EVENT_DEVICE_REMOVAL, FABRIC_UP, FABRIC_UP, true},
        {RDMA_CM_EVENT_TIMEWAIT_EXIT, FABRIC_UP, FABRIC_UP, false},
    };
    assert_int_equal(fabric_listen(&fabric, &why), 0);
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fabric_pair pair = {.fabric = &fabric, .state = cases[i].before};
        struct rdma_cm_id *id = stage_id("10.0.0.1");
        id->context = &pair;
        list_init(&pair.dirty_link);
        hear(cases[i].type, id);
        assert_log("acked ");
        assert_int_equal(pair.state, cases[i].behind);
        assert_int_equal(pair.is_disconnected, cases[i].is_disconnected);
        assert_ptr_equal(fabric.dirty.next, &pair.dirty_link);
        list_remove(&pair.dirty_link);
        rdma_destroy_id(id);
    }
}

static void a_pair_with_more_to_do_has_another_turn(void **state)
{
    struct fabric_device *device = fabric_device_find(&fabric, &at.verbs, &why);
    struct fabric_pair *p = calloc(1, sizeof *p);
    const struct fabric_shape shape = {1, 1, 1, 1};
    p->device = device;
    p->id = stage_id("10.0.0.1");
    at.alive++;
    assert_true(fabric.member.may_sleep(&fabric));
    assert_true(fabric_pair_init(p, &shape) && fabric_pair_accept(p, NULL));
    assert_false(fabric.member.may_sleep(&fabric));
    at.has_more = true;
    fabric.member.on_batch_end(&fabric, at.now);
    assert_false(fabric.member.may_sleep(&fabric));
    at.has_more = false;
    fabric.member.on_batch_end(&fabric, at.now);
    assert_true(fabric.member.may_sleep(&fabric));
    at.descriptors = 9;
    fabric.counters.descriptors = 30;
    fabric.counters.rejected = 2;
    assert_int_equal(fabric_counters(&fabric).descriptors, 39);
    assert_int_equal(fabric_counters(&fabric).rejected, 2);
}

/* ---- RNICs ----------------------------------------------------------------------------------- */

static void a_device_has_the_pool_registered_once(void **state)
{
    stage_generations[0] = 1;
    stage_generations[3] = 5;
    struct fabric_device *device = fabric_device_find(&fabric, &at.verbs, &why);
    assert_log("pd mr0/40/1 mr192/40/1 channel watch ");
    assert_ptr_equal(device->verbs, &at.verbs);
    assert_ptr_equal(fabric_device_find(&fabric, &at.verbs, &why), device);
    assert_log("");
    uint32_t lkey = fabric_device_lkey(device, 3);
    assert_int_equal(lkey, device->parts[3].mr->lkey);
    assert_int_not_equal(lkey, fabric_device_lkey(device, 0));
    assert_log("");
    stage_generations[3] = 6; // other memory is in its place
    assert_int_not_equal(fabric_device_lkey(device, 3), lkey);
    assert_log("-mr mr192/40/1 ");
    assert_int_equal(fabric_device_lkey(device, 3), device->parts[3].mr->lkey);
    assert_log("");
    stage_generations[NODE_UNIT_COUNT_MAX - 1] = 1; // a new one
    assert_true(fabric_device_lkey(device, NODE_UNIT_COUNT_MAX - 1) != 0);
    assert_log("mr65472/40/1 ");
    stage_generations[3] = 7;
    at.fails = "mr";
    assert_int_equal(fabric_device_lkey(device, 3), 0);
    assert_int_equal(fabric_device_lkey(device, 3), 0);
    assert_log("-mr mr192/40/1 mr192/40/1 ");
    at.fails = NULL;
    assert_true(fabric_device_lkey(device, 3) != 0);
    at.log[0] = '\0';
    struct ibv_context another = at.verbs;
    assert_ptr_not_equal(fabric_device_find(&fabric, &another, &why), device);
    fabric_device_destroy(device);
    assert_non_null(strstr(at.log, "-watch -channel -mr -mr -mr -pd "));
}

static void a_device_that_cannot_be_had_says_why(void **state)
{
    static const char pool[] =
        "the pool cannot be registered (ulimit -l is too low, or --pool too large): ";
    static const struct {
        const char *fails;
        unsigned fails_at;
        const char *why, *gone;
    } cases[] = {
        {"query", 0, "its limits cannot be had: ", ""},
        {"pd", 0, "it has no protection domain: ", "pd "},
        {"mr", 0, pool, "pd mr0/40/1 -pd "},
        {"mr", 1, pool, "pd mr0/40/1 mr192/40/1 -mr -pd "},
        {"channel", 0,
         "it has no completion channel: ", "pd mr0/40/1 mr192/40/1 channel -mr -mr -pd "},
        {"watch", 0, "it has no completion channel: ",
         "pd mr0/40/1 mr192/40/1 channel watch -channel -mr -mr -pd "},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char line[256];
        begin(NULL);
        stage_generations[0] = stage_generations[3] = 1;
        at.fails = cases[i].fails;
        at.fails_at = cases[i].fails_at;
        snprintf(line, sizeof line, "%s%s", cases[i].why, strerror(ENOSPC));
        assert_null(fabric_device_find(&fabric, &at.verbs, &why));
        assert_string_equal(why.text, line);
        assert_log(cases[i].gone);
        assert_true(list_is_empty(&fabric.devices));
        stage_end();
    }
}

static void foreign_iwarp_has_its_sinks_open_for_writes(void **state)
{
    static const struct {
        enum ibv_transport_type transport;
        bool is_wefts;
        unsigned flags, access;
        bool is_pinned, can_invalidate;
    } cases[] = {
        {IBV_TRANSPORT_IWARP, false, 0, 3, true, false},
        {IBV_TRANSPORT_IWARP, false, IBV_DEVICE_MEM_MGT_EXTENSIONS, 3, true, true},
        {IBV_TRANSPORT_IWARP, true, 0, 1, false, true},
        {IBV_TRANSPORT_IB, false, ~IBV_DEVICE_MEM_MGT_EXTENSIONS, 1, true, false},
        {IBV_TRANSPORT_IB, true, 0, 1, false, true},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        begin(NULL);
        at.device.transport_type = cases[i].transport;
        at.has_oneshot = cases[i].is_wefts;
        at.cap_flags = cases[i].flags;
        stage_generations[0] = 1;
        struct fabric_device *device = fabric_device_find(&fabric, &at.verbs, &why);
        assert_int_equal(device->sink_access, cases[i].access);
        assert_int_equal(device->can_invalidate, cases[i].can_invalidate);
        assert_int_equal(stage_is_pinned, cases[i].is_pinned);
        stage_end();
    }
    begin(NULL); // nothing is registered, so nothing is pinned
    assert_non_null(fabric_device_find(&fabric, &at.verbs, &why));
    assert_false(stage_is_pinned);
    at.fails = "mr";
    stage_generations[0] = 1;
    struct list_link *l = fabric.devices.next;
    assert_int_equal(fabric_device_lkey(LIST_ENTRY(l, struct fabric_device, link), 0), 0);
    assert_false(stage_is_pinned);
    stage_end();
}

/* ---- who drives ------------------------------------------------------------------------------ */

static void the_loop_drives_an_rnic_that_lets_it(void **state)
{
    static const struct {
        bool can_drive;
        const char *fails;
        const char *log;
        bool drives;
    } cases[] = {
        {false, NULL, "pd channel watch ", false},
        {true, NULL, "pd channel watch drive watch ", true},
        {true, "drive", "pd channel watch drive ", false},
        {true, "watch", "pd channel watch drive watch -drive ", false},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        begin(NULL);
        at.can_drive = cases[i].can_drive;
        at.fails = cases[i].fails;
        at.fails_at = cases[i].fails != NULL && strcmp(cases[i].fails, "watch") == 0;
        struct fabric_device *device = fabric_device_find(&fabric, &at.verbs, &why);
        assert_non_null(device);
        assert_log(cases[i].log);
        assert_int_equal(device->drive_watch != NULL, cases[i].drives);
        fabric_device_destroy(device);
        assert_log(cases[i].drives ? "-drive -watch -watch -channel -pd " : "-watch -channel -pd ");
        stage_end();
    }
}

static struct fabric_pair pair;
static struct stage_cq recv_cq, send_cq;

static void pair_begin(struct fabric_device *device)
{
    pair = (struct fabric_pair){.fabric = &fabric,
                                .device = device,
                                .recv_cq = &recv_cq.cq,
                                .send_cq = &send_cq.cq,
                                .is_recv_armed = true,
                                .is_send_armed = true};
    recv_cq.cq.cq_context = send_cq.cq.cq_context = &pair;
    list_init(&pair.dirty_link);
}

static void an_event_tells_which_queue_is_to_be_armed_again(void **state)
{
    for (unsigned i = 0; i < 6; i++) {
        bool is_receive = i & 1, is_driven = i >= 2, is_wake = i >= 4;
        begin(NULL);
        at.can_drive = is_driven;
        struct fabric_device *device = fabric_device_find(&fabric, &at.verbs, &why);
        pair_begin(device);
        at.cq_events[at.cq_event_count++] = is_receive ? &recv_cq : &send_cq;
        at.log[0] = '\0';
        if (is_wake) {
            device->may_wait = false;
            fabric.member.on_wake(&fabric);
        } else {
            struct loop_watch *watch = is_driven ? device->drive_watch : device->watch;
            watch->on_ready(watch->ctx, 1);
        }
        assert_log(is_driven ? "pass ack1 " : "ack1 ");
        assert_int_equal(pair.is_recv_armed, !is_receive);
        assert_int_equal(pair.is_send_armed, is_receive);
        assert_int_equal(device->event_count, 1);
        assert_ptr_equal(fabric.dirty.next, &pair.dirty_link);
        list_remove(&pair.dirty_link);
        stage_end();
    }
}

static void who_sleeps_has_asked_the_rnic(void **state)
{
    at.can_drive = true;
    struct fabric_device *device = fabric_device_find(&fabric, &at.verbs, &why);
    at.log[0] = '\0';
    fabric.member.on_wake(&fabric);
    assert_log(""); // a new one
    at.may_wait = 1;
    assert_true(fabric.member.may_sleep(&fabric));
    assert_log("may-wait ");
    fabric.member.on_wake(&fabric);
    assert_log(""); // nothing has come
    fabric.member.on_wake(&fabric);
    assert_log("pass "); // it was not asked
    at.may_wait = 0;
    assert_false(fabric.member.may_sleep(&fabric));
    assert_log("may-wait ");
    fabric.member.on_wake(&fabric);
    assert_log("pass ");
    device->event_count = 1;
    at.may_wait = 1;
    assert_true(fabric.member.may_sleep(&fabric)); // somebody else wants the processor
    assert_log("may-wait ");
    device->event_count = 2;
    at.gives_way = true;
    assert_false(fabric.member.may_sleep(&fabric)); // it looks on
    assert_log("");
    at.now += NS_PER_S;
    assert_true(fabric.member.may_sleep(&fabric));
    assert_log("may-wait ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_listens_at_each_address_by_one_channel, begin, end),
        cmocka_unit_test(who_cannot_listen_at_all_listens_at_none),
        cmocka_unit_test_setup_teardown(what_failed_may_be_tried_again, begin, end),
        cmocka_unit_test_setup_teardown(a_request_is_the_protocols_or_is_rejected, begin, end),
        cmocka_unit_test_setup_teardown(a_pair_hears_what_becomes_of_its_connection, begin, end),
        cmocka_unit_test_setup_teardown(a_pair_with_more_to_do_has_another_turn, begin, end),
        cmocka_unit_test_setup_teardown(a_device_has_the_pool_registered_once, begin, end),
        cmocka_unit_test(a_device_that_cannot_be_had_says_why),
        cmocka_unit_test(foreign_iwarp_has_its_sinks_open_for_writes),
        cmocka_unit_test(the_loop_drives_an_rnic_that_lets_it),
        cmocka_unit_test(an_event_tells_which_queue_is_to_be_armed_again),
        cmocka_unit_test_setup_teardown(who_sleeps_has_asked_the_rnic, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
