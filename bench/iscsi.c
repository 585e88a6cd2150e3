// Requests a second of a logical unit by a driver of the node, and their latency, at a constant
// depth; and how often memory was registered, for the session too:
//
//     bench-iscsi URI read|write BLOCK_LEN DEPTH SECONDS [COUNT]
//
// The driver's scheme is all that differs between one-shot RDMA (iscsi+rdma://) and TCP (iscsi://).
// It ends after SECONDS, or COUNT requests.

#include <infiniband/verbs.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>

#include "bench/measure.h"
#include "node/ddm/registry.h"
#include "node/rta/formats.h"

enum { DEPTH_MAX = 128, BLOCK_LEN_MAX = 1 << 20, SAMPLES_MAX = 1 << 20, WAIT_MS = 100 };

struct slot {
    struct load *load;
    uint8_t *data;
    double begun_at_s;
    struct ddm_command command;
};

struct load {
    struct ddm *ddm;
    struct volume_profile profile;
    enum node_operation operation;
    uint32_t block_len;
    unsigned depth;
    double seconds;
    uint64_t count; // at most
    uint8_t *pool;  // of the slots: block_len each

    uint64_t seed, begun, ended;
    bool is_over, has_failed;
    struct slot slots[DEPTH_MAX];
    double us[SAMPLES_MAX]; // of the first requests
};

/* ---- registrations, as the linker redirects them --------------------------------------------- */

static uint64_t registrations;

struct ibv_mr *__real_ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t len, int access);
struct ibv_mr *__wrap_ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t len, int access);
struct ibv_mr *__real_ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova,
                                       unsigned access);
struct ibv_mr *__wrap_ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova,
                                       unsigned access);

struct ibv_mr *__wrap_ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t len, int access)
{
    registrations++;
    return __real_ibv_reg_mr(pd, addr, len, access);
}

struct ibv_mr *__wrap_ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova,
                                       unsigned access)
{
    registrations++;
    return __real_ibv_reg_mr_iova2(pd, addr, len, iova, access);
}

/* ---- what the driver asks of its host -------------------------------------------------------- */

static instant_ns clock_read(void *ctx)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (instant_ns)t.tv_sec * NS_PER_S + (instant_ns)t.tv_nsec;
}

static void say_line(void *ctx, const char *line)
{
    fprintf(stderr, "bench-iscsi: %s\n", line);
}

static void keep_nothing(void *ctx, int fd)
{
}

/* ---- requests -------------------------------------------------------------------------------- */

static uint64_t place_take(struct load *load)
{
    uint64_t count = load->profile.size / load->block_len;
    load->seed = load->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (load->seed >> 20) % count * load->block_len;
}

static void on_end(void *ctx, struct ddm_command *command);

static void begin(struct load *load, struct slot *slot)
{
    slot->command = (struct ddm_command){.operation = (uint8_t)load->operation,
                                         .offset = place_take(load),
                                         .len = load->block_len,
                                         .data = slot->data,
                                         .data_len = load->block_len,
                                         .submitted_at_ns = clock_read(NULL)};
    slot->begun_at_s = now_s();
    load->begun++;
    ddm_command_expect(&slot->command, on_end, slot);
    if (io_format_scsi.encode(&load->profile, &slot->command) != NODE_OK ||
        ddm_submit(load->ddm, &slot->command) != 0) {
        load->begun--;
        load->has_failed = true;
    }
}

static void on_end(void *ctx, struct ddm_command *command)
{
    struct slot *slot = ctx;
    struct load *load = slot->load;
    io_format_scsi.decode(command);
    load->has_failed |= command->completion != NODE_OK;
    if (load->ended < SAMPLES_MAX) {
        load->us[load->ended] = 1e6 * (now_s() - slot->begun_at_s);
    }
    load->ended++;
    if (!load->is_over && !load->has_failed && load->begun < load->count) {
        begin(load, slot);
    }
}

// One turn, as the loop of an RTA takes it.
static void turn(struct ddm *ddm)
{
    struct pollfd ready = {.fd = ddm->driver->poll_fd(ddm), .events = POLLIN};
    ddm->driver->flush_queue(ddm);
    poll(&ready, 1, WAIT_MS);
    ddm->driver->poll(ddm, clock_read(NULL));
}

/* ---- the run --------------------------------------------------------------------------------- */

static void print_run(struct load *load, double seconds)
{
    unsigned samples = (unsigned)(load->ended < SAMPLES_MAX ? load->ended : SAMPLES_MAX);
    qsort(load->us, samples, sizeof *load->us, compare_double);
    printf("{\"requests\": %llu, \"requests_per_s\": %.0f, \"p50_us\": %.3f, \"p99_us\": %.3f, "
           "\"registrations\": %llu}\n",
           (unsigned long long)load->ended, (double)load->ended / seconds, load->us[samples / 2],
           load->us[samples * 99ULL / 100], (unsigned long long)registrations);
}

static bool measure(struct load *load)
{
    double start = now_s(), end = start + load->seconds;
    for (unsigned i = 0; i < load->depth && load->begun < load->count; i++) {
        begin(load, &load->slots[i]);
    }
    while (load->ended < load->begun) {
        turn(load->ddm);
        load->is_over = now_s() >= end;
    }
    if (!load->has_failed && load->ended > 0) {
        print_run(load, now_s() - start);
        return true;
    }
    return false;
}

static bool words_take(int argc, char **argv, struct load *load)
{
    if (argc < 6 || argc > 7) {
        return false;
    }
    bool is_write = strcmp(argv[2], "write") == 0;
    load->operation = is_write ? NODE_WRITE : NODE_READ;
    load->block_len = (uint32_t)atoi(argv[3]);
    load->depth = (unsigned)atoi(argv[4]);
    load->seconds = atof(argv[5]);
    load->count = argc == 7 ? strtoull(argv[6], NULL, 0) : UINT64_MAX;
    return (is_write || strcmp(argv[2], "read") == 0) && load->block_len > 0 &&
           load->block_len <= BLOCK_LEN_MAX && load->depth > 0 && load->depth <= DEPTH_MAX;
}

static bool unit_open(struct load *load, const char *uri, struct why *ret_why)
{
    size_t pool_len = (size_t)load->depth * load->block_len;
    load->pool = aligned_alloc(4096, (pool_len + 4095) / 4096 * 4096);
    const struct ddm_host host = {.pool = load->pool,
                                  .pool_len = pool_len,
                                  .keepsake = -1,
                                  .is_alone = true,
                                  .clock = clock_read,
                                  .say = say_line,
                                  .keep = keep_nothing};
    if (load->pool == NULL || ddm_registry_open(uri, &host, &load->ddm, ret_why) != 0) {
        return false;
    }
    memset(load->pool, 0x5a, pool_len);
    for (unsigned i = 0; i < load->depth; i++) {
        load->slots[i] =
            (struct slot){.load = load, .data = load->pool + (size_t)i * load->block_len};
    }
    return load->ddm->driver->probe(load->ddm, &load->profile) == 0 &&
           load->profile.size >= load->block_len;
}

int main(int argc, char **argv)
{
    static struct load load;
    struct why why;
    why_say(&why, "wrong words");
    if (!words_take(argc, argv, &load) || !unit_open(&load, argv[1], &why)) {
        fprintf(stderr, "bench-iscsi: %s\n", why.text);
        return 1;
    }
    bool is_measured = measure(&load);
    if (!is_measured) {
        fputs("bench-iscsi: requests failed\n", stderr);
    }
    ddm_close(load.ddm);
    free(load.pool);
    return is_measured ? 0 : 1;
}
