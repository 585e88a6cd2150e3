// The NVMe target as a whole: what it tells the node, whom it follows when the table of volumes
// changes, and how many sessions an address has and for how long.

#include "node/nvme/agent.h"
#include "tests/node/nvme_session.h"

enum { EVERYTHING = NVME_EVENT_NAMESPACE_ATTRIBUTES | NVME_EVENT_ANA_CHANGE };

static struct line *discovery_open(struct stage *s, uint32_t kato_ms)
{
    struct line *line = line_open(s);
    assert_int_equal(
        line_connect_to(line, NVME_DISCOVERY_NQN, STAGE_HOST, 0, NVME_CNTLID_DYNAMIC, kato_ms)
            .status,
        NVME_OK);
    property_set(line, NVME_PROPERTY_CC, NVME_CC_EN);
    return line;
}

// Wants to hear of these events, once each.
static void listen_for(struct line *admin, uint32_t events, unsigned count)
{
    uint8_t sqe[NVME_SQE_LEN];
    sqe_fill(admin, sqe, NVME_ADMIN_SET_FEATURES, 0);
    put_le32(sqe + NVME_SQE_OFF_CDW10, NVME_FEATURE_ASYNC_EVENTS);
    put_le32(sqe + NVME_SQE_OFF_CDW11, events);
    line_send(admin, sqe);
    assert_int_equal(line_answer(admin).status, NVME_OK);
    for (unsigned i = 0; i < count; i++) {
        sqe_fill(admin, sqe, NVME_ADMIN_ASYNC_EVENT_REQUEST, 0);
        line_send(admin, sqe);
    }
    admin->answer_count = 0;
}

static void settle(struct stage *s)
{
    while (!nvme_target_is_settled(s->target)) {
        nvme_target_on_batch_end(s->target, s->now);
    }
}

/* ---- what the node is told ------------------------------------------------------------------- */

static char told[512];

static void figure(void *ctx, const char *name, enum tts_figure_kind kind, uint64_t value)
{
    size_t len = strlen(told);
    snprintf(told + len, sizeof told - len, "%s%s %llu\n", name, kind == TTS_GAUGE ? " now" : "",
             (unsigned long long)value);
}

static void figures_are_told_by_name(void **state)
{
    struct stage *s = stage_create(ALL);
    s->target->counters = (struct nvme_counters){.queues = 2,
                                                 .controllers = 3,
                                                 .refused = 4,
                                                 .commands = 5,
                                                 .errors = 6,
                                                 .expired = 7,
                                                 .transfers_bad = 8};
    struct line *line = line_open(s);
    line_connect(line, STAGE_HOST, 0, NVME_CNTLID_DYNAMIC, 0);
    told[0] = '\0';
    assert_string_equal(nvme_for_uma.name, "nvme");
    nvme_for_uma.figures(s->target, figure, NULL);
    assert_string_equal(told, "sessions now 1\ncontrollers 4\nqueues 3\nrefused 4\ncommands 6\n"
                              "errors 6\nexpired 7\ntransfers_bad 8\n");
    line_end(line);
    stage_destroy(s);
}

static void a_node_that_stops_ends_each_connection_once(void **state)
{
    struct stage *s = stage_create(ALL);
    struct session session = session_on(s, STAGE_HOST);
    struct line *gone = line_open(s);
    struct why why;
    assert_int_equal(nvme_for_uma.start(s->target, &why), 0);
    nvme_queue_close(gone->queue, s->now);
    nvme_for_uma.stop(s->target);
    assert_string_equal(session.io->closed, "the node stops");
    assert_string_equal(session.admin->closed, "the node stops");
    assert_string_equal(gone->closed, "");
    line_end(gone);
    session_leave(&session);
    stage_destroy(s);
}

static void a_target_has_so_many_listeners(void **state)
{
    struct stage *s = stage_create(ALL);
    const struct nvme_listener listener = {.trtype = NVME_TRTYPE_TCP};
    for (unsigned i = 0; i < NVME_LISTENER_COUNT_MAX; i++) {
        assert_true(nvme_target_listener_add(s->target, &listener));
    }
    assert_false(nvme_target_listener_add(s->target, &listener));
    stage_destroy(s);
}

static void a_namespace_has_a_path_by_its_number_unless_it_stands_alone(void **state)
{
    static const struct {
        const char *group;
        uint32_t member;
        const char *path;
    } table[] = {
        {"", 1, "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-000000000000"},
        {"", 2, "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-000000000000/2"},
        {"g", 1, "g/1"},
        {"group", 3, "group/3"},
    };
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct resource row = {.name = "disk"};
        char path[NVME_PATH_MAX];
        snprintf(row.places[VOLUME_IN_SUBSYSTEM].group, VOLUME_GROUP_MAX, "%s", table[i].group);
        row.places[VOLUME_IN_SUBSYSTEM].member = table[i].member;
        nvme_namespace_path(&row, path);
        assert_string_equal(path, table[i].path);
    }
}

/* ---- as the table changes -------------------------------------------------------------------- */

static void discovery_hears_of_volumes_and_others_of_their_own(void **state)
{
    struct stage *s = stage_create(ALL);
    stage_group(s);
    stage_advertise(s);
    struct line *discovery = discovery_open(s, 0), *leaving = discovery_open(s, 0);
    struct session session = session_on(s, STAGE_HOST);
    listen_for(discovery, NVME_EVENT_DISCOVERY_CHANGE, 1);
    listen_for(leaving, NVME_EVENT_DISCOVERY_CHANGE, 1);
    listen_for(session.admin, EVERYTHING, 1);
    nvme_controller_end(leaving->queue->controller, "test");
    stage_advertise(s); // nothing of it is new
    assert_int_equal(discovery->answer_count + session.admin->answer_count, 0);
    s->rows[2].volume = 99;
    s->rows[2].places[VOLUME_IN_SUBSYSTEM].group[0] = 'G'; // which is another subsystem
    s->rows[2].state = RESOURCE_READY;
    stage_advertise(s);
    assert_int_equal(discovery->answer_count, 1);
    assert_int_equal(line_answer(discovery).result, NVME_EVENT_RESULT_DISCOVERY_CHANGE);
    assert_int_equal(leaving->answer_count, 0);
    assert_int_equal(session.admin->answer_count, 1); // it has lost one
    assert_int_equal(line_answer(session.admin).result, NVME_EVENT_RESULT_NAMESPACE_ATTRIBUTES);
    session_leave(&session);
    line_end(leaving);
    line_end(discovery);
    stage_destroy(s);
}

static void who_has_no_volume_left_is_ended_and_nobody_else(void **state)
{
    struct stage *s = stage_create(ALL);
    struct line *discovery = discovery_open(s, 0);
    struct session session = session_on(s, STAGE_HOST);
    s->table.count = 0;
    stage_advertise(s);
    assert_string_equal(session.io->closed, "its volume has gone");
    assert_string_equal(session.admin->closed, "its volume has gone");
    assert_string_equal(discovery->closed, "");
    session_leave(&session);
    line_end(discovery);
    stage_destroy(s);
}

static void a_change_is_news_once(void **state)
{
    struct stage *s = stage_create(ALL);
    stage_group(s);
    struct session session = session_on(s, STAGE_HOST);
    listen_for(session.admin, EVERYTHING, 2);
    s->rows[0].profile.size += STAGE_BLOCK;
    stage_advertise(s);
    assert_int_equal(session.admin->answer_count, 1);
    nvme_event_read(session.admin->queue->controller, EVERYTHING);
    stage_advertise(s);
    assert_int_equal(session.admin->answer_count, 1);
    s->rows[1].state = RESOURCE_STANDBY;
    stage_advertise(s);
    assert_int_equal(session.admin->answer_count, 2);
    nvme_event_read(session.admin->queue->controller, EVERYTHING);
    listen_for(session.admin, EVERYTHING, 1);
    stage_advertise(s);
    assert_int_equal(session.admin->answer_count, 0);
    session_leave(&session);
    stage_destroy(s);
}

// By the first queue that there is, which need not be number 1.
static void a_namespace_that_comes_is_bound_at_once(void **state)
{
    static const uint16_t qids[] = {1, 2, 16};
    for (unsigned i = 0; i < sizeof qids / sizeof qids[0]; i++) {
        struct stage *s = stage_create(ALL);
        uint16_t cntlid;
        uint8_t sqe[NVME_SQE_LEN];
        stage_group(s);
        s->table.count = 2;
        stage_advertise(s);
        struct line *admin = admin_open(s, STAGE_HOST, 0, &cntlid), *io = line_open(s);
        sqe_fill(admin, sqe, NVME_ADMIN_SET_FEATURES, 0);
        put_le32(sqe + NVME_SQE_OFF_CDW10, NVME_FEATURE_NUMBER_OF_QUEUES);
        put_le32(sqe + NVME_SQE_OFF_CDW11, 15 << 16 | 15);
        line_send(admin, sqe);
        assert_int_equal(line_connect(io, STAGE_HOST, qids[i], cntlid, 0).status, NVME_OK);
        settle(s);
        assert_int_equal(s->connects, 2);
        s->table.count = 3;
        stage_advertise(s);
        settle(s);
        assert_int_equal(s->connects, 3);
        assert_int_equal(s->volume, s->rows[2].volume);
        property_set(admin, NVME_PROPERTY_CC, 0); // a reset ends it, and it alone
        assert_string_not_equal(io->closed, "");
        assert_string_equal(admin->closed, "");
        assert_true(io->queue->is_leaving);
        line_end(io);
        line_end(admin);
        stage_destroy(s);
    }
}

// What is masked of a volume's notices is of that volume.
static void another_volume_under_a_number_begins_anew(void **state)
{
    struct stage *s = stage_create(ALL);
    stage_group(s);
    s->rows[1].state = RESOURCE_STANDBY;
    stage_advertise(s);
    struct session session = session_on(s, STAGE_HOST);
    struct nvme_controller *c = session.admin->queue->controller;
    c->namespaces[0].masked_notices = c->namespaces[1].masked_notices = 6;
    s->rows[0].profile.size += STAGE_BLOCK;
    stage_advertise(s);
    assert_int_equal(c->namespaces[0].masked_notices, 6);
    s->rows[0].volume = 50;
    s->rows[2].volume = s->rows[1].volume; // no longer where it was, and that one has gone
    s->rows[1].state = RESOURCE_FAILED;
    stage_advertise(s);
    assert_int_equal(c->namespaces[0].volume.number, 50);
    assert_int_equal(c->namespaces[0].masked_notices, 0);
    session_leave(&session);
    stage_destroy(s);
}

static void what_cannot_be_a_namespace_is_none(void **state)
{
    struct stage *s = stage_create(ALL);
    stage_group(s);
    s->rows[0].state = RESOURCE_FAILED;
    s->rows[1].profile.block_size = 0; // nobody knows it yet
    s->rows[1].profile.size = 0;
    stage_advertise(s);
    struct session session = session_on(s, STAGE_HOST);
    struct nvme_controller *c = session.admin->queue->controller;
    assert_null(nvme_namespace_find(c, 1));
    assert_null(nvme_namespace_find(c, 2));
    assert_non_null(nvme_namespace_find(c, 3));
    assert_null(nvme_namespace_find(c, 0));
    assert_null(nvme_namespace_find(c, NVME_NAMESPACE_COUNT_MAX + 1));
    assert_int_equal(nvme_namespace_next(c, 0), 3);
    assert_int_equal(nvme_namespace_next(c, 3), 0);
    assert_int_equal(nvme_namespace_abilities(c), ALL);
    s->rows[2].state = RESOURCE_FAILED; // the last that there was
    stage_advertise(s);
    assert_string_not_equal(session.admin->closed, "");
    session_leave(&session);
    stage_destroy(s);
}

static void a_subsystem_whose_volume_failed_is_not_there(void **state)
{
    struct stage *s = stage_create(ALL);
    struct line *line = line_open(s);
    uint16_t unknown =
        line_connect_to(line, "nqn.none", STAGE_HOST, 0, NVME_CNTLID_DYNAMIC, 0).status;
    assert_int_not_equal(unknown, NVME_OK);
    s->row.state = RESOURCE_FAILED;
    assert_int_equal(line_connect(line, STAGE_HOST, 0, NVME_CNTLID_DYNAMIC, 0).status, unknown);
    s->row.state = RESOURCE_READY;
    assert_int_equal(line_connect(line, STAGE_HOST, 0, NVME_CNTLID_DYNAMIC, 0).status, NVME_OK);
    line_end(line);
    stage_destroy(s);
}

/* ---- admin commands -------------------------------------------------------------------------- */

static struct answer admin_send(struct line *admin, uint8_t opcode, uint32_t cdw10)
{
    uint8_t sqe[NVME_SQE_LEN];
    unsigned before = admin->answer_count;
    sqe_fill(admin, sqe, opcode, 0);
    put_le32(sqe + NVME_SQE_OFF_CDW10, cdw10);
    line_send(admin, sqe);
    return admin->answer_count > before ? line_answer(admin) : (struct answer){.status = NO_ANSWER};
}

static void discovery_takes_these_commands_and_no_others(void **state)
{
    static const struct {
        uint8_t opcode;
        uint32_t cdw10;
        uint16_t status;
    } table[] = {
        {NVME_ADMIN_ABORT, 0, NVME_INVALID_OPCODE},
        {NVME_ADMIN_SET_FEATURES, NVME_FEATURE_ASYNC_EVENTS, NVME_OK},
        {NVME_ADMIN_GET_FEATURES, NVME_FEATURE_ASYNC_EVENTS, NVME_OK},
        {NVME_ADMIN_ASYNC_EVENT_REQUEST, 0, NO_ANSWER},
        {NVME_ADMIN_KEEP_ALIVE, 0, NVME_OK},
    };
    struct stage *s = stage_create(ALL);
    struct line *line = discovery_open(s, 0);
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        assert_int_equal(admin_send(line, table[i].opcode, table[i].cdw10).status, table[i].status);
    }
    line_end(line);
    stage_destroy(s);
}

// An event that nobody waits for is told to the next who asks, and to him alone.
static void an_event_waits_for_who_asks_for_it(void **state)
{
    struct stage *s = stage_create(ALL);
    uint16_t cntlid;
    struct line *admin = admin_open(s, STAGE_HOST, 0, &cntlid);
    listen_for(admin, EVERYTHING, 0);
    s->row.profile.size += STAGE_BLOCK;
    stage_advertise(s);
    assert_int_equal(admin->answer_count, 0);
    struct answer answer = admin_send(admin, NVME_ADMIN_ASYNC_EVENT_REQUEST, 0);
    assert_int_equal(answer.result, NVME_EVENT_RESULT_NAMESPACE_ATTRIBUTES);
    nvme_event_read(admin->queue->controller, EVERYTHING);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(admin_send(admin, NVME_ADMIN_ASYNC_EVENT_REQUEST, 0).status, NO_ANSWER);
    }
    assert_int_equal(admin_send(admin, NVME_ADMIN_ASYNC_EVENT_REQUEST, 0).status, NVME_AER_LIMIT);
    line_end(admin);
    stage_destroy(s);
}

static void a_reset_forgets_what_was_to_be_told_and_what_was_told(void **state)
{
    for (unsigned is_told = 0; is_told < 2; is_told++) {
        struct stage *s = stage_create(ALL);
        uint16_t cntlid;
        struct line *admin = admin_open(s, STAGE_HOST, 0, &cntlid);
        listen_for(admin, EVERYTHING, is_told);
        s->row.profile.size += STAGE_BLOCK;
        stage_advertise(s);
        property_set(admin, NVME_PROPERTY_CC, 0);
        property_set(admin, NVME_PROPERTY_CC,
                     NVME_CC_EN | NVME_SQE_LEN_LOG2 << NVME_CC_IOSQES_SHIFT |
                         NVME_CQE_LEN_LOG2 << NVME_CC_IOCQES_SHIFT);
        listen_for(admin, EVERYTHING, 1);
        assert_int_equal(admin->answer_count, 0);
        s->row.profile.size += STAGE_BLOCK;
        stage_advertise(s);
        assert_int_equal(admin->answer_count, 1);
        line_end(admin);
        stage_destroy(s);
    }
}

/* ---- sessions -------------------------------------------------------------------------------- */

// An address has so many of discovery, whatever others have, and of those with volumes more.
static void discovery_of_an_address_is_bounded(void **state)
{
    struct line *lines[NVME_DISCOVERY_OF_HOST_MAX];
    struct stage *s = stage_create(ALL);
    uint16_t cntlid;
    struct line *admin = admin_open(s, STAGE_HOST, 0, &cntlid);
    for (unsigned i = 0; i < NVME_DISCOVERY_OF_HOST_MAX; i++) {
        lines[i] = discovery_open(s, 0);
    }
    struct line *beyond = line_open(s);
    assert_int_equal(
        line_connect_to(beyond, NVME_DISCOVERY_NQN, STAGE_HOST, 0, NVME_CNTLID_DYNAMIC, 0).status,
        NVME_CONNECT_BUSY);
    memcpy(beyond->queue->parts.host, "192.0.2.99", sizeof "192.0.2.99");
    assert_int_equal(
        line_connect_to(beyond, NVME_DISCOVERY_NQN, STAGE_HOST, 0, NVME_CNTLID_DYNAMIC, 0).status,
        NVME_OK);
    struct line *second = admin_open(s, STAGE_HOST, 0, &cntlid);
    line_end(second);
    line_end(beyond);
    for (unsigned i = 0; i < NVME_DISCOVERY_OF_HOST_MAX; i++) {
        line_end(lines[i]);
    }
    line_end(admin);
    stage_destroy(s);
}

static void a_host_is_waited_for_twice_as_long_as_it_promised(void **state)
{
    static const struct {
        bool is_discovery;
        uint32_t kato_ms;
        instant_ns after;
    } table[] = {
        {false, 0, INSTANT_NEVER}, {false, 1, 2 * NS_PER_MS},   {false, 5000, 10 * NS_PER_S},
        {true, 0, 120 * NS_PER_S}, {true, 5000, 10 * NS_PER_S}, {true, 1, 2 * NS_PER_MS},
    };
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct stage *s = stage_create(ALL);
        uint16_t cntlid;
        struct line *line = table[i].is_discovery
                                ? discovery_open(s, table[i].kato_ms)
                                : admin_open(s, STAGE_HOST, table[i].kato_ms, &cntlid);
        bool ever = table[i].after != INSTANT_NEVER;
        assert_int_equal(nvme_target_next_deadline(s->target),
                         ever ? s->now + table[i].after : INSTANT_NEVER);
        if (ever) {
            nvme_target_on_deadline(s->target, s->now + table[i].after - 1);
            assert_string_equal(line->closed, "");
            nvme_target_on_deadline(s->target, s->now + table[i].after);
            assert_string_equal(line->closed, "keep alive expired");
            assert_int_equal(nvme_target_counters(s->target).expired, 1);
            assert_int_equal(nvme_target_next_deadline(s->target), INSTANT_NEVER);
        }
        line_end(line);
        stage_destroy(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_are_told_by_name),
        cmocka_unit_test(a_node_that_stops_ends_each_connection_once),
        cmocka_unit_test(a_target_has_so_many_listeners),
        cmocka_unit_test(a_namespace_has_a_path_by_its_number_unless_it_stands_alone),
        cmocka_unit_test(discovery_hears_of_volumes_and_others_of_their_own),
        cmocka_unit_test(who_has_no_volume_left_is_ended_and_nobody_else),
        cmocka_unit_test(a_change_is_news_once),
        cmocka_unit_test(a_namespace_that_comes_is_bound_at_once),
        cmocka_unit_test(another_volume_under_a_number_begins_anew),
        cmocka_unit_test(what_cannot_be_a_namespace_is_none),
        cmocka_unit_test(a_subsystem_whose_volume_failed_is_not_there),
        cmocka_unit_test(discovery_takes_these_commands_and_no_others),
        cmocka_unit_test(an_event_waits_for_who_asks_for_it),
        cmocka_unit_test(a_reset_forgets_what_was_to_be_told_and_what_was_told),
        cmocka_unit_test(discovery_of_an_address_is_bounded),
        cmocka_unit_test(a_host_is_waited_for_twice_as_long_as_it_promised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
