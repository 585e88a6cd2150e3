// One RDMAP stream: what it may send and receive next, and where its operations look up memory.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ddp/rx.h"
#include "mem/table.h"
#include "wire/ddp.h"

struct rdmap_stream {
    struct mem_table *mem;
    struct mem_asker asker;   // the queue pair, for the STag table
    uint32_t mulpdu;          // octets in a ULPDU at most
    bool extensions_may_come; // an extension message is not refused
    bool extensions_agreed;   // Sends may carry immediate data
    uint8_t oneshot;          // one-shot RDMA as agreed: EXTENSION_ONESHOT_ bits, 0: none
    bool is_write_open;       // the Last segment of the peer's last Write has not come

    uint32_t tx_msn[DDP_QN_COUNT]; // of the next message
    struct ddp_untagged_queue rx[DDP_QN_COUNT];

    uint64_t written_len; // octets of the peer's last Write, for the Immediate Data behind it
    uint64_t early_base;  // added to positions of this stream at STags, which outlive it
};

void rdmap_stream_init(struct rdmap_stream *stream, struct mem_table *mem, struct mem_asker asker,
                       uint32_t mulpdu);
