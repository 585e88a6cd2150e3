// Hosts of NVMe/RDMA that stop in the middle. Memory of the pool that waits for their data is not
// theirs for ever: within the patience of the node all of it has moved, or 1 MiB, or the connection
// ends, while the others notice nothing.
#include "tests/node/relay.h"

enum {
    PATIENCE_S = 3,
    QUEUE = 64,
    DATA_LEN = HOST_DATA_LEN,
    PAUSE_US = 400000, // behind each MiB of who is slow
    SLOW_COUNT = 10,   // so that it takes longer than the patience
};

static const char moved_not[] = "its data did not move for too long (patience)";

static struct node node;
static char config[] = "/tmp/weft-patience.XXXXXX";

static int start(void **state)
{
    char option[64];
    int fd = mkstemp(config);
    dprintf(fd, "[node]\npatience = %ds\n", PATIENCE_S);
    close(fd);
    snprintf(option, sizeof option, "--config=%s", config);
    node_start_with(&node, "ram:64M", option);
    return 0;
}

static int stop(void **state)
{
    node_stop(&node);
    unlink(config);
    return 0;
}

static unsigned count_of(const char *text, const char *word)
{
    unsigned count = 0;
    for (const char *at = text; (at = strstr(at, word)) != NULL; at++) {
        count++;
    }
    return count;
}

// A session whose I/O queue comes by the relay.
struct far_session {
    struct relay relay;
    struct host admin, io;
};

static void far_begin(struct far_session *far)
{
    struct host_request request = host_request(0, 32);
    relay_start(&far->relay, &node);
    assert_int_equal(host_meet(&far->admin, node.port, &request), 0);
    uint16_t cntlid = host_connect(&far->admin, node.name, 0, 31, NVME_CNTLID_DYNAMIC);
    host_enable(&far->admin);
    request = host_request(1, QUEUE);
    assert_int_equal(host_meet(&far->io, far->relay.port, &request), 0);
    host_connect(&far->io, node.name, 1, QUEUE - 1, cntlid);
}

static void far_end(struct far_session *far)
{
    relay_stop(&far->relay);
    host_leave(&far->io);
    host_leave(&far->admin);
}

static void ask(struct host *host, uint8_t opcode, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        host_io(host, opcode, 0, DATA_LEN);
        host_send(host, NVME_SQE_LEN);
    }
}

static void expect_lost(struct host *host)
{
    while (host_wait(host)) {
    }
}

// One does not let its memory be read, one does not take what it asked for, one does not say who
// it is. A fourth is slow: something of it is under way all the time, for longer than the node's
// patience, but 1 MiB moves in a fraction of that.
static void who_stops_in_the_middle_is_ended_and_who_is_slow_is_not(void **state)
{
    static struct far_session writer, reader, slow;
    static struct relay relay;
    static struct host stranger;
    uint8_t cqe[NVME_CQE_LEN];
    struct host_request request = host_request(0, 32);
    far_begin(&writer);
    far_begin(&reader);
    far_begin(&slow);
    relay_start(&relay, &node);
    assert_int_equal(host_meet(&stranger, relay.port, &request), 0);
    writer.relay.holds = reader.relay.holds = relay.holds = true;
    slow.relay.pause_us = PAUSE_US;
    ask(&writer.io, NVME_IO_WRITE, 1);
    ask(&reader.io, NVME_IO_READ, QUEUE / 2);
    host_connect_fill(&stranger, node.name, 0, 31, NVME_CNTLID_DYNAMIC);
    host_send(&stranger, NVME_SQE_LEN);
    ask(&slow.io, NVME_IO_WRITE, SLOW_COUNT);
    for (unsigned i = 0; i < SLOW_COUNT; i++) {
        assert_true(host_answer(&slow.io, cqe));
        assert_int_equal(cqe_status(cqe), NVME_OK);
    }
    node_await(&node, "stalled", 3);
    node_await(&node, "pool_taken", 0);
    assert_int_equal(count_of(node_said(&node), moved_not), 3);
    writer.relay.holds = reader.relay.holds = relay.holds = false;
    expect_lost(&writer.io);
    expect_lost(&reader.io);
    expect_lost(&stranger);
    host_io(&slow.io, NVME_IO_READ, 0, 512);
    assert_int_equal(host_run(&slow.io, NVME_SQE_LEN, NULL), NVME_OK);
    relay_stop(&relay);
    host_leave(&stranger);
    far_end(&writer);
    far_end(&reader);
    far_end(&slow);
    node_await(&node, "connections", 0);
    assert_int_equal(node_number(&node, "stalled"), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_stops_in_the_middle_is_ended_and_who_is_slow_is_not),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
