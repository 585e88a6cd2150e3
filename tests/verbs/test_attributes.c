// What the device tells of itself, field by field: programs size their queues by it, and choose
// their code by its names and numbers. docs/verbs.md says what the limits mean.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tests/verbs/bench.h"

// Not in the public header, but exported for programs that were built against an older one.
ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
                             size_t max_entries, uint32_t flags, size_t entry_size);
int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index,
                      struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size);
int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index,
                       int *type);
const char *ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);
int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);

static int setup(void **state)
{
    *state = bench_open();
    return 0;
}

static int teardown(void **state)
{
    return ibv_close_device(*state);
}

/* ---- the device ------------------------------------------------------------------------------ */

static void device_tells_these_limits(void **state)
{
    struct ibv_device_attr attr;
    memset(&attr, 0xee, sizeof attr);
    assert_int_equal(ibv_query_device(*state, &attr), 0);
    assert_true(attr.max_mr_size == INT64_MAX);
    assert_int_equal(attr.max_qp, 65536);
    assert_int_equal(attr.max_qp_wr, 32768);
    assert_int_equal(attr.max_cq, 65536);
    assert_int_equal(attr.max_mr, 196608);
    assert_int_equal(attr.max_mw, 32768);
    assert_int_equal(attr.max_srq, 65536);
    assert_int_equal(attr.max_srq_wr, 32768);
    assert_int_equal(attr.max_srq_sge, attr.max_sge);
    assert_int_equal(attr.max_sge_rd, attr.max_sge);
    assert_int_equal(attr.max_qp_rd_atom, 128);
    assert_int_equal(attr.max_qp_init_rd_atom, attr.max_qp_rd_atom);
    assert_int_equal(attr.max_res_rd_atom, attr.max_qp_rd_atom * attr.max_qp);
    assert_int_equal(attr.max_pkeys, 1);
    assert_int_equal(attr.phys_port_cnt, 1);
    assert_true((attr.page_size_cap & (uint64_t)sysconf(_SC_PAGESIZE)) != 0);
    assert_int_equal(attr.page_size_cap & ((uint64_t)sysconf(_SC_PAGESIZE) - 1), 0);
}

static void device_tells_what_it_is(void **state)
{
    struct ibv_context *context = *state;
    struct ibv_device_attr attr;
    assert_int_equal(ibv_query_device(context, &attr), 0);
    assert_true(attr.node_guid == ibv_get_device_guid(context->device));
    assert_true(attr.sys_image_guid == attr.node_guid);
    assert_int_equal(attr.vendor_id, 0x027766);
    assert_int_equal(attr.vendor_part_id, 0x7766);
    assert_int_equal(attr.hw_ver, 1);
    assert_true(attr.fw_ver[0] != '\0');
    assert_int_equal(attr.atomic_cap, IBV_ATOMIC_HCA);
    assert_int_equal(attr.device_cap_flags, IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B |
                                                IBV_DEVICE_MEM_MGT_EXTENSIONS |
                                                IBV_DEVICE_SYS_IMAGE_GUID |
                                                IBV_DEVICE_CURR_QP_STATE_MOD);
    assert_int_equal(ibv_get_device_index(context->device), 0);
}

// Fields that are of what an iWARP device does not have.
static void device_has_none_of_what_iwarp_lacks(void **state)
{
    struct ibv_device_attr attr;
    assert_int_equal(ibv_query_device(*state, &attr), 0);
    assert_int_equal(attr.max_ah, 0);
    assert_int_equal(attr.max_ee, 0);
    assert_int_equal(attr.max_rdd, 0);
    assert_int_equal(attr.max_raw_ipv6_qp, 0);
    assert_int_equal(attr.max_raw_ethy_qp, 0);
    assert_int_equal(attr.max_mcast_grp, 0);
    assert_int_equal(attr.max_fmr, 0);
    assert_int_equal(attr.local_ca_ack_delay, 0);
}

static void extended_query_tells_more(void **state)
{
    struct ibv_device_attr_ex attr;
    struct ibv_query_device_ex_input input = {.comp_mask = 1};
    assert_int_equal(ibv_query_device_ex(*state, NULL, &attr), 0);
    assert_true(attr.completion_timestamp_mask == UINT64_MAX);
    assert_int_equal(attr.hca_core_clock, 1000000); // kHz: nanoseconds
    assert_int_equal(attr.cq_mod_caps.max_cq_count, UINT16_MAX);
    assert_int_equal(attr.cq_mod_caps.max_cq_period, UINT16_MAX);
    assert_true(attr.device_cap_flags_ex == attr.orig_attr.device_cap_flags);
    assert_int_equal(attr.phys_port_cnt_ex, 1);
    assert_int_equal(attr.odp_caps.per_transport_caps.ud_odp_caps, 0);
    assert_int_equal(attr.max_wq_type_rq, 0);
    assert_int_equal(attr.tso_caps.max_tso, 0);
    assert_int_equal(ibv_query_device_ex(*state, &input, &attr), EINVAL);
    input.comp_mask = 0;
    assert_int_equal(ibv_query_device_ex(*state, &input, &attr), 0);
}

static void attributes_too_short_for_the_first_of_all_are_refused(void **state)
{
    struct verbs_context *verbs = verbs_get_ctx((struct ibv_context *)*state);
    struct ibv_device_attr_ex attr;
    const size_t least = sizeof attr.orig_attr;
    assert_int_equal(verbs->query_device_ex(*state, NULL, &attr, least - 1), EINVAL);
    assert_int_equal(verbs->query_device_ex(*state, NULL, &attr, least), 0);
}

// The table of calls that programs built before the extended context go through.
static void call_through_the_old_table_answers_the_same(void **state)
{
    struct ibv_context *context = *state;
    struct ibv_device_attr old, now;
    assert_int_equal(context->ops._compat_query_device(context, &old), 0);
    assert_int_equal(ibv_query_device(context, &now), 0);
    assert_memory_equal(&old, &now, sizeof now);
}

static void device_clock_is_that_of_completions(void **state)
{
    struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK | 1U << 20,
                                   .raw_clock = {.tv_sec = 7}};
    struct timespec before, after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    assert_int_equal(ibv_query_rt_values_ex(*state, &values), 0);
    clock_gettime(CLOCK_MONOTONIC, &after);
    assert_int_equal(values.comp_mask, IBV_VALUES_MASK_RAW_CLOCK);
    assert_int_equal(values.raw_clock.tv_sec, 0);
    assert_in_range(values.raw_clock.tv_nsec, before.tv_sec * 1000000000 + before.tv_nsec,
                    after.tv_sec * 1000000000 + after.tv_nsec);
    values = (struct ibv_values_ex){.comp_mask = 0, .raw_clock = {.tv_nsec = 7}};
    assert_int_equal(ibv_query_rt_values_ex(*state, &values), 0);
    assert_int_equal(values.raw_clock.tv_nsec, 7);
}

/* ---- the port -------------------------------------------------------------------------------- */

static void port_tells_these(void **state)
{
    struct ibv_port_attr attr;
    memset(&attr, 0xee, sizeof attr);
    assert_int_equal(ibv_query_port(*state, 1, &attr), 0);
    assert_int_equal(attr.state, IBV_PORT_ACTIVE);
    assert_int_equal(attr.max_mtu, IBV_MTU_4096);
    assert_int_equal(attr.active_mtu, IBV_MTU_4096);
    assert_int_equal(attr.port_cap_flags, IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS);
    assert_true(attr.max_msg_sz == 1U << 31);
    assert_int_equal(attr.gid_tbl_len, 1);
    assert_int_equal(attr.pkey_tbl_len, 1);
    assert_int_equal(attr.max_vl_num, 1);
    assert_int_equal(attr.active_width, 2);  // 4X
    assert_int_equal(attr.active_speed, 32); // of 25 Gbit/s
    assert_int_equal(attr.phys_state, 5);    // link up
    assert_int_equal(attr.link_layer, IBV_LINK_LAYER_ETHERNET);
    assert_int_equal(attr.lid, 0);
    assert_int_equal(attr.sm_lid, 0);
    assert_int_equal(attr.port_cap_flags2, 0);
}

// Behind the extended query stands an older one, whose structure ends earlier.
#undef ibv_query_port
static void old_port_query_stays_within_its_structure(void **state)
{
    union {
        struct ibv_port_attr attr;
        uint8_t octets[sizeof(struct ibv_port_attr)];
    } told;
    const size_t old_len = offsetof(struct ibv_port_attr, port_cap_flags2);
    memset(&told, 0xee, sizeof told);
    int (*query)(struct ibv_context *, uint8_t, struct _compat_ibv_port_attr *) = ibv_query_port;
    assert_int_equal(query(*state, 1, (struct _compat_ibv_port_attr *)&told), 0);
    assert_int_equal(told.attr.state, IBV_PORT_ACTIVE);
    assert_int_equal(told.attr.flags, 0);
    assert_int_equal(told.octets[old_len], 0xee);
    assert_int_equal(query(*state, 2, (struct _compat_ibv_port_attr *)&told), EINVAL);
}

static void partition_keys_are_the_default_one(void **state)
{
    __be16 pkey = 0;
    errno = 0;
    assert_int_equal(ibv_query_pkey(*state, 2, 0, &pkey), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(ibv_query_pkey(*state, 1, -1, &pkey), -1);
    assert_int_equal(pkey, 0);
    assert_int_equal(ibv_query_pkey(*state, 1, 0, &pkey), 0);
    assert_int_equal(pkey, 0xffff);
    errno = 0;
    assert_int_equal(ibv_get_pkey_index(*state, 2, 0xffff), -1);
    assert_int_equal(errno, EINVAL);
}

/* ---- the GID --------------------------------------------------------------------------------- */

static void entry_of_the_gid_table_is_whole(void **state)
{
    struct ibv_gid_entry entry;
    union ibv_gid gid;
    static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};
    char name[IF_NAMESIZE];
    memset(&entry, 0xee, sizeof entry);
    assert_int_equal(ibv_query_gid_ex(*state, 1, 0, &entry, 0), 0);
    assert_int_equal(entry.gid_index, 0);
    assert_int_equal(entry.port_num, 1);
    assert_int_equal(entry.gid_type, IBV_GID_TYPE_IB);
    assert_non_null(if_indextoname(entry.ndev_ifindex, name));
    assert_memory_equal(entry.gid.raw, prefix, sizeof prefix);
    assert_int_equal(ibv_query_gid(*state, 1, 0, &gid), 0);
    assert_memory_equal(&entry.gid, &gid, sizeof gid);
}

static void entries_of_another_length_are_filled_as_far_as_they_go(void **state)
{
    struct ibv_gid_entry whole;
    uint8_t octets[sizeof whole + 8];
    const size_t older = offsetof(struct ibv_gid_entry, ndev_ifindex);
    assert_int_equal(_ibv_query_gid_ex(*state, 1, 0, &whole, 0, sizeof whole), 0);
    memset(octets, 0xee, sizeof octets);
    assert_int_equal(
        _ibv_query_gid_table(*state, (struct ibv_gid_entry *)octets, 1, 0, sizeof octets), 1);
    assert_memory_equal(octets, &whole, sizeof whole);
    assert_int_equal(octets[sizeof octets - 1], 0);
    memset(octets, 0xee, sizeof octets);
    assert_int_equal(_ibv_query_gid_ex(*state, 1, 0, (struct ibv_gid_entry *)octets, 0, older), 0);
    assert_memory_equal(octets, &whole, older);
    assert_int_equal(octets[older], 0xee);
}

static void wrong_looks_into_the_gid_table_are_refused(void **state)
{
    struct ibv_gid_entry entry;
    int type = 7;
    assert_int_equal(_ibv_query_gid_ex(*state, 1, 0, &entry, 1, sizeof entry), EOPNOTSUPP);
    assert_int_equal(_ibv_query_gid_ex(*state, 1, 0, &entry, 0, 0), EINVAL);
    assert_int_equal(_ibv_query_gid_table(*state, &entry, 1, 1, sizeof entry), -EOPNOTSUPP);
    assert_int_equal(_ibv_query_gid_table(*state, &entry, 1, 0, 0), -EINVAL);
    assert_int_equal(_ibv_query_gid_table(*state, &entry, 2, 0, sizeof entry), 1);
    errno = 0;
    assert_int_equal(ibv_query_gid_type(*state, 2, 0, &type), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(ibv_query_gid_type(*state, 1, 1, &type), -1);
    assert_int_equal(type, 7);
    assert_int_equal(ibv_query_gid_type(*state, 1, 0, &type), 0);
    assert_int_equal(type, 0);
}

/* ---- queue pairs ----------------------------------------------------------------------------- */

static void queue_pair_tells_what_it_was_made_of(void **state)
{
    struct bench b;
    bench_init(&b);
    struct ibv_cq *other = ibv_create_cq(b.context, 1, NULL, NULL, 0);
    struct ibv_qp_init_attr attr = bench_qp_attr(b.cq), init;
    struct ibv_qp_attr told;
    attr.recv_cq = other;
    attr.qp_context = &b;
    attr.sq_sig_all = 1;
    attr.cap.max_inline_data = 100;
    struct ibv_qp *qp = ibv_create_qp(b.pd, &attr);
    assert_non_null(qp);
    assert_true(qp->context == b.context && qp->pd == b.pd && qp->qp_context == &b);
    assert_true(qp->send_cq == b.cq && qp->recv_cq == other && qp->srq == NULL);
    assert_int_equal(qp->handle, qp->qp_num);
    assert_int_equal(qp->qp_type, IBV_QPT_RC);
    assert_true(attr.cap.max_inline_data >= 100);
    memset(&init, 0xee, sizeof init);
    assert_int_equal(ibv_query_qp(qp, &told, IBV_QP_STATE, &init), 0);
    assert_true(init.qp_context == &b && init.send_cq == b.cq && init.recv_cq == other);
    assert_int_equal(init.qp_type, IBV_QPT_RC);
    assert_int_equal(init.sq_sig_all, 1);
    assert_null(init.srq);
    assert_int_equal(told.cur_qp_state, IBV_QPS_RESET);
    assert_int_equal(told.port_num, 1);
    assert_int_equal(told.path_mtu, IBV_MTU_4096);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_cq(other), 0);
    bench_fini(&b);
}

static void shared_queue_tells_what_it_was_made_of(void **state)
{
    struct bench b;
    bench_init(&b);
    struct ibv_srq_init_attr init = {.srq_context = &b, .attr = {.max_wr = 4, .max_sge = 2}};
    struct ibv_srq *srq = ibv_create_srq(b.pd, &init);
    struct ibv_srq_attr told;
    assert_true(srq->context == b.context && srq->pd == b.pd && srq->srq_context == &b);
    told.srq_limit = init.attr.max_wr;
    assert_int_equal(ibv_modify_srq(srq, &told, IBV_SRQ_LIMIT), 0);
    told.srq_limit = init.attr.max_wr + 1;
    assert_int_equal(ibv_modify_srq(srq, &told, IBV_SRQ_LIMIT), EINVAL);
    assert_int_equal(ibv_query_srq(srq, &told), 0);
    assert_true(told.max_sge >= 2 && told.max_wr == init.attr.max_wr);
    assert_int_equal(ibv_destroy_srq(srq), 0);
    bench_fini(&b);
}

// A channel counts the queues that tell through it, and stays while there is one.
static void channel_counts_its_queues(void **state)
{
    struct bench b;
    bench_init(&b);
    assert_int_equal(b.channel->refcnt, 1);
    struct ibv_cq *second = ibv_create_cq(b.context, 1, NULL, b.channel, 0);
    assert_int_equal(b.channel->refcnt, 2);
    assert_int_equal(ibv_destroy_cq(second), 0);
    assert_int_equal(b.channel->refcnt, 1);
    assert_int_equal(ibv_destroy_comp_channel(b.channel), EBUSY);
    bench_fini(&b);
}

static void region_may_move_to_another_domain(void **state)
{
    struct bench b;
    bench_init(&b);
    struct ibv_pd *other = ibv_alloc_pd(b.context);
    assert_int_equal(ibv_rereg_mr(b.mr, IBV_REREG_MR_CHANGE_PD, other, NULL, 0, 0), 0);
    assert_ptr_equal(b.mr->pd, other);
    assert_ptr_equal(b.mr->addr, b.buf);
    assert_int_equal(ibv_dealloc_pd(other), EBUSY);
    assert_int_equal(ibv_rereg_mr(b.mr, IBV_REREG_MR_CHANGE_PD, b.pd, NULL, 0, 0), 0);
    assert_int_equal(ibv_dealloc_pd(other), 0);
    bench_fini(&b);
}

static void region_tells_what_it_was_made_of(void **state)
{
    struct bench b;
    bench_init(&b);
    assert_true(b.mr->context == b.context && b.mr->pd == b.pd);
    assert_true(b.mr->addr == b.buf && b.mr->length == sizeof b.buf);
    assert_int_equal(b.mr->lkey, b.mr->rkey);
    assert_int_equal(b.mr->handle, b.mr->lkey);
    struct ibv_mw *mw = ibv_alloc_mw(b.pd, IBV_MW_TYPE_1);
    assert_true(mw->context == b.context && mw->pd == b.pd && mw->type == IBV_MW_TYPE_1);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
    bench_fini(&b);
}

/* ---- files and forks ------------------------------------------------------------------------- */

// The file `name` with these contents in a folder of this test.
static void expect_read(const char *dir, const char *text, size_t size, int result, const char *got)
{
    char path[128], buf[64];
    snprintf(path, sizeof path, "%s/name", dir);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    memset(buf, 0xee, sizeof buf);
    assert_int_equal(ibv_read_sysfs_file(dir, "name", buf, size), result);
    if (result > 0) {
        assert_string_equal(buf, got);
    }
    assert_int_equal((uint8_t)buf[size], 0xee);
    unlink(path);
}

static void files_of_sysfs_are_read_without_their_newline(void **state)
{
    char dir[] = "/tmp/weft-test-XXXXXX", buf[8];
    assert_non_null(mkdtemp(dir));
    assert_string_equal(ibv_get_sysfs_path(), "/sys");
    expect_read(dir, "active\n", 16, 6, "active");
    expect_read(dir, "active", 16, 6, "active");
    expect_read(dir, "active\n", 7, 6, "active");
    expect_read(dir, "active", 6, -1, NULL); // no room for the end
    expect_read(dir, "", 8, 0, NULL);
    assert_int_equal(ibv_read_sysfs_file(dir, "none", buf, sizeof buf), -1);
    rmdir(dir);
    char *deep = malloc(8192);
    memset(deep, 'a', 8191);
    deep[8191] = '\0';
    assert_int_equal(ibv_read_sysfs_file("/tmp", deep, buf, sizeof buf), -1);
    free(deep);
}

static void no_memory_has_to_be_kept_from_a_child(void **state)
{
    char octets[64];
    assert_int_equal(ibv_dontfork_range(octets, sizeof octets), 0);
    assert_int_equal(ibv_dofork_range(octets, sizeof octets), 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(device_tells_these_limits),
        CASE(device_tells_what_it_is),
        CASE(device_has_none_of_what_iwarp_lacks),
        CASE(extended_query_tells_more),
        CASE(attributes_too_short_for_the_first_of_all_are_refused),
        CASE(call_through_the_old_table_answers_the_same),
        CASE(device_clock_is_that_of_completions),
        CASE(port_tells_these),
        CASE(old_port_query_stays_within_its_structure),
        CASE(partition_keys_are_the_default_one),
        CASE(entry_of_the_gid_table_is_whole),
        CASE(entries_of_another_length_are_filled_as_far_as_they_go),
        CASE(wrong_looks_into_the_gid_table_are_refused),
        CASE(queue_pair_tells_what_it_was_made_of),
        CASE(shared_queue_tells_what_it_was_made_of),
        CASE(channel_counts_its_queues),
        CASE(region_may_move_to_another_domain),
        CASE(region_tells_what_it_was_made_of),
        CASE(files_of_sysfs_are_read_without_their_newline),
        CASE(no_memory_has_to_be_kept_from_a_child),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
