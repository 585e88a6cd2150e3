// Readers of all sizes at one device, an ordinary libibverbs program; the other end is a process
// of its own. What is compared (contexts, allotment, turns) is set from outside by WEFT_READ_*.
//
//     bench-reads small BULKS OCTETS     4 KiB reads one after another on one queue pair, while
//                                        BULKS others read OCTETS each
//     bench-reads fair READERS OCTETS SECONDS
//                                        reads of OCTETS on and on, for a while; where that is few
//                                        reads of each, four times as long at most
//     bench-reads alone OCTETS SECONDS   one reader, two reads at a time
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/ends.h"
#include "bench/measure.h"

enum {
    SMALL_LEN = 4096,
    SINK_LEN = 8 << 20, // of all readers, one behind the other: the octets are not looked at
    SGE_MAX = 32,
    SAMPLES_MAX = 1 << 20,
    INTERVAL_US = 1000, // how often a small read would be posted, at least
    SHARE_MIN = 64,     // reads of each reader that a share is told from
};

struct reader {
    struct bench_end end;
    uint64_t completed; // reads
};

static uint8_t *map(size_t len)
{
    uint8_t *memory = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        bench_fail("mmap");
    }
    return memory;
}

// Never written, so that it takes no memory: what is measured is the wire, not the source.
static void target(unsigned count, size_t source_len, int port_fd, int done_fd)
{
    uint8_t *source = map(source_len);
    struct bench_end *ends = calloc(count, sizeof *ends);
    char done;
    for (unsigned i = 0; i < count; i++) {
        ends[i] = (struct bench_end){
            .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
            .memory = source,
            .memory_len = source_len,
        };
        end_listen(&ends[i], port_fd);
        end_accept(&ends[i]);
    }
    while (read(done_fd, &done, 1) < 0) {
    }
    exit(0);
}

static struct reader *open_readers(unsigned count, size_t source_len, int *ret_done_fd)
{
    int ports[2], done[2];
    struct reader *readers = calloc(count, sizeof *readers);
    if (pipe(ports) != 0 || pipe(done) != 0) {
        bench_fail("pipe");
    }
    if (fork_end() == 0) {
        close(done[1]);
        target(count, source_len, ports[1], done[0]);
    }
    uint8_t *sink = map(SINK_LEN);
    memset(sink, 1, SINK_LEN);
    for (unsigned i = 0; i < count; i++) {
        readers[i].end = (struct bench_end){
            .cap = {.max_send_wr = 8, .max_recv_wr = 1, .max_send_sge = SGE_MAX, .max_recv_sge = 1},
            .memory = sink,
            .memory_len = SINK_LEN,
        };
        end_connect(&readers[i].end, ports[0]);
    }
    *ret_done_fd = done[1];
    return readers;
}

static void close_readers(int done_fd)
{
    close(done_fd);
    wait(NULL);
}

static void post(struct reader *r, size_t len)
{
    struct ibv_sge sge[SGE_MAX];
    struct ibv_send_wr wr = {.sg_list = sge,
                             .opcode = IBV_WR_RDMA_READ,
                             .send_flags = IBV_SEND_SIGNALED},
                       *bad;
    wr.wr.rdma.remote_addr = r->end.peer.addr;
    wr.wr.rdma.rkey = r->end.peer.rkey;
    for (size_t left = len; left > 0; left -= sge[wr.num_sge++].length) {
        size_t piece = left < SINK_LEN ? left : SINK_LEN;
        sge[wr.num_sge] =
            (struct ibv_sge){(uintptr_t)r->end.memory, (uint32_t)piece, r->end.mr->lkey};
    }
    if (ibv_post_send(r->end.id->qp, &wr, &bad) != 0) {
        bench_fail("ibv_post_send");
    }
}

// Takes what is complete; its number.
static unsigned poll(struct reader *r)
{
    struct ibv_wc wc[8];
    int count = ibv_poll_cq(r->end.id->send_cq, 8, wc);
    for (int i = 0; i < count; i++) {
        if (wc[i].status != IBV_WC_SUCCESS) {
            bench_fail(ibv_wc_status_str(wc[i].status));
        }
    }
    r->completed += (unsigned)count;
    return (unsigned)count;
}

/* ---- small reads beside large ones ----------------------------------------------------------- */

struct latencies {
    double us[SAMPLES_MAX];
    unsigned count, reads;
};

// A read that hangs stands for all that would have been posted meanwhile: without them a stall of a
// second would be one sample among thousands.
static void add(struct latencies *l, double us)
{
    l->reads++;
    for (; us > 0 && l->count < SAMPLES_MAX; us -= INTERVAL_US) {
        l->us[l->count++] = us;
    }
}

static void print_small(struct latencies *l, double octets, double took_s)
{
    qsort(l->us, l->count, sizeof l->us[0], compare_double);
    printf("{\"p50_us\": %.1f, \"p99_us\": %.1f, \"reads\": %u, \"octets_per_s\": %.0f}\n",
           l->us[l->count / 2], l->us[l->count * 99ULL / 100], l->reads, octets / took_s);
    fflush(stdout);
}

static void small(unsigned bulks, size_t len)
{
    int done_fd;
    struct reader *readers = open_readers(bulks + 1, len, &done_fd);
    struct latencies *latencies = calloc(1, sizeof *latencies);
    unsigned left = bulks;
    post(&readers[0], SMALL_LEN); // the way is known to both
    while (poll(&readers[0]) == 0) {
    }
    double start_s = now_s(), posted_s = start_s;
    for (unsigned i = 1; i <= bulks; i++) {
        post(&readers[i], len);
    }
    post(&readers[0], SMALL_LEN);
    while (left > 0) {
        if (poll(&readers[0]) > 0) {
            add(latencies, 1e6 * (now_s() - posted_s));
            posted_s = now_s();
            post(&readers[0], SMALL_LEN);
        }
        for (unsigned i = 1; i <= bulks; i++) {
            left -= readers[i].completed == 0 ? poll(&readers[i]) : 0;
        }
    }
    add(latencies, 1e6 * (now_s() - posted_s)); // at least so long
    print_small(latencies, (double)bulks * (double)len, now_s() - start_s);
    close_readers(done_fd);
}

/* ---- many readers, or one -------------------------------------------------------------------- */

// Jain's index of what each reader got within the window: 1 when all got the same.
static void print_shares(const struct reader *readers, unsigned count, const double *before,
                         size_t len, double took_s)
{
    double sum = 0, squares = 0;
    for (unsigned i = 0; i < count; i++) {
        double got = (double)readers[i].completed - before[i];
        sum += got;
        squares += got * got;
    }
    printf("{\"jain\": %.4f, \"octets_per_s\": %.0f}\n",
           squares > 0 ? sum * sum / (count * squares) : 0, sum * (double)len / took_s);
    fflush(stdout);
}

static void endless(unsigned count, unsigned depth, size_t len, double seconds)
{
    int done_fd;
    struct reader *readers = open_readers(count, len, &done_fd);
    double *before = calloc(count, sizeof *before);
    double window_s = now_s() + seconds / 4, end_s = window_s + seconds; // a quarter to warm up
    const double last_s = window_s + 4 * seconds;
    int is_measured = 0;
    unsigned reads = 0; // of all, within the window
    for (unsigned i = 0; i < count * depth; i++) {
        post(&readers[i % count], len);
    }
    for (double now = now_s(); now < end_s || (reads < SHARE_MIN * count && now < last_s);
         now = now_s()) {
        if (!is_measured && now >= window_s) {
            is_measured = 1;
            window_s = now;
            reads = 0;
            for (unsigned i = 0; i < count; i++) {
                before[i] = (double)readers[i].completed;
            }
        }
        for (unsigned i = 0; i < count; i++) {
            for (unsigned n = poll(&readers[i]); n > 0; n--) {
                post(&readers[i], len);
                reads++;
            }
        }
    }
    print_shares(readers, count, before, len, now_s() - window_s);
    close_readers(done_fd);
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "small") == 0) {
        small((unsigned)atoi(argv[2]), strtoul(argv[3], NULL, 10));
    } else if (argc == 5 && strcmp(argv[1], "fair") == 0) {
        endless((unsigned)atoi(argv[2]), 1, strtoul(argv[3], NULL, 10), atof(argv[4]));
    } else if (argc == 4 && strcmp(argv[1], "alone") == 0) {
        endless(1, 2, strtoul(argv[2], NULL, 10), atof(argv[3]));
    } else {
        fprintf(stderr, "usage: bench-reads small BULKS OCTETS | fair READERS OCTETS SECONDS"
                        " | alone OCTETS SECONDS\n");
        return 2;
    }
    return 0;
}
