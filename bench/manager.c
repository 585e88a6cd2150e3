// The RDMA manager beside a caller that posts its own work requests; ordinary programs both.
//
//     bench-manager coalesce (manager|posts|singles) (write|read) (apart|together) ROUNDS
//         4096 elements of 512 octets, the remote ranges side by side; the local ones apart (each
//         needs a segment) or together. The caller posts its work requests in chains, or each by a
//         call of its own (singles). A round ends when all octets are placed: writes with a read
//         behind them.
//     bench-manager join (manager|posts|singles) (write|read) (apart|together) ROUNDS
//         The same octets as 4096 requests that allow the manager to join them.
//     bench-manager large (manager|posts) (write|read) OCTETS
//         One request of that many octets, in transfers of 4 MiB, four at a time.
//     bench-manager verify (write|read) OCTETS
//         The same by the manager, each octet made before it leaves and compared after it arrived.
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weft/manager.h>

#include "bench/ends.h"
#include "bench/measure.h"

enum {
    ELEMENTS = 4096,
    ELEMENT_LEN = 512,
    STRIDE = 1024, // of local octets that are apart
    CHAIN = 64,    // the caller's work requests per call; the last one is signalled
    DEPTH = 1024,
    SEGMENTS = 32,
    TRANSFER_LEN = 4 << 20,
    TRANSFERS = 4,
    RING_LEN = 64 << 20,
    WC_MAX = 16,
    PLACEMENT_LIMIT_S = 20,
};

// Both processes, and all that is measured.
struct bench {
    struct bench_end requester;
    struct bench_end target;
    struct weft_rdma_manager *manager;
    uint64_t calls; // of ibv_post_send, by the caller
};

/* ---- the two ends ---------------------------------------------------------------------------- */

// `len` octets of address space, all of them views of one stretch of ring_len octets that parent
// and child share: so neither is limited by the memory of the machine.
static uint8_t *ring_map(size_t len, size_t ring_len)
{
    int fd = memfd_create("bench-manager", MFD_CLOEXEC);
    uint8_t *at = mmap(NULL, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fd < 0 || ftruncate(fd, (off_t)ring_len) != 0 || at == MAP_FAILED) {
        bench_fail("memory");
    }
    for (size_t i = 0; i < len; i += ring_len) {
        size_t part_len = len - i < ring_len ? len - i : ring_len;
        if (mmap(at + i, part_len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
            MAP_FAILED) {
            bench_fail("mmap");
        }
    }
    close(fd);
    return at;
}

// A target of RDMA makes no call at all until the requester is gone.
static void target_run(struct bench_end *end, int port_fd, int done_fd)
{
    char done;
    end_listen(end, port_fd);
    end_accept(end);
    while (read(done_fd, &done, 1) < 0) {
    }
    exit(0);
}

static void bench_open(struct bench *bench, size_t local_len, size_t remote_len, size_t ring_len)
{
    int ports[2], done[2];
    const struct ibv_qp_cap cap = {
        .max_send_wr = DEPTH, .max_recv_wr = 1, .max_send_sge = SEGMENTS, .max_recv_sge = 1};
    *bench = (struct bench){
        .requester = {.cap = cap, .memory_len = local_len, .memory = ring_map(local_len, ring_len)},
        .target = {.cap = cap, .memory_len = remote_len, .memory = ring_map(remote_len, ring_len)}};
    if (pipe(ports) != 0 || pipe(done) != 0) {
        bench_fail("pipe");
    }
    fflush(stdout);
    if (fork_end() == 0) {
        close(done[1]);
        target_run(&bench->target, ports[1], done[0]);
    }
    close(done[0]);
    end_connect(&bench->requester, ports[0]);
}

static void manager_open(struct bench *bench, struct weft_rdma_manager_attr attr)
{
    attr.qp = bench->requester.id->qp;
    int error = weft_rdma_manager_create(&attr, &bench->manager);
    if (error != 0) {
        errno = -error;
        bench_fail("weft_rdma_manager_create");
    }
}

static void bench_close(struct bench *bench)
{
    weft_rdma_manager_destroy(bench->manager);
    end_disconnect(&bench->requester);
}

/* ---- by the manager -------------------------------------------------------------------------- */

static void submit(struct bench *bench, struct weft_rdma_request *request)
{
    enum weft_rdma_refusal refusal = weft_rdma_request_submit(bench->manager, request, 0);
    if (refusal != WEFT_RDMA_ACCEPTED) {
        errno = 0;
        bench_fail(weft_rdma_refusal_str(refusal));
    }
}

// Polls once; how many requests are complete since, which they must be well.
static unsigned completed(struct bench *bench)
{
    struct ibv_wc wc[WC_MAX];
    struct weft_rdma_request *request;
    unsigned count = 0;
    weft_rdma_manager_poll(bench->manager, wc, WC_MAX);
    for (; (request = weft_rdma_manager_next_done(bench->manager)) != NULL; count++) {
        if (request->result.outcome != WEFT_RDMA_SUCCESS) {
            errno = 0;
            bench_fail(ibv_wc_status_str(request->result.status));
        }
    }
    return count;
}

/* ---- by the caller --------------------------------------------------------------------------- */

static void post(struct bench *bench, struct ibv_send_wr *wr)
{
    struct ibv_send_wr *bad;
    bench->calls++;
    if (ibv_post_send(bench->requester.id->qp, wr, &bad) != 0) {
        bench_fail("ibv_post_send");
    }
}

// How many completions there were.
static unsigned reap(struct bench *bench)
{
    struct ibv_wc wc[WC_MAX];
    int count = ibv_poll_cq(bench->requester.id->send_cq, WC_MAX, wc);
    for (int i = 0; i < count; i++) {
        if (wc[i].status != IBV_WC_SUCCESS) {
            errno = 0;
            bench_fail(ibv_wc_status_str(wc[i].status));
        }
    }
    return count > 0 ? (unsigned)count : 0;
}

/* ---- coalesce -------------------------------------------------------------------------------- */

static struct weft_rdma_buffer buffers[ELEMENTS];
static struct weft_rdma_element elements[ELEMENTS];
static struct weft_rdma_request requests[ELEMENTS];
static struct ibv_send_wr wrs[ELEMENTS + 1];
static struct ibv_sge sges[ELEMENTS + 1];

// What both have before the clock runs: elements, and a list of work requests.
static void pieces_make(const struct bench *bench, enum ibv_wr_opcode opcode, size_t stride,
                        unsigned chain)
{
    const struct bench_end *end = &bench->requester;
    for (unsigned i = 0; i < ELEMENTS; i++) {
        uint64_t addr = (uintptr_t)end->memory + i * stride;
        uint64_t remote_addr = end->peer.addr + (uint64_t)i * ELEMENT_LEN;
        buffers[i] =
            (struct weft_rdma_buffer){.addr = addr, .len = ELEMENT_LEN, .lkey = end->mr->lkey};
        elements[i] = (struct weft_rdma_element){.next = i + 1 < ELEMENTS ? &elements[i + 1] : NULL,
                                                 .buffers = &buffers[i],
                                                 .buffer_count = 1,
                                                 .rkey = end->peer.rkey,
                                                 .remote_addr = remote_addr};
        bool is_last = (i + 1) % chain == 0, is_signalled = (i + 1) % CHAIN == 0;
        sges[i] = (struct ibv_sge){.addr = addr, .length = ELEMENT_LEN, .lkey = end->mr->lkey};
        wrs[i] =
            (struct ibv_send_wr){.next = is_last ? NULL : &wrs[i + 1],
                                 .sg_list = &sges[i],
                                 .num_sge = 1,
                                 .opcode = opcode,
                                 .send_flags = is_signalled ? IBV_SEND_SIGNALED : 0,
                                 .wr.rdma = {.remote_addr = remote_addr, .rkey = end->peer.rkey}};
    }
    // The read that ends a round, into octets behind all others.
    sges[ELEMENTS] = (struct ibv_sge){
        .addr = (uintptr_t)end->memory + ELEMENTS * STRIDE, .length = 8, .lkey = end->mr->lkey};
    wrs[ELEMENTS] =
        (struct ibv_send_wr){.sg_list = &sges[ELEMENTS],
                             .num_sge = 1,
                             .opcode = IBV_WR_RDMA_READ,
                             .send_flags = IBV_SEND_SIGNALED,
                             .wr.rdma = {.remote_addr = end->peer.addr, .rkey = end->peer.rkey}};
}

static void round_by_manager(struct bench *bench, bool is_read)
{
    struct weft_rdma_request request = {.opcode = is_read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
                                        .elements = elements,
                                        .trailer = is_read ? NULL : &wrs[ELEMENTS]};
    submit(bench, &request);
    while (completed(bench) == 0) {
    }
}

static void round_by_requests(struct bench *bench, bool is_read)
{
    unsigned left = ELEMENTS;
    for (unsigned i = 0; i < ELEMENTS; i++) {
        elements[i].next = NULL;
        requests[i] =
            (struct weft_rdma_request){.opcode = is_read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
                                       .flags = WEFT_RDMA_MAY_COALESCE,
                                       .elements = &elements[i]};
        requests[i].trailer = is_read || i + 1 < ELEMENTS ? NULL : &wrs[ELEMENTS];
        submit(bench, &requests[i]);
    }
    while (left > 0) {
        left -= completed(bench);
    }
}

static void round_by_posts(struct bench *bench, bool is_read, unsigned chain)
{
    unsigned total = is_read ? ELEMENTS : ELEMENTS + 1;
    unsigned signalled = (total + CHAIN - 1) / CHAIN, posted = 0, reaped = 0;
    while (reaped < signalled) {
        if (posted < total && posted + CHAIN - reaped * CHAIN < DEPTH) {
            unsigned end = posted + CHAIN < total ? posted + CHAIN : total;
            for (; posted < end; posted += chain) {
                post(bench, &wrs[posted]);
            }
        }
        reaped += reap(bench);
    }
}

// How a round is done by the manager.
typedef void round_function(struct bench *bench, bool is_read);

// `chain`: of the caller's work requests in a call; 0: by the manager.
static void coalesce(round_function *managed, unsigned chain, bool is_read, bool together,
                     unsigned rounds)
{
    bool by_manager = chain == 0;
    struct bench bench;
    struct weft_rdma_counters counters = {0};
    double *us = calloc(rounds, sizeof *us);
    bench_open(&bench, ELEMENTS * STRIDE + 4096, ELEMENTS * ELEMENT_LEN, RING_LEN);
    manager_open(&bench, (struct weft_rdma_manager_attr){0});
    pieces_make(&bench, is_read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
                together ? ELEMENT_LEN : STRIDE, by_manager ? CHAIN : chain);
    for (unsigned i = 0; i < rounds; i++) {
        double start_s = now_s();
        by_manager ? managed(&bench, is_read) : round_by_posts(&bench, is_read, chain);
        us[i] = 1e6 * (now_s() - start_s);
    }
    weft_rdma_manager_counters(bench.manager, &counters);
    qsort(us, rounds, sizeof *us, compare_double);
    printf("{\"us\": %.3f, \"descriptors\": %llu, \"calls\": %llu}\n", us[rounds / 2],
           by_manager ? (unsigned long long)counters.descriptor_count / rounds
                      : ELEMENTS + (is_read ? 0ULL : 1ULL),
           (unsigned long long)(by_manager ? counters.post_count : bench.calls) / rounds);
    free(us);
    bench_close(&bench);
}

/* ---- large ----------------------------------------------------------------------------------- */

static void large_open(struct bench *bench, uint64_t len)
{
    bench_open(bench, len, len, RING_LEN);
    manager_open(bench, (struct weft_rdma_manager_attr){.connection_max_len = TRANSFER_LEN,
                                                        .descriptor_count = TRANSFERS});
}

// One element and one buffer of `len` octets.
static struct weft_rdma_request large_request(const struct bench *bench, bool is_read, uint64_t len)
{
    const struct bench_end *end = &bench->requester;
    buffers[0] = (struct weft_rdma_buffer){
        .addr = (uintptr_t)end->memory, .len = len, .lkey = end->mr->lkey};
    elements[0] = (struct weft_rdma_element){.buffers = buffers,
                                             .buffer_count = 1,
                                             .rkey = end->peer.rkey,
                                             .remote_addr = end->peer.addr};
    return (struct weft_rdma_request){.opcode = is_read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
                                      .elements = elements};
}

static void large_by_posts(struct bench *bench, bool is_read, uint64_t len)
{
    const struct bench_end *end = &bench->requester;
    unsigned outstanding = 0;
    for (uint64_t at = 0; at < len || outstanding > 0;) {
        if (at < len && outstanding < TRANSFERS) {
            uint64_t part_len = len - at < TRANSFER_LEN ? len - at : TRANSFER_LEN;
            struct ibv_sge sge = {.addr = (uintptr_t)end->memory + at,
                                  .length = (uint32_t)part_len,
                                  .lkey = end->mr->lkey};
            struct ibv_send_wr wr = {
                .sg_list = &sge,
                .num_sge = 1,
                .opcode = is_read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
                .send_flags = IBV_SEND_SIGNALED,
                .wr.rdma = {.remote_addr = end->peer.addr + at, .rkey = end->peer.rkey}};
            post(bench, &wr);
            at += part_len;
            outstanding++;
        } else {
            outstanding -= reap(bench);
        }
    }
}

static void large(bool by_manager, bool is_read, uint64_t len)
{
    struct bench bench;
    large_open(&bench, len);
    double start_s = now_s(), busy_s = cpu_s(RUSAGE_SELF);
    if (by_manager) {
        struct weft_rdma_request request = large_request(&bench, is_read, len);
        submit(&bench, &request);
        while (completed(&bench) == 0) {
        }
    } else {
        large_by_posts(&bench, is_read, len);
    }
    print_bandwidth(len, now_s() - start_s, cpu_s(RUSAGE_SELF) - busy_s);
    bench_close(&bench);
}

/* ---- verify ---------------------------------------------------------------------------------- */

// What stands in the eight octets from `at` on: different everywhere.
static uint64_t word_at(uint64_t at)
{
    return (at / 8 + 1) * 0x9e3779b97f4a7c15ULL;
}

static void make(uint8_t *memory, uint64_t from, uint64_t to)
{
    for (uint64_t at = from; at < to; at += 8) {
        *(uint64_t *)(memory + at) = word_at(at);
    }
}

// Octets of a write may arrive after its completion here, but arrive they must.
static void compare(const uint8_t *memory, uint64_t from, uint64_t to)
{
    double limit_s = now_s() + PLACEMENT_LIMIT_S;
    for (uint64_t at = from; at < to; at += 8) {
        while (*(const volatile uint64_t *)(memory + at) != word_at(at)) {
            if (now_s() > limit_s) {
                fprintf(stderr, "bench-manager: octet %llu is wrong\n", (unsigned long long)at);
                exit(1);
            }
            sched_yield();
        }
    }
}

// The ring is longer than what is made ahead, in flight and not yet compared: octets are made two
// windows ahead of what is done, since one poll may complete a window and post the next.
static void verify(bool is_read, uint64_t len)
{
    enum { AHEAD_LEN = 2 * TRANSFERS * TRANSFER_LEN };
    _Static_assert(2 * AHEAD_LEN <= RING_LEN, "the ring is too short");
    struct bench bench;
    large_open(&bench, len);
    uint8_t *source = is_read ? bench.target.memory : bench.requester.memory;
    uint8_t *sink = is_read ? bench.requester.memory : bench.target.memory;
    struct weft_rdma_request request = large_request(&bench, is_read, len);
    uint64_t made = len < AHEAD_LEN ? len : AHEAD_LEN, compared = 0;
    make(source, 0, made);
    double start_s = now_s(), busy_s = cpu_s(RUSAGE_SELF);
    submit(&bench, &request);
    for (bool is_over = false; !is_over;) {
        is_over = completed(&bench) > 0;
        uint64_t done = request.result.done_len;
        uint64_t ahead = len - done < AHEAD_LEN ? len : done + AHEAD_LEN;
        compare(sink, compared, done);
        compared = done;
        make(source, made, ahead);
        made = ahead;
    }
    if (compared != len) {
        errno = 0;
        bench_fail("octets are missing");
    }
    print_bandwidth(len, now_s() - start_s, cpu_s(RUSAGE_SELF) - busy_s);
    bench_close(&bench);
}

static unsigned chain_of(const char *by)
{
    return strcmp(by, "manager") == 0 ? 0 : strcmp(by, "singles") == 0 ? 1 : CHAIN;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    bool is_joined = strcmp(what, "join") == 0;
    if (argc == 6 && (is_joined || strcmp(what, "coalesce") == 0)) {
        coalesce(is_joined ? round_by_requests : round_by_manager, chain_of(argv[2]),
                 strcmp(argv[3], "read") == 0, strcmp(argv[4], "together") == 0,
                 (unsigned)strtoul(argv[5], NULL, 10));
    } else if (argc == 5 && strcmp(what, "large") == 0) {
        large(strcmp(argv[2], "manager") == 0, strcmp(argv[3], "read") == 0,
              strtoull(argv[4], NULL, 10));
    } else if (argc == 4 && strcmp(what, "verify") == 0) {
        verify(strcmp(argv[2], "read") == 0, strtoull(argv[3], NULL, 10));
    } else {
        fprintf(stderr, "usage: bench-manager (coalesce|join) (manager|posts|singles) (write|read)"
                        " (apart|together) ROUNDS"
                        " | large (manager|posts) (write|read) OCTETS"
                        " | verify (write|read) OCTETS\n");
        return 2;
    }
    return 0;
}
