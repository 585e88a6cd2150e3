// The checks of packets, in cache: octets per second.
//
//     bench-icrc (memcpy|crc32c|icrc|icrc_copy|icrc_packet) LEN SECONDS
//
// icrc_copy: of the copy, as a packet is staged. icrc_packet: what one packet of LEN octets of
// payload costs with its headers, begun anew.
#include "wire/icrc.h"

#include <string.h>

#include "bench/measure.h"
#include "wire/bth.h"
#include "wire/crc32c.h"
#include "wire/roce.h"
#include "wire/udp_header.h"

enum { LEN_MAX = 1 << 16, TURN = 1000, MISALIGNED = BTH_LEN };

static _Alignas(64) uint8_t source[LEN_MAX + MISALIGNED], sink[LEN_MAX + MISALIGNED];
static uint32_t value; // of the last check, so that none is left out

static void run_memcpy(size_t len)
{
    memcpy(sink + MISALIGNED, source + MISALIGNED, len);
    __asm__ volatile("" ::"r"(sink) : "memory");
}

static void run_crc32c(size_t len)
{
    value = crc32c_update(value, source + MISALIGNED, len);
}

static void run_icrc(size_t len)
{
    value = icrc_update(value, source + MISALIGNED, len);
}

static void run_icrc_copy(size_t len)
{
    run_memcpy(len);
    value = icrc_update(value, sink + MISALIGNED, len);
}

static void run_icrc_packet(size_t len)
{
    static const struct in6_addr address = {.s6_addr = {[10] = 0xff, 0xff, 127, 0, 0, 1}};
    const struct icrc_outer outer = {.src = &address,
                                     .dst = &address,
                                     .id = (uint16_t)value,
                                     .fragment = ICRC_DF,
                                     .src_port = 0xc000,
                                     .dst_port = ROCE_UDP_PORT,
                                     .udp_len =
                                         (uint16_t)(UDP_HEADER_LEN + BTH_LEN + len + ICRC_LEN)};
    value = icrc_finish(icrc_begin(&outer), source, BTH_LEN + len);
}

static const struct {
    const char *name;
    void (*run)(size_t len);
} cases[] = {
    {"memcpy", run_memcpy},       {"crc32c", run_crc32c},           {"icrc", run_icrc},
    {"icrc_copy", run_icrc_copy}, {"icrc_packet", run_icrc_packet},
};

int main(int argc, char **argv)
{
    size_t len = argc == 4 ? strtoul(argv[2], NULL, 10) : 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases && len > 0 && len <= LEN_MAX; i++) {
        if (strcmp(argv[1], cases[i].name) == 0) {
            double began = now_s(), cpu = cpu_s(RUSAGE_SELF), end = began + atof(argv[3]);
            uint64_t octets = 0;
            while (now_s() < end) {
                for (unsigned turn = 0; turn < TURN; turn++) {
                    cases[i].run(len);
                }
                octets += TURN * len;
            }
            print_bandwidth(octets, now_s() - began, cpu_s(RUSAGE_SELF) - cpu);
            return 0;
        }
    }
    fprintf(stderr, "usage: bench-icrc (memcpy|crc32c|icrc|icrc_copy|icrc_packet) LEN SECONDS\n");
    return 1;
}
