// The RoCE device as a program sees it: what it says of itself, address handles, datagrams.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include <weft/oneshot.h>

#include "tests/verbs/roce.h"

static struct bench bench;
static struct ibv_ah *ah; // to ourselves

static int setup(void **state)
{
    roce_init(&bench);
    struct ibv_ah_attr attr = roce_ah_attr(bench.context);
    ah = ibv_create_ah(bench.pd, &attr);
    return ah == NULL;
}

static int teardown(void **state)
{
    assert_int_equal(ibv_destroy_ah(ah), 0);
    bench_fini(&bench);
    return 0;
}

/* ---- what it says of itself ------------------------------------------------------------------ */

static void device_is_a_channel_adapter_on_ethernet(void **state)
{
    struct ibv_port_attr port;
    struct ibv_gid_entry gid;
    __be16 pkey;
    assert_int_equal(bench.context->device->node_type, IBV_NODE_CA);
    assert_int_equal(bench.context->device->transport_type, IBV_TRANSPORT_IB);
    assert_int_equal(ibv_query_port(bench.context, 1, &port), 0);
    assert_int_equal(port.state, IBV_PORT_ACTIVE);
    assert_int_equal(port.link_layer, IBV_LINK_LAYER_ETHERNET);
    assert_int_equal(port.lid, 0);
    assert_int_equal(port.flags, IBV_QPF_GRH_REQUIRED);
    assert_in_range(port.active_mtu, IBV_MTU_256, IBV_MTU_4096);
    assert_int_equal(ibv_query_gid_ex(bench.context, 1, 0, &gid, 0), 0);
    assert_int_equal(gid.gid_type, IBV_GID_TYPE_ROCE_V2);
    assert_true(gid.ndev_ifindex > 0);
    assert_int_equal(ibv_query_pkey(bench.context, 1, 0, &pkey), 0);
    assert_int_equal(pkey, 0xffff);
}

static void all_ways_to_a_gid_tell_the_same(void **state)
{
    enum { MORE = 20 };
    struct ibv_port_attr port;
    struct ibv_gid_entry table[MORE], entry;
    union ibv_gid gid;
    assert_int_equal(ibv_query_port(bench.context, 1, &port), 0);
    assert_in_range(port.gid_tbl_len, 1, MORE);
    assert_int_equal(ibv_query_gid_table(bench.context, table, MORE, 0), port.gid_tbl_len);
    const size_t too_few = (size_t)port.gid_tbl_len - 1;
    assert_int_equal(ibv_query_gid_table(bench.context, table, too_few, 0), -EINVAL);
    assert_int_equal(ibv_query_gid_table(bench.context, table, MORE, 1), -EOPNOTSUPP); // a flag
    assert_int_equal(ibv_query_gid_ex(bench.context, 1, 0, &entry, 1), EOPNOTSUPP);
    assert_int_equal(ibv_query_gid_ex(bench.context, 2, 0, &entry, 0), EINVAL);
    for (int i = 0; i < port.gid_tbl_len; i++) {
        assert_int_equal(table[i].gid_index, i);
        assert_int_equal(table[i].gid_type, IBV_GID_TYPE_ROCE_V2);
        assert_int_equal(ibv_query_gid_ex(bench.context, 1, (uint32_t)i, &entry, 0), 0);
        assert_memory_equal(&entry, &table[i], sizeof entry);
        assert_int_equal(ibv_query_gid(bench.context, 1, i, &gid), 0);
        assert_memory_equal(&gid, &entry.gid, sizeof gid);
        for (int other = 0; other < i; other++) {
            assert_memory_not_equal(&gid, &table[other].gid, sizeof gid);
        }
    }
    assert_int_equal(ibv_query_gid(bench.context, 1, port.gid_tbl_len, &gid), -1);
    assert_int_equal(ibv_query_gid_ex(bench.context, 1, (uint32_t)port.gid_tbl_len, &entry, 0),
                     EINVAL);
}

static void file_of_the_gid_says_its_type(void **state)
{
    char path[512], line[32] = "";
    snprintf(path, sizeof path, "%s/ports/1/gid_attrs/types/0", bench.context->device->ibdev_path);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file));
    fclose(file);
    assert_string_equal(line, "RoCE v2\n");
}

// What this device has and that one has not: it says so, whoever is asked for.
static void expect_no_datagrams(struct ibv_context *iwarp, struct ibv_pd *pd, struct ibv_cq *cq)
{
    const union ibv_gid group = {.raw = {0xff, 0x0e, [15] = 1}};
    struct ibv_ah_attr attr = roce_ah_attr(bench.context);
    struct ibv_qp_init_attr init = bench_qp_attr(cq);
    struct ibv_wc wc = {.wc_flags = IBV_WC_GRH};
    struct ibv_grh grh = {0};
    struct ibv_qp *qp = ibv_create_qp(pd, &init);
    assert_non_null(qp);
    assert_int_equal(ibv_attach_mcast(qp, &group, 0), EOPNOTSUPP);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_null(ibv_create_ah(pd, &attr));
    assert_int_equal(errno, EOPNOTSUPP);
    errno = 0;
    assert_int_equal(ibv_init_ah_from_wc(iwarp, 1, &wc, &grh, &attr), -1);
    assert_int_equal(errno, EOPNOTSUPP);
}

static void iwarp_device_stays_beside_it(void **state)
{
    struct ibv_context *iwarp = bench_open();
    struct ibv_pd *pd = ibv_alloc_pd(iwarp);
    assert_non_null(pd);
    assert_int_equal(iwarp->device->transport_type, IBV_TRANSPORT_IWARP);
    struct ibv_cq *cq = ibv_create_cq(iwarp, 4, NULL, NULL, 0);
    assert_non_null(cq);
    for (unsigned which = 0; which < 2; which++) { // a queue of the other device
        struct ibv_qp_init_attr init = bench_qp_attr(cq);
        *(which == 0 ? &init.send_cq : &init.recv_cq) = bench.cq;
        errno = 0;
        assert_null(ibv_create_qp(pd, &init));
        assert_int_equal(errno, EINVAL);
    }
    expect_no_datagrams(iwarp, pd, cq);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
    assert_int_equal(ibv_close_device(iwarp), 0);
}

/* ---- address handles ------------------------------------------------------------------------- */

static void expect_no_handle(struct ibv_ah_attr attr)
{
    errno = 0;
    assert_null(ibv_create_ah(bench.pd, &attr));
    assert_int_equal(errno, EINVAL);
}

static void handle_without_a_way_is_refused(void **state)
{
    const struct ibv_ah_attr good = roce_ah_attr(bench.context);
    struct ibv_ah_attr bad[] = {good, good, good};
    bad[0].is_global = 0;
    bad[1].port_num = 2;
    bad[2].grh.sgid_index = 20;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        expect_no_handle(bad[i]);
    }
}

// From each GID: nobody's address, in both families; a host of the other family; and without an
// interface a link-local one, which only a link-local GID has.
static void address_that_leads_nowhere_is_refused(void **state)
{
    static const char *const nowhere[] = {"::", "::ffff:0.0.0.0", "fe80::1"};
    struct ibv_port_attr port;
    assert_int_equal(ibv_query_port(bench.context, 1, &port), 0);
    for (int i = 0; i < port.gid_tbl_len; i++) {
        struct ibv_ah_attr attr = roce_ah_attr(bench.context);
        struct in6_addr own;
        attr.grh.sgid_index = (uint8_t)i;
        assert_int_equal(ibv_query_gid(bench.context, 1, i, (union ibv_gid *)&own), 0);
        for (unsigned n = 0; n < (IN6_IS_ADDR_LINKLOCAL(&own) ? 2 : 3); n++) {
            assert_int_equal(inet_pton(AF_INET6, nowhere[n], attr.grh.dgid.raw), 1);
            expect_no_handle(attr);
        }
        const char *other = IN6_IS_ADDR_V4MAPPED(&own) ? "2001:db8::1" : "::ffff:192.0.2.1";
        assert_int_equal(inet_pton(AF_INET6, other, attr.grh.dgid.raw), 1);
        expect_no_handle(attr);
    }
}

static void handle_whose_number_was_changed_is_not_destroyed(void **state)
{
    struct ibv_qp *qp = roce_ud_ready(&bench);
    ah->handle ^= 0x5500;
    assert_int_equal(ibv_destroy_ah(ah), ENOENT);
    ah->handle ^= 0x5500;
    assert_int_equal(roce_ud_send(&bench, qp, ah, qp->qp_num, ROCE_QKEY, 8), 0);
    assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void handle_of_another_domain_is_refused(void **state)
{
    struct ibv_pd *other = ibv_alloc_pd(bench.context);
    struct ibv_ah_attr attr = roce_ah_attr(bench.context);
    struct ibv_ah *foreign = ibv_create_ah(other, &attr);
    struct ibv_qp *qp = roce_ud_ready(&bench);
    assert_non_null(foreign);
    assert_int_equal(roce_ud_send(&bench, qp, foreign, qp->qp_num, ROCE_QKEY, 8), EINVAL);
    assert_int_equal(roce_ud_send(&bench, qp, NULL, qp->qp_num, ROCE_QKEY, 8), EINVAL);
    assert_int_equal(roce_ud_send(&bench, qp, ah, 1 << 24, ROCE_QKEY, 8), EINVAL);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_ah(foreign), 0);
    assert_int_equal(ibv_dealloc_pd(other), 0);
}

/* ---- datagrams ------------------------------------------------------------------------------- */

// The send and the receive of one datagram, in whatever order they complete.
static struct ibv_wc exchanged(void)
{
    struct ibv_wc recv = {0};
    for (int i = 0; i < 2; i++) {
        struct ibv_wc wc = bench_poll(bench.cq);
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        if (wc.opcode == IBV_WC_RECV) {
            recv = wc;
        }
    }
    assert_int_equal(recv.opcode, IBV_WC_RECV);
    return recv;
}

static void datagram_arrives_behind_40_octets_that_say_from_where(void **state)
{
    struct ibv_qp *a = roce_ud_ready(&bench), *b = roce_ud_ready(&bench);
    memset(bench.buf, 0, sizeof bench.buf);
    memset(bench.buf, 0x5a, 100);
    roce_post_recv(&bench, b, 1, 1024, 256);
    assert_int_equal(roce_ud_send(&bench, a, ah, b->qp_num, ROCE_QKEY, 100), 0);
    struct ibv_wc wc = exchanged();
    assert_int_equal(wc.byte_len, ROCE_GRH_LEN + 100);
    assert_true((wc.wc_flags & IBV_WC_GRH) != 0);
    assert_int_equal(wc.src_qp, a->qp_num);
    assert_int_equal(wc.qp_num, b->qp_num);
    assert_int_equal(wc.pkey_index, 0);
    assert_int_equal(wc.slid, 0);
    assert_int_equal(wc.sl, 0x8 | 0x2); // a UDP header, IPv4 before it
    assert_memory_equal(bench.buf + 1024 + ROCE_GRH_LEN, bench.buf, 100);
    assert_int_equal(bench.buf[1024 + ROCE_GRH_LEN + 100], 0);
    assert_int_equal(ibv_destroy_qp(a), 0);
    assert_int_equal(ibv_destroy_qp(b), 0);
}

// Each GID in turn: who is answered by the completion is answered from the GID that it wrote to.
static void answer_leaves_from_the_gid_that_was_written_to(void **state)
{
    struct ibv_port_attr port;
    assert_int_equal(ibv_query_port(bench.context, 1, &port), 0);
    for (int i = 0; i < port.gid_tbl_len; i++) {
        struct ibv_qp *a = roce_ud_ready(&bench), *b = roce_ud_ready(&bench);
        struct ibv_ah_attr attr = roce_ah_attr(bench.context), back;
        attr.grh.sgid_index = (uint8_t)i;
        assert_int_equal(ibv_query_gid(bench.context, 1, i, &attr.grh.dgid), 0);
        struct ibv_ah *to = ibv_create_ah(bench.pd, &attr);
        assert_non_null(to);
        roce_post_recv(&bench, b, 1, 1024, 256);
        assert_int_equal(roce_ud_send(&bench, a, to, b->qp_num, ROCE_QKEY, 8), 0);
        struct ibv_wc wc = exchanged();
        struct ibv_grh *grh = (struct ibv_grh *)(bench.buf + 1024);
        assert_int_equal(ibv_init_ah_from_wc(bench.context, 1, &wc, grh, &back), 0);
        assert_int_equal(back.grh.sgid_index, i);
        assert_memory_equal(&back.grh.dgid, &attr.grh.dgid, sizeof back.grh.dgid);
        assert_int_equal(ibv_destroy_ah(to), 0);
        assert_int_equal(ibv_destroy_qp(a), 0);
        assert_int_equal(ibv_destroy_qp(b), 0);
    }
}

static void answer_finds_its_way_by_the_completion(void **state)
{
    struct ibv_qp *a = roce_ud_ready(&bench), *b = roce_ud_ready(&bench);
    struct ibv_ah_attr attr;
    const struct ibv_ah_attr own = roce_ah_attr(bench.context);
    roce_post_recv(&bench, b, 1, 1024, 256);
    assert_int_equal(roce_ud_send(&bench, a, ah, b->qp_num, ROCE_QKEY, 8), 0);
    struct ibv_wc wc = exchanged();
    struct ibv_grh *grh = (struct ibv_grh *)(bench.buf + 1024);
    assert_int_equal(ibv_init_ah_from_wc(bench.context, 1, &wc, grh, &attr), 0);
    assert_memory_equal(&attr.grh.dgid, &own.grh.dgid, sizeof own.grh.dgid);
    assert_int_equal(attr.is_global, 1);
    struct ibv_ah *back = ibv_create_ah_from_wc(bench.pd, &wc, grh, 1);
    assert_non_null(back);
    roce_post_recv(&bench, a, 2, 2048, 256);
    assert_int_equal(roce_ud_send(&bench, b, back, wc.src_qp, ROCE_QKEY, 8), 0);
    assert_int_equal(exchanged().src_qp, b->qp_num);
    assert_int_equal(ibv_destroy_ah(back), 0);
    // A port that there is not, a completion without a header, and octets that are none.
    assert_int_equal(ibv_init_ah_from_wc(bench.context, 2, &wc, grh, &attr), -1);
    assert_int_equal(errno, EINVAL);
    wc.wc_flags = 0;
    assert_null(ibv_create_ah_from_wc(bench.pd, &wc, grh, 1));
    wc.wc_flags = IBV_WC_GRH;
    memset(grh, 0x77, sizeof *grh);
    assert_int_equal(ibv_init_ah_from_wc(bench.context, 1, &wc, grh, &attr), -1);
    assert_int_equal(ibv_destroy_qp(a), 0);
    assert_int_equal(ibv_destroy_qp(b), 0);
}

static void datagram_with_another_qkey_is_dropped(void **state)
{
    struct ibv_qp *a = roce_ud_ready(&bench), *b = roce_ud_ready(&bench);
    roce_post_recv(&bench, b, 1, 1024, 256);
    assert_int_equal(roce_ud_send(&bench, a, ah, b->qp_num, ROCE_QKEY + 1, 8), 0);
    struct ibv_wc wc = bench_poll(bench.cq);
    assert_int_equal(wc.opcode, IBV_WC_SEND);
    // What is sent behind it arrives: the one before did not take the receive.
    assert_int_equal(roce_ud_send(&bench, a, ah, b->qp_num, ROCE_QKEY, 16), 0);
    assert_int_equal(exchanged().byte_len, ROCE_GRH_LEN + 16);
    assert_int_equal(ibv_destroy_qp(a), 0);
    assert_int_equal(ibv_destroy_qp(b), 0);
}

static void extended_queue_pair_says_to_whom(void **state)
{
    struct ibv_qp_init_attr_ex attr = {
        .send_cq = bench.cq,
        .recv_cq = bench.cq,
        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_UD,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .pd = bench.pd,
        .send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM,
    };
    struct ibv_qp *a = ibv_create_qp_ex(bench.context, &attr), *b = roce_ud_ready(&bench);
    assert_non_null(a);
    for (enum ibv_qp_state next = IBV_QPS_INIT; next <= IBV_QPS_RTS; next++) {
        assert_int_equal(roce_ud_modify(a, next), 0);
    }
    struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(a);
    roce_post_recv(&bench, b, 1, 1024, 256);
    ibv_wr_start(ex);
    ex->wr_id = 3;
    ex->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send_imm(ex, htonl(0x1234));
    ibv_wr_set_ud_addr(ex, ah, b->qp_num, ROCE_QKEY);
    ibv_wr_set_sge(ex, bench.mr->lkey, (uintptr_t)bench.buf, 32);
    assert_int_equal(ibv_wr_complete(ex), 0);
    struct ibv_wc wc = exchanged();
    assert_int_equal(wc.byte_len, ROCE_GRH_LEN + 32);
    assert_true((wc.wc_flags & IBV_WC_WITH_IMM) != 0);
    assert_int_equal(ntohl(wc.imm_data), 0x1234);
    ibv_wr_start(ex); // to nobody
    ibv_wr_send(ex);
    ibv_wr_set_sge(ex, bench.mr->lkey, (uintptr_t)bench.buf, 32);
    assert_int_equal(ibv_wr_complete(ex), EINVAL);
    attr.send_ops_flags = IBV_QP_EX_WITH_RDMA_READ;
    assert_null(ibv_create_qp_ex(bench.context, &attr));
    assert_int_equal(errno, EOPNOTSUPP);
    assert_int_equal(ibv_destroy_qp(a), 0);
    assert_int_equal(ibv_destroy_qp(b), 0);
}

static void address_is_refused_where_there_is_a_connection(void **state)
{
    struct ibv_qp_init_attr_ex attr = {
        .send_cq = bench.cq,
        .recv_cq = bench.cq,
        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .pd = bench.pd,
        .send_ops_flags = IBV_QP_EX_WITH_SEND,
    };
    struct ibv_qp *qp = ibv_create_qp_ex(bench.context, &attr);
    struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1};
    assert_non_null(qp);
    assert_int_equal(
        ibv_modify_qp(qp, &init,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
        0);
    struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
    ibv_wr_start(ex);
    ibv_wr_send(ex);
    ibv_wr_set_ud_addr(ex, ah, qp->qp_num, ROCE_QKEY);
    assert_int_equal(ibv_wr_complete(ex), EINVAL);
    assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void other_operations_than_sends_are_refused(void **state)
{
    struct ibv_qp *qp = roce_ud_ready(&bench);
    struct ibv_sge sge = bench_sge(&bench, 0, 8);
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_RDMA_WRITE,
                             .wr.ud = {.ah = ah, .remote_qpn = qp->qp_num}},
                       *bad;
    assert_int_not_equal(ibv_post_send(qp, &wr, &bad), 0);
    assert_ptr_equal(bad, &wr);
    assert_int_equal(ibv_destroy_qp(qp), 0);
}

static struct ibv_qp *uc_ready(void)
{
    struct ibv_qp *qp = roce_qp_create(&bench, IBV_QPT_UC);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                               .port_num = 1,
                               .qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
                               .path_mtu = IBV_MTU_1024,
                               .ah_attr = roce_ah_attr(bench.context)};
    assert_non_null(qp);
    assert_int_equal(
        ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
        0);
    attr.qp_state = IBV_QPS_RTR;
    attr.dest_qp_num = qp->qp_num; // its own peer
    assert_int_equal(
        ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN),
        0);
    attr.qp_state = IBV_QPS_RTS;
    assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
    return qp;
}

static enum ibv_wc_status done(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
    struct ibv_send_wr *bad;
    wr->send_flags = IBV_SEND_SIGNALED;
    assert_int_equal(ibv_post_send(qp, wr, &bad), 0);
    return bench_poll(bench.cq).status;
}

// Work of its own, beside what it sends.
static void unreliable_connection_binds_and_invalidates_windows(void **state)
{
    struct ibv_qp *qp = uc_ready();
    struct ibv_mw *mw = ibv_alloc_mw(bench.pd, IBV_MW_TYPE_2);
    struct ibv_sge sge = bench_sge(&bench, 0, 8);
    struct ibv_send_wr bind = {
        .opcode = IBV_WR_BIND_MW,
        .bind_mw = {.mw = mw,
                    .rkey = mw->rkey,
                    .bind_info = {.mr = bench.mr,
                                  .addr = (uintptr_t)bench.buf + 1024,
                                  .length = 8,
                                  .mw_access_flags = IBV_ACCESS_REMOTE_WRITE}}};
    struct ibv_send_wr write = {
        .opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .sg_list = &sge, .num_sge = 1};
    struct ibv_send_wr invalidate = {.opcode = IBV_WR_LOCAL_INV};
    assert_int_equal(done(qp, &bind), IBV_WC_SUCCESS);
    memcpy(bench.buf, "windowed", 8);
    memset(bench.buf + 1024, 0, 8);
    write.wr.rdma.remote_addr = (uintptr_t)bench.buf + 1024;
    write.wr.rdma.rkey = mw->rkey;
    roce_post_recv(&bench, qp, 1, 2048, 64);
    assert_int_equal(done(qp, &write), IBV_WC_SUCCESS);
    assert_int_equal(bench_poll(bench.cq).status, IBV_WC_SUCCESS);
    assert_memory_equal(bench.buf + 1024, "windowed", 8);
    invalidate.invalidate_rkey = mw->rkey;
    assert_int_equal(done(qp, &invalidate), IBV_WC_SUCCESS);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
}

// Connected to itself.
static struct ibv_qp *rc_ready(void)
{
    struct ibv_qp *qp = roce_qp_create(&bench, IBV_QPT_RC);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                               .port_num = 1,
                               .path_mtu = IBV_MTU_1024,
                               .ah_attr = roce_ah_attr(bench.context),
                               .min_rnr_timer = 1,
                               .timeout = 14,
                               .retry_cnt = 7,
                               .rnr_retry = 7};
    const int init = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    const int rtr = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    const int rts = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                    IBV_QP_MAX_QP_RD_ATOMIC;
    assert_non_null(qp);
    assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | init), 0);
    attr.qp_state = IBV_QPS_RTR;
    attr.dest_qp_num = qp->qp_num;
    assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | rtr), 0);
    attr.qp_state = IBV_QPS_RTS;
    assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | rts), 0);
    return qp;
}

static struct ibv_qp_attr told_of(struct ibv_qp *qp)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
    return attr;
}

// A Send finds no receive for a while.
static void queue_pair_says_that_it_is_draining(void **state)
{
    struct ibv_qp *qp = rc_ready();
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD};
    struct ibv_sge sge = bench_sge(&bench, 0, 8);
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1}, *bad;
    assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
    assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
    assert_int_equal(told_of(qp).qp_state, IBV_QPS_SQD);
    assert_int_equal(told_of(qp).sq_draining, 1);
    roce_post_recv(&bench, qp, 1, 1024, 64);
    assert_int_equal(bench_poll(bench.cq).status, IBV_WC_SUCCESS);
    while (told_of(qp).sq_draining) {
    }
    assert_int_equal(told_of(qp).qp_state, IBV_QPS_SQD);
    attr.qp_state = IBV_QPS_RTS;
    assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
    assert_int_equal(told_of(qp).sq_draining, 0);
    assert_int_equal(ibv_destroy_qp(qp), 0);
}

// Datagrams have no peer that could close anything; a connection has one once it is told whom.
static void one_shot_commands_are_for_connections(void **state)
{
    const struct weft_oneshot_attr attr = {.max_commands = 1,
                                           .max_memory = 1,
                                           .request = {.offset = 0, .length = 2},
                                           .answer = {.offset = 0, .length = 2},
                                           .stag_offset = 8};
    struct ibv_qp *rc = roce_qp_create(&bench, IBV_QPT_RC);
    struct ibv_qp *ud = roce_qp_create(&bench, IBV_QPT_UD);
    assert_non_null(rc);
    assert_non_null(ud);
    assert_int_equal(weft_oneshot_create(ud, &attr), EOPNOTSUPP);
    assert_int_equal(weft_oneshot_create(rc, &attr), 0);
    assert_int_equal(weft_oneshot_agreed(rc), -1);
    assert_int_equal(errno, ENOTCONN);
    assert_int_equal(ibv_destroy_qp(rc), 0);
    assert_int_equal(ibv_destroy_qp(ud), 0);
}

static void work_posted_in_reset_is_refused(void **state)
{
    struct ibv_qp *qp = roce_ud_ready(&bench);
    struct ibv_sge sge = bench_sge(&bench, 0, 8);
    struct ibv_recv_wr receive = {.sg_list = &sge, .num_sge = 1}, *bad;
    assert_int_equal(bench_modify(qp, IBV_QPS_RESET), 0);
    assert_int_equal(roce_ud_send(&bench, qp, ah, qp->qp_num, ROCE_QKEY, 8), EINVAL);
    assert_int_equal(ibv_post_recv(qp, &receive, &bad), EINVAL);
    assert_ptr_equal(bad, &receive);
    assert_int_equal(roce_ud_modify(qp, IBV_QPS_INIT), 0);
    assert_int_equal(ibv_post_recv(qp, &receive, &bad), 0);
    assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* ---- multicast ------------------------------------------------------------------------------- */

// 239.7.7.N, as programs write IPv4 groups into GIDs.
static union ibv_gid group_gid(uint8_t n)
{
    return (union ibv_gid){
        .raw = {0xff, 0x0e, [10] = 0xff, [11] = 0xff, [12] = 239, [13] = 7, [14] = 7, [15] = n}};
}

static void group_is_not_joined_or_left_by_a_queue_pair_whose_handle_was_changed(void **state)
{
    struct ibv_qp *qp = roce_ud_ready(&bench);
    const union ibv_gid group = group_gid(9);
    assert_int_equal(ibv_attach_mcast(qp, &group, 0), 0);
    qp->handle ^= 0x5500;
    assert_int_equal(ibv_attach_mcast(qp, &group, 0), ENOENT);
    assert_int_equal(ibv_detach_mcast(qp, &group, 0), ENOENT);
    qp->handle ^= 0x5500;
    assert_int_equal(ibv_detach_mcast(qp, &group, 0), 0);
    assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void datagram_to_a_group_is_for_those_attached(void **state)
{
    struct ibv_qp *a = roce_ud_ready(&bench), *b = roce_ud_ready(&bench);
    struct ibv_ah_attr attr = roce_ah_attr(bench.context);
    const union ibv_gid group = group_gid(1);
    attr.grh.dgid = group;
    struct ibv_ah *to_group = ibv_create_ah(bench.pd, &attr);
    assert_non_null(to_group);
    assert_int_equal(ibv_attach_mcast(b, &group, 0), 0);
    roce_post_recv(&bench, b, 1, 1024, 256);
    assert_int_equal(roce_ud_send(&bench, a, to_group, 0xffffff, ROCE_QKEY, 24), 0);
    struct ibv_wc wc = exchanged();
    assert_int_equal(wc.byte_len, ROCE_GRH_LEN + 24);
    assert_int_equal(wc.src_qp, a->qp_num);
    for (unsigned i = 0; i < 64; i++) { // once, whatever addresses the host has
        roce_post_recv(&bench, b, 2, 1024, 256);
        assert_int_equal(roce_ud_send(&bench, a, ah, b->qp_num, ROCE_QKEY, 8), 0);
        assert_int_equal(exchanged().byte_len, ROCE_GRH_LEN + 8);
    }
    assert_int_equal(ibv_detach_mcast(b, &group, 0), 0);
    assert_int_equal(ibv_detach_mcast(b, &group, 0), EINVAL);
    assert_int_equal(ibv_destroy_ah(to_group), 0);
    assert_int_equal(ibv_destroy_qp(a), 0);
    assert_int_equal(ibv_destroy_qp(b), 0);
}

static void domain_of_an_address_handle_is_in_use(void **state)
{
    struct ibv_ah_attr attr = roce_ah_attr(bench.context);
    struct ibv_pd *pd = ibv_alloc_pd(bench.context);
    struct ibv_ah *handle = ibv_create_ah(pd, &attr);
    assert_non_null(handle);
    assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
    assert_int_equal(ibv_destroy_ah(handle), 0);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void queue_pair_in_a_group_is_in_use(void **state)
{
    struct ibv_qp *qp = roce_ud_ready(&bench);
    const union ibv_gid group = group_gid(2);
    assert_int_equal(ibv_attach_mcast(qp, &group, 0), 0);
    assert_int_equal(ibv_destroy_qp(qp), EBUSY);
    assert_int_equal(ibv_detach_mcast(qp, &group, 0), 0);
    assert_int_equal(ibv_destroy_qp(qp), 0);
}

// As the kernel keeps it: there is nothing to be detached a second time.
static void queue_pair_is_in_a_group_once_however_often_it_is_attached(void **state)
{
    struct ibv_qp *qp = roce_ud_ready(&bench);
    const union ibv_gid group = group_gid(3);
    assert_int_equal(ibv_attach_mcast(qp, &group, 0), 0);
    assert_int_equal(ibv_attach_mcast(qp, &group, 0), 0);
    assert_int_equal(ibv_detach_mcast(qp, &group, 0), 0);
    assert_int_equal(ibv_detach_mcast(qp, &group, 0), EINVAL);
    assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void address_that_is_no_group_is_not_attached(void **state)
{
    struct ibv_qp *qp = roce_ud_ready(&bench);
    struct ibv_qp *rc = roce_qp_create(&bench, IBV_QPT_RC);
    const struct ibv_ah_attr attr = roce_ah_attr(bench.context);
    const union ibv_gid group = group_gid(2);
    assert_int_equal(ibv_attach_mcast(qp, &attr.grh.dgid, 0), EINVAL);
    assert_int_equal(ibv_attach_mcast(rc, &group, 0), EINVAL);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_qp(rc), 0);
}

/* ---- attributes ------------------------------------------------------------------------------ */

// ibv_create_qp(3): RC and UD alone.
static void shared_receive_queue_is_not_for_unreliable_connections(void **state)
{
    struct ibv_srq_init_attr init = {.attr = {.max_wr = 4, .max_sge = 1}};
    struct ibv_srq *srq = ibv_create_srq(bench.pd, &init);
    const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UD, IBV_QPT_UC};
    assert_non_null(srq);
    for (unsigned i = 0; i < 3; i++) {
        struct ibv_qp_init_attr attr = bench_qp_attr(bench.cq);
        attr.qp_type = types[i];
        attr.srq = srq;
        struct ibv_qp *qp = ibv_create_qp(bench.pd, &attr);
        assert_int_equal(qp == NULL, types[i] == IBV_QPT_UC);
        assert_int_equal(qp != NULL ? ibv_destroy_qp(qp) : errno, qp != NULL ? 0 : EINVAL);
    }
    assert_int_equal(ibv_destroy_srq(srq), 0);
}

static void attributes_of_datagrams_are_told_again(void **state)
{
    struct ibv_qp *qp = roce_ud_ready(&bench);
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE | IBV_QP_QKEY, &init), 0);
    assert_int_equal(attr.qp_state, IBV_QPS_RTS);
    assert_int_equal(attr.qkey, ROCE_QKEY);
    assert_int_equal(attr.sq_psn, 0xfffffe);
    assert_int_equal(init.qp_type, IBV_QPT_UD);
    attr.qkey = 5;
    assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_QKEY), 0); // in RTS without a state
    attr.ah_attr = roce_ah_attr(bench.context); // a good one, which datagrams have no use for
    assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_AV), EINVAL);
    assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_QKEY, &init), 0);
    assert_int_equal(attr.qkey, 5);
    assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void reset_takes_back_what_was_not_polled(void **state)
{
    struct ibv_qp *qp = roce_ud_ready(&bench), *other = roce_ud_ready(&bench);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    struct ibv_wc wc;
    roce_post_recv(&bench, qp, 1, 0, 64);
    roce_post_recv(&bench, other, 2, 0, 64);
    assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
    assert_int_equal(ibv_modify_qp(other, &attr, IBV_QP_STATE), 0);
    attr.qp_state = IBV_QPS_RESET;
    assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
    assert_int_equal(ibv_poll_cq(bench.cq, 1, &wc), 1); // another queue pair's stays
    assert_int_equal(wc.wr_id, 2);
    assert_int_equal(ibv_poll_cq(bench.cq, 1, &wc), 0);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_qp(other), 0);
}

// To RTS and back for each kind of queue pair, through the table of test_transition.
static void attributes_that_are_missing_are_refused(void **state)
{
    struct ibv_qp *qp = roce_qp_create(&bench, IBV_QPT_UD);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
    assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT),
                     EINVAL);
    assert_int_equal(
        ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
        EINVAL);
    assert_int_equal(roce_ud_modify(qp, IBV_QPS_INIT), 0);
    assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* ---- what rxe has not either ----------------------------------------------------------------- */

static void expect_no_queue_pair(enum ibv_qp_type type)
{
    struct ibv_qp_init_attr_ex attr = {.qp_type = type,
                                       .send_cq = bench.cq,
                                       .recv_cq = bench.cq,
                                       .cap = {1, 1, 1, 1, 0},
                                       .pd = bench.pd,
                                       .comp_mask = IBV_QP_INIT_ATTR_PD};
    assert_null(ibv_create_qp_ex(bench.context, &attr));
    assert_int_equal(errno, EOPNOTSUPP);
}

// As by rdma-core's provider of rxe, which leaves them out, and by rxe_qp_chk_init in the kernel.
static void objects_that_rxe_has_not_are_refused_as_there(void **state)
{
    struct ibv_xrcd_init_attr xrcd = {.fd = -1,
                                      .oflags = O_CREAT,
                                      .comp_mask =
                                          IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS};
    struct ibv_alloc_dm_attr dm = {.length = 64};
    struct ibv_flow_attr flow = {.size = sizeof flow};
    struct ibv_counters_init_attr counters = {0};
    struct ibv_wq_init_attr wq = {
        .wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1, .pd = bench.pd, .cq = bench.cq};
    struct ibv_rwq_ind_table_init_attr table = {0};
    struct ibv_qp *qp = roce_qp_create(&bench, IBV_QPT_UD);
#define EXPECT_NONE(call) \
    errno = 0;            \
    assert_null(call);    \
    assert_int_equal(errno, EOPNOTSUPP)
    EXPECT_NONE(ibv_open_xrcd(bench.context, &xrcd));
    EXPECT_NONE(ibv_alloc_dm(bench.context, &dm));
    EXPECT_NONE(ibv_alloc_null_mr(bench.pd));
    EXPECT_NONE(ibv_reg_dmabuf_mr(bench.pd, 0, 64, 0, -1, 0));
    EXPECT_NONE(ibv_create_flow(qp, &flow));
    EXPECT_NONE(ibv_create_counters(bench.context, &counters));
    EXPECT_NONE(ibv_create_wq(bench.context, &wq));
    EXPECT_NONE(ibv_create_rwq_ind_table(bench.context, &table));
    EXPECT_NONE(ibv_import_pd(bench.context, bench.pd->handle));
    EXPECT_NONE(ibv_import_mr(bench.pd, 0));
    EXPECT_NONE(ibv_import_dm(bench.context, 0));
    EXPECT_NONE(ibv_import_device(bench.context->cmd_fd));
#undef EXPECT_NONE
    expect_no_queue_pair(IBV_QPT_XRC_SEND);
    expect_no_queue_pair(IBV_QPT_XRC_RECV);
    expect_no_queue_pair(IBV_QPT_RAW_PACKET);
    expect_no_queue_pair(IBV_QPT_DRIVER);
    assert_int_equal(ibv_destroy_qp(qp), 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(device_is_a_channel_adapter_on_ethernet),
        CASE(all_ways_to_a_gid_tell_the_same),
        CASE(answer_leaves_from_the_gid_that_was_written_to),
        CASE(file_of_the_gid_says_its_type),
        CASE(iwarp_device_stays_beside_it),
        CASE(handle_without_a_way_is_refused),
        CASE(address_that_leads_nowhere_is_refused),
        CASE(handle_whose_number_was_changed_is_not_destroyed),
        CASE(handle_of_another_domain_is_refused),
        CASE(datagram_arrives_behind_40_octets_that_say_from_where),
        CASE(answer_finds_its_way_by_the_completion),
        CASE(datagram_with_another_qkey_is_dropped),
        CASE(extended_queue_pair_says_to_whom),
        CASE(address_is_refused_where_there_is_a_connection),
        CASE(other_operations_than_sends_are_refused),
        CASE(unreliable_connection_binds_and_invalidates_windows),
        CASE(queue_pair_says_that_it_is_draining),
        CASE(one_shot_commands_are_for_connections),
        CASE(work_posted_in_reset_is_refused),
        CASE(group_is_not_joined_or_left_by_a_queue_pair_whose_handle_was_changed),
        CASE(datagram_to_a_group_is_for_those_attached),
        CASE(domain_of_an_address_handle_is_in_use),
        CASE(queue_pair_in_a_group_is_in_use),
        CASE(queue_pair_is_in_a_group_once_however_often_it_is_attached),
        CASE(address_that_is_no_group_is_not_attached),
        CASE(shared_receive_queue_is_not_for_unreliable_connections),
        CASE(attributes_of_datagrams_are_told_again),
        CASE(reset_takes_back_what_was_not_polled),
        CASE(attributes_that_are_missing_are_refused),
        CASE(objects_that_rxe_has_not_are_refused_as_there),
    };
    roce_port_of_own();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
