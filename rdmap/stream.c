#include "rdmap/stream.h"

void rdmap_stream_init(struct rdmap_stream *stream, struct mem_table *mem, struct mem_asker asker,
                       uint32_t mulpdu)
{
    *stream = (struct rdmap_stream){.mem = mem, .asker = asker, .mulpdu = mulpdu};
    for (unsigned qn = 0; qn < DDP_QN_COUNT; qn++) {
        stream->tx_msn[qn] = DDP_FIRST_MSN;
        ddp_untagged_queue_init(&stream->rx[qn]);
    }
}
