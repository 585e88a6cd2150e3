// What the measured programs share: the other end, a clock, processor time, and how a figure is
// printed.
#pragma once

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

// Source and sink of every bandwidth case: larger than the caches nearest to a core, the same for
// all.
enum { FOOTPRINT_LEN = 1 << 20 };

// ... or as long as WEFT_BENCH_FOOTPRINT says, where a program asks here.
static inline size_t footprint_len(void)
{
    const char *text = getenv("WEFT_BENCH_FOOTPRINT");
    return text != NULL ? strtoul(text, NULL, 10) : FOOTPRINT_LEN;
}

static inline uint8_t *footprint(uint8_t octet)
{
    size_t len = footprint_len();
    uint8_t *memory = aligned_alloc(4096, len);
    if (memory == NULL) {
        perror("aligned_alloc");
        exit(1);
    }
    memset(memory, octet, len);
    return memory;
}

// As fork(), but the child, which may be spinning, does not outlive a parent that is killed.
static inline pid_t fork_end(void)
{
    pid_t parent = getpid();
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) {
            _exit(1);
        }
    }
    return child;
}

static inline double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline double cpu_s(int who)
{
    struct rusage u;
    getrusage(who, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

// One line for the script: octets per second, and processor seconds of both ends per octet.
static inline void print_bandwidth(uint64_t octets, double seconds, double cpu_seconds)
{
    printf("{\"octets_per_s\": %.0f, \"cpu_ns_per_octet\": %.4f}\n", (double)octets / seconds,
           1e9 * cpu_seconds / (double)octets);
    fflush(stdout);
}

static inline int compare_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// `us`: round trips, sorted here.
static inline void print_latency(double *us, unsigned count)
{
    qsort(us, count, sizeof *us, compare_double);
    printf("{\"p50_us\": %.3f, \"p99_us\": %.3f}\n", us[count / 2], us[count * 99ULL / 100]);
    fflush(stdout);
}
