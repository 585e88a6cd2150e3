// What every file of this room asks of the device: is it this process's, and what time is it.

#include "rnic/internal.h"

bool rnic_is_alive(const struct rnic *rnic)
{
    return !atomic_load_explicit(&rnic->is_orphan, memory_order_relaxed);
}

instant_ns rnic_now(const struct rnic *rnic)
{
    return rnic->clock(rnic->clock_ctx);
}
