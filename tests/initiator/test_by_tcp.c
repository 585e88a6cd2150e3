// Queues over TCP as the initiator has them (agent.h, struct initiator_carrier): how each begins,
// which way data go, whose answer is taken first, and what is waited for. The target is the test.

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "format/nvme_tcp_wire.h"
#include "initiator/agent.h"

enum { DEPTH = 4, IO_QUEUES = 2, IN_CAPSULE = 4096, LONG = 8 << 20, PATIENCE_MS = 20000 };

static struct weft_nvme nvme;
static struct initiator_queue io_queues[IO_QUEUES];
static struct initiator_slot slots[1 + IO_QUEUES][DEPTH];
static int listener, targets[1 + IO_QUEUES]; // the other ends, by number
static uint8_t ic_digest;                    // that the last one asked for
static uint8_t memory[LONG];

static const struct initiator_carrier *const by_tcp = &initiator_by_tcp;

/* ---- the target ------------------------------------------------------------------------------ */

static void *target_main(void *ctx)
{
    uint8_t request[NVME_TCP_IC_LEN], reply[NVME_TCP_IC_LEN] = {0};
    int *fd = ctx;
    *fd = accept(listener, NULL, NULL);
    recv(*fd, request, sizeof request, MSG_WAITALL);
    ic_digest = request[NVME_TCP_IC_OFF_DIGEST];
    reply[NVME_TCP_OFF_TYPE] = NVME_TCP_IC_RESP;
    reply[NVME_TCP_OFF_HLEN] = NVME_TCP_IC_LEN;
    put_le32(reply + NVME_TCP_OFF_PLEN, NVME_TCP_IC_LEN);
    put_le32(reply + NVME_TCP_IC_OFF_MAXDATA, 1 << 17);
    send(*fd, reply, sizeof reply, MSG_NOSIGNAL);
    return NULL;
}

static struct initiator_queue *queue_of(unsigned number)
{
    return number == 0 ? &nvme.admin : &io_queues[number - 1];
}

static int meet(unsigned number)
{
    struct why why = {""};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, target_main, &targets[number]), 0);
    int error = by_tcp->meet(queue_of(number), &why);
    pthread_join(thread, NULL);
    return error;
}

static int setup(void **state)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof addr;
    const int small = 4096;
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    if (bind(listener, (struct sockaddr *)&addr, len) != 0 || listen(listener, 4) != 0 ||
        getsockname(listener, (struct sockaddr *)&addr, &len) != 0) {
        return -1;
    }
    nvme = (struct weft_nvme){.attr = {.timeout_ms = PATIENCE_MS},
                              .info = {.in_capsule_len = IN_CAPSULE},
                              .epoll_fd = epoll_create1(EPOLL_CLOEXEC),
                              .queues = io_queues,
                              .queue_count = IO_QUEUES};
    snprintf(nvme.address.host, sizeof nvme.address.host, "127.0.0.1");
    snprintf(nvme.address.port, sizeof nvme.address.port, "%u", ntohs(addr.sin_port));
    memset(slots, 0, sizeof slots);
    for (unsigned i = 0; i <= IO_QUEUES; i++) {
        *queue_of(i) = (struct initiator_queue){
            .nvme = &nvme, .number = (uint16_t)i, .depth = DEPTH, .slots = slots[i]};
        for (unsigned k = 0; k < DEPTH; k++) {
            slots[i][k].queue = queue_of(i);
        }
        targets[i] = -1;
    }
    return by_tcp->open(&nvme, NULL);
}

static int teardown(void **state)
{
    for (unsigned i = 0; i <= IO_QUEUES; i++) {
        by_tcp->end(queue_of(i));
        by_tcp->destroy(queue_of(i));
        if (targets[i] >= 0) {
            close(targets[i]);
        }
    }
    free(nvme.admin_data);
    close(nvme.epoll_fd);
    return close(listener);
}

static void meet_all(void)
{
    for (unsigned i = 0; i <= IO_QUEUES; i++) {
        assert_int_equal(meet(i), 0);
    }
}

/* ---- beginnings ------------------------------------------------------------------------------ */

static void a_queue_has_room_for_its_commands(void **state)
{
    meet_all();
    assert_non_null(nvme.admin_data);
    for (unsigned i = 0; i <= IO_QUEUES; i++) {
        struct initiator_queue *queue = queue_of(i);
        assert_int_equal(queue->limit, DEPTH);
        for (unsigned k = 0; k < DEPTH; k++) {
            memset(initiator_slot_sqe(&slots[i][k]), 0xff, NVME_SQE_LEN);
        }
    }
}

static void digests_are_asked_for_as_the_program_wishes(void **state)
{
    static const struct {
        unsigned flags;
        uint8_t digest;
    } rows[] = {{0, 0},
                {WEFT_NVME_HEADER_DIGEST, NVME_TCP_IC_HDGST},
                {WEFT_NVME_DATA_DIGEST, NVME_TCP_IC_DDGST}};
    for (unsigned i = 0; i < 3; i++) {
        nvme.attr.flags = rows[i].flags;
        assert_int_equal(meet(i), 0);
        assert_int_equal(ic_digest, rows[i].digest);
    }
}

static void a_target_that_is_not_there_is_told(void **state)
{
    struct why why = {""};
    snprintf(nvme.address.port, sizeof nvme.address.port, "1");
    assert_int_equal(by_tcp->meet(&nvme.admin, &why), -ECONNREFUSED);
    assert_true(why_is_said(&why));
}

static void a_queue_that_cannot_be_waited_for_is_told(void **state)
{
    struct why why = {""};
    pthread_t thread;
    close(nvme.epoll_fd);
    nvme.epoll_fd = -1;
    assert_int_equal(pthread_create(&thread, NULL, target_main, &targets[0]), 0);
    assert_int_equal(by_tcp->meet(&nvme.admin, &why), -EBADF);
    pthread_join(thread, NULL);
    assert_true(why_is_said(&why));
}

/* ---- which way data go ----------------------------------------------------------------------- */

static void take_octets(unsigned number, void *octets, size_t len)
{
    assert_int_equal(recv(targets[number], octets, len, MSG_WAITALL), len);
}

// The length of the CapsuleCmd that comes, which is taken whole.
static uint32_t take_capsule(unsigned number)
{
    static uint8_t pdu[LONG + NVME_TCP_CMD_HLEN];
    take_octets(number, pdu, NVME_TCP_COMMON_LEN);
    assert_int_equal(pdu[NVME_TCP_OFF_TYPE], NVME_TCP_CAPSULE_CMD);
    const uint32_t len = get_le32(pdu + NVME_TCP_OFF_PLEN);
    take_octets(number, pdu + NVME_TCP_COMMON_LEN, len - NVME_TCP_COMMON_LEN);
    return len;
}

static void data_go_along_where_they_may(void **state)
{
    static struct weft_nvme_io io;
    static const struct {
        unsigned number;
        uint32_t len;
        bool is_to_target;
        unsigned flags;
        bool goes_along;
    } rows[] = {
        {0, 0, true, 0, false},
        {0, NVME_TCP_IN_CAPSULE_MAX, true, WEFT_NVME_NO_IN_CAPSULE, true},
        {0, NVME_TCP_IN_CAPSULE_MAX + 4, true, 0, false},
        {0, 512, false, 0, false},
        {1, 0, true, 0, false},
        {1, IN_CAPSULE, true, 0, true},
        {1, IN_CAPSULE + 4, true, 0, false},
        {1, IN_CAPSULE, true, WEFT_NVME_NO_IN_CAPSULE, false},
        {1, 512, false, 0, false},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct iovec piece = {memory, rows[i].len};
        const struct initiator_data data = {
            .memory = &piece, .len = rows[i].len, .count = 1, .is_to_target = rows[i].is_to_target};
        meet_all();
        nvme.attr.flags = rows[i].flags;
        struct initiator_slot *slot = &slots[rows[i].number][1];
        slot->io = rows[i].number == 0 ? NULL : &io;
        assert_int_equal(by_tcp->send(slot, &data), 0);
        assert_true(slot->awaits_answer);
        assert_int_equal(take_capsule(rows[i].number),
                         NVME_TCP_CMD_HLEN + (rows[i].goes_along ? rows[i].len : 0));
        assert_int_equal(slot->way,
                         rows[i].goes_along && rows[i].number == 1 ? DATA_IN_CAPSULE : DATA_NONE);
        teardown(NULL);
        setup(NULL);
    }
}

/* ---- answers --------------------------------------------------------------------------------- */

static uint16_t send_nothing(unsigned number, unsigned index)
{
    const struct initiator_data none = {.len = 0};
    struct initiator_slot *slot = &slots[number][index];
    const uint16_t cid = (uint16_t)(index | 1 << CID_INDEX_BITS);
    put_le16(initiator_slot_sqe(slot) + NVME_SQE_OFF_CID, cid);
    assert_int_equal(by_tcp->send(slot, &none), 0);
    take_capsule(number);
    return cid;
}

static void answer(unsigned number, uint16_t cid)
{
    uint8_t pdu[NVME_TCP_RESP_HLEN] = {NVME_TCP_CAPSULE_RESP, 0, NVME_TCP_RESP_HLEN};
    put_le32(pdu + NVME_TCP_OFF_PLEN, NVME_TCP_RESP_HLEN);
    put_le16(pdu + NVME_TCP_OFF_CAPSULE + NVME_CQE_OFF_CID, cid);
    assert_int_equal(send(targets[number], pdu, sizeof pdu, 0), sizeof pdu);
}

static int take(struct initiator_arrival *ret)
{
    struct why why = {""};
    *ret = (struct initiator_arrival){.queue = NULL};
    return by_tcp->take(&nvme, ret, &why);
}

static void await_octets(void)
{
    struct epoll_event event;
    assert_int_equal(epoll_wait(nvme.epoll_fd, &event, 1, PATIENCE_MS), 1);
    assert_true((event.events & EPOLLIN) != 0);
}

static void answers_of_io_come_before_those_of_admin(void **state)
{
    struct initiator_arrival arrival;
    meet_all();
    for (unsigned number = 0; number <= IO_QUEUES; number++) {
        queue_of(number)->taken = 1;
        answer(number, send_nothing(number, number + 1));
        await_octets();
    }
    for (unsigned number = IO_QUEUES + 1; number-- > 0;) {
        assert_int_equal(take(&arrival), 1);
        assert_ptr_equal(arrival.queue, queue_of(number));
        assert_int_equal(get_le16(arrival.cqe + NVME_CQE_OFF_CID) & ((1 << CID_INDEX_BITS) - 1),
                         number + 1);
    }
    assert_int_equal(take(&arrival), 0);
}

// At idle ones the socket is looked at now and then, for its end.
static void idle_queues_are_looked_at_in_every_eighth_poll(void **state)
{
    static const struct {
        unsigned number, taken, polls;
        bool has_events; // an event request is with the controller all the time
        bool is_looked_at;
    } rows[] = {
        {1, 0, 1, false, false}, {1, 0, 8, false, true}, {1, 0, 12, false, false},
        {1, 0, 16, false, true}, {1, 1, 1, false, true}, {1, 1, 1, true, true},
        {0, 1, 1, false, true},  {0, 1, 1, true, false}, {0, 1, 8, true, true},
        {0, 2, 1, true, true},
    };
    struct initiator_arrival arrival;
    meet_all();
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct initiator_queue *queue = queue_of(rows[i].number);
        queue->taken = 1;
        answer(rows[i].number, send_nothing(rows[i].number, 1));
        await_octets();
        queue->taken = rows[i].taken;
        nvme.polls = rows[i].polls;
        nvme.access.has_events = rows[i].has_events;
        assert_int_equal(take(&arrival), rows[i].is_looked_at);
        nvme.polls = 8;
        assert_int_equal(take(&arrival), !rows[i].is_looked_at);
        queue->taken = 0;
    }
}

static void a_target_that_ends_its_side_is_told(void **state)
{
    struct initiator_arrival arrival;
    meet_all();
    io_queues[0].taken = 1;
    shutdown(targets[1], SHUT_WR);
    await_octets();
    assert_true(take(&arrival) < 0);
    assert_ptr_equal(arrival.queue, &io_queues[0]);
}

static void a_queue_that_has_not_met_is_left_out(void **state)
{
    struct initiator_arrival arrival;
    assert_int_equal(meet(0), 0);
    nvme.admin.taken = io_queues[1].taken = 1;
    answer(0, send_nothing(0, 1));
    await_octets();
    assert_int_equal(take(&arrival), 1);
    assert_ptr_equal(arrival.queue, &nvme.admin);
}

/* ---- room ------------------------------------------------------------------------------------ */

static unsigned events_now(void)
{
    struct epoll_event event = {.events = 0};
    return epoll_wait(nvme.epoll_fd, &event, 1, 0) == 1 ? event.events : 0;
}

static void room_is_waited_for_while_the_socket_is_full(void **state)
{
    static struct weft_nvme_io io;
    const struct iovec piece = {memory, LONG};
    const struct initiator_data data = {
        .memory = &piece, .len = LONG, .count = 1, .is_to_target = true};
    struct initiator_arrival arrival;
    uint8_t some[1 << 16];
    size_t left = NVME_TCP_CMD_HLEN + LONG;
    unsigned room_count = 0;
    assert_int_equal(meet(1), 0);
    nvme.info.in_capsule_len = LONG;
    io_queues[0].taken = 1;
    slots[1][0].io = &io;
    assert_int_equal(events_now(), 0); // nothing to be sent
    assert_int_equal(by_tcp->send(&slots[1][0], &data), 0);
    while (left > 0) {
        struct pollfd fds[] = {{.fd = targets[1], .events = POLLIN},
                               {.fd = nvme.epoll_fd, .events = POLLIN}};
        assert_true(poll(fds, 2, PATIENCE_MS) > 0);
        const ssize_t len = recv(targets[1], some, sizeof some, MSG_DONTWAIT);
        left -= len > 0 ? (size_t)len : 0;
        if (fds[1].revents != 0) {
            assert_int_equal(events_now(), EPOLLOUT);
            assert_int_equal(take(&arrival), 0);
            room_count++;
        }
    }
    assert_true(room_count > 0);
    assert_int_equal(events_now(), 0);
}

static void what_is_sent_on_an_ended_queue_is_not_connected(void **state)
{
    const struct initiator_data none = {.len = 0};
    assert_int_equal(meet(1), 0);
    by_tcp->end(&io_queues[0]);
    assert_int_equal(by_tcp->send(&slots[1][0], &none), -ENOTCONN);
    assert_false(slots[1][0].awaits_answer);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(a_queue_has_room_for_its_commands),
        CASE(digests_are_asked_for_as_the_program_wishes),
        CASE(a_target_that_is_not_there_is_told),
        CASE(a_queue_that_cannot_be_waited_for_is_told),
        CASE(data_go_along_where_they_may),
        CASE(answers_of_io_come_before_those_of_admin),
        CASE(idle_queues_are_looked_at_in_every_eighth_poll),
        CASE(a_target_that_ends_its_side_is_told),
        CASE(a_queue_that_has_not_met_is_left_out),
        CASE(room_is_waited_for_while_the_socket_is_full),
        CASE(what_is_sent_on_an_ended_queue_is_not_connected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
