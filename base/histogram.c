#include "base/histogram.h"

#include "base/check.h"

enum { PART_COUNT = 1 << HISTOGRAM_PART_LOG2 };

const struct histogram_shown histogram_shown[HISTOGRAM_SHOWN_COUNT] = {
    {500, "p50_ns"},
    {900, "p90_ns"},
    {990, "p99_ns"},
    {999, "p999_ns"},
};

void histogram_merge(struct histogram *total, const struct histogram *h)
{
    total->count += h->count;
    total->sum += h->sum;
    total->max = h->max > total->max ? h->max : total->max;
    for (unsigned i = 0; i < HISTOGRAM_BUCKET_COUNT; i++) {
        total->buckets[i] += h->buckets[i];
    }
}

uint64_t histogram_bucket_first(unsigned bucket)
{
    CHECK(bucket < HISTOGRAM_BUCKET_COUNT);
    if (bucket < PART_COUNT) {
        return bucket;
    }
    const unsigned shift = (bucket >> HISTOGRAM_PART_LOG2) - 1;
    return (uint64_t)(PART_COUNT + bucket % PART_COUNT) << shift;
}

uint64_t histogram_bucket_last(unsigned bucket)
{
    return bucket + 1 < HISTOGRAM_BUCKET_COUNT ? histogram_bucket_first(bucket + 1) - 1
                                               : UINT64_MAX;
}

uint64_t histogram_bucket_most(const struct histogram *h, unsigned bucket)
{
    const uint64_t last = histogram_bucket_last(bucket);
    return last < h->max ? last : h->max;
}

static uint64_t middle_of(unsigned bucket)
{
    const uint64_t first = histogram_bucket_first(bucket);
    return bucket + 1 < HISTOGRAM_BUCKET_COUNT ? first + (histogram_bucket_last(bucket) - first) / 2
                                               : UINT64_MAX;
}

uint64_t histogram_percentile(const struct histogram *h, unsigned permille)
{
    CHECK(permille >= 1 && permille <= 1000);
    // The rank, rounded up, without a product that could overflow.
    const uint64_t rank = h->count / 1000 * permille + (h->count % 1000 * permille + 999) / 1000;
    uint64_t seen = 0;
    for (unsigned i = 0; i < HISTOGRAM_BUCKET_COUNT && rank > 0; i++) {
        seen += h->buckets[i];
        if (seen >= rank) {
            const uint64_t middle = middle_of(i);
            return middle < h->max ? middle : h->max;
        }
    }
    return 0;
}

uint64_t histogram_count_to(const struct histogram *h, uint64_t limit)
{
    uint64_t count = 0;
    for (unsigned i = 0; i < HISTOGRAM_BUCKET_COUNT && histogram_bucket_last(i) <= limit; i++) {
        count += h->buckets[i];
    }
    return count;
}
