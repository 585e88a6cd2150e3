#include "node/ddm/nvme_way.h"

static const struct {
    uint8_t rank; // 0: no command goes by it
    const char *name;
} accesses[] = {
    [WEFT_NVME_OPTIMIZED] = {2, "optimized"},
    [WEFT_NVME_NON_OPTIMIZED] = {1, "non-optimized"},
    [WEFT_NVME_INACCESSIBLE] = {0, "inaccessible: another one serves the namespace"},
    [WEFT_NVME_UNREACHABLE] = {0, "out of reach of the namespace for good"},
    [WEFT_NVME_CHANGING] = {0, "changing"},
};

bool nvme_access_is_good(enum weft_nvme_access access)
{
    return accesses[access].rank > 0;
}

static unsigned rank_of(const struct nvme_way *way, instant_ns now)
{
    bool is_there = way->is_up && way->rests_until <= now;
    return is_there ? accesses[way->access].rank : 0;
}

int nvme_way_choose(const struct nvme_way *ways, unsigned count, int in_use, instant_ns now)
{
    int best = in_use;
    unsigned best_rank = in_use >= 0 ? rank_of(&ways[in_use], now) : 0;
    for (unsigned i = 0; i < count; i++) {
        unsigned rank = rank_of(&ways[i], now);
        if (rank > best_rank) {
            best = (int)i;
            best_rank = rank;
        }
    }
    return best_rank > 0 ? best : -1;
}

static bool is_handed_over(const struct nvme_way *ways, unsigned count, unsigned lost)
{
    for (unsigned i = 0; i < count; i++) {
        const struct nvme_way *way = &ways[i];
        if (i != lost && way->is_up && nvme_access_is_good(way->access) && way->turned_at > 0 &&
            way->turned_at >= ways[lost].heard_at) {
            return true;
        }
    }
    return false;
}

enum nvme_quiet nvme_way_quiet(const struct nvme_way *ways, unsigned count, unsigned lost,
                               instant_ns now)
{
    if (ways[lost].is_up) {
        return NVME_MET_AGAIN;
    }
    if (is_handed_over(ways, count, lost)) {
        return NVME_HANDED_OVER;
    }
    return ways[lost].quiet_at <= now ? NVME_LET_GO : NVME_NOT_QUIET;
}

const char *nvme_way_str(const struct nvme_way *way, instant_ns now)
{
    if (!way->is_up) {
        return "not connected";
    }
    return way->rests_until > now ? "resting after a failure of its own"
                                  : accesses[way->access].name;
}

const char *nvme_quiet_str(enum nvme_quiet quiet)
{
    static const char *const names[NVME_QUIET_COUNT] = {
        [NVME_NOT_QUIET] = "it may still carry them out",
        [NVME_MET_AGAIN] = "it is connected again",
        [NVME_HANDED_OVER] = "the namespace was handed over",
        [NVME_LET_GO] = "it has let go of this host by now",
    };
    return names[quiet];
}

bool nvme_way_is_change(uint8_t operation)
{
    return operation == NODE_WRITE || operation == NODE_TRIM || operation == NODE_WRITE_ZEROES;
}
