// A histogram of durations (or of any numbers): how often values came, in buckets whose width is at
// most a sixteenth of what they hold. So every percentile is known within 4 %, in memory that does
// not grow, and histograms are merged by addition.
//
//     bucket        0 … 15             values 0 … 15, one each
//     of 2^e … 2^(e+1)-1, e ≥ 4        16 buckets of 2^(e-4) values each
//     the last one                     also what is 2^HISTOGRAM_LOG2 or more (in ns: 18 minutes)
#pragma once

#include <stdint.h>

enum {
    HISTOGRAM_PART_LOG2 = 4, // buckets in a power of two
    HISTOGRAM_LOG2 = 40,
    HISTOGRAM_BUCKET_COUNT = (HISTOGRAM_LOG2 - HISTOGRAM_PART_LOG2 + 1) << HISTOGRAM_PART_LOG2,
};

// All zero: nothing has come.
struct histogram {
    uint64_t count, sum, max;
    uint64_t buckets[HISTOGRAM_BUCKET_COUNT];
};

static inline unsigned histogram_bucket_of(uint64_t value)
{
    // Below 16 the shift is that of 16: none.
    const unsigned log2 = 63U - (unsigned)__builtin_clzll(value | 1U << HISTOGRAM_PART_LOG2);
    const unsigned shift = log2 - HISTOGRAM_PART_LOG2;
    const unsigned bucket = (shift << HISTOGRAM_PART_LOG2) + (unsigned)(value >> shift);
    return bucket < HISTOGRAM_BUCKET_COUNT ? bucket : HISTOGRAM_BUCKET_COUNT - 1;
}

static inline void histogram_add(struct histogram *h, uint64_t value)
{
    h->count++;
    h->sum += value;
    if (value > h->max) { // seldom: a test, and no store
        h->max = value;
    }
    h->buckets[histogram_bucket_of(value)]++;
}

// What `h` holds is in `total` too.
void histogram_merge(struct histogram *total, const struct histogram *h);

// The least and the greatest value that falls into a bucket, below HISTOGRAM_BUCKET_COUNT; of the
// last one the greatest is UINT64_MAX.
uint64_t histogram_bucket_first(unsigned bucket);
uint64_t histogram_bucket_last(unsigned bucket);

// The greatest value that may have come into the bucket: its last, or the maximum if that is less.
uint64_t histogram_bucket_most(const struct histogram *h, unsigned bucket);

// The value that `permille` of a thousand values, 1..1000, do not exceed: 999 for the 99.9th
// percentile. The middle of its bucket, never above the maximum; 0: nothing has come.
uint64_t histogram_percentile(const struct histogram *h, unsigned permille);

// The percentiles that are shown wherever a histogram is, and their names, of nanoseconds.
enum { HISTOGRAM_SHOWN_COUNT = 4 };
struct histogram_shown {
    unsigned permille;
    const char *name; // "p50_ns", "p90_ns", "p99_ns", "p999_ns"
};
extern const struct histogram_shown histogram_shown[HISTOGRAM_SHOWN_COUNT];

// How many values are `limit` at most: exact where `limit` is the last value of a bucket, which
// 2^n - 1 always is; else those of the buckets that end before it.
uint64_t histogram_count_to(const struct histogram *h, uint64_t limit);
