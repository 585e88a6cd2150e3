// Devices whose queue pairs are carried by packets, over a net on virtual time.
#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "link/datagram/sim.h"
#include "link/datagram/slot.h"
#include "rnic/internal.h"
#include "rnic/packet/packet.h"
#include "rnic/post.h"
#include "rnic/stat.h"
#include "roce/address.h"
#include "tests/rnic/json.h"
#include "tests/rnic/packet_world.h"
#include "wire/bth.h"
#include "wire/grh.h"
#include "wire/roce.h"
#include "wq/status.h"

enum { DEPTH = 32, MTU = WORLD_MTU, QKEY = WORLD_QKEY, BUF_LEN = 64 * 1024 };

/* ---- posting --------------------------------------------------------------------------------- */

static struct roce_address address_to(unsigned i, uint32_t to_qp_num)
{
    return (struct roce_address){.path = {.local = world_addr(i), .remote = world_addr(1 - i)},
                                 .qpn = to_qp_num,
                                 .qkey = QKEY};
}

static void post_datagram(unsigned i, uint32_t to_qp_num, uint32_t offset, uint32_t len)
{
    struct rnic_sq_cursor cursor;
    struct send_wqe *wqe = world_slot(&cursor, i, WQE_SEND, offset, len);
    *rnic_sq_address(cursor.qp, wqe) = address_to(i, to_qp_num);
    rnic_sq_commit(&cursor);
    rnic_sq_end(&cursor);
}

/* ---- datagrams ------------------------------------------------------------------------------- */

static const struct datagram_net_config clean = {0};

static void a_datagram_arrives_and_says_from_whom(void **state)
{
    world_open_pair(RNIC_QP_UD, &clean);
    world_fill(w.devices[0].buf, 100);
    world_post_recv(1, 0, GRH_LEN + MTU);
    post_datagram(0, w.qps[1]->qp_num, 0, 100);
    assert_int_equal(world_completion(0).status, WC_SUCCESS);
    const struct cqe received = world_completion(1);
    assert_int_equal(received.status, WC_SUCCESS);
    assert_int_equal(received.byte_len, GRH_LEN + 100);
    assert_int_equal(received.src_qp, w.qps[0]->qp_num);
    assert_memory_equal(w.devices[1].buf + GRH_LEN, w.devices[0].buf, 100);
    world_close();
}

/* ---- who polls ------------------------------------------------------------------------------- */

// So many looks in vain make a program that spins.
static void spin(struct rnic_cq *cq)
{
    struct cqe cqe;
    for (unsigned i = 0; i < 64; i++) {
        assert_int_equal(rnic_cq_poll(cq, &cqe, 1), 0);
    }
}

// What is in its queue, one at a look.
static void find_one_after(duration_ns pause_ns)
{
    struct cqe cqe;
    w.now += pause_ns;
    assert_int_equal(rnic_cq_poll(w.devices[0].cq, &cqe, 1), 1);
}

// A device's thread stands back as long as it was polled lately. Each look of a program that finds
// something counts, but by those alone nothing moves.
static void who_spins_polls_on_by_what_it_finds_until_it_has_moved_nothing_for_long(void **state)
{
    world_open_pair(RNIC_QP_UD, &clean);
    const struct shard *shard = &w.devices[0].rnic->shard;
    spin(w.devices[0].cq);
    assert_true(shard->is_polled);
    const instant_ns spun_ns = w.now;
    for (unsigned i = 0; i < 3; i++) {
        post_datagram(0, w.qps[1]->qp_num, 0, 100);
    }
    find_one_after(90 * NS_PER_US);
    find_one_after(400 * NS_PER_US);
    assert_int_equal(shard->polled_at_ns, w.now);
    find_one_after(20 * NS_PER_US);
    assert_int_equal(shard->polled_at_ns, spun_ns + 490 * NS_PER_US);
    world_run();
    spin(w.devices[0].cq);
    assert_int_equal(shard->polled_at_ns, w.now);
    world_close();
}

static void who_only_finds_something_does_not_spin(void **state)
{
    world_open_pair(RNIC_QP_UD, &clean);
    for (unsigned i = 0; i < WORLD_QUEUE_LEN; i++) {
        post_datagram(0, w.qps[1]->qp_num, 0, 100);
    }
    for (unsigned i = 0; i < WORLD_QUEUE_LEN; i++) {
        find_one_after(0);
    }
    assert_false(w.devices[0].rnic->shard.is_polled);
    world_close();
}

// Posted while another has the lock, who has not looked at the doorbells yet.
static void a_completion_queue_is_not_made_too_small_for_what_is_posted(void **state)
{
    enum { POSTED = 3 };
    world_open_pair(RNIC_QP_UD, &clean);
    struct shard *shard = &w.devices[0].rnic->shard;
    shard_lock(shard);
    for (unsigned i = 0; i < POSTED; i++) {
        post_datagram(0, w.qps[1]->qp_num, 0, 100);
    }
    shard_let_go(shard);
    assert_int_equal(rnic_cq_resize(w.devices[0].cq, 1), -EINVAL);
    for (unsigned i = 0; i < POSTED; i++) {
        assert_int_equal(world_completion(0).status, WC_SUCCESS);
    }
    assert_int_equal(rnic_cq_resize(w.devices[0].cq, 1), 0);
    world_close();
}

// As above. What comes while that is made ready and sent is found by the same look.
static void what_is_posted_leaves_before_a_look_takes_what_has_come(void **state)
{
    struct cqe cqes[2];
    world_open_pair(RNIC_QP_UD, &clean);
    struct shard *shard = &w.devices[0].rnic->shard;
    world_post_recv(0, 0, GRH_LEN + MTU);
    post_datagram(1, w.qps[0]->qp_num, 0, 100);
    assert_true(datagram_net_advance(w.net));
    shard_lock(shard);
    post_datagram(0, w.qps[1]->qp_num, 0, 100);
    shard_let_go(shard);
    assert_int_equal(rnic_cq_poll(w.devices[0].cq, cqes, 2), 2);
    assert_int_equal(cqes[0].opcode, WC_SEND);
    assert_int_equal(cqes[1].opcode, WC_RECV);
    world_close();
}

static void a_datagram_to_a_number_that_nobody_has_is_counted(void **state)
{
    world_open_pair(RNIC_QP_UD, &clean);
    post_datagram(0, w.qps[1]->qp_num ^ 1, 0, 100);
    assert_int_equal(world_completion(0).status, WC_SUCCESS);
    world_run();
    assert_int_equal(device_count(&w.devices[1], "unknown_qp"), 1);
    world_close();
}

static void a_packet_shorter_than_its_first_header_is_counted_and_dropped(void **state)
{
    const struct datagram_path path = {.local = world_addr(0), .remote = world_addr(1)};
    uint8_t head[BTH_LEN];
    world_open_pair(RNIC_QP_UD, &clean);
    struct datagram_link *link = w.devices[0].rnic->shard.packets.link;
    bth_emit(&(struct bth){.pkey = BTH_PKEY_DEFAULT, .dest_qp = w.qps[1]->qp_num ^ 1}, head);
    for (unsigned missing = 0; missing < 2; missing++) {
        const struct datagram_tx tx = {.path = &path, .head = span_of(head, BTH_LEN - missing)};
        assert_true(link->ops->put(link, &tx));
        assert_true(link->ops->flush(link));
        world_run();
        assert_int_equal(device_count(&w.devices[1], "received"), 1 + missing);
        assert_int_equal(device_count(&w.devices[1], "too_short"), missing);
        assert_int_equal(device_count(&w.devices[1], "unknown_qp"), 1);
    }
    world_close();
}

static void numbers_are_those_that_the_link_has(void **state)
{
    struct rnic_qp *qps[DEPTH];
    world_open(&clean);
    for (unsigned i = 0; i < DEPTH; i++) {
        const struct datagram_link *link = w.devices[0].rnic->shard.packets.link;
        qps[i] = world_qp(&w.devices[0], RNIC_QP_UD);
        assert_in_range(qps[i]->qp_num, link->qp_num_first,
                        link->qp_num_first + link->qp_num_count - 1);
        assert_ptr_equal(rnic_qp_find(w.devices[0].rnic, qps[i]->qp_num), qps[i]);
    }
    for (unsigned i = 0; i < DEPTH; i++) {
        rnic_qp_destroy(qps[i]);
    }
    device_close(&w.devices[0]);
    device_close(&w.devices[1]);
    datagram_net_destroy(w.net);
}

static void more_than_the_link_takes_at_a_time_leaves_when_there_is_room(void **state)
{
    const struct datagram_net_config narrow = {.send_rate = 10 * 1000 * 1000,
                                               .send_buffer_len = 4 * 1200};
    world_open_pair(RNIC_QP_UD, &narrow);
    for (uint32_t i = 0; i < DEPTH; i++) {
        world_post_recv(1, i * 1200, GRH_LEN + MTU);
        post_datagram(0, w.qps[1]->qp_num, i * 1024, MTU);
    }
    for (unsigned i = 0; i < DEPTH; i++) {
        assert_int_equal(world_completion(1).byte_len, GRH_LEN + MTU);
    }
    world_run();
    assert_true(device_count(&w.devices[0], "room_waits") > 0);
    world_close();
}

// More than a queue pair puts before others have their turn, by one doorbell: nothing else happens
// that could make it go on.
static void who_has_had_a_turn_goes_on_in_the_next_pass(void **state)
{
    enum { COUNT = 100, LEN = 8 };
    struct rnic_sq_cursor cursor;
    world_open_pair(RNIC_QP_UD, &clean);
    for (unsigned i = 0; i < COUNT; i++) {
        world_post_recv(1, 0, GRH_LEN + LEN);
    }
    rnic_sq_begin(&cursor, w.qps[0]);
    for (unsigned i = 0; i < COUNT; i++) {
        struct send_wqe *wqe = rnic_sq_slot(&cursor);
        assert_non_null(wqe);
        wqe->opcode = WQE_SEND;
        wqe->flags = WQE_INLINE;
        wqe->length = 0;
        *rnic_sq_address(cursor.qp, wqe) = address_to(0, w.qps[1]->qp_num);
    }
    rnic_sq_commit(&cursor);
    rnic_sq_end(&cursor);
    for (unsigned i = 0; i < COUNT; i++) {
        assert_int_equal(world_completion(1).byte_len, GRH_LEN);
    }
    world_close();
}

static bool is_anything_on_its_way(void)
{
    return datagram_net_next_event(w.net) != INSTANT_NEVER;
}

// Where a thread is awake, which a simulation only says.
static void an_acknowledgement_waits_for_the_next_pass(void **state)
{
    struct shard *shard = NULL;
    struct cqe cqe;
    world_open_pair(RNIC_QP_RC, &clean);
    shard = &w.devices[1].rnic->shard;
    world_post_recv(1, 0, 100);
    world_post(0, WQE_SEND, 0, 100, 0);
    while (rnic_step(w.devices[0].rnic) || world_pass_time()) {
        if (datagram_net_advance(w.net)) {
            break;
        }
    }
    shard->has_thread = true;
    assert_true(rnic_step(w.devices[1].rnic));
    assert_int_equal(rnic_cq_poll(w.devices[1].cq, &cqe, 1), 1);
    assert_false(is_anything_on_its_way());
    rnic_step(w.devices[1].rnic);
    assert_true(is_anything_on_its_way());
    shard->has_thread = false;
    assert_int_equal(world_completion(0).status, WC_SUCCESS);
    world_close();
}

// Until what is on its way is there, without anybody's looking at it.
static void let_arrive(void)
{
    while (is_anything_on_its_way()) {
        assert_true(world_pass_time());
        datagram_net_advance(w.net);
    }
}

// The acknowledgement leaves behind the answer that was posted meanwhile; to the program of the
// other end its own Send is done all the same before it sees what answers it.
static void what_was_sent_is_done_before_what_answers_it_is_seen(void **state)
{
    struct shard *shard = NULL;
    struct cqe cqes[2];
    world_open_pair(RNIC_QP_RC, &clean);
    shard = &w.devices[1].rnic->shard;
    world_post_recv(0, 1000, 100);
    world_post_recv(1, 0, 100);
    world_post(0, WQE_SEND, 0, 100, 0);
    rnic_step(w.devices[0].rnic);
    let_arrive();
    shard->has_thread = true; // and awake
    assert_true(rnic_step(w.devices[1].rnic));
    assert_false(is_anything_on_its_way());
    world_post(1, WQE_SEND, 0, 100, 0);
    rnic_step(w.devices[1].rnic);
    shard->has_thread = false;
    let_arrive();
    rnic_step(w.devices[0].rnic);
    assert_int_equal(rnic_cq_poll(w.devices[0].cq, cqes, 2), 2);
    assert_int_equal(cqes[0].opcode, WC_SEND);
    assert_int_equal(cqes[1].opcode, WC_RECV);
    world_close();
}

static void put_acknowledgement(struct packet_side *p, uint32_t qp_num, uint32_t psn)
{
    const struct datagram_path path = {.local = world_addr(1), .remote = world_addr(0)};
    const struct bth bth = {.opcode = ROCE_RC | ROCE_ACKNOWLEDGE, .dest_qp = qp_num, .psn = psn};
    uint8_t head[ROCE_HEAD_MAX_LEN];
    const struct datagram_tx tx = {
        .path = &path, .head = span_of(head, bth_emit(&bth, head)), .may_wait = true};
    assert_true(packet_put(p, &tx));
}

static void put_of_manager(struct packet_side *p)
{
    const struct datagram_path path = {.local = world_addr(1), .remote = world_addr(0)};
    const struct bth bth = {.opcode = ROCE_UD | ROCE_SEND_ONLY, .dest_qp = BTH_QP_GSI};
    uint8_t head[ROCE_HEAD_MAX_LEN];
    const struct datagram_tx tx = {.path = &path, .head = span_of(head, bth_emit(&bth, head))};
    assert_true(packet_put(p, &tx));
}

// A program that has what it waited for disconnects: the other's Send is done by then.
static void the_managers_messages_do_not_overtake_an_acknowledgement_that_waits(void **state)
{
    struct datagram_rx rx[3];
    world_open_pair(RNIC_QP_RC, &clean);
    struct packet_side *p = &w.devices[1].rnic->shard.packets;
    p->is_holding = true;
    put_acknowledgement(p, w.qps[0]->qp_num, 7);
    assert_int_equal(p->held_count, 1);
    put_of_manager(p);
    assert_true(p->link->ops->flush(p->link));
    let_arrive();
    struct datagram_link *other = w.devices[0].rnic->shard.packets.link;
    assert_int_equal(datagram_receive(other, rx, 3, rnic_now(w.devices[0].rnic)), 2);
    assert_int_equal(datagram_dest_qp(rx[0].octets), w.qps[0]->qp_num);
    assert_int_equal(datagram_dest_qp(rx[1].octets), BTH_QP_GSI);
    world_close();
}

static void expect_held(const struct packet_held *held, uint32_t qp_num, uint32_t psn)
{
    struct bth bth;
    assert_int_equal(bth_parse(span_of(held->head, held->head_len), &bth), ROCE_PARSE_OK);
    assert_int_equal(bth.dest_qp, qp_num);
    assert_int_equal(bth.psn, psn);
}

// It says all that the earlier one would; sent behind it the earlier one would be the older of two.
static void of_acknowledgements_that_wait_the_last_for_each_queue_pair_leaves(void **state)
{
    world_open_pair(RNIC_QP_RC, &clean);
    struct packet_side *p = &w.devices[1].rnic->shard.packets;
    p->is_holding = true;
    put_acknowledgement(p, 7, 5);
    put_acknowledgement(p, 8, 6);
    put_acknowledgement(p, 7, 9);
    assert_int_equal(p->held_count, 2);
    expect_held(&p->held[0], 7, 9);
    expect_held(&p->held[1], 8, 6);
    p->is_holding = false;
    put_acknowledgement(p, 7, 12); // nothing overtakes it
    assert_int_equal(p->held_count, 2);
    expect_held(&p->held[0], 7, 12);
    world_close();
}

// A process that exits waits for it, within its limits.
static void what_is_posted_is_unsent_until_it_is_complete(void **state)
{
    world_open_pair(RNIC_QP_RC, &clean);
    world_post(0, WQE_RDMA_WRITE, 0, 100, 0);
    while (rnic_step(w.devices[0].rnic)) {
    }
    assert_true(rnic_has_output(w.devices[0].rnic)); // it is on its way
    assert_int_equal(world_completion(0).status, WC_SUCCESS);
    assert_false(rnic_has_output(w.devices[0].rnic));
    world_close();
}

static void a_device_goes_with_packets_on_their_way_to_it(void **state)
{
    world_open_pair(RNIC_QP_UD, &clean);
    world_post_recv(1, 0, GRH_LEN + MTU);
    post_datagram(0, w.qps[1]->qp_num, 0, 100);
    rnic_qp_destroy(w.qps[1]);
    device_close(&w.devices[1]);
    w.is_one_gone = true;
    assert_int_equal(world_completion(0).status, WC_SUCCESS);
    world_run();
    world_close();
}

static struct in6_addr group_of(uint8_t last)
{
    return (struct in6_addr){
        .s6_addr = {[10] = 0xff, [11] = 0xff, [12] = 239, [13] = 1, [15] = last}};
}

static void post_to_group(unsigned i, uint8_t last, uint32_t offset, uint32_t len)
{
    struct rnic_sq_cursor cursor;
    struct send_wqe *wqe = world_slot(&cursor, i, WQE_SEND, offset, len);
    *rnic_sq_address(cursor.qp, wqe) =
        (struct roce_address){.path = {.local = world_addr(i), .remote = group_of(last)},
                              .qpn = ROCE_QPN_MULTICAST,
                              .qkey = QKEY};
    rnic_sq_commit(&cursor);
    rnic_sq_end(&cursor);
}

static void a_group_reaches_who_is_attached_as_long_as_it_is(void **state)
{
    const struct in6_addr group = group_of(1), not_one = world_addr(1);
    world_open_pair(RNIC_QP_UD, &clean);
    assert_int_equal(rnic_qp_attach(w.qps[1], &not_one), -EINVAL);
    assert_int_equal(rnic_qp_attach(w.qps[1], &group), 0);
    assert_int_equal(rnic_qp_attach(w.qps[1], &group), -EALREADY);
    world_post_recv(1, 0, GRH_LEN + MTU);
    world_post_recv(1, 8192, GRH_LEN + MTU);
    post_to_group(0, 2, 0, 90);
    post_to_group(0, 1, 0, 100);
    assert_int_equal(world_completion(1).byte_len, GRH_LEN + 100);
    assert_int_equal(rnic_qp_detach(w.qps[1], &group), 0);
    assert_int_equal(rnic_qp_detach(w.qps[1], &group), -EINVAL);
    post_to_group(0, 1, 0, 110);
    post_datagram(0, w.qps[1]->qp_num, 0, 120);
    assert_int_equal(world_completion(1).byte_len, GRH_LEN + 120);
    world_close();
}

static void a_queue_pair_that_goes_leaves_its_groups(void **state)
{
    const struct in6_addr group = group_of(1);
    world_open_pair(RNIC_QP_UD, &clean);
    struct rnic_qp *other = world_qp(&w.devices[1], RNIC_QP_UD);
    assert_int_equal(rnic_qp_attach(w.qps[1], &group), 0);
    assert_int_equal(rnic_qp_attach(other, &group), 0);
    rnic_qp_destroy(other);
    world_post_recv(1, 0, GRH_LEN + MTU);
    post_to_group(0, 1, 0, 100);
    assert_int_equal(world_completion(1).byte_len, GRH_LEN + 100);
    assert_int_equal(rnic_qp_detach(w.qps[1], &group), 0);
    world_close();
}

/* ---- what it tells of itself ----------------------------------------------------------------- */

static void what_a_device_tells_is_json_whatever_carries_its_queue_pairs(void **state)
{
    static const enum rnic_qp_type types[] = {RNIC_QP_RC, RNIC_QP_UC, RNIC_QP_UD};
    for (unsigned i = 0; i < sizeof types / sizeof types[0]; i++) {
        char text[1 << 14] = "";
        world_open_pair(types[i], &clean);
        FILE *out = fmemopen(text, sizeof text, "w");
        assert_non_null(out);
        stat_write(w.devices[0].rnic, out);
        fclose(out);
        json_expect(text);
        const bool has_peer = strstr(text, "\"peer\":\"") != NULL;
        assert_int_equal(has_peer, types[i] == RNIC_QP_RC); // the others do not keep it
        world_close();
    }
}

/* ---- reliable connections -------------------------------------------------------------------- */

static void a_send_of_many_packets_arrives_whole(void **state)
{
    world_open_pair(RNIC_QP_RC, &clean);
    world_fill(w.devices[0].buf, 20000);
    world_post_recv(1, 0, 20000);
    world_post(0, WQE_SEND, 0, 20000, 0);
    const struct cqe received = world_completion(1);
    assert_int_equal(received.status, WC_SUCCESS);
    assert_int_equal(received.byte_len, 20000);
    assert_int_equal(world_completion(0).status, WC_SUCCESS);
    assert_memory_equal(w.devices[1].buf, w.devices[0].buf, 20000);
    world_close();
}

// Each is told that its packets are over, also where another's follow: nobody waits for a time-out.
static void packets_of_two_queue_pairs_come_together(void **state)
{
    world_open_pair(RNIC_QP_RC, &clean);
    struct rnic_qp *const first[2] = {w.qps[0], w.qps[1]};
    world_fill(w.devices[0].buf, 100);
    world_post(0, WQE_RDMA_WRITE, 0, 100, 0);
    world_make_pair(RNIC_QP_RC);
    world_post(0, WQE_RDMA_WRITE, 0, 100, 1000);
    const instant_ns posted_ns = w.now;
    assert_int_equal(world_completion(0).status, WC_SUCCESS);
    assert_int_equal(world_completion(0).status, WC_SUCCESS);
    assert_true(w.now - posted_ns < NS_PER_MS);
    assert_memory_equal(w.devices[1].buf + 1000, w.devices[0].buf, 100);
    for (unsigned i = 0; i < 2; i++) {
        rnic_qp_destroy(first[i]);
    }
    world_close();
}

static void what_is_lost_comes_again(void **state)
{
    const struct datagram_net_config lossy = {
        .faults = {.seed = 7, .loss = FAULT_ONE / 20, .burst = 1}};
    world_open_pair(RNIC_QP_RC, &lossy);
    world_fill(w.devices[0].buf, BUF_LEN);
    world_post(0, WQE_RDMA_WRITE, 0, BUF_LEN, 0);
    assert_int_equal(world_completion(0).status, WC_SUCCESS);
    assert_memory_equal(w.devices[1].buf, w.devices[0].buf, BUF_LEN);
    memset(w.devices[0].buf, 0, BUF_LEN);
    world_post(0, WQE_RDMA_READ, 0, BUF_LEN, 0);
    assert_int_equal(world_completion(0).status, WC_SUCCESS);
    assert_memory_equal(w.devices[1].buf, w.devices[0].buf, BUF_LEN);
    world_close();
}

// What the receiver of a lossy Write tells of what came beyond holes.
static uint64_t sacks_of_a_write(void)
{
    const struct datagram_net_config lossy = {
        .faults = {.seed = 7, .loss = FAULT_ONE / 20, .burst = 1}};
    world_open_pair(RNIC_QP_RC, &lossy);
    for (unsigned i = 0; i < 8; i++) {
        world_post(0, WQE_RDMA_WRITE, 0, BUF_LEN, 0);
        assert_int_equal(world_completion(0).status, WC_SUCCESS);
    }
    uint64_t count = device_count(&w.devices[1], "sacks_out");
    world_close();
    return count;
}

static void only_what_is_lost_is_repeated_unless_extensions_are_off(void **state)
{
    assert_true(sacks_of_a_write() > 0);
    world_offer_extensions(false);
    assert_int_equal(sacks_of_a_write(), 0);
    world_offer_extensions(true);
}

static void a_peer_that_is_gone_is_given_up(void **state)
{
    world_open_pair(RNIC_QP_RC, &clean);
    rnic_qp_destroy(w.qps[1]);
    device_close(&w.devices[1]);
    w.is_one_gone = true;
    world_post(0, WQE_RDMA_WRITE, 0, 100, 0);
    assert_int_equal(world_completion(0).status, WC_RETRY_EXC_ERR);
    world_close();
}

/* ---- unreliable connections ------------------------------------------------------------------ */

static void an_unreliable_connection_carries_sends_and_writes(void **state)
{
    world_open_pair(RNIC_QP_UC, &clean);
    world_fill(w.devices[0].buf, 20000);
    world_post_recv(1, 0, 20000);
    world_post(0, WQE_SEND, 0, 20000, 0);
    assert_int_equal(world_completion(0).status, WC_SUCCESS);
    assert_int_equal(world_completion(1).byte_len, 20000);
    assert_memory_equal(w.devices[1].buf, w.devices[0].buf, 20000);
    world_post(0, WQE_RDMA_WRITE, 0, 100, 20000);
    assert_int_equal(world_completion(0).status, WC_SUCCESS);
    world_run();
    assert_memory_equal(w.devices[1].buf + 20000, w.devices[0].buf, 100);
    world_close();
}

/* ---- polling --------------------------------------------------------------------------------- */

static unsigned yield_count;
static duration_ns yield_lasts_ns;

// Stands before libc's.
int sched_yield(void)
{
    yield_count++;
    w.now += yield_lasts_ns;
    return 0;
}

static unsigned yields_of_a_poll(duration_ns later_ns)
{
    struct cqe cqe;
    w.now += later_ns;
    yield_count = 0;
    rnic_cq_poll(w.devices[1].cq, &cqe, 1);
    return yield_count;
}

static void find_something(void)
{
    world_post_recv(1, 0, GRH_LEN + MTU);
    post_datagram(0, w.qps[1]->qp_num, 0, 100);
    assert_int_equal(world_completion(1).status, WC_SUCCESS);
}

// A long message comes in many packets before it completes: its receiver is not idle meanwhile.
static void who_finds_packets_keeps_the_processor_though_nothing_completes(void **state)
{
    world_open_pair(RNIC_QP_RC, &clean);
    world_post_recv(1, 0, 100);
    world_post(0, WQE_SEND, 0, 100, 0);
    assert_int_equal(world_completion(1).status, WC_SUCCESS);
    yields_of_a_poll(0);
    world_post(0, WQE_RDMA_WRITE, 0, 100, 0);
    rnic_step(w.devices[0].rnic);
    let_arrive();
    assert_int_equal(yields_of_a_poll(250 * NS_PER_US), 0);
    assert_int_equal(yields_of_a_poll(249 * NS_PER_US), 0);
    assert_int_equal(yields_of_a_poll(249 * NS_PER_US), 0); // since the poll before
    assert_int_equal(yields_of_a_poll(NS_PER_US), 1);
    world_close();
}

// The peer may wait for the same one. What the thread has polled in another test does not count.
static void who_polls_in_vain_for_long_gives_the_processor_away(void **state)
{
    world_open_pair(RNIC_QP_UD, &clean);
    find_something();
    assert_int_equal(yields_of_a_poll(0), 0);
    assert_int_equal(yields_of_a_poll(249 * NS_PER_US), 0);
    assert_int_equal(yields_of_a_poll(NS_PER_US), 1);
    assert_int_equal(yields_of_a_poll(249 * NS_PER_US), 0); // since the next poll
    assert_int_equal(yields_of_a_poll(249 * NS_PER_US), 0);
    find_something();
    assert_int_equal(yields_of_a_poll(NS_PER_US), 0);
    world_close();
}

// It waited for the same one: to keep it is to wait for oneself.
static void who_gave_the_processor_to_the_peer_gives_it_sooner(void **state)
{
    world_open_pair(RNIC_QP_UD, &clean);
    find_something();
    yield_lasts_ns = 50 * NS_PER_US;
    yields_of_a_poll(0);
    assert_int_equal(yields_of_a_poll(250 * NS_PER_US), 1);
    yields_of_a_poll(0); // sees how long that took
    find_something();
    yields_of_a_poll(0);
    assert_int_equal(yields_of_a_poll(19 * NS_PER_US), 0);
    assert_int_equal(yields_of_a_poll(NS_PER_US), 1);
    yield_lasts_ns = 0;
    world_close();
}

/* ---- acknowledgements ------------------------------------------------------------------------ */

// For one pass, where another is sure to come; of a stream whose sender waits for them not at all.
static void acknowledgements_of_a_message_wait_and_those_of_a_stream_do_not(void **state)
{
    world_open_pair(RNIC_QP_UD, &clean);
    struct shard *shard = &w.devices[0].rnic->shard;
    shard->has_thread = true; // which is awake
    packet_hold(shard, 1);
    assert_true(shard->packets.is_holding);
    packet_hold(shard, 1);
    assert_false(shard->packets.is_holding);
    packet_hold(shard, 8);
    assert_false(shard->packets.is_holding);
    shard->has_thread = false;
    world_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_datagram_arrives_and_says_from_whom),
        cmocka_unit_test(acknowledgements_of_a_message_wait_and_those_of_a_stream_do_not),
        cmocka_unit_test(who_finds_packets_keeps_the_processor_though_nothing_completes),
        cmocka_unit_test(who_polls_in_vain_for_long_gives_the_processor_away),
        cmocka_unit_test(who_gave_the_processor_to_the_peer_gives_it_sooner),
        cmocka_unit_test(who_spins_polls_on_by_what_it_finds_until_it_has_moved_nothing_for_long),
        cmocka_unit_test(who_only_finds_something_does_not_spin),
        cmocka_unit_test(a_completion_queue_is_not_made_too_small_for_what_is_posted),
        cmocka_unit_test(what_is_posted_leaves_before_a_look_takes_what_has_come),
        cmocka_unit_test(a_datagram_to_a_number_that_nobody_has_is_counted),
        cmocka_unit_test(a_packet_shorter_than_its_first_header_is_counted_and_dropped),
        cmocka_unit_test(numbers_are_those_that_the_link_has),
        cmocka_unit_test(more_than_the_link_takes_at_a_time_leaves_when_there_is_room),
        cmocka_unit_test(who_has_had_a_turn_goes_on_in_the_next_pass),
        cmocka_unit_test(an_acknowledgement_waits_for_the_next_pass),
        cmocka_unit_test(what_was_sent_is_done_before_what_answers_it_is_seen),
        cmocka_unit_test(the_managers_messages_do_not_overtake_an_acknowledgement_that_waits),
        cmocka_unit_test(of_acknowledgements_that_wait_the_last_for_each_queue_pair_leaves),
        cmocka_unit_test(what_is_posted_is_unsent_until_it_is_complete),
        cmocka_unit_test(a_device_goes_with_packets_on_their_way_to_it),
        cmocka_unit_test(a_group_reaches_who_is_attached_as_long_as_it_is),
        cmocka_unit_test(a_queue_pair_that_goes_leaves_its_groups),
        cmocka_unit_test(a_send_of_many_packets_arrives_whole),
        cmocka_unit_test(packets_of_two_queue_pairs_come_together),
        cmocka_unit_test(what_a_device_tells_is_json_whatever_carries_its_queue_pairs),
        cmocka_unit_test(what_is_lost_comes_again),
        cmocka_unit_test(only_what_is_lost_is_repeated_unless_extensions_are_off),
        cmocka_unit_test(a_peer_that_is_gone_is_given_up),
        cmocka_unit_test(an_unreliable_connection_carries_sends_and_writes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
