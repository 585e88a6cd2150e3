// What two processes of a host share, written by one of them as it likes: a ring's words and marks
// of streams. Each step is an octet that says what happens, and one or nine more; the other side
// never looks outside of its ring, is never told more than the ring holds, and its turns end.
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "base/span.h"
#include "link/local/doorbell.h"
#include "link/local/octet_ring.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LEN = 256, FIRST = 192, STEP_LEN = 10 };

static _Alignas(64) uint8_t control[OCTET_RING_CONTROL_LEN], octets[LEN], bell[DOORBELL_LEN];

// An index that the other side shows may be any, and is mostly near what is possible.
static void write_index(enum octet_ring_offset word, const uint8_t *step)
{
    uint64_t value, now;
    memcpy(&value, step + 2, sizeof value);
    memcpy(&now, control + word, sizeof now);
    value = step[1] % 4 != 0 ? now + value % (LEN + 8) : value;
    memcpy(control + word, &value, sizeof value);
}

static void write_bell(const uint8_t *step)
{
    uint64_t value;
    memcpy(&value, step + 2, sizeof value);
    unsigned at = step[1] % 3 == 0 ? DOORBELL_ROOT
                  : step[1] % 3 == 1
                      ? DOORBELL_BRANCH + 8U * (step[2] % 64)
                      : DOORBELL_LEAF + 8U * ((step[2] + 256U * step[3]) % DOORBELL_LEAVES);
    memcpy(bell + at, &value, sizeof value);
}

static void read_some(struct octet_ring_reader *r, const uint8_t *step)
{
    uint8_t into[2 * LEN];
    struct span readable = octet_ring_readable(r);
    size_t available = octet_ring_available(r);
    CHECK(readable.len <= available && available <= LEN);
    CHECK(readable.ptr >= octets && readable.ptr + readable.len <= octets + LEN);
    size_t copied = octet_ring_copy(r, step[1], mspan_of(into, step[2]));
    available = octet_ring_available(r);
    CHECK(copied <= step[2] && copied <= LEN);
    CHECK(r->verdict == OCTET_RING_OK || available == 0);
    octet_ring_release(r, step[3] < available ? step[3] : available);
    CHECK(!octet_ring_reader_sleep(r) || octet_ring_available(r) == 0);
}

static void write_some(struct octet_ring_writer *w, const uint8_t *step)
{
    static const uint8_t text[2 * LEN];
    size_t room = octet_ring_room(w);
    CHECK(room <= LEN);
    CHECK(octet_ring_put(w, span_of(text, 2U * step[1])) <= LEN);
    octet_ring_publish(w);
    CHECK(w->put - w->taken <= LEN);
    octet_ring_writer_sleep(w, 1U + step[2]);
    CHECK(w->verdict == OCTET_RING_OK || octet_ring_room(w) == 0);
}

static void take_marks(struct doorbell_taker *t, const uint8_t *step)
{
    uint32_t number;
    unsigned count = 0;
    doorbell_begin(t);
    while (count < 8U * step[1] && doorbell_next(t, &number)) {
        CHECK(number < DOORBELL_NUMBERS);
        count++;
    }
    CHECK(!doorbell_sleep(t) || !doorbell_is_marked(t));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct octet_ring ring = {control, octets, LEN, FIRST};
    struct octet_ring_reader reader;
    struct octet_ring_writer writer;
    struct doorbell_taker taker = {.memory = bell};
    memset(control, 0, sizeof control);
    memset(bell, 0, sizeof bell);
    octet_ring_reader_init(&reader, &ring);
    octet_ring_writer_init(&writer, &ring);
    for (const uint8_t *step = data; step + STEP_LEN <= data + size; step += STEP_LEN) {
        switch (step[0] % 8) {
        case 0:
            write_index(OCTET_RING_WRITTEN, step);
            break;
        case 1:
            write_index(OCTET_RING_TAKEN, step);
            break;
        case 2:
            write_index(OCTET_RING_WRITER_SLEEPS, step);
            break;
        case 3:
            write_bell(step);
            break;
        case 4:
            take_marks(&taker, step);
            break;
        case 5:
            write_some(&writer, step);
            break;
        default:
            read_some(&reader, step);
            break;
        }
    }
    return 0;
}
