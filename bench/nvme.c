// Requests a second of an NVMe over RDMA volume by the initiator, at a constant depth:
//
//     bench-nvme ADDRESS randread|randwrite|seqread|seqwrite BLOCK_LEN DEPTH SECONDS

#include <stdbool.h>
#include <string.h>

#include <weft/nvme.h>

#include "bench/measure.h"

enum { DEPTH_MAX = 256 };

struct load {
    struct weft_nvme *nvme;
    struct weft_nvme_namespace ns;
    bool is_random, is_over, has_failed;
    uint64_t block_len, next, seed, completed;
    unsigned outstanding;
    struct weft_nvme_io ios[DEPTH_MAX];
    struct iovec memory[DEPTH_MAX];
};

static uint64_t place_take(struct load *load)
{
    uint64_t count = load->ns.len / load->block_len;
    load->seed = load->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    uint64_t block = load->is_random ? (load->seed >> 20) % count : load->next++ % count;
    return block * load->block_len;
}

static void begin(struct load *load, struct weft_nvme_io *io)
{
    io->offset = place_take(load);
    load->outstanding++;
    if (weft_nvme_submit(load->nvme, io) != 0) {
        load->outstanding--;
        load->has_failed = true;
    }
}

static void on_complete(struct weft_nvme_io *io)
{
    struct load *load = io->context;
    load->outstanding--;
    load->has_failed |= io->error != 0;
    load->completed++;
    if (!load->is_over && !load->has_failed) {
        begin(load, io);
    }
}

static bool load_init(struct load *load, char **argv, unsigned depth)
{
    const char *pattern = argv[2];
    uint8_t *memory = aligned_alloc(4096, depth * load->block_len);
    if (memory == NULL) {
        return false;
    }
    memset(memory, 0x5a, depth * load->block_len);
    load->is_random = strncmp(pattern, "rand", 4) == 0;
    for (unsigned i = 0; i < depth; i++) {
        load->memory[i] = (struct iovec){memory + i * load->block_len, load->block_len};
        load->ios[i] = (struct weft_nvme_io){
            .operation = strstr(pattern, "write") != NULL ? WEFT_NVME_WRITE : WEFT_NVME_READ,
            .nsid = load->ns.nsid,
            .len = load->block_len,
            .memory = &load->memory[i],
            .memory_count = 1,
            .on_complete = on_complete,
            .context = load};
    }
    return weft_nvme_lend(load->nvme, memory, depth * load->block_len) == 0;
}

static void measure(struct load *load, unsigned depth, double seconds)
{
    double start = now_s(), end = start + seconds;
    for (unsigned i = 0; i < depth; i++) {
        begin(load, &load->ios[i]);
    }
    while (load->outstanding > 0 && weft_nvme_wait(load->nvme, 1000) >= 0) {
        load->is_over = load->is_over || now_s() >= end;
    }
    if (load->has_failed || load->outstanding > 0) {
        fputs("bench-nvme: requests failed\n", stderr);
        exit(1);
    }
    printf("{\"requests_per_s\": %.0f}\n", (double)load->completed / (now_s() - start));
}

int main(int argc, char **argv)
{
    static struct load load;
    struct weft_nvme_address address;
    char why[WEFT_NVME_WHY_MAX] = "wrong words";
    unsigned depth = argc == 6 ? (unsigned)atoi(argv[4]) : 0;
    struct weft_nvme_attr attr = {.address = &address, .depth = depth};
    load.block_len = argc == 6 ? (uint64_t)atoi(argv[3]) : 0;
    if (depth == 0 || depth > DEPTH_MAX || load.block_len == 0 ||
        weft_nvme_address_parse(argv[1], &address, why) != 0 ||
        weft_nvme_connect(&attr, &load.nvme, why) != 0 ||
        weft_nvme_identify(load.nvme, address.nsid != 0 ? address.nsid : 1, &load.ns, why) != 0 ||
        !load_init(&load, argv, depth)) {
        fprintf(stderr, "bench-nvme: %s\n", why);
        return 1;
    }
    measure(&load, depth, atof(argv[5]));
    weft_nvme_disconnect(load.nvme);
    return 0;
}
