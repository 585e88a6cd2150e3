// What a device of packets asks of its link: addresses that come and go, groups, services, room.
// The link and time are the test's.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/port_journal.h"
#include "base/port_link.h"
#include "rnic/connect.h"
#include "rnic/post.h"
#include "roce/address.h"
#include "tests/rnic/device.h"
#include "tests/rnic/hand_datagrams.h"
#include "wire/bth.h"
#include "wire/ibcm.h"
#include "wire/roce.h"
#include "wire/roce_verdict.h"
#include "wq/status.h"

enum { MTU = 1024, QKEY = 0x11111111, DEPTH = 64 };

static struct world {
    instant_ns now;
    struct hand_datagrams *link;
    struct device device;
    struct rnic_port next; // what the host has, for who asks
    unsigned told;         // that the port is another
} w;

static instant_ns clock_of(void *ctx)
{
    return w.now;
}

static void run(void)
{
    unsigned steps = 0;
    while (rnic_step(w.device.rnic)) {
        assert_true(++steps < 1000);
    }
}

/* ---- ports in words -------------------------------------------------------------------------- */

static uint32_t path_mtu = MTU;

// "1i3 - 2%5": 10.0.0.1 at interface 3, an empty place, 10.0.0.2 with scope 5.
static struct rnic_port port_of(const char *words)
{
    struct rnic_port port = {.path_mtu = path_mtu};
    for (const char *at = words; *at != '\0'; at += strcspn(at, " "), at += *at == ' ') {
        struct rnic_addr *a = &port.addrs[port.addr_count++];
        if (*at == '-') {
            continue;
        }
        char *end;
        a->addr = hand_addr((unsigned)strtoul(at, &end, 10));
        a->interface = *end == 'i' ? (uint32_t)strtoul(end + 1, &end, 10) : 0;
        a->scope_id = *end == '%' ? (uint32_t)strtoul(end + 1, &end, 10) : 0;
    }
    return port;
}

static void expect_port(const char *words)
{
    const struct rnic_port port = rnic_port(w.device.rnic), expected = port_of(words);
    assert_int_equal(port.addr_count, expected.addr_count);
    assert_int_equal(port.path_mtu, MTU);
    for (unsigned i = 0; i < RNIC_ADDR_MAX; i++) {
        assert_memory_equal(&port.addrs[i].addr, &expected.addrs[i].addr, sizeof(struct in6_addr));
        assert_int_equal(port.addrs[i].scope_id, expected.addrs[i].scope_id);
    }
}

static void expect_log(const char *words)
{
    assert_string_equal(w.link->log, words);
    w.link->log[0] = '\0';
}

static void follow(struct rnic_port *port)
{
    memcpy(port->addrs, w.next.addrs, sizeof port->addrs);
    port->addr_count = w.next.addr_count;
}

static void open_with(const char *addrs, bool follows, struct journal *journal)
{
    w = (struct world){.now = NS_PER_S, .link = hand_datagrams_begin()};
    w.link->base.journal = journal;
    struct rnic_parts parts = {.config = device_config(),
                               .datagrams = &w.link->base,
                               .port = port_of(addrs),
                               .clock = clock_of,
                               .stag_key = {1, 2, 3},
                               .is_simulated = true};
    parts.port.follow = follows ? follow : NULL;
    device_open_parts(&w.device, &parts);
}

static void open_at(const char *addrs)
{
    open_with(addrs, true, NULL);
    w.link->log[0] = '\0';
}

/* ---- addresses ------------------------------------------------------------------------------- */

static void a_device_has_the_addresses_that_it_can_have(void **state)
{
    static const struct {
        const char *addrs, *log, *has;
    } rows[] = {
        {"1", "open 1 ", "1"},
        {"1 2 3", "open 1 open 2 open 3 ", "1 2 3"},
        {"1 9 3%4", "open 1 refuse 9 open 3%4 ", "1 3%4"},
        {"1 2 9", "open 1 open 2 refuse 9 ", "1 2"},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        w = (struct world){.link = hand_datagrams_begin()};
        w.link->refused = 9;
        const struct rnic_parts parts = {.config = device_config(),
                                         .datagrams = &w.link->base,
                                         .port = port_of(rows[i].addrs),
                                         .clock = clock_of,
                                         .is_simulated = true};
        device_open_parts(&w.device, &parts);
        expect_log(rows[i].log);
        expect_port(rows[i].has);
        device_close(&w.device);
    }
}

static void without_its_first_address_there_is_no_device(void **state)
{
    static const struct {
        const char *addrs;
        int error;
    } rows[] = {{"9 1", -EADDRINUSE}, {"", -EADDRNOTAVAIL}};
    for (unsigned i = 0; i < 2; i++) {
        struct hand_datagrams *link = hand_datagrams_begin();
        link->refused = 9;
        const struct rnic_parts parts = {.config = device_config(),
                                         .datagrams = &link->base,
                                         .port = port_of(rows[i].addrs),
                                         .clock = clock_of,
                                         .is_simulated = true};
        struct rnic *rnic;
        assert_int_equal(rnic_create(&parts, &rnic), rows[i].error);
    }
}

static void on_change(void *ctx)
{
    w.told++;
    assert_ptr_equal(ctx, &w);
    rnic_port(w.device.rnic); // the lock is held: it may be asked
}

static void host_says(const char *addrs)
{
    w.next = port_of(addrs);
    w.link->said = DATAGRAM_READY_HOST;
    run();
}

static void addresses_come_and_go_with_those_of_the_host(void **state)
{
    static const struct {
        const char *before, *host, *log, *after;
        bool is_told;
    } rows[] = {
        {"1 2", "1 2", "", "1 2", false},
        {"1 2", "1", "close 2 ", "1", true},
        {"1 2 3", "1 - 3", "close 2 ", "1 - 3", true},
        {"1", "1 2", "open 2 ", "1 2", true},
        {"1 2", "1 3", "close 2 open 3 ", "1 3", true},
        {"1 2", "2 1", "close 1 close 2 open 2 open 1 ", "2 1", true},
        {"1", "1%5", "close 1 open 1%5 ", "1%5", true},
        {"1", "1 9", "refuse 9 ", "1", false},
        {"1", "1 9 3", "refuse 9 open 3 ", "1 - 3", true},
        {"1", "1 3 9", "open 3 refuse 9 ", "1 3", true},
        {"1 2", "9 2", "close 1 refuse 9 ", "- 2", true},
        {"1", "9", "close 1 refuse 9 ", "-", true},
        {"1 2", "1 9", "close 2 refuse 9 ", "1", true},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct rnic_port_watch watch = {.on_change = on_change, .ctx = &w};
        open_at(rows[i].before);
        w.link->refused = 9;
        rnic_port_watch(w.device.rnic, &watch);
        host_says(rows[i].host);
        expect_log(rows[i].log);
        expect_port(rows[i].after);
        assert_int_equal(w.told, rows[i].is_told);
        rnic_port_unwatch(w.device.rnic, &watch);
        host_says("7");
        assert_int_equal(w.told, rows[i].is_told);
        device_close(&w.device);
    }
}

static void an_address_that_comes_back_is_opened_again(void **state)
{
    open_at("1 2");
    host_says("1");
    host_says("1 2");
    expect_log("close 2 open 2 ");
    w.link->refused = 2;
    host_says("1");
    host_says("1 2");
    w.link->refused = 0;
    host_says("1 2"); // the host tells again
    expect_log("close 2 refuse 2 open 2 ");
    device_close(&w.device);
}

static void who_does_not_follow_keeps_its_addresses(void **state)
{
    open_with("1 2", false, NULL);
    w.link->log[0] = '\0';
    host_says("3");
    expect_log("");
    expect_port("1 2");
    device_close(&w.device);
}

static void an_address_is_found_by_its_place(void **state)
{
    const struct rnic_port port = port_of("1 - 3 104");
    static const struct {
        unsigned number;
        int place;
    } rows[] = {{1, 0}, {2, -1}, {3, 2}, {104, 3}, {4, -1}};
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct in6_addr addr = hand_addr(rows[i].number);
        assert_int_equal(rnic_port_find(&port, &addr), rows[i].place);
    }
    assert_int_equal(rnic_port_find(&port, &in6addr_any), -1); // no empty place
}

static void a_way_leads_from_the_links_address(void **state)
{
    const struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = {htonl(0x0a000005)}},
                             nowhere = {.sin_family = AF_INET, .sin_addr = {htonl(0x0a000063)}};
    struct sockaddr_storage from = {0};
    open_at("1");
    assert_int_equal(rnic_route(w.device.rnic, (const struct sockaddr *)&to, &from), 0);
    expect_log("route 5 ");
    assert_int_equal(((struct sockaddr_in *)&from)->sin_addr.s_addr, htonl(0x0a000001));
    assert_int_equal(rnic_route(w.device.rnic, (const struct sockaddr *)&nowhere, &from),
                     -ENETUNREACH);
    assert_int_equal(device_count(&w.device, "hand_flushes"), w.link->flush_count);
    device_close(&w.device);
}

/* ---- groups ---------------------------------------------------------------------------------- */

static struct rnic_qp *qp_make(enum rnic_qp_type type)
{
    const struct rnic_qp_init init = {.type = type,
                                      .pd = w.device.pd,
                                      .send_cq = w.device.cq,
                                      .recv_cq = w.device.cq,
                                      .max_send_wr = DEPTH,
                                      .max_recv_wr = DEPTH,
                                      .max_send_sge = 1,
                                      .max_recv_sge = 1};
    struct rnic_qp *qp;
    assert_int_equal(rnic_qp_create(w.device.rnic, &init, &qp), 0);
    return qp;
}

static const struct in6_addr group_v4 = {
    .s6_addr = {[10] = 0xff, [11] = 0xff, [12] = 239, [15] = 9}};
static const struct in6_addr group_v6 = {.s6_addr = {0xff, 2, [15] = 9}};

static void a_group_is_joined_once_at_each_interface_of_its_family(void **state)
{
    static const struct {
        const char *addrs;
        const struct in6_addr *group;
        const char *joined, *left;
    } rows[] = {
        {"1", &group_v4, "join 1 ", "leave 1 "},
        {"1", &group_v6, "", ""},
        {"1i1 2i1 3i2", &group_v4, "join 1 join 3 ", "leave 1 leave 3 "},
        {"1i2 2i1 3i2", &group_v4, "join 1 join 2 ", "leave 1 leave 2 "},
        {"1 2", &group_v4, "join 1 join 2 ", "leave 1 leave 2 "},
        {"1i1 101i1%4 102i1", &group_v6, "join 101%4 ", "leave 101%4 "},
        {"101i1 1i1 102i2", &group_v4, "join 1 ", "leave 1 "},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        open_at(rows[i].addrs);
        struct rnic_qp *qp = qp_make(RNIC_QP_UD);
        assert_int_equal(rnic_qp_attach(qp, rows[i].group), 0);
        expect_log(rows[i].joined);
        assert_int_equal(rnic_qp_attach(qp, rows[i].group), -EALREADY);
        expect_log("");
        assert_int_equal(rnic_qp_detach(qp, rows[i].group), 0);
        expect_log(rows[i].left);
        assert_int_equal(rnic_qp_detach(qp, rows[i].group), -EINVAL);
        rnic_qp_destroy(qp);
        expect_log("");
        device_close(&w.device);
    }
}

static void a_group_that_cannot_be_joined_everywhere_is_left_again(void **state)
{
    open_at("1 2 9 4");
    w.link->refused = 9;
    struct rnic_qp *qp = qp_make(RNIC_QP_UD);
    assert_int_equal(rnic_qp_attach(qp, &group_v4), -ENODEV);
    expect_log("join 1 join 2 refuse 9 leave 1 leave 2 ");
    assert_int_equal(rnic_qp_detach(qp, &group_v4), -EINVAL);
    w.link->refused = 0;
    assert_int_equal(rnic_qp_attach(qp, &group_v4), 0);
    expect_log("join 1 join 2 join 9 join 4 ");
    rnic_qp_destroy(qp);
    expect_log("leave 1 leave 2 leave 9 leave 4 ");
    device_close(&w.device);
}

static void groups_follow_the_addresses(void **state)
{
    open_at("1i1 2i1");
    struct rnic_qp *one = qp_make(RNIC_QP_UD), *other = qp_make(RNIC_QP_UD);
    assert_int_equal(rnic_qp_attach(one, &group_v4), 0);
    assert_int_equal(rnic_qp_attach(other, &group_v6), 0);
    expect_log("join 1 ");
    host_says("- 2i1 101i1");
    expect_log("leave 1 close 1 open 101 join 2 join 101 ");
    w.link->refused = 9; // one that cannot be had there is done without
    host_says("9i7 2i1");
    expect_log("leave 2 leave 101 close 101 refuse 9 join 2 ");
    rnic_qp_destroy(other);
    expect_log("");
    rnic_qp_destroy(one);
    expect_log("leave 2 ");
    device_close(&w.device);
}

static void groups_are_for_datagrams(void **state)
{
    open_at("1");
    struct rnic_qp *qp = qp_make(RNIC_QP_RC);
    assert_int_equal(rnic_qp_attach(qp, &group_v4), -EINVAL);
    assert_int_equal(rnic_qp_detach(qp, &group_v4), -EINVAL);
    rnic_qp_destroy(qp);
    expect_log("");
    device_close(&w.device);
}

/* ---- room ------------------------------------------------------------------------------------ */

static struct rnic_qp *qp_to_send(void)
{
    struct rnic_qp *qp = qp_make(RNIC_QP_UD);
    static const struct qp_change changes[] = {
        {.state = QP_INIT, .mask = QP_CHANGE_STATE | QP_CHANGE_QKEY, .qkey = QKEY},
        {.state = QP_RTR, .mask = QP_CHANGE_STATE},
        {.state = QP_RTS, .mask = QP_CHANGE_STATE | QP_CHANGE_SQ_PSN, .sq_psn = 5}};
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(rnic_qp_change(qp, &changes[i]), 0);
    }
    return qp;
}

static void post_datagrams(struct rnic_qp *qp, unsigned count)
{
    struct rnic_sq_cursor cursor;
    rnic_sq_begin(&cursor, qp);
    for (unsigned i = 0; i < count; i++) {
        struct send_wqe *wqe = rnic_sq_slot(&cursor);
        assert_non_null(wqe);
        wqe->wr_id = i;
        wqe->opcode = WQE_SEND;
        wqe->flags = WQE_SIGNALED;
        wqe->imm_or_inv = 0;
        wqe->sge_count = 1;
        wqe->length = 5;
        wqe->sge[0] =
            (struct sge){.addr = (uintptr_t)w.device.buf, .length = 5, .lkey = w.device.stag};
        *rnic_sq_address(qp, wqe) = (struct roce_address){
            .path = {.local = hand_addr(1), .remote = hand_addr(2)}, .qpn = 0x80007, .qkey = QKEY};
        rnic_sq_commit(&cursor);
    }
    rnic_sq_end(&cursor);
}

static unsigned completions(void)
{
    struct cqe cqe;
    unsigned count = 0;
    while (rnic_cq_poll(w.device.cq, &cqe, 1) == 1) {
        assert_int_equal(cqe.status, WC_SUCCESS);
        assert_int_equal(cqe.wr_id, count);
        count++;
    }
    return count;
}

static void expect_sent(unsigned count)
{
    assert_int_equal(w.link->out_count, count);
    for (unsigned i = 0; i < count; i++) {
        struct roce_packet packet;
        const struct hand_packet *p = &w.link->out[i];
        assert_int_equal(roce_packet_parse(span_of(p->octets, p->len), &packet), ROCE_PARSE_OK);
        assert_int_equal(packet.bth.psn, 5 + i);
        assert_int_equal(packet.payload.len, 5);
    }
}

// Four times the link's room in one turn; the rest in those that follow.
static void who_has_more_than_the_link_takes_goes_on_in_the_next_pass(void **state)
{
    open_at("1");
    struct rnic_qp *qp = qp_to_send();
    w.link->room = w.link->room_per_flush = 3;
    post_datagrams(qp, 20);
    expect_sent(12);
    assert_int_equal(rnic_next_deadline(w.device.rnic), 0);
    rnic_step(w.device.rnic);
    expect_sent(20);
    assert_int_equal(completions(), 20);
    assert_int_equal(device_count(&w.device, "room_waits"), 0);
    rnic_qp_destroy(qp);
    device_close(&w.device);
}

static void who_finds_no_room_waits_until_the_link_says_so(void **state)
{
    open_at("1");
    struct rnic_qp *qp = qp_to_send(), *other = qp_to_send();
    w.link->room = 2;
    w.link->is_stuck = true;
    post_datagrams(qp, 4);
    assert_int_equal(w.link->out_count, 2);
    assert_int_equal(device_count(&w.device, "room_waits"), 1);
    assert_true(rnic_has_output(w.device.rnic));
    post_datagrams(other, 1);
    assert_int_equal(device_count(&w.device, "room_waits"), 2);
    run();
    assert_int_equal(w.link->out_count, 2);
    w.link->is_stuck = false;
    w.link->said = DATAGRAM_READY_ROOM;
    run();
    assert_int_equal(w.link->out_count, 5);
    assert_int_equal(device_count(&w.device, "room_waits"), 2);
    assert_false(rnic_has_output(w.device.rnic));
    rnic_qp_destroy(other);
    rnic_qp_destroy(qp);
    device_close(&w.device);
}

static void who_finds_its_receiver_full_looks_again_soon(void **state)
{
    open_at("1");
    struct rnic_qp *qp = qp_to_send();
    w.link->is_receiver_full = true;
    post_datagrams(qp, 2);
    assert_int_equal(w.link->out_count, 0);
    assert_int_equal(device_count(&w.device, "receiver_waits"), 1);
    assert_int_equal(rnic_next_deadline(w.device.rnic), w.now + 50 * NS_PER_US);
    w.now += 50 * NS_PER_US - 1;
    run();
    assert_int_equal(device_count(&w.device, "receiver_waits"), 1);
    w.now++;
    run();
    assert_int_equal(device_count(&w.device, "receiver_waits"), 2);
    w.link->is_receiver_full = false;
    w.now += 50 * NS_PER_US;
    run();
    expect_sent(2);
    assert_int_equal(completions(), 2);
    rnic_qp_destroy(qp);
    device_close(&w.device);
}

/* ---- what comes ------------------------------------------------------------------------------ */

static void come(const void *octets, size_t len, bool is_shared)
{
    w.link->in[w.link->in_count++] = (struct datagram_rx){.local = hand_addr(1),
                                                          .remote = hand_addr(2),
                                                          .is_shared = is_shared,
                                                          .octets = span_of(octets, len)};
}

// A packet to queue pair 1 with this in the place of what is right; `len` of it come.
static void come_mad(const struct roce_packet *head, size_t len, const uint8_t *mad, bool is_shared)
{
    static uint8_t octets[16][ROCE_HEAD_MAX_LEN + MAD_LEN];
    static unsigned next;
    uint8_t *at = octets[next++ % 16];
    const size_t head_len = roce_head_emit(head, at);
    memcpy(at + head_len, mad, MAD_LEN);
    come(at, len < head_len + MAD_LEN ? len : head_len + MAD_LEN, is_shared);
}

static struct roce_packet mad_head(void)
{
    return (struct roce_packet){.bth = {.opcode = ROCE_UD | ROCE_SEND_ONLY,
                                        .pkey = BTH_PKEY_DEFAULT,
                                        .dest_qp = BTH_QP_GSI},
                                .deth = {.qkey = MAD_QKEY, .src_qp = BTH_QP_GSI}};
}

static void what_is_no_management_is_counted(void **state)
{
    static const uint8_t zeros[MAD_LEN];
    struct roce_packet heads[] = {mad_head(), mad_head(), mad_head(), mad_head()};
    heads[1].bth.opcode = ROCE_UD | ROCE_SEND_ONLY_IMM;
    heads[2].deth.qkey++;
    heads[3].deth.src_qp++;
    open_at("1");
    for (unsigned i = 0; i < 4; i++) {
        come_mad(&heads[i], SIZE_MAX, zeros, false);
        run();
        assert_int_equal(device_count(&w.device, "not_management"), i);
    }
    come_mad(&heads[0], BTH_LEN + 1, zeros, false); // cut in its second header
    run();
    assert_int_equal(device_count(&w.device, "not_management"), 4);
    assert_int_equal(device_count(&w.device, "received"), 5);
    device_close(&w.device);
}

static void what_nobody_is_there_for_is_counted(void **state)
{
    uint8_t head[BTH_LEN];
    open_at("1");
    bth_emit(&(struct bth){.pkey = BTH_PKEY_DEFAULT, .dest_qp = 0x70009}, head);
    come(head, BTH_LEN - 1, false);
    come(head, BTH_LEN, false);
    uint8_t to_group[BTH_LEN];
    bth_emit(&(struct bth){.pkey = BTH_PKEY_DEFAULT, .dest_qp = BTH_QP_MULTICAST}, to_group);
    come(to_group, BTH_LEN, false);
    run();
    assert_int_equal(device_count(&w.device, "received"), 3);
    assert_int_equal(device_count(&w.device, "too_short"), 1);
    assert_int_equal(device_count(&w.device, "unknown_qp"), 1);
    assert_int_equal(device_count(&w.device, "no_group"), 1);
    device_close(&w.device);
}

/* ---- connections ----------------------------------------------------------------------------- */

static void on_conn_event(void *ctx, const struct rnic_conn_event *event)
{
}

static const struct rnic_conn_port events = {.on_event = on_conn_event};

static void a_service_is_told_to_the_link_while_it_is_listened_for(void **state)
{
    struct rnic_conn *conn, *other;
    const struct in6_addr local = hand_addr(1);
    open_at("1");
    struct rnic *rnic = w.device.rnic;
    w.link->serve_error = -EADDRINUSE;
    assert_int_equal(rnic_conn_listen(rnic, IP_CM_PS_TCP, 5, &local, 0, &events, &conn),
                     -EADDRINUSE);
    expect_log("refuse 1%17170437 "); // 0x01060005: the port of TCP's space
    w.link->serve_error = 0;
    assert_int_equal(rnic_conn_listen(rnic, IP_CM_PS_TCP, 5, &local, 0, &events, &conn), 0);
    expect_log("serve 1%17170437 ");
    assert_int_equal(rnic_conn_listen(rnic, IP_CM_PS_TCP, 5, &local, 0, &events, &other),
                     -EADDRINUSE);
    expect_log("");
    rnic_conn_destroy(conn);
    expect_log("unserve 1%17170437 ");
    device_close(&w.device);
}

static void what_a_listener_is_not_for_is_refused(void **state)
{
    struct rnic_conn *conn;
    struct ibcm_agreement agreement;
    struct ibcm_ends ends;
    const struct in6_addr local = hand_addr(1);
    open_at("1");
    assert_int_equal(rnic_conn_listen(w.device.rnic, IP_CM_PS_TCP, 5, &local, 0, &events, &conn),
                     0);
    assert_int_equal(rnic_conn_notify(conn), -ENOTCONN);
    assert_int_equal(rnic_conn_agreement(conn, &agreement, &ends), -EINVAL);
    rnic_conn_destroy(conn);
    device_close(&w.device);
}

static struct ibcm_message sent_message(void)
{
    struct roce_packet packet;
    struct ibcm_message message;
    assert_int_equal(w.link->out_count, 1);
    const struct hand_packet *p = &w.link->out[0];
    assert_int_equal(hand_addr_number(&p->path.local), 1);
    assert_int_equal(hand_addr_number(&p->path.remote), 2);
    assert_int_equal(p->path.source_port, 0xc000);
    assert_int_equal(roce_packet_parse(span_of(p->octets, p->len), &packet), ROCE_PARSE_OK);
    assert_int_equal(packet.bth.opcode, ROCE_UD | ROCE_SEND_ONLY);
    assert_int_equal(packet.bth.dest_qp, BTH_QP_GSI);
    assert_true(packet.bth.mig_req);
    assert_int_equal(packet.deth.qkey, MAD_QKEY);
    assert_int_equal(packet.deth.src_qp, BTH_QP_GSI);
    assert_int_equal(packet.payload.len, MAD_LEN);
    assert_int_equal(ibcm_message_parse(packet.payload, &message), IBCM_PARSE_OK);
    w.link->out_count = 0;
    return message;
}

static void a_request_says_what_the_device_and_the_program_have(void **state)
{
    static const uint32_t mtus[] = {256, 512, 1024, 2048, 4096};
    for (unsigned i = 0; i < 10; i++) {
        const struct ibcm_target target = {
            .ends = {.local = hand_addr(1), .remote = hand_addr(2)}, .ps = IP_CM_PS_TCP, .port = 5};
        struct ibcm_params params = {.qp_num = 0x70123, .retry_count = 7, .rnr_retry_count = 6};
        struct rnic_conn *conn, *other;
        path_mtu = mtus[i % 5];
        open_at("1");
        path_mtu = MTU;
        struct rnic_qp *qp = qp_make(RNIC_QP_RC);
        const struct qp_change to_init = {.mask = QP_CHANGE_STATE, .state = QP_INIT};
        assert_int_equal(rnic_conn_connect(w.device.rnic, &target, qp, &params, &events, &other),
                         -EINVAL);
        assert_int_equal(w.link->out_count, 0);
        assert_int_equal(rnic_qp_change(qp, &to_init), 0);
        assert_int_equal(
            rnic_conn_connect(w.device.rnic, &target, i < 5 ? qp : NULL, &params, &events, &conn),
            0);
        const struct ibcm_message message = sent_message();
        assert_int_equal(message.kind, IBCM_REQ);
        assert_int_equal(message.req.qp_num, i < 5 ? qp->qp_num : 0x70123);
        assert_int_equal(message.req.path_mtu, 1 + i % 5);
        struct ibcm_agreement agreement;
        struct ibcm_ends ends;
        assert_int_equal(rnic_conn_agreement(conn, &agreement, &ends), -EINVAL);
        rnic_conn_destroy(conn);
        rnic_qp_destroy(qp);
        device_close(&w.device);
    }
}

/* ---- the journal ----------------------------------------------------------------------------- */

static struct journal_record records[16];
static unsigned record_count;

static void keep_record(struct journal *journal, const struct journal_record *record)
{
    if (record->kind == JOURNAL_CARRIED) {
        records[record_count++ % 16] = *record;
    }
}

static void where_a_queue_pair_leads_is_written_down(void **state)
{
    struct journal journal = {.put = keep_record};
    const struct qp_change to_init = {.mask = QP_CHANGE_STATE, .state = QP_INIT};
    const struct qp_change to_rtr = {.mask = QP_CHANGE_STATE | QP_CHANGE_PATH | QP_CHANGE_PATH_MTU |
                                             QP_CHANGE_DEST_QP_NUM | QP_CHANGE_RQ_PSN |
                                             QP_CHANGE_MAX_DEST_RD_ATOMIC | QP_CHANGE_MIN_RNR_TIMER,
                                     .state = QP_RTR,
                                     .path = {.local = hand_addr(1), .remote = hand_addr(2)},
                                     .path_mtu = MTU,
                                     .dest_qp_num = 0x80123};
    record_count = 0;
    open_with("1", true, &journal);
    struct rnic_qp *connected = qp_make(RNIC_QP_RC);
    assert_int_equal(rnic_qp_change(connected, &to_init), 0);
    assert_int_equal(record_count, 0);
    assert_int_equal(rnic_qp_change(connected, &to_rtr), 0);
    assert_int_equal(record_count, 1);
    assert_int_equal(records[0].qp_num, connected->qp_num);
    assert_int_equal(hand_addr_number(&records[0].carried.local), 1);
    assert_int_equal(hand_addr_number(&records[0].carried.remote), 2);
    assert_int_equal(records[0].carried.remote_qp_num, 0x80123);
    struct rnic_qp *of_datagrams = qp_to_send(); // once: ready to receive
    assert_int_equal(record_count, 2);
    assert_int_equal(records[1].qp_num, of_datagrams->qp_num);
    const struct journal_carried none = {0};
    assert_memory_equal(&records[1].carried, &none, sizeof none);
    rnic_qp_destroy(of_datagrams);
    rnic_qp_destroy(connected);
    device_close(&w.device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_has_the_addresses_that_it_can_have),
        cmocka_unit_test(without_its_first_address_there_is_no_device),
        cmocka_unit_test(addresses_come_and_go_with_those_of_the_host),
        cmocka_unit_test(an_address_that_comes_back_is_opened_again),
        cmocka_unit_test(who_does_not_follow_keeps_its_addresses),
        cmocka_unit_test(an_address_is_found_by_its_place),
        cmocka_unit_test(a_way_leads_from_the_links_address),
        cmocka_unit_test(a_group_is_joined_once_at_each_interface_of_its_family),
        cmocka_unit_test(a_group_that_cannot_be_joined_everywhere_is_left_again),
        cmocka_unit_test(groups_follow_the_addresses),
        cmocka_unit_test(groups_are_for_datagrams),
        cmocka_unit_test(who_has_more_than_the_link_takes_goes_on_in_the_next_pass),
        cmocka_unit_test(who_finds_no_room_waits_until_the_link_says_so),
        cmocka_unit_test(who_finds_its_receiver_full_looks_again_soon),
        cmocka_unit_test(what_is_no_management_is_counted),
        cmocka_unit_test(what_nobody_is_there_for_is_counted),
        cmocka_unit_test(a_service_is_told_to_the_link_while_it_is_listened_for),
        cmocka_unit_test(what_a_listener_is_not_for_is_refused),
        cmocka_unit_test(a_request_says_what_the_device_and_the_program_have),
        cmocka_unit_test(where_a_queue_pair_leads_is_written_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
