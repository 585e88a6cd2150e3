// The end of a connection: nothing reaches the program's memory any more, and all that is under way
// is over.

#include <stdarg.h>

#include "initiator/agent.h"

// I/O under way will not be answered.
static void queue_abandon(struct initiator_queue *queue, int error)
{
    for (unsigned i = 0; queue->slots != NULL && i < queue->depth; i++) {
        struct initiator_slot *slot = &queue->slots[i];
        slot->awaits_send = false;
        if (slot->awaits_answer) {
            slot->awaits_answer = false;
            if (slot->io != NULL) {
                initiator_io_complete(slot, NVME_OK, error);
            } else {
                initiator_slot_release(slot);
            }
        }
    }
}

void initiator_lose(struct weft_nvme *nvme, int error, const char *format, ...)
{
    if (nvme->is_lost) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    why_say_args(&nvme->lost_why, format, arguments);
    va_end(arguments);
    nvme->is_lost = true;
    nvme->lost_error = error;
    // First nobody reaches the program's memory any more, then it hears of it.
    nvme->carrier->end(&nvme->admin);
    for (unsigned i = 0; i < nvme->queue_count; i++) {
        nvme->carrier->end(&nvme->queues[i]);
    }
    queue_abandon(&nvme->admin, error);
    for (unsigned i = 0; i < nvme->queue_count; i++) {
        queue_abandon(&nvme->queues[i], error);
    }
}
