// The memory of a lane, written by the other process as it likes, at either end of it: a ring's
// words, headers of records and what stands behind them. Each step is an octet that says what
// happens, and nine more. What comes out has the length of a packet and lies in the memory or in
// the copies, a batch ends, and an end that saw nonsense gives and takes nothing any more.
#include <stdint.h>
#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/span.h"
#include "link/datagram/lane.h"
#include "wire/bth.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { STEP_LEN = 10, SLACK = 8192, RING_LEN = LANE_MEMORY_LEN - LANE_MEMORY_OCTETS };

static _Alignas(4096) uint8_t memory[LANE_MEMORY_LEN];
static uint8_t copies[LANE_COPIES_LEN];

static uint64_t word_at(size_t at)
{
    uint64_t value;
    memcpy(&value, memory + at, sizeof value);
    return value;
}

// An index may be any, and is mostly near what is possible.
static void write_index(enum octet_ring_offset word, const uint8_t *step)
{
    const size_t at = LANE_MEMORY_RING + (size_t)word;
    uint64_t value;
    memcpy(&value, step + 2, sizeof value);
    value = step[1] % 4 != 0 ? word_at(at) + value % SLACK : value;
    memcpy(memory + at, &value, sizeof value);
}

// The header of the record that comes next, or of one behind it.
static void write_len(const struct lane_reader *r, const uint8_t *step)
{
    const uint64_t position = r->ring.taken + r->lent_len + (size_t)step[1] * LANE_LINE;
    const uint32_t any = get_be32(step + 2);
    const uint32_t len = step[6] % 4 == 0 ? any : BTH_LEN + any % (DATAGRAM_LEN_MAX + LANE_LINE);
    put_be32(memory + LANE_MEMORY_OCTETS + position % RING_LEN + LANE_OFF_LEN, len);
}

static bool is_within(struct span s, const uint8_t *begin, size_t len)
{
    return s.ptr >= begin && s.ptr + s.len <= begin + len;
}

static void read_batch(struct lane_reader *r, const uint8_t *step)
{
    struct datagram_rx rx;
    unsigned count = 0;
    while (count < 1U + step[1] % LANE_BATCH_MAX && lane_next(r, &rx)) {
        CHECK(rx.octets.len >= BTH_LEN && rx.octets.len <= DATAGRAM_LEN_MAX);
        CHECK(rx.octets.len % 4 == 0);
        CHECK(is_within(rx.octets, copies, sizeof copies) ||
              (rx.octets.len > LANE_COPIED_LEN_MAX &&
               is_within(rx.octets, memory + LANE_MEMORY_OCTETS, RING_LEN)));
        count++;
    }
    CHECK(count == 0 || r->is_broken || !lane_sleep(r)); // something is lent
    lane_give_back(r);
    CHECK(!r->is_broken || (!lane_next(r, &rx) && !lane_has_news(r)));
}

static void write_packet(struct lane_writer *w, const uint8_t *step)
{
    static const uint8_t payload[DATAGRAM_LEN_MAX - BTH_LEN];
    static const struct datagram_path path;
    const struct span piece = span_of(payload, 4U * (get_be16(step + 1) % (sizeof payload / 4)));
    const struct datagram_tx tx = {
        .path = &path, .head = span_of(payload, BTH_LEN), .pieces = &piece, .piece_count = 1};
    const bool has_room = lane_has_room(w, &tx);
    CHECK(!has_room || !lane_writer_is_broken(w));
    CHECK(lane_put(w, &tx, &path) == has_room);
    CHECK(w->ring.put - w->ring.taken <= RING_LEN || lane_writer_is_broken(w));
    if (step[3] % 2 == 0) {
        lane_publish(w);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lane_writer writer;
    struct lane_reader reader;
    memset(memory, 0, sizeof memory);
    lane_writer_init(&writer, memory);
    lane_reader_init(&reader, memory, copies);
    for (const uint8_t *step = data; step + STEP_LEN <= data + size; step += STEP_LEN) {
        switch (step[0] % 8) {
        case 0:
            write_index(OCTET_RING_WRITTEN, step);
            break;
        case 1:
            write_index(OCTET_RING_TAKEN, step);
            break;
        case 2:
            write_len(&reader, step);
            break;
        case 3:
            memory[LANE_MEMORY_OCTETS + get_be32(step + 1) % RING_LEN] = step[5];
            break;
        case 4:
        case 5:
            write_packet(&writer, step);
            break;
        default:
            read_batch(&reader, step);
            break;
        }
    }
    return 0;
}
