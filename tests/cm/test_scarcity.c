// Two ids are made, connected, used and taken down, and the Nth allocation of the program's thread
// fails, or the process may have no more than N descriptors, for every N: the call that could not
// be done says ENOMEM, or EMFILE, or an event says what became of the connection; nothing is left
// behind, and the next connection is as any other.
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/cm/loopback.h"
#include "tests/interposed_memory.h"

// Until all is kept that is kept of what has ended: streams (link/rest.h), channels (cm/channel.c).
enum { WARM_LIVES = 300 };
enum { ALLOCATIONS_MAX = 1000, DESCRIPTORS_MAX = 200, MESSAGE_LEN = 64 };
enum { EVENT_MS = 10000, NO_EVENT_MS = 100 };

static struct life {
    struct end listener, active;
    struct rdma_cm_id *passive;
    struct ibv_mr *active_mr, *passive_mr;
    char memory[2][MESSAGE_LEN];
    int error;          // what is lacking
    bool asks;          // and has heard nothing yet
    const char *failed; // which step
    bool was_refused;   // an allocation was, whoever made it
} life;

// Takes the next event and says whether it is of this type. Another is that the connection failed.
static int event_next(struct end *end, enum rdma_cm_event_type type)
{
    struct pollfd readable = {.fd = end->channel->fd, .events = POLLIN};
    struct rdma_cm_event *event;
    if (poll(&readable, 1, life.error == EMFILE ? NO_EVENT_MS : EVENT_MS) == 0) {
        assert_int_equal(life.error, EMFILE); // of a thread that may find some later
        errno = EMFILE;
        return -1;
    }
    if (rdma_get_cm_event(end->channel, &event) != 0) {
        // As rdma-core: a request for which there is no id is passed by, and the next waited for.
        errno = errno == EAGAIN && type == RDMA_CM_EVENT_CONNECT_REQUEST ? life.error : errno;
        return -1;
    }
    const bool is_it = event->event == type;
    if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
        life.passive = event->id;
    }
    rdma_ack_cm_event(event);
    errno = is_it ? 0 : life.error;
    return is_it ? 0 : -1;
}

static int event_of_active(enum rdma_cm_event_type type)
{
    life.asks = false;
    return event_next(&life.active, type);
}

/* ---- the steps ------------------------------------------------------------------------------- */

static int channel_step(struct end *end)
{
    end->channel = rdma_create_event_channel();
    return end->channel != NULL ? fcntl(end->channel->fd, F_SETFL, O_NONBLOCK) : -1;
}

static int listener_channel(void)
{
    return channel_step(&life.listener);
}

static int listener_id(void)
{
    return rdma_create_id(life.listener.channel, &life.listener.id, NULL, RDMA_PS_TCP);
}

static int bind_listener(void)
{
    struct sockaddr_in addr = loopback_addr(0);
    return rdma_bind_addr(life.listener.id, (struct sockaddr *)&addr);
}

static int listen_there(void)
{
    return rdma_listen(life.listener.id, 1);
}

static int active_channel(void)
{
    return channel_step(&life.active);
}

static int active_id(void)
{
    return rdma_create_id(life.active.channel, &life.active.id, NULL, RDMA_PS_TCP);
}

static int resolve_addr(void)
{
    struct sockaddr_in addr = loopback_addr(rdma_get_src_port(life.listener.id));
    return rdma_resolve_addr(life.active.id, NULL, (struct sockaddr *)&addr, EVENT_MS) != 0
               ? -1
               : event_of_active(RDMA_CM_EVENT_ADDR_RESOLVED);
}

static int resolve_route(void)
{
    return rdma_resolve_route(life.active.id, EVENT_MS) != 0
               ? -1
               : event_of_active(RDMA_CM_EVENT_ROUTE_RESOLVED);
}

static int qp_step(struct rdma_cm_id *id)
{
    struct ibv_qp_init_attr attr = {
        .qp_type = IBV_QPT_RC,
        .sq_sig_all = 1,
        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
    };
    return rdma_create_qp(id, NULL, &attr);
}

static int active_qp(void)
{
    return qp_step(life.active.id);
}

static int active_memory(void)
{
    life.active_mr = rdma_reg_msgs(life.active.id, life.memory[0], MESSAGE_LEN);
    return life.active_mr != NULL ? 0 : -1;
}

static int connect_active(void)
{
    const int result = rdma_connect(life.active.id, NULL);
    life.asks = result == 0;
    return result;
}

static int request_arrives(void)
{
    return event_next(&life.listener, RDMA_CM_EVENT_CONNECT_REQUEST);
}

static int passive_qp(void)
{
    return qp_step(life.passive);
}

static int passive_memory(void)
{
    life.passive_mr = rdma_reg_msgs(life.passive, life.memory[1], MESSAGE_LEN);
    return life.passive_mr != NULL ? 0 : -1;
}

static int post_receive(void)
{
    return rdma_post_recv(life.passive, NULL, life.memory[1], MESSAGE_LEN, life.passive_mr);
}

static int accept_passive(void)
{
    return rdma_accept(life.passive, NULL);
}

static int active_established(void)
{
    return event_of_active(RDMA_CM_EVENT_ESTABLISHED);
}

static int passive_established(void)
{
    return event_next(&life.listener, RDMA_CM_EVENT_ESTABLISHED);
}

static int post_send(void)
{
    return rdma_post_send(life.active.id, NULL, life.memory[0], MESSAGE_LEN, life.active_mr, 0);
}

static int completion_of(struct ibv_cq *cq)
{
    struct ibv_wc wc;
    int count;
    while ((count = ibv_poll_cq(cq, 1, &wc)) == 0) {
    }
    errno = life.error;
    return count == 1 && wc.status == IBV_WC_SUCCESS ? 0 : -1;
}

static int send_completes(void)
{
    return completion_of(life.active.id->send_cq);
}

static int receive_completes(void)
{
    return completion_of(life.passive->recv_cq);
}

static int disconnect_active(void)
{
    return rdma_disconnect(life.active.id);
}

static int both_disconnected(void)
{
    return event_of_active(RDMA_CM_EVENT_DISCONNECTED) != 0
               ? -1
               : event_next(&life.listener, RDMA_CM_EVENT_DISCONNECTED);
}

static const struct step {
    const char *name;
    int (*take)(void);
} steps[] = {
    {"channel of the listener", listener_channel},
    {"id of the listener", listener_id},
    {"bind", bind_listener},
    {"listen", listen_there},
    {"channel of the active end", active_channel},
    {"id of the active end", active_id},
    {"address", resolve_addr},
    {"route", resolve_route},
    {"queue pair of the active end", active_qp},
    {"memory of the active end", active_memory},
    {"connect", connect_active},
    {"request", request_arrives},
    {"queue pair of the passive end", passive_qp},
    {"memory of the passive end", passive_memory},
    {"receive", post_receive},
    {"accept", accept_passive},
    {"active end established", active_established},
    {"passive end established", passive_established},
    {"Send", post_send},
    {"completion of the Send", send_completes},
    {"completion of the receive", receive_completes},
    {"disconnect", disconnect_active},
    {"disconnected", both_disconnected},
};

/* ---- lives ----------------------------------------------------------------------------------- */

static void mr_end(struct ibv_mr *mr)
{
    if (mr != NULL) {
        assert_int_equal(rdma_dereg_mr(mr), 0);
    }
}

static void life_end(void)
{
    struct end passive = {.id = life.passive};
    mr_end(life.active_mr);
    mr_end(life.passive_mr);
    end_close(&passive);
    if (life.asks) { // whom the other end let down is told so
        event_of_active(RDMA_CM_EVENT_REJECTED);
    }
    end_close(&life.active);
    end_close(&life.listener);
}

static void live_on(void)
{
    for (const struct step *s = steps; s < steps + sizeof steps / sizeof *steps; s++) {
        errno = 0;
        if (s->take() != 0) {
            life.failed = s->name;
            break;
        }
    }
}

// Whether it came to its end; `count`: of what is lacking, for a failure to be told of.
static bool life_is_whole(int error, unsigned count)
{
    if (life.failed != NULL && error != life.error) {
        fail_msg("%s, %u: %s: %s", strerror(life.error), count, life.failed, strerror(error));
    }
    life_end();
    return life.failed == NULL;
}

static bool live(uint64_t fails_at)
{
    life = (struct life){.error = ENOMEM};
    memory_fail_at(fails_at);
    live_on();
    const int error = errno;
    life.was_refused = memory_has_failed();
    memory_fail_at(0);
    return life_is_whole(error, (unsigned)fails_at);
}

static bool live_with_descriptors(unsigned count)
{
    struct rlimit all, few;
    life = (struct life){.error = EMFILE};
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &all), 0);
    few = (struct rlimit){.rlim_cur = count, .rlim_max = all.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    live_on();
    const int error = errno;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &all), 0);
    return life_is_whole(error, count);
}

// What the device's thread gives back comes a moment later.
static void expect_blocks(int64_t count, uint64_t fails_at)
{
    for (unsigned i = 0; i < 2000 && memory_blocks != count; i++) {
        usleep(1000);
    }
    if (memory_blocks != count) {
        fail_msg("allocation %u: %s: %d blocks more", (unsigned)fails_at,
                 life.failed != NULL ? life.failed : "all was done", (int)(memory_blocks - count));
    }
}

static int warm_up(void **state)
{
    for (unsigned i = 0; i < WARM_LIVES; i++) {
        assert_true(live(0));
    }
    return 0;
}

static void who_gets_no_memory_says_so_and_keeps_none(void **state)
{
    const int64_t blocks = memory_blocks;
    uint64_t call = 0;
    unsigned failures = 0;
    do {
        failures += !live(++call);
        expect_blocks(blocks, call);
    } while (life.was_refused && call < ALLOCATIONS_MAX);
    assert_false(life.was_refused);
    assert_true(failures > sizeof steps / sizeof *steps / 2);
    assert_true(live(0));
}

static unsigned descriptors(void)
{
    unsigned count = 0;
    for (int fd = 0; fd < DESCRIPTORS_MAX; fd++) {
        count += fcntl(fd, F_GETFD) >= 0;
    }
    return count;
}

static void expect_descriptors(unsigned before, unsigned count)
{
    for (unsigned i = 0; i < 2000 && descriptors() != before; i++) {
        usleep(1000);
    }
    if (descriptors() != before) {
        fail_msg("%u descriptors: %s: %d more", count,
                 life.failed != NULL ? life.failed : "all was done", (int)(descriptors() - before));
    }
}

static void who_gets_no_descriptor_says_so_and_keeps_none(void **state)
{
    const unsigned before = descriptors();
    unsigned count = 0, failures = 0;
    while (!live_with_descriptors(count) && count < DESCRIPTORS_MAX) {
        failures++;
        expect_descriptors(before, count++);
    }
    assert_true(count < DESCRIPTORS_MAX);
    assert_true(failures > before);
    assert_true(live(0));
    expect_descriptors(before, count);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        setenv("WEFT_WIRE", argv[1], 1); // else listeners listen on both
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_gets_no_memory_says_so_and_keeps_none),
        cmocka_unit_test(who_gets_no_descriptor_says_so_and_keeps_none),
    };
    return cmocka_run_group_tests(tests, warm_up, NULL);
}
