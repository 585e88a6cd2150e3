#include <arpa/inet.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/verbs/bench.h"

// Descriptors and threads of this process.
static int entry_count(const char *path)
{
    int count = 0;
    DIR *dir = opendir(path);
    assert_non_null(dir);
    while (readdir(dir) != NULL) {
        count++;
    }
    closedir(dir);
    return count;
}

// Libraries that link libibverbs list devices in programs that never use one. (First in main.)
static void listing_opens_nothing_and_starts_nothing(void **state)
{
    int fd_count = entry_count("/proc/self/fd");
    int count;
    struct ibv_device **list = ibv_get_device_list(&count);
    assert_int_equal(count, 2);
    assert_string_equal(ibv_get_device_name(list[0]), "weft0");
    assert_string_equal(ibv_get_device_name(list[1]), "weft_roce0");
    assert_null(list[2]);
    ibv_free_device_list(list);
    assert_int_equal(entry_count("/proc/self/fd"), fd_count);
    assert_int_equal(entry_count("/proc/self/task"), 2 + 1); // ".", ".." and one thread
}

static void device_is_an_rnic_of_iwarp(void **state)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    assert_string_equal(ibv_get_device_name(list[0]), "weft0");
    assert_int_equal(list[0]->node_type, IBV_NODE_RNIC);
    assert_int_equal(list[0]->transport_type, IBV_TRANSPORT_IWARP);
    ibv_free_device_list(list);
}

static void room_behind_the_device_is_zero(void **state)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    const uint8_t *tail = (const uint8_t *)(list[0] + 1);
    for (int i = 0; i < 256; i++) {
        assert_int_equal(tail[i], 0);
    }
    ibv_free_device_list(list);
}

static void guid_is_local_and_stays(void **state)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    __be64 guid = ibv_get_device_guid(list[0]);
    assert_int_equal(((uint8_t *)&guid)[0] & 3, 2);
    assert_true(guid == ibv_get_device_guid(list[0]));
    ibv_free_device_list(list);
}

static void files_of_the_device_are_there_while_it_is_open(void **state)
{
    struct ibv_context *context = bench_open();
    char path[512], line[64] = "";
    assert_non_null(strstr(context->device->ibdev_path, "/virtual/"));
    snprintf(path, sizeof path, "%s/node_type", context->device->ibdev_path);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file));
    assert_string_equal(line, "4: RNIC\n");
    fclose(file);
    snprintf(path, sizeof path, "%s/ibdev", context->device->dev_path);
    assert_int_equal(access(path, R_OK), 0);
    assert_int_equal(ibv_close_device(context), 0);
}

static void context_is_extended_and_has_real_descriptors(void **state)
{
    struct ibv_context *context = bench_open();
    struct stat st;
    assert_non_null(verbs_get_ctx(context));
    assert_int_equal(verbs_get_ctx(context)->sz, sizeof(struct verbs_context));
    assert_int_equal(fstat(context->cmd_fd, &st), 0);
    assert_int_equal(fstat(context->async_fd, &st), 0);
    assert_true(context->num_comp_vectors >= 1);
    assert_int_equal(ibv_close_device(context), 0);
}

static void closing_gives_the_descriptors_back(void **state)
{
    assert_int_equal(ibv_close_device(bench_open()), 0); // the device itself stays up
    int fd_count = entry_count("/proc/self/fd");
    assert_int_equal(ibv_close_device(bench_open()), 0);
    assert_int_equal(entry_count("/proc/self/fd"), fd_count);
}

// Each of the descriptors that an open device has may be one too many.
static void opening_without_descriptors_is_refused_by_name(void **state)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct rlimit limit, least;
    assert_int_equal(ibv_close_device(bench_open()), 0); // the device itself stays up
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    int free_fd = dup(STDERR_FILENO), refused = 0;
    close(free_fd);
    struct ibv_context *context = NULL;
    for (rlim_t more = 0; context == NULL; more++) {
        least = (struct rlimit){.rlim_cur = (rlim_t)free_fd + more, .rlim_max = limit.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &least), 0);
        errno = 0;
        context = ibv_open_device(list[0]);
        int error = errno;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        assert_true(context != NULL || error == EMFILE);
        refused += context == NULL;
    }
    assert_true(refused >= 2);
    assert_int_equal(ibv_close_device(context), 0);
    ibv_free_device_list(list);
    int again = dup(STDERR_FILENO);
    assert_int_equal(again, free_fd); // nothing was left behind
    close(again);
}

// Garbage collectors do it in this order: Python's, for pyverbs.
static void objects_may_be_destroyed_behind_the_device(void **state)
{
    static struct bench b;
    ibv_close_device(bench_open()); // the device itself stays up
    int fd_count = entry_count("/proc/self/fd");
    bench_init(&b);
    struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 1, .max_sge = 1}};
    struct ibv_srq *srq = ibv_create_srq(b.pd, &srq_attr);
    struct ibv_mw *mw = ibv_alloc_mw(b.pd, IBV_MW_TYPE_1);
    assert_int_equal(ibv_close_device(b.context), 0);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
    assert_int_equal(ibv_destroy_srq(srq), 0);
    bench_fail(b.qp);
    bench_destroy_objects(&b);
    assert_int_equal(entry_count("/proc/self/fd"), fd_count);
}

static void attributes_are_sane(void **state)
{
    struct ibv_context *context = bench_open();
    struct ibv_device_attr attr;
    struct ibv_device_attr_ex attr_ex;
    assert_int_equal(ibv_query_device(context, &attr), 0);
    assert_int_equal(ibv_query_device_ex(context, NULL, &attr_ex), 0);
    assert_memory_equal(&attr, &attr_ex.orig_attr, sizeof attr);
    assert_int_equal(attr.phys_port_cnt, 1);
    assert_int_equal(attr_ex.phys_port_cnt_ex, 1);
    assert_true(attr.node_guid != 0 && attr.vendor_id != 0);
    assert_true(attr.max_qp > 0 && attr.max_cqe > 0 && attr.max_mr > 0 && attr.max_sge > 0);
    assert_true(attr.max_mr_size >= 1ULL << 32);
    assert_int_equal(attr.max_mcast_grp, 0);
    assert_int_equal(ibv_close_device(context), 0);
}

// What the program's header does not know is not written.
static void shorter_attributes_stay_within_their_length(void **state)
{
    struct ibv_context *context = bench_open();
    struct verbs_context *verbs = verbs_get_ctx(context);
    struct {
        struct ibv_device_attr_ex attr;
    } device;
    uint8_t port[sizeof(struct ibv_port_attr) + 8];
    memset(&device, 0xee, sizeof device);
    memset(port, 0xee, sizeof port);
    const size_t device_len = sizeof device.attr.orig_attr + 4;
    assert_int_equal(verbs->query_device_ex(context, NULL, &device.attr, device_len), 0);
    assert_int_equal(((uint8_t *)&device)[device_len], 0xee);
    assert_int_equal(verbs->query_port(context, 1, (struct ibv_port_attr *)port, 48), 0);
    assert_int_equal(port[48], 0xee);
    assert_int_equal(verbs->query_port(context, 1, (struct ibv_port_attr *)port, sizeof port), 0);
    assert_int_equal(port[sizeof port - 1], 0);
    assert_int_equal(ibv_close_device(context), 0);
}

// A program whose header is newer than ours: what we know nothing of is zero.
static void longer_attributes_are_zero_behind_ours(void **state)
{
    enum { MORE_LEN = 64 };
    struct ibv_context *context = bench_open();
    struct verbs_context *verbs = verbs_get_ctx(context);
    union {
        struct ibv_device_attr_ex device;
        struct ibv_port_attr port;
        uint8_t octets[sizeof(struct ibv_device_attr_ex) + MORE_LEN];
    } attr;
    const uint8_t zeroes[MORE_LEN] = {0};
    memset(&attr, 0xee, sizeof attr);
    assert_int_equal(
        verbs->query_device_ex(context, NULL, &attr.device, sizeof attr.device + MORE_LEN), 0);
    assert_memory_equal(attr.octets + sizeof attr.device, zeroes, MORE_LEN);
    memset(&attr, 0xee, sizeof attr);
    assert_int_equal(verbs->query_port(context, 1, &attr.port, sizeof attr.port + MORE_LEN), 0);
    assert_memory_equal(attr.octets + sizeof attr.port, zeroes, MORE_LEN);
    assert_int_equal(ibv_close_device(context), 0);
}

static void port_is_active_ethernet(void **state)
{
    struct ibv_context *context = bench_open();
    struct ibv_port_attr attr;
    assert_int_equal(ibv_query_port(context, 1, &attr), 0);
    assert_int_equal(attr.state, IBV_PORT_ACTIVE);
    assert_int_equal(attr.link_layer, IBV_LINK_LAYER_ETHERNET);
    assert_int_equal(attr.gid_tbl_len, 1);
    assert_int_equal(attr.lid, 0);
    assert_true(attr.max_msg_sz >= 1U << 30);
    assert_int_equal(ibv_query_port(context, 2, &attr), EINVAL);
    assert_int_equal(ibv_query_port(context, 0, &attr), EINVAL);
    assert_int_equal(ibv_close_device(context), 0);
}

// Programs of newer headers ask for it; older ones do not know its name.
int ibv_query_port_speed(struct ibv_context *context, uint32_t port_num, uint64_t *port_speed);

static void port_speed_is_that_of_its_lanes(void **state)
{
    struct ibv_context *context = bench_open();
    struct ibv_port_attr attr;
    uint64_t speed;
    const unsigned lanes = 4, per_lane = 250; // units of 100 Mb/s
    assert_int_equal(ibv_query_port(context, 1, &attr), 0);
    assert_int_equal(attr.active_width, 2); // 4X
    assert_int_equal(attr.active_speed, 32);
    assert_int_equal(ibv_query_port_speed(context, 1, &speed), 0);
    assert_int_equal(speed, lanes * per_lane);
    assert_int_equal(ibv_query_port_speed(context, 2, &speed), EINVAL);
    assert_int_equal(ibv_close_device(context), 0);
}

// As rdma-core 60 has it, up to the members that it understands here.
struct reg_mr_ex_attr {
    size_t length;
    int access;
    uint64_t comp_mask, iova;
    void *addr;
    int fd;
    uint64_t fd_offset;
    void *dmah;
    struct ibv_buf *buf;
};
struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct reg_mr_ex_attr *attr);

static void regions_are_registered_by_attributes(void **state)
{
    static struct bench b;
    bench_init(&b);
    struct reg_mr_ex_attr attr = {.length = 64, .comp_mask = 2, .addr = b.buf, .iova = 4096};
    struct ibv_mr *mr = ibv_reg_mr_ex(b.pd, &attr);
    assert_non_null(mr);
    assert_ptr_equal(mr->addr, b.buf);
    assert_int_equal(mr->length, 64);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    attr.comp_mask = 1;
    assert_null(ibv_reg_mr_ex(b.pd, &attr));
    assert_int_equal(errno, EINVAL);
    attr.comp_mask = 2 | 4; // of a file
    assert_null(ibv_reg_mr_ex(b.pd, &attr));
    assert_int_equal(errno, EOPNOTSUPP);
    bench_fini(&b);
}

// As rdma-core 64 and 65 have them.
void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **ret);
void ibv_free_buf(struct ibv_buf *buf);
struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length,
                              int access);
int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf);
struct ibv_comp_cntr *ibv_create_comp_cntr(struct ibv_context *context, void *attr);

static void expect_no_region(struct ibv_pd *pd, struct ibv_buf *buf, char *addr, size_t length)
{
    assert_null(ibv_reg_buf_mr(pd, buf, addr, length, IBV_ACCESS_LOCAL_WRITE));
    assert_int_equal(errno, EINVAL);
}

static void buffers_of_the_device_are_registered_within_their_bounds(void **state)
{
    static struct bench b;
    bench_init(&b);
    const size_t size = 8192;
    struct ibv_buf *buf;
    char *addr = ibv_alloc_buf(b.pd, size, &buf);
    assert_non_null(addr);
    assert_int_equal((uintptr_t)addr % (uintptr_t)sysconf(_SC_PAGESIZE), 0);
    struct ibv_mr *mr = ibv_reg_buf_mr(b.pd, buf, addr + 1, size - 1, IBV_ACCESS_LOCAL_WRITE);
    assert_non_null(mr);
    assert_ptr_equal(mr->addr, addr + 1);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    expect_no_region(b.pd, buf, addr + 1, size);
    expect_no_region(b.pd, buf, addr - 1, 1);
    expect_no_region(b.pd, buf, addr + size + 1, 0);
    struct ibv_pd *other = ibv_alloc_pd(b.context);
    expect_no_region(other, buf, addr, size);
    assert_int_equal(ibv_dealloc_pd(other), 0);
    assert_int_equal(ibv_export_buf_dmabuf_fd(buf), -1);
    assert_int_equal(errno, ENODATA);
    ibv_free_buf(buf);
    bench_fini(&b);
}

static void counters_of_completions_are_not_there(void **state)
{
    struct ibv_context *context = bench_open();
    errno = 0;
    assert_null(ibv_create_comp_cntr(context, NULL));
    assert_int_equal(errno, EOPNOTSUPP);
    assert_int_equal(ibv_close_device(context), 0);
}

static bool may_bind(const union ibv_gid *gid)
{
    struct sockaddr_in6 at = {.sin6_family = AF_INET6};
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    memcpy(&at.sin6_addr, gid->raw, sizeof at.sin6_addr);
    bool may = bind(fd, (const struct sockaddr *)&at, sizeof at) == 0;
    close(fd);
    return may;
}

static void gid_is_an_address_of_this_host(void **state)
{
    struct ibv_context *context = bench_open();
    union ibv_gid gid;
    struct ibv_gid_entry entry;
    assert_int_equal(ibv_query_gid(context, 1, 0, &gid), 0);
    assert_true(may_bind(&gid));
    assert_int_equal(ibv_query_gid_ex(context, 1, 0, &entry, 0), 0);
    assert_memory_equal(&entry.gid, &gid, sizeof gid);
    assert_true(entry.ndev_ifindex > 0);
    assert_int_equal(ibv_query_gid_table(context, &entry, 1, 0), 1);
    assert_int_equal(ibv_close_device(context), 0);
}

static unsigned look_count;

// In the place of the C library's, for the libraries too.
int getifaddrs(struct ifaddrs **ret)
{
    int (*next)(struct ifaddrs **) = (int (*)(struct ifaddrs **))dlsym(RTLD_NEXT, "getifaddrs");
    look_count++;
    return next(ret);
}

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void gid_is_looked_up_ten_times_in_a_second_at_most(void **state)
{
    enum { QUERIES = 1000, FRESH_MS = 100 };
    struct ibv_context *context = bench_open();
    union ibv_gid gid;
    look_count = 0;
    const uint64_t began_ms = now_ms();
    for (unsigned i = 0; i < QUERIES; i++) {
        assert_int_equal(ibv_query_gid(context, 1, 0, &gid), 0);
    }
    assert_in_range(look_count, 1, 1 + (now_ms() - began_ms) / FRESH_MS);
    look_count = 0;
    for (uint64_t at_ms = now_ms(); now_ms() - at_ms <= FRESH_MS;) {
        usleep(1000);
    }
    assert_int_equal(ibv_query_gid(context, 1, 0, &gid), 0); // the host's may have changed
    assert_int_equal(look_count, 1);
    assert_int_equal(ibv_close_device(context), 0);
}

static void gids_and_pkeys_beyond_the_first_are_refused(void **state)
{
    struct ibv_context *context = bench_open();
    union ibv_gid gid;
    struct ibv_gid_entry entry;
    __be16 pkey;
    assert_int_equal(ibv_query_gid(context, 1, 1, &gid), -1);
    assert_int_equal(ibv_query_gid(context, 1, -1, &gid), -1);
    assert_int_equal(ibv_query_gid_ex(context, 2, 0, &entry, 0), EINVAL);
    assert_int_equal(ibv_query_gid_ex(context, 1, 1, &entry, 0), EINVAL);
    assert_int_equal(ibv_query_gid_table(context, &entry, 0, 0), -EINVAL);
    assert_int_equal(ibv_query_pkey(context, 1, 0, &pkey), 0);
    assert_int_equal(pkey, 0xffff);
    assert_int_equal(ibv_query_pkey(context, 1, 1, &pkey), -1);
    assert_int_equal(ibv_get_pkey_index(context, 1, 0xffff), 0);
    assert_int_equal(ibv_get_pkey_index(context, 1, 0x1234), -1);
    assert_int_equal(ibv_close_device(context), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(listing_opens_nothing_and_starts_nothing),
        cmocka_unit_test(device_is_an_rnic_of_iwarp),
        cmocka_unit_test(room_behind_the_device_is_zero),
        cmocka_unit_test(guid_is_local_and_stays),
        cmocka_unit_test(files_of_the_device_are_there_while_it_is_open),
        cmocka_unit_test(context_is_extended_and_has_real_descriptors),
        cmocka_unit_test(closing_gives_the_descriptors_back),
        cmocka_unit_test(opening_without_descriptors_is_refused_by_name),
        cmocka_unit_test(objects_may_be_destroyed_behind_the_device),
        cmocka_unit_test(attributes_are_sane),
        cmocka_unit_test(shorter_attributes_stay_within_their_length),
        cmocka_unit_test(longer_attributes_are_zero_behind_ours),
        cmocka_unit_test(port_is_active_ethernet),
        cmocka_unit_test(port_speed_is_that_of_its_lanes),
        cmocka_unit_test(regions_are_registered_by_attributes),
        cmocka_unit_test(buffers_of_the_device_are_registered_within_their_bounds),
        cmocka_unit_test(counters_of_completions_are_not_there),
        cmocka_unit_test(gid_is_an_address_of_this_host),
        cmocka_unit_test(gid_is_looked_up_ten_times_in_a_second_at_most),
        cmocka_unit_test(gids_and_pkeys_beyond_the_first_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
