// Ranks exchange messages of many lengths, each with every other, and compare every octet: both
// ways at once, to all from all, and into and out of each other's memory (MPI_Put, MPI_Get,
// MPI_Fetch_and_op). Rank 0 ends with a line of what was compared.

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 1 << 20 };

static const int lengths[] = {0, 1, 8, 255, 4096, 8193, 65536, 262144, LONGEST};
enum { LENGTHS = sizeof lengths / sizeof lengths[0] };

static int me, all;
static long long compared;

// The octet at `i` of what `from` says to `to`.
static uint8_t octet(int from, int to, int i)
{
    return (uint8_t)(((uint32_t)i * 2654435761u >> 13) + (uint32_t)from * 31 + (uint32_t)to * 7);
}

static void say(uint8_t *data, int len, int from, int to)
{
    for (int i = 0; i < len; i++) {
        data[i] = octet(from, to, i);
    }
}

static void compare(const uint8_t *data, int len, int from, int to, const char *what)
{
    for (int i = 0; i < len; i++) {
        if (data[i] != octet(from, to, i)) {
            printf("%s: rank %d: octet %d of %d from rank %d is wrong\n", what, me, i, len, from);
            fflush(stdout);
            MPI_Abort(MPI_COMM_WORLD, 3);
        }
    }
    compared += len;
}

static void both_ways(uint8_t *out, uint8_t *in, int len)
{
    for (int step = 1; step < all; step++) {
        const int to = (me + step) % all, from = (me - step + all) % all;
        say(out, len, me, to);
        memset(in, 0, (size_t)len);
        MPI_Sendrecv(out, len, MPI_BYTE, to, step, in, len, MPI_BYTE, from, step, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        compare(in, len, from, me, "MPI_Sendrecv");
    }
}

static void all_to_all(uint8_t *out, uint8_t *in, int len)
{
    for (int to = 0; to < all; to++) {
        say(out + (size_t)to * (size_t)len, len, me, to);
    }
    memset(in, 0, (size_t)all * (size_t)len);
    MPI_Alltoall(out, len, MPI_BYTE, in, len, MPI_BYTE, MPI_COMM_WORLD);
    for (int from = 0; from < all; from++) {
        compare(in + (size_t)from * (size_t)len, len, from, me, "MPI_Alltoall");
    }
}

// Everybody puts into the next one's memory, and gets that back; then all count in rank 0's.
static void one_sided(uint8_t *window_mem, MPI_Win window, uint8_t *out, uint8_t *in, int len)
{
    const int to = (me + 1) % all, from = (me - 1 + all) % all;
    say(out, len, me, to);
    memset(in, 0, (size_t)len);
    MPI_Win_fence(0, window);
    MPI_Put(out, len, MPI_BYTE, to, 8, len, MPI_BYTE, window);
    MPI_Win_fence(0, window);
    compare(window_mem + 8, len, from, me, "MPI_Put");
    MPI_Get(in, len, MPI_BYTE, to, 8, len, MPI_BYTE, window);
    MPI_Win_fence(0, window);
    compare(in, len, me, to, "MPI_Get");
}

static void count_in_rank_0(uint8_t *window_mem, MPI_Win window)
{
    enum { TURNS = 50 };
    const int64_t one = 1;
    int64_t before = 0, sum;
    MPI_Win_lock_all(0, window);
    for (int i = 0; i < TURNS; i++) {
        MPI_Fetch_and_op(&one, &before, MPI_INT64_T, 0, 0, MPI_SUM, window);
        MPI_Win_flush(0, window);
    }
    MPI_Win_unlock_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    memcpy(&sum, window_mem, sizeof sum);
    if (me == 0 && sum != (int64_t)TURNS * all) {
        printf("MPI_Fetch_and_op: %lld, not %d\n", (long long)sum, TURNS * all);
        fflush(stdout);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &all);
    uint8_t *out = malloc((size_t)all * LONGEST), *in = malloc((size_t)all * LONGEST), *window_mem;
    MPI_Win window;
    if (out == NULL || in == NULL) {
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Win_allocate(8 + LONGEST, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window_mem, &window);
    memset(window_mem, 0, 8 + LONGEST);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < LENGTHS; i++) {
        both_ways(out, in, lengths[i]);
        all_to_all(out, in, lengths[i] / all);
        one_sided(window_mem, window, out, in, lengths[i]);
    }
    count_in_rank_0(window_mem, window);
    long long sum = 0;
    MPI_Reduce(&compared, &sum, 1, MPI_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (me == 0) {
        printf("%d ranks: %lld octets compared\n", all, sum);
    }
    MPI_Win_free(&window);
    MPI_Finalize();
    return 0;
}
