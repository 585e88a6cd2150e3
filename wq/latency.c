#include "wq/latency.h"

static const char *const names[LATENCY_OPERATION_COUNT] = {
    [LATENCY_SEND] = "send",
    [LATENCY_WRITE] = "write",
    [LATENCY_READ] = "read",
    [LATENCY_ATOMIC] = "atomic",
};

static const struct {
    bool is_measured;
    enum latency_operation operation;
} operations[WQE_OPCODE_COUNT] = {
    [WQE_RDMA_WRITE] = {true, LATENCY_WRITE},
    [WQE_RDMA_WRITE_WITH_IMM] = {true, LATENCY_WRITE},
    [WQE_SEND] = {true, LATENCY_SEND},
    [WQE_SEND_WITH_IMM] = {true, LATENCY_SEND},
    [WQE_SEND_WITH_INV] = {true, LATENCY_SEND},
    [WQE_RDMA_READ] = {true, LATENCY_READ},
    [WQE_ATOMIC_CMP_AND_SWP] = {true, LATENCY_ATOMIC},
    [WQE_ATOMIC_FETCH_AND_ADD] = {true, LATENCY_ATOMIC},
};

const char *latency_operation_name(enum latency_operation operation)
{
    return names[operation];
}

void latency_note(struct latency *latency, enum wqe_opcode opcode, duration_ns duration)
{
    if (operations[opcode].is_measured) {
        histogram_add(&latency->of[operations[opcode].operation], duration);
    }
}
