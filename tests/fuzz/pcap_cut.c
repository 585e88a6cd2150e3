// Where the units of a stream end must not depend on how the stream was cut into pieces.
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "link/pcap/cut.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pcap_cut whole = {0}, single = {0};
    for (size_t at = 0; at < size;) {
        bool is_end, is_single_end = false;
        size_t len = pcap_cut_next(&whole, span_of(data + at, size - at), &is_end);
        CHECK(len > 0 && len <= size - at);
        if (whole.phase == PCAP_CUT_UNKNOWN) {
            break; // there each piece is a unit
        }
        for (size_t i = 0; i < len; i++) {
            CHECK(!is_single_end);
            CHECK(pcap_cut_next(&single, span_of(data + at + i, 1), &is_single_end) == 1);
        }
        CHECK(is_single_end == is_end);
        CHECK(is_end || len == size - at);
        at += len;
    }
    return 0;
}
