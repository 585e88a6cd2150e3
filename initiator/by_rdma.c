// Queues over RDMA: each a queue pair.

#include "initiator/agent.h"

const struct initiator_carrier initiator_by_rdma = {
    .takes_keyed = true,
    .open = initiator_channel_open,
    .close = initiator_device_release,
    .meet = initiator_queue_meet,
    .end = initiator_queue_end,
    .destroy = initiator_queue_destroy,
    .begin = initiator_drive_begin,
    .send = initiator_data_send,
    .send_waiting = initiator_queues_send,
    .settle = initiator_data_settle,
    .lend = initiator_lend,
    .take_back = initiator_take_back,
    .poll = initiator_poll_device,
    .look_on = initiator_look_on_device,
};
