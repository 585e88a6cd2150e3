// Connect and the properties of a controller: which wish is refused by which status, where it is
// said to be wrong, what the operator reads of it, and what a controller tells and is told.

#include "tests/node/nvme_stage.h"

enum {
    ALL = VOLUME_CAN_WRITE | VOLUME_CAN_FLUSH,
    IN_DATA = NVME_CONNECT_IN_DATA,
    SIZES = NVME_SQE_LEN_LOG2 << NVME_CC_IOSQES_SHIFT | NVME_CQE_LEN_LOG2 << NVME_CC_IOCQES_SHIFT,
    ENABLED = NVME_CC_EN | SIZES,
};

// What stands in a Connect, and what becomes of it.
struct wish {
    const char *name;
    uint16_t record_format, qid, size, attributes, cntlid;
    uint32_t kato_ms;
    const char *subsystem, *host;
    uint8_t hostid;
};

static struct wish wish_of(const struct stage *s, uint16_t qid, uint16_t cntlid)
{
    static char nqn[NVME_NQN_MAX];
    nvme_subsystem_nqn(&s->row, nqn);
    return (struct wish){
        .qid = qid, .size = 7, .cntlid = cntlid, .subsystem = nqn, .host = STAGE_HOST};
}

static struct answer ask(struct line *line, const struct wish *wish)
{
    uint8_t sqe[NVME_SQE_LEN];
    unsigned before = line->answer_count;
    sqe_fill(line, sqe, NVME_FABRICS, NVME_CONNECT_DATA_LEN);
    sqe[NVME_SQE_OFF_FCTYPE] = NVME_FCTYPE_CONNECT;
    put_le16(sqe + NVME_CONNECT_OFF_RECFMT, wish->record_format);
    put_le16(sqe + NVME_CONNECT_OFF_QID, wish->qid);
    put_le16(sqe + NVME_CONNECT_OFF_SQSIZE, wish->size);
    put_le16(sqe + NVME_CONNECT_OFF_CATTR, wish->attributes);
    put_le32(sqe + NVME_CONNECT_OFF_KATO, wish->kato_ms);
    memset(line->data, 0, NVME_CONNECT_DATA_LEN);
    memset(line->data + NVME_CONNECT_DATA_OFF_HOSTID, wish->hostid, NVME_HOSTID_LEN);
    put_le16(line->data + NVME_CONNECT_DATA_OFF_CNTLID, wish->cntlid);
    memcpy(line->data + NVME_CONNECT_DATA_OFF_SUBNQN, wish->subsystem, strlen(wish->subsystem));
    memcpy(line->data + NVME_CONNECT_DATA_OFF_HOSTNQN, wish->host, strlen(wish->host));
    line_send(line, sqe);
    return line->answer_count > before ? line_answer(line) : (struct answer){.status = 0xffff};
}

static struct answer property(struct line *line, uint8_t type, uint8_t attributes, uint32_t offset,
                              uint64_t value)
{
    uint8_t sqe[NVME_SQE_LEN];
    sqe_fill(line, sqe, NVME_FABRICS, 0);
    sqe[NVME_SQE_OFF_FCTYPE] = type;
    sqe[NVME_PROPERTY_OFF_ATTRIB] = attributes;
    put_le32(sqe + NVME_PROPERTY_OFF_OFFSET, offset);
    put_le64(sqe + NVME_PROPERTY_OFF_VALUE, value);
    line_send(line, sqe);
    return line_answer(line);
}

static uint64_t told(struct line *line, uint32_t offset)
{
    struct answer answer =
        property(line, NVME_FCTYPE_PROPERTY_GET, offset == NVME_PROPERTY_CAP, offset, 0);
    assert_int_equal(answer.status, NVME_OK);
    return answer.result;
}

// The place in the command that the last error of the controller is said to be at.
static uint16_t place_of_error(struct line *admin)
{
    uint8_t sqe[NVME_SQE_LEN];
    sqe_fill(admin, sqe, NVME_ADMIN_GET_LOG_PAGE, 64);
    put_le32(sqe + NVME_SQE_OFF_NSID, 0xffffffff);
    put_le32(sqe + NVME_SQE_OFF_CDW10, NVME_LOG_ERROR | (64 / 4 - 1) << 16);
    line_send(admin, sqe);
    assert_int_equal(line_answer(admin).status, NVME_OK);
    return get_le16(admin->came + 14);
}

static struct answer log_of_errors(struct line *admin)
{
    place_of_error(admin);
    return line_answer(admin);
}

/* ---- Connect --------------------------------------------------------------------------------- */

static void each_fault_of_an_admin_queue_has_its_place(void **state)
{
    char endless[NVME_NQN_MAX + 1];
    memset(endless, 'n', NVME_NQN_MAX);
    endless[NVME_NQN_MAX] = '\0';
    struct stage *s = stage_create(ALL);
    struct wish good = wish_of(s, 0, NVME_CNTLID_DYNAMIC);
    struct {
        struct wish wish;
        uint16_t status;
        uint32_t place;
        const char *why;
    } rows[] = {
        {good, NVME_CONNECT_INVALID, NVME_CONNECT_DATA_OFF_CNTLID | IN_DATA,
         "an admin queue names a controller"},
        {good, NVME_CONNECT_INVALID, NVME_CONNECT_DATA_OFF_SUBNQN | IN_DATA,
         "there is no such subsystem"},
        {good, NVME_CONNECT_INVALID, NVME_CONNECT_OFF_KATO,
         "its keep-alive time-out is beyond an hour"},
        {good, NVME_CONNECT_INVALID, NVME_CONNECT_OFF_SQSIZE, "a queue has 2 to 128 entries"},
        {good, NVME_CONNECT_INVALID, NVME_CONNECT_OFF_SQSIZE, "a queue has 2 to 128 entries"},
        {good, NVME_CONNECT_INCOMPATIBLE, 0, "the record format is not 0"},
        {good, NVME_CONNECT_INVALID, NVME_CONNECT_DATA_OFF_SUBNQN | IN_DATA,
         "the subsystem's name is empty or does not end"},
        {good, NVME_CONNECT_INVALID, NVME_CONNECT_DATA_OFF_SUBNQN | IN_DATA,
         "the subsystem's name is empty or does not end"},
        {good, NVME_CONNECT_INVALID, NVME_CONNECT_DATA_OFF_HOSTNQN | IN_DATA,
         "the host's name does not end"},
    };
    rows[0].wish.cntlid = 1;
    rows[1].wish.subsystem = "nqn.2026-11.test:other";
    rows[2].wish.kato_ms = NVME_KATO_MAX_MS + 1;
    rows[3].wish.size = 0;
    rows[4].wish.size = NVME_QUEUE_DEPTH_MAX;
    rows[5].wish.record_format = 1;
    rows[6].wish.subsystem = "";
    rows[7].wish.subsystem = endless;
    rows[8].wish.host = endless;
    struct line *line = line_open(s);
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct answer answer = ask(line, &rows[i].wish);
        assert_int_equal(answer.status, rows[i].status);
        assert_true(answer.is_final);
        assert_int_equal(answer.result, rows[i].place);
        assert_non_null(strstr(s->said, rows[i].why));
        assert_non_null(strstr(s->said, " at 192.0.2.7:1 is refused "));
        assert_int_equal(nvme_target_counters(s->target).refused, i + 1);
    }
    assert_int_equal(nvme_target_counters(s->target).queues, 0);
    assert_int_equal(ask(line, &good).status, NVME_OK); // as the line was before
    line_end(line);
    stage_destroy(s);
}

static void the_widest_wishes_are_granted(void **state)
{
    struct stage *s = stage_create(ALL);
    struct wish wishes[3];
    for (unsigned i = 0; i < 3; i++) {
        wishes[i] = wish_of(s, 0, NVME_CNTLID_DYNAMIC);
    }
    wishes[0].size = 1;
    wishes[1].size = NVME_QUEUE_DEPTH_MAX - 1;
    wishes[2].kato_ms = NVME_KATO_MAX_MS;
    for (unsigned i = 0; i < 3; i++) {
        struct line *line = line_open(s);
        assert_int_equal(ask(line, &wishes[i]).status, NVME_OK);
        assert_int_equal(nvme_target_counters(s->target).queues, i + 1);
        line_end(line);
    }
    stage_destroy(s);
}

// A name of one octet is one too, though nobody is called so.
static void who_is_refused_is_told_of_by_name(void **state)
{
    static const struct {
        const char *subsystem, *host, *said;
    } rows[] = {
        {"nqn.x", STAGE_HOST, "host \"" STAGE_HOST "\" at 192.0.2.7:1 is refused \"nqn.x\": "},
        {"x", "", "host (no name) at 192.0.2.7:1 is refused \"x\": there is no such subsystem"},
        {"", STAGE_HOST, "host (no name) at 192.0.2.7:1 is refused (no subsystem): "},
    };
    struct stage *s = stage_create(ALL);
    struct line *line = line_open(s);
    for (unsigned i = 0; i < 3; i++) {
        struct wish wish = wish_of(s, 0, NVME_CNTLID_DYNAMIC);
        wish.subsystem = rows[i].subsystem;
        wish.host = rows[i].host;
        ask(line, &wish);
        assert_non_null(strstr(s->said, rows[i].said));
    }
    line_end(line);
    stage_destroy(s);
}

static void a_volume_that_is_not_ready_may_be_asked_for_again(void **state)
{
    struct stage *s = stage_create(ALL);
    struct line *line = line_open(s);
    struct wish wish = wish_of(s, 0, NVME_CNTLID_DYNAMIC);
    s->row.profile.block_size = 0; // nobody has opened it yet
    stage_advertise(s);
    struct answer answer = ask(line, &wish);
    assert_int_equal(answer.status, NVME_CONNECT_BUSY);
    assert_false(answer.is_final);
    s->row.profile.block_size = STAGE_BLOCK;
    stage_advertise(s);
    nvme_for_uma.stop(s->target);
    answer = ask(line, &wish);
    assert_int_equal(answer.status, NVME_CONNECT_BUSY);
    assert_false(answer.is_final);
    assert_non_null(strstr(s->said, "the volume is not ready"));
    line_end(line);
    stage_destroy(s);
}

static void each_fault_of_an_io_queue_has_its_place(void **state)
{
    struct stage *s = stage_create(ALL);
    uint16_t cntlid;
    struct line *admin = admin_open(s, STAGE_HOST, 0, &cntlid), *io = line_open(s);
    struct wish good = wish_of(s, 1, cntlid);
    struct {
        struct wish wish;
        uint32_t place;
        const char *why;
    } rows[] = {
        {good, NVME_CONNECT_DATA_OFF_CNTLID | IN_DATA, "there is no such controller"},
        {good, NVME_CONNECT_DATA_OFF_SUBNQN | IN_DATA, "the controller is another subsystem's"},
        {good, NVME_CONNECT_DATA_OFF_HOSTNQN | IN_DATA, "the controller is another host's"},
        {good, NVME_CONNECT_DATA_OFF_HOSTID | IN_DATA,
         "the controller's host has another identifier"},
        {good, NVME_CONNECT_OFF_QID, "the queue was not granted"},
    };
    rows[0].wish.cntlid = cntlid + 1;
    rows[1].wish.subsystem = "nqn.2026-11.test:other";
    rows[2].wish.host = STAGE_HOST "2";
    rows[3].wish.hostid = 9;
    rows[4].wish.qid = 5;
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct answer answer = ask(io, &rows[i].wish);
        assert_int_equal(answer.status, NVME_CONNECT_INVALID);
        assert_int_equal(answer.result, rows[i].place);
        assert_non_null(strstr(s->said, rows[i].why));
    }
    good.qid = 4; // as many as were granted
    assert_int_equal(ask(io, &good).status, NVME_OK);
    assert_int_equal(line_answer(io).result, cntlid);
    line_end(io);
    line_end(admin);
    stage_destroy(s);
}

static void a_queue_of_another_transport_is_not_granted(void **state)
{
    static const struct nvme_transport other = {.name = "other",
                                                .fetch = line_fetch,
                                                .deliver = line_deliver,
                                                .respond = line_respond,
                                                .sgl_kinds = NVME_SGL_KIND_IN_CAPSULE,
                                                .in_capsule_len_max = NVME_SCRATCH_LEN,
                                                .close = line_close,
                                                .wake = line_wake};
    struct stage *s = stage_create(ALL);
    uint16_t cntlid;
    struct line *admin = admin_open(s, STAGE_HOST, 0, &cntlid), line = {.stage = s};
    struct nvme_queue_parts parts = {.target = s->target,
                                     .transport = &other,
                                     .connection = &line,
                                     .command_count = STAGE_DEPTH,
                                     .qid = -1,
                                     .scratch = mspan_of(line.scratch, sizeof line.scratch)};
    line.queue = nvme_queue_create(&parts);
    struct wish wish = wish_of(s, 1, cntlid);
    struct answer answer = ask(&line, &wish);
    assert_int_equal(answer.status, NVME_CONNECT_INVALID);
    assert_int_equal(answer.result, NVME_CONNECT_OFF_QID);
    nvme_queue_close(line.queue, s->now);
    nvme_queue_destroy(line.queue);
    line_end(admin);
    stage_destroy(s);
}

// As a connection over RDMA is for a queue of a number, by its private data.
static void a_connection_for_one_queue_takes_no_other(void **state)
{
    static const struct {
        int parts_qid;
        uint16_t asked, status;
    } rows[] = {{0, 1, NVME_CONNECT_INVALID}, {0, 0, NVME_OK}, {1, 0, NVME_CONNECT_INVALID}};
    struct stage *s = stage_create(ALL);
    for (unsigned i = 0; i < 3; i++) {
        struct line *line = line_open(s);
        nvme_queue_close(line->queue, s->now);
        nvme_queue_destroy(line->queue);
        struct nvme_queue_parts parts = {.target = s->target,
                                         .transport = &stage_transport,
                                         .connection = line,
                                         .command_count = STAGE_DEPTH,
                                         .qid = rows[i].parts_qid,
                                         .scratch = mspan_of(line->scratch, sizeof line->scratch)};
        line->queue = nvme_queue_create(&parts);
        struct wish wish = wish_of(s, rows[i].asked, NVME_CNTLID_DYNAMIC);
        struct answer answer = ask(line, &wish);
        assert_int_equal(answer.status, rows[i].status);
        if (answer.status != NVME_OK) {
            assert_int_equal(answer.result, NVME_CONNECT_OFF_QID);
        }
        line_end(line);
    }
    stage_destroy(s);
}

static void what_comes_out_of_turn_is_a_sequence_error(void **state)
{
    struct stage *s = stage_create(ALL);
    uint16_t cntlid;
    struct line *admin = admin_open(s, STAGE_HOST, 0, &cntlid), *io = line_open(s);
    struct wish again = wish_of(s, 0, NVME_CNTLID_DYNAMIC), wish = wish_of(s, 1, cntlid);
    struct answer answer = ask(admin, &again);
    assert_int_equal(answer.status, NVME_COMMAND_SEQUENCE_ERROR);
    assert_true(answer.is_final);
    assert_int_equal(place_of_error(admin), NVME_SQE_OFF_FCTYPE);
    property_set(admin, NVME_PROPERTY_CC, 0);
    answer = ask(io, &wish);
    assert_int_equal(answer.status, NVME_COMMAND_SEQUENCE_ERROR);
    assert_true(answer.is_final);
    assert_non_null(strstr(s->said, "the controller is not enabled"));
    property_set(admin, NVME_PROPERTY_CC, ENABLED);
    assert_int_equal(ask(io, &wish).status, NVME_OK);
    struct line *twin = line_open(s);
    answer = ask(twin, &wish);
    assert_int_equal(answer.status, NVME_COMMAND_SEQUENCE_ERROR);
    assert_true(answer.is_final);
    assert_non_null(strstr(s->said, "the queue is there already"));
    line_end(twin);
    answer = property(io, NVME_FCTYPE_PROPERTY_GET, 0, NVME_PROPERTY_VS, 0);
    assert_int_equal(answer.status, NVME_COMMAND_SEQUENCE_ERROR);
    assert_true(answer.is_final);
    assert_int_equal(place_of_error(admin), NVME_SQE_OFF_FCTYPE);
    line_end(io);
    line_end(admin);
    stage_destroy(s);
}

static void a_property_before_a_connect_is_a_sequence_error(void **state)
{
    struct stage *s = stage_create(ALL);
    struct line *line = line_open(s);
    struct answer answer = property(line, NVME_FCTYPE_PROPERTY_SET, 0, NVME_PROPERTY_CC, 0);
    assert_int_equal(answer.status, NVME_COMMAND_SEQUENCE_ERROR);
    line_end(line);
    stage_destroy(s);
}

static void a_second_connect_beside_one_under_way_is_a_sequence_error(void **state)
{
    struct stage *s = stage_create(ALL);
    uint16_t cntlid;
    struct line *admin = admin_open(s, STAGE_HOST, 0, &cntlid), *io = line_open(s);
    struct wish wish = wish_of(s, 1, cntlid);
    s->is_slow = true;
    assert_int_equal(ask(io, &wish).status, 0xffff);
    assert_int_equal(ask(io, &wish).status, NVME_COMMAND_SEQUENCE_ERROR);
    stage_answer(s);
    assert_int_equal(line_answer(io).status, NVME_OK);
    line_end(io);
    line_end(admin);
    stage_destroy(s);
}

static void who_connects_is_told_to_the_uma(void **state)
{
    struct stage *s = stage_create(ALL);
    struct line *admin = line_open(s), *io = line_open(s);
    struct wish wish = wish_of(s, 0, NVME_CNTLID_DYNAMIC);
    wish.hostid = 0xa5;
    uint16_t cntlid = (uint16_t)ask(admin, &wish).result;
    property_set(admin, NVME_PROPERTY_CC, ENABLED);
    wish.qid = 1;
    wish.cntlid = cntlid;
    s->is_slow = true;
    assert_int_equal(ask(io, &wish).status, 0xffff);
    const struct client *client = &s->asked->client;
    assert_string_equal(client->address, "192.0.2.7:1");
    assert_string_equal(client->host, "192.0.2.7");
    assert_string_equal(client->identity, STAGE_HOST);
    assert_non_null(strstr(client->registrant, "a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5"));
    stage_answer(s);
    line_end(io);
    line_end(admin);
    stage_destroy(s);
}

static void a_connect_that_its_connection_does_not_outlive_is_dropped(void **state)
{
    struct stage *s = stage_create(ALL);
    uint16_t cntlid;
    struct line *admin = admin_open(s, STAGE_HOST, 0, &cntlid), *io = line_open(s);
    struct wish wish = wish_of(s, 1, cntlid);
    s->is_slow = true;
    assert_int_equal(ask(io, &wish).status, 0xffff);
    nvme_queue_close(io->queue, s->now);
    assert_false(nvme_queue_is_over(io->queue));
    stage_answer(s);
    assert_true(nvme_queue_is_over(io->queue));
    assert_int_equal(io->answer_count, 0);
    line_end(io);
    line_end(admin);
    stage_destroy(s);
}

static void a_queue_has_the_flow_control_that_its_host_wishes(void **state)
{
    struct stage *s = stage_create(ALL);
    for (unsigned i = 0; i < 2; i++) {
        struct line *line = line_open(s);
        struct wish wish = wish_of(s, 0, NVME_CNTLID_DYNAMIC);
        wish.attributes = i == 0 ? 0 : NVME_CATTR_NO_SQ_FLOW_CONTROL;
        assert_int_equal(ask(line, &wish).status, NVME_OK);
        assert_int_equal(nvme_queue_has_flow_control(line->queue), i == 0);
        line_end(line);
    }
    stage_destroy(s);
}

// Of so many entries as were asked for, from the first.
static void the_head_goes_round_the_queue_that_was_asked_for(void **state)
{
    struct stage *s = stage_create(ALL);
    struct line *line = line_open(s);
    struct wish wish = wish_of(s, 0, NVME_CNTLID_DYNAMIC);
    wish.size = 2;
    assert_int_equal(ask(line, &wish).sqhd, 1);
    static const uint16_t heads[] = {2, 0, 1, 2};
    for (unsigned i = 0; i < 4; i++) {
        told(line, NVME_PROPERTY_VS);
        assert_int_equal(line_answer(line).sqhd, heads[i]);
    }
    line_end(line);
    stage_destroy(s);
}

static void controllers_end_at_the_nodes_limit(void **state)
{
    static struct line *lines[NVME_CONTROLLER_COUNT_MAX + 1];
    struct stage *s = stage_create(ALL);
    struct wish wish = wish_of(s, 0, NVME_CNTLID_DYNAMIC);
    for (unsigned i = 0; i <= NVME_CONTROLLER_COUNT_MAX; i++) {
        struct line *line = lines[i] = line_open(s);
        nvme_queue_close(line->queue, s->now);
        nvme_queue_destroy(line->queue);
        struct nvme_queue_parts parts = {.target = s->target,
                                         .transport = &stage_transport,
                                         .connection = line,
                                         .command_count = STAGE_DEPTH,
                                         .qid = -1,
                                         .scratch = mspan_of(line->scratch, sizeof line->scratch)};
        snprintf(parts.host, sizeof parts.host, "192.0.2.%u", i % 3);
        line->queue = nvme_queue_create(&parts);
        struct answer answer = ask(line, &wish);
        assert_int_equal(answer.status,
                         i < NVME_CONTROLLER_COUNT_MAX ? NVME_OK : NVME_CONNECT_BUSY);
        assert_false(answer.is_final);
    }
    assert_non_null(strstr(s->said, "the node has as many controllers as it can"));
    for (unsigned i = 0; i <= NVME_CONTROLLER_COUNT_MAX; i++) {
        line_end(lines[i]);
    }
    stage_destroy(s);
}

/* ---- properties ------------------------------------------------------------------------------ */

static void each_property_has_its_value(void **state)
{
    struct stage *s = stage_create(ALL);
    uint16_t cntlid;
    struct line *admin = admin_open(s, STAGE_HOST, 0, &cntlid);
    assert_int_equal(told(admin, NVME_PROPERTY_CAP),
                     127 | NVME_CAP_CQR | UINT64_C(30) << NVME_CAP_TO_SHIFT | NVME_CAP_CSS_NVM);
    assert_int_equal(told(admin, NVME_PROPERTY_VS), NVME_VERSION_1_4);
    assert_int_equal(told(admin, NVME_PROPERTY_CC), ENABLED);
    assert_int_equal(told(admin, NVME_PROPERTY_CSTS), NVME_CSTS_RDY);
    line_end(admin);
    stage_destroy(s);
}

static void a_property_that_is_none_or_of_another_length_is_refused(void **state)
{
    static const struct {
        uint8_t type, attributes;
        uint32_t offset;
        uint16_t place;
    } rows[] = {
        {NVME_FCTYPE_PROPERTY_GET, 0, NVME_PROPERTY_CAP, NVME_PROPERTY_OFF_ATTRIB},
        {NVME_FCTYPE_PROPERTY_GET, 1, NVME_PROPERTY_VS, NVME_PROPERTY_OFF_ATTRIB},
        {NVME_FCTYPE_PROPERTY_GET, 1, NVME_PROPERTY_CSTS, NVME_PROPERTY_OFF_ATTRIB},
        {NVME_FCTYPE_PROPERTY_GET, 2, NVME_PROPERTY_CAP, NVME_PROPERTY_OFF_ATTRIB},
        {NVME_FCTYPE_PROPERTY_GET, 3, NVME_PROPERTY_CAP, NVME_PROPERTY_OFF_ATTRIB},
        {NVME_FCTYPE_PROPERTY_GET, 0, 0x18, NVME_PROPERTY_OFF_OFFSET},
        {NVME_FCTYPE_PROPERTY_SET, 1, NVME_PROPERTY_CC, NVME_PROPERTY_OFF_ATTRIB},
        {NVME_FCTYPE_PROPERTY_SET, 4, NVME_PROPERTY_CC, NVME_PROPERTY_OFF_ATTRIB},
        {NVME_FCTYPE_PROPERTY_SET, 0, NVME_PROPERTY_CSTS, NVME_PROPERTY_OFF_OFFSET},
        {0x33, 0, NVME_PROPERTY_VS, NVME_SQE_OFF_FCTYPE},
    };
    struct stage *s = stage_create(ALL);
    uint16_t cntlid;
    struct line *admin = admin_open(s, STAGE_HOST, 0, &cntlid);
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct answer answer = property(admin, rows[i].type, rows[i].attributes, rows[i].offset, 0);
        assert_int_equal(answer.status, NVME_INVALID_FIELD);
        assert_true(answer.is_final);
        assert_int_equal(answer.result, 0);
        assert_int_equal(place_of_error(admin), rows[i].place);
    }
    // Only the three lowest bits are the length.
    assert_int_equal(property(admin, NVME_FCTYPE_PROPERTY_GET, 8, NVME_PROPERTY_VS, 0).status,
                     NVME_OK);
    assert_int_equal(property(admin, NVME_FCTYPE_PROPERTY_GET, 9, NVME_PROPERTY_CAP, 0).status,
                     NVME_OK);
    assert_int_equal(property(admin, NVME_FCTYPE_PROPERTY_SET, 8, NVME_PROPERTY_CC, ENABLED).status,
                     NVME_OK);
    line_end(admin);
    stage_destroy(s);
}

static void a_controller_is_ready_if_it_can_be_as_it_shall(void **state)
{
    static const struct {
        uint32_t cc, csts;
    } rows[] = {
        {ENABLED, NVME_CSTS_RDY},
        {ENABLED | 1 << NVME_CC_CSS_SHIFT, NVME_CSTS_CFS},
        {ENABLED | 4 << NVME_CC_CSS_SHIFT, NVME_CSTS_CFS},
        {ENABLED | 1 << NVME_CC_MPS_SHIFT, NVME_CSTS_CFS},
        {ENABLED | 8 << NVME_CC_MPS_SHIFT, NVME_CSTS_CFS},
        {ENABLED | 1 << NVME_CC_AMS_SHIFT, NVME_CSTS_CFS},
        {ENABLED | 4 << NVME_CC_AMS_SHIFT, NVME_CSTS_CFS},
        {ENABLED | 1 << NVME_CC_IOSQES_SHIFT, NVME_CSTS_CFS},
        {ENABLED | 1 << NVME_CC_IOCQES_SHIFT, NVME_CSTS_CFS},
        {NVME_CC_EN | NVME_SQE_LEN_LOG2 << NVME_CC_IOSQES_SHIFT, NVME_CSTS_CFS},
        {NVME_CC_EN | NVME_CQE_LEN_LOG2 << NVME_CC_IOCQES_SHIFT, NVME_CSTS_CFS},
        {ENABLED | 1 << NVME_CC_SHN_SHIFT, NVME_CSTS_RDY | NVME_CSTS_SHST_DONE},
        {ENABLED | 2 << NVME_CC_SHN_SHIFT, NVME_CSTS_RDY | NVME_CSTS_SHST_DONE},
        {SIZES, 0},
        {SIZES | 1 << NVME_CC_SHN_SHIFT, NVME_CSTS_SHST_DONE},
    };
    struct stage *s = stage_create(ALL);
    uint16_t cntlid;
    struct line *admin = admin_open(s, STAGE_HOST, 0, &cntlid);
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        admin->answer_count = 0;
        property_set(admin, NVME_PROPERTY_CC, 0);
        assert_int_equal(told(admin, NVME_PROPERTY_CSTS), 0);
        property_set(admin, NVME_PROPERTY_CC, rows[i].cc);
        assert_int_equal(told(admin, NVME_PROPERTY_CSTS), rows[i].csts);
        assert_int_equal(told(admin, NVME_PROPERTY_CC), rows[i].cc);
    }
    line_end(admin);
    stage_destroy(s);
}

// What is wrong in a controller that is enabled already does not matter, nor does its enabling
// again; a shutdown does, and may be taken back.
static void an_enabled_controller_stays_as_it_is_but_for_its_shutdown(void **state)
{
    struct stage *s = stage_create(ALL);
    uint16_t cntlid;
    struct line *admin = admin_open(s, STAGE_HOST, 0, &cntlid), *io = line_open(s);
    struct wish wish = wish_of(s, 1, cntlid);
    assert_int_equal(ask(io, &wish).status, NVME_OK);
    property_set(admin, NVME_PROPERTY_CC, ENABLED | 1 << NVME_CC_MPS_SHIFT);
    assert_int_equal(told(admin, NVME_PROPERTY_CSTS), NVME_CSTS_RDY);
    property_set(admin, NVME_PROPERTY_CC, ENABLED | 1 << NVME_CC_SHN_SHIFT);
    assert_int_equal(told(admin, NVME_PROPERTY_CSTS), NVME_CSTS_RDY | NVME_CSTS_SHST_DONE);
    property_set(admin, NVME_PROPERTY_CC, ENABLED);
    assert_int_equal(told(admin, NVME_PROPERTY_CSTS), NVME_CSTS_RDY);
    assert_string_equal(io->closed, "");
    line_end(io);
    line_end(admin);
    stage_destroy(s);
}

static void a_reset_ends_what_was_agreed(void **state)
{
    uint8_t sqe[NVME_SQE_LEN];
    struct stage *s = stage_create(ALL);
    uint16_t cntlid;
    struct line *admin = admin_open(s, STAGE_HOST, 0, &cntlid), *io = line_open(s);
    struct wish wish = wish_of(s, 1, cntlid);
    assert_int_equal(ask(io, &wish).status, NVME_OK);
    sqe_fill(admin, sqe, NVME_ADMIN_ASYNC_EVENT_REQUEST, 0);
    line_send(admin, sqe);
    uint16_t event = admin->cid;
    unsigned answered = admin->answer_count;
    property_set(admin, NVME_PROPERTY_CC, SIZES);
    assert_int_equal(admin->answer_count, answered + 2); // the event's too
    bool has_ended = false;
    for (unsigned i = answered; i < admin->answer_count; i++) {
        has_ended |= admin->answers[i].cid == event && admin->answers[i].status != NVME_OK;
    }
    assert_true(has_ended);
    assert_string_equal(io->closed, "the host has reset its controller");
    line_end(io);
    property_set(admin, NVME_PROPERTY_CC, ENABLED);
    io = line_open(s);
    wish.qid = NVME_IO_QUEUE_COUNT_MAX; // as many as there can be, until it asks for fewer
    assert_int_equal(ask(io, &wish).status, NVME_OK);
    line_end(io);
    line_end(admin);
    stage_destroy(s);
}

// Until then it hears whether its host is there, and nothing else.
static void an_admin_command_waits_for_its_controller_to_be_enabled(void **state)
{
    static const uint8_t opcodes[] = {NVME_ADMIN_KEEP_ALIVE, NVME_ADMIN_GET_FEATURES};
    struct stage *s = stage_create(ALL);
    struct line *admin = line_open(s);
    struct wish wish = wish_of(s, 0, NVME_CNTLID_DYNAMIC);
    assert_int_equal(ask(admin, &wish).status, NVME_OK);
    for (unsigned is_enabled = 0; is_enabled < 2; is_enabled++) {
        for (unsigned i = 0; i < 2; i++) {
            uint8_t sqe[NVME_SQE_LEN];
            sqe_fill(admin, sqe, opcodes[i], 0);
            put_le32(sqe + NVME_SQE_OFF_NSID, 0);
            put_le32(sqe + NVME_SQE_OFF_CDW10, NVME_FEATURE_NUMBER_OF_QUEUES);
            line_send(admin, sqe);
            assert_int_equal(line_answer(admin).status,
                             i == 0 || is_enabled ? NVME_OK : NVME_COMMAND_SEQUENCE_ERROR);
        }
        property_set(admin, NVME_PROPERTY_CC, ENABLED);
    }
    line_end(admin);
    stage_destroy(s);
}

static void a_discovery_controller_needs_no_sizes_and_has_no_io_queues(void **state)
{
    struct stage *s = stage_create(ALL);
    struct line *admin = line_open(s), *io = line_open(s);
    struct wish wish = wish_of(s, 0, NVME_CNTLID_DYNAMIC);
    wish.subsystem = NVME_DISCOVERY_NQN;
    struct answer answer = ask(admin, &wish);
    assert_int_equal(answer.status, NVME_OK);
    property_set(admin, NVME_PROPERTY_CC, NVME_CC_EN);
    assert_int_equal(told(admin, NVME_PROPERTY_CSTS), NVME_CSTS_RDY);
    assert_int_equal(log_of_errors(admin).status, NVME_OK);
    wish.qid = 1;
    wish.cntlid = (uint16_t)answer.result;
    answer = ask(io, &wish);
    assert_int_equal(answer.status, NVME_CONNECT_INVALID);
    assert_int_equal(answer.result, NVME_CONNECT_OFF_QID);
    assert_non_null(strstr(s->said, "a discovery controller has no I/O queues"));
    line_end(io);
    line_end(admin);
    stage_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_fault_of_an_admin_queue_has_its_place),
        cmocka_unit_test(the_widest_wishes_are_granted),
        cmocka_unit_test(who_is_refused_is_told_of_by_name),
        cmocka_unit_test(a_volume_that_is_not_ready_may_be_asked_for_again),
        cmocka_unit_test(each_fault_of_an_io_queue_has_its_place),
        cmocka_unit_test(a_queue_of_another_transport_is_not_granted),
        cmocka_unit_test(a_connection_for_one_queue_takes_no_other),
        cmocka_unit_test(what_comes_out_of_turn_is_a_sequence_error),
        cmocka_unit_test(a_property_before_a_connect_is_a_sequence_error),
        cmocka_unit_test(a_second_connect_beside_one_under_way_is_a_sequence_error),
        cmocka_unit_test(who_connects_is_told_to_the_uma),
        cmocka_unit_test(a_connect_that_its_connection_does_not_outlive_is_dropped),
        cmocka_unit_test(a_queue_has_the_flow_control_that_its_host_wishes),
        cmocka_unit_test(the_head_goes_round_the_queue_that_was_asked_for),
        cmocka_unit_test(controllers_end_at_the_nodes_limit),
        cmocka_unit_test(each_property_has_its_value),
        cmocka_unit_test(a_property_that_is_none_or_of_another_length_is_refused),
        cmocka_unit_test(a_controller_is_ready_if_it_can_be_as_it_shall),
        cmocka_unit_test(an_enabled_controller_stays_as_it_is_but_for_its_shutdown),
        cmocka_unit_test(a_reset_ends_what_was_agreed),
        cmocka_unit_test(an_admin_command_waits_for_its_controller_to_be_enabled),
        cmocka_unit_test(a_discovery_controller_needs_no_sizes_and_has_no_io_queues),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
