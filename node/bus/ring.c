#include "node/bus/ring.h"

#include <string.h>

STATIC_CHECK((BUS_RING_COUNT & (BUS_RING_COUNT - 1)) == 0);

void bus_end_init(struct bus_end *end, struct bus_memory *memory, bool is_cta)
{
    *end = (struct bus_end){
        .tx = is_cta ? &memory->to_rta : &memory->to_cta,
        .rx = is_cta ? &memory->to_cta : &memory->to_rta,
    };
}

// How many frames lie between what one side has put and the other has taken; 0 once broken.
static uint32_t count_between(struct bus_end *end, uint32_t head, uint32_t tail)
{
    uint32_t count = head - tail;
    if (count > BUS_RING_COUNT) {
        end->is_broken = true;
    }
    return end->is_broken ? 0 : count;
}

bool bus_send(struct bus_end *end, const struct frame *frame)
{
    uint32_t tail = atomic_load_explicit(&end->tx->tail, memory_order_acquire);
    if (count_between(end, end->tx_head, tail) == BUS_RING_COUNT || end->is_broken) {
        return false;
    }
    end->tx->frames[end->tx_head % BUS_RING_COUNT] = *frame;
    end->tx_head++;
    atomic_store_explicit(&end->tx->head, end->tx_head, memory_order_release);
    return true;
}

bool bus_has_frames(struct bus_end *end)
{
    uint32_t head = atomic_load_explicit(&end->rx->head, memory_order_acquire);
    return count_between(end, head, end->rx_tail) > 0;
}

bool bus_receive(struct bus_end *end, struct frame *ret)
{
    if (!bus_has_frames(end)) {
        return false;
    }
    // The one look at it: from here on the copy counts, whatever becomes of the original.
    memcpy(ret, &end->rx->frames[end->rx_tail % BUS_RING_COUNT], sizeof *ret);
    end->rx_tail++;
    atomic_store_explicit(&end->rx->tail, end->rx_tail, memory_order_release);
    return true;
}

bool bus_is_broken(const struct bus_end *end)
{
    return end->is_broken;
}

bool bus_sleep(struct bus_end *end)
{
    atomic_store_explicit(&end->rx->is_asleep, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst); // pairs with the one in bus_should_ring
    if (bus_has_frames(end)) {
        bus_wake(end);
        return false;
    }
    return true;
}

void bus_wake(struct bus_end *end)
{
    atomic_store_explicit(&end->rx->is_asleep, 0, memory_order_relaxed);
}

bool bus_should_ring(struct bus_end *end)
{
    atomic_thread_fence(memory_order_seq_cst); // pairs with the one in bus_sleep
    return atomic_load_explicit(&end->tx->is_asleep, memory_order_relaxed) != 0 &&
           atomic_exchange_explicit(&end->tx->is_asleep, 0, memory_order_relaxed) != 0;
}
