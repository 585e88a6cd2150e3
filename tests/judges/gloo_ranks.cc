// A rank of collectives over gloo's own use of verbs: queue pairs told by hand, Writes with
// immediate data, completions by event. Each result is compared with what the sum must be.
//
//     gloo_ranks RANK RANKS FOLDER DEVICE GID_INDEX

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring.h>
#include <gloo/barrier_all_to_all.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/ibverbs/device.h>

namespace {

const int lengths[] = {1, 100, 4096, 1 << 20};

// Of small whole numbers, so that no order of adding rounds.
int term(int rank, int i)
{
    return (rank + 1) * (i % 101);
}

template <typename Algorithm>
void sum_and_compare(const std::shared_ptr<gloo::Context> &context, int length)
{
    std::vector<int> data(static_cast<size_t>(length));
    for (int i = 0; i < length; i++) {
        data[static_cast<size_t>(i)] = term(context->rank, i);
    }
    Algorithm algorithm(context, std::vector<int *>{data.data()}, length);
    algorithm.run();
    const int ranks = context->size * (context->size + 1) / 2;
    for (int i = 0; i < length; i++) {
        if (data[static_cast<size_t>(i)] != ranks * (i % 101)) {
            std::printf("rank %d: sum %d of %d is wrong\n", context->rank, i, length);
            std::exit(3);
        }
    }
    // Its buffers may not go before their last Writes are acknowledged, which nothing here tells.
    usleep(100000);
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 6) {
        return 2;
    }
    auto device = gloo::transport::ibverbs::CreateDevice({argv[4], 1, std::atoi(argv[5])});
    gloo::rendezvous::FileStore store(argv[3]);
    auto context =
        std::make_shared<gloo::rendezvous::Context>(std::atoi(argv[1]), std::atoi(argv[2]));
    context->connectFullMesh(store, device);
    for (int length : lengths) {
        sum_and_compare<gloo::AllreduceRing<int>>(context, length);
        sum_and_compare<gloo::AllreduceHalvingDoubling<int>>(context, length);
    }
    std::printf("rank %d of %d: all sums are right\n", context->rank, context->size);
    return 0;
}
