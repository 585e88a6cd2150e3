// Streams for the capture tests: a start-up frame and FPDUs, as MPA makes them.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "mpa/tx.h"
#include "wire/ddp.h"
#include "wire/mpa.h"
#include "wire/rdmap.h"

enum { STREAM_UNITS_MAX = 64 };

struct mpa_stream {
    uint8_t octets[1 << 20];
    size_t len;
    size_t ends[STREAM_UNITS_MAX]; // behind each start-up frame and FPDU
    unsigned count;
};

static inline void stream_frame(struct mpa_stream *s, enum mpa_frame_kind kind, bool markers)
{
    struct mpa_startup_frame frame = {.kind = kind,
                                      .markers = markers,
                                      .crc = true,
                                      .enhanced = true,
                                      .revision = 2,
                                      .ird = 4,
                                      .ord = 4,
                                      .private_data = span_of("hello", 5)};
    s->len = mpa_startup_frame_emit(&frame, s->octets);
    s->ends[0] = s->len;
    s->count = 1;
}

// Appends a Send (untagged, queue 0) or Write (tagged) of one segment.
static inline void stream_fpdu(struct mpa_stream *s, struct mpa_tx *tx, bool is_write, uint32_t msn,
                               size_t payload_len)
{
    static uint8_t arena[1 << 18], payload[1 << 16];
    static struct mpa_batch batch;
    uint8_t header[DDP_HEADER_MAX_LEN];
    struct ddp_header h = {
        .tagged = is_write,
        .last = true,
        .rsvdulp = rdmap_control_emit(is_write ? RDMAP_WRITE : RDMAP_SEND),
        .stag = 0x1234,
        .to = 0x1000,
        .msn = msn,
    };
    struct span header_span = span_of(header, ddp_header_emit(&h, header));
    struct span piece = span_of(payload, payload_len);
    mpa_batch_init(&batch, mspan_of(arena, sizeof arena), false);
    mpa_tx_put(tx, &batch, header_span, &piece, 1, MPA_PAYLOAD_COPY);
    while (!mpa_batch_is_empty(&batch)) {
        unsigned count;
        struct iovec *iov = mpa_batch_iov(&batch, &count);
        size_t len = iov[0].iov_len;
        memcpy(s->octets + s->len, iov[0].iov_base, len);
        s->len += len;
        mpa_batch_advance(&batch, len);
    }
    s->ends[s->count++] = s->len;
}

// A frame and FPDUs of lengths that leave every kind of pad, some over several marker intervals.
static inline void stream_fill(struct mpa_stream *s, enum mpa_frame_kind kind, bool markers)
{
    static const size_t lens[] = {0, 1, 2, 3, 100, 489, 490, 491, 1000, 2047, 5000, 30001};
    struct mpa_tx tx;
    uint32_t msn = 1;
    stream_frame(s, kind, markers);
    mpa_tx_init(&tx, true, markers, mpa_tx_mulpdu_max(markers));
    for (unsigned i = 0; i < sizeof lens / sizeof lens[0]; i++) {
        stream_fpdu(s, &tx, i % 3 == 2, msn, lens[i]);
        msn += i % 3 != 2;
    }
}
